//! Affine values: the guards that keep them affine, the second scalar of half-warp-affine ones, and
//! the lanes of those that vector instructions read.

use crate::analysis::affine::Widening;
use crate::ir::op::{Access, CompareType, IntOp, IntType, Op, Space, Special, Width};
use crate::ir::vector::{
    ADDRESS_STRIDE_BITS, COMPARED_STRIDE_BITS, Dest, NoWrap, Source, StorageClass, VectorBlock,
    VectorInst,
};
use crate::ir::{Inst, Operand, Reg};
use crate::kernel::WARP_LANES;
use crate::launch_shape::{HALF_LANES, LaunchShape};
use crate::vectorize::Vectorizer;
use std::collections::HashMap;

impl Vectorizer<'_> {
    /// What must hold at the start of a block for its widenings to be affine.
    pub(super) fn checks(&self, block: usize) -> Vec<NoWrap> {
        let mut checks = Vec::new();
        for inst in self.f.blocks[block].insts.iter().filter(|inst| self.uniform(inst)) {
            let Some(Widening { reg, signed }) = self.shapes.widening(inst) else { continue };
            let no_wrap = |reg, stride, last| NoWrap { reg, stride, last, signed };
            let (low, high) = match self.storage[reg.index()] {
                StorageClass::Affine { stride } => {
                    (no_wrap(reg, stride, WARP_LANES as u32 - 1), None)
                }
                StorageClass::HalfAffine { high, stride } => {
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
        let StorageClass::HalfAffine { high, .. } = self.storage[dest.reg.index()] else {
            return vec![low];
        };
        let mut upper = low.clone();
        upper.dst[0].reg = high;
        let rows = self.shapes.launch_shape == LaunchShape::HalfRows;
        let above = match low.op {
            Op::Special(Special::Tid(0)) if rows => Some(0),
            Op::Special(Special::Tid(1)) if rows => Some(1),
            Op::Special(Special::Tid(0) | Special::LaneId) => Some(HALF_LANES as u64),
            _ => None,
        };
        match above {
            Some(n) => {
                upper.op = Op::Int(IntOp::Add, IntType::U32);
                upper.src = vec![Source::Scalar(dest.reg), Source::Imm(n)];
            }
            None => {
                for source in &mut upper.src {
                    if let Source::Scalar(r) = source {
                        *r = self.high(*r);
                    }
                }
            }
        }
        vec![low, upper]
    }

    /// The scalar that holds lane 16's value of what lives as a scalar.
    fn high(&mut self, reg: Reg) -> Reg {
        match self.storage[reg.index()] {
            StorageClass::HalfAffine { high, .. } => high,
            StorageClass::Affine { .. } => {
                if let Some(upper) = self.uppers.get(&reg) {
                    return *upper;
                }
                let upper = self.new_register(self.classes[reg.index()], StorageClass::Scalar);
                self.uppers.insert(reg, upper);
                upper
            }
            _ => reg,
        }
    }

    /// A source that is an affine value of the lane's number.
    pub(super) fn formula(&mut self, reg: Reg, halves: bool) -> Source {
        let stride = self.stride(reg).unwrap_or(0);
        if halves {
            Source::HalfAffine(reg, self.high(reg), stride)
        } else {
            Source::Affine(reg, stride)
        }
    }

    /// How many of the first sources of an instruction that runs a lane are given as affine values.
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
            // Both addresses, with the offset between them.
            Op::CopyToShared { .. } => any(3, ADDRESS_STRIDE_BITS),
            _ => 0,
        }
    }

    /// The vector register that holds the values of one that is an affine value.
    pub(super) fn copy(&mut self, reg: Reg) -> Reg {
        if let Some(copy) = self.copies.get(&reg) {
            return *copy;
        }
        let copy = self.new_register(self.classes[reg.index()], StorageClass::Vector);
        self.copies.insert(reg, copy);
        copy
    }

    /// Makes copies and upper halves behind every definition of what they are made of. They are
    /// right wherever that is, so nothing in them is worth keeping.
    pub(super) fn fill(&mut self, blocks: &mut [VectorBlock]) {
        // By the register whose definition completes the value.
        let mut fills: HashMap<Reg, Vec<VectorInst>> = HashMap::new();
        let inst = |op, uniform, reg, src| VectorInst {
            op,
            guard: None,
            uniform,
            dst: vec![Dest { reg, splat: false, keep: false }],
            src,
            line: 0,
        };
        for (reg, upper) in self.uppers.clone() {
            let (Some(stride), Some(width)) = (self.stride(reg), self.width(reg)) else { continue };
            let above = (stride as u64).wrapping_mul(HALF_LANES as u64);
            let add = Op::Int(IntOp::Add, IntType::of(width, false));
            let src = vec![Source::Scalar(reg), Source::Imm(above)];
            fills.entry(reg).or_default().push(inst(add, true, upper, src));
        }
        for (reg, copy) in self.copies.clone() {
            let Some(width) = self.width(reg) else { continue };
            let halves = self.is_halves(&Operand::Reg(reg));
            let complete = if halves { self.high(reg) } else { reg };
            let src = vec![self.formula(reg, halves)];
            fills.entry(complete).or_default().push(inst(Op::Mov(width), false, copy, src));
        }
        for block in blocks {
            let mut insts = Vec::with_capacity(block.insts.len());
            for inst in block.insts.drain(..) {
                let line = inst.line;
                let fill = inst.dst.iter().filter_map(|d| fills.get(&d.reg)).flatten();
                let fill: Vec<_> = fill.map(|f| VectorInst { line, ..f.clone() }).collect();
                insts.push(inst);
                insts.extend(fill);
            }
            block.insts = insts;
        }
    }

    /// All registers that hold something of another one.
    pub(super) fn companions(&self) -> Vec<(Reg, Reg)> {
        let highs = self.storage.iter().enumerate().filter_map(|(low, storage)| match storage {
            StorageClass::HalfAffine { high, .. } => Some((*high, Reg(low as u32))),
            _ => None,
        });
        let others = self.uppers.iter().chain(&self.copies).map(|(of, reg)| (*reg, *of));
        let mut all: Vec<(Reg, Reg)> = highs.chain(others).collect();
        all.sort_unstable();
        all
    }

    fn width(&self, reg: Reg) -> Option<Width> {
        self.classes[reg.index()].width()
    }
}
