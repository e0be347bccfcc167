//! Processor time of processes, as the system counts it.

use std::time::Duration;

/// Clock ticks a second in what the system tells programs (USER_HZ).
const TICKS_PER_S: f64 = 100.0;

/// What a process has had so far, with its threads; nothing for one that is gone.
pub(crate) fn time_of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    Duration::from_secs_f64(ticks(&stat) as f64 / TICKS_PER_S)
}

/// User and system time in a line of /proc/PID/stat.
fn ticks(stat: &str) -> u64 {
    // The name, in parentheses, may hold any character.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    // Behind it: state, parent, ... (proc_pid_stat(5), from field 3 on).
    rest.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// What all processes and the kernel have had so far, of all processors.
pub(crate) fn time_of_all() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    Duration::from_secs_f64(busy_ticks(&stat) as f64 / TICKS_PER_S)
}

/// All but idle time in the first line of /proc/stat.
fn busy_ticks(stat: &str) -> u64 {
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let fields: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
    // proc_stat(5): idle and iowait are the fourth and the fifth; time of guests is in that of users.
    let is_busy = |at: &usize| !matches!(at, 3 | 4 | 8..);
    (0..fields.len()).filter(is_busy).map(|at| fields[at]).sum()
}

/// The part of the machine's processors that is had by who has so much time in so long: 1 for all.
pub(crate) fn part_of_machine(had: Duration, within: Duration) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (had.as_secs_f64() / within.as_secs_f64().max(1e-9) / processors as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 95 0 0 0 31 11 2 3 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), 42);
        assert_eq!(ticks(""), 0);
    }

    #[test]
    fn what_waits_is_not_busy() {
        let stat = "cpu  1 2 4 1000 2000 8 16 32 4000 8000\ncpu0 7 7 7 7\n";
        assert_eq!(busy_ticks(stat), 63);
        assert_eq!(busy_ticks(""), 0);
    }
}
