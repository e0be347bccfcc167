//! Repeated stretches as graphs: launches of which a program repeats the sequence go to the driver together.
//!
//! A launch costs the session's thread some 3 us of the driver's time on an H200, a node of a graph that
//! is launched again a fifteenth of that. So a session that finds launches of one stream in its ring
//! while the device has other work holds them until their chunk ends ([`chunk`]); one that was seen
//! before is a graph of the provider's, whose nodes get the parameters that have changed. Off unless
//! OPENMPS_STRETCHES says on.
//!
//! Invariants:
//! * Nothing is held while another request is carried out, or while the session sleeps for longer than
//!   [`HOLD`]: what is held stands in the session's tables as if it were still in the ring.
//! * What a graph cannot do as launches do it is never one: cooperative launches, those of the remote
//!   memory domain, streams on some SMs, clients that the gate keeps apart, launches that are timed or
//!   recorded.
//! * A graph that the provider refuses is launched one by one, with the errors that this has.

mod ahead;
mod chunk;

use super::Session;
use super::modules::Modules;
use super::posts::launch_shape;
use super::streams::Work;
use super::under_way::Code;
use crate::device::{KernelChain, LaunchShape};
use crate::meter::{Meter, ShapeCounters};
use ahead::Ahead;
use channel::request::{LAUNCH_COOPERATIVE, LAUNCH_REMOTE_DOMAIN, LaunchKernel, Request};
use channel::ring::{Arrival, Record, RingBroken};
use chunk::{Chunk, Chunks, LAUNCHES_MIN, LaunchKey};
use cuda_api::CudaError;
use scheduling::Class;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Fewest kernels in flight for a launch to be held: the device has something to do meanwhile.
const BUSY_KERNELS: u32 = 8;
/// How often a chunk was seen before it is a graph.
const SEEN_MIN: u32 = 2;
/// How long a session sleeps that holds launches and has no more in its ring, while the device has work
/// for longer.
const HOLD: Duration = Duration::from_micros(50);
/// Launches that are not held: with these a graph's kernels are not what launches are.
const FLAGS_ALONE: u32 = LAUNCH_COOPERATIVE | LAUNCH_REMOTE_DOMAIN;

/// A launch of a chain.
struct Node {
    function: u64,
    shape: LaunchShape,
    /// What is counted of it.
    counters: Arc<ShapeCounters>,
    /// The parameters that it has now.
    parameters: Vec<u8>,
}

/// What is kept of a chunk.
#[derive(Default)]
enum Kept {
    /// Nothing yet.
    #[default]
    Nothing,
    /// A graph.
    Chain(KernelChain, Vec<Node>),
    /// The provider has no graph of it.
    Refused,
}

/// What went as graphs.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    kernels: u64,
    launches: u64,
    made: u64,
    parameters: u64,
    /// Launches while stretches were on.
    seen: u64,
    /// Sleeps with launches held.
    holds: u64,
}

/// A session's stretches.
pub struct Stretches {
    chunk: Chunk,
    /// The stream of the chunk.
    stream: u64,
    /// Room for what is held, and how much is.
    records: Vec<Record>,
    held: usize,
    /// The chunk that ended last was seen before.
    repeats: bool,
    chunks: Chunks<Kept>,
    ahead: Ahead,
    totals: Totals,
}

impl Stretches {
    /// Nothing was seen.
    pub fn new() -> Self {
        Self {
            chunk: Chunk::default(),
            stream: 0,
            records: Vec::new(),
            held: 0,
            repeats: false,
            chunks: Chunks::default(),
            ahead: Ahead::default(),
            totals: Totals::default(),
        }
    }

    /// Forgets all graphs: a function of theirs goes or changes, or the client's share does.
    pub fn forget(&mut self) {
        self.chunks.clear();
    }

    /// Gives all back.
    pub fn clear(&mut self) {
        self.forget();
        self.ahead.clear();
    }

    /// What went as graphs, for the log; `None` if nothing did.
    pub fn summary(&self) -> Option<String> {
        let Totals { kernels, launches, made, parameters, seen, holds } = self.totals;
        (launches > 0).then(|| {
            format!(
                "{kernels} of {seen} launches went in {launches} graphs, {made} were made, \
                 {parameters} kernels got other parameters, {holds} sleeps with launches held"
            )
        })
    }

    fn hold(&mut self, record: &mut Record) {
        if self.records.len() == self.held {
            self.records.push(Record::new());
        }
        std::mem::swap(&mut self.records[self.held], record);
        self.held += 1;
    }
}

