//! Captures: which streams take part in one, and what an operation means then.
//!
//! A capture begins in one stream, its origin. Others join it by waiting for an event that was
//! recorded in it, and must be joined back before it ends. For each stream a capture keeps the
//! nodes that the stream's next operation will wait for. What makes no sense while capturing is
//! an error, and *invalidates* the captures concerned: they go on until they are ended, to no
//! avail.

use crate::id::{Edge, GraphId, NodeId, node_word};
use crate::model::Graph;
use crate::node::NodeKind;
use crate::stream::{StreamKey, StreamOrder};
use cuda_api::constants::capture as constant;
use cuda_api::{CUevent, CUgraphEdgeData, CUgraphNode, CUresult, CudaError};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::ThreadId;

thread_local! {
    /// cuThreadExchangeStreamCaptureMode.
    static MODE: Cell<u32> = const { Cell::new(constant::MODE_GLOBAL) };
}

/// Exchanges the calling thread's mode.
pub(crate) fn exchange_mode(mode: u32) -> u32 {
    // A thread that ends has the default.
    MODE.try_with(|m| m.replace(mode)).unwrap_or(constant::MODE_GLOBAL)
}

/// One stream of a capture.
#[derive(Debug)]
pub(crate) struct Line {
    key: StreamKey,
    /// What the stream's next operation waits for.
    pub(crate) dependencies: Vec<Edge>,
    /// The node of its last operation, if that was a launch and the stream has waited for nothing since.
    launched: Option<NodeId>,
    /// The node of its last operation, unless the program has set the stream's dependencies since: it has to be
    /// joined before the capture ends. Nodes that the program puts there by hand need not be.
    last: Option<NodeId>,
    /// What the program last got of them: arrays that stay where they are until it asks
    /// again.
    pub(crate) shown: (Vec<CUgraphNode>, Vec<CUgraphEdgeData>),
}

impl Line {
    fn new(key: StreamKey, dependencies: Vec<Edge>) -> Self {
        Self { key, dependencies, launched: None, last: None, shown: Default::default() }
    }

    /// What the stream's next operation waits for, as edges to it can say it: a launch that may begin
    /// early does so when the launch before it in the stream allows it. Where it also waits for what
    /// other streams do, or for what is no launch, it waits for all of that.
    pub(crate) fn edges_to(&self, next: &NodeKind, graph: &Graph) -> Vec<Edge> {
        let is_early = match next {
            NodeKind::Kernel(launch) => launch.is_programmatic(),
            _ => false,
        };
        if let ([edge], Some(launched), true) = (&self.dependencies[..], self.launched, is_early)
            && *edge == Edge::plain(launched)
        {
            return vec![Edge { node: launched, data: CUgraphEdgeData::PROGRAMMATIC }];
        }
        let mut edges: Vec<Edge> = Vec::with_capacity(self.dependencies.len());
        for Edge { node, data } in &self.dependencies {
            let fits = data.fits(graph.is_kernel(*node), next.is_kernel());
            let data = if fits { *data } else { CUgraphEdgeData::default() };
            match edges.iter_mut().find(|edge| edge.node == *node) {
                // Of several modes of waiting for one node, to wait for its end is all of them.
                Some(known) if known.data != data => *known = Edge::plain(*node),
                Some(_) => {}
                None => edges.push(Edge { node: *node, data }),
            }
        }
        edges
    }

    /// The stream's operation has become a node.
    pub(crate) fn went_on(&mut self, node: NodeId, is_launch: bool) {
        self.dependencies = vec![Edge::plain(node)];
        self.launched = is_launch.then_some(node);
        self.last = Some(node);
    }

    /// Has the stream's next operation wait for `edges` alone (cuStreamUpdateCaptureDependencies).
    pub(crate) fn set(&mut self, edges: Vec<Edge>) {
        self.dependencies.clear();
        self.last = None;
        self.join(edges);
    }

    /// Adds dependencies that are not there yet.
    pub(crate) fn join(&mut self, others: impl IntoIterator<Item = Edge>) {
        self.launched = None;
        for edge in others {
            if !self.dependencies.contains(&edge) {
                self.dependencies.push(edge);
            }
        }
    }

