//! f32 and f64 arithmetic rounded to nearest, and comparisons.
//!
//! f32 results that are NaN are the canonical 0x7fffffff, as on hardware; f64 keeps payloads.
//! Directed rounding is in `directed_rounding`, halves in `half`, approximations in `transcendental`.
#![allow(clippy::neg_cmp_op_on_partial_ord, reason = "an unordered comparison is true for NaN")]

use crate::handler_context::Handler;
use crate::ops::directed_rounding;
use crate::ops::half;
use crate::ops::map::{
    Operands, Rare, Target, binary, compare, compare_integers, float_binary, float_ternary,
    float_unary, ternary, test, unary,
};
use crate::ops::rsqrt_estimate;
use crate::ops::transcendental;
use simt::ir::op::{
    Compare, CompareType, FloatMode, FloatOp, FloatType, IntType, Round, TestProperty,
};

/// NaN as f32 instructions return it.
pub(crate) const NAN32: f32 = f32::from_bits(0x7fff_ffff);

/// A number, flushed if `FTZ`.
#[inline(always)]
pub(crate) fn flushed<const FTZ: bool>(x: f32) -> f32 {
    if FTZ { flush(x) } else { x }
}

/// A result: canonical NaN, flushed if `FTZ`.
#[inline(always)]
pub(crate) fn output<const FTZ: bool>(x: f32) -> f32 {
    let bits = if FTZ { flush(x) } else { x }.to_bits();
    // On the bits, because to a compiler one NaN is as good as another: it has been seen to
    // replace `is_nan(sqrt(x)) ? NAN : sqrt(x)` by `sqrt(x)`.
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    f32::from_bits(if nan { NAN32.to_bits() } else { bits })
}

/// Subnormals become zero of the same sign.
#[inline(always)]
pub(crate) fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// The handler of an arithmetic operation; `None` if there is no such form.
pub(crate) fn handler(op: FloatOp, ty: FloatType, mode: FloatMode, t: Target) -> Option<Handler> {
    let directed = !matches!(mode.round, Round::Near);
    match ty {
        FloatType::F32 if directed => directed_rounding::handler32(op, mode, t),
        FloatType::F64 if directed => directed_rounding::handler64(op, mode, t),
        FloatType::F32 if mode.ftz => f32_handler::<true>(op, t),
        FloatType::F32 => f32_handler::<false>(op, t),
        FloatType::F64 => f64_handler(op, t),
        FloatType::F32x2 if directed => directed_rounding::pair_handler(op, mode, t),
        FloatType::F32x2 => pair_handler(op, mode, t),
        FloatType::F16 | FloatType::BF16 | FloatType::F16x2 | FloatType::BF16x2 => {
            (!directed).then(|| half::handler(op, ty, mode.ftz, t)).flatten()
        }
    }
}

#[inline(always)]
fn min32(a: f32, b: f32) -> f32 {
    // Equal numbers differ at most in the sign of zero, and -0 is the smaller.
    let less = if a < b { a } else { b };
    let both = f32::from_bits(a.to_bits() | b.to_bits());
    let r = if a == b { both } else { less };
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        r
    }
}

#[inline(always)]
fn max32(a: f32, b: f32) -> f32 {
    let more = if a > b { a } else { b };
    let both = f32::from_bits(a.to_bits() & b.to_bits());
    let r = if a == b { both } else { more };
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        r
    }
}

#[inline(always)]
fn min64(a: f64, b: f64) -> f64 {
    let less = if a < b { a } else { b };
    let both = f64::from_bits(a.to_bits() | b.to_bits());
    let r = if a == b { both } else { less };
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        r
    }
}

#[inline(always)]
fn max64(a: f64, b: f64) -> f64 {
    let more = if a > b { a } else { b };
    let both = f64::from_bits(a.to_bits() & b.to_bits());
    let r = if a == b { both } else { more };
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        r
    }
}

