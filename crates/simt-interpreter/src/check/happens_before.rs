//! Happens-before: a race detector (shadow memory with clocks) for the shared memory of a block or
//! a cluster.
//!
//! What a warp did before it arrived at a barrier is before what the warps do that waited there:
//! each warp knows how far it has seen every other one. Which warp a number means, and addresses,
//! are not kept here.

mod copies;
mod products;
mod sums;

pub(super) use crate::check::happens_before::copies::{Awaited, Part, Phase, Until};

use simt::kernel::WARP_LANES;
use std::ops::Range;

/// One access to a byte of shared memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Access {
    /// Number of the thread, plus one; 0 if there was none.
    pub(super) thread: u32,
    pub(super) line: u32,
    /// Arrivals of its warp at barriers before it.
    arrivals: u32,
    /// Steps of its warp before it: together, and ordered for others.
    together: u32,
    released: u32,
    atomic: bool,
    /// When it is over.
    pub(super) until: Until,
}

/// An access that something else orders.
const ORDERED: u32 = u32::MAX;

#[derive(Clone, Copy, Default)]
struct Byte {
    write: Access,
    read: Access,
}

/// How far a warp has come.
#[derive(Clone, Default)]
struct Clock {
    /// Instructions that its lanes ran together.
    together: u32,
    /// Fences and atomic operations.
    released: u32,
    /// Arrivals at barriers.
    arrivals: u32,
    products: products::Products,
    /// For each warp, the arrivals of it that are ordered before what this warp does now.
    seen: Vec<u32>,
}

/// What is ordered before those that wait at a barrier: for each warp, arrivals.
#[derive(Clone, Default)]
struct Gathered(Vec<u32>);

impl Gathered {
    fn add(&mut self, seen: &[u32]) {
        self.0.resize(self.0.len().max(seen.len()), 0);
        self.0.iter_mut().zip(seen).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }
}

/// What an access does.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// Atomic or volatile: races with plain accesses only.
    pub(crate) atomic: bool,
    /// Bytes of one value. What is read of a value counts as written if any of it is: compilers copy
    /// what lies between the members of a structure with them.
    pub(crate) unit: u64,
}

/// Looks for values of which no byte was written.
struct UnwrittenUnit {
    bytes: u64,
    missing: u64,
}

impl UnwrittenUnit {
    fn new(bytes: u64) -> Self {
        Self { bytes: bytes.max(1), missing: 0 }
    }

    /// The next byte, which was not written; true if that is a whole value.
    fn add(&mut self, at: u64, unwritten: bool) -> bool {
        let first = at.is_multiple_of(self.bytes);
        self.missing = if first { 0 } else { self.missing } + u64::from(unwritten);
        self.missing == self.bytes
    }
}

/// A barrier: of a block, by rank and number, or the cluster's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BarrierId {
    /// Of the block of that rank.
    OfBlock(u32, u32),
    /// Of all blocks.
    OfCluster,
}

/// Why an access is worth a report.
pub(super) enum SharedFinding {
    /// Nothing orders it and this one, which wrote or did not.
    Race {
        with: Access,
        wrote: bool,
    },
    Unwritten,
}

/// The account.
pub(crate) struct Shadow {
    /// By rank.
    shared: Vec<Vec<Byte>>,
    /// By warp: which bytes of its lanes' local memory were written.
    local: Vec<Vec<bool>>,
    warps: Vec<Clock>,
    /// Of one block.
    warps_of_block: u32,
    /// The first of each block's shared memory, which is kept for libraries and starts as zeros.
    kept_bytes: u64,
    /// Warps that have arrived where not all have; few at a time.
    barriers: Vec<(BarrierId, Gathered)>,
    /// By rank: what its warps that have exited did. Only their end is waited for.
    exited: Vec<Gathered>,
    /// What warps had seen when they last ran a fence or an atomic operation.
    published: Gathered,
    copies: copies::Copies,
}

