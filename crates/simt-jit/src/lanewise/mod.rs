//! Lane-wise operations, written once over a trait of the instruction set.
//!
//! [`isa::VectorIsa`] is what they ask of AVX-512 and AVX2: registers, operands, masks, and the few
//! steps that the sets make differently. `codes` names the instructions that both have. An operation
//! makes one piece of its result after the other, and reads all of a piece's sources before it puts
//! the piece.

mod bits;
pub(crate) mod codes;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod half;
mod integer;
pub(crate) mod isa;
pub(crate) mod math;

use isa::VectorIsa;
use simt::ir::op::Op;
use simt::ir::vector::VectorInst;

/// The form of an arithmetic instruction on lanes, if there is one: who asks and who makes it ask here.
pub(crate) fn form<I: VectorIsa>(inst: &VectorInst) -> Option<Form<I>> {
    Some(match inst.op {
        Op::Int(op, ty) => Form::Integer(integer::form(inst, op, ty)?),
        Op::Float(op, ty, mode) => {
            let emitter = half::form(op, ty, mode).or_else(|| float::form(op, ty, mode))?;
            Form::Float(emitter)
        }
        Op::Convert(convert) => {
            Form::Convert(half::conversion(convert).or_else(|| convert::form(convert))?)
        }
        ref op => Form::Bits(bits::form(op)?),
    })
}

/// What makes an instruction on lanes.
pub(crate) enum Form<I> {
    Integer(integer::Form<I>),
    Float(float::Emitter<I>),
    Convert(convert::Emitter<I>),
    Bits(bits::Emitter<I>),
}

impl<I: VectorIsa> Form<I> {
    /// Makes it, the instruction that the form was found for.
    pub(crate) fn make(&self, i: &mut I, inst: &VectorInst) {
        match (self, &inst.op) {
            (Self::Integer(form), _) => form.make(i, inst),
            (Self::Float(make), Op::Float(op, ty, mode)) => make(i, inst, *op, *ty, *mode),
            (Self::Convert(make), Op::Convert(convert)) => make(i, inst, *convert),
            (Self::Bits(make), _) => make(i, inst),
            _ => i.unsupported(),
        }
    }
}
