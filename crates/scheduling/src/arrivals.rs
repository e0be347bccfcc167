//! Arrival prediction: when a client's next request is due, if its requests come at even intervals.
//!
//! A request is an interval of work between two rests; shorter rests, as between the copy of its input and
//! its kernels, are within it. The time at which one is due follows the requests by a part of their
//! errors (a phase-locked loop), so that one that comes late moves the next one little.

/// Requests in a row that came when they were due before others rely on it.
const EVEN_MIN: u32 = 3;
/// Requests in a row that may stay away before none is expected any more.
const MISSED_MAX: u64 = 4;
/// Requests in a row that skip as many due times before the interval is taken to be that long.
const SKIPPED_MIN: u32 = 3;
/// A rest that is shorter than this part of the longest is one within a request.
const REST_PART: u64 = 4;
/// By this part of an interval a request may come earlier or later than it is due.
const TOLERANCE_PART: u64 = 20;
/// Bounds of that tolerance, ns.
const TOLERANCE_NS: std::ops::RangeInclusive<u64> = 50_000..=500_000;
/// Intervals that are predicted, ns: others are too short to plan with, or too long to rely on.
const INTERVAL_NS: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000;
/// By these parts of its error a request moves the next one, and the interval.
const PHASE_PART: i64 = 4;
const INTERVAL_PART: i64 = 16;

/// When a request is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// When it is due, ns; may lie behind.
    pub due_ns: u64,
    /// So much later it is not expected any more, ns.
    pub tolerance_ns: u64,
    /// Time between two requests, ns.
    pub interval_ns: u64,
}

/// A client's requests so far.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// When the last request began, ns.
    began_ns: Option<u64>,
    /// When its work was last seen done, ns.
    rested_ns: Option<u64>,
    /// The longest rest lately, ns.
    longest_rest_ns: u64,
    /// When the next request is due, ns, if intervals are as the last one.
    due_ns: u64,
    interval_ns: u64,
    /// Requests in a row that came when they were due.
    even: u32,
    /// How many due times the last requests skipped, each as many, and how many requests in a row did.
    skipped: (u64, u32),
}

/// By how much requests at such intervals may differ, ns.
fn tolerance_ns(interval_ns: u64) -> u64 {
    (interval_ns / TOLERANCE_PART).clamp(*TOLERANCE_NS.start(), *TOLERANCE_NS.end())
}

impl Arrivals {
    /// Work has come, and there was none.
    pub fn came(&mut self, now: u64) {
        let rest_ns = self.rested_ns.map_or(u64::MAX, |rested| now.saturating_sub(rested));
        let is_short = rest_ns < self.longest_rest_ns / REST_PART;
        // Rests may become shorter for good, which looks like a request that does not end.
        let lasts_ns = self.began_ns.map_or(0, |began| now.saturating_sub(began));
        if is_short && lasts_ns <= self.request_ns_max() {
            return;
        }
        // Forgotten, request by request.
        self.longest_rest_ns = match is_short {
            true => rest_ns,
            false => self.longest_rest_ns - self.longest_rest_ns / 8,
        };
        if self.rested_ns.is_some() {
            self.longest_rest_ns = self.longest_rest_ns.max(rest_ns.min(*INTERVAL_NS.end()));
        }
        let Some(began) = self.began_ns.replace(now) else { return };
        let error = self.at(now).map(|at| signed(now) - signed(at));
        match error {
            Some(error) if error.unsigned_abs() <= tolerance_ns(self.interval_ns) => {
                self.even = self.even.saturating_add(1);
                self.follow_skipped(now, error);
                let interval = signed(self.interval_ns) + error / INTERVAL_PART;
                self.due_ns = unsigned(signed(now) - error + error / PHASE_PART + interval);
                self.interval_ns = unsigned(interval);
            }
            // A program that stopped for a while goes on at the interval that it had: one more request tells.
            _ if self.even > EVEN_MIN => {
                self.even = EVEN_MIN - 1;
                self.due_ns = now.saturating_add(self.interval_ns);
            }
            _ => {
                self.even = 0;
                self.interval_ns = now.saturating_sub(began);
                self.due_ns = now.saturating_add(self.interval_ns);
            }
        }
    }

