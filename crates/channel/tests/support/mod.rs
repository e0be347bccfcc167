//! What the tests share: a watchdog, because a lost wake-up shows as a test that never ends.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long a test may take before it counts as hanging: far above what the slowest takes on a
/// loaded machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Ends the whole test run with a message if it is not dropped in time.
pub struct Watchdog {
    _alive: Sender<()>,
}

pub fn watchdog(test: &'static str) -> Watchdog {
    let (alive, ended) = channel();
    thread::spawn(move || {
        if ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{test} hangs");
            std::process::abort();
        }
    });
    Watchdog { _alive: alive }
}
