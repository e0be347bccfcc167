//! Lives of servers: what they say of themselves, ending one in three steps (asked, forced, killed), and
//! what follows from an end.

use super::{
    ClientProcess, Crash, END_S_MAX, EXIT_S_MAX, Effects, Ended, Failures, NoServer, Phase,
    READY_S_MAX, Server, ServerKey, Servers, StartServers, Stopping,
};
use std::fmt;
use std::time::{Duration, Instant};

impl<L> Server<L> {
    /// Asks it to end when its clients are gone; or now, and kills it if it does not.
    pub fn request_end(&mut self, force: bool, now: Instant, effects: &mut impl Effects<L>) {
        effects.log(format!("Try shutting down server {}, backoff is disabled", self.pid));
        let never_ready = matches!(self.phase, Phase::Starting { .. });
        self.phase = Phase::Draining;
        let sent = effects.shut_down(&self.link, force);
        if force || never_ready || !sent {
            self.kill_by(now + Duration::from_secs(END_S_MAX));
        }
    }

    /// Has it send its clients to another one.
    pub(super) fn send_clients_away(&mut self, now: Instant, effects: &mut impl Effects<L>) {
        self.phase = Phase::Draining;
        if !effects.hand_over(&self.link) {
            self.kill_at = Some(now);
        }
    }

    fn kill_by(&mut self, at: Instant) {
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
    }
}

impl<L> Servers<L> {
    /// A server says that it is ready. True if it is the first time.
    pub fn is_ready(&mut self, pid: u32) -> bool {
        let starting = |server: &&mut Server<L>| matches!(server.phase, Phase::Starting { .. });
        self.get(pid).filter(starting).map(|server| server.phase = Phase::Running).is_some()
    }

    /// A server says why it could not start.
    pub fn has_failed(&mut self, pid: u32, reason: String) {
        if let Some(server) = self.get(pid) {
            server.failure = Some(reason);
        }
    }

    /// A server ends by itself: no client shall be sent there any more.
    pub fn is_exiting(&mut self, pid: u32, now: Instant) {
        let Some(server) = self.get(pid) else { return };
        if server.phase == Phase::Running && server.failure.is_none() {
            server.phase = Phase::Draining;
        }
        server.kill_at.get_or_insert(now + Duration::from_secs(EXIT_S_MAX));
    }

    /// A server's context is corrupted: the next one starts while it notifies its clients.
    pub fn has_faulted(&mut self, pid: u32, now: Instant, effects: &mut impl StartServers<L>) {
        let Some(server) = self.get(pid) else { return };
        server.fault = true;
        if server.phase == Phase::Running {
            server.phase = Phase::Draining;
        }
        let (server_key, gid) = (server.server_key(), server.gid);
        self.replace(server_key, gid, now, effects);
        self.order_recovery(pid, now, effects);
    }

    /// A process may have caused the fault of a server: it gets a server of its own.
    pub fn candidate(&mut self, pid: u32, process: u32, now: Instant) {
        let Some(server) = self.get(pid) else { return };
        let ServerKey { uid, named, device } = server.server_key();
        self.candidates.insert(ClientProcess { uid, named, pid: process, device }, now);
        self.is_no_unaffected(pid);
    }

    /// A server has closed its socket: it cannot be reached any more, even if its process runs on.
    pub fn is_mute(&mut self, pid: u32, now: Instant) {
        if let Some(lost) = self.get(pid) {
            lost.mute = true;
            lost.kill_at.get_or_insert(now + Duration::from_secs(END_S_MAX));
        }
    }

    /// A server said what cannot be understood.
    pub fn is_not_understood(&mut self, pid: u32, reason: String, now: Instant) {
        if let Some(server) = self.get(pid) {
            server.failure = Some(reason);
            server.kill_at.get_or_insert(now);
        }
    }

    /// Takes an ended server out of the list and counts how it ended: `ending` says it, and `killed`
    /// that it was by SIGKILL.
    pub fn has_ended(
        &mut self,
        pid: u32,
        (ending, killed): (&str, bool),
        now: Instant,
        effects: &mut impl StartServers<L>,
    ) -> Option<Ended<L>> {
        let index = self.list.iter().position(|server| server.pid == pid)?;
        let server = self.list.remove(index);
        effects.log(format!("Server {pid} {ending}"));
        // One that was not alone yet still has to be, and one that goes on at another server of its own.
        if let Some(process) = server.isolated().filter(|of| of.came.is_some()).map(|of| of.process)
            && !self.list.iter().any(|of| of.is_alone_for(process) && of.takes_clients())
        {
            // Ended so, the server has not shown what the process' work does: it is alone at the next one too.
            let died = server.phase == Phase::Running && !server.fault && server.clients > 0;
            if !died {
                self.candidates.remove(&process);
            }
            self.isolated.remove(&process);
        }
        let server_key = server.server_key();
        let expected = server.phase == Phase::Draining;
        if expected {
            self.failures.remove(&server_key);
            self.end_needless_standby(server_key, now, effects);
            return Some(Ended { server, refuse: None });
        }
        let reason = server.failure.clone().unwrap_or_else(|| format!("server {pid} {ending}"));
        let was_ready = server.phase == Phase::Running;
        if was_ready && server.clients > 0 {
            // They will come.
            self.replace(server_key, server.gid, now, effects);
        }
        self.end_needless_standby(server_key, now, effects);
        let served = was_ready.then(|| now.saturating_duration_since(server.started));
        let served = served.unwrap_or_default();
        self.count_failure(
            server_key,
            Crash { served, killed, reason: reason.clone() },
            now,
            effects,
        );
        Some(Ended { server, refuse: (!was_ready).then_some(reason) })
    }

