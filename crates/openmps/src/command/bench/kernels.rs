//! `openmps bench kernels`: how fast the software GPU's code is.

mod scaling;

use crate::output;
use crate::progress::Progress;
use crate::scratch::Scratch;
use anyhow::{Result, ensure};
use cuda_api::environment::{OPENMPS_PROVIDER, OPENMPS_SOFT_SIMD};
use kernel_bench::{Figures, Options, Row, geometric_mean};
use provider::Choice;
use serde::Serialize;
use simt_jit::SimdIsa;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure kernels on the software GPU, beside the same algorithms in C and in OpenCL
///
/// C is compiled by this machine's compiler ($CC, else cc) with -O3 -march=native, or with
/// -march=x86-64-v3 where OPENMPS_SOFT_SIMD=avx2 is set. OpenCL runs on a platform for the CPU, such as
/// PoCL (Debian: pocl-opencl-icd), for this processor. Either is left out where it is not installed. Results are compared before a figure is
/// printed. Bounds are checked, as always.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  openmps bench kernels
  openmps bench kernels --only saxpy --json")]
pub(crate) struct Arguments {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Only kernels whose names contain this; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only the kernels for which there is a floor: the least ratio to C
    #[arg(long)]
    floor: bool,
    /// Processors to use, for all but C, which uses one
    #[arg(long, value_name = "N", default_value_t = 1)]
    cores: usize,
    /// Measure on one processor and on two, and print how many times as fast two are
    #[arg(long, conflicts_with_all = ["cores", "check"])]
    scaling: bool,
    /// Run each kernel once and only compare the results (figures are then those of a first run)
    #[arg(long)]
    check: bool,
    /// Take NAME.ptx from this folder in place of the built-in PTX
    #[arg(long, value_name = "DIR")]
    ptx: Option<PathBuf>,
    /// Name the kernels and end
    #[arg(long)]
    list: bool,
}

#[derive(Serialize)]
struct Output {
    cores: usize,
    /// The processor for which C was compiled, as `-march=` names it.
    march: &'static str,
    #[serde(flatten)]
    figures: Figures,
    /// Geometric means of the ratios.
    ratio_c: Option<f64>,
    ratio_pocl: Option<f64>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let names = kernel_bench::names();
    if arguments.list {
        output::print(&(names.join("\n") + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.scaling {
        return scaling::run(arguments);
    }
    let provider = match std::env::var_os(OPENMPS_PROVIDER) {
        Some(_) => Choice::from_environment()?,
        None => Choice::Soft,
    };
    let folder = Scratch::new("kernels")?;
    let options = Options {
        provider,
        only: arguments.only.clone(),
        floor: arguments.floor,
        cores: arguments.cores,
        once: arguments.check,
        ptx: arguments.ptx.clone(),
        march: march(),
        folder: folder.path().to_path_buf(),
    };
    let progress = Progress::new(names.len() as u64);
    let figures = kernel_bench::run(&options, |kernel| {
        progress.say(kernel.to_owned());
        progress.step();
    });
    progress.finish();
    let figures = figures?;
    for failure in &figures.failed {
        output::say(format_args!("{}: {}", failure.kernel, failure.error));
    }
    let status = match figures.failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    let compared = if arguments.check { Some(compared(&figures.rows)?) } else { None };
    let report = Output {
        cores: arguments.cores,
        march: options.march,
        ratio_c: geometric_mean(figures.rows.iter().filter_map(|row| row.ratio_c)),
        ratio_pocl: geometric_mean(figures.rows.iter().filter_map(|row| row.ratio_pocl)),
        figures,
    };
    match compared {
        _ if arguments.json => output::print_json(&report)?,
        Some(kernels) => {
            output::print(&format!("{kernels} kernels gave the results that C gives\n"))?;
        }
        None if report.figures.rows.is_empty() => {}
        None => output::print(&table(&report))?,
    }
    Ok(status)
}

/// The processor for which C is compiled: one that has what native code of the software GPU is told
/// to use.
fn march() -> &'static str {
    let setting = std::env::var(OPENMPS_SOFT_SIMD).ok();
    match setting.map(|text| SimdIsa::choose(Some(&text))) {
        Some(Some(SimdIsa::Avx2)) => "x86-64-v3",
        _ => "native",
    }
}

/// How many kernels were compared; an error if there was nothing to compare them with.
fn compared(rows: &[Row]) -> Result<usize> {
    ensure!(
        rows.iter().all(|row| row.c.is_some()),
        "there is no C compiler to compare with: install one, or name it in CC"
    );
    Ok(rows.len())
}

fn table(output: &Output) -> String {
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"));
    let mut text = format!(
        "{:<24} {:>9} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>10}\n",
        "kernel", "", "ours", "C", "PoCL", "/ C", "floor", "/ PoCL", "first, ms"
    );
    for row in &output.figures.rows {
        let _ = writeln!(
            text,
            "{:<24} {:>9} {:>10.3} {:>10} {:>10} {:>8} {:>8} {:>8} {:>10.2}",
            row.kernel,
            row.unit,
            row.ours,
            figure(row.c),
            figure(row.pocl),
            figure(row.ratio_c),
            row.floor.map_or_else(String::new, |floor| format!("{floor:.3}")),
            figure(row.ratio_pocl),
            row.first_run_ms
        );
    }
    let _ = writeln!(
        text,
        "{:<24} {:>9} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8}",
        "geometric mean",
        "",
        "",
        "",
        "",
        figure(output.ratio_c),
        "",
        figure(output.ratio_pocl)
    );
    let _ = writeln!(text, "C is compiled with -O3 -march={}", output.march);
    if let Some(overhead) = output.figures.overhead {
        let _ = writeln!(
            text,
            "a launch {:.0} ns, each further block {:.0} ns",
            overhead.launch_ns, overhead.block_ns
        );
    }
    text
}
