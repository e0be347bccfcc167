//! Ceilings of a device, measured: samples that do little but compute, and little but move bytes.

use super::{LOOK, Trial};
use anyhow::{Context, Result};
use control::counts::Kernel;
use observe::advise::{Ceilings, Watch, Work};
use observe::reading::Reading;
use observe::source::Source;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// How long each sample runs, s.
const SECONDS: &str = "0.8";
/// What it does in its first moments does not count: code is compiled, and memory touched for the first time.
const WARM_UP: Duration = Duration::from_millis(300);

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

/// What the kernel of a sample did once it was warm.
fn work(trial: &mut Trial<'_>, [name, words @ ..]: [&str; 5]) -> Result<Work> {
    trial.until_empty()?;
    let sample = trial.libraries.sample(name);
    let arguments = words.iter().copied().chain(["--seconds", SECONDS]).map(OsString::from);
    let command: Vec<OsString> = std::iter::once(sample.into()).chain(arguments).collect();
    trial.start_other(&command, true)?;
    let (mut begun, mut first, mut last) = (None::<Instant>, None::<Kernel>, None::<Kernel>);
    while trial.one_runs()? {
        let now = Reading { at: Instant::now(), report: trial.source.report()? };
        let mut watch = Watch::begin(&now);
        watch.counted(trial.source.counts()?);
        if let Some(kernel) = watch.kernels().into_iter().next().filter(|of| of.launches > 0) {
            let begun = *begun.get_or_insert_with(Instant::now);
            if begun.elapsed() >= WARM_UP && first.is_none() {
                first = Some(kernel);
            } else {
                last = Some(kernel);
            }
        }
        std::thread::sleep(LOOK);
    }
    let seen = first.as_ref().zip(last.as_ref());
    let work = seen.and_then(|(first, last)| Work::between(first, last));
    work.with_context(|| format!("the sample {name} was not seen at work"))
}