impl Session {
    /// Carries out a request, and what follows it in the ring if it is held with that.
    pub(super) fn take(&mut self, record: &mut Record) -> Result<(), RingBroken> {
        loop {
            let Some((key, stream)) = repeatable(record) else {
                self.end_chunk();
                self.carry_out(record);
                return Ok(());
            };
            if stream != self.stretches.stream {
                self.end_chunk();
                self.stretches.stream = stream;
            }
            self.stretches.totals.seen += 1;
            if !self.may_hold() {
                self.submit_held();
                self.carry_out(record);
                if self.stretches.chunk.add(key) {
                    self.end_chunk();
                }
                return Ok(());
            }
            self.stretches.hold(record);
            if self.stretches.chunk.add(key) {
                self.end_chunk();
                return Ok(());
            }
            match self.next_while_held(record) {
                Ok(true) => {}
                Ok(false) => {
                    self.submit_held();
                    return Ok(());
                }
                Err(broken) => {
                    self.submit_held();
                    return Err(broken);
                }
            }
        }
    }

    /// The next request, if it is there or the device has enough to do until it comes.
    fn next_while_held(&mut self, record: &mut Record) -> Result<bool, RingBroken> {
        loop {
            if self.consumer.pop(record)? {
                return Ok(true);
            }
            // A tenant's work may be done by this thread.
            let may_sleep = !self.share.is_tenant() && self.link.ending().is_none();
            if !may_sleep || !self.stretches.ahead.lasts(2 * HOLD) {
                return Ok(false);
            }
            self.stretches.totals.holds += 1;
            match self.consumer.nap(HOLD)? {
                Arrival::Records | Arrival::TimedOut => {}
                Arrival::Rung => {
                    self.submit_held();
                    self.look();
                    return Ok(false);
                }
            }
        }
    }

    /// Whether launches may be held: the sequence has come before, none of the chunk has gone, and the
    /// device has something to do.
    fn may_hold(&self) -> bool {
        self.stretches.repeats
            && self.stretches.held == self.stretches.chunk.len()
            && self.sticky.is_none()
            && self.gate.in_flight() >= BUSY_KERNELS
            && self.link.scheduling.is_free()
            && self.link.scheduling.class() != Class::Latency
            && !self.share.device().sync().is_pending()
    }

    /// The chunk ends: what is held of it is submitted, as a graph if it is one.
    fn end_chunk(&mut self) {
        if self.stretches.chunk.len() < LAUNCHES_MIN {
            self.submit_held();
            return self.stretches.chunk.clear();
        }
        let is_whole = self.stretches.held == self.stretches.chunk.len();
        // Here, because graphs may be forgotten meanwhile.
        let has_room = is_whole && self.wait_for_room().is_ok();
        let since = self.spent.as_ref().map(|_| Instant::now());
        let mut chunks = std::mem::take(&mut self.stretches.chunks);
        let seen = chunks.ended(&self.stretches.chunk);
        self.stretches.repeats = seen.before > 0;
        let is_chain = has_room && seen.before >= SEEN_MIN && self.submit_chain(&mut seen.kept);
        self.stretches.chunks = chunks;
        self.stretches.chunk.clear();
        if !is_chain {
            return self.submit_held();
        }
        let count = std::mem::take(&mut self.stretches.held) as u32;
        if let (Some(spent), Some(since)) = (&mut self.spent, since) {
            spent.add(LaunchKernel::OPCODE, count.into(), since);
        }
        self.count_requests(count);
    }

    /// Submits what is held, one by one.
    fn submit_held(&mut self) {
        let count = std::mem::take(&mut self.stretches.held);
        if count > 0 {
            let records = std::mem::take(&mut self.stretches.records);
            records[..count].iter().for_each(|record| self.carry_out(record));
            self.stretches.records = records;
        }
    }

    /// Submits what is held as one graph; false if nothing was submitted.
    fn submit_chain(&mut self, kept: &mut Kept) -> bool {
        let stream = self.stretches.stream;
        if matches!(kept, Kept::Refused)
            || self.sticky.is_some()
            || self.common.trace.is_on()
            || self.share.device().sync().is_pending()
            || !self.streams.has_all_sms(stream)
        {
            return false;
        }
        let records = std::mem::take(&mut self.stretches.records);
        let held = &records[..self.stretches.held];
        let submitted = match self.chain(kept, held) {
            Ok(true) => self.launch_chain(kept, stream),
            Ok(false) => Ok(false),
            Err(error) => Err(error),
        };
        self.stretches.records = records;
        if submitted.is_err() {
            // One by one, what was wrong is said as it always is.
            *kept = Kept::Refused;
        }
        submitted.unwrap_or(false)
    }

