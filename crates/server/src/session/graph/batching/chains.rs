//! Graphs of a chunk: one for each set of parameters that comes again, up to a bound.
//!
//! The layers of a network are the same launches with other weights, and each comes again with its own: a graph
//! that has them already needs none of its parameters set. Knows no provider.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Most graphs of a chunk: as many as a network has equal layers, mostly.
const VARIANTS_MAX: usize = 24;
/// Most nodes of all graphs of a client.
const NODES_MAX: usize = 24_576;
/// What a graph takes beside its nodes, as so many nodes.
const NODES_OF_GRAPH: usize = 8;
/// Sets of parameters without a graph of their own that are remembered, of a chunk.
const ASKED_MAX: usize = 2 * VARIANTS_MAX;

/// Nodes of a client's graphs that are there.
pub type Alive = Rc<Cell<usize>>;

/// Some nodes of [`Alive`].
#[derive(Debug)]
struct Nodes {
    alive: Alive,
    count: usize,
}

impl Nodes {
    /// Those of a graph of so many launches.
    fn new(alive: &Alive, launches: usize) -> Self {
        let count = launches + NODES_OF_GRAPH;
        alive.set(alive.get() + count);
        Self { alive: alive.clone(), count }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - self.count);
    }
}

/// A graph, and what parameters it has.
#[derive(Debug)]
struct Variant<T> {
    graph: T,
    parameters: u64,
    /// When it was used last, counted in uses of the chunk.
    used: u64,
    _nodes: Nodes,
}

/// What to do for a set of parameters.
#[derive(Debug, PartialEq, Eq)]
pub enum ChainChoice {
    /// A graph is to be made, and [added](Variants::add).
    Make,
    /// That graph has these parameters, by their hash, or is to be given them.
    Use(usize),
    /// There are too many nodes for a graph, and there is none.
    NoRoom,
}

/// The graphs of one chunk.
#[derive(Debug)]
pub struct Variants<T> {
    all: Vec<Variant<T>>,
    asked: VecDeque<u64>,
    uses: u64,
    /// No other graph is made.
    is_complete: bool,
}

impl<T> Default for Variants<T> {
    fn default() -> Self {
        Self { all: Vec::new(), asked: VecDeque::new(), uses: 0, is_complete: false }
    }
}

impl<T> Variants<T> {
    /// Which graph stands for so many launches with these parameters, of which this is a hash. A set that came before
    /// gets its own; others get the graph that was used longest ago.
    pub fn choose(&mut self, parameters: u64, launches: usize, alive: &Alive) -> ChainChoice {
        self.uses += 1;
        if let Some(index) = self.all.iter().position(|one| one.parameters == parameters) {
            return ChainChoice::Use(index);
        }
        let has_room = alive.get() + launches + NODES_OF_GRAPH <= NODES_MAX;
        let may_make = has_room && self.all.len() < VARIANTS_MAX && !self.is_complete;
        let came_before = self.asked.contains(&parameters);
        if !came_before {
            if self.asked.len() == ASKED_MAX {
                self.asked.pop_front();
            }
            self.asked.push_back(parameters);
        }
        match self.oldest() {
            Some(index) if !(may_make && came_before) => ChainChoice::Use(index),
            None if !has_room => ChainChoice::NoRoom,
            _ => ChainChoice::Make,
        }
    }

    /// Adds a graph of so many launches, with a hash of its parameters. Returns where it is.
    pub fn add(&mut self, graph: T, parameters: u64, launches: usize, alive: &Alive) -> usize {
        let nodes = Nodes::new(alive, launches);
        self.all.push(Variant { graph, parameters, used: self.uses, _nodes: nodes });
        self.all.len() - 1
    }

    /// The graph there.
    pub fn graph(&mut self, index: usize) -> Option<&mut T> {
        Some(&mut self.all.get_mut(index)?.graph)
    }

    /// The graph there is used now, and has parameters with that hash.
    pub fn used(&mut self, index: usize, parameters: u64) -> Option<&T> {
        let one = self.all.get_mut(index)?;
        (one.parameters, one.used) = (parameters, self.uses);
        Some(&one.graph)
    }

