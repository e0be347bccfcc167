//! `.s2f6`: fixed point of eight bits in units of 1/64, and the scales that go with it: powers of
//! two whose exponent is a byte with a bias of 127, 255 for NaN.

use crate::number::{BF16, F32, Format, Number, Round};
use num_bigint::BigUint;
use ptx::ast::{Instruction, Modifier as M, ScalarType as T};

/// Two to the power of `exponent`.
fn power(exponent: i32) -> Number {
    Number::Finite { negative: false, magnitude: BigUint::from(1u8), exponent }
}

/// The byte of a scale that stands at bit `at`; 127, which is one, without scales.
pub(crate) fn scale_at(scale: Option<u64>, at: u32) -> i32 {
    scale.map_or(127, |scale| (scale >> at & 0xff) as i32)
}

/// `cvt` to or from `.s2f6x2`: the sources, without the scale, and the scale.
pub(crate) fn convert(
    inst: &Instruction,
    to: T,
    from: T,
    sources: &[u64],
    scale: Option<u64>,
) -> Option<u64> {
    let pair = |format, high: u64, low: u64| {
        let one = |value, at| u64::from(to_fixed(inst, format, value, scale_at(scale, at)));
        one(high, 8) << 8 | one(low, 0)
    };
    match (to, from, sources) {
        (T::S2f6x2, T::F32, [a, b]) => Some(pair(F32, *a, *b)),
        (T::S2f6x2, T::Bf16x2, [a]) => Some(pair(BF16, a >> 16, a & 0xffff)),
        (T::Bf16x2, T::S2f6x2, [a]) => {
            let one = |at| {
                let units = Number::integer((a >> at) as u8 as i8 as i128).times(&power(-6));
                half(inst, BF16, &units, scale_at(scale, at))
            };
            Some(one(8) << 16 | one(0))
        }
        _ => None,
    }
}

fn to_fixed(inst: &Instruction, format: Format, value: u64, scale: i32) -> u8 {
    let value = Number::decode(value, format);
    if value.is_nan() || scale == 255 {
        return 127;
    }
    let negative = value.negative();
    let units = value.times(&power(6 + 127 - scale)).to_integer(Round::Near);
    let magnitude = units.and_then(|(_, magnitude)| u8::try_from(&magnitude).ok());
    let clamped = match (magnitude, negative) {
        (Some(magnitude), false) => i16::from(magnitude).min(127),
        (Some(magnitude), true) => -i16::from(magnitude).min(128),
        (None, false) => 127,
        (None, true) => -128,
    };
    (if inst.has(M::Relu) { clamped.max(0) } else { clamped }) as u8
}

/// A number times its scale, rounded to a half as the instruction says.
pub(crate) fn half(inst: &Instruction, to: Format, value: &Number, scale: i32) -> u64 {
    if scale == 255 {
        return to.nan();
    }
    let value = value.times(&power(scale - 127));
    if inst.has(M::Relu) && value.negative() {
        return 0;
    }
    let bits = value.encode(to, Round::Near);
    if inst.has(M::Satfinite) && bits & !to.sign() == to.infinity() {
        return bits - 1;
    }
    bits
}
