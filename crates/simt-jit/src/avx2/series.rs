//! Logarithms, sines and cosines of a quarter's f32 lanes, four at a time in doubles. The formulas are
//! those of [`crate::series`], operation by operation.

use super::quarter::{Quarter, xmm};
use crate::assembler::X;
use iced_x86::{Code, Register};
use simt::op::{FloatOp, Width};
use simt_interpreter::native::{COSINE_TERMS, HALF_PI_PARTS, LOG2_FIRST, LOG2_TERMS, SINE_TERMS};

const MULTIPLY: Code = Code::VEX_Vmulpd_ymm_ymm_ymmm256;
const ADD: Code = Code::VEX_Vaddpd_ymm_ymm_ymmm256;
const SUBTRACT: Code = Code::VEX_Vsubpd_ymm_ymm_ymmm256;
const ROUND: Code = Code::VEX_Vroundpd_ymm_ymmm256_imm8;

impl Quarter<'_, '_> {
    /// A function of f32 lanes, in a register of its own.
    pub(crate) fn series(&mut self, op: FloatOp, a: Register) -> Register {
        let made = self.temp();
        for half in 0..2 {
            let from = self.half_of(a, half);
            let x = self.temp();
            self.op(Code::VEX_Vcvtps2pd_ymm_xmmm128, &[x.into(), from.into()]);
            let result = match op {
                FloatOp::Lg2 => self.log2_of_doubles(x),
                _ => self.sine_of_doubles(x, op == FloatOp::Cos),
            };
            self.op(Code::VEX_Vcvtpd2ps_xmm_ymmm256, &[xmm(result).into(), result.into()]);
            self.join(made, result, half);
            self.free(result);
            self.free(x);
        }
        self.special_arguments(op, a, made);
        made
    }

    fn double(&mut self, value: f64) -> X {
        self.constant(value.to_bits(), Width::W64).into()
    }

    /// The second operand may be memory.
    fn made_of(&mut self, code: Code, a: Register, b: X) -> Register {
        let to = self.temp();
        self.op(code, &[to.into(), a.into(), b]);
        to
    }

    /// A polynomial's value: terms lowest first, each product and sum rounded on its own.
    fn polynomial(&mut self, terms: &[f64], of: Register) -> Register {
        let (last, others) = terms.split_last().unwrap_or((&0.0, &[]));
        let last = self.double(*last);
        let to = self.copied(last);
        for term in others.iter().rev() {
            self.op(MULTIPLY, &[to.into(), to.into(), of.into()]);
            let term = self.double(*term);
            self.op(ADD, &[to.into(), to.into(), term]);
        }
        to
    }

    /// The logarithms of doubles, which are overwritten, to base 2.
    fn log2_of_doubles(&mut self, x: Register) -> Register {
        let subtract = Code::VEX_Vpsubq_ymm_ymm_ymmm256;
        let first = self.constant(LOG2_FIRST, Width::W64);
        // The exponents are in the upper halves of the lanes.
        let exponent = self.made_of(subtract, x, first.into());
        let down = Code::VEX_Vpsrad_ymm_ymm_imm8;
        self.op(down, &[exponent.into(), exponent.into(), X::I(20)]);
        let whole = self.made_of(Code::VEX_Vpslld_ymm_ymm_imm8, exponent, X::I(20));
        let upper = self.constant(0xffff_ffff_0000_0000, Width::W64);
        let and = Code::VEX_Vpand_ymm_ymm_ymmm256;
        self.op(and, &[whole.into(), whole.into(), upper.into()]);
        self.op(subtract, &[x.into(), x.into(), whole.into()]);
        let high = self.half_of(exponent, 1);
        let shuffle = Code::VEX_Vshufps_xmm_xmm_xmmm128_imm8;
        let odd = X::I(0xdd - 0x100);
        self.op(shuffle, &[xmm(exponent).into(), xmm(exponent).into(), high.into(), odd]);
        let convert = Code::VEX_Vcvtdq2pd_ymm_xmmm128;
        self.op(convert, &[exponent.into(), xmm(exponent).into()]);
        let one = self.double(1.0);
        self.op(ADD, &[whole.into(), x.into(), one]);
        self.op(SUBTRACT, &[x.into(), x.into(), one]);
        self.op(Code::VEX_Vdivpd_ymm_ymm_ymmm256, &[x.into(), x.into(), whole.into()]);
        self.op(MULTIPLY, &[whole.into(), x.into(), x.into()]);
        let made = self.polynomial(&LOG2_TERMS, whole);
        self.op(MULTIPLY, &[made.into(), x.into(), made.into()]);
        self.op(ADD, &[made.into(), made.into(), exponent.into()]);
        self.free(whole);
        self.free(exponent);
        made
    }

