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

mod devices;
mod harness;
mod hostile;
mod kubernetes;
mod limits;
mod lives;
mod namespaces;
mod observe;
mod reference;
mod release_620;
mod service;
mod sessions;
mod stand_in;
mod supervision;
mod users;
mod v3;

use std::process::ExitCode;
use std::time::Duration;

/// A test that takes longer has met a deadlock.
const TEST_S_MAX: u64 = 300;

/// Variable that, set to anything, makes a test that cannot run here a failure: for machines that
/// are meant to run all of them.
const EVERY_TEST: &str = "OPENMPS_EVERY_TEST";

/// What a test unwinds with that cannot run here; why.
struct Skip(&'static str);

/// Ends a test that cannot run on this machine or as this user: counted and shown, never passed.
fn skip(why: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(Skip(why)))
}

fn main() -> ExitCode {
    if let Some(status) = stand_in::run() {
        return status;
    }
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let tests = [
        devices::TESTS,
        sessions::TESTS,
        supervision::TESTS,
        hostile::TESTS,
        users::TESTS,
        namespaces::TESTS,
        limits::TESTS,
        v3::TESTS,
        lives::TESTS,
        kubernetes::TESTS,
        reference::TESTS,
        release_620::TESTS,
        observe::TESTS,
        service::TESTS,
    ]
    .concat();
    let wanted = |name: &str| {
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), Vec::new());
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
        let result = result.map_err(|payload| payload.downcast::<Skip>());
        let word = match &result {
            Ok(()) => "ok".to_owned(),
            Err(Ok(skip)) => format!("ignored, {}", skip.0),
            Err(Err(_)) => "FAILED".to_owned(),
        };
        println!("test {name} ... {word}");
        match result {
            Ok(()) => passed += 1,
            Err(Ok(_)) => skipped.push(name),
            Err(Err(_)) => failed.push(name),
        }
    }
    if std::env::var_os(EVERY_TEST).is_some() {
        failed.append(&mut skipped);
    }
    let left_out = tests.len() - passed - failed.len() - skipped.len();
    let (word, status) = match failed.is_empty() {
        true => ("ok", ExitCode::SUCCESS),
        false => ("FAILED", ExitCode::FAILURE),
    };
    failed.iter().for_each(|name| println!("    {name}"));
    println!(
        "\ntest result: {word}. {passed} passed; {} failed; {} ignored; 0 measured; \
         {left_out} filtered out",
        failed.len(),
        skipped.len()
    );
    status
}
