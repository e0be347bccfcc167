//! Mutexes that notice when a thread takes one that it holds.
//!
//! Such a thread waits for itself for good, in silence. In debug builds, which all tests are, it panics with
//! the place instead. The types have the names and methods of `std::sync`, whose they are in release builds.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::time::Duration;
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};

/// A mutex.
#[derive(Default)]
pub struct Mutex<T> {
    inner: std::sync::Mutex<T>,
}

/// A mutex that this thread holds.
pub struct MutexGuard<'a, T> {
    // Given back before it counts as that.
    inner: std::sync::MutexGuard<'a, T>,
    held: Held,
}

/// A condition that threads wait for.
#[derive(Debug, Default)]
pub struct Condvar {
    inner: std::sync::Condvar,
}

impl<T> Mutex<T> {
    /// A mutex that no thread holds.
    pub const fn new(value: T) -> Self {
        Self { inner: std::sync::Mutex::new(value) }
    }

    /// Waits until this thread has it.
    ///
    /// # Errors
    /// As that of `std::sync`, if a thread panicked that held it.
    ///
    /// # Panics
    /// In debug builds, if this thread holds it.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let held = Held::new(core::ptr::from_ref(self).addr());
        match self.inner.lock() {
            Ok(inner) => Ok(MutexGuard { inner, held }),
            Err(poisoned) => {
                Err(PoisonError::new(MutexGuard { inner: poisoned.into_inner(), held }))
            }
        }
    }

    /// Takes it if no thread has it.
    ///
    /// # Errors
    /// As that of `std::sync`.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let held =
            |inner| MutexGuard { inner, held: Held::noted(core::ptr::from_ref(self).addr()) };
        match self.inner.try_lock() {
            Ok(inner) => Ok(held(inner)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => {
                Err(TryLockError::Poisoned(PoisonError::new(held(poisoned.into_inner()))))
            }
        }
    }

    /// What it guards, of a mutex that no other thread has.
    ///
    /// # Errors
    /// As that of `std::sync`.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }

    /// What it guards.
    ///
    /// # Errors
    /// As that of `std::sync`.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl Condvar {
    /// A condition that no thread waits for.
    pub const fn new() -> Self {
        Self { inner: std::sync::Condvar::new() }
    }

    /// Gives the mutex away, waits to be notified, and takes it again.
    ///
    /// # Errors
    /// As that of `std::sync`.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { inner, held } = guard;
        match self.inner.wait(inner) {
            Ok(inner) => Ok(MutexGuard { inner, held }),
            Err(poisoned) => {
                Err(PoisonError::new(MutexGuard { inner: poisoned.into_inner(), held }))
            }
        }
    }

    /// As [`Condvar::wait`], for so long at most.
    ///
    /// # Errors
    /// As that of `std::sync`.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        longest: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let MutexGuard { inner, held } = guard;
        match self.inner.wait_timeout(inner, longest) {
            Ok((inner, result)) => Ok((MutexGuard { inner, held }, result)),
            Err(poisoned) => {
                let (inner, result) = poisoned.into_inner();
                Err(PoisonError::new((MutexGuard { inner, held }, result)))
            }
        }
    }

    /// As [`Condvar::wait`], until `waits` says false.
    ///
    /// # Errors
    /// As that of `std::sync`.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { inner, held } = guard;
        match self.inner.wait_while(inner, waits) {
            Ok(inner) => Ok(MutexGuard { inner, held }),
            Err(poisoned) => {
                Err(PoisonError::new(MutexGuard { inner: poisoned.into_inner(), held }))
            }
        }
    }

    /// As [`Condvar::wait_while`], for so long at most.
    ///
    /// # Errors
    /// As that of `std::sync`.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        longest: Duration,
        waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let MutexGuard { inner, held } = guard;
        match self.inner.wait_timeout_while(inner, longest, waits) {
            Ok((inner, result)) => Ok((MutexGuard { inner, held }, result)),
            Err(poisoned) => {
                let (inner, result) = poisoned.into_inner();
                Err(PoisonError::new((MutexGuard { inner, held }, result)))
            }
        }
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}

/// That this thread holds a mutex: in release builds nothing.
struct Held {
    #[cfg(debug_assertions)]
    address: usize,
}

#[cfg(debug_assertions)]
mod checked {
    use super::Held;
    use std::cell::RefCell;

    thread_local! {
        /// Addresses of the mutexes that this thread holds.
        static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    impl Held {
        #[track_caller]
        pub(super) fn new(address: usize) -> Self {
            // A thread that ends may have no such variable any more: then nothing is checked.
            let again = HELD.try_with(|held| held.borrow().contains(&address)).unwrap_or(false);
            assert!(!again, "this thread takes a mutex that it holds");
            Self::noted(address)
        }

        pub(super) fn noted(address: usize) -> Self {
            let _ = HELD.try_with(|held| held.borrow_mut().push(address));
            Self { address }
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|address| *address == self.address) {
                    held.swap_remove(at);
                }
            });
        }
    }
}

#[cfg(not(debug_assertions))]
impl Held {
    #[inline(always)]
    const fn new(_: usize) -> Self {
        Self {}
    }

    #[inline(always)]
    const fn noted(_: usize) -> Self {
        Self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    #[cfg(debug_assertions)]
    fn a_thread_that_takes_what_it_holds_is_told_rather_than_waiting_for_ever() {
        let (mutex, other) = (Mutex::new(1), Mutex::new(2));
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let sum = |a: &Mutex<i32>, b: &Mutex<i32>| *a.lock().unwrap() + *b.lock().unwrap();
            assert_eq!(sum(&mutex, &other), 3);
            sum(&mutex, &mutex)
        }));
        assert!(tried.is_err());
        // The panic gave it back.
        let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
        drop(guard);
        assert_eq!(*mutex.lock().unwrap_or_else(PoisonError::into_inner), 1);
    }

    #[test]
    fn one_that_waits_for_a_condition_gives_the_mutex_away() {
        let (mutex, condition) = (Mutex::new(false), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *mutex.lock().unwrap() = true;
                condition.notify_all();
            });
            let mut done = mutex.lock().unwrap();
            while !*done {
                done = condition.wait(done).unwrap();
            }
            let (done, _) = condition.wait_timeout(done, Duration::from_millis(1)).unwrap();
            assert!(*done);
        });
        assert!(*mutex.lock().unwrap());
    }
}
