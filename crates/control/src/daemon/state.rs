//! What the daemon knows: servers, clients that wait, settings. Plain data; the rules for servers are
//! crate `recovery`'s.

use super::limits::kept::Kept;
use super::servers::inventory::Inventory;
pub(super) use super::servers::process::ClientEnd;
use super::servers::process::ServerProcess;
use super::servers::questions::{LastAnswers, Questions};
use crate::accounting::Present;
use crate::faults::Faults;
use crate::settings::{Settings, SettingsRecord};
use crate::status::ServerPhase;
use crate::v3::Tenancy;
use crate::v3::endpoints::Chosen;
use channel::message::RequestedLimits;
use channel::socket::SeqPacket as Socket;
use cuda_api::CUuuid;
use recovery::servers::{Phase, Role, Servers, Windows};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// All of it.
#[derive(Default)]
pub(crate) struct State {
    pub servers: Servers<Link>,
    pub(super) waiting: Vec<WaitingClient>,
    pub inventory: Inventory,
    pub(super) windows: Windows<ClientEnd>,
    /// What servers to come are given.
    pub defaults: Settings,
    /// Which server a client belongs to, and what clients may have together.
    pub tenancy: Tenancy,
    /// Servers that were starting when scheduling or counters of all servers were changed.
    pub(super) outdated: BTreeSet<u32>,
    /// What was changed of programs that run.
    pub(super) kept: Kept,
    /// Settings of servers of a daemon before that have not come yet.
    pub(super) left: Vec<(u32, SettingsRecord)>,
    pub(super) snapshot: SnapshotFile,
    /// Clients at servers, for the accounting of those whose server is killed.
    pub(super) present: Present,
    /// Until then servers that get ready record what their clients do from the first one on.
    pub(super) recording_until: Option<Instant>,
    /// The last faults of clients.
    pub(super) faults: Faults,
    /// What servers answered that are gone.
    pub(super) last_answers: LastAnswers,
    /// The files are gone and the lock is free.
    pub ended: bool,
    /// How often a shutdown was cancelled.
    pub(super) stops_cancelled: u64,
    /// Until then servers of a daemon that was killed come, and newcomers wait.
    pub(super) found_until: Option<Instant>,
    /// What is to take this daemon's place.
    pub(super) successor: Option<Successor>,
}

impl State {
    pub fn server(&mut self, pid: u32) -> Option<&mut Server> {
        self.servers.get(pid)
    }

    /// Servers that can be notified of a change; those that are starting are when they are ready.
    pub fn notify_all(&mut self) -> Vec<u32> {
        let pids = |starts: bool| {
            let is_starting = |server: &&Server| matches!(server.phase, Phase::Starting { .. });
            self.servers.iter().filter(move |s| is_starting(s) == starts).map(|server| server.pid)
        };
        self.outdated = pids(true).collect();
        pids(false).collect()
    }

    /// True while servers of a daemon that was killed may still come.
    pub fn newcomers_wait(&self, now: Instant) -> bool {
        self.found_until.is_some_and(|until| now < until)
    }
}

/// A server process, as the rules of recovery have it.
pub(crate) type Server = recovery::servers::Server<Link>;

/// What a server is reached by, and what is open between it and the daemon.
pub(crate) struct Link {
    pub(super) socket: Arc<Socket>,
    /// Readable when the process has ended.
    pub(super) exit: Arc<OwnedFd>,
    pub(super) child: ServerProcess,
    pub(super) questions: Questions,
    /// What its clients to come are given.
    pub settings: Settings,
}

/// What a server is called in lists.
pub(crate) fn state_of(server: &Server) -> ServerPhase {
    match server.phase {
        Phase::Starting { .. } => ServerPhase::Initializing,
        _ if server.fault => ServerPhase::Fault,
        Phase::Running if server.role == Role::Standby => ServerPhase::Standby,
        Phase::Running => ServerPhase::Active,
        Phase::Draining => ServerPhase::ShuttingDown,
    }
}

/// The file in which a daemon leaves its snapshot.
#[derive(Debug, Default)]
pub(super) struct SnapshotFile {
    /// None: nothing was changed yet.
    pub open: Option<File>,
    /// Lines behind the first one.
    pub lines: usize,
    /// That it cannot be written was said.
    pub said: bool,
}

/// A program that is to take the daemon's place.
pub(super) struct Successor {
    /// Its path; `None`: this one.
    pub(super) program: Option<PathBuf>,
    /// Since when it is to.
    pub(super) since: Instant,
}

/// A client that has said hello and whose server is not ready.
pub(super) struct WaitingClient {
    /// The number by which its process is known.
    pub process: u32,
    pub uid: u32,
    pub gid: u32,
    pub command: String,
    pub requested: RequestedLimits,
    /// Where it came in.
    pub chosen: Chosen,
    /// What it asks for of scheduling.
    pub scheduling: String,
    /// The device that it named; all zeros: the first.
    pub device: CUuuid,
    /// By what lines about it are found; 0: none.
    pub request: u32,
    pub socket: Socket,
    pub region: OwnedFd,
    pub deadline: Instant,
}

impl WaitingClient {
    /// What a line about it ends with.
    pub fn mark(&self) -> String {
        match self.request {
            0 => String::new(),
            request => format!(" (request {request:08x})"),
        }
    }

    /// Its PID; 0 if it has none here.
    pub fn pid(&self) -> u32 {
        channel::message::pid_of_process(self.process)
    }
}
