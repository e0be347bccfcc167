//! Plan: a graph laid out flat, child graphs dissolved, in an order in which it can run.

use crate::id::{Edge, GraphId, NodeId};
use crate::model::Graph;
use crate::node::NodeKind;
use cuda_api::{CUdevice, CUgraphEdgeData, CudaError};
use std::collections::BTreeMap;
use std::ops::Range;

/// Child graphs within child graphs: deeper is a program's mistake, and recursion has an end.
const DEPTH_MAX: usize = 64;

/// What steps say that no node of the program's became: no node has that number.
const NODE_OF_NONE: NodeId = NodeId(0);

/// That a step waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The other one.
    pub step: usize,
    /// When the step may start. To wait for the other one's end is right in any case.
    pub data: CUgraphEdgeData,
}

impl Dependency {
    /// A full one.
    fn on(step: usize) -> Self {
        Self { step, data: CUgraphEdgeData::default() }
    }
}

/// One node of a laid-out graph.
#[derive(Clone, Debug)]
pub struct Step {
    /// [`NODE_OF_NONE`] for what a condition of the graph begins with.
    pub(crate) node: NodeId,
    pub(crate) kind: NodeKind,
    pub(crate) enabled: bool,
    /// Steps that this one waits for, each once; all are earlier ones.
    pub dependencies: Vec<Dependency>,
    /// Of what a condition begins with: the condition's device. What does not look at the condition need
    /// not wait for that.
    pub beginning_on: Option<CUdevice>,
    /// What a conditional node chooses from.
    pub(crate) bodies: Vec<Plan>,
}

impl Step {
    /// What the step does; nothing if its node is disabled. Never a child graph.
    pub fn work(&self) -> &NodeKind {
        if self.enabled { &self.kind } else { &NodeKind::Empty }
    }

    /// The steps of each body of a conditional node.
    pub fn bodies(&self) -> impl Iterator<Item = &[Step]> {
        self.bodies.iter().map(|body| &body.steps[..])
    }

    fn new(node: NodeId, kind: NodeKind, dependencies: Vec<Dependency>) -> Self {
        let (beginning_on, bodies) = (None, Vec::new());
        Self { node, kind, enabled: true, dependencies, beginning_on, bodies }
    }

    #[cfg(test)]
    pub(crate) fn empty(dependencies: &[usize]) -> Self {
        let dependencies = dependencies.iter().map(|step| Dependency::on(*step)).collect();
        Self::new(NodeId(0), NodeKind::Empty, dependencies)
    }
}

/// All steps of a graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Which steps each child graph's node became.
    pub(crate) children: Vec<(NodeId, Range<usize>)>,
    /// Which step each other node became.
    step_of: BTreeMap<NodeId, usize>,
    /// Steps that have bodies.
    with_bodies: Vec<usize>,
}

/// Two plans that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// They have not the same number of nodes.
    Size,
    /// The step waits for others.
    Edges(usize),
    /// The step's node is of another type.
    Kind(usize),
}

impl Plan {
    /// Lays a graph out. CUDA_ERROR_INVALID_VALUE if nodes wait for each other in a circle,
    /// CUDA_ERROR_NOT_SUPPORTED if a body has a node that cannot be there.
    pub(crate) fn of(graphs: &BTreeMap<GraphId, Graph>, id: GraphId) -> Result<Self, CudaError> {
        Self::at_depth(graphs, id, 0)
    }

    fn at_depth(
        graphs: &BTreeMap<GraphId, Graph>,
        id: GraphId,
        depth: usize,
    ) -> Result<Self, CudaError> {
        let mut plan = Self::default();
        let conditions = graphs.get(&id).map(|graph| &graph.conditions);
        for condition in conditions.into_iter().flatten() {
            let begin = NodeKind::beginning(condition);
            plan.steps.extend(begin.map(|kind| Step {
                beginning_on: Some(condition.device()),
                ..Step::new(NODE_OF_NONE, kind, vec![])
            }));
        }
        let entry: Vec<usize> = (0..plan.steps.len()).collect();
        plan.flatten(graphs, id, &entry, depth)?;
        Ok(plan)
    }

