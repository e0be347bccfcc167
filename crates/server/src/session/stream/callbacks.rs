//! Functions that the provider calls back when a stream gets to them.
//!
//! They run on a thread of the provider, may call nothing of it, and do next to nothing: wake a
//! client that sleeps on a word, or have it run a host function of its own.
//!
//! What they are given is a number, by which they look the session up in [`OPEN`]: the number of a
//! session that has ended leads nowhere. So it does not matter when a provider calls, whether it
//! calls at all what was queued when its context was corrupted, or how often: a call holds what it
//! works with for as long as it takes, and nothing is kept for one that never comes.

use crate::device::HostCallback;
use channel::region::{HOST_CALL_DONE, HOST_CALL_SLOTS, Region};
use channel::wait;
use cuda_api::CudaError;
use locks::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a session's callbacks work with.
struct Target {
    region: Region,
    /// The ticket of each place for a host function.
    tickets: Box<[AtomicU32]>,
}

/// The sessions that can be called back, by number.
struct Open {
    targets: BTreeMap<u32, Arc<Target>>,
    /// The number given last.
    last: u32,
}

static OPEN: Mutex<Open> = Mutex::new(Open { targets: BTreeMap::new(), last: 0 });

impl Open {
    fn lock() -> MutexGuard<'static, Self> {
        OPEN.lock()
    }

    /// A number for a session: another one each time until all 2^32 were given.
    fn add(&mut self, target: Arc<Target>) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if let Entry::Vacant(vacant) = self.targets.entry(self.last) {
                vacant.insert(target);
                return self.last;
            }
        }
    }

    /// What a call's number says: the session if it is still there, and a slot of its.
    fn find(data: *mut c_void) -> Option<(Arc<Target>, u32)> {
        let number = data.addr() as u64;
        let open = Self::lock();
        let target = open.targets.get(&((number >> 32) as u32))?;
        Some((target.clone(), number as u32))
    }
}

/// One session's callbacks, which do nothing any more once this is dropped.
pub struct Callbacks {
    number: u32,
    target: Arc<Target>,
}

impl Callbacks {
    /// Callbacks for a client's region.
    pub fn new(region: &Region) -> Self {
        let tickets = (0..HOST_CALL_SLOTS).map(|_| AtomicU32::new(0)).collect();
        let target = Arc::new(Target { region: region.clone(), tickets });
        Self { number: Open::lock().add(target.clone()), target }
    }

    fn data(&self, slot: u32) -> usize {
        (u64::from(self.number) << 32 | u64::from(slot)) as usize
    }

    /// Wakes the threads that sleep on the completion word of a slot.
    pub fn bell(&self, slot: u32) -> HostCallback {
        HostCallback::new(ring, self.data(slot))
    }

    /// Prepares a place for a host function that the client is to run. Returns what has the client
    /// to, with the value that the place's word gets when the function has been run.
    pub fn prepare(&self, slot: u32, ticket: u32) -> Result<(HostCallback, u32), CudaError> {
        if ticket & HOST_CALL_DONE != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let place = self.target.tickets.get(slot as usize).ok_or(CudaError::INVALID_VALUE)?;
        place.store(ticket, Ordering::Release);
        Ok((HostCallback::new(request, self.data(slot)), ticket | HOST_CALL_DONE))
    }

    /// Says "done" for every function that was asked for, because the client will not run any
    /// more: what waits in its streams goes on.
    pub fn release_all(&self) {
        for (slot, ticket) in (0..).zip(&self.target.tickets) {
            let ticket = ticket.load(Ordering::Acquire);
            if ticket != 0
                && let Some(word) = self.target.region.host_call_slot(slot)
            {
                word.store(ticket | HOST_CALL_DONE);
            }
        }
    }

    /// From here on calls of the provider find nothing.
    pub fn close(&self) {
        let gone = Open::lock().targets.remove(&self.number);
        // Not under the lock: it may be the last user of the region.
        drop(gone);
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        self.close();
    }
}

/// Wakes the threads that sleep on a stream's completion word.
extern "C-unwind" fn ring(data: *mut c_void) {
    let Some((target, slot)) = Open::find(data) else { return };
    if let Some(word) = target.region.completion_word(slot) {
        wait::wake(word);
    }
}

/// Tells a client to run a host function.
extern "C-unwind" fn request(data: *mut c_void) {
    let Some((target, slot)) = Open::find(data) else { return };
    let ticket = target.tickets.get(slot as usize).map(|ticket| ticket.load(Ordering::Acquire));
    if let (Some(word), Some(ticket)) = (target.region.host_call_slot(slot), ticket) {
        word.store(ticket);
    }
    let signal = target.region.host_call_signal();
    signal.fetch_add(1);
    wait::wake(signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_asked_for_and_released() {
        let (region, _fd) = Region::create().unwrap();
        let calls = Callbacks::new(&region);
        let (call, done) = calls.prepare(5, 7).unwrap();
        let word = region.host_call_slot(5).unwrap();
        assert_eq!((word.load(), region.host_call_signal().load()), (0, 0));
        call.call();
        assert_eq!((word.load(), region.host_call_signal().load()), (7, 1));
        calls.release_all();
        assert_eq!(word.load(), done);
        assert_eq!(region.host_call_slot(6).unwrap().load(), 0);
    }

    #[test]
    fn places_and_tickets_have_bounds() {
        let (region, _fd) = Region::create().unwrap();
        let calls = Callbacks::new(&region);
        assert!(calls.prepare(HOST_CALL_SLOTS, 1).is_err());
        assert!(calls.prepare(0, HOST_CALL_DONE | 1).is_err());
    }

    #[test]
    fn a_call_that_comes_after_its_session_touches_no_client() {
        let (region, _fd) = Region::create().unwrap();
        let (other_region, _fd) = Region::create().unwrap();
        let calls = Callbacks::new(&region);
        let (late, _) = calls.prepare(5, 7).unwrap();
        let bell = calls.bell(1);
        drop(calls);
        let other = Callbacks::new(&other_region);
        other.prepare(5, 9).unwrap();
        late.call();
        bell.call();
        for region in [&region, &other_region] {
            assert_eq!(region.host_call_slot(5).unwrap().load(), 0);
            assert_eq!(region.host_call_signal().load(), 0);
        }
    }
}
