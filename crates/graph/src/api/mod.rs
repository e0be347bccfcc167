//! The driver API's functions of graphs and capture, one for each row of
//! [`cuda_api::graph_functions`].
//!
//! Each takes the backend first; one that has a variant takes then whether NULL stands for the
//! thread's own default stream. Where the manual says that a list is given out, a NULL array
//! asks for its length, and what is beyond the list in a longer array becomes NULL.
#![allow(missing_docs, reason = "the functions are cuda.h's, and documented in CUDA's manual")]

mod capture;
mod conditional;
mod exec;
mod graph;
mod host;
mod kernel;
mod memory;
mod node;
mod object;
mod params;
mod transfer;
mod update;

pub use capture::*;
pub use conditional::*;
pub use exec::*;
pub use graph::*;
pub use host::*;
pub use kernel::*;
pub use memory::*;
pub use node::*;
pub use object::*;
pub use params::*;
pub use transfer::*;
pub use update::*;

use crate::backend::Backend;
use crate::id::{Edge, NodeId, node_word};
use crate::memory::Allocation;
use crate::node::NodeKind;
use crate::store::{Removed, Tables};
use cuda_api::pointer::{In, Out};
use cuda_api::{CUgraph, CUgraphEdgeData, CUgraphNode, CUmemLocation, CUresult, CudaError};
use std::sync::Arc;

/// Stores a list.
fn give<T: Copy + Default>(items: &[T], to: Out<T>, count: Out<usize>) -> CUresult {
    if to.is_null() {
        return count.set(items.len());
    }
    let room = count.as_in().get()?;
    give_part(items, to, room)?;
    count.set(items.len().min(room))
}

/// Stores a list in an array with `room`, if there is one.
fn give_part<T: Copy + Default>(items: &[T], to: Out<T>, room: usize) -> CUresult {
    if to.is_null() {
        return Ok(());
    }
    (0..room).try_for_each(|i| to.array(room).set(i, items.get(i).copied().unwrap_or_default()))
}

/// Reads the data of edge `index`, which is the default if the program gives none.
fn edge_data(
    data: In<CUgraphEdgeData>,
    count: usize,
    index: usize,
) -> Result<CUgraphEdgeData, CudaError> {
    if data.is_null() {
        return Ok(CUgraphEdgeData::default());
    }
    // Between which nodes it may be is known where the edge is made.
    let data = data.array(count).at(index)?;
    if data.fits(true, true) { Ok(data) } else { Err(CudaError::INVALID_VALUE) }
}

/// Fails if the program asks for edges without asking what they say, and some say something:
/// CUDA_ERROR_LOSSY_QUERY.
fn check_lossless<'a>(
    data: bool,
    mut edges: impl Iterator<Item = &'a CUgraphEdgeData>,
) -> CUresult {
    match data || edges.all(CUgraphEdgeData::is_full) {
        true => Ok(()),
        false => Err(CudaError::LOSSY_QUERY),
    }
}

/// Reads a list of nodes as edges from them.
fn read_edges<E>(
    tables: &Tables<E>,
    nodes: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
) -> Result<Vec<Edge>, CudaError> {
    let edge = |index| {
        let (_, node) = tables.node_id(nodes.array(count).at(index)?)?;
        Ok(Edge { node, data: edge_data(data, count, index)? })
    };
    (0..count).map(edge).collect()
}

/// What every function that adds a node is given beside the node's parameters.
#[derive(Clone, Copy)]
struct Place {
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
}

impl Place {
    fn new(graph: CUgraph, dependencies: In<CUgraphNode>, count: usize) -> Self {
        Self { graph, dependencies, data: In::null(), count }
    }

    /// Adds the node that `make` describes.
    fn add<B: Backend>(
        self,
        backend: B,
        node: Out<CUgraphNode>,
        make: impl FnOnce() -> Result<NodeKind, CudaError>,
    ) -> CUresult {
        node.required()?;
        backend.check_context()?;
        backend.graphs().lock().graph_id(self.graph)?;
        let kind = make()?;
        let embedded = kind.embedded().to_vec();
        let mut tables = backend.graphs().lock();
        let added = self.add_to(&mut tables, kind);
        if added.is_err() {
            let removed: Vec<_> = embedded.into_iter().map(|id| tables.remove_graph(id)).collect();
            drop(tables);
            removed.into_iter().for_each(Removed::finish);
        }
        node.set(node_word(added?))
    }

    /// Memory that the graph has freed before the node that is added here, if there is some.
    fn vacant<B: Backend>(
        self,
        backend: B,
        bytes: u64,
        location: CUmemLocation,
    ) -> Result<Option<Arc<Allocation>>, CudaError> {
        let tables = backend.graphs().lock();
        let graph = tables.graph(tables.graph_id(self.graph)?)?;
        let edges = read_edges(&tables, self.dependencies, self.data, self.count)?;
        Ok(graph.vacant(bytes, location, &edges).filter(|_| bytes > 0))
    }

    fn add_to<E>(self, tables: &mut Tables<E>, kind: NodeKind) -> Result<NodeId, CudaError> {
        let graph = tables.graph_id(self.graph)?;
        let edges = read_edges(tables, self.dependencies, self.data, self.count)?;
        tables.add_node(graph, kind, edges)
    }
}

/// What `pick` finds in a node; CUDA_ERROR_INVALID_VALUE for a node of another type.
fn get<B: Backend, R>(
    backend: B,
    node: CUgraphNode,
    pick: impl FnOnce(&mut NodeKind) -> Option<R>,
) -> Result<R, CudaError> {
    let mut tables = backend.graphs().lock();
    pick(&mut tables.node_mut(node)?.kind).ok_or(CudaError::INVALID_VALUE)
}

/// Exchanges what a node of a graph does. CUDA_ERROR_INVALID_VALUE if its type is another one.
fn set<B: Backend>(backend: B, node: CUgraphNode, kind: NodeKind) -> CUresult {
    let mut tables = backend.graphs().lock();
    let node = tables.node_mut(node)?;
    exchange(&mut node.kind, kind)
}

/// Exchanges what a node of a launchable graph does, as [`set`].
fn set_in_exec<B: Backend>(
    backend: B,
    exec: cuda_api::CUgraphExec,
    node: CUgraphNode,
    kind: NodeKind,
) -> CUresult {
    let exec = exec::find(backend, exec)?;
    let mut exec = exec::locked(&exec);
    exchange(&mut exec.change(node)?.kind, kind)
}

/// A kernel's attributes are not among its parameters and stay; everything else is new.
fn exchange(old: &mut NodeKind, mut new: NodeKind) -> CUresult {
    if old.number() != new.number() {
        return Err(CudaError::INVALID_VALUE);
    }
    if let (NodeKind::Kernel(old), NodeKind::Kernel(new)) = (&*old, &mut new) {
        new.attributes = old.attributes.clone();
    }
    *old = new;
    Ok(())
}
