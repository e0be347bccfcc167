//! Floats of 8, 6 and 4 bits: what each code stands for, and of all codes the one that a number is
//! rounded to. Nothing is computed that can be looked for.

use crate::fixed;
use crate::number::{BF16, F16, F32, F64, Number};
use ptx::ast::{Instruction, Modifier as M, Rounding, ScalarType as T};

/// A format.
#[derive(Clone, Copy)]
struct Narrow {
    bits: u32,
    signed: bool,
    fraction: u32,
    bias: i32,
    /// The code of the largest number, and that of NaN, if there is one.
    most: u64,
    nan: Option<u64>,
}

fn narrow_of(ty: T) -> Option<Narrow> {
    let (bits, signed, fraction, bias, most, nan) = match ty {
        T::E4m3x2 | T::E4m3x4 => (8, true, 3, 7, 0x7e, Some(0x7f)),
        T::E5m2x2 | T::E5m2x4 => (8, true, 2, 15, 0x7b, Some(0x7f)),
        T::E2m3x2 | T::E2m3x4 => (6, true, 3, 1, 0x1f, None),
        T::E3m2x2 | T::E3m2x4 => (6, true, 2, 3, 0x1f, None),
        T::E2m1x2 | T::E2m1x4 => (4, true, 1, 1, 0x7, None),
        T::Ue8m0x2 => (8, false, 0, 127, 0xfe, Some(0xff)),
        T::Ue5m3x2 => (8, false, 3, 15, 0xfe, Some(0xff)),
        _ => return None,
    };
    Some(Narrow { bits, signed, fraction, bias, most, nan })
}

/// True for a pair of such floats, or four.
pub(crate) fn has(ty: T) -> bool {
    narrow_of(ty).is_some()
}

impl Narrow {
    /// The number that a code without a sign stands for, which f64 has exactly.
    fn magnitude(self, code: u64) -> f64 {
        let (exponent, digits) =
            ((code >> self.fraction) as i32, code & ((1 << self.fraction) - 1));
        let digits = digits as f64 / f64::from(1 << self.fraction);
        match exponent {
            // No zero: all codes are powers of two.
            _ if self.fraction == 0 => 2f64.powi(exponent - self.bias),
            0 => digits * 2f64.powi(1 - self.bias),
            _ => (1.0 + digits) * 2f64.powi(exponent - self.bias),
        }
    }

    fn decode(self, code: u64) -> Number {
        let code = code & ((1 << self.bits) - 1);
        let sign = if self.signed { 1 << (self.bits - 1) } else { 0 };
        let magnitude = code & !sign;
        let value = match (magnitude > self.most, self.nan) {
            // e5m2 alone has infinity too: the code behind its largest number.
            (true, Some(_)) if self.fraction == 2 && magnitude == self.most + 1 => f64::INFINITY,
            (true, _) => f64::NAN,
            (false, _) => self.magnitude(magnitude),
        };
        let value = if code & sign != 0 { -value } else { value };
        Number::decode(value.to_bits(), F64)
    }

    fn encode(self, rounding: Rounding, finite: bool, x: f64) -> u64 {
        let too_large = self.nan.unwrap_or(self.most);
        if x.is_nan() {
            return too_large;
        }
        let a = x.abs();
        // The largest number that is not larger, and the next: all numbers ascend with their codes.
        let below = (0..=self.most).rev().find(|&code| self.magnitude(code) <= a);
        let below = below.unwrap_or(0);
        let (low, next) = (self.magnitude(below), self.magnitude(below + 1));
        let code = match rounding {
            _ if a <= low => below,
            Rounding::Rz if a.is_finite() => below,
            Rounding::Rz | Rounding::Rp => below + 1,
            _ if a - low > next - a || (a - low == next - a && below & 1 == 1) => below + 1,
            _ => below,
        };
        let code = match code > self.most {
            true if finite => self.most,
            true => too_large,
            false => code,
        };
        let sign = if self.signed && x.is_sign_negative() { 1 << (self.bits - 1) } else { 0 };
        code | sign
    }
}

/// A number with so many digits behind the first, none of them worth less than those of the exponent
/// `least`: the larger of two if the fraction that is left and a random one are 1 together.
fn at_random(x: f64, (digits, least): (u32, i32), random: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = ((x.to_bits() >> 52) as i32 & 0x7ff) - 1023;
    let place = 2f64.powi(exponent.max(least) - digits as i32);
    ((x.abs() / place + random).floor() * place).copysign(x)
}

