//! `mma` with a `.kind` (narrow floats) and with block scales (`.block_scale`).
//!
//! All become products of 8-bit floats. A number of 6 or 4 bits has the digits of one of 8 bits
//! whose exponent has upper bits of zero, and is larger by a power of two, which joins the scales;
//! eight of 4 bits in a register become two registers of four, the even and the odd ones, of both
//! operands alike.
//!
//! PTX says which numbers are multiplied, not in which order sums are made. Here the products of a
//! block (of all `k` that one scale goes with; without scales of all) are added to zero as
//! [`Multiply`] adds them. That sum, times both scales, is added to C in f64 and rounded to f32, and
//! so block after block, from the first `k` up. Sums of 6 and 4 bits are exact, so that only the
//! last addition rounds. Without scales and with 8 bits it is the product without a kind.
//!
//! Scales of A's rows are in two lanes of four: row `r` of eight in lane `4 r + 2 t`, row `r + 8`
//! in the next, where `t` is the thread selector; B's column `c` has its in lane `4 c + t`. The byte
//! selector says where in the register the first block's is, and others follow upwards.

use crate::ir::Operand;
use crate::ir::matrix::{MatrixType, Multiply};
use crate::ir::op::{
    Class, Compare, CompareType, Convert, FloatMode, FloatOp, FloatType, Fp8, IntOp, IntType, Op,
    Round, Special, Width,
};
use crate::lower::Lowering;
use crate::lower::matrix::accumulator_width;
use ptx::ast::{self, Modifier as M, ScalarType as T};

/// Columns of A and rows of B of one product of 8-bit floats.
const GROUP_K: u16 = 32;
/// Bias of the exponent of f64, and bits below it.
const BIAS: u64 = 1023;
const MANTISSA_BITS: u64 = 52;
/// Bias of a scale of ue8m0, the scale that is NaN, and a NaN of f64.
const SCALE_BIAS: u64 = 127;
const SCALE_NAN: u64 = 255;
const NAN: u64 = 0x7ff8_0000_0000_0000;
/// The NaN of f32 that products give.
const NAN_OF_PRODUCTS: u64 = 0x7fff_ffff;

/// What elements become.
#[derive(Clone, Copy)]
struct Narrow {
    /// The 8-bit format.
    format: MatrixType,
    /// Bits of the element's digits in its byte, the sign above them; 0: it is of that format.
    digits: u64,
    /// The power of two by which it is larger.
    exponent: u64,
}

fn narrow(ty: T) -> Option<Narrow> {
    let (format, digits, exponent) = match ty {
        T::E4m3 => (MatrixType::E4M3, 0, 0),
        T::E5m2 => (MatrixType::E5M2, 0, 0),
        T::E2m3 => (MatrixType::E4M3, 0x1f, 6),
        T::E3m2 => (MatrixType::E5M2, 0x1f, 12),
        // In the middle of its byte.
        T::E2m1 => (MatrixType::E4M3, 0x1c, 6),
        _ => return None,
    };
    Some(Narrow { format, digits, exponent })
}

/// The same byte four times.
fn bytes(byte: u64) -> Operand {
    Operand::Imm(byte * 0x0101_0101)
}

/// Scales of one operand.
struct Scales {
    /// Of the lower and the upper eight rows, or of the even and the odd column: the registers of
    /// the lanes that have them, the first block's in the lowest byte.
    registers: [Operand; 2],
    /// ue8m0, not ue4m3.
    powers: bool,
}

