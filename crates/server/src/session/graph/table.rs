//! A client's graphs: put together node by node, then launched with one request.
//!
//! Every node is checked when it comes, as if it were posted by itself. What a graph uses may go
//! before it does: a graph whose module is unloaded goes with it, and a graph that copies looks
//! at its addresses again when memory was given back since it last did.

use crate::account::{Charge, MemoryAccount};
use crate::device::{GraphBuilder, LaunchShape, PlacedGraph, Share};
use crate::meter::{
    Context, GraphTally, KernelCounters, KernelMeter, Launched, Shape, ShapeCounters, Subject,
};
use crate::session::SessionLink;
use crate::session::graph::pieces::{Cut, Node, Recording, sum_of};
use crate::session::handles::Table;
use crate::session::memory::Memory;
use crate::session::memory::arrays::Arrays;
use crate::session::memory::ranges::extent_of_rows;
use crate::session::policy::placement::report_unkept;
use crate::session::stream::admission::predicted;
use crate::session::stream::code_in_flight::Code;
use crate::session::stream::copies;
use crate::session::stream::copies::Reach;
use crate::session::stream::pending::Pending;
use crate::session::stream::posts::launch_shape;
use crate::session::stream::slot::StreamSlot;
use crate::session::stream::submission::Submission;
use crate::session::stream::table::Work;
use channel::message::{TraceEntry, trace_kind};
use channel::request::{
    Copy3DEnd, Copy3DParams, GraphBegin, GraphCopy, GraphDestroy, GraphEdges, GraphEmpty,
    GraphFill, GraphInstantiate, GraphKernel, GraphLaunch, HostReference, priority_of,
};
use cuda_api::handle::HandleKind;
use cuda_api::{CUgraphExec, CUresult, CudaError, Word};
use scheduling::Predicted;
use scheduling::predict::UNKNOWN_NS;
use std::ffi::CStr;
use std::rc::Rc;
use std::sync::Arc;

/// Most graphs of a client: programs keep one for each shape of their data.
pub const GRAPHS_MAX: usize = channel::limits::GRAPHS_MAX as usize;
/// Most nodes of a graph: networks have some ten thousands.
pub const NODES_MAX: usize = 262_144;

/// What a node takes of this process' memory, about: the session's own account of it, and the provider's.
const NODE_BYTES: u64 = 512;
/// How often a kernel's parameters are kept: by the provider, for moves between SMs, and for pieces.
const COPIES_OF_PARAMETERS: u64 = 3;

/// The name under which launches of graphs are counted as a whole.
pub const GRAPHS: &CStr = c"(graphs)";

/// What a graph's nodes use.
#[derive(Default)]
pub(in crate::session) struct Uses {
    kernels: u32,
    /// How often it was launched.
    launches: u32,
    /// What is counted of each of them.
    counted: Vec<Arc<ShapeCounters>>,
    modules: Vec<u64>,
    /// True if some kernel may print.
    may_print: bool,
    arrays: Vec<u64>,
    /// What its copies and fills reach over.
    touched: Vec<Reach>,
    /// The state of the client's memory in which all of `touched` was found to be there.
    memory_version: u64,
    /// What it takes of the server's own memory.
    charges: Vec<Charge>,
    /// Handles of its bodies, until it is made ready.
    pub(in crate::session) bodies: Vec<u64>,
    /// What it is put together of, if it may go in pieces.
    pub(in crate::session) recording: Option<Recording>,
}

impl Uses {
    /// Nothing yet.
    pub(in crate::session) fn of(memory: &Memory) -> Self {
        Self { memory_version: memory.version(), ..Self::default() }
    }

    /// Also what a body uses.
    pub(in crate::session) fn join(&mut self, body: Self) {
        self.recording = None;
        self.kernels += body.kernels;
        self.counted.extend(body.counted);
        self.modules.extend(body.modules);
        self.arrays.extend(body.arrays);
        self.touched.extend(body.touched);
        self.memory_version = self.memory_version.min(body.memory_version);
        self.bodies.extend(body.bodies);
        self.charges.extend(body.charges);
    }

    /// Charges memory of the server's own for a node with so many bytes of its own.
    fn charge(&mut self, account: &Arc<MemoryAccount>, bytes: u64) -> CUresult {
        let bytes = bytes.saturating_add(NODE_BYTES);
        match self.charges.first_mut() {
            Some(charge) => charge.grow(bytes),
            None => {
                self.charges.push(account.charge_new(bytes)?);
                Ok(())
            }
        }
    }

