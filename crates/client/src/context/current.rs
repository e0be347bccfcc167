//! Which context is current on the calling thread: a stack of handle words.
//!
//! Whether the context of a word is there at all is for [`crate::context::table`] to say.

use channel::per_thread::PerThread;
use core::cell::{Cell, RefCell};

thread_local! {
    /// The current context's word, the top of `BELOW`'s stack; 0 if there is none.
    static TOP: Cell<u64> = const { Cell::new(0) };
}

/// What lies below the top.
static BELOW: PerThread<RefCell<Vec<u64>>> = PerThread::new();

/// The current context's word as the program sees it: 0 if there is none, usable or not.
#[inline(always)]
pub(crate) fn word() -> u64 {
    TOP.get()
}

/// Makes a context current, on top of the one that is.
pub(crate) fn push(word: u64) {
    let below = TOP.replace(word);
    if below != 0 {
        // Without a stack it is current all the same.
        let _ = BELOW.with(|stack| stack.borrow_mut().push(below));
    }
}

/// Puts a context in the place of the one that is current, or makes it the only one.
pub(crate) fn replace(word: u64) {
    TOP.set(word);
}

/// Takes the current context away; 0 if there is none.
pub(crate) fn pop() -> u64 {
    let below = BELOW.with(|stack| stack.borrow_mut().pop()).flatten();
    TOP.replace(below.unwrap_or(0))
}
