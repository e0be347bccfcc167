//! Lines on standard error: only for what a person has to know. Nothing is ever written to standard
//! output but what kernels print.

use channel::signals::Blocked;
use core::fmt;
use core::mem::MaybeUninit;
use std::io::Write;

/// Writes one line. A program that has closed its standard error does not get it, and one whose
/// reader is gone does not get the SIGPIPE either: it has not written anything itself.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let line = format!("openmps: {text}\n");
    let _blocked = Blocked::all();
    let pending = is_pipe_signal_pending();
    let written = std::io::stderr().write_all(line.as_bytes());
    if written.is_err() && !pending {
        discard_pipe_signal();
    }
}

/// True if this thread has a blocked SIGPIPE waiting.
fn is_pipe_signal_pending() -> bool {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigpending fills the set before it is read.
    unsafe {
        libc::sigpending(pending.as_mut_ptr()) == 0
            && libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1
    }
}

/// Takes a SIGPIPE that waits for this thread, if there is one.
fn discard_pipe_signal() {
    let mut pipe = MaybeUninit::<libc::sigset_t>::uninit();
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set is made valid before it is read, the time is a local; no information about
    // the signal is asked for.
    unsafe {
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::sigtimedwait(pipe.as_ptr(), core::ptr::null_mut(), &at_once);
    }
}
