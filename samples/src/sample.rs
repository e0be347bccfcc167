//! The timed loop around a sample's work.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::{
    check::Check,
    gpu::{Gpu, failed},
    options::Options,
    report::{Report, percentile_us},
    start,
};

/// Iterations when the options name neither a number nor a time.
const ITERATIONS: u64 = 100;

/// One sample program.
pub trait Sample: Sized {
    /// Options that only this sample has, [`crate::NoExtra`] if none.
    type Extra: clap::Args;
    /// Its name in reports.
    const NAME: &'static str;
    /// One line for its help.
    const ABOUT: &'static str;

    /// Loads kernels, makes input data, allocates memory.
    fn prepare(gpu: &Gpu, options: &Options, extra: &Self::Extra) -> Result<Self>;

    /// Puts one iteration's work into `gpu.stream` (or makes that stream wait for it) and returns
    /// how many kernels that were. Every iteration starts from the same input and so has the same
    /// results.
    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64>;

    /// Fetches the last iteration's results, which are complete, and compares them with the CPU's.
    fn check(&mut self, gpu: &Gpu, check: &mut Check) -> Result<()>;
}

#[derive(Parser)]
struct CommandLine<E: clap::Args> {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    extra: E,
}

/// A sample's `main`: parses the command line, runs and reports. The exit status is 0 if the
/// results were right, 1 if they were not, 2 if the run failed.
pub fn main<S: Sample>() -> ExitCode {
    let command = CommandLine::<S::Extra>::command().name(S::NAME);
    let command = command.about(S::ABOUT).long_about(None);
    let arguments = match CommandLine::<S::Extra>::from_arg_matches(&command.get_matches()) {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    match run::<S>(&arguments.options, &arguments.extra) {
        Ok((report, complaint)) => {
            report.print(arguments.options.json);
            match complaint {
                None => ExitCode::SUCCESS,
                Some(complaint) => {
                    eprintln!("{}: wrong result: {complaint}", S::NAME);
                    ExitCode::from(1)
                }
            }
        }
        Err(error) => {
            eprintln!("{}: {error:#}", S::NAME);
            ExitCode::from(2)
        }
    }
}

fn run<S: Sample>(options: &Options, extra: &S::Extra) -> Result<(Report, Option<String>)> {
    ensure!(options.seconds.is_none_or(|seconds| seconds > 0.0), "--seconds must be positive");
    let seconds = options.seconds.map(Duration::try_from_secs_f64).transpose();
    let seconds = seconds.context("--seconds")?;
    let gpu = Gpu::open(options)?;
    let mut sample = S::prepare(&gpu, options, extra)?;
    for _ in 0..options.warm_up {
        sample.enqueue(&gpu)?;
        gpu.stream.synchronize().map_err(failed)?;
    }
    start::wait(options)?;

    let until = start::Until::new(options);
    let bounded = seconds.is_some() || options.until.is_some();
    let iterations = options.iterations.unwrap_or(if bounded { u64::MAX } else { ITERATIONS });
    let mut durations = Vec::new();
    let mut kernels = 0;
    let mut complaint = None;
    let mut check = Check::default();
    let begin = Instant::now();
    let (mut turns, mut turned) = (Vec::new(), begin);
    loop {
        let launched = Instant::now();
        kernels += sample.enqueue(&gpu)?;
        gpu.stream.synchronize().map_err(failed)?;
        durations.push(launched.elapsed());
        if options.slowest > 0 {
            turns.push(turned.elapsed());
            turned = Instant::now();
        }
        let last = durations.len() as u64 >= iterations
            || seconds.is_some_and(|seconds| begin.elapsed() >= seconds)
            || until.reached()?;
        if last {
            break;
        }
        if options.verify_each {
            check = Check::default();
            sample.check(&gpu, &mut check)?;
            complaint = complaint.or(check.complaint());
        }
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let each = check.checksum();
    let checked_before = options.verify_each && durations.len() > 1;
    check = Check::default();
    sample.check(&gpu, &mut check)?;
    complaint = complaint.or(check.complaint());
    if complaint.is_none() && checked_before && each != check.checksum() {
        complaint = Some("the checksum changed from one iteration to the next".to_owned());
    }

    turns.sort_unstable_by(|a: &Duration, b| b.cmp(a));
    turns.truncate(options.slowest);
    let report = Report {
        sample: S::NAME,
        iterations: durations.len() as u64,
        kernels,
        seconds: elapsed,
        kernels_per_s: kernels as f64 / elapsed,
        p50_us: percentile_us(&mut durations, 50),
        p99_us: percentile_us(&mut durations, 99),
        max_us: percentile_us(&mut durations, 100),
        slowest_us: turns.iter().map(|turn| turn.as_secs_f64() * 1e6).collect(),
        verified: complaint.is_none(),
        checksum: check.checksum(),
    };
    Ok((report, complaint))
}
