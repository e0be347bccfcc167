//! Allocation: device memory is allocated and freed.

use crate::memory::{DEVICE_CHUNK_BYTES_MIN, DeviceTag, Memory};
use crate::program::Client;
use channel::request::{AllocationRetry, ChunkCreate, ChunkRelease, MemoryNote};
use cuda_api::extension::memory_note;
use cuda_api::{CUdevice, CUdeviceptr, CUmemoryPool, CUresult, CudaError};
use recovery::Mark;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// A device keeps one empty chunk, so that a program that allocates and frees a little in turns does
/// not ask the server each time; none that is larger, since other programs may want the memory.
const EMPTY_CHUNK_BYTES_MAX: u64 = DEVICE_CHUNK_BYTES_MIN;

/// How a server knows its device: it has one.
pub(crate) const WIRE_DEVICE: CUdevice = 0;

/// What an allocation is to be.
#[derive(Clone, Copy)]
struct Wanted {
    context: u64,
    bytes: u64,
    pool: CUmemoryPool,
    /// It is for variables, not for the program.
    variables: bool,
}

impl Client {
    /// Allocates device memory. CUDA_ERROR_OUT_OF_MEMORY if neither server nor window has room.
    pub(crate) fn allocate(
        &self,
        context: u64,
        bytes: u64,
        pool: CUmemoryPool,
    ) -> Result<u64, CudaError> {
        if bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let address = self.allocate_patiently(Wanted { context, bytes, pool, variables: false })?;
        self.note_memory(address, bytes, memory_note::FRESH);
        Ok(address)
    }

    /// Allocates device memory for variables of a module.
    pub(in crate::program) fn allocate_variables(&self, bytes: u64) -> Result<u64, CudaError> {
        self.allocate_variables_in(&mut self.memory(), bytes)
    }

    /// As [`Self::allocate_variables`], for a caller that holds the memory's lock.
    pub(in crate::program) fn allocate_variables_in(
        &self,
        memory: &mut Memory,
        bytes: u64,
    ) -> Result<u64, CudaError> {
        let pool = CUmemoryPool::NULL;
        self.allocate_in(memory, Wanted { context: 0, bytes, pool, variables: true })
    }

    /// Notifies a server that looks for mistakes of what became of memory.
    pub(crate) fn note_memory(&self, address: u64, bytes: u64, note: u32) {
        if self.wants_notes() {
            // At worst a mistake is not found.
            let _ = self.call(&MemoryNote { address: CUdeviceptr(address), bytes, note });
        }
    }

    fn allocate_patiently(&self, wanted: Wanted) -> Result<u64, CudaError> {
        self.with_room(|| self.allocate_in(&mut self.memory(), wanted))
    }

    /// Makes something that takes device memory; once more where there was no room, behind the end of
    /// all work, when what was freed in streams' order and chunks that are kept have gone back.
    /// `make` is called without a lock.
    pub(crate) fn with_room<R>(
        &self,
        make: impl Fn() -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        match make() {
            Err(CudaError::OUT_OF_MEMORY) => {}
            other => return other,
        }
        self.wait_for_everything()?;
        {
            let mut memory = self.memory();
            self.reclaim(&mut memory, true);
            self.release_chunks(&mut memory, 0);
        }
        // For the log one refusal is one, though it is answered twice.
        self.posting()?.push(&AllocationRetry {})?;
        make()
    }

    /// The program has waited for work: gives back what was freed in streams' order, but for what
    /// pools may keep.
    pub(crate) fn give_back_freed(&self) {
        if !self.keeps_freed.load(Ordering::Acquire) {
            return;
        }
        let mut memory = self.memory();
        self.reclaim(&mut memory, false);
        // Streams that have not got there yet are looked at again.
        self.keeps_freed.store(memory.pools.keeps_too_much(), Ordering::Release);
        self.release_spare_chunks(&mut memory);
    }

