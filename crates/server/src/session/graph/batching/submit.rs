//! Submission of a chunk as a graph: made once for each set of parameters that comes again, launched with those of now.
//!
//! A graph that the provider refuses is never asked for again; its launches go one by one.

use super::Batcher;
use super::chains::{ChainChoice, Variants};
use super::fill::Fill;
use crate::device::{ChainWork, CheckedRange, LaunchShape, NodeChain};
use crate::meter::{Direction, Launched, Meter, ShapeCounters};
use crate::session::memory::Memory;
use crate::session::module::table::Modules;
use crate::session::stream::code_in_flight::Code;
use crate::session::stream::posts::launch_shape;
use crate::session::stream::submission::Submission;
use crate::session::stream::table::Work;
use channel::request::LaunchKernel;
use channel::ring::Record;
use cuda_api::CudaError;
use std::sync::Arc;

/// A launch of a chain.
struct Launch {
    function: u64,
    shape: LaunchShape,
    /// What is counted of it.
    counters: Arc<ShapeCounters>,
    /// The parameters that it has now.
    parameters: Vec<u8>,
}

/// What a node of a chain does.
enum Node {
    Kernel(Launch),
    /// The same each time.
    Fill(Fill),
}

/// A graph of a chunk.
pub(super) struct Chain {
    graph: NodeChain,
    nodes: Vec<Node>,
}

/// What is kept of a chunk.
pub(super) enum Kept {
    /// Its graphs.
    Chains(Variants<Chain>),
    /// The provider has no graph of it.
    Refused,
}

impl Default for Kept {
    fn default() -> Self {
        Self::Chains(Variants::default())
    }
}

impl Kept {
    /// True if there are graphs of it.
    pub(super) fn has_graphs(&self) -> bool {
        matches!(self, Self::Chains(variants) if variants.has_some())
    }
}

impl Batcher {
    /// Submits what is held as one graph; false if nothing was submitted.
    pub(super) fn submit_chain(
        &mut self,
        (submission, memory): (&mut Submission, &Memory),
        kept: &mut Kept,
        stream: u64,
    ) -> bool {
        if matches!(kept, Kept::Refused)
            || submission.sticky.is_some()
            || submission.common.trace.is_on()
            || !submission.link.scheduling.is_free()
            || submission.share.device().sync().is_pending()
            || !submission.streams.has_all_sms(stream)
        {
            return false;
        }
        let records = std::mem::take(&mut self.records);
        let held = &records[..self.held];
        let submitted = match kept {
            Kept::Chains(variants) => match self.chain((submission, memory), variants, held) {
                Ok(Some(chain)) => self.launch_chain(submission, chain, stream),
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            },
            Kept::Refused => Ok(false),
        };
        self.records = records;
        if submitted.is_err() {
            // One by one, what was wrong is said as it always is.
            *kept = Kept::Refused;
        }
        submitted.unwrap_or(false)
    }

