//! Succession: servers in place of others: after a fault or a death at once, as planned beside the old
//! one, from a server in standby; and servers for one process that may have caused a fault.

use super::{
    CANDIDATE_S_MAX, ClientProcess, Crash, Found, Isolated, IsolationReason, NoServer, Phase, Role,
    Server, ServerKey, Servers, Serves, StartServers,
};
use std::time::{Duration, Instant};

impl<L> Servers<L> {
    /// Starts a server for a server key that has none. Returns its PID; it is not ready yet.
    ///
    /// # Errors
    /// None is started, for this reason.
    pub fn launch(
        &mut self,
        server_key: ServerKey,
        gid: u32,
        now: Instant,
        effects: &mut impl StartServers<L>,
    ) -> Result<u32, NoServer> {
        match self.take_standby(server_key, now, effects) {
            Some(pid) => Ok(pid),
            None => self.launch_for(server_key, gid, None, now, effects),
        }
    }

    /// Starts the server that a process needs: its user's, or one for it alone.
    ///
    /// # Errors
    /// None is started, for this reason.
    pub fn launch_for_process(
        &mut self,
        process: ClientProcess,
        gid: u32,
        now: Instant,
        effects: &mut impl StartServers<L>,
    ) -> Result<u32, NoServer> {
        let alone = self.is_alone(process).then_some(process);
        if self.candidates.contains_key(&process) && self.comes_later(process.server_key(), now) {
            return Err(NoServer::UnaffectedFirst);
        }
        match alone {
            None => self.launch(process.server_key(), gid, now, effects),
            Some(_) => self.launch_for(process.server_key(), gid, alone, now, effects),
        }
    }

    /// Starts a server for a server key, or for one process there alone.
    pub(super) fn launch_for(
        &mut self,
        server_key: ServerKey,
        gid: u32,
        alone: Option<ClientProcess>,
        now: Instant,
        effects: &mut impl StartServers<L>,
    ) -> Result<u32, NoServer> {
        if self.stopping.is_some() {
            return Err(NoServer::Stopping);
        }
        if self.rules.one_user && self.has_others(server_key.uid, now, effects) {
            return Err(NoServer::OtherUserFirst);
        }
        if let Some(failures) = self.failures.get(&server_key) {
            failures.may_start(now)?;
        }
        let uid = server_key.uid;
        let isolated = alone.map(|process| {
            let reason = match self.isolated.contains_key(&process) {
                true => IsolationReason::LongKernels,
                false => IsolationReason::Candidate,
            };
            Isolated { process, reason, came: None }
        });
        let is_candidate = isolated.is_some_and(|of| of.reason == IsolationReason::Candidate);
        let serves = if is_candidate { Serves::Candidate } else { Serves::Programs };
        match effects.start(server_key, gid, serves) {
            Ok((pid, link)) => {
                let mut server = Server::new(pid, server_key, gid, now, link);
                server.stays = effects.stays(server_key);
                if let Some(isolated) = isolated {
                    server.role = Role::Isolated(isolated);
                }
                // Should its process not come, it has no client from now on.
                server.idle_since = is_candidate.then_some(now);
                let whom = match alone {
                    None => format!("user {uid}{}", effects.name(server_key)),
                    Some(process) => format!("process {} of user {uid} alone", process.pid),
                };
                let on = effects.on_device(server_key);
                effects.log(format!("Starting new server {pid} for {whom}{on}"));
                self.list.push(server);
                effects.look_again();
                Ok(pid)
            }
            Err(reason) => {
                effects.log(format!("No server for user {uid}: {reason}"));
                let crash = Crash { served: Duration::ZERO, killed: false, reason: reason.clone() };
                self.count_failure(server_key, crash, now, effects);
                Err(NoServer::NotStarted(reason))
            }
        }
    }

    /// Whether servers of other users are there. They take no more programs then, and end with those
    /// that they have.
    fn has_others(&mut self, uid: u32, now: Instant, effects: &mut impl StartServers<L>) -> bool {
        let mut any = false;
        for server in self.list.iter_mut().filter(|server| server.uid != uid) {
            any = true;
            if server.phase == Phase::Running {
                server.request_end(false, now, effects);
            }
        }
        any
    }

    /// Starts the next server for a server key, whose clients are about to come, unless there is one.
    pub(super) fn replace(
        &mut self,
        server_key: ServerKey,
        gid: u32,
        now: Instant,
        effects: &mut impl StartServers<L>,
    ) {
        if self.at(server_key).is_none() {
            // If it cannot be, the first client that comes hears why.
            if let Ok(pid) = self.launch(server_key, gid, now, effects) {
                self.expect_clients(pid, now);
            }
        }
    }

    /// Clients are about to come to a server; should they not, it has none from now on.
    fn expect_clients(&mut self, pid: u32, now: Instant) {
        if let Some(server) = self.get(pid) {
            server.idle_since.get_or_insert(now);
        }
    }

