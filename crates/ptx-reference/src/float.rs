//! Floating-point instructions on the bits of one element.

use crate::number::{BF16, F16, F32, F64, Format, Number, Round};
use num_bigint::BigUint;
use ptx::ast::{Comparison, Instruction, Modifier as M, Opcode, Rounding, ScalarType as T};
use std::cmp::Ordering;

/// The format of a scalar type.
pub(crate) fn format_of(ty: T) -> Option<Format> {
    Some(match ty {
        T::F16 | T::F16x2 => F16,
        T::Bf16 | T::Bf16x2 => BF16,
        T::F32 | T::F32x2 => F32,
        T::F64 => F64,
        _ => return None,
    })
}

fn round_of(inst: &Instruction) -> Round {
    match inst.rounding() {
        Some(Rounding::Rz | Rounding::Rzi) => Round::Zero,
        Some(Rounding::Rm | Rounding::Rmi) => Round::Down,
        Some(Rounding::Rp | Rounding::Rpi) => Round::Up,
        _ => Round::Near,
    }
}

/// The operands of an instruction of mixed precision as f32s: all but the last are of `format`.
pub(crate) fn widen_factors(format: Format, mut values: Vec<u64>) -> Vec<u64> {
    let narrow = values.len().saturating_sub(1);
    for value in &mut values[..narrow] {
        *value = Number::decode(*value, format).encode(F32, Round::Near);
    }
    values
}

/// An arithmetic instruction on elements of a format; `None` if it is not one that has a single
/// right answer.
pub(crate) fn arithmetic(inst: &Instruction, format: Format, sources: &[u64]) -> Option<u64> {
    if inst.has(M::Approx) || inst.has(M::Full) {
        return None;
    }
    let ftz = inst.has(M::Ftz);
    let flush = |bits: u64| if ftz { format.flush(bits) } else { bits };
    let bits: Vec<u64> = sources.iter().map(|bits| flush(*bits)).collect();
    let number = |i: usize| Number::decode(bits[i], format);
    let round = round_of(inst);
    let one = Number::integer(1);
    let exact = match inst.opcode {
        Opcode::Add => number(0).plus(&number(1), round),
        Opcode::Sub => number(0).plus(&number(1).negated(), round),
        Opcode::Mul => number(0).times(&number(1)),
        Opcode::Fma | Opcode::Mad => number(0).times(&number(1)).plus(&number(2), round),
        Opcode::Div => number(0).over(&number(1)),
        Opcode::Rcp => one.over(&number(0)),
        Opcode::Sqrt => number(0).root(),
        // On the bits: a NaN keeps its sign where it is one.
        Opcode::Neg | Opcode::Abs | Opcode::Copysign => {
            let sign = top(format);
            return Some(match inst.opcode {
                Opcode::Neg => bits[0] ^ sign,
                Opcode::Abs => bits[0] & !sign,
                _ => bits[1] & !sign | bits[0] & sign,
            });
        }
        Opcode::Min | Opcode::Max => return Some(extreme(inst, format, &bits)),
        _ => return None,
    };
    let mut result = flush(exact.encode(format, round));
    if inst.has(M::Sat) {
        result = saturated(result, format);
    }
    if inst.has(M::Relu) && (exact.is_nan() || exact.negative()) {
        result = if exact.is_nan() { format.nan() } else { 0 };
    }
    Some(result)
}

/// `a + b` of an atomic addition, rounded to nearest.
pub(crate) fn sum(format: Format, a: u64, b: u64) -> u64 {
    // Only the format's bits.
    let number = |bits| Number::decode(bits & (top(format) | (top(format) - 1)), format);
    number(a).plus(&number(b), Round::Near).encode(format, Round::Near)
}

/// The sign bit.
fn top(format: Format) -> u64 {
    1 << (format.infinity().ilog2() + 1)
}

/// Clamped to [0, 1]; NaN becomes 0.
fn saturated(bits: u64, format: Format) -> u64 {
    let x = Number::decode(bits, format);
    let one = Number::integer(1);
    if x.is_nan() || x.negative() {
        0
    } else if x.compared(&one) == Some(Ordering::Greater) {
        one.encode(format, Round::Near)
    } else {
        bits
    }
}

/// `min` and `max` of two or three, of magnitudes or not.
fn extreme(inst: &Instruction, format: Format, bits: &[u64]) -> u64 {
    let sign = top(format);
    let magnitude = |bits: u64| if inst.has(M::Abs) { bits & !sign } else { bits };
    let first = magnitude(bits[0]);
    let result =
        bits[1..].iter().fold(first, |a, b| extreme_of_two(inst, format, [a, magnitude(*b)]));
    // NaN has no sign.
    if inst.has(M::Xorsign) && !Number::decode(result, format).is_nan() {
        return result | (bits[0] ^ bits[1]) & sign;
    }
    result
}

fn extreme_of_two(inst: &Instruction, format: Format, bits: [u64; 2]) -> u64 {
    let (a, b) = (Number::decode(bits[0], format), Number::decode(bits[1], format));
    let largest = inst.opcode == Opcode::Max;
    match a.compared(&b) {
        None if inst.has(M::NaN) || (a.is_nan() && b.is_nan()) => format.nan(),
        None => bits[usize::from(a.is_nan())],
        // Of two zeros the positive one is the larger.
        Some(Ordering::Equal) => bits[usize::from(a.negative() == largest)],
        Some(order) => bits[usize::from((order == Ordering::Greater) != largest)],
    }
}

