//! What vector code reads and writes, and where it goes.

use crate::ir::{Callee, Reg, Target};
use crate::vector::{VectorFunction, VectorInst, VectorTerm};

/// Blocks that a terminator can go to.
pub fn successors(term: &VectorTerm) -> Vec<usize> {
    let block = |t: &Target| t.block().map(|b| b.index());
    match term {
        VectorTerm::Jump(t) => block(t).into_iter().collect(),
        VectorTerm::Branch { taken, other, .. } => {
            block(taken).into_iter().chain(block(other)).collect()
        }
        VectorTerm::Table { targets, .. } => targets.iter().filter_map(block).collect(),
        VectorTerm::Call { next, .. }
        | VectorTerm::Barrier { next, .. }
        | VectorTerm::Pause { next } => vec![*next as usize],
    }
}

/// Registers that an instruction reads, its guard's included.
pub fn sources(inst: &VectorInst) -> impl Iterator<Item = Reg> + '_ {
    inst.src.iter().flat_map(|s| s.registers()).chain(inst.guard.map(|g| g.reg))
}

/// Registers that a terminator reads.
pub fn terminator_sources(f: &VectorFunction, term: &VectorTerm) -> Vec<Reg> {
    match term {
        VectorTerm::Branch { guard, .. } => vec![guard.reg],
        VectorTerm::Table { index, .. } => index.registers().collect(),
        VectorTerm::Barrier { barrier, count, predicate, .. } => {
            let read = [Some(barrier), Some(count), predicate.as_ref()];
            read.into_iter().flatten().flat_map(|s| s.registers()).collect()
        }
        VectorTerm::Call { site, .. } => match f.calls[*site as usize].callee {
            Callee::Indirect(r) => vec![r],
            Callee::Direct(_) => Vec::new(),
        },
        VectorTerm::Jump(_) | VectorTerm::Pause { .. } => Vec::new(),
    }
}

/// The register that a terminator writes.
pub fn result(term: &VectorTerm) -> Option<Reg> {
    match term {
        VectorTerm::Barrier { dst, .. } => dst.map(|d| d.reg),
        _ => None,
    }
}

/// Registers that a terminator reads or writes.
pub fn mentioned(f: &VectorFunction, term: &VectorTerm) -> Vec<Reg> {
    let mut all = terminator_sources(f, term);
    all.extend(result(term));
    all
}

/// Back-edges: header and latch of each loop.
pub fn back_edges(f: &VectorFunction) -> Vec<(usize, usize)> {
    f.blocks
        .iter()
        .enumerate()
        .flat_map(|(b, block)| successors(&block.term).into_iter().map(move |s| (s, b)))
        .filter(|(s, b)| s <= b)
        .collect()
}
