//! Predictions: what work is expected to take, and what is assumed where its time was not measured yet.

use std::iter::Sum;
use std::ops::{Add, Sub};

/// What a kernel is taken for that was never timed, ns.
pub const UNKNOWN_NS: u64 = 20_000;
/// Between the end of a kernel and the beginning of the next one in its stream, ns: an H200 has 1 to 2 us.
pub const GAP_NS: u64 = 1_500;
/// What a MiB copied between host and device is taken for, ns: 25 GB/s, what half a link of today has.
pub const COPY_NS_PER_MIB: u64 = 42_000;
/// What a MiB copied or filled within the device is taken for, ns: 1 TB/s, less than what GPUs of today have.
pub const WITHIN_NS_PER_MIB: u64 = 1_000;

/// The newest time of work alone counts for one in so many.
const ALONE_REMEMBERED: u64 = 8;

/// What work takes without batch work beside it, ns, after it took `device_ns`; 0: not known. `known` is what was
/// known before. A mean, as what it is compared with is one: where times vary, the least of them is far below.
pub fn takes_alone(known: u64, device_ns: u64, is_alone: bool) -> u64 {
    match (known, is_alone) {
        (0, true) => device_ns,
        (0, false) => 0,
        // It does less than before, if it takes so little beside other work.
        (_, false) if device_ns >= known / 8 => known,
        _ if device_ns < known => known - (known - device_ns) / ALONE_REMEMBERED,
        _ => known + (device_ns - known) / ALONE_REMEMBERED,
    }
}

/// What work is predicted to take. Kernels of one name and shape may work on more or less data: what
/// must be over at a given time is planned by the longest of them, what is charged by the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predicted {
    /// On the average, ns.
    pub mean_ns: u64,
    /// The longest of its like lately, ns.
    pub longest_ns: u64,
}

impl Predicted {
    /// Of work that was never timed.
    pub const UNKNOWN: Self = Self { mean_ns: UNKNOWN_NS, longest_ns: UNKNOWN_NS };
}

impl From<u64> for Predicted {
    /// Work that always takes so long.
    fn from(ns: u64) -> Self {
        Self { mean_ns: ns, longest_ns: ns }
    }
}

impl Add for Predicted {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            mean_ns: self.mean_ns.saturating_add(other.mean_ns),
            longest_ns: self.longest_ns.saturating_add(other.longest_ns),
        }
    }
}

impl Sub for Predicted {
    type Output = Self;

    /// Of less than nothing there is nothing.
    fn sub(self, other: Self) -> Self {
        Self {
            mean_ns: self.mean_ns.saturating_sub(other.mean_ns),
            longest_ns: self.longest_ns.saturating_sub(other.longest_ns),
        }
    }
}

impl Sum for Predicted {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}
