//! Conversions between floats and integers on the lanes of a slice.

use crate::asm::assembler::X;
use crate::avx2::slice::{Slice, xmm};
use crate::function::Compiler;
use crate::lanewise::float::rounding;
use crate::lanewise::isa::VectorIsa;
use iced_x86::{Code, Register};
use simt::ir::op::{Convert, FloatType, IntOp, IntType, Op, Round, Width};
use simt::ir::vector::{Source, VectorInst};

/// True if there is a form for the conversion.
pub(crate) fn has_form(convert: Convert) -> bool {
    match convert {
        Convert::FromInt { from: IntType::S32 | IntType::U32, to, mode } => {
            let rounded = rounding(mode.round).is_some();
            !mode.sat && (to == FloatType::F64 || to == FloatType::F32 && rounded)
        }
        Convert::ToInt { from: FloatType::F32, bits: 8 | 16 | 32, round, .. } => {
            rounding(round).is_some()
        }
        Convert::ToInt { from: FloatType::F64, bits: 32, signed: true, round, .. } => {
            rounding(round).is_some()
        }
        Convert::Float { from: FloatType::F64, to: FloatType::F32, mode, relu: false } => {
            !mode.sat && !mode.ftz && rounding(mode.round).is_some()
        }
        Convert::Float { from: FloatType::F32, to: FloatType::F64, mode, relu } => {
            !mode.sat && !relu
        }
        _ => false,
    }
}

impl Compiler<'_> {
    /// The highest bit of 32 of a source is known to be 0.
    fn is_below_sign(&self, source: Source) -> bool {
        let Source::Vector(r) = source else { return false };
        let Some(inst) = self.writer(r) else { return false };
        let second = match inst.src.get(1) {
            Some(Source::Imm(v)) => *v as u32,
            _ => 0,
        };
        match inst.op {
            Op::Int(IntOp::Shr, ty) => !ty.signed() && second > 0,
            Op::Int(IntOp::And, _) => second >> 31 == 0 && matches!(inst.src[1], Source::Imm(_)),
            Op::Extend { bits, signed, .. } => !signed && bits < 32,
            Op::Load(access) => !access.signed && access.bytes < 4,
            _ => false,
        }
    }
}

impl Slice<'_, '_> {
    pub(crate) fn convert(&mut self, inst: &VectorInst, convert: Convert) {
        match convert {
            Convert::FromInt { from, to: FloatType::F32, mode } => {
                let made = self.single_of_integer(inst, from, mode.round);
                self.put(inst, 0, 0, made);
            }
            Convert::FromInt { from, .. } => {
                for piece in 0..2 {
                    let number = self.half(inst.src[0], piece);
                    let to = self.temp();
                    self.double_of(to, number, from.signed());
                    self.put(inst, 0, piece, to);
                }
            }
            Convert::ToInt { from: FloatType::F64, round, .. } => {
                self.integer_of_double(inst, round)
            }
            Convert::Float { from: FloatType::F64, mode, .. } => {
                self.single_of_double(inst, mode.round);
            }
            Convert::ToInt { bits, signed, round, ftz, .. } => {
                let Some(round) = rounding(round) else { return self.unsupported() };
                let mut a = self.piece_in(inst.src[0], Width::W32, 0);
                if ftz {
                    a = self.flushed(a);
                }
                let to = self.temp();
                self.op(Code::VEX_Vroundps_ymm_ymmm256_imm8, &[to.into(), a.into(), X::I(round)]);
                let made = match (bits, signed) {
                    (32, false) => self.unsigned_int(to),
                    (32, true) => self.signed_int(to),
                    _ => self.small_int(to, bits, signed),
                };
                self.put(inst, 0, 0, made);
            }
            Convert::Float { mode, .. } => {
                let flushed = mode.ftz.then(|| {
                    let a = self.piece_in(inst.src[0], Width::W32, 0);
                    self.flushed(a)
                });
                for piece in 0..2 {
                    let half = match flushed {
                        Some(a) => self.half_of(a, piece).into(),
                        None => self.half(inst.src[0], piece),
                    };
                    let to = self.temp();
                    self.op(Code::VEX_Vcvtps2pd_ymm_xmmm128, &[to.into(), half]);
                    self.put(inst, 0, piece, to);
                }
            }
            _ => self.unsupported(),
        }
    }

