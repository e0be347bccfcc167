//! Order: which operations of other streams come before those of a stream. A program that has waited for the
//! latter has waited for the former too.
//!
//! Events order operations, and default streams do, which take turns with others.

use crate::Mark;
use std::collections::VecDeque;

/// Most orders of each kind that are kept of a stream.
const KEPT_MAX: usize = 1 << 16;

/// What comes before the operations of one stream.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// From an operation of this stream on it comes behind an operation of another one.
    behind: VecDeque<(u64, Mark)>,
    /// From an operation of this stream on it comes behind an operation of its default stream, and those
    /// before it do before the next one of that stream.
    turns: VecDeque<(u64, u64)>,
    /// The last turn that was noted.
    turn: u64,
    incomplete: bool,
}

impl Order {
    /// Notes that operations from that number on come behind another stream's.
    pub fn comes_behind(&mut self, value: u64, mark: Mark) {
        if self.behind.back().is_none_or(|(_, last)| *last != mark) {
            self.behind.push_back((value, mark));
            self.incomplete |= forget_oldest(&mut self.behind);
        }
    }

    /// How many operations of its default stream came before what was posted last.
    #[inline(always)]
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Notes that operations from that number on come behind so many of the default stream's.
    pub fn takes_turn(&mut self, value: u64, turn: u64) {
        self.turn = turn;
        self.turns.push_back((value, turn));
        self.incomplete |= forget_oldest(&mut self.turns);
    }

    /// The program has waited for the operation of that number: adds what it has waited for with it, of
    /// streams that this one waited for. Returns how many operations of the default stream are among that.
    pub fn waited_for(&mut self, value: u64, with_it: &mut Vec<Mark>) -> u64 {
        let known = self.behind.partition_point(|(from, _)| *from <= value);
        with_it.extend(self.behind.drain(..known).map(|(_, mark)| mark));
        let turns = self.turns.partition_point(|(from, _)| *from <= value);
        match turns {
            0 => 0,
            turns => self.turns[turns - 1].1,
        }
    }

    /// The program has waited for the operation of that number of the default stream: the last operation
    /// here that came before it; `None` if all did.
    pub fn before_turn(&mut self, turn: u64) -> Option<u64> {
        let over = self.turns.partition_point(|(_, of)| *of < turn);
        let next = self.turns.get(over).map(|(from, _)| from - 1);
        // An order that is known to be kept says nothing more.
        let kept = self.turns.partition_point(|(_, of)| *of <= turn);
        self.turns.drain(..kept);
        next
    }

    /// The program has waited for everything.
    pub fn all_is_waited(&mut self) {
        self.behind.clear();
        self.turns.clear();
        self.incomplete = false;
    }

    /// True unless orders were forgotten since the program waited for everything.
    pub fn is_complete(&self) -> bool {
        !self.incomplete
    }
}

/// Makes room. True if an order was forgotten.
fn forget_oldest<T>(orders: &mut VecDeque<T>) -> bool {
    orders.len() > KEPT_MAX && orders.pop_front().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operation_waited_for_is_waited_for_with_it() {
        let (mut order, mut with_it) = (Order::default(), Vec::new());
        let mark = |value| Mark { slot: 7, value };
        order.comes_behind(3, mark(10));
        order.comes_behind(5, mark(20));
        assert_eq!(order.waited_for(2, &mut with_it), 0);
        assert!(with_it.is_empty());
        order.waited_for(4, &mut with_it);
        assert_eq!(with_it, [mark(10)]);
        order.waited_for(5, &mut with_it);
        assert_eq!(with_it, [mark(10), mark(20)]);
    }

    #[test]
    fn turns_are_taken_both_ways() {
        let (mut order, mut with_it) = (Order::default(), Vec::new());
        // Operations 1 and 2, two of the default stream, 3, one more there, 4.
        order.takes_turn(3, 2);
        order.takes_turn(4, 3);
        assert_eq!((order.waited_for(2, &mut with_it), order.waited_for(3, &mut with_it)), (0, 2));
        assert_eq!(order.before_turn(1), Some(2));
        assert_eq!(order.before_turn(2), Some(2));
        assert_eq!(order.before_turn(3), Some(3));
        assert_eq!(order.before_turn(4), None);
        assert!(with_it.is_empty());
    }

    #[test]
    fn what_is_forgotten_is_known_until_everything_was_waited_for() {
        let mut order = Order::default();
        for value in 0..KEPT_MAX as u64 {
            order.comes_behind(value, Mark { slot: 1, value });
        }
        assert!(order.is_complete());
        order.comes_behind(KEPT_MAX as u64, Mark { slot: 2, value: 1 });
        assert!(!order.is_complete());
        order.all_is_waited();
        assert!(order.is_complete());
    }
}
