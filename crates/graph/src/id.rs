//! Identifiers: numbers of graphs and nodes, the edges between nodes, and the handles of numbers.

use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUuserObject, CudaError};

/// Bits of a number that are its handle's index; the rest are its generation.
const INDEX_BITS: u32 = 24;

/// Number of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphId(pub(crate) u64);

/// Number of a node, unique among all graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u64);

/// That a node waits for another one.
#[derive(Clone, Copy, Debug, Eq)]
pub(crate) struct Edge {
    /// Whom it waits for.
    pub(crate) node: NodeId,
    pub(crate) data: CUgraphEdgeData,
}

impl PartialEq for Edge {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        crate::counted::compare();
        (self.node, self.data) == (other.node, other.data)
    }
}

impl Edge {
    /// An edge without data.
    pub(crate) fn plain(node: NodeId) -> Self {
        Self { node, data: CUgraphEdgeData::default() }
    }
}

fn word(kind: HandleKind, number: u64) -> usize {
    let index = number as u32 & Handle::INDEX_MAX;
    Handle { kind, index, generation: (number >> INDEX_BITS) as u32 }.to_word() as usize
}

fn number(kind: HandleKind, word: usize) -> Result<u64, CudaError> {
    let handle = Handle::from_word(word as u64).filter(|handle| handle.kind == kind);
    let handle = handle.ok_or(CudaError::INVALID_VALUE)?;
    Ok(u64::from(handle.generation) << INDEX_BITS | u64::from(handle.index))
}

pub(crate) fn graph_word(id: GraphId) -> CUgraph {
    CUgraph(word(HandleKind::Graph, id.0))
}

pub(crate) fn node_word(id: NodeId) -> CUgraphNode {
    CUgraphNode(word(HandleKind::GraphNode, id.0))
}

pub(crate) fn exec_word(id: u64) -> CUgraphExec {
    CUgraphExec(word(HandleKind::GraphExec, id))
}

pub(crate) fn object_word(id: u64) -> CUuserObject {
    CUuserObject(word(HandleKind::UserObject, id))
}

pub(crate) fn exec_number(exec: CUgraphExec) -> Result<u64, CudaError> {
    number(HandleKind::GraphExec, exec.0)
}

pub(crate) fn object_number(object: CUuserObject) -> Result<u64, CudaError> {
    number(HandleKind::UserObject, object.0)
}

pub(crate) fn node_number(node: CUgraphNode) -> Result<NodeId, CudaError> {
    number(HandleKind::GraphNode, node.0).map(NodeId)
}

pub(crate) fn graph_number(graph: CUgraph) -> Result<GraphId, CudaError> {
    number(HandleKind::Graph, graph.0).map(GraphId)
}
