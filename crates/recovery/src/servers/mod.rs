//! Servers of a daemon: which client gets which, when one is started, asked to end, replaced and killed.
//!
//! What a server is reached by (its process, its socket) is `L` here, and only handed on. What is to
//! be done about it is said to [`Effects`] and [`StartServers`].

mod failures;
mod isolation;
mod lives;
mod recovery_order;
mod server;
mod server_key;
mod succession;
mod windows;

#[cfg(test)]
mod tests;

pub use failures::{Crash, Failures};
pub use recovery_order::DECLARED_MS_MAX;
pub use server::{Found, Isolated, IsolationReason, Phase, Role, Server};
pub use server_key::{ClientProcess, ServerKey};
pub use windows::Windows;

use recovery_order::RecoveryOrder;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a server may take to get ready: drivers on machines of many GPUs take half a minute.
pub const READY_S_MAX: u64 = 120;
/// How long a server that has to end at once may take, before it is killed: it gives its
/// clients' running kernels 5 s.
pub const END_S_MAX: u64 = 8;
/// How long a server may take from its last word to its exit: drivers take seconds to let go of
/// a device.
pub const EXIT_S_MAX: u64 = 60;
/// How long a process stays alone that may have caused a fault, when it has done nothing wrong again.
pub const ISOLATION_MS: u64 = 1500;
/// How long a server that stood by serves before the next one is started beside it: its programs come first.
pub const STANDBY_PAUSE_MS: u64 = 1000;
/// How long a server waits for the one process for which it is there.
const COMES_S_MAX: u64 = 15;
/// How long a process that may have caused a fault and does not come is to get a server of its own: it may have ended, or
/// compute without the device. Those that come sooner have tried for less ([`crate::Attempts`]).
const CANDIDATE_S_MAX: u64 = 180;
/// Clients wait for the end of a pause between two starts of a server if it is not longer.
const PATIENCE_S_MAX: u64 = 10;

/// Does what is decided about servers that there are.
pub trait Effects<L> {
    /// Asks a server to end: with its last client, or now. False if it cannot be reached.
    fn shut_down(&mut self, server: &L, force: bool) -> bool;
    /// Has a server send its clients to another one, and end. False if it cannot be reached.
    fn hand_over(&mut self, server: &L) -> bool;
    /// Has a server send one process to another one, and serve on. False if it cannot be reached.
    fn hand_over_one(&mut self, server: &L, process: u32) -> bool;
    /// Notifies a server whose context is corrupted that it may end. One that does not hear it ends all the same.
    fn leave(&mut self, server: &L);
    /// Kills a server.
    fn kill(&mut self, server: &mut L);
    /// The state is to be looked at once more, soon.
    fn look_again(&mut self);
    /// Writes a line to the log.
    fn log(&mut self, text: String);
}

/// Whom a server is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// The programs of a server key.
    Programs,
    /// One program that may have caused a fault, for a few seconds: what it does not need itself is not worth
    /// waiting for.
    Candidate,
}

/// Starts servers.
pub trait StartServers<L>: Effects<L> {
    /// Starts a process for a server key. Returns its PID and what it is reached by, or why there is none.
    fn start(
        &mut self,
        server_key: ServerKey,
        gid: u32,
        serves: Serves,
    ) -> Result<(u32, L), String>;
    /// True if a server of that server key stays without clients.
    fn stays(&self, _server_key: ServerKey) -> bool {
        false
    }
    /// Behind a user in the log: the name of the server key's server, ` ('name')`, if it has one.
    fn name(&self, _server_key: ServerKey) -> String {
        String::new()
    }
    /// At the end of a line of the log: the device, if there are several.
    fn on_device(&self, _server_key: ServerKey) -> String {
        String::new()
    }
}

/// Why no server is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoServer {
    /// The daemon ends.
    Stopping,
    /// Servers of another user are there, and users take turns.
    OtherUserFirst,
    /// The process may have caused a fault, and those that did not go on first.
    UnaffectedFirst,
    /// It failed several times: a pause.
    BackOff {
        /// How often.
        count: u32,
        /// How the last one ended.
        reason: String,
        /// How long the pause still is, s.
        seconds: u64,
    },
    /// There is no process, for this reason.
    NotStarted(String),
}

