//! The servers of a history, with the device that executes: the real end of a server ([`Ending`]), the real
//! [`AttributionState`] and the real ring, and around them what sessions do.

use crate::client::Ring;
use crate::daemon::{ToDaemon, ToServer};
use crate::operation::{Nature, Operation, STREAMS};
use crate::world::{Event, World};
use channel::region::SessionEnd;
use channel::ring::{Consumer, Position, Record, RingMemory};
use channel::wait::SpinPolicy;
use recovery::servers::ServerKey;
use recovery::{AttributionState, Candidate, ClientAdmission, End, Ending, Evidence, Part};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long work may go on of a client that was terminated, and of one that is gone.
const TERMINATED_PATIENCE_US: u64 = 50_000;
const GONE_PATIENCE_US: u64 = 2_000_000;

/// An operation that waits or runs on the device.
#[derive(Clone, Debug)]
struct Queued {
    operation: Operation,
    /// What a wait waits for: so many operations of that stream.
    after: Option<(usize, u64)>,
}

/// One stream of a session on the device.
#[derive(Default)]
struct Stream {
    queue: VecDeque<Queued>,
    running: bool,
    submitted: u64,
    done: u64,
}

/// A session.
pub struct Session {
    pub client: usize,
    pub connection: usize,
    window: u32,
    consumer: Consumer<Ring>,
    streams: [Stream; STREAMS],
    /// By event: the stream, and how many operations had been submitted to it.
    events: BTreeMap<u64, (usize, u64)>,
    pub active: bool,
    pub end: Option<End>,
    ended_at_us: u64,
    notified: bool,
    evidence: Option<Evidence>,
    /// Kernels that were done here.
    kernels_done: u32,
    evidence_at_us: u64,
    stuck: bool,
    /// Its process has closed the connection.
    pub gone: bool,
    began_us: u64,
    declared: bool,
}

impl Session {
    fn is_idle(&self) -> bool {
        self.streams.iter().all(|stream| stream.queue.is_empty())
    }

    /// What is in flight. A kernel that faults has been launched before or not: `worn`.
    fn evidence(&self, worn: bool) -> Evidence {
        let mut kernels = self.streams.iter().flat_map(|stream| &stream.queue);
        let is_new = |of: &Queued| {
            matches!(of.operation, Operation::Kernel { nature: Nature::Traps, .. }) && !worn
        };
        match kernels.clone().any(|of| of.operation.is_kernel()) {
            false => Evidence::Nothing,
            true if kernels.any(is_new) => Evidence::Kernels { launched_before: 0 },
            true => Evidence::Kernels { launched_before: self.kernels_done },
        }
    }
}

/// A server process and its context.
pub struct Server {
    pub alive: bool,
    ready: bool,
    never_ready: bool,
    ending: Ending,
    attribution: AttributionState,
    fault: bool,
    asked_for_another: bool,
    may_end: bool,
    exiting: bool,
    pub sessions: Vec<Session>,
    inbox: VecDeque<ToServer>,
    daemon_gone: bool,
    /// Windows of clients that were not taken, of which the daemon has not heard yet.
    not_taken: Vec<u32>,
    due_us: Option<u64>,
}

impl World {
    pub fn start_server(&mut self, pid: u32, _seat: ServerKey) {
        let broken = self.broken_us.contains(&self.now_us);
        let never_ready = broken || self.start_failures && self.random.permille(20);
        self.servers.insert(
            pid,
            Server {
                alive: true,
                ready: false,
                never_ready,
                ending: Ending::default(),
                attribution: AttributionState::default(),
                fault: false,
                asked_for_another: false,
                may_end: false,
                exiting: false,
                sessions: Vec::new(),
                inbox: VecDeque::new(),
                daemon_gone: false,
                not_taken: Vec::new(),
                due_us: None,
            },
        );
        self.note(|| format!("server {pid} starts"));
        let delay = self.random.between(3_000, 80_000);
        self.schedule(delay, Event::Ready(pid));
    }

