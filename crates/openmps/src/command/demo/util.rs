//! `openmps demo --util`: GPU-Util is not use of the SMs.
//!
//! The programs keep one SM busy each, with kernels so long that the time between them is nothing. What
//! the daemon reports is looked at while all of them run.

use crate::group::{PrivateDaemon, Program, Setting, Stage};
use crate::output;
use anyhow::{Context, Result};
use observe::rates::{DeviceRates, Rates};
use observe::reading::Reading;
use observe::source::{DaemonSource, ReportSource};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Numbers of programs.
const PROGRAMS: [usize; 2] = [1, 8];
/// Cycles of the device's clock that a kernel waits: some tens of milliseconds.
const KERNEL_CYCLES: u32 = 100_000_000;
const HEADER: &str = "PROGRAMS  GPU-UTIL  SM ACTIVITY  OCCUPANCY  KERNELS/S\n";
/// From one look at the daemon to the next.
const LOOK: Duration = Duration::from_millis(50);

/// What the device said while so many programs ran; shares are 0 to 1.
#[derive(Serialize)]
struct Row {
    programs: usize,
    kernels_per_s: f64,
    gpu_util: f64,
    sm_activity: f64,
    sm_occupancy: f64,
    sms: u32,
    /// Estimated from a sample of launches.
    sampled: bool,
}

/// Runs them and prints a table, or JSON.
pub(super) fn show(stage: &Stage, seconds: f64, json: bool) -> Result<ExitCode> {
    let mut rows: Vec<Row> = Vec::new();
    if !json {
        output::print(HEADER)?;
    }
    for programs in PROGRAMS {
        let row = measure(stage, programs, seconds)?;
        if !json {
            output::print(&row.line())?;
        }
        rows.push(row);
    }
    let (Some(one), Some(many)) = (rows.first(), rows.last()) else {
        return Ok(ExitCode::FAILURE);
    };
    if json {
        output::print_json(&rows)?;
    } else {
        output::print(&format!(
            "\nGPU-Util is the time in which any kernel ran: one program of one block makes it {:.0} %,\n\
             though only {:.0} % of the device's {} SMs had work. {} of them together have {:.0} %.\n",
            100.0 * one.gpu_util,
            100.0 * one.sm_activity,
            one.sms,
            many.programs,
            100.0 * many.sm_activity
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Row {
    fn line(&self) -> String {
        let mark = if self.sampled { "~" } else { "" };
        format!(
            "{:>8}  {:>6.0} %  {mark:>1}{:>8.1} %  {mark:>1}{:>6.1} %  {:>9.0}\n",
            self.programs,
            100.0 * self.gpu_util,
            100.0 * self.sm_activity,
            100.0 * self.sm_occupancy,
            self.kernels_per_s
        )
    }
}

fn measure(stage: &Stage, programs: usize, seconds: f64) -> Result<Row> {
    let cycles = KERNEL_CYCLES.to_string();
    let seconds = seconds.to_string();
    let words = ["--kernel", "clock", "--blocks", "1", "--work", &cycles, "--seconds", &seconds];
    let words: Vec<String> = words.into_iter().chain(["--json"]).map(str::to_owned).collect();
    let program = || Program {
        path: stage.libraries().sample("spin"),
        arguments: words.clone(),
        takes_barrier: true,
    };
    let group: Vec<Program> = (0..programs).map(|_| program()).collect();
    let daemon = stage.daemon()?;
    let ended = AtomicBool::new(false);
    let (reports, rates) = std::thread::scope(|scope| {
        let mut watch = None;
        let started = || watch = Some(scope.spawn(|| watch_all(&daemon, programs, &ended)));
        let reports = stage.run(Setting::Shared(&daemon), &group, started);
        ended.store(true, Ordering::Relaxed);
        let rates = watch.map(|thread| thread.join());
        (reports, rates)
    });
    let per_s = |report: &serde_json::Value| report["kernels_per_s"].as_f64().unwrap_or(0.0);
    let kernels_per_s = reports?.iter().map(per_s).sum();
    let rates = rates
        .and_then(Result::ok)
        .flatten()
        .context("the programs did not run together for long enough: give them more --seconds")?;
    Ok(Row {
        programs,
        kernels_per_s,
        gpu_util: rates.util,
        sm_activity: rates.sm_activity,
        sm_occupancy: rates.occupancy,
        sms: rates.sms,
        sampled: rates.sampled,
    })
}

/// What the device did from the first to the last look at which all programs were there.
fn watch_all(daemon: &PrivateDaemon, programs: usize, ended: &AtomicBool) -> Option<DeviceRates> {
    let mut source = DaemonSource::new(daemon.pipe_directory());
    let mut readings: Option<(Reading, Reading)> = None;
    while !ended.load(Ordering::Relaxed) {
        if let Ok(report) = source.report()
            && report.programs() == programs
        {
            let now = Reading { at: Instant::now(), report };
            readings = Some(match readings.take() {
                None => (now.clone(), now),
                Some((first, _)) => (first, now),
            });
        }
        std::thread::sleep(LOOK);
    }
    let (first, last) = readings.filter(|(first, last)| last.at > first.at)?;
    Rates::between(&first, &last).devices.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_below_their_head() {
        let row = |sampled| Row {
            programs: 1,
            kernels_per_s: 19.6,
            gpu_util: 0.998,
            sm_activity: 0.125,
            sm_occupancy: 0.008,
            sms: 8,
            sampled,
        };
        for row in [row(true), row(false)] {
            assert_eq!(row.line().len(), HEADER.len(), "{HEADER}{}", row.line());
        }
    }
}
