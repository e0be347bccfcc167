//! Driver locks: those of a vendor's driver, in a server.
//!
//! NVIDIA's driver guards a context with mutexes of the C library, which put a waiter to sleep at
//! once. A server's threads all submit to one context and hold such a mutex for about a microsecond
//! at a time; to sleep and to be woken costs ten. So this program has a `pthread_mutex_lock` of its
//! own, which comes before the C library's for all that it loads: in a server it tries for a moment
//! before it sleeps, and a shorter one while programs leave no core free.
//!
//! Not here: locks of our own, which are none of the C library's. Invariant: a process that is not
//! a server, or has few cores, gets the C library's function and nothing else.

use channel::wait::SPIN_CORES_MIN;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// How often a mutex is tried before the thread sleeps; with the pauses in between some 20 us, a
/// few times what the driver holds one.
const TRIES: u32 = 24;
/// As [`TRIES`], while programs leave no core free: some 3 us. A thread that holds
/// the mutex may have lost its core, and one that tries takes a core from one that would work.
const TRIES_OVERSUBSCRIBED: u32 = 6;
/// Longest pause between two tries, in turns of a spin loop (1 us): a thread that tries more often
/// takes the mutex' cache line away from the thread that holds it.
const PAUSE_TURNS_MAX: u32 = 16;

/// [`TRIES`] or [`TRIES_OVERSUBSCRIBED`] in a server, else 0.
static TRIES_HERE: AtomicU32 = AtomicU32::new(0);
/// The C library's function, once it has been looked for.
static C_LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

type Lock = unsafe extern "C" fn(*mut libc::pthread_mutex_t) -> c_int;

/// How often a mutex is tried in a server on that many cores.
const fn tries(cores: usize, oversubscribed: bool) -> u32 {
    match (cores >= SPIN_CORES_MIN, oversubscribed) {
        (false, _) => 0,
        (true, false) => TRIES,
        (true, true) => TRIES_OVERSUBSCRIBED,
    }
}

/// Lets threads of this process try for a moment from now on.
pub(crate) fn be_patient() {
    set_oversubscribed(false);
}

/// As [`be_patient`]: whether programs leave no core free.
pub(crate) fn set_oversubscribed(oversubscribed: bool) {
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    // Every lock of the driver's reads it: it is written only where it changes.
    let tries = tries(*cores, oversubscribed);
    if TRIES_HERE.load(Ordering::Relaxed) != tries {
        TRIES_HERE.store(tries, Ordering::Relaxed);
    }
}

/// As the C library's, see the module.
///
/// # Safety
/// `mutex` is a mutex of the C library.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_mutex_lock(mutex: *mut libc::pthread_mutex_t) -> c_int {
    let mut turns = 1;
    for _ in 0..TRIES_HERE.load(Ordering::Relaxed) {
        // SAFETY: the caller vouches for the mutex.
        match unsafe { libc::pthread_mutex_trylock(mutex) } {
            libc::EBUSY => {}
            answer => return answer,
        }
        for _ in 0..turns {
            std::hint::spin_loop();
        }
        turns = u32::min(turns * 2, PAUSE_TURNS_MAX);
    }
    let lock = c_library();
    // SAFETY: the caller vouches for the mutex.
    unsafe { lock(mutex) }
}

fn c_library() -> Lock {
    let mut found = C_LIBRARY.load(Ordering::Relaxed);
    if found.is_null() {
        // SAFETY: the name is a C string. Looking it up locks no mutex by this function.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_mutex_lock".as_ptr()) };
        C_LIBRARY.store(found, Ordering::Relaxed);
    }
    // SAFETY: the C library has this function, so it was found, and it has this type.
    unsafe { std::mem::transmute::<*mut c_void, Lock>(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::atomic::AtomicBool;

    struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

    // SAFETY: a mutex of the C library is made to be used by many threads.
    unsafe impl Sync for Mutex {}

    #[test]
    fn oversubscription_tries_for_a_shorter_moment_and_few_cores_not_at_all() {
        let at = |cores| [tries(cores, false), tries(cores, true)];
        assert_eq!(at(SPIN_CORES_MIN - 1), [0; 2]);
        assert_eq!(at(SPIN_CORES_MIN), [TRIES, TRIES_OVERSUBSCRIBED]);
        // Pauses in turns of a spin loop, of which 16 take a microsecond.
        let pauses = |tries| (0..tries).map(|at| (1 << at).min(PAUSE_TURNS_MAX)).sum::<u32>();
        assert!((16..=64).contains(&pauses(TRIES_OVERSUBSCRIBED)));
        assert!(pauses(TRIES) >= 4 * pauses(TRIES_OVERSUBSCRIBED));
    }

    #[test]
    fn a_mutex_excludes_whether_patient_or_not() {
        for tries in [0, TRIES_OVERSUBSCRIBED, TRIES] {
            TRIES_HERE.store(tries, Ordering::Relaxed);
            let mutex = Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
            let inside = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let mutex = &mutex;
                        for _ in 0..200 {
                            // SAFETY: the mutex is initialised and outlives the threads.
                            assert_eq!(unsafe { pthread_mutex_lock(mutex.0.get()) }, 0);
                            assert!(!inside.swap(true, Ordering::Relaxed));
                            std::thread::yield_now();
                            assert!(inside.swap(false, Ordering::Relaxed));
                            // SAFETY: this thread holds it.
                            assert_eq!(unsafe { libc::pthread_mutex_unlock(mutex.0.get()) }, 0);
                        }
                    });
                }
            });
        }
    }
}
