//! Mutexes with a rank: the order in which a thread may take them, checked in debug builds.
//!
//! A thread that holds a lock takes further ones of a higher rank only, so no two threads wait for
//! each other.

use crate::held::Held;
use crate::{Mutex, MutexGuard};
use core::fmt::Debug;

/// A place in the order.
pub trait Rank: Copy + Debug {
    /// Its number: higher ones are taken later.
    fn number(self) -> u8;
}

/// A mutex with its place in the order.
pub struct RankedMutex<R, T> {
    rank: R,
    mutex: Mutex<T>,
}

impl<R, T> RankedMutex<R, T> {
    /// A lock of that rank.
    pub const fn new(rank: R, value: T) -> Self {
        Self { rank, mutex: Mutex::new(value) }
    }
}

impl<R: Rank, T> RankedMutex<R, T> {
    /// Takes the lock.
    ///
    /// # Panics
    /// In debug builds, if this thread holds a lock of that rank or a higher one.
    #[inline(always)]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let address = core::ptr::from_ref(&self.mutex).addr();
        self.mutex.lock_as(Held::ranked(address, self.rank.number(), self.rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Place {
        Low,
        High,
    }

    impl Rank for Place {
        fn number(self) -> u8 {
            self as u8
        }
    }

    #[test]
    fn locks_are_taken_upwards_and_given_back_in_any_order() {
        let (low, high) = (RankedMutex::new(Place::Low, 1), RankedMutex::new(Place::High, 2));
        for _ in 0..2 {
            let first = low.lock();
            let second = high.lock();
            drop(first);
            assert_eq!(*second, 2);
        }
        *low.lock() += 1;
        assert_eq!(*low.lock(), 2);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_lock_of_a_lower_or_the_same_rank_is_not_taken() {
        for (held, wanted) in [(Place::High, Place::Low), (Place::Low, Place::Low)] {
            let (held, wanted) = (RankedMutex::new(held, ()), RankedMutex::new(wanted, ()));
            let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _held = held.lock();
                drop(wanted.lock());
            }));
            assert!(tried.is_err());
            // The panic gave everything back, and its poison is no matter.
            drop(wanted.lock());
            drop(held.lock());
        }
    }
}
