//! Failures: those of servers at a seat, and the pauses that follow from them.

use super::NoServer;
use std::time::{Duration, Instant};

/// A server that served so long before it crashed is not one that cannot run.
const STABLE_S: u64 = 60;
/// A server that served so long was no failure: another one is started at once when it dies.
const SERVED_MS: u64 = 250;
/// Longest time between two starts of a server that fails: programs that wait for one give up after two minutes
/// ([`crate::Attempts`]), and a device that works again is to be found before that.
const BACK_OFF_S_MAX: u64 = 15;
/// The same where the last one was ready: its programs wait for the next one.
const BACK_OFF_SERVED_S_MAX: u64 = 1;
/// Failures without a pause: one crash is no reason to make a program wait.
const FAILURES_FREE: u32 = 2;

/// Failures of a user's servers, since one last served for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u32,
    /// No start before.
    pub until: Instant,
    /// How the last one ended.
    pub reason: String,
}

impl Failures {
    /// Counts a failure that happened `now` to a server that had served for `served`; zero: it was never
    /// ready.
    pub fn after(
        previous: Option<&Failures>,
        served: Duration,
        now: Instant,
        reason: String,
    ) -> Failures {
        let stable = served >= Duration::from_secs(STABLE_S);
        if served >= Duration::from_millis(SERVED_MS) && !stable {
            let count = previous.map_or(0, |failures| failures.count);
            return Failures { count, until: now, reason };
        }
        let count = match previous {
            Some(failures) if !stable => failures.count.saturating_add(1),
            _ => 1,
        };
        let doublings = count.saturating_sub(FAILURES_FREE).min(16);
        let longest_s = if served.is_zero() { BACK_OFF_S_MAX } else { BACK_OFF_SERVED_S_MAX };
        let pause_s = ((1u64 << doublings) - 1).min(longest_s);
        Failures { count, until: now + Duration::from_secs(pause_s), reason }
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

    #[test]
    fn failures_cost_more_and_more_time_up_to_a_quarter_of_a_minute() {
        let now = Instant::now();
        let mut failures: Option<Failures> = None;
        let mut pauses = Vec::new();
        for _ in 0..40 {
            let next = Failures::after(failures.as_ref(), Duration::ZERO, now, String::new());
            pauses.push((next.until - now).as_secs());
            failures = Some(next);
        }
        assert_eq!(pauses[..8], [0, 0, 1, 3, 7, 15, 15, 15]);
        assert_eq!(pauses[39], 15);
        let shortly = Duration::from_millis(1);
        let after_ready = Failures::after(failures.as_ref(), shortly, now, String::new());
        assert_eq!(after_ready.until - now, Duration::from_secs(1), "programs wait for the next");
        let served = Duration::from_secs(STABLE_S);
        let after_long = Failures::after(failures.as_ref(), served, now, String::new());
        assert_eq!((after_long.count, after_long.until), (1, now));
    }
}
