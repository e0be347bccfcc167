//! Narrow floats (8 bits and fewer). Every one is an f32, so only narrowing rounds.

use crate::handler_context::Handler;
use crate::ops::half::widen16;
use crate::ops::map::{Rare, Target, unary};
use simt::ir::op::{Fp8, Round};

/// What the bits of a format mean.
struct Layout {
    /// Digits behind the point, and what the exponent is biased by.
    digits: u32,
    bias: u32,
    /// The largest number, and what NaN becomes: the largest number too, of formats without it.
    most: u8,
    nan: u8,
    /// The sign, 0 if there is none.
    sign: u8,
}

const fn layout(format: Fp8) -> Layout {
    let (digits, bias, most, nan, sign) = match format {
        Fp8::E4M3 => (3, 7, 0x7e, 0x7f, 0x80),
        Fp8::E5M2 => (2, 15, 0x7b, 0x7f, 0x80),
        Fp8::E2M3 => (3, 1, 0x1f, 0x1f, 0x20),
        Fp8::E3M2 => (2, 3, 0x1f, 0x1f, 0x20),
        Fp8::E2M1 => (1, 1, 0x07, 0x07, 0x08),
        Fp8::UE8M0 => (0, 127, 0xfe, 0xff, 0),
        Fp8::UE5M3 => (3, 15, 0xfe, 0xff, 0),
    };
    Layout { digits, bias, most, nan, sign }
}

/// 2^-127, ue8m0's smallest number, which stands where others have zero.
const LEAST_UE8M0: f32 = f32::from_bits(0x0040_0000);

/// The number that the low bits are.
#[inline(always)]
pub(crate) fn widen(format: Fp8, x: u8) -> f32 {
    let Layout { digits, bias, most, nan, sign } = layout(format);
    let magnitude = x & if sign == 0 { 0xff } else { sign - 1 };
    let negative = x & sign != 0;
    let value = match format {
        // Infinities are an f16's.
        Fp8::E5M2 => return widen16(u16::from(x) << 8),
        Fp8::UE8M0 if x == 0 => LEAST_UE8M0,
        _ if nan > most && magnitude == nan => f32::from_bits(0x7fff_ffff),
        // As in `widen16`: digits in place, the bias put right by an exact multiplication.
        _ => {
            let digits = f32::from_bits(u32::from(magnitude) << (23 - digits));
            digits * f32::from_bits((254 - bias) << 23)
        }
    };
    f32::from_bits(value.to_bits() | u32::from(negative) << 31)
}

/// The nearest number by the rounding, of its magnitude if the format has no sign.
#[inline(always)]
fn narrow(format: Fp8, round: Round, finite: bool, x: f32) -> u8 {
    let Layout { digits, bias, most, nan, sign } = layout(format);
    if x.is_nan() {
        return nan;
    }
    let a = x.abs();
    let magnitude = if format == Fp8::UE8M0 && a <= LEAST_UE8M0 {
        0
    } else if a < f32::from_bits((128 - bias) << 23) {
        // Subnormals are multiples of one number, and so is the first above them.
        let multiple = a * f32::from_bits((126 + bias + digits) << 23);
        (match round {
            Round::Zero => multiple.floor(),
            Round::Up => multiple.ceil(),
            _ => multiple.round_ties_even(),
        }) as u32
    } else {
        let (bits, drop) = (a.to_bits(), 23 - digits);
        let added = match round {
            Round::Zero => 0,
            Round::Up => (1 << drop) - 1,
            _ => (1 << (drop - 1)) - 1 + (bits >> drop & 1),
        };
        ((bits + added) >> drop) - ((127 - bias) << digits)
    };
    let magnitude = match u8::try_from(magnitude) {
        Ok(magnitude) if magnitude <= most => magnitude,
        _ if finite || round == Round::Zero && a.is_finite() => most,
        _ => nan,
    };
    magnitude | if x.is_sign_negative() { sign } else { 0 }
}

/// The handler of a conversion from f32; `None` for a rounding that the format does not have.
pub(crate) fn to_eight(to: Fp8, round: Round, finite: bool, t: Target) -> Option<Handler> {
    macro_rules! one_of {
        ($($format:ident $round:ident $finite:literal,)*) => {
            match (to, round, finite) {
                $((Fp8::$format, Round::$round, $finite) => unary(Rare(t), |a: f32| {
                    u16::from(narrow(Fp8::$format, Round::$round, $finite, a))
                }),)*
                _ => return None,
            }
        };
    }
    Some(one_of! {
        E4M3 Near true, E4M3 Zero true,
        E5M2 Near true, E5M2 Zero true,
        E2M3 Near true, E2M3 Zero true,
        E3M2 Near true, E3M2 Zero true,
        E2M1 Near true, E2M1 Zero true,
        UE8M0 Zero true, UE8M0 Zero false, UE8M0 Up true, UE8M0 Up false,
        UE5M3 Near true, UE5M3 Near false, UE5M3 Zero true, UE5M3 Zero false,
        UE5M3 Up true, UE5M3 Up false,
    })
}

