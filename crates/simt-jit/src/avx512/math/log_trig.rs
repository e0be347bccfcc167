//! `lg2`, `sin` and `cos` of f32 lanes: the interpreter's polynomials, operation by operation, for
//! the same bits.

use crate::asm::assembler::{X, at, repeated};
use crate::frame_layout::{K1, K2, LANE_VALUES, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::operands::{move_code, single};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{FloatOp, Width};
use simt::ir::vector::VectorInst;
use simt_interpreter::tier1_abi::{COSINE_TERMS, HALF_PI_PARTS, LOG2_TERMS, SINE_TERMS};
use std::f32::consts::FRAC_2_PI;

const MULTIPLY: Code = Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er;
const SUBTRACT: Code = Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er;
/// The first is a factor, the second another, the third is added.
const MULTIPLY_ADD: Code = Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er;
const LANES: Width = Width::W32;

/// Where the argument of a sine is kept.
fn argument() -> MemoryOperand {
    at(Register::RSP, LANE_VALUES)
}

impl Compiler<'_> {
    fn bits(&mut self, value: u32) -> X {
        repeated(self.a.constant(&value.to_le_bytes())).into()
    }

    /// A function of f32 lanes; subnormals are zero with `flush`. False if it is none of these.
    pub(crate) fn series(&mut self, inst: &VectorInst, op: FloatOp, flush: bool) -> bool {
        if !matches!(op, FloatOp::Lg2 | FloatOp::Sin | FloatOp::Cos) {
            return false;
        }
        let value = self.value(inst.src[0], LANES);
        let place = self.dest(inst, &inst.dst[0]);
        let canonical = !self.nan_deferred[inst.dst[0].reg.index()];
        for part in 0..self.parts(LANES) {
            let mut x = self.part_in(value, part, LANES, Z0);
            if flush {
                x = self.flushed(x, Z0);
            }
            match op {
                FloatOp::Lg2 => self.log2(x),
                _ => self.sine(x, op == FloatOp::Cos),
            }
            if flush {
                self.flushed(Z0, Z0);
            }
            if canonical {
                self.canonical(Z0);
            }
            self.put(&place, part, move_code(LANES), &[Z0.into()]);
        }
        true
    }

    /// The logarithms of a register's lanes to base 2, in Z0. The exponents of zero and infinity are the
    /// result, and the mantissas of negative numbers NaN; those of subnormal numbers are as of others.
    fn log2(&mut self, x: Register) {
        // In [3/4, 3/2), a NaN of a negative number.
        const MANTISSA: i32 = 0b1011;
        let mantissa = Code::EVEX_Vgetmantps_zmm_k1z_zmmm512b32_imm8_sae;
        let exponent = Code::EVEX_Vgetexpps_zmm_k1z_zmmm512b32_sae;
        self.a.op(mantissa, &[Z1.into(), x.into(), X::I(MANTISSA)]);
        self.a.op(exponent, &[Z2.into(), x.into()]);
        self.a.op(exponent, &[Z3.into(), Z1.into()]);
        self.a.op(SUBTRACT, &[Z2.into(), Z2.into(), Z3.into()]);
        let one = self.every(1.0);
        self.a.op(SUBTRACT, &[Z1.into(), Z1.into(), one.into()]);
        self.polynomial(&LOG2_TERMS, Z1, Z0);
        self.a.op(MULTIPLY_ADD, &[Z0.into(), Z1.into(), Z2.into()]);
    }

    /// The sines or cosines of a register's lanes, in Z0.
    fn sine(&mut self, x: Register, cosine: bool) {
        self.a.op(Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm, &[argument().into(), x.into()]);
        // Slice turns in Z1, what is left in Z0.
        let turns = self.every(FRAC_2_PI);
        self.a.op(MULTIPLY, &[Z1.into(), x.into(), turns.into()]);
        let round = Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae;
        self.a.op(round, &[Z1.into(), Z1.into(), X::I(8)]);
        if x != Z0 {
            self.a.op(move_code(LANES), &[Z0.into(), x.into()]);
        }
        for piece in HALF_PI_PARTS {
            let piece = self.every(-piece);
            let add = Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er;
            self.a.op(add, &[Z0.into(), Z1.into(), piece.into()]);
        }
        self.a.op(Code::EVEX_Vcvtps2dq_zmm_k1z_zmmm512b32_er, &[Z1.into(), Z1.into()]);
        // Of a NaN these give the second operand.
        let ends = [
            (1.0, Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae),
            (-1.0, Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae),
        ];
        for (end, code) in ends {
            let end = single(self.every(end));
            self.a.op(Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, &[Z2.into(), end.into()]);
            self.a.op(code, &[Z0.into(), Z2.into(), Z0.into()]);
        }
        let (one, two) = (self.bits(1), self.bits(2));
        if cosine {
            self.a.op(Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, &[Z1.into(), Z1.into(), one]);
        }
        let test = Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32;
        self.a.op(test, &[K1.into(), Z1.into(), one]);
        self.a.op(test, &[K2.into(), Z1.into(), two]);
        // The square in Z1, the sine in Z3, the cosine in Z2.
        self.a.op(MULTIPLY, &[Z1.into(), Z0.into(), Z0.into()]);
        self.polynomial(&SINE_TERMS, Z1, Z3);
        self.a.op(MULTIPLY, &[Z2.into(), Z0.into(), Z1.into()]);
        self.a.op(MULTIPLY_ADD, &[Z3.into(), Z2.into(), Z0.into()]);
        self.polynomial(&COSINE_TERMS, Z1, Z2);
        self.a.op(move_code(LANES), &[Z3.into(), Z2.into()]).set_op_mask(K1);
        let sign = self.bits(1 << 31);
        let xor = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        self.a.op(xor, &[Z3.into(), Z3.into(), sign]).set_op_mask(K2);
        self.a.op(move_code(LANES), &[Z0.into(), Z3.into()]);
        if !cosine {
            // Reduction loses the sign of zero.
            self.a.op(move_code(LANES), &[Z1.into(), argument().into()]);
            let magnitude = self.bits(0x7fff_ffff);
            let zero = Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32;
            self.a.op(zero, &[K1.into(), Z1.into(), magnitude]);
            self.a.op(move_code(LANES), &[Z0.into(), Z1.into()]).set_op_mask(K1);
        }
    }
}
