//! Partition of the device's SMs: which of them a client's kernels may have.
//!
//! The mechanism for shares, static partitions and whatever else gives a client some SMs: a number
//! of SMs is turned into the device's own ranges, and the provider keeps kernels there.

use super::Device;
use cuda_api::attributes::{COMPUTE_CAPABILITY_MAJOR, MULTIPROCESSOR_COUNT};

/// SMs of a device, as far as parts of them go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmCount {
    /// All of them.
    pub all: u32,
    /// Parts are whole multiples of so many.
    pub step: u32,
}

impl Device {
    /// How many SMs there are, and in what steps they can be given out: by twos from compute
    /// capability 7.0 on, where two SMs share what launches blocks; one by one on the software GPU.
    pub fn sm_count(&self) -> SmCount {
        let number = |which: u32| self.info().attributes.get(which as usize).copied().unwrap_or(0);
        let all = number(MULTIPROCESSOR_COUNT).max(1) as u32;
        let by_twos = !self.has_tenants() && number(COMPUTE_CAPABILITY_MAJOR) >= 7;
        SmCount { all, step: if by_twos { 2 } else { 1 } }
    }
}
