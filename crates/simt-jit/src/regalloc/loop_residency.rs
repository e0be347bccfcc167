//! Live-range splitting around innermost loops: a loop-invariant value without a machine register
//! gets one for the loop only.
//!
//! It is reloaded on loop entry and on resumption inside the loop, and never written back: the
//! register file stays current. The loops are innermost ones, so no block is in two of them.

use crate::analysis::use_weights::UseWeights;
use crate::function::Compiler;
use crate::regalloc::allocate::{Assignment, Lanes, parts};
use crate::regalloc::interval_table::IntervalTable;
use simt::analysis::live_intervals::LiveInterval;
use simt::analysis::vector_cfg::{back_edges, result};
use simt::ir::op::Width;
use simt::ir::vector::{Source, StorageClass, VectorFunction};
use std::collections::{BTreeMap, BTreeSet};

/// What one register has in a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LoopResident {
    /// Its lanes.
    Lanes(usize, Lanes),
    /// Its one value.
    Scalar(usize, iced_x86::Register),
}

/// The loop-resident values of a function.
#[derive(Default)]
pub(crate) struct LoopResidency {
    /// By loop.
    of: Vec<Vec<LoopResident>>,
    /// By block: the loop that it is in, if there are loop-resident values there.
    loops: Vec<Option<usize>>,
}

/// First and last block of each loop that has no other inside, and that lanes only come into by a
/// way that some block takes.
fn innermost(f: &VectorFunction) -> Vec<(usize, usize)> {
    let mut loops: BTreeMap<usize, usize> = BTreeMap::new();
    for (header, latch) in back_edges(f) {
        let last = loops.entry(header).or_insert(latch);
        *last = latch.max(*last);
    }
    let has_none =
        |(first, last): (usize, usize)| loops.range(first + 1..last + 1).next().is_none();
    loops.iter().map(|(first, last)| (*first, *last)).filter(|l| l.0 > 0 && has_none(*l)).collect()
}

/// How often the blocks of a loop read registers that none of them writes: as lanes, and as one
/// value.
fn reads(f: &VectorFunction, (first, last): (usize, usize)) -> BTreeMap<usize, [u32; 2]> {
    let mut found: BTreeMap<usize, [u32; 2]> = BTreeMap::new();
    let mut written = BTreeSet::new();
    for block in &f.blocks[first..=last] {
        block.checks.iter().for_each(|c| found.entry(c.reg.index()).or_default()[1] += 1);
        for inst in &block.insts {
            for source in &inst.src {
                let how = match source {
                    Source::Vector(_) => 0,
                    Source::Scalar(_) | Source::Affine(..) | Source::HalfAffine(..) => 1,
                    Source::Mask(_) | Source::Imm(_) => continue,
                };
                source.registers().for_each(|r| found.entry(r.index()).or_default()[how] += 1);
            }
            written.extend(inst.dst.iter().map(|d| d.reg.index()));
        }
        written.extend(result(&block.term).map(|r| r.index()));
    }
    found.retain(|r, _| !written.contains(r));
    found
}

impl LoopResidency {
    /// Gives what is free in `vectors` and `scalars`; `skips` says of a block that its loop has no
    /// use for loop-resident values.
    pub(crate) fn give(
        f: &VectorFunction,
        weights: &UseWeights,
        assignment: &Assignment,
        (vectors, scalars): (&mut IntervalTable, &mut IntervalTable),
        (whole_lanes, skips): (bool, impl Fn(usize) -> bool),
    ) -> Self {
        let mut residency = Self { of: Vec::new(), loops: vec![None; f.blocks.len()] };
        for (first, last) in innermost(f).into_iter().filter(|(first, _)| !skips(*first)) {
            let kept = &weights.kept;
            let interval = [LiveInterval { start: kept.starts[first], end: kept.ends[last] }];
            // How often it is read for each machine register that it takes.
            let mut wanted: Vec<(u32, usize, bool, usize)> = Vec::new();
            for (r, [lanes, scalar]) in reads(f, (first, last)) {
                let Some(width) = f.classes[r].width() else { continue };
                if !kept.covers(r, interval[0].start) {
                    continue;
                }
                let units = if assignment.same[r] { 1 } else { parts(width) };
                let has_form = width != Width::W128 && !(assignment.same[r] && width == Width::W16);
                if whole_lanes && lanes > 0 && has_form && assignment.lanes[r] == Lanes::File {
                    wanted.push((lanes * 8 / units as u32, r, true, units));
                }
                let is_one = !matches!(
                    f.storage[r],
                    StorageClass::Vector | StorageClass::Mask | StorageClass::None
                );
                let fits = matches!(width, Width::W32 | Width::W64);
                if is_one && fits && scalar > 0 && assignment.scalars[r].is_none() {
                    wanted.push((scalar * 8, r, false, 1));
                }
            }
            wanted.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            let mut given = Vec::new();
            for (_, r, lanes, units) in wanted {
                let table = if lanes { &mut *vectors } else { &mut *scalars };
                let Some(found) = table.find(units, &interval) else { continue };
                found.iter().for_each(|m| table.reserve(*m, r, &interval));
                given.push(match lanes {
                    true => LoopResident::Lanes(r, assignment.lanes_in(r, &found)),
                    false => LoopResident::Scalar(r, crate::regalloc::allocate::SCALARS[found[0]]),
                });
            }
            if !given.is_empty() {
                residency.loops[first..=last].fill(Some(residency.of.len()));
                residency.of.push(given);
            }
        }
        residency
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &LoopResident> {
        self.of.iter().flatten()
    }

    /// True if a general register is on loan in a block.
    pub(crate) fn lends(&self, block: usize, register: iced_x86::Register) -> bool {
        let here = self.loop_of(block).map_or(&[][..], |l| &self.of[l]);
        here.iter().any(|loan| matches!(loan, LoopResident::Scalar(_, m) if *m == register))
    }

    /// The loop with loop-resident values that a block is in.
    fn loop_of(&self, block: usize) -> Option<usize> {
        self.loops.get(block).copied().flatten()
    }
}

impl Compiler<'_> {
    /// What follows is code of this block, and values are where they are there.
    pub(crate) fn set_current_block(&mut self, block: usize) {
        self.block = block;
        let (from, to) = (self.resident_loop, self.residency.loop_of(block));
        if from == to {
            return;
        }
        for loan in from.iter().flat_map(|l| &self.residency.of[*l]) {
            match *loan {
                LoopResident::Lanes(r, _) => self.assignment.lanes[r] = Lanes::File,
                LoopResident::Scalar(r, _) => self.assignment.scalars[r] = None,
            }
        }
        for loan in to.iter().flat_map(|l| &self.residency.of[*l]) {
            match *loan {
                LoopResident::Lanes(r, lanes) => self.assignment.lanes[r] = lanes,
                LoopResident::Scalar(r, register) => self.assignment.scalars[r] = Some(register),
            }
        }
        self.resident_loop = to;
    }

