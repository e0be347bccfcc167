//! Values that are formulas of the lane's number: the checks that keep them such, the second
//! instruction of those that have a number for each half of the warp, and the lanes of those that
//! vector instructions read.

use super::Vectorizer;
use crate::geometry::HALF_LANES;
use crate::ir::{Inst, Operand, Reg};
use crate::kernel::WARP_LANES;
use crate::op::{Access, CompareType, IntOp, IntType, Op, Space, Special, Width};
use crate::passes::affine::Widening;
use crate::vector::{
    ADDRESS_STRIDE_BITS, COMPARED_STRIDE_BITS, Dest, Home, NoWrap, Source, VectorBlock, VectorInst,
};
use std::collections::HashMap;

impl Vectorizer<'_> {
    /// What must hold at the start of a block for its widenings to be affine.
    pub(super) fn checks(&self, block: usize) -> Vec<NoWrap> {
        let mut checks = Vec::new();
        for inst in self.f.blocks[block].insts.iter().filter(|inst| self.uniform(inst)) {
            let Some(Widening { reg, signed }) = self.shapes.widening(inst) else { continue };
            let no_wrap = |reg, stride, last| NoWrap { reg, stride, last, signed };
            let (low, high) = match self.homes[reg.index()] {
                Home::Affine { stride } => (no_wrap(reg, stride, WARP_LANES as u32 - 1), None),
                Home::Halves { high, stride } => {
                    let last = HALF_LANES as u32 - 1;
                    (no_wrap(reg, stride, last), Some(no_wrap(high, stride, last)))
                }
                _ => continue,
            };
            if !checks.contains(&low) {
                checks.push(low);
                checks.extend(high);
            }
        }
        checks
    }

    /// What an instruction becomes: two, if its result is a number for each half of a warp.
    pub(super) fn insts(&mut self, block: usize, at: usize) -> Vec<VectorInst> {
        let low = self.inst(block, at);
        let [dest] = low.dst[..] else { return vec![low] };
        let Home::Halves { high, .. } = self.homes[dest.reg.index()] else { return vec![low] };
        let mut upper = low.clone();
        upper.dst[0].reg = high;
        let above =
            |n| (Op::Int(IntOp::Add, IntType::U32), vec![Source::Scalar(dest.reg), Source::Imm(n)]);
        (upper.op, upper.src) = match low.op {
            Op::Special(Special::Tid(0)) => (Op::Mov(Width::W32), vec![Source::Scalar(dest.reg)]),
            Op::Special(Special::Tid(1)) => above(1),
            Op::Special(Special::LaneId) => above(HALF_LANES as u64),
            op => {
                let upper_half = |source: &Source| match *source {
                    Source::Scalar(r) => Source::Scalar(self.high(r)),
                    same => same,
                };
                (op, low.src.iter().map(upper_half).collect())
            }
        };
        vec![VectorInst { op: self.f.blocks[block].insts[at].op.clone(), ..low }, upper]
    }

    /// A source that is a formula of the lane's number.
    pub(super) fn formula(&self, reg: Reg, halves: bool) -> Source {
        let stride = self.stride(reg).unwrap_or(0);
        match self.homes[reg.index()] {
            Home::Halves { high, .. } => Source::Halves(reg, high, stride),
            _ if halves => Source::Halves(reg, reg, stride),
            _ => Source::Affine(reg, stride),
        }
    }

    /// How many of the first sources of an instruction that runs a lane are given as formulas.
    pub(super) fn formula_sources(&self, inst: &Inst) -> usize {
        let formula = |operand: &Operand| match operand {
            Operand::Reg(r) => self.stride(*r),
            _ => Some(0),
        };
        let any = |n: usize, bits: u32| {
            let fits = |s: &i64| s << (64 - bits) >> (64 - bits) == *s;
            let strides = inst.src[..n].iter().map(formula).collect::<Option<Vec<i64>>>();
            let given = strides.is_some_and(|strides| {
                let plain = strides.iter().all(|s| *s == 0)
                    && !inst.src[..n].iter().any(|s| self.is_halves(s));
                !plain && strides.iter().all(fits)
            });
            if given { n } else { 0 }
        };
        match &inst.op {
            Op::Setp(_, CompareType::Int(_)) => any(2, COMPARED_STRIDE_BITS),
            Op::Load(Access { space, .. })
            | Op::Store(Access { space, .. })
            | Op::Atom { space, .. }
                if *space != Space::Local =>
            {
                any(1, ADDRESS_STRIDE_BITS)
            }
            _ => 0,
        }
    }

    /// The vector register that holds the values of one that is a formula.
    pub(super) fn copy(&mut self, reg: Reg) -> Reg {
        if let Some(copy) = self.copies.get(&reg) {
            return *copy;
        }
        let copy = self.new_register(self.classes[reg.index()], Home::Vector);
        self.copies.insert(reg, copy);
        copy
    }

    /// Makes the copies behind every definition of what they copy. They are right wherever the
    /// scalar is, so nothing in them is worth keeping.
    pub(super) fn fill_copies(&self, blocks: &mut [VectorBlock]) {
        // By the register whose definition completes the value.
        let complete: HashMap<Reg, (Reg, Reg)> =
            self.copies.iter().map(|(reg, copy)| (self.high(*reg), (*reg, *copy))).collect();
        for block in blocks {
            let mut insts = Vec::with_capacity(block.insts.len());
            for inst in block.insts.drain(..) {
                let fill = inst.dst.iter().filter_map(|d| {
                    let (reg, copy) = *complete.get(&d.reg)?;
                    Some(VectorInst {
                        op: Op::Mov(self.classes[copy.index()].width()?),
                        guard: None,
                        uniform: false,
                        dst: vec![Dest { reg: copy, splat: false, keep: false }],
                        src: vec![self.formula(reg, false)],
                        line: inst.line,
                    })
                });
                let fill: Vec<VectorInst> = fill.collect();
                insts.push(inst);
                insts.extend(fill);
            }
            block.insts = insts;
        }
    }
}
