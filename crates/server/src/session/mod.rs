//! A session: one client's requests, run in the shared context.
//!
//! A session is one thread. It pops a request from the client's ring, checks every handle and
//! address in it against the client's own tables, lets it through the gate, and gives it to the
//! provider on the client's own streams. Nothing that a client writes is a reason to panic or to
//! touch what belongs to another client; the worst that a client can do is to lose its session.
//!
//! The thread never waits inside the provider for a client's work: it polls, so that it can be
//! asked to end ([`SessionLink`]).

mod calls;
mod dispatch;
mod end;
mod fault;
mod generic;
mod graph;
mod handles;
mod link;
mod memory;
mod module;
mod policy;
mod printing;
mod restore;
mod spent;
mod start;
mod stream;

pub use graph::table::{GRAPHS, GRAPHS_MAX, NODES_MAX};
pub use link::{End, FaultEvidence, FaultPart, Identity, SessionLink, Stage};
pub use memory::arrays::{ARRAYS_MAX, OBJECTS_MAX};
pub use memory::reserved::{RESERVATIONS_MAX, RESERVED_BYTES_MAX};
pub use memory::{CHUNK_GRANULARITY_BYTES, CHUNKS_MAX, HOST_PIECES_MAX, MEMORIES_MAX};
pub use module::table::{FUNCTIONS_MAX, MODULES_MAX};
pub use policy::limits::{SessionLimits, Terms};
pub use start::spawn;
pub use stream::events::EVENTS_MAX;
pub use stream::watchdog::limit as watchdog_limit;
pub use stream::work_in_flight::{LAUNCHES_IN_FLIGHT_MAX, OPERATIONS_OF_STREAM_MAX};

use crate::oversubscription::Manner;
use crate::window::Lease;
use channel::reply::ReplyWriter;
use channel::ring::{Arrival, Consumer, Record, RingBroken};
use channel::socket::SeqPacket;
use channel::wait::SpinPolicy;
use graph::batching::Batcher;
use graph::table::Graphs;
use memory::Memory;
use memory::arrays::Arrays;
use restore::Restored;
use scheduling::Class;
use spent::Spent;
use std::rc::Rc;
use std::time::{Duration, Instant};
use stream::callbacks::Callbacks;
use stream::events::Events;
use stream::pending::Pending;
use stream::submission::Submission;

/// How often a session looks at work that is in flight while no request comes: a fault shows no
/// later than that. Where hundreds of sessions are at work, less often.
const BUSY_PERIOD: Duration = Duration::from_millis(5);
/// As [`BUSY_PERIOD`], while other clients may be held because of this one's work.
const OPEN_LATENCY_PERIOD: Duration = Duration::from_micros(20);
const OPEN_PERIOD: Duration = Duration::from_micros(200);
/// How often a session without work looks whether what its client has given up can end.
const RETIRED_PERIOD: Duration = Duration::from_millis(50);
/// How long a session sleeps that has nothing to look after. A thread that has something for it
/// rings.
const IDLE_PERIOD: Duration = Duration::from_secs(10);

/// A client's session. Fields are dropped in their order, users before what they use. What touches some of
/// them only is a method of theirs.
struct Session {
    /// Records that cannot go yet.
    pending: Pending,
    /// When the work was looked at last while records wait.
    looked: Instant,
    /// Records until those that wait are tried again.
    records_until_advance: u32,
    graphs: Graphs,
    batcher: Batcher,
    /// Launches have gone as graphs, for which the consumer coalesces records when CPUs are oversubscribed.
    coalesces: bool,
    arrays: Arrays,
    events: Events,
    submission: Submission,
    callbacks: Callbacks,
    memory: Memory,
    lease: Option<Lease>,
    replies: ReplyWriter,
    consumer: Consumer,
    socket: Rc<SeqPacket>,
    /// Results of a generic call: kept to use its room again.
    results: Vec<u64>,
    /// What a client that comes from another server has restored, until its work goes on.
    restored: Option<Box<Restored>>,
    /// Time by kind of request, if that is asked for.
    spent: Option<Box<Spent>>,
}

