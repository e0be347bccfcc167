//! A server process as the daemon knows it.

use super::{COMES_S_MAX, ClientProcess, ISOLATION_MS, READY_S_MAX, STANDBY_PAUSE_MS, ServerKey};
use cuda_api::CUuuid;
use std::time::{Duration, Instant};

/// How far a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It gets ready.
    Starting {
        /// By then it must be.
        deadline: Instant,
    },
    /// It takes clients.
    Running,
    /// Asked to end, or about to be: no new clients.
    Draining,
}

/// A server that was there before its daemon, as it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its PID.
    pub pid: u32,
    /// Its group.
    pub gid: u32,
    /// Where it serves.
    pub server_key: ServerKey,
    /// How many clients it has.
    pub clients: usize,
    /// Its context is corrupted.
    pub fault: bool,
    /// It ends, and takes no more clients.
    pub ends: bool,
}

/// Why a process has a server of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationReason {
    /// It may have caused a fault: it is alone for a while.
    Candidate,
    /// Its kernels run for long: it stays alone until it ends.
    LongKernels,
}

/// The one process that a server is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolated {
    /// It.
    pub process: ClientProcess,
    /// Why it is alone.
    pub reason: IsolationReason,
    /// Since when it is there; `None`: it is expected.
    pub came: Option<Instant>,
}

/// Whom a server is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The programs of its server key.
    Serving {
        /// It stood by and took another one's place then; until its own standby is due.
        stood_by: Option<Instant>,
    },
    /// No program yet: it is there to take another one's place.
    Standby,
    /// One process.
    Isolated(Isolated),
}

/// A server process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server<L> {
    /// Its PID.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The device that it serves.
    pub device: CUuuid,
    /// Number of the named server whose process it is; 0: the user's own.
    pub named: u32,
    /// It stays without clients.
    pub stays: bool,
    /// What it is reached by.
    pub link: L,
    /// It closed its socket, so there is nothing to hear.
    pub mute: bool,
    /// How far it is.
    pub phase: Phase,
    /// Since when it is there.
    pub started: Instant,
    /// Why it could not start, in its own words.
    pub failure: Option<String>,
    /// After this it is killed.
    pub kill_at: Option<Instant>,
    /// Clients that it was handed and that are not gone.
    pub clients: usize,
    /// Since when it has none, if it had one.
    pub idle_since: Option<Instant>,
    /// Its context is corrupted.
    pub fault: bool,
    /// Whom it is there for.
    pub role: Role,
    /// The server whose place it takes when it is ready.
    pub replaces: Option<u32>,
    /// It gets ready and is to be replaced then: it is of a version before.
    pub outdated: bool,
    /// It has work that does not end: another one takes its place as soon as one can be started.
    pub stuck: bool,
}

impl<L> Server<L> {
    /// When a server in standby is due beside it, if that is not now.
    pub(super) fn next_standby_at(&self) -> Option<Instant> {
        let Role::Serving { stood_by: Some(until) } = self.role else { return None };
        let is_due = self.phase == Phase::Running;
        is_due.then(|| until.checked_add(Duration::from_millis(STANDBY_PAUSE_MS)))?
    }

    /// One that was just started.
    pub(super) fn new(pid: u32, server_key: ServerKey, gid: u32, now: Instant, link: L) -> Self {
        let ServerKey { uid, named, device } = server_key;
        Self {
            pid,
            uid,
            gid,
            device,
            named,
            stays: false,
            link,
            mute: false,
            phase: Phase::Starting { deadline: now + Duration::from_secs(READY_S_MAX) },
            started: now,
            failure: None,
            kill_at: None,
            clients: 0,
            idle_since: None,
            fault: false,
            role: Role::Serving { stood_by: None },
            replaces: None,
            outdated: false,
            stuck: false,
        }
    }

    /// Where it serves.
    pub fn server_key(&self) -> ServerKey {
        ServerKey { uid: self.uid, named: self.named, device: self.device }
    }

    /// When the one process for which it is there has been alone for long enough, or has not come for
    /// so long that it will not.
    pub fn candidate_end(&self) -> Option<Instant> {
        let is_candidate = |of: &&Isolated| of.reason == IsolationReason::Candidate;
        let of = self.isolated().filter(is_candidate).filter(|_| self.phase == Phase::Running)?;
        match (of.came, self.idle_since) {
            (Some(since), _) => since.checked_add(Duration::from_millis(ISOLATION_MS)),
            (None, Some(since)) => since.checked_add(Duration::from_secs(COMES_S_MAX)),
            (None, None) => None,
        }
    }

    /// True if the one process with long kernels for which it is there has come.
    pub fn is_isolation(&self) -> bool {
        let is_it = |of: &Isolated| of.reason == IsolationReason::LongKernels && of.came.is_some();
        self.isolated().is_some_and(is_it)
    }

    /// The one process that it is there for, if it is there for one.
    pub fn isolated(&self) -> Option<&Isolated> {
        match &self.role {
            Role::Isolated(of) => Some(of),
            Role::Serving { .. } | Role::Standby => None,
        }
    }

    /// The process for which alone it is there, for that reason.
    pub fn isolated_for(&self, reason: IsolationReason) -> Option<ClientProcess> {
        self.isolated().filter(|of| of.reason == reason).map(|of| of.process)
    }

    /// True if it is there for that process alone.
    pub fn is_alone_for(&self, process: ClientProcess) -> bool {
        self.isolated().is_some_and(|of| of.process == process)
    }

    /// True if it takes clients, now or when it is ready.
    pub fn takes_clients(&self) -> bool {
        matches!(self.phase, Phase::Starting { .. } | Phase::Running)
    }

    /// A client was handed to it.
    pub fn take_client(&mut self, now: Instant) {
        self.clients += 1;
        self.idle_since = None;
        if let Role::Isolated(of) = &mut self.role {
            of.came = Some(now);
        }
    }

    /// A client of it is gone.
    pub fn lose_client(&mut self, now: Instant) {
        self.clients = self.clients.saturating_sub(1);
        if self.clients == 0 {
            self.idle_since = Some(now);
        }
    }
}
