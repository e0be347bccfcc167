//! For each register, the stretches of code through which its value must be kept.
//!
//! Positions count instructions in the order of the blocks. Where all lanes run a block together a
//! register's stretches are those in which it is live, to the instruction, with the holes between
//! them. Elsewhere lanes of a warp stand at different places, and a lane that waits at a later block
//! needs its values while others run earlier ones (`parted`): there a stretch has no holes.

use crate::liveness::{Liveness, overwrites};
use crate::parted;
use simt::ir::{Reg, Target};
use simt::vector::{VectorFunction, VectorInst, VectorTerm};

/// First and last position, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Where blocks are, and what registers need.
pub(crate) struct Ranges {
    /// By block: the position of its start; instruction `i` is at `start + 1 + i`.
    pub(crate) starts: Vec<u32>,
    /// By block: the position of its end.
    pub(crate) ends: Vec<u32>,
    /// By register: in order, none touching the next; none if it is never mentioned.
    pub(crate) stretches: Vec<Vec<Stretch>>,
    /// By register: uses and definitions, weighted by the loops they are in.
    pub(crate) weights: Vec<f32>,
    /// By register: something reads it.
    pub(crate) read: Vec<bool>,
    /// By register: some instruction of a block, not only of the prologue, writes it.
    pub(crate) written: Vec<bool>,
}

/// What a loop weighs more than what is around it.
const LOOP_WEIGHT: f32 = 8.0;
/// Loops deeper than this weigh no more.
const DEPTH_MAX: u32 = 6;

/// Blocks that a terminator can go to.
pub(crate) fn successors(term: &VectorTerm) -> Vec<usize> {
    let block = |t: &Target| t.block().map(|b| b.index());
    match term {
        VectorTerm::Jump(t) => block(t).into_iter().collect(),
        VectorTerm::Branch { taken, other, .. } => {
            block(taken).into_iter().chain(block(other)).collect()
        }
        VectorTerm::Table { targets, .. } => targets.iter().filter_map(block).collect(),
        VectorTerm::Call { next, .. }
        | VectorTerm::Barrier { next, .. }
        | VectorTerm::Pause { next } => vec![*next as usize],
    }
}

/// Registers that an instruction reads, its guard's included.
pub(crate) fn sources(inst: &VectorInst) -> impl Iterator<Item = Reg> + '_ {
    inst.src.iter().flat_map(|s| s.registers()).chain(inst.guard.map(|g| g.reg))
}

/// Registers that a terminator reads.
pub(crate) fn terminator_sources(f: &VectorFunction, term: &VectorTerm) -> Vec<Reg> {
    match term {
        VectorTerm::Branch { guard, .. } => vec![guard.reg],
        VectorTerm::Table { index, .. } => index.registers().collect(),
        VectorTerm::Barrier { barrier, count, predicate, .. } => {
            let read = [Some(barrier), Some(count), predicate.as_ref()];
            read.into_iter().flatten().flat_map(|s| s.registers()).collect()
        }
        VectorTerm::Call { site, .. } => match f.calls[*site as usize].callee {
            simt::ir::Callee::Indirect(r) => vec![r],
            simt::ir::Callee::Direct(_) => Vec::new(),
        },
        VectorTerm::Jump(_) | VectorTerm::Pause { .. } => Vec::new(),
    }
}

/// The register that a terminator writes.
pub(crate) fn result(term: &VectorTerm) -> Option<Reg> {
    match term {
        VectorTerm::Barrier { dst, .. } => dst.map(|d| d.reg),
        _ => None,
    }
}

/// Registers that a terminator reads or writes.
pub(crate) fn mentioned(f: &VectorFunction, term: &VectorTerm) -> Vec<Reg> {
    let mut all = terminator_sources(f, term);
    all.extend(result(term));
    all
}

/// Back-edges: header and latch of each loop.
pub(crate) fn back_edges(f: &VectorFunction) -> Vec<(usize, usize)> {
    f.blocks
        .iter()
        .enumerate()
        .flat_map(|(b, block)| successors(&block.term).into_iter().map(move |s| (s, b)))
        .filter(|(s, b)| s <= b)
        .collect()
}

