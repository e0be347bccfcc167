//! What the end-to-end tests share: an installation, a scene with a daemon of its own, programs
//! that are stopped when they hang.
//!
//! It knows the product by its files, environment variables and commands only, as a user does.

mod client_group;
mod dist;
mod entry;
mod patience;
mod process;
mod scene;

pub use client_group::{CLIENTS_MAX, ClientGroup, compute_at_once};
pub use dist::dist;
pub use entry::Entry;
pub use patience::{PATIENCE, Patience};
pub use process::{Ended, Running, Signal, finish, signal, start, try_signal};
pub use scene::Scene;

use std::time::Duration;

/// Says that a test did not run, where the harness has no word for it.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
    assert!(std::env::var_os("OPENMPS_EVERY_TEST").is_none(), "{why}");
}

/// Whether root runs the tests.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits until `condition` holds; panics with `what` when patience runs out.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let mut patience = Patience::of(PATIENCE);
    while !condition() {
        assert!(!patience.is_out(), "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
