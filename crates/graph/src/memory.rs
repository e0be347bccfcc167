//! Memory that nodes allocate and free.
//!
//! The address that a node will give must be known when the node is made, so the memory is there
//! from then on, and as long as a graph that allocates it: launching such a graph only says whose
//! it is now. It is the *program's* from a launch that allocates and does not free it, until the
//! program frees it or a later launch does.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of a graph; freed when the last graph that allocates it is gone, and the program has
/// freed it.
pub struct Allocation {
    /// Address of the first byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    usage: Arc<Usage>,
    free: Option<Box<dyn FnOnce(u64) + Send + Sync>>,
}

impl Allocation {
    pub(crate) fn new(
        address: u64,
        bytes: u64,
        usage: &Arc<Usage>,
        free: impl FnOnce(u64) + Send + Sync + 'static,
    ) -> Arc<Self> {
        usage.add(bytes);
        Arc::new(Self { address, bytes, usage: usage.clone(), free: Some(Box::new(free)) })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.usage.current.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(free) = self.free.take() {
            free(self.address);
        }
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.bytes, self.address)
    }
}

/// How much memory graphs have: what is associated with graphs and what is kept for them is the
/// same here.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) current: AtomicU64,
    /// The most there ever was of used and of reserved memory, since each was set back.
    pub(crate) high: [AtomicU64; 2],
}

impl Usage {
    fn add(&self, bytes: u64) {
        let now = self.current.fetch_add(bytes, Ordering::Relaxed) + bytes;
        for high in &self.high {
            high.fetch_max(now, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn memory_is_freed_with_its_last_user_and_counted_until_then() {
        let (usage, freed) = (Arc::new(Usage::default()), Arc::new(AtomicBool::new(false)));
        let seen = freed.clone();
        let allocation = Allocation::new(0x1000, 64, &usage, move |address| {
            assert_eq!(address, 0x1000);
            seen.store(true, Ordering::Relaxed);
        });
        let second = allocation.clone();
        drop(allocation);
        assert!(!freed.load(Ordering::Relaxed));
        assert_eq!(usage.current.load(Ordering::Relaxed), 64);
        drop(second);
        assert!(freed.load(Ordering::Relaxed));
        assert_eq!(usage.current.load(Ordering::Relaxed), 0);
        assert_eq!(usage.high[0].load(Ordering::Relaxed), 64);
    }
}
