//! Clients of a history: the real journal, progress, sorting and attempts, and around them a program.

mod posting;
mod program;
mod recovering;

use crate::operation::{ALLOCATIONS, CELLS, Memory, Nature, Operation, SLICES, STREAMS, facts};
use crate::random::{Random, mix};
use crate::world::{Event, World};
use channel::region::SessionEnd;
use channel::ring::{LocalRing, Position, Producer, RingMemory};
use channel::wait::SpinPolicy;
use recovery::servers::ServerKey;
use recovery::{
    Attempts, InFlight, Journal, Mark, Obstacle, Order, Posted, Progress, ReplayPolicy, Words,
};
use std::collections::{BTreeMap, VecDeque};

/// A small ring, so that it is full and written again often.
pub type Ring = LocalRing<4096>;
/// Room that there must be in the ring for a record and the fences before it.
const ROOM_BYTES: u64 = 1024;
/// Attempts of one handshake, and the pause before the second one (`connection/handshake.rs`).
const TRIES_MAX: u32 = 6;
const TRY_PAUSE_US: u64 = 10_000;

/// A connection as both sides see it.
pub struct Connection {
    pub ring: Ring,
    /// Completion words, by stream.
    pub words: [u32; STREAMS],
    pub server: Option<u32>,
    pub welcome: Option<u32>,
    pub refused: Option<Obstacle>,
    /// The other side has closed it.
    pub closed: bool,
    /// The session has ended, and what it said.
    pub ended: bool,
    pub end: Option<SessionEnd>,
    pub sticky: bool,
    /// The client has closed it.
    pub left: bool,
    /// It ended in the middle of work.
    pub rough: bool,
    /// That work was lost is to be reported to the program once.
    to_report: bool,
}

impl Connection {
    fn new() -> Self {
        Self {
            ring: Ring::default(),
            words: [0; STREAMS],
            server: None,
            welcome: None,
            refused: None,
            closed: false,
            ended: false,
            end: None,
            sticky: false,
            left: false,
            rough: false,
            to_report: false,
        }
    }

    fn is_lost(&self) -> bool {
        self.closed || self.ended
    }
}

/// Completion words, as [`Progress`] asks for them.
struct Completed([u32; STREAMS]);

impl Words for Completed {
    fn word(&self, slot: u32) -> u32 {
        self.0[slot as usize]
    }
}

/// What a program is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Character {
    Honest,
    /// One of its kernels faults.
    Faulty,
    /// One of its kernels never ends.
    Endless,
    /// It leaves its device idle for seconds.
    Slow,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Finished,
    Sticky,
    Terminated,
    ShutDown,
    Killed,
    /// No server was to be had.
    GaveUp,
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Stream(usize),
    All,
    /// Its work was lost: it begins anew with what there is.
    Catch,
    Last,
}

#[derive(Clone, Debug)]
enum Phase {
    Thinking,
    /// The ring is full.
    Room(usize, Operation),
    Waiting(Vec<Mark>, Why),
    Over,
}

/// How far it is with another server in the place of a lost one.
#[derive(Clone, Debug)]
enum Recovery {
    Connecting {
        connection: usize,
        tries: u32,
    },
    /// Another try, or another attempt.
    Pausing {
        until_us: u64,
        tries: u32,
    },
    Declaring {
        until_us: u64,
    },
    Posting(VecDeque<Posted>),
}

/// A program with its client library.
pub struct Client {
    pub character: Character,
    pub policy: ReplayPolicy,
    /// Where it is served.
    pub server_key: ServerKey,
    pub memory: Memory,
    model: Memory,
    random: Random,
    progress: [Progress; STREAMS],
    order: [Order; STREAMS],
    /// Where events were recorded last.
    recorded: BTreeMap<u64, Mark>,
    /// Allocations that were filled since the program last waited.
    fresh: u64,
    journal: Journal<Ring>,
    producer: Option<Producer<Ring>>,
    /// The one that calls go to.
    current: Option<usize>,
    /// The one that it has, or asks for.
    pub connection: Option<usize>,
    window: Option<u32>,
    phase: Phase,
    recovery: Option<Recovery>,
    attempts: Attempts,
    in_flight: Option<InFlight>,
    replaced: Vec<usize>,
    lost_at_us: u64,
    pub longest_us: u64,
    /// Operations that the program will post next.
    pending: VecDeque<(usize, Operation)>,
    steps: u64,
    number: u64,
    /// Allocations that each stream uses.
    owned: [u64; STREAMS],
    /// By slice of staging: until when it is in use.
    slices: [Option<Mark>; SLICES as usize],
    /// Downloads that the program has not looked at.
    downloads: Vec<(u64, Mark)>,
    /// A kernel that faults was posted, and nothing was said of it.
    owed: bool,
    bad_left: u32,
    pub reports: u32,
    /// A connection ended in the middle of work since the last report.
    rough: bool,
    /// It may have caused a fault, and was not alone yet.
    pub candidate: bool,
    /// A kernel of it has faulted.
    pub has_faulted: bool,
    pub fate: Option<Fate>,
    due_us: Option<u64>,
    careful: bool,
}

