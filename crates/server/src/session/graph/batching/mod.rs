//! Repeated batches as graphs: launches of which a program repeats the sequence go to the driver together.
//!
//! A launch costs the session's thread some 3 us of the driver's time on an H200, a node of a graph that
//! is launched again a fifteenth of that. So a session that finds launches of one stream in its ring
//! holds them until their chunk ends ([`chunk`]) while the device has other work, or the cores do; a
//! chunk that was seen before is a graph of the provider's, whose nodes get the parameters that have
//! changed. OPENMPS_LAUNCH_BATCHING says when; the cores decide by default, on the software GPU it is off.
//!
//! Invariants:
//! * Nothing is held while another request is carried out, or while the session sleeps for longer than
//!   [`HOLD`] (when CPUs are oversubscribed, than its poll sleeps in [`OVERSUBSCRIBED_HOLD_MAX`]): what is held stands in the session's tables as if it
//!   were still in the ring.
//! * Outside oversubscription launches are held only behind work of their own stream: that of another one may wait
//!   for them. A graph is launched in one stream only, for its launches wait for each other.
//! * What a graph cannot do as launches do it is never one: cooperative launches, those of the remote
//!   memory domain, streams on some SMs, clients that the gate keeps apart, launches that are timed or
//!   recorded.
//! * A graph that the provider refuses is launched one by one, with the errors that this has.

mod ahead;
mod chains;
mod chunk;
mod fill;
mod submit;

use crate::session::Session;
use crate::session::stream::submission::Submission;
use ahead::Ahead;
use chains::Alive;
use channel::request::{
    LAUNCH_COOPERATIVE, LAUNCH_PRIORITY, LAUNCH_REMOTE_DOMAIN, LaunchKernel, Request,
};
use channel::ring::{Arrival, Record, RingBroken};
use chunk::{Chunk, Chunks, LaunchKey};
use cuda_api::settings::LaunchBatching as When;
use fill::{Fill, FillsSeen};
use scheduling::Class;
use std::time::{Duration, Instant};
use submit::Kept;

/// Fewest kernels in flight for a launch to be held: the device has something to do meanwhile.
const BUSY_KERNELS: u64 = 8;
/// How often a chunk was seen before it is a graph.
const SEEN_MIN: u32 = 2;
/// As [`SEEN_MIN`], of a part: some come by chance and not again.
const PART_SEEN_MIN: u32 = 8;
/// How long a session sleeps that holds launches and has no more in its ring, while the device has work
/// for longer.
const HOLD: Duration = Duration::from_micros(50);
/// How long launches of one chunk are held when CPUs are oversubscribed, but for the last poll sleep's rest.
const OVERSUBSCRIBED_HOLD_MAX: Duration = Duration::from_millis(2);
/// Fewest launches that are worth a graph.
const GRAPH_LAUNCHES_MIN: usize = 8;
/// Fewest launches that are worth a graph where the cores have other work: 3 launches take the
/// processor for longer than a graph of them.
const OVERSUBSCRIBED_GRAPH_LAUNCHES_MIN: usize = 4;
/// Launches that are not held: with these a graph's kernels are not what launches are.
const FLAGS_ALONE: u32 = LAUNCH_COOPERATIVE | LAUNCH_REMOTE_DOMAIN | LAUNCH_PRIORITY;
/// Most bytes of parameters of a launch in a graph, which keeps them.
const PARAMETER_BYTES_MAX: usize = 4096;

/// What went as graphs.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    kernels: u64,
    launches: u64,
    made: u64,
    parameters: u64,
    /// Launches while batches were on.
    seen: u64,
    /// Sleeps with launches held.
    holds: u64,
    /// Parts of chunks that went before the rest had come.
    cut: u64,
    /// Chunks with a launch to be timed.
    timed: u64,
}

/// A session's batches.
pub struct Batcher {
    chunk: Chunk,
    /// Room for what is held, and how much is.
    records: Vec<Record>,
    held: usize,
    /// Of all words of what is held.
    held_hash: u64,
    /// When the session slept first with some of them held.
    paused_since: Option<Instant>,
    /// The chunk that ended last was seen before.
    repeats: bool,
    chunks: Chunks<Kept>,
    /// State of the client's limits under which they were seen.
    limits_version: u32,
    alive: Alive,
    /// There is no room for another graph.
    is_full: bool,
    fills: FillsSeen,
    ahead: Ahead,
    totals: Totals,
}

impl Batcher {
    /// Nothing was seen.
    pub fn new() -> Self {
        Self {
            chunk: Chunk::default(),
            records: Vec::new(),
            held: 0,
            held_hash: 0,
            paused_since: None,
            repeats: false,
            chunks: Chunks::default(),
            limits_version: 0,
            alive: Alive::default(),
            is_full: false,
            fills: FillsSeen::default(),
            ahead: Ahead::default(),
            totals: Totals::default(),
        }
    }

    /// Forgets all graphs: a function of theirs goes or changes.
    pub fn forget(&mut self) {
        self.chunks.clear();
    }

