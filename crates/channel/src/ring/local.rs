//! A ring in private memory, for tests, fuzzing and measurements: the same algorithm without a
//! peer process. A test plays the hostile peer by writing to it through [`RingMemory`].

use super::{Flag, Position, RingMemory};
use crate::shared::SharedU32;
use crate::wait;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A ring of `BYTES` bytes whose records have a sixteenth of that at most.
#[derive(Clone, Debug)]
pub struct LocalRing<const BYTES: u64>(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    head: AtomicU64,
    tail: AtomicU64,
    asleep: AtomicU32,
    waits: AtomicU32,
    words: Box<[AtomicU64]>,
}

impl<const BYTES: u64> Default for LocalRing<BYTES> {
    fn default() -> Self {
        let words = (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Parts {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            asleep: AtomicU32::new(0),
            waits: AtomicU32::new(0),
            words,
        }))
    }
}

impl<const BYTES: u64> LocalRing<BYTES> {
    fn counter(&self, which: Position) -> &AtomicU64 {
        match which {
            Position::Head => &self.0.head,
            Position::Tail => &self.0.tail,
        }
    }

    fn flag_word(&self, which: Flag) -> &AtomicU32 {
        match which {
            Flag::ConsumerAsleep => &self.0.asleep,
            Flag::ProducerWaits => &self.0.waits,
        }
    }

    fn at(&self, index: u64) -> &AtomicU64 {
        &self.0.words[(index & (BYTES / 8 - 1)) as usize]
    }
}

impl<const BYTES: u64> RingMemory for LocalRing<BYTES> {
    const RING_BYTES: u64 = BYTES;
    const RECORD_BYTES_MAX: u64 = BYTES / 16;

    fn position(&self, which: Position) -> u64 {
        self.counter(which).load(Ordering::Acquire)
    }
    fn publish(&self, which: Position, value: u64) {
        self.counter(which).store(value, Ordering::Release);
    }
    fn word(&self, index: u64) -> u64 {
        self.at(index).load(Ordering::Relaxed)
    }
    fn set_word(&self, index: u64, word: u64) {
        self.at(index).store(word, Ordering::Relaxed);
    }
    fn flag(&self, which: Flag) -> u32 {
        self.flag_word(which).load(Ordering::Relaxed)
    }
    fn swap_flag(&self, which: Flag, value: u32) -> u32 {
        self.flag_word(which).swap(value, Ordering::AcqRel)
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
    fn sleep(&self, which: Flag, value: u32, timeout: Duration) {
        wait::sleep(SharedU32::of(self.flag_word(which)), value, Some(timeout));
    }
    fn wake(&self, which: Flag) {
        wait::wake(SharedU32::of(self.flag_word(which)));
    }
}
