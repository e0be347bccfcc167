//! A graph: nodes, and edges between them.
//!
//! An edge is kept with the node that waits, and with the one that it waits for: whether it is there is looked
//! for where fewer are, so that making a graph edge by edge takes time in proportion. Numbers of nodes ascend as they are made, so the
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
    /// Edges from those that it waits for.
    dependencies: Vec<Edge>,
    /// The same edges of those that wait for it: to these.
    dependents: Vec<Edge>,
    /// The node that this is the copy of, if its graph is a clone.
    pub(crate) original: Option<NodeId>,
}

impl Node {
    /// Edges from those that it waits for.
    pub(crate) fn dependencies(&self) -> &[Edge] {
        &self.dependencies
    }

    /// Gives the nodes at its edges other numbers.
    pub(crate) fn renumber(&mut self, number: impl Fn(NodeId) -> NodeId) {
        for edge in self.dependencies.iter_mut().chain(&mut self.dependents) {
            edge.node = number(edge.node);
        }
    }
}

/// A change of an edge, for it to be undone.
pub(crate) enum Changed {
    /// The last edge to this node was added.
    Added(NodeId),
    /// An edge to this node was taken out, which had that place.
    Removed(NodeId, usize, Edge),
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
        let mut seen = BTreeSet::new();
        for edge in &dependencies {
            let from = self.node(edge.node)?;
            let fits = edge.data.fits(from.kind.is_kernel(), kind.is_kernel());
            let CUgraphEdgeData { from_port, to_port, kind: edge_kind, reserved } = edge.data;
            if !fits || !seen.insert((edge.node, from_port, to_port, edge_kind, reserved)) {
                return Err(CudaError::INVALID_VALUE);
            }
        }
        self.blocks.note(id, &kind)?;
        for Edge { node, data } in &dependencies {
            if let Some(from) = self.nodes.get_mut(node) {
                from.dependents.push(Edge { node: id, data: *data });
            }
        }
        self.nodes.insert(id, Node { kind, dependencies, dependents: Vec::new(), original: None });
        Ok(())
    }

    /// Takes a node out, with its edges.
    pub(crate) fn remove(&mut self, id: NodeId) -> Result<Node, CudaError> {
        let node = self.nodes.remove(&id).ok_or(CudaError::INVALID_VALUE)?;
        for Edge { node: waiting, .. } in &node.dependents {
            if let Some(waiting) = self.nodes.get_mut(waiting) {
                waiting.dependencies.retain(|edge| edge.node != id);
            }
        }
        for Edge { node: from, .. } in &node.dependencies {
            if let Some(from) = self.nodes.get_mut(from) {
                from.dependents.retain(|edge| edge.node != id);
            }
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
    ) -> Result<Changed, CudaError> {
        let (before, behind) = (self.node(from)?, self.node(to)?);
        let (edge, back) = (Edge { node: from, data }, Edge { node: to, data });
        let is_there = match behind.dependencies.len() <= before.dependents.len() {
            true => behind.dependencies.contains(&edge),
            false => before.dependents.contains(&back),
        };
        let fits = data.fits(before.kind.is_kernel(), behind.kind.is_kernel());
        if !fits || from == to || is_there {
            return Err(CudaError::INVALID_VALUE);
        }
        self.change(to)?.dependencies.push(edge);
        self.change(from)?.dependents.push(back);
        Ok(Changed::Added(to))
    }

    fn change(&mut self, id: NodeId) -> Result<&mut Node, CudaError> {
        self.nodes.get_mut(&id).ok_or(CudaError::INVALID_VALUE)
    }

    /// The opposite of [`Graph::add_edge`]. CUDA_ERROR_INVALID_VALUE if there is no such edge.
    pub(crate) fn remove_edge(
        &mut self,
        from: NodeId,
        to: NodeId,
        data: CUgraphEdgeData,
    ) -> Result<Changed, CudaError> {
        let edge = Edge { node: from, data };
        let node = self.change(to)?;
        let at = node.dependencies.iter().position(|e| *e == edge);
        let at = at.ok_or(CudaError::INVALID_VALUE)?;
        node.dependencies.remove(at);
        self.change(from)?.dependents.retain(|e| *e != Edge { node: to, data });
        Ok(Changed::Removed(to, at, edge))
    }

    /// Calls `change` for each edge, from a node to another one: all of them or none.
    pub(crate) fn change_edges(
        &mut self,
        edges: impl IntoIterator<Item = (NodeId, NodeId, CUgraphEdgeData)>,
        change: impl Fn(&mut Self, NodeId, NodeId, CUgraphEdgeData) -> Result<Changed, CudaError>,
    ) -> Result<(), CudaError> {
        let mut done = Vec::new();
        for (from, to, data) in edges {
            match change(self, from, to, data) {
                Ok(changed) => done.push(changed),
                Err(error) => {
                    done.into_iter().rev().for_each(|changed| self.undo(changed));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn undo(&mut self, changed: Changed) {
        match changed {
            Changed::Added(to) => {
                let edge = self.nodes.get_mut(&to).and_then(|node| node.dependencies.pop());
                if let Some(Edge { node: from, data }) = edge
                    && let Some(from) = self.nodes.get_mut(&from)
                {
                    from.dependents.retain(|e| *e != Edge { node: to, data });
                }
            }
            Changed::Removed(to, at, edge) => {
                if let Some(node) = self.nodes.get_mut(&to) {
                    node.dependencies.insert(at, edge);
                }
                if let Some(from) = self.nodes.get_mut(&edge.node) {
                    from.dependents.push(Edge { node: to, data: edge.data });
                }
            }
        }
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

    /// Edges to those who wait for `id`, older ones first.
    pub(crate) fn dependents(&self, id: NodeId) -> Vec<Edge> {
        let mut edges = self.nodes.get(&id).map_or_else(Vec::new, |node| node.dependents.clone());
        edges.sort_by_key(|edge| edge.node);
        edges
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

    /// All edges by the nodes that they lead to, which is what is also kept by those that they come from.
    fn all_edges(graph: &Graph) -> Vec<(u64, u64)> {
        let all: Vec<_> = graph.edges().map(|(to, edge)| (edge.node.0, to.0)).collect();
        let back = |id: &NodeId| {
            let from = id.0;
            graph.dependents(*id).into_iter().map(move |edge| (from, edge.node.0))
        };
        let mut back: Vec<_> = graph.nodes.keys().flat_map(back).collect();
        back.sort_by_key(|(from, to)| (*to, *from));
        let mut sorted = all.clone();
        sorted.sort_by_key(|(from, to)| (*to, *from));
        assert_eq!(sorted, back);
        all
    }

    #[test]
    fn a_change_of_edges_that_fails_leaves_all_as_it_was() {
        let (a, b, c, d) = (NodeId(1), NodeId(2), NodeId(3), NodeId(4));
        let plain = CUgraphEdgeData::default();
        let mut graph = graph(&[(1, 3), (2, 3), (1, 2)], 4);
        let before = all_edges(&graph);
        let add = [(a, d, plain), (c, d, plain), (a, d, plain)];
        assert!(graph.change_edges(add, Graph::add_edge).is_err());
        assert_eq!(all_edges(&graph), before);
        let remove = [(a, c, plain), (b, c, plain), (a, c, plain)];
        assert!(graph.change_edges(remove, Graph::remove_edge).is_err());
        assert_eq!(all_edges(&graph), before);
        graph.change_edges([(a, c, plain), (a, b, plain)], Graph::remove_edge).unwrap();
        assert_eq!(all_edges(&graph), [(2, 3)]);
        graph.change_edges([(a, d, plain), (c, d, plain)], Graph::add_edge).unwrap();
        assert_eq!(all_edges(&graph), [(2, 3), (1, 4), (3, 4)]);
        graph.remove(c).unwrap();
        assert_eq!(all_edges(&graph), [(1, 4)]);
    }

    /// Edges that are compared and bytes that are allocated while graphs are made edge by edge.
    fn work_of(nodes: u64, edges: impl Iterator<Item = (u64, u64)>) -> u64 {
        let mut graph = graph(&[], nodes);
        let before = (crate::counted::compared(), crate::counted::allocated());
        for (from, to) in edges {
            let edge = (NodeId(from), NodeId(to), CUgraphEdgeData::default());
            graph.change_edges([edge], Graph::add_edge).unwrap();
        }
        for id in 1..=nodes {
            drop(graph.dependents(NodeId(id)));
        }
        let after = (crate::counted::compared(), crate::counted::allocated());
        after.0 - before.0 + after.1 - before.1
    }

    #[test]
    fn a_graph_of_twice_as_many_edges_takes_twice_the_work() {
        let chain = |n: u64| work_of(n, (1..n).map(|id| (id, id + 1)));
        let fork = |n: u64| work_of(n, (2..=n).map(|id| (1, id)));
        let join = |n: u64| work_of(n, (1..n).map(move |id| (id, n)));
        for (name, small, large) in [
            ("chain", chain(1000), chain(2000)),
            ("fork", fork(1000), fork(2000)),
            ("join", join(1000), join(2000)),
        ] {
            assert!(large <= 3 * small, "{name}: {small}, then {large}");
        }
    }

    fn numbers(ids: impl IntoIterator<Item = NodeId>) -> Vec<u64> {
        ids.into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn nodes_come_after_what_they_wait_for() {
        let graph = graph(&[(4, 1), (1, 2), (1, 3), (2, 5), (3, 5)], 6);
        assert_eq!(numbers(graph.order().unwrap()), [4, 1, 2, 3, 5, 6]);
        assert_eq!(numbers(graph.roots()), [4, 6]);
        assert_eq!(numbers(graph.dependents(NodeId(1)).into_iter().map(|e| e.node)), [2, 3]);
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
        assert_eq!(graph.add_edge(one, two, plain).map(drop), invalid);
        assert_eq!(graph.add_edge(one, one, plain).map(drop), invalid);
        assert_eq!(graph.add_edge(one, NodeId(9), plain).map(drop), invalid);
        assert_eq!(graph.remove_edge(two, one, plain).map(drop), invalid);
        let twice = vec![Edge::plain(one), Edge::plain(one)];
        assert_eq!(graph.add(NodeId(7), NodeKind::Empty, twice), invalid);
        graph.remove(two).unwrap();
        assert_eq!(graph.edges().count(), 0);
        assert!(graph.remove(two).is_err());
    }
}
