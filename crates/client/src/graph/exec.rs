//! A graph made ready to be launched: parts that are posted one after the other.
//!
//! What the device can do by itself goes to the server as graphs, each launched by one request.
//! Functions of the program, copies of pageable memory and events are parts of their own between
//! them, posted as they would be by themselves. So a graph without these is one part, and keeps
//! all of its concurrency; one with them is cut where they stand. A graph with kernels of other
//! devices is cut there too: these are graphs of the other devices' servers, launched in streams
//! ([`Relay`]) that wait for the launching stream and for which that stream waits.

use super::host_copy::{self, HostCopy, Shadow};
use crate::handles::device_of_word;
use crate::program::Client;
use crate::program::launch::launch_flags;
use crate::program::launch::submission::{
    Event, GraphRecords, wire_event, wire_function, wire_stream,
};
use crate::program::memory::copy3d::{End, Reached, Resolved};
use crate::program::memory::fill::check_fill;
use crate::program::streams::host_functions::HostFunction;
use crate::program::streams::mem_ops::{MemOperation, check_mem_ops, post_mem_ops};
use crate::stream::table::{OwnDefault, Stream};
use channel::request::{
    Copy3DParams, GRAPH_EDGES_MAX, GraphBegin, GraphCondition, GraphConditional, GraphCopy,
    GraphDestroy, GraphEdges, GraphEmpty, GraphFill, GraphInstantiate, GraphKernel, LaunchKernel,
    Request,
};
use cuda_api::constants::{event_flags, graph_conditional, stream_flags};
use cuda_api::handle::Handle;
use cuda_api::{CUevent, CUgraphEdgeData, CUgraphExec, CUresult, CUstream, CudaError};
use graph::{
    ConditionalNode, Dependency, FillNode, HostNode, KernelNode, NodeKind, NumberedCondition, Step,
};
use recovery::Mark;
use std::sync::Arc;

/// A graph made ready.
pub(crate) struct ClientExec {
    client: &'static Client,
    parts: Vec<Part>,
    /// Recorded behind a launch of several parts, for the next one to wait for.
    order: Option<Handle>,
    /// The end of the last launch.
    end: Option<Mark>,
    /// Of other devices, those that have a part.
    relays: Vec<Relay>,
}

/// How a launch goes on at another device: there is a stream there, with an event for each direction.
struct Relay {
    home: &'static Client,
    client: &'static Client,
    stream: Handle,
    /// The launching stream has come so far.
    before: Handle,
    /// The other device has done its part.
    behind: Handle,
}

impl Relay {
    fn new(home: &'static Client, client: &'static Client) -> Result<Self, CudaError> {
        let context = home.contexts().current()?;
        let (default, flags) = (OwnDefault::Legacy, stream_flags::NON_BLOCKING);
        let stream = Stream { context, green: 0, default, flags, priority: 0 };
        let before = home.event_for_order()?;
        let behind = client.event_for_order()?;
        Ok(Self { home, client, stream: client.create_stream(stream)?, before, behind })
    }

    /// Launches a graph of the other device as a part of what is in a stream of the home device.
    fn launch(&self, graph: Handle, stream: Handle) -> CUresult {
        self.home.record_event(wire_event(self.before), stream)?;
        self.client.wait_event_of(self.home, self.before, self.stream)?;
        self.client.launch_graph(wire_graph(graph), self.stream)?;
        self.client.record_event(wire_event(self.behind), self.stream)?;
        self.home.wait_event_of(self.client, self.behind, stream)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A server that does not answer has none of them any more.
        let _ = self.client.destroy_stream(wire_stream(self.stream));
        let _ = self.client.destroy_event(self.behind);
        let _ = self.home.destroy_event(self.before);
    }
}

/// What is posted at once.
enum Part {
    Graph(ServerGraph),
    Host(HostNode),
    Copy(Arc<HostCopy>),
    Record(CUevent),
    Wait(CUevent),
    MemOps(Vec<MemOperation>),
}

