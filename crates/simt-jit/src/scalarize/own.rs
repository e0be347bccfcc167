//! Operands of a scalarised loop: what one lane sees of a source.

use simt::ir::Reg;
use simt::ir::vector::{Source, StorageClass, VectorFunction};

/// A source as one lane sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// Its own value.
    Lane(Reg),
    /// That of all lanes.
    Uniform(Reg),
    Constant(u64),
}

/// A source as one lane sees it; `None` if there is no code for it.
pub(super) fn own(f: &VectorFunction, source: Source) -> Option<Own> {
    match source {
        Source::Imm(v) => Some(Own::Constant(v)),
        Source::Vector(r) | Source::Scalar(r) | Source::Affine(r, 0) => {
            match f.storage[r.index()] {
                StorageClass::Vector => Some(Own::Lane(r)),
                StorageClass::Scalar | StorageClass::ScalarAndVector => Some(Own::Uniform(r)),
                _ => None,
            }
        }
        _ => None,
    }
}