impl NoServer {
    /// It will pass, and soon: a client does better to wait than to fail.
    pub fn is_worth_waiting(&self) -> bool {
        match self {
            Self::BackOff { seconds, .. } => *seconds <= PATIENCE_S_MAX,
            Self::OtherUserFirst | Self::UnaffectedFirst => true,
            Self::Stopping | Self::NotStarted(_) => false,
        }
    }
}

/// What the operator wants of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The daemon's own user.
    pub owner: u32,
    /// A server in standby is kept beside each that serves.
    pub standby: bool,
    /// Users take turns.
    pub one_user: bool,
    /// How long a server of another user than the daemon's stays without a client; `None`: for ever.
    pub idle_max: Option<Duration>,
}

/// The daemon is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopping {
    /// When servers are not to wait for their clients any more; `None`: never.
    pub force_at: Option<Instant>,
    /// They are notified of that.
    pub forced: bool,
    /// It is for good: no command can withdraw it.
    pub is_final: bool,
}

/// Where a process that comes is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// At that server, which is ready.
    At(u32),
    /// At one that gets ready.
    Later,
    /// There is none: one must be started.
    Nowhere,
}

/// How the end of a server is to be passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended<L> {
    /// It.
    pub server: Server<L>,
    /// It never got ready: those who wait for one of its server key are to be notified why.
    pub refuse: Option<String>,
}

/// All servers, with what is known of server keys and processes.
#[derive(Debug)]
pub struct Servers<L> {
    /// Oldest first.
    list: Vec<Server<L>>,
    failures: BTreeMap<ServerKey, Failures>,
    /// Processes that may have caused a fault, and since when: each gets a server of its own.
    candidates: BTreeMap<ClientProcess, Instant>,
    /// Processes with kernels that run for long, each of which gets a server of its own, and the server
    /// that it was at.
    isolated: BTreeMap<ClientProcess, u32>,
    /// Where programs that did not cause a fault go on first.
    recovery_order: BTreeMap<ServerKey, RecoveryOrder>,
    /// Set when the daemon ends.
    pub stopping: Option<Stopping>,
    /// What the operator wants.
    pub rules: Rules,
}

impl<L> Default for Servers<L> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            failures: BTreeMap::new(),
            candidates: BTreeMap::new(),
            isolated: BTreeMap::new(),
            recovery_order: BTreeMap::new(),
            stopping: None,
            rules: Rules::default(),
        }
    }
}

