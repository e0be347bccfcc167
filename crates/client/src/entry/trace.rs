//! What `OPENMPS_TRACE` asks for: lines on standard error about calls that did not do what the
//! program wanted, and which functions it called at all. For finding out why a program does not
//! run; not a log of all calls.
//!
//! Off, it costs a call that succeeds nothing and one that fails the look at one byte.

use crate::stderr::say;
use core::sync::atomic::{AtomicU8, Ordering};
use cuda_api::{CUresult, CudaError, environment, error_row, result_code};

const OFF: u8 = 0;
const SUMMARY: u8 = 1;
const UNSUPPORTED: u8 = 2;
const ERRORS: u8 = 3;
const CALLS: u8 = 4;

static LEVEL: AtomicU8 = AtomicU8::new(OFF);

/// Reads what is to be traced.
pub(super) fn begin() {
    let level = level_of(std::env::var(environment::OPENMPS_TRACE).ok().as_deref());
    LEVEL.store(level, Ordering::Relaxed);
}

/// What the variable's value asks for; each level has what is below it too.
fn level_of(value: Option<&str>) -> u8 {
    match value {
        Some("summary") => SUMMARY,
        Some("unsupported") => UNSUPPORTED,
        Some("errors") => ERRORS,
        Some("calls") => CALLS,
        _ => OFF,
    }
}

/// True if the functions called in vain are to be listed when the process ends.
pub(super) fn wants_summary() -> bool {
    LEVEL.load(Ordering::Relaxed) >= SUMMARY
}

/// Functions whose failure CUDA's runtime library does not look at: a program that needs them goes
/// on with NULL. It gets the reason on standard error, regardless of what is to be traced.
const NEEDED: &[(&str, &str)] = &[(
    "cuLibraryGetManaged",
    "the program has managed variables, which a client of a daemon cannot have on this device; \
     run it without one",
)];

/// True if the functions called are to be listed when the process ends.
pub(super) fn wants_calls() -> bool {
    LEVEL.load(Ordering::Relaxed) >= CALLS
}

/// Says nothing more. For a forked child, which cannot use CUDA.
pub(super) fn stop() {
    LEVEL.store(OFF, Ordering::Relaxed);
}

/// A function that is not supported was called for the first time.
#[cold]
pub(super) fn first_call_in_vain(symbol: &str) {
    if LEVEL.load(Ordering::Relaxed) >= UNSUPPORTED {
        say(format_args!("{symbol} is not supported"));
    }
}

/// A call failed. "Not ready" is an answer, not a failure.
#[cold]
pub(super) fn failed(symbol: &str, result: CUresult) {
    if result == Err(CudaError::NOT_SUPPORTED)
        && let Some((_, why)) = NEEDED.iter().find(|(needed, _)| *needed == symbol)
    {
        say(format_args!("{symbol} is not supported: {why}"));
    }
    if LEVEL.load(Ordering::Relaxed) < ERRORS || result == Err(CudaError::NOT_READY) {
        return;
    }
    let code = result_code(result);
    let name = error_row(code).and_then(|row| row.name.to_str().ok()).unwrap_or("unknown");
    say(format_args!("{symbol} answers {code} ({name})"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_in_any_case_is_about_functions_that_may_be_refused() {
        for (symbol, _) in NEEDED {
            let row = cuda_api::row_of_symbol(symbol).expect("a row");
            assert_ne!(row.policy, cuda_api::Policy::Unsupported, "{symbol}");
        }
    }

    #[test]
    fn each_level_has_what_is_below_it() {
        let levels = ["summary", "unsupported", "errors", "calls"].map(|text| level_of(Some(text)));
        assert!(OFF < levels[0] && levels.is_sorted());
        for off in [None, Some(""), Some("1"), Some("Errors")] {
            assert_eq!(level_of(off), OFF, "{off:?}");
        }
    }
}
