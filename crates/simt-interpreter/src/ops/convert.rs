//! `cvt`.
//!
//! Integer results saturate, as PTX asks of float sources; NaN becomes 0, or where f64 or 64-bit
//! results are involved the one value the manual names.

use crate::handler_context::Handler;
use crate::ops::float::{NAN32, flush};
use crate::ops::fp8;
use crate::ops::half;
use crate::ops::map::{Rare, Target, binary, unary};
use simt::ir::op::{Convert, FloatMode, FloatType, IntType, Round, Width};

/// The handler of an integer extension or cut.
pub(crate) fn extend(from: Width, bits: u8, signed: bool, to: Width, t: Target) -> Option<Handler> {
    macro_rules! of {
        ($from:ty, $to:ty, $signed_to:ty) => {
            match (bits, signed) {
                (8, false) => unary(t, |a: $from| a as u8 as $to),
                (8, true) => unary(t, |a: $from| a as u8 as i8 as $signed_to),
                (16, false) => unary(t, |a: $from| a as u16 as $to),
                (16, true) => unary(t, |a: $from| a as u16 as i16 as $signed_to),
                (32, false) => unary(t, |a: $from| a as u32 as $to),
                (32, true) => unary(t, |a: $from| a as u32 as i32 as $signed_to),
                (64, false) => unary(t, |a: $from| a as u64 as $to),
                (64, true) => unary(t, |a: $from| a as u64 as i64 as $signed_to),
                _ => return None,
            }
        };
    }
    Some(match (from, to) {
        (Width::W16, Width::W16) => of!(u16, u16, i16),
        (Width::W16, Width::W32) => of!(u16, u32, i32),
        (Width::W16, Width::W64) => of!(u16, u64, i64),
        (Width::W32, Width::W16) => of!(u32, u16, i16),
        (Width::W32, Width::W32) => of!(u32, u32, i32),
        (Width::W32, Width::W64) => of!(u32, u64, i64),
        (Width::W64, Width::W16) => of!(u64, u16, i16),
        (Width::W64, Width::W32) => of!(u64, u32, i32),
        (Width::W64, Width::W64) => of!(u64, u64, i64),
        (Width::W128, _) if bits == 64 && to == Width::W64 => unary(t, |a: u128| a as u64),
        (_, Width::W128) if from == Width::W64 => unary(t, |a: u64| u128::from(a)),
        _ => return None,
    })
}

/// The handler of a conversion; `None` if there is no such form.
pub(crate) fn handler(op: Convert, t: Target) -> Option<Handler> {
    match op {
        Convert::Float { from, to, mode, relu } => float_to_float(from, to, mode, relu, t),
        Convert::Tf32(round) => tf32(round, t),
        Convert::ToEight { to, round, finite } => fp8::to_eight(to, round, finite, t),
        Convert::FromEight(format) => Some(fp8::from_eight(format, t)),
        Convert::Integral { ty, mode } => integral(ty, mode, t),
        Convert::ToInt { from, bits, signed, round, ftz } => {
            to_int(from, bits, signed, round, ftz, t)
        }
        Convert::FromInt { from, to, mode } => from_int(from, to, mode.round, t),
    }
}

/// `f` with the rounding as a constant of the code, not of the data.
macro_rules! by_round {
    ($round:expr, $r:ident => $handler:expr) => {
        by_round!(@ $round, $r => $handler; Near Zero Down Up NearAway)
    };
    (@ $round:expr, $r:ident => $handler:expr; $($name:ident)*) => {
        match $round {
            $(Round::$name => {
                const $r: Round = Round::$name;
                $handler
            })*
        }
    };
}

/// A result, or where the source is NaN that one's sign and upper digits: unlike arithmetic, the
/// conversion keeps them.
#[inline(always)]
fn with_nan_of(source: f64, result: f32) -> f32 {
    let bits = source.to_bits();
    let nan = (bits >> 32) as u32 & 1 << 31 | 0x7fc0_0000 | (bits >> 29) as u32 & 0x003f_ffff;
    f32::from_bits(if source.is_nan() { nan } else { result.to_bits() })
}

#[inline(always)]
fn canonical(x: f32) -> f32 {
    crate::ops::float::output::<false>(x)
}

