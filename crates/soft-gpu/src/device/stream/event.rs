//! Points in streams that events stand for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::slab::Key;
use crate::device::stream::Stream;

/// One record of an event: a place in a stream, and when the stream came there.
pub struct EventPoint {
    pub(in crate::device) stream: Key<Stream>,
    /// Number of the record operation in its stream; set when it is enqueued.
    pub(in crate::device) seq: AtomicU64,
    /// Time the stream came there, ns; 0 while it has not.
    reached_ns: AtomicU64,
}

impl EventPoint {
    pub(in crate::device) fn new(stream: Key<Stream>) -> Self {
        Self { stream, seq: AtomicU64::new(u64::MAX), reached_ns: AtomicU64::new(0) }
    }

    pub(in crate::device) fn reach(&self, now_ns: u64) {
        self.reached_ns.store(now_ns, Ordering::Release);
    }

    /// Time at which all work before the record was complete, ns; `None` if it is not yet.
    pub fn reached_ns(&self) -> Option<u64> {
        match self.reached_ns.load(Ordering::Acquire) {
            0 => None,
            ns => Some(ns),
        }
    }
}
