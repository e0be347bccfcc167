//! Spin loops of a function: which loop that may wait for other threads each block is in.

use simt::analysis::vector_cfg::successors;
use simt::ir::vector::VectorFunction;
use std::collections::BTreeMap;

/// First and last block of the innermost spin loop that each block is in.
pub(super) fn innermost(f: &VectorFunction) -> Vec<Option<(u32, u32)>> {
    let mut latches: BTreeMap<u32, u32> = BTreeMap::new();
    for (latch, block) in f.blocks.iter().enumerate().filter(|(_, b)| b.spins) {
        for header in successors(&block.term).filter(|header| *header <= latch) {
            let last = latches.entry(header as u32).or_default();
            *last = (latch as u32).max(*last);
        }
    }
    let mut loops: Vec<(u32, u32)> = latches.into_iter().collect();
    // An inner loop is shorter, and comes later.
    loops.sort_by_key(|(header, latch)| std::cmp::Reverse(latch - header));
    let mut innermost = vec![None; f.blocks.len()];
    for (header, latch) in loops {
        innermost[header as usize..=latch as usize].fill(Some((header, latch)));
    }
    innermost
}
