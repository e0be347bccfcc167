//! Transcendental functions (ex2, lg2, sin, cos, tanh) of f32 lanes: the interpreter's polynomials,
//! operation by operation, for the same bits.

use crate::asm::assembler::X;
use crate::lanewise::codes::{
    ADD, ADD_F32, ADD_PRODUCT_F32, AND, DIV_F32, FMA_F32, LESS, MAX_F32, MIN_F32, MUL_F32, OR,
    ROUND_F32, S32_OF_F32, SUB_F32, UP, XOR,
};
use crate::lanewise::isa::VectorIsa;
use iced_x86::Register;
use simt::ir::op::{FloatOp, Width};
use simt_interpreter::tier1_abi::{
    COSINE_TERMS, EXP2_ENDS, EXP2_TERMS, HALF_PI_PARTS, LOG2_TERMS, SINE_TERMS, TANH_CAP,
    TANH_NEAR, TANH_SCALE, TANH_THIRD,
};
use std::f32::consts::FRAC_2_PI;

const W: Width = Width::W32;
/// To the nearest, without the exception for what is not exact.
const NEAREST: X = X::I(8);

/// A function of a register's lanes, in a register of its own.
pub(crate) fn function<I: VectorIsa>(i: &mut I, op: FloatOp, a: Register) -> Register {
    match op {
        FloatOp::Ex2 => exp2(i, a),
        FloatOp::Lg2 => log2(i, a),
        FloatOp::Tanh => tanh(i, a),
        _ => sine(i, a, op == FloatOp::Cos),
    }
}

fn every<I: VectorIsa>(i: &mut I, value: f32) -> X {
    i.number(value.to_bits().into(), W)
}

fn all<I: VectorIsa>(i: &mut I, value: f32) -> Register {
    i.splat(value.to_bits().into(), W)
}

/// A register's lanes, no further out than one of two ends; a NaN stays.
pub(crate) fn clamped<I: VectorIsa>(i: &mut I, a: Register, [least, most]: [f32; 2]) -> Register {
    // Of a NaN these give the second operand.
    let below = all(i, most);
    i.op(MIN_F32, &[below.into(), below.into(), a.into()]);
    let to = all(i, least);
    i.op(MAX_F32, &[to.into(), to.into(), below.into()]);
    i.free(below);
    to
}

/// A polynomial's value: terms lowest first.
fn polynomial<I: VectorIsa>(i: &mut I, terms: &[f32], of: Register) -> Register {
    let (last, others) = terms.split_last().unwrap_or((&0.0, &[]));
    let to = all(i, *last);
    for term in others.iter().rev() {
        let term = every(i, *term);
        i.op(FMA_F32, &[to.into(), of.into(), term]);
    }
    to
}

fn exp2<I: VectorIsa>(i: &mut I, a: Register) -> Register {
    let f = clamped(i, a, EXP2_ENDS);
    let whole = i.temp();
    i.op(ROUND_F32, &[whole.into(), f.into(), NEAREST]);
    i.op(SUB_F32, &[f.into(), f.into(), whole.into()]);
    let made = polynomial(i, &EXP2_TERMS, f);
    i.free(f);
    i.scale(made, whole);
    i.free(whole);
    made
}

fn tanh<I: VectorIsa>(i: &mut I, a: Register) -> Register {
    let bits = i.number(0x7fff_ffff, W);
    let magnitude = i.made(AND, a, bits);
    // 1 - 2 / (e^(2 a) + 1), where the lesser of a number and a NaN is the NaN.
    let x = all(i, TANH_CAP);
    let [scale, one] = [TANH_SCALE, 1.0].map(|v| every(i, v));
    i.op(MIN_F32, &[x.into(), x.into(), magnitude.into()]);
    i.op(MUL_F32, &[x.into(), x.into(), scale]);
    let e = exp2(i, x);
    i.op(ADD_F32, &[e.into(), e.into(), one]);
    let half = all(i, 2.0);
    i.op(DIV_F32, &[half.into(), half.into(), e.into()]);
    i.free(e);
    let made = i.copied(one, W);
    i.op(SUB_F32, &[made.into(), made.into(), half.into()]);
    i.free(half);
    // a - a^3 / 3 near zero, where that cancels.
    let [near, third] = [TANH_NEAR, TANH_THIRD].map(|v| every(i, v));
    i.op(MUL_F32, &[x.into(), magnitude.into(), magnitude.into()]);
    i.op(MUL_F32, &[x.into(), x.into(), magnitude.into()]);
    i.op(MUL_F32, &[x.into(), x.into(), third]);
    i.op(SUB_F32, &[x.into(), magnitude.into(), x.into()]);
    let small = i.compare(magnitude, near, LESS, W);
    i.blend(made, x.into(), small, W);
    i.free_mask(small);
    // With the argument's sign: what is made has none but of a NaN, where it does not matter.
    i.op(XOR, &[x.into(), a.into(), magnitude.into()]);
    i.op(OR, &[made.into(), made.into(), x.into()]);
    i.free_all([magnitude, x]);
    made
}

fn log2<I: VectorIsa>(i: &mut I, a: Register) -> Register {
    let [x, exponent] = i.mantissas(a);
    let made = polynomial(i, &LOG2_TERMS, x);
    i.op(FMA_F32, &[made.into(), x.into(), exponent.into()]);
    i.free_all([x, exponent]);
    i.special_logarithms(a, made);
    made
}

fn sine<I: VectorIsa>(i: &mut I, a: Register, cosine: bool) -> Register {
    // Quarter turns, and what is left.
    let turns = every(i, FRAC_2_PI);
    let turns = i.made(MUL_F32, a, turns);
    i.op(ROUND_F32, &[turns.into(), turns.into(), NEAREST]);
    let rest = i.copied(a.into(), W);
    for piece in HALF_PI_PARTS {
        let piece = every(i, -piece);
        i.op(ADD_PRODUCT_F32, &[rest.into(), turns.into(), piece]);
    }
    let x = clamped(i, rest, [-1.0, 1.0]);
    i.free(rest);
    i.op(S32_OF_F32, &[turns.into(), turns.into()]);
    if cosine {
        let one = i.number(1, W);
        i.op(ADD, &[turns.into(), turns.into(), one]);
    }
    let square = i.made(MUL_F32, x, x);
    let made = polynomial(i, &SINE_TERMS, square);
    let third = i.made(MUL_F32, x, square);
    i.op(FMA_F32, &[made.into(), third.into(), x.into()]);
    i.free_all([third, x]);
    let other = polynomial(i, &COSINE_TERMS, square);
    i.free(square);
    // The lowest bits of the quarter turns: the other function, the other sign.
    let odd = i.has_bit(turns, 0);
    i.blend(made, other.into(), odd, W);
    i.free_mask(odd);
    i.free(other);
    i.op(UP, &[turns.into(), turns.into(), X::I(30)]);
    let sign = i.number(1 << 31, W);
    i.op(AND, &[turns.into(), turns.into(), sign]);
    i.op(XOR, &[made.into(), made.into(), turns.into()]);
    i.free(turns);
    if !cosine {
        // Reduction loses the sign of zero.
        let bits = i.number(0x7fff_ffff, W);
        let zero = i.is_zero(a, bits, W);
        i.blend(made, a.into(), zero, W);
        i.free_mask(zero);
    }
    made
}