    fn allocate_in(&self, memory: &mut Memory, wanted: Wanted) -> Result<u64, CudaError> {
        let Wanted { context, bytes, pool, variables } = wanted;
        let (id, asked, freed) = (memory.new_id(), bytes, false);
        let tag = DeviceTag { context, id, pool, asked, freed, variables };
        if let Some(address) = memory.heap.allocate(bytes, tag) {
            return Ok(address);
        }
        let (address, chunk_bytes) =
            memory.heap.place_for_chunk(bytes).ok_or(CudaError::OUT_OF_MEMORY)?;
        let chunk = CUdeviceptr(address);
        let file = self.call_for_descriptor(
            &ChunkCreate { device: WIRE_DEVICE, address: chunk, bytes: chunk_bytes },
            &ChunkRelease { address: chunk },
        )?;
        self.show_chunk(address, chunk_bytes, file.as_fd())?;
        memory.chunk_files.insert(address, file);
        memory.heap.add_chunk(address, chunk_bytes);
        memory.heap.allocate(bytes, tag).ok_or(CudaError::OUT_OF_MEMORY)
    }

    /// Frees the allocation that starts at an address, when nothing uses it any more.
    /// CUDA_ERROR_INVALID_VALUE if there is none.
    pub(crate) fn free(&self, address: u64) -> CUresult {
        let is_allocation = |memory: &mut Memory| {
            let block = memory.heap.block_mut(address);
            block.is_some_and(|block| !block.tag.freed && !block.tag.variables)
        };
        if !is_allocation(&mut self.memory()) {
            return Err(CudaError::INVALID_VALUE);
        }
        // All work that uses it was posted before; no work outstanding costs nothing here. If the
        // wait fails the memory cannot be used any more: the error is what there is to say.
        self.wait_for_everything()?;
        self.wait_for_users_of(address)?;
        let mut memory = self.memory();
        // Another thread may have freed it meanwhile.
        if !is_allocation(&mut memory) {
            return Err(CudaError::INVALID_VALUE);
        }
        if let Some(block) = memory.heap.free(address) {
            memory.pools.count_free(block.tag.pool, block.tag.asked, block.bytes);
        }
        self.note_memory(address, 1, memory_note::FREED);
        self.release_spare_chunks(&mut memory);
        Ok(())
    }

    /// Gives chunks without an allocation back to the server, but for a small one.
    pub(crate) fn release_spare_chunks(&self, memory: &mut Memory) {
        let smallest = memory.heap.smallest_empty_chunk();
        let keep = smallest.is_some_and(|bytes| bytes <= EMPTY_CHUNK_BYTES_MAX);
        self.release_chunks(memory, usize::from(keep));
    }

    /// Gives chunks without an allocation back to the server, but `keep` of them.
    pub(crate) fn release_chunks(&self, memory: &mut Memory, keep: usize) {
        for address in memory.heap.take_empty_chunks(keep) {
            self.hide_chunk(address);
            memory.chunk_files.remove(&address);
            // A server that does not answer has no memory of this client's either.
            let _ = self.call(&ChunkRelease { address: CUdeviceptr(address) });
        }
    }

    /// Makes what was freed in streams' order, and has passed, free for all streams; but for what
    /// pools may keep, unless `all` is wanted.
    pub(crate) fn reclaim(&self, memory: &mut Memory, all: bool) {
        let mut state = self.state();
        let passed = memory.pools.take_passed(all, |mark: Mark| state.passed(mark));
        for address in passed {
            memory.heap.free(address);
        }
    }

    /// Frees what a context allocated, when its work is done.
    pub(crate) fn free_memory_of(&self, context: u64) {
        let mut memory = self.memory();
        self.reclaim(&mut memory, true);
        let blocks = memory.heap.blocks();
        let addresses: Vec<u64> = blocks
            .filter(|block| block.tag.context == context)
            .filter(|block| !block.tag.freed && !block.tag.variables)
            .map(|block| block.address)
            .collect();
        for address in addresses {
            memory.heap.free(address);
        }
        self.release_chunks(&mut memory, 0);
        self.free_pinned_of(&mut memory, context);
    }
}