    /// What is kept of chunks: nothing if the client's limits have changed since.
    fn chunks(&mut self, limits_version: u32) -> &mut Chunks<Kept> {
        if std::mem::replace(&mut self.limits_version, limits_version) != limits_version {
            self.forget();
        }
        &mut self.chunks
    }

    /// Forgets the graphs of a stream that goes.
    pub fn forget_stream(&mut self, stream: u64) {
        self.chunks.forget_stream(stream);
    }

    /// Whether launches of the client have gone as graphs.
    pub fn has_graphs(&self) -> bool {
        self.totals.launches > 0
    }

    /// Gives all back.
    pub fn clear(&mut self) {
        self.forget();
        self.ahead.clear();
    }

    /// What went as graphs, for the log; `None` if nothing did.
    pub fn summary(&self) -> Option<String> {
        let Totals { kernels, launches, made, parameters, seen, holds, cut, timed } = self.totals;
        (launches > 0).then(|| {
            format!(
                "{kernels} of {seen} launches went in {launches} graphs, {made} were made, \
                 {parameters} kernels got other parameters, {holds} sleeps with launches held, \
                 {cut} times the rest of a chunk did not come in time, {timed} chunks had a launch to be timed"
            )
        })
    }

    /// A launch or a fill that may be one of a chain, and its stream.
    fn repeatable(&mut self, record: &Record) -> Option<(LaunchKey, u64)> {
        if record.opcode() == LaunchKernel::OPCODE {
            let launch = record.decode::<LaunchKernel<'_>>().ok()?;
            let is_one =
                launch.flags & FLAGS_ALONE == 0 && launch.parameters.len() <= PARAMETER_BYTES_MAX;
            return is_one.then(|| (LaunchKey::of(&launch), launch.stream.0 as u64));
        }
        let (fill, stream) = Fill::of(record)?;
        let key = LaunchKey::of_fill(fill);
        self.fills.came_before(key.hash()).then_some((key, stream))
    }

    fn hold(&mut self, record: &mut Record) {
        if self.held == 0 {
            (self.paused_since, self.held_hash) = (None, 0);
        }
        // Now, while it is in the cache.
        let words = record.words().iter();
        self.held_hash = words.fold(self.held_hash, |hash, word| chunk::join(hash, *word));
        if self.records.len() == self.held {
            self.records.push(Record::new());
        }
        std::mem::swap(&mut self.records[self.held], record);
        self.held += 1;
    }
}

impl Session {
    /// True if launches may go as graphs now, or some of a chunk have come for which that was so.
    #[inline]
    pub(in crate::session) fn looks_for_batches(&self) -> bool {
        match self.submission.common.launch_batching {
            When::Off => false,
            When::On => true,
            When::Oversubscribed => {
                self.submission.place.is_oversubscribed() || self.batcher.chunk.len() > 0
            }
        }
    }

    /// Carries out a request, and what follows it in the ring if it is held with that.
    pub(in crate::session) fn take(&mut self, record: &mut Record) -> Result<(), RingBroken> {
        loop {
            let Some((key, stream)) = self.batcher.repeatable(record) else {
                self.end_chunk();
                self.carry_out(record);
                return Ok(());
            };
            if stream != self.batcher.chunk.stream() {
                self.end_chunk();
                self.batcher.chunk.set_stream(stream);
            }
            self.batcher.totals.seen += u64::from(record.opcode() == LaunchKernel::OPCODE);
            if !self.may_hold() {
                self.submit_held();
                self.carry_out(record);
                if self.batcher.chunk.add(key) {
                    self.end_chunk();
                }
                return Ok(());
            }
            self.batcher.hold(record);
            if self.batcher.chunk.add(key) {
                self.end_chunk();
                return Ok(());
            }
            match self.next_while_held(record) {
                Ok(true) => {}
                Ok(false) => {
                    self.cut_chunk();
                    return Ok(());
                }
                Err(broken) => {
                    self.submit_held();
                    return Err(broken);
                }
            }
        }
    }

    /// The next request, if it is there, or comes in time while the device or the cores have enough to do.
    fn next_while_held(&mut self, record: &mut Record) -> Result<bool, RingBroken> {
        loop {
            if self.consumer.pop(record)? {
                return Ok(true);
            }
            // A tenant's work may be done by this thread.
            let may_sleep = !self.submission.share.is_tenant()
                && self.submission.link.ending().is_none()
                && self.next_look_at_fences().is_none();
            // When CPUs are oversubscribed the session would be in a poll sleep with nothing held too.
            let now = Instant::now();
            let since = *self.batcher.paused_since.get_or_insert(now);
            let polls_anyway =
                self.submission.place.is_oversubscribed() && now - since < OVERSUBSCRIBED_HOLD_MAX;
            let stream = self.batcher.chunk.stream();
            if !may_sleep || !polls_anyway && !self.batcher.ahead.lasts(stream, 2 * HOLD) {
                return Ok(false);
            }
            self.batcher.totals.holds += 1;
            // Nothing is submitted before it is awake again.
            self.submission.share.in_flight().end_submitting();
            let arrival =
                if polls_anyway { self.consumer.gather() } else { self.consumer.poll_sleep(HOLD) };
            let may_submit = self.submission.begin_submitting();
            match arrival? {
                _ if !may_submit => {
                    self.batcher.held = 0;
                    return Ok(false);
                }
                // The program is at something else, and the device may wait for what is held.
                Arrival::TimedOut if polls_anyway => return Ok(false),
                Arrival::Records | Arrival::TimedOut => {}
                Arrival::Rung => {
                    self.submit_held();
                    self.submission.look();
                    return Ok(false);
                }
            }
        }
    }

