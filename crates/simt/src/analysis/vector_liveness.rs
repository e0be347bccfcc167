//! Liveness of vector code: which registers may still be read where a block starts and ends.
//!
//! This is of the vector IR: what the prologue computes is live from the first block on, and
//! shadow registers are live where they are read. A guarded definition does not end a live range: lanes
//! without the guard keep the old value. What other lanes wait for is not looked at here.

use crate::analysis::dataflow::{Effects, Live};
use crate::analysis::vector_cfg::{result, sources, successors, terminator_sources};
use crate::ir::Reg;
use crate::ir::vector::{StorageClass, VectorFunction, VectorInst};

/// True if the instruction writes its results in all lanes that run it, for all values of its sources.
pub(crate) fn overwrites(inst: &VectorInst) -> bool {
    inst.guard.is_none()
}

/// Registers that are live at the start of a block in the independent form.
fn handed_over(f: &VectorFunction, block: usize) -> impl Iterator<Item = Reg> + '_ {
    f.blocks[block].live_in.iter().flat_map(|r| {
        let high = match f.storage[r.index()] {
            StorageClass::HalfAffine { high, .. } => Some(high),
            _ => None,
        };
        std::iter::once(*r).chain(high)
    })
}

/// Live registers of a function.
pub(crate) fn live(f: &VectorFunction) -> Live {
    let mut effects = Effects::new(f.classes.len());
    for (b, block) in f.blocks.iter().enumerate() {
        effects.start_block();
        handed_over(f, b).for_each(|r| effects.read(r));
        block.checks.iter().for_each(|check| effects.read(check.reg));
        for inst in &block.insts {
            sources(inst).for_each(|r| effects.read(r));
            for d in inst.dst.iter().filter(|_| overwrites(inst)) {
                effects.write(d.reg);
            }
        }
        terminator_sources(f, &block.term).for_each(|r| effects.read(r));
        result(&block.term).into_iter().for_each(|r| effects.write(r));
    }
    let successors: Vec<Vec<usize>> =
        f.blocks.iter().map(|b| successors(&b.term).collect()).collect();
    Live::of(effects, &successors)
}