    /// The plan of a conditional node's body.
    fn of_body(
        graphs: &BTreeMap<GraphId, Graph>,
        id: GraphId,
        depth: usize,
    ) -> Result<Self, CudaError> {
        let plan = Self::at_depth(graphs, id, depth)?;
        match plan.steps.iter().all(|step| step.kind.may_be_conditional()) {
            true => Ok(plan),
            false => Err(CudaError::NOT_SUPPORTED),
        }
    }

    /// Adds a graph's steps, which come after the steps `entry`; returns those that every step
    /// after the graph has to wait for.
    fn flatten(
        &mut self,
        graphs: &BTreeMap<GraphId, Graph>,
        id: GraphId,
        entry: &[usize],
        depth: usize,
    ) -> Result<Vec<usize>, CudaError> {
        if depth > DEPTH_MAX {
            return Err(CudaError::INVALID_VALUE);
        }
        let graph = graphs.get(&id).ok_or(CudaError::INVALID_VALUE)?;
        // The steps behind which each node is complete.
        let mut ends: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        let mut open: BTreeMap<NodeId, ()> = BTreeMap::new();
        for id in graph.order().ok_or(CudaError::INVALID_VALUE)? {
            let node = graph.node(id)?;
            let dependencies = match node.dependencies().is_empty() {
                true => entry.iter().map(|step| Dependency::on(*step)).collect(),
                false => each_once(node.dependencies().iter().flat_map(|Edge { node, data }| {
                    let ends = ends.get(node).into_iter().flatten();
                    ends.map(|step| Dependency { step: *step, data: *data })
                })),
            };
            for edge in node.dependencies() {
                open.remove(&edge.node);
            }
            let end = match node.kind {
                NodeKind::Child(child) => {
                    let first = self.steps.len();
                    let entry: Vec<usize> = dependencies.iter().map(|d| d.step).collect();
                    let exits = self.flatten(graphs, child, &entry, depth + 1)?;
                    self.children.push((id, first..self.steps.len()));
                    exits
                }
                _ => {
                    let mut step = Step::new(id, node.kind.clone(), dependencies);
                    if let NodeKind::Conditional(node) = &node.kind {
                        let body = |id: &GraphId| Self::of_body(graphs, *id, depth + 1);
                        step.bodies = node.bodies.iter().map(body).collect::<Result<_, _>>()?;
                    }
                    let at = self.steps.len();
                    self.step_of.insert(id, at);
                    if !step.bodies.is_empty() {
                        self.with_bodies.push(at);
                    }
                    self.steps.push(step);
                    vec![at]
                }
            };
            ends.insert(id, end);
            open.insert(id, ());
        }
        if graph.nodes.is_empty() {
            return Ok(entry.to_vec());
        }
        let mut exits: Vec<usize> = open.keys().flat_map(|id| ends[id].clone()).collect();
        exits.sort_unstable();
        exits.dedup();
        Ok(exits)
    }

    /// Compares the nodes' types and edges with those of `other`.
    pub(crate) fn compare(&self, other: &[Step], within: Range<usize>) -> Result<(), Difference> {
        if other.len() != within.len() {
            return Err(Difference::Size);
        }
        for (index, (new, old)) in other.iter().zip(&self.steps[within.clone()]).enumerate() {
            if new.kind.number() != old.kind.number() {
                return Err(Difference::Kind(index));
            }
            // Edges from outside of the range do not count where only the range is compared.
            let inside = old.dependencies.iter().filter(|d| within.contains(&d.step));
            let inside = inside.map(|d| Dependency { step: d.step - within.start, ..*d });
            if !inside.eq(new.dependencies.iter().copied()) {
                return Err(Difference::Edges(index));
            }
            let same =
                |(new, old): (&Plan, &Plan)| old.compare(&new.steps, 0..old.steps.len()).is_ok();
            let count = new.bodies.len() == old.bodies.len();
            if !count || !new.bodies.iter().zip(&old.bodies).all(same) {
                return Err(Difference::Edges(index));
            }
        }
        Ok(())
    }

