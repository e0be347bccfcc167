//! A session: one client's requests, run in the shared context.
//!
//! A session is one thread. It pops a request from the client's ring, checks every handle and
//! address in it against the client's own tables, lets it through the gate, and gives it to the
//! provider on the client's own streams. Nothing that a client writes is a reason to panic or to
//! touch what belongs to another client; the worst that a client can do is to lose its session.
//!
//! The thread never waits inside the provider for a client's work: it polls, so that it can be
//! asked to end ([`Link`]).

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
pub use link::{End, Evidence, FaultPart, Identity, Link, Stage};
pub use memory::arrays::{ARRAYS_MAX, OBJECTS_MAX};
pub use memory::reserved::{RESERVATIONS_MAX, RESERVED_BYTES_MAX};
pub use memory::{CHUNK_GRANULARITY_BYTES, CHUNKS_MAX, HOST_PIECES_MAX, MEMORIES_MAX};
pub use module::table::{FUNCTIONS_MAX, MODULES_MAX};
pub use policy::limits::{Limits, Terms};
pub use start::spawn;
pub use stream::watchdog::limit as watchdog_limit;
pub use stream::work_in_flight::{LAUNCHES_IN_FLIGHT_MAX, OPERATIONS_OF_STREAM_MAX};

use crate::common::Common;
use crate::device::{Event, Share, Stream};
use crate::meter::Meter;
use crate::oversubscription::{Manner, Place};
use crate::window::Lease;
use channel::region::Region;
use channel::reply::ReplyWriter;
use channel::ring::{Arrival, Consumer, Record, RingBroken};
use channel::socket::SeqPacket;
use channel::wait::SpinPolicy;
use cuda_api::CudaError;
use graph::batching::Batcher;
use graph::table::Graphs;
use handles::Table;
use memory::Memory;
use memory::arrays::Arrays;
use memory::retired::Retired;
use module::table::Modules;
use policy::admission::Deferral;
use restore::Restored;
use scheduling::Class;
use spent::Spent;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stream::callbacks::Callbacks;
use stream::fences::REQUESTS_PER_LOOK_AT_FENCES;
use stream::pending::Pending;
use stream::table::Streams;
use stream::work_in_flight::WorkInFlight;

/// Most events of a client: an event is some hundred bytes at the provider.
pub const EVENTS_MAX: usize = channel::limits::EVENTS_MAX as usize;

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
/// After so many requests in a row a session looks at its work as if it were idle.
const REQUESTS_PER_LOOK: u32 = 1024;

/// A client's session. Fields are dropped in their order, users before what they use.
struct Session {
    work: WorkInFlight,
    /// Records that cannot go yet.
    pending: Pending,
    /// A record that cannot go now may wait there: nothing of it was done.
    defers: bool,
    /// Why the record that is carried out cannot go now.
    deferral: Option<Deferral>,
    /// When the work was looked at last while records wait.
    looked: Instant,
    /// Records until those that wait are tried again.
    records_until_advance: u32,
    meter: Meter,
    graphs: Graphs,
    batcher: Batcher,
    /// Launches have gone as graphs, for which the consumer coalesces records when CPUs are oversubscribed.
    coalesces: bool,
    arrays: Arrays,
    events: Table<Event>,
    streams: Streams,
    /// The session's own stream, for clearing memory, where the provider has tenants. Elsewhere
    /// there are no streams but those of programs, because all share the device's queues.
    internal: Option<Stream>,
    /// A text that was compiled to see how much room its variables need, and its cubin.
    compiled: Option<(Vec<u8>, Vec<u8>)>,
    modules: Modules,
    retired: Retired,
    callbacks: Callbacks,
    memory: Memory,
    share: Rc<Share>,
    lease: Option<Lease>,
    replies: ReplyWriter,
    consumer: Consumer,
    region: Region,
    socket: SeqPacket,
    link: Arc<Link>,
    common: Arc<Common>,
    /// The error after which nothing is done any more.
    sticky: Option<CudaError>,
    /// True if kernels were launched that may have printed text that is not fetched yet.
    printing: bool,
    place: Place,
    /// Results of a generic call: kept to use its room again.
    results: Vec<u64>,
    requests_until_look: u32,
    /// What a client that comes from another server has restored, until its work goes on.
    restored: Option<Box<Restored>>,
    /// Time by kind of request, if that is asked for.
    spent: Option<Box<Spent>>,
    /// State of the client's limits in which they were last put into effect.
    limits_version: u32,
}

