//! Reservation table: which register of the vector IR each machine register holds, interval by
//! interval.

use simt::analysis::live_intervals::LiveInterval;

/// What a machine register holds through a live interval.
#[derive(Clone, Copy)]
struct Reservation {
    interval: LiveInterval,
    owner: usize,
}

/// Machine registers of one kind, by number.
pub(crate) struct IntervalTable {
    /// By machine register, in order.
    taken: Vec<Vec<Reservation>>,
}

impl IntervalTable {
    /// A number of registers, all free.
    pub(crate) fn new(registers: usize) -> Self {
        Self { taken: vec![Vec::new(); registers] }
    }

    /// True if a machine register is free in live intervals. Where it is taken up to a position from
    /// which on it is wanted, or the other way round, `passes` says whether that owner passes it on
    /// there.
    pub(crate) fn is_free(
        &self,
        register: usize,
        intervals: &[LiveInterval],
        passes: impl Fn(usize, u32) -> bool,
    ) -> bool {
        let list = &self.taken[register];
        intervals.iter().all(|s| {
            let first = list.partition_point(|t| t.interval.end < s.start);
            let meets = list[first..].iter().take_while(|t| t.interval.start <= s.end);
            meets.into_iter().all(|t| {
                let touches = t.interval.end == s.start || t.interval.start == s.end;
                touches && passes(t.owner, s.start.max(t.interval.start))
            })
        })
    }

    /// The first `count` registers that are free in live intervals.
    pub(crate) fn find(&self, count: usize, intervals: &[LiveInterval]) -> Option<Vec<usize>> {
        let free = (0..self.taken.len()).filter(|r| self.is_free(*r, intervals, |_, _| false));
        let found: Vec<usize> = free.take(count).collect();
        (found.len() == count).then_some(found)
    }

    /// The first of as many registers in a row as there are owners, each free in the live intervals of
    /// its own.
    pub(crate) fn find_row(&self, owners: &[&[LiveInterval]]) -> Option<usize> {
        let last = self.taken.len().checked_sub(owners.len())?;
        (0..=last).find(|first| {
            let mut row = (*first..).zip(owners);
            row.all(|(register, intervals)| self.is_free(register, intervals, |_, _| false))
        })
    }

    /// Gives a register that is free in live intervals to an owner.
    pub(crate) fn reserve(&mut self, register: usize, owner: usize, intervals: &[LiveInterval]) {
        let list = &mut self.taken[register];
        // Two reservations of a register meet in at most one position, where it is passed on.
        debug_assert!(
            intervals.iter().all(|s| list
                .iter()
                .all(|t| { t.interval.end <= s.start || t.interval.start >= s.end })),
            "{register} is not free for {owner}"
        );
        for interval in intervals {
            let at = list.partition_point(|t| {
                (t.interval.start, t.interval.end) < (interval.start, interval.end)
            });
            list.insert(at, Reservation { interval: *interval, owner });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(start: u32, end: u32) -> LiveInterval {
        LiveInterval { start, end }
    }

    #[test]
    fn holes_are_free() {
        let mut table = IntervalTable::new(1);
        table.reserve(0, 7, &[interval(0, 3), interval(10, 12)]);
        assert!(table.find(1, &[interval(4, 9), interval(13, 20)]).is_some());
        assert!(table.find(1, &[interval(4, 10)]).is_none());
        assert!(table.find(1, &[interval(3, 3)]).is_none());
    }

    #[test]
    fn a_row_is_free_where_each_is_wanted() {
        let mut table = IntervalTable::new(4);
        table.reserve(1, 7, &[interval(0, 3)]);
        assert_eq!(table.find_row(&[&[interval(2, 5)], &[interval(4, 9)]]), Some(0));
        assert_eq!(table.find_row(&[&[interval(2, 5)], &[interval(2, 5)]]), Some(2));
        let [early, late]: [&[LiveInterval]; 2] = [&[interval(2, 5)], &[interval(5, 6)]];
        assert_eq!((table.find_row(&[early; 3]), table.find_row(&[late; 4])), (None, Some(0)));
        assert_eq!(table.find_row(&[late; 5]), None);
    }

    #[test]
    fn a_register_is_passed_on_where_its_owner_says_so() {
        let mut table = IntervalTable::new(1);
        table.reserve(0, 7, &[interval(0, 3), interval(10, 12)]);
        let passes = |owner, position| owner == 7 && position == 3;
        assert!(table.is_free(0, &[interval(3, 9)], passes));
        assert!(!table.is_free(0, &[interval(3, 10)], passes), "it is wanted again at 10");
        assert!(!table.is_free(0, &[interval(2, 9)], passes), "it is still read at 3");
        table.reserve(0, 8, &[interval(3, 9)]);
        assert!(!table.is_free(0, &[interval(9, 9)], passes));
    }
}
