//! Race detection for asynchronous copies: what they may still read or write for a thread that has
//! not waited.
//!
//! Copies are done where they are issued; here they last until their thread waits for their group,
//! or until the phase is over of the mbarrier that hears of them. What a phase orders is seen by
//! warps as what a warp did before it arrived at a barrier is: mbarriers have the numbers behind
//! the warps'.

use crate::check::happens_before::{Access, Byte, Kind, ORDERED, Shadow};
use simt::kernel::WARP_LANES;
use simt::runtime::mbarrier::State;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Copies of a thread that are known at a time: as many as fill 16 KiB by 16 bytes, far more than
/// a pipeline has. The oldest of more count as waited for.
const COPIES_MAX: usize = 1024;
/// Phases that an mbarrier's state distinguishes.
const PHASES: u32 = 8;

/// When an access is over.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::check) enum Until {
    /// Where its thread made it.
    #[default]
    Done,
    /// Once its thread has waited for its group.
    Group,
    /// Once one of four warps has waited for its product.
    Product,
    /// Once the mbarrier of that number has come to the end of the phase that stands in the place
    /// of the arrivals.
    Phase(u32),
}

/// What a copy is waited for by.
#[derive(Clone, Copy)]
pub(in crate::check) enum Awaited {
    /// The next group of its thread: of bulk copies, or of others.
    Group { bulk: bool },
    /// An mbarrier, by its place, which was in this state.
    Mbarrier((u64, u64), State),
}

/// What happens to an mbarrier.
#[derive(Clone, Copy)]
pub(in crate::check) enum Phase {
    /// Its life starts or ends.
    New,
    /// It was in this state.
    Was(State),
    /// A thread found that a phase was over, and it was in this state.
    Over(State),
}

/// A part of shared memory of the block of some rank.
#[derive(Clone)]
pub(in crate::check) struct Part {
    pub(in crate::check) rank: u64,
    pub(in crate::check) range: Range<u64>,
}

struct Copy {
    group: u32,
    part: Part,
    writes: bool,
}

/// Copies of a thread that it may wait for, the oldest first.
#[derive(Default)]
struct Queue {
    /// Complete groups so far.
    groups: u32,
    copies: VecDeque<Copy>,
}

/// An mbarrier.
struct Mbarrier {
    number: u32,
    /// Phases that are over, of all that has been in its place.
    phase: u32,
}

/// The account.
#[derive(Default)]
pub(super) struct Copies {
    /// By thread, and whether they are bulk copies.
    queues: HashMap<(u32, bool), Queue>,
    /// By rank and offset.
    mbarriers: HashMap<(u64, u64), Mbarrier>,
}

impl Copies {
    /// Number and phase of the mbarrier in that place, which is in that state now.
    fn mbarrier(&mut self, place: (u64, u64), state: State) -> (u32, u32) {
        let number = self.mbarriers.len() as u32;
        let new = || Mbarrier { number, phase: state.phase() };
        let it = self.mbarriers.entry(place).or_insert_with(new);
        it.phase += state.phase().wrapping_sub(it.phase) % PHASES;
        (it.number, it.phase)
    }
}

impl Shadow {
    pub(super) fn bytes(&mut self, part: &Part) -> &mut [Byte] {
        &mut self.shared[part.rank as usize][part.range.start as usize..part.range.end as usize]
    }

    /// What a thread has just accessed it has accessed by a copy.
    pub(in crate::check) fn started(
        &mut self,
        (warp, lane): (u32, u32),
        part: Part,
        kind: Kind,
        awaited: Awaited,
    ) {
        let thread = thread(warp, lane);
        let (until, phase) = match awaited {
            Awaited::Group { .. } => (Until::Group, None),
            Awaited::Mbarrier(place, state) => {
                let (number, phase) = self.copies.mbarrier(place, state);
                (Until::Phase(number), Some(phase))
            }
        };
        for byte in self.bytes(&part) {
            let access = if kind.writes { &mut byte.write } else { &mut byte.read };
            access.until = until;
            access.arrivals = phase.unwrap_or(access.arrivals);
        }
        if let Awaited::Group { bulk } = awaited {
            let queue = self.copies.queues.entry((thread, bulk)).or_default();
            queue.copies.push_back(Copy { group: queue.groups, part, writes: kind.writes });
            if queue.copies.len() > COPIES_MAX
                && let Some(oldest) = queue.copies.pop_front()
            {
                self.over(&oldest, self.now((warp, lane), 0, false));
            }
        }
    }

