//! The exported symbols: one trampoline each, through a table of addresses.
//!
//! A trampoline puts its symbol's index into r11 (scratch in the System V calling convention) and
//! jumps to what the table holds for it. At first that is the resolver, which decides how this
//! process runs and fills the table ([`resolver`]). From then on a call costs one indirect jump:
//! into the provider, into our implementation ([`dispatch`]) or to the counted answer
//! CUDA_ERROR_NOT_SUPPORTED ([`unsupported`]). A forked child's table is changed in [`fork`].
//!
//! Not here: what any function does. Invariant: an entry always holds the address of code that
//! may be called with the symbol's own signature.

pub(crate) mod dispatch;
pub(crate) mod fork;
pub(crate) mod resolver;
pub(crate) mod trace;
pub(crate) mod unsupported;

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};
use cuda_api::CudaError;
use cuda_api::symbols::SYMBOLS;

/// How many symbols are exported.
pub(crate) const COUNT: usize = SYMBOLS.len();

/// Where each symbol's trampoline jumps to, by the symbol's index.
static ENTRIES: [AtomicPtr<c_void>; COUNT] =
    [const { AtomicPtr::new(resolver::resolver as *mut c_void) }; COUNT];

/// The code that calls of a symbol reach at present.
pub(crate) fn entry(index: usize) -> *const c_void {
    ENTRIES[index].load(Ordering::Acquire)
}

/// Leads calls of a symbol to `code`.
///
/// # Safety
/// `code` must be callable with the symbol's signature for as long as the process lives.
pub(crate) unsafe fn set_entry(index: usize, code: *const c_void) {
    ENTRIES[index].store(code.cast_mut(), Ordering::Release);
}

/// Has a function of this library called when the process ends.
fn at_exit(function: extern "C" fn()) {
    // SAFETY: the library is never unloaded.
    unsafe { libc::atexit(function) };
}

/// Answers CUDA_ERROR_NOT_INITIALIZED; suits every signature.
pub(crate) extern "C" fn not_initialized() -> u32 {
    CudaError::NOT_INITIALIZED.code()
}

/// Leads calls of every symbol to the resolver, as at the start.
pub(crate) fn reset_entries() {
    for entry in &ENTRIES {
        entry.store(resolver::resolver as *mut c_void, Ordering::Release);
    }
}

macro_rules! trampolines {
    ($($index:literal $name:ident;)*) => {
        mod exports {
            use super::*;
            $(
                #[unsafe(naked)]
                #[unsafe(no_mangle)]
                #[allow(non_snake_case, reason = "cuda.h's name")]
                unsafe extern "C" fn $name() {
                    cuda_api::jump_to_entry!(ENTRIES, $index)
                }
            )*

            /// Addresses of the exported symbols, by index.
            pub(super) static TRAMPOLINES: [Trampoline; COUNT] = [$(Trampoline($name)),*];
        }
    };
}

/// An exported symbol's own address.
#[repr(transparent)]
struct Trampoline(unsafe extern "C" fn());

cuda_api::exported_symbols!(trampolines);

/// The address of an exported symbol: what cuGetProcAddress returns, so that functions found
/// by it follow the table too.
pub(crate) fn exported_address(index: usize) -> *mut c_void {
    exports::TRAMPOLINES[index].0 as *mut c_void
}
