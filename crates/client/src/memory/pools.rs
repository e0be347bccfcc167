//! Stream-ordered allocation: memory that is freed in a stream's order is used again by whoever
//! is ordered after that, without waiting and without the server.
//!
//! Each device has one pool, its default one. Its memory comes from the device's heap: a block
//! that was freed in a stream stays allocated there until the stream has passed the free.

use super::staging::Mark;
use crate::attach::Attached;
use cuda_api::constants::pool_attribute;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUdevice, CUmemoryPool, CUresult, CudaError};

/// The handle of a device's default pool.
pub(crate) fn default_pool(device: CUdevice) -> CUmemoryPool {
    let handle = Handle { kind: HandleKind::MemoryPool, index: device as u32, generation: 1 };
    CUmemoryPool(handle.to_word() as usize)
}

/// The device whose default pool a handle stands for.
pub(crate) fn device_of_pool(pool: CUmemoryPool) -> Result<CUdevice, CudaError> {
    Handle::from_word(pool.0 as u64)
        .map(|handle| handle.index as CUdevice)
        .filter(|device| default_pool(*device) == pool)
        .ok_or(CudaError::INVALID_VALUE)
}

/// A block that was freed in a stream's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Freed {
    address: u64,
    bytes: u64,
    mark: Mark,
}

/// A device's pool.
#[derive(Debug)]
pub(crate) struct Pool {
    freed: Vec<Freed>,
    /// Bytes in use, and the most there ever were.
    used: u64,
    used_high: u64,
    reserved_high: u64,
    release_threshold: u64,
    /// Attributes 1 to 3, which say what reuse is allowed.
    reuse: [i32; 3],
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            freed: Vec::new(),
            used: 0,
            used_high: 0,
            reserved_high: 0,
            release_threshold: 0,
            reuse: [1; 3],
        }
    }
}

impl Pool {
    /// Bytes that are freed and not yet back in the heap.
    fn cached_bytes(&self) -> u64 {
        self.freed.iter().map(|f| f.bytes).sum()
    }

    fn count(&mut self, bytes: u64) {
        self.used += bytes;
        self.used_high = self.used_high.max(self.used);
        self.reserved_high = self.reserved_high.max(self.used + self.cached_bytes());
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

    /// Takes out the blocks whose streams have passed the free.
    pub(super) fn take_passed(&mut self, mut passed: impl FnMut(Mark) -> bool) -> Vec<u64> {
        let mut taken = Vec::new();
        self.freed.retain(|f| {
            let done = passed(f.mark);
            if done {
                taken.push(f.address);
            }
            !done
        });
        taken
    }

    /// Reads an attribute: the value, and whether it is 64 bits wide.
    fn attribute(&self, attribute: u32) -> Result<(u64, bool), CudaError> {
        use pool_attribute::*;
        Ok(match attribute {
            REUSE_FOLLOW_EVENT_DEPENDENCIES..=REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                (self.reuse[attribute as usize - 1] as u64, false)
            }
            RELEASE_THRESHOLD => (self.release_threshold, true),
            RESERVED_MEM_CURRENT => (self.used + self.cached_bytes(), true),
            RESERVED_MEM_HIGH => (self.reserved_high, true),
            USED_MEM_CURRENT => (self.used, true),
            USED_MEM_HIGH => (self.used_high, true),
            _ => return Err(CudaError::INVALID_VALUE),
        })
    }

