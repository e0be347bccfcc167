//! Add and subtract with carry on the lanes of a slice; the carry is a predicate.

use crate::avx2::slice::{Slice, pieces};
use crate::function::Compiler;
use iced_x86::{Code, Register};
use simt::ir::op::{Compare, Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};

impl Compiler<'_> {
    /// True for a sum or difference of lanes with a carry flag.
    pub(crate) fn carries_lanes(&self, inst: &VectorInst) -> bool {
        let Op::Carry { width, carry_out, .. } = inst.op else { return false };
        let storage = |n: usize| inst.dst.get(n).map(|d| self.f.storage[d.reg.index()]);
        let formula = |s: &Source| matches!(s, Source::Affine(..) | Source::HalfAffine(..));
        !inst.uniform
            && matches!(width, Width::W32 | Width::W64)
            && storage(0) == Some(StorageClass::Vector)
            && (!carry_out || storage(1) == Some(StorageClass::Mask))
            && !inst.src.iter().any(formula)
    }
}

impl Slice<'_, '_> {
    /// Makes such a sum or difference.
    pub(crate) fn carry(&mut self, inst: &VectorInst) {
        let Op::Carry { subtract, width, carry_in, carry_out } = inst.op else { return };
        let pick = |narrow: Code, wide: Code| if width == Width::W64 { wide } else { narrow };
        let add = pick(Code::VEX_Vpaddd_ymm_ymm_ymmm256, Code::VEX_Vpaddq_ymm_ymm_ymmm256);
        let take = pick(Code::VEX_Vpsubd_ymm_ymm_ymmm256, Code::VEX_Vpsubq_ymm_ymm_ymmm256);
        let carries = carry_in.then(|| self.predicate(inst.src[2]));
        let mut wrapped = [Register::None; 2];
        for (piece, wrapped) in wrapped.iter_mut().enumerate().take(pieces(width)) {
            let a = self.piece_in(inst.src[0], width, piece);
            let b = self.piece_in(inst.src[1], width, piece);
            let to = self.temp();
            self.op(if subtract { take } else { add }, &[to.into(), a.into(), b.into()]);
            // A sum that wraps is below its parts; a difference wraps if it takes away more.
            let (less, than) = if subtract { (a, b) } else { (to, a) };
            *wrapped = self.compare_integers(less, than, Compare::Lt, width, false);
            if let Some(carries) = carries {
                // The carry is a mask, which is -1. One more wraps at the end: at zero going down,
                // and to zero going up.
                let one = self.mask_of_width(carries, width, piece);
                let end = if subtract { self.at_zero(to, one, width) } else { Register::None };
                self.op(if subtract { add } else { take }, &[to.into(), to.into(), one.into()]);
                let end = if subtract { end } else { self.at_zero(to, one, width) };
                let or = Code::VEX_Vpor_ymm_ymm_ymmm256;
                self.op(or, &[(*wrapped).into(), (*wrapped).into(), end.into()]);
                self.free(end);
                if one != carries {
                    self.free(one);
                }
            }
            // The next piece needs the registers.
            self.unpin(a);
            self.unpin(b);
            self.put(inst, 0, piece, to);
        }
        if !carry_out {
            return;
        }
        if width == Width::W64 {
            self.narrow_masks(wrapped[0], wrapped[1]);
            self.free(wrapped[1]);
        }
        self.put_predicate(inst, 1, wrapped[0]);
    }

    /// Lanes of a mask that are zero.
    fn at_zero(&mut self, a: Register, mask: Register, width: Width) -> Register {
        let same = match width {
            Width::W64 => Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256,
            _ => Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
        };
        let to = self.zero();
        self.op(same, &[to.into(), to.into(), a.into()]);
        self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[to.into(), to.into(), mask.into()]);
        to
    }
}
