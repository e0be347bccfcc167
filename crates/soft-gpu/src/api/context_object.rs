//! A context: what streams, allocations and modules carry the number of, and what is set in it.

use locks::{Mutex, MutexGuard};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use cuda_api::constants::limit;
use cuda_api::limits::Limits;

use crate::device::execution::grid::SmMask;
use crate::device::slab::Key;
use crate::device::stream::Stream;
use crate::error::{Error, Result};
use simt::runtime::heap::HEAP_BYTES;

/// What a context has that is a green one's.
pub(crate) struct Green {
    pub(super) sms: Vec<Range<u32>>,
    pub(super) default_stream: Key<Stream>,
}

impl Green {
    /// SMs its blocks may be placed on.
    pub(super) fn mask(&self) -> std::sync::Arc<[u32]> {
        self.sms.iter().cloned().flatten().collect()
    }
}

/// A context.
pub(crate) struct Context {
    pub(crate) handle: usize,
    pub(super) number: AtomicU64,
    /// The device that it is on.
    pub(crate) device: u32,
    pub(crate) primary: bool,
    pub(super) flags: AtomicU32,
    pub(super) active: AtomicBool,
    limits: Mutex<Limits>,
    pub(super) cache_config: AtomicU32,
    /// As cuCtxAttach and cuCtxDetach count them.
    pub(super) uses: AtomicU32,
    /// Set for the context of a green one.
    pub(super) green: Option<Green>,
}

impl Context {
    pub(super) fn new(
        (handle, device): (usize, u32),
        number: u64,
        primary: bool,
        flags: u32,
        active: bool,
    ) -> Self {
        Self {
            handle,
            device,
            number: AtomicU64::new(number),
            primary,
            flags: AtomicU32::new(flags),
            active: AtomicBool::new(active),
            limits: Mutex::default(),
            cache_config: AtomicU32::new(0),
            uses: AtomicU32::new(1),
            green: None,
        }
    }

    /// Its SMs, if they are not all.
    pub(super) fn sm_ranges(&self) -> &[Range<u32>] {
        self.green.as_ref().map_or(&[], |green| &green.sms)
    }

    /// The context of a green one, which has the primary context's objects.
    pub(super) fn of_green(handle: usize, primary: &Self, green: Green) -> Self {
        let flags = primary.flags.load(Ordering::Relaxed);
        let green = Some(green);
        let place = (handle, primary.device);
        Self { green, ..Self::new(place, primary.number(), false, flags, true) }
    }

    /// What programs know it by: a green context's number is the primary one's.
    pub(super) fn id(&self) -> u64 {
        if self.green.is_some() { self.handle as u64 } else { self.number() }
    }

    /// CU_FUNC_CACHE_PREFER_*, for functions without a preference.
    pub(super) fn cache_config(&self) -> u32 {
        self.cache_config.load(Ordering::Relaxed)
    }

    /// SMs that its streams may use.
    pub(super) fn sms(&self) -> SmMask {
        self.green.as_ref().map(Green::mask)
    }

    /// Has it answer CUDA_ERROR_CONTEXT_IS_DESTROYED from now on.
    pub(super) fn deactivate(&self) {
        self.active.store(false, Ordering::Release);
    }

    /// Unique in the process; streams, allocations and modules made in the context carry it. The
    /// primary context gets a new one each time it becomes active, so that what was made before
    /// is never mistaken for new.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Bytes of the heap that kernels' `malloc` takes from, once there is one.
    pub(crate) fn heap_bytes(&self) -> u64 {
        self.limits().get(limit::MALLOC_HEAP_SIZE).map_or(HEAP_BYTES, |bytes| bytes as u64)
    }

    pub(super) fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock()
    }

    /// Puts back what was set in it.
    pub(super) fn set_back(&self) {
        *self.limits() = Limits::default();
        for setting in [&self.flags, &self.cache_config] {
            setting.store(0, Ordering::Relaxed);
        }
    }

    /// Fails unless the context is alive.
    pub(crate) fn require_active(&self) -> Result {
        if self.active.load(Ordering::Acquire) { Ok(()) } else { Err(Error::CONTEXT_IS_DESTROYED) }
    }
}
