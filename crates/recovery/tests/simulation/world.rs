//! A history: clock, queue of events, disturbances, and what must hold at its end.

use crate::client::{Character, Client, Connection, Fate};
use crate::daemon::{Daemon, ToServer, server_key};
use crate::random::Random;
use crate::server::Server;
use recovery::ReplayPolicy;
use recovery::servers::ServerKey;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long an unaffected program may wait for its next server, simulated.
const PAUSE_US_MAX: u64 = 12_000_000;
/// What comes on top for each server that did not start: the daemon's longest pause, and the start.
const PAUSE_OF_FAILED_START_US: u64 = 16_000_000;
/// When all must be over, simulated.
const END_US: u64 = 400_000_000;
/// Most events of a history: more is a history that makes no progress.
const EVENTS_MAX: u64 = 3_000_000;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Daemon,
    Server(u32),
    Ready(u32),
    Exit(u32),
    Client(usize),
    Done {
        server: u32,
        connection: usize,
        slot: usize,
    },
    Disturb,
    /// An operator ends an endless kernel's program.
    Terminate(usize),
    /// The daemon is asked to end.
    Stop,
}

/// A history.
pub struct World {
    pub random: Random,
    base: Instant,
    pub now_us: u64,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    history: Option<Vec<String>>,
    pub failure: Option<String>,
    pub daemon: Daemon,
    pub servers: BTreeMap<u32, Server>,
    pub clients: Vec<Client>,
    pub connections: Vec<Connection>,
    pub next_pid: u32,
    /// Servers that candidates are alone at.
    pub lone: BTreeMap<u32, usize>,
    /// Servers may fail to start.
    pub start_failures: bool,
    /// Servers that did not start.
    pub failed_starts: u64,
    /// No server gets ready that is started then.
    pub broken_us: Range<u64>,
    disturbances: u64,
    kinds: u64,
    stops: bool,
    stopped: bool,
}

/// The outcome of a history.
pub struct Outcome {
    pub failure: Option<String>,
    pub history: Vec<String>,
    pub fates: Vec<(Fate, u32, u64)>,
}

impl World {
    fn new(seed: u64, keeps_history: bool) -> Self {
        let mut random = Random::new(seed);
        let count = random.between(1, 5);
        let users = if random.permille(200) { 2 } else { 1 };
        let devices = if random.permille(300) { random.between(2, 3) } else { 1 };
        let clients = (0..count)
            .map(|number| {
                let character = match random.below(10) {
                    0..2 => Character::Faulty,
                    2 => Character::Endless,
                    3 => Character::Slow,
                    _ => Character::Honest,
                };
                let policy = match random.below(10) {
                    0..6 => ReplayPolicy::Auto,
                    6..9 => ReplayPolicy::Always,
                    _ => ReplayPolicy::Never,
                };
                let server_key =
                    server_key(random.below(users) as u32, random.below(devices) as u8);
                Client::new(
                    character,
                    policy,
                    server_key,
                    seed.wrapping_mul(31).wrapping_add(number),
                )
            })
            .collect();
        // For some time no server gets ready: a device that has fallen off its bus.
        let broken_at = random.between(0, 3_000_000);
        let broken_for =
            if random.permille(50) { random.between(1_000_000, 20_000_000) } else { 0 };
        let (standby, is_owner) = (random.permille(400), random.permille(500));
        Self {
            base: Instant::now(),
            now_us: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            history: keeps_history.then(Vec::new),
            failure: None,
            daemon: Daemon::new(standby, is_owner),
            servers: BTreeMap::new(),
            clients,
            connections: Vec::new(),
            next_pid: 100,
            lone: BTreeMap::new(),
            start_failures: random.permille(150),
            failed_starts: 0,
            broken_us: broken_at..broken_at + broken_for,
            disturbances: random.below(9),
            // Some histories have planned ends only, so that nothing may be lost.
            kinds: if random.permille(200) { 1 } else { 100 },
            stops: is_owner || random.permille(300),
            stopped: false,
            random,
        }
    }

    /// The time as the rules have it.
    pub fn instant(&self) -> Instant {
        self.base + Duration::from_micros(self.now_us)
    }

    /// Lets something happen after so many microseconds.
    pub fn schedule(&mut self, delay_us: u64, event: Event) {
        self.schedule_at(self.now_us + delay_us, event);
    }

