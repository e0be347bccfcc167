//! Report: what a run says at its end, for people or as one line of JSON.

use std::{
    fmt::Display,
    io::{self, Write},
    time::Duration,
};

use serde::Serialize;

/// Prints a line on standard output. If no process reads it (any more) the line is lost, and the
/// exit status still tells how the run went.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// The figures of one run. The fields are the keys of the JSON line.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the sample.
    pub sample: &'static str,
    /// Timed iterations.
    pub iterations: u64,
    /// Kernels launched in them.
    pub kernels: u64,
    /// From the first timed launch to the end of the last iteration.
    pub seconds: f64,
    /// Kernels a second.
    pub kernels_per_s: f64,
    /// Median time of an iteration, from its first call to the return of the synchronisation.
    pub p50_us: f64,
    /// The time that 99 of 100 iterations did not exceed.
    pub p99_us: f64,
    /// The longest iteration.
    pub max_us: f64,
    /// The longest times from one iteration's end to the next's, longest first: as many as asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slowest_us: Vec<f64>,
    /// Whether the results were those that the CPU computed.
    pub verified: bool,
    /// Condensed results; the same on every device.
    pub checksum: String,
}

impl Report {
    /// Prints it on standard output.
    pub fn print(&self, as_json: bool) {
        if as_json {
            say(serde_json::to_string(self).expect("numbers and strings are JSON"));
            return;
        }
        say(format_args!(
            "{}: {} iterations, {} kernels in {:.3} s: {:.0} kernels/s, p50 {:.1} us, p99 {:.1} us",
            self.sample,
            self.iterations,
            self.kernels,
            self.seconds,
            self.kernels_per_s,
            self.p50_us,
            self.p99_us
        ));
        say(format_args!("verified {}", if self.verified { "yes" } else { "NO" }));
        say(format_args!("checksum {}", self.checksum));
    }
}

/// The value that `per_cent` of the durations do not exceed, in microseconds; 0 if there are none.
/// Sorts them.
pub fn percentile_us(durations: &mut [Duration], per_cent: usize) -> f64 {
    durations.sort_unstable();
    let rank = (durations.len() * per_cent).div_ceil(100).saturating_sub(1);
    durations.get(rank).map_or(0.0, |duration| duration.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::percentile_us;

    #[test]
    fn percentiles() {
        let mut durations: Vec<Duration> = (1..=100).rev().map(Duration::from_micros).collect();
        assert_eq!(percentile_us(&mut durations, 50).round(), 50.0);
        assert_eq!(percentile_us(&mut durations, 99).round(), 99.0);
        let mut one = [Duration::from_micros(7)];
        assert_eq!(percentile_us(&mut one, 99).round(), 7.0);
        assert_eq!(percentile_us(&mut [], 50), 0.0);
    }
}