/// A graph that the server has.
struct ServerGraph {
    client: &'static Client,
    handle: Handle,
}

impl Drop for ServerGraph {
    fn drop(&mut self) {
        // Not there any more if another one has taken its place.
        if self.client.state().graphs.remove(self.handle).is_some() {
            // A server that does not answer has no such graph any more.
            let posting = self.client.posting();
            let _ = posting.and_then(|mut posting| {
                posting.push(&GraphDestroy { graph: wire_graph(self.handle) })
            });
        }
    }
}

fn wire_graph(handle: Handle) -> CUgraphExec {
    CUgraphExec(handle.to_word() as usize)
}

/// What the device does by itself.
enum Work<'a> {
    Nothing,
    Kernel(&'a KernelNode),
    Copy(Copy3DParams),
    Fill(&'a FillNode),
    Condition(&'a NumberedCondition),
    Conditional(&'a ConditionalNode, Vec<Vec<Item<'a>>>),
}

enum Doing<'a> {
    Device(Work<'a>),
    /// Taken out when the parts are put together.
    Here(Option<Part>),
}

/// A step, or a piece of one.
struct Item<'a> {
    doing: Doing<'a>,
    /// Which of [`Places::others`] carries it out, counted from 1; 0 for the home device, and for what
    /// this process does.
    other: usize,
    /// What it waits for, each once.
    dependencies: Vec<Dependency>,
}

impl Item<'_> {
    /// True if the device launches a kernel: what edges say between such ones can be kept.
    fn is_kernel(&self) -> bool {
        matches!(self.doing, Doing::Device(Work::Kernel(_)))
    }
}

/// A full dependency on an item.
fn behind(step: usize) -> Dependency {
    Dependency { step, data: CUgraphEdgeData::default() }
}

/// What carries out a graph's parts, beside this process.
struct Places {
    home: &'static Client,
    /// Other devices with kernels in the graph.
    others: Vec<&'static Client>,
}

impl Places {
    /// Which device carries a step out, by [`Item::other`]: the one that a kernel is loaded on, or that
    /// has the condition.
    fn of(&mut self, step: &Step) -> usize {
        let device = match (step.work(), step.beginning_on) {
            (NodeKind::Kernel(node), _) => device_of_word(node.function.0 as u64),
            (NodeKind::Conditional(node), _) => Some(node.device),
            (_, beginning_on) => beginning_on,
        };
        let client = device.and_then(|d| self.home.program.client_at(d as usize).ok());
        let Some(client) = client.filter(|client| client.device != self.home.device) else {
            return 0;
        };
        let known = self.others.iter().position(|other| other.device == client.device);
        let place = known.unwrap_or_else(|| {
            self.others.push(client);
            self.others.len() - 1
        });
        place + 1
    }

    fn client(&self, other: usize) -> &'static Client {
        other.checked_sub(1).and_then(|place| self.others.get(place)).map_or(self.home, |c| *c)
    }

    /// How many stages there are before the home device's turn comes again.
    fn classes(&self) -> usize {
        2 + self.others.len()
    }
}