    /// A server's context is made, or cannot be.
    pub fn server_ready(&mut self, pid: u32) {
        let Some(server) = self.servers.get_mut(&pid).filter(|server| server.alive) else { return };
        if server.never_ready {
            self.send_to_daemon(pid, ToDaemon::Failed);
            return self.exit_server(pid, "exited with status 1");
        }
        server.ready = true;
        self.send_to_daemon(pid, ToDaemon::Ready);
        self.wake_server(pid);
    }

    pub fn send_to_server(&mut self, pid: u32, message: ToServer) {
        if let Some(server) = self.servers.get_mut(&pid).filter(|server| server.alive) {
            server.inbox.push_back(message);
            self.wake_server(pid);
        } else if let ToServer::Client { connection, .. } = message {
            self.close(connection);
        }
    }

    pub fn send_to_daemon(&mut self, pid: u32, message: ToDaemon) {
        if self.daemon.alive {
            self.daemon.inbox.entry(pid).or_default().push_back(message);
            self.wake_daemon();
        }
    }

    pub fn wake_server(&mut self, pid: u32) {
        let delay = self.random.between(5, 400);
        self.server_by(pid, self.now_us + delay);
    }

    fn server_by(&mut self, pid: u32, at_us: u64) {
        let now_us = self.now_us;
        let Some(server) = self.servers.get_mut(&pid).filter(|server| server.alive) else { return };
        if server.due_us.is_none_or(|due| due > at_us || due < now_us) {
            server.due_us = Some(at_us);
            self.schedule_at(at_us, Event::Server(pid));
        }
    }

    /// The process ends at once, with what its context was doing half done.
    pub fn kill_server(&mut self, pid: u32, how: &'static str) {
        if self.servers.get(&pid).is_some_and(|server| server.alive) {
            self.note(|| format!("server {pid} {how}"));
            self.break_off(pid);
            self.exit_server(pid, how);
        }
    }

    /// What runs on a device is done in part.
    fn break_off(&mut self, pid: u32) {
        let Some(server) = self.servers.get_mut(&pid) else { return };
        for session in &mut server.sessions {
            for stream in &mut session.streams {
                if std::mem::take(&mut stream.running)
                    && let Some(head) = stream.queue.front()
                {
                    let memory = &mut self.clients[session.client].memory;
                    head.operation.apply(memory, Some(&mut self.random));
                }
            }
            if session.active {
                self.connections[session.connection].rough = true;
            }
        }
    }

    fn exit_server(&mut self, pid: u32, how: &'static str) {
        let Some(server) = self.servers.get_mut(&pid) else { return };
        server.alive = false;
        self.failed_starts += u64::from(!server.ready);
        let left: Vec<usize> = server.sessions.iter().map(|session| session.connection).collect();
        let waiting: Vec<usize> = server
            .inbox
            .drain(..)
            .filter_map(|message| match message {
                ToServer::Client { connection, .. } => Some(connection),
                _ => None,
            })
            .collect();
        left.into_iter().chain(waiting).for_each(|connection| self.close(connection));
        if self.daemon.alive {
            self.daemon.exits.insert(pid, how);
            self.wake_daemon();
        }
    }

    /// The daemon has died: servers see its socket close.
    pub fn daemon_gone(&mut self) {
        let pids: Vec<u32> = self.servers.keys().copied().collect();
        for pid in pids {
            let Some(server) = self.servers.get_mut(&pid) else { continue };
            server.daemon_gone = true;
            if !server.ready && server.alive {
                // It finds nothing to report to, and ends.
                self.exit_server(pid, "ended");
            }
            self.wake_server(pid);
        }
    }

