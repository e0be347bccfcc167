//! Isolation: a server for one process alone, beside that of the others: its kernels run for long, or it waits for
//! the context behind stalled work.
//!
//! A call that waits for all work of a context waits for those kernels too, and holds up all clients of
//! the context. The process stays alone until it ends; the device takes turns between servers.

use super::{ClientProcess, Isolated, IsolationReason, Phase, ServerKey, Servers, StartServers};
use std::time::{Duration, Instant};

/// How long the server of a process may be without it: the process finishes what it has in flight first.
const EMPTY_S_MAX: u64 = 180;

impl<L> Servers<L> {
    /// A server asks that a process be alone: the process gets a server of its own, to which it goes when that is
    /// ready.
    pub fn isolate(
        &mut self,
        from: u32,
        process: u32,
        now: Instant,
        effects: &mut impl StartServers<L>,
    ) {
        let Some(server) = self.get(from) else { return };
        if server.phase != Phase::Running || server.isolated().is_some() {
            return;
        }
        let (server_key, gid) = (server.server_key(), server.gid);
        let ServerKey { uid, named, device } = server_key;
        let process = ClientProcess { uid, named, pid: process, device };
        if self.is_alone(process) {
            return;
        }
        effects.log(format!(
            "Process {} of user {uid} gets a server of its own, as server {from} asks: its log says why",
            process.pid
        ));
        self.isolated.insert(process, from);
        if let Err(error) = self.launch_for(server_key, gid, Some(process), now, effects) {
            self.isolated.remove(&process);
            effects.log(format!("Process {} stays at server {from}: {error}", process.pid));
        }
    }

    /// A process that is at no server yet gets one of its own.
    pub fn keep_alone(&mut self, process: ClientProcess) {
        // It comes from no server.
        self.isolated.insert(process, 0);
    }

    /// A server is ready: if it is there for a process with long kernels, that is sent to it. The
    /// process, and the server that it leaves.
    pub fn finish_isolating(
        &mut self,
        new: u32,
        effects: &mut impl StartServers<L>,
    ) -> Option<(ClientProcess, u32)> {
        let process = self.get(new)?.isolated()?.process;
        let from = *self.isolated.get(&process)?;
        let server = self.get(from).filter(|server| server.phase == Phase::Running)?;
        effects.log(format!("Server {from} hands process {} to server {new}", process.pid));
        effects.hand_over_one(&server.link, process.pid).then_some((process, from))
    }

    /// True if a process is to be at a server of its own.
    pub(super) fn is_alone(&self, process: ClientProcess) -> bool {
        self.candidates.contains_key(&process) || self.isolated.contains_key(&process)
    }
}

impl<L> super::Server<L> {
    /// When it is to end for want of the process for which it is there.
    pub(super) fn isolation_end(&self) -> Option<Instant> {
        let is_empty =
            |of: &Isolated| of.reason == IsolationReason::LongKernels && of.came.is_none();
        let waits = self.isolated().is_some_and(is_empty) && self.phase == Phase::Running;
        waits.then(|| self.started.checked_add(Duration::from_secs(EMPTY_S_MAX)))?
    }
}