    /// Puts a server in place of another one, which serves on until the new one is ready.
    pub fn begin_replacing(&mut self, old: u32, now: Instant, effects: &mut impl StartServers<L>) {
        let Some(server) = self.get(old).filter(|server| server.phase == Phase::Running) else {
            return;
        };
        let (server_key, gid) = (server.server_key(), server.gid);
        let alone = server.isolated().map(|of| of.process);
        if self.list.iter().any(|server| server.replaces == Some(old)) {
            return;
        }
        let begun = match alone {
            None => self.launch(server_key, gid, now, effects),
            Some(_) => self.launch_for(server_key, gid, alone, now, effects),
        };
        match begun {
            Ok(new) => {
                self.expect_clients(new, now);
                let ready = self.get(new).is_some_and(|server| {
                    server.replaces = Some(old);
                    server.phase == Phase::Running
                });
                if ready {
                    self.finish_replacing(new, now, effects);
                }
            }
            Err(error) => {
                let why = error.to_string();
                effects.log(format!("Server {old} stays: {why}"));
            }
        }
    }

    /// A server has work that does not end: another one is put in its place, now or as soon as one can
    /// be started.
    pub fn replace_stuck(&mut self, old: u32, now: Instant, effects: &mut impl StartServers<L>) {
        if let Some(server) = self.get(old) {
            server.stuck = true;
        }
        self.begin_replacing(old, now, effects);
    }

    /// Takes over a server that a daemon before has started. If its server key has another one by now, its
    /// clients go there.
    pub fn take_over(
        &mut self,
        found: Found,
        link: L,
        now: Instant,
        effects: &mut impl StartServers<L>,
    ) {
        let Found { pid, gid, server_key, clients, fault, ends } = found;
        let next = self.at(server_key).map(|server| (server.pid, server.phase));
        let mut server = Server::new(pid, server_key, gid, now, link);
        let serves = !ends && !fault;
        server.phase = if serves { Phase::Running } else { Phase::Draining };
        (server.clients, server.fault) = (clients, fault);
        server.idle_since = (clients == 0).then_some(now);
        server.stays = effects.stays(server_key);
        self.list.push(server);
        match next.filter(|_| serves) {
            None => {}
            Some((next, Phase::Running)) => {
                if let Some(server) = self.get(pid) {
                    effects.log(format!("Server {pid} hands its clients to server {next}"));
                    server.send_clients_away(now, effects);
                }
            }
            // When that is ready.
            Some((next, _)) => {
                if let Some(server) = self.get(next) {
                    server.replaces.get_or_insert(pid);
                }
            }
        }
        effects.look_again();
    }

    /// Servers with work that does not end, in whose place no other one is put yet.
    fn stuck(&self) -> impl Iterator<Item = &Server<L>> {
        let has_next = |of: &Server<L>| self.list.iter().any(|next| next.replaces == Some(of.pid));
        let all = self.list.iter().filter(|of| of.stuck && of.phase == Phase::Running);
        all.filter(move |of| !has_next(of))
    }

    /// When a server may be put in the place of one with work that does not end.
    pub(super) fn stuck_due(&self) -> Option<Instant> {
        self.stuck().filter_map(|of| Some(self.failures.get(&of.server_key())?.until)).min()
    }

    /// Tries again to put servers in the place of those with work that does not end.
    pub(super) fn replace_all_stuck(&mut self, now: Instant, effects: &mut impl StartServers<L>) {
        let may = |of: &&Server<L>| {
            self.failures
                .get(&of.server_key())
                .is_none_or(|failures| failures.may_start(now).is_ok())
        };
        let due: Vec<u32> = match self.stopping {
            None => self.stuck().filter(may).map(|of| of.pid).collect(),
            Some(_) => Vec::new(),
        };
        due.into_iter().for_each(|pid| self.begin_replacing(pid, now, effects));
    }

    /// A server is ready: if it takes another one's place, that one's clients come to it; and one in
    /// standby is due beside it.
    pub fn finish_replacing(&mut self, new: u32, now: Instant, effects: &mut impl StartServers<L>) {
        self.begin_declarations(new, now);
        let old = self.get(new).and_then(|server| server.replaces.take());
        if let Some(server) = old.and_then(|old| self.get(old))
            && server.phase == Phase::Running
        {
            effects.log(format!("Server {} hands its clients to server {new}", server.pid));
            server.send_clients_away(now, effects);
        }
        if self.get(new).is_some_and(|server| std::mem::take(&mut server.outdated)) {
            return self.begin_replacing(new, now, effects);
        }
        self.keep_standby(new, now, effects);
    }

    /// True if another server is to take a server's place, or its clients are about to go there.
    pub fn is_being_replaced(&self, pid: u32) -> bool {
        let by_one = self.list.iter().any(|server| server.replaces == Some(pid));
        let moves = |of: &Server<L>| of.outdated || of.phase == Phase::Draining;
        by_one || self.list.iter().any(|server| server.pid == pid && moves(server))
    }

