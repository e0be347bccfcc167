//! Approximate functions on 32 lanes: the interpreter's formulas, operation by operation, so that
//! both give the same bits.

use crate::assembler::{X, at, repeated};
use crate::compiler::Compiler;
use crate::frame::{K1, LANE_VALUES, Z0, Z1, Z2, Z3};
use crate::value::{move_code, ymm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::op::{FloatOp, Width};
use simt::vector::VectorInst;
use simt_interpreter::native::{EXP2_TERMS, TANH_CAP, TANH_NEAR, TANH_SCALE, TANH_THIRD};

impl Compiler<'_> {
    fn every(&mut self, value: f32) -> MemoryOperand {
        repeated(self.a.constant(&value.to_le_bytes()))
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
        let canonical = !self.lazy[inst.dst[0].reg.index()];
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
        let (most, least) = (self.every(200.0), self.every(-200.0));
        let spread = Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32;
        self.a.op(spread, &[Z0.into(), crate::value::single(most).into()]);
        let min = Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae;
        self.a.op(min, &[Z0.into(), Z0.into(), x.into()]);
        self.a.op(spread, &[Z3.into(), crate::value::single(least).into()]);
        let max = Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae;
        self.a.op(max, &[Z3.into(), Z3.into(), Z0.into()]);
        // Eight lanes at a time in doubles: the lower ones' results wait in Z2.
        for half in 0..2 {
            let from = ymm(Z3);
            if half == 1 {
                let upper = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
                self.a.op(upper, &[from.into(), Z3.into(), X::I(1)]);
            }
            // The upper half still needs Z3 while the lower one is made in Z0 and Z1.
            let widen = Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae;
            self.a.op(widen, &[Z0.into(), from.into()]);
            self.exp2_of_doubles(half == 0);
        }
        let join = [Z0.into(), Z2.into(), ymm(Z1).into(), X::I(1)];
        self.a.op(Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, &join);
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
        self.a.op(spread, &[Z0.into(), crate::value::single(cap).into()]);
        let min = Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae;
        self.a.op(min, &[Z3.into(), Z0.into(), Z3.into()]);
        self.a.op(multiply, &[Z3.into(), Z3.into(), scale.into()]);
        self.exp2(Z3);
        let add = Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er;
        self.a.op(add, &[Z0.into(), Z0.into(), one.into()]);
        self.a.op(spread, &[Z1.into(), crate::value::single(two).into()]);
        let divide = Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er;
        self.a.op(divide, &[Z1.into(), Z1.into(), Z0.into()]);
        self.a.op(spread, &[Z0.into(), crate::value::single(one).into()]);
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

    /// 2 to the power of the doubles in Z0 as floats in the low half of Z2 (`lower`) or Z1.
    fn exp2_of_doubles(&mut self, lower: bool) {
        // The polynomial's value stands in the register that gets the result.
        let p = if lower { Z2 } else { Z1 };
        // Z2 is taken for the upper half, so the integral part has to wait on the stack.
        let whole = crate::assembler::at(Register::RSP, crate::frame::SAVED_VECTOR);
        let round = Code::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae;
        self.a.op(round, &[p.into(), Z0.into(), X::I(8)]);
        self.a.op(Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm, &[whole.into(), p.into()]);
        let subtract = Code::EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er;
        self.a.op(subtract, &[Z0.into(), Z0.into(), p.into()]);
        let (last, others) = EXP2_TERMS.split_last().unwrap_or((&1.0, &[]));
        let last = self.a.constant(&last.to_le_bytes());
        self.a.op(Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64, &[p.into(), last.into()]);
        for term in others.iter().rev() {
            let term = repeated(self.a.constant(&term.to_le_bytes()));
            let multiply = Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er;
            self.a.op(multiply, &[p.into(), p.into(), Z0.into()]);
            let add = Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er;
            self.a.op(add, &[p.into(), p.into(), term.into()]);
        }
        let scale = Code::EVEX_Vscalefpd_zmm_k1z_zmm_zmmm512b64_er;
        self.a.op(scale, &[p.into(), p.into(), whole.into()]);
        self.a.op(Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, &[ymm(p).into(), p.into()]);
    }
}
