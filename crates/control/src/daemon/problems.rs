//! Problems: what is wrong with the daemon now, for `openmps doctor`; and what was counted since its start.

use super::Daemon;
use crate::report::{Counters, Refusals};
use crate::users;
use channel::message::Restored;
use cuda_api::CudaError;
use locks::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

// A process has one daemon, also one that has taken the place of another.
pub(super) static SERVERS_STARTED: AtomicU64 = AtomicU64::new(0);
pub(super) static SERVERS_LOST: AtomicU64 = AtomicU64::new(0);
pub(super) static CLIENTS_TERMINATED: AtomicU64 = AtomicU64::new(0);
pub(super) static CLIENTS_REFUSED: AtomicU64 = AtomicU64::new(0);
pub(super) static CANDIDATES: AtomicU64 = AtomicU64::new(0);
pub(super) static ISOLATIONS: AtomicU64 = AtomicU64::new(0);
pub(super) static SERVERS_UPGRADED: AtomicU64 = AtomicU64::new(0);
static RECOVERIES: AtomicU64 = AtomicU64::new(0);
static REPEATED_OPERATIONS: AtomicU64 = AtomicU64::new(0);
static REPLAYS_REFUSED: AtomicU64 = AtomicU64::new(0);
/// Refusals, by the error's code.
static REFUSALS: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());

/// One more program that is refused with that error.
pub(super) fn count_refusal(error: CudaError) {
    count(&CLIENTS_REFUSED);
    *REFUSALS.lock().entry(error.code()).or_default() += 1;
}

/// Programs that were refused since the daemon's start, by the error's name.
pub(crate) fn refusals() -> Vec<Refusals> {
    let refusals = REFUSALS.lock();
    let name = |code: u32| {
        CudaError::from_code(code).map_or_else(|| code.to_string(), |error| error.to_string())
    };
    refusals.iter().map(|(code, count)| Refusals { error: name(*code), count: *count }).collect()
}

/// One more of them.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A client has gone on at another server.
pub(super) fn count_recovery(restored: Restored) {
    count(&RECOVERIES);
    REPEATED_OPERATIONS.fetch_add(restored.operations.into(), Ordering::Relaxed);
    if restored.is_lost {
        count(&REPLAYS_REFUSED);
    }
}

/// What the kernel puts behind the path of a program that is gone.
const DELETED: &str = " (deleted)";

/// What became of a running program's file, by what its link in /proc leads to; nothing if it is there still.
fn of_program(link: &Path) -> Option<String> {
    let path = link.to_str()?.strip_suffix(DELETED)?;
    Some(match Path::new(path).exists() {
        true => format!(
            "its program {path} has been replaced since it started: `openmps upgrade` goes over to the new one"
        ),
        false => format!(
            "its program {path} is gone: put it back, or start a daemon of another installation"
        ),
    })
}

impl Daemon {
    /// True if a program gets SMs by a static partition only.
    pub(crate) fn gives_partitions_only(&self) -> bool {
        self.options.static_partitioning
    }

    /// What keeps programs from sharing, a sentence each, as far as it is about users whom `sees` is true for.
    pub(crate) fn problems(&self, sees: impl Fn(u32) -> bool) -> Vec<String> {
        let link = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let mut problems: Vec<String> = of_program(&link).into_iter().collect();
        let successor: Option<PathBuf> = self.program.lock().clone();
        if let Some(path) = successor.filter(|path| !path.exists()) {
            problems.push(format!("its servers' program {} is gone", path.display()));
        }
        let state = self.lock();
        for (server_key, failures) in
            state.servers.failures_without_server().filter(|(server_key, _)| sees(server_key.uid))
        {
            let (user, count) = (users::name(server_key.uid), failures.count);
            let times = if count == 1 { "once" } else { "again and again" };
            problems.push(format!(
                "servers of user {user} do not stay ({times}, {count} failures): {}",
                failures.reason
            ));
        }
        problems
    }

    /// What has happened since the daemon's start.
    pub(crate) fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            faults: self.lock().faults.count(),
            servers_started: read(&SERVERS_STARTED),
            servers_lost: read(&SERVERS_LOST),
            clients_terminated: read(&CLIENTS_TERMINATED),
            clients_refused: read(&CLIENTS_REFUSED),
            candidates: read(&CANDIDATES),
            isolations: read(&ISOLATIONS),
            servers_upgraded: read(&SERVERS_UPGRADED),
            recoveries: read(&RECOVERIES),
            repeated_operations: read(&REPEATED_OPERATIONS),
            replays_refused: read(&REPLAYS_REFUSED),
            log_lines_lost: self.logs.control.lines_lost_ever()
                + self.logs.server.lines_lost_ever(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_gone_or_replaced_is_distinguished() {
        let name = format!("openmps-problems-{}", std::process::id());
        let program = std::env::temp_dir().join(name);
        let deleted = PathBuf::from(format!("{}{DELETED}", program.display()));
        assert_eq!(of_program(&program), None);
        assert!(of_program(&deleted).is_some_and(|text| text.contains("is gone")));
        std::fs::write(&program, "").expect("a file");
        assert!(of_program(&deleted).is_some_and(|text| text.contains("openmps upgrade")));
        std::fs::remove_file(&program).expect("it is there");
    }
}
