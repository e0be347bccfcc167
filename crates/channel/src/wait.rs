//! Adaptive waiting: spin briefly, then sleep on a futex.
//!
//! All futexes are shared ones (not FUTEX_PRIVATE_FLAG): the other side is another process. Every
//! sleep has a timeout in the end, because the other side may die without a word: waits take a
//! closure that is asked on each timeout whether it still makes sense to wait.

use crate::shared::SharedU32;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::sync::OnceLock;
use std::time::Instant;

/// How often a sleeping waiter wakes up to see whether its peer still lives.
pub const LIVENESS_PERIOD: Duration = Duration::from_millis(10);

/// Longest spin that OPENMPS_SPIN_US can ask for, microseconds: beyond a sleep's own granularity
/// spinning only heats.
pub const SPIN_US_MAX: u32 = 10_000;

/// Spin on machines with cores to spare, microseconds: a few times the cost of falling asleep and
/// being woken (5 to 10 us).
pub const SPIN_US_DEFAULT: u32 = 20;

/// Fewest cores at which a waiter may spin by default: client, server and device each need one.
pub const SPIN_CORES_MIN: usize = 4;

/// Turns a waiter that may not spin gives to others before it sleeps.
const YIELDS: u32 = 4;

/// A turn that took longer than this was used by somebody else: the core is wanted, so sleep.
const YIELD_WANTED: Duration = Duration::from_micros(5);

/// A consumer whose producer keeps waking it for next to nothing naps instead: it sleeps this long
/// and looks by itself. It is what an unhurried request can be late by.
const NAP: Duration = Duration::from_micros(50);

/// Naps with nothing to do before a consumer asks to be woken again: 1 to 2 ms.
const NAPS: u32 = 20;

/// Wake-ups for next to nothing before a consumer naps: enough not to be a coincidence.
const NAP_AFTER: u32 = 4;

/// How a waiter passes the time before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinPolicy {
    /// How long it looks again and again.
    pub spin: Duration,
    /// If `spin` is zero: how often it offers its core to others first. An offer that nobody
    /// takes costs well under a microsecond and often saves the peer a system call.
    pub yields: u32,
    /// How long a nap of a consumer is (see [`Consumer::wait`](crate::ring::Consumer::wait)).
    pub nap: Duration,
    /// How many naps it takes before it sleeps; zero: none.
    pub naps: u32,
    /// After how many wake-ups in a row for next to nothing it begins to nap.
    pub nap_after: u32,
}

impl SpinPolicy {
    /// Sleeps at once.
    pub const NONE: Self =
        Self { spin: Duration::ZERO, yields: 0, nap: Duration::ZERO, naps: 0, nap_after: 0 };

    /// The policy for a machine with that many cores and OPENMPS_SPIN_US set to that text.
    pub fn new(cores: usize, spin_us: Option<&str>) -> Self {
        let default = if cores < SPIN_CORES_MIN { 0 } else { SPIN_US_DEFAULT };
        let spin_us = spin_us.and_then(|text| text.trim().parse().ok()).unwrap_or(default);
        Self {
            spin: Duration::from_micros(u64::from(u32::min(spin_us, SPIN_US_MAX))),
            yields: YIELDS,
            nap: NAP,
            naps: NAPS,
            nap_after: NAP_AFTER,
        }
    }

    /// The policy of this process: by its environment and the cores it may use. The environment
    /// is read once.
    pub fn of_process() -> Self {
        static POLICY: OnceLock<SpinPolicy> = OnceLock::new();
        *POLICY.get_or_init(|| {
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
            let text = std::env::var(cuda_api::environment::OPENMPS_SPIN_US).ok();
            Self::new(cores, text.as_deref())
        })
    }

    /// Passes the time until `done` says true; false if it never did.
    #[inline]
    pub fn spin_until(&self, mut done: impl FnMut() -> bool) -> bool {
        if done() {
            return true;
        }
        if self.spin.is_zero() {
            return self.yield_until(done);
        }
        let start = Instant::now();
        loop {
            // Reading the clock costs about as much as these turns.
            for _ in 0..16 {
                core::hint::spin_loop();
                if done() {
                    return true;
                }
            }
            if start.elapsed() >= self.spin {
                return false;
            }
        }
    }

    fn yield_until(&self, mut done: impl FnMut() -> bool) -> bool {
        for _ in 0..self.yields {
            let start = Instant::now();
            std::thread::yield_now();
            if done() {
                return true;
            }
            if start.elapsed() >= YIELD_WANTED {
                break;
            }
        }
        false
    }
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Somebody woke this waiter, a signal arrived, or the word was not as expected to begin with:
    /// look again.
    LookAgain,
    /// The timeout passed.
    TimedOut,
}

/// Sleeps while the word is `expected`, `timeout` at most (`None`: no end).
pub fn sleep(word: SharedU32<'_>, expected: u32, timeout: Option<Duration>) -> Woken {
    let timeout = timeout.map(|t| libc::timespec {
        tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(t.subsec_nanos() as i32),
    });
    let timeout = timeout.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the word is mapped as long as `word` lives, the timeout is null or points to a local
    // variable; FUTEX_WAIT uses no other argument.
    let result = unsafe {
        libc::syscall(libc::SYS_futex, word.address(), libc::FUTEX_WAIT, expected, timeout)
    };
    if result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT) {
        Woken::TimedOut
    } else {
        Woken::LookAgain
    }
}

