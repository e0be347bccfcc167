//! Stream-ordered allocation: memory that is freed in a stream's order is used again by an
//! allocation that is ordered after that, without waiting and without the server.
//!
//! A device has a default pool, and as many more as the program makes. Their memory comes from
//! the device's heap: a block that was freed in a stream stays allocated there until the stream has
//! passed the free.

use crate::handles::generation_on;
use core::ffi::{c_uint, c_void};
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::pointer::Out;
use cuda_api::{CUdevice, CUmemoryPool, CUresult, CudaError};
use driver_common::pool::{PoolState, Sharing};
use recovery::Mark;
use std::collections::{BTreeMap, BTreeSet};

/// Pools that exist at a time, default ones included: a program makes a few.
const POOLS_MAX: usize = 4096;

/// The handle of a device's default pool.
pub(crate) fn default_pool(device: CUdevice) -> CUmemoryPool {
    pool_handle(device, 0)
}

fn pool_handle(device: CUdevice, index: u32) -> CUmemoryPool {
    let generation = generation_on(device, 1);
    let handle = Handle { kind: HandleKind::MemoryPool, index, generation };
    CUmemoryPool(handle.to_word() as usize)
}

/// A block that was freed in a stream's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) mark: Mark,
}

/// A device's pool.
#[derive(Debug)]
pub(crate) struct Pool {
    state: PoolState,
    /// True if the program has destroyed it.
    destroyed: bool,
    pub(crate) freed: Vec<Freed>,
    /// Bytes of the blocks in use.
    taken: u64,
}

impl Pool {
    fn of(device: CUdevice, bytes_max: u64, sharing: Sharing) -> Self {
        let state = PoolState::new(device, bytes_max, sharing);
        Self { state, destroyed: false, freed: Vec::new(), taken: 0 }
    }

    /// How it is shared.
    pub(crate) fn sharing(&self) -> Sharing {
        self.state.sharing
    }

    /// CUDA_ERROR_OUT_OF_MEMORY if so many bytes more are above the pool's limit.
    pub(crate) fn check_room(&self, bytes: u64) -> CUresult {
        match self.state.bytes_max == 0 || self.taken.saturating_add(bytes) <= self.state.bytes_max
        {
            true => Ok(()),
            false => Err(CudaError::OUT_OF_MEMORY),
        }
    }

    /// Bytes that are freed and not yet back in the heap.
    fn cached_bytes(&self) -> u64 {
        self.freed.iter().map(|f| f.bytes).sum()
    }

    /// Bytes of all its blocks.
    fn reserved(&self) -> u64 {
        self.taken + self.cached_bytes()
    }

    /// Counts a block that was taken for `asked` bytes.
    pub(crate) fn count(&mut self, asked: u64, bytes: u64) {
        self.state.used += asked;
        self.state.used_high = self.state.used_high.max(self.state.used);
        self.taken += bytes;
        self.state.reserved_high = self.state.reserved_high.max(self.reserved());
    }

    /// Counts a block that was given back.
    pub(crate) fn count_back(&mut self, asked: u64, bytes: u64) {
        self.state.used = self.state.used.saturating_sub(asked);
        self.taken = self.taken.saturating_sub(bytes);
    }

    /// Takes a freed block of that size that work in `slot` may use: one freed in the same stream,
    /// or one whose stream has passed the free.
    pub(crate) fn reuse(
        &mut self,
        bytes: u64,
        slot: u32,
        mut passed: impl FnMut(Mark) -> bool,
    ) -> Option<u64> {
        let found = self
            .freed
            .iter()
            .position(|f| f.bytes == bytes && (f.mark.slot == slot || passed(f.mark)))?;
        Some(self.freed.swap_remove(found).address)
    }

    /// Takes out blocks whose streams have passed the free, until no more than `bytes_max` are
    /// reserved.
    pub(crate) fn take_above(
        &mut self,
        bytes_max: u64,
        mut passed: impl FnMut(Mark) -> bool,
    ) -> Vec<u64> {
        let mut reserved = self.reserved();
        let mut taken = Vec::new();
        self.freed.retain(|f| {
            let goes = reserved > bytes_max && passed(f.mark);
            if goes {
                taken.push(f.address);
                reserved -= f.bytes;
            }
            !goes
        });
        taken
    }

