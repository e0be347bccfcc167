//! A pool: what it counts, and the memory that it keeps.
//!
//! A block that was freed is kept for the next allocation of its size while the pool has reserved
//! no more than its release threshold, and goes back to the device otherwise. A block that is kept
//! has no owner: an access through a pointer to it faults.

use locks::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_api::CUdevice;
use cuda_api::pointer::Out;
use driver_common::pool::{PoolState, Sharing};

use super::Driver;
use crate::device::limits::ALLOCATION_ALIGN;
use crate::device::memory::AllocationKind;
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};

/// A pool.
pub(crate) struct Pool {
    pub(super) handle: usize,
    /// The device whose memory it is.
    pub(super) device: u32,
    /// Other devices that may touch it.
    pub(super) peers: Mutex<BTreeSet<u32>>,
    /// The program has destroyed it: nothing is kept any more.
    destroyed: AtomicBool,
    counts: Mutex<Counts>,
}

struct Counts {
    state: PoolState,
    /// Address and length.
    kept: Vec<(u64, u64)>,
    kept_bytes: u64,
}

impl Counts {
    fn reserved(&self) -> u64 {
        self.state.used + self.kept_bytes
    }

    fn add(&mut self, bytes: u64) {
        self.state.used += bytes;
        self.state.used_high = self.state.used_high.max(self.state.used);
        self.state.reserved_high = self.state.reserved_high.max(self.reserved());
    }
}

/// What a block of so many bytes takes of the device's memory.
fn taken(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALLOCATION_ALIGN)
}

impl Pool {
    pub(super) fn new(handle: usize, device: u32, bytes_max: u64, sharing: Sharing) -> Self {
        let state = PoolState::new(device as CUdevice, bytes_max, sharing);
        Self {
            handle,
            device,
            peers: Mutex::default(),
            destroyed: AtomicBool::new(false),
            counts: Mutex::new(Counts { state, kept: Vec::new(), kept_bytes: 0 }),
        }
    }

    /// How it is shared with other processes.
    pub(super) fn sharing(&self) -> Sharing {
        self.counts().state.sharing
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
        let mut counts = self.counts();
        let threshold = counts.state.release_threshold;
        let keeps = !self.destroyed.load(Ordering::Relaxed) && counts.reserved() <= threshold;
        counts.state.used = counts.state.used.saturating_sub(bytes);
        keeps
    }

    fn keep(&self, address: u64, bytes: u64) {
        let mut counts = self.counts();
        counts.kept.push((address, bytes));
        counts.kept_bytes += bytes;
    }

    /// Stores an attribute's value.
    pub(super) fn attribute(&self, number: u32, to: Out<c_void>) -> Result {
        let counts = self.counts();
        counts.state.attribute(counts.reserved(), number, to)
    }

    /// Sets an attribute.
    pub(super) fn set_attribute(&self, number: u32, from: Out<c_void>) -> Result {
        let mut counts = self.counts();
        let reserved = counts.reserved();
        counts.state.set_attribute(reserved, number, from)
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
        let (used, bytes_max, sharing) = {
            let state = &pool.counts().state;
            (state.used, state.bytes_max, state.sharing)
        };
        if bytes == 0 || matches!(sharing, Sharing::Imported(_)) {
            return Err(Error::INVALID_VALUE);
        }
        if bytes_max != 0 && used.saturating_add(bytes) > bytes_max {
            return Err(Error::OUT_OF_MEMORY);
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
        pool.counts().state.release_threshold = 4096;
        pool.counts().add(4096);
        pool.counts().add(100);
        assert!(!pool.keeps(4096), "more is reserved than the threshold");
        assert!(pool.keeps(100));
        pool.keep(0x1000, 100);
        let counted =
            |counts: &Counts| (counts.state.used, counts.reserved(), counts.state.used_high);
        assert_eq!(counted(&pool.counts()), (0, 100, 4196));
        assert_eq!(pool.take_kept(1000), None);
        assert_eq!(pool.take_kept(400), Some(0x1000), "of the same size when rounded up");
        pool.keep(0x2000, 512);
        assert!(pool.take_above(600).is_empty());
        assert_eq!(pool.take_above(0), [0x2000]);
    }
}