    /// One turn of a server's main thread and of its sessions.
    pub fn server_turn(&mut self, pid: u32) {
        let now_us = self.now_us;
        let Some(server) = self.servers.get_mut(&pid).filter(|server| server.alive) else { return };
        if server.due_us != Some(now_us) {
            return;
        }
        server.due_us = None;
        if server.daemon_gone {
            server.ending.when_idle();
        }
        if server.ready {
            while let Some(message) =
                self.servers.get_mut(&pid).and_then(|server| server.inbox.pop_front())
            {
                self.server_hears(pid, message);
            }
        }
        let count = self.servers[&pid].sessions.len();
        (0..count).for_each(|index| self.session_turn(pid, index));
        self.settle(pid);
    }

    fn server_hears(&mut self, pid: u32, message: ToServer) {
        let deadline = self.instant() + Duration::from_secs(5);
        let Some(server) = self.servers.get_mut(&pid) else { return };
        match message {
            ToServer::Client { client, connection, window } => {
                match server.ending.admits(server.fault) {
                    ClientAdmission::Taken => self.take_client(pid, client, connection, window),
                    ClientAdmission::TurnedAway => {
                        server.not_taken.push(window);
                        self.close(connection);
                    }
                    ClientAdmission::Refused => {
                        server.not_taken.push(window);
                        self.refuse(connection, recovery::Obstacle::NotReady);
                    }
                }
            }
            ToServer::Shutdown { force: true } => {
                if server.ending.at_once(deadline) {
                    self.end_all(pid, End::ServerEnds);
                }
            }
            ToServer::Shutdown { force: false } => server.ending.when_idle(),
            ToServer::Move => {
                if server.ending.hand_over() {
                    self.end_all(pid, End::HandedOver);
                }
            }
            ToServer::Leave => server.may_end = true,
            ToServer::Terminate(client) => self.end_session(pid, client, End::Terminated),
        }
    }

    fn take_client(&mut self, pid: u32, client: usize, connection: usize, window: u32) {
        self.check_alone(pid, client);
        let ring = self.connections[connection].ring.clone();
        let Ok(consumer) = Consumer::new(ring, SpinPolicy::NONE) else {
            return self.fail("a new ring is broken".to_owned());
        };
        let now_us = self.now_us;
        let Some(server) = self.servers.get_mut(&pid) else { return };
        server.sessions.push(Session {
            client,
            connection,
            window,
            consumer,
            streams: Default::default(),
            events: BTreeMap::new(),
            active: true,
            end: None,
            ended_at_us: 0,
            notified: false,
            evidence: None,
            kernels_done: 0,
            evidence_at_us: 0,
            stuck: false,
            gone: false,
            began_us: now_us,
            declared: false,
        });
        let here = &mut self.connections[connection];
        here.server = Some(pid);
        here.welcome = Some(window);
        // The client has gone meanwhile.
        if here.left {
            self.leave(connection);
        }
        self.wake_client(client);
    }

    /// A process that may have caused a fault is alone at its next server, for as long as it is there.
    fn check_alone(&mut self, pid: u32, client: usize) {
        let others: Vec<usize> = {
            let living = self.servers[&pid].sessions.iter().filter(|s| s.active && !s.gone);
            living.map(|session| session.client).filter(|other| *other != client).collect()
        };
        let candidate = std::mem::take(&mut self.clients[client].candidate);
        if candidate {
            self.lone.insert(pid, client);
            if !others.is_empty() {
                self.fail(format!(
                    "candidate {client} comes to server {pid}, where {others:?} are"
                ));
            }
        } else if let Some(lone) = self.lone.get(&pid)
            && *lone != client
        {
            self.fail(format!("client {client} comes to server {pid}, where candidate {lone} is"));
        }
    }

    fn end_all(&mut self, pid: u32, end: End) {
        let count = self.servers[&pid].sessions.len();
        (0..count).for_each(|index| self.set_end(pid, index, end));
    }

    /// Ends the session of a client.
    pub fn end_session(&mut self, pid: u32, client: usize, end: End) {
        let Some(server) = self.servers.get(&pid) else { return };
        let found = server.sessions.iter().position(|s| s.client == client && !s.gone);
        if let Some(index) = found {
            self.set_end(pid, index, end);
            self.wake_server(pid);
        }
    }