    /// Integral f32 lanes as numbers of 8 or 16 bits, in lanes of 16.
    fn small_int(&mut self, a: Register, bits: u8, signed: bool) -> Register {
        let to = self.signed_int(a);
        let (least, most) = match signed {
            true => (-(1i32 << (bits - 1)), (1 << (bits - 1)) - 1),
            false => (0, (1 << bits) - 1),
        };
        let limit = |number: i32| u64::from(number as u32);
        let least = self.constant(limit(least), Width::W32);
        let most = self.constant(limit(most), Width::W32);
        self.op(Code::VEX_Vpmaxsd_ymm_ymm_ymmm256, &[to.into(), to.into(), least.into()]);
        self.op(Code::VEX_Vpminsd_ymm_ymm_ymmm256, &[to.into(), to.into(), most.into()]);
        self.lower_words(to, to);
        to
    }

    /// 32-bit numbers as floats.
    fn single_of_integer(&mut self, inst: &VectorInst, from: IntType, round: Round) -> Register {
        let to = self.temp();
        if from.signed() {
            let a = self.piece(inst.src[0], Width::W32, 0);
            self.rounded(round, Code::VEX_Vcvtdq2ps_ymm_ymmm256, &[to.into(), a]);
            return to;
        }
        let a = self.piece_in(inst.src[0], Width::W32, 0);
        if self.c.is_below_sign(inst.src[0]) {
            self.rounded(round, Code::VEX_Vcvtdq2ps_ymm_ymmm256, &[to.into(), a.into()]);
            return to;
        }
        // Both halves are exact, and so is the upper one times 2^16: the sum is rounded once.
        let low_bits = self.constant(0xffff, Width::W32);
        let power = self.constant(u64::from(65536f32.to_bits()), Width::W32);
        let upper = self.temp();
        self.op(Code::VEX_Vpsrld_ymm_ymm_imm8, &[upper.into(), a.into(), X::I(16)]);
        self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[to.into(), a.into(), low_bits.into()]);
        for half in [upper, to] {
            self.op(Code::VEX_Vcvtdq2ps_ymm_ymmm256, &[half.into(), half.into()]);
        }
        let sum = Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256;
        self.rounded(round, sum, &[to.into(), upper.into(), power.into()]);
        self.free(upper);
        to
    }

    /// 64-bit lanes as 32-bit ones: each piece by an instruction that makes half a register of it.
    fn narrowed_by(&mut self, pieces: [Register; 2], round: Round, code: Code) -> Register {
        let [low, high] = pieces.map(|piece| {
            let to = self.temp();
            self.rounded(round, code, &[xmm(to).into(), piece.into()]);
            to
        });
        let insert = Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8;
        self.op(insert, &[low.into(), low.into(), xmm(high).into(), X::I(1)]);
        self.free(high);
        low
    }

    /// Doubles as floats.
    fn single_of_double(&mut self, inst: &VectorInst, round: Round) {
        let pieces = [0, 1].map(|piece| self.piece_in(inst.src[0], Width::W64, piece));
        let made = self.narrowed_by(pieces, round, Code::VEX_Vcvtpd2ps_xmm_ymmm256);
        self.put(inst, 0, 0, made);
    }

    /// Doubles as signed integers: of NaN the top bit alone, what is too large is the largest.
    fn integer_of_double(&mut self, inst: &VectorInst, round: Round) {
        let Some(round) = rounding(round) else { return self.unsupported() };
        let pieces = [0, 1].map(|piece| {
            let a = self.piece_in(inst.src[0], Width::W64, piece);
            let to = self.temp();
            self.op(Code::VEX_Vroundpd_ymm_ymmm256_imm8, &[to.into(), a.into(), X::I(round)]);
            to
        });
        let made = self.narrowed_by(pieces, Round::Near, Code::VEX_Vcvttpd2dq_xmm_ymmm256);
        // What is out of range has become the least number, one below the largest.
        let limit = self.constant(2_147_483_648f64.to_bits(), Width::W64);
        for piece in pieces {
            let compare = Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8;
            self.op(compare, &[piece.into(), piece.into(), limit.into(), X::I(0x1d)]);
        }
        self.narrow_masks(pieces[0], pieces[1]);
        let xor = Code::VEX_Vpxor_ymm_ymm_ymmm256;
        self.op(xor, &[made.into(), made.into(), pieces[0].into()]);
        pieces.into_iter().for_each(|piece| self.free(piece));
        self.put(inst, 0, 0, made);
    }

    /// An instruction that rounds so.
    fn rounded(&mut self, round: Round, code: Code, operands: &[X]) {
        self.round(round);
        self.op(code, operands);
        self.round(Round::Near);
    }

    /// Four 32-bit numbers as doubles.
    pub(crate) fn double_of(&mut self, to: Register, number: X, signed: bool) {
        if signed {
            self.op(Code::VEX_Vcvtdq2pd_ymm_xmmm128, &[to.into(), number]);
            return;
        }
        // As the lowest bits of 2^52, which is then taken away.
        let bits = self.constant(((1u64 << 52) as f64).to_bits(), Width::W64);
        self.op(Code::VEX_Vpmovzxdq_ymm_xmmm128, &[to.into(), number]);
        self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[to.into(), to.into(), bits.into()]);
        self.op(Code::VEX_Vsubpd_ymm_ymm_ymmm256, &[to.into(), to.into(), bits.into()]);
    }

    /// Doubles cut to 32-bit integers, in the low half of the register; `scratch` is overwritten.
    pub(crate) fn cut(&mut self, a: Register, scratch: Register, signed: bool) {
        let cut = Code::VEX_Vcvttpd2dq_xmm_ymmm256;
        if signed {
            self.op(cut, &[xmm(a).into(), a.into()]);
            return;
        }
        // Half of the range lower, as signed ones.
        let offset = self.constant(((1u64 << 31) as f64).to_bits(), Width::W64);
        let sign = self.constant(1 << 31, Width::W32);
        self.op(Code::VEX_Vroundpd_ymm_ymmm256_imm8, &[scratch.into(), a.into(), X::I(11)]);
        let subtract = Code::VEX_Vsubpd_ymm_ymm_ymmm256;
        self.op(subtract, &[scratch.into(), scratch.into(), offset.into()]);
        self.op(cut, &[xmm(a).into(), scratch.into()]);
        self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[a.into(), a.into(), sign.into()]);
    }

    /// Integral f32 lanes as signed integers: NaN is 0, what is too large is the largest.
    fn signed_int(&mut self, a: Register) -> Register {
        let to = self.temp();
        self.op(Code::VEX_Vcvttps2dq_ymm_ymmm256, &[to.into(), a.into()]);
        let limit = self.constant(u64::from(2_147_483_648f32.to_bits()), Width::W32);
        let mask = self.temp();
        let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
        // What is out of range has become the least number, one below the largest.
        self.op(compare, &[mask.into(), a.into(), limit.into(), X::I(0x1d)]);
        self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[to.into(), to.into(), mask.into()]);
        self.op(compare, &[mask.into(), a.into(), a.into(), X::I(3)]);
        self.op(Code::VEX_Vpandn_ymm_ymm_ymmm256, &[to.into(), mask.into(), to.into()]);
        self.free(mask);
        to
    }

    /// Integral f32 lanes as unsigned integers: NaN and what is negative are 0.
    fn unsigned_int(&mut self, a: Register) -> Register {
        let limit = |power: u64| u64::from(((1u64 << power) as f32).to_bits());
        let (half, whole) =
            (self.constant(limit(31), Width::W32), self.constant(limit(32), Width::W32));
        let cut = Code::VEX_Vcvttps2dq_ymm_ymmm256;
        let (x, low, high) = (self.zero(), self.temp(), self.temp());
        // The maximum of NaN and 0 is 0.
        self.op(Code::VEX_Vmaxps_ymm_ymm_ymmm256, &[x.into(), a.into(), x.into()]);
        // From 2^31 on `low` is its bit alone, and `high` has the others.
        self.op(cut, &[low.into(), x.into()]);
        self.op(Code::VEX_Vsubps_ymm_ymm_ymmm256, &[high.into(), x.into(), half.into()]);
        self.op(cut, &[high.into(), high.into()]);
        let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
        let large = self.temp();
        self.op(Code::VEX_Vpsrad_ymm_ymm_imm8, &[large.into(), low.into(), X::I(31)]);
        self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[high.into(), high.into(), large.into()]);
        self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[low.into(), low.into(), high.into()]);
        self.op(compare, &[large.into(), x.into(), whole.into(), X::I(0x1d)]);
        self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[low.into(), low.into(), large.into()]);
        self.free(large);
        low
    }
}
