//! The daemon of a history: the real rules ([`Servers`], [`Windows`]), and around them what its event loop
//! and `admission.rs` do, in their order.

use crate::world::{Event, World};
use cuda_api::CUuuid;
use recovery::servers::{
    ClientProcess, Effects, NoServer, Placement, READY_S_MAX, Role, Rules, ServerKey, Servers,
    Serves, StartServers, Windows,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// What a server says.
#[derive(Clone, Debug)]
pub enum ToDaemon {
    Ready,
    Failed,
    Exiting,
    ClientGone,
    WindowFree(u32),
    Fault,
    Declared,
    Candidate(usize),
    Replace,
}

/// What is sent to a server.
#[derive(Clone, Debug)]
pub enum ToServer {
    Client { client: usize, connection: usize, window: u32 },
    Shutdown { force: bool },
    Move,
    Leave,
    Terminate(usize),
}

/// A client that waits for a server.
struct Waiting {
    client: usize,
    connection: usize,
    deadline_us: u64,
}

/// The daemon.
pub struct Daemon {
    pub alive: bool,
    pub servers: Servers<u32>,
    windows: Windows<usize>,
    waiting: Vec<Waiting>,
    /// Connections that have said hello.
    pub hellos: VecDeque<(usize, usize)>,
    pub inbox: BTreeMap<u32, VecDeque<ToDaemon>>,
    /// Servers that have ended, and how.
    pub exits: BTreeMap<u32, &'static str>,
    pub due_us: Option<u64>,
    /// When servers were started that did not get ready, by their server key.
    failed_starts: BTreeMap<ServerKey, VecDeque<u64>>,
}

/// What the rules have done in one turn.
pub struct TestEffects<'a> {
    alive: &'a BTreeSet<u32>,
    next_pid: &'a mut u32,
    outbox: &'a mut Vec<(u32, ToServer)>,
    started: &'a mut Vec<(u32, ServerKey)>,
    killed: &'a mut Vec<u32>,
    lines: &'a mut Vec<String>,
    cannot_start: bool,
    refused: &'a mut u64,
}

impl Effects<u32> for TestEffects<'_> {
    fn shut_down(&mut self, server: &u32, force: bool) -> bool {
        self.outbox.push((*server, ToServer::Shutdown { force }));
        self.alive.contains(server)
    }

    fn hand_over(&mut self, server: &u32) -> bool {
        self.outbox.push((*server, ToServer::Move));
        self.alive.contains(server)
    }

    /// No history has kernels that are long and end.
    fn hand_over_one(&mut self, _: &u32, _: u32) -> bool {
        false
    }

    fn leave(&mut self, server: &u32) {
        self.outbox.push((*server, ToServer::Leave));
    }

    fn kill(&mut self, server: &mut u32) {
        self.killed.push(*server);
    }

    fn look_again(&mut self) {}

    fn log(&mut self, text: String) {
        self.lines.push(text);
    }
}

impl StartServers<u32> for TestEffects<'_> {
    fn start(&mut self, server_key: ServerKey, _gid: u32, _: Serves) -> Result<(u32, u32), String> {
        if self.cannot_start {
            *self.refused += 1;
            return Err("no memory for a process".to_owned());
        }
        *self.next_pid += 1;
        self.started.push((*self.next_pid, server_key));
        Ok((*self.next_pid, *self.next_pid))
    }
}

/// The first user whose programs they are; the daemon's own in half of the histories.
const USER: u32 = 1000;
/// A server key's servers that do not get ready are started no more often than so in [`FAILED_US`].
const FAILED_STARTS_MAX: usize = 25;
const FAILED_US: u64 = 5_000_000;

impl Daemon {
    pub fn new(standby: bool, is_owner: bool) -> Self {
        let mut servers = Servers::default();
        let owner = if is_owner { USER } else { 0 };
        let idle_max = Some(Duration::from_secs(10));
        servers.rules = Rules { owner, standby, one_user: false, idle_max };
        Self {
            alive: true,
            servers,
            windows: Windows::default(),
            waiting: Vec::new(),
            hellos: VecDeque::new(),
            inbox: BTreeMap::new(),
            exits: BTreeMap::new(),
            due_us: None,
            failed_starts: BTreeMap::new(),
        }
    }
}

/// The server key of a user's programs on a device, by their numbers.
pub fn server_key(user: u32, device: u8) -> ServerKey {
    ServerKey { uid: USER + user, named: 0, device: CUuuid { bytes: [1 + device; 16] } }
}

impl World {
    /// The daemon has something to look at.
    pub fn wake_daemon(&mut self) {
        let delay = match self.random.below(20) {
            0 => self.random.between(10_000, 60_000),
            _ => self.random.between(20, 2_000),
        };
        self.daemon_by(self.now_us + delay);
    }

    fn daemon_by(&mut self, at_us: u64) {
        if self.daemon.due_us.is_none_or(|due| due > at_us || due < self.now_us) {
            self.daemon.due_us = Some(at_us);
            self.schedule_at(at_us, Event::Daemon);
        }
    }

