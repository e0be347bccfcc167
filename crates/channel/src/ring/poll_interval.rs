//! Poll interval of a ring's consumer: longer while poll sleeps bring few records, shorter when they bring many.

use crate::wait::SpinPolicy;
use core::time::Duration;

/// Fewer bytes than this are few: some 16 launches.
const FEW_BYTES: u64 = 4096;
/// More bytes than this are many, which a device might have begun meanwhile.
const MANY_BYTES: u64 = 4 * FEW_BYTES;

/// How long the next poll sleep is.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollInterval(Duration);

impl PollInterval {
    /// The next poll sleep's, within what the policy allows.
    pub fn of(self, policy: SpinPolicy) -> Duration {
        self.0.clamp(policy.poll_sleep, policy.poll_interval_max.max(policy.poll_sleep))
    }

    /// A poll sleep has ended by itself, with so many bytes of records in the ring. One that brought nothing says
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
    fn poll_sleeps_grow_while_they_bring_few_records_and_shrink_when_they_bring_many() {
        let us = Duration::from_micros;
        let policy =
            SpinPolicy { poll_sleep: us(50), poll_interval_max: us(300), ..SpinPolicy::NONE };
        let mut length = PollInterval::default();
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
        let policy = SpinPolicy { poll_sleep: Duration::from_micros(50), ..SpinPolicy::NONE };
        let mut length = PollInterval::default();
        length.ended(policy, 200);
        assert_eq!(length.of(policy), policy.poll_sleep);
    }
}
