//! Immediate post-dominators: where lanes that diverge at a branch reconverge at the latest.
//!
//! Edges that end threads do not count where there is another way: lanes that are gone need not
//! be met. By the same token blocks that only end threads, and read nothing that others write,
//! are left out.

use crate::analysis::liveness::Liveness;
use crate::ir::{Function, Term};

/// The tree of post-dominators. Its root is the end of the function, which has the number behind
/// the last block's.
pub(crate) struct PostDominators {
    /// By block, the immediate post-dominator; `None` for blocks that have no way to the end.
    pub(crate) of: Vec<Option<usize>>,
    /// The tree's nodes, each behind its own post-dominators.
    pub(crate) order: Vec<usize>,
}

/// Finds them; `dead_end` says which blocks are ([`is_dead_end`]).
pub(crate) fn post_dominators(f: &Function, dead_end: &[bool]) -> PostDominators {
    let n = f.blocks.len();
    // Node n is the end of the function.
    let mut edges: Vec<Vec<usize>> = f
        .blocks
        .iter()
        .map(|block| {
            let mut to: Vec<usize> = lasting_successors(&block.term, dead_end);
            if to.is_empty() {
                to.push(n);
            }
            to
        })
        .collect();
    // A loop that is only left by ending the threads would have no end: there the edges count.
    let ends = reaches_end(&edges);
    for (b, block) in f.blocks.iter().enumerate() {
        let leaves = block.term.targets().any(|t| t.block().is_none())
            || block.term.successors().any(|s| dead_end[s.index()]);
        if !ends[b] && leaves {
            edges[b].push(n);
        }
    }
    let mut reverse = vec![Vec::new(); n + 1];
    for (b, list) in edges.iter().enumerate() {
        for s in list {
            reverse[*s].push(b);
        }
    }
    let order = reverse_post_order(n, &reverse);
    let mut rank = vec![usize::MAX; n + 1];
    for (position, b) in order.iter().enumerate() {
        rank[*b] = position;
    }
    let mut dominator = vec![usize::MAX; n + 1];
    dominator[n] = n;
    let mut changed = true;
    while changed {
        changed = false;
        for &b in &order[1..] {
            let mut new = usize::MAX;
            for &s in &edges[b] {
                if dominator[s] != usize::MAX {
                    new = if new == usize::MAX { s } else { meet(new, s, &dominator, &rank) };
                }
            }
            if new != usize::MAX && dominator[b] != new {
                dominator[b] = new;
                changed = true;
            }
        }
    }
    let of = (0..n).map(|b| Some(dominator[b]).filter(|d| *d <= n)).collect();
    PostDominators { of, order }
}

/// Which nodes have a way to the last one.
fn reaches_end(edges: &[Vec<usize>]) -> Vec<bool> {
    let n = edges.len();
    let mut reverse = vec![Vec::new(); n + 1];
    for (b, list) in edges.iter().enumerate() {
        list.iter().for_each(|s| reverse[*s].push(b));
    }
    let mut reached = vec![false; n + 1];
    let mut work = vec![n];
    while let Some(b) = work.pop() {
        if !std::mem::replace(&mut reached[b], true) {
            work.extend(&reverse[b]);
        }
    }
    reached
}

/// Block successors by which lanes stay in the function.
pub(crate) fn lasting_successors(term: &Term, dead_end: &[bool]) -> Vec<usize> {
    let mut to: Vec<usize> = term.successors().map(|s| s.index()).collect();
    to.sort_unstable();
    to.dedup();
    if to.iter().any(|s| !dead_end[*s]) {
        to.retain(|s| !dead_end[*s]);
    }
    to
}

/// A block that ends its threads and reads no register from outside.
pub(crate) fn is_dead_end(f: &Function, liveness: &Liveness, block: usize) -> bool {
    f.blocks[block].term.successors().next().is_none() && liveness.at_start(block).next().is_none()
}

fn meet(mut a: usize, mut b: usize, dominator: &[usize], rank: &[usize]) -> usize {
    while a != b {
        while rank[a] > rank[b] {
            a = dominator[a];
        }
        while rank[b] > rank[a] {
            b = dominator[b];
        }
    }
    a
}

fn reverse_post_order(root: usize, edges: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; edges.len()];
    seen[root] = true;
    let mut stack = vec![(root, 0)];
    let mut post = Vec::new();
    while let Some((node, next)) = stack.last_mut() {
        if let Some(&s) = edges[*node].get(*next) {
            *next += 1;
            if !std::mem::replace(&mut seen[s], true) {
                stack.push((s, 0));
            }
        } else {
            post.push(*node);
            stack.pop();
        }
    }
    post.reverse();
    post
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::Class;
    use crate::ir::{Block, BlockId, Guard, Reg, Target};

    /// Blocks by their targets; `-1` returns.
    fn function(edges: &[&[i32]]) -> Function {
        let target =
            |t: i32| u32::try_from(t).map_or(Target::Return, |b| Target::Block(BlockId(b)));
        let guard = Guard { reg: Reg(0), negated: false };
        let term = |to: &[i32]| match *to {
            [one] => Term::Jump(target(one)),
            _ => Term::Branch { guard, taken: target(to[0]), other: target(to[1]) },
        };
        let block = |to: &&[i32]| Block { insts: vec![], term: term(to), line: 0 };
        Function {
            regs: vec![Class::Pred],
            blocks: edges.iter().map(block).collect(),
            ..Function::default()
        }
    }

    fn of(edges: &[&[i32]]) -> Vec<Option<usize>> {
        let f = function(edges);
        let liveness = Liveness::of(&f);
        let dead_end: Vec<bool> =
            (0..f.blocks.len()).map(|b| is_dead_end(&f, &liveness, b)).collect();
        let end = f.blocks.len();
        let of = post_dominators(&f, &dead_end).of;
        of.into_iter().map(|d| d.filter(|d| *d < end)).collect()
    }

    #[test]
    fn lanes_meet_behind_an_if_and_early_returns_do_not_matter() {
        assert_eq!(of(&[&[1, 2], &[3], &[3], &[-1]])[0], Some(3));
        // One side may return: those who stay still meet.
        assert_eq!(of(&[&[1, 2], &[-1, 3], &[3], &[-1]])[0], Some(3));
    }

    #[test]
    fn a_loop_that_ends_in_a_return_has_a_last_block() {
        assert_eq!(of(&[&[1, 2], &[2], &[0, -1]])[0], Some(2));
    }
}