impl Ranges {
    /// Finds them.
    pub(crate) fn of(f: &VectorFunction) -> Self {
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        let mut position = 0;
        for block in &f.blocks {
            starts.push(position);
            ends.push(position + block.insts.len() as u32 + 1);
            position += block.insts.len() as u32 + 2;
        }
        let registers = f.classes.len();
        let mut ranges = Self {
            starts,
            ends,
            stretches: vec![Vec::new(); registers],
            weights: vec![0.0; registers],
            read: vec![false; registers],
            written: vec![false; registers],
        };
        let loops = back_edges(f);
        ranges.weigh(f, &loops);
        let liveness = Liveness::of(f);
        let mut open = vec![None; registers];
        for b in (0..f.blocks.len()).filter(|b| f.blocks[*b].convergent) {
            ranges.add_live(f, b, &liveness, &mut open);
        }
        parted::add(f, &liveness, &loops, &mut ranges);
        // What the prologue made is there from the start.
        for d in f.prologue.iter().flat_map(|i| &i.dst) {
            if !ranges.stretches[d.reg.index()].is_empty() {
                ranges.include(d.reg, 0, 0);
            }
        }
        ranges.merge();
        ranges
    }

    fn weigh(&mut self, f: &VectorFunction, loops: &[(usize, usize)]) {
        for (b, block) in f.blocks.iter().enumerate() {
            // Several back-edges to one header are one loop.
            let mut headers: Vec<usize> =
                loops.iter().filter(|(h, l)| *h <= b && b <= *l).map(|(h, _)| *h).collect();
            headers.sort_unstable();
            headers.dedup();
            let weight = LOOP_WEIGHT.powi((headers.len() as u32).min(DEPTH_MAX) as i32);
            for check in &block.checks {
                self.weights[check.reg.index()] += weight;
            }
            for inst in &block.insts {
                for r in sources(inst) {
                    self.read[r.index()] = true;
                    self.weights[r.index()] += weight;
                }
                for d in &inst.dst {
                    self.weights[d.reg.index()] += weight;
                    self.written[d.reg.index()] = true;
                }
            }
            for r in terminator_sources(f, &block.term) {
                self.read[r.index()] = true;
                self.weights[r.index()] += weight;
            }
            if let Some(r) = result(&block.term) {
                self.written[r.index()] = true;
                self.weights[r.index()] += weight;
            }
        }
    }

    /// Adds the stretches of a block that all lanes run together. `open` has for each register the
    /// end of the stretch that is being followed back; none before and after.
    fn add_live(
        &mut self,
        f: &VectorFunction,
        b: usize,
        liveness: &Liveness,
        open: &mut [Option<u32>],
    ) {
        let block = &f.blocks[b];
        let (start, end) = (self.starts[b], self.ends[b]);
        let mut known: Vec<Reg> = liveness.at_end(b).collect();
        known.iter().for_each(|r| open[r.index()] = Some(end));
        let mut read = |open: &mut [Option<u32>], r: Reg, position: u32| {
            if open[r.index()].is_none() {
                open[r.index()] = Some(position);
                known.push(r);
            }
        };
        mentioned(f, &block.term).into_iter().for_each(|r| read(open, r, end));
        for (position, inst) in (start + 1..end).zip(&block.insts).rev() {
            for d in &inst.dst {
                let r = d.reg.index();
                let until = open[r].unwrap_or(position);
                if overwrites(inst) || open[r].is_none() {
                    self.stretches[r].push(Stretch { start: position, end: until });
                    open[r] = None;
                }
            }
            sources(inst).for_each(|r| read(open, r, position));
        }
        for r in known {
            if let Some(end) = open[r.index()].take() {
                self.stretches[r.index()].push(Stretch { start, end });
            }
        }
    }

    /// A register's value must be kept from a position to another; [`Self::merge`] is to follow.
    pub(crate) fn include(&mut self, reg: Reg, start: u32, end: u32) {
        self.stretches[reg.index()].push(Stretch { start, end });
    }

    /// Puts stretches in order, and those that touch together.
    pub(crate) fn merge(&mut self) {
        for list in &mut self.stretches {
            list.sort_unstable_by_key(|s| s.start);
            list.dedup_by(|next, before| {
                let touches = next.start <= before.end + 1;
                if touches {
                    before.end = before.end.max(next.end);
                }
                touches
            });
        }
    }

    /// The stretch of a register that a position is in.
    pub(crate) fn stretch_at(&self, register: usize, position: u32) -> Option<Stretch> {
        let list = &self.stretches[register];
        let next = list.partition_point(|s| s.end < position);
        list.get(next).copied().filter(|s| s.start <= position)
    }

    /// True if the register's value must be kept at a position.
    pub(crate) fn covers(&self, register: usize, position: u32) -> bool {
        self.stretch_at(register, position).is_some()
    }

    /// True if the register's value must be kept somewhere in a block.
    pub(crate) fn covers_some(&self, register: usize, block: usize) -> bool {
        let list = &self.stretches[register];
        let next = list.partition_point(|s| s.end < self.starts[block]);
        list.get(next).is_some_and(|s| s.start <= self.ends[block])
    }
}