impl<L> Servers<L> {
    /// All, oldest first.
    pub fn iter(&self) -> std::slice::Iter<'_, Server<L>> {
        self.list.iter()
    }

    /// All, oldest first.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Server<L>> {
        self.list.iter_mut()
    }

    /// A server that was there before, under another daemon.
    pub fn adopt(&mut self, server: Server<L>) {
        if let Some(process) = server.isolated_for(IsolationReason::LongKernels) {
            // It has come there, from no server.
            self.isolated.insert(process, 0);
        }
        self.list.push(server);
    }

    /// The failures of servers, by their server keys.
    pub fn failures(&self) -> impl Iterator<Item = (&ServerKey, &Failures)> {
        self.failures.iter()
    }

    /// Servers for a server key have failed under the daemon before.
    pub fn has_failed_before(&mut self, server_key: ServerKey, failures: Failures) {
        self.failures.insert(server_key, failures);
    }

    /// Processes that may have caused a fault, and since when.
    pub fn candidates(&self) -> impl Iterator<Item = (&ClientProcess, &Instant)> {
        self.candidates.iter()
    }

    /// A process may have caused a fault, as the daemon before knew.
    pub fn is_candidate_since(&mut self, process: ClientProcess, since: Instant) {
        self.candidates.insert(process, since);
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The server with that PID.
    pub fn get(&mut self, pid: u32) -> Option<&mut Server<L>> {
        self.list.iter_mut().find(|server| server.pid == pid)
    }

    /// The server that takes new clients, ready or not.
    pub fn at(&mut self, server_key: ServerKey) -> Option<&mut Server<L>> {
        self.list.iter_mut().find(|server| {
            server.server_key() == server_key
                && server.takes_clients()
                && matches!(server.role, Role::Serving { .. })
        })
    }

    /// True if a server in standby is to be there, and no server for a program that may have caused a fault gets
    /// ready: a driver makes one context after the other, and that program waits.
    fn wants_standby(&self, server_key: ServerKey) -> bool {
        let is_of_candidate = |server: &Server<L>| {
            server.server_key() == server_key
                && matches!(server.phase, Phase::Starting { .. })
                && server.isolated_for(IsolationReason::Candidate).is_some()
        };
        self.rules.standby && self.stopping.is_none() && !self.list.iter().any(is_of_candidate)
    }

    /// The server in standby.
    fn standby_at(&mut self, server_key: ServerKey) -> Option<&mut Server<L>> {
        let stands_by = |server: &&mut Server<L>| {
            server.server_key() == server_key
                && server.role == Role::Standby
                && server.takes_clients()
        };
        self.list.iter_mut().find(stands_by)
    }

    /// The server for a process: that of its user, but for one that is to be alone.
    pub fn of_process(&mut self, process: ClientProcess) -> Option<&mut Server<L>> {
        if !self.is_alone(process) {
            return self.at(process.server_key());
        }
        self.list.iter_mut().find(|server| server.takes_clients() && server.is_alone_for(process))
    }

    /// Where a process that comes is served.
    pub fn place_of(&mut self, process: ClientProcess) -> Placement {
        match self.of_process(process) {
            Some(server) if server.phase == Phase::Running => Placement::At(server.pid),
            Some(_) => Placement::Later,
            None => Placement::Nowhere,
        }
    }

    /// True if a server still takes clients.
    pub fn serves(&self, pid: u32) -> bool {
        self.list.iter().any(|server| server.pid == pid && server.phase == Phase::Running)
    }

    /// Failures of servers for a server key.
    pub fn failures_at(&self, server_key: ServerKey) -> Option<&Failures> {
        self.failures.get(&server_key)
    }

    /// Failures of servers at server keys where none serves now.
    pub fn failures_without_server(&self) -> impl Iterator<Item = (ServerKey, &Failures)> {
        let serves = |server_key: ServerKey| {
            let mut there = self.list.iter().filter(|server| server.server_key() == server_key);
            there.any(|server| server.phase == Phase::Running)
        };
        let failures = self.failures.iter().map(|(server_key, failures)| (*server_key, failures));
        failures.filter(move |(server_key, _)| !serves(*server_key))
    }

    /// When something is due here, if nothing happens before.
    pub fn next_due(&self) -> Option<Instant> {
        let servers = self.list.iter().flat_map(|server| {
            // One that is being killed may be stuck in the driver.
            let ready = match server.phase {
                Phase::Starting { deadline } if server.kill_at.is_none() => Some(deadline),
                _ => None,
            };
            let alone = server.candidate_end().or_else(|| server.isolation_end());
            let standby =
                server.next_standby_at().filter(|_| self.wants_standby(server.server_key()));
            let ends = [server.kill_at, self.rules.idle_end(server), alone, standby];
            ready.into_iter().chain(ends.into_iter().flatten())
        });
        let stop = self.stopping.iter().filter(|stop| !stop.forced).filter_map(|s| s.force_at);
        servers.chain(stop).chain(self.stuck_due()).chain(self.recovery_order_end()).min()
    }

    /// Does what is due.
    pub fn advance(&mut self, now: Instant, effects: &mut impl StartServers<L>) {
        self.end_idle(now, effects);
        self.end_isolations(now, effects);
        self.forget_candidates(now);
        self.end_recovery_order(now, effects);
        self.replace_all_stuck(now, effects);
        self.keep_standbys(now, effects);
        self.kill_overdue(now, effects);
    }
}

impl Rules {
    /// When a server is to end for want of clients, if nothing happens before: one of another user
    /// than the daemon's, which holds a context on the device for nothing.
    fn idle_end<L>(&self, server: &Server<L>) -> Option<Instant> {
        // What an operator has named stays until the operator takes it away.
        let idle = server.phase == Phase::Running && server.uid != self.owner && !server.stays;
        server.idle_since.filter(|_| idle)?.checked_add(self.idle_max?)
    }
}
