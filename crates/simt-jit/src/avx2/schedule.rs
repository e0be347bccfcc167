//! List scheduling within a region: members that round alike stand together.
//!
//! The processor rounds as the thread says. Where it is set otherwise, numbers that are being
//! computed have to be finished first, which costs as much as all that could have run beside them.

use crate::avx2::partition::Member;
use crate::lanewise::half::Format;
use simt::analysis::vector_cfg::sources;
use simt::ir::Reg;
use simt::ir::op::{Convert, FloatOp, FloatType, IntOp, Op, Round};
use simt::ir::vector::VectorInst;
use std::collections::HashMap;

/// How the thread must round for an instruction; `None` if that makes no difference to it.
pub(crate) fn rounding(inst: &VectorInst) -> Option<Round> {
    use FloatOp::{Abs, Add, Div, Fma, Max, Min, Mul, Neg, Rcp, Sqrt, Sub};
    match inst.op {
        Op::Float(Min | Max | Neg | Abs, ty, _) if Format::of(ty).is_none() => None,
        Op::Float(Add | Sub | Mul | Fma | Div | Rcp | Sqrt, _, mode) => Some(mode.round),
        Op::Convert(Convert::Float { from: FloatType::F32, to: FloatType::F32, .. }) => None,
        Op::Float(..) | Op::Convert(_) => Some(Round::Near),
        Op::Int(IntOp::Div | IntOp::Rem | IntOp::Clz | IntOp::Bfind | IntOp::BfindShift, _) => {
            Some(Round::Near)
        }
        _ => None,
    }
}

/// Where a member finds and leaves a value: registers that are needed at different times have one
/// place in the register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ValueLocation {
    Register(Reg),
    Place(Option<u32>),
}

/// What has to be made before something else can be.
#[derive(Default)]
struct Waits {
    /// By value: the member that wrote it last, and those that have read it since.
    values: HashMap<ValueLocation, (Option<usize>, Vec<usize>)>,
    accesses: Vec<usize>,
    stores: Vec<usize>,
}

impl Waits {
    /// The members in front that the next one must not pass.
    fn of(
        &mut self,
        number: usize,
        inst: &VectorInst,
        held: &impl Fn(Reg) -> ValueLocation,
    ) -> Vec<usize> {
        let mut waits = Vec::new();
        let written = || inst.dst.iter().map(|d| d.reg);
        // Where lanes keep what they have, results are read as well.
        for r in sources(inst).chain(written()) {
            let (writer, readers) = self.values.entry(held(r)).or_default();
            waits.extend(*writer);
            readers.push(number);
        }
        for r in written() {
            let (writer, readers) = self.values.entry(held(r)).or_default();
            waits.extend(readers.drain(..).filter(|reader| *reader != number));
            *writer = Some(number);
        }
        match inst.op {
            Op::Load(_) => waits.extend(&self.stores),
            Op::Store(_) => waits.extend(&self.accesses),
            _ => return waits,
        }
        self.accesses.push(number);
        if matches!(inst.op, Op::Store(_)) {
            self.stores.push(number);
        }
        waits
    }
}

/// Members in the order in which they are made. `insts` are the block's instructions.
pub(crate) fn ordered(
    members: Vec<Member>,
    insts: &[VectorInst],
    held: impl Fn(Reg) -> ValueLocation,
) -> Vec<Member> {
    let needs: Vec<Option<Round>> = members.iter().map(|m| rounding(&insts[m.index])).collect();
    if needs.iter().flatten().all(|round| *round == Round::Near) {
        return members;
    }
    let mut waits = Waits::default();
    let waits: Vec<Vec<usize>> =
        members.iter().enumerate().map(|(n, m)| waits.of(n, &insts[m.index], &held)).collect();
    // What nothing in the region waits for.
    let mut last = vec![true; members.len()];
    waits.iter().flatten().for_each(|w| last[*w] = false);
    let (mut made, mut order) = (vec![false; members.len()], Vec::new());
    let mut round = Round::Near;
    loop {
        // What can be made, with all that it waits for, while the thread rounds so.
        let mut ready = Vec::with_capacity(members.len());
        for n in 0..members.len() {
            let fits = needs[n].is_none_or(|need| need == round);
            ready.push(made[n] || fits && waits[n].iter().all(|w| ready[*w]));
        }
        for n in (0..members.len()).filter(|n| ready[*n]) {
            if needs[n].is_some() || last[n] {
                make(n, &waits, &mut made, &mut order);
            }
        }
        // What is left first and rounds waits for nothing else that is left and rounds.
        let next = (0..members.len()).find(|n| !made[*n] && needs[*n].is_some());
        match next.and_then(|n| needs[n]) {
            Some(other) => round = other,
            None => break,
        }
    }
    (0..members.len()).for_each(|n| make(n, &waits, &mut made, &mut order));
    order.into_iter().map(|n| members[n].clone()).collect()
}

/// Makes a member and what it waits for. What makes no difference to rounding, as a load, comes no
/// sooner than it is needed: its value would only take a register.
fn make(n: usize, waits: &[Vec<usize>], made: &mut [bool], order: &mut Vec<usize>) {
    if !std::mem::replace(&mut made[n], true) {
        waits[n].iter().for_each(|w| make(*w, waits, made, order));
        order.push(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simt::ir::op::{FloatMode, Width};
    use simt::ir::vector::{Dest, Source};

    fn inst(op: Op, dst: u32, src: &[u32]) -> VectorInst {
        let dst = vec![Dest { reg: Reg(dst), splat: false, keep: false }];
        let src = src.iter().map(|r| Source::Vector(Reg(*r))).collect();
        VectorInst { op, guard: None, uniform: false, dst, src, line: 0 }
    }

    fn order_of(insts: &[VectorInst]) -> Vec<usize> {
        let members = (0..insts.len()).map(|index| Member { index, access: None }).collect();
        ordered(members, insts, ValueLocation::Register).iter().map(|m| m.index).collect()
    }

    #[test]
    fn what_rounds_alike_stands_together_and_nothing_else_comes_early() {
        let add = |round| {
            let mode = FloatMode { round, ftz: false, sat: false };
            Op::Float(FloatOp::Add, FloatType::F32, mode)
        };
        let copy = || Op::Mov(Width::W32);
        let insts = [
            inst(copy(), 10, &[0]),
            inst(add(Round::Down), 11, &[1, 1]),
            inst(add(Round::Near), 12, &[11, 10]),
            inst(add(Round::Down), 13, &[2, 2]),
            inst(add(Round::Near), 14, &[3, 3]),
            // The source of the first one is written: that has to be made before.
            inst(copy(), 0, &[14]),
        ];
        assert_eq!(order_of(&insts), [4, 0, 5, 1, 3, 2]);
        let near = [insts[4].clone(), insts[2].clone()];
        assert_eq!(order_of(&near), [0, 1], "there is nothing to bring together");
    }
}
