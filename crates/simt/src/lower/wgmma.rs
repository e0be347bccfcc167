//! `wgmma`: products of a warpgroup, whose operands lie in shared memory.
//!
//! Each warp multiplies its own 16 rows, and the parts of a fragment that it needs of an operand are
//! what `mma` would have in registers: so a product becomes loads of these from where the operand's
//! descriptor says, and ordinary products of 8 columns. It is done where it is issued; fences and
//! waits have nothing left to do but to say what a program may rely on ([`CopyNote`]). Of sparse products what is kept of A lies like a whole A of half
//! the columns.
//!
//! A descriptor says where the matrix starts, two distances, and how rows are swizzled. In units of
//! 16 bytes, with `S` = 1, 2, 4 or 8 of them in a row of the swizzle's pattern, element `(line, k)`
//! is in unit
//!
//! | | not swizzled | swizzled |
//! |---|---|---|
//! | along k | `line % 8`, `line / 8` strides, unit of `k` leads | `S (line % 8)`, `line / 8` strides, unit of `k` |
//! | across | `k % 8`, `k / 8` leads, unit of `line` strides | `S (k % 8)`, `k / 8` strides, unit of `line` modulo `S`, the rest leads |
//!
//! and then the lower bits of the unit's number within 8 rows of 128 bytes are flipped by those of
//! the row's number.

use crate::ir::matrix::{MatrixType, Multiply};
use crate::ir::op::{
    Access, Class, Compare, CompareType, CopyNote, IntOp, IntType, Op, Space, Special, Width,
};
use crate::ir::{Operand, Reg};
use crate::lower::Lowering;
use crate::lower::matrix::{accumulator_width, matrix_type};
use ptx::ast::{self, Modifier as M, ScalarType as T};

/// Bytes of `k` that one product covers, and that of A are in shared memory: two units.
const K_BYTES: u32 = 32;
/// Bytes of a unit.
const UNIT_BYTES: u64 = 16;

/// Descriptor fields of an operand in shared memory, in bytes.
struct Factor {
    /// First byte.
    start: Operand,
    /// From one unit of `k` (or of the line, if it lies across) to the next.
    leading: Operand,
    /// From eight lines (or eights of `k`) to the next.
    stride: Operand,
    /// Units in a row of the pattern, less one.
    mask: Operand,
    /// From a line (or a `k`) to the next, within eight.
    pitch: Operand,
    /// Rows of 128 bytes by which the pattern is shifted.
    shift: Operand,
    /// Not swizzled.
    plain: Reg,
    /// Lines, not `k`, run along memory.
    across: bool,
}

