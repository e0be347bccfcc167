//! The answer of functions that are not implemented: CUDA_ERROR_NOT_SUPPORTED, counted by symbol.
//!
//! The counts are kept so that one can learn what a program missed; `OPENMPS_TRACE=summary` lists
//! them on standard error when the process ends.

use super::{COUNT, at_exit, trace};
use crate::stderr::say;
use core::arch::naked_asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};
use cuda_api::CudaError;
use cuda_api::symbols::SYMBOLS;

static COUNTS: [AtomicU32; COUNT] = [const { AtomicU32::new(0) }; COUNT];

/// Counts a call of the symbol with that index, and answers it.
extern "C" fn count(index: u32) -> u32 {
    if let Some(counter) = COUNTS.get(index as usize)
        && counter.fetch_add(1, Ordering::Relaxed) == 0
    {
        trace::first_call_in_vain(SYMBOLS[index as usize]);
    }
    CudaError::NOT_SUPPORTED.code()
}

/// Entry code for a function that is not implemented: works for every signature.
///
/// # Safety
/// Only a trampoline may jump here: the symbol's index is where [`cuda_api::jump_to_entry`] leaves it.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn unsupported() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov edi, r11d", "jmp {count}", count = sym count);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov w0, w16", "b {count}", count = sym count);
}

/// [`unsupported`] as the table holds it.
pub(crate) fn code() -> *const c_void {
    unsupported as *const c_void
}

/// Has the counts written to standard error when the process ends, if the environment asks.
pub(super) fn report_at_exit() {
    if trace::wants_summary() {
        at_exit(report);
    }
}

extern "C" fn report() {
    // A forked child has its parent's counts, which the parent writes.
    if !trace::wants_summary() {
        return;
    }
    for (symbol, count) in counts() {
        say(format_args!("{symbol} is not supported: called {count} times"));
    }
}

/// Calls so far of functions that are not implemented: symbol and count, by symbol.
fn counts() -> impl Iterator<Item = (&'static str, u32)> {
    COUNTS
        .iter()
        .enumerate()
        .map(|(i, n)| (SYMBOLS[i], n.load(Ordering::Relaxed)))
        .filter(|(_, n)| *n != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_under_its_symbol() {
        let index = cuda_api::symbols::index_of("cuTexRefCreate").unwrap();
        assert_eq!(count(u32::from(index)), 801);
        assert_eq!(count(u32::from(index)), 801);
        assert_eq!(counts().find(|(s, _)| *s == "cuTexRefCreate"), Some(("cuTexRefCreate", 2)));
        assert_eq!(count(u32::MAX), 801);
    }
}
