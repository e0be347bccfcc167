//! Context waits: calls that wait for all work of a context, as NVIDIA's driver has them, for tests.
//!
//! The software GPU needs none of this waiting. With OPENMPS_SOFT_CONTEXT_WAITS=1 it has it all the same: such a
//! call waits for what the context has, and until then nothing is submitted, by any thread.

use super::{driver, thread};
use crate::error::Result;
use locks::RwLock;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// Nothing, and while others wait it is not made.
    Nothing,
    /// All work of the context.
    Context,
    /// Work that it names, or none, and it is made while others wait too.
    Own,
}

/// Calls that wait for the context and keep others out (`server/src/device/sync/calls.rs` has the list that was measured).
const CONTEXT: &[&str] = &[
    "cuModuleLoad",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleLoadFatBinary",
    "cuModuleUnload",
    "cuMemHostUnregister",
    "cuArrayDestroy",
    "cuMipmappedArrayDestroy",
    "cuGreenCtxCreate",
];

/// What names of calls end with that wait for their own, or ask.
const OWN: &[&str] = &["Synchronize", "Query"];

const fn ends_with(text: &str, end: &str) -> bool {
    let (text, end) = (text.as_bytes(), end.as_bytes());
    let mut index = 0;
    while index < end.len() {
        if text.len() < end.len() || text[text.len() - end.len() + index] != end[index] {
            return false;
        }
        index += 1;
    }
    true
}

impl Waits {
    /// Of a function.
    pub(super) const fn of(name: &str) -> Self {
        let mut index = 0;
        while index < CONTEXT.len() {
            if name.len() == CONTEXT[index].len() && ends_with(name, CONTEXT[index]) {
                return Self::Context;
            }
            index += 1;
        }
        let mut index = 0;
        while index < OWN.len() {
            if ends_with(name, OWN[index]) {
                return Self::Own;
            }
            index += 1;
        }
        Self::Nothing
    }
}

static ON: AtomicBool = AtomicBool::new(false);
static LOCK: RwLock<()> = RwLock::new(());

thread_local! {
    /// The thread is in a call.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Has calls wait from now on.
pub(super) fn begin() {
    ON.store(true, Ordering::Relaxed);
}

/// Runs a call's body, when it may run.
#[inline]
pub(super) fn run(waits: Waits, body: impl FnOnce() -> Result) -> Result {
    if ON.load(Ordering::Relaxed) { run_in_turn(waits, body) } else { body() }
}

#[cold]
fn run_in_turn(waits: Waits, body: impl FnOnce() -> Result) -> Result {
    if waits == Waits::Own || WITHIN.replace(true) {
        return body();
    }
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            WITHIN.set(false);
        }
    }
    let _left = Left;
    match waits {
        Waits::Context => {
            let _alone = LOCK.write();
            wait_for_context();
            body()
        }
        Waits::Nothing | Waits::Own => {
            let _with_others = LOCK.read();
            body()
        }
    }
}

/// Waits for all that the current context has.
fn wait_for_context() {
    let (Ok(driver), Ok(context)) = (driver(), thread::current()) else { return };
    let tenant = driver.tenant();
    if let Ok(group) = driver.device.group(context.number(), &tenant) {
        // How the work ended is not this call's affair.
        let _ = driver.device.synchronize_group(group, &tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_classed_by_their_names() {
        assert_eq!(Waits::of("cuModuleLoadDataEx"), Waits::Context);
        assert_eq!(Waits::of("cuModuleLoadData"), Waits::Context);
        assert_eq!(Waits::of("cuStreamSynchronize"), Waits::Own);
        assert_eq!(Waits::of("cuEventQuery"), Waits::Own);
        assert_eq!(Waits::of("cuLaunchKernel"), Waits::Nothing);
        assert_eq!(Waits::of("cuInit"), Waits::Nothing);
        assert_eq!(Waits::of("cuGreenCtxCreate"), Waits::Context);
        assert_eq!(Waits::of("cuGreenCtxStreamCreate"), Waits::Nothing);
    }
}
