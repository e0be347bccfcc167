//! Register allocation: greedy assignment by use density over live intervals with holes, without
//! splitting; the rest is spilled, that is, stays in the register file.
//!
//! The densest come first: uses, weighted by loops, over the length of the live intervals. A value
//! has the same machine registers in all of its live intervals. A spilled one is used from memory,
//! where the first-level cache is nearly as fast. Holes between live intervals are free for others.
//! Sums of products stay where they are: a result takes the registers of an operand that dies there.

use crate::frame_layout::{FRAGMENT_LANES, FRAGMENT_SLOTS, FragmentOrder};
use crate::host::SimdIsa;
use crate::regalloc::interval_table::IntervalTable;
use crate::regalloc::use_weights::UseWeights;
use iced_x86::Register;
use simt::analysis::live_intervals::LiveInterval;
use simt::ir::op::{FloatMode, FloatOp, FloatType, Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorFunction, VectorInst};
use std::collections::{BTreeSet, HashMap};

/// How many of [`SCALARS`] hold values with AVX2; others are pointers of accesses there.
const AVX2_SCALARS: usize = 4;
/// Vector registers that hold values; the others are scratch.
const VECTORS: usize = 28;
/// General registers that hold values.
pub(crate) const SCALARS: [Register; 8] = [
    Register::R12,
    Register::R13,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// Most machine registers that a value of 32 lanes takes.
pub(crate) const PARTS_MAX: usize = 4;

/// Where the lanes of a register are while its live interval lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// In the register file.
    File,
    /// In machine registers, the first lanes in the first.
    Parts([Register; PARTS_MAX]),
    /// In one machine register: every lane has the same value.
    Same(Register),
    /// On the stack, which all warps have in common, at this offset, in an order: the register file
    /// does not have it, and it is not live between blocks.
    Stack(i32, FragmentOrder),
}

impl Lanes {
    /// The machine registers.
    pub(crate) fn registers(self) -> impl Iterator<Item = Register> {
        let all = match self {
            Self::File | Self::Stack(..) => [Register::None; PARTS_MAX],
            Self::Parts(registers) => registers,
            Self::Same(register) => [register; PARTS_MAX],
        };
        all.into_iter().filter(|r| *r != Register::None)
    }
}

/// The assignment of a function.
#[derive(Default)]
pub(crate) struct Assignment {
    /// By register: its lanes.
    pub(crate) lanes: Vec<Lanes>,
    /// By register: its one value.
    pub(crate) scalars: Vec<Option<Register>>,
    /// By register: a value for all lanes that are equal, although no instruction reads it as one.
    pub(crate) same: Vec<bool>,
}

/// Machine registers that 32 lanes of a width take.
pub(crate) fn parts(width: Width) -> usize {
    match width {
        Width::W16 => 1,
        Width::W32 => 2,
        Width::W64 => 4,
        Width::W128 => 8,
    }
}

/// True if the instruction writes one value, loaded once, to all lanes.
pub(crate) fn loads_for_all(f: &VectorFunction, inst: &VectorInst) -> bool {
    matches!(inst.op, Op::Load(_))
        && inst.uniform
        && inst.dst.iter().all(|d| f.storage[d.reg.index()] == StorageClass::Vector)
}

/// Registers whose lanes are always equal.
fn same_in_all(f: &VectorFunction) -> Vec<bool> {
    let mut same: Vec<bool> = f
        .storage
        .iter()
        .map(|storage| matches!(storage, StorageClass::Vector | StorageClass::ScalarAndVector))
        .collect();
    for inst in f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts)) {
        let for_all = loads_for_all(f, inst) && inst.guard.is_none();
        for d in &inst.dst {
            same[d.reg.index()] &=
                for_all || f.storage[d.reg.index()] == StorageClass::ScalarAndVector;
        }
    }
    let mut defined = vec![false; same.len()];
    for inst in f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts)) {
        inst.dst.iter().for_each(|d| defined[d.reg.index()] = true);
    }
    same.iter().zip(defined).map(|(same, defined)| *same && defined).collect()
}