impl ClientExec {
    /// Makes steps ready. Graphs that the server has already give their places to new ones.
    fn assemble(
        client: &'static Client,
        steps: &[Step],
        old: &mut Vec<ServerGraph>,
    ) -> Result<Self, CudaError> {
        let mut places = Places { home: client, others: Vec::new() };
        let mut items = items(&mut places, steps)?;
        let classes = places.classes();
        let mut stages = stages(&items, classes);
        place_conditions(&items, &mut stages, classes)?;
        let relays = places.others.iter().map(|other| Relay::new(client, other));
        let relays = relays.collect::<Result<Vec<_>, _>>()?;
        let mut parts = Vec::new();
        let mut by_stage: Vec<Vec<usize>> = vec![Vec::new()];
        for (index, stage) in stages.iter().enumerate() {
            by_stage.resize_with(by_stage.len().max(stage + 1), Vec::new);
            by_stage[*stage].push(index);
        }
        for (stage, here) in by_stage.into_iter().enumerate() {
            if stage % classes != HERE {
                let client = places.client((stage % classes).saturating_sub(HERE));
                let works = |item: &Item<'_>| !matches!(item.doing, Doing::Device(Work::Nothing));
                if here.iter().any(|index| works(&items[*index])) {
                    let replaced = old.pop_if(|old| old.client.device == client.device);
                    parts.push(Part::Graph(build(client, &items, &here, replaced)?));
                }
                continue;
            }
            for index in here {
                if let Doing::Here(part) = &mut items[index].doing {
                    parts.extend(part.take());
                }
            }
        }
        Ok(Self { client, parts, order: None, end: None, relays })
    }

    /// Makes steps ready.
    pub(crate) fn new(client: &'static Client, steps: &[Step]) -> Result<Self, CudaError> {
        host_copy::end_unused();
        Self::assemble(client, steps, &mut Vec::new())
    }

    /// Makes steps ready in the place of those that were.
    pub(crate) fn replace(mut self, steps: &[Step]) -> Result<Self, CudaError> {
        let mut old: Vec<ServerGraph> = Vec::new();
        host_copy::end_unused();
        for part in core::mem::take(&mut self.parts) {
            match part {
                Part::Graph(graph) => old.push(graph),
                Part::Copy(copy) => copy.leave(self.client, self.end),
                _ => {}
            }
        }
        // The last one is taken first.
        old.reverse();
        let mut new = Self::assemble(self.client, steps, &mut old)?;
        new.order = self.order.take();
        new.end = self.end.take();
        Ok(new)
    }

    /// Posts all parts.
    pub(crate) fn launch(&mut self, stream: Handle) -> CUresult {
        let launched = self.post_parts(stream);
        // Some may have been posted in any case.
        self.end = Some(self.client.state().streams.last(stream.index));
        launched
    }

    fn post_parts(&mut self, stream: Handle) -> CUresult {
        let client = self.client;
        // The parts of two launches must not come between each other.
        let several = self.parts.len() > 1;
        if several {
            match self.order {
                Some(event) => client.wait_event(event, stream)?,
                None => self.order = Some(client.event_for_order()?),
            }
        }
        for part in &self.parts {
            match part {
                Part::Graph(graph) => {
                    let device = graph.client.device;
                    match self.relays.iter().find(|relay| relay.client.device == device) {
                        Some(relay) => relay.launch(graph.handle, stream)?,
                        None => client.launch_graph(wire_graph(graph.handle), stream)?,
                    }
                }
                Part::Host(HostNode { function, user_data }) => {
                    let (function, user_data) = (*function, *user_data);
                    let call = HostFunction::Plain { function, user_data };
                    client.post_host_function(stream, call)?;
                }
                Part::Copy(copy) => {
                    client.post_host_function(stream, HostFunction::Own(copy.clone()))?;
                }
                Part::Record(event) => client.record_event(*event, stream)?,
                Part::Wait(event) => {
                    let owner = client.owner_of_event(*event)?;
                    let handle = owner.state().events.decode(event.0)?;
                    match owner.device == client.device {
                        true => client.wait_event(handle, stream)?,
                        false => client.wait_event_of(owner, handle, stream)?,
                    }
                }
                Part::MemOps(operations) => post_mem_ops(client, stream, operations)?,
            }
        }
        if let Some(event) = self.order
            && several
        {
            client.record_event(wire_event(event), stream)?;
        }
        Ok(())
    }

    /// Waits for the last launch, however it ends.
    pub(crate) fn finish(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = self.client.wait_for(end);
        }
    }
}