    /// A request came when one was due, and so many ns later: where each skips as many due times, the interval
    /// is longer.
    fn follow_skipped(&mut self, now: u64, error: i64) {
        let due = unsigned(signed(now) - error);
        let missed = due.saturating_sub(self.due_ns) / self.interval_ns.max(1);
        let (last, count) = self.skipped;
        self.skipped = (missed, if missed == last { count.saturating_add(1) } else { 1 });
        if missed > 0 && self.skipped.1 >= SKIPPED_MIN {
            self.interval_ns = self.interval_ns.saturating_mul(missed + 1);
            self.skipped = (0, 0);
        }
    }

    /// So long a request is one, ns: longer ones have rests within them that are rests between requests by now.
    fn request_ns_max(&self) -> u64 {
        match INTERVAL_NS.contains(&self.interval_ns) {
            true => self.interval_ns.saturating_mul(MISSED_MAX),
            false => *INTERVAL_NS.end(),
        }
    }

    /// All work is done, and none has come.
    pub fn rested(&mut self, now: u64) {
        self.rested_ns = Some(now);
    }

    /// The time nearest to `now` at which a request is due, ns; `None` if intervals are no plan.
    fn at(&self, now: u64) -> Option<u64> {
        if !INTERVAL_NS.contains(&self.interval_ns) {
            return None;
        }
        let behind = now.saturating_sub(self.due_ns.saturating_sub(self.interval_ns / 2));
        let missed = behind / self.interval_ns;
        (missed <= MISSED_MAX).then(|| self.due_ns.saturating_add(missed * self.interval_ns))
    }

    /// When the next request is expected, if requests come at even intervals.
    pub fn next(&self, now: u64) -> Option<Expected> {
        if self.even < EVEN_MIN {
            return None;
        }
        let tolerance_ns = tolerance_ns(self.interval_ns);
        let nearest = self.at(now)?;
        let due_ns = match nearest.saturating_add(tolerance_ns) > now {
            true => nearest,
            false => nearest.saturating_add(self.interval_ns),
        };
        Some(Expected { due_ns, tolerance_ns, interval_ns: self.interval_ns })
    }
}

