//! Saturating add and subtract, `sad` and funnel shifts on the 32-bit lanes of a slice.

use crate::asm::assembler::X;
use crate::avx2::slice::Slice;
use iced_x86::{Code, Register};
use simt::ir::op::{IntOp, IntType, Width};
use simt::ir::vector::VectorInst;

const ADD: Code = Code::VEX_Vpaddd_ymm_ymm_ymmm256;
const SUBTRACT: Code = Code::VEX_Vpsubd_ymm_ymm_ymmm256;
const AND: Code = Code::VEX_Vpand_ymm_ymm_ymmm256;
const XOR: Code = Code::VEX_Vpxor_ymm_ymm_ymmm256;

/// True if there is a form for the operation.
pub(crate) fn has_form(op: IntOp, ty: IntType) -> bool {
    use IntOp::{AddSat, Sad, ShfLeftClamp, ShfLeftWrap, ShfRightClamp, ShfRightWrap, SubSat};
    match op {
        Sad | ShfLeftWrap | ShfLeftClamp | ShfRightWrap | ShfRightClamp => ty.width() == Width::W32,
        AddSat | SubSat => ty == IntType::S32,
        _ => false,
    }
}

impl Slice<'_, '_> {
    pub(crate) fn rare(&mut self, inst: &VectorInst, op: IntOp, ty: IntType) {
        let made = match op {
            IntOp::Sad => self.difference_sum(inst, ty.signed()),
            IntOp::AddSat | IntOp::SubSat => self.saturating(inst, op == IntOp::SubSat),
            _ => self.funnel_by(inst, op),
        };
        self.put(inst, 0, 0, made);
    }

    /// The larger of two less the smaller one, and a third.
    fn difference_sum(&mut self, inst: &VectorInst, signed: bool) -> Register {
        let (least, most) = match signed {
            true => (Code::VEX_Vpminsd_ymm_ymm_ymmm256, Code::VEX_Vpmaxsd_ymm_ymm_ymmm256),
            false => (Code::VEX_Vpminud_ymm_ymm_ymmm256, Code::VEX_Vpmaxud_ymm_ymm_ymmm256),
        };
        let [a, b] = [0, 1].map(|n| self.piece_in(inst.src[n], Width::W32, 0));
        let (to, smaller) = (self.temp(), self.temp());
        self.op(most, &[to.into(), a.into(), b.into()]);
        self.op(least, &[smaller.into(), a.into(), b.into()]);
        self.op(SUBTRACT, &[to.into(), to.into(), smaller.into()]);
        self.free(smaller);
        let c = self.piece(inst.src[2], Width::W32, 0);
        self.op(ADD, &[to.into(), to.into(), c]);
        to
    }

    /// A sum or difference; where it has wrapped, the largest or least number.
    fn saturating(&mut self, inst: &VectorInst, subtract: bool) -> Register {
        let [a, b] = [0, 1].map(|n| self.piece_in(inst.src[n], Width::W32, 0));
        let (to, wrapped, limit) = (self.temp(), self.temp(), self.temp());
        let code = if subtract { SUBTRACT } else { ADD };
        self.op(code, &[to.into(), a.into(), b.into()]);
        // It has wrapped where its sign is neither's; of a difference, not the first's, and the
        // others' differ.
        let other = if subtract { a } else { to };
        self.op(XOR, &[wrapped.into(), a.into(), to.into()]);
        self.op(XOR, &[limit.into(), b.into(), other.into()]);
        self.op(AND, &[wrapped.into(), wrapped.into(), limit.into()]);
        let most = self.constant(u64::from(i32::MAX as u32), Width::W32);
        self.op(Code::VEX_Vpsrad_ymm_ymm_imm8, &[limit.into(), a.into(), X::I(31)]);
        self.op(XOR, &[limit.into(), limit.into(), most.into()]);
        // The signs choose.
        let choose = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
        self.op(choose, &[to.into(), to.into(), limit.into(), wrapped.into()]);
        self.free(wrapped);
        self.free(limit);
        to
    }

    /// `shf` by any amount: a shift by all bits leaves nothing.
    fn funnel_by(&mut self, inst: &VectorInst, op: IntOp) -> Register {
        use IntOp::{ShfLeftClamp, ShfLeftWrap, ShfRightWrap};
        let left = matches!(op, ShfLeftWrap | ShfLeftClamp);
        let (limit, code) = match op {
            ShfLeftWrap | ShfRightWrap => (31, AND),
            _ => (32, Code::VEX_Vpminud_ymm_ymm_ymmm256),
        };
        let [low, high, amount] = [0, 1, 2].map(|n| self.piece_in(inst.src[n], Width::W32, 0));
        let limit = self.constant(limit, Width::W32);
        let by = self.temp();
        self.op(code, &[by.into(), amount.into(), limit.into()]);
        let all = self.constant(32, Width::W32);
        let rest = self.copied(all.into());
        self.op(SUBTRACT, &[rest.into(), rest.into(), by.into()]);
        let (above, below) = if left { (by, rest) } else { (rest, by) };
        let to = self.temp();
        let up = Code::VEX_Vpsllvd_ymm_ymm_ymmm256;
        self.op(up, &[to.into(), high.into(), above.into()]);
        let down = Code::VEX_Vpsrlvd_ymm_ymm_ymmm256;
        self.op(down, &[below.into(), low.into(), below.into()]);
        self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[to.into(), to.into(), below.into()]);
        self.free(by);
        self.free(rest);
        to
    }
}