impl Shadow {
    /// For a number of blocks, all of one size.
    pub(super) fn new(blocks: u32, shared_bytes: u64, warps: u32) -> Self {
        let all = (blocks * warps) as usize;
        Self {
            shared: vec![vec![Byte::default(); shared_bytes as usize]; blocks as usize],
            local: vec![Vec::new(); all],
            warps: vec![Clock::default(); all],
            warps_of_block: warps,
            kept_bytes: 0,
            barriers: Vec::new(),
            exited: vec![Gathered::default(); blocks as usize],
            published: Gathered::default(),
            copies: copies::Copies::default(),
        }
    }

    /// The same, where the first bytes of each block's shared memory start as zeros.
    pub(super) fn keeping(mut self, kept_bytes: u64) -> Self {
        self.kept_bytes = kept_bytes;
        (0..self.shared.len()).for_each(|rank| self.forget_shared(rank));
        self
    }

    fn forget_shared(&mut self, rank: usize) {
        let zeros = Access { thread: ORDERED, ..Access::default() };
        let (kept, others) = self.shared[rank].split_at_mut(self.kept_bytes as usize);
        kept.fill(Byte { write: zeros, ..Byte::default() });
        others.fill(Byte::default());
    }

    /// The block of this rank starts anew, as all of the cluster do.
    pub(super) fn restart(&mut self, rank: u32) {
        self.forget_shared(rank as usize);
        self.exited[rank as usize] = Gathered::default();
        self.barriers.clear();
        self.published = Gathered::default();
        self.copies = copies::Copies::default();
        let first = (rank * self.warps_of_block) as usize;
        for warp in first..first + self.warps_of_block as usize {
            self.local[warp].clear();
            self.warps[warp] = Clock::default();
        }
    }

    /// The number of a warp among all.
    pub(super) fn number(&self, rank: u32, warp: u32) -> u32 {
        rank * self.warps_of_block + warp
    }

    /// The rank of a thread's block and the thread's number there, of one that an access names.
    pub(super) fn thread(&self, access: Access) -> (u32, u32) {
        let (thread, lanes) = (access.thread - 1, WARP_LANES as u32);
        (thread / (self.warps_of_block * lanes), thread % (self.warps_of_block * lanes))
    }

    /// Shared memory of the block of that rank, bytes; `None` if there is no such block.
    pub(super) fn shared_bytes(&self, rank: u64) -> Option<u64> {
        Some(self.shared.get(usize::try_from(rank).ok()?)?.len() as u64)
    }

    /// A warp has run something together.
    pub(super) fn met(&mut self, warp: u32) {
        self.warps[warp as usize].together += 1;
    }

    /// What a warp did before is ordered before what others do when they see it.
    pub(super) fn released(&mut self, warp: u32) {
        self.warps[warp as usize].released += 1;
        self.published.add(&self.warps[warp as usize].seen);
        self.met(warp);
    }

    /// A warp arrives at a barrier.
    pub(super) fn arrive(&mut self, warp: u32, barrier: BarrierId) {
        let seen = self.notified_by(warp);
        match self.barriers.iter_mut().find(|(id, _)| *id == barrier) {
            Some((_, gathered)) => gathered.add(&seen),
            None => self.barriers.push((barrier, Gathered(seen))),
        }
    }

    /// What is ordered before a warp that waits for this one now.
    fn notified_by(&mut self, warp: u32) -> Vec<u32> {
        let clock = &mut self.warps[warp as usize];
        clock.arrivals += 1;
        let mut seen = clock.seen.clone();
        seen.resize(seen.len().max(warp as usize + 1), 0);
        seen[warp as usize] = clock.arrivals;
        seen
    }

    /// A warp has exited.
    pub(super) fn exit(&mut self, rank: u32, warp: u32) {
        let seen = self.notified_by(warp);
        self.exited[rank as usize].add(&seen);
    }

