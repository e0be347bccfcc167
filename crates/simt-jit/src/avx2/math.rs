//! Transcendental functions (ex2, lg2, sin, cos, tanh) on the f32 lanes of a slice: the
//! interpreter's polynomials, operation by operation, for the same bits.

use crate::asm::assembler::X;
use crate::avx2::slice::Slice;
use iced_x86::{Code, Register};
use simt::ir::op::{FloatOp, Width};
use simt_interpreter::tier1_abi::{
    COSINE_TERMS, EXP2_ENDS, EXP2_TERMS, HALF_PI_PARTS, LOG2_FIRST, LOG2_TERMS, SINE_TERMS,
    TANH_CAP, TANH_NEAR, TANH_SCALE, TANH_THIRD,
};
use std::f32::consts::FRAC_2_PI;

const MULTIPLY: Code = Code::VEX_Vmulps_ymm_ymm_ymmm256;
const SUBTRACT: Code = Code::VEX_Vsubps_ymm_ymm_ymmm256;
/// The first is a factor, the second another, the third is added.
const MULTIPLY_ADD: Code = Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256;
/// The second and the third are factors of what is added to the first.
const ADD_PRODUCT: Code = Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256;
const ROUND: Code = Code::VEX_Vroundps_ymm_ymmm256_imm8;
const AND: Code = Code::VEX_Vpand_ymm_ymm_ymmm256;
const ADD_INTEGERS: Code = Code::VEX_Vpaddd_ymm_ymm_ymmm256;
const SUBTRACT_INTEGERS: Code = Code::VEX_Vpsubd_ymm_ymm_ymmm256;
const UP: Code = Code::VEX_Vpslld_ymm_ymm_imm8;
const DOWN: Code = Code::VEX_Vpsrad_ymm_ymm_imm8;
const COMPARE: Code = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
const BLEND: Code = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;

impl Slice<'_, '_> {
    /// A function of f32 lanes, in a register of its own.
    pub(crate) fn series(&mut self, op: FloatOp, a: Register) -> Register {
        match op {
            FloatOp::Ex2 => self.exp2(a),
            FloatOp::Lg2 => self.log2(a),
            FloatOp::Tanh => self.tanh(a),
            _ => self.sine(a, op == FloatOp::Cos),
        }
    }

    fn every(&mut self, value: f32) -> X {
        self.constant(value.to_bits().into(), Width::W32).into()
    }

    fn bits(&mut self, value: u32) -> X {
        self.constant(value.into(), Width::W32).into()
    }

    /// The second operand may be memory.
    fn made_of(&mut self, code: Code, a: Register, b: X) -> Register {
        let to = self.temp();
        self.op(code, &[to.into(), a.into(), b]);
        to
    }

    /// A register's lanes, no further out than one of two ends; a NaN stays.
    fn clamped(&mut self, a: Register, [least, most]: [f32; 2]) -> Register {
        // Of a NaN these give the second operand.
        let (least, most) = (self.every(least), self.every(most));
        let below = self.copied(most);
        self.op(Code::VEX_Vminps_ymm_ymm_ymmm256, &[below.into(), below.into(), a.into()]);
        let to = self.copied(least);
        self.op(Code::VEX_Vmaxps_ymm_ymm_ymmm256, &[to.into(), to.into(), below.into()]);
        self.free(below);
        to
    }

    /// A polynomial's value: terms lowest first.
    fn polynomial(&mut self, terms: &[f32], of: Register) -> Register {
        let (last, others) = terms.split_last().unwrap_or((&0.0, &[]));
        let last = self.every(*last);
        let to = self.copied(last);
        for term in others.iter().rev() {
            let term = self.every(*term);
            self.op(MULTIPLY_ADD, &[to.into(), of.into(), term]);
        }
        to
    }

