//! Counters of one client: written by its session's thread alone, read by any.
//!
//! All count from the client's start and never fall, but for what is said to be a state.

use super::counter::{Counter, Launched};
use super::kernels::{KernelCounters, Shape, ShapeCounters};
use locks::Mutex;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Instant;

/// Names of kernels that are distinguished: programs that make kernels for ever shall not eat memory for
/// ever. Later ones count under [`OTHER_KERNELS`].
const KERNELS_MAX: usize = 16_384;
/// The name of kernels that are not distinguished.
const OTHER_KERNELS: &CStr = c"(others)";

/// Counters, and what they were at one time.
macro_rules! counted {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// What was submitted, of a client or of one of its streams.
        #[derive(Debug, Default)]
        pub struct Submitted {
            $($(#[$doc])* pub $field: Counter,)*
        }

        /// What was submitted, as it was read at one time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct SubmittedTotals {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Submitted {
            /// Reads it.
            pub fn totals(&self) -> SubmittedTotals {
                SubmittedTotals { $($field: self.$field.get(),)* }
            }
        }

        impl SubmittedTotals {
            fn add(&mut self, more: &Self) {
                $(self.$field += more.$field;)*
            }
        }
    };
}

counted! {
    /// Kernels, those of graphs included.
    kernels,
    /// Copies and fills.
    copies,
    /// Bytes copied from host memory to the device.
    bytes_in,
    /// Bytes copied from the device to host memory.
    bytes_out,
    /// Bytes copied or filled on the device.
    bytes_within,
    /// Blocks of kernels.
    blocks,
    /// Threads of kernels.
    threads,
    /// Device time of kernels, ns: what launches of their shapes were seen to take before.
    device_ns,
    /// Fences and notifications: points that the program waits for, or may.
    waits,
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
    /// Kernels that are submitted and not known to be done: a state.
    pub in_flight: Counter,
    /// Time for which the session has held work back, ns.
    pub throttled_ns: Counter,
    /// How often a limit was met: room in the queue, memory.
    pub limits_hit: Counter,
    /// How often the client slept because its ring was full.
    pub ring_stalls: Counter,
    /// 1 once there was a time in which nothing was counted: then other numbers are less than what was.
    pub uncounted: Counter,
    /// Calls of the provider that submitted work, where these are timed.
    pub submissions: Counter,
    /// Time in them, ns, by a sample of them.
    pub submitting_ns: Counter,
    kernels: Mutex<Vec<Arc<KernelCounters>>>,
    streams: Mutex<Streams>,
}

/// Each launch counts once, for its stream; a client's are added up for a report.
#[derive(Default)]
struct Streams {
    now: BTreeMap<u64, Arc<Submitted>>,
    /// Of streams that are gone.
    past: SubmittedTotals,
}

impl ClientCounters {
    /// A pause of the client's work ends: a limit was met at that time.
    pub fn was_paused(&self, since: Instant) {
        self.limits_hit.add(1);
        self.throttled_ns.add(since.elapsed().as_nanos() as u64);
    }

    /// The counters of the kernels of one name, which `make` makes the first time.
    pub fn kernel(
        &self,
        name: &CStr,
        make: impl FnOnce(&CStr) -> KernelCounters,
    ) -> Arc<KernelCounters> {
        let mut kernels = self.kernels.lock();
        let find = |kernels: &[Arc<KernelCounters>], name: &CStr| {
            let found = kernels.iter().find(|kernel| kernel.name.as_c_str() == name);
            found.cloned()
        };
        let others = || (kernels.len() >= KERNELS_MAX).then(|| find(&kernels, OTHER_KERNELS));
        if let Some(known) = find(&kernels, name).or_else(|| others().flatten()) {
            return known;
        }
        let name = if kernels.len() < KERNELS_MAX { name } else { OTHER_KERNELS };
        let kernel = Arc::new(make(name));
        kernels.push(kernel.clone());
        kernel
    }

    /// All kernels.
    pub fn kernels(&self) -> Vec<Arc<KernelCounters>> {
        self.kernels.lock().clone()
    }

    /// The kernel of a name and shape, if it was counted.
    pub fn find(&self, name: &CStr, shape: &Shape) -> Option<Arc<ShapeCounters>> {
        let kernels = self.kernels.lock();
        kernels.iter().find(|kernel| kernel.name.as_c_str() == name)?.find(shape)
    }

    /// The counters of a new stream, by its handle's word.
    pub fn stream(&self, word: u64) -> Arc<Submitted> {
        let counters = Arc::<Submitted>::default();
        self.streams.lock().now.insert(word, counters.clone());
        counters
    }

    /// A stream is gone; what it counted stays in the sum.
    pub fn stream_gone(&self, word: u64) {
        let mut streams = self.streams.lock();
        if let Some(counters) = streams.now.remove(&word) {
            streams.past.add(&counters.totals());
        }
    }

    /// All streams that there are, by their handles' words.
    pub fn streams(&self) -> Vec<(u64, SubmittedTotals)> {
        self.streams.lock().now.iter().map(|(word, counters)| (*word, counters.totals())).collect()
    }

    /// How many streams there are.
    pub fn stream_number(&self) -> u64 {
        self.streams.lock().now.len() as u64
    }

    /// What was submitted to streams that are gone.
    pub fn past_streams(&self) -> SubmittedTotals {
        self.streams.lock().past
    }

    /// What was submitted in all.
    pub fn submitted(&self) -> SubmittedTotals {
        let streams = self.streams.lock();
        let mut sum = streams.past;
        streams.now.values().for_each(|counters| sum.add(&counters.totals()));
        sum
    }
}

impl Submitted {
    /// A copy of so many bytes was submitted.
    pub fn copied(&self, direction: Direction, bytes: u64) {
        self.copies.add(1);
        let counter = match direction {
            Direction::In => &self.bytes_in,
            Direction::Out => &self.bytes_out,
            Direction::Within => &self.bytes_within,
        };
        counter.add(bytes);
    }

    /// Kernels were submitted.
    #[inline]
    pub fn launched(&self, launched: Launched) {
        let Launched { kernels, blocks, threads, device_ns } = launched;
        self.kernels.add(kernels);
        self.blocks.add(blocks);
        self.threads.add(threads);
        self.device_ns.add(device_ns);
    }
}
