//! Compares what the device computed with what the CPU did, and condenses it to a checksum.
//!
//! The checksum is FNV-1a over the device's results. Results that are exact by definition enter it
//! as they are. Results of approximate functions (reciprocal square root, exponential) differ
//! between devices in their last bits; they enter it rounded to a coarse step, and those whose
//! reference lies too near a rounding boundary to be sure of are left out, which is decided from
//! the reference alone. So right results give the same checksum on every device.

use std::fmt::Debug;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// How near an approximate result must be, and how coarsely it enters the checksum. Both in the
/// result's own unit.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Largest difference from the reference that is right.
    pub difference: f64,
    /// Results are rounded to multiples of this. At least ten times `difference`, or most would be
    /// left out.
    pub step: f64,
}

/// The running comparison of one run's results.
#[derive(Debug)]
pub struct Check {
    hash: u64,
    compared: u64,
    wrong: u64,
    first_wrong: Option<String>,
}

impl Default for Check {
    fn default() -> Self {
        Self { hash: FNV_OFFSET, compared: 0, wrong: 0, first_wrong: None }
    }
}

impl Check {
    /// Compares values that must be equal. `what` names them in the message about the first that is
    /// not.
    pub fn equal<T: PartialEq + Debug + Hashed>(&mut self, what: &str, got: &[T], expected: &[T]) {
        if got.len() != expected.len() {
            self.miss(format!("{what}: {} values, expected {}", got.len(), expected.len()));
        }
        for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
            self.compared += 1;
            self.absorb(got.bits());
            if got != expected {
                self.miss(format!("{what}[{index}]: {got:?}, expected {expected:?}"));
            }
        }
    }

    /// Compares values of approximate functions.
    pub fn close(&mut self, what: &str, got: &[f32], expected: &[f64], tolerance: Tolerance) {
        if got.len() != expected.len() {
            self.miss(format!("{what}: {} values, expected {}", got.len(), expected.len()));
        }
        for (index, (&got, &expected)) in got.iter().zip(expected).enumerate() {
            self.compared += 1;
            // Written so that a NaN is wrong.
            let near = (f64::from(got) - expected).abs() <= tolerance.difference;
            if !near {
                self.miss(format!("{what}[{index}]: {got}, expected {expected}"));
            }
            if is_sure(expected, tolerance) {
                self.absorb((f64::from(got) / tolerance.step).round() as i64 as u64);
            }
        }
    }

    /// States a condition that must hold; it does not enter the checksum.
    pub fn holds(&mut self, what: &str, condition: bool) {
        self.compared += 1;
        if !condition {
            self.miss(what.to_owned());
        }
    }

    /// Whether everything that was compared was right, and something was compared.
    pub fn passed(&self) -> bool {
        self.wrong == 0 && self.compared > 0
    }

    /// What the first wrong result was and how many there were, if any.
    pub fn complaint(&self) -> Option<String> {
        if self.compared == 0 {
            return Some("nothing was compared".to_owned());
        }
        let first = self.first_wrong.as_ref()?;
        Some(format!("{first} ({} of {} results are wrong)", self.wrong, self.compared))
    }

    /// The checksum as 16 hexadecimal digits.
    pub fn checksum(&self) -> String {
        format!("{:016x}", self.hash)
    }

    fn miss(&mut self, message: String) {
        self.wrong += 1;
        self.first_wrong.get_or_insert(message);
    }

    fn absorb(&mut self, bits: u64) {
        for byte in bits.to_le_bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
    }
}

/// Whether every value within tolerance of `expected` rounds to the same multiple of the step.
fn is_sure(expected: f64, tolerance: Tolerance) -> bool {
    let low = (expected - 2.0 * tolerance.difference) / tolerance.step;
    let high = (expected + 2.0 * tolerance.difference) / tolerance.step;
    low.round() == high.round()
}

/// A result that is exact, as the checksum sees it.
pub trait Hashed {
    /// The value as 64 bits; equal values give equal bits.
    fn bits(&self) -> u64;
}

macro_rules! hashed {
    ($($type:ty => |$value:ident| $bits:expr),* $(,)?) => {
        $(impl Hashed for $type {
            fn bits(&self) -> u64 {
                let $value = *self;
                $bits
            }
        })*
    };
}
hashed! {
    u8 => |value| u64::from(value),
    u32 => |value| u64::from(value),
    i32 => |value| i64::from(value) as u64,
    u64 => |value| value,
    i64 => |value| value as u64,
    // Zero has two encodings that compare equal.
    f32 => |value| if value == 0.0 { 0 } else { u64::from(value.to_bits()) },
}

#[cfg(test)]
mod tests {
    use super::{Check, Tolerance};

    #[test]
    fn notices_a_wrong_value_and_names_it() {
        let mut check = Check::default();
        check.equal("sum", &[1u32, 2, 4], &[1, 2, 3]);
        assert!(!check.passed());
        assert_eq!(check.complaint().unwrap(), "sum[2]: 4, expected 3 (1 of 3 results are wrong)");
    }

    #[test]
    fn comparing_nothing_is_not_a_pass() {
        assert!(!Check::default().passed());
        assert!(Check::default().complaint().is_some());
    }

    #[test]
    fn a_missing_result_is_wrong() {
        let mut check = Check::default();
        check.equal("sum", &[1u32], &[1, 2]);
        assert!(!check.passed());
    }

    #[test]
    fn last_bits_do_not_reach_the_checksum() {
        let tolerance = Tolerance { difference: 1e-5, step: 1e-3 };
        let expected: Vec<f64> = (0..1000).map(|i| f64::from(i) * 0.000_37).collect();
        let checksum = |error: f32| {
            let got: Vec<f32> = expected.iter().map(|&e| e as f32 + error).collect();
            let mut check = Check::default();
            check.close("x", &got, &expected, tolerance);
            assert!(check.passed());
            check.checksum()
        };
        assert_eq!(checksum(9e-6), checksum(-9e-6));
    }

    #[test]
    fn the_checksum_sees_what_the_tolerance_does_not_excuse() {
        let tolerance = Tolerance { difference: 1e-5, step: 1e-3 };
        let mut right = Check::default();
        right.close("x", &[0.5], &[0.5], tolerance);
        let mut wrong = Check::default();
        wrong.close("x", &[0.51], &[0.5], tolerance);
        assert!(right.passed() && !wrong.passed());
        assert_ne!(right.checksum(), wrong.checksum());
        let mut not_a_number = Check::default();
        not_a_number.close("x", &[f32::NAN], &[0.5], tolerance);
        assert!(!not_a_number.passed());
    }
}