    /// Stores an attribute's value.
    pub(crate) fn attribute(&self, attribute: c_uint, to: Out<c_void>) -> CUresult {
        self.state.attribute(self.reserved(), attribute, to)
    }

    /// Sets an attribute.
    pub(crate) fn set_attribute(&mut self, attribute: c_uint, from: Out<c_void>) -> CUresult {
        self.state.set_attribute(self.reserved(), attribute, from)
    }
}

/// Sizes of pooled blocks: what they are rounded up to, so that a freed block fits the next
/// allocation of about the same size.
pub(crate) fn pooled_bytes(bytes: u64) -> Option<u64> {
    let step = match bytes {
        0..=0xffff => 512,
        0x1_0000..=0xf_ffff => 64 << 10,
        _ => 2 << 20,
    };
    bytes.checked_next_multiple_of(step)
}

/// All pools by handle, and which is each device's current one.
pub(crate) struct Pools {
    pub(crate) by_handle: BTreeMap<CUmemoryPool, Pool>,
    /// Blocks of other processes' pools, by address: freeing them closes them.
    pub(crate) imported: BTreeSet<u64>,
    device: CUdevice,
    current: CUmemoryPool,
    next_index: u32,
}

impl Pools {
    /// The default pool of a device.
    pub(super) fn new(device: CUdevice) -> Self {
        let default = default_pool(device);
        Self {
            by_handle: BTreeMap::from([(default, Pool::of(device, 0, Sharing::Own))]),
            imported: BTreeSet::new(),
            device,
            current: default,
            next_index: 1,
        }
    }

