//! Exact numbers: an integer times a power of two, rounded to a format once.

use num_bigint::BigUint;

/// A binary floating-point format of IEEE 754's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bits of the exponent's field.
    exponent: u32,
    /// Bits of the fraction's field.
    fraction: u32,
}

pub(crate) const F16: Format = Format { exponent: 5, fraction: 10 };
pub(crate) const BF16: Format = Format { exponent: 8, fraction: 7 };
pub(crate) const F32: Format = Format { exponent: 8, fraction: 23 };
pub(crate) const F64: Format = Format { exponent: 11, fraction: 52 };

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    pub(crate) fn sign(self) -> u64 {
        1 << (self.exponent + self.fraction)
    }

    /// Infinity's bits.
    pub(crate) fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    /// The NaN that operations give.
    pub(crate) fn nan(self) -> u64 {
        match self {
            F64 => 0x7ff8_0000_0000_0000,
            narrower => narrower.sign() - 1,
        }
    }

    /// The exponent of the last place of the smallest numbers.
    fn least(self) -> i32 {
        1 - self.bias() - self.fraction as i32
    }

    /// Subnormal numbers become zero of their sign.
    pub(crate) fn flush(self, bits: u64) -> u64 {
        if bits & self.infinity() == 0 { bits & self.sign() } else { bits }
    }
}

/// Rounding of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Near,
    Zero,
    Down,
    Up,
}

/// What the bits of a format stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Nan,
    Infinite(bool),
    /// `magnitude * 2^exponent`; zero has a sign too.
    Finite {
        negative: bool,
        magnitude: BigUint,
        exponent: i32,
    },
}

impl Number {
    /// From the bits of a format.
    pub(crate) fn decode(bits: u64, format: Format) -> Self {
        let negative = bits & format.sign() != 0;
        let field = (bits & format.infinity()) >> format.fraction;
        let fraction = bits & ((1 << format.fraction) - 1);
        if bits & format.infinity() == format.infinity() {
            return if fraction == 0 { Self::Infinite(negative) } else { Self::Nan };
        }
        let implicit = if field == 0 { 0 } else { 1u64 << format.fraction };
        let exponent = format.least() + (field as i32 - 1).max(0);
        Self::Finite { negative, magnitude: BigUint::from(fraction | implicit), exponent }
    }

    /// From an integer.
    pub(crate) fn integer(value: i128) -> Self {
        let magnitude = BigUint::from(value.unsigned_abs());
        Self::Finite { negative: value < 0, magnitude, exponent: 0 }
    }

    /// To the bits of a format.
    pub(crate) fn encode(&self, format: Format, round: Round) -> u64 {
        let (negative, magnitude, exponent) = match self {
            Self::Nan => return format.nan(),
            Self::Infinite(negative) => {
                return format.infinity() | if *negative { format.sign() } else { 0 };
            }
            Self::Finite { negative, magnitude, exponent } => (*negative, magnitude, *exponent),
        };
        let sign = if negative { format.sign() } else { 0 };
        if *magnitude == BigUint::ZERO {
            return sign;
        }
        // The place of the result's last bit.
        let top = exponent + magnitude.bits() as i32 - 1;
        let last = (top - format.fraction as i32).max(format.least());
        let kept = rounded_to(magnitude, exponent, last, negative, round);
        // A fraction that rounds up to the next power of two carries into the exponent's field,
        // which is the right number.
        let places = (last - format.least()) as u64;
        let kept = u64::try_from(&kept).expect("a fraction has at most 54 bits");
        let bits = (places << format.fraction) + kept;
        if bits < format.infinity() {
            return sign | bits;
        }
        let to_infinity = match round {
            Round::Near => true,
            Round::Zero => false,
            Round::Down => negative,
            Round::Up => !negative,
        };
        sign | if to_infinity { format.infinity() } else { format.infinity() - 1 }
    }

