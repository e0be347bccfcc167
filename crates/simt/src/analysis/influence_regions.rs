//! Influence regions of divergent branches: the blocks that lanes may run between divergence and
//! reconvergence.
//!
//! The *region* of a branch is all that can be reached from it without passing the block where its
//! lanes reconverge, its immediate post-dominator. Where something in it stands behind that block, lanes may
//! run past it: they meet nowhere, and the region is all that can be reached.
//!
//! A branch's way to where its lanes reconverge leads from post-dominator to post-dominator, and between two
//! of these lies the region of the first. So regions are made of regions: each is marked once, and
//! what is marked is skipped. The highest block of a region is found the same way, from the leaves of
//! the tree of post-dominators to its root.

use crate::analysis::postdominators::{PostDominators, lasting_successors, post_dominators};
use crate::ir::Function;

/// The regions of a function's branches.
pub(crate) struct Regions {
    successors: Vec<Vec<usize>>,
    dead_end: Vec<bool>,
    tree: Tree,
    /// By block: lanes that part at its end may run past where they would meet.
    passes: Vec<bool>,
    /// By block: its region is marked.
    spread: Vec<bool>,
    /// By block: all that can be reached from it is marked.
    all: Vec<bool>,
    /// By block: all that can be reached from it is marked, but for a block that ends threads and
    /// post-dominates it.
    all_but_stop: Vec<bool>,
    /// By block: itself, or, if all up to its post-dominator is marked, a block on the way from there
    /// to the end.
    unmarked: Vec<usize>,
}

impl Regions {
    /// Of a function whose blocks are in order; `dead_end` says which blocks are
    /// ([`crate::analysis::postdominators::is_dead_end`]).
    pub(crate) fn of(f: &Function, dead_end: Vec<bool>) -> Self {
        let n = f.blocks.len();
        let successors = f.successors();
        let tree = Tree::of(post_dominators(f, &dead_end));
        let passes = Heights::of(&successors, &tree).passes(f, &dead_end);
        let unmarked = (0..=n).collect();
        Self {
            successors,
            dead_end,
            tree,
            passes,
            spread: vec![false; n],
            all: vec![false; n],
            all_but_stop: vec![false; n],
            unmarked,
        }
    }

    /// Marks the region of a branch; true if that changed anything.
    pub(crate) fn spread(&mut self, f: &Function, branch: usize, divergent: &mut [bool]) -> bool {
        if std::mem::replace(&mut self.spread[branch], true) {
            return false;
        }
        let mut changed = false;
        for s in self.successors[branch].iter().filter(|s| self.dead_end[**s]) {
            changed |= !std::mem::replace(&mut divergent[*s], true);
        }
        let next = lasting_successors(&f.blocks[branch].term, &self.dead_end);
        if next.len() < 2 {
            return changed;
        }
        // Lanes that reach the meeting point early must wait there: it must stand behind.
        let end = self.successors.len();
        let meet = self.tree.parent[branch].filter(|_| !self.passes[branch]).unwrap_or(end);
        for s in next {
            changed |= match self.dead_end.get(meet) {
                Some(true) => self.mark_all(s, Some(meet), divergent),
                _ => self.mark_region(s, meet, divergent),
            };
        }
        changed
    }

    /// Marks what can be reached from a block without passing one of its post-dominators.
    fn mark_region(&mut self, from: usize, meet: usize, divergent: &mut [bool]) -> bool {
        let end = self.successors.len();
        let mut changed = false;
        let mut work = vec![(from, meet)];
        while let Some((from, meet)) = work.pop() {
            // Elsewhere are blocks that end threads, and endless loops.
            if meet == end || !self.tree.is_below(from, meet) {
                changed |= self.mark_all(from, None, divergent);
                continue;
            }
            loop {
                let at = self.next_unmarked(from);
                if self.tree.depth[at] <= self.tree.depth[meet] {
                    break;
                }
                let behind = self.tree.parent[at].unwrap_or(end);
                self.unmarked[at] = behind;
                changed |= !std::mem::replace(&mut divergent[at], true);
                let ways = self.successors[at].iter().filter(|s| **s != behind);
                work.extend(ways.map(|s| (*s, behind)));
            }
        }
        changed
    }

    /// Marks all that can be reached from a block without passing another one. That is none, or one that
    /// ends threads and where those from here meet: these lead to no other such one in the tree.
    fn mark_all(&mut self, from: usize, stop: Option<usize>, divergent: &mut [bool]) -> bool {
        let seen = if stop.is_some() { &mut self.all_but_stop } else { &mut self.all };
        let mut changed = false;
        let mut work = vec![from];
        while let Some(b) = work.pop() {
            let new = self.dead_end[b] || !std::mem::replace(&mut seen[b], true);
            if Some(b) != stop && new {
                changed |= !std::mem::replace(&mut divergent[b], true);
                work.extend(&self.successors[b]);
            }
        }
        changed
    }

