//! `cvt.rs`: stochastic rounding by random bits that the program gives.
//!
//! A number between two neighbours of a format is rounded away from zero if its distance from the
//! nearer to zero and the random bits, as a fraction of the distance of the two, are 1 or more
//! together: the bits are added to those of the mantissa that are cut off, and a carry counts. In
//! f32 that is an addition of integers; where the format is subnormal and its numbers have less
//! mantissa, one that its smallest normal number was added to.
//!
//! | to | random bits of each |
//! |---|---|
//! | f16 | 13, the low ones of a half of the operand |
//! | bf16 | 16, a half |
//! | 8 and 6 bits | 16: the upper half for `b`, turned around for `a`; so the lower for `f` and `e` |
//! | 4 bits | as these, with bytes 3 and 1 for the upper half, 2 and 0 for the lower |
//!
//! The manual says which half is whose. That two share one by turning it around, and the order of
//! bytes, is what two published measurements of sm_100a agree in.

use crate::ir::Operand;
use crate::ir::op::{
    Class, Compare, CompareType, Convert, FloatMode, FloatOp, FloatType, Fp8, IntOp, IntType, Op,
    PrmtMode, Round, Width,
};
use crate::lower::Lowering;
use crate::lower::cvt_fp8::{extremes, upper_bit};
use ptx::ast::{self, Modifier as M, ScalarType as T};

/// Bits of the mantissa of f32, and its infinity.
const MANTISSA_BITS: u64 = 23;
const INFINITY: u64 = 0x7f80_0000;
const SIGN: u64 = 0x8000_0000;
/// Bias of the exponent of f32.
const BIAS: i64 = 127;
/// Random bits for a number, but for f16.
const RANDOM_BITS: u64 = 16;
/// The selector of `prmt` that exchanges the two bytes in the middle.
const MIDDLE_EXCHANGED: u64 = 0x3120;

/// What rounding has to know of a format.
#[derive(Clone, Copy)]
struct Format {
    mantissa_bits: u64,
    /// Exponent of the smallest normal number; `None`: that of f32.
    exponent_min: Option<i64>,
}

impl Format {
    const fn new(mantissa_bits: u64, exponent_min: i64) -> Self {
        Self { mantissa_bits, exponent_min: Some(exponent_min) }
    }
}

const F16: Format = Format::new(10, -14);
const BF16: Format = Format { mantissa_bits: 7, exponent_min: None };

/// A format that four numbers are packed in.
fn narrow(ty: T) -> Option<(Format, Fp8)> {
    Some(match ty {
        T::E4m3x4 => (Format::new(3, -6), Fp8::E4M3),
        T::E5m2x4 => (Format::new(2, -14), Fp8::E5M2),
        T::E2m3x4 => (Format::new(3, 0), Fp8::E2M3),
        T::E3m2x4 => (Format::new(2, -2), Fp8::E3M2),
        T::E2m1x4 => (Format::new(1, 0), Fp8::E2M1),
        _ => return None,
    })
}