/// By result of a fused multiplication and addition: the operands that die there, with its position. The
/// code reads each part of them before it writes the result's, so that the result may have their machine
/// registers: sums stay where they are.
fn dying_operands(f: &VectorFunction, weights: &UseWeights) -> HashMap<usize, Vec<(usize, u32)>> {
    let mut found: HashMap<usize, Vec<(usize, u32)>> = HashMap::new();
    for (block, start) in f.blocks.iter().zip(&weights.kept.starts) {
        for (position, inst) in (start + 1..).zip(&block.insts) {
            let Op::Float(FloatOp::Fma, FloatType::F32 | FloatType::F64, mode) = inst.op else {
                continue;
            };
            let plain = mode == FloatMode::default() && inst.guard.is_none() && !inst.uniform;
            let [d] = inst.dst[..] else { continue };
            let begins = weights.kept.of_register(d.reg.index()).iter();
            if !plain || d.keep || !begins.clone().any(|s| s.start == position) {
                continue;
            }
            for source in [2, 0, 1].map(|n| inst.src[n]) {
                let Source::Vector(r) = source else { continue };
                let ends = |s: &LiveInterval| s.end == position;
                if r != d.reg && weights.kept.of_register(r.index()).iter().any(ends) {
                    found.entry(d.reg.index()).or_default().push((r.index(), position));
                }
            }
        }
    }
    found
}

/// What matrix products need of the registers.
#[derive(Default)]
pub(crate) struct MatrixRegisters {
    /// Registers of operand fragments that lie on the stack, those of a fragment one behind the
    /// other, and the order of their lanes.
    pub(crate) fragments: Vec<(Vec<usize>, FragmentOrder)>,
    /// Vector registers, the last ones, that hold accumulators within products.
    pub(crate) reserved: usize,
}

impl Assignment {
    /// Assigns a function's registers.
    pub(crate) fn of(
        f: &VectorFunction,
        weights: &UseWeights,
        isa: SimdIsa,
        matrices: &MatrixRegisters,
    ) -> Self {
        let count = f.classes.len();
        // With AVX2 lanes are in machine registers within regions only, which assign their own.
        let (whole_lanes, table) = match isa {
            SimdIsa::Avx512 => (true, SCALARS.len()),
            SimdIsa::Avx2 => (false, AVX2_SCALARS),
        };
        let same = if whole_lanes { same_in_all(f) } else { vec![false; count] };
        let mut made = Self { lanes: vec![Lanes::File; count], scalars: vec![None; count], same };
        if whole_lanes {
            made.put_fragments(weights, matrices);
        }
        // Density, register, as lanes?, machine registers.
        let mut wanted: Vec<(f32, usize, bool, usize)> = Vec::new();
        for r in 0..count {
            let intervals = weights.kept.of_register(r);
            let Some(width) = f.classes[r].width() else { continue };
            if intervals.is_empty() {
                continue;
            }
            let length: u32 = intervals.iter().map(|s| s.end - s.start + 1).sum();
            let density = weights.by_register[r] / length as f32;
            let storage = f.storage[r];
            let lanes = matches!(storage, StorageClass::Vector | StorageClass::ScalarAndVector)
                && made.lanes[r] == Lanes::File;
            if whole_lanes && lanes && width != Width::W128 {
                let units = if made.same[r] { 1 } else { parts(width) };
                // 16-bit lanes that are equal have no form of their own.
                if !(made.same[r] && width == Width::W16) {
                    wanted.push((density / units as f32, r, true, units));
                }
            }
            let scalar =
                !matches!(storage, StorageClass::Vector | StorageClass::Mask | StorageClass::None);
            if scalar && matches!(width, Width::W32 | Width::W64) {
                wanted.push((density, r, false, 1));
            }
        }
        wanted.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut vectors = IntervalTable::new(VECTORS - matrices.reserved);
        let mut scalars = IntervalTable::new(table);
        let dying = if whole_lanes { dying_operands(f, weights) } else { HashMap::new() };
        for (_, r, lanes, units) in wanted {
            let intervals = weights.kept.of_register(r);
            if lanes && let Some(operands) = dying.get(&r) {
                let passed = operands.iter().find_map(|(operand, position)| {
                    made.passed_on(&vectors, *operand, intervals, *position)
                });
                if let Some((numbers, rest)) = passed {
                    numbers.iter().for_each(|m| vectors.reserve(*m, &rest));
                    made.lanes[r] = made.lanes_in(r, &numbers);
                    continue;
                }
            }
            let table = if lanes { &mut vectors } else { &mut scalars };
            let Some(found) = table.find(units, intervals) else { continue };
            found.iter().for_each(|m| table.reserve(*m, intervals));
            match lanes {
                true => made.lanes[r] = made.lanes_in(r, &found),
                false => made.scalars[r] = Some(SCALARS[found[0]]),
            }
        }
        made
    }

