//! Use counts: how often each register of a function is read and written.

use crate::analysis::vector_cfg::{mentioned, sources};
use crate::ir::vector::VectorFunction;

/// How often each register of a function is mentioned.
pub(super) struct UseCounts {
    /// By register: sources that it is, and terminators that read or write it.
    pub(super) reads: Vec<i32>,
    /// By register: instructions that write it.
    pub(super) writes: Vec<i32>,
}

impl UseCounts {
    /// Counts.
    pub(super) fn of(f: &VectorFunction) -> Self {
        let none = || vec![0; f.classes.len()];
        let (mut reads, mut writes) = (none(), none());
        for inst in f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts)) {
            sources(inst).for_each(|r| reads[r.index()] += 1);
            inst.dst.iter().for_each(|d| writes[d.reg.index()] += 1);
        }
        for r in f.blocks.iter().flat_map(|b| mentioned(f, &b.term)) {
            reads[r.index()] += 1;
        }
        Self { reads, writes }
    }
}
