//! Counters of one client: written by its session's thread alone, read by any.
//!
//! Counting is a load and a store, no atomic addition: nobody else writes. All count from the
//! client's start and never fall, but for what is said to be a state.

use super::kernels::KernelCounters;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names of kernels that are told apart: programs that make kernels for ever shall not eat memory for
/// ever. Later ones count under [`OTHER_KERNELS`].
const KERNELS_MAX: usize = 16_384;
/// The name of kernels that are not told apart.
const OTHER_KERNELS: &CStr = c"(others)";

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

/// What was submitted, of a client or of one of its streams.
#[derive(Debug, Default)]
pub struct Submitted {
    /// Kernels, those of graphs included.
    pub kernels: Counter,
    /// Copies and fills.
    pub copies: Counter,
    /// Bytes copied from host memory to the device.
    pub bytes_in: Counter,
    /// Bytes copied from the device to host memory.
    pub bytes_out: Counter,
    /// Bytes copied or filled on the device.
    pub bytes_within: Counter,
}

impl Submitted {
    fn add(&self, other: &Self) {
        let pairs = [
            (&self.kernels, &other.kernels),
            (&self.copies, &other.copies),
            (&self.bytes_in, &other.bytes_in),
            (&self.bytes_out, &other.bytes_out),
            (&self.bytes_within, &other.bytes_within),
        ];
        pairs.into_iter().for_each(|(to, from)| to.add(from.get()));
    }
}

/// Which way the bytes of a copy go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From host memory to the device.
    In,
    /// From the device to host memory.
    Out,
    /// On the device; also fills.
    Within,
}

/// All of one client.
#[derive(Default)]
pub struct ClientCounters {
    /// What it has submitted.
    pub submitted: Submitted,
    /// Fences and notifications: points that the program waits for, or may.
    pub waits: Counter,
    /// Kernels that are submitted and not known to be done: a state.
    pub in_flight: Counter,
    /// Time for which the session has held work back, ns.
    pub throttled_ns: Counter,
    /// How often a limit was met: room in the queue, memory.
    pub limits_hit: Counter,
    kernels: Mutex<Vec<Arc<KernelCounters>>>,
    streams: Mutex<BTreeMap<u64, Arc<Submitted>>>,
    /// Of streams that are gone.
    past_streams: Submitted,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientCounters {
    /// The counters of the kernels of one name, which `make` makes the first time.
    pub fn kernel(
        &self,
        name: &CStr,
        make: impl FnOnce(&CStr) -> KernelCounters,
    ) -> Arc<KernelCounters> {
        let mut kernels = lock(&self.kernels);
        let find = |kernels: &[Arc<KernelCounters>], name: &CStr| {
            let found = kernels.iter().find(|kernel| kernel.name.as_c_str() == name);
            found.cloned()
        };
        let name = if kernels.len() < KERNELS_MAX { name } else { OTHER_KERNELS };
        find(&kernels, name).unwrap_or_else(|| {
            let kernel = Arc::new(make(name));
            kernels.push(kernel.clone());
            kernel
        })
    }

    /// All kernels.
    pub fn kernels(&self) -> Vec<Arc<KernelCounters>> {
        lock(&self.kernels).clone()
    }

    /// The counters of a new stream, by its handle's word.
    pub fn stream(&self, word: u64) -> Arc<Submitted> {
        let counters = Arc::<Submitted>::default();
        lock(&self.streams).insert(word, counters.clone());
        counters
    }

    /// A stream is gone; what it counted stays in the sum.
    pub fn stream_gone(&self, word: u64) {
        if let Some(counters) = lock(&self.streams).remove(&word) {
            self.past_streams.add(&counters);
        }
    }

    /// All streams that there are, by their handles' words.
    pub fn streams(&self) -> Vec<(u64, Arc<Submitted>)> {
        lock(&self.streams).iter().map(|(word, counters)| (*word, counters.clone())).collect()
    }

    /// What was submitted to streams that are gone.
    pub fn past_streams(&self) -> &Submitted {
        &self.past_streams
    }

    /// A copy of so many bytes was submitted to a stream.
    pub fn copied(&self, stream: &Submitted, direction: Direction, bytes: u64) {
        for counters in [&self.submitted, stream] {
            counters.copies.add(1);
            let counter = match direction {
                Direction::In => &counters.bytes_in,
                Direction::Out => &counters.bytes_out,
                Direction::Within => &counters.bytes_within,
            };
            counter.add(bytes);
        }
    }

    /// Kernels were submitted to a stream.
    #[inline]
    pub fn launched(&self, stream: &Submitted, kernels: u64) {
        self.submitted.kernels.add(kernels);
        stream.kernels.add(kernels);
    }
}