    /// Makes the chain, or gives it the parameters of these launches. False if some of them are to be
    /// timed.
    fn chain(&mut self, kept: &mut Kept, held: &[Record]) -> Result<bool, CudaError> {
        let launches = held.iter().map(|record| {
            let launch = record.decode::<LaunchKernel<'_>>();
            launch.map_err(|_| CudaError::INVALID_VALUE)
        });
        if !matches!(kept, Kept::Chain(..)) {
            let table = self.share.device().table();
            let mut nodes = Vec::with_capacity(held.len());
            for launch in launches {
                let LaunchKernel { function, grid, block, shared_bytes, flags, parameters, .. } =
                    launch?;
                let shape = launch_shape(grid, block, shared_bytes, flags)?;
                let loaded = self.modules.loaded_mut(function.0 as u64)?;
                if loaded.may_print {
                    return Err(CudaError::NOT_SUPPORTED);
                }
                let counters = loaded.meter.counters(table, &loaded.function, &shape);
                let (function, parameters) = (function.0 as u64, parameters.to_vec());
                nodes.push(Node { function, shape, counters, parameters });
            }
            if !may_pass(&mut self.meter, &nodes) {
                return Ok(false);
            }
            let mut of = Vec::with_capacity(nodes.len());
            for node in &nodes {
                of.push((self.modules.function(node.function)?, node.shape, &node.parameters[..]));
            }
            let chain = KernelChain::new(&self.share, of.into_iter())?;
            self.stretches.totals.made += 1;
            *kept = Kept::Chain(chain, nodes);
            return Ok(true);
        }
        let Kept::Chain(chain, nodes) = kept else { return Ok(false) };
        if !may_pass(&mut self.meter, nodes) {
            return Ok(false);
        }
        for (number, (node, launch)) in nodes.iter_mut().zip(launches).enumerate() {
            let parameters = launch?.parameters;
            if node.parameters != parameters {
                set(chain, number, node, &self.modules, parameters)?;
                self.stretches.totals.parameters += 1;
            }
        }
        Ok(true)
    }

    fn launch_chain(&mut self, kept: &Kept, stream: u64) -> Result<bool, CudaError> {
        let Kept::Chain(chain, nodes) = kept else { return Ok(false) };
        let slot = self.streams.enter(stream, Work::Ordered)?;
        chain.launch(&slot.stream)?;
        let count = nodes.len() as u32;
        let mut predicted_ns = 0;
        if self.meter.is_counting() {
            let table = self.share.device().table();
            for node in nodes {
                // It is there as long as the chain; and what was submitted is not submitted again.
                if let Ok(loaded) = self.modules.loaded_mut(node.function) {
                    loaded.meter.before(table, &loaded.function, &node.shape);
                    slot.counters.launched(loaded.meter.submitted());
                }
                predicted_ns += node.counters.prediction().map_or(0, |known| known.device_ns);
            }
        }
        if let Some(last) = nodes.last()
            && let Ok(loaded) = self.modules.loaded_mut(last.function)
        {
            slot.under_way.launched(Code::Kernel(last.function), loaded.launches);
            loaded.launches = loaded.launches.saturating_add(1);
        }
        if !self.place.shares_queues() {
            self.stretches.ahead.submitted(&self.share, &slot.stream, count, predicted_ns);
        }
        let totals = &mut self.stretches.totals;
        (totals.kernels, totals.launches) =
            (totals.kernels + u64::from(count), totals.launches + 1);
        // The graph was submitted, so that an error of the mark behind it must not have it repeated.
        let marked = self.gate.submitted(slot, count, None);
        self.posted(marked);
        Ok(true)
    }
}

/// A launch that may be one of a chain, and its stream.
fn repeatable(record: &Record) -> Option<(LaunchKey, u64)> {
    if record.opcode() != LaunchKernel::OPCODE {
        return None;
    }
    let launch = record.decode::<LaunchKernel<'_>>().ok()?;
    let stream = launch.stream.0 as u64;
    (launch.flags & FLAGS_ALONE == 0).then(|| (LaunchKey::of(&launch), stream))
}

/// False if one of these launches is to be timed, which is done of launches by themselves.
fn may_pass(meter: &mut Meter, nodes: &[Node]) -> bool {
    meter.pass_over(nodes.iter().map(|node| &*node.counters))
}

/// Gives a launch of a chain other parameters.
fn set(
    chain: &KernelChain,
    number: usize,
    node: &mut Node,
    modules: &Modules,
    parameters: &[u8],
) -> Result<(), CudaError> {
    chain.set_parameters(number, modules.function(node.function)?, node.shape, parameters)?;
    node.parameters.clear();
    node.parameters.extend_from_slice(parameters);
    Ok(())
}
