//! Matrix products of 16 rows by a processor's own vectors: the handlers, of whichever instruction set.

use crate::handler_context::{Handler, HandlerContext, Ins, Step};
use crate::ops::map::{self, Body, Target};
use crate::ops::mma::{Operands, together};
use simt::ir::matrix::MatrixType;
use std::marker::PhantomData;

pub(super) const F16: u8 = 0;
pub(super) const BF16: u8 = 1;
pub(super) const TF32: u8 = 2;

/// An instruction set that multiplies matrices of one format.
pub(super) trait Vectors {
    /// Which it is.
    const TARGET: Target;

    /// A processor of this target has all instructions that a product needs.
    fn are_complete() -> bool {
        true
    }

    /// What makes D in the lanes of a mask, if the processor has the instructions.
    fn product<const FORMAT: u8>() -> unsafe fn(&mut HandlerContext<'_>, Operands, u32);
}

struct Product<V, const FORMAT: u8>(PhantomData<V>);

impl<V: Vectors, const FORMAT: u8> Body for Product<V, FORMAT> {
    #[inline(always)]
    fn run(machine: &mut HandlerContext<'_>, ins: &Ins) -> Step {
        let m = match together(machine, ins) {
            Ok(m) => m,
            Err(step) => return step,
        };
        // SAFETY: this handler was chosen for a processor with the instructions.
        unsafe { V::product::<FORMAT>()(machine, Operands::of(ins), m) };
        Step::Next
    }
}

/// The handler of a product of 16 rows, all of one format; `None` for formats without one, or if the
/// processor lacks an instruction.
pub(super) fn handler<V: Vectors>(format: MatrixType) -> Option<Handler> {
    let t = V::TARGET;
    if !V::are_complete() {
        return None;
    }
    Some(match format {
        MatrixType::F16 => map::versions::<Product<V, F16>, Product<V, F16>>(t),
        MatrixType::BF16 => map::versions::<Product<V, BF16>, Product<V, BF16>>(t),
        MatrixType::TF32 => map::versions::<Product<V, TF32>, Product<V, TF32>>(t),
        _ => return None,
    })
}
