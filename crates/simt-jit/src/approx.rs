//! Approximate functions on 32 lanes: the interpreter's formulas, operation by operation, so that
//! both give the same bits.

use crate::assembler::{X, repeated};
use crate::assign::parts;
use crate::compiler::Compiler;
use crate::frame::{Z0, Z1, Z2, Z3};
use crate::value::{move_code, ymm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::op::Width;
use simt::vector::VectorInst;
use simt_interpreter::native::EXP2_TERMS;

impl Compiler<'_> {
    fn every(&mut self, value: f32) -> MemoryOperand {
        repeated(self.a.constant(&value.to_le_bytes()))
    }

    /// 2 to the power of f32 lanes; subnormals are zero with `flush`.
    pub(crate) fn exp2(&mut self, inst: &VectorInst, flush: bool) {
        let w = Width::W32;
        let value = self.value(inst.src[0], w);
        let place = self.dest(inst, &inst.dst[0]);
        let canonical = !self.lazy[inst.dst[0].reg.index()];
        for part in 0..parts(w) {
            let mut x = self.part_in(value, part, w, Z3);
            if flush {
                x = self.flushed(x, Z3);
            }
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
                let mut from = ymm(Z3);
                if half == 1 {
                    let upper = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
                    self.a.op(upper, &[ymm(Z3).into(), Z3.into(), X::I(1)]);
                    from = ymm(Z3);
                }
                // The upper half still needs Z3 while the lower one is made in Z0 and Z1.
                let widen = Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae;
                self.a.op(widen, &[Z0.into(), from.into()]);
                self.exp2_of_doubles(half == 0);
            }
            let join = [Z0.into(), Z2.into(), ymm(Z1).into(), X::I(1)];
            self.a.op(Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, &join);
            if flush {
                self.flushed(Z0, Z0);
            }
            if canonical {
                self.canonical(Z0);
            }
            self.put(&place, part, move_code(w), &[Z0.into()]);
        }
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
