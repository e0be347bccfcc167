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
        let mut live_in = vec![empty.clone(); n];
        let mut live_out = vec![empty.clone(); n];
        let predecessors = f.predecessors();
        let mut queued = vec![true; n];
        let mut work: Vec<usize> = (0..n).collect();
        while let Some(b) = work.pop() {
            queued[b] = false;
            let block = &f.blocks[b];
            let mut live = empty.clone();
            for successor in block.term.successors() {
                live.extend(&live_in[successor.index()]);
            }
            live_out[b] = live.clone();
            if let Some(d) = block.term.def() {
                live.remove(d);
            }
            term_uses(f, &block.term).into_iter().for_each(|r| {
                live.insert(r);
            });
            for inst in block.insts.iter().rev() {
                if inst.guard.is_none() {
                    inst.dst.iter().for_each(|d| live.remove(*d));
                }
                inst.uses().for_each(|r| {
                    live.insert(r);
                });
            }
            if live_in[b].extend(&live) {
                for p in &predecessors[b] {
                    if !std::mem::replace(&mut queued[p.index()], true) {
                        work.push(p.index());
                    }
                }
            }
        }
        let mut around_loops = empty;
        for (b, block) in f.blocks.iter().enumerate() {
            for successor in block.term.successors() {
                if reaches(f, successor, BlockId(b as u32)) {
                    around_loops.extend(&live_in[successor.index()]);
                }
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

fn reaches(f: &Function, from: BlockId, to: BlockId) -> bool {
    let mut seen = vec![false; f.blocks.len()];
    let mut work = vec![from];
    while let Some(b) = work.pop() {
        if b == to {
            return true;
        }
        if !std::mem::replace(&mut seen[b.index()], true) {
            work.extend(f.blocks[b.index()].term.successors());
        }
    }
    false
}
