//! Block layout: the order of blocks, which is the order in which a warp runs pending ones.
//!
//! A warp runs its lowest pending block, so the order decides where lanes reconverge: a block
//! stands after all that lead to it (loops aside), a loop's blocks stand together, and what comes
//! after a loop stands after all of it. Every loop gets one back-edge: lanes that `continue` wait
//! at the latch for those still in the body, and the warp stays in step.

use crate::analysis::dataflow::turned;
use crate::analysis::loops::{Loops, Walk};
use crate::ir::{Block, BlockId, Function, Target, Term};
use crate::transform::simplify_cfg::renumber;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Orders the blocks; all must be reachable.
pub(crate) fn run(f: &mut Function) {
    join_latches(f);
    let order = Graph::of(f).layout();
    let mut number = vec![0; f.blocks.len()];
    for (position, block) in order.iter().enumerate() {
        number[*block] = position as u32;
    }
    let mut blocks: Vec<Option<Block>> =
        std::mem::take(&mut f.blocks).into_iter().map(Some).collect();
    f.blocks = order.iter().filter_map(|b| blocks[*b].take()).collect();
    renumber(f, &number);
}

/// Successors, and the loops that they make.
struct Graph {
    successors: Vec<Vec<usize>>,
    walk: Walk,
    loops: Loops,
}

impl Graph {
    fn of(f: &Function) -> Self {
        let successors = f.successors();
        let walk = Walk::of(&successors);
        let loops = Loops::of(&turned(&successors), &walk);
        Self { successors, walk, loops }
    }

    /// Successors, edges back left out.
    fn onwards(&self, block: usize) -> impl Iterator<Item = usize> + '_ {
        let all = self.successors[block].iter().copied();
        all.filter(move |s| !self.walk.goes_back(block, *s))
    }

    fn layout(&self) -> Vec<usize> {
        let (n, loops) = (self.successors.len(), &self.loops.all);
        let mut waiting = vec![0usize; n];
        (0..n).flat_map(|b| self.onwards(b)).for_each(|s| waiting[s] += 1);
        let mut headed = vec![None; n];
        loops.iter().enumerate().for_each(|(number, l)| headed[l.header] = Some(number));
        // Blocks that could be next, the first in the walk first: by the loop that they are in once they
        // are entered, and at the end those that are in none.
        let mut ready = vec![BinaryHeap::new(); loops.len() + 1];
        // Loops entered and not finished, the smallest last, and what is left of each.
        let mut open: Vec<usize> = Vec::new();
        let mut left: Vec<usize> = loops.iter().map(|l| l.members).collect();
        let mut order = Vec::with_capacity(n);
        let mut next = Some(0);
        while let Some(b) = next {
            order.push(b);
            if let Some(entered) = headed[b] {
                let size = loops[entered].blocks;
                open.insert(open.partition_point(|l| loops[*l].blocks >= size), entered);
            }
            // What is finished counts as one for the loop around it.
            for l in self.loops.around(b) {
                left[l] -= 1;
                if left[l] > 0 {
                    break;
                }
                open.retain(|of| *of != l);
            }
            for s in self.onwards(b) {
                waiting[s] -= 1;
                if waiting[s] == 0 {
                    let storage = match headed[s] {
                        Some(l) => loops[l].parent,
                        None => self.loops.innermost[s],
                    };
                    ready[storage.unwrap_or(loops.len())].push(Reverse((self.walk.rank[s], s)));
                }
            }
            let storage = open.iter().rev().copied().chain([loops.len()]);
            next = storage
                .into_iter()
                .find_map(|storage| ready[storage].pop())
                .map(|Reverse((_, b))| b);
        }
        order
    }
}

/// Leads all back-edges to a header through one new block.
fn join_latches(f: &mut Function) {
    let graph = Graph::of(f);
    let predecessors = turned(&graph.successors);
    let mut numbers: Vec<usize> = (0..graph.loops.all.len()).collect();
    numbers.sort_unstable_by_key(|number| graph.loops.all[*number].header);
    for number in numbers {
        let header = graph.loops.all[number].header;
        let latches: Vec<usize> = predecessors[header]
            .iter()
            .copied()
            .filter(|latch| graph.walk.goes_back(*latch, header))
            .collect();
        // One that leaves an inner loop on its way back needs a latch as well: lanes that leave
        // early would start the next round while others are still in that loop.
        let leaves_inner_loop = |latch: &usize| graph.loops.innermost[*latch] != Some(number);
        if latches.len() < 2 && !latches.iter().any(leaves_inner_loop) {
            continue;
        }
        let line = f.blocks[header].line;
        let target = Target::Block(BlockId(header as u32));
        f.blocks.push(Block { insts: vec![], term: Term::Jump(target), line });
        let latch = BlockId(f.blocks.len() as u32 - 1);
        for t in latches {
            f.blocks[t].term.map_targets(|at| if at == target { Target::Block(latch) } else { at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::Class;
    use crate::ir::{Guard, Reg};

    fn function(edges: &[&[u32]]) -> Function {
        let blocks = edges
            .iter()
            .map(|targets| {
                let target = |i: usize| Target::Block(BlockId(targets[i]));
                let term = match targets.len() {
                    0 => Term::Jump(Target::Exit),
                    1 => Term::Jump(target(0)),
                    _ => Term::Branch {
                        guard: Guard { reg: Reg(0), negated: false },
                        taken: target(0),
                        other: target(1),
                    },
                };
                Block { insts: vec![], term, line: 0 }
            })
            .collect();
        Function { regs: vec![Class::Pred], blocks, ..Function::default() }
    }

    #[test]
    fn what_follows_a_loop_stands_behind_it() {
        // 0 -> 1; 1 -> (exit 2) or 3; 3 -> 1: the exit is written before the body.
        let mut f = function(&[&[1], &[2, 3], &[], &[1]]);
        run(&mut f);
        let successors: Vec<Vec<u32>> =
            f.blocks.iter().map(|b| b.term.successors().map(|s| s.0).collect()).collect();
        assert_eq!(successors, [vec![1], vec![3, 2], vec![1], vec![]]);
    }

    #[test]
    fn a_loop_whose_end_is_an_inner_loops_exit_gets_a_latch() {
        // 1 is the outer header, 2 the inner: it repeats itself or goes back to 1, which may end.
        let mut f = function(&[&[1], &[2, 3], &[2, 1], &[]]);
        run(&mut f);
        assert_eq!(f.blocks.len(), 5);
        let to_outer: Vec<usize> =
            (2..5).filter(|b| f.blocks[*b].term.successors().any(|s| s.0 == 1)).collect();
        assert_eq!(to_outer, [3], "behind the inner loop: {:?}", f.blocks);
    }

    #[test]
    fn two_back_edges_become_one() {
        // 1 is the header, 2 continues early, 3 at the end.
        let mut f = function(&[&[1], &[2, 4], &[1, 3], &[1], &[]]);
        run(&mut f);
        let back: Vec<(usize, u32)> = f
            .blocks
            .iter()
            .enumerate()
            .flat_map(|(b, block)| block.term.successors().map(move |s| (b, s.0)))
            .filter(|(b, s)| *s as usize <= *b)
            .collect();
        assert_eq!(back.len(), 1);
        assert_eq!(back[0].0, 4, "the latch is the last block of the loop: {:?}", f.blocks);
    }
}
