//! All graphs of a process, and what belongs to them, by their handles.
//!
//! Everything gets a number of its own from one counter, which also is its handle: numbers are
//! never used again, so a stale handle finds nothing.

use crate::capture::Captures;
use crate::conditional::Condition;
use crate::exec::Exec;
use crate::id::{Edge, GraphId, NodeId, graph_number, node_number};
use crate::memory::{Allocation, Usages};
use crate::model::{Graph, Node};
use crate::node::NodeKind;
use core::ffi::c_void;
use cuda_api::{CUdevice, CUgraph, CUgraphNode, CUhostFn, CudaError};
use locks::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// All graphs of a process. `E` is what a [`Backend`](crate::Backend) launches.
pub struct Graphs<E> {
    tables: Mutex<Tables<E>>,
    /// How many captures there are: looked at by every operation of a stream.
    capturing: AtomicU32,
    /// How many events were last recorded in captures: looked at by functions of events.
    captured_events: AtomicU32,
    /// How much memory graphs allocate: looked at when memory is freed.
    allocations: AtomicU32,
    pub(crate) usages: Usages,
    /// Memory was taken away from behind addresses.
    pub(crate) trimmed: AtomicBool,
}

/// An object of the program's that graphs keep.
pub(crate) struct UserObject {
    pub(crate) pointer: usize,
    pub(crate) destroy: CUhostFn,
    pub(crate) references: u64,
}

impl UserObject {
    /// Calls the program's function that destroys the object.
    pub(crate) fn destroy(self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the program gave function and pointer to be called once, by any thread,
            // when nothing refers to the object any more.
            unsafe { destroy(self.pointer as *mut c_void) };
        }
    }
}

pub(crate) struct Tables<E> {
    numbers: u64,
    pub(crate) graphs: BTreeMap<GraphId, Graph>,
    /// Which graph each node is of.
    pub(crate) graph_of: BTreeMap<NodeId, GraphId>,
    pub(crate) execs: BTreeMap<u64, Arc<Mutex<Exec<E>>>>,
    pub(crate) user_objects: BTreeMap<u64, UserObject>,
    pub(crate) captures: Captures,
    /// Memory that nodes allocate, by address.
    pub(crate) allocations: BTreeMap<u64, Weak<Allocation>>,
    /// Memory that a launch has given to the program.
    pub(crate) live: BTreeMap<u64, Arc<Allocation>>,
}

/// The tables, locked. What is asked on hot paths is kept up to date when the lock is let go.
pub(crate) struct Locked<'a, E> {
    owner: &'a Graphs<E>,
    tables: MutexGuard<'a, Tables<E>>,
}

impl<E> core::ops::Deref for Locked<'_, E> {
    type Target = Tables<E>;
    fn deref(&self) -> &Tables<E> {
        &self.tables
    }
}

impl<E> core::ops::DerefMut for Locked<'_, E> {
    fn deref_mut(&mut self) -> &mut Tables<E> {
        &mut self.tables
    }
}

impl<E> Drop for Locked<'_, E> {
    fn drop(&mut self) {
        let publish = |to: &AtomicU32, count: usize| to.store(count as u32, Ordering::Release);
        publish(&self.owner.capturing, self.tables.captures.active.len());
        publish(&self.owner.captured_events, self.tables.captures.events.len());
        publish(&self.owner.allocations, self.tables.allocations.len());
    }
}

impl<E> Default for Graphs<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Graphs<E> {
    /// No graphs.
    pub fn new() -> Self {
        let tables = Tables {
            numbers: 0,
            graphs: BTreeMap::new(),
            graph_of: BTreeMap::new(),
            execs: BTreeMap::new(),
            user_objects: BTreeMap::new(),
            captures: Captures::default(),
            allocations: BTreeMap::new(),
            live: BTreeMap::new(),
        };
        Self {
            tables: Mutex::new(tables),
            capturing: AtomicU32::new(0),
            captured_events: AtomicU32::new(0),
            allocations: AtomicU32::new(0),
            usages: Usages::default(),
            trimmed: AtomicBool::new(false),
        }
    }

