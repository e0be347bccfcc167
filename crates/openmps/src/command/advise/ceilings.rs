//! Ceilings of a device, measured: samples that do little but compute, and little but move bytes.

use super::{LOOK, Trial};
use anyhow::{Context, Result};
use control::counts::Kernel;
use observe::advise::{Ceilings, KernelRates, Watch};
use observe::reading::Reading;
use observe::source::ReportSource;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// What a sample does in its first moments does not count: code is compiled, and memory touched for the first time.
const WARM_UP: Duration = Duration::from_millis(300);
/// For how long it is looked at after that.
const LENGTH: Duration = Duration::from_millis(500);
/// How long it runs, s, if none of its kernels ends for so long: where the processors have other work, one may take
/// longer than `LENGTH`.
const SECONDS_MAX: &str = "30";

/// Samples with blocks for all SMs.
const COMPUTES: [&str; 5] = ["n_body", "--size", "2048", "--blocks", "16"];
/// Three vectors of 768 KiB together, which the caches of a core hold.
const CACHED: [&str; 5] = ["vector_add", "--size", "65536", "--blocks", "16"];
/// Three vectors of 96 MiB together.
const STREAMS: [&str; 5] = ["vector_add", "--size", "8388608", "--blocks", "64"];

/// Measures them on the device that the trial's daemon serves.
pub(super) fn measure(trial: &mut Trial<'_>) -> Result<Ceilings> {
    let [computes, cached, streams] = [COMPUTES, CACHED, STREAMS].map(|words| work(trial, words));
    let (computes, cached, streams) = (computes?, cached?, streams?);
    let cache_bytes_per_s = cached.bytes_per_s.max(streams.bytes_per_s);
    Ok(Ceilings {
        instructions_per_s: computes.instructions_per_s.max(cached.instructions_per_s),
        cache_bytes_per_s,
        memory_bytes_per_s: streams.bytes_per_s,
    })
}

/// What was seen of the one kernel of a sample.
#[derive(Default)]
struct Seen {
    /// When it was seen first.
    begun: Option<Instant>,
    /// Its counts when it was warm, and when.
    warm: Option<(Instant, Kernel)>,
    /// What it did since then.
    work: Option<KernelRates>,
}

impl Seen {
    /// Takes in a look. True once that is enough.
    fn look(&mut self, at: Instant, kernel: Kernel) -> bool {
        let begun = *self.begun.get_or_insert(at);
        match &self.warm {
            None if at >= begun + WARM_UP => self.warm = Some((at, kernel)),
            None => {}
            // It is counted when it ends, which may be rare.
            Some((_, warm)) => self.work = KernelRates::between(warm, &kernel).or(self.work),
        }
        let is_long = self.warm.as_ref().is_some_and(|(since, _)| at >= *since + LENGTH);
        is_long && self.work.is_some()
    }
}

/// What the kernel of a sample did once it was warm.
fn work(trial: &mut Trial<'_>, [name, words @ ..]: [&str; 5]) -> Result<KernelRates> {
    trial.until_empty()?;
    let sample = trial.libraries.sample(name);
    let arguments = words.iter().copied().chain(["--seconds", SECONDS_MAX]).map(OsString::from);
    let command: Vec<OsString> = std::iter::once(sample.into()).chain(arguments).collect();
    trial.start_other(&command, true)?;
    let mut seen = Seen::default();
    while trial.one_runs()? {
        let now = Reading { at: Instant::now(), report: trial.source.report()? };
        let mut watch = Watch::begin(&now);
        watch.counted(trial.source.counts()?);
        let kernel = watch.kernels().into_iter().next().filter(|of| of.launches > 0);
        if kernel.is_some_and(|kernel| seen.look(Instant::now(), kernel)) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    trial.end();
    seen.work.with_context(|| format!("the sample {name} was not seen at work"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_looked_at_until_its_kernel_has_ended_again() {
        let start = Instant::now();
        let kernel = |launches: u64| Kernel {
            launches,
            device_ns: 1_000_000_000 * launches,
            thread_instructions: 50 * launches * launches,
            ..Kernel::default()
        };
        let mut seen = Seen::default();
        let mut look = |ms, launches| {
            let is_enough = seen.look(start + Duration::from_millis(ms), kernel(launches));
            (is_enough, seen.work.map(|work| work.instructions_per_s))
        };
        assert_eq!(look(0, 1), (false, None));
        assert_eq!(look(250, 3), (false, None), "it is not warm");
        assert_eq!(look(300, 4), (false, None));
        assert_eq!(look(600, 6), (false, Some(500.0)), "that was short");
        assert_eq!(look(650, 6), (false, Some(500.0)));
        assert_eq!(look(800, 8), (true, Some(600.0)));

        // Kernels that take longer.
        let mut seen = Seen::default();
        let mut look =
            |ms, launches| seen.look(start + Duration::from_millis(ms), kernel(launches));
        assert_eq!([look(0, 1), look(400, 1), look(5_000, 1)], [false; 3]);
        assert!(look(5_050, 2));
        assert_eq!(seen.work.map(|work| work.instructions_per_s), Some(150.0));
    }
}