    /// The first block on the way to the end, from this one on, whose region is not marked.
    fn next_unmarked(&mut self, block: usize) -> usize {
        let mut at = block;
        while self.unmarked[at] != at {
            self.unmarked[at] = self.unmarked[self.unmarked[at]];
            at = self.unmarked[at];
        }
        at
    }
}

/// The tree of post-dominators.
struct Tree {
    /// By block; `None` for those that are not in it.
    parent: Vec<Option<usize>>,
    /// Nodes, parents first.
    order: Vec<usize>,
    children: Vec<Vec<usize>>,
    depth: Vec<usize>,
    /// By node: the first and the last number of the nodes from it down, by a walk.
    span: Vec<(usize, usize)>,
}

impl Tree {
    fn of(post: PostDominators) -> Self {
        let (parent, order) = (post.of, post.order);
        let root = parent.len();
        let mut children = vec![Vec::new(); root + 1];
        let mut depth = vec![0; root + 1];
        for b in order.iter().filter(|b| **b != root) {
            if let Some(above) = parent[*b] {
                children[above].push(*b);
                depth[*b] = depth[above] + 1;
            }
        }
        let mut below = vec![1; root + 1];
        for b in order.iter().rev().filter(|b| **b != root) {
            if let Some(above) = parent[*b] {
                below[above] += below[*b];
            }
        }
        // Numbers of those that are not in the tree are unused.
        let mut span = vec![(usize::MAX, usize::MAX); root + 1];
        span[root] = (0, below[root] - 1);
        for b in &order {
            let mut next = span[*b].0 + 1;
            for child in &children[*b] {
                span[*child] = (next, next + below[*child] - 1);
                next += below[*child];
            }
        }
        Self { parent, order, children, depth, span }
    }

    /// True if the node is post-dominated by the other one, or is that one.
    fn is_below(&self, node: usize, above: usize) -> bool {
        let ((number, _), (first, last)) = (self.span[node], self.span[above]);
        first <= number && number <= last
    }
}

/// The highest blocks of regions. A level are the blocks with one immediate post-dominator; what is
/// below them in the tree is known when it is its turn.
struct Heights<'a> {
    successors: &'a [Vec<usize>],
    tree: &'a Tree,
    /// By block: the highest that it leads to in its region.
    beyond: Vec<usize>,
    /// By block: `beyond` is known.
    known: Vec<bool>,
    /// By block: the post-dominator up to which it is linked, itself before its level is known.
    link: Vec<usize>,
    /// By block: the highest of the blocks from it to that link, the link not included, and of their
    /// regions.
    passed: Vec<usize>,
}

impl<'a> Heights<'a> {
    fn of(successors: &'a [Vec<usize>], tree: &'a Tree) -> Self {
        let n = successors.len();
        let mut heights = Self {
            successors,
            tree,
            beyond: vec![0; n],
            known: vec![false; n],
            link: (0..n).collect(),
            passed: vec![0; n],
        };
        let apart: Vec<usize> = (0..n).filter(|b| tree.parent[*b].is_none()).collect();
        heights.level(&apart, n);
        heights
    }

    /// By block: whether lanes that part at its end may run past where they would meet.
    fn passes(mut self, f: &Function, dead_end: &[bool]) -> Vec<bool> {
        let (tree, end) = (self.tree, self.successors.len());
        let mut passes = vec![false; end];
        for meet in tree.order.iter().rev().filter(|m| **m != end) {
            let blocks = &tree.children[*meet];
            self.level(blocks, *meet);
            for b in blocks {
                let next = lasting_successors(&f.blocks[*b].term, dead_end);
                passes[*b] = next.iter().any(|s| {
                    let (top, highest) = self.way(*s, *meet);
                    highest.max(top.map_or(0, |top| self.height(top))) > *meet
                });
            }
            for b in blocks {
                (self.link[*b], self.passed[*b]) = (*meet, self.height(*b));
            }
        }
        passes
    }

    /// The highest of a block and its region.
    fn height(&self, block: usize) -> usize {
        block.max(self.beyond[block])
    }

    /// The way from a successor of a block to where that one's lanes reconverge: the last block before, if it
    /// leads there, and the highest of the others on it and of their regions.
    fn way(&mut self, from: usize, meet: usize) -> (Option<usize>, usize) {
        if from == meet {
            return (None, 0);
        }
        if self.tree.parent[from].is_none() {
            return (Some(from), self.height(from));
        }
        // Ends threads.
        if !self.tree.is_below(from, meet) {
            return (None, self.height(from));
        }
        let (mut path, mut top) = (Vec::new(), from);
        while self.link[top] != top {
            path.push(top);
            top = self.link[top];
        }
        let mut highest = 0;
        for b in path.into_iter().rev() {
            highest = highest.max(self.passed[b]);
            (self.link[b], self.passed[b]) = (top, highest);
        }
        (Some(top), highest)
    }

