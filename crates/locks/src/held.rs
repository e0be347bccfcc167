//! What a thread holds: the one check of re-entry and of ranks, in debug builds.

use core::fmt::Debug;

/// That this thread holds a lock: in release builds nothing.
pub(crate) struct Held {
    #[cfg(debug_assertions)]
    address: usize,
}

#[cfg(debug_assertions)]
mod checked {
    use super::{Debug, Held};
    use std::cell::RefCell;

    thread_local! {
        /// Addresses of the locks that this thread holds, with their ranks.
        static HELD: RefCell<Vec<(usize, Option<u8>)>> = const { RefCell::new(Vec::new()) };
    }

    /// Whether this thread holds a lock of that kind. A thread that ends may have no such variable any more: then
    /// nothing is checked.
    fn holds(is_it: impl FnMut(&(usize, Option<u8>)) -> bool) -> bool {
        HELD.try_with(|held| held.borrow().iter().any(is_it)).unwrap_or(false)
    }

    impl Held {
        /// The lock at an address is about to be taken.
        #[track_caller]
        pub(crate) fn new(address: usize) -> Self {
            assert!(
                !holds(|(other, _)| *other == address),
                "this thread takes a lock that it holds"
            );
            Self::noted(address)
        }

        /// The same of one with a rank, by its number and its name.
        #[track_caller]
        pub(crate) fn ranked(address: usize, rank: u8, name: impl Debug) -> Self {
            let is_above = |(_, other): &(usize, Option<u8>)| other.is_some_and(|at| at >= rank);
            assert!(
                !holds(is_above),
                "a lock of rank {name:?} is taken by a thread that holds one of that rank or a higher one"
            );
            Self::entered(address, Some(rank))
        }

        /// The lock at an address was taken.
        pub(crate) fn noted(address: usize) -> Self {
            Self::entered(address, None)
        }

        fn entered(address: usize, rank: Option<u8>) -> Self {
            let _ = HELD.try_with(|held| held.borrow_mut().push((address, rank)));
            Self { address }
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|(address, _)| *address == self.address) {
                    held.swap_remove(at);
                }
            });
        }
    }
}

#[cfg(not(debug_assertions))]
impl Held {
    #[inline(always)]
    pub(crate) const fn new(_: usize) -> Self {
        Self {}
    }

    #[inline(always)]
    pub(crate) fn ranked(_: usize, _: u8, _: impl Debug) -> Self {
        Self {}
    }

    #[inline(always)]
    pub(crate) const fn noted(_: usize) -> Self {
        Self {}
    }
}