impl Lowering<'_> {
    pub(super) fn warpgroup(&mut self, inst: &ast::Instruction) -> Option<()> {
        if inst.has(M::Fence) {
            return Some(());
        }
        if inst.has(M::CommitGroup) {
            return self.copy_note(CopyNote::CommitProducts, None, &[]);
        }
        if inst.has(M::WaitGroup) {
            let [ast::Operand::Immediate(left)] = &inst.operands[..] else { return None };
            let left = u32::try_from(left.as_i64()?).unwrap_or(u32::MAX);
            return self.copy_note(CopyNote::WaitProducts { left }, None, &[]);
        }
        if !inst.has(M::MmaAsync) {
            return None;
        }
        let halves = if inst.has(M::Sp) { 2 } else { 1 };
        let shape = inst.shape()?;
        let types: Vec<T> = inst.types().collect();
        let [d_type, a_type, b_type] = types[..] else { return None };
        let (a_type, b_type) = (matrix_type(a_type, false)?, matrix_type(b_type, false)?);
        let saturate = inst.has(M::Satfinite);
        let k = shape.k / halves as u16;
        let product = Multiply { tall: true, k, a: a_type, b: b_type, saturate };
        (u32::from(k) * a_type.bits() == 8 * K_BYTES).then_some(())?;
        let (d, a, b, sparse, scale_d, rest) = match &inst.operands[..] {
            [d, a, b, scale_d, rest @ ..] if halves == 1 => (d, a, b, None, scale_d, rest),
            [d, a, b, metadata, selector, scale_d, rest @ ..] => {
                (d, a, b, Some((metadata, selector)), scale_d, rest)
            }
            _ => return None,
        };
        let numbers = rest
            .iter()
            .map(|operand| match operand {
                ast::Operand::Immediate(value) => value.as_i64(),
                _ => None,
            })
            .collect::<Option<Vec<i64>>>()?;
        // Two signs, then whether A and B lie across; A in registers never does.
        let in_registers = matches!(a, ast::Operand::Vector(_));
        let (negative, a_across, b_across) = match (&numbers[..], in_registers) {
            ([], _) => (false, false, false),
            ([a, b], _) => (a * b < 0, false, false),
            ([a, b, across], true) => (a * b < 0, false, *across != 0),
            ([a, b, a_across, b_across], false) => (a * b < 0, *a_across != 0, *b_across != 0),
            _ => return None,
        };
        let (lane, group) = self.lane_and_group();
        let mut a = match in_registers {
            true => self.elements(a, T::B32)?,
            false => {
                let warp = self.value(Op::Special(Special::WarpId), Width::W32, vec![]);
                let warp = self.word(IntOp::And, warp, Operand::Imm(3));
                let rows = self.word(IntOp::Shl, warp, Operand::Imm(4));
                let row = self.word(IntOp::Or, rows, group);
                let factor = self.factor(a, a_across)?;
                (0..4)
                    .map(|i| {
                        let line = self.word(IntOp::Or, row, Operand::Imm(8 * (i & 1)));
                        self.fragment_word(&factor, line, lane, i >> 1, a_type)
                    })
                    .collect()
            }
        };
        (a.len() == product.a_registers()).then_some(())?;
        if negative {
            let signs = Operand::Imm(sign_bits(a_type)?);
            a = a.into_iter().map(|a| self.word(IntOp::Xor, a, signs)).collect();
        }
        let parts = match sparse {
            None => vec![[a[0], a[1], a[2], a[3]]],
            Some((metadata, selector)) => self.wholes(a_type, &a, metadata, selector)?,
        };
        let factor = self.factor(b, b_across)?;
        let sums = self.accumulators(d, d_type)?;
        let keep = self.predicate(scale_d)?;
        let sums: Vec<Operand> = sums
            .into_iter()
            .map(|sum| {
                let src = vec![sum, Operand::Imm(0), keep];
                self.value(Op::Select(Width::W32), Width::W32, src)
            })
            .collect();
        let d = self.results(d, accumulator_width(d_type))?;
        (sums.len() == usize::from(shape.n) / 2).then_some(())?;
        let mut results = Vec::with_capacity(sums.len());
        for (column, sums) in (0..).zip(sums.chunks(4)) {
            let line = self.word(IntOp::Add, group, Operand::Imm(8 * column));
            let b: Vec<Operand> = (0..2 * halves as u64)
                .map(|unit| self.fragment_word(&factor, line, lane, unit, b_type))
                .collect();
            results.extend(self.half_products(product, &parts, &b, sums.to_vec()));
        }
        self.finish_sums(&d, d_type, Width::W32, &results)?;
        if self.env.copy_notes {
            let sums = d.into_iter().map(Operand::Reg).collect();
            self.effect(Op::CopyNote(CopyNote::Product, Space::Shared), sums);
        }
        Some(())
    }

    /// A lane's number within its four, and that of the four.
    fn lane_and_group(&mut self) -> (Operand, Operand) {
        let lane = self.value(Op::Special(Special::LaneId), Width::W32, vec![]);
        let group = self.word(IntOp::Shr, lane, Operand::Imm(2));
        (self.word(IntOp::And, lane, Operand::Imm(3)), group)
    }

    fn choose(&mut self, condition: Reg, yes: Operand, no: Operand) -> Operand {
        self.value(Op::Select(Width::W32), Width::W32, vec![yes, no, condition.into()])
    }

    /// The fields of a descriptor.
    fn factor(&mut self, descriptor: &ast::Operand, across: bool) -> Option<Factor> {
        let descriptor = self.source(descriptor, T::U64)?;
        let field = |l: &mut Self, at: u64, bits: u32| {
            let shr = Op::Int(IntOp::Shr, IntType::U64);
            let moved = l.value(shr, Width::W64, vec![descriptor, Operand::Imm(at)]);
            let cut = Op::Extend { from: Width::W64, bits: 32, signed: false, to: Width::W32 };
            let word = l.value(cut, Width::W32, vec![moved]);
            l.word(IntOp::And, word, Operand::Imm((1 << bits) - 1))
        };
        // Addresses and distances count in units.
        let bytes = |l: &mut Self, units| l.word(IntOp::Shl, units, Operand::Imm(4));
        let start = field(self, 0, 14);
        let start = bytes(self, start);
        let leading = field(self, 16, 14);
        let leading = bytes(self, leading);
        let stride = field(self, 32, 14);
        let stride = bytes(self, stride);
        let shift = field(self, 49, 3);
        let mode = field(self, 62, 2);
        // 8, 4 or 2 units a row for modes 1 to 3; 1 without a swizzle.
        let plain = self.temporary(Class::Pred);
        let is_zero = Op::Setp(Compare::Eq, CompareType::Int(IntType::U32));
        self.emit(is_zero, vec![plain], vec![mode, Operand::Imm(0)]);
        let units = self.word(IntOp::Shr, Operand::Imm(16), mode);
        let units = self.choose(plain, Operand::Imm(1), units);
        let mask = self.word(IntOp::Sub, units, Operand::Imm(1));
        let pitch = bytes(self, units);
        Some(Factor { start, leading, stride, mask, pitch, shift, plain, across })
    }

    /// The register that a lane has of a fragment: elements of `line` from unit `unit` of `k`.
    fn fragment_word(
        &mut self,
        factor: &Factor,
        line: Operand,
        lane: Operand,
        unit: u64,
        ty: MatrixType,
    ) -> Operand {
        if !factor.across {
            let low = self.word(IntOp::And, line, Operand::Imm(7));
            let high = self.word(IntOp::Shr, line, Operand::Imm(3));
            let of_unit = self.choose(factor.plain, factor.leading, Operand::Imm(UNIT_BYTES));
            let mut at = self.word(IntOp::MulLo, low, factor.pitch);
            at = self.multiply_add(high, factor.stride, at);
            at = self.multiply_add(of_unit, Operand::Imm(unit), at);
            at = self.multiply_add(lane, Operand::Imm(4), at);
            return self.load_swizzled(factor, at, 4);
        }
        // One element after the other: `k` runs across memory.
        let packed = ty.packed();
        let bytes = u64::from(ty.bits() / 8);
        let shl = |l: &mut Self, a, by| l.word(IntOp::Shl, a, Operand::Imm(by));
        let line_unit = self.word(IntOp::Shr, line, Operand::Imm(3));
        let inner = self.word(IntOp::And, line_unit, factor.mask);
        let inner = shl(self, inner, 4);
        let log = self.value(Op::Int(IntOp::Popc, IntType::U32), Width::W32, vec![factor.mask]);
        let outer = self.word(IntOp::Shr, line_unit, log);
        let outer_step = self.choose(factor.plain, factor.stride, factor.leading);
        let eight_step = self.choose(factor.plain, factor.leading, factor.stride);
        let low = self.word(IntOp::And, line, Operand::Imm(7));
        let mut base = self.multiply_add(low, Operand::Imm(bytes), inner);
        base = self.multiply_add(outer, outer_step, base);
        let mut word = Operand::Imm(0);
        for e in 0..u64::from(packed) {
            let k = self.multiply_add(lane, Operand::Imm(packed.into()), Operand::Imm(e));
            let k = self.word(IntOp::Add, k, Operand::Imm(4 * u64::from(packed) * unit));
            let (low, high) = (
                self.word(IntOp::And, k, Operand::Imm(7)),
                self.word(IntOp::Shr, k, Operand::Imm(3)),
            );
            let at = self.multiply_add(low, factor.pitch, base);
            let at = self.multiply_add(high, eight_step, at);
            let element = self.load_swizzled(factor, at, bytes as u8);
            let element = shl(self, element, e * u64::from(ty.bits()));
            word = self.word(IntOp::Or, word, element);
        }
        word
    }

    fn multiply_add(&mut self, a: Operand, b: Operand, c: Operand) -> Operand {
        self.value(Op::Int(IntOp::MadLo, IntType::U32), Width::W32, vec![a, b, c])
    }

    /// Loads what is `at` bytes behind an operand's start, before rows are swizzled.
    fn load_swizzled(&mut self, factor: &Factor, at: Operand, bytes: u8) -> Operand {
        let at = self.word(IntOp::Add, at, factor.start);
        let row = self.word(IntOp::Shr, at, Operand::Imm(7));
        let row = self.word(IntOp::Sub, row, factor.shift);
        let flip = self.word(IntOp::And, row, factor.mask);
        let flip = self.word(IntOp::Shl, flip, Operand::Imm(4));
        let at = self.word(IntOp::Xor, at, flip);
        let (space, width) = (Space::Shared, Width::W32);
        let access = Access { space, bytes, signed: false, count: 1, width, volatile: false };
        let value = self.value(Op::Load(access), width, vec![at, Operand::Imm(0)]);
        if self.env.copy_notes {
            let wide = Op::Extend { from: width, bits: 32, signed: false, to: Width::W64 };
            let at = self.value(wide, Width::W64, vec![at]);
            self.effect(Op::CopyNote(CopyNote::ReadByProduct { bytes }, space), vec![at]);
        }
        value
    }
}

/// The signs of all elements of a register.
fn sign_bits(ty: MatrixType) -> Option<u64> {
    Some(match ty {
        MatrixType::F16 | MatrixType::BF16 => 0x8000_8000,
        MatrixType::TF32 => 0x8000_0000,
        MatrixType::E4M3 | MatrixType::E5M2 => 0x8080_8080,
        _ => return None,
    })
}
