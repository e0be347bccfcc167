//! Pieces of a graph: the same nodes as several graphs of the provider, launched one after the other.
//!
//! Between two pieces a client can be made to wait. So a graph of a client that is bounded is cut when it is
//! launched, into pieces of about as much predicted time as half of what the client may have in flight, and again
//! when that has changed or a piece turns out to take much longer. Graphs with conditional nodes or copies of arrays
//! are not cut, nor are those whose nodes are not in an order of their edges.

use crate::device::{
    CheckedRange, Copy3DSide, Function, GraphBuilder, LaunchShape, PlacedGraph, Share, Stream,
};
use crate::meter::{Shape, ShapeCounters};
use crate::session::stream::admission::predicted;
use cuda_api::{CUgraphEdgeData, CudaError};
use scheduling::Predicted;
use scheduling::pieces;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// What a node is made of.
pub(in crate::session) enum Node {
    Empty,
    Kernel { function: Function, shape: LaunchShape, parameters: Vec<u8> },
    Copy { to: Copy3DSide<'static>, from: Copy3DSide<'static>, extent: [u64; 3] },
    Fill { range: CheckedRange, pitch: u64, value: (u32, u32), extent: [u64; 2] },
}

impl Node {
    /// A copy; `None` if it is one of an array.
    pub fn copy(to: &Copy3DSide<'_>, from: &Copy3DSide<'_>, extent: [u64; 3]) -> Option<Self> {
        let memory = |side: &Copy3DSide<'_>| match *side {
            Copy3DSide::Memory { range, pitch, rows, host } => {
                Some(Copy3DSide::Memory { range, pitch, rows, host })
            }
            Copy3DSide::Array { .. } => None,
        };
        Some(Self::Copy { to: memory(to)?, from: memory(from)?, extent })
    }
}

/// A piece that takes this multiple of its bound is cut again.
const TOO_LONG: u64 = 4;

/// A piece.
pub(in crate::session) struct Piece {
    pub exec: PlacedGraph,
    /// Its kernels, by their places among the graph's.
    pub kernels: Range<usize>,
    /// Its times as a whole.
    pub times: Arc<ShapeCounters>,
}

impl Piece {
    /// How many kernels it has.
    pub fn count(&self) -> u32 {
        self.kernels.len() as u32
    }

    /// What its launch is predicted to take: by its own times, else by those of its kernels, which are `all` of the
    /// graph.
    pub fn predicted(&self, all: &[Arc<ShapeCounters>]) -> Predicted {
        match self.times.launch_time() {
            Some(known) => predicted(Some(known)),
            None => sum_of(all.get(self.kernels.clone()).unwrap_or_default()),
        }
    }

    /// What each of its kernels is predicted to take: together what it takes as a whole, if that is known and more.
    fn predicted_each(&self, all: &[Arc<ShapeCounters>]) -> Vec<Predicted> {
        let own = all.get(self.kernels.clone()).unwrap_or_default();
        scaled(own, self.times.launch_time().map_or(0, |known| known.device_ns))
    }
}

/// What kernels are predicted to take together, by themselves.
pub(in crate::session) fn sum_of(kernels: &[Arc<ShapeCounters>]) -> Predicted {
    kernels.iter().map(|kernel| predicted(kernel.launch_time())).sum()
}

/// What each of some kernels is predicted to take, if together they took so long, ns, at least.
fn scaled(kernels: &[Arc<ShapeCounters>], whole_ns: u64) -> Vec<Predicted> {
    let sum_ns = sum_of(kernels).mean_ns.max(1);
    let longer = |ns: u64| match whole_ns > sum_ns {
        true => (u128::from(ns) * u128::from(whole_ns) / u128::from(sum_ns)) as u64,
        false => ns,
    };
    let each = kernels.iter().map(|kernel| predicted(kernel.launch_time()));
    let each = each.map(|Predicted { mean_ns, longest_ns }| Predicted {
        mean_ns: longer(mean_ns),
        longest_ns: longer(longest_ns),
    });
    each.collect()
}

/// A graph in pieces, as far as it is cut.
#[derive(Default)]
pub(in crate::session) struct Cut {
    pub pieces: Vec<Piece>,
    /// For pieces of which length it was cut, ns; 0: not yet.
    bound_ns: u64,
}

impl Cut {
    /// Cuts a graph for launches in streams like that one, if it is not yet, or not as it should be. `kernels`
    /// are counted for its kernels, in order, `whole_ns` is what it takes as a whole; 0 if that is not known.
    pub fn follow(
        &mut self,
        recording: &Recording,
        (share, like): (&Rc<Share>, Option<&Stream>),
        kernels: &[Arc<ShapeCounters>],
        (bound_ns, whole_ns): (u64, u64),
    ) -> Result<(), CudaError> {
        let most_ns = bound_ns.saturating_mul(TOO_LONG);
        let is_long =
            |piece: &Piece| piece.kernels.len() > 1 && piece.predicted(kernels).mean_ns > most_ns;
        let is_long = match self.pieces.is_empty() {
            true => kernels.len() > 1 && whole_ns > most_ns,
            false => self.pieces.iter().any(is_long),
        };
        if self.bound_ns == bound_ns && !is_long {
            return Ok(());
        }
        let times: Vec<Predicted> = match self.pieces.is_empty() {
            true => scaled(kernels, whole_ns),
            false => self.pieces.iter().flat_map(|piece| piece.predicted_each(kernels)).collect(),
        };
        self.pieces = recording.pieces(share, like, &times, bound_ns)?;
        self.bound_ns = bound_ns;
        Ok(())
    }
}

/// What a graph is put together of, in the order of its nodes' numbers.
#[derive(Default)]
pub(in crate::session) struct Recording {
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

    /// True if pieces of it, one after the other, are the same as all of it.
    pub fn can_be_cut(&self) -> bool {
        pieces::is_ordered(self.edges.iter().map(|(from, to, _)| (*from, *to)))
    }

    /// The pieces, of about `bound_ns` each, for launches in streams like that one; `kernels` are predicted times of
    /// its kernels, in order. None if the graph is short enough as it is.
    fn pieces(
        &self,
        share: &Rc<Share>,
        like: Option<&Stream>,
        kernels: &[Predicted],
        bound_ns: u64,
    ) -> Result<Vec<Piece>, CudaError> {
        let mut kernels = kernels.iter();
        let time_of = |node: &Node| match node {
            Node::Kernel { .. } => kernels.next().map_or(0, |time| time.mean_ns),
            _ => 0,
        };
        let means: Vec<u64> = self.nodes.iter().map(time_of).collect();
        let ranges = pieces::cut(&means, bound_ns);
        if ranges.len() < 2 {
            return Ok(Vec::new());
        }
        let mut edges: Vec<_> = self.edges.iter().collect();
        edges.sort_by_key(|(_, to, _)| *to);
        let mut made = Vec::with_capacity(ranges.len());
        let mut first_kernel = 0;
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
            for (from, to, data) in inside.filter(|edge| edge.0 as usize >= range.start) {
                let (from, to) = (*from as usize - range.start, *to as usize - range.start);
                builder.add_edges(to as u32, [(from as u32, *data)])?;
            }
            let exec = PlacedGraph::new(builder, like)?;
            let kernels = first_kernel..first_kernel + count;
            first_kernel = kernels.end;
            let times = Arc::new(ShapeCounters::new(Shape::of_graph(count as u32), 0));
            made.push(Piece { exec, kernels, times });
        }
        Ok(made)
    }
}