    /// Counts a failure for a server key.
    pub(super) fn count_failure(
        &mut self,
        server_key: ServerKey,
        crash: Crash,
        now: Instant,
        effects: &mut impl StartServers<L>,
    ) {
        let failures = Failures::after(self.failures.get(&server_key), crash, now);
        let pause_s = (failures.until - now).as_secs();
        if pause_s > 0 {
            effects.log(format!(
                "Servers of user {} failed {} times, no new one for {pause_s} s",
                server_key.uid, failures.count
            ));
        }
        self.failures.insert(server_key, failures);
    }

    /// Before the daemon's end: asks servers to end, and after some time those again that wait for
    /// their clients. True if the daemon is about to end.
    pub fn end_all(&mut self, now: Instant, effects: &mut impl Effects<L>) -> bool {
        let Some(mut stopping) = self.stopping else { return false };
        let force = !stopping.forced && stopping.force_at.is_some_and(|at| now >= at);
        for server in &mut self.list {
            if force || server.phase != Phase::Draining {
                server.request_end(force, now, effects);
            }
        }
        stopping.forced |= force;
        self.stopping = Some(stopping);
        true
    }

    /// Sets out for the daemon's end, which [`Self::cancel_stop`] can withdraw unless it is final. A
    /// second time can only make it come sooner.
    pub fn stop(&mut self, force_at: Option<Instant>, is_final: bool) {
        match &mut self.stopping {
            Some(stopping) => {
                let sooner = [stopping.force_at, force_at].into_iter().flatten().min();
                stopping.force_at = sooner;
                stopping.is_final |= is_final;
            }
            none => *none = Some(Stopping { force_at, forced: false, is_final }),
        }
    }

    /// The daemon stays. Servers that were asked to end do so with their clients; those who come get
    /// others. True if the daemon was about to end and stays.
    pub fn cancel_stop(&mut self) -> bool {
        let cancelled = self.stopping.take_if(|stopping| !stopping.forced && !stopping.is_final);
        cancelled.is_some()
    }

    /// Ends the servers that no client has used for long.
    pub(super) fn end_idle(&mut self, now: Instant, effects: &mut impl Effects<L>) {
        let rules = self.rules;
        for server in &mut self.list {
            if rules.idle_end(server).is_some_and(|at| now >= at) {
                effects.log(format!(
                    "Server {} of user {} has had no client for {} s",
                    server.pid,
                    server.uid,
                    rules.idle_max.unwrap_or_default().as_secs()
                ));
                server.request_end(false, now, effects);
            }
        }
    }

    /// Kills servers whose time is over.
    pub(super) fn kill_overdue(&mut self, now: Instant, effects: &mut impl Effects<L>) {
        for server in &mut self.list {
            if let Phase::Starting { deadline } = server.phase
                && now >= deadline
                && server.kill_at.is_none()
            {
                server.failure = Some(format!("not ready after {READY_S_MAX} s"));
                server.kill_at = Some(now);
            }
            if server.kill_at.is_some_and(|at| now >= at) {
                effects.log(format!("Server {} does not end, killing it", server.pid));
                effects.kill(&mut server.link);
                server.kill_at = Some(now + Duration::from_secs(END_S_MAX));
            }
        }
    }
}

impl std::error::Error for NoServer {}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopping => f.write_str("the daemon is shutting down"),
            Self::OtherUserFirst => f.write_str(
                "another user's programs have the device, and this daemon serves one user at a time",
            ),
            Self::UnaffectedFirst => f.write_str(
                "the process may have caused a fault, and others go on at their next server first",
            ),
            Self::BackOff { count, reason, seconds } => write!(
                f,
                "the server failed {count} times, last: {reason}; it will be tried again in {seconds} s"
            ),
            Self::NotStarted(reason) => write!(f, "the server could not be started: {reason}"),
        }
    }
}
