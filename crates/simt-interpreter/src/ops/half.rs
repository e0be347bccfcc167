//! f16 and bf16 formats and arithmetic.
//!
//! Every half is an f32, and one f32 operation rounded to a half is the half operation rounded
//! once: f32 has more than twice the digits. Fused multiply-add needs a little more: it is done in
//! f64 with the sum rounded to odd, which a second rounding takes for the exact sum.

use crate::handler_context::Handler;
use crate::ops::map::{Rare, Target, binary, ternary, unary};
use crate::ops::transcendental;
use simt::ir::op::{FloatOp, FloatType, Round};

/// An f16's value.
#[inline(always)]
pub(crate) fn widen16(x: u16) -> f32 {
    let sign = u32::from(x & 0x8000) << 16;
    let magnitude = u32::from(x & 0x7fff);
    // Exponent and digits in place, the bias put right by a multiplication: exact, and right for
    // subnormals too.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000);
    let bits = if magnitude >= 0x7c00 { magnitude << 13 | 0x7f80_0000 } else { scaled.to_bits() };
    f32::from_bits(bits | sign)
}

/// A bf16's value.
#[inline(always)]
pub(crate) fn widen_b16(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// Rounds to a format with `exponent` and `fraction` bits (f16: 5, 10; bf16: 8, 7; f32: 8, 23).
/// Overflow goes to infinity or, by the direction, to the largest number; NaN is canonical.
#[inline(always)]
pub(crate) fn narrow(x: f64, exponent: u32, fraction: u32, round: Round) -> u32 {
    let bias = (1i64 << (exponent - 1)) - 1;
    let bits = x.to_bits();
    let negative = bits >> 63 != 0;
    let sign = u32::from(negative) << (exponent + fraction);
    let infinity = ((1u32 << exponent) - 1) << fraction;
    if x.is_nan() {
        return (1 << (exponent + fraction)) - 1;
    }
    if x.is_infinite() {
        return infinity | sign;
    }
    if x == 0.0 {
        return sign;
    }
    // |x| = digits * 2^(e - 52), digits with the leading one.
    let biased = (bits >> 52 & 0x7ff) as i64;
    let (digits, e) = if biased == 0 {
        let d = bits & ((1 << 52) - 1);
        let shift = d.leading_zeros() - 11;
        (d << shift, -1022 - i64::from(shift))
    } else {
        (bits & ((1 << 52) - 1) | 1 << 52, biased - 1023)
    };
    // Digits dropped: those beyond the fraction, more below the smallest normal exponent.
    let below = (1 - bias - e).max(0);
    let drop = (i64::from(52 - fraction) + below).min(63) as u32;
    let kept = digits >> drop;
    let rest = digits & ((1u64 << drop) - 1);
    let half = 1u64 << (drop - 1);
    let up = match round {
        Round::Near => rest > half || (rest == half && kept & 1 != 0),
        Round::NearAway => rest >= half,
        Round::Zero => false,
        Round::Down => negative && rest != 0,
        Round::Up => !negative && rest != 0,
    };
    // A carry out of the fraction lands in the exponent, where it belongs.
    let field = if below > 0 { 0 } else { (e + bias) as u64 };
    let base = if below > 0 { kept } else { kept - (1 << fraction) };
    let result = (field << fraction) + base + u64::from(up);
    if result >= u64::from(infinity) {
        let towards_zero = match round {
            Round::Zero => true,
            Round::Down => !negative,
            Round::Up => negative,
            Round::Near | Round::NearAway => false,
        };
        return (infinity - u32::from(towards_zero)) | sign;
    }
    result as u32 | sign
}

/// To f16, nearest even: the shifts and additions of [`narrow`] for one case, without branches.
#[inline(always)]
pub(crate) fn narrow16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Normal results: rebias, then add half an ulp less one, plus the last kept digit.
    let rebiased = magnitude.wrapping_sub(112 << 23);
    let normal = rebiased.wrapping_add(0xfff).wrapping_add(rebiased >> 13 & 1) >> 13;
    // Subnormal results: adding 0.5 aligns the digits as the format has them, and rounds.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let r = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let r = if magnitude >= 0x477f_f000 { 0x7c00 } else { r };
    let r = if magnitude > 0x7f80_0000 { 0x7fff } else { r | sign };
    r as u16
}

