//! `openmps trace`: every kernel and copy of clients, as a file for Perfetto.

use super::top::source;
use crate::destination::Destination;
use crate::output;
use crate::seconds;
use crate::signals;
use anyhow::{Context, Result, bail};
use observe::source::ReportSource;
use observe::trace::{Recorder, nvtx};
use std::io::IsTerminal;
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
    /// Where to write: JSON if the name ends in .json, else Perfetto's protobuf; -: standard output
    #[arg(long, short, value_name = "FILE", default_value = "openmps.pftrace")]
    output: PathBuf,
    /// For how long to record
    #[arg(long, short, value_name = "NUMBER", default_value_t = 5.0)]
    #[arg(value_parser = seconds::of_run)]
    seconds: f64,
    /// Only these programs
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let to = To::of(&arguments.output)?;
    let (report, mut source) = source()?;
    let known: Vec<u32> =
        report.servers.iter().flat_map(|s| s.clients.iter().filter_map(|c| c.pid)).collect();
    if let Some(pid) = arguments.pids.iter().find(|pid| !known.contains(pid)) {
        bail!("no client has the PID {pid}; `openmps ps` lists them");
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    signals::note(&interrupted)?;
    let mut recorder = Recorder::begin(&mut source, &arguments.pids)?;
    output::say(format_args!("recording for {} s; Ctrl-C ends it earlier", arguments.seconds));
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    let is_over = || Instant::now() >= end || interrupted.load(Ordering::Relaxed);
    let ended = record(&mut recorder, &mut source, end, is_over);
    write(recorder, &to, None)?;
    ended.context("the recording ended early; what there was is written")?;
    Ok(ExitCode::SUCCESS)
}

/// Records until it is over, or a question fails: then what came before it is there.
fn record(
    recorder: &mut Recorder,
    source: &mut dyn ReportSource,
    end: Instant,
    is_over: impl Fn() -> bool,
) -> Result<()> {
    while !is_over() {
        std::thread::sleep(PERIOD.min(end.saturating_duration_since(Instant::now())));
        recorder.take(source)?;
    }
    for _ in 0..2 {
        take_rest(recorder, source)?;
    }
    Ok(())
}

/// Where a trace goes, and in which form.
pub(crate) struct To {
    is_json: bool,
    /// `None`: to standard output.
    file: Option<(PathBuf, Destination)>,
}

impl To {
    /// Checks the place.
    fn of(path: &Path) -> Result<Self> {
        if path != Path::new("-") {
            return Self::file(path);
        }
        if std::io::stdout().is_terminal() {
            bail!(
                "a trace is no text for a terminal: lead standard output elsewhere, or name a file"
            );
        }
        Ok(Self { is_json: false, file: None })
    }

    /// Checks a file's.
    pub(crate) fn file(path: &Path) -> Result<Self> {
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        Ok(Self { is_json, file: Some((path.to_owned(), Destination::check(path)?)) })
    }
}

/// Takes in what has ended: sessions give it when they are asked, and what they gave comes with the
/// next question. So once is not enough.
pub(crate) fn take_rest(recorder: &mut Recorder, source: &mut dyn ReportSource) -> Result<()> {
    std::thread::sleep(PERIOD / 4);
    recorder.take(source)
}

/// Writes the trace.
pub(crate) fn write(recorder: Recorder, to: &To, ranges: Option<&Path>) -> Result<()> {
    let recording = recorder.finish();
    let ranges = match ranges {
        Some(directory) => nvtx::read(directory).context("reading the ranges of NVTX")?,
        None => Vec::new(),
    };
    let bytes = match to.is_json {
        true => observe::trace::chrome(&recording, &ranges).into_bytes(),
        false => observe::trace::perfetto(&recording, &ranges),
    };
    let place = match &to.file {
        Some((path, destination)) => {
            destination.write(&bytes)?;
            path.display().to_string()
        }
        None => {
            output::print_bytes(&bytes)?;
            "standard output".to_owned()
        }
    };
    if recording.lost > 0 {
        output::say(format_args!("{} records were lost: they came too fast", recording.lost));
    }
    for error in recording.silent.values() {
        output::say(format_args!("the end of what its clients did is not there: {error}"));
    }
    let reader = match (&to.file, to.is_json) {
        (None, _) => "",
        (Some(_), true) => "; open it in chrome://tracing",
        (Some(_), false) => "; open it in https://ui.perfetto.dev",
    };
    output::say(format_args!(
        "{} records of {} client(s) in {place}{reader}",
        recording.records.len(),
        recording.clients.len(),
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::counts::ClientCounts;
    use control::report::Report;
    use control::trace::{Trace, TracedWork};

    /// A daemon with one server, which ends after so many questions.
    struct Ends(u32);

    impl ReportSource for Ends {
        fn report(&mut self) -> Result<Report> {
            let text = r#"{"version":"0","pid":1,"uid":0,"pipe_directory":"/p","log_directory":null,
                "clients_waiting":0,"servers":[{"pid":2,"state":"ACTIVE","clients":[]}]}"#;
            Ok(serde_json::from_str(text)?)
        }
        fn counts(&mut self) -> Result<Vec<ClientCounts>> {
            Ok(vec![])
        }
        fn trace(&mut self, _: &[(u32, u64)]) -> Result<Vec<Trace>> {
            self.0 = self.0.checked_sub(1).context("no daemon answers")?;
            Ok(vec![Trace { server: 2, records: vec![TracedWork::default()], ..Trace::default() }])
        }
        fn command(&mut self, _: &str) -> Result<String> {
            Ok(String::new())
        }
    }

    #[test]
    fn what_was_recorded_before_a_question_failed_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("trace.json");
        let (mut source, to) = (Ends(3), To::file(&file).expect("a place"));
        let mut recorder = Recorder::begin(&mut source, &[]).expect("it answers");
        let end = Instant::now();
        let error = record(&mut recorder, &mut source, end, || false).expect_err("it ends");
        assert_eq!(error.to_string(), "no daemon answers");
        write(recorder, &to, None).expect("room");
        let trace: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&file).expect("it is there")).expect("JSON");
        assert!(trace.to_string().contains("kernel"), "{trace}");
    }
}