    pub(crate) fn lock(&self) -> Locked<'_, E> {
        let tables = self.tables.lock();
        Locked { owner: self, tables }
    }

    /// True if some stream captures.
    #[inline(always)]
    pub fn capturing(&self) -> bool {
        self.capturing.load(Ordering::Acquire) != 0
    }

    pub(crate) fn has_captured_events(&self) -> bool {
        self.captured_events.load(Ordering::Acquire) != 0
    }

    pub(crate) fn has_memory(&self) -> bool {
        self.allocations.load(Ordering::Acquire) != 0
    }
}

impl<E> Tables<E> {
    pub(crate) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The graph of a handle; CUDA_ERROR_INVALID_VALUE if there is none.
    pub(crate) fn graph_id(&self, graph: CUgraph) -> Result<GraphId, CudaError> {
        let id = graph_number(graph)?;
        self.graphs.contains_key(&id).then_some(id).ok_or(CudaError::INVALID_VALUE)
    }

    pub(crate) fn graph(&self, id: GraphId) -> Result<&Graph, CudaError> {
        self.graphs.get(&id).ok_or(CudaError::INVALID_VALUE)
    }

    pub(crate) fn graph_mut(&mut self, id: GraphId) -> Result<&mut Graph, CudaError> {
        self.graphs.get_mut(&id).ok_or(CudaError::INVALID_VALUE)
    }

    /// The node of a handle, and its graph; CUDA_ERROR_INVALID_VALUE if there is none.
    pub(crate) fn node_id(&self, node: CUgraphNode) -> Result<(GraphId, NodeId), CudaError> {
        let id = node_number(node)?;
        let graph = self.graph_of.get(&id).ok_or(CudaError::INVALID_VALUE)?;
        Ok((*graph, id))
    }

    pub(crate) fn node(&self, node: CUgraphNode) -> Result<&Node, CudaError> {
        let (graph, id) = self.node_id(node)?;
        self.graph(graph)?.node(id)
    }

    pub(crate) fn node_mut(&mut self, node: CUgraphNode) -> Result<&mut Node, CudaError> {
        let (graph, id) = self.node_id(node)?;
        self.graph_mut(graph)?.nodes.get_mut(&id).ok_or(CudaError::INVALID_VALUE)
    }

    pub(crate) fn create_graph(&mut self) -> GraphId {
        let id = GraphId(self.next_number());
        self.graphs.insert(id, Graph::default());
        id
    }

    pub(crate) fn add_node(
        &mut self,
        graph: GraphId,
        kind: NodeKind,
        dependencies: Vec<Edge>,
    ) -> Result<NodeId, CudaError> {
        let id = NodeId(self.next_number());
        self.graph_mut(graph)?.add(id, kind, dependencies)?;
        self.graph_of.insert(id, graph);
        Ok(id)
    }

    /// The condition of a handle that a node of that graph was given, if this process made it. If several
    /// devices have one of that number, it is that of `device`.
    pub(crate) fn condition(
        &self,
        graph: GraphId,
        handle: u64,
        device: CUdevice,
    ) -> Option<&Condition> {
        let whole = self.whole(graph);
        let all = self
            .graphs
            .iter()
            .flat_map(|(id, graph)| graph.conditions.iter().map(move |condition| (*id, condition)));
        let known = all.filter(|(id, condition)| match condition {
            Condition::Word { memory, .. } => memory.address == handle,
            Condition::Numbered(condition) => *id == whole && condition.number == handle,
        });
        let known: Vec<&Condition> = known.map(|(_, condition)| condition).collect();
        let there = known.iter().find(|condition| condition.device() == device);
        there.or(known.first()).copied()
    }

    /// The graph that a body is in, however deep; any other graph is its own.
    pub(crate) fn whole(&self, mut id: GraphId) -> GraphId {
        let holds = |graph: &Graph, body| {
            graph.nodes.values().any(|node| node.kind.embedded().contains(&body))
        };
        while self.graphs.get(&id).is_some_and(|graph| graph.embedded) {
            match self.graphs.iter().find(|(_, graph)| holds(graph, id)) {
                Some((outer, _)) => id = *outer,
                None => break,
            }
        }
        id
    }

