//! `openmps bench kernels --scaling`: what a second processor gains.
//!
//! A process is restricted to its processors before a driver makes threads, so each number of them is
//! measured by a process of its own: this program again, with `--cores`.

use super::Arguments;
use crate::output;
use anyhow::{Context, Result, ensure};
use kernel_bench::geometric_mean;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::process::{Command, ExitCode, Stdio};

/// What is read of one process's output.
#[derive(Deserialize)]
struct Measured {
    rows: Vec<Speed>,
}

#[derive(Deserialize)]
struct Speed {
    kernel: String,
    unit: String,
    ours: f64,
}

#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
    /// Geometric mean.
    ratio: Option<f64>,
}

/// A kernel's speeds in `unit`; a higher one is better.
#[derive(Serialize)]
struct Row {
    kernel: String,
    unit: String,
    one: f64,
    two: f64,
    /// `two / one`.
    ratio: f64,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let [one, two] = [measure(arguments, 1)?, measure(arguments, 2)?];
    let rows: Vec<Row> = one
        .rows
        .into_iter()
        .filter_map(|Speed { kernel, unit, ours: one }| {
            let two = two.rows.iter().find(|other| other.kernel == kernel)?.ours;
            Some(Row { kernel, unit, one, two, ratio: two / one })
        })
        .collect();
    let report = Report { ratio: geometric_mean(rows.iter().map(|row| row.ratio)), rows };
    if arguments.json {
        output::print_json(&report)?;
    } else {
        output::print(&table(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(arguments: &Arguments, cores: usize) -> Result<Measured> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args(["bench", "kernels", "--json", "--cores", &cores.to_string()]);
    arguments.only.iter().for_each(|name| {
        command.args(["--only", name]);
    });
    if arguments.floor {
        command.arg("--floor");
    }
    if let Some(folder) = &arguments.ptx {
        command.arg("--ptx").arg(folder);
    }
    let done = command.stderr(Stdio::inherit()).output().context("starting this program again")?;
    ensure!(done.status.success(), "on {cores} of the processors it failed");
    serde_json::from_slice(&done.stdout).context("reading what was measured")
}

fn table(report: &Report) -> String {
    let mut text =
        format!("{:<24} {:>9} {:>10} {:>10} {:>6}\n", "kernel", "", "one", "two", "ratio");
    for Row { kernel, unit, one, two, ratio } in &report.rows {
        let _ = writeln!(text, "{kernel:<24} {unit:>9} {one:>10.3} {two:>10.3} {ratio:>6.2}");
    }
    if let Some(ratio) = report.ratio {
        let _ =
            writeln!(text, "{:<24} {:>9} {:>10} {:>10} {ratio:>6.2}", "geometric mean", "", "", "");
    }
    text
}
