//! Stream-ordered allocation: memory that is freed in a stream's order is used again by whoever
//! is ordered after that, without waiting and without the server.
//!
//! Each device has a default pool, and as many more as the program makes. Their memory comes from
//! the device's heap: a block that was freed in a stream stays allocated there until the stream has
//! passed the free.

use super::DeviceTag;
use super::staging::Mark;
use crate::attach::Attached;
use crate::contexts::DEVICES_MAX;
use cuda_api::constants::{pool_attribute, vmm};
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUdevice, CUmemoryPool, CUresult, CudaError};
use std::collections::{BTreeMap, BTreeSet};

/// Pools that exist at a time, default ones included: a program makes a few.
const POOLS_MAX: usize = 4096;

/// The handle of a device's default pool.
pub(crate) fn default_pool(device: CUdevice) -> CUmemoryPool {
    pool_handle(device as u32)
}

fn pool_handle(index: u32) -> CUmemoryPool {
    let handle = Handle { kind: HandleKind::MemoryPool, index, generation: 1 };
    CUmemoryPool(handle.to_word() as usize)
}

/// A block that was freed in a stream's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Freed {
    address: u64,
    bytes: u64,
    mark: Mark,
}

/// How a pool is shared with other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It is not.
    Own,
    /// Others may import it, and know it by this number.
    Exportable(u64),
    /// It is another process' of that number.
    Imported(u64),
}

/// A device's pool.
#[derive(Debug)]
pub(crate) struct Pool {
    device: CUdevice,
    sharing: Sharing,
    /// Most bytes in use; 0 for no limit.
    bytes_max: u64,
    /// True if the program has destroyed it.
    destroyed: bool,
    freed: Vec<Freed>,
    /// Bytes that are in use as the program asked for them, and the most there ever were.
    used: u64,
    used_high: u64,
    /// Bytes of the blocks in use, and the most there ever were with those that are freed.
    taken: u64,
    reserved_high: u64,
    release_threshold: u64,
    /// Attributes 1 to 3, which say what reuse is allowed.
    reuse: [i32; 3],
}

impl Pool {
    fn of(device: CUdevice, bytes_max: u64, sharing: Sharing) -> Self {
        Self {
            device,
            sharing,
            bytes_max,
            destroyed: false,
            freed: Vec::new(),
            used: 0,
            used_high: 0,
            taken: 0,
            reserved_high: 0,
            release_threshold: 0,
            reuse: [1; 3],
        }
    }

    /// The device whose memory it is.
    pub(crate) fn device(&self) -> CUdevice {
        self.device
    }