    /// True if the way from a block to another leads into a loop with loop-resident values.
    pub(crate) fn borrows_on_way(&self, from: usize, to: usize) -> bool {
        let there = self.residency.loop_of(to);
        there.is_some() && there != self.residency.loop_of(from)
    }

    /// Loads what is on loan where the way from a block to another leads into a loop.
    pub(crate) fn borrow_on_way(&mut self, from: usize, to: usize) {
        if self.borrows_on_way(from, to) {
            self.borrow(to);
        }
    }

    /// Loads what is on loan in a block.
    pub(crate) fn borrow(&mut self, block: usize) {
        let Some(number) = self.residency.loop_of(block) else { return };
        let before = self.block;
        self.set_current_block(block);
        for loan in self.residency.of[number].clone() {
            match loan {
                LoopResident::Lanes(r, _) => self.fill_lanes(r),
                LoopResident::Scalar(r, register) => {
                    let place = self.layout.place(r);
                    if let (Some(offset), Some(width)) = (place.scalar, self.f.classes[r].width()) {
                        self.load_scalar(register, offset, width);
                    }
                }
            }
        }
        self.set_current_block(before);
    }

    /// Where lanes that waited at a block go on: what is on loan there is loaded first, by code
    /// that is made here if there is such a thing.
    pub(crate) fn resumed(&mut self) -> [Vec<crate::asm::assembler::Label>; 2] {
        let mut resumed = [self.unmasked_labels.clone(), self.masked_labels.clone()];
        for block in 0..self.f.blocks.len() {
            if self.residency.loop_of(block).is_none() {
                continue;
            }
            for labels in &mut resumed {
                let clone = std::mem::replace(&mut labels[block], self.a.label());
                self.a.bind(labels[block]);
                self.borrow(block);
                self.a.jump(iced_x86::Code::Jmp_rel32_64, clone);
            }
        }
        resumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simt::ir::vector::{Mode, VectorBlock, VectorTerm};
    use simt::ir::{BlockId, Guard, Reg, Target};

    /// A function of blocks that branch to these, on and nowhere else.
    fn branching(targets: &[Option<u32>]) -> VectorFunction {
        let block = |(b, target): (usize, &Option<u32>)| {
            let next = Target::Block(BlockId(b as u32 + 1));
            let other = if b + 1 < targets.len() { next } else { Target::Exit };
            let guard = Guard { reg: Reg(0), negated: false };
            let term = match target {
                Some(to) => {
                    let taken = Target::Block(BlockId(*to));
                    VectorTerm::Branch { guard, uniform: true, taken, other }
                }
                None => VectorTerm::Jump(other),
            };
            VectorBlock {
                checks: Vec::new(),
                insts: Vec::new(),
                term,
                line: 0,
                convergent: true,
                spins: false,
                live_in: Vec::new(),
            }
        };
        VectorFunction {
            name: String::new(),
            mode: Mode::Lockstep,
            classes: Vec::new(),
            storage: Vec::new(),
            companions: Vec::new(),
            prologue: Vec::new(),
            blocks: targets.iter().enumerate().map(block).collect(),
            calls: Vec::new(),
            texts: Vec::new(),
            params: Vec::new(),
            results: Vec::new(),
            frame_bytes: 0,
        }
    }

    #[test]
    fn loops_without_loops_inside_lend() {
        // A block that is a loop, and a loop of two blocks with another way back, in a third one.
        let f = branching(&[None, Some(1), None, Some(2), Some(2), Some(1), None]);
        assert_eq!(innermost(&f), [(2, 4)]);
        let f = branching(&[None, Some(1), None, Some(2), Some(2), None, None]);
        assert_eq!(innermost(&f), [(1, 1), (2, 4)]);
    }

    #[test]
    fn a_loop_at_the_start_has_no_way_in() {
        assert_eq!(innermost(&branching(&[Some(0), None])), []);
    }
}
