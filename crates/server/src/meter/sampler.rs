//! Which launches are timed: the first few of each shape, and then some drawn at random from all.
//!
//! At random, because programs repeat themselves: one in so many would always be the same launch of a
//! step. Drawn from all launches of a session, so that what is launched often is timed often, and so
//! rarely that timing takes well below 1 % of the time.

use cuda_api::settings::Counting;

/// Of a shape's first launches those with these numbers are timed, for predictions.
const EARLY_MAX: u64 = 16;
/// Time between two samples that is aimed at, ns: a sample takes up to ten microseconds of the session's
/// thread, and half of that of the device.
const PERIOD_NS: u64 = 4_000_000;
/// As [`PERIOD_NS`], for [`CLOSE_SAMPLES`]: little is known of what is new.
const CLOSE_PERIOD_NS: u64 = 1_000_000;
/// So many samples are close to each other at a program's beginning, and at the most.
const CLOSE_SAMPLES: u32 = 1000;
/// So many more for each new shape.
const CLOSE_SAMPLES_OF_SHAPE: u32 = 16;
/// Fewest launches of kernels for a sample on the average, so that a burst of launches is not slowed down.
pub const KERNELS_PER_SAMPLE_MIN: u32 = 64;
/// Fewest launches of graphs for a sample on the average.
pub const GRAPHS_PER_SAMPLE_MIN: u32 = 64;
/// Of launches that go together unless one of them is timed, one in so many is kept apart by that at
/// the most.
const TOGETHER_PER_SAMPLE: u32 = 32;
/// Most launches for a sample on the average.
const PER_SAMPLE_MAX: u32 = 4096;

/// True if a shape had so many launches that its next ones are not among its first.
pub fn is_past_early(launches_before: u64) -> bool {
    launches_before >= EARLY_MAX
}

/// Why a launch is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It is one of its shape's first.
    Early,
    /// It was drawn from all.
    Regular,
}

/// One session's, of kernels or of graphs.
#[derive(Clone, Debug)]
pub struct Sampler {
    until: u32,
    /// Launches from the last sample to the one that `until` counts to.
    drawn: u32,
    /// Launches for a sample, on the average.
    interval: u32,
    interval_min: u32,
    /// So many more samples are close to each other.
    close: u32,
    last_ns: u64,
    random: fastrand::Rng,
}

impl Sampler {
    /// Begins with one launch in `interval_min`, and never times more. Sessions should differ by `seed`.
    pub fn new(interval_min: u32, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let (interval, last_ns, close) = (interval_min, 0, CLOSE_SAMPLES);
        let mut new = Self { until: 0, drawn: 0, interval, interval_min, close, last_ns, random };
        new.draw();
        new
    }

    /// Evenly from 1 to twice the interval less 1.
    fn draw(&mut self) {
        self.drawn = self.random.u32(1..2 * self.interval);
        self.until = self.drawn;
    }

    /// A launch of a shape that had so many before: whether it is timed.
    #[inline]
    pub fn due(
        &mut self,
        launches_before: u64,
        counting: Counting,
        now_ns: impl FnOnce() -> u64,
    ) -> Option<Due> {
        self.until -= 1;
        if self.until == 0 {
            self.regular(now_ns());
            return Some(Due::Regular);
        }
        if counting == Counting::Every {
            return Some(Due::Regular);
        }
        if launches_before == 0 {
            self.close = (self.close + CLOSE_SAMPLES_OF_SHAPE).min(CLOSE_SAMPLES);
        }
        let is_early = launches_before < EARLY_MAX && (launches_before + 1).is_power_of_two();
        is_early.then_some(Due::Early)
    }

    /// So many launches are not asked about, because none of them is drawn; false if one is. If the last
    /// sample was few such groups of launches ago, another launch is drawn instead.
    pub fn pass_over(&mut self, launches: u32) -> bool {
        if self.until > launches {
            self.until -= launches;
            return true;
        }
        let passed = self.drawn.saturating_sub(self.until);
        if passed >= launches.saturating_mul(TOGETHER_PER_SAMPLE) {
            return false;
        }
        self.draw();
        self.drawn = self.drawn.saturating_add(passed).saturating_add(launches);
        true
    }

    #[cold]
    fn regular(&mut self, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.last_ns).max(1);
        self.last_ns = now_ns;
        let period_ns = if self.close > 0 { CLOSE_PERIOD_NS } else { PERIOD_NS };
        self.close = self.close.saturating_sub(1);
        let wanted = period_ns.saturating_mul(self.drawn.into()) / elapsed;
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        // In steps: the time may have had a pause in it.
        let wanted = wanted.clamp(self.interval / 2, self.interval * 2);
        self.interval = wanted.clamp(self.interval_min, PER_SAMPLE_MAX);
        self.draw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launches that were timed, of `launches` of which each takes `launch_ns` to submit.
    fn timed(launches: u64, launch_ns: u64) -> Vec<(u64, Due)> {
        let mut sampler = Sampler::new(KERNELS_PER_SAMPLE_MIN, 1);
        let due = |at| {
            let due = sampler.due(at, Counting::Sampled, || at * launch_ns);
            Some((at, due?))
        };
        (0..launches).filter_map(due).collect()
    }

