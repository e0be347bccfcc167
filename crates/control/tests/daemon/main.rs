//! The daemon and its shell as processes, with a server that only pretends.
//!
//! This program is all of them: started under another name it is the control program, a server or
//! a client. So it has no test harness of the library's; it takes a part of a test's name as that
//! does.

mod harness;
mod hostile;
mod sessions;
mod stand_in;
mod supervision;
mod users;

use std::process::ExitCode;
use std::time::Duration;

/// A test that takes longer has met a deadlock.
const TEST_S_MAX: u64 = 60;

fn main() -> ExitCode {
    if let Some(status) = stand_in::run() {
        return status;
    }
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let tests = [sessions::TESTS, supervision::TESTS, hostile::TESTS, users::TESTS].concat();
    let mut failed = Vec::new();
    for (name, test) in tests {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        let (done, watched) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            let late = std::sync::mpsc::RecvTimeoutError::Timeout;
            if watched.recv_timeout(Duration::from_secs(TEST_S_MAX)) == Err(late) {
                eprintln!("test {name} ... hangs");
                std::process::abort();
            }
        });
        let result = std::panic::catch_unwind(test);
        drop(done);
        watchdog.join().expect("the watchdog only waits");
        println!("test {name} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
        if result.is_err() {
            failed.push(name);
        }
    }
    if failed.is_empty() {
        println!("\ntest result: ok");
        return ExitCode::SUCCESS;
    }
    println!("\ntest result: FAILED: {failed:?}");
    ExitCode::FAILURE
}
