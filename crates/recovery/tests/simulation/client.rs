//! The clients of a history: the real journal, progress, sorting and attempts, and around them a program
//! that posts, waits and compares what it finds with what an undisturbed run gives.

use crate::operation::{ALLOCATIONS, CELLS, Memory, Nature, Operation, SLICES, STREAMS, facts};
use crate::random::{Random, mix};
use crate::world::{Event, World};
use channel::region::SessionEnd;
use channel::ring::{LocalRing, Position, Producer, RingMemory};
use channel::wait::SpinPolicy;
use recovery::servers::Seat;
use recovery::{Attempts, InFlight, Journal, Mark, Obstacle, Policy, Posted, Progress, Words};
use std::collections::VecDeque;

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
    /// The client is told once that work was lost.
    told: bool,
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
            told: false,
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
    pub policy: Policy,
    /// Where it is served.
    pub seat: Seat,
    pub memory: Memory,
    model: Memory,
    random: Random,
    progress: [Progress; STREAMS],
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
    pub told: u32,
    /// A connection ended in the middle of work since the program was told.
    rough: bool,
    /// It may have caused a fault, and was not alone yet.
    pub suspect: bool,
    /// A kernel of it has faulted.
    pub has_faulted: bool,
    pub fate: Option<Fate>,
    due_us: Option<u64>,
    careful: bool,
}

