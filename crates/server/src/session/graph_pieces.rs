//! Pieces of a graph: the same nodes as several graphs of the provider, launched one after the other.
//!
//! Between two pieces a client can be made to wait. So a graph of a client of class batch is kept in
//! pieces too, each of about as much predicted time as the client may have in flight. Graphs with
//! conditional nodes or copies of arrays are not cut, nor are those whose nodes are not in an order of their edges.

use crate::device::{
    BoxSide, CheckedRange, Function, GraphBuilder, LaunchShape, PlacedGraph, Share, Stream,
};
use cuda_api::{CUgraphEdgeData, CudaError};
use scheduling::Predicted;
use scheduling::pieces;
use std::rc::Rc;

/// What a node is made of.
pub(super) enum Node {
    Empty,
    Kernel { function: Function, shape: LaunchShape, parameters: Vec<u8> },
    Copy { to: BoxSide<'static>, from: BoxSide<'static>, extent: [u64; 3] },
    Fill { range: CheckedRange, pitch: u64, value: (u32, u32), extent: [u64; 2] },
}

impl Node {
    /// A copy; `None` if it is one of an array.
    pub fn copy(to: &BoxSide<'_>, from: &BoxSide<'_>, extent: [u64; 3]) -> Option<Self> {
        let memory = |side: &BoxSide<'_>| match *side {
            BoxSide::Memory { range, pitch, rows, host } => {
                Some(BoxSide::Memory { range, pitch, rows, host })
            }
            BoxSide::Array { .. } => None,
        };
        Some(Self::Copy { to: memory(to)?, from: memory(from)?, extent })
    }
}

/// A piece.
pub(super) struct Piece {
    pub exec: PlacedGraph,
    pub kernels: u32,
    pub predicted: Predicted,
}

/// What a graph is put together of, in the order of its nodes' numbers.
#[derive(Default)]
pub(super) struct Recording {
    nodes: Vec<Node>,
    /// From which node to which, and what the edge says.
    edges: Vec<(u32, u32, CUgraphEdgeData)>,
}

impl Recording {
    /// The next node.
    pub fn add(&mut self, node: Node) {
        self.nodes.push(node);
    }

    /// A node waits for others.
    pub fn add_edges(&mut self, node: u32, from: &[(u32, CUgraphEdgeData)]) {
        self.edges.extend(from.iter().map(|(from, data)| (*from, node, *data)));
    }

    /// The pieces, of about `bound_ns` each, for launches in streams like that one; `kernels` are predicted times of its kernels, in order.
    /// None if the graph cannot be cut, or is short enough as it is.
    pub fn pieces(
        self,
        share: &Rc<Share>,
        like: Option<&Stream>,
        kernels: impl Iterator<Item = Predicted>,
        bound_ns: u64,
    ) -> Result<Vec<Piece>, CudaError> {
        let mut kernels = kernels;
        let time_of = |node: &Node| match node {
            Node::Kernel { .. } => kernels.next().unwrap_or_default(),
            _ => Predicted::default(),
        };
        let times: Vec<Predicted> = self.nodes.iter().map(time_of).collect();
        let means: Vec<u64> = times.iter().map(|time| time.mean_ns).collect();
        let ranges = pieces::cut(&means, bound_ns);
        if ranges.len() < 2
            || !pieces::is_ordered(self.edges.iter().map(|(from, to, _)| (*from, *to)))
        {
            return Ok(Vec::new());
        }
        let mut edges = self.edges;
        edges.sort_by_key(|(_, to, _)| *to);
        let mut made = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut builder = GraphBuilder::new(share)?;
            let mut count = 0;
            for node in &self.nodes[range.clone()] {
                match node {
                    Node::Empty => builder.add_empty()?,
                    Node::Kernel { function, shape, parameters } => {
                        count += 1;
                        builder.add_kernel(function, *shape, parameters)?;
                    }
                    Node::Copy { to, from, extent } => builder.add_copy(*to, *from, *extent)?,
                    Node::Fill { range, pitch, value, extent } => {
                        builder.add_fill(*range, *pitch, *value, *extent)?;
                    }
                }
            }
            let first = edges.partition_point(|(_, to, _)| (*to as usize) < range.start);
            let inside = edges[first..].iter().take_while(|(_, to, _)| (*to as usize) < range.end);
            // Edges from earlier pieces are kept by the order of the pieces.
            for (from, to, data) in inside.filter(|(from, ..)| *from as usize >= range.start) {
                let (from, to) = (*from as usize - range.start, *to as usize - range.start);
                builder.add_edges(to as u32, [(from as u32, *data)])?;
            }
            let predicted = times[range].iter().copied().sum();
            let exec = PlacedGraph::new(builder, like)?;
            made.push(Piece { exec, kernels: count, predicted });
        }
        Ok(made)
    }
}
