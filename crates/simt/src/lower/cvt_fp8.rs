//! `cvt` to narrow formats: floats of 8, 6 and 4 bits, saturation to the largest finite number,
//! packed integers.
//!
//! Rounding by random bits is in `cvt_stochastic`, what has scales in `cvt_scaled`.

use crate::ir::Operand;
use crate::ir::op::{
    Class, Compare, CompareType, Convert, FloatMode, FloatOp, FloatType, Fp8, IntOp, IntType, Op,
    Round, Width,
};
use crate::lower::Lowering;
use ptx::ast::{self, Modifier as M, Rounding, ScalarType as T};

/// Smallest normal number of f32.
pub(super) const LEAST_NORMAL: u64 = 0x0080_0000;

/// Bits of a format's infinity and of its largest finite number, without a sign.
pub(super) fn extremes(ty: FloatType) -> Option<(u64, u64)> {
    Some(match ty {
        FloatType::F16 => (0x7c00, 0x7bff),
        FloatType::BF16 => (0x7f80, 0x7f7f),
        _ => return None,
    })
}

/// The same for tf32.
const TF32_EXTREMES: (u64, u64) = (0x7f80_0000, 0x7f7f_e000);

pub(super) fn eight(ty: T) -> Option<Fp8> {
    match ty {
        T::E4m3x2 => Some(Fp8::E4M3),
        T::E5m2x2 => Some(Fp8::E5M2),
        T::E2m3x2 => Some(Fp8::E2M3),
        T::E3m2x2 => Some(Fp8::E3M2),
        T::E2m1x2 => Some(Fp8::E2M1),
        T::Ue8m0x2 => Some(Fp8::UE8M0),
        T::Ue5m3x2 => Some(Fp8::UE5M3),
        _ => None,
    }
}

/// First bit of the upper of two.
pub(super) fn upper_bit(format: Fp8) -> u64 {
    if format == Fp8::E2M1 { 4 } else { 8 }
}

/// Bits of a number of a format with a sign.
fn sign_bits(format: Fp8) -> u32 {
    match format {
        Fp8::E2M1 => 4,
        Fp8::E2M3 | Fp8::E3M2 => 6,
        _ => 8,
    }
}

fn half_of(ty: T) -> Option<FloatType> {
    match ty {
        T::F16 | T::F16x2 => Some(FloatType::F16),
        T::Bf16 | T::Bf16x2 => Some(FloatType::BF16),
        _ => None,
    }
}

