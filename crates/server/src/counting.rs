//! Switch of launch counters: what sessions are to count, and whose streams CUPTI's records name.

use crate::device::{Cupti, KernelRecord, Stream};
use crate::meter::{ClientCounters, Shape};
use cuda_api::settings::Counting;
use locks::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// What is set for a server.
#[derive(Default)]
pub struct Counters {
    pub(crate) counting: AtomicU8,
    pub(crate) cupti: OnceLock<Cupti>,
    /// The thread that opens windows is there.
    pub(crate) has_reader: AtomicBool,
    /// What events cost is measured, or will be.
    pub(crate) measures: AtomicBool,
    /// Whose streams are whose, by CUPTI's numbers.
    pub(crate) streams: Mutex<HashMap<u32, Weak<ClientCounters>>>,
}

impl Counters {
    /// Of a new server: as the environment says, but for CUPTI, which `cupti_windows::set` begins.
    pub fn new(counting: Counting) -> Self {
        Self { counting: AtomicU8::new(counting as u8), ..Self::default() }
    }

    /// What is counted.
    pub fn counting(&self) -> Counting {
        Counting::from_number(self.counting.load(Ordering::Relaxed)).unwrap_or_default()
    }

    pub(crate) fn streams(&self) -> MutexGuard<'_, HashMap<u32, Weak<ClientCounters>>> {
        self.streams.lock()
    }

    /// Says whose a stream is, while CUPTI's records are read.
    pub fn introduce(&self, stream: &Stream, counters: &Arc<ClientCounters>) {
        if let Some(cupti) = self.cupti.get()
            && stream.is_new_to_cupti()
            && let Some(number) = cupti.stream_number(stream)
        {
            self.streams().insert(number, Arc::downgrade(counters));
        }
    }

    pub(crate) fn take(&self, record: &KernelRecord) -> bool {
        let client = self.streams().get(&record.stream).and_then(Weak::upgrade);
        let KernelRecord { grid, block, shared_bytes, device_ns, .. } = *record;
        let shape =
            client.and_then(|of| of.find(&record.name, &Shape { grid, block, shared_bytes }));
        shape.inspect(|shape| shape.timed_by_cupti(device_ns)).is_some()
    }
}
