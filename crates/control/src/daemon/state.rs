//! What the daemon knows: servers, clients that wait, failures, the way to its end. Plain data
//! with its rules; nothing here waits or does input and output, but for what ends a process.

use super::devices::Inventory;
use super::endpoints::Endpoints;
use super::lifecycle::LaunchError;
use super::named::Features;
use super::protocol::Socket;
use super::questions::{LastAnswers, Questions};
use super::windows::Windows;
use crate::configuration::PartitionConfiguration;
use crate::memacct::Memacct;
use crate::named::Named;
use crate::partitions::Partitions;
use crate::settings::Settings;
use crate::status::ServerState;
use channel::message::Wishes;
use cuda_api::CUuuid;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clients that wait for a server at one time. Each holds two descriptors.
pub(super) const WAITING_MAX: usize = 1024;
/// How long a server may take to get ready: drivers on machines of many GPUs take half a minute.
pub(super) const READY_S_MAX: u64 = 120;
/// How long a server that was told to end at once may take, before it is killed: it gives its
/// clients' running kernels 5 s.
pub(super) const END_S_MAX: u64 = 8;
/// How long a server may take from its last word to its exit: drivers take seconds to let go of
/// a device.
pub(super) const EXIT_S_MAX: u64 = 60;
/// A server that served so long before it crashed is not one that cannot run.
const STABLE_S: u64 = 60;
/// A server that served so long was no failure: another one is started at once when it dies.
const SERVED_MS: u64 = 250;
/// How long a process stays alone that may have caused a fault, when it has done nothing wrong again.
pub(super) const QUARANTINE_MS: u64 = 1500;
/// Longest time between two starts of a server that fails.
const BACK_OFF_S_MAX: u64 = 60;
/// The same where the last one was ready: its programs wait for the next one.
const BACK_OFF_SERVED_S_MAX: u64 = 1;
/// Failures without a pause: one crash is no reason to make anybody wait.
const FAILURES_FREE: u32 = 2;

#[derive(Default)]
pub(super) struct State {
    /// Oldest first.
    pub servers: Vec<Server>,
    pub waiting: Vec<WaitingClient>,
    pub failures: BTreeMap<Seat, Failures>,
    pub inventory: Inventory,
    pub windows: Windows,
    /// Processes that may have caused a fault: each gets a server of its own.
    pub suspects: BTreeSet<ClientProcess>,
    pub stopping: Option<Stopping>,
    /// What servers to come are given.
    pub defaults: Settings,
    pub partitions: Partitions,
    /// What the operator has made by protocol 3.
    pub named: Named,
    pub endpoints: Endpoints,
    pub features: Features,
    pub memacct: Memacct,
    /// Partitions of the configuration file, and their servers' names, until the devices are known.
    pub partitions_wanted: Vec<(String, PartitionConfiguration)>,
    /// Until then servers that get ready record what their clients do from the first one on.
    pub recording_until: Option<Instant>,
    /// What servers answered that are gone.
    pub last_answers: LastAnswers,
    /// The files are gone and the lock is free.
    pub ended: bool,
}

impl State {
    pub fn server(&mut self, pid: u32) -> Option<&mut Server> {
        self.servers.iter_mut().find(|server| server.pid == pid)
    }

    /// The server that takes new clients, ready or not.
    pub fn server_for(&mut self, seat: Seat) -> Option<&mut Server> {
        self.servers.iter_mut().find(|server| {
            server.seat() == seat
                && server.takes_clients()
                && server.quarantine.is_none()
                && !server.standby
        })
    }

    /// The server in standby.
    pub fn standby_for(&mut self, seat: Seat) -> Option<&mut Server> {
        let stands_by = |server: &&mut Server| {
            server.seat() == seat && server.standby && server.takes_clients()
        };
        self.servers.iter_mut().find(stands_by)
    }

    /// The server for a process: that of its user, but for one that may have caused a fault.
    pub fn server_for_process(&mut self, process: ClientProcess) -> Option<&mut Server> {
        if !self.suspects.contains(&process) {
            return self.server_for(process.seat());
        }
        self.servers
            .iter_mut()
            .find(|server| server.takes_clients() && server.quarantine == Some(process))
    }

    /// True if a server still takes clients.
    pub fn serves(&self, pid: u32) -> bool {
        self.servers.iter().any(|server| server.pid == pid && server.phase == Phase::Running)
    }
}

/// Where a server serves: whom, and on which device. At most one takes new clients at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seat {
    /// The user that its servers run as.
    pub uid: u32,
    /// Number of the named server whose process it is; 0: the user's own.
    pub named: u32,
    pub device: CUuuid,
}

/// A process as a client on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientProcess {
    pub uid: u32,
    /// Number of the named server that it chose; 0: the user's own.
    pub named: u32,
    pub pid: u32,
    pub device: CUuuid,
}

impl ClientProcess {
    /// Where its server serves.
    pub fn seat(self) -> Seat {
        Seat { uid: self.uid, named: self.named, device: self.device }
    }
}