fn f32_handler<const Z: bool>(op: FloatOp, t: Target) -> Option<Handler> {
    Some(match op {
        FloatOp::Add => {
            float_binary(t, |a: f32, b: f32| flushed::<Z>(flushed::<Z>(a) + flushed::<Z>(b)))
        }
        FloatOp::Sub => {
            float_binary(t, |a: f32, b: f32| flushed::<Z>(flushed::<Z>(a) - flushed::<Z>(b)))
        }
        FloatOp::Mul => {
            float_binary(t, |a: f32, b: f32| flushed::<Z>(flushed::<Z>(a) * flushed::<Z>(b)))
        }
        FloatOp::Fma => float_ternary(t, |a: f32, b: f32, c: f32| {
            flushed::<Z>(flushed::<Z>(a).mul_add(flushed::<Z>(b), flushed::<Z>(c)))
        }),
        FloatOp::Div => {
            float_binary(t, |a: f32, b: f32| flushed::<Z>(flushed::<Z>(a) / flushed::<Z>(b)))
        }
        FloatOp::Rcp | FloatOp::RcpApprox => {
            float_unary(t, |a: f32| flushed::<Z>(1.0 / flushed::<Z>(a)))
        }
        FloatOp::Sqrt => float_unary(t, |a: f32| flushed::<Z>(flushed::<Z>(a).sqrt())),
        FloatOp::RsqrtApprox => float_unary(t, |a: f32| flushed::<Z>(1.0 / flushed::<Z>(a).sqrt())),
        FloatOp::RsqrtEstimate => float_unary(t, |a: f32| rsqrt_estimate::rsqrt(flushed::<Z>(a))),
        FloatOp::Min => {
            binary(t, |a: f32, b: f32| output::<Z>(min32(flushed::<Z>(a), flushed::<Z>(b))))
        }
        FloatOp::Max => {
            binary(t, |a: f32, b: f32| output::<Z>(max32(flushed::<Z>(a), flushed::<Z>(b))))
        }
        FloatOp::MinNan => binary(t, |a: f32, b: f32| {
            let r = output::<Z>(min32(flushed::<Z>(a), flushed::<Z>(b)));
            if a.is_nan() || b.is_nan() { NAN32 } else { r }
        }),
        FloatOp::MaxNan => binary(t, |a: f32, b: f32| {
            let r = output::<Z>(max32(flushed::<Z>(a), flushed::<Z>(b)));
            if a.is_nan() || b.is_nan() { NAN32 } else { r }
        }),
        // Sign operations are on the bits: NaN keeps its payload.
        FloatOp::Neg => unary(t, |a: f32| -flushed::<Z>(a)),
        FloatOp::Abs => unary(t, |a: f32| flushed::<Z>(a).abs()),
        FloatOp::CopySign => binary(t, |a: f32, b: f32| b.copysign(a)),
        FloatOp::Ex2 => unary(t, |a: f32| output::<Z>(transcendental::exp2(flushed::<Z>(a)))),
        FloatOp::Lg2 => unary(t, |a: f32| output::<Z>(transcendental::log2(flushed::<Z>(a)))),
        FloatOp::Sin => unary(t, |a: f32| output::<Z>(transcendental::sin(flushed::<Z>(a)))),
        FloatOp::Cos => unary(t, |a: f32| output::<Z>(transcendental::cos(flushed::<Z>(a)))),
        FloatOp::Tanh => unary(t, |a: f32| output::<Z>(transcendental::tanh(flushed::<Z>(a)))),
        FloatOp::FmaRelu | FloatOp::RcpApproxCoarse | FloatOp::RsqrtApproxCoarse => return None,
    })
}

