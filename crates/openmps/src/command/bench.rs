//! `openmps bench`: what driver calls cost through openmps, beside the provider in-process; and
//! `openmps bench kernels` and `openmps bench ends`, commands of their own.

mod ends;
mod kernels;

use crate::group::{self, Program, Report, Setting, Stage};
use crate::output;
use crate::progress::Progress;
use crate::seconds;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::process::ExitCode;

/// Measure what driver calls cost through openmps, beside the provider in the program's process
///
/// One program measures both; only the path to the device differs. A ratio below 1 means less time
/// (or, for launches a second, fewer launches) through openmps. Figures of one run belong
/// together: on a noisy machine only the ratios mean something.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps bench                 what driver calls cost
  openmps bench kernels         the software GPU's code beside C and OpenCL")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Length of each run of launches a second
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds::of_run)]
    seconds: f64,
    /// Numbers of clients for launches a second
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,4,8")]
    #[arg(value_parser = group::programs_parser())]
    clients: Vec<usize>,
}

#[derive(clap::Subcommand)]
enum Other {
    Kernels(kernels::Arguments),
    Ends(ends::Arguments),
}

/// One figure of the program that measures.
#[derive(Clone, Deserialize)]
struct Figure {
    name: String,
    unit: String,
    value: f64,
}

#[derive(Deserialize)]
struct Figures {
    rows: Vec<Figure>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    unit: String,
    through_openmps: f64,
    in_process: f64,
    ratio: f64,
}

#[derive(Serialize)]
struct Output {
    rows: Vec<Row>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.other {
        Some(Other::Kernels(arguments)) => return kernels::run(arguments),
        Some(Other::Ends(arguments)) => return ends::run(arguments),
        None => {}
    }
    let stage = Stage::new()?;
    let progress = Progress::new((1 + arguments.clients.len() as u64) * 2);
    let mut rows = Vec::new();
    let both = |name: &str, programs: &[Program]| -> Result<[Vec<Figure>; 2]> {
        progress.say(format!("{name}: in-process"));
        let alone = figures(stage.run(Setting::Turns, programs, || ())?)?;
        progress.step();
        progress.say(format!("{name}: through openmps"));
        let daemon = stage.daemon()?;
        let through = figures(stage.run(Setting::Shared(&daemon), programs, || ())?)?;
        progress.step();
        Ok([through, alone])
    };

    let [through, alone] = both("calls", &[microbench(&stage, &["calls"], false)])?;
    for figure in &through {
        let other = alone.iter().find(|f| f.name == figure.name).context("the same figures")?;
        rows.push(row(&figure.name, &figure.unit, figure.value, other.value));
    }
    for &clients in &arguments.clients {
        let seconds = arguments.seconds.to_string();
        let programs: Vec<Program> = (0..clients)
            .map(|_| microbench(&stage, &["launches", "--seconds", &seconds], true))
            .collect();
        let name = format!("launches_{clients}");
        let [through, alone] = both(&name, &programs)?;
        let sum = |figures: &[Figure]| -> f64 {
            figures.iter().filter(|f| f.name == "launches_per_s").map(|f| f.value).sum()
        };
        rows.push(row(&name, "1/s", sum(&through), sum(&alone)));
    }
    progress.finish();

    if arguments.json {
        output::print_json(&Output { rows })?;
    } else {
        output::print(&table(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<24} {:>6} {:>16} {:>16} {:>8}\n",
        "", "unit", "through openmps", "in-process", "ratio"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:<24} {:>6} {:>16.2} {:>16.2} {:>8.2}",
            row.name, row.unit, row.through_openmps, row.in_process, row.ratio
        );
    }
    text
}

fn microbench(stage: &Stage, arguments: &[&str], takes_barrier: bool) -> Program {
    let mut arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    arguments.push("--json".into());
    Program { path: stage.libraries().sample("microbench"), arguments, takes_barrier }
}

fn figures(reports: Vec<Report>) -> Result<Vec<Figure>> {
    let mut all = Vec::new();
    for report in reports {
        let figures: Figures =
            serde_json::from_value(report).context("reading the figures of microbench")?;
        all.extend(figures.rows);
    }
    Ok(all)
}

fn row(name: &str, unit: &str, through_openmps: f64, in_process: f64) -> Row {
    Row {
        name: name.into(),
        unit: unit.into(),
        through_openmps,
        in_process,
        ratio: through_openmps / in_process,
    }
}