    /// To an integer, rounded; `None` for NaN and infinity.
    pub(crate) fn to_integer(&self, round: Round) -> Option<(bool, BigUint)> {
        let Self::Finite { negative, magnitude, exponent } = self else { return None };
        Some((*negative, rounded_to(magnitude, *exponent, 0, *negative, round)))
    }

    pub(crate) fn is_nan(&self) -> bool {
        *self == Self::Nan
    }

    pub(crate) fn is_zero(&self) -> bool {
        matches!(self, Self::Finite { magnitude, .. } if *magnitude == BigUint::ZERO)
    }

    pub(crate) fn negative(&self) -> bool {
        match self {
            Self::Nan => false,
            Self::Infinite(negative) | Self::Finite { negative, .. } => *negative,
        }
    }

    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Nan => Self::Nan,
            Self::Infinite(negative) => Self::Infinite(!negative),
            Self::Finite { negative, magnitude, exponent } => {
                Self::Finite { negative: !negative, magnitude, exponent }
            }
        }
    }

    /// The sum. An exact zero of unlike signs is positive, but negative when rounding down.
    pub(crate) fn plus(&self, other: &Self, round: Round) -> Self {
        let (a, b) = match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => return Self::Nan,
            (Self::Infinite(a), Self::Infinite(b)) if a != b => return Self::Nan,
            (Self::Infinite(a), _) | (_, Self::Infinite(a)) => return Self::Infinite(*a),
            (
                Self::Finite { negative: sa, magnitude: ma, exponent: ea },
                Self::Finite { negative: sb, magnitude: mb, exponent: eb },
            ) => ((*sa, ma, *ea), (*sb, mb, *eb)),
        };
        let exponent = a.2.min(b.2);
        let (x, y) = (a.1 << (a.2 - exponent) as u32, b.1 << (b.2 - exponent) as u32);
        let (negative, magnitude) = match (a.0 == b.0, x >= y) {
            (true, _) => (a.0, x + y),
            (false, _) if x == y => (round == Round::Down, BigUint::ZERO),
            (false, true) => (a.0, x - y),
            (false, false) => (b.0, y - x),
        };
        Self::Finite { negative, magnitude, exponent }
    }

    /// The product.
    pub(crate) fn times(&self, other: &Self) -> Self {
        let negative = self.negative() != other.negative();
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite(_), x) | (x, Self::Infinite(_)) => {
                if x.is_zero() {
                    Self::Nan
                } else {
                    Self::Infinite(negative)
                }
            }
            (
                Self::Finite { magnitude: x, exponent: ex, .. },
                Self::Finite { magnitude: y, exponent: ey, .. },
            ) => Self::Finite { negative, magnitude: x * y, exponent: ex + ey },
        }
    }

    /// The quotient, to more places than any format has, with a last place that is not zero if
    /// anything was cut off: so it rounds as the exact one would.
    pub(crate) fn over(&self, other: &Self) -> Self {
        let negative = self.negative() != other.negative();
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite(_), Self::Infinite(_)) => Self::Nan,
            (Self::Infinite(_), _) => Self::Infinite(negative),
            (_, Self::Infinite(_)) => {
                Self::Finite { negative, magnitude: BigUint::ZERO, exponent: 0 }
            }
            (a, b) if b.is_zero() => {
                if a.is_zero() {
                    Self::Nan
                } else {
                    Self::Infinite(negative)
                }
            }
            (
                Self::Finite { magnitude: x, exponent: ex, .. },
                Self::Finite { magnitude: y, exponent: ey, .. },
            ) => {
                let shift = (PLACES + y.bits()).saturating_sub(x.bits());
                let x = x << shift;
                let quotient = &x / y;
                let rest = u32::from(&quotient * y != x);
                let exponent = ex - ey - shift as i32 - 1;
                Self::Finite { negative, magnitude: (quotient << 1u32) + rest, exponent }
            }
        }
    }

    /// The square root, likewise.
    pub(crate) fn root(&self) -> Self {
        match self {
            Self::Nan => Self::Nan,
            x if x.is_zero() => x.clone(),
            x if x.negative() => Self::Nan,
            Self::Infinite(_) => Self::Infinite(false),
            Self::Finite { magnitude, exponent, .. } => {
                let mut shift = 2 * PLACES;
                if (exponent - shift as i32) % 2 != 0 {
                    shift += 1;
                }
                let x = magnitude << shift;
                let root = x.sqrt();
                let rest = u32::from(&root * &root != x);
                let exponent = (exponent - shift as i32) / 2 - 1;
                Self::Finite { negative: false, magnitude: (root << 1u32) + rest, exponent }
            }
        }
    }

    /// The order of two numbers; `None` if either is NaN.
    pub(crate) fn compared(&self, other: &Self) -> Option<std::cmp::Ordering> {
        use std::cmp::Ordering;
        let difference = match (self, other) {
            (Self::Infinite(a), Self::Infinite(b)) if a == b => return Some(Ordering::Equal),
            _ => self.plus(&other.clone().negated(), Round::Near),
        };
        match difference {
            Self::Nan => None,
            zero if zero.is_zero() => Some(Ordering::Equal),
            difference if difference.negative() => Some(Ordering::Less),
            _ => Some(Ordering::Greater),
        }
    }
}