    /// Addresses of device memory that it touches from now on.
    pub(in crate::session) fn touch_device(&mut self, address: u64, bytes: u64) {
        self.touched.push(Reach::Device(address, bytes));
    }

    /// Keeps what a node is made of, if the graph may go in pieces. A graph with a node that cannot
    /// be kept will not.
    fn record(&mut self, node: impl FnOnce() -> Option<Node>) {
        if let Some(mut recording) = self.recording.take()
            && let Some(node) = node()
        {
            recording.add(node);
            self.recording = Some(recording);
        }
    }

    /// It was launched in a stream; of one in pieces, `is_first` of them was.
    fn launched(&mut self, slot: &mut StreamSlot, is_first: bool) {
        if is_first {
            self.launches = self.launches.saturating_add(1);
        }
        if self.kernels > 0 {
            slot.code_in_flight
                .launched(Code::Graph(self.kernels), self.launches.saturating_sub(1));
        }
    }

    fn check(&mut self, memory: &Memory) -> CUresult {
        if self.memory_version == memory.version() {
            return Ok(());
        }
        for reach in &self.touched {
            reach.check(memory)?;
        }
        self.memory_version = memory.version();
        Ok(())
    }
}

pub(in crate::session) enum Graph {
    Building {
        builder: GraphBuilder,
        uses: Uses,
        /// The first thing that was wrong.
        failed: CUresult,
    },
    Ready {
        exec: Box<PlacedGraph>,
        uses: Uses,
        /// What is counted of its launches as a whole.
        meter: KernelMeter,
        /// What is counted of its kernels.
        tally: GraphTally,
        /// Its own launches and times, as a whole.
        times: Arc<ShapeCounters>,
        /// What it is put together of, if it can be cut, and the same nodes in pieces.
        recording: Option<Recording>,
        cut: Cut,
    },
}

/// The client's graphs.
pub struct Graphs {
    pub(in crate::session) table: Table<Graph>,
    pub(in crate::session) share: Rc<Share>,
    link: Arc<SessionLink>,
}

impl Graphs {
    /// No graphs.
    pub(in crate::session) fn new(share: &Rc<Share>, link: &Arc<SessionLink>) -> Self {
        let table = Table::new(HandleKind::GraphExec, GRAPHS_MAX);
        Self { table, share: share.clone(), link: link.clone() }
    }

    /// Drops graphs that use a module's functions. None of them may be in use.
    pub fn forget_module(&mut self, module: u64) {
        self.forget(|uses| uses.modules.contains(&module));
    }

    /// Drops graphs that copy from or to an array. None of them may be in use.
    pub fn forget_array(&mut self, array: u64) {
        self.forget(|uses| uses.arrays.contains(&array));
    }

    fn forget(&mut self, is_doomed: impl Fn(&Uses) -> bool) {
        self.table.retain(|graph| match graph {
            Graph::Building { uses, .. } | Graph::Ready { uses, .. } => !is_doomed(uses),
        });
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.table.clear();
    }
}

/// What a trace says of a launch of several kernels as one graph.
fn subject_of_graph(client: u32, slot: &StreamSlot, kernels: u32) -> Subject {
    let entry = TraceEntry {
        kind: trace_kind::GRAPH,
        client,
        stream: slot.index(),
        grid_x: kernels,
        ..TraceEntry::default()
    };
    Subject { entry, name: Some(format!("graph of {kernels} kernels").into()) }
}

impl Graphs {
    pub(in crate::session) fn begin(&mut self, request: GraphBegin, memory: &Memory) -> CUresult {
        let handle = self.table.vacant(request.graph.0 as u64)?;
        let builder = GraphBuilder::new(&self.share)?;
        let mut uses = Uses::of(memory);
        uses.recording = self.link.scheduling.cuts_graphs().then(Recording::default);
        self.table.put(handle, Graph::Building { builder, uses, failed: Ok(()) });
        Ok(())
    }

    /// Does something with a graph that is being put together. What is wrong is the answer when
    /// it is instantiated, and nothing more is added to it.
    pub(in crate::session) fn build(
        &mut self,
        graph: CUgraphExec,
        memory: &Memory,
        add: impl FnOnce(&mut Self, &mut GraphBuilder, &mut Uses) -> CUresult,
    ) -> CUresult {
        self.build_with(graph, (memory, 0), add)
    }

