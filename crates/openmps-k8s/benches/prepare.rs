//! Benchmark: time of prepare and unprepare as the kubelet sees it, with a simulated API server on this machine.
//!
//! `cargo bench -p openmps-k8s --bench prepare [-- CLAIMS]`

#[allow(dead_code, reason = "the tests' simulators, of which this needs a part")]
#[path = "../tests/driver/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "the tests' simulators, of which this needs a part")]
#[path = "../tests/driver/kubelet.rs"]
mod kubelet;
#[allow(dead_code, reason = "the tests' simulators, of which this needs a part")]
#[path = "../tests/driver/world.rs"]
mod world;

use cluster::Wanted;
use std::time::Instant;
use world::World;

/// Claims that are prepared.
const CLAIMS: usize = 500;

fn main() {
    let asked = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let world = World::new(1);
    let plugin = world.plugin();
    let (mut prepares, mut unprepares) = (Vec::new(), Vec::new());
    for number in 0..asked.unwrap_or(CLAIMS) {
        let wanted = Wanted::share(&format!("c{number}"), 2, "128Mi");
        let claim = world.cluster.allocate(&wanted).expect("it fits");
        let began = Instant::now();
        world.runtime.block_on(plugin.prepare(&claim)).expect("it is prepared");
        prepares.push(began.elapsed());
        let began = Instant::now();
        world.runtime.block_on(plugin.unprepare(&claim)).expect("it is unprepared");
        unprepares.push(began.elapsed());
        world.cluster.delete(&wanted.name);
    }
    for (what, mut times) in [("prepare", prepares), ("unprepare", unprepares)] {
        times.sort();
        let of = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
        println!(
            "{what}: {} claims, p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
            times.len(),
            of(0.5),
            of(0.99),
            of(1.0)
        );
    }
}
