//! Floating-point arithmetic, approximations included.

use super::Lowering;
use crate::op::{FloatMode, FloatOp, FloatType, Op, Round, TestProperty};
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
        // `sub.rn.f32.f16` and the like mix formats: widen the narrow source first.
        let mut types = inst.types();
        let first = types.next()?;
        if first != ty && matches!(inst.opcode, Opcode::Add | Opcode::Sub | Opcode::Fma) {
            return None;
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
            Opcode::Min | Opcode::Max if inst.has(M::Xorsign) || inst.operands.len() != 3 => {
                return None;
            }
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