    fn set_end(&mut self, pid: u32, index: usize, end: End) {
        let now_us = self.now_us;
        let Some(session) = self.servers.get_mut(&pid).and_then(|s| s.sessions.get_mut(index))
        else {
            return;
        };
        if end.beats(session.end) {
            session.ended_at_us = now_us;
            session.end = Some(end);
        }
    }

    fn session_turn(&mut self, pid: u32, index: usize) {
        let now_us = self.now_us;
        let Some(server) = self.servers.get_mut(&pid) else { return };
        let (fault, attribution) = (server.fault, server.attribution);
        let session = &mut server.sessions[index];
        if !session.active {
            return;
        }
        let gone = self.connections[session.connection].left;
        if gone && !session.gone {
            session.gone = true;
            self.set_end(pid, index, End::ClientGone);
            return self.wake_server(pid);
        }
        // A session that is about to end says nothing any more.
        if fault
            && attribution != AttributionState::None
            && session.end.is_none()
            && session.evidence.is_none()
        {
            if now_us >= session.evidence_at_us {
                session.evidence = Some(session.evidence(self.random.permille(300)));
            } else {
                let at_us = session.evidence_at_us;
                self.server_by(pid, at_us);
            }
            return;
        }
        match session.end {
            None if fault => {}
            None => {
                let (mut record, mut has_declared) = (Record::new(), false);
                for _ in 0..self.random.between(1, 12) {
                    match session.consumer.pop(&mut record) {
                        Ok(true) => has_declared |= !std::mem::replace(&mut session.declared, true),
                        Ok(false) => break,
                        Err(broken) => return self.fail(format!("client's ring: {broken}")),
                    }
                    let (slot, operation) = Operation::decode(record.opcode(), record.words());
                    let slot = slot as usize;
                    let after = match operation {
                        Operation::Wait { event } => session.events.get(&event).copied(),
                        _ => None,
                    };
                    session.streams[slot].submitted += 1;
                    if let Operation::Record { event } = operation {
                        session.events.insert(event, (slot, session.streams[slot].submitted));
                    }
                    session.streams[slot].queue.push_back(Queued { operation, after });
                }
                if has_declared {
                    self.send_to_daemon(pid, ToDaemon::Declared);
                }
                self.run_device(pid);
                self.wake_client_in_room(pid, index);
            }
            Some(end @ (End::Moved | End::HandedOver | End::Faulting)) => {
                let idle = session.is_idle();
                if end == End::HandedOver && fault && !idle {
                    let evidence = session.evidence(self.random.permille(300));
                    session.evidence.get_or_insert(evidence);
                    return;
                }
                if end == End::HandedOver && !idle {
                    return;
                }
                let connection = session.connection;
                self.connections[connection].sticky |= end == End::Faulting;
                self.send_end(pid, index, end.notice());
                self.set_inactive(pid, index);
            }
            Some(end) => {
                let notice = end.notice();
                let patience =
                    if end == End::Terminated { TERMINATED_PATIENCE_US } else { GONE_PATIENCE_US };
                let until = session.ended_at_us + patience;
                if session.is_idle() || fault {
                    if fault {
                        let evidence = session.evidence(self.random.permille(300));
                        session.evidence.get_or_insert(evidence);
                    }
                    self.send_end(pid, index, notice);
                    self.set_inactive(pid, index);
                } else {
                    session.stuck = now_us >= until;
                    self.send_end(pid, index, notice);
                    self.server_by(pid, until.max(now_us + 1_000));
                }
            }
        }
    }

