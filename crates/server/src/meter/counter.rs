//! Single-writer counter: a load and a store, no atomic addition, since no other thread writes.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread adds to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; to be called by one thread only.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Sets a state.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// What it is now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Launches that are counted for a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launched {
    /// Kernels.
    pub kernels: u64,
    /// Their blocks.
    pub blocks: u64,
    /// Their threads.
    pub threads: u64,
    /// What they should take on the device, ns; 0 if that is not known.
    pub device_ns: u64,
}

impl Launched {
    /// Adds others.
    #[inline]
    pub fn add(&mut self, more: Self) {
        self.kernels += more.kernels;
        self.blocks = self.blocks.wrapping_add(more.blocks);
        self.threads = self.threads.wrapping_add(more.threads);
        self.device_ns = self.device_ns.wrapping_add(more.device_ns);
    }
}
