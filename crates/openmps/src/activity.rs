//! What the software GPU was doing, read from the file in which all of its processes count.

use cuda_api::extension::{ACTIVITY_FILE_NAME, DeviceActivity};
use std::path::Path;
use std::time::Instant;

/// A reading of the counters.
pub(crate) struct Reading {
    at: Instant,
    counters: DeviceActivity,
}

/// Shares of an interval, 0 to 1.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Utilisation {
    /// Any kernel ran: what nvidia-smi calls GPU-Util.
    pub(crate) gpu_util: f64,
    /// SMs that had a block, averaged over the SMs.
    pub(crate) sm_activity: f64,
    /// Warps resident of those that would fit.
    pub(crate) sm_occupancy: f64,
}

impl Reading {
    /// The counters as they are now: zeros before a software GPU ran in that directory.
    pub(crate) fn take(directory: &Path) -> Self {
        let bytes = std::fs::read(directory.join(ACTIVITY_FILE_NAME)).unwrap_or_default();
        let counters = DeviceActivity::from_bytes(&bytes).unwrap_or_default();
        Self { at: Instant::now(), counters }
    }

    /// What happened between an earlier reading and this one; `None` if no software GPU ran.
    pub(crate) fn since(&self, earlier: &Self) -> Option<Utilisation> {
        let elapsed = self.at.duration_since(earlier.at).as_nanos() as f64;
        let sms = f64::from(self.counters.sms);
        let warps = f64::from(self.counters.warps_per_sm);
        if elapsed <= 0.0 || sms <= 0.0 || warps <= 0.0 {
            return None;
        }
        let difference = |of: fn(&DeviceActivity) -> u64| {
            of(&self.counters).saturating_sub(of(&earlier.counters)) as f64
        };
        // Counting and reading are not one instant: a share may come out a hair over 1.
        let share = |amount: f64, whole: f64| (amount / whole).min(1.0);
        Some(Utilisation {
            gpu_util: share(difference(|c| c.kernel_ns), elapsed),
            sm_activity: share(difference(|c| c.sm_active_ns), elapsed * sms),
            sm_occupancy: share(difference(|c| c.warp_ns), elapsed * sms * warps),
        })
    }
}
