//! Activity file: all processes on the software GPU count their activity in it, so that another
//! process can see how busy the device is: `nvidia-smi`'s place is taken by a read of 40 bytes.
//!
//! Only the process whose turn it is writes, and never through a mapping: a file that any user may
//! truncate must not be able to end us.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use cuda_api::extension::{ACTIVITY_FILE_NAME, DeviceActivity};

use crate::device::execution::activity::ActivityTotals;
use crate::device::execution::turn::{open_shared, write_within_limits};

/// Longest time for which a busy process keeps its counts to itself.
const FLUSH_NS: u64 = 50_000_000;

/// The open file and what of this process's totals is in it.
pub(in crate::device) struct ActivityFile {
    file: File,
    counted: ActivityTotals,
    flushed_ns: u64,
}

impl ActivityFile {
    /// Opens or makes it in `dir`.
    pub(in crate::device) fn open(dir: &Path) -> io::Result<Self> {
        let file = open_shared(&dir.join(ACTIVITY_FILE_NAME))?;
        Ok(Self { file, counted: ActivityTotals::default(), flushed_ns: 0 })
    }

    /// True if counts have been kept back for long.
    pub(in crate::device) fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.flushed_ns) >= FLUSH_NS
    }

    /// Adds what came since the last time. To be called while the device is ours.
    pub(in crate::device) fn add(&mut self, totals: &ActivityTotals, now_ns: u64) {
        self.flushed_ns = now_ns;
        if totals.any_kernel_ns == self.counted.any_kernel_ns {
            return;
        }
        let mut bytes = [0; size_of::<DeviceActivity>()];
        // A new file is empty, and one that another process corrupted counts from where it is.
        let read = self.file.read_at(&mut bytes, 0).unwrap_or(0);
        let before = DeviceActivity::from_bytes(&bytes[..read]).unwrap_or_default();
        let sum = |before: u64, now: u64, counted: u64| before.wrapping_add(now - counted);
        let after = DeviceActivity {
            elapsed_ns: 0,
            kernel_ns: sum(before.kernel_ns, totals.any_kernel_ns, self.counted.any_kernel_ns),
            sm_active_ns: sum(before.sm_active_ns, totals.sm_ns, self.counted.sm_ns),
            warp_ns: sum(before.warp_ns, totals.warp_ns, self.counted.warp_ns),
            sms: totals.sms,
            warps_per_sm: totals.warp_slots / totals.sms.max(1),
        };
        // A full file system loses counts and nothing else.
        if write_within_limits(&self.file, &after.to_bytes(), 0).is_ok() {
            self.counted = *totals;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_add_up() {
        let dir = std::env::temp_dir().join(format!("soft-activity-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut one = ActivityFile::open(&dir).unwrap();
        let mut other = ActivityFile::open(&dir).unwrap();
        let totals = |any_kernel_ns, warp_ns| ActivityTotals {
            any_kernel_ns,
            sm_ns: any_kernel_ns,
            warp_ns,
            sms: 8,
            warp_slots: 8 * 48,
            ..Default::default()
        };
        one.add(&totals(100, 400), 1);
        other.add(&totals(10, 20), 2);
        one.add(&totals(150, 500), 3);
        let bytes = std::fs::read(dir.join(ACTIVITY_FILE_NAME)).unwrap();
        let read = DeviceActivity::from_bytes(&bytes).unwrap();
        assert_eq!((read.kernel_ns, read.sm_active_ns, read.warp_ns), (160, 160, 520));
        assert_eq!((read.sms, read.warps_per_sm), (8, 48));
        // Corrupted by another process: counting goes on.
        std::fs::write(dir.join(ACTIVITY_FILE_NAME), "x").unwrap();
        one.add(&totals(151, 501), 4);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
