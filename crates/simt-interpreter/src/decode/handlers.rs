//! Handler selection for lane-wise operations.

use super::*;
use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{self, Operands, Rare, Target};
use crate::ops::{convert, float, integer, mov_carry_predicate, special};

/// The float type whose results the instruction saturates.
pub(super) fn saturated(op: &Op) -> Option<FloatType> {
    match op {
        Op::Float(_, ty, mode) if mode.sat => Some(*ty),
        Op::Convert(Convert::Float { to, mode, .. } | Convert::FromInt { to, mode, .. })
            if mode.sat =>
        {
            Some(*to)
        }
        Op::Convert(Convert::Integral { ty, mode }) if mode.sat => Some(*ty),
        _ => None,
    }
}

pub(super) fn blend(bytes: u32, t: Target) -> Option<Handler> {
    Some(match bytes {
        2 => map::blend::<u16>(t),
        4 => map::blend::<u32>(t),
        8 => map::blend::<u64>(t),
        16 => map::blend::<u128>(t),
        _ => return None,
    })
}

pub(super) fn splat(bytes: u32, t: Target) -> Option<Handler> {
    Some(match bytes {
        2 => map::splat::<u16>(t),
        4 => map::splat::<u32>(t),
        8 => map::splat::<u64>(t),
        16 => map::splat::<u128>(t),
        _ => return None,
    })
}

/// The handler of an instruction whose operands are affine values of the lane's number, and its
/// constant.
pub(super) fn of_formulas(inst: &VectorInst, t: Target) -> Option<(Handler, i64)> {
    let stride = |i: usize| match inst.src[i] {
        Source::Affine(_, stride) | Source::HalfAffine(_, _, stride) => stride,
        _ => 0,
    };
    let halves = inst.src.iter().any(|s| matches!(s, Source::HalfAffine(..)));
    let operands = if halves { Operands::HalfAffine } else { Operands::Formulas };
    Some(match inst.op {
        Op::Mov(Width::W16) => (map::ramp::<u16>(operands, t), stride(0)),
        Op::Mov(Width::W32) => (map::ramp::<u32>(operands, t), stride(0)),
        Op::Mov(Width::W64) => (map::ramp::<u64>(operands, t), stride(0)),
        Op::Setp(op, ty) => {
            let half = |i: usize| i32::try_from(stride(i)).ok();
            let strides = i64::from(half(1)?) << 32 | i64::from(half(0)? as u32);
            (float::comparison(op, ty, operands, t)?, strides)
        }
        _ => return None,
    })
}

/// The handler of a lane-wise instruction, and its constant.
pub(super) fn lanewise(op: &Op, t: Target) -> Option<(Handler, i64)> {
    let run = match *op {
        Op::Mov(w) => mov_carry_predicate::copy(w, t),
        Op::PredMov => mov_carry_predicate::pred_copy(),
        Op::Pack { part, whole } => mov_carry_predicate::pack(part, whole, t)?,
        Op::Unpack { part, whole } => mov_carry_predicate::unpack(part, whole, t)?,
        Op::Int(IntOp::Bfi, ty) => mov_carry_predicate::insert(ty.width(), t)?,
        Op::Int(op, ty) => integer::handler(op, ty, t)?,
        Op::Carry { subtract, width, carry_in, carry_out } => {
            mov_carry_predicate::carry(subtract, width, carry_in, carry_out, t)?
        }
        Op::Prmt(mode) => integer::permute(mode, t),
        Op::Lop3(table) => return Some((mov_carry_predicate::lop3(t), i64::from(table))),
        Op::Dp4a(a, b) => integer::dot4(a, b, t),
        Op::Dp2a(a, b, high) => integer::dot2(a, b, high, t),
        Op::Extend { from, bits, signed, to } => convert::extend(from, bits, signed, to, t)?,
        Op::Float(op, ty, mode) => float::handler(op, ty, mode, t)?,
        Op::Convert(op) => convert::handler(op, t)?,
        Op::Test(property, ty) => float::test_property(property, ty, t)?,
        Op::Setp(op, ty) => float::comparison(op, ty, Operands::Lanes, t)?,
        Op::Pred(op) => mov_carry_predicate::pred_logic(op),
        Op::PredNot => mov_carry_predicate::pred_not(),
        Op::PredSelect => mov_carry_predicate::pred_select(),
        Op::Select(w) => match w {
            Width::W16 => map::select::<u16>(t),
            Width::W32 => map::select::<u32>(t),
            Width::W64 => map::select::<u64>(t),
            Width::W128 => map::select::<u128>(t),
        },
        Op::FrameAddress(offset) => {
            return Some((mov_carry_predicate::frame_address(t), i64::from(offset)));
        }
        Op::ToGeneric(space) => mov_carry_predicate::to_generic(space, t)?,
        Op::FromGeneric(space) => mov_carry_predicate::from_generic(space, t)?,
        Op::IsSpace(space) => mov_carry_predicate::in_space(space),
        Op::ActiveMask => mov_carry_predicate::active_mask(t),
        Op::Special(s) => return Some((mov_carry_predicate::special(s, t), special::code(s))),
        _ => return None,
    };
    Some((run, 0))
}

struct Unsupported;
struct Trap;
struct Fence;

impl map::Body for Unsupported {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = map::active(machine, ins);
        if m == 0 {
            return Step::Next;
        }
        // The text is put in by the caller, which knows the function.
        let kind = simt::kernel::FaultKind::UnsupportedInstruction { text: String::new() };
        machine.fail(m.trailing_zeros(), kind)
    }
}

impl map::Body for Trap {
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = map::active(machine, ins);
        if m == 0 {
            return Step::Next;
        }
        machine.fail(m.trailing_zeros(), simt::kernel::FaultKind::Trap)
    }
}

impl map::Body for Fence {
    fn run(_: &mut HandlerContext<'_>, _: &Ins) -> Step {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Step::Next
    }
}

pub(super) fn unsupported() -> Handler {
    map::versions::<Unsupported, Unsupported>(Rare(Target::Baseline))
}

pub(super) fn trap() -> Handler {
    map::versions::<Trap, Trap>(Rare(Target::Baseline))
}

pub(super) fn fence() -> Handler {
    map::versions::<Fence, Fence>(Rare(Target::Baseline))
}
