//! What the end-to-end tests share: an installation, a scene with a daemon of its own, programs
//! that are stopped when they hang.
//!
//! It knows the product by its files, environment variables and commands only, as a user does.

mod crowd;
mod dist;
mod process;
mod scene;

pub use crowd::{CLIENTS_MAX, compute_at_once};
pub use dist::dist;
pub use process::{Ended, Running, finish, start};
pub use scene::Scene;

use std::time::{Duration, Instant};

/// How long anything may take before the test gives up: generous, for a busy machine of two cores.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `condition` holds; panics with `what` when patience runs out.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