/// `cvt.rs` to two halves: 13 or 16 random bits each.
pub(crate) fn halves_at_random(
    inst: &Instruction,
    to: T,
    _: T,
    numbers: &[u64],
    random: Option<u64>,
) -> Option<u64> {
    let (half, digits, least, bits) =
        if to == T::F16x2 { (F16, 10, -14, 13) } else { (BF16, 7, -126, 16) };
    let ([a, b], random) = (numbers, random?) else { return None };
    let one = |bits_of, random: u64| {
        let number = f64::from(f32::from_bits(bits_of as u32));
        let random = (random & ((1 << bits) - 1)) as f64 / f64::from(1 << bits);
        let number = Number::decode(at_random(number, (digits, least), random).to_bits(), F64);
        fixed::half(inst, half, &number, 127)
    };
    Some(one(*a, random >> 16) << 16 | one(*b, random & 0xffff))
}

/// `cvt.rs` to four narrow floats, of which two and two share 16 random bits.
fn four_at_random(inst: &Instruction, format: Narrow, numbers: &[u64], random: u64) -> u64 {
    let byte = |n: u32| random >> (8 * n) & 0xff;
    let (upper, lower) = match format.bits {
        4 => (byte(3) << 8 | byte(1), byte(2) << 8 | byte(0)),
        _ => (random >> 16, random & 0xffff),
    };
    let turned = |bits: u64| u64::from((bits as u16).reverse_bits());
    let all = numbers.iter().zip([turned(upper), upper, turned(lower), lower]);
    all.fold(0, |packed, (bits, random)| {
        let number = f64::from(f32::from_bits(*bits as u32));
        let number = if inst.has(M::Relu) && number <= 0.0 { 0.0 } else { number };
        let place = (format.fraction, 1 - format.bias);
        let number = at_random(number, place, random as f64 / 65536.0);
        packed << format.bits.next_power_of_two() | format.encode(Rounding::Rn, true, number)
    })
}

/// A number divided by what both have for a scale; zero if it is subnormal in its format.
fn divided(number: f64, subnormal: bool, scale: Option<u64>) -> f64 {
    match scale {
        Some(255) => f64::NAN,
        Some(_) if subnormal => 0.0,
        Some(scale) => number / 2f64.powi(scale as i32 - 127),
        None => number,
    }
}

/// `cvt` to or from a pair of such floats, or to four: the sources, and what stands behind them, a
/// scale or random bits.
pub(crate) fn convert(
    inst: &Instruction,
    to: T,
    from: T,
    sources: &[u64],
    scale: Option<u64>,
) -> Option<u64> {
    if let (Some(Rounding::Rs), Some(format)) = (inst.rounding(), narrow_of(to)) {
        return Some(four_at_random(inst, format, sources, scale?));
    }
    let places = |format: Narrow| [if format.bits == 4 { 4 } else { 8 }, 0];
    if let Some(format) = narrow_of(from) {
        let (half, codes) = (if to == T::F16x2 { F16 } else { BF16 }, sources.first()?);
        let one = |at: u32, place: u32| {
            let value = format.decode(codes >> at);
            fixed::half(inst, half, &value, fixed::scale_at(scale, place))
        };
        let [upper, lower] = places(format);
        return Some(one(upper, 8) << 16 | one(lower, 0));
    }
    let format = narrow_of(to)?;
    let numbers = match (from, sources) {
        (T::F32, [a, b]) => [(*a, F32), (*b, F32)],
        (T::F16x2, [a]) => [(a >> 16, F16), (a & 0xffff, F16)],
        (T::Bf16x2, [a]) => [(a >> 16, BF16), (a & 0xffff, BF16)],
        _ => return None,
    };
    let one = |(bits, of)| {
        let exact = Number::decode(bits, of);
        let number = f64::from_bits(exact.encode(F64, crate::number::Round::Near));
        let subnormal = of.flush(bits) != bits;
        let number = divided(number, subnormal, scale);
        let below = exact.negative() && !number.is_nan();
        let number = if inst.has(M::Relu) && below { 0.0 } else { number };
        let rounding = inst.rounding().unwrap_or(Rounding::Rn);
        let code = format.encode(rounding, inst.has(M::Satfinite), number);
        let minus_zero = format.signed && code == 1 << (format.bits - 1);
        if inst.has(M::Pzo) && minus_zero { 0 } else { code }
    };
    let [upper, _] = places(format);
    Some(one(numbers[0]) << upper | one(numbers[1]))
}