    /// A thread's copies so far are a group.
    pub(in crate::check) fn commit(&mut self, (warp, lane): (u32, u32), bulk: bool) {
        self.copies.queues.entry((thread(warp, lane), bulk)).or_default().groups += 1;
    }

    /// A thread waits for all of its groups except a number of the latest; `None`: for all copies.
    pub(in crate::check) fn wait(
        &mut self,
        (warp, lane): (u32, u32),
        bulk: bool,
        left: Option<u32>,
    ) {
        let now = self.now((warp, lane), 0, false);
        let key = (thread(warp, lane), bulk);
        loop {
            let Some(queue) = self.copies.queues.get_mut(&key) else { return };
            let over = left.map_or(u32::MAX, |left| queue.groups.saturating_sub(left));
            let first = queue.copies.pop_front();
            match first {
                Some(copy) if copy.group < over => self.over(&copy, now),
                first => {
                    first.into_iter().for_each(|copy| queue.copies.push_front(copy));
                    return;
                }
            }
        }
    }

    /// A copy is over, for its thread and for whom that is ordered before.
    fn over(&mut self, copy: &Copy, now: Access) {
        for byte in self.bytes(&copy.part) {
            let access = if copy.writes { &mut byte.write } else { &mut byte.read };
            match access.until {
                _ if access.thread != now.thread => {}
                Until::Done | Until::Product => {}
                Until::Group => {
                    *access = Access { line: access.line, atomic: access.atomic, ..now };
                }
                // Others may wait for the mbarrier.
                Until::Phase(_) => *access = Access { thread: ORDERED, ..*access },
            }
        }
    }

    /// An mbarrier hears of a thread's copies, no bulk copies, from the state in which it is.
    pub(in crate::check) fn notified(
        &mut self,
        (warp, lane): (u32, u32),
        place: (u64, u64),
        state: State,
    ) {
        let (number, phase) = self.copies.mbarrier(place, state);
        let thread = thread(warp, lane);
        let Some(queue) = self.copies.queues.get(&(thread, false)) else { return };
        for Copy { part, .. } in &queue.copies {
            let range = part.range.start as usize..part.range.end as usize;
            for Byte { write, .. } in &mut self.shared[part.rank as usize][range] {
                if write.thread == thread && write.until == Until::Group {
                    (write.until, write.arrivals) = (Until::Phase(number), phase);
                }
            }
        }
    }

    /// Something happens to an mbarrier, by a warp.
    pub(in crate::check) fn phase(&mut self, warp: u32, place: (u64, u64), what: Phase) {
        match what {
            Phase::New => {
                if let Some(it) = self.copies.mbarriers.get_mut(&place) {
                    // A new one starts with phase 0, and nothing is left of the one before.
                    it.phase = (it.phase / PHASES + 1) * PHASES;
                }
            }
            Phase::Was(state) => drop(self.copies.mbarrier(place, state)),
            Phase::Over(state) => {
                let (number, phase) = self.copies.mbarrier(place, state);
                let at = self.warps.len() + number as usize;
                let seen = &mut self.warps[warp as usize].seen;
                seen.resize(seen.len().max(at + 1), 0);
                seen[at] = seen[at].max(phase);
            }
        }
    }

    /// True if a phase that an access waits for is not known to be over by this warp, and no warp
    /// who knows has notified all others.
    pub(super) fn lasts(&self, earlier: Access, mbarrier: u32, warp: u32) -> bool {
        let at = self.warps.len() + mbarrier as usize;
        let over = |seen: &[u32]| seen.get(at).is_some_and(|phase| *phase > earlier.arrivals);
        !over(&self.warps[warp as usize].seen) && !over(&self.published.0)
    }
}

