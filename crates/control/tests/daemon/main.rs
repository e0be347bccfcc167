//! The daemon and its shell as processes, with a server that only pretends.
//!
//! This program is all of them: started under another name it is the control program, a server or
//! a client. So it has no test harness of the library's; it takes a part of a test's name as that
//! does.

/// A module's tests, by the names that the library's harness would give them.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub const TESTS: &[(&str, fn())] =
            &[$((concat!(module_path!(), "::", stringify!($name)), $name)),*];
    };
}
pub(crate) use tests;

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
    let wanted = |name: &str| {
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, test) in tests.iter().copied().filter(|(name, _)| wanted(name)) {
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
        match result {
            Ok(()) => passed += 1,
            Err(_) => failed.push(name),
        }
    }
    let left_out = tests.len() - passed - failed.len();
    let (word, status) = match failed.is_empty() {
        true => ("ok", ExitCode::SUCCESS),
        false => ("FAILED", ExitCode::FAILURE),
    };
    failed.iter().for_each(|name| println!("    {name}"));
    println!(
        "\ntest result: {word}. {passed} passed; {} failed; 0 ignored; 0 measured; \
         {left_out} filtered out",
        failed.len()
    );
    status
}