    /// Looks at the blocks of a level.
    fn level(&mut self, blocks: &[usize], meet: usize) {
        // Where ways lead, and from where.
        let mut ways: Vec<(usize, usize)> = Vec::new();
        for b in blocks {
            for s in &self.successors[*b] {
                let (top, highest) = self.way(*s, meet);
                self.beyond[*b] = self.beyond[*b].max(highest).max(top.unwrap_or(0));
                ways.extend(top.map(|top| (top, *b)));
            }
        }
        ways.sort_unstable();
        // A block that reaches the one that leads highest gets as high, and so on down.
        let mut by_height = blocks.to_vec();
        by_height.sort_unstable_by_key(|b| std::cmp::Reverse(self.beyond[*b]));
        let mut work = Vec::new();
        for b in by_height {
            let height = self.beyond[b];
            work.push(b);
            while let Some(at) = work.pop() {
                if !std::mem::replace(&mut self.known[at], true) {
                    self.beyond[at] = height;
                    let first = ways.partition_point(|(to, _)| *to < at);
                    let to_here = ways[first..].iter().take_while(|(to, _)| *to == at);
                    work.extend(to_here.map(|(_, from)| *from));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::liveness::Liveness;
    use crate::analysis::postdominators::is_dead_end;
    use crate::ir::op::{Class, Width};
    use crate::ir::{Block, BlockId, Operand, Reg, Target, Term};

    /// A function of blocks that go to these, by a table; to none is the end.
    fn function(edges: &[Vec<usize>]) -> Function {
        let block = |to: &Vec<usize>| {
            let targets: Vec<Target> =
                to.iter().map(|b| Target::Block(BlockId(*b as u32))).collect();
            let term = match targets[..] {
                [] => Term::Jump(Target::Exit),
                [one] => Term::Jump(one),
                _ => Term::Table { index: Operand::Reg(Reg(0)), targets },
            };
            Block { insts: vec![], term, line: 0 }
        };
        let regs = vec![Class::Lane(Width::W32)];
        Function { regs, blocks: edges.iter().map(block).collect(), ..Function::default() }
    }

    /// The region of a branch, by its definition.
    fn region(f: &Function, post: &PostDominators, dead_end: &[bool], branch: usize) -> Vec<bool> {
        let end = f.blocks.len();
        let next = lasting_successors(&f.blocks[branch].term, dead_end);
        let reached = |stop: Option<usize>| {
            let mut seen = vec![false; end];
            let mut work = if next.len() < 2 { Vec::new() } else { next.clone() };
            while let Some(b) = work.pop() {
                if Some(b) != stop && !std::mem::replace(&mut seen[b], true) {
                    work.extend(f.blocks[b].term.successors().map(|s| s.index()));
                }
            }
            seen
        };
        let meet = post.of[branch].filter(|m| *m < end);
        let mut seen = reached(meet);
        if meet.is_some_and(|m| seen[m..].contains(&true)) {
            seen = reached(None);
        }
        for s in f.blocks[branch].term.successors().filter(|s| dead_end[s.index()]) {
            seen[s.index()] = true;
        }
        seen
    }

    #[test]
    fn regions_are_what_can_be_reached_before_lanes_meet() {
        let mut random = crate::analysis::dataflow::tests::random();
        let (mut met, mut passed) = (0, 0);
        for _ in 0..3000 {
            let n = 2 + random(14);
            let edges: Vec<Vec<usize>> = (0..n)
                .map(|b| {
                    // Mostly on, seldom back, and sometimes nowhere.
                    let mut to = |_| match random(8) {
                        0 => random(n),
                        _ => (b + 1 + random(3)).min(n - 1),
                    };
                    let ways = [1, 1, 2, 2, 2, 3, 0][b % 7];
                    (0..ways).map(&mut to).collect()
                })
                .collect();
            let f = function(&edges);
            let liveness = Liveness::of(&f);
            let dead_end: Vec<bool> = (0..n).map(|b| is_dead_end(&f, &liveness, b)).collect();
            let post = post_dominators(&f, &dead_end);
            let mut regions = Regions::of(&f, dead_end.clone());
            let mut divergent = vec![false; n];
            let mut expected = vec![false; n];
            for _ in 0..n {
                let branch = random(n);
                met += usize::from(post.of[branch].is_some_and(|m| m < n));
                passed += usize::from(regions.passes[branch]);
                let before = expected.clone();
                for (all, here) in expected.iter_mut().zip(region(&f, &post, &dead_end, branch)) {
                    *all |= here;
                }
                let changed = regions.spread(&f, branch, &mut divergent);
                assert_eq!(divergent, expected, "{branch} of {edges:?}");
                assert_eq!(changed, before != expected, "{branch} of {edges:?}");
            }
        }
        assert!(met > 1000 && passed > 1000, "{met} {passed}");
    }
}
