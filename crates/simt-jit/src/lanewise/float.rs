//! Floating-point arithmetic on lanes.

use crate::host::SimdIsa;
use crate::lanewise::codes::{
    ADD_F32, ADD_F64, AND, AND_LONG, DIV_F32, DIV_F64, EQUAL, FMA_F32, FMA_F64, LaneCode, MAX_F32,
    MAX_F64, MIN_F32, MIN_F64, MUL_F32, MUL_F64, OR, OR_LONG, SQRT_F32, SQRT_F64, SUB_F32, SUB_F64,
    UNORDERED, XOR, XOR_LONG, pick,
};
use crate::lanewise::isa::VectorIsa;
use crate::lanewise::math;
use iced_x86::Register;
use simt::ir::op::{FloatMode, FloatOp, FloatType, Round, Width};
use simt::ir::vector::VectorInst;

/// The lanes that instructions for a type have, and whether these are doubles: of two numbers in a lane
/// each is one of its own.
fn lanes(ty: FloatType) -> Option<Width> {
    match ty {
        FloatType::F32 | FloatType::F32x2 => Some(Width::W32),
        FloatType::F64 => Some(Width::W64),
        _ => None,
    }
}

/// Makes arithmetic.
pub(crate) type Emitter<I> = fn(&mut I, &VectorInst, FloatOp, FloatType, FloatMode);

/// What makes an operation, if there is a form for it.
pub(crate) fn form<I: VectorIsa>(
    op: FloatOp,
    ty: FloatType,
    mode: FloatMode,
) -> Option<Emitter<I>> {
    use FloatOp::*;
    let lanes = lanes(ty)?;
    let (double, near) = (lanes == Width::W64, mode.round == Round::Near);
    if mode.round == Round::NearAway {
        return None;
    }
    if let RcpApproxCoarse | RsqrtApproxCoarse = op {
        return (double && near).then_some(float);
    }
    let formed = match op {
        Add | Sub | Mul | Fma => ty != FloatType::F32x2 || !mode.sat,
        _ if ty == FloatType::F32x2 => false,
        Div | Rcp | Sqrt => true,
        RsqrtEstimate => near && I::ISA == SimdIsa::Avx512,
        RsqrtApprox | Min | Max => near,
        RcpApprox | MinNan | MaxNan => near && !double,
        Ex2 | Lg2 | Sin | Cos | Tanh => near && !double && !mode.sat,
        Neg | Abs => !mode.sat,
        CopySign => !mode.ftz && !mode.sat,
        _ => false,
    };
    (formed && !(double && mode.ftz)).then_some(float)
}

/// The code of an operation of two operands.
fn binary(op: FloatOp, lanes: Width) -> Option<LaneCode> {
    Some(match op {
        FloatOp::Add => pick(lanes, ADD_F32, ADD_F64),
        FloatOp::Sub => pick(lanes, SUB_F32, SUB_F64),
        FloatOp::Mul => pick(lanes, MUL_F32, MUL_F64),
        FloatOp::Div => pick(lanes, DIV_F32, DIV_F64),
        _ => return None,
    })
}

fn float<I: VectorIsa>(i: &mut I, inst: &VectorInst, op: FloatOp, ty: FloatType, mode: FloatMode) {
    let (w, lanes) = (ty.width(), lanes(ty).unwrap_or(Width::W32));
    // Doubles are flushed by the operations that do so, not as pairs of f32.
    let mode = FloatMode { ftz: mode.ftz && lanes == Width::W32, ..mode };
    let signs = matches!(op, FloatOp::Neg | FloatOp::Abs | FloatOp::CopySign);
    let canonical = lanes == Width::W32 && !signs && !i.defers_nan(inst.dst[0].reg);
    // Masks of the instructions are the result's.
    let plain = !canonical && !mode.ftz && !mode.sat && lanes == w;
    let near = mode.round == Round::Near;
    for piece in 0..i.pieces(w) {
        if let (Some(code), true) = (binary(op, lanes), plain && near) {
            let a = i.source_in(inst.src[0], w, piece);
            let b = i.source(inst.src[1], w, piece);
            i.put_by(inst, 0, piece, code, &[a.into(), b]);
            continue;
        }
        if plain && near && op == FloatOp::Fma && i.fused(inst, lanes, piece) {
            continue;
        }
        let mut made = value(i, inst, op, (w, lanes), mode, piece);
        if mode.ftz {
            let flushed = i.flushed(made);
            i.free(made);
            made = flushed;
        }
        if canonical {
            self::canonical(i, made);
        }
        if mode.sat {
            saturate(i, made, lanes);
        }
        i.put(inst, 0, piece, made);
    }
}