/// Wakes everybody who sleeps on the word.
pub fn wake(word: SharedU32<'_>) {
    // SAFETY: FUTEX_WAKE only takes the address as a key; the word is mapped while `word` lives.
    unsafe { libc::syscall(libc::SYS_futex, word.address(), libc::FUTEX_WAKE, i32::MAX) };
}

/// True if a counter that wraps has come to `value`: they are less than 2^31 apart, as they must
/// be because no stream can have that much work outstanding.
#[inline(always)]
pub const fn reached(counter: u32, value: u32) -> bool {
    counter.wrapping_sub(value) as i32 >= 0
}

/// Waits until the counter in `word` has reached `value`.
///
/// It spins as `policy` says. Then it calls `ask` once: whoever writes the word (a device) wakes
/// nobody, so somebody must be asked to. Then it sleeps, and calls `still_alive` every
/// [`LIVENESS_PERIOD`].
///
/// # Errors
/// What `ask` or `still_alive` return, unless the counter has reached the value nevertheless.
pub fn wait_until_reached<E>(
    word: SharedU32<'_>,
    value: u32,
    policy: SpinPolicy,
    ask: impl FnOnce() -> Result<(), E>,
    mut still_alive: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    if policy.spin_until(|| reached(word.load(), value)) {
        return Ok(());
    }
    let or_reached = |result: Result<(), E>| match result {
        Err(_) if reached(word.load(), value) => Ok(()),
        other => other,
    };
    or_reached(ask())?;
    loop {
        let seen = word.load();
        if reached(seen, value) {
            return Ok(());
        }
        if sleep(word, seen, Some(LIVENESS_PERIOD)) == Woken::TimedOut {
            or_reached(still_alive())?;
        }
    }
}

/// A doorbell's sleeping half: sleeps on `word` while `flag` is up, so that the other side makes a
/// system call only for somebody who sleeps. `ready` is looked at after the flag is up.
///
/// The other half is [`ring_doorbell`]. With both fences, either the sleeper sees what the other
/// side wrote before it rang, or that side sees the flag.
pub(crate) fn sleep_unless(
    flag: SharedU32<'_>,
    word: SharedU32<'_>,
    expected: u32,
    timeout: Duration,
    ready: impl Fn() -> bool,
) -> Woken {
    flag.swap(1);
    fence(Ordering::SeqCst);
    let woken = if ready() { Woken::LookAgain } else { sleep(word, expected, Some(timeout)) };
    flag.swap(0);
    woken
}

/// Wakes whoever sleeps on `word`, if `flag` says that somebody does.
pub(crate) fn ring_doorbell(flag: SharedU32<'_>, word: SharedU32<'_>) {
    fence(Ordering::SeqCst);
    if flag.atomic().load(Ordering::Relaxed) != 0 && flag.swap(0) != 0 {
        wake(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;
    use std::cell::Cell;

    #[test]
    fn few_cores_do_not_spin() {
        let us = Duration::from_micros;
        assert_eq!(SpinPolicy::new(3, None).spin, Duration::ZERO);
        assert_eq!(SpinPolicy::new(4, None).spin, us(20));
        assert_eq!(SpinPolicy::new(2, Some(" 7 ")).spin, us(7));
        assert_eq!(SpinPolicy::new(8, Some("0")).spin, Duration::ZERO);
        assert_eq!(SpinPolicy::new(8, Some("4000000000")).spin, us(u64::from(SPIN_US_MAX)));
        assert_eq!(SpinPolicy::new(8, Some("soon")).spin, us(20));
    }

    #[test]
    fn a_policy_looks_once_at_least_and_stops_when_it_is_done() {
        let looks = Cell::new(0);
        let look = |enough| {
            looks.set(looks.get() + 1);
            looks.get() == enough
        };
        assert!(!SpinPolicy::NONE.spin_until(|| look(0)));
        assert_eq!(looks.take(), 1);
        assert!(SpinPolicy::new(8, None).spin_until(|| look(3)));
        assert_eq!(looks.take(), 3);
        assert!(!SpinPolicy::new(1, None).spin_until(|| look(0)));
        assert!((2..=1 + YIELDS).contains(&looks.take()));
    }

    #[test]
    fn counters_wrap() {
        assert!(reached(5, 5) && reached(6, 5) && !reached(4, 5));
        assert!(reached(2, u32::MAX) && !reached(u32::MAX, 2));
    }

    #[test]
    fn a_wait_asks_once_and_reports_errors_unless_it_is_done() {
        let place = AtomicU32::new(1);
        let word = SharedU32::of(&place);
        let none = SpinPolicy::NONE;
        let never = || panic!("nothing to ask for");
        assert_eq!(wait_until_reached::<()>(word, 1, none, never, || Ok(())), Ok(()));
        assert_eq!(wait_until_reached(word, 2, none, || Err(1), || Ok(())), Err(1));
        assert_eq!(wait_until_reached(word, 2, none, || Ok(()), || Err(2)), Err(2));
        // The peer died, but had finished.
        let dies = || {
            word.store(2);
            Err(3)
        };
        assert_eq!(wait_until_reached(word, 2, none, || Ok(()), dies), Ok(()));
        assert_eq!(
            wait_until_reached(
                word,
                3,
                none,
                || {
                    word.store(3);
                    Err(4)
                },
                || Ok(())
            ),
            Ok(())
        );
    }
}