impl Session {
    /// Serves requests until something ends the session.
    fn run(&mut self) {
        let mut record = Record::new();
        // A program's first work is recorded too.
        self.submission.follow_trace();
        while self.submission.link.ending().is_none() {
            if self.submission.awaits_attribution() {
                self.submission.await_attribution();
                break;
            }
            if self.must_advance() {
                self.advance();
            }
            let done = match self.pop(&mut record) {
                Ok(true) => {
                    if !self.submission.begin_submitting() {
                        break;
                    }
                    let carried_out = if self.looks_for_batches() {
                        self.take(&mut record)
                    } else {
                        self.carry_out(&mut record);
                        Ok(())
                    };
                    self.submission.share.in_flight().end_submitting();
                    carried_out
                }
                Ok(false) if !self.pending.is_empty() => self.wait_with_pending(),
                // What was submitted is done here before the thread sleeps, if it can be.
                Ok(false) if self.submission.sticky.is_none() && self.submission.share.work() => {
                    Ok(())
                }
                Ok(false) => self.rest(),
                Err(broken) => Err(broken),
            };
            if let Err(broken) = done {
                let name = self.submission.link.name();
                self.submission
                    .common
                    .log
                    .line(format!("Client {name} broke the protocol: {broken}"));
                self.submission.link.end(End::Broken);
            }
        }
    }

    /// Carries out one request, or keeps it until it can go, and looks at the work from time to time.
    fn carry_out(&mut self, record: &mut Record) {
        crate::last_request::note(record.opcode());
        self.submission.work.arrived();
        if !self.pending.is_empty() && self.keep_behind_others(record) {
            return;
        }
        let since = self.spent.as_ref().map(|_| Instant::now());
        match self.restored {
            None => self.dispatch_or_keep(record),
            Some(_) => self.restore(record),
        }
        if let (Some(spent), Some(since)) = (&mut self.spent, since) {
            spent.add(record.opcode(), 1, since);
        }
        self.count_requests(1);
    }

    /// So many requests were carried out: looks at the work from time to time.
    fn count_requests(&mut self, requests: u32) {
        if self.submission.is_look_due(requests) {
            self.submission.look();
            self.follow_oversubscription();
        }
    }

    /// Says whether the session has work, and waits from now on as the oversubscription has it. Returns whether it
    /// has, and its client's class.
    fn follow_oversubscription(&mut self) -> (bool, Class) {
        let Submission { streams, link, place, region, sticky, .. } = &mut self.submission;
        let has_work = streams.may_be_busy() || !self.pending.is_empty();
        let busy = has_work && sticky.is_none();
        let class = link.scheduling.class();
        let coalesces = self.batcher.has_graphs();
        let is_other = std::mem::replace(&mut self.coalesces, coalesces) != coalesces;
        link.counters.ring_stalls.set(self.consumer.stalls());
        let manner = place.update(busy, class == Class::Latency);
        if manner.is_some() || is_other {
            let Manner { waiting, factor, critical } = place.manner();
            let policy = waiting.consumer_policy(SpinPolicy::of_process(), coalesces);
            self.consumer.set_policy(if critical {
                policy.with_short_poll_interval()
            } else {
                policy
            });
            region.set_waiting(waiting);
            region.set_liveness_factor(factor);
        }
        (busy, class)
    }

    /// Waits for requests. Work in flight is looked at from time to time; without any, the
    /// thread sleeps until it is rung for.
    fn rest(&mut self) -> Result<(), RingBroken> {
        let (busy, class) = self.follow_oversubscription();
        let period = match (busy, self.memory.retired.is_empty()) {
            (true, _) => BUSY_PERIOD * self.submission.place.factor(),
            (false, false) => RETIRED_PERIOD,
            (false, true) => IDLE_PERIOD,
        };
        let open = self.submission.work.is_open().then_some(match class {
            Class::Latency => OPEN_LATENCY_PERIOD,
            _ => OPEN_PERIOD,
        });
        let arrival = match [self.next_look_at_fences(), open].into_iter().flatten().min() {
            Some(pause) => self.consumer.poll_sleep(pause)?,
            None => self.consumer.wait(period)?,
        };
        // What has come goes first.
        if arrival != Arrival::Records {
            self.memory.retired.end_if_idle();
            self.submission.look();
        }
        Ok(())
    }

    /// How long the session may sleep before it has to look at streams whose fences are kept back;
    /// `None` if there are none.
    fn next_look_at_fences(&mut self) -> Option<Duration> {
        if self.submission.sticky.is_some() {
            None
        } else {
            self.submission.streams.next_look(self.consumer.policy())
        }
    }
}