    /// As [`Graphs::build`], of what takes so many bytes of the server's memory.
    fn build_with(
        &mut self,
        graph: CUgraphExec,
        (memory, bytes): (&Memory, u64),
        add: impl FnOnce(&mut Self, &mut GraphBuilder, &mut Uses) -> CUresult,
    ) -> CUresult {
        let word = graph.0 as u64;
        let handle = self.table.handle(word)?;
        let mut graph = self.table.take(word)?;
        let result = match &mut graph {
            Graph::Building { builder, uses, failed } => {
                if failed.is_ok() {
                    *failed = match builder.nodes() < NODES_MAX {
                        true => uses
                            .charge(&memory.host_account, bytes)
                            .and_then(|()| add(self, builder, uses)),
                        false => Err(CudaError::OUT_OF_MEMORY),
                    };
                }
                Ok(())
            }
            Graph::Ready { .. } => Err(CudaError::INVALID_HANDLE),
        };
        self.table.put(handle, graph);
        result
    }

    pub(in crate::session) fn add_empty(
        &mut self,
        request: GraphEmpty,
        memory: &Memory,
    ) -> CUresult {
        self.build(request.graph, memory, |_, builder, uses| {
            uses.record(|| Some(Node::Empty));
            builder.add_empty()
        })
    }

    pub(in crate::session) fn add_kernel(
        &mut self,
        request: GraphKernel<'_>,
        memory: &Memory,
        submission: &mut Submission,
    ) -> CUresult {
        let launch = request.launch;
        let bytes = COPIES_OF_PARAMETERS * launch.parameters.len() as u64;
        self.build_with(request.graph, (memory, bytes), |_, builder, uses| {
            let levels = priority_of(launch.flags);
            let shape = LaunchShape {
                priority: levels.and_then(|levels| submission.streams.priority_of_launch(levels)),
                ..launch_shape(launch.grid, launch.block, launch.shared_bytes, launch.flags)?
            };
            let word = launch.function.0 as u64;
            let module = submission.modules.module_of(word)?;
            let calls = submission.share.device().calls();
            let loaded = submission.modules.loaded_mut(word)?;
            builder.add_kernel(&loaded.function, shape, launch.parameters)?;
            uses.record(|| {
                let function = loaded.function.clone();
                Some(Node::Kernel { function, shape, parameters: launch.parameters.to_vec() })
            });
            uses.kernels += 1;
            uses.counted.push(loaded.meter.counters(calls, &loaded.function, &shape));
            uses.may_print |= loaded.may_print;
            if !uses.modules.contains(&module) {
                uses.modules.push(module);
            }
            Ok(())
        })
    }

    pub(in crate::session) fn add_copy(
        &mut self,
        request: GraphCopy,
        memory: &Memory,
        arrays: &Arrays,
    ) -> CUresult {
        let Copy3DParams { destination, source, extent } = request.copy;
        self.build(request.graph, memory, |_, builder, uses| {
            let mut end = |end: &Copy3DEnd| {
                if let Copy3DEnd::Host { reference: HostReference::Staging(_), .. } = end {
                    // What is staged is gone before the graph is.
                    return Err(CudaError::INVALID_VALUE);
                }
                if let Copy3DEnd::Array { array, .. } = end {
                    uses.arrays.push(array.to_word());
                }
                let (side, reach) = copies::side(memory, arrays, end, extent)?;
                uses.touched.extend(reach);
                Ok(side)
            };
            let (from, to) = (end(&source)?, end(&destination)?);
            uses.record(|| match extent.contains(&0) {
                true => Some(Node::Empty),
                false => Node::copy(&to, &from, extent),
            });
            match extent.contains(&0) {
                true => builder.add_empty(),
                false => builder.add_copy(to, from, extent),
            }
        })
    }

    pub(in crate::session) fn add_fill(&mut self, r: GraphFill, memory: &Memory) -> CUresult {
        self.build(r.graph, memory, |_, builder, uses| {
            let element = u64::from(r.element_bytes);
            let aligned = matches!(element, 1 | 2 | 4)
                && r.address.0.is_multiple_of(element)
                && (r.height <= 1 || r.pitch.is_multiple_of(element));
            let width = r.width.checked_mul(element).filter(|_| aligned);
            let width = width.ok_or(CudaError::INVALID_VALUE)?;
            let bytes = extent_of_rows(r.pitch, width, r.height)?;
            let reach = Reach::Device(r.address.0, bytes);
            let range = reach.check(memory)?;
            uses.touched.push(reach);
            let (pitch, value) = (r.pitch.max(width), (r.value, r.element_bytes));
            uses.record(|| match bytes {
                0 => Some(Node::Empty),
                _ => Some(Node::Fill { range, pitch, value, extent: [r.width, r.height] }),
            });
            if bytes == 0 {
                return builder.add_empty();
            }
            builder.add_fill(range, pitch, value, [r.width, r.height])
        })
    }

