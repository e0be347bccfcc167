//! Lane-offset analysis: speculative constant offsets of the lanes of a full warp from one number.
//! Code compares the speculation with the lanes' values before it relies on it.
//!
//! A value is taken to be a number that all lanes have plus one a lane that is known here. Of the
//! common number only a power of two is guessed that divides it: a thread's number in front of a
//! warp is a multiple of 32, so that taking bits of it, or turning some around, concerns the lanes'
//! own numbers alone. Blocks are gone through once, in order: what a loop makes of a value later is
//! as good a guess as what it was before.
//!
//! Deliberately absent: proofs. A guess that is wrong costs a comparison.

use crate::ir::Reg;
use crate::ir::address::LaneOffsets;
use crate::ir::op::{IntOp, Op, Special, Width};
use crate::ir::vector::{Source, StorageClass, VectorFunction, VectorInst};
use crate::kernel::WARP_LANES;
use std::collections::HashMap;

/// Logarithm of what divides zero.
const ANY: u32 = 64;
/// Logarithm of what divides the start of an allocation.
const POINTER: u32 = 8;
/// Lanes' numbers are kept below this, either way, so that arithmetic on them cannot overflow.
const STEP_MAX: u64 = 1 << 40;

impl LaneOffsets {
    fn same(log: u32) -> Self {
        Self { log, steps: [0; WARP_LANES] }
    }

    fn constant(value: i64) -> Self {
        Self { log: ANY, steps: [value; WARP_LANES] }
    }

    fn each(log: u32, of: impl Fn(usize) -> i64) -> Option<Self> {
        let made = Self { log: log.min(ANY), steps: std::array::from_fn(of) };
        made.steps.iter().all(|s| s.unsigned_abs() < STEP_MAX).then_some(made)
    }

    /// The one number that all lanes have, if it is known.
    fn number(&self) -> Option<i64> {
        let first = self.steps[0];
        (self.log == ANY && self.steps.iter().all(|s| *s == first)).then_some(first)
    }

    /// The power of two that divides the value of every lane.
    fn divisor(&self) -> u32 {
        let all = self.steps.iter().fold(0, |all, s| all | s);
        self.log.min(all.trailing_zeros())
    }

    fn sum(&self, other: &Self, sign: i64) -> Option<Self> {
        let step = |n: usize| self.steps[n] + sign * other.steps[n];
        Self::each(self.log.min(other.log), step)
    }

    fn product(&self, other: &Self) -> Option<Self> {
        match (self.number(), other.number()) {
            (_, Some(by)) => {
                let step = |n: usize| self.steps[n].checked_mul(by).unwrap_or(i64::MAX);
                Self::each(self.log + by.trailing_zeros(), step)
            }
            (Some(_), None) => other.product(self),
            _ => {
                let same = |p: &Self| p.steps.iter().all(|s| *s == p.steps[0]);
                let log = self.divisor() + other.divisor();
                (same(self) && same(other)).then(|| Self::same(log.min(ANY)))
            }
        }
    }

    /// What a bitwise operation makes, if lanes' own numbers stay below what divides the common
    /// ones, so that it acts on each of both alone.
    fn bitwise(&self, other: &Self, op: IntOp) -> Option<Self> {
        let log = self.log.min(other.log);
        // A constant's high bits are common to all lanes.
        let low = |p: &Self, n: usize| {
            if p.number().is_some() && log < ANY {
                p.steps[n] & ((1 << log) - 1)
            } else {
                p.steps[n]
            }
        };
        let fits = |p: &Self| log == ANY || (0..WARP_LANES).all(|n| low(p, n) >> log == 0);
        if log >= 63 && log != ANY || !fits(self) || !fits(other) {
            return None;
        }
        // With a small mask nothing is left of the common number.
        let small = |p: &Self| p.number().is_some_and(|v| log == ANY || v >> log == 0);
        let made = if op == IntOp::And && (small(self) || small(other)) { ANY } else { log };
        Self::each(made, |n| {
            let (a, b) = (low(self, n), low(other, n));
            match op {
                IntOp::And => a & b,
                IntOp::Or => a | b,
                _ => a ^ b,
            }
        })
    }

    fn shift(&self, op: IntOp, by: &Self) -> Option<Self> {
        let by = u32::try_from(by.number()?).ok().filter(|by| *by < 32)?;
        match op {
            IntOp::Shl => self.product(&Self::constant(1 << by)),
            _ if self.log < by => None,
            _ => {
                let log = if self.log == ANY { ANY } else { self.log - by };
                Self::each(log, |n| self.steps[n] >> by)
            }
        }
    }
}

/// The patterns of the addresses of a function's loads and stores, by block and instruction.
pub(super) fn of_addresses(f: &VectorFunction) -> Vec<((usize, usize), LaneOffsets)> {
    let mut known: HashMap<Reg, LaneOffsets> = HashMap::new();
    for inst in &f.prologue {
        note(f, &mut known, inst);
    }
    let mut found = Vec::new();
    for (block, b) in f.blocks.iter().enumerate() {
        for (index, inst) in b.insts.iter().enumerate() {
            if matches!(inst.op, Op::Load(_) | Op::Store(_))
                && !inst.uniform
                && let Some(pattern) = inst.src.first().and_then(|s| source(&known, *s, Width::W64))
            {
                found.push(((block, index), pattern));
            }
            note(f, &mut known, inst);
        }
    }
    found
}

