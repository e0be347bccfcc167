//! A graph: nodes, and edges between them.
//!
//! An edge is kept with the node that waits. Numbers of nodes ascend as they are made, so the
//! order of the numbers is the order in which the program made them.

use crate::conditional::Condition;
use crate::id::{Edge, NodeId};
use crate::memory::Allocation;
use crate::node::NodeKind;
use crate::reuse::Blocks;
use cuda_api::{CUgraphEdgeData, CUmemLocation, CudaError};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) dependencies: Vec<Edge>,
    /// The node that this is the copy of, if its graph is a clone.
    pub(crate) original: Option<NodeId>,
}

#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    /// It belongs to a node of another graph, and goes with it.
    pub(crate) embedded: bool,
    /// References to objects of the program's, by their numbers.
    pub(crate) user_objects: BTreeMap<u64, u64>,
    /// Words that nodes of it or of its bodies look at.
    pub(crate) conditions: Vec<Condition>,
    /// Memory that nodes of it allocate.
    pub(crate) blocks: Blocks,
}

impl Graph {
    /// The node; CUDA_ERROR_INVALID_VALUE if it is not of this graph.
    pub(crate) fn node(&self, id: NodeId) -> Result<&Node, CudaError> {
        self.nodes.get(&id).ok_or(CudaError::INVALID_VALUE)
    }

