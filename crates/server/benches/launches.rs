//! Launches: processor time that a server spends for one, on a provider whose launches do nothing.
//! `cargo bench -p server --bench launches`. Prints a table; asserts nothing.
//!
//! A session's thread is read from outside (`/proc/self/task/*/schedstat`: time on a processor,
//! which other load of the machine does not change).
//!
//! Without `--bench` (as cargo test runs it) each figure comes from a few launches and says nothing.

#[path = "../tests/support/mod.rs"]
mod support;

use channel::request::LaunchKernel;
use server::device::Driver;
use std::time::Instant;
use support::{Client, LEGACY, Server, function, provider};

/// Processor time of the threads whose names begin so, ns, and how often they gave up a processor.
fn spent(name: &str) -> (u64, u64) {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let mut sum = (0, 0);
    for task in tasks.flatten().map(|task| task.path()) {
        let text = |file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        if !text("comm").starts_with(name) {
            continue;
        }
        let ns = text("schedstat").split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        let status = text("status");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum.0 += ns;
        sum.1 += line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    sum
}

/// Waits for all that was posted, without a system call.
fn wait(client: &mut Client) {
    let value = client.fence(LEGACY);
    while client.word(LEGACY) < value {
        std::thread::yield_now();
    }
}

/// A launch of a sequence of 30.
fn launch(client: &mut Client, number: u32) {
    client.post(&LaunchKernel {
        function: function(1),
        stream: LEGACY,
        grid: [1 + number % 30, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        flags: 0,
        parameters: &[0; 4],
    });
}

/// Has so many clients launch so often, `at_once` launches between two waits each.
fn measure(clients: usize, launches: u32, at_once: u32, batches: bool) -> (f64, f64, f64) {
    let driver = Driver { table: provider::table_of_nothing(), extension: None };
    let mut server = match batches {
        true => Server::start_batched(driver),
        false => Server::start_on(driver),
    };
    let mut all: Vec<Client> = (0..clients).map(|_| server.connect()).collect();
    for client in &mut all {
        client.load();
        (0..2048).for_each(|number| launch(client, number));
        wait(client);
    }
    let (before, begin) = (spent("client "), Instant::now());
    std::thread::scope(|scope| {
        for client in &mut all {
            scope.spawn(move || {
                for _ in 0..launches / at_once {
                    (0..at_once).for_each(|number| launch(client, number));
                    wait(client);
                }
            });
        }
    });
    let (after, took) = (spent("client "), begin.elapsed());
    let count = f64::from(launches) * clients as f64;
    let of = |after: u64, before: u64| (after - before) as f64 / count;
    (of(after.0, before.0), of(after.1, before.1), took.as_nanos() as f64 / count)
}

fn main() {
    let launches = if std::env::args().any(|arg| arg == "--bench") { 40_000 } else { 256 };
    let head = ["server, ns", "sleeps", "all, ns"];
    println!("{:<40} {:>12} {:>10} {:>10}", "a launch", head[0], head[1], head[2]);
    for clients in [1, 4, 16] {
        for at_once in [1, 16, 256] {
            for (batches, ending) in [(false, ""), (true, ", as graphs")] {
                let launches = launches / clients as u32;
                let (ns, sleeps, all) = measure(clients, launches, at_once, batches);
                let name = format!("{clients} clients, {at_once} between waits{ending}");
                println!("{name:<40} {ns:>12.0} {sleeps:>10.3} {all:>10.0}");
            }
        }
    }
}
