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

/// Stands for the number of a block where an instruction of the prologue is meant.
pub const PROLOGUE: usize = usize::MAX;

/// By register: the block and number of the only instruction that writes it, if that has no guard.
pub type Writers = Vec<Option<(usize, usize)>>;

/// Finds the only writers of registers.
pub fn writers(f: &VectorFunction) -> Writers {
    let mut found = vec![None; f.classes.len()];
    let mut written = vec![false; f.classes.len()];
    let prologue = std::iter::once((PROLOGUE, &f.prologue));
    for (block, insts) in prologue.chain(f.blocks.iter().map(|b| &b.insts).enumerate()) {
        for (index, inst) in insts.iter().enumerate() {
            for d in &inst.dst {
                let again = std::mem::replace(&mut written[d.reg.index()], true);
                let alone = inst.guard.is_none() && !again;
                found[d.reg.index()] = alone.then_some((block, index));
            }
        }
    }
    for r in f.blocks.iter().filter_map(|b| result(&b.term)) {
        found[r.index()] = None;
    }
    found
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
