//! Activity: how busy the device was, from differences of the counters that all its processes
//! write; and how busy each client of a daemon kept it, by the daemon's word.

use super::users::User;
use cuda_api::extension::DeviceActivity;
use std::collections::HashMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Shortest interval that says something: processes write their counts every 50 ms.
const INTERVAL: Duration = Duration::from_millis(150);

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

    /// In how much of the time since the last question a kernel ran, percent. A caller that asks
    /// too soon gets the last answer; the very first waits until there is one.
    pub(super) fn busy_percent(&mut self, file: Option<&Path>) -> u32 {
        let missing = INTERVAL.saturating_sub(self.at.elapsed());
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

/// In how much of some interval a kernel of a process ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessSample {
    /// The process.
    pub(crate) pid: u32,
    /// The end of the interval, microseconds since 1970.
    pub(crate) at_us: u64,
    /// The share of it.
    pub(crate) percent: u32,
}

/// The last reading of what processes did, and what came out.
#[derive(Default)]
pub(super) struct ProcessActivity {
    last: Option<(Instant, HashMap<u32, u64>)>,
    samples: Vec<ProcessSample>,
}

impl ProcessActivity {
    /// How busy each of them was since the last question, or just before if that was just now; the
    /// very first question waits until there is something to say.
    pub(super) fn samples(&mut self, users: impl Fn() -> Vec<User>) -> &[ProcessSample] {
        let (at, before) = match self.last.take() {
            Some(last) => last,
            None => (Instant::now(), busy(&users())),
        };
        let missing = INTERVAL.saturating_sub(at.elapsed());
        if !missing.is_zero() && !self.samples.is_empty() {
            self.last = Some((at, before));
            return &self.samples;
        }
        thread::sleep(missing);
        let (now, after) = (Instant::now(), busy(&users()));
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let at_us = since_1970.map_or(0, |time| time.as_micros() as u64);
        self.samples = shares(&before, &after, now.duration_since(at), at_us);
        self.last = Some((now, after));
        &self.samples
    }
}

fn busy(users: &[User]) -> HashMap<u32, u64> {
    users.iter().filter_map(|user| Some((user.pid, user.busy_ns?))).collect()
}

/// The shares of those that were there all the time, by their numbers.
fn shares(
    before: &HashMap<u32, u64>,
    after: &HashMap<u32, u64>,
    elapsed: Duration,
    at_us: u64,
) -> Vec<ProcessSample> {
    let share = |busy_ns: u64| u128::from(busy_ns) * 100 / elapsed.as_nanos().max(1);
    let mut samples: Vec<ProcessSample> = after
        .iter()
        .filter_map(|(pid, now)| Some((*pid, now.saturating_sub(*before.get(pid)?))))
        .map(|(pid, busy_ns)| ProcessSample { pid, at_us, percent: share(busy_ns).min(100) as u32 })
        .collect();
    samples.sort_by_key(|sample| sample.pid);
    samples
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
    fn each_process_has_its_own_share() {
        let readings = |numbers: &[(u32, u64)]| numbers.iter().copied().collect();
        let before = readings(&[(7, 100), (8, 100), (9, 5)]);
        let after = readings(&[(8, 5_000_100), (7, 20_000_100), (11, 1 << 40)]);
        let found = shares(&before, &after, Duration::from_millis(20), 3);
        let sample = |pid, percent| ProcessSample { pid, at_us: 3, percent };
        assert_eq!(found, [sample(7, 100), sample(8, 25)]);
        let user = |busy_ns| User { pid: 3, memory_bytes: 1, memory_limit: None, busy_ns };
        let mut activity = ProcessActivity::default();
        assert_eq!(activity.samples(|| vec![user(None)]), []);
        assert_eq!(activity.samples(|| vec![user(Some(0))]), [], "nothing to compare it with");
        assert_eq!(activity.samples(|| vec![user(Some(u64::MAX))])[0].percent, 100);
        // A caller that asks again at once, however slow the machine is, hears the same, and does not put off what
        // is said next.
        let later = Instant::now() + Duration::from_secs(3600);
        activity.last.as_mut().unwrap().0 = later;
        assert_eq!(activity.samples(|| vec![user(Some(0))])[0].percent, 100);
        let (at, _) = activity.last.as_mut().unwrap();
        assert_eq!(*at, later);
        *at = Instant::now();
        thread::sleep(INTERVAL);
        assert_eq!(activity.samples(|| vec![user(Some(u64::MAX))])[0].percent, 0);
    }

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
        // At once, however slow the machine is: the same, regardless of what happened.
        activity.at = Instant::now() + Duration::from_secs(3600);
        write(5);
        assert_eq!(activity.busy_percent(Some(&file)), 100);
        std::fs::remove_file(&file).unwrap();
        let mut none = Activity::new(None);
        assert_eq!(none.busy_percent(None), 0);
    }
}
