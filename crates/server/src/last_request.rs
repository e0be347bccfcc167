//! Last request: what a session's thread is doing, for the report of a crash.

use channel::request::RequestName;
use std::cell::Cell;

thread_local! {
    // Neither made nor dropped at run time, so that the handler of a signal can read it.
    static OPCODE: Cell<u16> = const { Cell::new(0) };
}

/// This thread begins with a request of this opcode.
#[inline(always)]
pub(crate) fn note(opcode: u16) {
    OPCODE.set(opcode);
}

/// The name of this thread's last request. It takes no memory and no lock.
pub fn name() -> &'static str {
    match OPCODE.get() {
        0 => "none",
        opcode => RequestName::of(opcode).map_or_else(|| of_row(opcode), RequestName::name),
    }
}

/// The function of a row of the driver's table.
fn of_row(opcode: u16) -> &'static str {
    cuda_api::row_of_number(opcode).map_or("unknown", |row| row.symbol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::request::{LaunchKernel, Request};

    #[test]
    fn a_request_is_named_by_its_type_or_its_function() {
        assert_eq!(name(), "none");
        note(LaunchKernel::OPCODE);
        assert_eq!(name(), "LaunchKernel");
        note(cuda_api::number::cuMemsetD8Async);
        assert_eq!(name(), "cuMemsetD8Async");
        note(u16::MAX);
        assert_eq!(name(), "unknown");
        std::thread::spawn(|| assert_eq!(name(), "none")).join().expect("another thread");
    }
}