    /// 2 to the power of lanes.
    fn exp2(&mut self, a: Register) -> Register {
        let f = self.clamped(a, EXP2_ENDS);
        let whole = self.temp();
        self.op(ROUND, &[whole.into(), f.into(), X::I(8)]);
        self.op(SUBTRACT, &[f.into(), f.into(), whole.into()]);
        let made = self.polynomial(&EXP2_TERMS, f);
        // In two steps; what the exponent is of a NaN does not matter, for the polynomial is one.
        self.op(Code::VEX_Vcvttps2dq_ymm_ymmm256, &[whole.into(), whole.into()]);
        self.op(DOWN, &[f.into(), whole.into(), X::I(1)]);
        self.op(SUBTRACT_INTEGERS, &[whole.into(), whole.into(), f.into()]);
        let bias = self.bits(127);
        for exponent in [f, whole] {
            self.op(ADD_INTEGERS, &[exponent.into(), exponent.into(), bias]);
            self.op(UP, &[exponent.into(), exponent.into(), X::I(23)]);
            self.op(MULTIPLY, &[made.into(), made.into(), exponent.into()]);
            self.free(exponent);
        }
        made
    }

    /// The hyperbolic tangents of lanes.
    fn tanh(&mut self, a: Register) -> Register {
        let magnitudes = self.bits(0x7fff_ffff);
        let magnitude = self.made_of(AND, a, magnitudes);
        // 1 - 2 / (e^(2 a) + 1), where the lesser of a number and a NaN is the NaN.
        let [cap, scale, one, two] = [TANH_CAP, TANH_SCALE, 1.0, 2.0].map(|v| self.every(v));
        let x = self.copied(cap);
        self.op(Code::VEX_Vminps_ymm_ymm_ymmm256, &[x.into(), x.into(), magnitude.into()]);
        self.op(MULTIPLY, &[x.into(), x.into(), scale]);
        let e = self.exp2(x);
        self.op(Code::VEX_Vaddps_ymm_ymm_ymmm256, &[e.into(), e.into(), one]);
        let made = self.copied(two);
        self.op(Code::VEX_Vdivps_ymm_ymm_ymmm256, &[made.into(), made.into(), e.into()]);
        self.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[e.into(), one]);
        self.op(SUBTRACT, &[made.into(), e.into(), made.into()]);
        // a - a^3 / 3 near zero, where that cancels.
        let [near, third] = [TANH_NEAR, TANH_THIRD].map(|v| self.every(v));
        self.op(MULTIPLY, &[x.into(), magnitude.into(), magnitude.into()]);
        self.op(MULTIPLY, &[x.into(), x.into(), magnitude.into()]);
        self.op(MULTIPLY, &[x.into(), x.into(), third]);
        self.op(SUBTRACT, &[x.into(), magnitude.into(), x.into()]);
        self.op(COMPARE, &[e.into(), magnitude.into(), near, X::I(0x11)]);
        self.op(BLEND, &[made.into(), made.into(), x.into(), e.into()]);
        // With the argument's sign: what is made has none but of a NaN, where it does not matter.
        self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[x.into(), a.into(), magnitude.into()]);
        self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[made.into(), made.into(), x.into()]);
        for register in [magnitude, x, e] {
            self.free(register);
        }
        made
    }

    /// The logarithms of lanes to base 2.
    fn log2(&mut self, a: Register) -> Register {
        let (normal, up, down) =
            (self.every(f32::MIN_POSITIVE), self.every(16_777_216.0), self.every(24.0));
        // Where the argument is subnormal.
        let back = self.temp();
        self.op(COMPARE, &[back.into(), a.into(), normal, X::I(0x11)]);
        let x = self.made_of(MULTIPLY, a, up);
        self.op(BLEND, &[x.into(), a.into(), x.into(), back.into()]);
        self.op(AND, &[back.into(), back.into(), down]);
        let first = self.bits(LOG2_FIRST);
        let exponent = self.made_of(SUBTRACT_INTEGERS, x, first);
        self.op(DOWN, &[exponent.into(), exponent.into(), X::I(23)]);
        let whole = self.made_of(UP, exponent, X::I(23));
        self.op(SUBTRACT_INTEGERS, &[x.into(), x.into(), whole.into()]);
        let one = self.every(1.0);
        self.op(SUBTRACT, &[x.into(), x.into(), one]);
        self.op(Code::VEX_Vcvtdq2ps_ymm_ymmm256, &[exponent.into(), exponent.into()]);
        self.op(SUBTRACT, &[exponent.into(), exponent.into(), back.into()]);
        self.free(whole);
        self.free(back);
        let made = self.polynomial(&LOG2_TERMS, x);
        self.op(MULTIPLY_ADD, &[made.into(), x.into(), exponent.into()]);
        self.free(exponent);
        self.free(x);
        self.special_logarithms(a, made);
        made
    }

    /// Puts right what the affine value does not give.
    fn special_logarithms(&mut self, a: Register, made: Register) {
        let (zero, here) = (self.zero(), self.temp());
        let (infinity, least) = (self.every(f32::INFINITY), self.every(f32::NEG_INFINITY));
        let nan = self.bits(crate::analysis::nan_demand::NAN);
        self.op(COMPARE, &[here.into(), a.into(), zero.into(), X::I(0)]);
        self.op(BLEND, &[made.into(), made.into(), least, here.into()]);
        self.op(COMPARE, &[here.into(), a.into(), infinity, X::I(0)]);
        self.op(BLEND, &[made.into(), made.into(), infinity, here.into()]);
        // Neither 0 nor more: a NaN as well.
        self.op(COMPARE, &[here.into(), a.into(), zero.into(), X::I(0x19)]);
        self.op(BLEND, &[made.into(), made.into(), nan, here.into()]);
        self.free(zero);
        self.free(here);
    }

    /// The sines or cosines of lanes.
    fn sine(&mut self, a: Register, cosine: bool) -> Register {
        // Slice turns, and what is left.
        let turns = self.every(FRAC_2_PI);
        let turns = self.made_of(MULTIPLY, a, turns);
        self.op(ROUND, &[turns.into(), turns.into(), X::I(8)]);
        let rest = self.copied(a.into());
        for piece in HALF_PI_PARTS {
            let piece = self.every(-piece);
            self.op(ADD_PRODUCT, &[rest.into(), turns.into(), piece]);
        }
        let x = self.clamped(rest, [-1.0, 1.0]);
        self.free(rest);
        self.op(Code::VEX_Vcvtps2dq_ymm_ymmm256, &[turns.into(), turns.into()]);
        if cosine {
            let one = self.bits(1);
            self.op(ADD_INTEGERS, &[turns.into(), turns.into(), one]);
        }
        let square = self.made_of(MULTIPLY, x, x.into());
        let sine = self.polynomial(&SINE_TERMS, square);
        let third = self.made_of(MULTIPLY, x, square.into());
        self.op(MULTIPLY_ADD, &[sine.into(), third.into(), x.into()]);
        let other = self.polynomial(&COSINE_TERMS, square);
        // The lowest bits of the slice turns, as signs: the other function, the other sign.
        self.op(UP, &[third.into(), turns.into(), X::I(31)]);
        self.op(BLEND, &[sine.into(), sine.into(), other.into(), third.into()]);
        self.op(UP, &[third.into(), turns.into(), X::I(30)]);
        let sign = self.bits(1 << 31);
        self.op(AND, &[third.into(), third.into(), sign]);
        self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[sine.into(), sine.into(), third.into()]);
        for register in [turns, third, square, other, x] {
            self.free(register);
        }
        if !cosine {
            // Reduction loses the sign of zero.
            let zero = self.zero();
            self.op(COMPARE, &[zero.into(), a.into(), zero.into(), X::I(0)]);
            self.op(BLEND, &[sine.into(), sine.into(), a.into(), zero.into()]);
            self.free(zero);
        }
        sine
    }
}