    pub(in crate::session) fn add_edges(
        &mut self,
        request: GraphEdges<'_>,
        memory: &Memory,
    ) -> CUresult {
        let bytes = size_of_val(request.from) as u64;
        self.build_with(request.graph, (memory, bytes), |_, builder, uses| {
            let edges = request.from.iter().map(|word| GraphEdges::edge(*word));
            let edges = edges.collect::<Option<Vec<_>>>().ok_or(CudaError::INVALID_VALUE)?;
            if let Some(recording) = &mut uses.recording {
                recording.add_edges(request.node, &edges);
            }
            builder.add_edges(request.node, edges)
        })
    }

    /// The nodes of a graph that could not be made ready are gone with it.
    pub(in crate::session) fn instantiate(
        &mut self,
        request: GraphInstantiate,
        submission: &mut Submission,
        pending: &Pending,
    ) -> CUresult {
        let word = request.graph.0 as u64;
        let handle = self.table.handle(word)?;
        let graph = self.table.take(word)?;
        let Graph::Building { mut builder, mut uses, failed } = graph else {
            return Err(CudaError::INVALID_HANDLE);
        };
        failed?;
        self.gather_bodies(&mut builder, &mut uses)?;
        let like = submission.streams.on_share()?;
        let exec = 'made: {
            match request.replaces {
                CUgraphExec::NULL => PlacedGraph::new(builder, like)?,
                old => {
                    // Launches that wait are those of the graph as it was.
                    if pending.uses(old.0 as u64) {
                        self.table.depart(old.0 as u64)?;
                        break 'made PlacedGraph::new(builder, like)?;
                    }
                    let Graph::Ready { exec, .. } = self.table.get_mut(old.0 as u64)? else {
                        return Err(CudaError::INVALID_HANDLE);
                    };
                    let new = PlacedGraph::replacing(exec, builder, like)?;
                    self.table.take(old.0 as u64)?;
                    new
                }
            }
        };
        let recording = uses.recording.take().filter(Recording::can_be_cut);
        let kernel = submission.link.counters.kernel(GRAPHS, KernelCounters::of_graphs);
        let meter = KernelMeter::new(kernel);
        let tally = GraphTally::new(&uses.counted);
        let times = Arc::new(ShapeCounters::new(Shape::of_graph(uses.kernels), 0));
        let (exec, cut) = (Box::new(exec), Cut::default());
        let ready = Graph::Ready { exec, uses, meter, tally, times, recording, cut };
        self.table.put(handle, ready);
        Ok(())
    }

    /// Cuts a graph for the client's bound, if it can be cut.
    fn cut(&mut self, word: u64, submission: &mut Submission, memory: &Memory) -> CUresult {
        let bound_ns = submission.link.scheduling.piece_ns();
        let like = submission.streams.on_share()?;
        let graph = self.table.get_mut(word)?;
        let Graph::Ready { uses, times, recording: Some(recording), cut, .. } = graph else {
            return Ok(());
        };
        uses.check(memory)?;
        let whole_ns = times.launch_time().map_or(0, |known| known.device_ns);
        cut.follow(recording, (&self.share, like), &uses.counted, (bound_ns, whole_ns))
    }

    /// Launches a graph piece by piece, each when the gate lets it through. False if it is not cut.
    fn launch_pieces(
        &mut self,
        request: &GraphLaunch,
        submission: &mut Submission,
        memory: &Memory,
    ) -> Result<bool, CudaError> {
        let word = request.graph.0 as u64;
        self.cut(word, submission, memory)?;
        let mut at = 0;
        loop {
            let Graph::Ready { cut, uses, .. } = self.table.get(word)? else {
                return Err(CudaError::INVALID_HANDLE);
            };
            let Some(predicted) = cut.pieces.get(at).map(|piece| piece.predicted(&uses.counted))
            else {
                return Ok(at > 0);
            };
            // What has gone of it is followed by the rest.
            submission.defers &= at == 0;
            submission.wait_for_room(request.stream.0 as u64)?;
            let free_sms = submission.pass(predicted)?;
            submission.streams.keep_free(request.stream.0 as u64, free_sms)?;
            let slot = submission.streams.enter(request.stream.0 as u64, Work::Ordered)?;
            let Graph::Ready { cut, uses, tally, .. } = self.table.get_mut(word)? else {
                return Err(CudaError::INVALID_HANDLE);
            };
            uses.check(memory)?;
            if uses.may_print {
                submission.printing.begin();
            }
            let Some(piece) = cut.pieces.get_mut(at) else {
                return Err(CudaError::INVALID_HANDLE);
            };
            piece.exec.place(&slot.stream)?;
            let sample = match submission.meter.is_counting() && !submission.place.shares_queues() {
                true => submission.meter.due_graph(&piece.times, &piece.times),
                false => None,
            };
            let subject = || subject_of_graph(submission.link.identity.id, slot, piece.count());
            let timing = submission.meter.begin(&slot.stream, sample, subject);
            let launched = piece.exec.launch(&slot.stream);
            submission.meter.end(timing, &slot.stream, launched.is_ok());
            launched?;
            piece.times.launches.add(1);
            uses.launched(slot, at == 0);
            if submission.meter.is_counting() {
                // Blocks and threads of all of it count with the first piece.
                let all = if at == 0 { tally.each() } else { Launched::default() };
                let kernels = piece.count().into();
                let device_ns = predicted.mean_ns;
                slot.counters.launched(Launched { kernels, device_ns, ..all });
            }
            let kernels = piece.count();
            submission.work.submitted(slot, kernels, Some(predicted))?;
            at += 1;
        }
    }

    pub(in crate::session) fn launch(
        &mut self,
        request: GraphLaunch,
        submission: &mut Submission,
        memory: &Memory,
    ) -> CUresult {
        if self.link.scheduling.wants_pieces()
            && self.launch_pieces(&request, submission, memory)?
        {
            if submission.meter.is_counting()
                && let Graph::Ready { meter, tally, .. } =
                    self.table.get_mut(request.graph.0 as u64)?
            {
                meter.submitted();
                tally.launched();
            }
            return Ok(());
        }
        submission.wait_for_room(request.stream.0 as u64)?;
        let predicted = self.predict(request.graph.0 as u64)?;
        if let Some(predicted) = predicted {
            let free_sms = submission.pass(predicted)?;
            submission.streams.keep_free(request.stream.0 as u64, free_sms)?;
        }
        let slot = submission.streams.enter(request.stream.0 as u64, Work::Ordered)?;
        let graph = self.table.get_mut(request.graph.0 as u64)?;
        let Graph::Ready { exec, uses, meter, tally, times, .. } = graph else {
            return Err(CudaError::INVALID_HANDLE);
        };
        exec.place(&slot.stream)?;
        let unkept = exec.take_unkept();
        uses.check(memory)?;
        if uses.may_print {
            submission.printing.begin();
        }
        let shape = Shape::of_graph(uses.kernels);
        let is_counting = submission.meter.is_counting();
        let sample = match is_counting {
            true => submission.meter.due_graph(meter.before_other(shape), times),
            false => None,
        };
        let sample = sample.filter(|_| !submission.place.shares_queues());
        let subject = || subject_of_graph(submission.link.identity.id, slot, uses.kernels);
        let timing = submission.meter.begin(&slot.stream, sample, subject);
        let launched = exec.launch(&slot.stream);
        submission.meter.end(timing, &slot.stream, launched.is_ok());
        launched?;
        times.launches.add(1);
        uses.launched(slot, true);
        if is_counting {
            let device_ns = meter.submitted().device_ns;
            tally.launched();
            slot.counters.launched(Launched { device_ns, ..tally.each() });
        }
        submission.work.submitted(slot, uses.kernels, predicted)?;
        if let Some(error) = unkept {
            report_unkept(&submission.link, &submission.common, Some(error));
        }
        Ok(())
    }

    /// What a graph's launch is predicted to take; `None` if it need not ask.
    fn predict(&self, word: u64) -> Result<Option<Predicted>, CudaError> {
        if self.link.scheduling.is_free() {
            return Ok(None);
        }
        let Graph::Ready { uses, meter, times, .. } = self.table.get(word)? else {
            return Err(CudaError::INVALID_HANDLE);
        };
        if let Some(known) = times.launch_time() {
            return Ok(Some(predicted(Some(known))));
        }
        // Until it was timed itself it is taken for one of those of its size.
        if let Some(known) = meter.launch_time(&Shape::of_graph(uses.kernels), Context::default()) {
            return Ok(Some(predicted(Some(known))));
        }
        let sum = sum_of(&uses.counted);
        Ok(Some(if sum.mean_ns < UNKNOWN_NS { Predicted::UNKNOWN } else { sum }))
    }

    pub(in crate::session) fn destroy(&mut self, request: GraphDestroy, pending: &Pending) {
        // One that could not be made is gone already.
        let word = request.graph.0 as u64;
        let _ = match pending.uses(word) {
            true => self.table.depart(word).map(drop),
            false => self.table.take(word).map(drop),
        };
    }
}
