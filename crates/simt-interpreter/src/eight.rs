//! Floats of 8 bits. Every one is an f32, so only narrowing rounds.

use super::half::{narrow, widen16};
use super::lanes::{Rare, Target, unary};
use super::machine::Handler;
use simt::op::{Eight, Round};

/// e4m3's largest number, 448; above it is only NaN.
const MOST_E4M3: u8 = 0x7e;
/// e5m2's largest finite number, 57344.
const MOST_E5M2: u8 = 0x7b;
/// NaN of either.
const NAN: u8 = 0x7f;

/// e4m3: bias 7, no infinities, one NaN of each sign.
#[inline(always)]
pub(super) fn widen_e4m3(x: u8) -> f32 {
    let sign = u32::from(x & 0x80) << 24;
    let magnitude = u32::from(x & 0x7f);
    // As in `widen16`: digits in place, the bias put right by an exact multiplication.
    let scaled = f32::from_bits(magnitude << 20) * f32::from_bits((127 + 120) << 23);
    let bits = if magnitude == 0x7f { 0x7fff_ffff } else { scaled.to_bits() };
    f32::from_bits(bits | sign)
}

/// e5m2: the upper half of an f16.
#[inline(always)]
pub(super) fn widen_e5m2(x: u8) -> f32 {
    widen16(u16::from(x) << 8)
}

/// Nearest even, what is too large to the largest.
fn narrow_e4m3(x: f32) -> u8 {
    if x.is_nan() {
        return NAN;
    }
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let a = x.abs();
    let magnitude = if a > widen_e4m3(MOST_E4M3) {
        MOST_E4M3
    } else if a < 2f32.powi(-6) {
        // Subnormals are multiples of 2^-9, and so is the first number above them.
        (a * 2f32.powi(9)).round_ties_even() as u8
    } else {
        let bits = a.to_bits();
        let rounded = bits + 0x7_ffff + (bits >> 20 & 1);
        ((rounded >> 20) - ((127 - 7) << 3)) as u8
    };
    magnitude | sign
}

/// Nearest even, what is too large, infinities too, to the largest finite.
fn narrow_e5m2(x: f32) -> u8 {
    if x.is_nan() {
        return NAN;
    }
    let bits = narrow(f64::from(x), 5, 2, Round::Near) as u8;
    if bits & 0x7f > MOST_E5M2 { bits & 0x80 | MOST_E5M2 } else { bits }
}

/// The handler of a conversion from f32.
pub(super) fn to_eight(format: Eight, t: Target) -> Handler {
    match format {
        Eight::E4M3 => unary(Rare(t), |a: f32| u16::from(narrow_e4m3(a))),
        Eight::E5M2 => unary(Rare(t), |a: f32| u16::from(narrow_e5m2(a))),
    }
}

/// The handler of a conversion to f32.
pub(super) fn from_eight(format: Eight, t: Target) -> Handler {
    match format {
        Eight::E4M3 => unary(Rare(t), |a: u16| widen_e4m3(a as u8)),
        Eight::E5M2 => unary(Rare(t), |a: u16| widen_e5m2(a as u8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the formats' definitions give, without the bits of an f32.
    fn defined(x: u8, exponent_bits: i32, digits: i32) -> f32 {
        let bias = (1 << (exponent_bits - 1)) - 1;
        let exponent = i32::from(x & 0x7f) >> digits;
        let fraction = f32::from(x & ((1 << digits) - 1)) / (1 << digits) as f32;
        let magnitude = match exponent {
            0 => fraction * 2f32.powi(1 - bias),
            _ => (1.0 + fraction) * 2f32.powi(exponent - bias),
        };
        if x & 0x80 != 0 { -magnitude } else { magnitude }
    }

    #[test]
    fn widening_is_what_the_formats_say() {
        for x in 0..=0xffu8 {
            if x & 0x7f == 0x7f {
                assert!(widen_e4m3(x).is_nan());
            } else {
                assert_eq!(widen_e4m3(x).to_bits(), defined(x, 4, 3).to_bits(), "{x:#x}");
            }
            if x & 0x7f <= MOST_E5M2 {
                assert_eq!(widen_e5m2(x).to_bits(), defined(x, 5, 2).to_bits(), "{x:#x}");
            }
        }
    }

    /// Every number and every point half way to the next goes where it must.
    #[test]
    fn narrowing_rounds_to_the_nearest_and_then_to_even() {
        type Format = (u8, fn(u8) -> f32, fn(f32) -> u8);
        let formats: [Format; 2] =
            [(MOST_E4M3, widen_e4m3, narrow_e4m3), (MOST_E5M2, widen_e5m2, narrow_e5m2)];
        for (most, widen, narrow) in formats {
            for x in 0..most {
                let (this, next) = (widen(x), widen(x + 1));
                let middle = (this + next) / 2.0;
                let even = if x & 1 == 0 { x } else { x + 1 };
                assert_eq!(narrow(this), x);
                assert_eq!(narrow(-this), x | 0x80);
                assert_eq!(narrow(middle), even, "{x:#x}");
                assert_eq!(narrow(f32::from_bits(middle.to_bits() - 1)), x, "{x:#x}");
                assert_eq!(narrow(f32::from_bits(middle.to_bits() + 1)), x + 1, "{x:#x}");
            }
            assert_eq!([narrow(1e9), narrow(f32::NEG_INFINITY)], [most, most | 0x80]);
            assert_eq!(narrow(f32::NAN), NAN);
        }
    }
}