fn source(known: &HashMap<Reg, LaneOffsets>, source: Source, width: Width) -> Option<LaneOffsets> {
    match source {
        Source::Imm(v) => {
            // So that less than nothing is that.
            let value = if width == Width::W32 { i64::from(v as i32) } else { v as i64 };
            LaneOffsets::each(ANY, |_| value)
        }
        Source::Vector(r) | Source::Scalar(r) => known.get(&r).copied(),
        Source::Affine(r, stride) => {
            let first = known.get(&r).copied().unwrap_or(LaneOffsets::same(0));
            let step = |n: usize| stride.wrapping_mul(n as i64).wrapping_add(first.steps[n]);
            LaneOffsets::each(first.log, step)
        }
        Source::HalfAffine(..) | Source::Mask(_) => None,
    }
}

/// Notes what an instruction makes.
fn note(f: &VectorFunction, known: &mut HashMap<Reg, LaneOffsets>, inst: &VectorInst) {
    let made = made(known, inst);
    for d in &inst.dst {
        // Of a scalar lane 0's value is all there is.
        let lanes = matches!(f.storage[d.reg.index()], StorageClass::Vector);
        match made.filter(|_| inst.dst.len() == 1) {
            Some(pattern) if lanes || pattern.steps.iter().all(|s| *s == pattern.steps[0]) => {
                known.insert(d.reg, pattern);
            }
            _ => {
                known.remove(&d.reg);
            }
        }
    }
}

fn made(known: &HashMap<Reg, LaneOffsets>, inst: &VectorInst) -> Option<LaneOffsets> {
    let width = match inst.op {
        Op::Int(_, ty) => ty.width(),
        Op::Mov(width) => width,
        _ => Width::W64,
    };
    let at = |n: usize| inst.src.get(n).and_then(|s| source(known, *s, width));
    match inst.op {
        Op::Special(Special::Tid(0)) if inst.uniform => Some(LaneOffsets::same(5)),
        Op::Special(Special::Ntid(0)) => Some(LaneOffsets::same(5)),
        Op::Special(Special::LaneId) => LaneOffsets::each(ANY, |n| n as i64),
        Op::Special(_) if inst.uniform => Some(LaneOffsets::same(0)),
        Op::Load(access) if inst.uniform => {
            let pointer = access.width == Width::W64 && access.bytes == 8;
            Some(LaneOffsets::same(if pointer { POINTER } else { 0 }))
        }
        Op::Mov(_) | Op::Extend { .. } => at(0),
        Op::Int(op, ty) if ty.width() != Width::W16 => match op {
            IntOp::Add => at(0)?.sum(&at(1)?, 1),
            IntOp::Sub => at(0)?.sum(&at(1)?, -1),
            IntOp::MulLo | IntOp::MulWide => at(0)?.product(&at(1)?),
            IntOp::MadLo | IntOp::MadWide => at(0)?.product(&at(1)?)?.sum(&at(2)?, 1),
            IntOp::And | IntOp::Or | IntOp::Xor => at(0)?.bitwise(&at(1)?, op),
            IntOp::Shl | IntOp::Shr => at(0)?.shift(op, &at(1)?),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread() -> LaneOffsets {
        LaneOffsets::same(5).sum(&LaneOffsets::each(ANY, |n| n as i64).unwrap(), 1).unwrap()
    }

    #[test]
    fn bits_of_a_threads_number_are_the_lanes() {
        let low = thread().bitwise(&LaneOffsets::constant(3), IntOp::And).unwrap();
        assert_eq!((low.log, low.steps[6]), (ANY, 2));
        // What is above a warp's lanes is not known here.
        assert_eq!(
            thread().bitwise(&LaneOffsets::constant(32), IntOp::And).map(|p| p.steps[6]),
            Some(0)
        );
        let turned = thread().bitwise(&LaneOffsets::constant(40), IntOp::Xor).unwrap();
        assert_eq!((turned.log, turned.steps[1]), (5, 9));
        let high = thread().bitwise(&LaneOffsets::constant(!3), IntOp::And).unwrap();
        assert_eq!((high.log, high.steps[6]), (5, 4));
        assert_eq!(thread().shift(IntOp::Shr, &LaneOffsets::constant(2)).unwrap().steps[6], 1);
        assert_eq!(thread().shift(IntOp::Shr, &LaneOffsets::constant(6)), None);
    }

    #[test]
    fn a_butterfly_is_twice_the_number_less_its_low_bits() {
        let low = thread().bitwise(&LaneOffsets::constant(3), IntOp::And).unwrap();
        let twice = thread().product(&LaneOffsets::constant(2)).unwrap();
        let place =
            twice.sum(&low, -1).unwrap().shift(IntOp::Shl, &LaneOffsets::constant(3)).unwrap();
        assert_eq!(place.log, 9);
        assert_eq!(place.steps[..9], [0, 8, 16, 24, 64, 72, 80, 88, 128]);
    }

    #[test]
    fn numbers_that_grow_too_far_are_not_followed() {
        let far = LaneOffsets::constant(STEP_MAX as i64 - 1);
        assert_eq!(far.sum(&far, 1), None);
        assert_eq!(far.product(&far), None);
    }
}
