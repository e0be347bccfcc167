//! `openmps trace`: every kernel and copy of clients, as a file for Perfetto.

use super::top::source;
use crate::output;
use anyhow::{Context, Result, bail};
use observe::source::Source;
use observe::trace::{Recorder, nvtx};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// From one question to the daemon to the next: records are kept for some seconds at least.
pub(crate) const PERIOD: Duration = Duration::from_millis(200);

/// Record every kernel and copy of clients, for ui.perfetto.dev
///
/// The file has a track for each stream of each client, for its submissions, and, on the software
/// GPU, for each SM; arrows lead from a submission to where the work began. Programs that run
/// already are recorded too, and need not take part. `openmps run --trace` records one program from
/// its start, with the ranges that it marks by NVTX. Ctrl-C ends the recording, and what was recorded
/// is written.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps trace --seconds 5                   all clients, into openmps.pftrace
  openmps trace -o step.pftrace 18903         one program
  openmps trace -o step.json --seconds 1      the JSON that chrome://tracing reads
Open the file in https://ui.perfetto.dev, which reads it on your machine.")]
pub(crate) struct Arguments {
    /// Where to write: JSON if the name ends in .json, else Perfetto's protobuf
    #[arg(long, short, value_name = "FILE", default_value = "openmps.pftrace")]
    output: PathBuf,
    /// For how long to record
    #[arg(long, short, value_name = "NUMBER", default_value = "5")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86400))]
    seconds: u32,
    /// Only these programs
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (report, mut source) = source()?;
    let known: Vec<u32> =
        report.servers.iter().flat_map(|s| s.clients.iter().filter_map(|c| c.pid)).collect();
    if let Some(pid) = arguments.pids.iter().find(|pid| !known.contains(pid)) {
        bail!("no client has the PID {pid}; `openmps ps` lists them");
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone()).context("watching for Ctrl-C")?;
    }
    let mut recorder = Recorder::begin(&mut source, &arguments.pids)?;
    output::say(format_args!("recording for {} s; Ctrl-C ends it earlier", arguments.seconds));
    let end = Instant::now() + Duration::from_secs(arguments.seconds.into());
    while Instant::now() < end && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(PERIOD.min(end.saturating_duration_since(Instant::now())));
        recorder.take(&mut source)?;
    }
    finish(recorder, &mut source, &arguments.output, None)
}

/// Takes in what is left and writes the file.
pub(crate) fn finish(
    mut recorder: Recorder,
    source: &mut dyn Source,
    path: &Path,
    ranges: Option<&Path>,
) -> Result<ExitCode> {
    // Sessions give what has ended when they are asked; what they gave comes with the next question.
    for _ in 0..2 {
        std::thread::sleep(PERIOD / 4);
        recorder.take(source)?;
    }
    let recording = recorder.finish();
    let ranges = match ranges {
        Some(directory) => nvtx::read(directory).context("reading the ranges of NVTX")?,
        None => Vec::new(),
    };
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let bytes = match is_json {
        true => observe::trace::chrome(&recording, &ranges).into_bytes(),
        false => observe::trace::perfetto(&recording, &ranges),
    };
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
    if recording.lost > 0 {
        output::say(format_args!("{} records were lost: they came too fast", recording.lost));
    }
    let reader = if is_json { "chrome://tracing" } else { "https://ui.perfetto.dev" };
    output::say(format_args!(
        "{} records of {} client(s) in {}; open it in {reader}",
        recording.records.len(),
        recording.clients.len(),
        path.display()
    ));
    Ok(ExitCode::SUCCESS)
}