/// Bits of a quotient or a root: more than twice those of the widest format.
const PLACES: u64 = 120;

/// `magnitude * 2^exponent` as a multiple of `2^last`.
fn rounded_to(
    magnitude: &BigUint,
    exponent: i32,
    last: i32,
    negative: bool,
    round: Round,
) -> BigUint {
    if last <= exponent {
        return magnitude << (exponent - last) as u32;
    }
    let shift = (last - exponent) as u32;
    let kept = magnitude >> shift;
    let rest = magnitude - (&kept << shift);
    let half = BigUint::from(1u32) << (shift - 1);
    let up = match round {
        Round::Near => rest > half || (rest == half && kept.bit(0)),
        Round::Zero => false,
        Round::Down => negative && rest != BigUint::ZERO,
        Round::Up => !negative && rest != BigUint::ZERO,
    };
    kept + u32::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    fn same(ours: u64, native: f64) {
        if native.is_nan() {
            assert_eq!(ours, F64.nan());
        } else {
            assert_eq!(ours, native.to_bits(), "{native}");
        }
    }

    #[test]
    fn arithmetic_rounded_to_nearest_is_the_processors() {
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let [a, b, c] = [(); 3].map(|()| random.f64_bits());
            let [x, y, z] = [a, b, c].map(f64::from_bits);
            let [m, n, o] = [a, b, c].map(|bits| Number::decode(bits, F64));
            let near = Round::Near;
            same(m.plus(&n, near).encode(F64, near), x + y);
            same(m.times(&n).encode(F64, near), x * y);
            same(m.over(&n).encode(F64, near), x / y);
            same(m.root().encode(F64, near), x.sqrt());
            same(m.times(&n).plus(&o, near).encode(F64, near), x.mul_add(y, z));
            assert_eq!(m.compared(&n), x.partial_cmp(&y));
            let narrow = m.encode(F32, near) as u32;
            assert!(x.is_nan() || narrow == (x as f32).to_bits());
        }
    }

    #[test]
    fn directed_rounding_encloses() {
        let mut random = Random::new(2);
        for _ in 0..5_000 {
            let x = Number::decode(random.f64_bits(), F64);
            for format in [F16, BF16, F32] {
                let to = |round| Number::decode(x.encode(format, round), format);
                let [zero, down, up] = [Round::Zero, Round::Down, Round::Up].map(to);
                let Some(order) = down.compared(&up) else { continue };
                assert!(order.is_le());
                assert!(down.compared(&x).unwrap().is_le() && x.compared(&up).unwrap().is_le());
                assert_eq!(zero, if x.negative() { up } else { down });
            }
        }
    }
}