    /// A barrier has opened for these warps.
    pub(super) fn open(&mut self, barrier: BarrierId, waited: impl Iterator<Item = u32>) {
        let at = self.barriers.iter().position(|(id, _)| *id == barrier);
        let mut gathered = at.map(|at| self.barriers.swap_remove(at).1).unwrap_or_default();
        for (rank, exited) in self.exited.iter().enumerate() {
            let concerns = match barrier {
                BarrierId::OfBlock(of, _) => of as usize == rank,
                BarrierId::OfCluster => true,
            };
            if concerns {
                gathered.add(&exited.0);
            }
        }
        for warp in waited {
            let mut seen = Gathered(std::mem::take(&mut self.warps[warp as usize].seen));
            seen.add(&gathered.0);
            self.warps[warp as usize].seen = seen.0;
        }
    }

    /// True if nothing orders an earlier access before one by this thread now.
    fn races(&self, earlier: Access, now: Access) -> bool {
        let exempt = earlier.thread == 0 || earlier.thread == ORDERED || now.thread == ORDERED;
        if exempt || earlier.atomic && now.atomic {
            return false;
        }
        let warp = |access: Access| (access.thread - 1) / WARP_LANES as u32;
        match earlier.until {
            Until::Group => return true,
            Until::Phase(mbarrier) => return self.lasts(earlier, mbarrier, warp(now)),
            Until::Product => return self.read_by_product_races(earlier, warp(now)),
            Until::Done => {}
        }
        if earlier.thread == now.thread {
            return false;
        }
        let (theirs, mine) = (warp(earlier), warp(now));
        if theirs == mine {
            return earlier.together == now.together
                && earlier.arrivals == now.arrivals
                && earlier.line != now.line;
        }
        let seen = self.warps[mine as usize].seen.get(theirs as usize).copied().unwrap_or(0);
        earlier.arrivals >= seen && earlier.released == self.warps[theirs as usize].released
    }

    /// An access of a lane to shared memory of a block, inside of it.
    pub(super) fn shared(
        &mut self,
        (warp, lane, line): (u32, u32, u32),
        rank: u64,
        range: Range<u64>,
        kind: Kind,
    ) -> Option<SharedFinding> {
        self.touch(self.now((warp, lane), line, kind.atomic), rank, range, kind)
    }

    /// An access that a lane makes now.
    fn now(&self, (warp, lane): (u32, u32), line: u32, atomic: bool) -> Access {
        let clock = &self.warps[warp as usize];
        Access {
            thread: warp * WARP_LANES as u32 + lane + 1,
            line,
            arrivals: clock.arrivals,
            together: clock.together,
            released: clock.released,
            atomic,
            until: Until::Done,
        }
    }

    /// An access by something that others wait for in some way of their own.
    pub(super) fn ordered(
        &mut self,
        line: u32,
        rank: u64,
        range: Range<u64>,
        kind: Kind,
    ) -> Option<SharedFinding> {
        self.touch(Access { thread: ORDERED, line, ..Access::default() }, rank, range, kind)
    }

    fn touch(
        &mut self,
        now: Access,
        rank: u64,
        range: Range<u64>,
        kind: Kind,
    ) -> Option<SharedFinding> {
        let mut finding = None;
        let mut unwritten = UnwrittenUnit::new(kind.unit);
        for at in range {
            let byte = self.shared[rank as usize][at as usize];
            if self.races(byte.write, now) {
                finding.get_or_insert(SharedFinding::Race { with: byte.write, wrote: true });
            }
            if kind.writes && self.races(byte.read, now) {
                let with = self.as_it_is(byte.read);
                finding.get_or_insert(SharedFinding::Race { with, wrote: false });
            }
            if kind.reads && unwritten.add(at, byte.write.thread == 0) {
                finding.get_or_insert(SharedFinding::Unwritten);
            }
            let lasts = matches!(self.as_it_is(byte.read).until, Until::Group | Until::Product);
            let byte = &mut self.shared[rank as usize][at as usize];
            if kind.writes {
                byte.write = now;
            } else if !lasts {
                byte.read = now;
            }
        }
        finding
    }