/// A piece of a result, in a register of its own.
fn value<I: VectorIsa>(
    i: &mut I,
    inst: &VectorInst,
    op: FloatOp,
    (w, lanes): (Width, Width),
    mode: FloatMode,
    piece: usize,
) -> Register {
    use FloatOp::*;
    let operand = |i: &mut I, n: usize| {
        let register = i.source_in(inst.src[n], w, piece);
        if !mode.ftz {
            return register;
        }
        let to = i.flushed(register);
        i.free(register);
        to
    };
    let a = operand(i, 0);
    match op {
        Fma => {
            let [b, c] = [1, 2].map(|n| operand(i, n));
            let to = i.copied(a.into(), lanes);
            let code = pick(lanes, FMA_F32, FMA_F64);
            i.op_rounded(code, &[to.into(), b.into(), c.into()], mode.round);
            to
        }
        Sqrt => {
            let to = i.temp();
            i.op_rounded(pick(lanes, SQRT_F32, SQRT_F64), &[to.into(), a.into()], mode.round);
            to
        }
        Rcp | RcpApprox | RsqrtApprox => {
            let mut divisor = a;
            if op == RsqrtApprox {
                divisor = i.temp();
                i.op(pick(lanes, SQRT_F32, SQRT_F64), &[divisor.into(), a.into()]);
            }
            let to = one(i, lanes);
            let code = pick(lanes, DIV_F32, DIV_F64);
            i.op_rounded(code, &[to.into(), to.into(), divisor.into()], mode.round);
            if divisor != a {
                i.free(divisor);
            }
            to
        }
        RcpApproxCoarse | RsqrtApproxCoarse => coarse(i, a, op == RsqrtApproxCoarse),
        RsqrtEstimate => i.root_estimate(a),
        Min | Max | MinNan | MaxNan => {
            let b = operand(i, 1);
            let to = extreme(i, matches!(op, Max | MaxNan), lanes, a, b);
            if let MinNan | MaxNan = op {
                nan_of_either(i, to, a, b);
            }
            to
        }
        Neg | Abs => {
            let sign = 1u64 << (lanes.bits() - 1);
            let (bits, code) = match op {
                Neg => (sign, pick(lanes, XOR, XOR_LONG)),
                _ => (sign - 1, pick(lanes, AND, AND_LONG)),
            };
            let bits = i.number(bits, lanes);
            i.made(code, a, bits)
        }
        CopySign => {
            let b = operand(i, 1);
            let mask = i.splat((1u64 << (lanes.bits() - 1)) - 1, lanes);
            let to = i.copied(b.into(), lanes);
            i.choose_bits(to, a, mask);
            i.free(mask);
            to
        }
        Ex2 | Lg2 | Sin | Cos | Tanh => math::function(i, op, a),
        _ => {
            let b = operand(i, 1);
            let to = i.temp();
            if let Some(code) = binary(op, lanes) {
                i.op_rounded(code, &[to.into(), a.into(), b.into()], mode.round);
            }
            to
        }
    }
}

/// 1 in all lanes, in a register of its own.
fn one<I: VectorIsa>(i: &mut I, lanes: Width) -> Register {
    let bits = if lanes == Width::W64 { 1f64.to_bits() } else { u64::from(1f32.to_bits()) };
    i.splat(bits, lanes)
}

/// f32 lanes with NaNs made canonical where they are.
pub(crate) fn canonical<I: VectorIsa>(i: &mut I, a: Register) {
    let mask = i.compare(a, a.into(), UNORDERED, Width::W32);
    let nan = i.number(simt::analysis::nan_demand::NAN.into(), Width::W32);
    i.blend(a, nan, mask, Width::W32);
    i.free_mask(mask);
}

