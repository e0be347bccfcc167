//! Transcendental functions (`.approx`): within the manual's error bounds, not the bits of any
//! hardware.
//!
//! Straight-line code over one lane that a vectoriser can take: no branches, no tables, and nothing but
//! f32, where a processor has the most lanes. Sums of products are fused.

use std::f32::consts::{FRAC_2_PI, FRAC_PI_2, LN_2, LOG2_E};

/// Terms of 2^f on [-1/2, 1/2], lowest first, 2^-26.2 off relatively.
pub const EXP2_TERMS: [f32; 7] =
    [1.0, LN_2, 0.240_225_94, 0.055_503_663, 0.009_625_445, 0.001_338_792_7, 0.000_133_324_33];

/// Arguments beyond these have the results of these, zero and infinity.
pub const EXP2_ENDS: [f32; 2] = [-160.0, 130.0];

/// What is taken from a number's bits to make its exponent field that of a mantissa in [3/4, 3/2).
pub const LOG2_FIRST: u32 = 0x3f40_0000;

/// Terms of log2(1 + s) / s on [-1/4, 1/2], lowest first, 2^-26 off.
pub const LOG2_TERMS: [f32; 9] = [
    LOG2_E,
    -0.721_349_36,
    0.480_903_45,
    -0.360_548_2,
    0.288_120_9,
    -0.242_922_3,
    0.217_169_52,
    -0.175_001_31,
    0.078_089_93,
];

/// pi/2 in two parts, each of an f32's precision.
pub const HALF_PI_PARTS: [f32; 2] = [FRAC_PI_2, -4.371_139e-8];

/// Terms of (sin(r) - r) / r^3 in r^2 up to pi/4, lowest first.
pub const SINE_TERMS: [f32; 3] = [-0.166_666_5, 0.008_331_895, -0.000_194_846_33];

/// Terms of cos(r) in r^2 up to pi/4, lowest first.
pub const COSINE_TERMS: [f32; 5] = [1.0, -0.5, 0.041_666_65, -0.001_388_743, 2.444_13e-5];

/// 2 log2(e).
pub const TANH_SCALE: f32 = 2.885_39;
/// Above this the result rounds to 1.
pub const TANH_CAP: f32 = 10.0;
/// Below this two terms of the series do.
pub const TANH_NEAR: f32 = 0.04;
/// The second term's factor.
pub const TANH_THIRD: f32 = 0.333_333_34;

/// A polynomial's value, terms lowest first.
#[inline(always)]
fn polynomial<const N: usize>(terms: [f32; N], x: f32) -> f32 {
    let mut sum = terms[N - 1];
    for n in (0..N - 1).rev() {
        sum = sum.mul_add(x, terms[n]);
    }
    sum
}

/// 2^x, at most 2^-23.6 off relatively.
#[inline(always)]
pub(crate) fn exp2(x: f32) -> f32 {
    let [least, most] = EXP2_ENDS;
    // NaN passes through both comparisons into the polynomial.
    let clamped = if x > most { most } else { x };
    let clamped = if clamped < least { least } else { clamped };
    let whole = clamped.round_ties_even();
    let p = polynomial(EXP2_TERMS, clamped - whole);
    // In two steps, of which only the second can round: to a subnormal number.
    let exponent = whole as i32;
    let half = exponent >> 1;
    let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    p * power(half) * power(exponent - half)
}

/// log2(x), at most 2^-23.6 off, and relatively so beyond [1/2, 2]; near 1 relatively 2^-22.5.
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    const UP: f32 = (1 << 24) as f32;
    let (scaled, back) = if x < f32::MIN_POSITIVE { (x * UP, 24.0) } else { (x, 0.0) };
    let bits = scaled.to_bits();
    let exponent = bits.wrapping_sub(LOG2_FIRST) as i32 >> 23;
    let s = f32::from_bits(bits.wrapping_sub((exponent << 23) as u32)) - 1.0;
    let r = s.mul_add(polynomial(LOG2_TERMS, s), exponent as f32 - back);
    let r = if x == f32::INFINITY { f32::INFINITY } else { r };
    let r = if x == 0.0 { f32::NEG_INFINITY } else { r };
    if x < 0.0 || x.is_nan() { f32::NAN } else { r }
}

