//! Floating-point arithmetic, approximations included.

use super::Lowering;
use crate::ir::Operand;
use crate::ir::op::{
    Convert, FloatMode, FloatOp, FloatType, IntOp, IntType, Op, Round, TestProperty,
};
use ptx::ast::{self, Modifier as M, Opcode, Rounding, ScalarType as T};

/// The floating-point type, if it is one that arithmetic knows.
pub(super) fn float_type(ty: T) -> Option<FloatType> {
    Some(match ty {
        T::F16 => FloatType::F16,
        T::Bf16 => FloatType::BF16,
        T::F16x2 => FloatType::F16x2,
        T::Bf16x2 => FloatType::BF16x2,
        T::F32 => FloatType::F32,
        T::F32x2 => FloatType::F32x2,
        T::F64 => FloatType::F64,
        _ => return None,
    })
}

/// The rounding of an arithmetic instruction; nearest when none is written.
pub(super) fn round_of(inst: &ast::Instruction) -> Option<Round> {
    Some(match inst.rounding() {
        None | Some(Rounding::Rn) => Round::Near,
        Some(Rounding::Rz) => Round::Zero,
        Some(Rounding::Rm) => Round::Down,
        Some(Rounding::Rp) => Round::Up,
        Some(Rounding::Rna) => Round::NearAway,
        Some(_) => return None,
    })
}

/// The mode of an arithmetic instruction.
pub(super) fn mode_of(inst: &ast::Instruction) -> Option<FloatMode> {
    Some(FloatMode { round: round_of(inst)?, ftz: inst.has(M::Ftz), sat: inst.has(M::Sat) })
}