    /// The sines or cosines of doubles, which are overwritten.
    fn sine_of_doubles(&mut self, x: Register, cosine: bool) -> Register {
        // Quarter turns, and what is left.
        let turns = self.double(std::f64::consts::FRAC_2_PI);
        let turns = self.made_of(MULTIPLY, x, turns);
        self.op(ROUND, &[turns.into(), turns.into(), X::I(8)]);
        for piece in HALF_PI_PARTS {
            let piece = self.double(-piece);
            let multiply_add = Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256;
            self.op(multiply_add, &[x.into(), turns.into(), piece]);
        }
        let (quarter, four) = (self.double(0.25), self.double(4.0));
        let whole = self.made_of(MULTIPLY, turns, quarter);
        self.op(ROUND, &[whole.into(), whole.into(), X::I(9)]);
        self.op(MULTIPLY, &[whole.into(), whole.into(), four]);
        self.op(SUBTRACT, &[turns.into(), turns.into(), whole.into()]);
        self.op(Code::VEX_Vcvttpd2dq_xmm_ymmm256, &[xmm(turns).into(), turns.into()]);
        self.op(Code::VEX_Vpmovsxdq_ymm_xmmm128, &[turns.into(), xmm(turns).into()]);
        if cosine {
            let one = self.constant(1, Width::W64);
            let add = Code::VEX_Vpaddq_ymm_ymm_ymmm256;
            self.op(add, &[turns.into(), turns.into(), one.into()]);
        }
        let square = self.made_of(MULTIPLY, x, x.into());
        let sine = self.polynomial(&SINE_TERMS, square);
        self.op(MULTIPLY, &[whole.into(), x.into(), square.into()]);
        self.op(MULTIPLY, &[sine.into(), whole.into(), sine.into()]);
        self.op(ADD, &[sine.into(), x.into(), sine.into()]);
        let other = self.polynomial(&COSINE_TERMS, square);
        // The lowest bits of the quarter turns, as signs: the other function, the other sign.
        let up = Code::VEX_Vpsllq_ymm_ymm_imm8;
        self.op(up, &[whole.into(), turns.into(), X::I(63)]);
        let blend = Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm;
        self.op(blend, &[sine.into(), sine.into(), other.into(), whole.into()]);
        self.op(up, &[whole.into(), turns.into(), X::I(62)]);
        let sign = self.constant(1 << 63, Width::W64);
        self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[whole.into(), whole.into(), sign.into()]);
        self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[sine.into(), sine.into(), whole.into()]);
        for register in [turns, whole, square, other] {
            self.free(register);
        }
        sine
    }

    /// Puts right what the formulas do not give, in the results.
    fn special_arguments(&mut self, op: FloatOp, a: Register, made: Register) {
        if op == FloatOp::Cos {
            return;
        }
        let (zero, here) = (self.zero(), self.temp());
        let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
        let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
        self.op(compare, &[here.into(), a.into(), zero.into(), X::I(0)]);
        if op == FloatOp::Sin {
            // The series would lose the sign of zero.
            self.op(blend, &[made.into(), made.into(), a.into(), here.into()]);
        } else {
            let infinity = self.constant(f32::INFINITY.to_bits().into(), Width::W32);
            let least = self.constant(f32::NEG_INFINITY.to_bits().into(), Width::W32);
            let nan = self.constant(crate::nan::NAN.into(), Width::W32);
            self.op(blend, &[made.into(), made.into(), least.into(), here.into()]);
            self.op(compare, &[here.into(), a.into(), infinity.into(), X::I(0)]);
            self.op(blend, &[made.into(), made.into(), infinity.into(), here.into()]);
            // Neither 0 nor more: a NaN as well.
            self.op(compare, &[here.into(), a.into(), zero.into(), X::I(0x19)]);
            self.op(blend, &[made.into(), made.into(), nan.into(), here.into()]);
        }
        self.free(zero);
        self.free(here);
    }
}
