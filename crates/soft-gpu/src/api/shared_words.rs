//! Shared words: two words in device memory that processes share with an event.
//!
//! The first counts records, the second is the number of the last record whose stream came there.
//! An event is over when the two are equal, so that a record that was overtaken by a later one
//! changes nothing. Words are never used for another event: another process may still look at them.

use locks::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Driver;
use crate::device::Device;
use crate::device::limits::CHUNK_BYTES;
use crate::device::memory::AllocationKind;
use crate::device::slab::Key;
use crate::device::stream::values::{Condition, ValueWait};
use crate::device::stream::{Op, Stream};
use crate::error::{Error, Result};

/// A waiting thread looks at the words at least so often: no process wakes it if the one that would
/// is gone.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The words of an event, which stay mapped as long as this process runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedWords {
    pub(super) address: u64,
}

/// Where the next event's words come from.
#[derive(Default)]
pub(crate) struct WordSource {
    room: Mutex<(u64, u64)>,
}

impl SharedWords {
    pub(super) const BYTES: u64 = 16;

    fn word(&self, index: u64) -> &AtomicU64 {
        // SAFETY: both words are mapped for good, aligned (chunks and offsets in them are), and
        // only ever accessed as atomics.
        unsafe { AtomicU64::from_ptr((self.address + 8 * index) as *mut u64) }
    }

    fn recorded(&self) -> &AtomicU64 {
        self.word(0)
    }

    fn reached(&self) -> &AtomicU64 {
        self.word(1)
    }

    /// Records the event behind what is in the stream.
    pub(super) fn record(self, device: &Device, stream: Key<Stream>) -> Result {
        let number = self.recorded().fetch_add(1, Ordering::AcqRel) + 1;
        let reach = move || {
            self.reached().fetch_max(number, Ordering::AcqRel);
            channel::wait::wake_at(self.address + 8);
        };
        device.enqueue(stream, Op::Internal(Box::new(reach))).map(|_| ())
    }

    /// True if the last record was reached, or there was none.
    pub(super) fn is_over(self) -> bool {
        let recorded = self.recorded().load(Ordering::Acquire);
        self.reached().load(Ordering::Acquire) >= recorded
    }

    /// Lets a stream wait for the last record.
    pub(super) fn wait_in(self, device: &Device, stream: Key<Stream>) -> Result {
        let value = self.recorded().load(Ordering::Acquire);
        if self.is_over() {
            return Ok(());
        }
        let condition = Condition::GreaterOrEqual;
        let wait = ValueWait { address: self.address + 8, value, wide: true, condition };
        device.enqueue(stream, Op::WaitValue(wait)).map(|_| ())
    }

    /// Blocks the thread until the record that is the last one now is reached.
    pub(super) fn synchronize(self, alive: impl Fn() -> Result) -> Result {
        let wanted = self.recorded().load(Ordering::Acquire);
        loop {
            let reached = self.reached().load(Ordering::Acquire);
            if reached >= wanted {
                return Ok(());
            }
            alive()?;
            let patience = libc::timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
            // SAFETY: the word is mapped for good; the futex is its lower half, as little-endian
            // words have it first.
            unsafe {
                let (word, seen) = (self.address + 8, reached as u32);
                libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, seen, &patience, 0, 0);
            }
        }
    }
}

impl Driver {
    /// Words for a new event.
    pub(super) fn new_shared_words(&self) -> Result<SharedWords> {
        let tenant = self.working_tenant()?;
        let mut room = self.event_words.room.lock();
        if room.0 == room.1 {
            let kind = AllocationKind::Module { writable: true };
            // Of no context: the words outlive them all.
            let start = self.device.allocate(&tenant, 0, CHUNK_BYTES, 1, kind)?;
            *room = (start, start + CHUNK_BYTES);
        }
        let address = room.0;
        room.0 = address.checked_add(SharedWords::BYTES).ok_or(Error::OUT_OF_MEMORY)?;
        Ok(SharedWords { address })
    }
}