/// To bf16, nearest even.
#[inline(always)]
pub(crate) fn narrow_b16(x: f32) -> u16 {
    let bits = x.to_bits();
    let r = bits.wrapping_add(0x7fff).wrapping_add(bits >> 16 & 1) >> 16;
    (if x.is_nan() { 0x7fff } else { r }) as u16
}

/// [0, 1], NaN to 0, on f16.
#[inline(always)]
pub(crate) fn saturate16(a: u16) -> u16 {
    let x = widen16(a);
    if x > 0.0 { if x < 1.0 { a } else { 0x3c00 } } else { 0 }
}

trait Half: Copy {
    fn widen(x: u16) -> f32;
    fn narrow(x: f32) -> u16;
    fn fused(a: f32, b: f32, c: f32) -> u16;
}

/// `a * b + c` in f64, rounded to odd: inexact sums get an odd last digit.
#[inline(always)]
fn sum_to_odd(a: f32, b: f32, c: f32) -> f64 {
    let (p, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let s = p + c;
    // The error of the sum, exactly.
    let v = s - p;
    let error = (p - (s - v)) + (c - v);
    let bits = s.to_bits();
    if error == 0.0 || error.is_nan() || bits & 1 != 0 {
        return s;
    }
    // The exact sum lies between `s` and its neighbour on the error's side; one of the two is odd.
    let away = (error > 0.0) == (s > 0.0);
    f64::from_bits(if away { bits + 1 } else { bits - 1 })
}

#[derive(Clone, Copy)]
struct F16;
#[derive(Clone, Copy)]
struct BF16;

impl Half for F16 {
    #[inline(always)]
    fn widen(x: u16) -> f32 {
        widen16(x)
    }
    #[inline(always)]
    fn narrow(x: f32) -> u16 {
        narrow16(x)
    }
    #[inline(always)]
    fn fused(a: f32, b: f32, c: f32) -> u16 {
        narrow(sum_to_odd(a, b, c), 5, 10, Round::Near) as u16
    }
}

impl Half for BF16 {
    #[inline(always)]
    fn widen(x: u16) -> f32 {
        widen_b16(x)
    }
    #[inline(always)]
    fn narrow(x: f32) -> u16 {
        narrow_b16(x)
    }
    #[inline(always)]
    fn fused(a: f32, b: f32, c: f32) -> u16 {
        narrow(sum_to_odd(a, b, c), 8, 7, Round::Near) as u16
    }
}

/// Subnormal halves become zero of the same sign, if `Z`. bf16 has f32's exponents.
#[inline(always)]
fn flushed<const Z: bool>(x: u16) -> u16 {
    if Z && x & 0x7c00 == 0 { x & 0x8000 } else { x }
}

/// The lesser f16 or bf16, as `min` has it.
pub(crate) fn least(a: u16, b: u16, bf16: bool) -> u16 {
    if bf16 { minimum::<BF16>(a, b, false, false) } else { minimum::<F16>(a, b, false, false) }
}

/// The larger f16 or bf16, as `max` has it.
pub(crate) fn largest(a: u16, b: u16, bf16: bool) -> u16 {
    if bf16 { minimum::<BF16>(a, b, true, false) } else { minimum::<F16>(a, b, true, false) }
}

#[inline(always)]
fn minimum<H: Half>(a: u16, b: u16, max: bool, nan: bool) -> u16 {
    let (x, y) = (H::widen(a), H::widen(b));
    if x.is_nan() || y.is_nan() {
        return match (nan, x.is_nan(), y.is_nan()) {
            (true, ..) | (_, true, true) => 0x7fff,
            (_, true, _) => b,
            _ => a,
        };
    }
    let zero = if max { a & b } else { a | b };
    let first = if max { x > y } else { x < y };
    if x == y {
        zero
    } else if first {
        a
    } else {
        b
    }
}

#[inline(always)]
fn relu(x: u16) -> u16 {
    // NaN is canonical, without a sign, and stays.
    if x & 0x8000 != 0 { 0 } else { x }
}

/// The handler of an operation on halves or pairs of halves.
pub(crate) fn handler(op: FloatOp, ty: FloatType, ftz: bool, t: Target) -> Option<Handler> {
    match (ty, ftz) {
        (FloatType::F16, false) => single::<F16, false>(op, t),
        (FloatType::F16, true) => single::<F16, true>(op, t),
        (FloatType::BF16, _) => single::<BF16, false>(op, t),
        (FloatType::F16x2, false) => double::<F16, false>(op, t),
        (FloatType::F16x2, true) => double::<F16, true>(op, t),
        (FloatType::BF16x2, _) => double::<BF16, false>(op, t),
        _ => None,
    }
}

#[inline(always)]
fn one<H: Half, const Z: bool, F: Fn(f32) -> f32>(f: F, a: u16) -> u16 {
    flushed::<Z>(H::narrow(f(H::widen(flushed::<Z>(a)))))
}

#[inline(always)]
fn two<H: Half, const Z: bool, F: Fn(f32, f32) -> f32>(f: F, a: u16, b: u16) -> u16 {
    flushed::<Z>(H::narrow(f(H::widen(flushed::<Z>(a)), H::widen(flushed::<Z>(b)))))
}

#[inline(always)]
fn fused<H: Half, const Z: bool>(a: u16, b: u16, c: u16) -> u16 {
    let w = |x| H::widen(flushed::<Z>(x));
    flushed::<Z>(H::fused(w(a), w(b), w(c)))
}

#[inline(always)]
fn pairwise(a: u32, f: impl Fn(u16) -> u16) -> u32 {
    u32::from(f(a as u16)) | u32::from(f((a >> 16) as u16)) << 16
}

#[inline(always)]
fn pairwise2(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

#[inline(always)]
fn pairwise3(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {
    let high = f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
    u32::from(f(a as u16, b as u16, c as u16)) | u32::from(high) << 16
}

fn single<H: Half + 'static, const Z: bool>(op: FloatOp, t: Target) -> Option<Handler> {
    Some(match op {
        FloatOp::Add => binary(t, |a: u16, b: u16| two::<H, Z, _>(|x, y| x + y, a, b)),
        FloatOp::Sub => binary(t, |a: u16, b: u16| two::<H, Z, _>(|x, y| x - y, a, b)),
        FloatOp::Mul => binary(t, |a: u16, b: u16| two::<H, Z, _>(|x, y| x * y, a, b)),
        FloatOp::Fma => ternary(t, |a: u16, b: u16, c: u16| fused::<H, Z>(a, b, c)),
        FloatOp::FmaRelu => ternary(Rare(t), |a: u16, b: u16, c: u16| relu(fused::<H, Z>(a, b, c))),
        FloatOp::Min => binary(t, |a: u16, b: u16| minimum::<H>(a, b, false, false)),
        FloatOp::Max => binary(t, |a: u16, b: u16| minimum::<H>(a, b, true, false)),
        FloatOp::MinNan => binary(Rare(t), |a: u16, b: u16| minimum::<H>(a, b, false, true)),
        FloatOp::MaxNan => binary(Rare(t), |a: u16, b: u16| minimum::<H>(a, b, true, true)),
        FloatOp::Neg => unary(t, |a: u16| flushed::<Z>(a) ^ 0x8000),
        FloatOp::Abs => unary(t, |a: u16| flushed::<Z>(a) & 0x7fff),
        FloatOp::Ex2 => unary(Rare(t), |a: u16| one::<H, Z, _>(transcendental::exp2, a)),
        FloatOp::Tanh => unary(Rare(t), |a: u16| one::<H, Z, _>(transcendental::tanh, a)),
        _ => return None,
    })
}

fn double<H: Half + 'static, const Z: bool>(op: FloatOp, t: Target) -> Option<Handler> {
    macro_rules! pairs {
        ($f:expr) => {
            binary(t, |a: u32, b: u32| pairwise2(a, b, $f))
        };
    }
    macro_rules! rare_pairs {
        ($f:expr) => {
            binary(Rare(t), |a: u32, b: u32| pairwise2(a, b, $f))
        };
    }
    Some(match op {
        FloatOp::Add => pairs!(|a, b| two::<H, Z, _>(|x, y| x + y, a, b)),
        FloatOp::Sub => pairs!(|a, b| two::<H, Z, _>(|x, y| x - y, a, b)),
        FloatOp::Mul => pairs!(|a, b| two::<H, Z, _>(|x, y| x * y, a, b)),
        FloatOp::Fma => ternary(t, |a: u32, b: u32, c: u32| {
            pairwise3(a, b, c, |a, b, c| fused::<H, Z>(a, b, c))
        }),
        FloatOp::FmaRelu => ternary(Rare(t), |a: u32, b: u32, c: u32| {
            pairwise3(a, b, c, |a, b, c| relu(fused::<H, Z>(a, b, c)))
        }),
        FloatOp::Min => pairs!(|a, b| minimum::<H>(a, b, false, false)),
        FloatOp::Max => pairs!(|a, b| minimum::<H>(a, b, true, false)),
        FloatOp::MinNan => rare_pairs!(|a, b| minimum::<H>(a, b, false, true)),
        FloatOp::MaxNan => rare_pairs!(|a, b| minimum::<H>(a, b, true, true)),
        FloatOp::Neg => unary(t, |a: u32| pairwise(a, |a| flushed::<Z>(a) ^ 0x8000)),
        FloatOp::Abs => unary(t, |a: u32| pairwise(a, |a| flushed::<Z>(a) & 0x7fff)),
        FloatOp::Ex2 => {
            unary(Rare(t), |a: u32| pairwise(a, |a| one::<H, Z, _>(transcendental::exp2, a)))
        }
        FloatOp::Tanh => {
            unary(Rare(t), |a: u32| pairwise(a, |a| one::<H, Z, _>(transcendental::tanh, a)))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_survives_widening() {
        for x in 0..=u16::MAX {
            let wide = widen16(x);
            let expected = if wide.is_nan() { 0x7fff } else { x };
            assert_eq!(narrow16(wide), expected, "{x:#06x}");
            assert_eq!(narrow(f64::from(wide), 5, 10, Round::Near) as u16, expected, "{x:#06x}");
        }
    }

    #[test]
    fn the_fast_conversion_rounds_as_the_general_one() {
        let mut x = 1u32;
        for _ in 0..2_000_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let f = f32::from_bits(x ^ x >> 15);
            assert_eq!(u32::from(narrow16(f)), narrow(f64::from(f), 5, 10, Round::Near), "{f:e}");
            assert_eq!(u32::from(narrow_b16(f)), narrow(f64::from(f), 8, 7, Round::Near), "{f:e}");
        }
    }

    #[test]
    fn narrowing_to_f32_is_the_processors() {
        let mut x = 1u64;
        for i in 0..500_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Mostly exponents near f32's range.
            let exponent = 1023 - 160 + (x >> 40) % 300;
            let bits = if i % 4 == 0 { x } else { x & !(0x7ff << 52) | exponent << 52 };
            let f = f64::from_bits(bits);
            if !f.is_nan() {
                let ours = narrow(f, 8, 23, Round::Near);
                assert_eq!(ours, (f as f32).to_bits(), "{f:e}");
            }
        }
    }

    #[test]
    fn fused_sums_round_once() {
        // 1 + 2^-11 (a tie) + a product far below: only the exact sum is above the tie.
        let c = widen16(0x3c00);
        let tie = narrow(sum_to_odd(2f32.powi(-11), 1.0, c), 5, 10, Round::Near);
        assert_eq!(tie, 0x3c00);
        let c = 2f32.powi(-24) + 0.0;
        let above = narrow(sum_to_odd(c, 2f32.powi(-24), 1.0 + 2f32.powi(-11)), 5, 10, Round::Near);
        assert_eq!(above, 0x3c01);
    }
}
