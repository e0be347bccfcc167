//! How busy the device was: differences of the counters that all its processes write.

use cuda_api::extension::DeviceActivity;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Shortest stretch of time that says something: processes write their counts every 50 ms.
const STRETCH: Duration = Duration::from_millis(150);

/// The last reading, and what came out.
pub(super) struct Activity {
    at: Instant,
    kernel_ns: u64,
    percent: Option<u32>,
}

impl Activity {
    /// Takes the first reading.
    pub(super) fn new(file: Option<&Path>) -> Self {
        Self { at: Instant::now(), kernel_ns: kernel_ns(file), percent: None }
    }

    /// In how much of the time since the last question a kernel ran, percent. One who asks sooner
    /// than makes sense gets the last answer; the very first waits until it does.
    pub(super) fn busy_percent(&mut self, file: Option<&Path>) -> u32 {
        let missing = STRETCH.saturating_sub(self.at.elapsed());
        if !missing.is_zero() {
            if let Some(percent) = self.percent {
                return percent;
            }
            thread::sleep(missing);
        }
        let (now, kernel_ns) = (Instant::now(), kernel_ns(file));
        let elapsed_ns = now.duration_since(self.at).as_nanos().max(1);
        let busy_ns = u128::from(kernel_ns.saturating_sub(self.kernel_ns));
        let percent = (busy_ns * 100 / elapsed_ns).min(100) as u32;
        *self = Self { at: now, kernel_ns, percent: Some(percent) };
        percent
    }
}

/// Time in which a kernel ran, since the file was made; 0 if there is none.
fn kernel_ns(file: Option<&Path>) -> u64 {
    let bytes = file.and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
    DeviceActivity::from_bytes(&bytes).map_or(0, |activity| activity.kernel_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_time_that_passed() {
        let file = std::env::temp_dir().join(format!("nvml-activity-{}", std::process::id()));
        let write = |kernel_ns| {
            let counters = DeviceActivity { kernel_ns, ..Default::default() };
            std::fs::write(&file, counters.to_bytes()).unwrap();
        };
        write(5);
        let mut activity = Activity::new(Some(&file));
        write(5 + (3600 * 1_000_000_000));
        assert_eq!(activity.busy_percent(Some(&file)), 100);
        // At once: the same, whatever happened.
        write(5);
        assert_eq!(activity.busy_percent(Some(&file)), 100);
        std::fs::remove_file(&file).unwrap();
        let mut none = Activity::new(None);
        assert_eq!(none.busy_percent(None), 0);
    }
}
