//! Submission time: what the provider's calls that submit work take, by a sample of them.
//!
//! A driver takes one thread's submission to a context at a time, so that what a client's session spends
//! in these calls is what other clients' sessions may have to wait for. Waits for others are in the time,
//! too. Not timed: calls that wait for the context, and providers with tenants, which take several
//! submissions at a time.

use cuda_api::CUresult;
use fastrand::Rng;
use std::cell::{Cell, RefCell};
use std::time::Instant;

/// Calls for a sample, on the average: two looks at the clock are 50 ns, of which a call has 0.2.
const INTERVAL: u32 = 256;
/// A call that takes longer than this counts as this, ns: it waits for room in the device's queue, or its
/// thread had no processor, which is no time of the driver's lock.
const CALL_NS_MAX: u64 = 20_000;

/// Time in one session's submissions, and their number, both as of the last sample.
#[derive(Debug)]
pub struct SubmissionTime {
    on: Cell<bool>,
    /// Calls until the next sample, and those that it stands for.
    until: Cell<u32>,
    drawn: Cell<u32>,
    random: RefCell<Rng>,
    calls: Cell<u64>,
    together_ns: Cell<u64>,
}

impl SubmissionTime {
    /// Nothing is known. Sessions should differ by `seed`.
    pub fn new(seed: u64) -> Self {
        let random = RefCell::new(Rng::with_seed(seed));
        let (calls, together_ns) = (Cell::new(0), Cell::new(0));
        let (on, until, drawn) = (Cell::new(false), Cell::new(0), Cell::new(0));
        let new = Self { on, until, drawn, random, calls, together_ns };
        new.draw();
        new
    }

    /// Times samples from now on, or none.
    pub fn set(&self, on: bool) {
        self.on.set(on);
    }

    /// Calls so far, and the time in them, ns. Neither ever falls.
    pub fn totals(&self) -> (u64, u64) {
        (self.calls.get(), self.together_ns.get())
    }

    /// Makes a call that submits work.
    #[inline]
    pub fn of(&self, call: impl FnOnce() -> CUresult) -> CUresult {
        let until = self.until.get() - 1;
        self.until.set(until);
        if until != 0 {
            call()
        } else {
            let begin = Instant::now();
            self.sample(call, || begin.elapsed().as_nanos() as u64)
        }
    }

    #[cold]
    fn sample(&self, call: impl FnOnce() -> CUresult, now_ns: impl Fn() -> u64) -> CUresult {
        let drawn = u64::from(self.drawn.get());
        self.draw();
        if !self.on.get() {
            return call();
        }
        let begin_ns = now_ns();
        let result = call();
        let took_ns = now_ns().saturating_sub(begin_ns).min(CALL_NS_MAX);
        self.calls.set(self.calls.get() + drawn);
        self.together_ns.set(self.together_ns.get() + took_ns * drawn);
        result
    }

    /// At random, evenly from 1 to twice the interval less 1: programs repeat themselves, and one in so many
    /// would always be the same call of a step.
    fn draw(&self) {
        let drawn = self.random.borrow_mut().u32(1..2 * INTERVAL);
        self.drawn.set(drawn);
        self.until.set(drawn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes so many calls, of which each takes what `ns` says, as [`SubmissionTime::of`] does.
    fn make(time: &SubmissionTime, calls: u64, ns: impl Fn(u64) -> u64) {
        let clock = Cell::new(0);
        for number in 0..calls {
            let call = || {
                clock.set(clock.get() + ns(number));
                Ok(())
            };
            let until = time.until.get() - 1;
            time.until.set(until);
            match until {
                0 => time.sample(call, || clock.get()),
                _ => call(),
            }
            .unwrap();
        }
    }

    #[test]
    fn a_sample_says_what_all_calls_of_a_program_that_repeats_itself_take() {
        for step in [2, 3, 5, 64] {
            // One call of a step takes 5 us, the others 1 us.
            let time = SubmissionTime::new(step);
            time.set(true);
            make(&time, 2_000_000, |number| if number % step == 0 { 5000 } else { 1000 });
            let (calls, together_ns) = time.totals();
            assert!((1_999_400..=2_000_000).contains(&calls), "{calls}");
            let mean = together_ns as f64 / calls as f64;
            let expected = 1000.0 + 4000.0 / step as f64;
            assert!((mean / expected - 1.0).abs() < 0.05, "step {step}: {mean}, {expected}");
        }
    }

    #[test]
    fn a_call_that_waits_for_the_device_does_not_count_as_such() {
        let time = SubmissionTime::new(1);
        time.set(true);
        make(&time, 10_000, |_| 3_000_000);
        let (calls, together_ns) = time.totals();
        assert_eq!(together_ns, calls * CALL_NS_MAX);
    }

    #[test]
    fn nothing_is_timed_where_that_is_not_wanted() {
        let time = SubmissionTime::new(1);
        make(&time, 10_000, |_| 1000);
        assert_eq!(time.totals(), (0, 0));
        time.set(true);
        make(&time, 10_000, |_| 1000);
        assert!(time.totals().0 > 9_400);
    }
}