/// Times are far below the range of both types.
fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn unsigned(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    /// Requests that begin then, each 1 ms long.
    fn after(begins: impl IntoIterator<Item = u64>) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for begin in begins {
            arrivals.came(begin);
            arrivals.rested(begin + MS);
        }
        arrivals
    }

    #[test]
    fn even_requests_are_expected_and_others_are_not() {
        let even = after((1..=6).map(|n| n * 10 * MS));
        let expected = even.next(62 * MS).unwrap();
        assert_eq!((expected.due_ns, expected.interval_ns), (70 * MS, 10 * MS));
        assert_eq!(after((1..=4).map(|n| n * 10 * MS)).next(42 * MS), None, "too few of them");
        let uneven = after([10, 25, 29, 50, 56, 61, 90, 92].map(|n| n * MS));
        assert_eq!(uneven.next(94 * MS), None);
        let often = after((1..=60).map(|n| n * MS / 2));
        assert_eq!(often.next(31 * MS), None, "too often to plan with");
    }

    #[test]
    fn a_late_request_moves_the_next_one_little() {
        let late = after([10 * MS, 20 * MS, 30 * MS, 40 * MS, 50 * MS, 60 * MS + 400_000]);
        let due = late.next(61 * MS).unwrap().due_ns;
        assert!((70 * MS..70 * MS + 150_000).contains(&due), "{due}");
    }

    #[test]
    fn requests_that_stay_away_are_expected_for_a_while() {
        let arrivals = after((1..=6).map(|n| n * 10 * MS));
        assert_eq!(arrivals.next(70 * MS + 400_000).unwrap().due_ns, 70 * MS, "it may be late");
        assert_eq!(arrivals.next(70 * MS + 500_000).unwrap().due_ns, 80 * MS);
        assert_eq!(arrivals.next(110 * MS).unwrap().due_ns, 110 * MS);
        assert_eq!(arrivals.next(130 * MS), None);
        let mut skipped = arrivals;
        skipped.came(90 * MS);
        skipped.rested(91 * MS);
        assert_eq!(skipped.next(92 * MS).unwrap().due_ns, 100 * MS, "two skipped, in time again");
    }

    #[test]
    fn requests_are_expected_again_soon_after_a_rest() {
        let long = (1..=6).chain(1000..1045).map(|n| n * 10 * MS);
        assert_eq!(after(long).next(10_442 * MS).unwrap().due_ns, 10_450 * MS);
        // The interval is known, only the time is another one.
        let mut begins: Vec<u64> = (1..=8).map(|n| n * 10 * MS).collect();
        begins.push(105 * MS);
        assert_eq!(after(begins.clone()).next(107 * MS), None);
        begins.push(115 * MS);
        assert_eq!(after(begins).next(117 * MS).unwrap().due_ns, 125 * MS);
    }

    #[test]
    fn short_rests_are_within_a_request() {
        let mut arrivals = Arrivals::default();
        for begin in (1..=40).map(|n| n * 10 * MS) {
            for part in 0..3 {
                arrivals.came(begin + part * 300_000);
                arrivals.rested(begin + part * 300_000 + 200_000);
            }
        }
        let expected = arrivals.next(402 * MS).unwrap();
        assert_eq!((expected.due_ns, expected.interval_ns), (410 * MS, 10 * MS));
    }

    #[test]
    fn many_short_rests_are_within_a_request_too() {
        for rest in [20_000, 50_000, 100_000] {
            let mut arrivals = Arrivals::default();
            for begin in (1..=20).map(|n| n * 20 * MS) {
                for part in 0..60 {
                    arrivals.came(begin + part * 200_000);
                    arrivals.rested(begin + (part + 1) * 200_000 - rest);
                }
            }
            let expected = arrivals.next(415 * MS).map(|next| (next.due_ns, next.interval_ns));
            assert_eq!(expected, Some((420 * MS, 20 * MS)), "{rest} ns");
        }
    }

    #[test]
    fn rests_may_become_shorter_for_good() {
        let begins =
            (1..=10).map(|n| n * 100 * MS).chain((1..=50).map(|n| 1000 * MS + n * 10 * MS));
        let expected = after(begins).next(1502 * MS).unwrap();
        assert_eq!((expected.due_ns, expected.interval_ns), (1510 * MS, 10 * MS));
    }

    #[test]
    fn an_interval_that_became_a_multiple_is_followed() {
        for times in 2..=5 {
            let begins = (1..=10).map(|n| n * 10 * MS);
            let longer = (1..=12).map(|n| 100 * MS + n * times * 10 * MS);
            let last = 100 * MS + 12 * times * 10 * MS;
            let expected = after(begins.chain(longer)).next(last + 2 * MS).unwrap();
            let interval_ns = times * 10 * MS;
            assert_eq!((expected.due_ns, expected.interval_ns), (last + interval_ns, interval_ns));
        }
        // Back again.
        let begins = (1..=10).map(|n| n * 20 * MS).chain((1..=10).map(|n| 200 * MS + n * 10 * MS));
        assert_eq!(after(begins).next(302 * MS).unwrap().interval_ns, 10 * MS);
    }

    proptest! {
        #[test]
        fn any_times_are_taken(times in prop::collection::vec((any::<u64>(), any::<bool>()), 0..60)) {
            let mut arrivals = Arrivals::default();
            for (now, came) in times {
                if came { arrivals.came(now) } else { arrivals.rested(now) }
                let _ = arrivals.next(now);
            }
        }

        #[test]
        fn jitter_within_bounds_is_followed(interval in 2 * MS..100 * MS, errors in prop::collection::vec(0u64..100, 20..40)) {
            let jitter = tolerance_ns(interval) / 4;
            let begins = errors.iter().zip(1..).map(|(error, n)| n * interval + error * jitter / 100);
            let arrivals = after(begins);
            let last = errors.len() as u64 * interval;
            let due = arrivals.next(last + interval / 2).unwrap().due_ns;
            prop_assert!(due.abs_diff(last + interval) <= 2 * jitter, "{} {}", due, last + interval);
        }
    }
}