    /// The machine registers of an operand that dies at a position, if its result's other intervals fit
    /// there; and when the result is in them.
    fn passed_on(
        &self,
        table: &IntervalTable,
        operand: usize,
        result: &[LiveInterval],
        position: u32,
    ) -> Option<(Vec<usize>, Vec<LiveInterval>)> {
        let Lanes::Parts(registers) = self.lanes[operand] else { return None };
        let behind = |s: &LiveInterval| match s.start == position {
            true => LiveInterval { start: position + 1, ..*s },
            false => *s,
        };
        let rest: Vec<_> = result.iter().map(behind).collect();
        let held = registers.into_iter().filter(|m| *m != Register::None);
        let numbers: Vec<usize> = held.map(|m| m as usize - Register::ZMM0 as usize).collect();
        let fits = rest.iter().all(|s| s.start <= s.end);
        (fits && numbers.iter().all(|m| table.is_free(*m, &rest))).then_some((numbers, rest))
    }

    /// A register's lanes in machine registers of these numbers.
    pub(crate) fn lanes_in(&self, r: usize, numbers: &[usize]) -> Lanes {
        if self.same[r] {
            return Lanes::Same(zmm(numbers[0]));
        }
        let mut registers = [Register::None; PARTS_MAX];
        for (to, from) in registers.iter_mut().zip(numbers) {
            *to = zmm(*from);
        }
        Lanes::Parts(registers)
    }
}

impl Assignment {
    /// Puts fragments of matrices onto the stack, where products want them: there are many, for a
    /// short while, and the next warp's fit where this one's were.
    fn put_fragments(&mut self, weights: &UseWeights, matrices: &MatrixRegisters) {
        let kept = &weights.kept;
        let is_local = |r: &usize| {
            let intervals = kept.of_register(*r);
            let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else {
                return false;
            };
            let block = kept.ends.partition_point(|end| *end < first.start);
            kept.starts[block] < first.start && last.end < kept.ends[block]
        };
        let mut slots = IntervalTable::new(FRAGMENT_SLOTS);
        let mut put = |registers: &[usize], order: FragmentOrder| {
            let intervals: Vec<_> = registers.iter().map(|r| kept.of_register(*r)).collect();
            let first = slots.find_row(&intervals).filter(|_| registers.iter().all(is_local));
            for (slot, r) in first.into_iter().flat_map(|first| (first..).zip(registers)) {
                slots.reserve(slot, kept.of_register(*r));
                self.lanes[*r] = Lanes::Stack(FRAGMENT_LANES + 128 * slot as i32, order);
            }
            first.is_some()
        };
        for (registers, order) in &matrices.fragments {
            if !put(registers, *order) {
                registers.iter().for_each(|r| _ = put(&[*r], FragmentOrder::Lanes));
            }
        }
    }

    /// Vector registers that hold values somewhere.
    pub(crate) fn used_vectors(&self) -> BTreeSet<Register> {
        self.lanes.iter().copied().flat_map(Lanes::registers).collect()
    }

    /// Vector registers that could hold values of this function and do not.
    pub(crate) fn spares(&self, matrices: &MatrixRegisters) -> Vec<Register> {
        let used = self.used_vectors();
        let all = (0..VECTORS - matrices.reserved).map(zmm);
        all.filter(|register| !used.contains(register)).collect()
    }

    /// General registers that hold values somewhere.
    pub(crate) fn used_scalars(&self) -> BTreeSet<Register> {
        self.scalars.iter().flatten().copied().collect()
    }
}

/// Vector register of a number.
fn zmm(number: usize) -> Register {
    Register::ZMM0 + number as u32
}
