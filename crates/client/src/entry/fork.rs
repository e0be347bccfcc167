//! fork: what the child may do.
//!
//! A child of a process that has initialised CUDA cannot use it, as with NVIDIA's driver: its
//! calls answer CUDA_ERROR_NOT_INITIALIZED, and it leaves the ring, the socket and the device
//! memory to its parent. A child of a process that had not called cuInit yet starts afresh, also if another
//! thread was in its first call. Host memory stays where it is, and is the child's own.
//! (In pass-through the provider looks after its own fork.)

use super::{COUNT, dispatch, not_initialized, set_entry, trace};
use crate::connection::handshake;
use crate::program::mode;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};
use cuda_api::symbols::SYMBOLS;
use std::sync::OnceLock;

/// Functions that need no state of the process: they go on working in the child.
const STATELESS: &[&str] = &[
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
];

static WATCHED: AtomicBool = AtomicBool::new(false);

/// The provider looks after forks itself, and its functions are called directly.
static PASSES_THROUGH: AtomicBool = AtomicBool::new(false);

/// What has a child that may start afresh forget what its parent decided.
static FORGET: OnceLock<fn()> = OnceLock::new();

/// Has [`in_child`] called in every child from now on, and `forget` in those that start afresh.
pub(super) fn watch(forget: fn()) {
    FORGET.get_or_init(|| forget);
    if !WATCHED.swap(true, Ordering::AcqRel) {
        // SAFETY: in_child is a function of this library, which is never unloaded. Should the
        // registration fail for want of memory, a child would share its parent's ring; it could
        // only confuse the session they share.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// Leaves children to the provider from now on.
pub(super) fn leave_to_provider() {
    PASSES_THROUGH.store(true, Ordering::Release);
}

/// Runs in the child, on its only thread, before fork returns. Takes no lock: a thread that held
/// one does not exist in the child.
extern "C" fn in_child() {
    if PASSES_THROUGH.load(Ordering::Acquire) {
        return;
    }
    // What another thread had begun of the first call ends with the parent.
    handshake::close_in_child();
    if mode::abandon_in_child() {
        trace::stop();
        for (index, symbol) in SYMBOLS.iter().enumerate().take(COUNT) {
            let code = match STATELESS.contains(symbol) {
                true => dispatch::code(symbol),
                false => None,
            };
            let code = code.unwrap_or(not_initialized as *const c_void);
            // SAFETY: an answer without parameters suits every signature of the C calling
            // convention; dispatch gives functions of the symbol's own signature.
            unsafe { set_entry(index, code) };
        }
    } else if let Some(forget) = FORGET.get() {
        forget();
    }
}
