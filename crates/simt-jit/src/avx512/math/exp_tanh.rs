//! `ex2` and `tanh` of 32 lanes: the interpreter's polynomials, operation by operation, for the
//! same bits.

use crate::asm::assembler::{X, at, repeated};
use crate::frame_layout::{K1, LANE_VALUES, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::operands::move_code;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{FloatOp, Width};
use simt::ir::vector::VectorInst;
use simt_interpreter::tier1_abi::{
    EXP2_ENDS, EXP2_TERMS, TANH_CAP, TANH_NEAR, TANH_SCALE, TANH_THIRD,
};

impl Compiler<'_> {
    pub(crate) fn every(&mut self, value: f32) -> MemoryOperand {
        repeated(self.a.constant(&value.to_le_bytes()))
    }

    /// A polynomial's value at `of`, in `to`: terms lowest first.
    pub(crate) fn polynomial(&mut self, terms: &[f32], of: Register, to: Register) {
        let Some((last, others)) = terms.split_last() else { return };
        let last = self.a.constant(&last.to_le_bytes());
        self.a.op(Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, &[to.into(), last.into()]);
        for term in others.iter().rev() {
            let term = self.every(*term);
            let multiply_add = Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er;
            self.a.op(multiply_add, &[to.into(), of.into(), term.into()]);
        }
    }

    /// 2 to the power of 16 f32 lanes, or their hyperbolic tangents; subnormals are zero with `flush`.
    /// False if it is neither.
    pub(crate) fn powers(&mut self, inst: &VectorInst, op: FloatOp, flush: bool) -> bool {
        if !matches!(op, FloatOp::Ex2 | FloatOp::Tanh) {
            return false;
        }
        let w = Width::W32;
        let value = self.value(inst.src[0], w);
        let place = self.dest(inst, &inst.dst[0]);
        let canonical = !self.nan_deferred[inst.dst[0].reg.index()];
        for part in 0..self.parts(w) {
            let mut x = self.part_in(value, part, w, Z3);
            if flush {
                x = self.flushed(x, Z3);
            }
            self.power(op, x);
            if flush {
                self.flushed(Z0, Z0);
            }
            if canonical {
                self.canonical(Z0);
            }
            self.put(&place, part, move_code(w), &[Z0.into()]);
        }
        true
    }

    /// 2 to the power of a register's lanes, or their hyperbolic tangents, in Z0. Uses all scratch.
    pub(crate) fn power(&mut self, op: FloatOp, x: Register) {
        match op {
            FloatOp::Tanh => self.tanh(x),
            _ => self.exp2(x),
        }
    }

    fn exp2(&mut self, x: Register) {
        // Of a NaN these give the second operand.
        let [least, most] = EXP2_ENDS.map(|value| crate::operands::single(self.every(value)));
        let spread = Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32;
        self.a.op(spread, &[Z0.into(), most.into()]);
        let min = Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae;
        self.a.op(min, &[Z0.into(), Z0.into(), x.into()]);
        self.a.op(spread, &[Z1.into(), least.into()]);
        let max = Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae;
        self.a.op(max, &[Z0.into(), Z1.into(), Z0.into()]);
        let round = Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae;
        self.a.op(round, &[Z1.into(), Z0.into(), X::I(8)]);
        let subtract = Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er;
        self.a.op(subtract, &[Z2.into(), Z0.into(), Z1.into()]);
        self.polynomial(&EXP2_TERMS, Z2, Z0);
        let scale = Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er;
        self.a.op(scale, &[Z0.into(), Z0.into(), Z1.into()]);
    }

    fn tanh(&mut self, x: Register) {
        let argument = || at(Register::RSP, LANE_VALUES);
        self.a.op(Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm, &[argument().into(), x.into()]);
        let magnitude = |this: &mut Self, to: Register| {
            let bits = repeated(this.a.constant(&0x7fff_ffffu32.to_le_bytes()));
            this.a.op(move_code(Width::W32), &[to.into(), argument().into()]);
            this.a
                .op(Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, &[to.into(), to.into(), bits.into()]);
        };
        let multiply = Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
        let subtract = Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er;
        let spread = Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32;
        // 1 - 2 / (e^(2 a) + 1), where the lesser of a NaN and a number is the NaN.
        let [cap, scale, one, two] =
            [TANH_CAP, TANH_SCALE, 1.0, 2.0].map(|value| self.every(value));
        magnitude(self, Z3);
        self.a.op(spread, &[Z0.into(), crate::operands::single(cap).into()]);
        let min = Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae;
        self.a.op(min, &[Z3.into(), Z0.into(), Z3.into()]);
        self.a.op(multiply, &[Z3.into(), Z3.into(), scale.into()]);
        self.exp2(Z3);
        let add = Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er;
        self.a.op(add, &[Z0.into(), Z0.into(), one.into()]);
        self.a.op(spread, &[Z1.into(), crate::operands::single(two).into()]);
        let divide = Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er;
        self.a.op(divide, &[Z1.into(), Z1.into(), Z0.into()]);
        self.a.op(spread, &[Z0.into(), crate::operands::single(one).into()]);
        self.a.op(subtract, &[Z0.into(), Z0.into(), Z1.into()]);
        // a - a^3 / 3 near zero, where that cancels.
        let [third, near] = [TANH_THIRD, TANH_NEAR].map(|value| self.every(value));
        magnitude(self, Z1);
        self.a.op(multiply, &[Z2.into(), Z1.into(), Z1.into()]);
        self.a.op(multiply, &[Z2.into(), Z2.into(), Z1.into()]);
        self.a.op(multiply, &[Z2.into(), Z2.into(), third.into()]);
        let compare = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
        self.a.op(compare, &[K1.into(), Z1.into(), near.into(), X::I(0x11)]);
        self.a.op(subtract, &[Z0.into(), Z1.into(), Z2.into()]).set_op_mask(K1);
        // With the argument's sign.
        self.a.op(move_code(Width::W32), &[Z1.into(), Z0.into()]);
        self.a.op(move_code(Width::W32), &[Z0.into(), argument().into()]);
        self.sign_of(false, Z1);
    }
}
