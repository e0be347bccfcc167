//! What the daemon knows: servers, clients that wait, settings. Plain data; the rules for servers are
//! crate `recovery`'s.

use super::endpoints::{Chosen, Endpoints};
use super::inventory::Inventory;
use super::kept::Kept;
use super::membership::{Membership, SnapshotFile};
use super::questions::{LastAnswers, Questions};
pub(super) use super::server_process::ClientEnd;
use super::server_process::ServerProcess;
use crate::accounting::Present;
use crate::configuration::PartitionConfiguration;
use crate::faults::Faults;
use crate::memacct::Memacct;
use crate::named::Named;
use crate::partitions::Partitions;
use crate::settings::{Settings, SettingsRecord};
use crate::status::ServerState;
use channel::message::RequestedLimits;
use channel::socket::SeqPacket as Socket;
use cuda_api::CUuuid;
use recovery::servers::{Phase, Servers, Windows};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// All of it.
#[derive(Default)]
pub(super) struct State {
    pub servers: Servers<Link>,
    pub waiting: Vec<WaitingClient>,
    pub inventory: Inventory,
    pub windows: Windows<ClientEnd>,
    /// What servers to come are given.
    pub defaults: Settings,
    pub partitions: Partitions,
    /// What the operator has made by protocol 3.
    pub named: Named,
    pub endpoints: Endpoints,
    /// Servers that were starting when scheduling or counters of all servers were changed.
    pub outdated: BTreeSet<u32>,
    /// What was changed of programs that run.
    pub kept: Kept,
    pub features: Features,
    pub memacct: Memacct,
    /// Limits of programs that run are to be compared with what holds now.
    pub follow_now: bool,
    /// Clients in namespaces, partitions and cgroups' accounts, as the next daemon is to know them.
    pub memberships: Vec<Membership>,
    /// Those that a daemon before knew at servers that have not come yet, and these servers' settings.
    pub left: (Vec<Membership>, Vec<(u32, SettingsRecord)>),
    pub snapshot: SnapshotFile,
    /// Clients at servers, for the accounting of those whose server is killed.
    pub present: Present,
    /// Partitions of the configuration file, and their servers' names, until the devices are known.
    pub partitions_wanted: Vec<(String, PartitionConfiguration)>,
    /// Those that could not be made, a sentence each.
    pub partitions_refused: Vec<String>,
    /// Until then servers that get ready record what their clients do from the first one on.
    pub recording_until: Option<Instant>,
    /// The last faults of clients.
    pub faults: Faults,
    /// What servers answered that are gone.
    pub last_answers: LastAnswers,
    /// The files are gone and the lock is free.
    pub ended: bool,
    /// How often a shutdown was cancelled.
    pub stops_cancelled: u64,
    /// Until then servers of a daemon that was killed come, and newcomers wait.
    pub found_until: Option<Instant>,
    /// What is to take this daemon's place.
    pub successor: Option<Successor>,
}

impl State {
    pub fn server(&mut self, pid: u32) -> Option<&mut Server> {
        self.servers.get(pid)
    }

    /// Servers that can be told of a change; those that are starting are told when they are ready.
    pub fn tell_all(&mut self) -> Vec<u32> {
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
pub(super) type Server = recovery::servers::Server<Link>;

/// What a server is reached by, and what is open between it and the daemon.
pub(super) struct Link {
    pub socket: Arc<Socket>,
    /// Readable when the process has ended.
    pub exit: Arc<OwnedFd>,
    pub child: ServerProcess,
    pub questions: Questions,
    /// What its clients to come are given.
    pub settings: Settings,
}

/// What a server is called in lists.
pub(super) fn state_of(server: &Server) -> ServerState {
    match server.phase {
        Phase::Starting { .. } => ServerState::Initializing,
        _ if server.fault => ServerState::Fault,
        Phase::Running if server.standby => ServerState::Standby,
        Phase::Running => ServerState::Active,
        Phase::Draining => ServerState::ShuttingDown,
    }
}

/// What of protocol 3 can be switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Features {
    /// Memory accounting: limits of cgroups, eviction.
    pub memacct: bool,
    /// Its decisions go to control.log.
    pub audit_log: bool,
    /// An operator has switched memory accounting.
    pub memacct_is_set: bool,
    /// Each program that comes by the daemon's own socket has a server of its own: none shares a context there.
    pub main_socket_alone: bool,
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
