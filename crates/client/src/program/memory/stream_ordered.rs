//! Stream-ordered allocation: blocks of pools given out and taken back in a stream's order.

use crate::memory::DeviceTag;
use crate::memory::pools::{Freed, default_pool, pooled_bytes};
use crate::program::Client;
use cuda_api::{CUmemoryPool, CUresult, CudaError};
use driver_common::pool::Sharing;
use recovery::Mark;
use std::sync::atomic::Ordering;

impl Client {
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
        {
            let mut memory = self.memory();
            let id = memory.new_id();
            let mut state = self.state();
            let found = memory.pools.get(pool)?;
            if matches!(found.sharing(), Sharing::Imported(_)) {
                return Err(CudaError::INVALID_VALUE);
            }
            let reused = found.reuse(bytes, slot, |mark| state.passed(mark));
            if let Some(address) = reused {
                found.count(asked, bytes);
                if let Some(block) = memory.heap.block_mut(address) {
                    block.tag =
                        DeviceTag { context, id, pool, asked, freed: false, variables: false };
                }
                return Ok(address);
            }
            drop(state);
            self.reclaim(&mut memory, false);
            memory.pools.get(pool)?.check_room(bytes)?;
        }
        let address = self.allocate(context, bytes, pool)?;
        let mut memory = self.memory();
        if let Some(block) = memory.heap.block_mut(address) {
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
        let block = memory.heap.block_mut(address).ok_or(CudaError::INVALID_VALUE)?;
        // A module's variables are not the program's to free.
        if block.tag.freed || block.tag.variables {
            return Err(CudaError::INVALID_VALUE);
        }
        block.tag.freed = true;
        let (bytes, asked, pool) = (block.bytes, block.tag.asked, block.tag.pool);
        // Memory of cuMemAlloc may be freed so too: it was never counted, and goes to the default
        // pool.
        let keeper = if pool.is_null() { default_pool(self.device) } else { pool };
        if let Some(keeper) = memory.pools.by_handle.get_mut(&keeper) {
            if !pool.is_null() {
                keeper.count_back(asked, bytes);
            }
            keeper.freed.push(Freed { address, bytes, mark });
        }
        self.keeps_freed.store(true, Ordering::Release);
        Ok(())
    }

    /// Gives up cached memory of a pool down to `keep` bytes in all.
    pub(crate) fn trim_pool(&self, pool: CUmemoryPool, keep: u64) -> CUresult {
        let mut memory = self.memory();
        let mut state = self.state();
        let taken = memory.pools.get(pool)?.take_above(keep, |mark| state.passed(mark));
        drop(state);
        for address in taken {
            memory.heap.free(address);
        }
        self.release_chunks(&mut memory, 0);
        Ok(())
    }
}
