//! Reservation table: when each machine register holds a value, interval by interval.

use simt::analysis::live_intervals::LiveInterval;

/// Machine registers of one kind, by number.
pub(crate) struct IntervalTable {
    /// By machine register, in order.
    taken: Vec<Vec<LiveInterval>>,
}

impl IntervalTable {
    /// A number of registers, all free.
    pub(crate) fn new(registers: usize) -> Self {
        Self { taken: vec![Vec::new(); registers] }
    }

    /// True if a machine register is free in live intervals.
    pub(crate) fn is_free(&self, register: usize, intervals: &[LiveInterval]) -> bool {
        let list = &self.taken[register];
        intervals.iter().all(|s| {
            let first = list.partition_point(|t| t.end < s.start);
            list.get(first).is_none_or(|t| t.start > s.end)
        })
    }

    /// The first `count` registers that are free in live intervals.
    pub(crate) fn find(&self, count: usize, intervals: &[LiveInterval]) -> Option<Vec<usize>> {
        let free = (0..self.taken.len()).filter(|r| self.is_free(*r, intervals));
        let found: Vec<usize> = free.take(count).collect();
        (found.len() == count).then_some(found)
    }

    /// The first of as many registers in a row as there are owners, each free in the live intervals of
    /// its own.
    pub(crate) fn find_row(&self, owners: &[&[LiveInterval]]) -> Option<usize> {
        let last = self.taken.len().checked_sub(owners.len())?;
        (0..=last).find(|first| {
            let mut row = (*first..).zip(owners);
            row.all(|(register, intervals)| self.is_free(register, intervals))
        })
    }

    /// Gives a register that is free in live intervals.
    pub(crate) fn reserve(&mut self, register: usize, intervals: &[LiveInterval]) {
        let list = &mut self.taken[register];
        debug_assert!(
            intervals.iter().all(|s| list.iter().all(|t| { t.end < s.start || t.start > s.end })),
            "{register} is not free"
        );
        for interval in intervals {
            let at = list.partition_point(|t| (t.start, t.end) < (interval.start, interval.end));
            list.insert(at, *interval);
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
        table.reserve(0, &[interval(0, 3), interval(10, 12)]);
        assert!(table.find(1, &[interval(4, 9), interval(13, 20)]).is_some());
        assert!(table.find(1, &[interval(4, 10)]).is_none());
        assert!(table.find(1, &[interval(3, 3)]).is_none());
    }

    #[test]
    fn a_row_is_free_where_each_is_wanted() {
        let mut table = IntervalTable::new(4);
        table.reserve(1, &[interval(0, 3)]);
        assert_eq!(table.find_row(&[&[interval(2, 5)], &[interval(4, 9)]]), Some(0));
        assert_eq!(table.find_row(&[&[interval(2, 5)], &[interval(2, 5)]]), Some(2));
        let [early, late]: [&[LiveInterval]; 2] = [&[interval(2, 5)], &[interval(5, 6)]];
        assert_eq!((table.find_row(&[early; 3]), table.find_row(&[late; 4])), (None, Some(0)));
        assert_eq!(table.find_row(&[late; 5]), None);
    }
}
