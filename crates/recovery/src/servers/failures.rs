//! Failures: those of servers for a server key, and the pauses that follow from them.

use super::NoServer;
use std::time::{Duration, Instant};

/// A server that served so long before it crashed is not one that cannot run.
const STABLE_S: u64 = 60;
/// A server that served so long and was killed was no failure: another one is started at once.
const SERVED_MS: u64 = 250;
/// Longest time between two starts of a server that fails: programs that wait for one give up after two minutes
/// ([`crate::Attempts`]), and a device that works again is to be found before that.
const BACK_OFF_S_MAX: u64 = 15;
/// The same where the last one was ready: its programs wait for the next one.
const BACK_OFF_SERVED_S_MAX: u64 = 1;
/// Failures without a pause: one crash is no reason to make a program wait.
const FAILURES_FREE: u32 = 2;

/// Failures of a user's servers, since one last served for long or none had failed for as long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u32,
    /// No start before.
    pub until: Instant,
    /// How the last one ended.
    pub reason: String,
    /// When.
    last: Instant,
}

/// How a server ended that was not asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// For how long it had served; zero: it was never ready.
    pub served: Duration,
    /// By SIGKILL, which comes from outside: a server that served does not fail for that.
    pub killed: bool,
    /// In words.
    pub reason: String,
}

impl Failures {
    /// So many failures that another daemon has counted: no start before `until`.
    pub fn kept(count: u32, until: Instant, reason: String, now: Instant) -> Failures {
        Failures { count, until, reason, last: now }
    }

    /// Counts a failure that happened `now`.
    pub fn after(previous: Option<&Failures>, crash: Crash, now: Instant) -> Failures {
        let Crash { served, killed, reason } = crash;
        let stable = Duration::from_secs(STABLE_S);
        let serves = served >= Duration::from_millis(SERVED_MS);
        // One that comes long after the one before it is the first of others.
        let recent = |of: &&Failures| !serves || now.saturating_duration_since(of.last) < stable;
        let previous = previous.filter(|_| served < stable).filter(recent);
        if killed && serves && served < stable {
            let count = previous.map_or(0, |failures| failures.count);
            return Failures { count, until: now, reason, last: now };
        }
        let count = previous.map_or(1, |failures| failures.count.saturating_add(1));
        let doublings = count.saturating_sub(FAILURES_FREE).min(16);
        // One that crashes soon after its start has programs that wait for the next one. What crashes again
        // and again later on, may do so for ever.
        let longest_s = match serves || served.is_zero() {
            true => BACK_OFF_S_MAX,
            false => BACK_OFF_SERVED_S_MAX,
        };
        let pause_s = ((1u64 << doublings) - 1).min(longest_s);
        Failures { count, until: now + Duration::from_secs(pause_s), reason, last: now }
    }

    /// Whether the pause after them is over.
    ///
    /// # Errors
    /// It is not.
    pub fn may_start(&self, now: Instant) -> Result<(), NoServer> {
        match self.until.checked_duration_since(now) {
            None => Ok(()),
            Some(left) => Err(NoServer::BackOff {
                count: self.count,
                reason: self.reason.clone(),
                seconds: left.as_secs() + 1,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crash(served: Duration, killed: bool) -> Crash {
        Crash { served, killed, reason: String::new() }
    }

    /// The pauses after failures that come so long after each other, s.
    fn pauses(of: &Crash, every: Duration, failures: &mut Option<Failures>) -> Vec<u64> {
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..40 {
            let next = Failures::after(failures.as_ref(), of.clone(), now);
            pauses.push((next.until - now).as_secs());
            now = next.until + every;
            *failures = Some(next);
        }
        pauses
    }

    #[test]
    fn failures_cost_more_and_more_time_up_to_a_quarter_of_a_minute() {
        let mut failures = None;
        let paused = pauses(&crash(Duration::ZERO, false), Duration::ZERO, &mut failures);
        assert_eq!(paused[..8], [0, 0, 1, 3, 7, 15, 15, 15]);
        assert_eq!(paused[39], 15);
        let now = Instant::now();
        let shortly = crash(Duration::from_millis(1), true);
        let after_ready = Failures::after(failures.as_ref(), shortly, now);
        assert_eq!(after_ready.until - now, Duration::from_secs(1), "programs wait for the next");
        let served = crash(Duration::from_secs(STABLE_S), false);
        let after_long = Failures::after(failures.as_ref(), served, now);
        assert_eq!((after_long.count, after_long.until), (1, now));
    }

    #[test]
    fn servers_that_crash_while_they_serve_have_pauses_and_those_that_are_killed_have_none() {
        let soon = Duration::from_millis(300);
        let crashes = pauses(&crash(soon, false), soon, &mut None);
        assert_eq!(
            crashes[..8],
            [0, 0, 1, 3, 7, 15, 15, 15],
            "not three servers a second for ever"
        );
        assert_eq!(pauses(&crash(soon, true), soon, &mut None), [0; 40]);
        // One now and then is no row of them.
        let minute = Duration::from_secs(STABLE_S);
        assert_eq!(pauses(&crash(soon, false), minute, &mut None), [0; 40]);
    }
}
