//! Loop selection for scalarisation: irregular innermost loops that run one lane at a time.
//!
//! A gather costs a processor as much as loads one by one, and a loop that lanes leave at different
//! times makes all of them wait for the last. So a loop that does little but load from places that
//! came from memory themselves (a row of a sparse matrix, a list) is made in scalar form: one lane
//! runs it from its start to its end in general registers and the low ends of vector registers,
//! then the next one does. For the warp it is one block that takes its time.
//!
//! Such a loop is one block that goes back to itself, of loads, arithmetic and the comparison that
//! it ends with. `registers` gives its values registers, `simt::analysis::address::growth` says how its accesses are checked,
//! `precheck` looks at all lanes before the first of them starts, `emit` makes the code.
//!
//! Invariants: lanes cannot see in which order they run: nothing is stored, and no lane is waited
//! for. Between two iterations of one lane the warp can be interrupted: lanes that are through then
//! stand behind the loop, the others in front of it.

use crate::regalloc::use_weights::UseWeights;
use crate::scalarize::registers::Places;
use iced_x86::Register;
use simt::analysis::address::growth::{self, Check, Linear, Own, Scaled, TripCount, own};
use simt::analysis::vector_cfg::sources;
use simt::ir::op::{CompareType, FloatOp, FloatType, IntOp, Op, Round, Space, Width};
use simt::ir::vector::{Source, StorageClass, VectorFunction, VectorInst, VectorTerm};
use simt::ir::{Reg, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Fewest loads from places that came from memory: one gather among arithmetic is soon made.
const LOADS_MIN: usize = 2;
/// Other instructions that such a load is worth.
const LOAD_WORTH: usize = 4;

/// A loop of one block that is made lane by lane.
pub(crate) struct ScalarLoop {
    /// The block behind it.
    pub(super) exit: usize,
    /// The predicate that it ends with, and where that sends lanes back.
    pub(super) guard: Reg,
    pub(super) back_if: bool,
    /// Which instruction computes it.
    pub(super) compare: usize,
    /// How often a lane runs it, if that is known before.
    pub(super) trips: Option<TripCount>,
    /// Values of lanes that are read before they are written.
    pub(super) inputs: Vec<Reg>,
    /// Values of lanes that are written and read in the next iteration or behind the loop.
    pub(super) kept: Vec<Reg>,
    /// Those that are read behind the loop.
    pub(super) outputs: Vec<Reg>,
    /// Values that all lanes have.
    pub(super) uniforms: Vec<Reg>,
    /// By load, how it is checked.
    pub(super) checks: BTreeMap<usize, Check>,
    /// Addresses that grow by a constant from iteration to iteration.
    pub(super) linear: Vec<Linear>,
    pub(super) places: Places,
    /// Indices that are loaded as numbers of 64 bits; true if signed.
    pub(super) widened: BTreeMap<Reg, bool>,
    /// Bytes that the loads of an iteration touch.
    pub(super) bytes: i32,
}

/// The loops of a function that are made lane by lane, by block.
pub(crate) fn find(f: &VectorFunction, weights: &UseWeights) -> Vec<Option<Rc<ScalarLoop>>> {
    let loaded = from_memory(f);
    (0..f.blocks.len()).map(|b| ScalarLoop::of(f, weights, b, &loaded).map(Rc::new)).collect()
}

/// By register: its value may come from memory, by way of arithmetic.
fn from_memory(f: &VectorFunction) -> Vec<bool> {
    let mut found = vec![false; f.classes.len()];
    loop {
        let mut changed = false;
        for inst in f.blocks.iter().flat_map(|b| &b.insts).filter(|i| !i.uniform) {
            if matches!(inst.op, Op::Load(_)) || sources(inst).any(|r| found[r.index()]) {
                for d in &inst.dst {
                    changed |= !std::mem::replace(&mut found[d.reg.index()], true);
                }
            }
        }
        if !changed {
            return found;
        }
    }
}

/// True for a register of lanes that machine registers can hold.
fn is_plain(f: &VectorFunction, r: Reg) -> bool {
    f.storage[r.index()] == StorageClass::Vector
        && matches!(f.classes[r.index()].width(), Some(Width::W32 | Width::W64))
}

/// True if there is scalar code for the instruction: a load, arithmetic, or a comparison.
fn has_form(f: &VectorFunction, inst: &VectorInst) -> bool {
    let wide = |w: Width| matches!(w, Width::W32 | Width::W64);
    let amount_is_known = || matches!(inst.src.get(1), Some(Source::Imm(_)));
    let op = match inst.op {
        Op::Load(a) => {
            matches!(a.space, Space::Global | Space::Generic)
                && a.count == 1
                && !a.volatile
                && a.bytes <= 8
                && matches!(inst.src.get(1), Some(Source::Imm(v)) if i32::try_from(*v as i64).is_ok())
                && matches!(own(f, inst.src[0]), Some(Own::Lane(r))
                    if f.classes[r.index()].width() == Some(Width::W64))
        }
        Op::Mov(w) => wide(w),
        Op::Extend { from, to, .. } => wide(from) && wide(to),
        Op::Int(op, ty) if wide(ty.width()) => match op {
            IntOp::Add | IntOp::Sub | IntOp::And | IntOp::Or | IntOp::Xor | IntOp::Not => true,
            IntOp::MulLo | IntOp::MadLo | IntOp::Neg | IntOp::Min | IntOp::Max => true,
            IntOp::MulWide | IntOp::MadWide => ty.width() == Width::W32,
            IntOp::Shl | IntOp::Shr => amount_is_known(),
            _ => false,
        },
        Op::Float(op, FloatType::F32 | FloatType::F64, mode) => {
            let known = matches!(op, FloatOp::Add | FloatOp::Sub | FloatOp::Mul | FloatOp::Fma);
            known && mode.round == Round::Near && !mode.ftz && !mode.sat
        }
        Op::Setp(compare, CompareType::Int(ty)) => {
            return wide(ty.width())
                && crate::lanewise::compare::flags(compare, ty.signed()).is_some();
        }
        _ => false,
    };
    op && inst.dst.len() == 1 && is_plain(f, inst.dst[0].reg)
}

impl ScalarLoop {
    /// The loop that a block is, if it is one and better made so. `loaded` says which registers'
    /// values come from memory.
    fn of(f: &VectorFunction, weights: &UseWeights, block: usize, loaded: &[bool]) -> Option<Self> {
        let b = &f.blocks[block];
        let VectorTerm::Branch { guard, uniform: false, taken, other } = &b.term else {
            return None;
        };
        let number = |t: &Target| t.block().map(|b| b.index());
        let (back_taken, exit) = match (number(taken)?, number(other)?) {
            (to, exit) if to == block => (true, exit),
            (exit, to) if to == block => (false, exit),
            _ => return None,
        };
        let plain = |i: &VectorInst| {
            i.guard.is_none()
                && !i.uniform
                && i.src.iter().all(|s| own(f, *s).is_some())
                && has_form(f, i)
        };
        if exit <= block || b.spins || !b.checks.is_empty() || !b.insts.iter().all(plain) {
            return None;
        }
        let irregular = |i: &&VectorInst| {
            matches!(i.op, Op::Load(_)) && i.src[0].registers().any(|r| loaded[r.index()])
        };
        let loads = b.insts.iter().filter(irregular).count();
        if loads < LOADS_MIN || LOAD_WORTH * loads < b.insts.len() - loads {
            return None;
        }
        let back_if = back_taken != guard.negated;
        let compare = ending(f, block, guard.reg, exit)?;
        let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
        let (mut inputs, mut uniforms) = (BTreeSet::new(), BTreeSet::new());
        for inst in &b.insts {
            for source in &inst.src {
                match own(f, *source)? {
                    Own::Lane(r) if !is_plain(f, r) => return None,
                    Own::Lane(r) => {
                        read.insert(r);
                        if !written.contains(&r) {
                            inputs.insert(r);
                        }
                    }
                    Own::Uniform(r) => {
                        uniforms.insert(r);
                    }
                    Own::Constant(_) => {}
                }
            }
            written.extend(inst.dst.iter().map(|d| d.reg).filter(|r| *r != guard.reg));
        }
        // What follows another register is written elsewhere too.
        if f.companions.iter().any(|(r, _)| written.contains(r)) {
            return None;
        }
        let outputs: Vec<Reg> =
            written.iter().copied().filter(|r| f.blocks[exit].live_in.contains(r)).collect();
        let kept = written.iter().copied().filter(|r| inputs.contains(r) || outputs.contains(r));
        let kept: Vec<Reg> = kept.collect();
        let inputs: Vec<Reg> = inputs.into_iter().collect();
        let (checks, linear) = growth::checks(f, block)?;
        let mut checks = checks;
        let places = match Places::find(f, block, &inputs, &outputs, &checks) {
            Some(places) => places,
            None => {
                // Bases of scaled indices take registers.
                growth::unscale(&mut checks);
                Places::find(f, block, &inputs, &outputs, &checks)?
            }
        };
        debug_assert!(
            inputs.iter().all(|r| weights.kept.covers(r.index(), weights.kept.starts[block]))
        );
        let bytes = b.insts.iter().map(|i| match i.op {
            Op::Load(a) => i32::from(a.bytes),
            _ => 0,
        });
        Some(Self {
            exit,
            guard: guard.reg,
            back_if,
            compare,
            trips: growth::trips(f, block, compare, back_if),
            inputs,
            kept,
            outputs,
            uniforms: uniforms.into_iter().collect(),
            linear,
            bytes: bytes.sum(),
            widened: growth::widened(f, block, &checks),
            checks,
            places,
        })
    }

    /// The index that an instruction is a part of the address of.
    pub(super) fn part_of_address(&self, index: usize) -> Option<Scaled> {
        self.checks.values().find_map(|check| match check {
            Check::Offset { sum, scaled: Some(scaled), .. }
                if *sum == index || scaled.made == index =>
            {
                Some(*scaled)
            }
            _ => None,
        })
    }

    /// General registers that the lane's values are in.
    pub(super) fn general(&self) -> impl Iterator<Item = (Reg, Register)> + '_ {
        self.places.general.iter().map(|(r, m)| (*r, *m))
    }
}

/// The comparison that a loop of one block ends with, if nothing else reads its result and it can
/// as well be made at the end.
fn ending(f: &VectorFunction, block: usize, guard: Reg, exit: usize) -> Option<usize> {
    let insts = &f.blocks[block].insts;
    let compares = insts.iter().enumerate().filter(|(_, i)| matches!(i.op, Op::Setp(..)));
    let compares: Vec<usize> = compares.map(|(index, _)| index).collect();
    let &[at] = &compares[..] else { return None };
    let [dest] = &insts[at].dst[..] else { return None };
    let live = |b: usize| f.blocks[b].live_in.contains(&guard);
    let changed = insts[at + 1..]
        .iter()
        .flat_map(|i| &i.dst)
        .any(|d| insts[at].src.iter().any(|s| s.registers().any(|r| r == d.reg)));
    (dest.reg == guard && !changed && !live(block) && !live(exit)).then_some(at)
}
