//! Race detection for asynchronous products (`wgmma`): what they may still read of shared memory.
//!
//! Products are done where they are issued; here they read until one of their four warps has waited
//! for their group, since they are one operation of all four. In the place of its warp's steps such
//! a read has the number of its group. Others are behind it if they are behind that wait, of any of
//! the four.

use crate::check::happens_before::{Access, Part, Shadow, Until};
use simt::kernel::WARP_LANES;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Warps that make a product together.
const WARPS: u32 = 4;
/// Waits that are known at a time: far more than a pipeline has groups.
const WAITS_MAX: usize = 64;

/// A sum that some lanes of a register hold.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    /// Line of the product.
    pub(super) line: u32,
    /// The product's group.
    pub(super) group: u32,
    pub(super) lanes: u32,
    /// It has been copied or used: it is no loss if it is overwritten.
    pub(super) passed_on: bool,
}

/// A warp's products.
#[derive(Clone, Default)]
pub(super) struct Products {
    /// Groups so far.
    pub(super) groups: u32,
    /// Waits, the oldest first.
    pub(super) waits: VecDeque<Wait>,
    /// By register, what they leave behind.
    pub(super) sums: HashMap<u32, Sum>,
}

/// A wait: the groups that it found over, and how far its warp had come.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    pub(super) over: u32,
    arrivals: u32,
    released: u32,
}

impl Shadow {
    /// The four warps of a product, of which this one is one.
    fn four(&self, warp: u32) -> Range<u32> {
        let own = warp % self.warps_of_block;
        let first = own / WARPS * WARPS;
        let block = warp - own;
        block + first..block + (first + WARPS).min(self.warps_of_block)
    }

    /// What a lane has just read it has read for a product.
    pub(in crate::check) fn read_by_product(
        &mut self,
        (warp, lane, line): (u32, u32, u32),
        part: Part,
    ) {
        let together = self.warps[warp as usize].products.groups;
        let now = self.now((warp, lane), line, false);
        let read = Access { together, until: Until::Product, ..now };
        for byte in self.bytes(&part) {
            if byte.read.until != Until::Group {
                byte.read = read;
            }
        }
    }

    /// A warp's products so far are a group.
    pub(in crate::check) fn commit_products(&mut self, warp: u32) {
        self.warps[warp as usize].products.groups += 1;
    }

    /// A warp waits for all of its groups except a number of the latest.
    pub(in crate::check) fn wait_products(&mut self, warp: u32, left: u32) {
        let clock = &mut self.warps[warp as usize];
        let (arrivals, released) = (clock.arrivals, clock.released);
        let Products { groups, waits, .. } = &mut clock.products;
        let over = groups.saturating_sub(left);
        if waits.back().map_or(0, |wait| wait.over) < over {
            waits.push_back(Wait { over, arrivals, released });
            if waits.len() > WAITS_MAX {
                waits.pop_front();
            }
        }
    }

    /// Each of the four warps of a product that has waited for it, and the first wait.
    fn waits_for(&self, read: Access) -> impl Iterator<Item = (u32, Wait)> {
        self.four((read.thread - 1) / WARP_LANES as u32).filter_map(move |warp| {
            let mut waits = self.warps[warp as usize].products.waits.iter();
            Some((warp, *waits.find(|wait| wait.over > read.together)?))
        })
    }

    /// True if nothing orders a product's read before an access by a warp now.
    pub(super) fn read_by_product_races(&self, read: Access, mine: u32) -> bool {
        let four = self.four((read.thread - 1) / WARP_LANES as u32);
        !self.waits_for(read).any(|(warp, wait)| {
            let seen = self.warps[mine as usize].seen.get(warp as usize).copied().unwrap_or(0);
            four.contains(&mine)
                || wait.arrivals < seen
                || wait.released != self.warps[warp as usize].released
        })
    }