impl Client {
    pub fn new(
        character: Character,
        policy: ReplayPolicy,
        server_key: ServerKey,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed);
        let steps = random.between(15, 60);
        let careful = policy == ReplayPolicy::Always || random.permille(500);
        Self {
            character,
            policy,
            server_key,
            memory: Memory::new(),
            model: Memory::new(),
            progress: Default::default(),
            order: Default::default(),
            recorded: BTreeMap::new(),
            fresh: 0,
            journal: Journal::new(),
            producer: None,
            current: None,
            connection: None,
            window: None,
            phase: Phase::Thinking,
            recovery: None,
            attempts: Attempts::default(),
            in_flight: None,
            replaced: Vec::new(),
            lost_at_us: 0,
            longest_us: 0,
            pending: VecDeque::new(),
            steps,
            number: mix(seed),
            owned: [0b0011_0011, 0b1100_1100],
            slices: Default::default(),
            downloads: Vec::new(),
            owed: false,
            bad_left: random.between(1, 2) as u32,
            reports: 0,
            rough: false,
            candidate: false,
            has_faulted: false,
            fate: None,
            due_us: None,
            random,
            careful,
        }
    }

    /// What `Streams::waited_for` does.
    fn waited_for(&mut self, mark: Mark) {
        let mut marks = vec![mark];
        while let Some(Mark { slot, value }) = marks.pop() {
            let progress = &mut self.progress[slot as usize];
            if progress.waited() < value {
                progress.waited_for(value);
                self.order[slot as usize].waited_for(value, &mut marks);
            }
        }
    }

    /// True while its process is there.
    pub fn lives(&self) -> bool {
        self.fate.is_none()
    }

    /// True if it waits for room in its ring.
    pub fn wants_room(&self) -> bool {
        matches!(self.phase, Phase::Room(..)) || self.recovery.is_some()
    }

    /// For a person.
    pub fn describe(&self) -> String {
        format!(
            "{:?}, OPENMPS_REPLAY={:?}, {:?}, recovery {:?}, fate {:?}, steps left {}",
            self.character, self.policy, self.phase, self.recovery, self.fate, self.steps
        )
    }
}

impl World {
    pub fn wake_client(&mut self, client: usize) {
        let delay = match self.random.below(10) {
            0 => self.random.between(3_000, 10_000),
            _ => self.random.between(10, 1_000),
        };
        self.client_by(client, self.now_us + delay);
    }

    fn client_by(&mut self, client: usize, at_us: u64) {
        let now_us = self.now_us;
        let due = &mut self.clients[client].due_us;
        if due.is_none_or(|due| due > at_us || due < now_us) {
            *due = Some(at_us);
            self.schedule_at(at_us, Event::Client(client));
        }
    }

    /// The other side closes a connection.
    pub fn close(&mut self, connection: usize) {
        self.connections[connection].closed = true;
        self.wake_owner(connection);
    }

    /// A client learns why there is no server.
    pub fn refuse(&mut self, connection: usize, obstacle: Obstacle) {
        self.connections[connection].refused = Some(obstacle);
        self.wake_owner(connection);
    }

    fn wake_owner(&mut self, connection: usize) {
        let mut clients = self.clients.iter();
        let is_its = |of: &Client| [of.connection, of.current].contains(&Some(connection));
        if let Some(client) = clients.position(is_its) {
            self.wake_client(client);
        }
    }

    /// The client closes a connection.
    pub fn leave(&mut self, connection: usize) {
        self.connections[connection].left = true;
        if let Some(pid) = self.connections[connection].server {
            self.wake_server(pid);
        }
    }

    /// A program ends.
    pub fn end_client(&mut self, client: usize, fate: Fate) {
        let of = &mut self.clients[client];
        if of.fate.is_some() {
            return;
        }
        of.fate = Some(fate);
        of.phase = Phase::Over;
        of.candidate = false;
        let all: Vec<usize> =
            of.replaced.drain(..).chain(of.current).chain(of.connection).collect();
        self.note(|| format!("client {client} ends: {fate:?}"));
        all.into_iter().for_each(|connection| self.leave(connection));
    }

    /// One turn of a client's thread.
    pub fn client_turn(&mut self, client: usize) {
        let of = &mut self.clients[client];
        if of.due_us != Some(self.now_us) || of.fate.is_some() {
            return;
        }
        of.due_us = None;
        // A process that does not run sees what happens later.
        self.client_by(client, self.now_us + 10_000);
        if self.clients[client].recovery.is_some() {
            return self.recovery_turn(client);
        }
        let Some(current) = self.clients[client].current else {
            return self.begin_recovery(client);
        };
        match self.clients[client].phase.clone() {
            Phase::Over => {}
            Phase::Waiting(marks, why) => {
                let words = Completed(self.connections[current].words);
                let of = &mut self.clients[client];
                let passed = |mark: &Mark| of.progress[mark.slot as usize].passed(*mark, &words);
                if marks.to_vec().iter().all(passed) {
                    self.finish_wait(client, &marks, why);
                } else if self.has_lost(client, current) {
                    self.find_loss(client, current);
                }
            }
            Phase::Room(..) | Phase::Thinking if self.has_lost(client, current) => {
                self.find_loss(client, current);
            }
            Phase::Room(slot, operation) => {
                self.clients[client].phase = Phase::Thinking;
                self.post(client, slot, operation);
            }
            Phase::Thinking => self.step(client),
        }
    }

    fn has_lost(&self, _client: usize, current: usize) -> bool {
        self.connections[current].is_lost()
    }

    /// A call finds that its server is gone.
    fn find_loss(&mut self, client: usize, current: usize) {
        let connection = &self.connections[current];
        self.clients[client].rough |= connection.rough;
        if connection.sticky {
            if !self.clients[client].has_faulted {
                self.fail(format!(
                    "client {client} gets a sticky error without a fault of its own"
                ));
            }
            return self.end_client(client, Fate::Sticky);
        }
        match connection.end {
            Some(SessionEnd::Terminated) => self.end_client(client, Fate::Terminated),
            Some(SessionEnd::ServerShutDown) => self.end_client(client, Fate::ShutDown),
            _ => self.begin_recovery(client),
        }
    }
}
