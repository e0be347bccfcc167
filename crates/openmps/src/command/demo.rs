//! `openmps demo`: what sharing gains, shown with real programs on this machine's device.

mod faults;
mod util;

use crate::activity::Utilisation;
use crate::group::{self, Program, Setting, Stage};
use crate::output;
use crate::progress::Progress;
use crate::seconds;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;

/// Show what sharing gains: the same programs taking turns, then sharing
///
/// Each row runs several processes of a sample program for a few seconds, first each by itself
/// (the device is time-sliced between them), then all through openmps. Every process checks its
/// own results. GPU-Util is the time in which any kernel ran; SM activity says how much of the
/// device those kernels used.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps demo
  openmps demo --processes 2,4 --seconds 2")]
pub(crate) struct Arguments {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Show that GPU-Util is not use of the SMs: one program that keeps one SM busy, then eight
    #[arg(long)]
    util: bool,
    /// Show that a program's fault is its own: one faults again and again beside others that check
    /// every result
    #[arg(long, conflicts_with = "util")]
    faults: bool,
    /// Numbers of processes
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8")]
    #[arg(value_parser = group::programs_parser())]
    processes: Vec<usize>,
    /// Only these samples
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    samples: Vec<String>,
    /// Length of each run
    #[arg(long, value_name = "S", default_value_t = 1.2, value_parser = seconds::of_run)]
    seconds: f64,
}

/// One workload: the programs of which each process runs one, in turn.
struct Workload {
    name: &'static str,
    programs: &'static [(&'static str, &'static [&'static str])],
    /// Numbers of processes that make sense; empty for all that were asked for.
    only: &'static [usize],
}

/// Grids of one block: alone, each leaves most of the device idle.
const WORKLOADS: &[Workload] = &[
    Workload { name: "spin", programs: &[("spin", &["--blocks", "1"])], only: &[] },
    Workload { name: "n_body", programs: &[("n_body", &["--blocks", "1"])], only: &[] },
    Workload {
        name: "matrix_multiply",
        programs: &[("matrix_multiply", &["--blocks", "1"])],
        only: &[],
    },
    Workload {
        name: "mlp+convnet",
        programs: &[("mlp_inference", &[]), ("convnet_inference", &[])],
        only: &[2],
    },
];

#[derive(Serialize)]
struct Row {
    sample: &'static str,
    processes: usize,
    turns_per_s: f64,
    shared_per_s: f64,
    gain: f64,
    verified: bool,
    turns: Figures,
    shared: Figures,
}

/// One run of a group.
#[derive(Serialize)]
struct Figures {
    per_s: f64,
    /// Of the iterations of all processes: median of the processes' medians.
    p50_us: f64,
    /// Worst of the processes' 99th percentiles.
    p99_us: f64,
    verified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    utilisation: Option<Utilisation>,
}

#[derive(Serialize)]
struct Report {
    cores: usize,
    rows: Vec<Row>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let stage = Stage::new()?;
    if arguments.util {
        return util::show(&stage, arguments.seconds, arguments.json);
    }
    if arguments.faults {
        return faults::show(&stage, arguments.json);
    }
    let plan = plan(arguments)?;
    let progress = Progress::new(plan.len() as u64 * 2);
    let mut rows: Vec<Row> = Vec::new();
    for (workload, processes) in plan {
        let programs = programs(&stage, workload, processes, arguments.seconds);
        progress.say(format!("{} x {processes}: taking turns", workload.name));
        let turns = measure(&stage, Setting::Turns, &programs)?;
        progress.step();
        progress.say(format!("{} x {processes}: sharing", workload.name));
        let daemon = stage.daemon()?;
        let shared = measure(&stage, Setting::Shared(&daemon), &programs)?;
        drop(daemon);
        progress.step();
        let row = Row {
            sample: workload.name,
            processes,
            turns_per_s: turns.per_s,
            shared_per_s: shared.per_s,
            gain: shared.per_s / turns.per_s,
            verified: turns.verified && shared.verified,
            turns,
            shared,
        };
        if !arguments.json {
            if rows.is_empty() {
                progress.print(HEADER)?;
            }
            progress.print(&row.line())?;
        }
        rows.push(row);
    }
    progress.finish();