    /// Shows the dependencies to the program: addresses of arrays, and their length.
    pub(crate) fn show(&mut self) -> (*const CUgraphNode, *const CUgraphEdgeData, usize) {
        self.shown = self.dependencies.iter().map(|edge| (node_word(edge.node), edge.data)).unzip();
        (self.shown.0.as_ptr(), self.shown.1.as_ptr(), self.shown.0.len())
    }
}

#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) graph: GraphId,
    /// The graph was there before, and stays, regardless of how the capture ends.
    into_existing: bool,
    origin: u64,
    mode: u32,
    thread: ThreadId,
    invalidated: bool,
    /// By stream.
    pub(crate) lines: BTreeMap<u64, Line>,
    /// Last operations of streams that were destroyed meanwhile: joined, or not, as if they were there.
    ends: Vec<NodeId>,
    /// What the origin has waited for, and may have been made not to wait for again.
    joined: Vec<NodeId>,
}

impl Capture {
    /// True if it delays the legacy default stream of a context.
    fn blocks_legacy(&self, context: u64) -> bool {
        let blocking =
            |key: &StreamKey| key.context == context && key.order == StreamOrder::Blocking;
        self.lines.values().any(|line| blocking(&line.key))
    }
}

/// How a capture ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// CUDA's answer.
    pub(crate) result: CUresult,
    /// The graph that was captured into.
    pub(crate) graph: GraphId,
    /// The caller does not get the graph.
    pub(crate) discard: bool,
}

/// All captures of a process.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    pub(crate) active: BTreeMap<u64, Capture>,
    of_stream: BTreeMap<u64, u64>,
    /// Events that were last recorded in a capture: in which, and behind which nodes.
    pub(crate) events: BTreeMap<usize, (u64, Vec<Edge>)>,
}

impl Captures {
    /// Begins the capture `number` in a stream.
    pub(crate) fn begin(
        &mut self,
        number: u64,
        stream: StreamKey,
        graph: GraphId,
        existing: Option<Vec<Edge>>,
        mode: u32,
    ) -> CUresult {
        self.check_begin(stream, mode)?;
        let into_existing = existing.is_some();
        let line = Line::new(stream, existing.unwrap_or_default());
        let capture = Capture {
            graph,
            into_existing,
            origin: stream.id,
            mode,
            thread: std::thread::current().id(),
            invalidated: false,
            lines: BTreeMap::from([(stream.id, line)]),
            ends: Vec::new(),
            joined: Vec::new(),
        };
        self.active.insert(number, capture);
        self.of_stream.insert(stream.id, number);
        Ok(())
    }

    /// Fails if no capture can begin in a stream.
    pub(crate) fn check_begin(&self, stream: StreamKey, mode: u32) -> CUresult {
        if mode > constant::MODE_RELAXED {
            return Err(CudaError::INVALID_VALUE);
        }
        if stream.order == StreamOrder::Legacy {
            return Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
        }
        match self.of_stream.contains_key(&stream.id) {
            true => Err(CudaError::ILLEGAL_STATE),
            false => Ok(()),
        }
    }

    /// The number of the capture that a stream takes part in, valid or not.
    pub(crate) fn of(&self, stream: StreamKey) -> Option<u64> {
        self.of_stream.get(&stream.id).copied()
    }

    /// CUstreamCaptureStatus of a stream, and the number of its capture.
    /// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream while another one's capture
    /// keeps it from being used.
    pub(crate) fn status(&self, stream: StreamKey) -> Result<(u32, u64), CudaError> {
        if stream.order == StreamOrder::Legacy
            && self.active.values().any(|c| c.blocks_legacy(stream.context))
        {
            return Err(CudaError::STREAM_CAPTURE_IMPLICIT);
        }
        let Some(number) = self.of(stream) else { return Ok((constant::STATUS_NONE, 0)) };
        match self.active.get(&number).is_some_and(|c| !c.invalidated) {
            true => Ok((constant::STATUS_ACTIVE, number)),
            false => Ok((constant::STATUS_INVALIDATED, number)),
        }
    }