    /// Starts a server in standby beside one that serves, if that is wanted and there is none.
    fn keep_standby(&mut self, serving: u32, now: Instant, effects: &mut impl StartServers<L>) {
        let Some((server_key, gid)) =
            self.get(serving).map(|server| (server.server_key(), server.gid))
        else {
            return;
        };
        let wanted = self.wants_standby(server_key);
        let Some(server) = self.get(serving).filter(|_| wanted) else { return };
        if !matches!(server.role, Role::Serving { .. }) || server.phase != Phase::Running {
            return;
        }
        // A driver that makes a context holds up the programs that come.
        if server.next_standby_at().is_some_and(|at| now < at) {
            return;
        }
        server.role = Role::Serving { stood_by: None };
        if self.standby_at(server_key).is_some() {
            return;
        }
        if let Ok(pid) = self.launch_for(server_key, gid, None, now, effects) {
            effects.log(format!("Server {pid} stands by for server {serving}"));
            if let Some(server) = self.get(pid) {
                server.role = Role::Standby;
            }
        }
    }

    /// The server in standby for a server key, which serves from now on.
    fn take_standby(
        &mut self,
        server_key: ServerKey,
        now: Instant,
        effects: &mut impl StartServers<L>,
    ) -> Option<u32> {
        let server = self.standby_at(server_key)?;
        server.role = Role::Serving { stood_by: Some(now) };
        let pid = server.pid;
        effects.log(format!("Server {pid}, which stood by, serves user {}", server_key.uid));
        // The next one is started then.
        effects.look_again();
        Some(pid)
    }

    /// Ends the server in standby for a server key if no other one is left.
    pub(super) fn end_needless_standby(
        &mut self,
        server_key: ServerKey,
        now: Instant,
        effects: &mut impl StartServers<L>,
    ) {
        if self.at(server_key).is_none()
            && let Some(server) = self.standby_at(server_key)
        {
            server.request_end(false, now, effects);
        }
    }

    /// Starts servers in standby where one is missing.
    pub(super) fn keep_standbys(&mut self, now: Instant, effects: &mut impl StartServers<L>) {
        if !self.rules.standby || self.stopping.is_some() {
            return;
        }
        let serving: Vec<u32> = self.list.iter().map(|server| server.pid).collect();
        serving.into_iter().for_each(|pid| self.keep_standby(pid, now, effects));
    }

    /// Begins to put servers of another version in place of all, whose programs go on with them.
    /// Returns the old ones.
    pub fn begin_upgrade(&mut self, now: Instant, effects: &mut impl StartServers<L>) -> Vec<u32> {
        for server in self.list.iter_mut().filter(|of| of.role == Role::Standby) {
            server.request_end(true, now, effects);
            server.role = Role::Serving { stood_by: None };
        }
        let old: Vec<u32> =
            self.list.iter().filter(|of| of.takes_clients()).map(|of| of.pid).collect();
        for pid in &old {
            match self.get(*pid) {
                Some(server) if server.phase != Phase::Running => server.outdated = true,
                _ => self.begin_replacing(*pid, now, effects),
            }
        }
        effects.look_again();
        old
    }

    /// Forgets processes that may have caused a fault and did not come.
    pub(super) fn forget_candidates(&mut self, now: Instant) {
        let list = &self.list;
        self.candidates.retain(|process, since| {
            let is_served = list.iter().any(|server| server.is_alone_for(*process));
            let age = now.saturating_duration_since(*since);
            is_served || age < Duration::from_secs(CANDIDATE_S_MAX)
        });
    }

    /// Lets processes that were alone for a while, because they might have caused a fault, go on among
    /// the others; ends servers whose one process is gone.
    pub(super) fn end_isolations(&mut self, now: Instant, effects: &mut impl StartServers<L>) {
        let mut replaced = Vec::new();
        for server in &mut self.list {
            let Some(&Isolated { process, came, .. }) = server.isolated() else { continue };
            let over = server.candidate_end().is_some_and(|at| now >= at);
            let came = came.is_some();
            // Its process has ended, is known to have caused the fault and goes no further, or did not come.
            let vacant = server.clients == 0 && (came || over)
                || server.isolation_end().is_some_and(|at| now >= at);
            if server.phase != Phase::Running || !(over || vacant) {
                continue;
            }
            if came {
                self.candidates.remove(&process);
            }
            self.isolated.remove(&process);
            if vacant {
                server.request_end(false, now, effects);
                continue;
            }
            effects.log(format!(
                "Process {} has done nothing wrong at server {}: it goes on among the others",
                process.pid, server.pid
            ));
            server.send_clients_away(now, effects);
            replaced.push((server.server_key(), server.gid));
        }
        for (server_key, gid) in replaced {
            self.replace(server_key, gid, now, effects);
        }
    }
}
