//! Servers in place of others: after a fault or a death at once, as planned beside the old one, from a
//! server in standby; and servers for one process that may have caused a fault.

use super::lifecycle::LaunchError;
use super::state::{Phase, Seat, State};
use super::{Daemon, protocol};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long servers of a new version may take to be ready, and the old ones to hand over.
const UPGRADE_S_MAX: u64 = 180;

/// What came of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upgraded {
    /// Servers whose clients have gone to new ones.
    pub servers: usize,
    /// Servers that still finish work of their clients.
    pub left: usize,
}

impl Daemon {
    /// Starts the next server at a seat, whose clients are about to come, unless there is one.
    pub(super) fn replace(&self, state: &mut State, seat: Seat, gid: u32) {
        if state.server_for(seat).is_none() {
            // If it cannot be, the first client that comes hears why.
            let _ = self.launch(state, seat, gid);
        }
    }

    /// Puts a server in place of another one, which serves on until the new one is ready.
    pub(super) fn begin_replacing(&self, state: &mut State, old: u32) {
        let Some(server) = state.server(old).filter(|server| server.phase == Phase::Running) else {
            return;
        };
        let (seat, gid) = (server.seat(), server.gid);
        let quarantine = server.quarantine.map(|process| process.pid);
        if state.servers.iter().any(|server| server.replaces == Some(old)) {
            return;
        }
        let begun = match quarantine {
            None => self.launch(state, seat, gid),
            Some(_) => self.launch_for(state, seat, gid, quarantine),
        };
        match begun {
            Ok(new) => {
                let ready = state.server(new).is_some_and(|server| {
                    server.replaces = Some(old);
                    server.phase == Phase::Running
                });
                if ready {
                    self.finish_replacing(state, new);
                }
            }
            Err(error) => self.logs.control.control(format!("Server {old} stays: {error}")),
        }
    }

    /// A server is ready: if it takes another one's place, that one's clients come to it; and one in
    /// standby is due beside it.
    pub(super) fn finish_replacing(&self, state: &mut State, new: u32) {
        let old = state.server(new).and_then(|server| server.replaces.take());
        if let Some(server) = old.and_then(|old| state.server(old))
            && server.phase == Phase::Running
        {
            let old = server.pid;
            self.logs.control.control(format!("Server {old} hands its clients to server {new}"));
            server.phase = Phase::Draining;
            if protocol::send_move(&server.socket).is_err() {
                server.kill_at = Some(Instant::now());
            }
        }
        self.keep_standby(state, new);
    }

    /// Starts a server in standby beside one that serves, if that is wanted and there is none.
    fn keep_standby(&self, state: &mut State, serving: u32) {
        let Some(server) = state.server(serving).filter(|_| self.standby) else { return };
        if server.standby || server.quarantine.is_some() || server.phase != Phase::Running {
            return;
        }
        let (seat, gid) = (server.seat(), server.gid);
        if state.standby_for(seat).is_some() {
            return;
        }
        if let Ok(pid) = self.launch_for(state, seat, gid, None) {
            self.logs.control.control(format!("Server {pid} stands by for server {serving}"));
            if let Some(server) = state.server(pid) {
                server.standby = true;
            }
        }
    }

    /// The server in standby at a seat, which serves from now on.
    pub(super) fn take_standby(&self, state: &mut State, seat: Seat) -> Option<u32> {
        let server = state.standby_for(seat)?;
        server.standby = false;
        let pid = server.pid;
        self.logs
            .control
            .control(format!("Server {pid}, which stood by, serves user {}", seat.uid));
        // The event loop starts the next one.
        self.wake();
        Some(pid)
    }

    /// Ends the server in standby at a seat if no other one is left.
    pub(super) fn end_needless_standby(&self, state: &mut State, seat: Seat) {
        if state.server_for(seat).is_none()
            && let Some(server) = state.standby_for(seat)
        {
            self.tell_to_end(server, false);
        }
    }

    /// Starts servers in standby where one is missing.
    pub(super) fn keep_standbys(&self, state: &mut State) {
        if !self.standby || state.stopping.is_some() {
            return;
        }
        let serving: Vec<u32> = state.servers.iter().map(|server| server.pid).collect();
        serving.into_iter().for_each(|pid| self.keep_standby(state, pid));
    }

    /// Puts servers of the program at `program` in place of all, whose programs go on with them.
    ///
    /// # Errors
    /// No server of the new version could be started.
    pub(crate) fn upgrade(&self, program: Option<PathBuf>) -> Result<Upgraded, LaunchError> {
        let mut state = self.lock();
        if program.is_some() {
            *self.program.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = program;
        }
        let standing: Vec<u32> =
            state.servers.iter().filter(|s| s.standby).map(|s| s.pid).collect();
        for pid in standing {
            if let Some(server) = state.server(pid) {
                self.tell_to_end(server, true);
                server.standby = false;
            }
        }
        let serving = state.servers.iter().filter(|server| server.phase == Phase::Running);
        let old: Vec<u32> = serving.map(|server| server.pid).collect();
        for pid in &old {
            self.begin_replacing(&mut state, *pid);
        }
        self.wake();
        let deadline = Instant::now() + Duration::from_secs(UPGRADE_S_MAX);
        let (mut state, _) = self.wait_until(state, Some(deadline), |state| {
            let waits = old.iter().any(|pid| state.server(*pid).is_some());
            (!waits).then_some(())
        });
        let serves = |state: &mut State, pid: u32| {
            state.server(pid).is_some_and(|server| server.phase == Phase::Running)
        };
        if let Some(pid) = old.iter().copied().find(|pid| serves(&mut state, *pid)) {
            let reason =
                format!("server {pid} still serves: no new one was ready; see control.log");
            return Err(LaunchError::Ended(reason));
        }
        let left = old.iter().filter(|pid| state.server(**pid).is_some()).count();
        Ok(Upgraded { servers: old.len(), left })
    }

    /// Lets processes that were alone for a while, because they might have caused a fault, go on among
    /// the others.
    pub(super) fn end_quarantines(&self, state: &mut State, now: Instant) {
        let mut replaced = Vec::new();
        for server in &mut state.servers {
            let Some(process) = server.quarantine else { continue };
            let over = server.quarantine_end().is_some_and(|at| now >= at);
            // Its process has ended, or was told that it caused the fault and goes no further.
            let vacant = server.quarantined.is_some() && server.clients == 0;
            if server.phase != Phase::Running || !(over || vacant) {
                continue;
            }
            state.suspects.remove(&process);
            if vacant {
                self.tell_to_end(server, false);
                continue;
            }
            self.logs.control.control(format!(
                "Process {} has done nothing wrong at server {}: it goes on among the others",
                process.pid, server.pid
            ));
            server.phase = Phase::Draining;
            if protocol::send_move(&server.socket).is_err() {
                server.kill_at = Some(now);
            }
            replaced.push((server.seat(), server.gid));
        }
        for (seat, gid) in replaced {
            self.replace(state, seat, gid);
        }
    }
}