impl Lowering<'_> {
    pub(super) fn stochastic(&mut self, inst: &ast::Instruction) -> Option<()> {
        let to = inst.types().next()?;
        match (to, &inst.operands[..]) {
            (_, [d, ast::Operand::Vector(numbers), random]) => {
                self.four_of(inst, d, numbers, random)
            }
            (T::F16x2, [d, a, b, random]) => {
                self.halves_at_random(inst, d, [a, b], random, (F16, FloatType::F16))
            }
            (T::Bf16x2, [d, a, b, random]) => {
                self.halves_at_random(inst, d, [a, b], random, (BF16, FloatType::BF16))
            }
            _ => None,
        }
    }

    /// Two halves, the first the upper.
    fn halves_at_random(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        numbers: [&ast::Operand; 2],
        random: &ast::Operand,
        (format, half): (Format, FloatType),
    ) -> Option<()> {
        let random = self.source(random, T::B32)?;
        let bits = (MANTISSA_BITS - format.mantissa_bits).min(RANDOM_BITS);
        let upper = self.word(IntOp::Shr, random, Operand::Imm(RANDOM_BITS));
        let mut parts = Vec::new();
        for (number, random) in numbers.into_iter().zip([upper, random]) {
            let random = self.word(IntOp::And, random, Operand::Imm((1 << bits) - 1));
            let rounded = self.rounded(inst, number, (random, bits), format)?;
            let (from, mode, relu) = (FloatType::F32, FloatMode::default(), inst.has(M::Relu));
            let convert = Op::Convert(Convert::Float { from, to: half, mode, relu });
            let mut part = self.value(convert, Width::W16, vec![rounded]);
            if inst.has(M::Satfinite) {
                part = self.finite(part, Width::W16, extremes(half)?);
            }
            parts.insert(0, part);
        }
        self.emit_to(Op::Pack { part: Width::W16, whole: Width::W32 }, d, Width::W32, false, parts)
    }

    /// Four numbers of 8 bits and fewer, the first the uppermost.
    fn four_of(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        numbers: &[ast::Operand],
        random: &ast::Operand,
    ) -> Option<()> {
        let (format, eight) = narrow(inst.types().next()?)?;
        let mut random = self.source(random, T::B32)?;
        if eight == Fp8::E2M1 {
            let src = vec![random, Operand::Imm(0), Operand::Imm(MIDDLE_EXCHANGED)];
            random = self.value(Op::Prmt(PrmtMode::Index), Width::W32, src);
        }
        let turned = Op::Int(IntOp::Brev, IntType::U32);
        let turned = self.value(turned, Width::W32, vec![random]);
        let low = |l: &mut Self, bits| l.word(IntOp::And, bits, Operand::Imm(0xffff));
        let high = |l: &mut Self, bits| l.word(IntOp::Shr, bits, Operand::Imm(RANDOM_BITS));
        let slices = [low(self, turned), high(self, random), high(self, turned), low(self, random)];
        (numbers.len() == slices.len()).then_some(())?;
        let mut pairs = Vec::new();
        for (numbers, slices) in numbers.chunks(2).zip(slices.chunks(2)) {
            let mut pair = Operand::Imm(0);
            for (number, random) in numbers.iter().zip(slices) {
                let rounded = self.rounded(inst, number, (*random, RANDOM_BITS), format)?;
                let to = Convert::ToEight { to: eight, round: Round::Near, finite: true };
                let part = self.value(Op::Convert(to), Width::W16, vec![rounded]);
                let (u16, above) = (IntType::U16, Operand::Imm(upper_bit(eight)));
                let room = self.value(Op::Int(IntOp::Shl, u16), Width::W16, vec![pair, above]);
                pair = self.value(Op::Int(IntOp::Or, u16), Width::W16, vec![room, part]);
            }
            pairs.insert(0, pair);
        }
        if eight == Fp8::E2M1 {
            let (u16, byte) = (IntType::U16, Operand::Imm(8));
            let high = self.value(Op::Int(IntOp::Shl, u16), Width::W16, vec![pairs[1], byte]);
            return self.emit_to(
                Op::Int(IntOp::Or, u16),
                d,
                Width::W16,
                false,
                vec![high, pairs[0]],
            );
        }
        self.emit_to(Op::Pack { part: Width::W16, whole: Width::W32 }, d, Width::W32, false, pairs)
    }

    /// The f32 that is the number, rounded to a format, if that has room for it; with a number of random bits.
    fn rounded(
        &mut self,
        inst: &ast::Instruction,
        number: &ast::Operand,
        (random, random_bits): (Operand, u64),
        format: Format,
    ) -> Option<Operand> {
        let mut number = self.source(number, T::F32)?;
        if inst.has(M::Relu) {
            number = self.not_negative(number, FloatType::F32);
        }
        let cut = MANTISSA_BITS - format.mantissa_bits;
        let random = self.word(IntOp::Shl, random, Operand::Imm(cut - random_bits));
        let sign = self.word(IntOp::And, number, Operand::Imm(SIGN));
        let magnitude = self.word(IntOp::And, number, Operand::Imm(SIGN - 1));
        let keep = Operand::Imm(u64::from(u32::MAX) & !((1 << cut) - 1));
        let carry = |l: &mut Self, bits| {
            let sum = l.word(IntOp::Add, bits, random);
            l.word(IntOp::And, sum, keep)
        };
        let normal = carry(self, magnitude);
        let mut rounded = normal;
        if let Some(exponent) = format.exponent_min {
            let least = Operand::Imm(((BIAS + exponent) as u64) << MANTISSA_BITS);
            // What is cut off here is less than the last random bit.
            let float = |op, round| {
                Op::Float(op, FloatType::F32, FloatMode { round, ..FloatMode::default() })
            };
            let add = float(FloatOp::Add, Round::Zero);
            let lifted = self.value(add, Width::W32, vec![magnitude, least]);
            let lifted = carry(self, lifted);
            let sub = float(FloatOp::Sub, Round::Near);
            let subnormal = self.value(sub, Width::W32, vec![lifted, least]);
            rounded = self.choose_below(magnitude, least, subnormal, normal);
        }
        // Infinity and NaN stay.
        let rounded = self.choose_below(magnitude, Operand::Imm(INFINITY), rounded, magnitude);
        Some(self.word(IntOp::Or, rounded, sign))
    }

    /// One of two by whether a number is below another, all words.
    pub(super) fn choose_below(
        &mut self,
        a: Operand,
        than: Operand,
        yes: Operand,
        no: Operand,
    ) -> Operand {
        let below = self.temporary(Class::Pred);
        let test = Op::Setp(Compare::Lt, CompareType::Int(IntType::U32));
        self.emit(test, vec![below], vec![a, than]);
        self.value(Op::Select(Width::W32), Width::W32, vec![yes, no, below.into()])
    }
}