    /// Lets something happen at a time.
    pub fn schedule_at(&mut self, at_us: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at_us.max(self.now_us), self.sequence), event);
    }

    /// Writes a line of the history.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        let at = self.now_us as f64 / 1000.0;
        if let Some(history) = &mut self.history {
            history.push(format!("{at:12.3} ms  {}", line()));
        }
    }

    /// Something is not as it must be.
    pub fn fail(&mut self, what: String) {
        self.note(|| format!("WRONG: {what}"));
        self.failure.get_or_insert(what);
    }

    fn disturb(&mut self) {
        if self.disturbances == 0 {
            return;
        }
        self.disturbances -= 1;
        let living: Vec<u32> =
            self.servers.iter().filter(|(_, server)| server.alive).map(|(pid, _)| *pid).collect();
        let client = self.random.below(self.clients.len() as u64) as usize;
        match self.random.below(self.kinds) {
            0..30 => {
                self.note(|| "an upgrade begins".to_owned());
                let now = self.instant();
                if self.daemon.alive {
                    self.with_servers(|servers, effects| servers.begin_upgrade(now, effects));
                    self.wake_daemon();
                }
            }
            30..75 if !living.is_empty() => {
                let pid = living[self.random.below(living.len() as u64) as usize];
                self.kill_server(pid, "was killed by signal 9");
            }
            75..85 => {
                self.terminate(client);
            }
            85..95 => {
                self.note(|| format!("client {client} is killed"));
                self.end_client(client, Fate::Killed);
            }
            95..97 => {
                self.note(|| "the daemon is killed".to_owned());
                self.daemon.alive = false;
                let waiting: Vec<usize> = (0..self.connections.len())
                    .filter(|of| self.connections[*of].server.is_none())
                    .collect();
                waiting.into_iter().for_each(|connection| self.close(connection));
                self.daemon_gone();
            }
            _ => {}
        }
        let delay = self.random.between(0, 900_000);
        self.schedule(delay, Event::Disturb);
    }

    /// True if the client has a session, which is asked to end.
    fn terminate(&mut self, client: usize) -> bool {
        let found = self.servers.iter().find_map(|(pid, server)| {
            let is_its = |s: &&crate::server::Session| s.client == client && s.active && !s.gone;
            let session = server.sessions.iter().filter(|_| server.alive).find(is_its)?;
            (Some(session.connection) == self.clients[client].connection).then_some(*pid)
        });
        let Some(pid) = found.filter(|_| self.clients[client].lives()) else { return false };
        self.note(|| format!("client {client} is terminated"));
        self.send_to_server(pid, ToServer::Terminate(client));
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Daemon => self.daemon_turn(),
            Event::Server(pid) => self.server_turn(pid),
            Event::Ready(pid) => self.server_ready(pid),
            Event::Exit(pid) => self.server_exits(pid),
            Event::Client(client) => self.client_turn(client),
            Event::Done { server, connection, slot } => {
                self.operation_done(server, connection, slot)
            }
            Event::Disturb => self.disturb(),
            Event::Terminate(client) => {
                if !self.daemon.alive {
                    // Only its own end is left.
                    self.end_client(client, Fate::Killed);
                } else if self.clients[client].lives() {
                    self.terminate(client);
                    self.schedule(300_000, Event::Terminate(client));
                }
            }
            Event::Stop => {
                // Those of its user stay, each with one in standby.
                let alive = |pid: u32| self.servers.get(&pid).is_some_and(|server| server.alive);
                let mut counts: BTreeMap<ServerKey, usize> = BTreeMap::new();
                for server in self.daemon.servers.iter().filter(|server| alive(server.pid)) {
                    *counts.entry(server.server_key()).or_default() += 1;
                }
                let standby = usize::from(self.daemon.servers.rules.standby);
                let left = counts.into_values().find(|count| *count > 1 + standby);
                if let Some(count) = left.filter(|_| self.daemon.alive) {
                    self.fail(format!("{count} servers are left without clients"));
                }
                let now = self.instant();
                self.daemon.servers.stop(Some(now + Duration::from_secs(2)), true);
                self.wake_daemon();
            }
        }
    }

    /// Runs the history of a seed.
    pub fn run(seed: u64, keeps_history: bool) -> Outcome {
        let mut world = Self::new(seed, keeps_history);
        for client in 0..world.clients.len() {
            let what = world.clients[client].describe();
            world.note(|| format!("client {client}: {what}"));
            world.wake_client(client);
        }
        let delay = world.random.between(0, 400_000);
        world.schedule(delay, Event::Disturb);
        let mut events = 0;
        while world.failure.is_none() {
            let Some((&(at_us, sequence), _)) = world.queue.first_key_value() else { break };
            let Some(event) = world.queue.remove(&(at_us, sequence)) else { break };
            world.now_us = at_us;
            events += 1;
            if at_us > END_US || events > EVENTS_MAX {
                break;
            }
            world.happen(event);
            let over = world.clients.iter().all(|client| !client.lives());
            if over && world.stops && !world.stopped {
                world.stopped = true;
                world.schedule(25_000_000, Event::Stop);
            }
            if over && world.servers.values().all(|server| !server.alive) {
                break;
            }
        }
        world.check_end();
        let fate = |client: &Client| {
            (client.fate.unwrap_or(Fate::GaveUp), client.reports, client.longest_us)
        };
        Outcome {
            failure: world.failure,
            history: world.history.unwrap_or_default(),
            fates: world.clients.iter().map(fate).collect(),
        }
    }

    fn check_end(&mut self) {
        if self.failure.is_some() {
            return;
        }
        for number in 0..self.clients.len() {
            let client = &self.clients[number];
            if client.lives() {
                let what = client.describe();
                return self.fail(format!("client {number} does not get on: {what}"));
            }
            let bound = PAUSE_US_MAX + self.failed_starts * PAUSE_OF_FAILED_START_US;
            if client.longest_us > bound && self.daemon.alive {
                let ms = client.longest_us / 1000;
                return self.fail(format!("client {number} waited {ms} ms for a server"));
            }
        }
        let left: Vec<u32> =
            self.servers.iter().filter(|(_, server)| server.alive).map(|(pid, _)| *pid).collect();
        if !left.is_empty() {
            self.fail(format!("servers {left:?} are left without clients"));
        }
    }
}
