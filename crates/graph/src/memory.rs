//! Memory that nodes allocate and free.
//!
//! The address that a node will give must be known when the node is made, so the memory is there
//! from then on, and as long as a graph that allocates it: launching such a graph only says whose
//! it is now. It is the *program's* from a launch that allocates and does not free it, until the
//! program frees it or a later launch does.
//!
//! Large allocations have addresses of their own, behind which the memory can be taken away while no
//! launch uses it (cuDeviceGraphMemTrim); the next launch of the graph has it put there again.

use cuda_api::{CUdevice, CUresult};
use locks::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Puts memory behind addresses (true), or waits until nothing uses it and takes it away.
pub(crate) type Change = dyn Fn(bool) -> CUresult + Send + Sync;

/// Addresses behind which memory comes and goes.
struct Backing {
    backed: Mutex<bool>,
    change: Box<Change>,
}

/// Memory of a graph; freed when the last graph that allocates it is gone, and the program has
/// freed it.
pub struct Allocation {
    /// Address of the first byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    usage: Arc<Usage>,
    /// None if the memory is there as long as the addresses.
    backing: Option<Backing>,
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
        let (usage, free) = (usage.clone(), Some(Box::new(free) as Box<_>));
        Arc::new(Self { address, bytes, usage, backing: None, free })
    }

    /// At addresses without memory, which comes and goes by `change`; `free` gives the addresses back.
    pub(crate) fn reserved(
        address: u64,
        bytes: u64,
        usage: &Arc<Usage>,
        change: Box<Change>,
        free: impl FnOnce(u64) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let backing = Some(Backing { backed: Mutex::new(false), change });
        let (usage, free) = (usage.clone(), Some(Box::new(free) as Box<_>));
        Arc::new(Self { address, bytes, usage, backing, free })
    }

    /// Has the memory there, or takes it away if it can be. True if that changed anything.
    pub(crate) fn set_backed(&self, wanted: bool) -> Result<bool, cuda_api::CudaError> {
        let Some(backing) = &self.backing else { return Ok(false) };
        let mut backed = backing.backed.lock();
        if *backed == wanted {
            return Ok(false);
        }
        (backing.change)(wanted)?;
        *backed = wanted;
        match wanted {
            true => self.usage.add(self.bytes),
            false => self.usage.take(self.bytes),
        }
        Ok(true)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        match self.backing {
            // At worst the addresses cannot be given back.
            Some(_) => drop(self.set_backed(false)),
            None => self.usage.take(self.bytes),
        }
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

/// The memory that graphs have of each device.
#[derive(Debug, Default)]
pub(crate) struct Usages(Mutex<BTreeMap<CUdevice, Arc<Usage>>>);

impl Usages {
    /// Of one device.
    pub(crate) fn of(&self, device: CUdevice) -> Arc<Usage> {
        let mut usages = self.0.lock();
        usages.entry(device).or_default().clone()
    }
}

impl Usage {
    fn take(&self, bytes: u64) {
        self.current.fetch_sub(bytes, Ordering::Relaxed);
    }

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

    #[test]
    fn memory_behind_addresses_comes_and_goes_and_is_counted_while_it_is_there() {
        let usages = Usages::default();
        let usage = usages.of(1);
        let there = Arc::new(AtomicBool::new(false));
        let seen = there.clone();
        let change = Box::new(move |wanted| {
            assert_ne!(seen.swap(wanted, Ordering::Relaxed), wanted, "only changes are asked for");
            Ok(())
        });
        let allocation = Allocation::reserved(0x1000, 64, &usage, change, |_| {});
        let counted = || usages.of(1).current.load(Ordering::Relaxed);
        assert_eq!(counted(), 0);
        let changes = [true, true, false, false, true].map(|to| allocation.set_backed(to).unwrap());
        assert_eq!((changes, counted()), ([true, false, true, false, true], 64));
        drop(allocation);
        assert_eq!((there.load(Ordering::Relaxed), counted()), (false, 0));
        assert_eq!(usages.of(0).current.load(Ordering::Relaxed), 0, "another device's");
        let nothing = Box::new(|_| Err(cuda_api::CudaError::OUT_OF_MEMORY));
        let refused = Allocation::reserved(0x1000, 64, &usage, nothing, |_| {});
        assert!(refused.set_backed(true).is_err());
        assert_eq!(counted(), 0);
    }
}