    /// How it is shared.
    pub(crate) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// CUDA_ERROR_OUT_OF_MEMORY if so many bytes more are above the pool's limit.
    fn check_room(&self, bytes: u64) -> CUresult {
        match self.bytes_max == 0 || self.taken.saturating_add(bytes) <= self.bytes_max {
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
    fn count(&mut self, asked: u64, bytes: u64) {
        self.used += asked;
        self.used_high = self.used_high.max(self.used);
        self.taken += bytes;
        self.reserved_high = self.reserved_high.max(self.reserved());
    }

    /// Counts a block that was given back.
    fn count_back(&mut self, asked: u64, bytes: u64) {
        self.used = self.used.saturating_sub(asked);
        self.taken = self.taken.saturating_sub(bytes);
    }

    /// Takes a freed block of that size that work in `slot` may use: one freed in the same stream,
    /// or one whose stream has passed the free.
    fn reuse(
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
    fn take_above(&mut self, bytes_max: u64, mut passed: impl FnMut(Mark) -> bool) -> Vec<u64> {
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

    /// Reads an attribute: the value, and whether it is 64 bits wide.
    pub(crate) fn attribute(&self, attribute: u32) -> Result<(u64, bool), CudaError> {
        use pool_attribute::*;
        Ok(match attribute {
            REUSE_FOLLOW_EVENT_DEPENDENCIES..=REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                (self.reuse[attribute as usize - 1] as u64, false)
            }
            RELEASE_THRESHOLD => (self.release_threshold, true),
            RESERVED_MEM_CURRENT => (self.reserved(), true),
            RESERVED_MEM_HIGH => (self.reserved_high, true),
            USED_MEM_CURRENT => (self.used, true),
            USED_MEM_HIGH => (self.used_high, true),
            ALLOCATION_TYPE => (vmm::ALLOCATION_PINNED.into(), false),
            EXPORT_HANDLE_TYPES => match self.sharing {
                Sharing::Exportable(_) => (vmm::HANDLE_POSIX_FD.into(), false),
                Sharing::Own | Sharing::Imported(_) => (vmm::HANDLE_NONE.into(), false),
            },
            LOCATION_ID => (self.device as u64, false),
            LOCATION_TYPE => (vmm::LOCATION_DEVICE.into(), false),
            MAX_POOL_SIZE => (self.bytes_max, true),
            HW_DECOMPRESS_ENABLED => (0, false),
            _ => return Err(CudaError::INVALID_VALUE),
        })
    }

    /// Writes an attribute: `read` gives the value, and is told whether it is 64 bits wide.
    pub(crate) fn set_attribute(
        &mut self,
        attribute: u32,
        read: impl FnOnce(bool) -> Result<u64, CudaError>,
    ) -> CUresult {
        use pool_attribute::*;
        match attribute {
            REUSE_FOLLOW_EVENT_DEPENDENCIES..=REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                self.reuse[attribute as usize - 1] = read(false)? as i32;
            }
            RELEASE_THRESHOLD => self.release_threshold = read(true)?,
            // High marks can only be put back.
            RESERVED_MEM_HIGH | USED_MEM_HIGH => match (read(true)?, attribute) {
                (0, USED_MEM_HIGH) => self.used_high = self.used,
                (0, _) => self.reserved_high = self.reserved(),
                _ => return Err(CudaError::INVALID_VALUE),
            },
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(())
    }
}

/// Sizes of pooled blocks: what they are rounded up to, so that a freed block fits the next
/// allocation of about the same size.
fn pooled_bytes(bytes: u64) -> Option<u64> {
    let step = match bytes {
        0..=0xffff => 512,
        0x1_0000..=0xf_ffff => 64 << 10,
        _ => 2 << 20,
    };
    bytes.checked_next_multiple_of(step)
}

/// All pools by handle, and which is each device's current one.
pub(crate) struct Pools {
    by_handle: BTreeMap<CUmemoryPool, Pool>,
    /// Blocks of other processes' pools, by address: freeing them closes them.
    pub(crate) imported: BTreeSet<u64>,
    current: Vec<CUmemoryPool>,
    next_index: u32,
}

impl Pools {
    /// The default pools of that many devices.
    pub(super) fn new(devices: usize) -> Self {
        let devices = devices as CUdevice;
        Self {
            by_handle: (0..devices)
                .map(|d| (default_pool(d), Pool::of(d, 0, Sharing::Own)))
                .collect(),
            imported: BTreeSet::new(),
            current: (0..devices).map(default_pool).collect(),
            next_index: DEVICES_MAX,
        }
    }

    /// Makes a pool that holds at most so many bytes; 0 for no limit.
    pub(crate) fn create(
        &mut self,
        device: CUdevice,
        bytes_max: u64,
        sharing: Sharing,
    ) -> Result<CUmemoryPool, CudaError> {
        if self.by_handle.len() >= POOLS_MAX || self.next_index > Handle::INDEX_MAX {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let handle = pool_handle(self.next_index);
        self.next_index += 1;
        self.by_handle.insert(handle, Pool::of(device, bytes_max, sharing));
        Ok(handle)
    }

    /// Destroys a pool that was made: what is allocated of it stays until it is freed. The
    /// device's default pool is current in its place.
    pub(crate) fn destroy(&mut self, handle: CUmemoryPool) -> CUresult {
        if self.current.iter().enumerate().any(|(d, _)| default_pool(d as CUdevice) == handle) {
            return Err(CudaError::INVALID_VALUE);
        }
        let pool = self.get(handle)?;
        pool.destroyed = true;
        let device = pool.device;
        if self.current.get(device as usize) == Some(&handle) {
            self.current[device as usize] = default_pool(device);
        }
        self.forget_spent();
        Ok(())
    }

    /// Drops destroyed pools of which nothing is left.
    fn forget_spent(&mut self) {
        self.by_handle.retain(|_, pool| !pool.destroyed || pool.reserved() > 0);
    }

    /// A pool that the program may use.
    pub(crate) fn get(&mut self, handle: CUmemoryPool) -> Result<&mut Pool, CudaError> {
        self.by_handle.get_mut(&handle).filter(|p| !p.destroyed).ok_or(CudaError::INVALID_VALUE)
    }

    /// A device's current pool.
    pub(crate) fn current(&self, device: CUdevice) -> Result<CUmemoryPool, CudaError> {
        self.current.get(device as usize).copied().ok_or(CudaError::INVALID_DEVICE)
    }

    /// Makes a pool a device's current one.
    pub(crate) fn set_current(&mut self, device: CUdevice, handle: CUmemoryPool) -> CUresult {
        let pool = self.get(handle)?;
        if pool.device != device || matches!(pool.sharing, Sharing::Imported(_)) {
            return Err(CudaError::INVALID_VALUE);
        }
        let current = self.current.get_mut(device as usize).ok_or(CudaError::INVALID_DEVICE)?;
        *current = handle;
        Ok(())
    }

    /// Takes out the blocks whose streams have passed the free, of all pools: those above the
    /// pools' release thresholds, or all of them.
    pub(super) fn take_passed(
        &mut self,
        all: bool,
        mut passed: impl FnMut(Mark) -> bool,
    ) -> Vec<u64> {
        let pools = self.by_handle.values_mut();
        let taken = pools
            .flat_map(|pool| {
                let keeps = if all || pool.destroyed { 0 } else { pool.release_threshold };
                pool.take_above(keeps, &mut passed)
            })
            .collect();
        self.forget_spent();
        taken
    }
}

impl Attached {
    /// Allocates from a pool for work in a stream's slot.
    pub(crate) fn allocate_in_stream(
        &self,
        pool: CUmemoryPool,
        context: u64,
        bytes: u64,
        slot: u32,
    ) -> Result<u64, CudaError> {
        if bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let asked = bytes;
        let bytes = pooled_bytes(asked).ok_or(CudaError::OUT_OF_MEMORY)?;
        let device = {
            let mut memory = self.memory();
            let id = memory.new_id();
            let mut state = self.state();
            let found = memory.pools.get(pool)?;
            if matches!(found.sharing, Sharing::Imported(_)) {
                return Err(CudaError::INVALID_VALUE);
            }
            let (device, reused) =
                (found.device, found.reuse(bytes, slot, |mark| state.passed(mark)));
            if let Some(address) = reused {
                found.count(asked, bytes);
                let owner = memory.device(device).ok_or(CudaError::INVALID_DEVICE)?;
                if let Some(block) = owner.heap.block_mut(address) {
                    block.tag = DeviceTag { context, id, pool, asked, freed: false };
                }
                return Ok(address);
            }
            drop(state);
            self.reclaim(&mut memory, false);
            memory.pools.get(pool)?.check_room(bytes)?;
            device
        };
        let address = self.allocate(device, context, bytes, pool)?;
        let mut memory = self.memory();
        if let Some(block) = memory.owner(address).and_then(|owner| owner.heap.block_mut(address)) {
            block.tag.asked = asked;
        }
        if let Ok(pool) = memory.pools.get(pool) {
            pool.count(asked, bytes);
        }
        Ok(address)
    }

    /// Frees an allocation once the stream gets to `mark`. CUDA_ERROR_INVALID_VALUE if none starts
    /// there.
    pub(crate) fn free_in_stream(&self, address: u64, mark: Mark) -> CUresult {
        let mut memory = self.memory();
        let device = memory.device_of(address).ok_or(CudaError::INVALID_VALUE)?;
        let owner = memory.device(device).ok_or(CudaError::INVALID_VALUE)?;
        let block = owner.heap.block_mut(address).ok_or(CudaError::INVALID_VALUE)?;
        if block.tag.freed {
            return Err(CudaError::INVALID_VALUE);
        }
        block.tag.freed = true;
        let (bytes, asked, pool) = (block.bytes, block.tag.asked, block.tag.pool);
        // Memory of cuMemAlloc may be freed so too: it was never counted, and goes to the default
        // pool.
        let keeper = if pool.is_null() { default_pool(device) } else { pool };
        if let Some(keeper) = memory.pools.by_handle.get_mut(&keeper) {
            if !pool.is_null() {
                keeper.count_back(asked, bytes);
            }
            keeper.freed.push(Freed { address, bytes, mark });
        }
        Ok(())
    }

    /// Counts a pool's allocation that was freed out of a stream's order.
    pub(crate) fn count_pool_free(&self, address: u64) {
        let mut memory = self.memory();
        let block = memory.owner(address).and_then(|owner| owner.heap.block_mut(address));
        let Some(block) = block.filter(|block| !block.tag.freed) else { return };
        let (bytes, asked, pool) = (block.bytes, block.tag.asked, block.tag.pool);
        if let Some(pool) = memory.pools.by_handle.get_mut(&pool) {
            pool.count_back(asked, bytes);
        }
        memory.pools.forget_spent();
    }

    /// Gives up cached memory of a pool down to `keep` bytes in all.
    pub(crate) fn trim_pool(&self, pool: CUmemoryPool, keep: u64) -> CUresult {
        let mut memory = self.memory();
        let mut state = self.state();
        let taken = memory.pools.get(pool)?.take_above(keep, |mark| state.passed(mark));
        drop(state);
        for address in taken {
            memory.owner(address).and_then(|owner| owner.heap.free(address));
        }
        self.release_chunks(&mut memory, 0);
        Ok(())
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
    fn what_is_set_is_read_back() {
        use pool_attribute::*;
        let mut pool = Pool::of(0, 0, Sharing::Own);
        pool.set_attribute(RELEASE_THRESHOLD, |wide| Ok(if wide { u64::MAX } else { 0 })).unwrap();
        assert_eq!(pool.attribute(RELEASE_THRESHOLD), Ok((u64::MAX, true)));
        pool.set_attribute(REUSE_ALLOW_OPPORTUNISTIC, |_| Ok(0)).unwrap();
        assert_eq!(pool.attribute(REUSE_ALLOW_OPPORTUNISTIC), Ok((0, false)));
        pool.count(4000, 4096);
        assert_eq!(pool.attribute(USED_MEM_CURRENT), Ok((4000, true)), "to the byte");
        assert_eq!(pool.attribute(RESERVED_MEM_CURRENT), Ok((4096, true)));
        pool.count_back(4000, 4096);
        assert_eq!(pool.attribute(USED_MEM_CURRENT), Ok((0, true)));
        assert_eq!(pool.attribute(USED_MEM_HIGH), Ok((4000, true)));
        let wrong = pool.set_attribute(USED_MEM_HIGH, |_| Ok(5));
        assert_eq!(wrong, Err(CudaError::INVALID_VALUE));
        pool.set_attribute(USED_MEM_HIGH, |_| Ok(0)).unwrap();
        assert_eq!(pool.attribute(USED_MEM_HIGH), Ok((0, true)));
        assert_eq!(pool.attribute(99), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn pools_are_made_current_and_destroyed() {
        let mut pools = Pools::new(2);
        assert_ne!(default_pool(0), default_pool(1));
        let made = pools.create(0, 1 << 20, Sharing::Own).unwrap();
        assert_eq!(pools.set_current(1, made), Err(CudaError::INVALID_VALUE));
        pools.set_current(0, made).unwrap();
        assert_eq!(pools.current(0), Ok(made));
        assert_eq!(
            pools.get(made).unwrap().check_room((1 << 20) + 1),
            Err(CudaError::OUT_OF_MEMORY)
        );
        pools.get(made).unwrap().count(500, 512);
        pools.destroy(made).unwrap();
        assert_eq!(pools.current(0), Ok(default_pool(0)));
        assert!(pools.get(made).is_err() && pools.destroy(made).is_err());
        assert!(pools.by_handle.contains_key(&made), "something of it is in use");
        assert_eq!(pools.destroy(default_pool(1)), Err(CudaError::INVALID_VALUE));
        assert!(pools.get(CUmemoryPool(5)).is_err());
    }
}