    /// Writes an attribute: `read` gives the value, with its width in bits.
    fn set_attribute(
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
                (0, _) => self.reserved_high = self.used + self.cached_bytes(),
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

impl Attached {
    /// Allocates from a device's pool for work in a stream's slot.
    pub(crate) fn allocate_in_stream(
        &self,
        device: CUdevice,
        context: u64,
        bytes: u64,
        slot: u32,
    ) -> Result<u64, CudaError> {
        if bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let bytes = pooled_bytes(bytes).ok_or(CudaError::OUT_OF_MEMORY)?;
        {
            let mut memory = self.memory();
            let id = memory.new_id();
            let mut state = self.state();
            let owner = memory.device(device).ok_or(CudaError::INVALID_DEVICE)?;
            if let Some(address) = owner.pool.reuse(bytes, slot, |mark| state.passed(mark)) {
                if let Some(block) = owner.heap.block_mut(address) {
                    block.tag.freed = false;
                    block.tag.context = context;
                    block.tag.id = id;
                }
                owner.pool.count(bytes);
                return Ok(address);
            }
            drop(state);
            self.reclaim(&mut memory);
        }
        let address = self.allocate(device, context, bytes, true)?;
        if let Some(owner) = self.memory().device(device) {
            owner.pool.count(bytes);
        }
        Ok(address)
    }

    /// Frees an allocation once the stream gets to `mark`. CUDA_ERROR_INVALID_VALUE if none starts
    /// there.
    pub(crate) fn free_in_stream(&self, address: u64, mark: Mark) -> CUresult {
        let mut memory = self.memory();
        let owner = memory.owner(address).ok_or(CudaError::INVALID_VALUE)?;
        let block = owner.heap.block_mut(address).ok_or(CudaError::INVALID_VALUE)?;
        if block.tag.freed {
            return Err(CudaError::INVALID_VALUE);
        }
        block.tag.freed = true;
        let bytes = block.bytes;
        // Memory of cuMemAlloc may be freed so too: it was never counted here.
        if block.tag.pooled {
            owner.pool.used = owner.pool.used.saturating_sub(bytes);
        }
        owner.pool.freed.push(Freed { address, bytes, mark });
        Ok(())
    }

    /// Counts a pool's allocation that was freed out of a stream's order.
    pub(crate) fn count_pool_free(&self, address: u64) {
        let mut memory = self.memory();
        if let Some(owner) = memory.owner(address)
            && let Some(block) = owner.heap.block_mut(address)
            && block.tag.pooled
            && !block.tag.freed
        {
            owner.pool.used = owner.pool.used.saturating_sub(block.bytes);
        }
    }

    /// Gives up cached memory of a pool down to `keep` bytes in all.
    pub(crate) fn trim_pool(&self, device: CUdevice, keep: u64) -> CUresult {
        let mut memory = self.memory();
        let owner = memory.device(device).ok_or(CudaError::INVALID_VALUE)?;
        if owner.pool.used + owner.pool.cached_bytes() > keep {
            self.reclaim(&mut memory);
            self.release_chunks(&mut memory, 0);
        }
        Ok(())
    }

    /// Reads a pool's attribute, see [`Pool::attribute`].
    pub(crate) fn pool_attribute(
        &self,
        device: CUdevice,
        attribute: u32,
    ) -> Result<(u64, bool), CudaError> {
        let mut memory = self.memory();
        memory.device(device).ok_or(CudaError::INVALID_VALUE)?.pool.attribute(attribute)
    }

    /// Writes a pool's attribute, see [`Pool::set_attribute`].
    pub(crate) fn set_pool_attribute(
        &self,
        device: CUdevice,
        attribute: u32,
        read: impl FnOnce(bool) -> Result<u64, CudaError>,
    ) -> CUresult {
        let mut memory = self.memory();
        let owner = memory.device(device).ok_or(CudaError::INVALID_VALUE)?;
        owner.pool.set_attribute(attribute, read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_block_goes_to_its_own_stream_at_once_and_to_others_when_passed() {
        let mut pool = Pool::default();
        let mark = Mark { slot: 3, value: 9 };
        pool.freed.push(Freed { address: 0x1000, bytes: 512, mark });
        assert_eq!(pool.reuse(1024, 3, |_| true), None, "another size");
        assert_eq!(pool.reuse(512, 4, |_| false), None, "another stream, not passed");
        assert_eq!(pool.reuse(512, 3, |_| false), Some(0x1000));
        pool.freed.push(Freed { address: 0x2000, bytes: 512, mark });
        assert_eq!(pool.reuse(512, 4, |m| m == mark), Some(0x2000));
        pool.freed.push(Freed { address: 0x3000, bytes: 512, mark });
        assert_eq!(pool.take_passed(|_| false), []);
        assert_eq!(pool.take_passed(|_| true), [0x3000]);
    }

    #[test]
    fn what_is_set_is_read_back() {
        use pool_attribute::*;
        let mut pool = Pool::default();
        pool.set_attribute(RELEASE_THRESHOLD, |wide| Ok(if wide { u64::MAX } else { 0 })).unwrap();
        assert_eq!(pool.attribute(RELEASE_THRESHOLD), Ok((u64::MAX, true)));
        pool.set_attribute(REUSE_ALLOW_OPPORTUNISTIC, |_| Ok(0)).unwrap();
        assert_eq!(pool.attribute(REUSE_ALLOW_OPPORTUNISTIC), Ok((0, false)));
        pool.count(4096);
        pool.used = 0;
        assert_eq!(pool.attribute(USED_MEM_HIGH), Ok((4096, true)));
        let wrong = pool.set_attribute(USED_MEM_HIGH, |_| Ok(5));
        assert_eq!(wrong, Err(CudaError::INVALID_VALUE));
        pool.set_attribute(USED_MEM_HIGH, |_| Ok(0)).unwrap();
        assert_eq!(pool.attribute(USED_MEM_HIGH), Ok((0, true)));
        assert_eq!(pool.attribute(99), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn pools_of_devices_have_handles_of_their_own() {
        assert_ne!(default_pool(0), default_pool(1));
        assert_eq!(device_of_pool(default_pool(1)), Ok(1));
        assert_eq!(device_of_pool(CUmemoryPool(5)), Err(CudaError::INVALID_VALUE));
    }
}
