//! Which registers somebody may still read where a block starts and where it ends.
//!
//! This is of the vector IR: what the prologue computes is live from the first block on, and
//! companions are live where they are read. A guarded definition does not end a live range: lanes
//! without the guard keep the old value. What other lanes wait for is not looked at here.

use super::flow::{result, sources, successors, terminator_sources};
use crate::ir::Reg;
use crate::vector::{Home, VectorFunction, VectorInst};

/// Live registers of a function.
pub(super) struct Liveness {
    /// Registers that are live where some block starts; the sets below are of their numbers here.
    names: Vec<Reg>,
    at_start: Vec<Set>,
    at_end: Vec<Set>,
}

#[derive(Clone)]
struct Set(Vec<u64>);

impl Set {
    fn insert(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |word: u64| (0..64).filter(move |bit| word >> bit & 1 != 0);
        self.0.iter().enumerate().flat_map(move |(n, word)| bits(*word).map(move |b| 64 * n + b))
    }
}

/// True if the instruction writes its results in all lanes that run it, whatever they hold.
pub(super) fn overwrites(inst: &VectorInst) -> bool {
    inst.guard.is_none()
}

/// What a block does to registers that are live elsewhere.
struct Effect {
    /// Read before it is written.
    reads: Vec<Reg>,
    writes: Vec<Reg>,
}

/// Registers that whoever goes on at the start of a block in another form may read.
fn handed_over(f: &VectorFunction, block: usize) -> impl Iterator<Item = Reg> + '_ {
    f.blocks[block].live_in.iter().flat_map(|r| {
        let high = match f.homes[r.index()] {
            Home::Halves { high, .. } => Some(high),
            _ => None,
        };
        std::iter::once(*r).chain(high)
    })
}

fn effects(f: &VectorFunction) -> Vec<Effect> {
    const NONE: usize = usize::MAX;
    let mut read_in = vec![NONE; f.classes.len()];
    let mut written_in = vec![NONE; f.classes.len()];
    let mut effect = |b: usize| {
        let block = &f.blocks[b];
        let mut effect = Effect { reads: Vec::new(), writes: Vec::new() };
        let mut read = |r: Reg, written_in: &[usize]| {
            if written_in[r.index()] != b && read_in[r.index()] != b {
                read_in[r.index()] = b;
                effect.reads.push(r);
            }
        };
        handed_over(f, b).for_each(|r| read(r, &written_in));
        block.checks.iter().for_each(|check| read(check.reg, &written_in));
        for inst in &block.insts {
            sources(inst).for_each(|r| read(r, &written_in));
            for d in inst.dst.iter().filter(|_| overwrites(inst)) {
                if std::mem::replace(&mut written_in[d.reg.index()], b) != b {
                    effect.writes.push(d.reg);
                }
            }
        }
        terminator_sources(f, &block.term).into_iter().for_each(|r| read(r, &written_in));
        effect.writes.extend(result(&block.term));
        effect
    };
    (0..f.blocks.len()).map(&mut effect).collect()
}

impl Liveness {
    /// Finds them.
    pub(super) fn of(f: &VectorFunction) -> Self {
        const NONE: u32 = u32::MAX;
        let effects = effects(f);
        let mut numbers = vec![NONE; f.classes.len()];
        let mut names = Vec::new();
        for r in effects.iter().flat_map(|e| &e.reads) {
            if numbers[r.index()] == NONE {
                numbers[r.index()] = names.len() as u32;
                names.push(*r);
            }
        }
        let empty = Set(vec![0; names.len().div_ceil(64)]);
        let set = |list: &[Reg]| {
            let mut set = empty.clone();
            let known = list.iter().map(|r| numbers[r.index()]).filter(|n| *n != NONE);
            known.for_each(|n| set.insert(n));
            set
        };
        let mut at_start: Vec<Set> = effects.iter().map(|e| set(&e.reads)).collect();
        let mut at_end = vec![empty.clone(); f.blocks.len()];
        let writes: Vec<Set> = effects.iter().map(|e| set(&e.writes)).collect();
        loop {
            let mut changed = false;
            for (b, block) in f.blocks.iter().enumerate().rev() {
                for s in successors(&block.term) {
                    for (to, from) in at_end[b].0.iter_mut().zip(&at_start[s].0) {
                        *to |= from;
                    }
                }
                let through = at_end[b].0.iter().zip(&writes[b].0).map(|(end, w)| end & !w);
                for (to, more) in at_start[b].0.iter_mut().zip(through) {
                    changed |= more & !*to != 0;
                    *to |= more;
                }
            }
            if !changed {
                return Self { names, at_start, at_end };
            }
        }
    }

    /// Registers that are live at the start of a block.
    pub(super) fn at_start(&self, block: usize) -> impl Iterator<Item = Reg> + '_ {
        self.at_start[block].iter().map(|n| self.names[n])
    }

    /// Registers that are live at the end of a block, behind its terminator.
    pub(super) fn at_end(&self, block: usize) -> impl Iterator<Item = Reg> + '_ {
        self.at_end[block].iter().map(|n| self.names[n])
    }
}