    /// Makes a pool that holds at most so many bytes; 0 for no limit.
    pub(crate) fn create(
        &mut self,
        bytes_max: u64,
        sharing: Sharing,
    ) -> Result<CUmemoryPool, CudaError> {
        if self.by_handle.len() >= POOLS_MAX || self.next_index > Handle::INDEX_MAX {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let handle = pool_handle(self.device, self.next_index);
        self.next_index += 1;
        self.by_handle.insert(handle, Pool::of(self.device, bytes_max, sharing));
        Ok(handle)
    }

    /// Destroys a pool that was made: what is allocated of it stays until it is freed. The
    /// device's default pool is current in its place.
    pub(crate) fn destroy(&mut self, handle: CUmemoryPool) -> CUresult {
        if default_pool(self.device) == handle {
            return Err(CudaError::INVALID_VALUE);
        }
        let pool = self.get(handle)?;
        pool.destroyed = true;
        if self.current == handle {
            self.current = default_pool(self.device);
        }
        self.forget_spent();
        Ok(())
    }

    /// Drops destroyed pools of which nothing is left.
    pub(crate) fn forget_spent(&mut self) {
        self.by_handle.retain(|_, pool| !pool.destroyed || pool.reserved() > 0);
    }

    /// A pool that the program may use.
    pub(crate) fn get(&mut self, handle: CUmemoryPool) -> Result<&mut Pool, CudaError> {
        self.by_handle.get_mut(&handle).filter(|p| !p.destroyed).ok_or(CudaError::INVALID_VALUE)
    }

    /// The device's current pool.
    pub(crate) fn current(&self) -> CUmemoryPool {
        self.current
    }

    /// Makes a pool the device's current one.
    pub(crate) fn set_current(&mut self, handle: CUmemoryPool) -> CUresult {
        let pool = self.get(handle)?;
        if matches!(pool.state.sharing, Sharing::Imported(_)) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.current = handle;
        Ok(())
    }

    /// Counts a pool's block that was freed out of a stream's order.
    pub(crate) fn count_free(&mut self, pool: CUmemoryPool, asked: u64, bytes: u64) {
        if let Some(pool) = self.by_handle.get_mut(&pool) {
            pool.count_back(asked, bytes);
        }
        self.forget_spent();
    }

    /// True if a pool has more freed memory than it may keep.
    pub(crate) fn keeps_too_much(&self) -> bool {
        self.by_handle.values().any(|pool| {
            let keeps = if pool.destroyed { 0 } else { pool.state.release_threshold };
            !pool.freed.is_empty() && pool.reserved() > keeps
        })
    }

    /// Takes out the blocks whose streams have passed the free, of all pools: those above the
    /// pools' release thresholds, or all of them.
    pub(crate) fn take_passed(
        &mut self,
        all: bool,
        mut passed: impl FnMut(Mark) -> bool,
    ) -> Vec<u64> {
        let pools = self.by_handle.values_mut();
        let taken = pools
            .flat_map(|pool| {
                let keeps = if all || pool.destroyed { 0 } else { pool.state.release_threshold };
                pool.take_above(keeps, &mut passed)
            })
            .collect();
        self.forget_spent();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_block_goes_to_its_own_stream_at_once_and_to_others_when_passed() {
        let mut pool = Pool::of(0, 0, Sharing::Own);
        let mark = Mark { slot: 3, value: 9 };
        pool.freed.push(Freed { address: 0x1000, bytes: 512, mark });
        assert_eq!(pool.reuse(1024, 3, |_| true), None, "another size");
        assert_eq!(pool.reuse(512, 4, |_| false), None, "another stream, not passed");
        assert_eq!(pool.reuse(512, 3, |_| false), Some(0x1000));
        pool.freed.push(Freed { address: 0x2000, bytes: 512, mark });
        assert_eq!(pool.reuse(512, 4, |m| m == mark), Some(0x2000));
        pool.freed.push(Freed { address: 0x3000, bytes: 512, mark });
        assert_eq!(pool.take_above(0, |_| false), []);
        assert_eq!(pool.take_above(0, |_| true), [0x3000]);
    }

    #[test]
    fn more_than_the_threshold_of_freed_memory_is_too_much() {
        let mut pools = Pools::new(0);
        let default = default_pool(0);
        let mark = Mark { slot: 3, value: 9 };
        pools.get(default).unwrap().count(512, 512);
        assert!(!pools.keeps_too_much(), "in use");
        pools.count_free(default, 512, 512);
        pools.get(default).unwrap().freed.push(Freed { address: 0x1000, bytes: 512, mark });
        assert!(pools.keeps_too_much());
        pools.get(default).unwrap().state.release_threshold = 512;
        assert!(!pools.keeps_too_much());
        pools.get(default).unwrap().state.release_threshold = 511;
        assert_eq!(pools.take_passed(false, |_| false), [], "not there yet");
        assert_eq!(
            (pools.take_passed(false, |_| true), pools.keeps_too_much()),
            (vec![0x1000], false)
        );
    }

    #[test]
    fn blocks_are_counted_as_asked_for_and_as_taken() {
        let mut pool = Pool::of(0, 0, Sharing::Own);
        pool.count(4000, 4096);
        assert_eq!((pool.state.used, pool.reserved()), (4000, 4096), "to the byte");
        pool.count_back(4000, 4096);
        assert_eq!((pool.state.used, pool.state.used_high), (0, 4000));
        assert_eq!((pool.reserved(), pool.state.reserved_high), (0, 4096));
    }

    #[test]
    fn pools_are_made_current_and_destroyed() {
        let mut pools = Pools::new(1);
        assert_ne!(default_pool(0), default_pool(1));
        let made = pools.create(1 << 20, Sharing::Own).unwrap();
        assert_eq!(pools.set_current(default_pool(0)), Err(CudaError::INVALID_VALUE));
        pools.set_current(made).unwrap();
        assert_eq!(pools.current(), made);
        assert_eq!(
            pools.get(made).unwrap().check_room((1 << 20) + 1),
            Err(CudaError::OUT_OF_MEMORY)
        );
        pools.get(made).unwrap().count(500, 512);
        pools.destroy(made).unwrap();
        assert_eq!(pools.current(), default_pool(1));
        assert!(pools.get(made).is_err() && pools.destroy(made).is_err());
        assert!(pools.by_handle.contains_key(&made), "something of it is in use");
        assert_eq!(pools.destroy(default_pool(1)), Err(CudaError::INVALID_VALUE));
        assert!(pools.get(CUmemoryPool(5)).is_err());
    }
}
