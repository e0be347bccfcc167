//! For each register, the stretch of code through which its value must be kept.
//!
//! Positions count instructions in the order of the blocks. A stretch is a hull without holes:
//! from the first to the last position at which the register is live. Lanes of a warp stand at
//! different places, and a lane that waits at a later block needs its values while others run
//! earlier ones; because the lowest block runs first, all that waits stands behind all that runs,
//! so a hull that is stretched over every loop that it leaves or enters covers that too.

use simt::ir::{Reg, Target};
use simt::vector::{VectorFunction, VectorInst, VectorTerm};

/// First and last position, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hull {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Where blocks are, and what registers need.
pub(crate) struct Ranges {
    /// By block: the position of its start; instruction `i` is at `start + 1 + i`.
    pub(crate) starts: Vec<u32>,
    /// By block: the position of its end.
    pub(crate) ends: Vec<u32>,
    /// By register; `None` if it is never mentioned.
    pub(crate) hulls: Vec<Option<Hull>>,
    /// By register: uses and definitions, weighted by the loops they are in.
    pub(crate) weights: Vec<f32>,
    /// By register: something reads it.
    pub(crate) read: Vec<bool>,
    /// By register: some instruction of a block, not only of the prologue, writes it.
    pub(crate) written: Vec<bool>,
    /// Header and latch of each loop.
    loops: Vec<(usize, usize)>,
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

/// Registers that a terminator reads or writes.
pub(crate) fn mentioned(f: &VectorFunction, term: &VectorTerm) -> Vec<Reg> {
    match term {
        VectorTerm::Branch { guard, .. } => vec![guard.reg],
        VectorTerm::Table { index, .. } => index.registers().collect(),
        VectorTerm::Barrier { barrier, count, predicate, dst, .. } => {
            let read = [Some(barrier), Some(count), predicate.as_ref()];
            let read = read.into_iter().flatten().flat_map(|s| s.registers());
            read.chain(dst.map(|d| d.reg)).collect()
        }
        VectorTerm::Call { site, .. } => match f.calls[*site as usize].callee {
            simt::ir::Callee::Indirect(r) => vec![r],
            simt::ir::Callee::Direct(_) => Vec::new(),
        },
        VectorTerm::Jump(_) | VectorTerm::Pause { .. } => Vec::new(),
    }
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
        let loops: Vec<(usize, usize)> = f
            .blocks
            .iter()
            .enumerate()
            .flat_map(|(b, block)| successors(&block.term).into_iter().map(move |s| (s, b)))
            .filter(|(s, b)| s <= b)
            .collect();
        let registers = f.classes.len();
        let mut ranges = Self {
            starts,
            ends,
            hulls: vec![None; registers],
            weights: vec![0.0; registers],
            read: vec![false; registers],
            written: vec![false; registers],
            loops,
        };
        for (b, block) in f.blocks.iter().enumerate() {
            // Several back-edges to one header are one loop.
            let mut headers: Vec<usize> =
                ranges.loops.iter().filter(|(h, l)| *h <= b && b <= *l).map(|(h, _)| *h).collect();
            headers.sort_unstable();
            headers.dedup();
            let weight = LOOP_WEIGHT.powi((headers.len() as u32).min(DEPTH_MAX) as i32);
            for r in &block.live_in {
                ranges.include(*r, ranges.starts[b]);
            }
            for s in successors(&block.term) {
                for r in &f.blocks[s].live_in {
                    ranges.include(*r, ranges.ends[b]);
                }
            }
            for check in &block.checks {
                ranges.include(check.reg, ranges.starts[b]);
                ranges.weights[check.reg.index()] += weight;
            }
            for (i, inst) in block.insts.iter().enumerate() {
                let position = ranges.starts[b] + 1 + i as u32;
                for r in sources(inst) {
                    ranges.read[r.index()] = true;
                    ranges.include(r, position);
                    ranges.weights[r.index()] += weight;
                }
                for d in &inst.dst {
                    ranges.include(d.reg, position);
                    ranges.weights[d.reg.index()] += weight;
                    ranges.written[d.reg.index()] = true;
                }
            }
            for r in mentioned(f, &block.term) {
                ranges.read[r.index()] = true;
                ranges.include(r, ranges.ends[b]);
                ranges.weights[r.index()] += weight;
            }
            if let VectorTerm::Barrier { dst: Some(d), .. } = &block.term {
                ranges.written[d.reg.index()] = true;
            }
        }
        // What the prologue made is there from the start.
        for d in f.prologue.iter().flat_map(|i| &i.dst) {
            if ranges.hulls[d.reg.index()].is_some() {
                ranges.include(d.reg, 0);
            }
        }
        for (companion, of) in &f.companions {
            ranges.include_all(*companion, of.index());
        }
        ranges.stretch();
        ranges
    }

    fn include_all(&mut self, reg: Reg, of: usize) {
        if let Some(Hull { start, end }) = self.hulls[of] {
            self.include(reg, start);
            self.include(reg, end);
        }
    }

    /// A register's value must be kept at a position; [`Self::stretch`] is to follow.
    pub(crate) fn include(&mut self, reg: Reg, position: u32) {
        let hull = &mut self.hulls[reg.index()];
        *hull = Some(match *hull {
            Some(h) => Hull { start: h.start.min(position), end: h.end.max(position) },
            None => Hull { start: position, end: position },
        });
    }

    /// Values that leave or enter a loop are kept through all of it.
    pub(crate) fn stretch(&mut self) {
        for hull in self.hulls.iter_mut().flatten() {
            loop {
                let before = *hull;
                for (header, latch) in &self.loops {
                    let (start, end) = (self.starts[*header], self.ends[*latch]);
                    let meets = hull.start <= end && hull.end >= start;
                    let inside = hull.start >= start && hull.end <= end;
                    if meets && !inside {
                        hull.start = hull.start.min(start);
                        hull.end = hull.end.max(end);
                    }
                }
                if *hull == before {
                    break;
                }
            }
        }
    }

    /// True if the register's value must be kept at a position.
    pub(crate) fn covers(&self, register: usize, position: u32) -> bool {
        self.hulls[register].is_some_and(|h| h.start <= position && position <= h.end)
    }
}