fn f64_handler(op: FloatOp, t: Target) -> Option<Handler> {
    Some(match op {
        FloatOp::Add => binary(t, |a: f64, b: f64| a + b),
        FloatOp::Sub => binary(t, |a: f64, b: f64| a - b),
        FloatOp::Mul => binary(t, |a: f64, b: f64| a * b),
        FloatOp::Fma => ternary(t, |a: f64, b: f64, c: f64| a.mul_add(b, c)),
        FloatOp::Div => binary(t, |a: f64, b: f64| a / b),
        FloatOp::Rcp => unary(t, |a: f64| 1.0 / a),
        FloatOp::Sqrt => unary(t, |a: f64| a.sqrt()),
        FloatOp::Min => binary(t, min64),
        FloatOp::Max => binary(t, max64),
        FloatOp::Neg => unary(t, |a: f64| -a),
        FloatOp::Abs => unary(t, |a: f64| a.abs()),
        FloatOp::CopySign => binary(t, |a: f64, b: f64| b.copysign(a)),
        FloatOp::RsqrtApprox => unary(t, |a: f64| 1.0 / a.sqrt()),
        FloatOp::RcpApproxCoarse => {
            unary(t, |a: f64| transcendental::coarse(1.0 / transcendental::flush64(a)))
        }
        FloatOp::RsqrtApproxCoarse => {
            unary(t, |a: f64| transcendental::coarse(1.0 / transcendental::flush64(a).sqrt()))
        }
        _ => return None,
    })
}

/// Two f32 in a 64-bit register (`add.f32x2` and the like).
fn pair_handler(op: FloatOp, mode: FloatMode, t: Target) -> Option<Handler> {
    let t = Rare(t);
    #[inline(always)]
    fn parts(x: u64) -> [f32; 2] {
        [f32::from_bits(x as u32), f32::from_bits((x >> 32) as u32)]
    }
    #[inline(always)]
    fn whole(low: f32, high: f32) -> u64 {
        u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
    }
    macro_rules! of {
        ($z:literal) => {
            match op {
                FloatOp::Add => binary(t, |a: u64, b: u64| {
                    let (a, b) = (parts(a), parts(b));
                    let f = |i: usize| output::<$z>(flushed::<$z>(a[i]) + flushed::<$z>(b[i]));
                    whole(f(0), f(1))
                }),
                FloatOp::Sub => binary(t, |a: u64, b: u64| {
                    let (a, b) = (parts(a), parts(b));
                    let f = |i: usize| output::<$z>(flushed::<$z>(a[i]) - flushed::<$z>(b[i]));
                    whole(f(0), f(1))
                }),
                FloatOp::Mul => binary(t, |a: u64, b: u64| {
                    let (a, b) = (parts(a), parts(b));
                    let f = |i: usize| output::<$z>(flushed::<$z>(a[i]) * flushed::<$z>(b[i]));
                    whole(f(0), f(1))
                }),
                FloatOp::Fma => ternary(t, |a: u64, b: u64, c: u64| {
                    let (a, b, c) = (parts(a), parts(b), parts(c));
                    let f = |i: usize| {
                        output::<$z>(
                            flushed::<$z>(a[i]).mul_add(flushed::<$z>(b[i]), flushed::<$z>(c[i])),
                        )
                    };
                    whole(f(0), f(1))
                }),
                _ => return None,
            }
        };
    }
    Some(if mode.ftz { of!(true) } else { of!(false) })
}

/// The handler that clamps a result to [0, 1], NaN to 0, in place.
pub(crate) fn saturate(ty: FloatType, t: Target) -> Option<Handler> {
    Some(match ty {
        FloatType::F32 => {
            unary(t, |a: f32| if a > 0.0 { if a < 1.0 { a } else { 1.0 } } else { 0.0 })
        }
        FloatType::F64 => {
            unary(t, |a: f64| if a > 0.0 { if a < 1.0 { a } else { 1.0 } } else { 0.0 })
        }
        FloatType::F16 => unary(Rare(t), half::saturate16),
        FloatType::F16x2 => unary(Rare(t), |a: u32| {
            u32::from(half::saturate16(a as u16))
                | u32::from(half::saturate16((a >> 16) as u16)) << 16
        }),
        _ => return None,
    })
}

