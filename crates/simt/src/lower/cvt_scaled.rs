//! `cvt` with scale factors: fixed point of eight bits (`.s2f6x2`), and pairs of narrow floats to
//! bf16, with `.scaled::n2::ue8m0` or `.satfinite`.
//!
//! A scale is a power of two, its exponent in a byte with a bias of 127; 255 is NaN. All is computed
//! in f64, where a scale and what is scaled are exact, so that only the result is rounded.
//!
//! Of `.scaled::n1`, one scale for both, `cvt_fp8` has the rest: numbers are divided here, in f32,
//! which rounds only what has no place in a narrow format, and as the conversion does.

use crate::ir::Operand;
use crate::ir::op::{
    Class, Compare, CompareType, Convert, FloatMode, FloatOp, FloatType, IntOp, IntType, Op, Round,
    Width,
};
use crate::lower::Lowering;
use crate::lower::cvt_fp8::{LEAST_NORMAL, eight, extremes, upper_bit};
use ptx::ast::{self, Modifier as M, ScalarType as T};

/// Bias of the exponent of f64, and bits below it.
const BIAS: u64 = 1023;
const MANTISSA_BITS: u64 = 52;
/// Bias of a scale, and the one that is NaN.
const SCALE_BIAS: u64 = 127;
const SCALE_NAN: u64 = 255;
/// Bits of `.s2f6` behind the point.
const FRACTION_BITS: u64 = 6;
/// A NaN of f32.
const NAN: u64 = 0x7fff_ffff;

/// Smallest normal number of f16, in f32.
const LEAST_NORMAL_HALF: u64 = 0x3880_0000;
/// The largest exponent of a scale, which divides to what is no normal number: half the smallest.
const SCALE_MAX: u64 = 254;

