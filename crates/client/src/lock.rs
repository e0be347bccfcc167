//! Mutexes with a rank: the order in which a thread may take them, checked in debug builds.
//!
//! A thread that holds a lock takes further ones of a higher rank only, so no two threads wait for
//! each other.

use core::ops::{Deref, DerefMut};
use core::time::Duration;
use locks::{Condvar, Mutex, MutexGuard};

/// Ranks, lowest first. (Graphs and captures have a lock of their own in crate graph, before all.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Making a connection, for the first time or in place of one that is lost.
    Connecting,
    /// Loading a library of another device.
    Libraries,
    /// Looking a function up by its name.
    Finding,
    /// Memory, arrays, host functions: one of them at a time.
    Objects,
    /// What a device's server knows of other devices.
    Peers,
    /// The one call that is in flight.
    Calls,
    /// Staging.
    Staging,
    /// The ring and the tables of what may be put into it.
    Submission,
    /// What is only ever looked up or changed: contexts, links, descriptions of green contexts.
    Leaf,
}

/// A mutex with its place in the order.
pub(crate) struct Lock<T> {
    rank: Rank,
    mutex: Mutex<T>,
}

/// A lock that this thread holds.
pub(crate) struct Guard<'a, T> {
    // Given back before the rank is.
    guard: MutexGuard<'a, T>,
    held: Held,
}

impl<T> Lock<T> {
    /// A lock of that rank.
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        Self { rank, mutex: Mutex::new(value) }
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// In debug builds, if this thread holds a lock of that rank or a higher one.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let held = Held::new(self.rank);
        Guard { guard: self.mutex.lock(), held }
    }
}

impl<T> Guard<'_, T> {
    /// Gives the lock away, waits to be notified, and takes it again.
    pub(crate) fn wait(self, condition: &Condvar) -> Self {
        let Self { guard, held } = self;
        Self { guard: condition.wait(guard), held }
    }

    /// As [`Self::wait`], at most so long.
    pub(crate) fn wait_timeout(self, condition: &Condvar, timeout: Duration) -> Self {
        let Self { guard, held } = self;
        let waited = condition.wait_timeout(guard, timeout);
        Self { guard: waited.0, held }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// That this thread holds a lock of a rank: in release builds nothing.
struct Held {
    #[cfg(debug_assertions)]
    rank: Rank,
}

#[cfg(debug_assertions)]
mod checked {
    use super::{Held, Rank};
    use core::cell::Cell;

    thread_local! {
        /// Ranks that this thread holds, a bit each.
        static RANKS: Cell<u32> = const { Cell::new(0) };
    }

    impl Held {
        pub(super) fn new(rank: Rank) -> Self {
            // A thread that ends may have no such variable any more: then nothing is checked.
            let ranks = RANKS.try_with(Cell::get).unwrap_or(0);
            assert!(
                ranks >> rank as u32 == 0,
                "a lock of rank {rank:?} is taken while ranks {ranks:#b} are held"
            );
            let _ = RANKS.try_with(|held| held.set(ranks | 1 << rank as u32));
            Self { rank }
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = RANKS.try_with(|held| held.set(held.get() & !(1 << self.rank as u32)));
        }
    }
}

#[cfg(not(debug_assertions))]
impl Held {
    #[inline(always)]
    const fn new(_: Rank) -> Self {
        Self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_upwards_and_given_back_in_any_order() {
        let (low, high) = (Lock::new(Rank::Objects, 1), Lock::new(Rank::Submission, 2));
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
        for (held, wanted) in [(Rank::Submission, Rank::Calls), (Rank::Objects, Rank::Objects)] {
            let (held, wanted) = (Lock::new(held, ()), Lock::new(wanted, ()));
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
