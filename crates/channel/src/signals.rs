//! Blocking signals in a thread, and its cancellation: around what a handler of the program's must not
//! interrupt, and what must not end in the middle.

use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// Blocks all signals in this thread while it lives; threads started meanwhile inherit that.
/// SIGKILL and SIGSTOP cannot be blocked, and a fault of this thread's own still ends the process.
#[derive(Debug)]
pub struct Blocked {
    before: libc::sigset_t,
    /// A mask is one thread's: this must not go to another.
    _of_this_thread: PhantomData<*const ()>,
}

impl Blocked {
    /// Blocks them.
    pub fn all() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are writable; sigfillset makes `all` valid before it is read, and
        // pthread_sigmask, which cannot fail for a valid set, then does so for `before`.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            before.assume_init()
        };
        Self { before, _of_this_thread: PhantomData }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled by `all`, in this same thread, as the type is not Send.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, core::ptr::null_mut()) };
    }
}

/// While it lives, a cancellation of this thread (pthread_cancel) waits. It would unwind through functions of
/// Rust, which ends the process.
#[derive(Debug)]
pub struct Uncancellable {
    before: libc::c_int,
    /// The state is one thread's: this must not go to another.
    _of_this_thread: PhantomData<*const ()>,
}

/// pthread.h's PTHREAD_CANCEL_DISABLE.
const CANCEL_DISABLE: libc::c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

impl Uncancellable {
    /// Has cancellations wait.
    #[inline]
    pub fn begin() -> Self {
        Self { before: set_cancel_state(CANCEL_DISABLE), _of_this_thread: PhantomData }
    }
}

impl Drop for Uncancellable {
    #[inline]
    fn drop(&mut self) {
        // A thread is cancelled at its next call that can be, not here.
        set_cancel_state(self.before);
    }
}

/// Sets this thread's state; the former one.
#[inline]
fn set_cancel_state(state: libc::c_int) -> libc::c_int {
    let mut before = 0;
    // SAFETY: another state than the two that there are is refused; the local is written.
    unsafe { pthread_setcancelstate(state, &mut before) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if SIGUSR1 is blocked in this thread.
    fn is_blocked() -> bool {
        let mut now = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: a null set changes nothing; `now` is filled before it is read.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, core::ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), libc::SIGUSR1) == 1
        }
    }

    #[test]
    fn signals_are_blocked_here_and_in_threads_started_meanwhile() {
        assert!(!is_blocked());
        let outer = Blocked::all();
        let inner = Blocked::all();
        assert!(is_blocked());
        assert!(std::thread::spawn(is_blocked).join().unwrap());
        drop(inner);
        assert!(is_blocked(), "as it was before");
        drop(outer);
        assert!(!is_blocked());
    }
}
