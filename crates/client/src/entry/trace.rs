//! What `OPENMPS_TRACE` asks for: lines on standard error about calls that did not do what the
//! program wanted. For finding out why a program does not run; not a log of all calls.
//!
//! Off, it costs a call that succeeds nothing and one that fails the look at one byte.

use crate::mode;
use core::sync::atomic::{AtomicU8, Ordering};
use cuda_api::{CUresult, CudaError, environment, error_row, result_code};

const OFF: u8 = 0;
const UNSUPPORTED: u8 = 1;
const ERRORS: u8 = 2;

static LEVEL: AtomicU8 = AtomicU8::new(OFF);

/// Reads what is to be traced.
pub(super) fn begin() {
    let level = match std::env::var(environment::OPENMPS_TRACE).as_deref() {
        Ok("unsupported") => UNSUPPORTED,
        Ok("errors") => ERRORS,
        _ => OFF,
    };
    LEVEL.store(level, Ordering::Relaxed);
}

/// A function that is not supported was called for the first time.
#[cold]
pub(super) fn first_call_in_vain(symbol: &str) {
    if LEVEL.load(Ordering::Relaxed) >= UNSUPPORTED {
        mode::say(format_args!("{symbol} is not supported"));
    }
}

/// A call failed. "Not ready" is an answer, not a failure.
#[cold]
pub(super) fn failed(symbol: &str, result: CUresult) {
    if LEVEL.load(Ordering::Relaxed) < ERRORS || result == Err(CudaError::NOT_READY) {
        return;
    }
    let code = result_code(result);
    let name = error_row(code).and_then(|row| row.name.to_str().ok()).unwrap_or("unknown");
    mode::say(format_args!("{symbol} answers {code} ({name})"));
}