impl Client {
    pub fn new(character: Character, policy: Policy, seat: Seat, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let steps = random.between(15, 60);
        let careful = policy == Policy::Always || random.permille(500);
        Self {
            character,
            policy,
            seat,
            memory: Memory::new(),
            model: Memory::new(),
            progress: Default::default(),
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
            told: 0,
            rough: false,
            suspect: false,
            has_faulted: false,
            fate: None,
            due_us: None,
            random,
            careful,
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

    fn bit_of(&mut self, set: u64) -> u64 {
        let bits: Vec<u64> = (0..ALLOCATIONS).filter(|bit| set >> bit & 1 == 1).collect();
        bits[self.random.below(bits.len() as u64) as usize]
    }

    fn free_slice(&mut self) -> Option<u64> {
        let taken = |mark: &Option<Mark>| mark.is_some();
        self.slices.iter().position(|mark| !taken(mark)).map(|slice| slice as u64)
    }

    /// What the program does next.
    fn draw(&mut self) -> VecDeque<(usize, Operation)> {
        let slot = self.random.below(STREAMS as u64) as usize;
        self.number = mix(self.number);
        let number = self.number;
        let owned = self.owned[slot];
        // Who says that all may be repeated never writes what it reads.
        let (sources, targets) = match self.policy {
            Policy::Always => (owned & 0b1111, owned & 0b1111_0000),
            _ => (owned, owned),
        };
        let (source, target) = (self.bit_of(sources), self.bit_of(targets));
        let bad = self.bad_left > 0 && self.random.permille(80);
        let nature = match self.character {
            Character::Faulty if bad => Nature::Traps,
            Character::Endless if bad => Nature::Endless,
            _ if self.random.permille(if self.careful { 20 } else { 120 }) => Nature::Opaque,
            _ => Nature::Plain,
        };
        if matches!(nature, Nature::Traps | Nature::Endless) {
            self.bad_left -= 1;
            let writes = if self.random.permille(500) { 0 } else { 1 << target };
            return [(slot, Operation::Kernel { number, reads: 1 << source, writes, nature })]
                .into();
        }
        let cell = |allocation: u64, random: &mut Random| allocation * CELLS + random.below(CELLS);
        let one = |operation| VecDeque::from([(slot, operation)]);
        match self.random.below(100) {
            0..45 => {
                let mut reads = 1 << source | 1 << self.bit_of(sources);
                let writes = 1 << target;
                if self.careful && self.random.permille(800) {
                    reads &= !writes;
                }
                one(Operation::Kernel { number, reads, writes, nature })
            }
            45..65 => {
                let first = cell(target, &mut self.random);
                let whole = self.random.permille(700);
                let (first, count) = match whole {
                    true => (target * CELLS, CELLS),
                    false => (first, CELLS - first % CELLS),
                };
                one(Operation::Fill { number, first, count })
            }
            65..75 => {
                let (from, to) = (source * CELLS, target * CELLS);
                one(Operation::DeviceCopy { from, to, count: self.random.between(1, CELLS) })
            }
            75..83 => match self.free_slice() {
                Some(slice) => {
                    let values = (slice * CELLS..(slice + 1) * CELLS).zip(0..);
                    for (cell, index) in values {
                        self.memory.staging[cell as usize] = mix(number ^ index);
                        self.model.staging[cell as usize] = mix(number ^ index);
                    }
                    one(Operation::Upload { slice, allocation: target })
                }
                None => VecDeque::new(),
            },
            83..92 => match self.free_slice() {
                Some(slice) => one(Operation::Download { allocation: source, slice }),
                None => VecDeque::new(),
            },
            _ => {
                // Each stream comes after all of the other one: they may swap what they use.
                let (first, second) = (number & !1, number | 1);
                [
                    (0, Operation::Record { event: first }),
                    (1, Operation::Wait { event: first }),
                    (1, Operation::Record { event: second }),
                    (0, Operation::Wait { event: second }),
                ]
                .into()
            }
        }
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

    /// A client is told why there is no server.
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
        of.suspect = false;
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

    /// Another server is lost before all is declared: the next one, if an error does not end the program.
    fn lost_in_recovery(&mut self, client: usize, current: usize) {
        let connection = &self.connections[current];
        let is_end = connection.end.is_some_and(|end| end.error().is_some());
        match is_end || connection.sticky {
            true => self.find_loss(client, current),
            false => self.attempt_failed(client, Obstacle::Lost),
        }
    }

    fn begin_recovery(&mut self, client: usize) {
        self.note(|| format!("client {client} looks for a server"));
        let of = &mut self.clients[client];
        (of.attempts, of.in_flight, of.lost_at_us) = (Attempts::default(), None, self.now_us);
        self.attempt(client);
    }

    /// What `Client::move_to_another` does up to the connection.
    fn attempt(&mut self, client: usize) {
        let of = &mut self.clients[client];
        if let Some(current) = of.current {
            let old = &self.connections[current];
            of.rough |= old.rough;
            let finished = old.end == Some(SessionEnd::HandedOver);
            let words = Completed(old.words);
            let waited = of.progress.each_ref().map(Progress::waited);
            let waited = |mark: Mark| waited[mark.slot as usize] >= mark.value;
            let (journal, progress) = (&mut of.journal, &mut of.progress);
            let passed = |mark: Mark| progress[mark.slot as usize].passed(mark, &words);
            let taken = InFlight::take(journal, &old.ring, finished, passed, waited);
            of.in_flight.get_or_insert(taken);
            of.progress.iter_mut().for_each(Progress::forget_fences);
        }
        self.say_hello(client, 1);
    }

    fn say_hello(&mut self, client: usize, tries: u32) {
        let mut connection = Connection::new();
        let completed = self.clients[client].progress.each_ref().map(Progress::completed);
        connection.words = completed.map(|value| value as u32);
        let number = self.connections.len();
        if self.daemon.alive {
            self.daemon.hellos.push_back((client, number));
            self.wake_daemon();
        } else {
            connection.refused = Some(Obstacle::Lost);
        }
        self.connections.push(connection);
        self.clients[client].connection = Some(number);
        self.clients[client].recovery = Some(Recovery::Connecting { connection: number, tries });
    }

    fn attempt_failed(&mut self, client: usize, obstacle: Obstacle) {
        let now_us = self.now_us;
        self.note(|| format!("client {client}: an attempt fails, {obstacle:?}"));
        match self.clients[client].attempts.failed(obstacle) {
            Some(pause) => {
                let until_us = now_us + pause.as_micros() as u64;
                self.clients[client].recovery = Some(Recovery::Pausing { until_us, tries: 0 });
                self.client_by(client, until_us);
            }
            None => {
                if self.daemon.alive && self.broken_us.is_empty() {
                    self.fail(format!("client {client} gets no server"));
                }
                self.end_client(client, Fate::GaveUp);
            }
        }
    }

    fn recovery_turn(&mut self, client: usize) {
        let Some(recovery) = self.clients[client].recovery.clone() else { return };
        match recovery {
            Recovery::Pausing { until_us, .. } if self.now_us < until_us => {
                self.client_by(client, until_us);
            }
            Recovery::Pausing { tries: 0, .. } => self.attempt(client),
            Recovery::Pausing { tries, .. } => self.say_hello(client, tries),
            Recovery::Connecting { connection, tries } => {
                self.connecting(client, connection, tries)
            }
            Recovery::Declaring { until_us } => {
                let Some(current) = self.clients[client].current else { return };
                if self.connections[current].is_lost() {
                    self.lost_in_recovery(client, current);
                } else if self.now_us < until_us {
                    self.client_by(client, until_us);
                } else {
                    self.replay(client, current);
                }
            }
            Recovery::Posting(left) => self.post_again(client, left),
        }
    }

    fn connecting(&mut self, client: usize, connection: usize, tries: u32) {
        let now_us = self.now_us;
        let here = &self.connections[connection];
        if let Some(obstacle) = here.refused {
            return self.attempt_failed(client, obstacle);
        }
        let Some(window) = here.welcome.filter(|_| !here.closed) else {
            // Closed without a word.
            if here.closed && tries < TRIES_MAX {
                let until_us = now_us + (TRY_PAUSE_US << (tries - 1));
                self.clients[client].recovery =
                    Some(Recovery::Pausing { until_us, tries: tries + 1 });
                self.client_by(client, until_us);
            } else if here.closed || !self.daemon.alive {
                self.attempt_failed(client, Obstacle::Lost);
            }
            return;
        };
        let ring = here.ring.clone();
        let of = &mut self.clients[client];
        if of.window.replace(window).is_some_and(|before| before != window) {
            return self.fail(format!("client {client} gets other addresses than it had"));
        }
        let lost = of.current.replace(connection);
        of.replaced.extend(lost);
        // What the program was not told yet it is told by this one.
        self.connections[connection].told = lost.is_some_and(|lost| self.connections[lost].told);
        let of = &mut self.clients[client];
        of.producer = Some(Producer::new(ring, SpinPolicy::NONE));
        let until_us = now_us + self.random.between(100, 8_000);
        self.clients[client].recovery = Some(Recovery::Declaring { until_us });
        self.client_by(client, until_us);
    }

    /// What `Client::replay` does.
    fn replay(&mut self, client: usize, current: usize) {
        let of = &mut self.clients[client];
        let policy = of.policy;
        let Some(in_flight) = &mut of.in_flight else { return self.live(client, 0) };
        match in_flight.again(policy, facts) {
            Some(again) => {
                let again: VecDeque<Posted> = again.into_iter().cloned().collect();
                self.note(|| {
                    let decode = |of: &Posted| Operation::decode(of.opcode, &of.words);
                    let list: Vec<_> = again.iter().map(decode).collect();
                    format!("client {client} posts again {list:?}")
                });
                let of = &mut self.clients[client];
                for posted in &again {
                    of.progress[posted.mark.slot as usize].repeat(posted.mark.value);
                }
                let completed = of.progress.each_ref().map(Progress::completed);
                self.connections[current].words = completed.map(|value| value as u32);
                self.post_again(client, again);
            }
            None => {
                for (slot, progress) in of.progress.iter_mut().enumerate() {
                    progress.lose();
                    self.connections[current].words[slot] = progress.completed() as u32;
                }
                self.connections[current].told = true;
                self.note(|| format!("client {client} has lost work"));
                self.live(client, 0);
            }
        }
    }

    /// What `Submission::post_again` does.
    fn post_again(&mut self, client: usize, mut left: VecDeque<Posted>) {
        let Some(current) = self.clients[client].current else { return };
        while let Some(posted) = left.pop_front() {
            if !self.has_room(client, current) {
                left.push_front(posted);
                if self.connections[current].is_lost() {
                    return self.lost_in_recovery(client, current);
                }
                self.clients[client].recovery = Some(Recovery::Posting(left));
                return self.wake_client(client);
            }
            self.look_through(client, current);
            self.push(client, posted.opcode, &posted.words, Some(posted.mark));
            let slot = posted.mark.slot as usize;
            self.clients[client].progress[slot].posted_again(posted.mark.value);
        }
        for slot in 0..STREAMS {
            self.clients[client].progress[slot].all_is_posted();
            self.fence(client, slot, false);
        }
        self.live(client, current);
    }

    fn live(&mut self, client: usize, _current: usize) {
        let of = &mut self.clients[client];
        (of.recovery, of.in_flight) = (None, None);
        let pause_us = self.now_us - of.lost_at_us;
        of.longest_us = of.longest_us.max(pause_us);
        let replaced = std::mem::take(&mut of.replaced);
        self.note(|| format!("client {client} goes on after {pause_us} us"));
        replaced.into_iter().for_each(|connection| self.leave(connection));
        if let Phase::Waiting(marks, _) = self.clients[client].phase.clone() {
            self.fences_for(client, &marks);
        }
        self.wake_client(client);
    }

    fn has_room(&self, client: usize, current: usize) -> bool {
        let ring = &self.connections[current].ring;
        let used = ring.position(Position::Head) - ring.position(Position::Tail);
        let head = self.clients[client].producer.as_ref().map_or(0, Producer::head);
        debug_assert_eq!(head, ring.position(Position::Head), "client {client}");
        used + ROOM_BYTES <= Ring::RING_BYTES
    }

    fn push(&mut self, client: usize, opcode: u16, words: &[u64], mark: Option<Mark>) {
        let of = &mut self.clients[client];
        let Some(producer) = &mut of.producer else { return };
        if producer.push(opcode, words, &[], &|| true).is_err() {
            return self.fail(format!("client {client} cannot push"));
        }
        if let Some(mark) = mark {
            of.journal.note(producer.last_position(), mark);
        }
        if let Some(pid) = of.current.and_then(|current| self.connections[current].server) {
            self.wake_server(pid);
        }
    }

    /// A fence behind all that was posted to a stream; without one underway, or if `due`.
    fn fence(&mut self, client: usize, slot: usize, due: bool) {
        let progress = &mut self.clients[client].progress[slot];
        if !progress.is_unfenced() && !due {
            return;
        }
        let value = progress.posted();
        let (opcode, words) = Operation::Fence { value }.encode(slot as u64);
        self.push(client, opcode, &words, None);
        self.clients[client].progress[slot].fenced(value);
    }

    /// What `journal_is_due` does.
    fn look_through(&mut self, client: usize, current: usize) {
        let of = &self.clients[client];
        let head = of.producer.as_ref().map_or(0, Producer::head);
        if !of.journal.is_due(head) {
            return;
        }
        for slot in 0..STREAMS {
            self.fence(client, slot, false);
        }
        let connection = &self.connections[current];
        let words = Completed(connection.words);
        let of = &mut self.clients[client];
        let keeps_waited = of.policy == Policy::Always;
        let waited = of.progress.each_ref().map(Progress::waited);
        let was_waited_for = |mark: Mark| waited[mark.slot as usize] >= mark.value;
        let (journal, progress) = (&mut of.journal, &mut of.progress);
        let done = |mark: Mark| {
            progress[mark.slot as usize].passed(mark, &words)
                && (!keeps_waited || was_waited_for(mark))
        };
        let head = of.producer.as_ref().map_or(0, Producer::head);
        journal.look_through(head, &connection.ring, done, was_waited_for);
    }

    fn post(&mut self, client: usize, slot: usize, operation: Operation) {
        let Some(current) = self.clients[client].current else { return };
        if !self.has_room(client, current) {
            self.clients[client].phase = Phase::Room(slot, operation);
            return self.wake_client(client);
        }
        self.look_through(client, current);
        let value = self.clients[client].progress[slot].issue();
        let mark = Mark { slot: slot as u32, value };
        let (opcode, words) = operation.encode(slot as u64);
        self.push(client, opcode, &words, Some(mark));
        self.note(|| format!("client {client}, stream {slot}: {operation:?}"));
        let of = &mut self.clients[client];
        operation.apply(&mut of.model, None);
        match operation {
            Operation::Upload { slice, .. } => of.slices[slice as usize] = Some(mark),
            Operation::Download { slice, .. } => {
                of.slices[slice as usize] = Some(mark);
                of.downloads.push((slice, mark));
            }
            Operation::Kernel { nature: Nature::Traps, .. } => of.owed = true,
            Operation::Kernel { nature: Nature::Endless, .. } => {
                let delay = self.random.between(50_000, 900_000);
                self.schedule(delay, Event::Terminate(client));
            }
            _ => {}
        }
        self.wake_client(client);
    }

    fn step(&mut self, client: usize) {
        let words = self.clients[client].current.map(|current| self.connections[current].words);
        let of = &mut self.clients[client];
        // Slices whose uploads are done are free; those of downloads when they were looked at.
        if let Some(words) = words.map(Completed) {
            for (slice, mark) in of.slices.iter_mut().enumerate() {
                let looked_at = !of.downloads.iter().any(|(of, _)| *of == slice as u64);
                let passed = |mark: Mark| of.progress[mark.slot as usize].passed(mark, &words);
                *mark = mark.filter(|_| true);
                if looked_at && mark.is_some_and(passed) {
                    *mark = None;
                }
            }
        }
        if let Some((slot, operation)) = of.pending.pop_front() {
            if of.pending.is_empty()
                && matches!(operation, Operation::Wait { .. })
                && of.policy != Policy::Always
                && of.random.permille(700)
            {
                let first = of.random.any() & 0xff;
                if first != 0 && first != 0xff {
                    of.owned = [first, 0xff & !first];
                }
            }
            return self.post(client, slot, operation);
        }
        if of.steps == 0 {
            return self.wait_for_all(client, Why::Last);
        }
        of.steps -= 1;
        if of.character == Character::Slow && of.random.permille(60) {
            let pause = of.random.between(500_000, 4_000_000);
            of.due_us = None;
            return self.client_by(client, self.now_us + pause);
        }
        match of.random.below(100) {
            0..12 => {
                let slot = of.random.below(STREAMS as u64) as usize;
                let mark = Mark { slot: slot as u32, value: of.progress[slot].issued() };
                self.wait_for(client, vec![mark], Why::Stream(slot));
            }
            12..20 => self.wait_for_all(client, Why::All),
            20..25 => {
                let pause = of.random.between(1_000, 60_000);
                of.due_us = None;
                self.client_by(client, self.now_us + pause);
            }
            _ => {
                let drawn = of.draw();
                of.pending = drawn;
                self.wake_client(client);
            }
        }
    }

    fn wait_for_all(&mut self, client: usize, why: Why) {
        let ends = (0..STREAMS).map(|slot| Mark {
            slot: slot as u32,
            value: self.clients[client].progress[slot].issued(),
        });
        self.wait_for(client, ends.collect(), why);
    }

    fn wait_for(&mut self, client: usize, marks: Vec<Mark>, why: Why) {
        self.fences_for(client, &marks);
        self.clients[client].phase = Phase::Waiting(marks, why);
        self.wake_client(client);
    }

    fn fences_for(&mut self, client: usize, marks: &[Mark]) {
        for mark in marks {
            let slot = mark.slot as usize;
            if self.clients[client].progress[slot].fence_for(mark.value).is_some() {
                self.fence(client, slot, true);
            }
        }
    }

    /// What it waited for is done: the program hears of errors, and looks at its memory.
    fn finish_wait(&mut self, client: usize, marks: &[Mark], why: Why) {
        let Some(current) = self.clients[client].current else { return };
        let of = &mut self.clients[client];
        marks.iter().for_each(|mark| of.progress[mark.slot as usize].waited_for(mark.value));
        of.phase = Phase::Thinking;
        if std::mem::take(&mut self.connections[current].told) {
            of.told += 1;
            of.owed = false;
            if !of.rough {
                return self.fail(format!("client {client} has lost work by a planned end"));
            }
            self.note(|| format!("client {client} is told, and catches it"));
            self.clients[client].pending.clear();
            return self.wait_for_all(client, Why::Catch);
        }
        if why == Why::Catch {
            of.model = of.memory.clone();
            of.downloads.clear();
            of.slices = Default::default();
            return self.wake_client(client);
        }
        if of.owed && matches!(why, Why::All | Why::Last) {
            return self.fail(format!("nothing is said of the fault of client {client}"));
        }
        let owned = match why {
            Why::Stream(slot) => of.owned[slot],
            _ => 0xff,
        };
        // What the stream owns now may have been the other one's before, which it came after.
        for cell in 0..(ALLOCATIONS * CELLS) as usize {
            if owned >> (cell as u64 / CELLS) & 1 == 1
                && of.memory.device[cell] != of.model.device[cell]
            {
                return self.fail(format!("client {client}: cell {cell} is wrong, {why:?}"));
            }
        }
        let mut wrong = None;
        of.downloads.retain(|(slice, mark)| {
            let seen = marks.iter().any(|end| end.slot == mark.slot && end.value >= mark.value);
            let cells = (slice * CELLS) as usize..((slice + 1) * CELLS) as usize;
            if seen && of.memory.staging[cells.clone()] != of.model.staging[cells] {
                wrong = Some(*slice);
            }
            !seen
        });
        if let Some(slice) = wrong {
            return self.fail(format!("client {client}: slice {slice} is wrong, {why:?}"));
        }
        if why == Why::Last {
            return self.end_client(client, Fate::Finished);
        }
        self.wake_client(client);
    }
}
