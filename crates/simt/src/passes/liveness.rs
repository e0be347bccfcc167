//! Which registers may still be read, block by block.
//!
//! A guarded definition does not end a live range: lanes without the guard keep the old value.

use crate::ir::{BlockId, Callee, Function, Reg, Term};

/// A set of registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegSet(Vec<u64>);

impl RegSet {
    /// The empty set for functions with `registers` registers.
    pub(crate) fn new(registers: usize) -> Self {
        Self(vec![0; registers.div_ceil(64)])
    }

    /// True if it was not in the set.
    pub(crate) fn insert(&mut self, reg: Reg) -> bool {
        let word = &mut self.0[reg.index() / 64];
        let bit = 1 << (reg.index() % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn remove(&mut self, reg: Reg) {
        self.0[reg.index() / 64] &= !(1 << (reg.index() % 64));
    }

    /// Takes all of `other` away.
    fn take(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= !b);
    }

    /// Membership.
    pub(crate) fn contains(&self, reg: Reg) -> bool {
        self.0[reg.index() / 64] & (1 << (reg.index() % 64)) != 0
    }

    /// Adds all of `other`; true if that changed the set.
    pub(crate) fn extend(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            changed |= *b & !*a != 0;
            *a |= *b;
        }
        changed
    }

    /// The members in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Reg> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 != 0)
                .map(move |bit| Reg((index * 64 + bit) as u32))
        })
    }
}

/// Live registers of a function.
pub(crate) struct Liveness {
    /// At the start of each block.
    pub(crate) live_in: Vec<RegSet>,
    /// At the end of each block, after its terminator read its operands.
    pub(crate) live_out: Vec<RegSet>,
    around_loops: RegSet,
}

/// Registers a terminator reads, an indirect callee included.
pub(crate) fn term_uses(f: &Function, term: &Term) -> Vec<Reg> {
    let mut uses = term.uses();
    if let Term::Call { site, .. } = term
        && let Callee::Indirect(r) = f.calls[*site as usize].callee
    {
        uses.push(r);
    }
    uses
}

impl Liveness {
    /// Computes it.
    pub(crate) fn of(f: &Function) -> Self {
        let n = f.blocks.len();
        let empty = RegSet::new(f.regs.len());
        let successors: Vec<Vec<BlockId>> =
            f.blocks.iter().map(|block| block.term.successors().collect()).collect();
        let predecessors = f.predecessors();
        let changes: Vec<Change> = (0..n).map(|b| Change::of(f, b, &empty)).collect();
        let mut live_in = vec![empty.clone(); n];
        let mut live_out = vec![empty.clone(); n];
        let mut queued = vec![true; n];
        let mut work: Vec<usize> = (0..n).collect();
        let mut live = empty.clone();
        while let Some(b) = work.pop() {
            queued[b] = false;
            for successor in &successors[b] {
                live_out[b].extend(&live_in[successor.index()]);
            }
            live.clone_from(&live_out[b]);
            live.take(&changes[b].writes);
            live.extend(&changes[b].reads);
            if live_in[b].extend(&live) {
                for p in &predecessors[b] {
                    if !std::mem::replace(&mut queued[p.index()], true) {
                        work.push(p.index());
                    }
                }
            }
        }
        let mut around_loops = empty;
        let cycle = cycles(&successors, &predecessors);
        for (b, successors) in successors.iter().enumerate() {
            for successor in successors.iter().filter(|s| cycle[s.index()] == cycle[b]) {
                around_loops.extend(&live_in[successor.index()]);
            }
        }
        Self { live_in, live_out, around_loops }
    }

    /// True if the register is live along an edge that is part of a cycle.
    pub(crate) fn crosses_back_edge(&self, reg: Reg) -> bool {
        self.around_loops.contains(reg)
    }

    /// The largest sum of weights of registers that are live at once.
    pub(crate) fn most(&self, f: &Function, weight: impl Fn(Reg) -> u32) -> u32 {
        let mut most = 0;
        for (b, block) in f.blocks.iter().enumerate() {
            let mut live = self.live_out[b].clone();
            let mut now: u32 = live.iter().map(&weight).sum();
            most = most.max(now);
            for inst in block.insts.iter().rev() {
                if inst.guard.is_none() {
                    for d in &inst.dst {
                        if live.contains(*d) {
                            live.remove(*d);
                            now -= weight(*d);
                        }
                    }
                }
                for r in inst.uses() {
                    if live.insert(r) {
                        now += weight(r);
                    }
                }
                most = most.max(now);
            }
        }
        most
    }
}

/// What a block does to the set of live registers, seen from its end.
struct Change {
    /// Read before they are written.
    reads: RegSet,
    /// Written in all lanes, terminator included.
    writes: RegSet,
}

impl Change {
    fn of(f: &Function, block: usize, empty: &RegSet) -> Self {
        let block = &f.blocks[block];
        let (mut reads, mut writes) = (empty.clone(), empty.clone());
        let write = |reads: &mut RegSet, writes: &mut RegSet, d: Reg| {
            reads.remove(d);
            writes.insert(d);
        };
        if let Some(d) = block.term.def() {
            write(&mut reads, &mut writes, d);
        }
        term_uses(f, &block.term).into_iter().for_each(|r| {
            reads.insert(r);
        });
        for inst in block.insts.iter().rev() {
            if inst.guard.is_none() {
                inst.dst.iter().for_each(|d| write(&mut reads, &mut writes, *d));
            }
            inst.uses().for_each(|r| {
                reads.insert(r);
            });
        }
        Self { reads, writes }
    }
}

/// By block, a number that two blocks share if each can be reached from the other.
fn cycles(successors: &[Vec<BlockId>], predecessors: &[Vec<BlockId>]) -> Vec<usize> {
    let n = successors.len();
    // Blocks as a walk forwards leaves them, the last left first: walks backwards in this order stay
    // each in a cycle.
    let mut left = Vec::with_capacity(n);
    let mut seen = vec![false; n];
    for root in 0..n {
        let mut path = Vec::new();
        if !std::mem::replace(&mut seen[root], true) {
            path.push((root, 0));
        }
        while let Some((b, next)) = path.last_mut() {
            match successors[*b].get(*next) {
                Some(successor) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[successor.index()], true) {
                        path.push((successor.index(), 0));
                    }
                }
                None => {
                    left.push(*b);
                    path.pop();
                }
            }
        }
    }
    let mut cycle = vec![usize::MAX; n];
    for root in left.into_iter().rev() {
        let mut work = vec![root];
        while let Some(b) = work.pop() {
            if cycle[b] == usize::MAX {
                cycle[b] = root;
                work.extend(predecessors[b].iter().map(|p| p.index()));
            }
        }
    }
    cycle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_reach_each_other_share_a_cycle() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3 -> 3, 3 -> 4.
        let edges = [(0, 1), (1, 2), (2, 1), (2, 3), (3, 3), (3, 4)];
        let (mut successors, mut predecessors) = (vec![vec![]; 5], vec![vec![]; 5]);
        for (from, to) in edges {
            successors[from].push(BlockId(to as u32));
            predecessors[to].push(BlockId(from as u32));
        }
        let cycle = cycles(&successors, &predecessors);
        assert_eq!(cycle[1], cycle[2]);
        for (a, b) in [(0, 1), (2, 3), (3, 4), (0, 4)] {
            assert_ne!(cycle[a], cycle[b], "{a} {b}");
        }
    }
}
