//! The same kernels under several settings of one device, measured in turn: what a setting costs.

use crate::clock::{Clock, Time, restrict_to};
use crate::compare;
use crate::gpu::{Gpu, Loaded};
use anyhow::{Context, Result};
use cuda_api::DriverTable;

/// One case's times.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The case.
    pub kernel: &'static str,
    /// Seconds of one run under the first setting: the median of many.
    pub seconds: f64,
    /// Times under each setting as a share of those under the first: medians of shares of samples
    /// that were taken one after the other.
    pub ratios: Vec<f64>,
}

/// Measures the cases whose names contain one of `only`, all if that is empty, under each of
/// `settings`: each is called, and then the case's module is loaded and run until it is compiled.
/// Results must be the same under all. `progress` hears of each case before it runs.
///
/// As with [`crate::run`], the process is restricted to one processor from then on.
pub fn side_by_side(
    table: &DriverTable,
    only: &[String],
    settings: &[&dyn Fn()],
    mut progress: impl FnMut(&str),
) -> Result<Vec<Compared>> {
    let chosen = crate::choose(only, false)?;
    restrict_to(1)?;
    let clock = Clock { time: Time::for_cores(1), once: false };
    let gpu = Gpu::open(table)?;
    let mut found = Vec::new();
    for case in &chosen {
        progress(case.name);
        let first = gpu.load(case)?;
        let mut ways: Vec<Loaded<'_>> = Vec::new();
        let mut outputs = None;
        for set in settings {
            set();
            let mut loaded = first.again()?;
            clock.warm_up(&mut loaded, &mut |loaded, count| loaded.runs(count))?;
            let these = loaded.outputs()?;
            compare::outputs(case, &these, outputs.get_or_insert_with(|| these.clone()))
                .with_context(|| format!("{}: a setting changes results", case.name))?;
            ways.push(loaded);
        }
        let turns = clock.in_turn(&mut ways, |loaded, count| loaded.runs(count))?;
        let seconds = median(turns.iter().map(|turn| turn[0]));
        let ratios = (0..settings.len())
            .map(|way| median(turns.iter().map(|turn| turn[way] / turn[0])))
            .collect();
        found.push(Compared { kernel: case.name, seconds, ratios });
    }
    Ok(found)
}

/// The middle one of several numbers.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