impl Lowering<'_> {
    /// An f32, perhaps once a half, divided by a scale; zero if it was subnormal in its format.
    pub(super) fn divided(
        &mut self,
        value: Operand,
        scale: Operand,
        half: Option<FloatType>,
        round: Round,
    ) -> Operand {
        let least = if half == Some(FloatType::F16) { LEAST_NORMAL_HALF } else { LEAST_NORMAL };
        let magnitude = self.word(IntOp::And, value, Operand::Imm(0x7fff_ffff));
        // Minus zero stays.
        let less = self.word(IntOp::Sub, magnitude, Operand::Imm(1));
        let value = self.choose_below(less, Operand::Imm(least - 1), Operand::Imm(0), value);
        let widen = Op::Extend { from: Width::W16, bits: 8, signed: false, to: Width::W32 };
        let scale = self.value(widen, Width::W32, vec![scale]);
        let exponent = self.word(IntOp::Sub, Operand::Imm(SCALE_MAX), scale);
        let power = self.word(IntOp::Shl, exponent, Operand::Imm(23));
        let most = Operand::Imm(SCALE_MAX);
        let least_power = Operand::Imm(LEAST_NORMAL / 2);
        let power = self.choose_below(scale, most, power, least_power);
        let power = self.choose_below(most, scale, Operand::Imm(NAN), power);
        let times =
            Op::Float(FloatOp::Mul, FloatType::F32, FloatMode { round, ..FloatMode::default() });
        self.value(times, Width::W32, vec![value, power])
    }

    /// `cvt` of pairs with `.s2f6x2`, or to bf16 from 8-bit floats.
    pub(super) fn scaled(&mut self, inst: &ast::Instruction) -> Option<()> {
        let mut types = inst.types();
        let (to, from) = (types.next()?, types.next()?);
        let (d, sources) = inst.operands.split_first()?;
        let (sources, scale) = match (inst.has(M::Scaled), sources.split_last()) {
            (true, Some((scale, sources))) => (sources, Some(self.source(scale, T::B16)?)),
            _ => (sources, None),
        };
        match (to, from, sources) {
            (T::S2f6x2, T::F32, [a, b]) => {
                let pair = [self.source(a, T::F32)?, self.source(b, T::F32)?];
                self.fixed_from(inst, d, pair, scale)
            }
            (T::S2f6x2, T::Bf16x2, [a]) => {
                let a = self.source(a, T::B32)?;
                // A bf16 is the upper half of an f32.
                let high = Operand::Imm(0xffff_0000);
                let high = self.value(Op::Int(IntOp::And, IntType::U32), Width::W32, vec![a, high]);
                let sixteen = Operand::Imm(16);
                let low =
                    self.value(Op::Int(IntOp::Shl, IntType::U32), Width::W32, vec![a, sixteen]);
                self.fixed_from(inst, d, [high, low], scale)
            }
            (T::Bf16x2, T::S2f6x2, [a]) => {
                let a = self.source(a, T::B16)?;
                let numbers = [8, 0].map(|at| {
                    let byte = self.byte(a, at, true);
                    let op = Convert::FromInt {
                        from: IntType::S32,
                        to: FloatType::F64,
                        mode: FloatMode::default(),
                    };
                    self.value(Op::Convert(op), Width::W64, vec![byte])
                });
                self.pair_from(inst, d, numbers, scale, FRACTION_BITS)
            }
            (T::Bf16x2, _, [a]) => {
                let format = eight(from)?;
                let a = self.source(a, T::B16)?;
                let numbers = [upper_bit(format), 0].map(|at| {
                    let byte = Op::Int(IntOp::Shr, IntType::U16);
                    let byte = self.value(byte, Width::W16, vec![a, Operand::Imm(at)]);
                    let op = Op::Convert(Convert::FromEight(format));
                    let wide = self.value(op, Width::W32, vec![byte]);
                    self.long_float(wide)
                });
                self.pair_from(inst, d, numbers, scale, 0)
            }
            _ => None,
        }
    }

    /// Two numbers of f32, the upper first, divided by their scales and rounded to fixed point.
    fn fixed_from(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        pair: [Operand; 2],
        scale: Option<Operand>,
    ) -> Option<()> {
        let mut parts = Vec::new();
        for (value, at) in pair.into_iter().zip([8, 0]) {
            // Times 2^(6 - (scale - 127)).
            let scale = scale.map(|scale| self.byte(scale, at, false));
            let exponent = BIAS + FRACTION_BITS + SCALE_BIAS;
            let exponent = self.exponent(IntOp::Sub, exponent, scale);
            let long = self.long_float(value);
            let times = Op::Float(FloatOp::Mul, FloatType::F64, FloatMode::default());
            let product = self.value(times, Width::W64, vec![long, exponent]);
            let whole = Convert::ToInt {
                from: FloatType::F64,
                bits: 32,
                signed: true,
                round: Round::Near,
                ftz: false,
            };
            let whole = self.value(Op::Convert(whole), Width::W32, vec![product]);
            let mut number = self.clamp(whole, Width::W32, true, 8, true);
            if inst.has(M::Relu) {
                let op = Op::Int(IntOp::Max, IntType::S32);
                number = self.value(op, Width::W32, vec![number, Operand::Imm(0)]);
            }
            // NaN is the largest number.
            let nan = self.temporary(Class::Pred);
            let test = Op::Setp(Compare::Nan, CompareType::Float(FloatType::F32, false));
            self.emit(test, vec![nan], vec![value, value]);
            let most = Operand::Imm(0x7f);
            number = self.value(Op::Select(Width::W32), Width::W32, vec![most, number, nan.into()]);
            parts.push(self.unless_scale_is_nan(scale, number, 0x7f));
        }
        let place = [8, 24].map(Operand::Imm);
        let low = self.value(
            Op::Int(IntOp::And, IntType::U32),
            Width::W32,
            vec![parts[1], Operand::Imm(0xff)],
        );
        let src = vec![parts[0], low, place[0], place[1]];
        let both = self.value(Op::Int(IntOp::Bfi, IntType::U32), Width::W32, src);
        let cut = Op::Extend { from: Width::W32, bits: 16, signed: false, to: Width::W16 };
        self.emit_to(cut, d, Width::W16, false, vec![both])
    }

    /// Two numbers of f64, the upper first, in units of `2^-fraction_bits`, times their scales, as a
    /// pair of bf16.
    fn pair_from(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        numbers: [Operand; 2],
        scale: Option<Operand>,
        fraction_bits: u64,
    ) -> Option<()> {
        let mut parts = Vec::new();
        for (number, at) in numbers.into_iter().zip([8, 0]) {
            let scale = scale.map(|scale| self.byte(scale, at, false));
            let exponent = BIAS - fraction_bits - SCALE_BIAS;
            let factor = self.exponent(IntOp::Add, exponent, scale);
            let times = Op::Float(FloatOp::Mul, FloatType::F64, FloatMode::default());
            let product = self.value(times, Width::W64, vec![number, factor]);
            let mode = FloatMode { round: Round::Near, ..FloatMode::default() };
            let narrow =
                Convert::Float { from: FloatType::F64, to: FloatType::F32, mode, relu: false };
            let single = self.value(Op::Convert(narrow), Width::W32, vec![product]);
            let single = self.unless_scale_is_nan(scale, single, NAN);
            let relu = inst.has(M::Relu);
            let half = Convert::Float { from: FloatType::F32, to: FloatType::BF16, mode, relu };
            let mut half = self.value(Op::Convert(half), Width::W16, vec![single]);
            if inst.has(M::Satfinite) {
                half = self.finite(half, Width::W16, extremes(FloatType::BF16)?);
            }
            parts.push(half);
        }
        let op = Op::Pack { part: Width::W16, whole: Width::W32 };
        self.emit_to(op, d, Width::W32, false, vec![parts[1], parts[0]])
    }

    /// The byte from bit `at` on of a 16-bit register, in 32 bits.
    fn byte(&mut self, of: Operand, at: u64, signed: bool) -> Operand {
        let moved = match at {
            0 => of,
            _ => {
                let op = Op::Int(IntOp::Shr, IntType::U16);
                self.value(op, Width::W16, vec![of, Operand::Imm(at)])
            }
        };
        let op = Op::Extend { from: Width::W16, bits: 8, signed, to: Width::W32 };
        self.value(op, Width::W32, vec![moved])
    }

    /// An f32 as an f64: exact.
    pub(super) fn long_float(&mut self, value: Operand) -> Operand {
        let mode = FloatMode::default();
        let op = Convert::Float { from: FloatType::F32, to: FloatType::F64, mode, relu: false };
        self.value(Op::Convert(op), Width::W64, vec![value])
    }

    /// The f64 with the exponent `of` and (plus or minus) that of the scale, which is 127 if there
    /// is none.
    fn exponent(&mut self, op: IntOp, of: u64, scale: Option<Operand>) -> Operand {
        let ty = IntType::U64;
        let Some(scale) = scale else {
            let exponent = if op == IntOp::Add { of + SCALE_BIAS } else { of - SCALE_BIAS };
            return Operand::Imm(exponent << MANTISSA_BITS);
        };
        let wide = Op::Extend { from: Width::W32, bits: 32, signed: false, to: Width::W64 };
        let scale = self.value(wide, Width::W64, vec![scale]);
        let exponent = self.value(Op::Int(op, ty), Width::W64, vec![Operand::Imm(of), scale]);
        let bits = Operand::Imm(MANTISSA_BITS);
        self.value(Op::Int(IntOp::Shl, ty), Width::W64, vec![exponent, bits])
    }

    /// `value`, but `nan` where the scale is no number.
    fn unless_scale_is_nan(&mut self, scale: Option<Operand>, value: Operand, nan: u64) -> Operand {
        let Some(scale) = scale else { return value };
        let bad = self.temporary(Class::Pred);
        let equal = Op::Setp(Compare::Eq, CompareType::Int(IntType::U32));
        self.emit(equal, vec![bad], vec![scale, Operand::Imm(SCALE_NAN)]);
        let src = vec![Operand::Imm(nan), value, bad.into()];
        self.value(Op::Select(Width::W32), Width::W32, src)
    }
}