impl Session {
    /// Serves requests until something ends the session.
    fn run(&mut self) {
        let mut record = Record::new();
        // A program's first work is recorded too.
        self.follow_trace();
        while self.link.ending().is_none() {
            if self.awaits_attribution() {
                self.await_attribution();
                break;
            }
            if self.must_advance() {
                self.advance();
            }
            let done = match self.pop(&mut record) {
                Ok(true) => {
                    if !self.begin_submitting() {
                        break;
                    }
                    let carried_out = if self.looks_for_batches() {
                        self.take(&mut record)
                    } else {
                        self.carry_out(&mut record);
                        Ok(())
                    };
                    self.share.in_flight().end_submitting();
                    carried_out
                }
                Ok(false) if !self.pending.is_empty() => self.wait_with_pending(),
                // What was submitted is done here before the thread sleeps, if it can be.
                Ok(false) if self.sticky.is_none() && self.share.work() => Ok(()),
                Ok(false) => self.rest(),
                Err(broken) => Err(broken),
            };
            if let Err(broken) = done {
                let name = self.link.name();
                self.common.log.line(format!("Client {name} broke the protocol: {broken}"));
                self.link.end(End::Broken);
            }
        }
    }

    /// Carries out one request, or keeps it until it can go, and looks at the work from time to time.
    fn carry_out(&mut self, record: &mut Record) {
        crate::last_request::note(record.opcode());
        self.work.arrived();
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
        self.requests_until_look = self.requests_until_look.saturating_sub(requests);
        if self.requests_until_look == 0 {
            self.requests_until_look = self.requests_per_look();
            self.look();
            self.follow_oversubscription();
        }
    }

    /// Says whether the session has work, and waits from now on as the oversubscription has it. Returns whether it
    /// has, and its client's class.
    fn follow_oversubscription(&mut self) -> (bool, Class) {
        let has_work = self.streams.may_be_busy() || !self.pending.is_empty();
        let busy = has_work && self.sticky.is_none();
        let class = self.link.scheduling.class();
        let coalesces = self.batcher.has_graphs();
        let is_other = std::mem::replace(&mut self.coalesces, coalesces) != coalesces;
        self.link.counters.ring_stalls.set(self.consumer.stalls());
        let manner = self.place.update(busy, class == Class::Latency);
        if manner.is_some() || is_other {
            let Manner { waiting, factor, critical } = self.place.manner();
            let policy = waiting.consumer_policy(SpinPolicy::of_process(), coalesces);
            self.consumer.set_policy(if critical {
                policy.with_short_poll_interval()
            } else {
                policy
            });
            self.region.set_waiting(waiting);
            self.region.set_liveness_factor(factor);
        }
        (busy, class)
    }

    /// Waits for requests. Work in flight is looked at from time to time; without any, the
    /// thread sleeps until it is rung for.
    fn rest(&mut self) -> Result<(), RingBroken> {
        let (busy, class) = self.follow_oversubscription();
        let period = match (busy, self.retired.is_empty()) {
            (true, _) => BUSY_PERIOD * self.place.factor(),
            (false, false) => RETIRED_PERIOD,
            (false, true) => IDLE_PERIOD,
        };
        let open = self.work.is_open().then_some(match class {
            Class::Latency => OPEN_LATENCY_PERIOD,
            _ => OPEN_PERIOD,
        });
        let arrival = match [self.next_look_at_fences(), open].into_iter().flatten().min() {
            Some(pause) => self.consumer.poll_sleep(pause)?,
            None => self.consumer.wait(period)?,
        };
        // What has come goes first.
        if arrival != Arrival::Records {
            self.retired.end_if_idle();
            self.look();
        }
        Ok(())
    }

    /// How long the session may sleep before it has to look at streams whose fences are kept back;
    /// `None` if there are none.
    fn next_look_at_fences(&mut self) -> Option<Duration> {
        if self.sticky.is_some() { None } else { self.streams.next_look(self.consumer.policy()) }
    }

    /// After how many requests in a row the session looks at its work.
    fn requests_per_look(&self) -> u32 {
        match self.place.shares_queues() {
            true => REQUESTS_PER_LOOK_AT_FENCES,
            false => REQUESTS_PER_LOOK,
        }
    }
}
