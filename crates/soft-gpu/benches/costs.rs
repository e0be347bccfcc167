//! `cargo bench -p soft-gpu --features ablation --bench costs`: the share of its time that a kernel's
//! native code spends with checks.
//!
//! Each kernel of `bench/kernels` is compiled with all checks, without checks of addresses, without
//! those at back-edges, and without counting, and the four are run in turn. Such code exists in this program
//! only: what is installed is built without the feature.

use kernel_bench::{Compared, geometric_mean, side_by_side};
use openmps_soft as _;
use serde_json::json;
use simt_jit::Ablation;

cuda_api::linked_symbols! {
    cuInit cuDevicePrimaryCtxRetain cuCtxSetCurrent cuCtxSynchronize cuModuleLoadData
    cuModuleUnload cuModuleGetFunction cuMemAlloc_v2 cuMemFree_v2 cuMemcpyHtoD_v2 cuMemcpyDtoH_v2
    cuLaunchKernel
}

/// What code is made without, in the order of the measurements.
const WITHOUT: [Ablation; 4] = [
    Ablation { bounds: false, back_edges: false, counters: false },
    Ablation { bounds: true, back_edges: false, counters: false },
    Ablation { bounds: false, back_edges: true, counters: false },
    Ablation { bounds: false, back_edges: false, counters: true },
];

/// Share of the time with all checks that is saved without some of them.
fn share(row: &Compared, without: usize) -> f64 {
    1.0 - row.ratios[without]
}

fn main() -> anyhow::Result<()> {
    let (mut json, mut only) = (false, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // cargo says so.
            "--bench" => {}
            "--json" => json = true,
            "--only" => only.extend(arguments.next()),
            other => anyhow::bail!("{other}: there are --json and --only NAME"),
        }
    }
    // SAFETY: the bench's kernels access what they may, and end: with all checks they run first.
    let choose = |n: usize| move || unsafe { WITHOUT[n].choose() };
    let settings = [choose(0), choose(1), choose(2), choose(3)];
    let settings: Vec<&dyn Fn()> = settings.iter().map(|set| set as &dyn Fn()).collect();
    let rows = side_by_side(&linked_table(), &only, &settings, |kernel| eprintln!("{kernel}"))?;
    let mean = |without: usize| {
        geometric_mean(rows.iter().map(|row| 1.0 - share(row, without))).map(|kept| 1.0 - kept)
    };
    let [bounds, back_edges, counters] = [1, 2, 3].map(|without| mean(without).unwrap_or(0.0));
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "kernel": row.kernel,
                    "us": row.seconds * 1e6,
                    "bounds": share(row, 1),
                    "back_edges": share(row, 2),
                    "counters": share(row, 3),
                })
            })
            .collect();
        let all = json!({
            "rows": rows, "bounds": bounds, "back_edges": back_edges, "counters": counters,
        });
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    println!(
        "{:<24} {:>10} {:>9} {:>12} {:>10}",
        "kernel", "a run, us", "bounds", "back-edges", "counters"
    );
    let line = |name: &str, us: &str, shares: [f64; 3]| {
        let [bounds, back_edges, counters] = shares.map(|share| 100.0 * share);
        println!("{name:<24} {us:>10} {bounds:>8.1}% {back_edges:>11.1}% {counters:>9.1}%");
    };
    for row in &rows {
        let us = format!("{:.1}", row.seconds * 1e6);
        line(row.kernel, &us, [1, 2, 3].map(|without| share(row, without)));
    }
    line("mean", "", [bounds, back_edges, counters]);
    Ok(())
}