    /// The graph of these launches and fills, with their parameters. `None` if some of them are to be timed, or there
    /// is no room for a graph.
    fn chain<'a>(
        &mut self,
        (submission, memory): (&mut Submission, &Memory),
        variants: &'a mut Variants<Chain>,
        held: &[Record],
    ) -> Result<Option<&'a Chain>, CudaError> {
        let hash = self.held_hash;
        let index = match variants.choose(hash, held.len(), &self.alive) {
            ChainChoice::Use(index) => index,
            ChainChoice::NoRoom => {
                self.is_full = true;
                return Ok(None);
            }
            ChainChoice::Make => match self.make_chain(submission, memory, held) {
                Ok(Some(chain)) => {
                    let index = variants.add(chain, hash, held.len(), &self.alive);
                    return Ok(variants.used(index, hash));
                }
                Ok(None) => return Ok(None),
                // There may be no memory for one more.
                Err(error) => variants.make_no_more().ok_or(error)?,
            },
        };
        let Some(Chain { graph, nodes }) = variants.graph(index) else { return Ok(None) };
        if !may_pass(&mut submission.meter, nodes) {
            self.totals.timed += 1;
            return Ok(None);
        }
        for (number, (node, record)) in nodes.iter_mut().zip(held).enumerate() {
            match node {
                Node::Kernel(launch) => {
                    let parameters = decode(record)?.parameters;
                    if launch.parameters != parameters {
                        set(graph, number, launch, &submission.modules, parameters)?;
                        self.totals.parameters += 1;
                    }
                }
                // The client may have freed it.
                Node::Fill(fill) => drop(range_of(memory, *fill)?),
            }
        }
        Ok(variants.used(index, hash))
    }

    /// Makes a graph of launches and fills; `None` if some of them are to be timed.
    fn make_chain(
        &mut self,
        submission: &mut Submission,
        memory: &Memory,
        held: &[Record],
    ) -> Result<Option<Chain>, CudaError> {
        let calls = submission.share.device().calls();
        let mut nodes = Vec::with_capacity(held.len());
        for record in held {
            if let Some((fill, _)) = Fill::of(record) {
                nodes.push(Node::Fill(fill));
                continue;
            }
            let LaunchKernel { function, grid, block, shared_bytes, flags, parameters, .. } =
                decode(record)?;
            let shape = launch_shape(grid, block, shared_bytes, flags)?;
            let loaded = submission.modules.loaded_mut(function.0 as u64)?;
            if loaded.may_print {
                return Err(CudaError::NOT_SUPPORTED);
            }
            let counters = loaded.meter.counters(calls, &loaded.function, &shape);
            let (function, parameters) = (function.0 as u64, parameters.to_vec());
            nodes.push(Node::Kernel(Launch { function, shape, counters, parameters }));
        }
        if !may_pass(&mut submission.meter, &nodes) {
            self.totals.timed += 1;
            return Ok(None);
        }
        let mut work = Vec::with_capacity(nodes.len());
        for node in &nodes {
            work.push(match node {
                Node::Kernel(launch) => {
                    let function = submission.modules.function(launch.function)?;
                    ChainWork::Kernel(function, launch.shape, &launch.parameters)
                }
                Node::Fill(fill) => {
                    let range = range_of(memory, *fill)?;
                    ChainWork::Fill(range, (fill.value, fill.element_bytes), fill.count)
                }
            });
        }
        let graph = NodeChain::new(&submission.share, work.into_iter())?;
        self.totals.made += 1;
        Ok(Some(Chain { graph, nodes }))
    }

    fn launch_chain(
        &mut self,
        submission: &mut Submission,
        chain: &Chain,
        stream: u64,
    ) -> Result<bool, CudaError> {
        let Chain { graph, nodes } = chain;
        let slot = submission.streams.enter(stream, Work::Ordered)?;
        graph.launch(&slot.stream)?;
        // An event behind the graph costs the processor as much as some of its kernels.
        let is_marked = !submission.place.is_oversubscribed() && !submission.place.shares_queues();
        let (mut count, mut predicted_ns, mut sum) = (0, 0, Launched::default());
        let (calls, is_counting) =
            (submission.share.device().calls(), submission.meter.is_counting());
        for node in nodes {
            let node = match node {
                Node::Kernel(launch) => launch,
                Node::Fill(fill) => {
                    slot.counters.copied(Direction::Within, fill.bytes());
                    continue;
                }
            };
            count += 1;
            // It is there as long as the chain; and what was submitted is not submitted again.
            let Ok(loaded) = submission.modules.loaded_mut(node.function) else { continue };
            slot.code_in_flight.launched(Code::Kernel(node.function), loaded.launches);
            loaded.launches = loaded.launches.saturating_add(1);
            if is_counting {
                loaded.meter.before(calls, &loaded.function, &node.shape);
                sum.add(loaded.meter.submitted());
            }
            if is_counting && is_marked {
                predicted_ns += node.counters.launch_time().map_or(0, |known| known.device_ns);
            }
        }
        if is_counting {
            slot.load.unmarked_ns = slot.load.unmarked_ns.saturating_add(sum.device_ns);
            slot.counters.launched(sum);
        }
        if is_marked {
            let of = (stream, &slot.stream);
            self.ahead.submitted(&submission.share, of, count, predicted_ns);
        }
        let totals = &mut self.totals;
        (totals.kernels, totals.launches) =
            (totals.kernels + u64::from(count), totals.launches + 1);
        // The graph was submitted, so that an error of the mark behind it must not have it repeated.
        let marked = submission.work.submitted_together(slot, count);
        submission.posted(marked);
        Ok(true)
    }
}

/// A launch in the ring.
fn decode(record: &Record) -> Result<LaunchKernel<'_>, CudaError> {
    record.decode().map_err(|_| CudaError::INVALID_VALUE)
}

/// The client's memory that a fill writes.
fn range_of(memory: &Memory, fill: Fill) -> Result<CheckedRange, CudaError> {
    memory.device_range(fill.address, fill.bytes())
}

/// False if one of these launches is to be timed, which is done of launches by themselves.
fn may_pass(meter: &mut Meter, nodes: &[Node]) -> bool {
    meter.pass_over(nodes.iter().filter_map(|node| match node {
        Node::Kernel(launch) => Some(&*launch.counters),
        Node::Fill(_) => None,
    }))
}

/// Gives a launch of a chain other parameters.
fn set(
    graph: &NodeChain,
    number: usize,
    launch: &mut Launch,
    modules: &Modules,
    parameters: &[u8],
) -> Result<(), CudaError> {
    graph.set_parameters(number, modules.function(launch.function)?, launch.shape, parameters)?;
    launch.parameters.clear();
    launch.parameters.extend_from_slice(parameters);
    Ok(())
}
