//! A server process as the daemon knows it.

use super::{COMES_S_MAX, ClientProcess, QUARANTINE_MS, READY_S_MAX, STANDBY_PAUSE_MS, ServerKey};
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
    /// Told to end, or about to: no new clients.
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
    /// It is there to take another one's place, and has no clients.
    pub standby: bool,
    /// It stood by and took another one's place then; until its own standby is due.
    pub took_over: Option<Instant>,
    /// The server whose place it takes when it is ready.
    pub replaces: Option<u32>,
    /// It gets ready and is to be replaced then: it is of a version before.
    pub outdated: bool,
    /// It has work that does not end: another one takes its place as soon as one can be started.
    pub stuck: bool,
    /// The process for which alone it is there.
    pub quarantine: Option<ClientProcess>,
    /// Since when the process in quarantine is there.
    pub quarantined: Option<Instant>,
    /// That process stays alone for its kernels' sake, which run for long.
    pub isolates: bool,
}

impl<L> Server<L> {
    /// When a server in standby is due beside it, if that is not now.
    pub(super) fn next_standby_at(&self) -> Option<Instant> {
        let took_over = self.took_over.filter(|_| self.phase == Phase::Running)?;
        took_over.checked_add(Duration::from_millis(STANDBY_PAUSE_MS))
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
            standby: false,
            took_over: None,
            replaces: None,
            outdated: false,
            stuck: false,
            quarantine: None,
            quarantined: None,
            isolates: false,
        }
    }

    /// Where it serves.
    pub fn server_key(&self) -> ServerKey {
        ServerKey { uid: self.uid, named: self.named, device: self.device }
    }

    /// When the one process for which it is there has been alone for long enough, or has not come for
    /// so long that it will not.
    pub fn quarantine_end(&self) -> Option<Instant> {
        self.quarantine.filter(|_| self.phase == Phase::Running && !self.isolates)?;
        match (self.quarantined, self.idle_since) {
            (Some(since), _) => since.checked_add(Duration::from_millis(QUARANTINE_MS)),
            (None, Some(since)) => since.checked_add(Duration::from_secs(COMES_S_MAX)),
            (None, None) => None,
        }
    }

    /// True if the one process with long kernels for which it is there has come.
    pub fn is_isolation(&self) -> bool {
        self.isolates && self.quarantined.is_some()
    }

    /// True if it takes clients, now or when it is ready.
    pub fn takes_clients(&self) -> bool {
        matches!(self.phase, Phase::Starting { .. } | Phase::Running)
    }

    /// A client was handed to it.
    pub fn take_client(&mut self, now: Instant) {
        self.clients += 1;
        self.idle_since = None;
        if self.quarantine.is_some() {
            self.quarantined = Some(now);
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
