//! Live intervals (with holes) of the registers of vector code: two registers can share a slot if
//! theirs do not overlap.
//!
//! Positions count instructions in the order of the blocks. Where all lanes run a block together a
//! register's live intervals are those in which it is live, to the instruction, with the holes between
//! them. Elsewhere lanes of a warp stand at different places, and a lane that waits at a later block
//! needs its values while others run earlier ones (`divergent_intervals`): there a live interval has no holes.
//!
//! All of it relies on code for lockstep running as it says, and knows nothing of lanes that wait
//! for other warps while those of their own run on ([`waits_apart`]).

pub use crate::analysis::interval::LiveInterval;

use crate::analysis::dataflow::{Live, Set};
use crate::analysis::divergent_intervals::add;
use crate::analysis::interval::BlockSpans;
use crate::analysis::vector_cfg::{mentioned, sources};
use crate::analysis::vector_liveness::{live, overwrites};
use crate::ir::Reg;
use crate::ir::vector::{VectorFunction, VectorTerm};

/// Where blocks are, and the live intervals of each register.
pub struct LiveIntervals {
    /// By block: the position of its start; instruction `i` is at `start + 1 + i`.
    pub starts: Vec<u32>,
    /// By block: the position of its end.
    pub ends: Vec<u32>,
    /// By register: in order, none touching the next; none if no block mentions it.
    of: Vec<Vec<LiveInterval>>,
}

/// True if lanes may wait, for other warps or for lanes of their own, while those that run go
/// anywhere: more of their values must be kept than live intervals say.
pub fn waits_apart(f: &VectorFunction) -> bool {
    f.blocks.iter().any(|b| {
        let elsewhere = matches!(b.term, VectorTerm::Barrier { .. } | VectorTerm::Pause { .. });
        let parks = b.insts.first().is_some_and(|inst| inst.op.is_sync());
        matches!(b.term, VectorTerm::Call { .. }) || !b.convergent && (elsewhere || parks)
    })
}

impl LiveIntervals {
    /// Finds them, for a function in [`crate::ir::vector::Mode::Lockstep`].
    pub fn of(f: &VectorFunction) -> Self {
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        let mut position = 0;
        for block in &f.blocks {
            starts.push(position);
            ends.push(position + block.insts.len() as u32 + 1);
            position += block.insts.len() as u32 + 2;
        }
        let mut found = Self { starts, ends, of: vec![Vec::new(); f.classes.len()] };
        let live = live(f);
        found.add_together(f, &live);
        let blocks = BlockSpans { starts: found.starts.clone(), ends: found.ends.clone() };
        add(f, &live, &blocks, &mut |r, start, end| found.include(r, start, end));
        // Lanes that leave this version of the code need the register that a companion is of.
        for (companion, of) in &f.companions {
            for kept in found.of[companion.index()].clone() {
                found.include(*of, kept.start, kept.end);
            }
        }
        // What the prologue made is there from the start.
        for d in f.prologue.iter().flat_map(|i| &i.dst) {
            if !found.of[d.reg.index()].is_empty() {
                found.include(d.reg, 0, 0);
            }
        }
        found.merge();
        found
    }

    /// Adds the live intervals of blocks that all lanes run together. What blocks keep and do not mention
    /// is followed from one to the next.
    fn add_together(&mut self, f: &VectorFunction, live: &Live) {
        let none = Set::new(live.names.count());
        let (mut through, mut named) = (none.clone(), none.clone());
        let mut since = vec![0; live.names.count()];
        let mut open = vec![None; f.classes.len()];
        for (b, block) in f.blocks.iter().enumerate() {
            let mut kept = none.clone();
            if block.convergent {
                kept.clone_from(&live.at_start[b]);
                kept.keep(&live.at_end[b]);
                named.clone_from(&none);
                let written = block.insts.iter().flat_map(|i| &i.dst).map(|d| d.reg);
                let read = block.insts.iter().flat_map(sources);
                for r in mentioned(f, &block.term).chain(written).chain(read) {
                    live.names.number(r).into_iter().for_each(|n| named.insert(n));
                }
                kept.take(&named);
                self.add_live(f, b, (live, &kept), &mut open);
            }
            let start = self.starts[b];
            let mut before = through.clone();
            before.add(&kept, |n| since[n] = start);
            through.take(&kept);
            through.iter().for_each(|n| self.include(live.names.register(n), since[n], start - 1));
            through = kept;
        }
        let end = self.ends.last().copied().unwrap_or(0);
        through.iter().for_each(|n| self.include(live.names.register(n), since[n], end));
    }

