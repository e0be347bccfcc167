//! The order in which a segment's members are made: those that round alike stand together.
//!
//! The processor rounds as the thread says. Where it is told otherwise, numbers that are being
//! computed have to be finished first, which costs as much as all that could have run beside them.

use super::segment::Member;
use crate::halves::Format;
use crate::ranges::sources;
use simt::ir::Reg;
use simt::op::{Convert, FloatOp, FloatType, IntOp, Op, Round};
use simt::vector::VectorInst;
use std::collections::HashMap;

/// How the thread must round for an instruction; `None` if that makes no difference to it.
pub(crate) fn rounding(inst: &VectorInst) -> Option<Round> {
    use FloatOp::{Abs, Add, Div, Fma, Max, Min, Mul, Neg, Rcp, Sqrt, Sub};
    match inst.op {
        Op::Float(Min | Max | Neg | Abs, ty, _) if Format::of(ty).is_none() => None,
        Op::Float(Add | Sub | Mul | Fma | Div | Rcp | Sqrt, _, mode) => Some(mode.round),
        Op::Convert(Convert::Float { from: FloatType::F32, to: FloatType::F32, .. }) => None,
        Op::Float(..) | Op::Convert(_) => Some(Round::Near),
        Op::Int(IntOp::Div | IntOp::Rem | IntOp::Clz, _) => Some(Round::Near),
        _ => None,
    }
}

/// Where a member finds and leaves a value: registers that are needed at different times have one
/// place in the register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Held {
    Register(Reg),
    Place(Option<u32>),
}

/// What has to be made before something else can be.
#[derive(Default)]
struct Waits {
    /// By value: the member that wrote it last, and those that have read it since.
    values: HashMap<Held, (Option<usize>, Vec<usize>)>,
    accesses: Vec<usize>,
    stores: Vec<usize>,
}

impl Waits {
    /// The members in front that the next one must not pass.
    fn of(&mut self, number: usize, inst: &VectorInst, held: &impl Fn(Reg) -> Held) -> Vec<usize> {
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
    held: impl Fn(Reg) -> Held,
) -> Vec<Member> {
    let needs: Vec<Option<Round>> = members.iter().map(|m| rounding(&insts[m.index])).collect();
    if needs.iter().flatten().all(|round| *round == Round::Near) {
        return members;
    }
    let mut waits = Waits::default();
    let waits: Vec<Vec<usize>> =
        members.iter().enumerate().map(|(n, m)| waits.of(n, &insts[m.index], &held)).collect();
    let mut made = vec![false; members.len()];
    let mut order = Vec::new();
    let mut round = Round::Near;
    while order.len() < members.len() {
        for n in 0..members.len() {
            let fits = needs[n].is_none_or(|need| need == round);
            if !made[n] && fits && waits[n].iter().all(|w| made[*w]) {
                made[n] = true;
                order.push(n);
            }
        }
        // What is left first waits for nothing that is left.
        let next = (0..members.len()).find(|n| !made[*n]);
        round = next.and_then(|n| needs[n]).unwrap_or(Round::Near);
    }
    order.into_iter().map(|n| members[n].clone()).collect()
}