/// `testp`.
pub(crate) fn test(inst: &Instruction, format: Format, bits: u64) -> Option<bool> {
    let x = Number::decode(bits, format);
    let subnormal = format.flush(bits) != bits;
    let finite = matches!(x, Number::Finite { .. });
    inst.modifiers.iter().find_map(|modifier| {
        Some(match modifier {
            M::Finite => finite,
            M::Infinite => matches!(x, Number::Infinite(_)),
            M::Number => !x.is_nan(),
            M::Notanumber => x.is_nan(),
            // The manual counts zeros among normal numbers.
            M::Normal => finite && !subnormal,
            M::Subnormal => subnormal,
            _ => return None,
        })
    })
}

/// A comparison of floats.
pub(crate) fn compare(
    comparison: Comparison,
    format: Format,
    ftz: bool,
    a: u64,
    b: u64,
) -> Option<bool> {
    use Comparison as C;
    let number = |bits| Number::decode(if ftz { format.flush(bits) } else { bits }, format);
    let order = number(a).compared(&number(b));
    let is = |wanted: &[Ordering]| order.is_some_and(|order| wanted.contains(&order));
    let unordered = order.is_none();
    const LESS: Ordering = Ordering::Less;
    const EQUAL: Ordering = Ordering::Equal;
    const MORE: Ordering = Ordering::Greater;
    Some(match comparison {
        C::Eq => is(&[EQUAL]),
        C::Ne => is(&[LESS, MORE]),
        C::Lt => is(&[LESS]),
        C::Le => is(&[LESS, EQUAL]),
        C::Gt => is(&[MORE]),
        C::Ge => is(&[MORE, EQUAL]),
        C::Equ => unordered || is(&[EQUAL]),
        C::Neu => unordered || is(&[LESS, MORE]),
        C::Ltu => unordered || is(&[LESS]),
        C::Leu => unordered || is(&[LESS, EQUAL]),
        C::Gtu => unordered || is(&[MORE]),
        C::Geu => unordered || is(&[MORE, EQUAL]),
        C::Num => !unordered,
        C::Nan => unordered,
        C::Lo | C::Ls | C::Hi | C::Hs => return None,
    })
}

/// `cvt` with a float on at least one side; the result in the low bits, integers sign-extended as
/// their type says.
pub(crate) fn convert(inst: &Instruction, to: T, from: T, value: u64) -> Option<u64> {
    if inst.has(M::Satfinite) || inst.has(M::Scaled) || to == T::Tf32 {
        return None;
    }
    let round = round_of(inst);
    let ftz = inst.has(M::Ftz);
    // To the same type, unrounded, is a move but for f32: a NaN keeps its bits.
    let changes = [M::Ftz, M::Sat, M::Relu, M::Pzo].into_iter().any(|modifier| inst.has(modifier));
    if to == from && to != T::F32 && inst.rounding().is_none() && !changes {
        return Some(value);
    }
    let flushed = |format: Format, bits: u64| {
        if ftz && format == F32 { format.flush(bits) } else { bits }
    };
    match (format_of(to), format_of(from)) {
        (Some(to), Some(from)) => {
            // Sources of halves are not flushed. What hardware does with subnormal bf16 is not known.
            if ftz && from == BF16 {
                return None;
            }
            let bits = if to == F16 { value } else { flushed(from, value) };
            let mut x = Number::decode(bits, from);
            let integral = matches!(
                inst.rounding(),
                Some(Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi)
            );
            if integral && let Some((negative, magnitude)) = x.to_integer(round) {
                x = Number::Finite { negative, magnitude, exponent: 0 };
            }
            let mut result = flushed(to, x.encode(to, round));
            if inst.has(M::Sat) {
                result = saturated(result, to);
            }
            let minus_zero = inst.has(M::Pzo) && result == to.sign();
            if minus_zero || inst.has(M::Relu) && x.negative() {
                result = 0;
            }
            Some(result)
        }
        (None, Some(from)) => {
            let x = Number::decode(flushed(from, value), from);
            Some(to_integer(&x, to, from == F64, round))
        }
        (Some(to), None) => {
            let value = if from.is_signed() {
                i128::from(crate::integer::signed(value, from.bits()))
            } else {
                i128::from(crate::integer::unsigned(value, from.bits()))
            };
            let result = Number::integer(value).encode(to, round);
            Some(if inst.has(M::Sat) { saturated(result, to) } else { result })
        }
        (None, None) => None,
    }
}

/// To the nearest integer that the type has. NaN is the top bit alone where the source is f64 or
/// the result has 64 bits, else 0.
fn to_integer(x: &Number, ty: T, from_f64: bool, round: Round) -> u64 {
    let bits = ty.bits();
    let (least, most): (i128, i128) = if ty.is_signed() {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    };
    let value = match (x, x.to_integer(round)) {
        (Number::Nan, _) if bits == 64 || from_f64 => 1 << (bits - 1),
        (Number::Nan, _) => 0,
        (Number::Infinite(negative), _) => {
            if *negative {
                least
            } else {
                most
            }
        }
        (_, Some((negative, magnitude))) => {
            // Larger than any type's.
            let magnitude = magnitude.min(BigUint::from(1u128 << 100));
            let magnitude = i128::try_from(magnitude).expect("under 2^101");
            (if negative { -magnitude } else { magnitude }).clamp(least, most)
        }
        (_, None) => 0,
    };
    value as u64
}