    /// Notifies the client of the end, once.
    fn send_end(&mut self, pid: u32, index: usize, notice: Option<SessionEnd>) {
        let Some(server) = self.servers.get_mut(&pid) else { return };
        let session = &mut server.sessions[index];
        if std::mem::replace(&mut session.notified, true) {
            return;
        }
        let (client, connection, reason) = (session.client, session.connection, session.end);
        let alone_us = self.now_us - session.began_us;
        self.connections[connection].end = notice;
        self.connections[connection].ended = true;
        if notice == Some(SessionEnd::Moved) {
            self.connections[connection].rough = true;
        }
        // An upgrade moves it before its time is over: it stays alone.
        if self.lone.get(&pid) == Some(&client)
            && reason == Some(End::HandedOver)
            && alone_us + 100_000 < recovery::servers::ISOLATION_MS * 1000
        {
            self.clients[client].candidate = true;
        }
        self.note(|| {
            format!("server {pid}: session of client {client} ends: {reason:?}, notice {notice:?}")
        });
        self.wake_client(client);
    }

    fn set_inactive(&mut self, pid: u32, index: usize) {
        if let Some(server) = self.servers.get_mut(&pid) {
            server.sessions[index].active = false;
            self.wake_server(pid);
        }
    }

    /// Goes on with a fault, with ends, and with the server's own.
    fn settle(&mut self, pid: u32) {
        let now = self.instant();
        let Some(server) = self.servers.get_mut(&pid) else { return };
        if server.fault {
            if server.attribution.open(now) {
                for session in &mut server.sessions {
                    let late = if self.random.permille(40) { 400_000 } else { 3_000 };
                    session.evidence_at_us = self.now_us + self.random.between(0, late);
                }
                self.send_to_daemon(pid, ToDaemon::Fault);
                self.wake_server(pid);
            }
            let Some(server) = self.servers.get_mut(&pid) else { return };
            let candidates: Vec<Candidate> = {
                let all = server.sessions.iter();
                all.map(|session| Candidate { active: session.active, evidence: session.evidence })
                    .collect()
            };
            let parts = server.attribution.attribute(&candidates, now);
            if server.may_end || server.daemon_gone {
                server.attribution.may_end();
            }
            let deadline = server.attribution.deadline();
            if let Some(parts) = parts {
                self.attribute(pid, &parts);
            }
            if let Some(deadline) = deadline {
                let left = deadline.saturating_duration_since(now).as_micros() as u64;
                self.server_by(pid, self.now_us + left.max(1));
            }
        }
        let Some(server) = self.servers.get_mut(&pid) else { return };
        if server.sessions.iter().any(|session| session.stuck) && !server.asked_for_another {
            server.asked_for_another = true;
            self.send_to_daemon(pid, ToDaemon::Replace);
        }
        let Some(server) = self.servers.get_mut(&pid) else { return };
        // A fault is announced before: what windows are free by then, their clients come for.
        let mut gone = std::mem::take(&mut server.not_taken);
        let awaits_attribution = server.fault && !server.attribution.is_notified();
        for session in &mut server.sessions {
            session.gone |= self.connections[session.connection].left;
            if session.gone && !session.active && !awaits_attribution {
                gone.push(session.window);
            }
        }
        server.sessions.retain(|session| awaits_attribution || !session.gone || session.active);
        for window in gone {
            self.send_to_daemon(pid, ToDaemon::ClientGone);
            self.send_to_daemon(pid, ToDaemon::WindowFree(window));
        }
        let Some(server) = self.servers.get_mut(&pid) else { return };
        let inactive = server.sessions.iter().all(|session| !session.active || session.stuck);
        let listed = server.sessions.iter().any(|session| !session.stuck);
        if !server.exiting
            && server.ready
            && server.ending.is_over(server.attribution, listed, inactive, now)
        {
            server.exiting = true;
            self.send_to_daemon(pid, ToDaemon::Exiting);
            let delay = self.random.between(100, 30_000);
            self.schedule(delay, Event::Exit(pid));
        } else if let Some(deadline) = self.servers[&pid].ending.deadline() {
            let left = deadline.saturating_duration_since(now).as_micros() as u64;
            self.server_by(pid, self.now_us + left.max(1));
        }
        self.run_device(pid);
    }

