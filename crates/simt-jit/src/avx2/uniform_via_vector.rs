//! Uniform instructions without a general-register form: made as on lanes, with the value in every
//! lane; the first lane's result counts.

use crate::avx2::partition::VectorRegion;
use crate::avx2::slice::{Slice, xmm};
use crate::frame_layout::A;
use crate::function::Compiler;
use iced_x86::{Code, Register};
use simt::ir::op::{Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};

impl Compiler<'_> {
    /// Makes an instruction on one value as on lanes; false if there is no such form.
    pub(crate) fn one_in_quarter(&mut self, inst: &VectorInst) -> bool {
        let narrow =
            |r: simt::ir::Reg| !matches!(self.f.classes[r.index()].width(), Some(Width::W128));
        let one = |r: simt::ir::Reg| {
            !matches!(self.f.storage[r.index()], StorageClass::Vector | StorageClass::None)
        };
        let read = inst.src.iter().flat_map(|s| s.registers());
        let plain = read.chain(inst.dst.iter().map(|d| d.reg)).all(|r| narrow(r) && one(r))
            && !inst.src.iter().any(|s| matches!(s, Source::Mask(_)));
        let formed = match inst.op {
            Op::Setp(compare, ty) => crate::lanewise::compare::form(compare, ty).is_some(),
            _ => self.has_lane_form(inst),
        };
        if !plain || !formed || inst.dst.is_empty() {
            return false;
        }
        let skip = self.skip_if_no_lane_runs(inst);
        let alone = VectorRegion::of_one(self.index);
        Slice::new(self, &alone).make_one(inst);
        self.in_eax = None;
        self.no_lane_ran(skip);
        true
    }
}

impl Slice<'_, '_> {
    /// Result `n` of an instruction on one value.
    pub(super) fn put_one(&mut self, inst: &VectorInst, n: usize, width: Width, made: Register) {
        let (code, to) = match width {
            Width::W64 => (Code::VEX_Vmovq_rm64_xmm, A),
            _ => (Code::VEX_Vmovd_rm32_xmm, Register::EAX),
        };
        self.op(code, &[to.into(), xmm(made).into()]);
        self.c.scalar_result(inst, n, A);
    }

    /// The predicate of an instruction on one value: all bits, or none.
    pub(super) fn put_one_predicate(&mut self, inst: &VectorInst, n: usize, made: Register) {
        self.op(Code::VEX_Vmovd_rm32_xmm, &[Register::EAX.into(), xmm(made).into()]);
        self.c.store_predicate(inst, n);
    }
}
