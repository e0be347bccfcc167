//! Counting: what it adds to a launch, without the samples that are timed. `cargo bench -p server --bench
//! counting`. Prints a table; asserts nothing.
//!
//! Without `--bench` (as cargo test runs it) each figure comes from a few rounds only and says nothing.

use cuda_api::settings::Counting;
use server::device::SubmissionTime;
use server::meter::{KernelCounters, KernelMeter, Sampler, Shape, Submitted};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const LAUNCHES: u32 = 20_000;

fn main() {
    let rounds = if std::env::args().any(|arg| arg == "--bench") { 301 } else { 2 };
    println!("{:<44} {:>8} {:>8} {:>8}", "ns a launch", "least", "p50", "p99");
    let row = |name: &str, round: &dyn Fn() -> f64| {
        let mut samples: Vec<f64> = (0..rounds).map(|_| round()).collect();
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| samples[((samples.len() - 1) as f64 * share) as usize];
        println!("{name:<44} {:>8.2} {:>8.2} {:>8.2}", at(0.0), at(0.5), at(0.99));
    };
    row("the loop by itself, to be taken off", &|| {
        timed(|launch| {
            black_box(shape(launch & 1));
        })
    });
    for (name, shapes) in [
        ("one shape again and again", 1),
        ("two shapes in turn", 2),
        ("as many shapes as are distinguished, in turn", 32),
    ] {
        row(name, &|| counted(shapes));
    }
    row("the sample of submissions that are timed", &submitted);
}

fn shape(at: u32) -> Shape {
    Shape { grid: [at + 1, 1, 1], block: [256, 1, 1], shared_bytes: 0 }
}

/// What a launch of one kernel with so many shapes in turn, a power of two, costs, ns.
fn counted(shapes: u32) -> f64 {
    let mut meter = KernelMeter::new(Arc::new(KernelCounters::new(c"kernel", &[])));
    let mut sampler = Sampler::new(256, 1);
    let stream = Submitted::default();
    let mut launch = |launch: u32| {
        // The number is hidden, not the shape: a shape that goes through memory takes longer than counting.
        let counters = meter.before_other(shape(black_box(launch & (shapes - 1))));
        black_box(sampler.due(counters.launches.get(), Counting::Sampled, || 0));
        stream.launched(meter.submitted());
    };
    // Past the first launches, of which many are timed.
    (0..1024 * shapes).for_each(&mut launch);
    timed(launch)
}

/// What is added to a call of the driver that submits work, ns.
fn submitted() -> f64 {
    let time = SubmissionTime::new(1);
    time.set(true);
    timed(|launch| {
        let _ = time.of(|| {
            black_box(launch);
            Ok(())
        });
    })
}

/// What one of many calls takes, ns.
fn timed(mut launch: impl FnMut(u32)) -> f64 {
    let begin = Instant::now();
    (0..LAUNCHES).for_each(&mut launch);
    begin.elapsed().as_nanos() as f64 / f64::from(LAUNCHES)
}
