//! A pool: what it counts, and the memory that it keeps.
//!
//! A block that was freed is kept for the next allocation of its size while the pool has reserved
//! no more than its release threshold, and goes back to the device otherwise. A block that is kept
//! has no owner: an access through a pointer to it faults.

use locks::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cuda_api::CUdevice;
use cuda_api::constants::pool_attribute::*;
use cuda_api::constants::vmm;

use super::Driver;
use crate::device::limits::ALLOCATION_ALIGN;
use crate::device::memory::AllocationKind;
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};

/// How a pool is shared with other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// It is not.
    Own,
    /// Others may import it, and know it by this number.
    Exportable(u64),
    /// It is another process' of that number.
    Imported(u64),
}

/// A pool.
pub(crate) struct Pool {
    pub(super) handle: usize,
    /// The device whose memory it is.
    pub(super) device: u32,
    /// Other devices that may touch it.
    pub(super) peers: Mutex<BTreeSet<u32>>,
    /// Most bytes in use; 0 for no limit.
    bytes_max: u64,
    pub(super) sharing: Sharing,
    /// Attributes 1 to 3, which say what reuse is allowed.
    reuse: [AtomicBool; 3],
    release_threshold: AtomicU64,
    /// The program has destroyed it: nothing is kept any more.
    destroyed: AtomicBool,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    used: u64,
    used_high: u64,
    reserved_high: u64,
    /// Address and length.
    kept: Vec<(u64, u64)>,
    kept_bytes: u64,
}

impl Counts {
    fn reserved(&self) -> u64 {
        self.used + self.kept_bytes
    }

    fn add(&mut self, bytes: u64) {
        self.used += bytes;
        self.used_high = self.used_high.max(self.used);
        self.reserved_high = self.reserved_high.max(self.reserved());
    }
}

/// What a block of so many bytes takes of the device's memory.
fn taken(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALLOCATION_ALIGN)
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Narrow(i32),
    Wide(u64),
}

impl Pool {
    pub(super) fn new(handle: usize, device: u32, bytes_max: u64, sharing: Sharing) -> Self {
        Self {
            handle,
            device,
            peers: Mutex::default(),
            bytes_max,
            sharing,
            reuse: [true; 3].map(AtomicBool::new),
            release_threshold: AtomicU64::new(0),
            destroyed: AtomicBool::new(false),
            counts: Mutex::default(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }

    /// A kept block of that size, which is no longer kept.
    fn take_kept(&self, bytes: u64) -> Option<u64> {
        let mut counts = self.counts();
        let at = counts.kept.iter().position(|(_, kept)| taken(*kept) == taken(bytes))?;
        let (address, kept) = counts.kept.swap_remove(at);
        counts.kept_bytes -= kept;
        Some(address)
    }

    /// Takes out kept blocks until no more than `bytes_max` are reserved.
    fn take_above(&self, bytes_max: u64) -> Vec<u64> {
        let mut counts = self.counts();
        let mut all = Vec::new();
        while counts.reserved() > bytes_max
            && let Some((address, bytes)) = counts.kept.pop()
        {
            counts.kept_bytes -= bytes;
            all.push(address);
        }
        all
    }

    /// A block was freed: true if it is to be kept.
    fn keeps(&self, bytes: u64) -> bool {
        let threshold = self.release_threshold.load(Ordering::Relaxed);
        let mut counts = self.counts();
        let keeps = !self.destroyed.load(Ordering::Relaxed) && counts.reserved() <= threshold;
        counts.used = counts.used.saturating_sub(bytes);
        keeps
    }

    fn keep(&self, address: u64, bytes: u64) {
        let mut counts = self.counts();
        counts.kept.push((address, bytes));
        counts.kept_bytes += bytes;
    }

    pub(super) fn attribute(&self, number: u32) -> Result<Value> {
        let counts = self.counts();
        let (exportable, kind) = match self.sharing {
            Sharing::Exportable(_) => (vmm::HANDLE_POSIX_FD, vmm::LOCATION_DEVICE),
            Sharing::Own | Sharing::Imported(_) => (vmm::HANDLE_NONE, vmm::LOCATION_DEVICE),
        };
        Ok(match number {
            REUSE_FOLLOW_EVENT_DEPENDENCIES..=REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                Value::Narrow(self.reuse[number as usize - 1].load(Ordering::Relaxed).into())
            }
            RELEASE_THRESHOLD => Value::Wide(self.release_threshold.load(Ordering::Relaxed)),
            RESERVED_MEM_CURRENT => Value::Wide(counts.reserved()),
            RESERVED_MEM_HIGH => Value::Wide(counts.reserved_high),
            USED_MEM_CURRENT => Value::Wide(counts.used),
            USED_MEM_HIGH => Value::Wide(counts.used_high),
            ALLOCATION_TYPE => Value::Narrow(vmm::ALLOCATION_PINNED as i32),
            EXPORT_HANDLE_TYPES => Value::Narrow(exportable as i32),
            LOCATION_ID => Value::Narrow(self.device as CUdevice),
            LOCATION_TYPE => Value::Narrow(kind as i32),
            MAX_POOL_SIZE => Value::Wide(self.bytes_max),
            HW_DECOMPRESS_ENABLED => Value::Narrow(0),
            _ => return Err(Error::INVALID_VALUE),
        })
    }

    /// Sets an attribute; `read` gets the value, and is told whether it is 64 bits wide.
    pub(super) fn set_attribute(
        &self,
        number: u32,
        read: impl FnOnce(bool) -> Result<u64>,
    ) -> Result {
        match number {
            REUSE_FOLLOW_EVENT_DEPENDENCIES..=REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                self.reuse[number as usize - 1].store(read(false)? != 0, Ordering::Relaxed);
            }
            RELEASE_THRESHOLD => self.release_threshold.store(read(true)?, Ordering::Relaxed),
            // The high-water marks can only be set back.
            RESERVED_MEM_HIGH | USED_MEM_HIGH => {
                if read(true)? != 0 {
                    return Err(Error::INVALID_VALUE);
                }
                let mut counts = self.counts();
                match number {
                    USED_MEM_HIGH => counts.used_high = counts.used,
                    _ => counts.reserved_high = counts.reserved(),
                }
            }
            _ => return Err(Error::INVALID_VALUE),
        }
        Ok(())
    }
}