    /// Adds the live intervals of a block that all lanes run together, but for what is kept through it.
    /// `open` has for each register the end of the live interval that is being followed back; none before
    /// and after.
    fn add_live(
        &mut self,
        f: &VectorFunction,
        b: usize,
        (live, kept): (&Live, &Set),
        open: &mut [Option<u32>],
    ) {
        let block = &f.blocks[b];
        let (start, end) = (self.starts[b], self.ends[b]);
        let at_end = live.at_end[b].iter().filter(|n| !kept.contains(*n));
        let mut known: Vec<Reg> = at_end.map(|n| live.names.register(n)).collect();
        known.iter().for_each(|r| open[r.index()] = Some(end));
        let mut read = |open: &mut [Option<u32>], r: Reg, position: u32| {
            if open[r.index()].is_none() {
                open[r.index()] = Some(position);
                known.push(r);
            }
        };
        mentioned(f, &block.term).for_each(|r| read(open, r, end));
        for (position, inst) in (start + 1..end).zip(&block.insts).rev() {
            for d in &inst.dst {
                let r = d.reg.index();
                let until = open[r].unwrap_or(position);
                if overwrites(inst) || open[r].is_none() {
                    self.of[r].push(LiveInterval { start: position, end: until });
                    open[r] = None;
                }
            }
            sources(inst).for_each(|r| read(open, r, position));
        }
        for r in known {
            if let Some(end) = open[r.index()].take() {
                self.of[r.index()].push(LiveInterval { start, end });
            }
        }
    }

    /// A register's value must be kept from a position to another; [`Self::merge`] is to follow.
    pub fn include(&mut self, reg: Reg, start: u32, end: u32) {
        self.of[reg.index()].push(LiveInterval { start, end });
    }

    /// Puts live intervals in order, and those that touch together.
    pub fn merge(&mut self) {
        for list in &mut self.of {
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

    /// A register's live intervals.
    pub fn of_register(&self, register: usize) -> &[LiveInterval] {
        &self.of[register]
    }

    /// The live interval of a register that a position is in.
    pub fn interval_at(&self, register: usize, position: u32) -> Option<LiveInterval> {
        let list = &self.of[register];
        let next = list.partition_point(|s| s.end < position);
        list.get(next).copied().filter(|s| s.start <= position)
    }

    /// True if the register's value must be kept at a position.
    pub fn covers(&self, register: usize, position: u32) -> bool {
        self.interval_at(register, position).is_some()
    }

    /// True if the register's value must be kept somewhere in a block.
    pub fn covers_some(&self, register: usize, block: usize) -> bool {
        let list = &self.of[register];
        let next = list.partition_point(|s| s.end < self.starts[block]);
        list.get(next).is_some_and(|s| s.start <= self.ends[block])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUARDED: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry guarded(.param .u64 p) {
  .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %d;
  ld.param.u64 %d, [p];
  mov.u32 %r0, %tid.x;
  mad.wide.u32 %d, %r0, 4, %d;
  mul.lo.u32 %r1, %r0, %r0;
  setp.gt.u32 %p, %r0, 5;
  st.global.u32 [%d], %r0;
  @%p ld.global.u32 %r1, [%d + 4];
  st.global.u32 [%d], %r1;
  ret;
}
";

    #[test]
    fn a_guarded_write_keeps_what_other_lanes_have() {
        let mut kernels = crate::inspect::inspect(GUARDED).unwrap();
        let f = kernels.remove(0).1.unwrap().kernel.entry;
        let kept = LiveIntervals::of(&f);
        let mut seen = 0;
        for (block, &start) in f.blocks.iter().zip(&kept.starts) {
            for (position, inst) in (start + 1..).zip(&block.insts) {
                for d in inst.dst.iter().filter(|_| inst.guard.is_some()) {
                    assert!(kept.covers(d.reg.index(), position - 1), "{:?}", inst.op);
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 1, "the guarded load");
    }
}