    /// Calls the rules with effects; what they did is carried out.
    pub fn with_servers<T>(
        &mut self,
        call: impl FnOnce(&mut Servers<u32>, &mut TestEffects<'_>) -> T,
    ) -> T {
        let cannot_start = self.start_failures && self.random.permille(30);
        let alive: BTreeSet<u32> =
            self.servers.iter().filter(|(_, s)| s.alive).map(|(pid, _)| *pid).collect();
        let (mut started, mut killed, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        let (mut outbox, mut refused) = (Vec::new(), 0);
        let result = {
            let mut effects = TestEffects {
                alive: &alive,
                next_pid: &mut self.next_pid,
                outbox: &mut outbox,
                started: &mut started,
                killed: &mut killed,
                lines: &mut lines,
                cannot_start,
                refused: &mut refused,
            };
            call(&mut self.daemon.servers, &mut effects)
        };
        self.failed_starts += refused;
        for line in lines {
            self.note(|| format!("daemon: {line}"));
        }
        for (pid, server_key) in started {
            self.start_server(pid, server_key);
        }
        for (pid, message) in outbox {
            self.send_to_server(pid, message);
        }
        for pid in killed {
            self.kill_server(pid, "was killed by the daemon");
        }
        result
    }

    /// One turn of the event loop.
    pub fn daemon_turn(&mut self) {
        if !self.daemon.alive || self.daemon.due_us != Some(self.now_us) {
            return;
        }
        self.daemon.due_us = None;
        let now = self.instant();
        let pids: Vec<u32> = self.daemon.servers.iter().map(|server| server.pid).collect();
        for pid in pids {
            let ended = self.daemon.exits.remove(&pid);
            while let Some(message) = self.daemon.inbox.get_mut(&pid).and_then(VecDeque::pop_front)
            {
                self.daemon_hears(pid, message);
            }
            if let Some(how) = ended {
                let ended = self.with_servers(|servers, effects| {
                    let killed = how.contains("killed");
                    servers.has_ended(pid, (how, killed), now, effects)
                });
                if let Some((server_key, reason)) =
                    ended.and_then(|ended| Some((ended.server.server_key(), ended.refuse?)))
                {
                    self.count_failed_start(server_key);
                    for waiting in std::mem::take(&mut self.daemon.waiting) {
                        if self.process(waiting.client).server_key() != server_key {
                            self.daemon.waiting.push(waiting);
                            continue;
                        }
                        self.note(|| {
                            format!("daemon: client {} refused: {reason}", waiting.client)
                        });
                        self.refuse(waiting.connection, recovery::Obstacle::Lost);
                    }
                }
            }
        }
        while let Some((client, connection)) = self.daemon.hellos.pop_front() {
            self.admit(client, connection);
        }
        self.with_servers(|servers, effects| {
            servers.end_all(now, effects);
            servers.advance(now, effects);
        });
        self.serve_waiting();
        let due = self.daemon.servers.next_due().map(|due| {
            let left = due.saturating_duration_since(now).as_micros() as u64;
            self.now_us + left.max(1)
        });
        let retry = (!self.daemon.waiting.is_empty()).then_some(self.now_us + 10_000);
        if let Some(at) = due.into_iter().chain(retry).min() {
            self.daemon_by(at);
        }
        self.check_servers();
    }

    fn daemon_hears(&mut self, pid: u32, message: ToDaemon) {
        let now = self.instant();
        self.note(|| format!("daemon: server {pid} says {message:?}"));
        match message {
            ToDaemon::Ready => self.with_servers(|servers, effects| {
                servers.is_ready(pid);
                servers.finish_replacing(pid, now, effects);
            }),
            ToDaemon::Failed => self.daemon.servers.has_failed(pid, "it failed".to_owned()),
            ToDaemon::Exiting => self.daemon.servers.is_exiting(pid, now),
            ToDaemon::ClientGone => {
                if let Some(server) = self.daemon.servers.get(pid) {
                    server.lose_client(now);
                }
            }
            ToDaemon::WindowFree(window) => {
                let takes = |server: &&mut recovery::servers::Server<u32>| server.takes_clients();
                if let Some(server) = self.daemon.servers.get(pid).filter(takes) {
                    let uid = server.uid;
                    self.daemon.windows.free(uid, window, pid);
                }
            }
            ToDaemon::Fault => {
                self.with_servers(|servers, effects| servers.has_faulted(pid, now, effects));
            }
            ToDaemon::Declared => {
                self.with_servers(|servers, effects| servers.has_declared(pid, effects));
            }
            ToDaemon::Candidate(client) => {
                self.daemon.servers.candidate(pid, client as u32 + 1, now)
            }
            ToDaemon::Replace => {
                self.with_servers(|servers, effects| {
                    servers.replace_stuck(pid, now, effects);
                });
            }
        }
    }

    fn admit(&mut self, client: usize, connection: usize) {
        let process = self.process(client);
        let now = self.instant();
        let place = self.daemon.servers.place_of(process);
        if let Placement::At(_) = place {
            if !self.hand_over(client, connection) {
                self.wait_for_server(client, connection);
            }
            return;
        }
        if place == Placement::Nowhere {
            let launched = self.with_servers(|servers, effects| {
                servers.launch_for_process(process, 0, now, effects)
            });
            if let Err(error) = launched
                && !error.is_worth_waiting()
            {
                return self.refuse(connection, obstacle_of(&error));
            }
        }
        self.wait_for_server(client, connection);
    }

    fn wait_for_server(&mut self, client: usize, connection: usize) {
        let deadline_us = self.now_us + READY_S_MAX * 1_000_000;
        self.daemon.waiting.push(Waiting { client, connection, deadline_us });
    }

    fn serve_waiting(&mut self) {
        let now = self.instant();
        for waiting in std::mem::take(&mut self.daemon.waiting) {
            let Waiting { client, connection, deadline_us } = waiting;
            if self.clients[client].connection != Some(connection) {
                continue;
            }
            let process = self.process(client);
            let place = self.daemon.servers.place_of(process);
            match place {
                Placement::At(_) if self.hand_over(client, connection) => {}
                _ if self.now_us >= deadline_us => {
                    self.refuse(connection, recovery::Obstacle::NotReady);
                }
                Placement::At(_) | Placement::Later => self.daemon.waiting.push(waiting),
                Placement::Nowhere => {
                    let launched = self.with_servers(|servers, effects| {
                        servers.launch_for_process(process, 0, now, effects)
                    });
                    match launched {
                        Err(error) if !error.is_worth_waiting() => {
                            self.refuse(connection, obstacle_of(&error));
                        }
                        _ => self.daemon.waiting.push(waiting),
                    }
                }
            }
        }
    }

    /// Sends a client to its server; false if that cannot be reached.
    fn hand_over(&mut self, client: usize, connection: usize) -> bool {
        let process = self.process(client);
        let now = self.instant();
        let Placement::At(pid) = self.daemon.servers.place_of(process) else { return false };
        let living: Vec<bool> = self.clients.iter().map(|client| client.lives()).collect();
        let (windows, servers) = (&mut self.daemon.windows, &self.daemon.servers);
        let chosen = windows.choose(process, |pid| servers.serves(pid), |of| !living[*of]);
        let Some((window, _)) = chosen else {
            self.fail(format!("client {client} gets no window"));
            return true;
        };
        if !self.servers.get(&pid).is_some_and(|server| server.alive) {
            return false;
        }
        if let Some(server) = self.daemon.servers.get(pid) {
            server.take_client(now);
        }
        self.daemon.windows.give(process, window, pid, || client);
        self.note(|| format!("daemon: client {client} to server {pid}, window {window}"));
        self.send_to_server(pid, ToServer::Client { client, connection, window });
        true
    }

    fn process(&self, client: usize) -> ClientProcess {
        let ServerKey { uid, named, device } = self.clients[client].server_key;
        ClientProcess { uid, named, pid: client as u32 + 1, device }
    }

    /// A server has ended that was never ready.
    fn count_failed_start(&mut self, server_key: ServerKey) {
        let now_us = self.now_us;
        let starts = self.daemon.failed_starts.entry(server_key).or_default();
        starts.retain(|at| now_us - at < FAILED_US);
        starts.push_back(now_us);
        let count = starts.len();
        if count > FAILED_STARTS_MAX {
            self.fail(format!("{count} servers failed to start within 5 s: no pause between them"));
        }
    }

    /// What must be true of the daemon's servers at any time.
    fn check_servers(&mut self) {
        let mut taking: BTreeMap<ServerKey, u32> = BTreeMap::new();
        let mut alone = BTreeSet::new();
        let mut doubled = None;
        for server in self.daemon.servers.iter().filter(|server| server.takes_clients()) {
            match server.isolated().map(|of| of.process) {
                Some(process) if !alone.insert(process) && server.replaces.is_none() => {
                    doubled = Some(process.pid);
                }
                Some(_) => {}
                None => {
                    let takes = server.role != Role::Standby && server.replaces.is_none();
                    *taking.entry(server.server_key()).or_default() += u32::from(takes);
                }
            }
        }
        if let Some(count) = taking.into_values().find(|count| *count > 1) {
            self.fail(format!("{count} servers take clients of one server_key"));
        }
        if let Some(pid) = doubled {
            self.fail(format!("process {pid} has two servers of its own"));
        }
    }
}

fn obstacle_of(error: &NoServer) -> recovery::Obstacle {
    match error {
        NoServer::NotStarted(_) => recovery::Obstacle::Lost,
        NoServer::Stopping
        | NoServer::BackOff { .. }
        | NoServer::OtherUserFirst
        | NoServer::UnaffectedFirst => recovery::Obstacle::NotReady,
    }
}
