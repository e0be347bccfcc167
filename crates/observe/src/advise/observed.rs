//! Observed: what one program had of a device and of the machine, alone, in an interval.

use crate::rates::ClientRates;
use std::time::Duration;

/// What a program did alone in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// How long it was looked at, s.
    pub seconds: f64,
    /// Share of time in which a kernel of it ran.
    pub busy: f64,
    /// Share of the SMs, over time.
    pub sm_share: f64,
    /// Share of the warps, over time.
    pub occupancy: f64,
    /// Device memory that it held, bytes.
    pub memory_bytes: u64,
    /// Launches.
    pub kernels: u64,
    /// Bytes copied between host and device.
    pub copied_bytes: u64,
    /// Share of the machine's processors that it and its server had, 0 to 1; 0: not known.
    pub processors: f64,
    /// Share of them that all else had, 0 to 1.
    pub others: f64,
    /// Share of time that its server spent in calls of the driver that submit work; 0 where the provider
    /// takes several at a time, as the software GPU does.
    pub submitting: f64,
    /// Mean time of such a call, ns; 0: none was timed.
    pub submission_ns: f64,
    /// Times are estimated.
    pub sampled: bool,
}

impl Observed {
    /// What rates say of an interval.
    pub fn of_rates(client: &ClientRates, interval: Duration) -> Self {
        let seconds = interval.as_secs_f64();
        Self {
            seconds,
            busy: client.busy,
            sm_share: client.sm_share,
            occupancy: client.occupancy,
            memory_bytes: client.memory,
            kernels: (client.kernels_per_s * seconds) as u64,
            copied_bytes: ((client.in_per_s + client.out_per_s) * seconds) as u64,
            processors: 0.0,
            others: 0.0,
            submitting: client.submitting,
            submission_ns: client.submission_ns,
            sampled: client.sampled,
        }
    }
}
