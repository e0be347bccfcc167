//! Seconds on the command line: how long a run takes, and waits in whole seconds.

use std::str::FromStr;

/// Longest run: no user waits for more than a day.
const RUN_MAX: f64 = 86_400.0;

/// Reads the length of a run, which may have a fraction.
pub(crate) fn of_run(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= RUN_MAX => Ok(seconds),
        _ => Err(format!("more than 0 and at most {RUN_MAX} seconds are possible")),
    }
}

/// Reads a whole number of seconds; what 0 means is the option's.
pub(crate) fn whole<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "a whole number of seconds is allowed".to_owned())
}