    /// Whether launches may be held: the sequence has come before, and the cores have something to do, or
    /// the device has and none of the chunk has gone.
    fn may_hold(&self) -> bool {
        let Submission { common, work, place, link, share, sticky, .. } = &self.submission;
        let device_has_work = || {
            common.launch_batching == When::On
                && self.batcher.held == self.batcher.chunk.len()
                && work.in_flight() >= BUSY_KERNELS
        };
        self.batcher.repeats
            && sticky.is_none()
            && (place.is_oversubscribed() || device_has_work())
            && link.scheduling.is_free()
            && link.scheduling.class() != Class::Latency
            && !share.device().sync().is_pending()
    }

    /// The chunk ends: what is held of it is submitted, as a graph if it is one.
    fn end_chunk(&mut self) {
        let launches_min = if self.submission.place.is_oversubscribed() {
            OVERSUBSCRIBED_GRAPH_LAUNCHES_MIN
        } else {
            GRAPH_LAUNCHES_MIN
        };
        let mut chunk = std::mem::take(&mut self.batcher.chunk);
        if chunk.len() < launches_min {
            self.submit_held();
        } else if self.batcher.held == chunk.len() {
            let (before, _) = self.submit_together(&chunk, SEEN_MIN);
            self.batcher.repeats = before > 0;
        } else {
            self.submit_part(&chunk);
            let chunks = self.batcher.chunks(self.submission.limits_version);
            self.batcher.repeats = chunks.ended(&chunk).before > 0;
        }
        chunk.clear();
        self.batcher.chunk = chunk;
    }

    /// The chunk does not end yet, but what is held of it cannot wait for the rest.
    fn cut_chunk(&mut self) {
        self.batcher.totals.cut += 1;
        let chunk = std::mem::take(&mut self.batcher.chunk);
        let is_chain = self.submit_part(&chunk);
        self.batcher.chunk = chunk;
        // What comes so slowly is not held in vain a second time.
        self.batcher.repeats &= is_chain || !self.submission.place.is_oversubscribed();
    }

    /// Submits what is held of a chunk of which other launches have gone or have not come. A pause of
    /// the program's comes again as its launches do, so that a part may be a graph as well; true if it
    /// is.
    fn submit_part(&mut self, chunk: &Chunk) -> bool {
        let held = self.batcher.held;
        if held < OVERSUBSCRIBED_GRAPH_LAUNCHES_MIN || !self.submission.place.is_oversubscribed() {
            self.submit_held();
            return false;
        }
        self.submit_together(&chunk.last(held), PART_SEEN_MIN).1
    }

    /// Submits what is held, which is that: as a graph if it was seen so often before. Returns how often
    /// it was, and whether it is a graph.
    fn submit_together(&mut self, chunk: &Chunk, seen_min: u32) -> (u32, bool) {
        // Here, because graphs may be forgotten meanwhile.
        let has_room = self.pending.is_empty() && self.submission.has_room(chunk.stream());
        let since = self.spent.as_ref().map(|_| Instant::now());
        let mut chunks = std::mem::take(self.batcher.chunks(self.submission.limits_version));
        let seen = chunks.ended(chunk);
        let before = seen.before;
        let is_chain = has_room && before >= seen_min && {
            let parts = (&mut self.submission, &self.memory);
            self.batcher.submit_chain(parts, &mut seen.kept, chunk.stream())
        };
        self.batcher.chunks = chunks;
        if std::mem::take(&mut self.batcher.is_full) {
            self.batcher.chunks.forget_oldest(Kept::has_graphs);
        }
        if !is_chain {
            self.submit_held();
            return (before, false);
        }
        let count = std::mem::take(&mut self.batcher.held) as u32;
        if let (Some(spent), Some(since)) = (&mut self.spent, since) {
            let held = &self.batcher.records[..count as usize];
            let kernels = held.iter().filter(|record| record.opcode() == LaunchKernel::OPCODE);
            spent.add(LaunchKernel::OPCODE, kernels.count() as u64, since);
        }
        self.count_requests(count);
        (before, true)
    }

    /// Submits what is held, one by one.
    fn submit_held(&mut self) {
        let count = std::mem::take(&mut self.batcher.held);
        if count > 0 {
            let mut records = std::mem::take(&mut self.batcher.records);
            records[..count].iter_mut().for_each(|record| self.carry_out(record));
            self.batcher.records = records;
        }
    }
}
