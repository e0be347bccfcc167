//! Succession: servers in place of others: after a fault or a death at once, as planned beside the old
//! one, from a server in standby; and servers for one process that may have caused a fault.

use super::{
    CANDIDATE_S_MAX, ClientProcess, Crash, Found, NoServer, Phase, Seat, Server, Servers, Serves,
    Start,
};
use std::time::{Duration, Instant};

impl<L> Servers<L> {
    /// Starts a server at a seat that has none. Returns its PID; it is not ready yet.
    ///
    /// # Errors
    /// None is started, for this reason.
    pub fn launch(
        &mut self,
        seat: Seat,
        gid: u32,
        now: Instant,
        hands: &mut impl Start<L>,
    ) -> Result<u32, NoServer> {
        match self.take_standby(seat, now, hands) {
            Some(pid) => Ok(pid),
            None => self.launch_for(seat, gid, None, now, hands),
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
        hands: &mut impl Start<L>,
    ) -> Result<u32, NoServer> {
        let alone = self.is_alone(process).then_some(process);
        if self.candidates.contains_key(&process) && self.comes_later(process.seat(), now) {
            return Err(NoServer::UnaffectedFirst);
        }
        match alone {
            None => self.launch(process.seat(), gid, now, hands),
            Some(_) => self.launch_for(process.seat(), gid, alone, now, hands),
        }
    }

    /// Starts a server at a seat, or for one process there alone.
    pub(super) fn launch_for(
        &mut self,
        seat: Seat,
        gid: u32,
        quarantine: Option<ClientProcess>,
        now: Instant,
        hands: &mut impl Start<L>,
    ) -> Result<u32, NoServer> {
        if self.stopping.is_some() {
            return Err(NoServer::Stopping);
        }
        if self.rules.one_user && self.has_others(seat.uid, now, hands) {
            return Err(NoServer::OtherUserFirst);
        }
        if let Some(failures) = self.failures.get(&seat) {
            failures.may_start(now)?;
        }
        let uid = seat.uid;
        let isolates = quarantine.is_some_and(|of| self.isolated.contains_key(&of));
        let serves = match quarantine {
            Some(_) if !isolates => Serves::Candidate,
            _ => Serves::Programs,
        };
        match hands.start(seat, gid, serves) {
            Ok((pid, link)) => {
                let mut server = Server::new(pid, seat, gid, now, link);
                server.stays = hands.stays(seat);
                server.quarantine = quarantine;
                server.isolates = isolates;
                // Should its process not come, it has no client from now on.
                server.idle_since = quarantine.filter(|_| !server.isolates).map(|_| now);
                let whom = match quarantine {
                    None => format!("user {uid}{}", hands.name(seat)),
                    Some(process) => format!("process {} of user {uid} alone", process.pid),
                };
                let on = hands.on_device(seat);
                hands.log(format!("Starting new server {pid} for {whom}{on}"));
                self.list.push(server);
                hands.look_again();
                Ok(pid)
            }
            Err(reason) => {
                hands.log(format!("No server for user {uid}: {reason}"));
                let crash = Crash { served: Duration::ZERO, killed: false, reason: reason.clone() };
                self.count_failure(seat, crash, now, hands);
                Err(NoServer::NotStarted(reason))
            }
        }
    }

    /// Whether servers of other users are there. They take no more programs then, and end with those
    /// that they have.
    fn has_others(&mut self, uid: u32, now: Instant, hands: &mut impl Start<L>) -> bool {
        let mut any = false;
        for server in self.list.iter_mut().filter(|server| server.uid != uid) {
            any = true;
            if server.phase == Phase::Running {
                server.tell_to_end(false, now, hands);
            }
        }
        any
    }

    /// Starts the next server at a seat, whose clients are about to come, unless there is one.
    pub(super) fn replace(
        &mut self,
        seat: Seat,
        gid: u32,
        now: Instant,
        hands: &mut impl Start<L>,
    ) {
        if self.at(seat).is_none() {
            // If it cannot be, the first client that comes hears why.
            if let Ok(pid) = self.launch(seat, gid, now, hands) {
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
    pub fn begin_replacing(&mut self, old: u32, now: Instant, hands: &mut impl Start<L>) {
        let Some(server) = self.get(old).filter(|server| server.phase == Phase::Running) else {
            return;
        };
        let (seat, gid, quarantine) = (server.seat(), server.gid, server.quarantine);
        if self.list.iter().any(|server| server.replaces == Some(old)) {
            return;
        }
        let begun = match quarantine {
            None => self.launch(seat, gid, now, hands),
            Some(_) => self.launch_for(seat, gid, quarantine, now, hands),
        };
        match begun {
            Ok(new) => {
                self.expect_clients(new, now);
                let ready = self.get(new).is_some_and(|server| {
                    server.replaces = Some(old);
                    server.phase == Phase::Running
                });
                if ready {
                    self.finish_replacing(new, now, hands);
                }
            }
            Err(error) => {
                let why = error.to_string();
                hands.log(format!("Server {old} stays: {why}"));
            }
        }
    }

    /// A server has work that does not end: another one is put in its place, now or as soon as one can
    /// be started.
    pub fn replace_stuck(&mut self, old: u32, now: Instant, hands: &mut impl Start<L>) {
        if let Some(server) = self.get(old) {
            server.stuck = true;
        }
        self.begin_replacing(old, now, hands);
    }

    /// Takes over a server that a daemon before has started. If its seat has another one by now, its
    /// clients go there.
    pub fn take_over(&mut self, found: Found, link: L, now: Instant, hands: &mut impl Start<L>) {
        let Found { pid, gid, seat, clients, fault, ends } = found;
        let next = self.at(seat).map(|server| (server.pid, server.phase));
        let mut server = Server::new(pid, seat, gid, now, link);
        let serves = !ends && !fault;
        server.phase = if serves { Phase::Running } else { Phase::Draining };
        (server.clients, server.fault) = (clients, fault);
        server.idle_since = (clients == 0).then_some(now);
        server.stays = hands.stays(seat);
        self.list.push(server);
        match next.filter(|_| serves) {
            None => {}
            Some((next, Phase::Running)) => {
                if let Some(server) = self.get(pid) {
                    hands.log(format!("Server {pid} hands its clients to server {next}"));
                    server.send_clients_away(now, hands);
                }
            }
            // When that is ready.
            Some((next, _)) => {
                if let Some(server) = self.get(next) {
                    server.replaces.get_or_insert(pid);
                }
            }
        }
        hands.look_again();
    }

    /// Servers with work that does not end, in whose place no other one is put yet.
    fn stuck(&self) -> impl Iterator<Item = &Server<L>> {
        let has_next = |of: &Server<L>| self.list.iter().any(|next| next.replaces == Some(of.pid));
        let all = self.list.iter().filter(|of| of.stuck && of.phase == Phase::Running);
        all.filter(move |of| !has_next(of))
    }

    /// When a server may be put in the place of one with work that does not end.
    pub(super) fn stuck_due(&self) -> Option<Instant> {
        self.stuck().filter_map(|of| Some(self.failures.get(&of.seat())?.until)).min()
    }

    /// Tries again to put servers in the place of those with work that does not end.
    pub(super) fn replace_all_stuck(&mut self, now: Instant, hands: &mut impl Start<L>) {
        let may = |of: &&Server<L>| {
            self.failures.get(&of.seat()).is_none_or(|failures| failures.may_start(now).is_ok())
        };
        let due: Vec<u32> = match self.stopping {
            None => self.stuck().filter(may).map(|of| of.pid).collect(),
            Some(_) => Vec::new(),
        };
        due.into_iter().for_each(|pid| self.begin_replacing(pid, now, hands));
    }

    /// A server is ready: if it takes another one's place, that one's clients come to it; and one in
    /// standby is due beside it.
    pub fn finish_replacing(&mut self, new: u32, now: Instant, hands: &mut impl Start<L>) {
        self.begin_declarations(new, now);
        let old = self.get(new).and_then(|server| server.replaces.take());
        if let Some(server) = old.and_then(|old| self.get(old))
            && server.phase == Phase::Running
        {
            hands.log(format!("Server {} hands its clients to server {new}", server.pid));
            server.send_clients_away(now, hands);
        }
        if self.get(new).is_some_and(|server| std::mem::take(&mut server.outdated)) {
            return self.begin_replacing(new, now, hands);
        }
        self.keep_standby(new, now, hands);
    }

    /// True if another server is to take a server's place, or its clients are on their way there.
    pub fn is_being_replaced(&self, pid: u32) -> bool {
        let by_one = self.list.iter().any(|server| server.replaces == Some(pid));
        let moves = |of: &Server<L>| of.outdated || of.phase == Phase::Draining;
        by_one || self.list.iter().any(|server| server.pid == pid && moves(server))
    }

    /// Starts a server in standby beside one that serves, if that is wanted and there is none.
    fn keep_standby(&mut self, serving: u32, now: Instant, hands: &mut impl Start<L>) {
        let Some((seat, gid)) = self.get(serving).map(|server| (server.seat(), server.gid)) else {
            return;
        };
        let wanted = self.wants_standby(seat);
        let Some(server) = self.get(serving).filter(|_| wanted) else { return };
        if server.standby || server.quarantine.is_some() || server.phase != Phase::Running {
            return;
        }
        // A driver that makes a context holds up the programs that come.
        if server.next_standby_at().is_some_and(|at| now < at) {
            return;
        }
        server.took_over = None;
        if self.standby_at(seat).is_some() {
            return;
        }
        if let Ok(pid) = self.launch_for(seat, gid, None, now, hands) {
            hands.log(format!("Server {pid} stands by for server {serving}"));
            if let Some(server) = self.get(pid) {
                server.standby = true;
            }
        }
    }

    /// The server in standby at a seat, which serves from now on.
    fn take_standby(&mut self, seat: Seat, now: Instant, hands: &mut impl Start<L>) -> Option<u32> {
        let server = self.standby_at(seat)?;
        server.standby = false;
        server.took_over = Some(now);
        let pid = server.pid;
        hands.log(format!("Server {pid}, which stood by, serves user {}", seat.uid));
        // The next one is started then.
        hands.look_again();
        Some(pid)
    }

    /// Ends the server in standby at a seat if no other one is left.
    pub(super) fn end_needless_standby(
        &mut self,
        seat: Seat,
        now: Instant,
        hands: &mut impl Start<L>,
    ) {
        if self.at(seat).is_none()
            && let Some(server) = self.standby_at(seat)
        {
            server.tell_to_end(false, now, hands);
        }
    }

    /// Starts servers in standby where one is missing.
    pub(super) fn keep_standbys(&mut self, now: Instant, hands: &mut impl Start<L>) {
        if !self.rules.standby || self.stopping.is_some() {
            return;
        }
        let serving: Vec<u32> = self.list.iter().map(|server| server.pid).collect();
        serving.into_iter().for_each(|pid| self.keep_standby(pid, now, hands));
    }

    /// Begins to put servers of another version in place of all, whose programs go on with them.
    /// Returns the old ones.
    pub fn begin_upgrade(&mut self, now: Instant, hands: &mut impl Start<L>) -> Vec<u32> {
        for server in self.list.iter_mut().filter(|server| server.standby) {
            server.tell_to_end(true, now, hands);
            server.standby = false;
        }
        let old: Vec<u32> =
            self.list.iter().filter(|of| of.takes_clients()).map(|of| of.pid).collect();
        for pid in &old {
            match self.get(*pid) {
                Some(server) if server.phase != Phase::Running => server.outdated = true,
                _ => self.begin_replacing(*pid, now, hands),
            }
        }
        hands.look_again();
        old
    }

    /// Forgets processes that may have caused a fault and did not come.
    pub(super) fn forget_candidates(&mut self, now: Instant) {
        let list = &self.list;
        self.candidates.retain(|process, since| {
            let is_served = list.iter().any(|server| server.quarantine == Some(*process));
            let age = now.saturating_duration_since(*since);
            is_served || age < Duration::from_secs(CANDIDATE_S_MAX)
        });
    }

    /// Lets processes that were alone for a while, because they might have caused a fault, go on among
    /// the others; ends servers whose one process is gone.
    pub(super) fn end_quarantines(&mut self, now: Instant, hands: &mut impl Start<L>) {
        let mut replaced = Vec::new();
        for server in &mut self.list {
            let Some(process) = server.quarantine else { continue };
            let over = server.quarantine_end().is_some_and(|at| now >= at);
            let came = server.quarantined.is_some();
            // Its process has ended, was told that it caused the fault and goes no further, or did not come.
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
                server.tell_to_end(false, now, hands);
                continue;
            }
            hands.log(format!(
                "Process {} has done nothing wrong at server {}: it goes on among the others",
                process.pid, server.pid
            ));
            server.send_clients_away(now, hands);
            replaced.push((server.seat(), server.gid));
        }
        for (seat, gid) in replaced {
            self.replace(seat, gid, now, hands);
        }
    }
}