    /// Another graph could not be made: those that are there have to do. The one that was used longest ago.
    pub fn make_no_more(&mut self) -> Option<usize> {
        self.is_complete = true;
        self.oldest()
    }

    /// True if there is a graph.
    pub fn has_some(&self) -> bool {
        !self.all.is_empty()
    }

    fn oldest(&self) -> Option<usize> {
        (0..self.all.len()).min_by_key(|index| self.all[*index].used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many graphs a sequence of parameters makes, and how often one got other parameters.
    fn made_and_set(parameters: impl Iterator<Item = u64>, others: usize) -> (usize, usize) {
        let alive = Alive::default();
        let others = Nodes::new(&alive, others - NODES_OF_GRAPH);
        let (mut variants, mut set) = (Variants::<u64>::default(), 0);
        for wanted in parameters {
            let index = match variants.choose(wanted, 30, &alive) {
                ChainChoice::Make => variants.add(wanted, wanted, 30, &alive),
                ChainChoice::Use(index) => index,
                ChainChoice::NoRoom => continue,
            };
            let has = variants.graph(index).expect("a graph");
            set += usize::from(std::mem::replace(has, wanted) != wanted);
            variants.used(index, wanted);
        }
        let made = variants.all.len();
        drop((variants, others));
        assert_eq!(alive.get(), 0);
        (made, set)
    }

    #[test]
    fn sets_of_parameters_that_come_in_turns_get_a_graph_each() {
        let turns = |sets: u64| (0..50).flat_map(move |_| 0..sets);
        assert_eq!(made_and_set(turns(1), NODES_OF_GRAPH), (1, 0));
        let (made, set) = made_and_set(turns(12), NODES_OF_GRAPH);
        assert!((11..=12).contains(&made) && set < 30, "{made} graphs, set {set} times");
        let (made, set) = made_and_set(turns(100), NODES_OF_GRAPH);
        assert!(made <= VARIANTS_MAX && set > 4000, "{made} graphs, set {set} times");
    }

    #[test]
    fn a_graph_that_cannot_be_made_leaves_those_that_are_there() {
        let (alive, mut variants) = (Alive::default(), Variants::<u64>::default());
        assert_eq!(variants.make_no_more(), None);
        let mut variants = Variants::<u64>::default();
        for wanted in [1, 2] {
            assert_eq!(variants.choose(wanted, 30, &alive), ChainChoice::Make);
            variants.add(wanted, wanted, 30, &alive);
            variants.asked.push_back(wanted + 1);
        }
        variants.choose(1, 30, &alive);
        variants.used(0, 1);
        assert_eq!(variants.choose(3, 30, &alive), ChainChoice::Make);
        assert_eq!(variants.make_no_more(), Some(1), "the one that was used longest ago");
        assert_eq!(variants.choose(3, 30, &alive), ChainChoice::Use(1));
    }

    #[test]
    fn a_graph_that_was_not_used_keeps_its_parameters() {
        let (alive, mut variants) = (Alive::default(), Variants::<u64>::default());
        variants.choose(1, 30, &alive);
        variants.add(7, 1, 30, &alive);
        // It is to be given others, and a launch of it is to be timed.
        assert_eq!(variants.choose(2, 30, &alive), ChainChoice::Use(0));
        assert_eq!(variants.graph(0), Some(&mut 7));
        variants.asked.push_back(1);
        assert_eq!(
            variants.choose(1, 30, &alive),
            ChainChoice::Use(0),
            "and no second one is made"
        );
    }

    #[test]
    fn parameters_that_never_come_again_get_no_graphs() {
        assert_eq!(made_and_set(0..1000, NODES_OF_GRAPH), (1, 999));
    }

    #[test]
    fn a_client_has_no_more_nodes_than_it_may() {
        let turns = || (0..50).flat_map(|_| 0..12);
        let of_graph = 30 + NODES_OF_GRAPH;
        assert_eq!(made_and_set(turns(), NODES_MAX - of_graph).0, 1);
        assert_eq!(made_and_set(turns(), NODES_MAX - of_graph + 1).0, 0);
    }
}
