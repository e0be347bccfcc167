//! Slot colouring: registers whose live intervals do not overlap share a slot of the register file.
//!
//! A warp's file is worth being small: what native code keeps there stays in the first-level cache.
//! In code for lockstep two registers can have one place if neither's value must be kept where the
//! other's is. Those that the prologue makes stay: all warps that have the file find them there.

use simt::analysis::live_intervals::{LiveInterval, LiveIntervals, waits_apart};
use simt::ir::Reg;
use simt::ir::op::Width;
use simt::ir::vector::{Mode, StorageClass, VectorFunction};
use std::collections::{BTreeMap, BTreeSet};

/// Which registers share places of lanes.
pub(super) struct SharedSlots {
    /// For each register that does, the number of its place.
    pub(super) of: Vec<Option<usize>>,
    /// Where each register's value is kept; none if no registers share a place.
    kept: Option<LiveIntervals>,
}

impl SharedSlots {
    /// The companions of what is live at the start of a block, where they are live too. One that is not
    /// may have its place from a register that is.
    pub(super) fn companions_in(&self, f: &VectorFunction, block: usize) -> Vec<(Reg, Reg)> {
        let live_in = &f.blocks[block].live_in;
        let kept = |companion: Reg| {
            let covers = |kept: &LiveIntervals| kept.covers(companion.index(), kept.starts[block]);
            self.kept.as_ref().is_none_or(covers)
        };
        let all = f.companions.iter().copied();
        all.filter(|(companion, of)| live_in.contains(of) && kept(*companion)).collect()
    }
}

/// Finds them.
pub(super) fn shared(f: &VectorFunction) -> SharedSlots {
    let mut slots = vec![None; f.classes.len()];
    if f.mode != Mode::Lockstep || waits_apart(f) {
        return SharedSlots { of: slots, kept: None };
    }
    let kept = LiveIntervals::of(f);
    let mut stays = vec![false; f.classes.len()];
    f.prologue.iter().flat_map(|i| &i.dst).for_each(|d| stays[d.reg.index()] = true);
    let mut spans: BTreeMap<u32, Vec<(LiveInterval, usize)>> = BTreeMap::new();
    for (r, (class, storage)) in f.classes.iter().zip(&f.storage).enumerate() {
        let has_lanes = matches!(storage, StorageClass::Vector | StorageClass::ScalarAndVector);
        let (true, Some(width)) = (has_lanes && !stays[r], class.width()) else { continue };
        let list = kept.of_register(r);
        if let (Some(first), Some(last)) = (list.first(), list.last()) {
            let span = LiveInterval { start: first.start, end: last.end };
            spans.entry(Width::bytes(width)).or_default().push((span, r));
        }
    }
    let mut count = 0;
    for mut list in spans.into_values() {
        list.sort_unstable_by_key(|(span, r)| (span.start, *r));
        give(&list, &mut count, &mut slots);
    }
    SharedSlots { of: slots, kept: Some(kept) }
}

/// Gives registers of one width slots in the order in which they start, the one that was left last
/// first: it is the likeliest to be in the cache.
fn give(list: &[(LiveInterval, usize)], count: &mut usize, slots: &mut [Option<usize>]) {
    let mut busy: BTreeSet<(u32, usize)> = BTreeSet::new();
    let mut free: Vec<usize> = Vec::new();
    for (span, r) in list {
        while let Some((end, slot)) = busy.first().copied() {
            if end >= span.start {
                break;
            }
            busy.pop_first();
            free.push(slot);
        }
        let slot = free.pop().unwrap_or_else(|| {
            *count += 1;
            *count - 1
        });
        busy.insert((span.end, slot));
        slots[*r] = Some(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_given_again_behind_the_last_position_of_who_had_it() {
        let span = |start, end| LiveInterval { start, end };
        let list = [(span(0, 4), 0), (span(2, 9), 1), (span(4, 5), 2), (span(5, 6), 3)];
        let (mut count, mut slots) = (0, vec![None; 4]);
        give(&list, &mut count, &mut slots);
        assert_eq!(slots, [Some(0), Some(1), Some(2), Some(0)]);
        assert_eq!(count, 3);
    }
}