/// Reduces to [-pi/4, pi/4]; returns the rest and the quadrant.
#[inline(always)]
fn reduce(x: f32) -> (f32, i32) {
    let k = (x * FRAC_2_PI).round_ties_even();
    let [first, second] = HALF_PI_PARTS;
    let r = k.mul_add(-first, x);
    let r = k.mul_add(-second, r);
    // Far out there is no accuracy left to lose, but results are still at most 1.
    let r = if r > 1.0 { 1.0 } else { r };
    let r = if r < -1.0 { -1.0 } else { r };
    // Only the low bits matter, and those are 0 of what no integer holds, as the processor has it.
    let quadrant = if k.abs() < 2_147_483_648.0 { k as i32 } else { 0 };
    (r, quadrant)
}

#[inline(always)]
fn sine_or_cosine(r: f32, quadrant: i32) -> f32 {
    let z = r * r;
    let sine = (r * z).mul_add(polynomial(SINE_TERMS, z), r);
    let cosine = polynomial(COSINE_TERMS, z);
    let v = if quadrant & 1 == 0 { sine } else { cosine };
    if quadrant & 2 == 0 { v } else { -v }
}

/// sin(x), at most 2^-23.7 off up to 50 000; infinities and NaN give NaN.
#[inline(always)]
pub(crate) fn sin(x: f32) -> f32 {
    let (r, quadrant) = reduce(x);
    // Reduction loses the sign of zero.
    if x == 0.0 { x } else { sine_or_cosine(r, quadrant) }
}

/// cos(x), as [`sin`].
#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    let (r, quadrant) = reduce(x);
    sine_or_cosine(r, quadrant.wrapping_add(1))
}

/// tanh(x), at most 2^-18.4 off relatively; the manual allows 2^-11.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let capped = if a > TANH_CAP { TANH_CAP } else { a };
    let e = exp2(capped * TANH_SCALE);
    let large = 1.0 - 2.0 / (e + 1.0);
    // Near zero the difference cancels.
    let small = a - a * a * a * TANH_THIRD;
    let r = if a < TANH_NEAR { small } else { large };
    let r = if x.is_nan() { x } else { r };
    r.copysign(x)
}

/// The high 32 bits of a double, the low ones zero: what `rcp.approx.ftz.f64` returns.
#[inline(always)]
pub(crate) fn coarse(x: f64) -> f64 {
    let bits = flush64(x).to_bits();
    let nan = f64::from_bits(0x7fff_ffff_0000_0000);
    if x.is_nan() { nan } else { f64::from_bits(bits & 0xffff_ffff_0000_0000) }
}

/// Subnormals become zero of the same sign.
#[inline(always)]
pub(crate) fn flush64(x: f64) -> f64 {
    let bits = x.to_bits();
    f64::from_bits(if bits & 0x7ff0_0000_0000_0000 == 0 { bits & (1 << 63) } else { bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest error over arguments that are `step` apart, in bits; relative where `relative` says so
    /// of the right result.
    fn largest(
        f: fn(f32) -> f32,
        right: fn(f64) -> f64,
        arguments: std::ops::Range<f32>,
        relative: fn(f64) -> bool,
    ) -> f64 {
        let bits = arguments.start.to_bits()..arguments.end.to_bits();
        let error = |x: f32| {
            let right = right(f64::from(x));
            let error = (f64::from(f(x)) - right).abs();
            if relative(right) { error / right.abs() } else { error }
        };
        bits.step_by(251).map(|b| error(f32::from_bits(b))).fold(0.0, f64::max).log2()
    }

    #[test]
    fn errors_are_as_is_said() {
        let exp2_below = |x: f32| exp2(-x);
        assert!(largest(exp2, f64::exp2, 1e-9..127.9, |_| true) < -23.6);
        assert!(largest(exp2_below, |x| (-x).exp2(), 1e-9..126.0, |_| true) < -23.6);
        assert!(largest(log2, f64::log2, 0.5..2.0, |_| false) < -23.59);
        assert!(largest(log2, f64::log2, 0.5..2.0, |right| right != 0.0) < -22.5);
        assert!(largest(log2, f64::log2, 2.0..f32::MAX, |_| true) < -23.6);
        assert!(largest(log2, f64::log2, 1e-45..0.5, |_| true) < -23.6);
        assert!(largest(sin, f64::sin, 1e-9..5e4, |_| false) < -23.7);
        assert!(largest(cos, f64::cos, 1e-9..5e4, |_| false) < -23.7);
        assert!(largest(tanh, f64::tanh, 1e-9..20.0, |_| true) < -18.4);
    }

    #[test]
    fn far_out_sines_are_still_at_most_1() {
        for bits in (1e4f32.to_bits()..f32::INFINITY.to_bits()).step_by(4093) {
            let x = f32::from_bits(bits);
            assert!(sin(x).abs() <= 1.0 && cos(x).abs() <= 1.0, "{x:e}");
        }
    }
}