    /// An access as it is by now: a product's read may be over.
    pub(super) fn as_it_is(&self, access: Access) -> Access {
        match access.until {
            Until::Product if self.waits_for(access).next().is_some() => {
                Access { until: Until::Done, ..access }
            }
            _ => access,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::happens_before::{Awaited, BarrierId, Kind, SharedFinding};

    const WRITE: Kind = Kind { reads: false, writes: true, atomic: false, unit: 4 };
    const READ: Kind = Kind { reads: true, writes: false, atomic: false, unit: 4 };

    fn races(shadow: &mut Shadow, warp: u32, kind: Kind) -> bool {
        let finding = shadow.shared((warp, 0, 10 + warp), 0, 0..4, kind);
        matches!(finding, Some(SharedFinding::Race { .. }))
    }

    /// A factor that the fifth warp wrote and the first four read.
    fn multiplied() -> Shadow {
        let mut shadow = Shadow::new(1, 16, 6);
        assert!(!races(&mut shadow, 4, WRITE));
        shadow.released(4);
        for warp in 0..4 {
            assert!(!races(&mut shadow, warp, READ));
            shadow.read_by_product((warp, 0, 1), Part { rank: 0, range: 0..4 });
        }
        shadow
    }

    #[test]
    fn a_product_reads_until_one_of_its_warps_has_waited() {
        for waits in 0..4 {
            let mut shadow = multiplied();
            shadow.wait_products(waits, 0);
            assert!(races(&mut shadow, 1, WRITE), "it is in no group yet");
            let mut shadow = multiplied();
            (0..4).for_each(|warp| shadow.commit_products(warp));
            shadow.wait_products(waits, 1);
            assert!(races(&mut shadow, 1, WRITE), "another group is waited for");
            let mut shadow = multiplied();
            (0..4).for_each(|warp| shadow.commit_products(warp));
            shadow.wait_products(waits, 0);
            assert!(!races(&mut shadow, 1, WRITE), "it has been waited for");
        }
        assert!(!races(&mut multiplied(), 1, READ), "others may read too");
    }

    #[test]
    fn others_are_notified_by_any_of_the_four() {
        for reporter in 0..4 {
            let mut shadow = multiplied();
            (0..4).for_each(|warp| shadow.commit_products(warp));
            shadow.wait_products(reporter, 0);
            shadow.released(reporter);
            assert!(!races(&mut shadow, 4, WRITE));
        }
        let mut shadow = multiplied();
        (0..4).for_each(|warp| shadow.commit_products(warp));
        shadow.wait_products(0, 0);
        assert!(races(&mut shadow, 4, WRITE), "the fifth warp was not notified");
        let mut shadow = multiplied();
        (0..6).for_each(|warp| shadow.arrive(warp, BarrierId::OfBlock(0, 0)));
        shadow.open(BarrierId::OfBlock(0, 0), 0..6);
        assert!(races(&mut shadow, 4, WRITE), "a barrier does not wait for products");
        (0..4).for_each(|warp| shadow.commit_products(warp));
        shadow.wait_products(3, 0);
        assert!(races(&mut shadow, 4, WRITE), "the barrier was before the wait");
        (0..6).for_each(|warp| shadow.arrive(warp, BarrierId::OfBlock(0, 0)));
        shadow.open(BarrierId::OfBlock(0, 0), 0..6);
        assert!(!races(&mut shadow, 4, WRITE));
    }

    #[test]
    fn what_a_copy_still_reads_stays_its() {
        let mut shadow = multiplied();
        let part = || Part { rank: 0, range: 0..4 };
        shadow.started((4, 0), part(), READ, Awaited::Group { bulk: true });
        shadow.read_by_product((0, 0, 1), part());
        shadow.commit_products(0);
        shadow.wait_products(0, 0);
        assert!(races(&mut shadow, 0, WRITE), "the copy has not been waited for");
    }

    #[test]
    fn so_many_waits_are_known_and_no_more() {
        let mut shadow = Shadow::new(1, 16, 4);
        for _ in 0..2 * WAITS_MAX {
            shadow.commit_products(0);
            shadow.wait_products(0, 0);
        }
        assert_eq!(shadow.warps[0].products.waits.len(), WAITS_MAX);
    }
}
