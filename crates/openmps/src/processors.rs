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
}