    /// An access of a lane to its own memory; true if it reads what was not written.
    pub(super) fn local(
        &mut self,
        (warp, lane): (u32, u32),
        local_bytes: u64,
        range: Range<u64>,
        kind: Kind,
    ) -> bool {
        let base = u64::from(lane) * local_bytes;
        let written = self.local_of(warp, local_bytes);
        let bytes = &mut written[(base + range.start) as usize..(base + range.end) as usize];
        let unit = kind.unit.max(1) as usize;
        let unwritten = kind.reads && bytes.chunks(unit).any(|unit| !unit.contains(&true));
        if kind.writes {
            bytes.fill(true);
        }
        unwritten
    }

    /// Local memory of these lanes is copied from one place to another.
    pub(super) fn copy_local(
        &mut self,
        (warp, local_bytes): (u32, u64),
        lanes: impl Iterator<Item = u32>,
        (from, to): (u64, u64),
        bytes: u32,
    ) {
        let written = self.local_of(warp, local_bytes);
        for lane in lanes {
            let base = (u64::from(lane) * local_bytes) as usize;
            let from = base + from as usize;
            written.copy_within(from..from + bytes as usize, base + to as usize);
        }
    }

    fn local_of(&mut self, warp: u32, local_bytes: u64) -> &mut Vec<bool> {
        let written = &mut self.local[warp as usize];
        written.resize(local_bytes as usize * WARP_LANES, false);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Kind = Kind { reads: false, writes: true, atomic: false, unit: 4 };
    const READ: Kind = Kind { reads: true, writes: false, atomic: false, unit: 4 };
    const ATOMIC: Kind = Kind { reads: true, writes: true, atomic: true, unit: 4 };

    fn races(shadow: &mut Shadow, warp: u32, kind: Kind) -> bool {
        let finding = shadow.shared((warp, 0, warp + 1), 0, 0..4, kind);
        matches!(finding, Some(SharedFinding::Race { .. }))
    }

    #[test]
    fn a_barrier_orders_those_that_meet_there_and_no_others() {
        let mut shadow = Shadow::new(1, 16, 4);
        let barrier = BarrierId::OfBlock(0, 1);
        assert!(!races(&mut shadow, 0, WRITE));
        // Warps 0 and 1 meet; 2 does not.
        shadow.arrive(0, barrier);
        shadow.arrive(1, barrier);
        shadow.open(barrier, [0, 1].into_iter());
        assert!(!races(&mut shadow, 1, READ));
        assert!(races(&mut shadow, 2, READ));
        // What warp 0 does afterwards is not ordered by it.
        assert!(races(&mut shadow, 0, WRITE));
        assert!(races(&mut shadow, 1, READ));
    }

    #[test]
    fn who_only_arrives_is_before_those_that_wait_and_not_behind_them() {
        let mut shadow = Shadow::new(1, 16, 2);
        let barrier = BarrierId::OfBlock(0, 3);
        assert!(!races(&mut shadow, 0, WRITE));
        shadow.arrive(0, barrier);
        shadow.arrive(1, barrier);
        shadow.open(barrier, [1].into_iter());
        assert!(!races(&mut shadow, 1, WRITE));
        assert!(races(&mut shadow, 0, READ), "warp 0 did not wait for warp 1");
    }

    #[test]
    fn order_is_handed_on() {
        let mut shadow = Shadow::new(2, 16, 2);
        let (first, second) = (BarrierId::OfBlock(0, 0), BarrierId::OfCluster);
        assert!(!races(&mut shadow, 0, WRITE));
        for warp in [0, 1] {
            shadow.arrive(warp, first);
        }
        shadow.open(first, [0, 1].into_iter());
        for warp in [1, 2] {
            shadow.arrive(warp, second);
        }
        shadow.open(second, [1, 2].into_iter());
        assert!(!races(&mut shadow, 2, READ), "warp 2 heard of it from warp 1");
        assert!(races(&mut shadow, 3, READ));
    }

    #[test]
    fn fences_and_atomics_order() {
        let mut shadow = Shadow::new(1, 16, 3);
        assert!(!races(&mut shadow, 0, ATOMIC) && !races(&mut shadow, 1, ATOMIC));
        assert!(races(&mut shadow, 2, READ), "an atomic and a plain access");
        shadow.restart(0);
        assert!(!races(&mut shadow, 0, WRITE));
        shadow.released(0);
        assert!(!races(&mut shadow, 1, READ));
        shadow.restart(0);
        assert!(shadow.ordered(1, 0, 0..4, READ).is_some(), "no thread wrote it");
        assert!(shadow.ordered(1, 0, 0..4, WRITE).is_none());
        assert!(!races(&mut shadow, 1, READ));
    }

    #[test]
    fn a_value_is_read_as_a_whole() {
        let mut shadow = Shadow::new(1, 32, 1);
        let mut access = |range, kind| shadow.shared((0, 0, 3), 0, range, kind);
        assert!(access(0..4, WRITE).is_none());
        let of_eight = Kind { unit: 8, ..READ };
        assert!(access(0..8, of_eight).is_none(), "four bytes of padding");
        assert!(matches!(access(0..8, READ), Some(SharedFinding::Unwritten)), "two values");
        assert!(matches!(access(0..16, of_eight), Some(SharedFinding::Unwritten)));
        let mut local = |range, kind| shadow.local((0, 0), 32, range, kind);
        assert!(!local(8..12, WRITE) && !local(8..16, of_eight));
        assert!(local(8..16, READ) && local(0..8, of_eight));
    }

    #[test]
    fn memory_for_libraries_starts_as_zeros() {
        let mut shadow = Shadow::new(1, 16, 2).keeping(8);
        for _ in 0..2 {
            let read = |shadow: &mut Shadow, at| shadow.shared((1, 0, 5), 0, at..at + 8, READ);
            assert!(read(&mut shadow, 0).is_none());
            assert!(matches!(read(&mut shadow, 4), Some(SharedFinding::Unwritten)));
            assert!(races(&mut shadow, 0, WRITE), "it has been read by the other warp");
            shadow.restart(0);
        }
    }

    #[test]
    fn who_has_exited_did_it_before() {
        let mut shadow = Shadow::new(1, 16, 2);
        assert!(!races(&mut shadow, 0, WRITE));
        shadow.exit(0, 0);
        shadow.arrive(1, BarrierId::OfBlock(0, 0));
        shadow.open(BarrierId::OfBlock(0, 0), [1].into_iter());
        assert!(!races(&mut shadow, 1, WRITE));
        // A barrier of this block orders nothing with another one.
        let mut shadow = Shadow::new(2, 16, 1);
        assert!(!races(&mut shadow, 1, WRITE));
        shadow.exit(1, 1);
        for (barrier, orders) in [(BarrierId::OfBlock(0, 0), false), (BarrierId::OfCluster, true)] {
            shadow.arrive(0, barrier);
            shadow.open(barrier, [0].into_iter());
            assert_eq!(races(&mut shadow, 0, READ), !orders);
        }
    }

    #[test]
    fn every_lane_has_memory_of_its_own() {
        let mut shadow = Shadow::new(1, 16, 1);
        assert!(!shadow.local((0, 1), 32, 0..4, WRITE));
        assert!(!shadow.local((0, 1), 32, 0..4, READ));
        assert!(shadow.local((0, 0), 32, 0..4, READ) && shadow.local((0, 2), 32, 0..4, READ));
    }

    #[test]
    fn lanes_that_write_one_word_together_are_not_looked_at() {
        let mut shadow = Shadow::new(1, 16, 1);
        let mut write = |lane, line| {
            let finding = shadow.shared((0, lane, line), 0, 0..4, WRITE);
            matches!(finding, Some(SharedFinding::Race { .. }))
        };
        assert!(!write(0, 5) && !write(1, 5));
        assert!(write(2, 6), "another instruction, and nothing between");
    }
}