impl Driver {
    /// Allocates device memory; what pools keep gives way to it.
    pub(super) fn allocate(
        &self,
        tenant: &Arc<Tenant>,
        context: u64,
        bytes: u64,
        kind: AllocationKind,
    ) -> Result<u64> {
        match self.device.allocate(tenant, context, bytes, 1, kind) {
            Err(Error::OUT_OF_MEMORY) => {
                for pool in self.pools.all() {
                    self.trim_pool(&pool, 0);
                }
                self.device.allocate(tenant, context, bytes, 1, kind)
            }
            result => result,
        }
    }

    /// A block of a pool.
    pub(super) fn allocate_of(
        &self,
        pool: &Pool,
        tenant: &Arc<Tenant>,
        context: u64,
        bytes: u64,
    ) -> Result<u64> {
        if bytes == 0 || matches!(pool.sharing, Sharing::Imported(_)) {
            return Err(Error::INVALID_VALUE);
        }
        if pool.bytes_max != 0 {
            let used = pool.counts().used.saturating_add(bytes);
            if used > pool.bytes_max {
                return Err(Error::OUT_OF_MEMORY);
            }
        }
        let kind = AllocationKind::Pool { pool: pool.handle };
        let kept = pool.take_kept(bytes);
        let address = match kept.filter(|a| self.device.revive(*a, context, bytes, kind)) {
            Some(address) => address,
            None => self.allocate(tenant, context, bytes, kind)?,
        };
        pool.counts().add(bytes);
        Ok(address)
    }

    /// Frees a block of a pool, or memory of none, which nothing uses any more. Nothing happens if
    /// the block with that number is gone already.
    pub(super) fn free_block(&self, address: u64, id: u64, bytes: u64, pool: Option<&Pool>) {
        if self.device.memory.pointer(address).is_none_or(|found| found.id != id) {
            return;
        }
        if let Some(pool) = pool
            && pool.keeps(bytes)
            && self.device.retire(address)
        {
            return pool.keep(address, bytes);
        }
        // Its number says that it is there, and of a kind that can be freed.
        let _ = self.device.free(address, |kind| !matches!(kind, AllocationKind::Module { .. }));
    }

    /// Gives back what a pool keeps until it has reserved no more than `bytes_max`.
    pub(super) fn trim_pool(&self, pool: &Pool, bytes_max: u64) {
        for address in pool.take_above(bytes_max) {
            let _ = self.device.free(address, |kind| kind == AllocationKind::Kept);
        }
    }

    /// The program does not want a pool any more; what is allocated of it stays until it is freed.
    pub(super) fn destroy_pool(&self, pool: &Pool) {
        pool.destroyed.store(true, Ordering::Relaxed);
        self.trim_pool(pool, 0);
        let peers = std::mem::take(&mut *pool.peers.lock());
        peers.into_iter().for_each(|peer| self.device.disable_peer(peer, pool.device));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_is_kept_up_to_the_threshold() {
        let pool = Pool::new(1, 0, 0, Sharing::Own);
        pool.counts().add(1000);
        assert!(!pool.keeps(1000));
        pool.set_attribute(RELEASE_THRESHOLD, |wide| Ok(if wide { 4096 } else { 0 })).unwrap();
        pool.counts().add(4096);
        pool.counts().add(100);
        assert!(!pool.keeps(4096), "more is reserved than the threshold");
        assert!(pool.keeps(100));
        pool.keep(0x1000, 100);
        assert_eq!(pool.attribute(USED_MEM_CURRENT), Ok(Value::Wide(0)));
        assert_eq!(pool.attribute(RESERVED_MEM_CURRENT), Ok(Value::Wide(100)));
        assert_eq!(pool.attribute(USED_MEM_HIGH), Ok(Value::Wide(4196)));
        assert_eq!(pool.take_kept(1000), None);
        assert_eq!(pool.take_kept(400), Some(0x1000), "of the same size when rounded up");
        pool.keep(0x2000, 512);
        assert!(pool.take_above(600).is_empty());
        assert_eq!(pool.take_above(0), [0x2000]);
        let wrong = pool.set_attribute(USED_MEM_HIGH, |_| Ok(5));
        assert_eq!(wrong, Err(Error::INVALID_VALUE));
        pool.set_attribute(RESERVED_MEM_HIGH, |_| Ok(0)).unwrap();
        assert_eq!(pool.attribute(RESERVED_MEM_HIGH), Ok(Value::Wide(0)));
        assert_eq!(pool.attribute(EXPORT_HANDLE_TYPES), Ok(Value::Narrow(0)));
    }
}