fn float_to_float(
    from: FloatType,
    to: FloatType,
    mode: FloatMode,
    relu: bool,
    t: Target,
) -> Option<Handler> {
    use FloatType as F;
    let round = mode.round;
    Some(match (from, to) {
        (F::F32, F::F64) if mode.ftz => unary(t, |a: f32| f64::from(flush(a))),
        (F::F32, F::F64) => unary(t, |a: f32| f64::from(a)),
        (F::F64, F::F32) => match (round, mode.ftz) {
            (Round::Near, false) => unary(t, |a: f64| with_nan_of(a, a as f32)),
            (Round::Near, true) => unary(t, |a: f64| with_nan_of(a, flush(a as f32))),
            (_, false) => by_round!(round, R => {
                unary(Rare(t), |a: f64| with_nan_of(a, f32::from_bits(half::narrow(a, 8, 23, R))))
            }),
            (_, true) => by_round!(round, R => {
                unary(Rare(t), |a: f64| {
                    with_nan_of(a, flush(f32::from_bits(half::narrow(a, 8, 23, R))))
                })
            }),
        },
        // Same format: a copy that may flush (saturation is added by the decoder).
        (F::F32, F::F32) if mode.ftz => unary(t, |a: f32| canonical(flush(a))),
        (F::F32, F::F32) => unary(t, canonical),
        (F::F64, F::F64) => unary(t, |a: f64| a),
        (F::F16, F::F16) | (F::BF16, F::BF16) => unary(t, |a: u16| a),
        (F::F16, F::F32) => unary(t, |a: u16| canonical(half::widen16(a))),
        (F::BF16, F::F32) => unary(t, |a: u16| canonical(half::widen_b16(a))),
        (F::F16, F::F64) => unary(t, |a: u16| f64::from(half::widen16(a))),
        (F::BF16, F::F64) => unary(t, |a: u16| f64::from(half::widen_b16(a))),
        // Hardware does not flush what it makes f16 of, and of bf16 that is made beforehand.
        (F::F32, F::F16 | F::BF16) => return narrow_one(to, round, relu, t),
        (F::F64, F::F16) if !relu => {
            by_round!(round, R => unary(Rare(t), |a: f64| half::narrow(a, 5, 10, R) as u16))
        }
        (F::F64, F::BF16) if !relu => {
            by_round!(round, R => unary(Rare(t), |a: f64| half::narrow(a, 8, 7, R) as u16))
        }
        (F::F16, F::BF16) => by_round!(round, R => {
            unary(Rare(t), |a: u16| half::narrow(f64::from(half::widen16(a)), 8, 7, R) as u16)
        }),
        (F::BF16, F::F16) => by_round!(round, R => {
            unary(Rare(t), |a: u16| half::narrow(f64::from(half::widen_b16(a)), 5, 10, R) as u16)
        }),
        (F::F32, F::F16x2 | F::BF16x2) => return narrow_two(to, round, relu, t),
        _ => return None,
    })
}