/// A thread's number, as accesses have it.
fn thread(warp: u32, lane: u32) -> u32 {
    warp * WARP_LANES as u32 + lane + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::happens_before::{BarrierId, SharedFinding};

    const WRITE: Kind = Kind { reads: false, writes: true, atomic: false, unit: 4 };
    const READ: Kind = Kind { reads: true, writes: false, atomic: false, unit: 4 };
    const PLACE: (u64, u64) = (0, 64);

    /// An access by the first lane of a warp to the four bytes from there on.
    fn races(shadow: &mut Shadow, warp: u32, at: u64, kind: Kind) -> bool {
        let finding = shadow.shared((warp, 0, 10 * warp + 1), 0, at..at + 4, kind);
        matches!(finding, Some(SharedFinding::Race { .. }))
    }

    fn copy(shadow: &mut Shadow, warp: u32, at: u64, kind: Kind, awaited: Awaited) {
        assert!(!races(shadow, warp, at, kind), "nothing is there yet");
        let part = Part { rank: 0, range: at..at + 4 };
        shadow.started((warp, 0), part, kind, awaited);
    }

    fn meet(shadow: &mut Shadow, warps: [u32; 2]) {
        let barrier = BarrierId::OfBlock(0, 0);
        warps.iter().for_each(|warp| shadow.arrive(*warp, barrier));
        shadow.open(barrier, warps.into_iter());
    }

    #[test]
    fn groups_are_waited_for_in_their_order_and_by_their_thread() {
        let mut shadow = Shadow::new(1, 128, 2);
        let group = Awaited::Group { bulk: false };
        for at in [0, 4, 8] {
            copy(&mut shadow, 0, at, WRITE, group);
            if at != 8 {
                shadow.commit((0, 0), false);
            }
        }
        assert!(races(&mut shadow, 0, 0, READ), "not even for the thread itself");
        shadow.wait((0, 0), false, Some(1));
        assert!(!races(&mut shadow, 0, 0, READ) && races(&mut shadow, 0, 4, READ));
        assert!(races(&mut shadow, 1, 0, READ), "no thread has waited for warp 0");
        meet(&mut shadow, [0, 1]);
        assert!(!races(&mut shadow, 1, 0, READ) && races(&mut shadow, 1, 4, READ));
        shadow.wait((0, 0), true, None);
        shadow.wait((1, 0), false, None);
        assert!(races(&mut shadow, 0, 4, READ), "other copies, another thread");
        shadow.wait((0, 0), false, Some(0));
        assert!(!races(&mut shadow, 0, 4, READ));
        assert!(races(&mut shadow, 0, 8, READ), "it belongs to no group");
        shadow.wait((0, 0), false, None);
        assert!(!races(&mut shadow, 0, 8, READ));
    }

    #[test]
    fn what_is_read_may_not_be_written_before_it_was() {
        let mut shadow = Shadow::new(1, 128, 2);
        assert!(!races(&mut shadow, 0, 0, WRITE));
        copy(&mut shadow, 0, 0, READ, Awaited::Group { bulk: true });
        assert!(!races(&mut shadow, 0, 0, READ), "others may read too");
        assert!(races(&mut shadow, 0, 0, WRITE));
        copy(&mut shadow, 0, 0, READ, Awaited::Group { bulk: true });
        shadow.commit((0, 0), true);
        shadow.wait((0, 0), true, Some(0));
        assert!(!races(&mut shadow, 0, 0, WRITE));
    }

    #[test]
    fn a_phase_is_over_for_who_waited_and_whom_they_notified() {
        let mut shadow = Shadow::new(1, 128, 4);
        let before = State::new(1).expect(4);
        copy(&mut shadow, 0, 0, WRITE, Awaited::Mbarrier(PLACE, before));
        assert!(races(&mut shadow, 0, 0, READ));
        let after = before.arrive(1, false).complete(4);
        shadow.phase(0, PLACE, Phase::Was(after));
        assert!(races(&mut shadow, 0, 0, READ), "it is over, but no thread has looked");
        shadow.phase(1, PLACE, Phase::Over(after));
        assert!(!races(&mut shadow, 1, 0, READ) && races(&mut shadow, 0, 0, READ));
        meet(&mut shadow, [1, 2]);
        assert!(!races(&mut shadow, 2, 0, READ) && races(&mut shadow, 3, 0, READ));
        shadow.released(2);
        assert!(!races(&mut shadow, 3, 0, READ), "by a lock or a flag");
    }

    #[test]
    fn phases_go_on_where_a_state_starts_over() {
        let mut shadow = Shadow::new(1, 128, 1);
        let state = |phase: u32| (0..phase).fold(State::new(1), |state, _| state.arrive(1, false));
        for phase in 0..20 {
            copy(&mut shadow, 0, 0, WRITE, Awaited::Mbarrier(PLACE, state(phase)));
            shadow.phase(0, PLACE, Phase::Over(state(phase)));
            assert!(races(&mut shadow, 0, 0, READ), "phase {phase} is not over");
            shadow.phase(0, PLACE, Phase::Over(state(phase + 1)));
            assert!(!races(&mut shadow, 0, 0, READ), "phase {phase} is");
        }
        // In the midst of the numbers that states have, and where they begin.
        for phase in [20, 24] {
            copy(&mut shadow, 0, 0, WRITE, Awaited::Mbarrier(PLACE, state(phase)));
            shadow.phase(0, PLACE, Phase::New);
            shadow.phase(0, PLACE, Phase::Over(State::new(1)));
            assert!(!races(&mut shadow, 0, 0, READ), "there is another mbarrier now");
        }
    }

    #[test]
    fn an_mbarrier_hears_of_what_there_is() {
        let mut shadow = Shadow::new(1, 128, 2);
        let (group, before) = (Awaited::Group { bulk: false }, State::new(1));
        copy(&mut shadow, 0, 0, WRITE, group);
        shadow.notified((0, 0), PLACE, before);
        copy(&mut shadow, 0, 4, WRITE, group);
        shadow.phase(1, PLACE, Phase::Over(before.arrive(1, false)));
        assert!(!races(&mut shadow, 1, 0, READ) && races(&mut shadow, 1, 4, READ));
        // Its thread may also wait as for others.
        assert!(races(&mut shadow, 0, 0, READ));
        shadow.wait((0, 0), false, None);
        assert!(!races(&mut shadow, 0, 0, READ) && !races(&mut shadow, 0, 4, READ));
    }

    #[test]
    fn a_wait_ends_what_its_own_thread_copied() {
        let mut shadow = Shadow::new(1, 128, 2);
        let group = Awaited::Group { bulk: false };
        copy(&mut shadow, 0, 0, WRITE, group);
        // Another one's copy takes its place, which is a race; the first one's wait is not for it.
        assert!(races(&mut shadow, 1, 0, WRITE));
        shadow.started((1, 0), Part { rank: 0, range: 0..4 }, WRITE, group);
        shadow.wait((0, 0), false, None);
        assert!(races(&mut shadow, 1, 0, READ));
        // Nor does an mbarrier that hears of the first one's copies hear of it.
        let before = State::new(1);
        copy(&mut shadow, 0, 8, WRITE, group);
        assert!(races(&mut shadow, 1, 8, WRITE));
        shadow.started((1, 0), Part { rank: 0, range: 8..12 }, WRITE, group);
        shadow.notified((0, 0), PLACE, before);
        shadow.phase(1, PLACE, Phase::Over(before.arrive(1, false)));
        assert!(races(&mut shadow, 1, 8, READ));
        shadow.wait((1, 0), false, None);
        assert!(!races(&mut shadow, 1, 0, READ) && !races(&mut shadow, 1, 8, READ));
    }

    #[test]
    fn what_is_combined_may_meet() {
        const COMBINED: Kind = Kind { reads: true, writes: true, atomic: true, unit: 4 };
        for (kind, meets) in [(COMBINED, false), (WRITE, true)] {
            let mut shadow = Shadow::new(1, 128, 2);
            let awaited = Awaited::Mbarrier(PLACE, State::new(1));
            copy(&mut shadow, 0, 0, WRITE, Awaited::Group { bulk: false });
            shadow.wait((0, 0), false, None);
            meet(&mut shadow, [0, 1]);
            for warp in [0, 1] {
                assert_eq!(races(&mut shadow, warp, 0, kind), meets && warp == 1);
                shadow.started((warp, 0), Part { rank: 0, range: 0..4 }, kind, awaited);
            }
        }
    }

    #[test]
    fn who_never_waits_has_so_many_copies_and_no_more() {
        let mut shadow = Shadow::new(1, 8, 1);
        for _ in 0..3 * COPIES_MAX {
            let part = Part { rank: 0, range: 0..4 };
            shadow.started((0, 0), part, WRITE, Awaited::Group { bulk: false });
        }
        assert!(shadow.copies.queues.values().all(|queue| queue.copies.len() <= COPIES_MAX));
    }
}
