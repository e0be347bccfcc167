//! Many programs of one server that compute at once.

use crate::{Scene, finish, start, wait_until};
use std::path::Path;
use std::time::{Duration, Instant};

/// Clients that a server takes.
pub const CLIENTS_MAX: usize = 1024;

/// Starts so many programs, `group` at a time, lets them compute when all are ready, and verifies their
/// results. Where there are [`CLIENTS_MAX`] of them, one more is refused, with error 808 and a line in
/// the log. How long it took until all were ready, and until all had ended; panics if anything is wrong.
pub fn compute_at_once(scene: &Scene, clients: usize, group: usize) -> (Duration, Duration) {
    let go = scene.file("go");
    let barrier = go.to_str().expect("a path");
    let arguments = ["--iterations", "5", "--json", "--barrier", barrier];
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
    for program in programs {
        assert_eq!(program.wait().expect_success().json()["verified"], true);
    }
    let all_ended = began.elapsed();
    wait_until("all of them are gone", || scene.clients().is_empty());
    (all_ready, all_ended)
}

/// How many programs wait at a barrier.
fn ready(barrier: &Path) -> usize {
    let name = barrier.file_name().unwrap_or_default().to_string_lossy();
    let folder = barrier.parent().map(std::fs::read_dir);
    let files = folder.into_iter().flatten().flatten().flatten();
    let begins = format!("{name}.ready.");
    files.filter(|file| file.file_name().to_string_lossy().starts_with(&begins)).count()
}
