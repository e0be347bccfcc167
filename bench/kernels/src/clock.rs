//! Which processors a measurement may use, and what its time is.

use crate::case::Run;
use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// Seconds of one sample: long beside the clock's grain and a kernel's launch.
const SAMPLE_S: f64 = 0.02;
/// Samples; the best counts.
const SAMPLES: usize = 7;
/// Seconds of one sample where several modes are measured in turn.
const TURN_S: f64 = 0.004;
/// Samples of each of them.
const TURNS: usize = 101;
/// Seconds of runs before the first sample: code that is compiled when hot shall be so.
const WARM_UP_S: f64 = 0.3;
/// Most runs of one sample.
const RUNS_MAX: u32 = 1 << 20;

/// How runs are timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// What time is.
    pub(crate) time: Time,
    /// One run is enough: the results matter, not the time.
    pub(crate) once: bool,
}

/// What time is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Time {
    /// Processor time of the whole process: on one core it is the wall's, less what other programs
    /// took, so that a busy machine does not spoil a comparison.
    Processor,
    /// The wall's.
    Wall,
}

impl Time {
    pub(crate) fn for_cores(cores: usize) -> Self {
        if cores == 1 { Self::Processor } else { Self::Wall }
    }

    fn now_s(self) -> f64 {
        match self {
            Self::Processor => processor_s(),
            Self::Wall => {
                static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
                START.get_or_init(Instant::now).elapsed().as_secs_f64()
            }
        }
    }
}

impl Clock {
    /// Seconds that `work` takes.
    fn timed<T>(self, work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
        let start = self.time.now_s();
        let result = work()?;
        Ok((result, self.time.now_s() - start))
    }

    /// Seconds that one run takes of each of several modes of the same work, in samples that are
    /// short and taken in turn: what disturbs one disturbs the next one as well.
    pub(crate) fn in_turn<S>(
        self,
        ways: &mut [S],
        mut runs: impl FnMut(&mut S, u32) -> Result<()>,
    ) -> Result<Vec<Vec<f64>>> {
        let each = self.timed(|| runs(&mut ways[0], 1))?.1;
        let count = ((TURN_S / each).ceil() as u32).clamp(1, RUNS_MAX);
        (0..TURNS)
            .map(|_| {
                ways.iter_mut()
                    .map(|way| Ok(self.timed(|| runs(way, count))?.1 / f64::from(count)))
                    .collect()
            })
            .collect()
    }

    /// Seconds of one run after so many that code that is compiled when hot is so.
    pub(crate) fn warm_up<S>(
        self,
        state: &mut S,
        runs: &mut impl FnMut(&mut S, u32) -> Result<()>,
    ) -> Result<f64> {
        let (mut count, mut spent) = (1u32, 0.0);
        loop {
            let ((), seconds) = self.timed(|| runs(state, count))?;
            spent += seconds;
            if spent >= WARM_UP_S {
                return Ok(seconds / f64::from(count));
            }
            if seconds < SAMPLE_S {
                count = (count * 2).min(RUNS_MAX);
            }
        }
    }

    /// Measures: `first` brings the case to the end of its first run, `runs` does so many more and
    /// waits for them, `outputs` reads the results.
    pub(crate) fn measure<S>(
        self,
        first: impl FnOnce() -> Result<S>,
        mut runs: impl FnMut(&mut S, u32) -> Result<()>,
        outputs: impl FnOnce(&mut S) -> Result<Vec<Vec<u8>>>,
    ) -> Result<Run> {
        let (mut state, first_seconds) = self.timed(first)?;
        if self.once {
            return Ok(Run {
                outputs: outputs(&mut state)?,
                seconds: first_seconds,
                first_seconds,
            });
        }
        let each = self.warm_up(&mut state, &mut runs)?;
        let count = ((SAMPLE_S / each).ceil() as u32).clamp(1, RUNS_MAX);
        let mut best = f64::INFINITY;
        for _ in 0..SAMPLES {
            let ((), seconds) = self.timed(|| runs(&mut state, count))?;
            best = best.min(seconds / f64::from(count));
        }
        Ok(Run { outputs: outputs(&mut state)?, seconds: best, first_seconds })
    }
}

fn processor_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Restricts this thread, and threads made from now on, to the first `cores` of its processors.
pub(crate) fn restrict_to(cores: usize) -> Result<()> {
    let allowed =
        sched_getaffinity(None).context("the system does not tell which processors may be used")?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    ensure!(
        (1..=cpus.len()).contains(&cores),
        "--cores {cores}: this machine lets the program use 1 to {}",
        cpus.len()
    );
    let mut chosen = CpuSet::new();
    cpus[..cores].iter().for_each(|&cpu| chosen.set(cpu));
    sched_setaffinity(None, &chosen).with_context(|| {
        format!("the system refuses to restrict the program to {cores} processors")
    })
}
