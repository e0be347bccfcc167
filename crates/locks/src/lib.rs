//! Locks: the mutex, read-write lock and condition variable of `std::sync`, without poison.
//!
//! What a mutex guards here stays whole when a thread panics: nothing is changed in two steps that a panic
//! could come between. A thread that takes a lock which it holds waits for itself for good, in silence. In
//! debug builds, which all tests are, it panics with the place instead; and so does one that takes locks of ranks
//! ([`RankedMutex`]) in another order than theirs. One account of what a thread holds does both (`held`).

mod held;
mod ranked;

pub use ranked::{Rank, RankedMutex};

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::time::Duration;
use held::Held;
use std::sync::{PoisonError, TryLockError, WaitTimeoutResult};

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

/// A lock that many readers hold at a time, or one writer.
#[derive(Default)]
pub struct RwLock<T> {
    inner: std::sync::RwLock<T>,
}

/// A read-write lock that this thread holds for reading.
pub struct RwLockReadGuard<'a, T> {
    inner: std::sync::RwLockReadGuard<'a, T>,
    _held: Held,
}

/// A read-write lock that this thread holds for writing.
pub struct RwLockWriteGuard<'a, T> {
    inner: std::sync::RwLockWriteGuard<'a, T>,
    _held: Held,
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
    /// # Panics
    /// In debug builds, if this thread holds it.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.lock_as(Held::new(core::ptr::from_ref(self).addr()))
    }

    #[inline(always)]
    fn lock_as(&self, held: Held) -> MutexGuard<'_, T> {
        MutexGuard { inner: self.inner.lock().unwrap_or_else(PoisonError::into_inner), held }
    }

    /// Takes it if no thread has it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = unless_taken(self.inner.try_lock())?;
        Some(MutexGuard { inner, held: Held::noted(core::ptr::from_ref(self).addr()) })
    }

    /// What it guards, of a mutex that no other thread has.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it guards.
    pub fn into_inner(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> RwLock<T> {
    /// A lock that no thread holds.
    pub const fn new(value: T) -> Self {
        Self { inner: std::sync::RwLock::new(value) }
    }

    /// Waits until no thread writes, and holds it for reading.
    ///
    /// # Panics
    /// In debug builds, if this thread holds it: a writer that waits in between would stop both.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let _held = Held::new(core::ptr::from_ref(self).addr());
        RwLockReadGuard { inner: self.inner.read().unwrap_or_else(PoisonError::into_inner), _held }
    }

    /// Holds it for reading if no thread writes.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let inner = unless_taken(self.inner.try_read())?;
        Some(RwLockReadGuard { inner, _held: Held::noted(core::ptr::from_ref(self).addr()) })
    }

    /// Waits until no other thread has it, and holds it for writing.
    ///
    /// # Panics
    /// In debug builds, if this thread holds it.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let _held = Held::new(core::ptr::from_ref(self).addr());
        RwLockWriteGuard {
            inner: self.inner.write().unwrap_or_else(PoisonError::into_inner),
            _held,
        }
    }
}

/// What was taken, unless another thread has it.
#[inline]
fn unless_taken<G>(tried: Result<G, TryLockError<G>>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A guard is what it guards.
macro_rules! deref {
    ($guard:ident) => {
        impl<T> Deref for $guard<'_, T> {
            type Target = T;
            #[inline(always)]
            fn deref(&self) -> &T {
                &self.inner
            }
        }
    };
    (mut $guard:ident) => {
        deref!($guard);
        impl<T> DerefMut for $guard<'_, T> {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut T {
                &mut self.inner
            }
        }
    };
}

deref!(mut MutexGuard);
deref!(RwLockReadGuard);
deref!(mut RwLockWriteGuard);

impl Condvar {
    /// A condition that no thread waits for.
    pub const fn new() -> Self {
        Self { inner: std::sync::Condvar::new() }
    }

    /// Gives the mutex away, waits to be notified, and takes it again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { inner, held } = guard;
        MutexGuard { inner: self.inner.wait(inner).unwrap_or_else(PoisonError::into_inner), held }
    }

    /// As [`Condvar::wait`], for so long at most.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        longest: Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let MutexGuard { inner, held } = guard;
        let waited = self.inner.wait_timeout(inner, longest);
        let (inner, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (MutexGuard { inner, held }, result)
    }

    /// As [`Condvar::wait`], until `waits` says false.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        waits: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let MutexGuard { inner, held } = guard;
        let waited = self.inner.wait_while(inner, waits);
        MutexGuard { inner: waited.unwrap_or_else(PoisonError::into_inner), held }
    }

    /// As [`Condvar::wait_while`], for so long at most.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        longest: Duration,
        waits: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let MutexGuard { inner, held } = guard;
        let waited = self.inner.wait_timeout_while(inner, longest, waits);
        let (inner, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (MutexGuard { inner, held }, result)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    #[cfg(debug_assertions)]
    fn a_thread_that_takes_what_it_holds_panics_rather_than_waiting_for_ever() {
        let (mutex, other) = (Mutex::new(1), Mutex::new(2));
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let sum = |a: &Mutex<i32>, b: &Mutex<i32>| *a.lock() + *b.lock();
            assert_eq!(sum(&mutex, &other), 3);
            sum(&mutex, &mutex)
        }));
        assert!(tried.is_err());
        // The panic gave it back.
        let guard = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(guard);
        assert_eq!(*mutex.lock(), 1);
        let shared = RwLock::new(3);
        let sum = |a: &RwLock<i32>, b: &RwLock<i32>| *a.read() + *b.read();
        assert!(catch_unwind(AssertUnwindSafe(|| sum(&shared, &shared))).is_err());
        *shared.write() = 4;
        assert_eq!(*shared.read(), 4);
    }

    #[test]
    fn a_panic_leaves_what_is_guarded_to_others() {
        let (mutex, shared) = (Mutex::new(1), RwLock::new(2));
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let (_mutex, _shared) = (mutex.lock(), shared.write());
            panic!("with both");
        }));
        assert!(tried.is_err());
        assert_eq!((*mutex.lock(), *shared.read()), (1, 2));
        assert!(mutex.try_lock().is_some() && shared.try_read().is_some());
    }

    #[test]
    fn one_that_waits_for_a_condition_gives_the_mutex_away() {
        let (mutex, condition) = (Mutex::new(false), Condvar::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *mutex.lock() = true;
                condition.notify_all();
            });
            let mut done = mutex.lock();
            while !*done {
                done = condition.wait(done);
            }
            let (done, _) = condition.wait_timeout(done, Duration::from_millis(1));
            assert!(*done);
        });
        assert!(*mutex.lock());
    }
}
