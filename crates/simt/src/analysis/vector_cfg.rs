//! Control-flow graph of vector code, with the reads and writes of each block.

use crate::ir::vector::{Source, VectorFunction, VectorInst, VectorTerm};
use crate::ir::{Callee, Reg, Target};

/// Blocks that a terminator can go to.
pub fn successors(term: &VectorTerm) -> impl Iterator<Item = usize> + '_ {
    let block = |t: &Target| t.block().map(|b| b.index());
    let (few, table) = match term {
        VectorTerm::Jump(t) => ([block(t), None], &[][..]),
        VectorTerm::Branch { taken, other, .. } => ([block(taken), block(other)], &[][..]),
        VectorTerm::Table { targets, .. } => ([None; 2], &targets[..]),
        VectorTerm::Call { next, .. }
        | VectorTerm::Barrier { next, .. }
        | VectorTerm::Pause { next } => ([Some(*next as usize), None], &[][..]),
    };
    few.into_iter().flatten().chain(table.iter().filter_map(block))
}

/// Registers that an instruction reads, its guard's included.
pub fn sources(inst: &VectorInst) -> impl Iterator<Item = Reg> + '_ {
    inst.src.iter().flat_map(|s| s.registers()).chain(inst.guard.map(|g| g.reg))
}

/// Registers that a terminator reads.
pub fn terminator_sources(f: &VectorFunction, term: &VectorTerm) -> impl Iterator<Item = Reg> {
    let none = Source::Imm(0);
    let (sources, register) = match term {
        VectorTerm::Branch { guard, .. } => ([none; 3], Some(guard.reg)),
        VectorTerm::Table { index, .. } => ([*index, none, none], None),
        VectorTerm::Barrier { barrier, count, predicate, .. } => {
            ([*barrier, *count, predicate.unwrap_or(none)], None)
        }
        VectorTerm::Call { site, .. } => match f.calls[*site as usize].callee {
            Callee::Indirect(r) => ([none; 3], Some(r)),
            Callee::Direct(_) => ([none; 3], None),
        },
        VectorTerm::Jump(_) | VectorTerm::Pause { .. } => ([none; 3], None),
    };
    sources.into_iter().flat_map(|s| s.registers()).chain(register)
}

/// The register that a terminator writes.
pub fn result(term: &VectorTerm) -> Option<Reg> {
    match term {
        VectorTerm::Barrier { dst, .. } => dst.map(|d| d.reg),
        _ => None,
    }
}

/// Registers that a terminator reads or writes.
pub fn mentioned(f: &VectorFunction, term: &VectorTerm) -> impl Iterator<Item = Reg> {
    terminator_sources(f, term).chain(result(term))
}

/// Back-edges: header and latch of each loop.
pub fn back_edges(f: &VectorFunction) -> Vec<(usize, usize)> {
    f.blocks
        .iter()
        .enumerate()
        .flat_map(|(b, block)| successors(&block.term).map(move |s| (s, b)))
        .filter(|(s, b)| s <= b)
        .collect()
}