    #[test]
    fn the_first_launches_are_timed_and_then_one_a_period() {
        let timed = timed(1_000_000, 2000);
        let early: Vec<u64> =
            timed.iter().filter(|(_, due)| *due == Due::Early).map(|(at, _)| *at).collect();
        assert_eq!(early, [0, 1, 3, 7, 15]);
        // Two seconds: the first thousand within the first one, the rest rarer.
        let regular = timed.len() - early.len();
        assert!((1100..1600).contains(&regular), "{regular}");
        let first = timed.iter().filter(|(at, _)| at * 2000 < 1_000_000_000).count();
        assert!((700..1300).contains(&first), "{first}");
    }

    #[test]
    fn samples_take_well_below_a_hundredth_of_a_long_programs_time() {
        // 300000 launches a second, for ten seconds.
        let timed = timed(3_000_000, 3333);
        let of_last_half = timed.iter().filter(|(at, _)| *at >= 1_500_000).count() as f64;
        let part = of_last_half * 10_000.0 / 5e9;
        assert!(part < 0.004, "{part}");
    }

    #[test]
    fn new_shapes_are_timed_more_often_again() {
        let mut sampler = Sampler::new(KERNELS_PER_SAMPLE_MIN, 1);
        let mut at = 0u64;
        // For so many seconds, with so many new shapes at first: samples that were drawn.
        let mut drawn = |seconds: u64, shapes: u64| {
            let end = at + seconds * 500_000;
            let first_old = at + shapes;
            let mut drawn = 0;
            while at < end {
                let before = if at < first_old { 0 } else { 100 };
                let due = sampler.due(before, Counting::Sampled, || at * 2000);
                drawn += u64::from(due == Some(Due::Regular));
                at += 1;
            }
            drawn
        };
        assert!((1300..2000).contains(&drawn(3, 10)));
        assert!((350..700).contains(&drawn(2, 0)));
        // 50 of them are worth 800 samples.
        assert!((850..1400).contains(&drawn(2, 50)));
    }

    #[test]
    fn a_slow_launcher_is_not_timed_more_often_than_one_in_so_many() {
        let regular = timed(64_000, 100_000).len() - 5;
        assert!((900..1100).contains(&regular), "{regular}");
    }

    #[test]
    fn programs_that_repeat_themselves_are_sampled_evenly() {
        // A step has 24 launches of one shape, of which half take 5 us and half 13.
        let time = |at: u64| if at.is_multiple_of(2) { 5.0 } else { 13.0 };
        for step in [2, 3, 24, 64] {
            let time = |at: u64| time(at / (step / 2)) + (at % step) as f64 / step as f64;
            let all: f64 = (0..400_000).map(time).sum::<f64>() / 400_000.0;
            let timed = timed(400_000, 5000);
            let seen = timed.iter().map(|(at, _)| time(*at)).sum::<f64>() / timed.len() as f64;
            assert!((seen / all - 1.0).abs() < 0.03, "step {step}: {seen} for {all}");
        }
    }

    #[test]
    fn launches_that_go_together_are_drawn_as_often() {
        // Some of each eight go together if none of them is drawn.
        let mut sampler = Sampler::new(KERNELS_PER_SAMPLE_MIN, 5);
        let mut timed = 0;
        for at in (100..1_000_000).step_by(8) {
            if !sampler.pass_over(8) {
                let due = |at: &u64| sampler.due(*at, Counting::Sampled, || at * 2000).is_some();
                timed += (at..at + 8).filter(due).count();
            }
        }
        assert!((1100..1600).contains(&timed), "{timed}");
    }

    #[test]
    fn launches_that_go_together_are_seldom_kept_apart() {
        // However rare they are, and so one in 64 of them would be drawn.
        for launch_ns in [2000, 100_000] {
            let mut sampler = Sampler::new(KERNELS_PER_SAMPLE_MIN, 7);
            let (mut apart, mut timed) = (0, 0);
            for at in (100..1_000_000).step_by(40) {
                if !sampler.pass_over(40) {
                    let now = |at: u64| move || at * launch_ns;
                    let due = |at: &u64| sampler.due(*at, Counting::Sampled, now(*at)).is_some();
                    (apart, timed) = (apart + 1, timed + (at..at + 40).filter(due).count());
                }
            }
            assert!((400..=1_000_000 / 40 / TOGETHER_PER_SAMPLE).contains(&apart), "{apart}");
            assert!(timed >= apart as usize);
        }
    }

    #[test]
    fn all_are_timed_if_that_is_wanted() {
        let mut sampler = Sampler::new(GRAPHS_PER_SAMPLE_MIN, 3);
        let all = (0..100).filter(|at| sampler.due(*at, Counting::Every, || 0).is_some());
        assert_eq!(all.count(), 100);
    }
}