impl Drop for ClientExec {
    fn drop(&mut self) {
        if let Some(event) = self.order.take() {
            let _ = self.client.destroy_event(event);
        }
        for part in self.parts.drain(..) {
            if let Part::Copy(copy) = part {
                copy.leave(self.client, self.end);
            }
        }
        host_copy::end_unused();
    }
}

impl Client {
    /// The client on the device of an event.
    pub(super) fn owner_of_event(&self, event: CUevent) -> Result<&'static Self, CudaError> {
        let device = device_of_word(event.0 as u64).ok_or(CudaError::INVALID_HANDLE)?;
        self.program.client_at(device as usize).map_err(|_| CudaError::INVALID_HANDLE)
    }

    /// An event that only orders.
    fn event_for_order(&self) -> Result<Handle, CudaError> {
        let context = self.contexts().current()?;
        let flags = event_flags::DISABLE_TIMING;
        self.create_event(Event::new(context, flags))
    }
}

/// Steps as the parts have them: what needs this process and what does not, each for itself.
fn items<'a>(places: &mut Places, steps: &'a [Step]) -> Result<Vec<Item<'a>>, CudaError> {
    let mut items: Vec<Item<'a>> = Vec::with_capacity(steps.len());
    // By step: its last item.
    let mut last: Vec<usize> = Vec::with_capacity(steps.len());
    // Items that conditions begin with.
    let mut begins: Vec<usize> = Vec::new();
    for step in steps {
        let other = places.of(step);
        let client = places.client(other);
        // What is on other devices does not look at a condition, but what is behind it may: what is the
        // first on its device waits for all that conditions begin with there.
        let waits = |d: &&Dependency| steps[d.step].beginning_on.is_none();
        let is_elsewhere = |item: usize| items[item].other != other;
        let is_kernel = step.work().is_kernel();
        let dependency = |d: &Dependency| {
            let on = Dependency { step: last[d.step], data: d.data };
            between(on, &items[on.step], (other, is_kernel))
        };
        let mut dependencies: Vec<Dependency> =
            step.dependencies.iter().filter(waits).map(dependency).collect();
        if step.beginning_on.is_none() && dependencies.iter().all(|d| is_elsewhere(d.step)) {
            let here = begins.iter().filter(|item| !is_elsewhere(**item));
            dependencies.extend(here.map(|item| behind(*item)));
        }
        let here = |part| Doing::Here(Some(part));
        let mut pieces = match step.work() {
            NodeKind::Kernel(node) => vec![Doing::Device(Work::Kernel(node))],
            NodeKind::Fill(node) => {
                check_fill(client, node)?;
                vec![Doing::Device(Work::Fill(node))]
            }
            NodeKind::Copy(node) => match Resolved::new(client, node)? {
                Some(copy) => pieces_of(client, copy)?,
                None => vec![Doing::Device(Work::Nothing)],
            },
            NodeKind::Host(node) => vec![here(Part::Host(*node))],
            NodeKind::RecordEvent(event) => vec![here(Part::Record(*event))],
            NodeKind::WaitEvent(event) => vec![here(Part::Wait(*event))],
            NodeKind::MemOps(ops) => vec![here(Part::MemOps(check_mem_ops(client, ops)?))],
            NodeKind::Conditional(node) => {
                let body = |steps| items_of_body(client, steps);
                let bodies = step.bodies().map(body).collect::<Result<_, _>>()?;
                vec![Doing::Device(Work::Conditional(node, bodies))]
            }
            NodeKind::Condition(condition) => vec![Doing::Device(Work::Condition(condition))],
            // Memory is there as long as the graph; child graphs are dissolved in a plan.
            NodeKind::Alloc(_) | NodeKind::Free(_) | NodeKind::Empty | NodeKind::Child(_) => {
                vec![Doing::Device(Work::Nothing)]
            }
        };
        for doing in pieces.drain(..) {
            items.push(Item { doing, other, dependencies });
            dependencies = vec![behind(items.len() - 1)];
        }
        last.push(items.len() - 1);
        if step.beginning_on.is_some() {
            begins.push(items.len() - 1);
        }
    }
    Ok(items)
}

