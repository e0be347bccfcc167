//! `openmps demo --faults`: programs that check every result beside one that faults again and again.
//!
//! The software GPU is told to be spoiled by a fault as hardware is: each fault costs the server its
//! context, and the other programs go on at another server.

use crate::group::{Program, Setting, Stage};
use crate::output;
use anyhow::{Context, Result};
use cuda_api::environment::OPENMPS_SOFT_TENANTS;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;

/// Programs beside the one that faults.
const PROGRAMS: [&str; 3] = ["vector_add", "reduction", "histogram"];
/// What the faulting one does, by `fault --kind`, and in words.
const KINDS: [(&str, &str); 7] = [
    ("null-write", "writes to address 0"),
    ("stray-write", "writes where no memory is"),
    ("neighbour", "writes where another program's memory may be"),
    ("misaligned", "writes to an address that is no multiple of four"),
    ("trap", "executes a trap"),
    ("assert", "fails an assertion"),
    ("stack", "overflows its stack"),
];
/// How long the programs run, s: long enough for all faults on a small machine.
const SECONDS: u32 = 12;

/// What one of the programs beside reports.
#[derive(Deserialize)]
struct SampleReport {
    sample: String,
    iterations: u64,
    p50_us: f64,
    max_us: f64,
    verified: bool,
}

#[derive(Serialize)]
struct Row {
    program: String,
    steps: u64,
    /// Each step's results were right.
    right: bool,
    p50_ms: f64,
    longest_ms: f64,
}

#[derive(Serialize)]
struct Report {
    faults: Vec<&'static str>,
    /// The faulting program was told its own error, and nothing else, each time.
    told: bool,
    programs: Vec<Row>,
}

/// Runs it.
pub(super) fn show(stage: &Stage, json: bool) -> Result<ExitCode> {
    let daemon = stage.daemon_with(&[(OPENMPS_SOFT_TENANTS, "0")])?;
    let seconds = SECONDS.to_string();
    let program = |name: &&str| Program {
        path: stage.libraries().sample(name),
        arguments: ["--json", "--verify-each", "--size", "4096", "--seconds", &seconds]
            .map(str::to_owned)
            .to_vec(),
        takes_barrier: true,
    };
    let programs: Vec<Program> = PROGRAMS.iter().map(program).collect();
    let (mut told, mut failed) = (true, Ok(()));
    let reports = stage.run(Setting::Shared(&daemon), &programs, || {
        for (kind, words) in KINDS {
            if !json {
                failed = output::print(&format!("a program {words}\n"));
            }
            let fault = stage.libraries().sample("fault");
            let ended = stage.finish(&daemon, &fault, &["--kind", kind]);
            told &= ended.is_ok_and(|status| status.success());
        }
    })?;
    failed?;
    let rows = reports.into_iter().map(|report| {
        let report: SampleReport =
            serde_json::from_value(report).context("reading a sample's report")?;
        Ok(Row {
            program: report.sample,
            steps: report.iterations,
            right: report.verified,
            p50_ms: report.p50_us / 1e3,
            longest_ms: report.max_us / 1e3,
        })
    });
    let rows: Vec<Row> = rows.collect::<Result<_>>()?;
    let right = told && rows.iter().all(|row| row.right);
    if json {
        let faults = KINDS.map(|(kind, _)| kind).to_vec();
        output::print_json(&Report { faults, told, programs: rows })?;
    } else {
        output::print("\nBESIDE IT           STEPS   RESULTS   STEP p50, ms   LONGEST, ms\n")?;
        for row in &rows {
            let results = if row.right { "right" } else { "WRONG" };
            output::print(&format!(
                "{:<16} {:>8}   {results:<7} {:>14.2} {:>13.1}\n",
                row.program, row.steps, row.p50_ms, row.longest_ms
            ))?;
        }
        let faults = KINDS.len();
        output::print(&match right {
            true => format!(
                "\n{faults} times a program broke down on the device. It was told its error; the \
                 programs beside it\nwent on with right results and saw nothing but a pause.\n"
            ),
            false => "\nSomething went wrong: see the table.\n".to_owned(),
        })?;
    }
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