    /// Copies a graph with its child graphs. CUDA_ERROR_NOT_SUPPORTED if it allocates or frees
    /// memory, or decides by a word: two graphs cannot both give the same memory out.
    pub(crate) fn clone_graph(
        &mut self,
        id: GraphId,
        embedded: bool,
    ) -> Result<GraphId, CudaError> {
        let original = self.graph(id)?;
        if original.nodes.values().any(|node| node.kind.is_unique()) {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let nodes = original.nodes.clone();
        let user_objects = original.user_objects.clone();
        let clone = GraphId(self.next_number());
        // In the order of the numbers, so that the clone's order is the same.
        let numbers: BTreeMap<NodeId, NodeId> =
            nodes.keys().map(|id| (*id, NodeId(self.next_number()))).collect();
        let mut graph = Graph { embedded, ..Graph::default() };
        for (id, mut node) in nodes {
            node.original = Some(id);
            node.renumber(|id| numbers[&id]);
            if let NodeKind::Child(child) = &mut node.kind {
                *child = self.clone_graph(*child, true)?;
            }
            self.graph_of.insert(numbers[&id], clone);
            graph.nodes.insert(numbers[&id], node);
        }
        self.retain_all(&user_objects);
        graph.user_objects = user_objects;
        self.graphs.insert(clone, graph);
        Ok(clone)
    }

    /// Takes a graph out with its child graphs. What is returned has to be dropped when the
    /// tables are let go: freeing its memory can take time, and the objects are the program's.
    #[must_use]
    pub(crate) fn remove_graph(&mut self, id: GraphId) -> Removed {
        let mut removed = Removed::default();
        self.remove_into(id, &mut removed);
        removed
    }

    fn remove_into(&mut self, id: GraphId, removed: &mut Removed) {
        let Some(graph) = self.graphs.remove(&id) else { return };
        for (id, node) in &graph.nodes {
            self.graph_of.remove(id);
            for embedded in node.kind.embedded() {
                self.remove_into(*embedded, removed);
            }
        }
        removed.objects.extend(self.release_all(&graph.user_objects));
        removed.graphs.push(graph);
    }

    /// Takes a node out, with its child graph.
    pub(crate) fn remove_node(&mut self, graph: GraphId, id: NodeId) -> Result<Removed, CudaError> {
        let node = self.graph_mut(graph)?.remove(id)?;
        self.graph_of.remove(&id);
        let mut removed = Removed::default();
        for embedded in node.kind.embedded() {
            self.remove_into(*embedded, &mut removed);
        }
        removed.nodes.push(node);
        Ok(removed)
    }

    pub(crate) fn retain_all(&mut self, objects: &BTreeMap<u64, u64>) {
        for (number, count) in objects {
            if let Some(object) = self.user_objects.get_mut(number) {
                object.references += count;
            }
        }
    }

    /// Lets references go; returns the objects that nothing refers to any more.
    pub(crate) fn release_all(&mut self, objects: &BTreeMap<u64, u64>) -> Vec<UserObject> {
        let each = |(number, count): (&u64, &u64)| self.release(*number, *count);
        objects.iter().filter_map(each).collect()
    }

    /// Lets `count` references to an object go; the object if they were the last ones.
    pub(crate) fn release(&mut self, number: u64, count: u64) -> Option<UserObject> {
        let object = self.user_objects.get_mut(&number)?;
        object.references = object.references.saturating_sub(count);
        if object.references == 0 { self.user_objects.remove(&number) } else { None }
    }
}

/// What was taken out of the tables.
#[derive(Default)]
pub(crate) struct Removed {
    graphs: Vec<Graph>,
    nodes: Vec<Node>,
    objects: Vec<UserObject>,
}

impl Removed {
    /// Lets it all go; nothing is locked.
    pub(crate) fn finish(self) {
        drop((self.graphs, self.nodes));
        self.objects.into_iter().for_each(UserObject::destroy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{graph_word, node_word};

    #[test]
    fn handles_are_good_for_one_thing_only() {
        let graphs = Graphs::<()>::new();
        let mut tables = graphs.lock();
        let graph = tables.create_graph();
        let node = tables.add_node(graph, NodeKind::Empty, Vec::new()).unwrap();
        assert_eq!(tables.graph_id(graph_word(graph)), Ok(graph));
        assert_eq!(tables.node_id(node_word(node)), Ok((graph, node)));
        let invalid = Err(CudaError::INVALID_VALUE);
        assert_eq!(tables.graph_id(CUgraph(node_word(node).0)), invalid);
        assert_eq!(tables.graph_id(CUgraph(0)), invalid);
        assert_eq!(graph_number(graph_word(GraphId(1 << 40 | 7))), Ok(GraphId(1 << 40 | 7)));
        tables.remove_graph(graph).finish();
        assert_eq!(tables.graph_id(graph_word(graph)), invalid);
        assert!(tables.node_id(node_word(node)).is_err());
        assert!(tables.graph_of.is_empty());
    }

    #[test]
    fn a_clone_has_nodes_of_its_own_that_know_where_they_are_from() {
        let graphs = Graphs::<()>::new();
        let mut tables = graphs.lock();
        let (graph, child) = (tables.create_graph(), tables.create_graph());
        tables.add_node(child, NodeKind::Empty, Vec::new()).unwrap();
        let first = tables.add_node(graph, NodeKind::Empty, Vec::new()).unwrap();
        let after = vec![Edge::plain(first)];
        let second = tables.add_node(graph, NodeKind::Child(child), after).unwrap();
        let clone = tables.clone_graph(graph, false).unwrap();
        let cloned: Vec<_> =
            tables.graphs[&clone].nodes.iter().map(|(id, n)| (*id, n.original)).collect();
        assert_eq!(cloned.iter().map(|(_, o)| *o).collect::<Vec<_>>(), [Some(first), Some(second)]);
        let edges: Vec<_> = tables.graphs[&clone].edges().collect();
        assert_eq!(edges, [(cloned[1].0, Edge::plain(cloned[0].0))]);
        let NodeKind::Child(copy) = tables.graphs[&clone].nodes[&cloned[1].0].kind else {
            panic!("the copy of a child graph is one");
        };
        assert!(copy != child && tables.graphs[&copy].embedded);
        tables.remove_graph(clone).finish();
        assert_eq!(tables.graphs.len(), 2);
    }

    #[test]
    fn a_number_is_a_condition_of_one_graph_with_its_bodies() {
        use crate::conditional::{ConditionalNode, NumberedCondition, Rule};
        let graphs = Graphs::<()>::new();
        let mut tables = graphs.lock();
        let [outer, middle, inner, other] = [(); 4].map(|()| tables.create_graph());
        for (graph, body) in [(outer, middle), (middle, inner)] {
            let node = ConditionalNode::new(Rule::While, (1, 0), vec![body], None);
            tables.add_node(graph, NodeKind::Conditional(node), Vec::new()).unwrap();
            tables.graph_mut(body).unwrap().embedded = true;
        }
        assert_eq!(
            [outer, middle, inner, other].map(|id| tables.whole(id) == outer),
            [true, true, true, false]
        );
        for device in [3, 4] {
            let condition = NumberedCondition { number: 2, default: None, device };
            tables.graph_mut(outer).unwrap().conditions.push(Condition::Numbered(condition));
        }
        let device_of =
            |graph, number, device| tables.condition(graph, number, device).map(Condition::device);
        for graph in [outer, middle, inner] {
            // The current context says which, if several devices have it.
            assert_eq!([3, 4, 5].map(|on| device_of(graph, 2, on)), [Some(3), Some(4), Some(3)]);
            assert_eq!(device_of(graph, 1, 3), None);
        }
        assert_eq!(device_of(other, 2, 3), None, "that graph counts for itself");
        // A word is there for all.
        let memory = Allocation::new(0x40, 4, &Default::default(), |_| {});
        let word = Condition::Word { memory, default: None, device: 0 };
        tables.graph_mut(inner).unwrap().conditions.push(word);
        assert!(tables.condition(other, 0x40, 1).is_some());
    }
}
