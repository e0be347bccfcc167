//! Host callback: a function of the server's that a provider calls back.

use std::ffi::c_void;

/// A function that the provider calls on a thread of its own, and the number that it is called with.
/// It must call no function of the provider. It gets no address: see the trust in a provider
/// ([`crate::device`]).
#[derive(Clone, Copy)]
pub struct HostCallback {
    function: extern "C-unwind" fn(number: *mut c_void),
    number: usize,
}

impl HostCallback {
    /// A function, which is safe to call with any number, and its number.
    pub fn new(function: extern "C-unwind" fn(number: *mut c_void), number: usize) -> Self {
        Self { function, number }
    }

    pub(super) fn function(self) -> extern "C-unwind" fn(number: *mut c_void) {
        self.function
    }

    pub(super) fn data(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.number)
    }

    /// Calls the function as a provider does.
    #[cfg(test)]
    pub fn call(self) {
        (self.function)(self.data());
    }
}