    /// What becomes of each client after a fault.
    fn attribute(&mut self, pid: u32, parts: &[Part]) {
        let clients: Vec<usize> =
            self.servers[&pid].sessions.iter().map(|session| session.client).collect();
        self.note(|| format!("server {pid}: clients {clients:?} are {parts:?}"));
        for (index, (client, part)) in clients.iter().zip(parts).enumerate() {
            if part.is_alone() {
                self.send_to_daemon(pid, ToDaemon::Candidate(*client));
                self.clients[*client].candidate =
                    !self.connections[self.servers[&pid].sessions[index].connection].left;
            }
        }
        for (index, part) in parts.iter().enumerate() {
            let end = if *part == Part::Faulting { End::Faulting } else { End::Moved };
            self.set_end(pid, index, end);
        }
        self.wake_server(pid);
    }

    /// A process ends by itself.
    pub fn server_exits(&mut self, pid: u32) {
        if self.servers.get(&pid).is_some_and(|server| server.alive) {
            self.note(|| format!("server {pid} ends"));
            self.break_off(pid);
            self.exit_server(pid, "exited with status 0");
        }
    }

    /// Starts what can run on the device.
    fn run_device(&mut self, pid: u32) {
        let mut begun = Vec::new();
        let Some(server) = self.servers.get_mut(&pid).filter(|s| s.alive && !s.fault) else {
            return;
        };
        for session in &mut server.sessions {
            let done: Vec<u64> = session.streams.iter().map(|stream| stream.done).collect();
            for (slot, stream) in session.streams.iter_mut().enumerate() {
                let Some(head) = stream.queue.front().filter(|_| !stream.running) else { continue };
                if head.after.is_some_and(|(other, count)| done[other] < count) {
                    continue;
                }
                stream.running = true;
                let us = match head.operation {
                    Operation::Kernel { nature: Nature::Endless, .. } => continue,
                    Operation::Kernel { .. } => self.random.between(20, 4_000),
                    Operation::Fence { .. } | Operation::Record { .. } | Operation::Wait { .. } => {
                        1
                    }
                    _ => self.random.between(5, 500),
                };
                begun.push((us, session.connection, slot));
            }
        }
        for (us, connection, slot) in begun {
            self.schedule(us, Event::Done { server: pid, connection, slot });
        }
    }

    /// An operation on the device has come to its end.
    pub fn operation_done(&mut self, pid: u32, connection: usize, slot: usize) {
        let Some(server) = self.servers.get_mut(&pid).filter(|s| s.alive && !s.fault) else {
            return;
        };
        let found = server.sessions.iter_mut().find(|session| session.connection == connection);
        let Some(session) = found else { return };
        let client = session.client;
        let stream = &mut session.streams[slot];
        if !stream.running {
            return;
        }
        let Some(head) = stream.queue.front().cloned() else { return };
        if let Operation::Kernel { nature: Nature::Traps, .. } = head.operation {
            self.note(|| format!("server {pid}: a kernel of client {client} faults"));
            self.clients[client].has_faulted = true;
            self.break_off(pid);
            if let Some(server) = self.servers.get_mut(&pid) {
                server.fault = true;
            }
            return self.wake_server(pid);
        }
        stream.running = false;
        stream.queue.pop_front();
        stream.done += 1;
        session.kernels_done += u32::from(head.operation.is_kernel());
        head.operation.apply(&mut self.clients[client].memory, None);
        if let Operation::Fence { value } = head.operation {
            self.connections[connection].words[slot] = value as u32;
            self.wake_client(client);
        }
        self.run_device(pid);
        self.wake_server(pid);
    }

    fn wake_client_in_room(&mut self, pid: u32, index: usize) {
        let session = &self.servers[&pid].sessions[index];
        let (client, connection) = (session.client, session.connection);
        let ring = &self.connections[connection].ring;
        if ring.position(Position::Head) > session.consumer.tail() {
            self.wake_server(pid);
        }
        if self.clients[client].wants_room() {
            self.wake_client(client);
        }
    }
}
