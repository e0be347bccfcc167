//! Kernel benchmark: kernels on a device, beside the same algorithms in C and in OpenCL on the
//! processor.
//!
//! A *case* is one kernel in three languages (`programs/NAME.cu` with its `.ptx`, `.c`, `.cl`),
//! its inputs and its launch. Each *runner* runs a case and gives back its results and how long
//! one run takes: [`gpu`] through the driver API, [`native`] with the machine's C compiler,
//! [`opencl`] with an OpenCL platform that runs on the CPU (PoCL). The results of all are
//! compared before a figure is believed.
//!
//! Deliberately absent: printing (the caller has the rows), and statistics beyond the best of
//! several samples: a slower sample says something of the machine, not of the kernel.

mod arguments;
mod case;
#[macro_use]
mod cases;
mod clock;
mod compare;
mod floor;
mod gpu;
mod image;
mod memory;
mod native;
mod opencl;
mod settings;
mod textures;

use anyhow::{Context, Result, bail};
use case::Case;
use gpu::Gpu;
pub use gpu::Overhead;
use provider::Choice;
use serde::Serialize;
pub use settings::{Compared, side_by_side};
use std::path::PathBuf;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The device.
    pub provider: Choice,
    /// Only cases whose names contain one of these; all if empty.
    pub only: Vec<String>,
    /// Only cases that have a [`Row::floor`].
    pub floor: bool,
    /// Processors to use; 1 compares the quality of code, more shows how it scales.
    pub cores: usize,
    /// Run once and compare results; the figures are then those of a first run.
    pub once: bool,
    /// A folder whose `NAME.ptx` are used in place of the built-in ones: what another compiler,
    /// or another setting of it, makes of the same source.
    pub ptx: Option<PathBuf>,
    /// The processor for which C is compiled, as compilers' `-march=` names it.
    pub march: &'static str,
    /// An empty folder for what is compiled; the caller removes it.
    pub folder: PathBuf,
}

/// One case's figures. Speeds are in `unit`; a higher one is better.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case.
    pub kernel: &'static str,
    /// What the speeds count, such as `Gelem/s`.
    pub unit: &'static str,
    /// The device.
    pub ours: f64,
    /// The same algorithm in C on one core; `None` without a C compiler.
    pub c: Option<f64>,
    /// The same kernel in OpenCL; `None` without a CPU platform for it.
    pub pocl: Option<f64>,
    /// `ours / c`.
    pub ratio_c: Option<f64>,
    /// `ours / pocl`.
    pub ratio_pocl: Option<f64>,
    /// What `ratio_c` was with the prototypes of this design, on another machine: it shall be no
    /// less. `None` for kernels that they were not tried with.
    pub floor: Option<f64>,
    /// From the PTX to the end of the first run, less one run, milliseconds: loading, compiling
    /// and what a first run costs beside.
    pub first_run_ms: f64,
}

/// A case that gave no figures.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The case.
    pub kernel: &'static str,
    /// Why.
    pub error: String,
}

/// What a run found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// What a launch of an empty kernel costs, and each of its blocks.
    pub overhead: Option<Overhead>,
    /// Cases that gave the right results, in the order of [`names`].
    pub rows: Vec<Row>,
    /// Cases that did not.
    pub failed: Vec<Failure>,
}

/// Names of all cases.
pub fn names() -> Vec<&'static str> {
    cases::all().iter().map(|make| make().name).collect()
}

/// Measures the cases that `options` chooses, one after the other, on the first processors of
/// those that this thread may use. `progress` hears of each case before it runs.
///
/// The whole process is restricted to these processors from then on: threads that a device makes
/// inherit the restriction, so call this before any driver or OpenCL library is loaded.
pub fn run(options: &Options, mut progress: impl FnMut(&str)) -> Result<Figures> {
    let mut chosen = choose(&options.only, options.once)?;
    chosen.retain(|case| !options.floor || floor::of(case.name).is_some());
    if chosen.is_empty() {
        bail!("none of these kernels has a floor");
    }
    if let Some(folder) = &options.ptx {
        for case in &mut chosen {
            let path = folder.join(case.kernel).with_extension("ptx");
            case.ptx = std::fs::read_to_string(&path)
                .with_context(|| format!("reading {}", path.display()))?
                .into();
        }
    }
    clock::restrict_to(options.cores)?;
    let time = clock::Time::for_cores(options.cores);
    let clock = clock::Clock { time, once: options.once };
    let provider = options.provider.clone().load()?;
    let gpu = Gpu::open(provider.table())?;
    let opencl = opencl::Platform::open();
    let mut figures = Figures::default();
    if !options.once {
        figures.overhead = Some(gpu.overhead(clock)?);
    }
    for case in &chosen {
        progress(case.name);
        match row(case, clock, &gpu, opencl.as_ref(), options) {
            Ok(row) => figures.rows.push(row),
            Err(error) => {
                figures.failed.push(Failure { kernel: case.name, error: format!("{error:#}") });
            }
        }
    }
    Ok(figures)
}

/// The cases whose names contain one of `only`, or all if that is empty; those that are not
/// measured as well if `all`.
fn choose(only: &[String], all: bool) -> Result<Vec<Case>> {
    let chosen: Vec<Case> = cases::all()
        .iter()
        .map(|make| make())
        .filter(|case| all || !case.unit.is_empty())
        .filter(|case| only.is_empty() || only.iter().any(|part| case.name.contains(part)))
        .collect();
    if chosen.is_empty() {
        bail!("no kernel is named so; there are: {}", names().join(", "));
    }
    Ok(chosen)
}

fn row(
    case: &Case,
    clock: clock::Clock,
    gpu: &Gpu<'_>,
    opencl: Option<&opencl::Platform>,
    options: &Options,
) -> Result<Row> {
    let ours = gpu.run(case, clock)?;
    let native = native::run(case, clock, options.march, &options.folder)?;
    let pocl = match opencl {
        Some(platform) => platform.run(case, clock).context("OpenCL")?,
        None => None,
    };
    for (who, other) in [("C", &native), ("OpenCL", &pocl)] {
        if let Some(other) = other {
            compare::outputs(case, &ours.outputs, &other.outputs)
                .with_context(|| format!("the device's results are not those of {who}"))?;
        }
    }
    let speed = |seconds: f64| case.work / seconds / 1e9;
    let c = native.map(|run| speed(run.seconds));
    let pocl = pocl.map(|run| speed(run.seconds));
    let speed_ours = speed(ours.seconds);
    Ok(Row {
        kernel: case.name,
        unit: case.unit,
        ours: speed_ours,
        c,
        pocl,
        ratio_c: c.map(|c| speed_ours / c),
        ratio_pocl: pocl.map(|pocl| speed_ours / pocl),
        floor: floor::of(case.name),
        first_run_ms: (ours.first_seconds - ours.seconds).max(0.0) * 1e3,
    })
}

/// Geometric mean; `None` of nothing.
pub fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), v| (sum + v.ln(), count + 1));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}
