//! Immediate post-dominators: where lanes that part at a branch surely meet again.
//!
//! Edges that end threads do not count where there is another way: lanes that are gone need not
//! be met. By the same token blocks that only end threads, and read nothing that others write,
//! are left out.

use super::liveness::Liveness;
use crate::compile::simt::{Function, Term};

/// The immediate post-dominator of each block; `None` where lanes only meet at the end.
pub(in crate::compile) fn post_dominators(f: &Function, liveness: &Liveness) -> Vec<Option<usize>> {
    let n = f.blocks.len();
    let dead_end: Vec<bool> = (0..n).map(|b| is_dead_end(f, liveness, b)).collect();
    // Node n is the end of the function.
    let edges: Vec<Vec<usize>> = f
        .blocks
        .iter()
        .map(|block| {
            let mut to: Vec<usize> = lasting_successors(&block.term, &dead_end);
            if to.is_empty() {
                to.push(n);
            }
            to
        })
        .collect();
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
    (0..n).map(|b| Some(dominator[b]).filter(|d| *d < n)).collect()
}

/// Block successors by which lanes stay in the function.
pub(in crate::compile) fn lasting_successors(term: &Term, dead_end: &[bool]) -> Vec<usize> {
    let mut to: Vec<usize> = term.successors().map(|s| s.index()).collect();
    to.sort_unstable();
    to.dedup();
    if to.iter().any(|s| !dead_end[*s]) {
        to.retain(|s| !dead_end[*s]);
    }
    to
}

/// A block that ends its threads and reads no register from outside.
pub(in crate::compile) fn is_dead_end(f: &Function, liveness: &Liveness, block: usize) -> bool {
    f.blocks[block].term.successors().next().is_none()
        && liveness.live_in[block].iter().next().is_none()
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