/// Negative numbers become 0; NaN stays.
#[inline(always)]
fn relu_of(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

fn narrow_one(to: FloatType, round: Round, relu: bool, t: Target) -> Option<Handler> {
    Some(match (to, round, relu) {
        (FloatType::F16, Round::Near, false) => unary(t, half::narrow16),
        (FloatType::F16, Round::Near, true) => unary(t, |a: f32| half::narrow16(relu_of(a))),
        (FloatType::BF16, Round::Near, false) => unary(t, half::narrow_b16),
        (FloatType::BF16, Round::Near, true) => unary(t, |a: f32| half::narrow_b16(relu_of(a))),
        (FloatType::F16, _, false) => by_round!(round, R => {
            unary(Rare(t), |a: f32| half::narrow(f64::from(a), 5, 10, R) as u16)
        }),
        (FloatType::BF16, _, false) => by_round!(round, R => {
            unary(Rare(t), |a: f32| half::narrow(f64::from(a), 8, 7, R) as u16)
        }),
        (FloatType::F16, ..) => by_round!(round, R => {
            unary(Rare(t), |a: f32| half::narrow(f64::from(relu_of(a)), 5, 10, R) as u16)
        }),
        _ => by_round!(round, R => {
            unary(Rare(t), |a: f32| half::narrow(f64::from(relu_of(a)), 8, 7, R) as u16)
        }),
    })
}

#[inline(always)]
fn pair(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

fn narrow_two(to: FloatType, round: Round, relu: bool, t: Target) -> Option<Handler> {
    let t = Rare(t);
    Some(match (to, round, relu) {
        (FloatType::F16x2, Round::Near, false) => {
            binary(t, |a: f32, b: f32| pair(half::narrow16(a), half::narrow16(b)))
        }
        (FloatType::F16x2, Round::Near, true) => {
            binary(t, |a: f32, b: f32| pair(half::narrow16(relu_of(a)), half::narrow16(relu_of(b))))
        }
        (FloatType::BF16x2, Round::Near, false) => {
            binary(t, |a: f32, b: f32| pair(half::narrow_b16(a), half::narrow_b16(b)))
        }
        (FloatType::BF16x2, Round::Near, true) => binary(t, |a: f32, b: f32| {
            pair(half::narrow_b16(relu_of(a)), half::narrow_b16(relu_of(b)))
        }),
        (FloatType::F16x2, Round::Zero, false) => binary(t, |a: f32, b: f32| {
            let n = |x| half::narrow(f64::from(x), 5, 10, Round::Zero) as u16;
            pair(n(a), n(b))
        }),
        (FloatType::BF16x2, Round::Zero, false) => binary(t, |a: f32, b: f32| {
            let n = |x| half::narrow(f64::from(x), 8, 7, Round::Zero) as u16;
            pair(n(a), n(b))
        }),
        (FloatType::F16x2, Round::Zero, true) => binary(t, |a: f32, b: f32| {
            let n = |x| half::narrow(f64::from(relu_of(x)), 5, 10, Round::Zero) as u16;
            pair(n(a), n(b))
        }),
        (FloatType::BF16x2, Round::Zero, true) => binary(t, |a: f32, b: f32| {
            let n = |x| half::narrow(f64::from(relu_of(x)), 8, 7, Round::Zero) as u16;
            pair(n(a), n(b))
        }),
        _ => return None,
    })
}

/// tf32: f32 with 10 digits of fraction, the rest zero. NaN is f32's cut to that; rounded away from
/// zero it keeps its own digits.
fn tf32(round: Round, t: Target) -> Option<Handler> {
    const DIGITS: u32 = !0x1fff;
    let t = Rare(t);
    Some(by_round!(round, R => unary(t, |a: f32| match a.is_nan() {
        true if R == Round::NearAway => a.to_bits() & DIGITS,
        true => NAN32.to_bits() & DIGITS,
        false => half::narrow(f64::from(a), 8, 10, R) << 13,
    })))
}

#[inline(always)]
fn integral32(x: f32, round: Round) -> f32 {
    match round {
        Round::Near => x.round_ties_even(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
        Round::NearAway => x.round(),
    }
}

#[inline(always)]
fn integral64(x: f64, round: Round) -> f64 {
    match round {
        Round::Near => x.round_ties_even(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
        Round::NearAway => x.round(),
    }
}

fn integral(ty: FloatType, mode: FloatMode, t: Target) -> Option<Handler> {
    let round = mode.round;
    Some(match (ty, mode.ftz) {
        (FloatType::F32, false) => {
            by_round!(round, R => unary(t, |a: f32| canonical(integral32(a, R))))
        }
        (FloatType::F32, true) => {
            by_round!(round, R => unary(Rare(t), |a: f32| canonical(integral32(flush(a), R))))
        }
        (FloatType::F64, _) => by_round!(round, R => unary(t, |a: f64| integral64(a, R))),
        (FloatType::F16, _) => by_round!(round, R => {
            unary(Rare(t), |a: u16| half::narrow16(integral32(half::widen16(a), R)))
        }),
        (FloatType::BF16, _) => by_round!(round, R => {
            unary(Rare(t), |a: u16| half::narrow_b16(integral32(half::widen_b16(a), R)))
        }),
        _ => return None,
    })
}

fn to_int(
    from: FloatType,
    bits: u8,
    signed: bool,
    round: Round,
    ftz: bool,
    t: Target,
) -> Option<Handler> {
    // Narrow results live sign- or zero-extended in 16-bit registers.
    macro_rules! from32 {
        ($to:ty, $register:ty, $nan:expr) => {
            if ftz {
                by_round!(round, R => unary(Rare(t), |a: f32| {
                    let r = integral32(flush(a), R) as $to as $register;
                    if a.is_nan() { $nan as $register } else { r }
                }))
            } else {
                by_round!(round, R => unary(Rare(t), |a: f32| {
                    let r = integral32(a, R) as $to as $register;
                    if a.is_nan() { $nan as $register } else { r }
                }))
            }
        };
    }
    macro_rules! from64 {
        ($to:ty, $register:ty, $nan:expr) => {
            by_round!(round, R => unary(Rare(t), |a: f64| {
                let r = integral64(a, R) as $to as $register;
                if a.is_nan() { $nan as $register } else { r }
            }))
        };
    }
    // The one that C's casts need.
    if (from, bits, signed, round, ftz) == (FloatType::F32, 32, true, Round::Zero, false) {
        // Rust's cast truncates, saturates and takes NaN to 0, all as asked.
        return Some(unary(t, |a: f32| a as i32));
    }
    if (from, bits, signed, round) == (FloatType::F64, 32, true, Round::Zero) {
        return Some(unary(t, |a: f64| if a.is_nan() { i32::MIN } else { a as i32 }));
    }
    // NaN: 0, unless the source is f64 or the result has 64 bits: then the top bit alone.
    Some(match (from, bits, signed) {
        (FloatType::F32, 8, false) => from32!(u8, u16, 0),
        (FloatType::F32, 8, true) => from32!(i8, i16, 0),
        (FloatType::F32, 16, false) => from32!(u16, u16, 0),
        (FloatType::F32, 16, true) => from32!(i16, i16, 0),
        (FloatType::F32, 32, false) => from32!(u32, u32, 0),
        (FloatType::F32, 32, true) => from32!(i32, i32, 0),
        (FloatType::F32, 64, false) => from32!(u64, u64, 1u64 << 63),
        (FloatType::F32, 64, true) => from32!(i64, i64, i64::MIN),
        (FloatType::F64, 8, false) => from64!(u8, u16, 0x80u8),
        (FloatType::F64, 8, true) => from64!(i8, i16, i8::MIN),
        (FloatType::F64, 16, false) => from64!(u16, u16, 0x8000u16),
        (FloatType::F64, 16, true) => from64!(i16, i16, i16::MIN),
        (FloatType::F64, 32, false) => from64!(u32, u32, 1u32 << 31),
        (FloatType::F64, 32, true) => from64!(i32, i32, i32::MIN),
        (FloatType::F64, 64, false) => from64!(u64, u64, 1u64 << 63),
        (FloatType::F64, 64, true) => from64!(i64, i64, i64::MIN),
        _ => return None,
    })
}

/// An integer as the nearest f64 in the direction of odd: exact up to 53 bits, and beyond with
/// the last digit saying that something was dropped, so that a second rounding is the only one.
#[inline(always)]
fn to_odd(magnitude: u64, negative: bool) -> f64 {
    let drop = 11u32.saturating_sub(magnitude.leading_zeros());
    let kept = magnitude >> drop << drop;
    let odd = if kept != magnitude { kept | 1 << drop } else { kept };
    let x = odd as f64;
    if negative { -x } else { x }
}

fn from_int(from: IntType, to: FloatType, round: Round, t: Target) -> Option<Handler> {
    macro_rules! near {
        ($t:ty) => {
            match to {
                FloatType::F32 => return Some(unary(t, |a: $t| a as f32)),
                FloatType::F64 => return Some(unary(t, |a: $t| a as f64)),
                _ => {}
            }
        };
    }
    if round == Round::Near || (to == FloatType::F64 && from.width() == Width::W32) {
        match from {
            IntType::U32 => near!(u32),
            IntType::S32 => near!(i32),
            IntType::U64 => near!(u64),
            IntType::S64 => near!(i64),
            IntType::U16 | IntType::S16 => return None,
        }
    }
    macro_rules! directed {
        ($t:ty, $negative:expr, $magnitude:expr) => {{
            match to {
                FloatType::F32 => by_round!(round, R => unary(Rare(t), |a: $t| {
                    f32::from_bits(half::narrow(to_odd($magnitude(a), $negative(a)), 8, 23, R))
                })),
                FloatType::F16 => by_round!(round, R => unary(Rare(t), |a: $t| {
                    half::narrow(to_odd($magnitude(a), $negative(a)), 5, 10, R) as u16
                })),
                FloatType::BF16 => by_round!(round, R => unary(Rare(t), |a: $t| {
                    half::narrow(to_odd($magnitude(a), $negative(a)), 8, 7, R) as u16
                })),
                FloatType::F64 => by_round!(round, R => unary(Rare(t), |a: $t| {
                    directed64($magnitude(a), $negative(a), R)
                })),
                _ => return None,
            }
        }};
    }
    Some(match from {
        IntType::U32 => directed!(u32, |_| false, u64::from),
        IntType::S32 => {
            directed!(i32, |a: i32| a < 0, |a: i32| u64::from(a.unsigned_abs()))
        }
        IntType::U64 => directed!(u64, |_| false, std::convert::identity),
        IntType::S64 => directed!(i64, |a: i64| a < 0, i64::unsigned_abs),
        IntType::U16 | IntType::S16 => return None,
    })
}

/// A 64-bit integer as an f64, rounded in a direction.
#[inline(always)]
fn directed64(magnitude: u64, negative: bool, round: Round) -> f64 {
    let drop = 11u32.saturating_sub(magnitude.leading_zeros());
    let kept = magnitude >> drop << drop;
    let up = kept != magnitude
        && match round {
            Round::Up => !negative,
            Round::Down => negative,
            _ => false,
        };
    // Exact: 53 digits at most, or the power of two above them.
    let x = kept as f64 + if up { (1u64 << drop) as f64 } else { 0.0 };
    if negative { -x } else { x }
}