/// Clamps lanes to [0, 1], NaN to 0, where they are.
pub(crate) fn saturate<I: VectorIsa>(i: &mut I, a: Register, lanes: Width) {
    // Of a NaN or two zeros these give the second.
    let (zero, one) = (i.zero(), one(i, lanes));
    i.op(pick(lanes, MAX_F32, MAX_F64), &[a.into(), a.into(), zero.into()]);
    i.op(pick(lanes, MIN_F32, MIN_F64), &[a.into(), a.into(), one.into()]);
    i.free_all([zero, one]);
}

/// The smaller or larger of two, in a register of its own: a number rather than a NaN, -0 below 0.
pub(crate) fn extreme<I: VectorIsa>(
    i: &mut I,
    larger: bool,
    lanes: Width,
    a: Register,
    b: Register,
) -> Register {
    let (code, both) = match larger {
        true => (pick(lanes, MAX_F32, MAX_F64), pick(lanes, AND, AND_LONG)),
        false => (pick(lanes, MIN_F32, MIN_F64), pick(lanes, OR, OR_LONG)),
    };
    // The first, if either is NaN.
    let to = i.made(code, b, a);
    let of_both = i.made(both, a, b);
    let same = i.compare(a, b.into(), EQUAL, lanes);
    i.blend(to, of_both.into(), same, lanes);
    i.free_mask(same);
    i.free(of_both);
    let none = i.compare(a, a.into(), UNORDERED, lanes);
    i.blend(to, b.into(), none, lanes);
    i.free_mask(none);
    to
}

/// f32 lanes become NaN where one of two others is.
pub(crate) fn nan_of_either<I: VectorIsa>(i: &mut I, to: Register, a: Register, b: Register) {
    let mask = i.compare(a, b.into(), UNORDERED, Width::W32);
    let nan = i.number(simt::analysis::nan_demand::NAN.into(), Width::W32);
    i.blend(to, nan, mask, Width::W32);
    i.free_mask(mask);
}

/// Lanes in which the bits of `exponent` are zero keep only their sign, where they are.
pub(crate) fn flush<I: VectorIsa>(i: &mut I, a: Register, exponent: u64, sign: u64, w: Width) {
    let exponent = i.number(exponent, w);
    let mask = i.is_zero(a, exponent, w);
    keep_signs(i, a, mask, sign, w);
}

/// Lanes of a mask keep only their sign, where they are; the mask is given back.
pub(crate) fn keep_signs<I: VectorIsa>(
    i: &mut I,
    a: Register,
    mask: Register,
    sign: u64,
    w: Width,
) {
    let sign = i.number(sign, w);
    let zeros = i.made(pick(w, AND, AND_LONG), a, sign);
    i.blend(a, zeros.into(), mask, w);
    i.free(zeros);
    i.free_mask(mask);
}

/// Reciprocals, or those of roots, whose lower halves are zero; subnormals are zero.
fn coarse<I: VectorIsa>(i: &mut I, a: Register, root: bool) -> Register {
    const NAN: u64 = 0x7fff_ffff_0000_0000;
    const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
    let w = Width::W64;
    let of = i.copied(a.into(), w);
    flush(i, of, EXPONENT, 1 << 63, w);
    if root {
        i.op(SQRT_F64, &[of.into(), of.into()]);
    }
    let to = one(i, w);
    i.op(DIV_F64, &[to.into(), to.into(), of.into()]);
    i.free(of);
    flush(i, to, EXPONENT, 1 << 63, w);
    let none = i.compare(to, to.into(), UNORDERED, w);
    let nan = i.number(NAN, w);
    i.blend(to, nan, none, w);
    i.free_mask(none);
    let upper = i.number(u64::MAX << 32, w);
    i.op(AND_LONG, &[to.into(), to.into(), upper]);
    to
}

/// Integral values of lanes, by how they are rounded: the immediate of `vroundps`, without the exception
/// for what is not exact.
pub(crate) fn rounding(round: Round) -> Option<i32> {
    Some(match round {
        Round::Near => 8,
        Round::Down => 9,
        Round::Up => 10,
        Round::Zero => 11,
        Round::NearAway => return None,
    })
}