/// A server process.
pub(super) struct Server {
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    /// The device that it serves.
    pub device: CUuuid,
    /// Number of the named server whose process it is; 0: the user's own.
    pub named: u32,
    /// It stays without clients.
    pub stays: bool,
    pub socket: Arc<Socket>,
    /// It closed its socket, so there is nothing to hear.
    pub mute: bool,
    /// Readable when the process has ended.
    pub exit: Arc<OwnedFd>,
    pub child: Child,
    pub phase: Phase,
    pub started: Instant,
    /// Why it could not start, in its own words.
    pub failure: Option<String>,
    /// After this it is killed.
    pub kill_at: Option<Instant>,
    pub questions: Questions,
    /// What its clients to come are given.
    pub settings: Settings,
    /// Clients that it was handed and that are not gone.
    pub clients: usize,
    /// Since when it has none, if it had one.
    pub idle_since: Option<Instant>,
    /// Its context is spoiled.
    pub fault: bool,
    /// It is there to take another one's place, and serves nobody.
    pub standby: bool,
    /// The server whose place it takes when it is ready.
    pub replaces: Option<u32>,
    /// The process for which alone it is there.
    pub quarantine: Option<ClientProcess>,
    /// Since when the process in quarantine is there.
    pub quarantined: Option<Instant>,
}

impl Server {
    /// Where it serves.
    pub fn seat(&self) -> Seat {
        Seat { uid: self.uid, named: self.named, device: self.device }
    }

    /// When the one process for which it is there has been alone for long enough.
    pub fn quarantine_end(&self) -> Option<Instant> {
        let since = self.quarantined.filter(|_| self.phase == Phase::Running)?;
        since.checked_add(Duration::from_millis(QUARANTINE_MS))
    }

    /// True if it takes clients, now or when it is ready.
    pub fn takes_clients(&self) -> bool {
        matches!(self.phase, Phase::Starting { .. } | Phase::Running)
    }

    pub fn state(&self) -> ServerState {
        match self.phase {
            Phase::Starting { .. } => ServerState::Initializing,
            _ if self.fault => ServerState::Fault,
            Phase::Running if self.standby => ServerState::Standby,
            Phase::Running => ServerState::Active,
            Phase::Draining => ServerState::ShuttingDown,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting {
        deadline: Instant,
    },
    Running,
    /// Told to end, or about to: no new clients.
    Draining,
}

/// The named server and the namespace that a client chose by the socket that it came by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Number of the named server; 0: the user's own, of protocol 2.
    pub named: u32,
    pub namespace: String,
}

/// A client that has said hello and whose server is not ready.
pub(super) struct WaitingClient {
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
    pub command: String,
    pub wishes: Wishes,
    /// Where it came in.
    pub chosen: Chosen,
    /// Settings of its scheduling.
    pub scheduling: String,
    /// The device that it named; all zeros: the first.
    pub device: CUuuid,
    pub socket: Socket,
    pub region: OwnedFd,
    pub deadline: Instant,
}

/// Failures of a user's servers, since one last served for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failures {
    pub count: u32,
    /// No start before.
    pub until: Instant,
    /// How the last one ended.
    pub reason: String,
}

impl Failures {
    /// Counts a failure that happened `now` to a server that had served for `served`; zero: it was never
    /// ready.
    pub fn after(
        previous: Option<&Failures>,
        served: Duration,
        now: Instant,
        reason: String,
    ) -> Failures {
        let stable = served >= Duration::from_secs(STABLE_S);
        if served >= Duration::from_millis(SERVED_MS) && !stable {
            let count = previous.map_or(0, |failures| failures.count);
            return Failures { count, until: now, reason };
        }
        let count = match previous {
            Some(failures) if !stable => failures.count.saturating_add(1),
            _ => 1,
        };
        let doublings = count.saturating_sub(FAILURES_FREE).min(16);
        let longest_s = if served.is_zero() { BACK_OFF_S_MAX } else { BACK_OFF_SERVED_S_MAX };
        let pause_s = ((1u64 << doublings) - 1).min(longest_s);
        Failures { count, until: now + Duration::from_secs(pause_s), reason }
    }

    /// Whether the pause after them is over.
    pub fn may_start(&self, now: Instant) -> Result<(), LaunchError> {
        match self.until.checked_duration_since(now) {
            None => Ok(()),
            Some(left) => Err(LaunchError::BackOff {
                count: self.count,
                reason: self.reason.clone(),
                seconds: left.as_secs() + 1,
            }),
        }
    }
}

/// The way to the end of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopping {
    /// When servers are told not to wait for their clients any more; `None`: never.
    pub force_at: Option<Instant>,
    /// They have been told.
    pub forced: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_cost_more_and_more_time_up_to_a_minute() {
        let now = Instant::now();
        let mut failures: Option<Failures> = None;
        let mut pauses = Vec::new();
        for _ in 0..40 {
            let next = Failures::after(failures.as_ref(), Duration::ZERO, now, String::new());
            pauses.push((next.until - now).as_secs());
            failures = Some(next);
        }
        assert_eq!(pauses[..8], [0, 0, 1, 3, 7, 15, 31, 60]);
        assert_eq!(pauses[39], 60);
        let shortly = Duration::from_millis(1);
        let after_ready = Failures::after(failures.as_ref(), shortly, now, String::new());
        assert_eq!(after_ready.until - now, Duration::from_secs(1), "programs wait for the next");
        let served = Duration::from_secs(STABLE_S);
        let after_long = Failures::after(failures.as_ref(), served, now, String::new());
        assert_eq!((after_long.count, after_long.until), (1, now));
    }
}
