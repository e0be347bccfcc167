//! Register assignment for a scalarised loop, while one lane runs it.
//!
//! What is read before it is written keeps its register all through; the others have theirs from
//! where they are written to where they are read last. What is left over holds values that all
//! lanes have.

use crate::regalloc::allocate::SCALARS;
use iced_x86::Register;
use simt::analysis::address::growth::{Check, Own, own};
use simt::ir::Reg;
use simt::ir::op::Op;
use simt::ir::vector::{VectorFunction, VectorInst};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Counts the iterations that need no look at anything else.
pub(crate) const BUDGET: Register = SCALARS[SCALARS.len() - 1];
/// Vector registers whose low ends hold values.
pub(crate) const FLOATS: usize = 10;
/// Scratch, right behind them.
pub(crate) const SCRATCH: [Register; 2] = [Register::XMM10, Register::XMM11];

/// Where values are.
#[derive(Default)]
pub(crate) struct Places {
    /// In general registers: values of the lane, and those of all lanes that are there.
    pub(crate) general: BTreeMap<Reg, Register>,
    /// In vector registers.
    pub(crate) floats: BTreeMap<Reg, Register>,
    /// The last instruction that reads a value of the lane that is not needed all through.
    last_read: HashMap<Reg, usize>,
    /// Where it is written first.
    first_written: HashMap<Reg, usize>,
}

/// Registers of lanes that hold floating-point numbers; `None` if one is used as an integer too.
fn floats(f: &VectorFunction, insts: &[VectorInst]) -> Option<BTreeSet<Reg>> {
    let lanes = |inst: &VectorInst| -> Vec<Reg> {
        let sources = inst.src.iter().filter_map(|s| match own(f, *s) {
            Some(Own::Lane(r)) => Some(r),
            _ => None,
        });
        sources.chain(inst.dst.iter().map(|d| d.reg)).collect()
    };
    let mut floats = BTreeSet::new();
    let mut known = usize::MAX;
    while known != floats.len() {
        known = floats.len();
        for inst in insts {
            let copies =
                matches!(inst.op, Op::Mov(_)) && lanes(inst).iter().any(|r| floats.contains(r));
            if copies || matches!(inst.op, Op::Float(..)) {
                floats.extend(lanes(inst));
            }
        }
    }
    let as_integer = |inst: &VectorInst| match inst.op {
        Op::Float(..) | Op::Mov(_) => Vec::new(),
        // Its result may be either.
        Op::Load(access) if u32::from(access.bytes) == access.width.bytes() => {
            inst.src.iter().flat_map(|s| s.registers()).collect()
        }
        _ => lanes(inst),
    };
    let both = insts.iter().flat_map(as_integer).any(|r| floats.contains(&r));
    (!both).then_some(floats)
}

/// Instructions whose results are not made, for a check.
fn unmade(check: &Check) -> Vec<usize> {
    match check {
        Check::Offset { sum, scaled: Some(_), .. } => vec![*sum],
        _ => Vec::new(),
    }
}

impl Places {
    /// Finds registers for a loop's values; `None` if there are not enough.
    pub(crate) fn find(
        f: &VectorFunction,
        block: usize,
        inputs: &[Reg],
        outputs: &[Reg],
        checks: &BTreeMap<usize, Check>,
    ) -> Option<Self> {
        let insts = &f.blocks[block].insts;
        let floats = floats(f, insts)?;
        let mut places = Self::default();
        let mut free: Vec<Register> = SCALARS.into_iter().rev().filter(|m| *m != BUDGET).collect();
        let mut vectors = (0..FLOATS as u32).rev().map(|n| Register::XMM0 + n).collect::<Vec<_>>();
        for r in inputs.iter().chain(outputs) {
            places.take(*r, &floats, &mut free, &mut vectors)?;
        }
        for check in checks.values() {
            if let Check::Offset { base, scaled: Some(_), .. } = check {
                places.take(*base, &floats, &mut free, &mut vectors)?;
            }
        }
        for (at, inst) in insts.iter().enumerate() {
            let read = inst.src.iter().filter_map(|s| own(f, *s));
            let lane = match checks.get(&at) {
                Some(Check::Offset { lane, .. }) => Some(Own::Lane(*lane)),
                _ => None,
            };
            for source in read.chain(lane) {
                if let Own::Lane(r) = source {
                    places.last_read.insert(r, at);
                }
            }
        }
        // The comparison is made at the end.
        let end = insts.len();
        for inst in insts.iter().filter(|i| matches!(i.op, Op::Setp(..))) {
            for r in inst.src.iter().flat_map(|s| s.registers()) {
                places.last_read.insert(r, end);
            }
        }
        inputs.iter().chain(outputs).for_each(|r| {
            places.last_read.insert(*r, end);
        });
        let unmade = checks.values().flat_map(unmade).collect::<BTreeSet<usize>>();
        for (at, inst) in insts.iter().enumerate() {
            // What is read here for the last time makes room for what is written.
            let over = places.last_read.iter().filter(|(_, last)| **last == at).map(|(r, _)| *r);
            for r in over.collect::<BTreeSet<_>>() {
                free.extend(places.general.get(&r));
            }
            let made = !matches!(inst.op, Op::Setp(..)) && !unmade.contains(&at);
            for r in inst.dst.iter().map(|d| d.reg).filter(|_| made) {
                if places.register(r).is_none() {
                    places.take(r, &floats, &mut free, &mut vectors)?;
                    places.first_written.insert(r, at);
                } else if places.last_read.get(&r).is_none_or(|last| *last < at) {
                    // A dead definition, when its register may be another's.
                    return None;
                }
            }
        }
        let taken: BTreeSet<Register> = places.general.values().copied().collect();
        let mut left = SCALARS.into_iter().filter(|m| *m != BUDGET && !taken.contains(m));
        for inst in insts.iter().filter(|i| !matches!(i.op, Op::Float(..))) {
            for source in &inst.src {
                if let Some(Own::Uniform(r)) = own(f, *source)
                    && places.register(r).is_none()
                    && let Some(m) = left.next()
                {
                    places.general.insert(r, m);
                }
            }
        }
        Some(places)
    }

    /// A register of a value's own.
    fn take(
        &mut self,
        r: Reg,
        floats: &BTreeSet<Reg>,
        free: &mut Vec<Register>,
        vectors: &mut Vec<Register>,
    ) -> Option<()> {
        if self.register(r).is_none() {
            if floats.contains(&r) {
                self.floats.insert(r, vectors.pop()?);
            } else {
                self.general.insert(r, free.pop()?);
            }
        }
        Some(())
    }

    fn register(&self, r: Reg) -> Option<Register> {
        self.general.get(&r).or(self.floats.get(&r)).copied()
    }

    /// True if a value of the lane is in its register in front of an instruction, and read there
    /// or later.
    pub(crate) fn holds(&self, r: Reg, at: usize) -> bool {
        let written = self.first_written.get(&r).is_none_or(|first| *first < at);
        written && self.last_read.get(&r).is_some_and(|last| *last >= at)
    }
}