/// What an item that is or is not a kernel, in its place, waits for of another one: for that one's end
/// where it is carried out elsewhere, or is no node of the kind that the edge was between (it was left out).
fn between(on: Dependency, from: &Item<'_>, (other, is_kernel): (usize, bool)) -> Dependency {
    match from.other == other && on.data.fits(from.is_kernel(), is_kernel) {
        true => on,
        false => behind(on.step),
    }
}

/// Edges to an item of a stage from others of it, which is `here`. Those of earlier stages are complete
/// before the graph begins.
fn edges_within(item: &Item<'_>, here: &[usize]) -> Vec<u64> {
    let edge = |Dependency { step, data }: &Dependency| {
        let number = here.binary_search(step).ok()?;
        Some(GraphEdges::word(number as u32, *data))
    };
    item.dependencies.iter().filter_map(edge).collect()
}

/// The items of a body of a condition of the client's device.
///
/// # Errors
/// CUDA_ERROR_INVALID_VALUE if there is a kernel or a condition of another device, which CUDA forbids;
/// CUDA_ERROR_NOT_SUPPORTED if this process has to do something in it: it cannot know whether and how
/// often.
fn items_of_body<'a>(
    client: &'static Client,
    steps: &'a [Step],
) -> Result<Vec<Item<'a>>, CudaError> {
    let items = items(&mut Places { home: client, others: Vec::new() }, steps)?;
    if items.iter().any(|item| item.other != 0) {
        return Err(CudaError::INVALID_VALUE);
    }
    match items.iter().all(|item| matches!(item.doing, Doing::Device(_))) {
        true => Ok(items),
        false => Err(CudaError::NOT_SUPPORTED),
    }
}

/// A copy as one piece, or as two with a shadow between.
fn pieces_of<'a>(client: &'static Client, copy: Resolved) -> Result<Vec<Doing<'a>>, CudaError> {
    let Resolved { destination, source, extent } = copy;
    let shadow = || Shadow::new(client, copy.bytes()).map(Arc::new);
    let here = |destination, source, shadow| {
        let copy = HostCopy { destination, source, extent, _shadow: shadow };
        Doing::Here(Some(Part::Copy(Arc::new(copy))))
    };
    let device = |destination: End, source: End| {
        let (destination, source) = (destination.wire([0; 3]), source.wire([0; 3]));
        Doing::Device(Work::Copy(Copy3DParams { destination, source, extent }))
    };
    Ok(match (destination.reached(), source.reached()) {
        (Reached::ByDevice, Reached::Here(from)) => {
            let shadow = shadow()?;
            let between = shadow.rows(extent);
            vec![here(between, from, Some(shadow)), device(destination, End::Memory(between))]
        }
        (Reached::Here(to), Reached::ByDevice) => {
            let shadow = shadow()?;
            let between = shadow.rows(extent);
            vec![device(End::Memory(between), source), here(to, between, Some(shadow))]
        }
        (Reached::ByDevice, _) | (_, Reached::ByDevice) => vec![device(destination, source)],
        (Reached::ByBoth(to) | Reached::Here(to), Reached::ByBoth(from) | Reached::Here(from)) => {
            vec![here(to, from, None)]
        }
    })
}

/// What this process does among the classes of stages: 0 is the home device's, those from 2 up are
/// other devices'.
const HERE: usize = 1;

