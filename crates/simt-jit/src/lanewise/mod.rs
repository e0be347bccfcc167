//! Lane-wise operations, written once over a trait of the instruction set.
//!
//! [`isa::VectorIsa`] is what they ask of AVX-512 and AVX2: registers, operands, masks, and the few
//! steps that the sets make differently. `codes` names the instructions that both have. An operation
//! makes one piece of its result after the other, and reads all of a piece's sources before it puts
//! the piece.

pub(crate) mod bits;
pub(crate) mod codes;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod half;
pub(crate) mod integer;
pub(crate) mod isa;
pub(crate) mod math;
