//! Pinned and managed memory: memory files that client and server map at the same address.
//!
//! Managed memory is pinned memory by another name: host and device see the same pages, so each
//! sees what the other wrote as soon as CUDA promises it. On a GPU it lies in the host's memory,
//! and kernels reach it over the bus.

use crate::memory::fd_numbers::{no_shared_memory, out_of_the_way};
use crate::memory::heap::CHUNK_ALIGNMENT;
use crate::memory::page_exchange::Pages;
use crate::memory::{HostKind, HostTag, Memory};
use crate::program::Client;
use channel::memfd::{Seals, create_sealed};
use channel::message::Message;
use channel::request::{HostMap, HostUnmap};
use cuda_api::constants::host_flags;
use cuda_api::extension::memory_note;
use cuda_api::{CUresult, CudaError};
use std::os::fd::AsFd;

/// Every chunk is registered so that all contexts and the device reach it: one pointer is good
/// everywhere, regardless of the flags that the program gave.
const CHUNK_FLAGS: u32 = host_flags::PORTABLE | host_flags::DEVICE_MAP;

impl Client {
    /// Allocates pinned or managed memory. CUDA_ERROR_OUT_OF_MEMORY if there is no room, or the process can
    /// have no more files or mappings.
    pub(crate) fn allocate_pinned(
        &self,
        context: u64,
        bytes: u64,
        flags: u32,
        kind: HostKind,
    ) -> Result<u64, CudaError> {
        if bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let mut memory = self.memory();
        let tag = HostTag { context, id: memory.new_id(), flags, kind };
        if let Some(address) = memory.host.allocate(bytes, tag) {
            return Ok(address);
        }
        let (address, chunk_bytes) =
            memory.host.place_for_chunk(bytes).ok_or(CudaError::OUT_OF_MEMORY)?;
        let file =
            create_sealed(c"openmps-pinned", chunk_bytes, Seals::SIZE).map_err(no_shared_memory)?;
        let file = out_of_the_way(file);
        let mapping = memory
            .host_window
            .map(&file, address, chunk_bytes)
            .map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let request = HostMap { address, bytes: chunk_bytes, flags: CHUNK_FLAGS };
        self.call_with(Message::HostFd(()), file.as_fd(), &request)?;
        self.show_host(address, chunk_bytes, file.as_fd())?;
        file.mapped_for_program(Pages { start: address, bytes: chunk_bytes });
        memory.host_chunks.insert(address, (mapping, file));
        memory.host.add_chunk(address, chunk_bytes);
        memory.host.allocate(bytes, tag).ok_or(CudaError::OUT_OF_MEMORY)
    }

    /// Frees pinned or managed memory, when nothing uses it any more. CUDA_ERROR_INVALID_VALUE if
    /// no allocation of that kind starts there.
    pub(crate) fn free_pinned(&self, address: u64, kind: HostKind) -> CUresult {
        let starts_here = |memory: &mut Memory| {
            memory.host.block_mut(address).is_some_and(|block| block.tag.kind == kind)
        };
        if !starts_here(&mut self.memory()) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.wait_for_all_devices()?;
        let mut memory = self.memory();
        // Another thread may have freed it meanwhile.
        if !starts_here(&mut memory) {
            return Err(CudaError::INVALID_VALUE);
        }
        let block = memory.host.free(address).ok_or(CudaError::INVALID_VALUE)?;
        if kind == HostKind::Managed {
            self.note_memory(address, 1, memory_note::FREED);
        }
        memory.advice.forget(address, block.bytes);
        // One chunk of the smallest size stays, for the next small allocation.
        let keep = usize::from(memory.host.chunk_bytes() <= 2 * CHUNK_ALIGNMENT);
        self.release_host_chunks(&mut memory, keep);
        Ok(())
    }

    /// Frees pinned memory of this library's own that nothing uses any more. Waits for nothing: chunks without an
    /// allocation stay until other memory is freed.
    pub(crate) fn free_unused_pinned(&self, address: u64) {
        let mut memory = self.memory();
        if let Some(block) = memory.host.free(address) {
            memory.advice.forget(address, block.bytes);
        }
    }

    /// Frees what a context allocated, when its work is done.
    pub(in crate::program) fn free_pinned_of(&self, memory: &mut Memory, context: u64) {
        let blocks = memory.host.blocks().filter(|block| block.tag.context == context);
        let addresses: Vec<u64> = blocks.map(|block| block.address).collect();
        for address in addresses {
            if let Some(block) = memory.host.free(address) {
                memory.advice.forget(address, block.bytes);
            }
        }
        self.unregister_all_of(memory, context);
        self.release_host_chunks(memory, 0);
    }

    fn release_host_chunks(&self, memory: &mut Memory, keep: usize) {
        for address in memory.host.take_empty_chunks(keep) {
            // The server first: it must not copy into addresses that stand for nothing here. A
            // server that does not answer has no such mapping any more.
            self.hide_host(address);
            let _ = self.call(&HostUnmap { address });
            memory.host_chunks.remove(&address);
        }
    }
}
