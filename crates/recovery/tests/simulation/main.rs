//! Simulation: histories of clients, a daemon, servers and a device, drawn from seeds.
//!
//! The decisions are the product's own (this crate: which client gets which server, whose a fault
//! was, what is in flight and what of it is repeated; crate `channel`: the ring). The clock is made
//! up, and so are processes, sockets and the device, which executes operations on the clients'
//! memory. Programs fault, hang, are slow, are killed and terminated; servers are killed and
//! upgraded; the daemon is killed. Each program compares its memory with that of an undisturbed run
//! whenever it has waited.
//!
//! `OPENMPS_SEED=N cargo test -p recovery --test simulation` replays the history of a seed and prints it;
//! `OPENMPS_HISTORIES=N` runs so many, `cargo xtask simulate` with optimisation.

mod client;
mod daemon;
mod operation;
mod random;
mod server;
mod world;

use client::Fate;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use world::{Outcome, World};

/// Histories of `cargo test`.
const HISTORIES: u64 = 8_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.trim().parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Runs a history; one in which the product's code panics is wrong too.
fn run(seed: u64, keeps_history: bool) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| World::run(seed, keeps_history))).unwrap_or_else(|_| Outcome {
        failure: Some("a panic".to_owned()),
        history: Vec::new(),
        fates: Vec::new(),
    })
}

#[test]
fn histories_hold() {
    if let Some(seed) = number("OPENMPS_SEED") {
        let outcome = World::run(seed, true);
        outcome.history.iter().for_each(|line| println!("{line}"));
        assert_eq!(outcome.failure, None, "the history of seed {seed}");
        return;
    }
    let count = number("OPENMPS_HISTORIES").unwrap_or(HISTORIES);
    let next = AtomicU64::new(0);
    let wrong = Mutex::new(None::<u64>);
    let (finished, sticky, reports, recoveries) =
        (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= count || wrong.lock().is_ok_and(|wrong| wrong.is_some()) {
            break;
        }
        let outcome = run(seed, false);
        for (fate, times, longest_us) in &outcome.fates {
            finished.fetch_add(u64::from(*fate == Fate::Finished), Ordering::Relaxed);
            sticky.fetch_add(u64::from(*fate == Fate::Sticky), Ordering::Relaxed);
            reports.fetch_add(u64::from(*times), Ordering::Relaxed);
            recoveries.fetch_add(u64::from(*longest_us > 0), Ordering::Relaxed);
        }
        if outcome.failure.is_some()
            && let Ok(mut wrong) = wrong.lock()
        {
            *wrong = Some(wrong.map_or(seed, |other| other.min(seed)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(16);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    if let Some(seed) = wrong.into_inner().unwrap_or_default() {
        let outcome = run(seed, true);
        outcome.history.iter().for_each(|line| println!("{line}"));
        let what = outcome.failure.unwrap_or_default();
        panic!(
            "seed {seed}: {what}\nreplay: OPENMPS_SEED={seed} cargo test -p recovery --test simulation"
        );
    }
    let count_of = |of: &AtomicU64| of.load(Ordering::Relaxed);
    println!(
        "{count} histories: {} programs finished, {} got their own fault, {} times lost work was \
         reported",
        count_of(&finished),
        count_of(&sticky),
        count_of(&reports)
    );
    // Otherwise the histories show little.
    assert!(
        count_of(&finished) > count && count_of(&sticky) * 20 > count && count_of(&reports) > 0
    );
}

#[test]
fn a_seed_gives_the_same_history() {
    for seed in 0..20 {
        assert_eq!(run(seed, true).history, run(seed, true).history, "seed {seed}");
    }
}