impl Lowering<'_> {
    pub(super) fn product_of_kind(&mut self, inst: &ast::Instruction) -> Option<()> {
        let types: Vec<T> = inst.types().collect();
        let [d_type, a_type, b_type, c_type, ..] = types[..] else { return None };
        let (a_narrow, b_narrow) = (narrow(a_type)?, narrow(b_type)?);
        let (format_a, format_b) = (a_narrow.format, b_narrow.format);
        let product =
            Multiply { tall: true, k: GROUP_K, a: format_a, b: format_b, saturate: false };
        let [d, a, b, c, rest @ ..] = &inst.operands[..] else { return None };
        let (a, b) = (self.elements(a, T::B32)?, self.elements(b, T::B32)?);
        let packed = inst.has(M::KindMxf4) || inst.has(M::KindMxf4nvf4);
        // Registers of matrix A's operand without gaps: two of A for each of B.
        let (a, rest) = match (inst.has(M::SpMetadata), rest) {
            (true, [metadata, selector, rest @ ..]) => {
                // Units are a byte, of one element or of two.
                let unit = if packed { MatrixType::U4 } else { MatrixType::U8 };
                (self.wholes(unit, &a, metadata, selector)?.concat(), rest)
            }
            (true, _) => return None,
            (false, rest) => (a, rest),
        };
        (a.len() == 2 * b.len() && matches!(b.len(), 2 | 4)).then_some(())?;
        let mut groups: Vec<([Operand; 4], [Operand; 2])> = Vec::new();
        if packed {
            for (a, &b) in a.chunks_exact(2).zip(&b) {
                let [low, high] = [0, 1].map(|odd| [a[0], a[1], b].map(|r| self.nibbles(r, odd)));
                groups.push(([low[0], low[1], high[0], high[1]], [low[2], high[2]]));
            }
        } else {
            for (a, b) in a.chunks_exact(4).zip(b.chunks_exact(2)) {
                let a = [a[0], a[1], a[2], a[3]].map(|r| self.widened(r, a_narrow));
                groups.push((a, [b[0], b[1]].map(|r| self.widened(r, b_narrow))));
            }
        }
        let mut sums = self.accumulators(c, c_type)?;
        (sums.len() == product.c_registers()).then_some(())?;
        let d = self.results(d, accumulator_width(d_type))?;
        let larger = a_narrow.exponent + b_narrow.exponent;
        if rest.is_empty() && larger == 0 {
            let sums = self.block(product, &groups, sums);
            return self.finish_sums(&d, d_type, Width::W32, &sums);
        }
        let scales = match rest {
            [] => None,
            [a, a_selectors, b, b_selectors] => {
                let powers = types.get(4) == Some(&T::Ue8m0);
                Some(self.scales([(a, a_selectors), (b, b_selectors)], powers)?)
            }
            _ => return None,
        };
        let blocks = match () {
            () if inst.has(M::ScaleVec4X) => 4,
            () if packed => 2,
            () => 1,
        };
        let larger = Operand::Imm((BIAS + larger) << MANTISSA_BITS);
        for index in 0..blocks {
            let part = match groups.len() / blocks {
                0 => vec![self.half_of(groups[index / 2], index % 2 == 1)],
                each => groups[index * each..][..each].to_vec(),
            };
            let zero = vec![Operand::Imm(0); sums.len()];
            let products = self.block(product, &part, zero);
            let values = scales.as_ref().map(|scales| {
                [0, 1].map(|factor| [0, 1].map(|n| self.scale(&scales[factor], n, index as u64)))
            });
            for (i, (sum, product)) in sums.iter_mut().zip(products).enumerate() {
                let mut factor = larger;
                if let Some([of_a, of_b]) = values {
                    // Two sums of each row, side by side.
                    factor = self.double(FloatOp::Mul, vec![of_a[i / 2], larger]);
                    factor = self.double(FloatOp::Mul, vec![factor, of_b[i % 2]]);
                }
                let (product, before) = (self.long_float(product), self.long_float(*sum));
                let exact = self.double(FloatOp::Fma, vec![product, factor, before]);
                let mode = FloatMode { round: Round::Near, ..FloatMode::default() };
                let (from, to) = (FloatType::F64, FloatType::F32);
                let narrow = Op::Convert(Convert::Float { from, to, mode, relu: false });
                *sum = self.value(narrow, Width::W32, vec![exact]);
            }
        }
        let sums: Vec<Operand> = sums.into_iter().map(|sum| self.one_nan(sum)).collect();
        self.finish_sums(&d, d_type, Width::W32, &sums)
    }

    /// The number, or the NaN that products give.
    fn one_nan(&mut self, value: Operand) -> Operand {
        let nan = self.temporary(Class::Pred);
        let test = Op::Setp(Compare::Nan, CompareType::Float(FloatType::F32, false));
        self.emit(test, vec![nan], vec![value, value]);
        let src = vec![Operand::Imm(NAN_OF_PRODUCTS), value, nan.into()];
        self.value(Op::Select(Width::W32), Width::W32, src)
    }

    /// An operation of f64.
    fn double(&mut self, op: FloatOp, src: Vec<Operand>) -> Operand {
        self.value(Op::Float(op, FloatType::F64, FloatMode::default()), Width::W64, src)
    }

    /// `sums` and all products of these groups.
    fn block(
        &mut self,
        product: Multiply,
        groups: &[([Operand; 4], [Operand; 2])],
        sums: Vec<Operand>,
    ) -> Vec<Operand> {
        let (a, b): (Vec<_>, Vec<_>) = groups.iter().copied().unzip();
        self.half_products(product, &a, &b.concat(), sums)
    }

    /// Four elements of a byte each, as 8-bit floats.
    fn widened(&mut self, register: Operand, narrow: Narrow) -> Operand {
        if narrow.digits == 0 {
            return register;
        }
        let digits = self.word(IntOp::And, register, bytes(narrow.digits));
        let sign = self.word(IntOp::And, register, bytes(0x20));
        let sign = self.word(IntOp::Shl, sign, Operand::Imm(2));
        self.word(IntOp::Or, digits, sign)
    }

    /// The even or the odd ones of eight elements of e2m1, as 8-bit floats.
    fn nibbles(&mut self, register: Operand, odd: u64) -> Operand {
        let moved = self.word(IntOp::Shr, register, Operand::Imm(4 * odd));
        let digits = self.word(IntOp::And, moved, bytes(0x07));
        let digits = self.word(IntOp::Shl, digits, Operand::Imm(2));
        let sign = self.word(IntOp::And, moved, bytes(0x08));
        let sign = self.word(IntOp::Shl, sign, Operand::Imm(4));
        self.word(IntOp::Or, digits, sign)
    }

    /// A group of which only the lower or the upper half of `k` counts: that of two lanes of four.
    /// Elements of 4 bits are never infinite, so it is enough that A's others are zero.
    fn half_of(
        &mut self,
        (a, b): ([Operand; 4], [Operand; 2]),
        upper: bool,
    ) -> ([Operand; 4], [Operand; 2]) {
        let lane = self.value(Op::Special(Special::LaneId), Width::W32, vec![]);
        let place = self.word(IntOp::And, lane, Operand::Imm(2));
        let counts = self.temporary(Class::Pred);
        let compare = if upper { Compare::Ne } else { Compare::Eq };
        let test = Op::Setp(compare, CompareType::Int(IntType::U32));
        self.emit(test, vec![counts], vec![place, Operand::Imm(0)]);
        let a = a.map(|a| {
            let src = vec![a, Operand::Imm(0), counts.into()];
            self.value(Op::Select(Width::W32), Width::W32, src)
        });
        (a, b)
    }

    /// The scales of A and of B, each a register and its selectors.
    fn scales(
        &mut self,
        factors: [(&ast::Operand, &ast::Operand); 2],
        powers: bool,
    ) -> Option<[Scales; 2]> {
        let lane = self.value(Op::Special(Special::LaneId), Width::W32, vec![]);
        let mut scales = Vec::with_capacity(2);
        for (n, (data, selectors)) in factors.into_iter().enumerate() {
            let data = self.source(data, T::B32)?;
            let ast::Operand::Vector(selectors) = selectors else { return None };
            let [byte, thread] = &selectors[..] else { return None };
            let (byte, thread) = (self.selector(byte)?, self.selector(thread)?);
            let shift = self.word(IntOp::Shl, byte, Operand::Imm(3));
            let registers = [0, 1].map(|i| {
                let from = if n == 0 {
                    let row = self.word(IntOp::And, lane, Operand::Imm(0x1c));
                    let pair = self.word(IntOp::Shl, thread, Operand::Imm(1));
                    let first = self.word(IntOp::Add, row, pair);
                    self.word(IntOp::Add, first, Operand::Imm(i))
                } else {
                    let columns = self.word(IntOp::And, lane, Operand::Imm(3));
                    let columns = self.word(IntOp::Shl, columns, Operand::Imm(3));
                    let first = self.word(IntOp::Add, columns, thread);
                    self.word(IntOp::Add, first, Operand::Imm(4 * i))
                };
                let word = self.of_lane(data, from);
                self.word(IntOp::Shr, word, shift)
            });
            scales.push(Scales { registers, powers });
        }
        scales.try_into().ok()
    }

    /// A selector, 0 to 3, in 32 bits.
    fn selector(&mut self, operand: &ast::Operand) -> Option<Operand> {
        let selector = self.source(operand, T::U16)?;
        let wide = Op::Extend { from: Width::W16, bits: 16, signed: false, to: Width::W32 };
        let selector = self.value(wide, Width::W32, vec![selector]);
        Some(self.word(IntOp::And, selector, Operand::Imm(3)))
    }

    /// The scale of a block in f64, where all are exact.
    fn scale(&mut self, scales: &Scales, n: usize, block: u64) -> Operand {
        let place = [8 * block, 8].map(Operand::Imm);
        let src = vec![scales.registers[n], place[0], place[1]];
        let byte = self.value(Op::Int(IntOp::Bfe, IntType::U32), Width::W32, src);
        if !scales.powers {
            // ue4m3: e4m3 without a sign.
            let byte = self.word(IntOp::And, byte, Operand::Imm(0x7f));
            let cut = Op::Extend { from: Width::W32, bits: 8, signed: false, to: Width::W16 };
            let byte = self.value(cut, Width::W16, vec![byte]);
            let widen = Op::Convert(Convert::FromEight(Fp8::E4M3));
            let value = self.value(widen, Width::W32, vec![byte]);
            return self.long_float(value);
        }
        let wide = Op::Extend { from: Width::W32, bits: 32, signed: false, to: Width::W64 };
        let exponent = self.value(wide, Width::W64, vec![byte]);
        let long = |op| Op::Int(op, IntType::U64);
        let bias = Operand::Imm(BIAS - SCALE_BIAS);
        let exponent = self.value(long(IntOp::Add), Width::W64, vec![exponent, bias]);
        let bits = Operand::Imm(MANTISSA_BITS);
        let power = self.value(long(IntOp::Shl), Width::W64, vec![exponent, bits]);
        let bad = self.temporary(Class::Pred);
        let equal = Op::Setp(Compare::Eq, CompareType::Int(IntType::U32));
        self.emit(equal, vec![bad], vec![byte, Operand::Imm(SCALE_NAN)]);
        let src = vec![Operand::Imm(NAN), power, bad.into()];
        self.value(Op::Select(Width::W64), Width::W64, src)
    }
}