/// The handler of a comparison.
pub(crate) fn comparison(
    op: Compare,
    ty: CompareType,
    operands: Operands,
    t: Target,
) -> Option<Handler> {
    macro_rules! integers {
        ($t:ty) => {
            match op {
                Compare::Eq => compare_integers(t, operands, |a: $t, b: $t| a == b),
                Compare::Ne => compare_integers(t, operands, |a: $t, b: $t| a != b),
                Compare::Lt => compare_integers(t, operands, |a: $t, b: $t| a < b),
                Compare::Le => compare_integers(t, operands, |a: $t, b: $t| a <= b),
                Compare::Gt => compare_integers(t, operands, |a: $t, b: $t| a > b),
                Compare::Ge => compare_integers(t, operands, |a: $t, b: $t| a >= b),
                _ => return None,
            }
        };
    }
    macro_rules! floats {
        ($t:ty, $in:expr) => {
            floats!($t, $in, t)
        };
        ($t:ty, $in:expr, $versions:expr) => {
            match op {
                Compare::Eq => compare($versions, |a: $t, b: $t| $in(a) == $in(b)),
                // Ordered: false for NaN, other than Rust's `!=`.
                Compare::Ne => {
                    compare($versions, |a: $t, b: $t| $in(a) < $in(b) || $in(a) > $in(b))
                }
                Compare::Lt => compare($versions, |a: $t, b: $t| $in(a) < $in(b)),
                Compare::Le => compare($versions, |a: $t, b: $t| $in(a) <= $in(b)),
                Compare::Gt => compare($versions, |a: $t, b: $t| $in(a) > $in(b)),
                Compare::Ge => compare($versions, |a: $t, b: $t| $in(a) >= $in(b)),
                Compare::Equ => {
                    compare($versions, |a: $t, b: $t| !($in(a) < $in(b) || $in(a) > $in(b)))
                }
                Compare::Neu => compare($versions, |a: $t, b: $t| $in(a) != $in(b)),
                Compare::Ltu => compare($versions, |a: $t, b: $t| !($in(a) >= $in(b))),
                Compare::Leu => compare($versions, |a: $t, b: $t| !($in(a) > $in(b))),
                Compare::Gtu => compare($versions, |a: $t, b: $t| !($in(a) <= $in(b))),
                Compare::Geu => compare($versions, |a: $t, b: $t| !($in(a) < $in(b))),
                Compare::Num => compare($versions, |a: $t, b: $t| {
                    let (a, b) = ($in(a), $in(b));
                    a == a && b == b
                }),
                Compare::Nan => compare($versions, |a: $t, b: $t| {
                    let (a, b) = ($in(a), $in(b));
                    a != a || b != b
                }),
            }
        };
    }
    Some(match ty {
        CompareType::Int(IntType::U16) => integers!(u16),
        CompareType::Int(IntType::S16) => integers!(i16),
        CompareType::Int(IntType::U32) => integers!(u32),
        CompareType::Int(IntType::S32) => integers!(i32),
        CompareType::Int(IntType::U64) => integers!(u64),
        CompareType::Int(IntType::S64) => integers!(i64),
        CompareType::Float(FloatType::F32, true) => floats!(f32, flush),
        CompareType::Float(FloatType::F32, false) => floats!(f32, std::convert::identity),
        CompareType::Float(FloatType::F64, _) => floats!(f64, std::convert::identity),
        CompareType::Float(FloatType::F16, _) => floats!(u16, half::widen16, Rare(t)),
        CompareType::Float(FloatType::BF16, _) => floats!(u16, half::widen_b16, Rare(t)),
        CompareType::Float(..) => return None,
    })
}

/// The handler of `testp`.
pub(crate) fn test_property(property: TestProperty, ty: FloatType, t: Target) -> Option<Handler> {
    let t = Rare(t);
    macro_rules! of {
        ($t:ty) => {
            match property {
                TestProperty::Finite => test(t, |a: $t| a.is_finite()),
                TestProperty::Infinite => test(t, |a: $t| a.is_infinite()),
                TestProperty::Number => test(t, |a: $t| !a.is_nan()),
                TestProperty::NotANumber => test(t, |a: $t| a.is_nan()),
                // The manual counts zeros among normal numbers.
                TestProperty::Normal => test(t, |a: $t| a.is_normal() || a == 0.0),
                TestProperty::Subnormal => test(t, |a: $t| a.is_subnormal()),
            }
        };
    }
    Some(match ty {
        FloatType::F32 => of!(f32),
        FloatType::F64 => of!(f64),
        _ => return None,
    })
}
