//! Nap length of a ring's consumer: longer while naps bring few records, shorter when they bring many.

use crate::wait::SpinPolicy;
use core::time::Duration;

/// Fewer bytes than this are few: some 16 launches.
const FEW_BYTES: u64 = 4096;
/// More bytes than this are many, which a device might have begun meanwhile.
const MANY_BYTES: u64 = 4 * FEW_BYTES;

/// How long the next nap is.
#[derive(Clone, Copy, Debug, Default)]
pub struct NapLength(Duration);

impl NapLength {
    /// The next nap's, within what the policy allows.
    pub fn of(self, policy: SpinPolicy) -> Duration {
        self.0.clamp(policy.nap, policy.nap_max.max(policy.nap))
    }

    /// A nap has ended by itself, with so many bytes of records in the ring. One that brought nothing says
    /// nothing of how fast records come.
    pub fn ended(&mut self, policy: SpinPolicy, bytes: u64) {
        let last = self.of(policy);
        self.0 = match bytes {
            0 => last,
            1..FEW_BYTES => last * 2,
            FEW_BYTES..=MANY_BYTES => last,
            _ => last / 2,
        };
        self.0 = self.of(policy);
    }

    /// Nothing has come for long: what comes next is something else.
    pub fn reset(&mut self) {
        self.0 = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_grow_while_they_bring_few_records_and_shrink_when_they_bring_many() {
        let us = Duration::from_micros;
        let policy = SpinPolicy { nap: us(50), nap_max: us(300), ..SpinPolicy::NONE };
        let mut length = NapLength::default();
        let mut after = |bytes| {
            length.ended(policy, bytes);
            length.of(policy).as_micros()
        };
        assert_eq!([0, 200, 200, 0, 200, 200].map(&mut after), [50, 100, 200, 200, 300, 300]);
        assert_eq!([5000, 20_000, 20_000, 20_000].map(&mut after), [300, 150, 75, 50]);
        assert_eq!([200, 200].map(&mut after), [100, 200]);
        length.reset();
        assert_eq!(length.of(policy), us(50));
    }

    #[test]
    fn a_policy_of_one_length_keeps_it() {
        let policy = SpinPolicy { nap: Duration::from_micros(50), ..SpinPolicy::NONE };
        let mut length = NapLength::default();
        length.ended(policy, 200);
        assert_eq!(length.of(policy), policy.nap);
    }
}
