//! Counting: what it adds to a launch, without the samples that are timed. `cargo bench -p server --bench
//! counting`. Prints a table; asserts nothing.
//!
//! Without `--bench` (as cargo test runs it) each figure comes from a few rounds only and says nothing.

use server::session::{KernelCounters, KernelMeter, Shape};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const LAUNCHES: u32 = 100_000;

fn main() {
    let rounds = if std::env::args().any(|arg| arg == "--bench") { 101 } else { 2 };
    println!("{:<44} {:>8} {:>8}", "ns a launch", "p50", "p99");
    for (name, shapes) in [
        ("one shape again and again", 1),
        ("two shapes in turn", 2),
        ("as many shapes as are told apart, in turn", 32),
    ] {
        let mut samples: Vec<f64> = (0..rounds).map(|_| round(shapes)).collect();
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| samples[((samples.len() - 1) as f64 * share) as usize];
        println!("{name:<44} {:>8.2} {:>8.2}", at(0.5), at(0.99));
    }
}

/// What a launch of one kernel with so many shapes in turn costs, ns.
fn round(shapes: u32) -> f64 {
    let mut meter = KernelMeter::new(Arc::new(KernelCounters::new(c"kernel", &[])));
    let shape = |at: u32| Shape { grid: [at + 1, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
    (0..shapes).for_each(|at| drop(meter.due(shape(at))));
    let begin = Instant::now();
    for launch in 0..LAUNCHES {
        black_box(meter.due(black_box(shape(launch % shapes))));
        meter.submitted();
    }
    begin.elapsed().as_nanos() as f64 / f64::from(LAUNCHES)
}