    /// The step that a node became, in any body.
    pub(crate) fn find(&self, node: NodeId) -> Option<&Step> {
        if let Some(at) = self.step_of.get(&node) {
            return self.steps.get(*at);
        }
        let mut bodies = self.with_bodies.iter().flat_map(|at| &self.steps[*at].bodies);
        bodies.find_map(|body| body.find(node))
    }

    /// As [`Plan::find`], to change it.
    pub(crate) fn find_mut(&mut self, node: NodeId) -> Option<&mut Step> {
        if let Some(at) = self.step_of.get(&node) {
            return self.steps.get_mut(*at);
        }
        let within = |at: &usize| self.steps[*at].bodies.iter().any(|b| b.find(node).is_some());
        let at = *self.with_bodies.iter().find(|at| within(at))?;
        self.steps[at].bodies.iter_mut().find_map(|body| body.find_mut(node))
    }
}

/// Dependencies in the order of their steps. Of several on one step, a full one stands for all.
fn each_once(all: impl Iterator<Item = Dependency>) -> Vec<Dependency> {
    let mut once: BTreeMap<usize, Dependency> = BTreeMap::new();
    for dependency in all {
        let known = once.entry(dependency.step).or_insert(dependency);
        if known.data != dependency.data {
            *known = Dependency::on(dependency.step);
        }
    }
    once.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::{CUdeviceptr, CUgraphEdgeData};

    fn graph(first: u64, kinds: &[NodeKind], edges: &[(u64, u64)]) -> Graph {
        let mut graph = Graph::default();
        for (index, kind) in kinds.iter().enumerate() {
            graph.add(NodeId(first + index as u64), kind.clone(), Vec::new()).unwrap();
        }
        for (from, to) in edges {
            let data = CUgraphEdgeData::default();
            graph.add_edge(NodeId(first + from), NodeId(first + to), data).unwrap();
        }
        graph
    }

    fn dependencies(plan: &Plan) -> Vec<Vec<usize>> {
        let of = |step: &Step| step.dependencies.iter().map(|d| d.step).collect();
        plan.steps.iter().map(of).collect()
    }

    #[test]
    fn child_graphs_stand_where_their_nodes_stood() {
        use NodeKind::{Child, Empty};
        let child = graph(100, &[Empty, Empty, Empty], &[(0, 1), (0, 2)]);
        let nothing = graph(200, &[], &[]);
        let whole = graph(
            1,
            &[Empty, Child(GraphId(2)), Child(GraphId(3)), Empty],
            &[(0, 1), (1, 2), (2, 3)],
        );
        let graphs =
            BTreeMap::from([(GraphId(1), whole), (GraphId(2), child), (GraphId(3), nothing)]);
        let plan = Plan::of(&graphs, GraphId(1)).unwrap();
        assert_eq!(dependencies(&plan), [vec![], vec![0], vec![1], vec![1], vec![2, 3]]);
        assert_eq!(plan.children, [(NodeId(2), 1..4), (NodeId(3), 4..4)]);
        let child = Plan::of(&graphs, GraphId(2)).unwrap();
        assert_eq!(plan.compare(&child.steps, 1..4), Ok(()));
        assert_eq!(plan.compare(&child.steps, 1..3), Err(Difference::Size));
    }

    #[test]
    fn what_edges_say_is_a_part_of_the_form() {
        use crate::node::{KernelNode, Parameters};
        use cuda_api::{CUfunction, CUlaunchConfig, CUstream};
        let config = CUlaunchConfig::plain([1; 3], [32, 1, 1], 0, CUstream::NULL);
        let kernel = NodeKind::Kernel(KernelNode::new(
            CUfunction::NULL,
            &config,
            Vec::new(),
            Parameters::default(),
        ));
        let plan = |edges: &[CUgraphEdgeData]| {
            let mut graph = graph(1, &[kernel.clone(), kernel.clone()], &[]);
            for data in edges {
                graph.add_edge(NodeId(1), NodeId(2), *data).unwrap();
            }
            Plan::of(&BTreeMap::from([(GraphId(1), graph)]), GraphId(1)).unwrap()
        };
        let (full, early) = (CUgraphEdgeData::default(), CUgraphEdgeData::PROGRAMMATIC);
        let of =
            |plan: &Plan| plan.steps[1].dependencies.iter().map(|d| d.data).collect::<Vec<_>>();
        let (fully, early_one) = (plan(&[full]), plan(&[early]));
        assert_eq!((of(&fully), of(&early_one)), (vec![full], vec![early]));
        assert_eq!(of(&plan(&[early, full])), [full], "both are kept by the stricter one");
        assert_eq!(early_one.compare(&plan(&[early]).steps, 0..2), Ok(()));
        assert_eq!(early_one.compare(&fully.steps, 0..2), Err(Difference::Edges(1)));
    }

    #[test]
    fn a_graph_that_contains_itself_or_a_circle_cannot_be_laid_out() {
        let inside = graph(1, &[NodeKind::Child(GraphId(1))], &[]);
        assert!(Plan::of(&BTreeMap::from([(GraphId(1), inside)]), GraphId(1)).is_err());
        let circle = graph(1, &[NodeKind::Empty, NodeKind::Empty], &[(0, 1), (1, 0)]);
        assert!(Plan::of(&BTreeMap::from([(GraphId(1), circle)]), GraphId(1)).is_err());
    }

    #[test]
    fn bodies_are_plans_of_their_own_and_words_are_set_first() {
        use crate::conditional::{Condition, ConditionalNode, Rule};
        use crate::memory::Allocation;
        let memory = Allocation::new(0x40, 4, &Default::default(), |_| {});
        let node = ConditionalNode::new(Rule::While, (0x40, 1), vec![GraphId(2)], None);
        let mut whole = graph(1, &[NodeKind::Empty, NodeKind::Conditional(node)], &[(0, 1)]);
        whole.conditions.push(Condition::Word { memory, default: Some(7), device: 1 });
        let body = graph(100, &[NodeKind::Empty], &[]);
        let mut graphs = BTreeMap::from([(GraphId(1), whole), (GraphId(2), body)]);
        let plan = Plan::of(&graphs, GraphId(1)).unwrap();
        assert_eq!(dependencies(&plan), [vec![], vec![0], vec![1]]);
        let NodeKind::Fill(fill) = &plan.steps[0].kind else { panic!("the word is set") };
        assert_eq!((fill.dst.0, fill.value, fill.elementSize), (0x40, 7, 4));
        assert_eq!([0, 1].map(|step: usize| plan.steps[step].beginning_on), [Some(1), None]);
        assert_eq!(plan.steps[2].bodies().map(<[Step]>::len).collect::<Vec<_>>(), [1]);
        assert!(plan.find(NodeId(100)).is_some());
        assert_eq!(plan.compare(&plan.steps, 0..3), Ok(()));
        graphs.insert(GraphId(2), graph(100, &[NodeKind::Empty, NodeKind::Empty], &[]));
        let other = Plan::of(&graphs, GraphId(1)).unwrap();
        assert_eq!(plan.compare(&other.steps, 0..3), Err(Difference::Edges(2)));
        // What has to be done by the program cannot depend on a word.
        graphs.insert(GraphId(2), graph(100, &[NodeKind::MemOps(Vec::new())], &[]));
        assert_eq!(Plan::of(&graphs, GraphId(1)).err(), Some(CudaError::NOT_SUPPORTED));
    }

    #[test]
    fn differences_are_found() {
        use NodeKind::{Empty, Free};
        let plan = |kinds: &[NodeKind], edges: &[(u64, u64)]| {
            Plan::of(&BTreeMap::from([(GraphId(1), graph(1, kinds, edges))]), GraphId(1)).unwrap()
        };
        let one = plan(&[Empty, Empty], &[(0, 1)]);
        let compare = |other: Plan| one.compare(&other.steps, 0..2);
        assert_eq!(compare(plan(&[Empty, Empty], &[(0, 1)])), Ok(()));
        assert_eq!(compare(plan(&[Empty, Empty], &[])), Err(Difference::Edges(1)));
        let free = plan(&[Empty, Free(CUdeviceptr(1))], &[(0, 1)]);
        assert_eq!(compare(free), Err(Difference::Kind(1)));
    }
}
