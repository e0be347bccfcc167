//! Puts blocks into the order in which a warp runs them.
//!
//! A warp runs its lowest pending block, so the order decides where lanes meet again: a block
//! stands after all that lead to it (loops aside), a loop's blocks stand together, and what comes
//! after a loop stands after all of it. Every loop gets one back-edge: lanes that `continue` wait
//! at the latch for those still in the body, and the warp stays in step.

use super::cleanup::renumber;
use crate::ir::{Block, BlockId, Function, Target, Term};

/// Orders the blocks; all must be reachable.
pub(crate) fn run(f: &mut Function) {
    join_latches(f);
    let graph = Graph::of(f);
    let order = graph.layout();
    let mut number = vec![0; f.blocks.len()];
    for (position, block) in order.iter().enumerate() {
        number[*block] = position as u32;
    }
    let mut blocks: Vec<Option<Block>> =
        std::mem::take(&mut f.blocks).into_iter().map(Some).collect();
    f.blocks = order.iter().filter_map(|b| blocks[*b].take()).collect();
    renumber(f, &number);
}

/// Successors, and which edges go back, found by a depth-first walk.
struct Graph {
    successors: Vec<Vec<usize>>,
    /// Position of each block in reverse post-order.
    rank: Vec<usize>,
    /// Edges to a block that is still open in the walk.
    back: Vec<(usize, usize)>,
}

impl Graph {
    fn of(f: &Function) -> Self {
        let successors: Vec<Vec<usize>> =
            f.blocks.iter().map(|b| b.term.successors().map(BlockId::index).collect()).collect();
        let n = successors.len();
        let (mut rank, mut back) = (vec![usize::MAX; n], Vec::new());
        let mut state = vec![0u8; n];
        let mut stack = vec![(0usize, 0usize)];
        let mut post = Vec::with_capacity(n);
        state[0] = 1;
        while let Some((block, next)) = stack.last_mut() {
            let b = *block;
            if let Some(&s) = successors[b].get(*next) {
                *next += 1;
                match state[s] {
                    0 => {
                        state[s] = 1;
                        stack.push((s, 0));
                    }
                    1 => back.push((b, s)),
                    _ => {}
                }
            } else {
                state[b] = 2;
                post.push(b);
                stack.pop();
            }
        }
        for (position, b) in post.iter().rev().enumerate() {
            rank[*b] = position;
        }
        Self { successors, rank, back }
    }

    fn predecessors(&self) -> Vec<Vec<usize>> {
        let mut predecessors = vec![Vec::new(); self.successors.len()];
        for (b, list) in self.successors.iter().enumerate() {
            for s in list {
                predecessors[*s].push(b);
            }
        }
        predecessors
    }

    /// Blocks of the loop that the back-edges to `header` close.
    fn body(&self, header: usize, predecessors: &[Vec<usize>]) -> Vec<bool> {
        let mut inside = vec![false; self.successors.len()];
        inside[header] = true;
        let mut work: Vec<usize> =
            self.back.iter().filter(|(_, h)| *h == header).map(|(t, _)| *t).collect();
        while let Some(b) = work.pop() {
            if !std::mem::replace(&mut inside[b], true) {
                work.extend(&predecessors[b]);
            }
        }
        inside
    }

    fn layout(&self) -> Vec<usize> {
        let n = self.successors.len();
        let predecessors = self.predecessors();
        let mut headers: Vec<usize> = self.back.iter().map(|(_, h)| *h).collect();
        headers.sort_unstable();
        headers.dedup();
        let loops: Vec<(usize, Vec<bool>, usize)> = headers
            .iter()
            .map(|&h| {
                let body = self.body(h, &predecessors);
                let size = body.iter().filter(|inside| **inside).count();
                (h, body, size)
            })
            .collect();
        let mut waiting: Vec<usize> = vec![0; n];
        for (b, list) in self.successors.iter().enumerate() {
            for s in list {
                if !self.back.contains(&(b, *s)) {
                    waiting[*s] += 1;
                }
            }
        }
        let mut ready = vec![0usize];
        let mut order = Vec::with_capacity(n);
        // Loops entered and not finished, innermost last: index into `loops`, blocks left.
        let mut open: Vec<(usize, usize)> = Vec::new();
        while !ready.is_empty() {
            let best = |inside: Option<&Vec<bool>>| {
                ready
                    .iter()
                    .enumerate()
                    .filter(|(_, b)| inside.is_none_or(|i| i[**b]))
                    .min_by_key(|(_, b)| self.rank[**b])
                    .map(|(position, _)| position)
            };
            let position = open
                .iter()
                .rev()
                .find_map(|(l, _)| best(Some(&loops[*l].1)))
                .or_else(|| best(None));
            let Some(position) = position else { break };
            let b = ready.swap_remove(position);
            order.push(b);
            for (index, entered) in loops.iter().enumerate() {
                if entered.0 == b {
                    open.push((index, entered.2));
                }
            }
            // Smaller loops are nested in larger ones: the innermost stays last.
            open.sort_by_key(|(l, _)| std::cmp::Reverse(loops[*l].2));
            for (l, left) in &mut open {
                if loops[*l].1[b] {
                    *left -= 1;
                }
            }
            open.retain(|(_, left)| *left > 0);
            for s in &self.successors[b] {
                if !self.back.contains(&(b, *s)) {
                    waiting[*s] -= 1;
                    if waiting[*s] == 0 {
                        ready.push(*s);
                    }
                }
            }
        }
        order
    }
}

/// Leads all back-edges to a header through one new block.
fn join_latches(f: &mut Function) {
    let graph = Graph::of(f);
    let mut headers: Vec<usize> = graph.back.iter().map(|(_, h)| *h).collect();
    headers.sort_unstable();
    headers.dedup();
    let predecessors = graph.predecessors();
    let bodies: Vec<(usize, Vec<bool>)> =
        headers.iter().map(|h| (*h, graph.body(*h, &predecessors))).collect();
    for header in headers {
        let latches: Vec<usize> =
            graph.back.iter().filter(|(_, h)| *h == header).map(|(t, _)| *t).collect();
        // One that leaves an inner loop on its way back needs a latch as well: lanes that leave
        // early would start the next round while others are still in that loop.
        let leaves_inner_loop = |latch: usize| {
            bodies.iter().any(|(inner, body)| *inner != header && body[latch] && !body[header])
        };
        if latches.len() < 2 && !latches.iter().any(|t| leaves_inner_loop(*t)) {
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
    use crate::ir::{Guard, Reg};
    use crate::op::Class;

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