    /// Something is about to be put into a stream: the capture that it belongs into, if any.
    pub(crate) fn enter(&mut self, stream: StreamKey) -> Result<Option<u64>, CudaError> {
        if stream.order == StreamOrder::Legacy {
            return match self.invalidate(|c| c.blocks_legacy(stream.context)) {
                true => Err(CudaError::STREAM_CAPTURE_IMPLICIT),
                false => Ok(None),
            };
        }
        match self.status(stream)? {
            (constant::STATUS_NONE, _) => Ok(None),
            (constant::STATUS_ACTIVE, number) => Ok(Some(number)),
            _ => Err(CudaError::STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// The line of a stream in a capture, which it joins if it is not there.
    pub(crate) fn line(&mut self, number: u64, stream: StreamKey) -> Option<&mut Line> {
        self.of_stream.insert(stream.id, number);
        let capture = self.active.get_mut(&number)?;
        Some(capture.lines.entry(stream.id).or_insert_with(|| Line::new(stream, Vec::new())))
    }

    /// Invalidates captures; true if there were some.
    pub(crate) fn invalidate(&mut self, concerned: impl Fn(&Capture) -> bool) -> bool {
        let mut some = false;
        for capture in self.active.values_mut().filter(|c| concerned(c)) {
            capture.invalidated = true;
            some = true;
        }
        some
    }

    /// A call that might deadlock or spoil a capture, such as allocating memory:
    /// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if the threads' modes forbid it.
    pub(crate) fn unsafe_call(&mut self) -> CUresult {
        let mode = MODE.try_with(Cell::get).unwrap_or(constant::MODE_GLOBAL);
        if mode == constant::MODE_RELAXED {
            return Ok(());
        }
        let me = std::thread::current().id();
        let forbidden = self.invalidate(|c| match c.thread == me {
            true => c.mode != constant::MODE_RELAXED,
            false => c.mode == constant::MODE_GLOBAL && mode == constant::MODE_GLOBAL,
        });
        if forbidden { Err(CudaError::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// A thread wants to wait for all of a context.
    pub(crate) fn synchronize_context(&mut self, context: u64) -> CUresult {
        let concerned = |c: &Capture| c.lines.values().any(|line| line.key.context == context);
        match self.invalidate(concerned) {
            true => Err(CudaError::STREAM_CAPTURE_UNSUPPORTED),
            false => Ok(()),
        }
    }

    /// A thread wants to wait for a stream, or to know whether it is idle. The answer is the same for
    /// a stream whose capture is invalidated.
    pub(crate) fn synchronize(&mut self, stream: StreamKey) -> CUresult {
        match self.of(stream) {
            Some(number) if stream.order != StreamOrder::Legacy => {
                self.invalidate_one(number);
                Err(CudaError::STREAM_CAPTURE_UNSUPPORTED)
            }
            _ => self.enter(stream).map(drop),
        }
    }

    /// Invalidates a capture, if it is not over.
    pub(crate) fn invalidate_one(&mut self, number: u64) {
        if let Some(capture) = self.active.get_mut(&number) {
            capture.invalidated = true;
        }
    }

    /// A thread asks about an event, or waits for it: CUDA_ERROR_CAPTURED_EVENT if it was last
    /// recorded in a capture, which that invalidates; CUDA_ERROR_INVALID_VALUE if that is over.
    pub(crate) fn ask_event(&mut self, event: CUevent) -> CUresult {
        let Some((number, _)) = self.events.get(&event.0) else { return Ok(()) };
        let number = *number;
        self.invalidate_one(number);
        match self.active.contains_key(&number) {
            true => Err(CudaError::CAPTURED_EVENT),
            false => Err(CudaError::INVALID_VALUE),
        }
    }

    /// Records an event at the end of a capturing stream.
    pub(crate) fn record(&mut self, number: u64, stream: StreamKey, event: CUevent) {
        if let Some(line) = self.line(number, stream) {
            let behind = line.dependencies.clone();
            self.events.insert(event.0, (number, behind));
        }
    }

    /// Records an event that the launch which the stream captured last asks for: what waits for it does so
    /// as `data` says.
    pub(crate) fn record_in_launch(
        &mut self,
        number: u64,
        stream: StreamKey,
        (event, data): (CUevent, CUgraphEdgeData),
    ) {
        if let Some(node) = self.line(number, stream).and_then(|line| line.launched) {
            self.events.insert(event.0, (number, vec![Edge { node, data }]));
        }
    }

    /// Lets a stream, which takes part in the capture `own` if any, wait for an event. True if
    /// the event was recorded in a capture, which the stream now takes part in.
    pub(crate) fn wait(
        &mut self,
        own: Option<u64>,
        stream: StreamKey,
        event: CUevent,
    ) -> Result<bool, CudaError> {
        let Some((number, behind)) = self.events.get(&event.0).cloned() else {
            return Ok(false);
        };
        let Some(capture) = self.active.get(&number) else {
            return Err(CudaError::INVALID_VALUE);
        };
        let alive = !capture.invalidated;
        match own {
            _ if !alive => Err(CudaError::CAPTURED_EVENT),
            Some(own) if own != number => {
                [own, number].into_iter().for_each(|number| self.invalidate_one(number));
                Err(CudaError::STREAM_CAPTURE_MERGE)
            }
            None if stream.order == StreamOrder::Legacy => Err(CudaError::STREAM_CAPTURE_IMPLICIT),
            _ => {
                let nodes: Vec<NodeId> = behind.iter().map(|edge| edge.node).collect();
                if let Some(line) = self.line(number, stream) {
                    line.join(behind);
                }
                if let Some(capture) =
                    self.active.get_mut(&number).filter(|c| c.origin == stream.id)
                {
                    capture.joined.extend(nodes);
                }
                Ok(true)
            }
        }
    }

    /// A stream is destroyed. A capture that it took part in goes on, and still has to join what
    /// the stream did; without its origin, where it would end, it leads nowhere.
    pub(crate) fn forget_stream(&mut self, id: u64) {
        let Some(number) = self.of_stream.remove(&id) else { return };
        let Some(capture) = self.active.get_mut(&number) else { return };
        if capture.origin == id {
            self.close(number);
        } else if let Some(line) = capture.lines.remove(&id) {
            capture.ends.extend(line.last);
        }
    }

    fn close(&mut self, number: u64) -> Option<Capture> {
        self.of_stream.retain(|_, n| *n != number);
        self.active.remove(&number)
    }

    /// Ends the capture in its origin. An error that leaves it as it was is the outer one.
    pub(crate) fn end(
        &mut self,
        stream: StreamKey,
        graphs: &BTreeMap<GraphId, Graph>,
    ) -> Result<Ended, CudaError> {
        let number = self.of(stream).ok_or(CudaError::ILLEGAL_STATE)?;
        let capture = self.active.get(&number).ok_or(CudaError::ILLEGAL_STATE)?;
        if capture.origin != stream.id {
            self.invalidate_one(number);
            return Err(CudaError::STREAM_CAPTURE_UNMATCHED);
        }
        let me = std::thread::current().id();
        if capture.mode != constant::MODE_RELAXED && capture.thread != me {
            return Err(CudaError::STREAM_CAPTURE_WRONG_THREAD);
        }
        let joined = graphs.get(&capture.graph).is_some_and(|graph| is_joined(capture, graph));
        let result = match (capture.invalidated, joined) {
            (true, _) => Err(CudaError::STREAM_CAPTURE_INVALIDATED),
            (false, false) => Err(CudaError::STREAM_CAPTURE_UNJOINED),
            (false, true) => Ok(()),
        };
        let (graph, into_existing) = (capture.graph, capture.into_existing);
        self.close(number);
        Ok(Ended { result, graph, discard: result.is_err() && !into_existing })
    }
}

/// True if the origin waits for all that other streams of the capture have done, or did so once, or something
/// else in the graph waits for it.
fn is_joined(capture: &Capture, graph: &Graph) -> bool {
    let Some(origin) = capture.lines.get(&capture.origin) else { return false };
    let mut from: Vec<NodeId> = origin.dependencies.iter().map(|edge| edge.node).collect();
    from.extend(&capture.joined);
    let seen = graph.ancestors(&from);
    let others = capture.lines.values().filter(|line| line.key.id != capture.origin);
    let last = others.filter_map(|line| line.last).chain(capture.ends.iter().copied());
    let mut open = last.filter(|node| !seen.contains(node)).peekable();
    if open.peek().is_none() {
        return true;
    }
    let awaited: BTreeSet<NodeId> = graph.edges().map(|(_, edge)| edge.node).collect();
    open.all(|node| awaited.contains(&node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{KernelNode, Parameters};
    use cuda_api::constants::graph_edge::PORT_LAUNCH_ORDER;
    use cuda_api::constants::launch_attribute::PROGRAMMATIC_STREAM_SERIALIZATION;
    use cuda_api::{CUfunction, CUlaunchAttribute, CUlaunchConfig, CUstream};

    const MAIN: StreamKey = StreamKey { id: 10, context: 1, order: StreamOrder::NonBlocking };
    const SIDE: StreamKey = StreamKey { id: 11, context: 1, order: StreamOrder::NonBlocking };
    const BLOCKING: StreamKey = StreamKey { id: 12, context: 1, order: StreamOrder::Blocking };
    const LEGACY: StreamKey = StreamKey { id: 0, context: 1, order: StreamOrder::Legacy };
    const EVENT: CUevent = CUevent(77);

    /// A capture in `MAIN` and its graph; each operation in a stream is an empty node.
    struct Scene {
        captures: Captures,
        graphs: BTreeMap<GraphId, Graph>,
        nodes: u64,
    }

    impl Scene {
        fn new(mode: u32) -> Self {
            let graphs = BTreeMap::from([(GraphId(1), Graph::default())]);
            let mut captures = Captures::default();
            captures.begin(5, MAIN, GraphId(1), None, mode).unwrap();
            Self { captures, graphs, nodes: 0 }
        }

        fn work(&mut self, stream: StreamKey) -> u64 {
            self.put(stream, NodeKind::Empty)
        }

        /// A launch, which may begin `early`.
        fn launch(&mut self, stream: StreamKey, early: bool) -> u64 {
            let attribute =
                CUlaunchAttribute::number(PROGRAMMATIC_STREAM_SERIALIZATION, early.into());
            let config = CUlaunchConfig::plain([1; 3], [32, 1, 1], 0, CUstream::NULL);
            let (attributes, parameters) = (vec![attribute], Parameters::default());
            let node = KernelNode::new(CUfunction::NULL, &config, attributes, parameters);
            self.put(stream, NodeKind::Kernel(node))
        }

        fn put(&mut self, stream: StreamKey, kind: NodeKind) -> u64 {
            let number = self.captures.enter(stream).unwrap().unwrap();
            let line = self.captures.line(number, stream).unwrap();
            self.nodes += 1;
            let id = NodeId(self.nodes);
            let graph = self.graphs.get_mut(&GraphId(1)).unwrap();
            let edges = line.edges_to(&kind, graph);
            line.went_on(id, kind.is_kernel());
            graph.add(id, kind, edges).unwrap();
            self.nodes
        }

        fn fork(&mut self, from: StreamKey, to: StreamKey) {
            self.captures.record(5, from, EVENT);
            let own = self.captures.of(to);
            assert_eq!(self.captures.wait(own, to, EVENT), Ok(true));
        }

        fn end(&mut self, stream: StreamKey) -> Result<CUresult, CudaError> {
            self.captures.end(stream, &self.graphs).map(|ended| ended.result)
        }
    }

    #[test]
    fn a_fork_that_is_joined_is_captured() {
        let mut scene = Scene::new(constant::MODE_GLOBAL);
        let first = scene.work(MAIN);
        scene.fork(MAIN, SIDE);
        let (left, right) = (scene.work(MAIN), scene.work(SIDE));
        assert_eq!(scene.captures.status(SIDE), Ok((constant::STATUS_ACTIVE, 5)));
        scene.fork(SIDE, MAIN);
        let last = scene.work(MAIN);
        assert_eq!(scene.end(MAIN), Ok(Ok(())));
        let edges: Vec<_> =
            scene.graphs[&GraphId(1)].edges().map(|(to, e)| (e.node.0, to.0)).collect();
        assert_eq!(edges, [(first, left), (first, right), (left, last), (right, last)]);
        assert_eq!(scene.captures.status(SIDE), Ok((constant::STATUS_NONE, 0)));
        assert_eq!(scene.end(MAIN), Err(CudaError::ILLEGAL_STATE));
        // The event belongs to a capture that is over.
        assert_eq!(scene.captures.wait(None, MAIN, EVENT), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn an_end_in_another_stream_invalidates_the_capture() {
        let mut scene = Scene::new(constant::MODE_GLOBAL);
        scene.work(MAIN);
        scene.fork(MAIN, SIDE);
        assert_eq!(scene.end(SIDE), Err(CudaError::STREAM_CAPTURE_UNMATCHED));
        assert_eq!(scene.end(MAIN), Ok(Err(CudaError::STREAM_CAPTURE_INVALIDATED)));
    }

    /// What the edges to a node say, by the nodes that they begin at.
    fn edges_to(scene: &Scene, node: u64) -> Vec<(u64, CUgraphEdgeData)> {
        let node = &scene.graphs[&GraphId(1)].nodes[&NodeId(node)];
        node.dependencies().iter().map(|edge| (edge.node.0, edge.data)).collect()
    }

    #[test]
    fn a_launch_that_may_begin_early_has_a_programmatic_edge_from_the_launch_before_it() {
        let (full, early) = (CUgraphEdgeData::default(), CUgraphEdgeData::PROGRAMMATIC);
        let mut scene = Scene::new(constant::MODE_GLOBAL);
        let first = scene.launch(MAIN, true);
        assert_eq!(edges_to(&scene, first), []);
        let second = scene.launch(MAIN, true);
        assert_eq!(edges_to(&scene, second), [(first, early)]);
        let third = scene.launch(MAIN, false);
        assert_eq!(edges_to(&scene, third), [(second, full)], "it has not asked for it");
        let empty = scene.work(MAIN);
        let fourth = scene.launch(MAIN, true);
        assert_eq!(edges_to(&scene, fourth), [(empty, full)], "that is no launch");
        // Another stream waits for an event, which is not recorded before the launch's end.
        scene.fork(MAIN, SIDE);
        let side = scene.launch(SIDE, true);
        assert_eq!(edges_to(&scene, side), [(fourth, full)]);
        scene.fork(SIDE, MAIN);
        let joined = scene.launch(MAIN, true);
        assert_eq!(edges_to(&scene, joined), [(fourth, full), (side, full)]);
        assert_eq!(scene.end(MAIN), Ok(Ok(())));
    }

    #[test]
    fn an_event_of_a_launch_is_waited_for_as_its_attribute_says() {
        let early = CUgraphEdgeData::PROGRAMMATIC;
        let begun = CUgraphEdgeData { from_port: PORT_LAUNCH_ORDER, ..CUgraphEdgeData::default() };
        let full = CUgraphEdgeData::default();
        for (data, to_launch, to_other) in [(early, early, full), (begun, begun, begun)] {
            for is_launch in [true, false] {
                let mut scene = Scene::new(constant::MODE_GLOBAL);
                let first = scene.launch(MAIN, false);
                scene.captures.record_in_launch(5, MAIN, (EVENT, data));
                assert_eq!(scene.captures.wait(None, SIDE, EVENT), Ok(true));
                let (next, expected) = match is_launch {
                    true => (scene.launch(SIDE, false), to_launch),
                    false => (scene.work(SIDE), to_other),
                };
                assert_eq!(edges_to(&scene, next), [(first, expected)]);
                // In its own stream it adds nothing to what the stream waits for.
                assert_eq!(scene.captures.wait(Some(5), MAIN, EVENT), Ok(true));
                let own = scene.launch(MAIN, true);
                assert_eq!(edges_to(&scene, own), [(first, full)]);
            }
        }
    }

    #[test]
    fn work_that_is_not_joined_is_an_error() {
        let mut scene = Scene::new(constant::MODE_GLOBAL);
        scene.work(MAIN);
        scene.fork(MAIN, SIDE);
        scene.work(SIDE);
        assert_eq!(scene.end(MAIN), Ok(Err(CudaError::STREAM_CAPTURE_UNJOINED)));
        // One that only waited has nothing to join.
        let mut scene = Scene::new(constant::MODE_GLOBAL);
        scene.work(MAIN);
        scene.fork(MAIN, SIDE);
        assert_eq!(scene.end(MAIN), Ok(Ok(())));
    }

    #[test]
    fn waiting_for_a_capturing_stream_invalidates_its_capture() {
        let mut scene = Scene::new(constant::MODE_RELAXED);
        let unsupported = Err(CudaError::STREAM_CAPTURE_UNSUPPORTED);
        assert_eq!(scene.captures.synchronize(SIDE), Ok(()));
        assert_eq!(scene.captures.synchronize(MAIN), unsupported);
        let invalidated = CudaError::STREAM_CAPTURE_INVALIDATED;
        assert_eq!(scene.captures.enter(MAIN), Err(invalidated));
        assert_eq!(scene.captures.synchronize(MAIN), unsupported, "invalidated as it is");
        assert_eq!(scene.captures.status(MAIN), Ok((constant::STATUS_INVALIDATED, 5)));
        assert_eq!(scene.end(MAIN), Ok(Err(invalidated)));
        assert_eq!(scene.captures.synchronize_context(1), Ok(()));
    }

    #[test]
    fn asking_about_a_captured_event_invalidates_its_capture() {
        let mut scene = Scene::new(constant::MODE_GLOBAL);
        scene.work(MAIN);
        assert_eq!(scene.captures.ask_event(EVENT), Ok(()), "never recorded");
        scene.captures.record(5, MAIN, EVENT);
        assert_eq!(scene.captures.ask_event(EVENT), Err(CudaError::CAPTURED_EVENT));
        assert_eq!(scene.captures.status(MAIN), Ok((constant::STATUS_INVALIDATED, 5)));
        assert_eq!(scene.end(MAIN), Ok(Err(CudaError::STREAM_CAPTURE_INVALIDATED)));
        assert_eq!(scene.captures.ask_event(EVENT), Err(CudaError::INVALID_VALUE), "it is over");
    }

    #[test]
    fn the_legacy_stream_must_not_wait_for_a_capture() {
        let mut scene = Scene::new(constant::MODE_GLOBAL);
        assert_eq!(scene.captures.enter(LEGACY), Ok(None));
        scene.fork(MAIN, BLOCKING);
        let implicit = Err(CudaError::STREAM_CAPTURE_IMPLICIT);
        assert_eq!(scene.captures.status(LEGACY).map(|_| ()), implicit);
        assert_eq!(scene.captures.status(MAIN), Ok((constant::STATUS_ACTIVE, 5)));
        let elsewhere = StreamKey { context: 2, ..LEGACY };
        assert_eq!(scene.captures.enter(elsewhere), Ok(None));
        assert_eq!(scene.captures.enter(LEGACY).map(|_| ()), implicit);
        assert_eq!(scene.end(MAIN), Ok(Err(CudaError::STREAM_CAPTURE_INVALIDATED)));
    }

    #[test]
    fn two_captures_do_not_become_one() {
        let mut scene = Scene::new(constant::MODE_RELAXED);
        scene.graphs.insert(GraphId(2), Graph::default());
        scene.captures.begin(6, SIDE, GraphId(2), None, constant::MODE_RELAXED).unwrap();
        scene.captures.record(5, MAIN, EVENT);
        let merge = Err(CudaError::STREAM_CAPTURE_MERGE);
        assert_eq!(scene.captures.wait(Some(6), SIDE, EVENT), merge);
        for stream in [MAIN, SIDE] {
            assert_eq!(scene.end(stream), Ok(Err(CudaError::STREAM_CAPTURE_INVALIDATED)));
        }
    }

    #[test]
    fn modes_say_which_threads_may_do_what() {
        use constant::{MODE_GLOBAL, MODE_RELAXED, MODE_THREAD_LOCAL};
        let forbidden = |capture: u32, own: u32, same_thread: bool| {
            let mut scene = Scene::new(capture);
            let mut ask = move || {
                exchange_mode(own);
                let result = scene.captures.unsafe_call();
                exchange_mode(MODE_GLOBAL);
                result.is_err()
            };
            match same_thread {
                true => ask(),
                false => std::thread::spawn(ask).join().unwrap(),
            }
        };
        for own in [MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED] {
            for capture in [MODE_GLOBAL, MODE_THREAD_LOCAL, MODE_RELAXED] {
                let here = own != MODE_RELAXED && capture != MODE_RELAXED;
                assert_eq!(forbidden(capture, own, true), here, "{capture} {own}");
                let there = own == MODE_GLOBAL && capture == MODE_GLOBAL;
                assert_eq!(forbidden(capture, own, false), there, "{capture} {own}");
            }
        }
    }

    /// As NCCL does with the stream that it orders its collectives by.
    #[test]
    fn what_a_stream_is_made_to_wait_for_by_hand_need_not_be_joined() {
        let set = |scene: &mut Scene, nodes: &[u64]| {
            let edges = nodes.iter().map(|node| Edge::plain(NodeId(*node))).collect();
            scene.captures.line(5, SIDE).expect("it takes part").set(edges);
        };
        let unjoined = Err(CudaError::STREAM_CAPTURE_UNJOINED);
        for (works, sets, works_again, expected) in [
            (true, false, false, unjoined),
            (true, true, false, Ok(())),
            (false, true, false, Ok(())),
            (false, true, true, unjoined),
        ] {
            for destroyed in [false, true] {
                let mut scene = Scene::new(constant::MODE_GLOBAL);
                scene.work(MAIN);
                scene.fork(MAIN, SIDE);
                let own = if works { vec![scene.work(SIDE)] } else { Vec::new() };
                if sets {
                    set(&mut scene, &own);
                }
                if works_again {
                    scene.work(SIDE);
                }
                if destroyed {
                    scene.captures.forget_stream(SIDE.id);
                }
                let end = scene.end(MAIN);
                assert_eq!(end, Ok(expected), "{works} {sets} {works_again} {destroyed}");
            }
        }
    }

    #[test]
    fn only_relaxed_captures_end_in_another_thread() {
        for (mode, expected) in [
            (constant::MODE_RELAXED, Ok(Ok(()))),
            (constant::MODE_THREAD_LOCAL, Err(CudaError::STREAM_CAPTURE_WRONG_THREAD)),
        ] {
            let mut scene = Scene::new(mode);
            let end = std::thread::spawn(move || scene.end(MAIN)).join().unwrap();
            assert_eq!(end, expected);
        }
    }

    #[test]
    fn a_stream_may_go_before_the_end_if_what_it_did_is_joined() {
        for (joined, expected) in [(true, Ok(())), (false, Err(CudaError::STREAM_CAPTURE_UNJOINED))]
        {
            let mut scene = Scene::new(constant::MODE_GLOBAL);
            scene.work(MAIN);
            scene.fork(MAIN, SIDE);
            scene.work(SIDE);
            if joined {
                scene.fork(SIDE, MAIN);
            }
            scene.captures.forget_stream(SIDE.id);
            assert_eq!(scene.captures.enter(SIDE), Ok(None));
            scene.work(MAIN);
            assert_eq!(scene.end(MAIN), Ok(expected));
        }
    }

    #[test]
    fn an_origin_that_goes_takes_its_capture_with_it() {
        let mut scene = Scene::new(constant::MODE_GLOBAL);
        scene.fork(MAIN, SIDE);
        scene.captures.forget_stream(MAIN.id);
        assert!(scene.captures.active.is_empty());
        assert_eq!(scene.captures.enter(SIDE), Ok(None));
        assert_eq!(
            scene.captures.check_begin(LEGACY, 0),
            Err(CudaError::STREAM_CAPTURE_UNSUPPORTED)
        );
        assert_eq!(scene.captures.check_begin(MAIN, 3), Err(CudaError::INVALID_VALUE));
    }
}
