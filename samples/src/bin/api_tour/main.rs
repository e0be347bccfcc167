//! A tour of the driver API: calls one function after the other, and checks what CUDA's manual says
//! that it does.
//!
//! It asserts what is documented and holds on real hardware, no more; `--strict` adds what the
//! manual leaves open and a careful driver still does (columns in the compiler's log, handles that
//! were destroyed). Nothing here faults on the device: that ends a context, and the sample `fault`
//! does it.
//!
//! Each check prints one line, `ok NAME` or `FAIL NAME: why`; the status is 0 if none failed. A
//! check that does not come back fails the tour by a watchdog.

mod arrays;
mod boxes;
mod captures;
mod context;
mod cooperative;
mod copies;
mod device;
mod events;
mod graph_memory;
mod graphs;
mod ipc;
mod launches;
mod managed;
mod memory;
mod modules;
mod order;
mod pointers;
mod pools;
mod register;
mod stream_values;
mod streams;
mod support;
mod textures;
mod virtual_memory;

use std::{
    panic,
    process::{self, ExitCode},
    sync::mpsc,
    thread,
    time::Duration,
};

use clap::Parser;
use samples::{gpu::require_driver, report::say};
use support::{Env, Outcome, Stop, call};

/// Exercises the CUDA driver API and checks what it does.
#[derive(Parser)]
#[command(name = "api_tour")]
struct CommandLine {
    /// Only checks whose names begin like this; may be given several times
    #[arg(long, value_name = "PREFIX")]
    only: Vec<String>,
    /// Also what the manual leaves open and a careful driver does
    #[arg(long)]
    strict: bool,
    /// Give up on a check after so many seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    limit_s: u64,
    /// End with one line of JSON
    #[arg(long)]
    json: bool,
}

/// One check: its name and what to do.
pub(crate) type Check<T> = (&'static str, fn(&T) -> Outcome);

/// Runs checks and counts how they end.
struct Tour {
    only: Vec<String>,
    limit: Duration,
    passed: u32,
    failed: u32,
    skipped: u32,
}

impl Tour {
    fn run<T>(&mut self, checks: &[Check<T>], environment: &T) {
        for &(name, check) in checks {
            let wanted = self.only.iter().any(|prefix| name.starts_with(prefix.as_str()));
            if !wanted && !self.only.is_empty() {
                continue;
            }
            let watched = watch(name, self.limit);
            // cudarc panics when the library lacks a function.
            let attempt = panic::catch_unwind(panic::AssertUnwindSafe(|| check(environment)));
            drop(watched);
            match attempt {
                Ok(Ok(())) => {
                    self.passed += 1;
                    say(format_args!("ok {name}"));
                }
                Ok(Err(Stop::Absent(why))) => {
                    self.skipped += 1;
                    say(format_args!("ok {name} (not checked: {why})"));
                }
                Ok(Err(Stop::Wrong(why))) => {
                    self.failed += 1;
                    say(format_args!("FAIL {name}: {why}"));
                }
                Err(payload) => {
                    self.failed += 1;
                    let text = payload.downcast_ref::<String>().cloned();
                    say(format_args!("FAIL {name}: panic: {}", text.unwrap_or_default()));
                }
            }
        }
    }
}

/// Ends the process if the returned sender still exists after `limit`.
fn watch(name: &'static str, limit: Duration) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        if receiver.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            say(format_args!("FAIL {name}: has not come back after {} s", limit.as_secs()));
            process::exit(1);
        }
    });
    sender
}

fn main() -> ExitCode {
    // The other process of a check starts otherwise than programs do.
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((ipc::CHILD, rest)) = words.split_first().map(|(first, rest)| (&**first, rest)) {
        require_driver();
        return ipc::child(rest);
    }
    let arguments = CommandLine::parse();
    require_driver();
    panic::set_hook(Box::new(|_| {}));
    let mut tour = Tour {
        only: arguments.only,
        limit: Duration::from_secs(arguments.limit_s),
        passed: 0,
        failed: 0,
        skipped: 0,
    };

    tour.run(device::BEFORE_INIT, &());
    if let Err(error) = call!(cuInit(0)) {
        say(format_args!("FAIL cuInit: {error}"));
        return ExitCode::FAILURE;
    }
    tour.run(device::CHECKS, &());
    tour.run(context::BEFORE_CONTEXT, &());
    let env = match Env::new(arguments.strict) {
        Ok(env) => env,
        Err(error) => {
            say(format_args!("FAIL context: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let groups = [
        context::CHECKS,
        memory::CHECKS,
        managed::CHECKS,
        virtual_memory::CHECKS,
        copies::CHECKS,
        boxes::CHECKS,
        arrays::CHECKS,
        textures::CHECKS,
        pools::CHECKS,
        register::CHECKS,
        pointers::CHECKS,
        modules::CHECKS,
        launches::CHECKS,
        cooperative::CHECKS,
        streams::CHECKS,
        stream_values::CHECKS,
        order::CHECKS,
        events::CHECKS,
        captures::CHECKS,
        graphs::CHECKS,
        graph_memory::CHECKS,
        ipc::CHECKS,
    ];
    for checks in groups {
        tour.run(checks, &env);
    }
    tour.run(context::AT_THE_END, &env);

    if arguments.json {
        let line = serde_json::json!({
            "sample": "api_tour",
            "passed": tour.passed,
            "failed": tour.failed,
            "not_checked": tour.skipped,
            "verified": tour.failed == 0 && tour.passed > 0,
        });
        say(line);
    } else {
        say(format_args!(
            "{} ok, {} failed, {} not checked",
            tour.passed, tour.failed, tour.skipped
        ));
    }
    ExitCode::from(u8::from(tour.failed > 0 || tour.passed == 0))
}
