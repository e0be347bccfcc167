//! The `.approx` functions: within the manual's error bounds, not the bits of any hardware.
//!
//! Straight-line code over one lane that a vectoriser can take: no branches, no tables, double
//! precision inside where that buys the bound cheaply.

/// Taylor terms of 2^f on [-1/2, 1/2], lowest first; the first omitted one is under 2^-27. Each
/// product and sum is rounded on its own.
pub const EXP2_TERMS: [f64; 8] = [
    1.0,
    std::f64::consts::LN_2,
    0.240_226_506_959_100_7,
    0.055_504_108_664_821_58,
    0.009_618_129_107_628_477,
    0.001_333_355_814_642_844_3,
    0.000_154_035_303_933_816_1,
    0.000_015_252_733_804_059_84,
];

/// What is taken from a double's bits to make its exponent field that of a mantissa in
/// [sqrt(1/2), sqrt(2)).
pub const LOG2_FIRST: u64 = 0x3fe6_a09e_667f_3bcd;

/// Terms of log2((1 + s) / (1 - s)) / s in s^2, lowest first. |s| < 0.1716, so the first omitted
/// one is under 2^-33.
pub const LOG2_TERMS: [f64; 6] = [
    2.885_390_081_777_926_8,
    0.961_796_693_925_975_6,
    0.577_078_016_355_585_3,
    0.412_198_583_111_132_4,
    0.320_598_897_975_325_2,
    0.262_308_189_252_538_8,
];

/// pi/2 in two parts: the first has trailing zeros, so that k times it is exact for k < 2^20.
pub const HALF_PI_PARTS: [f64; 2] = [1.570_796_326_734_125_6, 6.077_100_506_506_192e-11];

/// Terms of (sin(r) - r) / r^3 in r^2, lowest first.
pub const SINE_TERMS: [f64; 5] = [
    -0.166_666_666_666_666_66,
    0.008_333_333_333_333_333,
    -0.000_198_412_698_412_698_4,
    2.755_731_922_398_589e-6,
    -2.505_210_838_544_172e-8,
];

/// Terms of cos(r) in r^2, lowest first.
pub const COSINE_TERMS: [f64; 6] = [
    1.0,
    -0.5,
    0.041_666_666_666_666_664,
    -0.001_388_888_888_888_889,
    2.480_158_730_158_73e-5,
    -2.755_731_922_398_589e-7,
];

/// 2 log2(e).
pub const TANH_SCALE: f32 = 2.885_39;
/// Above this the result rounds to 1.
pub const TANH_CAP: f32 = 10.0;
/// Below this two terms of the series do.
pub const TANH_NEAR: f32 = 0.04;
/// The second term's factor.
pub const TANH_THIRD: f32 = 0.333_333_34;

/// 2^x; at most 1 ulp off in f32.
#[inline(always)]
pub(super) fn exp2(x: f32) -> f32 {
    // Beyond these everything is infinite or zero; the clamp keeps the exponent in range. NaN
    // passes through both comparisons into the polynomial.
    let clamped = if x > 200.0 { 200.0 } else { x };
    let clamped = if clamped < -200.0 { -200.0 } else { clamped };
    let x64 = f64::from(clamped);
    let whole = x64.round_ties_even();
    let f = x64 - whole;
    let [a, b, c, d, e, g, h, i] = EXP2_TERMS;
    let p = a + f * (b + f * (c + f * (d + f * (e + f * (g + f * (h + f * i))))));
    let exponent = (whole as i32 + 1023) as u64;
    (p * f64::from_bits(exponent << 52)) as f32
}

/// log2(x).
#[inline(always)]
pub(super) fn log2(x: f32) -> f32 {
    let wide = f64::from(x);
    let bits = wide.to_bits();
    // Mantissa in [sqrt(1/2), sqrt(2)), so that the series is centred.
    let offset = bits.wrapping_sub(LOG2_FIRST);
    let exponent = (offset as i64) >> 52;
    let m = f64::from_bits(bits.wrapping_sub((exponent << 52) as u64));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let [a, b, c, d, e, g] = LOG2_TERMS;
    let series = s * (a + z * (b + z * (c + z * (d + z * (e + z * g)))));
    let r = (exponent as i32) as f64 + series;
    let r = if x == f32::INFINITY { f64::INFINITY } else { r };
    let r = if x == 0.0 { f64::NEG_INFINITY } else { r };
    let r = if x < 0.0 || x.is_nan() { f64::NAN } else { r };
    r as f32
}

/// Reduces to [-pi/4, pi/4]; returns the rest and the quadrant.
#[inline(always)]
fn reduce(x: f32) -> (f64, i32) {
    let wide = f64::from(x);
    let k = (wide * std::f64::consts::FRAC_2_PI).round_ties_even();
    let [first, second] = HALF_PI_PARTS;
    let r = k.mul_add(-first, wide);
    let r = k.mul_add(-second, r);
    // Only the low bits matter; larger arguments have no accuracy left to lose.
    let quadrant = (k - (k * 0.25).floor() * 4.0) as i32;
    (r, quadrant)
}

#[inline(always)]
fn sine_or_cosine(r: f64, quadrant: i32) -> f32 {
    let z = r * r;
    let [a, b, c, d, e] = SINE_TERMS;
    let sine = r + r * z * (a + z * (b + z * (c + z * (d + z * e))));
    let [a, b, c, d, e, g] = COSINE_TERMS;
    let cosine = a + z * (b + z * (c + z * (d + z * (e + z * g))));
    let v = if quadrant & 1 == 0 { sine } else { cosine };
    (if quadrant & 2 == 0 { v } else { -v }) as f32
}

/// sin(x); infinities and NaN give NaN.
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    let (r, quadrant) = reduce(x);
    // The series would lose the sign of zero.
    if x == 0.0 { x } else { sine_or_cosine(r, quadrant) }
}

/// cos(x); infinities and NaN give NaN.
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    let (r, quadrant) = reduce(x);
    sine_or_cosine(r, quadrant.wrapping_add(1))
}

/// tanh(x), far within the manual's relative error of 2^-11.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
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
pub(super) fn coarse(x: f64) -> f64 {
    let bits = flush64(x).to_bits();
    let nan = f64::from_bits(0x7fff_ffff_0000_0000);
    if x.is_nan() { nan } else { f64::from_bits(bits & 0xffff_ffff_0000_0000) }
}

/// Subnormals become zero of the same sign.
#[inline(always)]
pub(super) fn flush64(x: f64) -> f64 {
    let bits = x.to_bits();
    f64::from_bits(if bits & 0x7ff0_0000_0000_0000 == 0 { bits & (1 << 63) } else { bits })
}
