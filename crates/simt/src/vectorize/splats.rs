//! Broadcast scalars: values computed once that some instruction reads a lane.

use crate::ir::vector::{StorageClass, VectorFunction, VectorTerm};

/// Stores such scalars, by register, in both forms.
pub(super) fn mark_splats(f: &mut VectorFunction, splats: &[bool]) {
    for (storage, splat) in f.storage.iter_mut().zip(splats) {
        if *splat {
            *storage = StorageClass::ScalarAndVector;
        }
    }
    for dest in f.prologue.iter_mut().flat_map(|i| &mut i.dst) {
        dest.splat = splats[dest.reg.index()];
    }
    for block in &mut f.blocks {
        for dest in block.insts.iter_mut().flat_map(|i| &mut i.dst) {
            dest.splat = splats[dest.reg.index()];
        }
        if let VectorTerm::Barrier { dst: Some(dest), .. } = &mut block.term {
            dest.splat = splats[dest.reg.index()];
        }
    }
}
