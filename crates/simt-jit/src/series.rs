//! Logarithms, sines and cosines of f32 lanes: the interpreter's formulas (its `approx`), operation
//! by operation, so that both give the same bits. Eight lanes at a time in doubles.

use crate::assembler::{X, at, repeated};
use crate::compiler::Compiler;
use crate::frame::{K1, K2, LANE_RESULTS, LANE_VALUES, SAVED_VECTOR, Z0, Z1, Z2, Z3};
use crate::value::{move_code, ymm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::op::{FloatOp, Width};
use simt::vector::VectorInst;
use simt_interpreter::native::{COSINE_TERMS, HALF_PI_PARTS, LOG2_FIRST, LOG2_TERMS, SINE_TERMS};

const MULTIPLY: Code = Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er;
const ADD: Code = Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er;
const SUBTRACT: Code = Code::EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er;
const STORE: Code = Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm;
const COMPARE: Code = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;

/// Where the argument is, 16 lanes of f32.
fn argument() -> MemoryOperand {
    at(Register::RSP, LANE_VALUES)
}

/// Where eight doubles are kept.
fn kept() -> MemoryOperand {
    at(Register::RSP, SAVED_VECTOR)
}

impl Compiler<'_> {
    fn double(&mut self, value: f64) -> X {
        repeated(self.a.constant(&value.to_le_bytes())).into()
    }

    fn integer(&mut self, value: u64) -> X {
        repeated(self.a.constant(&value.to_le_bytes())).into()
    }

    /// A function of f32 lanes; subnormals are zero with `flush`. False if it is none of these.
    pub(crate) fn series(&mut self, inst: &VectorInst, op: FloatOp, flush: bool) -> bool {
        if !matches!(op, FloatOp::Lg2 | FloatOp::Sin | FloatOp::Cos) {
            return false;
        }
        let w = Width::W32;
        let value = self.value(inst.src[0], w);
        let place = self.dest(inst, &inst.dst[0]);
        let canonical = !self.lazy[inst.dst[0].reg.index()];
        for part in 0..self.parts(w) {
            let mut x = self.part_in(value, part, w, Z0);
            if flush {
                x = self.flushed(x, Z0);
            }
            self.a.op(Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm, &[argument().into(), x.into()]);
            for half in 0..2 {
                let from = at(Register::RSP, LANE_VALUES + 32 * half);
                self.a.op(Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae, &[Z0.into(), from.into()]);
                match op {
                    FloatOp::Lg2 => self.log2_of_doubles(),
                    _ => self.sine_of_doubles(op == FloatOp::Cos),
                }
                let narrow = Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er;
                self.a.op(narrow, &[ymm(Z1).into(), Z1.into()]);
                let to = at(Register::RSP, LANE_RESULTS + 32 * half);
                self.a.op(Code::EVEX_Vmovdqu32_ymmm256_k1z_ymm, &[to.into(), ymm(Z1).into()]);
            }
            let results = at(Register::RSP, LANE_RESULTS);
            self.a.op(move_code(w), &[Z0.into(), results.into()]);
            self.special_arguments(op);
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

    /// A polynomial's value at `of`, in `to`: terms lowest first, each product and sum rounded on
    /// its own.
    fn polynomial(&mut self, terms: &[f64], of: Register, to: Register) {
        let Some((last, others)) = terms.split_last() else { return };
        let last = self.a.constant(&last.to_le_bytes());
        self.a.op(Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64, &[to.into(), last.into()]);
        for term in others.iter().rev() {
            self.a.op(MULTIPLY, &[to.into(), to.into(), of.into()]);
            let term = self.double(*term);
            self.a.op(ADD, &[to.into(), to.into(), term]);
        }
    }

    /// The logarithms of the doubles in Z0 to base 2, in Z1.
    fn log2_of_doubles(&mut self) {
        let subtract = Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64;
        let first = self.integer(LOG2_FIRST);
        self.a.op(subtract, &[Z1.into(), Z0.into(), first]);
        self.a.op(Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8, &[Z1.into(), Z1.into(), X::I(52)]);
        self.a.op(Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8, &[Z2.into(), Z1.into(), X::I(52)]);
        self.a.op(subtract, &[Z2.into(), Z0.into(), Z2.into()]);
        self.a.op(Code::EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er, &[Z1.into(), Z1.into()]);
        self.a.op(STORE, &[kept().into(), Z1.into()]);
        let one = self.double(1.0);
        self.a.op(SUBTRACT, &[Z0.into(), Z2.into(), one]);
        self.a.op(ADD, &[Z2.into(), Z2.into(), one]);
        let divide = Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er;
        self.a.op(divide, &[Z0.into(), Z0.into(), Z2.into()]);
        self.a.op(MULTIPLY, &[Z2.into(), Z0.into(), Z0.into()]);
        self.polynomial(&LOG2_TERMS, Z2, Z1);
        self.a.op(MULTIPLY, &[Z1.into(), Z0.into(), Z1.into()]);
        self.a.op(ADD, &[Z1.into(), Z1.into(), kept().into()]);
    }

    /// The sines or cosines of the doubles in Z0, in Z1.
    fn sine_of_doubles(&mut self, cosine: bool) {
        let round = Code::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae;
        let multiply_add = Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er;
        // Quarter turns in Z1, what is left in Z0.
        let turns = self.double(std::f64::consts::FRAC_2_PI);
        self.a.op(MULTIPLY, &[Z1.into(), Z0.into(), turns]);
        self.a.op(round, &[Z1.into(), Z1.into(), X::I(8)]);
        for piece in HALF_PI_PARTS {
            let piece = self.double(-piece);
            self.a.op(multiply_add, &[Z0.into(), Z1.into(), piece]);
        }
        let (quarter, four) = (self.double(0.25), self.double(4.0));
        self.a.op(MULTIPLY, &[Z2.into(), Z1.into(), quarter]);
        self.a.op(round, &[Z2.into(), Z2.into(), X::I(9)]);
        self.a.op(MULTIPLY, &[Z2.into(), Z2.into(), four]);
        self.a.op(SUBTRACT, &[Z1.into(), Z1.into(), Z2.into()]);
        self.a.op(Code::EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae, &[Z1.into(), Z1.into()]);
        let (one, two) = (self.integer(1), self.integer(2));
        if cosine {
            self.a.op(Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, &[Z1.into(), Z1.into(), one]);
        }
        let test = Code::EVEX_Vptestmq_kr_k1_zmm_zmmm512b64;
        self.a.op(test, &[K1.into(), Z1.into(), one]);
        self.a.op(test, &[K2.into(), Z1.into(), two]);
        // The square in Z1, the sine in Z3, the cosine in Z2.
        self.a.op(MULTIPLY, &[Z1.into(), Z0.into(), Z0.into()]);
        self.polynomial(&SINE_TERMS, Z1, Z3);
        self.a.op(MULTIPLY, &[Z2.into(), Z0.into(), Z1.into()]);
        self.a.op(MULTIPLY, &[Z3.into(), Z2.into(), Z3.into()]);
        self.a.op(ADD, &[Z3.into(), Z0.into(), Z3.into()]);
        self.polynomial(&COSINE_TERMS, Z1, Z2);
        let copy = move_code(Width::W64);
        self.a.op(copy, &[Z3.into(), Z2.into()]).set_op_mask(K1);
        let sign = self.integer(1 << 63);
        let xor = Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
        self.a.op(xor, &[Z3.into(), Z3.into(), sign]).set_op_mask(K2);
        self.a.op(copy, &[Z1.into(), Z3.into()]);
    }

    /// Puts right what the formulas do not give, in the results in Z0.
    fn special_arguments(&mut self, op: FloatOp) {
        self.a.op(move_code(Width::W32), &[Z1.into(), argument().into()]);
        self.zero(Z2);
        if op == FloatOp::Cos {
            return;
        }
        self.a.op(COMPARE, &[K1.into(), Z1.into(), Z2.into(), X::I(0)]);
        if op == FloatOp::Sin {
            // The series would lose the sign of zero.
            self.a.op(move_code(Width::W32), &[Z0.into(), Z1.into()]).set_op_mask(K1);
            return;
        }
        self.replace(f32::NEG_INFINITY.to_bits());
        let infinity = repeated(self.a.constant(&f32::INFINITY.to_le_bytes()));
        self.a.op(COMPARE, &[K1.into(), Z1.into(), infinity.into(), X::I(0)]);
        self.replace(f32::INFINITY.to_bits());
        // Neither 0 nor more: a NaN as well.
        self.a.op(COMPARE, &[K1.into(), Z1.into(), Z2.into(), X::I(0x19)]);
        self.replace(crate::nan::NAN);
    }

    /// Writes a number to the lanes of Z0 in K1.
    fn replace(&mut self, bits: u32) {
        let value = self.a.constant(&bits.to_le_bytes());
        let put = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
        self.a.op(put, &[Z0.into(), value.into()]).set_op_mask(K1);
    }
}
