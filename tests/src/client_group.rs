//! Many programs of one server that compute at once.

use crate::{Scene, finish, start, wait_until};
use std::path::Path;
use std::time::{Duration, Instant};

/// Clients that a server takes.
pub const CLIENTS_MAX: usize = 1024;

/// Kernels that a program launches before the barrier.
const WARM_UP: u64 = 3;
/// Kernels that each of them launches, and whose results it copies and compares, while all others do the same.
const ROUNDS: u64 = 5;

/// How it went. Times are since the first program was started.
#[derive(Clone, Copy, Debug)]
pub struct ClientGroup {
    /// Until all were ready.
    pub ready: Duration,
    /// Until each had verified several results, and none had ended.
    pub computed: Duration,
    /// Until all had ended.
    pub ended: Duration,
    /// Kernels of all since they were ready.
    pub kernels: u64,
    /// Of the program with the fewest.
    pub kernels_least: u64,
}

/// Starts so many programs, `group` at a time, lets them compute when all are ready, and has all go on until each
/// has launched, copied and verified several times. Where there are [`CLIENTS_MAX`] of them, one more is
/// refused, with error 808 and a line in the log. Panics if anything is wrong.
pub fn compute_at_once(scene: &Scene, clients: usize, group: usize) -> ClientGroup {
    let (go, enough) = (scene.file("go"), scene.file("enough"));
    let [barrier, until] = [&go, &enough].map(|file| file.to_str().expect("a path"));
    let warm_up = WARM_UP.to_string();
    let arguments = ["--verify-each", "--json", "--warm-up", &warm_up];
    let arguments = [&arguments[..], &["--barrier", barrier, "--until", until]].concat();
    let began = Instant::now();
    let mut programs = Vec::with_capacity(clients);
    while programs.len() < clients {
        // As many processes that load at once as are wanted would keep a small machine swapping.
        let more = group.clamp(1, clients - programs.len());
        programs.extend((0..more).map(|_| start(&mut scene.sample("vector_add", &arguments))));
        // By their files: asking the daemon each time would be most of the work.
        wait_until("a group is ready", || ready(&go) == programs.len());
    }
    let all_ready = began.elapsed();
    assert_eq!(scene.clients().len(), clients, "clients of the one server");
    if clients == CLIENTS_MAX {
        let refused = finish(&mut scene.sample("vector_add", &["--iterations", "1"]));
        let name = "MPS_MAX_CLIENTS_REACHED";
        assert!(refused.status != 0 && refused.stderr.contains(name), "{refused:?}");
        assert!(scene.log("control.log").contains("most clients, 1024"), "a line says so");
    }
    std::fs::write(&go, "").expect("the barrier opens");
    wait_until("each has computed beside the others", || {
        let counts = kernels(scene);
        // Each report is much of a small machine's work.
        std::thread::sleep(Duration::from_millis(200));
        counts.len() == clients && counts.iter().all(|count| *count > WARM_UP + ROUNDS)
    });
    let computed = began.elapsed();
    std::fs::write(&enough, "").expect("they end");
    let mut counts = Vec::with_capacity(clients);
    for program in programs {
        let report = program.wait().expect_success().json();
        assert_eq!(report["verified"], true);
        counts.push(report["kernels"].as_u64().expect("kernels"));
    }
    let ended = began.elapsed();
    wait_until("all of them are gone", || scene.clients().is_empty());
    let kernels_least = counts.iter().copied().min().unwrap_or(0);
    ClientGroup { ready: all_ready, computed, ended, kernels: counts.iter().sum(), kernels_least }
}

/// How many kernels each client has launched.
fn kernels(scene: &Scene) -> Vec<u64> {
    let report = scene.openmps(&["ps", "--json"]).expect_success().json();
    let servers = report["servers"].as_array().into_iter().flatten();
    let clients = servers.flat_map(|server| server["clients"].as_array().into_iter().flatten());
    clients.map(|client| client["kernels"].as_u64().unwrap_or(0)).collect()
}

/// How many programs wait at a barrier.
fn ready(barrier: &Path) -> usize {
    let name = barrier.file_name().unwrap_or_default().to_string_lossy();
    let folder = barrier.parent().map(std::fs::read_dir);
    let files = folder.into_iter().flatten().flatten().flatten();
    let begins = format!("{name}.ready.");
    files.filter(|file| file.file_name().to_string_lossy().starts_with(&begins)).count()
}
