//! Runs one part: a process with a daemon of its own, on its share of the cores.

use crate::ledger::{Outcome, Part};
use crate::series::Unit;
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tests::{Signal, dist, try_signal};

/// A part is ended if it still runs so long after the run's time is up.
const GRACE: Duration = Duration::from_secs(30);

/// Runs a part until `end` at the latest; its output goes to a file beside `output`, which stays if
/// something was found.
pub fn run(part: &Part, end: Option<Instant>, output: &Path) -> Outcome {
    let name: String =
        part.series.name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    let stdout = output.join(format!("{name}-{}.out", part.seed));
    let stderr = output.join(format!("{name}-{}.err", part.seed));
    let create =
        |path: &Path| File::create(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let own = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(own.with_file_name(part.series.runner));
    command
        .args(part.series.arguments)
        .args(["--json", "--seed", &part.seed.to_string()])
        .env("OPENMPS_DIST", dist())
        .stdin(Stdio::null())
        .stdout(create(&stdout))
        .stderr(create(&stderr));
    let left = end.map(|end| end.saturating_duration_since(Instant::now()).as_secs_f64() / 60.0);
    match part.series.unit {
        Unit::Minutes => drop(command.args(["--minutes", &part.amount.to_string()])),
        Unit::Rounds => {
            command.args(["--rounds", &part.amount.to_string()]);
            if let Some(minutes) = left {
                command.args(["--minutes", &minutes.to_string()]);
            }
        }
    }
    let Some(status) = wait(&mut command, end.map(|end| end + GRACE)) else {
        return Outcome::CutShort;
    };
    let said = std::fs::read_to_string(&stdout).unwrap_or_default();
    let report: serde_json::Value =
        serde_json::from_str(said.lines().last().unwrap_or_default()).unwrap_or_default();
    let done = match part.series.unit {
        Unit::Rounds => report["rounds"].as_f64(),
        Unit::Minutes => report["seconds"].as_f64().map(|seconds| seconds / 60.0),
    };
    match done.filter(|_| status.success()) {
        Some(done) => {
            let _ = (std::fs::remove_file(stdout), std::fs::remove_file(stderr));
            Outcome::Well(done)
        }
        None => {
            let words = std::fs::read_to_string(&stderr).unwrap_or_default();
            let failed = words.lines().rfind(|line| line.contains("FAILED"));
            let signal =
                status.signal().map_or(String::new(), |signal| format!(" (signal {signal})"));
            let words = failed.unwrap_or("it ended without a report").to_owned();
            Outcome::Finding(format!("{words}{signal}: {}", stderr.display()))
        }
    }
}

/// Processes that [`wait`] started and waits for. Who takes this before it starts one or waits for one
/// knows which children are adopted.
static STARTED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Starts a program and waits for its end; `None` if that did not come until `end`: it has been killed
/// then, with its descendants.
fn wait(command: &mut Command, end: Option<Instant>) -> Option<ExitStatus> {
    let started = || STARTED.lock().expect("no holder panics");
    let mut child = {
        let mut started = started();
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        started.insert(child.id());
        child
    };
    loop {
        let mut of_all = started();
        let status = child.try_wait().expect("it is our child");
        if status.is_some() {
            of_all.remove(&child.id());
            return status;
        }
        if end.is_some_and(|end| Instant::now() > end) {
            end_with_descendants(child.id());
            let _ = child.wait();
            of_all.remove(&child.id());
            return None;
        }
        drop(of_all);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for adopted processes that have ended: a test that looks whether they are there shall see
/// that they are not.
pub fn wait_for_ended_orphans() {
    let started = STARTED.lock().expect("no holder panics");
    for pid in children(std::process::id()).into_iter().filter(|pid| !started.contains(pid)) {
        let _ = waitpid(Pid::from_raw(pid.cast_signed()), WaitOptions::NOHANG);
    }
}

/// kill -9 of a process and of all that descends from it.
fn end_with_descendants(pid: u32) {
    // Stopped first, so that it starts no more. One that has just ended is no harm.
    try_signal(pid, Signal::STOP);
    for child in children(pid) {
        end_with_descendants(child);
    }
    try_signal(pid, Signal::KILL);
}

/// kill -9 of processes whose parents have ended; what they were. This process is their parent once it
/// said so by [`adopt_orphans`].
pub fn end_orphans() -> Vec<String> {
    let mut names = Vec::new();
    for pid in children(std::process::id()) {
        let name = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // What has ended already has no command line.
        if !name.is_empty() {
            names.push(name.replace('\0', " ").trim_end().to_owned());
        }
        end_with_descendants(pid);
        let _ = waitpid(Pid::from_raw(pid.cast_signed()), WaitOptions::empty());
    }
    names
}

/// Processes whose parents end become children of this one.
pub fn adopt_orphans() {
    let _ = set_child_subreaper(Some(getpid()));
}

/// Processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may have spaces: state, then parent.
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        after.split_whitespace().nth(1) == Some(&parent.to_string())
    };
    numbers.filter(is_child).collect()
}

/// Lets the calling thread, and what it starts, use only share `index` of `shares` of this process's
/// cores. More shares than cores use cores in turn.
pub fn keep_to_share(index: usize, shares: usize) {
    let Ok(all) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect();
    let mut own = CpuSet::new();
    for (at, core) in cores.iter().enumerate() {
        if at % shares == index || (shares > cores.len() && at == index % cores.len()) {
            own.set(*core);
        }
    }
    let _ = sched_setaffinity(None, &own);
}
