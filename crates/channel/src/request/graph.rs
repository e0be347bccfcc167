//! Requests about graphs.
//!
//! A graph exists in the client; what the server gets is what a launch consists of, node by node
//! ([`GraphBegin`] to [`GraphInstantiate`]), under a handle that the client chose. Nodes have the
//! numbers in which they come, from 0. What is wrong with one of them is the answer to the
//! instantiation. Functions of the program, events and pageable memory are no nodes: the client
//! splits a graph where it has them.

use super::{LaunchKernel, payloads};
use crate::payload::{Malformed, Payload, Reader, Sink};
use crate::region::RECORD_BYTES_MAX;
use cuda_api::{CUdeviceptr, CUgraphEdgeData, CUgraphExec, CUstream};

/// Most edges of one [`GraphEdges`]; more travel in several.
pub const GRAPH_EDGES_MAX: usize = 4096;

const _: () = assert!(8 * (4 + GRAPH_EDGES_MAX as u64) <= RECORD_BYTES_MAX);

payloads! {
    /// The first one for a graph.
    GraphBegin {
        /// The graph.
        graph: CUgraphExec,
    }

    /// A node that does nothing.
    GraphEmpty {
        /// The graph.
        graph: CUgraphExec,
    }

    /// A node that fills device memory.
    GraphFill {
        /// The graph.
        graph: CUgraphExec,
        /// The first byte.
        address: CUdeviceptr,
        /// Distance of rows, bytes.
        pitch: u64,
        /// What is written.
        value: u32,
        /// Bytes of the value: 1, 2 or 4.
        element_bytes: u32,
        /// Elements of a row.
        width: u64,
        /// Rows.
        height: u64,
    }

    /// Makes of the nodes what can be launched.
    GraphInstantiate {
        /// The graph.
        graph: CUgraphExec,
        /// A graph whose place it takes, or NULL: it is gone if this one succeeds.
        replaces: CUgraphExec,
    }

    /// cuGraphLaunch.
    GraphLaunch {
        /// The graph.
        graph: CUgraphExec,
        /// In which stream.
        stream: CUstream,
    }

    /// Destroys a graph; launches of it go on.
    GraphDestroy {
        /// The graph.
        graph: CUgraphExec,
    }
}

payloads! {
    /// Asks what the conditions of conditional nodes are: an error if the device cannot choose what
    /// runs.
    GraphCanChoose {}

    /// The answer.
    GraphConditions {
        /// 0: words of the client's device memory. 1: numbers that the device's driver gives away,
        /// 1, 2, ... in a graph with its bodies ([`GraphCondition`]).
        numbered: u32,
    }

    /// Has the device make a condition, of that number, for a graph that is no body; a node that
    /// does nothing.
    GraphCondition {
        /// The graph.
        graph: CUgraphExec,
        /// The condition's number.
        condition: u64,
        /// What it is set to when the graph begins, if `flags` say so.
        default: u32,
        /// As of cuGraphConditionalHandleCreate.
        flags: u32,
    }
}

/// Most bodies of one [`GraphConditional`]: as many as programs are offered.
pub const GRAPH_BODIES_MAX: usize = 4096;

const _: () = assert!(8 * (4 + GRAPH_BODIES_MAX as u64) <= RECORD_BYTES_MAX);

/// A node that chooses between graphs. These begin with it, and are put together as others are;
/// they are instantiated with the graph of the node, and gone after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphConditional<'a> {
    /// The graph.
    pub graph: CUgraphExec,
    /// CUgraphConditionalNodeType.
    pub rule: u32,
    /// The condition: the word's address, or the number.
    pub condition: u64,
    /// The graphs, by new handles of the client's: at most [`GRAPH_BODIES_MAX`].
    pub bodies: &'a [u64],
}

impl<'a> Payload<'a> for GraphConditional<'a> {
    fn words(&self) -> usize {
        4 + self.bodies.len()
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.graph.0 as u64);
        sink.word(self.rule.into());
        sink.word(self.condition);
        sink.word(self.bodies.len() as u64);
        self.bodies.iter().for_each(|word| sink.word(*word));
    }
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (graph, rule, condition) = (reader.value()?, reader.value()?, reader.value()?);
        let count = reader.length(GRAPH_BODIES_MAX)?;
        Ok(Self { graph, rule, condition, bodies: reader.words(count)? })
    }
}

/// A node that launches a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphKernel<'a> {
    /// The graph.
    pub graph: CUgraphExec,
    /// The launch; its stream means nothing.
    pub launch: LaunchKernel<'a>,
}

impl<'a> Payload<'a> for GraphKernel<'a> {
    fn words(&self) -> usize {
        1 + self.launch.words()
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.graph.0 as u64);
        self.launch.write(sink);
    }
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { graph: reader.value()?, launch: LaunchKernel::read(reader)? })
    }
}

/// That a node waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphEdges<'a> {
    /// The graph.
    pub graph: CUgraphExec,
    /// Number of the node that waits.
    pub node: u32,
    /// Those it waits for, as [`GraphEdges::word`] says it: at most [`GRAPH_EDGES_MAX`].
    pub from: &'a [u64],
}

/// Bits of an edge's word: the node's number, then the edge's data, of which all else is 0.
const NODE_BITS: u32 = 32;
const PORT_SHIFT: u32 = NODE_BITS;
const KIND_SHIFT: u32 = PORT_SHIFT + 8;

impl GraphEdges<'_> {
    /// The word of an edge from a node of that number. What no edge can say ([`CUgraphEdgeData::fits`])
    /// becomes a full edge.
    pub fn word(from: u32, data: CUgraphEdgeData) -> u64 {
        let data = if data.fits(true, true) { data } else { CUgraphEdgeData::default() };
        u64::from(from)
            | u64::from(data.from_port) << PORT_SHIFT
            | u64::from(data.kind) << KIND_SHIFT
    }

    /// Node and data of an edge's word; `None` for one that no edge has.
    pub fn edge(word: u64) -> Option<(u32, CUgraphEdgeData)> {
        let (from, from_port, kind) =
            (word as u32, (word >> PORT_SHIFT) as u8, (word >> KIND_SHIFT) as u8);
        let data = CUgraphEdgeData { from_port, kind, ..CUgraphEdgeData::default() };
        (Self::word(from, data) == word).then_some((from, data))
    }
}

impl<'a> Payload<'a> for GraphEdges<'a> {
    fn words(&self) -> usize {
        3 + self.from.len()
    }
    fn write(&self, sink: &mut impl Sink) {
        sink.word(self.graph.0 as u64);
        sink.word(self.node.into());
        sink.word(self.from.len() as u64);
        self.from.iter().for_each(|word| sink.word(*word));
    }
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (graph, node) = (reader.value()?, reader.value()?);
        let count = reader.length(GRAPH_EDGES_MAX)?;
        Ok(Self { graph, node, from: reader.words(count)? })
    }
}