impl Lowering<'_> {
    pub(super) fn narrow(&mut self, inst: &ast::Instruction) -> Option<()> {
        if inst.opcode != ast::Opcode::Cvt {
            return None;
        }
        let mut types = inst.types();
        let (to, from) = (types.next()?, types.next()?);
        if to == T::S2f6x2 || (to == T::Bf16x2 && from != T::F32) {
            return self.scaled(inst);
        }
        if inst.rounding() == Some(Rounding::Rs) {
            return self.stochastic(inst);
        }
        let (d, sources) = inst.operands.split_first()?;
        if inst.has(M::Pack) {
            return self.pack_integers(d, sources, to);
        }
        match (eight(to), eight(from)) {
            (Some(format), None) => self.eight_of(inst, d, sources, format, from),
            (None, Some(format)) => self.halves_of(inst, d, sources, format, to),
            _ if to == T::Tf32 => self.tf32_of(inst, d, sources),
            _ if (inst.has(M::Satfinite) || inst.has(M::Pzo)) && from == T::F32 => {
                self.finite_halves(inst, d, sources, to)
            }
            _ => None,
        }
    }

    /// Emits a conversion of one value.
    fn converted(&mut self, convert: Convert, width: Width, value: Operand) -> Operand {
        self.value(Op::Convert(convert), width, vec![value])
    }

    /// Infinity becomes the largest finite number of the same sign; NaN stays.
    pub(super) fn finite(
        &mut self,
        value: Operand,
        width: Width,
        (infinity, most): (u64, u64),
    ) -> Operand {
        let ty = IntType::of(width, false);
        let sign = 1 << (width.bits() - 1);
        let and = |l: &mut Self, mask| {
            l.value(Op::Int(IntOp::And, ty), width, vec![value, Operand::Imm(mask)])
        };
        let (magnitude, sign) = (and(self, sign - 1), and(self, sign));
        let limit = self.value(Op::Int(IntOp::Or, ty), width, vec![sign, Operand::Imm(most)]);
        let over = self.temporary(Class::Pred);
        let src = vec![magnitude, Operand::Imm(infinity)];
        self.emit(Op::Setp(Compare::Eq, CompareType::Int(ty)), vec![over], src);
        self.value(Op::Select(width), width, vec![limit, value, over.into()])
    }

    /// What is below zero becomes zero.
    pub(super) fn not_negative(&mut self, value: Operand, ty: FloatType) -> Operand {
        let op = Op::Float(FloatOp::MaxNan, ty, FloatMode::default());
        self.value(op, ty.width(), vec![value, Operand::Imm(0)])
    }

    fn tf32_of(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        sources: &[ast::Operand],
    ) -> Option<()> {
        let [a] = sources else { return None };
        let round = crate::lower::float::round_of(inst)?;
        let mut a = self.source(a, T::F32)?;
        if inst.has(M::Relu) {
            a = self.not_negative(a, FloatType::F32);
        }
        let mut value = self.converted(Convert::Tf32(round), Width::W32, a);
        if inst.has(M::Satfinite) && round == Round::NearAway {
            value = self.step_down(value);
        } else if inst.has(M::Satfinite) {
            value = self.finite(value, Width::W32, TF32_EXTREMES);
        }
        value = self.positive_zero(inst, value, Width::W32, 32);
        self.emit_to(Op::Mov(Width::W32), d, Width::W32, false, vec![value])
    }

    /// One less in the last place of tf32 where the exponent has no more room: the largest number
    /// for infinity. A NaN becomes another one, as on an H200.
    fn step_down(&mut self, value: Operand) -> Operand {
        let exponent = Operand::Imm(TF32_EXTREMES.0);
        let int = |op| Op::Int(op, IntType::U32);
        let field = self.value(int(IntOp::And), Width::W32, vec![value, exponent]);
        let less = vec![value, Operand::Imm(TF32_EXTREMES.0 - TF32_EXTREMES.1)];
        let less = self.value(int(IntOp::Sub), Width::W32, less);
        let over = self.temporary(Class::Pred);
        let equal = Op::Setp(Compare::Eq, CompareType::Int(IntType::U32));
        self.emit(equal, vec![over], vec![field, exponent]);
        self.value(Op::Select(Width::W32), Width::W32, vec![less, value, over.into()])
    }

    /// An f32, or zero of its sign where it is subnormal.
    pub(super) fn without_subnormals(&mut self, value: Operand) -> Operand {
        let magnitude = self.word(IntOp::And, value, Operand::Imm(0x7fff_ffff));
        let sign = self.word(IntOp::And, value, Operand::Imm(0x8000_0000));
        self.choose_below(magnitude, Operand::Imm(LEAST_NORMAL), sign, value)
    }

    /// With `.pzo` zero where a number is minus zero, of a given number of bits.
    fn positive_zero(
        &mut self,
        inst: &ast::Instruction,
        value: Operand,
        width: Width,
        bits: u32,
    ) -> Operand {
        if !inst.has(M::Pzo) {
            return value;
        }
        let minus_zero = self.temporary(Class::Pred);
        let equal = Op::Setp(Compare::Eq, CompareType::Int(IntType::of(width, false)));
        self.emit(equal, vec![minus_zero], vec![value, Operand::Imm(1 << (bits - 1))]);
        let src = vec![Operand::Imm(0), value, minus_zero.into()];
        self.value(Op::Select(width), width, src)
    }

    /// `cvt.*.satfinite` and `cvt.*.pzo` from f32 to a half or two.
    fn finite_halves(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        sources: &[ast::Operand],
        to: T,
    ) -> Option<()> {
        let half = half_of(to)?;
        let mode =
            FloatMode { round: crate::lower::float::round_of(inst)?, ..FloatMode::default() };
        let relu = inst.has(M::Relu);
        let convert = Convert::Float { from: FloatType::F32, to: half, mode, relu };
        let mut halves = Vec::new();
        for source in sources {
            let value = self.source(source, T::F32)?;
            let value = if inst.has(M::Ftz) { self.without_subnormals(value) } else { value };
            let mut value = self.converted(convert, Width::W16, value);
            if inst.has(M::Satfinite) {
                value = self.finite(value, Width::W16, extremes(half)?);
            }
            halves.push(self.positive_zero(inst, value, Width::W16, 16));
        }
        match halves[..] {
            [value] => self.emit_to(Op::Mov(Width::W16), d, Width::W16, false, vec![value]),
            [high, low] => {
                let op = Op::Pack { part: Width::W16, whole: Width::W32 };
                self.emit_to(op, d, Width::W32, false, vec![low, high])
            }
            _ => None,
        }
    }

    /// Two narrow floats from two f32 or from a pair of halves; the first is the upper.
    fn eight_of(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        sources: &[ast::Operand],
        format: Fp8,
        from: T,
    ) -> Option<()> {
        let (sources, scale) = match (inst.has(M::ScaledAlike), sources.split_last()) {
            (true, Some((scale, sources))) => (sources, Some(self.source(scale, T::B8)?)),
            _ => (sources, None),
        };
        let mut values = Vec::new();
        match (sources, half_of(from)) {
            ([a, b], None) if from == T::F32 => {
                values.extend([self.source(a, from)?, self.source(b, from)?]);
            }
            ([a], Some(half)) => {
                let a = self.source(a, T::B32)?;
                let (low, high) = (self.temp(Width::W16), self.temp(Width::W16));
                let op = Op::Unpack { part: Width::W16, whole: Width::W32 };
                self.emit(op, vec![low, high], vec![a]);
                let widen = Convert::Float {
                    from: half,
                    to: FloatType::F32,
                    mode: FloatMode::default(),
                    relu: false,
                };
                for half in [high, low] {
                    values.push(self.converted(widen, Width::W32, half.into()));
                }
            }
            _ => return None,
        }
        let [mut high, mut low] = values[..] else { return None };
        let (round, finite) = (crate::lower::float::round_of(inst)?, inst.has(M::Satfinite));
        for value in [&mut high, &mut low] {
            if let Some(scale) = scale {
                *value = self.divided(*value, scale, half_of(from), round);
            }
            if inst.has(M::Relu) {
                *value = self.not_negative(*value, FloatType::F32);
            }
            let convert = Convert::ToEight { to: format, round, finite };
            *value = self.converted(convert, Width::W16, *value);
            *value = self.positive_zero(inst, *value, Width::W16, sign_bits(format));
        }
        let (u16, upper) = (IntType::U16, Operand::Imm(upper_bit(format)));
        let high = self.value(Op::Int(IntOp::Shl, u16), Width::W16, vec![high, upper]);
        self.emit_to(Op::Int(IntOp::Or, u16), d, Width::W16, false, vec![high, low])
    }

    /// A pair of f16 from two narrow floats: exact, but that ue5m3 has larger numbers.
    fn halves_of(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        sources: &[ast::Operand],
        format: Fp8,
        to: T,
    ) -> Option<()> {
        let ([a], T::F16x2) = (sources, to) else { return None };
        let half = FloatType::F16;
        let a = self.source(a, T::B16)?;
        let (u16, upper) = (IntType::U16, Operand::Imm(upper_bit(format)));
        let high = self.value(Op::Int(IntOp::Shr, u16), Width::W16, vec![a, upper]);
        let mut parts = Vec::new();
        for part in [a, high] {
            let wide = self.converted(Convert::FromEight(format), Width::W32, part);
            let mode = FloatMode { round: Round::Near, ..FloatMode::default() };
            let relu = inst.has(M::Relu);
            let narrow = Convert::Float { from: FloatType::F32, to: half, mode, relu };
            parts.push(self.converted(narrow, Width::W16, wide));
        }
        self.emit_to(Op::Pack { part: Width::W16, whole: Width::W32 }, d, Width::W32, false, parts)
    }

    /// `cvt.pack.sat`: two integers clamped and put side by side, the first above the second, and
    /// a third above them.
    fn pack_integers(&mut self, d: &ast::Operand, sources: &[ast::Operand], to: T) -> Option<()> {
        let (a, b, c) = match sources {
            [a, b] => (a, b, None),
            [a, b, c] => (a, b, Some(c)),
            _ => return None,
        };
        let bits = to.bits();
        let (low, high) = if to.is_signed() {
            (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
        } else {
            (0, (1i64 << bits) - 1)
        };
        let part = |l: &mut Self, source: &ast::Operand| {
            let value = l.source(source, T::S32)?;
            let clamp = |l: &mut Self, op, value, bound: i64| {
                let src = vec![value, Operand::Imm(bound as u64 & 0xffff_ffff)];
                l.value(Op::Int(op, IntType::S32), Width::W32, src)
            };
            let value = clamp(l, IntOp::Min, value, high);
            Some(clamp(l, IntOp::Max, value, low))
        };
        let (a, b) = (part(self, a)?, part(self, b)?);
        // What is above is inserted over the sign of what is below.
        let mut whole = b;
        let mut insert = |l: &mut Self, value: Operand, position: u32, length: u32| {
            let numbers = [position, length].map(|n| Operand::Imm(u64::from(n)));
            let src = vec![value, whole, numbers[0], numbers[1]];
            whole = l.value(Op::Int(IntOp::Bfi, IntType::U32), Width::W32, src);
        };
        insert(self, a, bits, bits);
        let upper = match c {
            Some(c) => self.source(c, T::B32)?,
            None => Operand::Imm(0),
        };
        if 2 * bits < 32 {
            insert(self, upper, 2 * bits, 32 - 2 * bits);
        }
        self.emit_to(Op::Mov(Width::W32), d, Width::W32, false, vec![whole])
    }
}