    let verified = rows.iter().all(|row| row.verified);
    if arguments.json {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        output::print_json(&Report { cores, rows })?;
    } else if verified {
        output::print("\nEvery process checked its results: all right.\n")?;
    } else {
        output::print("\nSome results were WRONG: their rows say so.\n")?;
    }
    Ok(if verified { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Which workload runs with how many processes, in order.
fn plan(arguments: &Arguments) -> Result<Vec<(&'static Workload, usize)>> {
    for name in &arguments.samples {
        if !WORKLOADS.iter().any(|w| w.name == name) {
            let known: Vec<&str> = WORKLOADS.iter().map(|w| w.name).collect();
            bail!("--samples {name}: there are {}", known.join(", "));
        }
    }
    let wanted = |w: &&Workload| {
        arguments.samples.is_empty() || arguments.samples.iter().any(|name| name == w.name)
    };
    Ok(WORKLOADS
        .iter()
        .filter(wanted)
        .flat_map(|w| match w.only {
            [] => arguments.processes.iter().map(|&n| (w, n)).collect(),
            only => only.iter().map(|&n| (w, n)).collect::<Vec<_>>(),
        })
        .collect())
}

fn programs(stage: &Stage, workload: &Workload, processes: usize, seconds: f64) -> Vec<Program> {
    (0..processes)
        .map(|index| {
            let (name, own) = workload.programs[index % workload.programs.len()];
            let mut arguments: Vec<String> = own.iter().map(ToString::to_string).collect();
            arguments.extend(["--json".into(), "--seconds".into(), seconds.to_string()]);
            // Different data in each, so that one process's results cannot pass for another's.
            arguments.extend(["--seed".into(), (index + 1).to_string()]);
            Program { path: stage.libraries().sample(name), arguments, takes_barrier: true }
        })
        .collect()
}

/// What a sample program reports, as far as it is used here.
#[derive(Deserialize)]
struct SampleReport {
    kernels_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    verified: bool,
}

fn measure(stage: &Stage, setting: Setting<'_>, programs: &[Program]) -> Result<Figures> {
    let mut before = stage.activity();
    let reports = stage.run(setting, programs, || before = stage.activity())?;
    let utilisation = stage.activity().since(&before);
    let reports: Vec<SampleReport> = reports
        .into_iter()
        .map(|report| serde_json::from_value(report).context("reading a sample's report"))
        .collect::<Result<_>>()?;
    let mut medians: Vec<f64> = reports.iter().map(|r| r.p50_us).collect();
    medians.sort_by(f64::total_cmp);
    Ok(Figures {
        per_s: reports.iter().map(|r| r.kernels_per_s).sum(),
        p50_us: medians[medians.len() / 2],
        p99_us: reports.iter().map(|r| r.p99_us).fold(0.0, f64::max),
        verified: reports.iter().all(|r| r.verified),
        utilisation,
    })
}

/// Less than 80 columns wide; medians and GPU-Util are in the JSON.
const HEADER: &str = concat!(
    "                     kernels a second               p99, ms    SM activity\n",
    "sample           N     turns   shared   gain   turns shared   turns shared",
);

impl Row {
    fn line(&self) -> String {
        let activity = |figures: &Figures| match &figures.utilisation {
            Some(utilisation) => format!("{:.0}%", utilisation.sm_activity * 100.0),
            None => "-".into(),
        };
        let line = format!(
            "{:<15} {:>2} {:>9.0} {:>8.0} {:>5.2}x {:>7.2} {:>6.2} {:>7} {:>6}",
            self.sample,
            self.processes,
            self.turns.per_s,
            self.shared.per_s,
            self.gain,
            self.turns.p99_us / 1e3,
            self.shared.p99_us / 1e3,
            activity(&self.turns),
            activity(&self.shared),
        );
        if self.verified { line } else { line + " WRONG" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_wide_as_their_head_and_fit_a_terminal() {
        let figures = |per_s, sm_activity| Figures {
            per_s,
            p50_us: 1.0,
            p99_us: 123_456.0,
            verified: true,
            utilisation: Some(Utilisation { gpu_util: 1.0, sm_activity, sm_occupancy: 1.0 }),
        };
        let row = Row {
            sample: "matrix_multiply",
            processes: 64,
            turns_per_s: 1.0,
            shared_per_s: 1.0,
            gain: 12.34,
            verified: true,
            turns: figures(1_234_567.0, 0.08),
            shared: figures(7_654_321.0, 1.0),
        };
        let widths: Vec<usize> = HEADER.lines().map(|line| line.trim_end().len()).collect();
        assert_eq!(widths[1], row.line().len(), "{HEADER}\n{}", row.line());
        let wrong = Row { verified: false, ..row };
        assert!(wrong.line().len() <= 80 && wrong.line().ends_with(" WRONG"), "{}", wrong.line());
    }
}