/// In which of the stages, which come one after the other, each item is: the home device's, this
/// process', and those of other devices take turns. Within a stage of a device items wait for each
/// other as they should; those of this process run in their order.
fn stages(items: &[Item<'_>], classes: usize) -> Vec<usize> {
    let mut stages: Vec<usize> = Vec::with_capacity(items.len());
    for item in items {
        let class = match (&item.doing, item.other) {
            (Doing::Here(_), _) => HERE,
            (Doing::Device(_), 0) => 0,
            (Doing::Device(_), other) => HERE + other,
        };
        // The first stage of the class that is not before the other one.
        let after = |d: &Dependency| {
            let stage = stages[d.step];
            stage + (class + classes - stage % classes) % classes
        };
        stages.push(item.dependencies.iter().map(after).max().unwrap_or(0).max(class));
    }
    stages
}

/// Puts conditions that are a device's own where that device's work is: a kernel sets the conditions of
/// the graph that it is launched in, and of no other. CUDA_ERROR_NOT_SUPPORTED if a device has conditions
/// and its work is cut in two.
fn place_conditions(items: &[Item<'_>], stages: &mut [usize], classes: usize) -> CUresult {
    let is_condition = |item: &Item<'_>| matches!(item.doing, Doing::Device(Work::Condition(_)));
    for condition in (0..items.len()).filter(|index| is_condition(&items[*index])) {
        let mut works = items.iter().zip(&*stages).filter_map(|(item, stage)| match &item.doing {
            Doing::Device(Work::Nothing | Work::Condition(_)) | Doing::Here(_) => None,
            Doing::Device(_) => Some(*stage),
        });
        let mut of_device = works.by_ref().filter(|s| s % classes == stages[condition] % classes);
        let Some(first) = of_device.next() else { continue };
        if of_device.any(|stage| stage != first) {
            return Err(CudaError::NOT_SUPPORTED);
        }
        stages[condition] = first;
    }
    Ok(())
}

/// Sends the items `here` to the server as a graph.
fn build(
    client: &'static Client,
    items: &[Item<'_>],
    here: &[usize],
    old: Option<ServerGraph>,
) -> Result<ServerGraph, CudaError> {
    let handle = client.state().graphs.insert(GraphRecords::default())?;
    // Destroyed at the server too should something fail.
    let made = ServerGraph { client, handle };
    let graph = wire_graph(handle);
    let records = &mut GraphRecords::default();
    post(client, records, &GraphBegin { graph })?;
    let mut bodies = Vec::new();
    post_graph(client, records, graph, items, here, &mut bodies)?;
    let replaces = old.as_ref().map_or(CUgraphExec::NULL, |old| wire_graph(old.handle));
    client.call(&GraphInstantiate { graph, replaces })?;
    // The server has let go of what was replaced, and of bodies as graphs of their own.
    let mut state = client.state();
    if let Some(kept) = state.graphs.get_mut(handle) {
        *kept = core::mem::take(records);
    }
    for gone in old.iter().chain(&bodies) {
        state.graphs.remove(gone.handle);
    }
    drop(state);
    Ok(made)
}

/// Posts the items `here` as a graph's nodes, with their edges and bodies.
fn post_graph(
    client: &'static Client,
    records: &mut GraphRecords,
    graph: CUgraphExec,
    items: &[Item<'_>],
    here: &[usize],
    bodies: &mut Vec<ServerGraph>,
) -> CUresult {
    for index in here {
        match &items[*index].doing {
            Doing::Device(Work::Conditional(node, inside)) => {
                post_conditional(client, records, graph, node, inside, bodies)?;
            }
            Doing::Device(work) => post_node(client, records, graph, work)?,
            Doing::Here(_) => {}
        }
    }
    for (node, index) in here.iter().enumerate() {
        for from in edges_within(&items[*index], here).chunks(GRAPH_EDGES_MAX) {
            post(client, records, &GraphEdges { graph, node: node as u32, from })?;
        }
    }
    Ok(())
}

/// Posts a conditional node and the graphs that it chooses from.
fn post_conditional(
    client: &'static Client,
    records: &mut GraphRecords,
    graph: CUgraphExec,
    node: &ConditionalNode,
    inside: &[Vec<Item<'_>>],
    bodies: &mut Vec<ServerGraph>,
) -> CUresult {
    let first = bodies.len();
    for _ in inside {
        let handle = client.state().graphs.insert(GraphRecords::default())?;
        bodies.push(ServerGraph { client, handle });
    }
    let handles: Vec<u64> = bodies[first..].iter().map(|body| body.handle.to_word()).collect();
    let (rule, condition) = (node.rule.number(), node.condition);
    post(client, records, &GraphConditional { graph, rule, condition, bodies: &handles })?;
    for (items, handle) in inside.iter().zip(handles) {
        let all: Vec<usize> = (0..items.len()).collect();
        post_graph(client, records, CUgraphExec(handle as usize), items, &all, bodies)?;
    }
    Ok(())
}

/// Posts a request of which a graph is made, and notes it.
fn post<'a, R: Request<'a>>(client: &Client, records: &mut GraphRecords, request: &R) -> CUresult {
    records.0.push((R::OPCODE, request.to_words()));
    client.posting()?.push(request)
}

fn post_node(
    client: &Client,
    records: &mut GraphRecords,
    graph: CUgraphExec,
    work: &Work<'_>,
) -> CUresult {
    match work {
        // Posted with its bodies.
        Work::Conditional(..) => Ok(()),
        Work::Nothing => post(client, records, &GraphEmpty { graph }),
        Work::Condition(NumberedCondition { number: condition, default, .. }) => {
            let flags = if default.is_some() { graph_conditional::ASSIGN_DEFAULT } else { 0 };
            let (condition, default) = (*condition, default.unwrap_or(0));
            post(client, records, &GraphCondition { graph, condition, default, flags })
        }
        Work::Kernel(node) => {
            let flags = launch_flags(client, &node.config())?;
            let function = wire_function(client.state().function(node.function.0)?.0);
            let launch = LaunchKernel {
                function,
                stream: CUstream::NULL,
                grid: node.grid,
                block: node.block,
                shared_bytes: node.shared_bytes,
                flags,
                parameters: &node.parameters.bytes,
            };
            post(client, records, &GraphKernel { graph, launch })
        }
        Work::Copy(copy) => post(client, records, &GraphCopy { graph, copy: *copy }),
        Work::Fill(node) => {
            let request = GraphFill {
                graph,
                address: node.dst,
                pitch: node.pitch as u64,
                value: node.value,
                element_bytes: node.elementSize,
                width: node.width as u64,
                height: node.height as u64,
            };
            post(client, records, &request)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::{CUfunction, CUlaunchConfig};
    use graph::Parameters;

    fn item<'a>(on_device: bool, dependencies: &[usize]) -> Item<'a> {
        let doing = match on_device {
            true => Doing::Device(Work::Nothing),
            false => Doing::Here(Some(Part::Record(CUevent::NULL))),
        };
        Item { doing, other: 0, dependencies: all_behind(dependencies) }
    }

    fn all_behind(items: &[usize]) -> Vec<Dependency> {
        items.iter().map(|item| behind(*item)).collect()
    }

    fn elsewhere<'a>(other: usize, dependencies: &[usize]) -> Item<'a> {
        Item { other, ..item(true, dependencies) }
    }

    #[test]
    fn edges_between_kernels_of_a_stage_are_posted_as_they_are() {
        let config = CUlaunchConfig::plain([1; 3], [32, 1, 1], 0, CUstream::NULL);
        let (function, parameters) = (CUfunction::NULL, Parameters::default());
        let node = KernelNode::new(function, &config, Vec::new(), parameters);
        let early = |step| Dependency { step, data: CUgraphEdgeData::PROGRAMMATIC };
        let kernel = |other, dependencies| Item {
            doing: Doing::Device(Work::Kernel(&node)),
            other,
            dependencies,
        };
        // From a kernel to a kernel of the same device, and to and from what is none or elsewhere.
        assert_eq!(between(early(7), &kernel(0, vec![]), (0, true)), early(7));
        assert_eq!(between(early(7), &kernel(0, vec![]), (0, false)), behind(7));
        assert_eq!(between(early(7), &kernel(1, vec![]), (0, true)), behind(7));
        assert_eq!(between(early(7), &item(true, &[]), (0, true)), behind(7), "it is left out");
        let last = kernel(0, vec![early(2), behind(4), early(1)]);
        let word = |number| GraphEdges::word(number, CUgraphEdgeData::PROGRAMMATIC);
        assert_eq!(edges_within(&last, &[2, 4, 5]), [word(0), 1], "1 is of an earlier stage");
    }

    #[test]
    fn devices_take_turns_where_one_waits_for_another() {
        let stages = |items: &[Item<'_>]| stages(items, 4);
        let row = [
            item(true, &[]),
            elsewhere(1, &[0]),
            item(true, &[1]),
            elsewhere(2, &[2]),
            item(false, &[3]),
        ];
        assert_eq!(stages(&row), [0, 2, 4, 7, 9]);
        // What need not wait goes with what is earlier.
        let fork = [item(true, &[]), elsewhere(1, &[]), elsewhere(2, &[0]), elsewhere(1, &[0, 1])];
        assert_eq!(stages(&fork), [0, 2, 3, 2]);
    }

    #[test]
    fn a_graph_is_cut_where_this_process_has_to_do_something() {
        let (device, here) = (true, false);
        let row = [item(device, &[]), item(device, &[0]), item(device, &[1])];
        assert_eq!(stages(&row, 2), [0, 0, 0]);
        let cut = [item(device, &[]), item(here, &[0]), item(here, &[1]), item(device, &[2])];
        assert_eq!(stages(&cut, 2), [0, 1, 1, 2]);
        // A branch that needs nothing from here stays in the first graph.
        let fork = [
            item(device, &[]),
            item(here, &[0]),
            item(device, &[0]),
            item(device, &[1, 2]),
            item(here, &[]),
        ];
        assert_eq!(stages(&fork, 2), [0, 1, 0, 2, 1]);
    }

    #[test]
    fn conditions_of_a_device_are_set_by_kernels_of_one_graph() {
        let condition = NumberedCondition { number: 1, default: Some(1), device: 0 };
        let begin = |other| Item {
            doing: Doing::Device(Work::Condition(&condition)),
            other,
            dependencies: Vec::new(),
        };
        let fill = FillNode::default();
        let work_on = |other, dependencies: &[usize]| Item {
            doing: Doing::Device(Work::Fill(&fill)),
            other,
            dependencies: all_behind(dependencies),
        };
        let work = |dependencies: &[usize]| work_on(0, dependencies);
        let check = |items: &[Item<'_>]| {
            let mut stages = stages(items, 4);
            place_conditions(items, &mut stages, 4).map(|()| stages)
        };
        let row = [begin(0), work(&[0]), item(false, &[1])];
        assert_eq!(check(&row), Ok(vec![0, 0, 1]));
        let cut = [begin(0), work(&[0]), item(false, &[1]), work(&[2])];
        assert_eq!(check(&cut), Err(CudaError::NOT_SUPPORTED));
        // They are made where the work is.
        let later = [begin(0), item(false, &[0]), work(&[1])];
        assert_eq!(check(&later), Ok(vec![4, 1, 4]));
        // What does nothing may come later, and without conditions a graph may be cut.
        assert_eq!(check(&[begin(0), item(false, &[0]), item(true, &[1])]), Ok(vec![0, 1, 4]));
        assert_eq!(check(&[work(&[]), item(false, &[0]), work(&[1])]), Ok(vec![0, 1, 4]));
        // Each device's conditions and work are by themselves.
        let two = [begin(1), work(&[]), work_on(1, &[0, 1]), work(&[2])];
        assert_eq!(check(&two), Ok(vec![2, 0, 2, 4]));
        let cut = [begin(1), work_on(1, &[0]), work(&[1]), work_on(1, &[2])];
        assert_eq!(check(&cut), Err(CudaError::NOT_SUPPORTED));
    }
}