/// The handler of a conversion to f32.
pub(crate) fn from_eight(format: Fp8, t: Target) -> Handler {
    macro_rules! one_of {
        ($($format:ident)*) => {
            match format {
                $(Fp8::$format => {
                    unary(Rare(t), |a: u16| widen(Fp8::$format, a as u8))
                })*
            }
        };
    }
    one_of!(E4M3 E5M2 E2M3 E3M2 E2M1 UE8M0 UE5M3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Fp8; 7] =
        [Fp8::E4M3, Fp8::E5M2, Fp8::E2M3, Fp8::E3M2, Fp8::E2M1, Fp8::UE8M0, Fp8::UE5M3];

    /// What the formats' definitions give, without the bits of an f32.
    fn defined(format: Fp8, x: u8) -> f64 {
        let Layout { digits, bias, sign, .. } = layout(format);
        if format == Fp8::UE8M0 {
            return 2f64.powi(i32::from(x) - 127);
        }
        let magnitude = x & sign.wrapping_sub(1);
        let fraction = f64::from(magnitude & ((1 << digits) - 1)) / f64::from(1 << digits);
        let magnitude = match i32::from(magnitude) >> digits {
            0 => fraction * 2f64.powi(1 - bias as i32),
            exponent => (1.0 + fraction) * 2f64.powi(exponent - bias as i32),
        };
        if x & sign != 0 { -magnitude } else { magnitude }
    }

    #[test]
    fn widening_is_what_the_formats_say() {
        for format in ALL {
            let Layout { most, nan, sign, .. } = layout(format);
            for x in 0..=0xffu8 {
                let magnitude = x & sign.wrapping_sub(1);
                if magnitude == nan && nan > most {
                    assert!(widen(format, x).is_nan(), "{format:?} {x:#x}");
                } else if magnitude <= most {
                    let value = f64::from(widen(format, x));
                    assert_eq!(value.to_bits(), defined(format, x).to_bits(), "{format:?} {x:#x}");
                }
            }
        }
        assert_eq!(widen(Fp8::E5M2, 0xfc), f32::NEG_INFINITY);
    }

    /// Every number and every point half way to the next goes where it must.
    #[test]
    fn narrowing_goes_to_the_next_number_by_the_rounding() {
        for format in ALL {
            let Layout { most, sign, .. } = layout(format);
            let roundings = match format {
                Fp8::UE8M0 => &[Round::Zero, Round::Up][..],
                Fp8::UE5M3 => &[Round::Near, Round::Zero, Round::Up],
                _ => &[Round::Near, Round::Zero],
            };
            for &round in roundings {
                let to = |x| narrow(format, round, true, x);
                for x in 0..most {
                    let (this, next) = (widen(format, x), widen(format, x + 1));
                    let middle = (this + next) / 2.0;
                    let even = if x & 1 == 0 { x } else { x + 1 };
                    let below = f32::from_bits(middle.to_bits() - 1);
                    let above = f32::from_bits(middle.to_bits() + 1);
                    let expected = match round {
                        Round::Zero => [x; 3],
                        Round::Up => [x + 1; 3],
                        _ => [x, even, x + 1],
                    };
                    assert_eq!([below, middle, above].map(to), expected, "{format:?} {x:#x}");
                    assert_eq!([to(this), to(-this)], [x, x | sign], "{format:?} {x:#x}");
                }
                assert_eq!(to(f32::NEG_INFINITY), most | sign);
                assert_eq!(to(f32::MAX), most);
            }
        }
    }

    #[test]
    fn what_is_too_large_is_finite_or_nan() {
        let nan = [f32::NAN, -f32::NAN];
        for format in [Fp8::E2M3, Fp8::E3M2, Fp8::E2M1] {
            let most = layout(format).most;
            assert_eq!(nan.map(|x| narrow(format, Round::Near, true, x)), [most; 2]);
        }
        let infinite = |format, round, finite| narrow(format, round, finite, f32::INFINITY);
        for format in [Fp8::UE8M0, Fp8::UE5M3] {
            assert_eq!(nan.map(|x| narrow(format, Round::Zero, true, x)), [0xff; 2]);
            for round in [Round::Zero, Round::Up] {
                assert_eq!(infinite(format, round, true), 0xfe);
                assert_eq!(infinite(format, round, false), 0xff);
            }
        }
        // Half way behind the largest number, 114688, is still that.
        let near = |x| narrow(Fp8::UE5M3, Round::Near, false, x);
        assert_eq!([near(118_784.0), near(118_785.0)], [0xfe, 0xff]);
        let towards_zero = narrow(Fp8::UE5M3, Round::Zero, false, 1e30);
        assert_eq!(towards_zero, 0xfe);
        assert_eq!(narrow(Fp8::UE8M0, Round::Up, false, f32::MAX), 0xff);
    }
}
