//! Functions that the provider calls back when a stream gets to them.
//!
//! They run on a thread of the provider, may call nothing of it, and do next to nothing: wake a
//! client that sleeps on a word, or tell it to run a host function of its own. What they are
//! given lives as long as the streams that may call them.

use channel::region::{HOST_CALL_DONE, HOST_CALL_SLOTS, Region};
use channel::wait;
use cuda_api::CudaError;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

/// Wakes whoever sleeps on one stream's completion word.
pub struct Bell {
    region: Region,
    slot: u32,
}

impl Bell {
    /// The bell of a slot, boxed because the provider keeps its address.
    pub fn new(region: &Region, slot: u32) -> Box<Self> {
        Box::new(Self { region: region.clone(), slot })
    }

    /// What [`ring`] is given.
    pub fn data(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// The callback of a [`Bell`].
///
/// # Safety
/// `data` must be that of a bell that is alive.
pub unsafe extern "C" fn ring(data: *mut c_void) {
    // SAFETY: the caller vouches for it; a bell is only read.
    let bell = unsafe { &*data.cast::<Bell>() };
    if let Some(word) = bell.region.completion_word(bell.slot) {
        wait::wake(word);
    }
}

/// One place for a host function that waits for the client to run it.
pub struct HostCall {
    region: Region,
    slot: u32,
    ticket: AtomicU32,
}

/// All places of a client.
pub struct HostCalls {
    calls: Box<[HostCall]>,
}

impl HostCalls {
    /// Places without functions.
    pub fn new(region: &Region) -> Self {
        let call = |slot| HostCall { region: region.clone(), slot, ticket: AtomicU32::new(0) };
        Self { calls: (0..HOST_CALL_SLOTS).map(call).collect() }
    }

    /// Prepares a place. Returns it with the value that its word gets when the client has run the
    /// function.
    pub fn prepare(&self, slot: u32, ticket: u32) -> Result<(&HostCall, u32), CudaError> {
        if ticket & HOST_CALL_DONE != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let call = self.calls.get(slot as usize).ok_or(CudaError::INVALID_VALUE)?;
        call.ticket.store(ticket, Ordering::Release);
        Ok((call, ticket | HOST_CALL_DONE))
    }

    /// Says "done" for every function that was asked for, because the client will not run any
    /// more: what waits in its streams goes on.
    pub fn release_all(&self) {
        for call in &self.calls {
            let ticket = call.ticket.load(Ordering::Acquire);
            if ticket != 0
                && let Some(word) = call.region.host_call_slot(call.slot)
            {
                word.store(ticket | HOST_CALL_DONE);
            }
        }
    }
}

impl HostCall {
    /// What [`request`] is given.
    pub fn data(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// The callback of a [`HostCall`]: tells the client to run its function.
///
/// # Safety
/// `data` must be that of a place of a [`HostCalls`] that is alive.
pub unsafe extern "C" fn request(data: *mut c_void) {
    // SAFETY: the caller vouches for it; a place is only read, its ticket atomically.
    let call = unsafe { &*data.cast::<HostCall>() };
    if let Some(word) = call.region.host_call_slot(call.slot) {
        word.store(call.ticket.load(Ordering::Acquire));
    }
    let signal = call.region.host_call_signal();
    signal.fetch_add(1);
    wait::wake(signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_asked_for_and_released() {
        let (region, _fd) = Region::create().unwrap();
        let calls = HostCalls::new(&region);
        let (call, done) = calls.prepare(5, 7).unwrap();
        let word = region.host_call_slot(5).unwrap();
        assert_eq!((word.load(), region.host_call_signal().load()), (0, 0));
        // SAFETY: the place is alive.
        unsafe { request(call.data()) };
        assert_eq!((word.load(), region.host_call_signal().load()), (7, 1));
        calls.release_all();
        assert_eq!(word.load(), done);
        assert_eq!(region.host_call_slot(6).unwrap().load(), 0);
    }

    #[test]
    fn places_and_tickets_have_bounds() {
        let (region, _fd) = Region::create().unwrap();
        let calls = HostCalls::new(&region);
        assert!(calls.prepare(HOST_CALL_SLOTS, 1).is_err());
        assert!(calls.prepare(0, HOST_CALL_DONE | 1).is_err());
    }
}