    /// True for a node that launches a kernel: edges to and from it may be other than full.
    pub(crate) fn is_kernel(&self, id: NodeId) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.kind.is_kernel())
    }

    /// Adds a node. CUDA_ERROR_INVALID_VALUE for a dependency that is twice the same, not of this
    /// graph or not possible between such nodes, and for memory of the graph that is freed twice.
    pub(crate) fn add(
        &mut self,
        id: NodeId,
        kind: NodeKind,
        dependencies: Vec<Edge>,
    ) -> Result<(), CudaError> {
        for (index, edge) in dependencies.iter().enumerate() {
            let from = self.node(edge.node)?;
            let fits = edge.data.fits(from.kind.is_kernel(), kind.is_kernel());
            if !fits || dependencies[..index].contains(edge) {
                return Err(CudaError::INVALID_VALUE);
            }
        }
        self.blocks.note(id, &kind)?;
        self.nodes.insert(id, Node { kind, dependencies, original: None });
        Ok(())
    }

    /// Takes a node out, with its edges.
    pub(crate) fn remove(&mut self, id: NodeId) -> Result<Node, CudaError> {
        let node = self.nodes.remove(&id).ok_or(CudaError::INVALID_VALUE)?;
        for other in self.nodes.values_mut() {
            other.dependencies.retain(|edge| edge.node != id);
        }
        Ok(node)
    }

    /// Makes `to` wait for `from`. CUDA_ERROR_INVALID_VALUE if it does already, or for itself, or if no
    /// edge between such nodes can say that.
    pub(crate) fn add_edge(
        &mut self,
        from: NodeId,
        to: NodeId,
        data: CUgraphEdgeData,
    ) -> Result<(), CudaError> {
        let from_kernel = self.node(from)?.kind.is_kernel();
        let edge = Edge { node: from, data };
        let node = self.nodes.get_mut(&to).ok_or(CudaError::INVALID_VALUE)?;
        let fits = data.fits(from_kernel, node.kind.is_kernel());
        if !fits || from == to || node.dependencies.contains(&edge) {
            return Err(CudaError::INVALID_VALUE);
        }
        node.dependencies.push(edge);
        Ok(())
    }

    /// The opposite of [`Graph::add_edge`]. CUDA_ERROR_INVALID_VALUE if there is no such edge.
    pub(crate) fn remove_edge(
        &mut self,
        from: NodeId,
        to: NodeId,
        data: CUgraphEdgeData,
    ) -> Result<(), CudaError> {
        let edge = Edge { node: from, data };
        let node = self.nodes.get_mut(&to).ok_or(CudaError::INVALID_VALUE)?;
        let at = node.dependencies.iter().position(|e| *e == edge);
        node.dependencies.remove(at.ok_or(CudaError::INVALID_VALUE)?);
        Ok(())
    }

    /// Nodes that wait for none.
    pub(crate) fn roots(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().filter(|(_, node)| node.dependencies.is_empty()).map(|(id, _)| *id)
    }

    /// All edges: the node that waits, and the node that it waits for.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (NodeId, Edge)> {
        let edges = |(id, node): (&NodeId, &Node)| {
            let id = *id;
            node.dependencies.clone().into_iter().map(move |edge| (id, edge))
        };
        self.nodes.iter().flat_map(edges)
    }

    /// Edges to those who wait for `id`.
    pub(crate) fn dependents(&self, id: NodeId) -> impl Iterator<Item = Edge> {
        let edge = move |(waiting, edge): (NodeId, Edge)| {
            (edge.node == id).then_some(Edge { node: waiting, data: edge.data })
        };
        self.edges().filter_map(edge)
    }

    /// All nodes so that each comes after those it waits for, older ones first. `None` if nodes
    /// wait for each other in a circle.
    pub(crate) fn order(&self) -> Option<Vec<NodeId>> {
        let mut missing: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut dependents: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for (id, node) in &self.nodes {
            missing.insert(*id, node.dependencies.len());
            for edge in &node.dependencies {
                dependents.entry(edge.node).or_default().push(*id);
            }
        }
        let mut ready: BinaryHeap<Reverse<NodeId>> = self.roots().map(Reverse).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(Reverse(id)) = ready.pop() {
            order.push(id);
            for dependent in dependents.get(&id).into_iter().flatten() {
                if let Some(missing) = missing.get_mut(dependent) {
                    *missing -= 1;
                    if *missing == 0 {
                        ready.push(Reverse(*dependent));
                    }
                }
            }
        }
        (order.len() == self.nodes.len()).then_some(order)
    }

    /// `from` and all nodes that they wait for, however far.
    pub(crate) fn ancestors(&self, from: &[NodeId]) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::new();
        let mut next = from.to_vec();
        while let Some(id) = next.pop() {
            if found.insert(id)
                && let Some(node) = self.nodes.get(&id)
            {
                next.extend(node.dependencies.iter().map(|edge| edge.node));
            }
        }
        found
    }

    /// Memory of at least `bytes` bytes that is free for a node with these dependencies: the
    /// smallest there is.
    pub(crate) fn vacant(
        &self,
        bytes: u64,
        location: CUmemLocation,
        dependencies: &[Edge],
    ) -> Option<Arc<Allocation>> {
        let before = |oldest| self.complete_before(dependencies, oldest);
        self.blocks.vacant(bytes, location, before)
    }

    /// Nodes that are complete when one with these dependencies begins; not all that are older than
    /// `oldest`, behind which nothing is looked for.
    fn complete_before(&self, dependencies: &[Edge], oldest: NodeId) -> BTreeSet<NodeId> {
        let full = |edge: &&Edge| edge.data.is_full() && edge.node >= oldest;
        let mut found = BTreeSet::new();
        let mut next: Vec<NodeId> = dependencies.iter().filter(full).map(|e| e.node).collect();
        while let Some(id) = next.pop() {
            if found.insert(id)
                && let Some(node) = self.nodes.get(&id)
            {
                next.extend(node.dependencies.iter().filter(full).map(|edge| edge.node));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u64, u64)], nodes: u64) -> Graph {
        let mut graph = Graph::default();
        for id in 1..=nodes {
            graph.add(NodeId(id), NodeKind::Empty, Vec::new()).unwrap();
        }
        for (from, to) in edges {
            graph.add_edge(NodeId(*from), NodeId(*to), CUgraphEdgeData::default()).unwrap();
        }
        graph
    }

    fn numbers(ids: impl IntoIterator<Item = NodeId>) -> Vec<u64> {
        ids.into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn nodes_come_after_what_they_wait_for() {
        let graph = graph(&[(4, 1), (1, 2), (1, 3), (2, 5), (3, 5)], 6);
        assert_eq!(numbers(graph.order().unwrap()), [4, 1, 2, 3, 5, 6]);
        assert_eq!(numbers(graph.roots()), [4, 6]);
        assert_eq!(numbers(graph.dependents(NodeId(1)).map(|e| e.node)), [2, 3]);
        assert_eq!(numbers(graph.ancestors(&[NodeId(3)])), [1, 3, 4]);
    }

    #[test]
    fn a_circle_has_no_order() {
        assert!(graph(&[(1, 2), (2, 3), (3, 1)], 4).order().is_none());
    }

    #[test]
    fn edges_are_there_once_and_go_with_their_nodes() {
        let mut graph = graph(&[(1, 2), (2, 3)], 3);
        let (one, two, plain) = (NodeId(1), NodeId(2), CUgraphEdgeData::default());
        let invalid = Err(CudaError::INVALID_VALUE);
        assert_eq!(graph.add_edge(one, two, plain), invalid);
        assert_eq!(graph.add_edge(one, one, plain), invalid);
        assert_eq!(graph.add_edge(one, NodeId(9), plain), invalid);
        assert_eq!(graph.remove_edge(two, one, plain), invalid);
        let twice = vec![Edge::plain(one), Edge::plain(one)];
        assert_eq!(graph.add(NodeId(7), NodeKind::Empty, twice), invalid);
        graph.remove(two).unwrap();
        assert_eq!(graph.edges().count(), 0);
        assert!(graph.remove(two).is_err());
    }
}
