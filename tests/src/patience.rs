//! Patience: how long a test waits, by a clock that slows down as the machine is shared.
//!
//! A program beside many others needs many times as long for the same work, and mostly not for its own:
//! its server computes for it. So neither a fixed time nor the program's own processor time tells a
//! slow one from one that hangs. What is counted is the time that a thread had a core for, if the cores
//! were shared equally by all threads of the machine that want one. It goes on in any case,
//! so one that sleeps or loops for ever is found.

use std::time::{Duration, Instant};

/// How long anything may take before the test gives up, with a core for each thread that wants one.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The clock never goes slower than so many times.
const SLOWEST: f64 = 20.0;
/// How often the machine is looked at; it is what a test that waits costs.
const PERIOD: Duration = Duration::from_millis(50);

/// What is left of the time that a test waits.
pub struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    /// So much of it.
    pub fn of(left: Duration) -> Self {
        Self { left, looked: Instant::now() }
    }

    /// True once it has run out.
    pub fn is_out(&mut self) -> bool {
        let passed = self.looked.elapsed();
        if passed >= PERIOD.min(self.left) {
            self.looked += passed;
            let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            self.left = self.left.saturating_sub(passed.div_f64(slowdown(&load, cores)));
        }
        self.left.is_zero()
    }
}

/// How many times as long a thread needs that has an equal share of the cores, by the text of
/// `/proc/loadavg`: its fourth word is "threads that want a core/threads".
fn slowdown(load: &str, cores: usize) -> f64 {
    let word = load.split(' ').nth(3).and_then(|word| word.split('/').next());
    let wanting: f64 = word.and_then(|word| word.parse().ok()).unwrap_or(0.0);
    (wanting / cores as f64).clamp(1.0, SLOWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_by_the_share_of_a_core() {
        assert_eq!(slowdown("24.10 12.30 3.00 24/1640 8526\n", 2), 12.0);
        assert_eq!(slowdown("24.10 12.30 3.00 3/1640 8526\n", 2), 1.5);
        assert_eq!(slowdown("0.10 0.30 0.00 1/640 8526\n", 2), 1.0);
        assert_eq!(slowdown("900.0 900.0 900.0 900/1640 8526\n", 2), SLOWEST);
        assert_eq!(slowdown("", 2), 1.0);
    }

    #[test]
    fn it_runs_out() {
        let since = Instant::now();
        let mut patience = Patience::of(Duration::from_millis(20));
        while !patience.is_out() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(since.elapsed() >= Duration::from_millis(20));
        assert!(Patience::of(Duration::ZERO).is_out());
    }
}