impl Lowering<'_> {
    pub(super) fn float(&mut self, inst: &ast::Instruction) -> Option<()> {
        let ty = match inst.ty()? {
            // The sign operations are also defined on the bits of bf16 and f16 registers.
            ty if ty.is_float() => ty,
            _ => return None,
        };
        if inst.opcode == Opcode::Testp {
            return self.testp(inst, float_type(ty)?);
        }
        let mut types = inst.types();
        let first = types.next()?;
        if first != ty && matches!(inst.opcode, Opcode::Add | Opcode::Sub | Opcode::Fma) {
            return self.mixed(inst, first, ty);
        }
        if matches!(inst.opcode, Opcode::Min | Opcode::Max)
            && (inst.has(M::Abs) || inst.operands.len() != 3)
        {
            return self.extreme(inst, ty);
        }
        if matches!(inst.opcode, Opcode::Min | Opcode::Max) && self.is_flushed_half(inst, ty) {
            return self.extreme(inst, ty);
        }
        let float = float_type(ty)?;
        let mode = mode_of(inst)?;
        let approx = inst.has(M::Approx);
        let double = ty == T::F64;
        let op = match inst.opcode {
            Opcode::Add => FloatOp::Add,
            Opcode::Sub => FloatOp::Sub,
            Opcode::Mul => FloatOp::Mul,
            Opcode::Fma if inst.has(M::Relu) => FloatOp::FmaRelu,
            Opcode::Fma | Opcode::Mad if !inst.has(M::Oob) => FloatOp::Fma,
            Opcode::Div => FloatOp::Div,
            Opcode::Rcp if approx && double => FloatOp::RcpApproxCoarse,
            Opcode::Rcp if approx => FloatOp::RcpApprox,
            Opcode::Rcp => FloatOp::Rcp,
            Opcode::Sqrt => FloatOp::Sqrt,
            Opcode::Rsqrt if double && mode.ftz => FloatOp::RsqrtApproxCoarse,
            Opcode::Rsqrt => FloatOp::RsqrtApprox,
            Opcode::Min if inst.has(M::NaN) => FloatOp::MinNan,
            Opcode::Max if inst.has(M::NaN) => FloatOp::MaxNan,
            Opcode::Min => FloatOp::Min,
            Opcode::Max => FloatOp::Max,
            Opcode::Neg => FloatOp::Neg,
            Opcode::Abs => FloatOp::Abs,
            Opcode::Copysign => FloatOp::CopySign,
            Opcode::Ex2 => FloatOp::Ex2,
            Opcode::Lg2 => FloatOp::Lg2,
            Opcode::Sin => FloatOp::Sin,
            Opcode::Cos => FloatOp::Cos,
            Opcode::Tanh => FloatOp::Tanh,
            _ => return None,
        };
        self.operation(Op::Float(op, float, mode), ty, float.width(), &inst.operands)
    }

    /// `add.f32.f16` and the like: all sources but the last are narrow, and widened first.
    fn mixed(&mut self, inst: &ast::Instruction, wide: T, narrow: T) -> Option<()> {
        let op = match inst.opcode {
            Opcode::Add => FloatOp::Add,
            Opcode::Sub => FloatOp::Sub,
            _ => FloatOp::Fma,
        };
        let [d, sources @ .., last] = &inst.operands[..] else { return None };
        let (wide_type, narrow_type) = (float_type(wide)?, float_type(narrow)?);
        let widen = Op::Convert(Convert::Float {
            from: narrow_type,
            to: wide_type,
            mode: FloatMode::default(),
            relu: false,
        });
        let mut src = Vec::with_capacity(3);
        for source in sources {
            let source = self.source(source, narrow)?;
            src.push(self.value(widen.clone(), wide_type.width(), vec![source]));
        }
        src.push(self.source(last, wide)?);
        let op = Op::Float(op, wide_type, mode_of(inst)?);
        self.emit_to(op, d, wide_type.width(), false, src)
    }

    /// `min` and `max` of magnitudes, with the product's sign, or of three.
    fn extreme(&mut self, inst: &ast::Instruction, ty: T) -> Option<()> {
        let (d, sources) = inst.operands.split_first()?;
        let float = float_type(ty)?;
        let (width, mode) = (float.width(), mode_of(inst)?);
        let op = match (inst.opcode, inst.has(M::NaN)) {
            (Opcode::Min, false) => FloatOp::Min,
            (Opcode::Min, true) => FloatOp::MinNan,
            (_, false) => FloatOp::Max,
            (_, true) => FloatOp::MaxNan,
        };
        let given = sources.iter().map(|s| self.source(s, ty)).collect::<Option<Vec<_>>>()?;
        let mut rest = given.clone().into_iter();
        let magnitude = |l: &mut Self, value| {
            let value = l.flushed_half(inst, ty, value);
            match inst.has(M::Abs) {
                true => l.value(Op::Float(FloatOp::Abs, float, mode), width, vec![value]),
                false => value,
            }
        };
        let first = rest.next()?;
        let mut most = magnitude(self, first);
        for value in rest {
            let value = magnitude(self, value);
            most = self.value(Op::Float(op, float, mode), width, vec![most, value]);
        }
        if inst.has(M::Xorsign) {
            let [a, b] = given[..] else { return None };
            let signs = Operand::Imm(match float {
                FloatType::F16 | FloatType::BF16 => 0x8000,
                FloatType::F16x2 | FloatType::BF16x2 => 0x8000_8000,
                _ => 0x8000_0000,
            });
            let bits = IntType::of(width, false);
            let sign = self.value(Op::Int(IntOp::Xor, bits), width, vec![a, b]);
            let sign = self.value(Op::Int(IntOp::And, bits), width, vec![sign, signs]);
            most = self.value(Op::Int(IntOp::Or, bits), width, vec![most, sign]);
            // Of a number that is the number; a NaN loses the sign.
            return self.emit_to(
                Op::Float(FloatOp::MinNan, float, mode),
                d,
                width,
                false,
                vec![most, most],
            );
        }
        self.emit_to(Op::Mov(width), d, width, false, vec![most])
    }

    fn is_flushed_half(&self, inst: &ast::Instruction, ty: T) -> bool {
        inst.has(M::Ftz) && matches!(ty, T::F16 | T::F16x2)
    }

    /// The operand of a comparison: with subnormal f16 numbers zero, if the instruction says so. A product
    /// with one is flushed and else exact.
    pub(super) fn flushed_half(
        &mut self,
        inst: &ast::Instruction,
        ty: T,
        value: Operand,
    ) -> Operand {
        let (true, Some(float)) = (self.is_flushed_half(inst, ty), float_type(ty)) else {
            return value;
        };
        let one = if ty == T::F16 { 0x3c00 } else { 0x3c00_3c00 };
        let mode = FloatMode { ftz: true, ..FloatMode::default() };
        let op = Op::Float(FloatOp::Mul, float, mode);
        self.value(op, float.width(), vec![value, Operand::Imm(one)])
    }

    fn testp(&mut self, inst: &ast::Instruction, ty: FloatType) -> Option<()> {
        let property = inst.modifiers.iter().find_map(|m| {
            Some(match m {
                M::Finite => TestProperty::Finite,
                M::Infinite => TestProperty::Infinite,
                M::Number => TestProperty::Number,
                M::Notanumber => TestProperty::NotANumber,
                M::Normal => TestProperty::Normal,
                M::Subnormal => TestProperty::Subnormal,
                _ => return None,
            })
        })?;
        let [p, a] = &inst.operands[..] else { return None };
        let a = self.source(a, inst.ty()?)?;
        let p = self.predicate_dest(p)?;
        self.emit(Op::Test(property, ty), vec![p], vec![a]);
        Some(())
    }
}
