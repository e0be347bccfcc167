//! Pools and their blocks in other processes of the server.
//!
//! What a program passes for a pool is a file with the pool's number; what it passes for a
//! block says where the block's memory is, as cuIpcGetMemHandle does, and that number.

use super::ipc::{POINTER_MAGIC, open, share, to_bytes, to_words};
use crate::boundary::{In, Out};
use crate::memory::address::Place;
use crate::program::Client;
use crate::program::mode;
use core::ffi::{c_uint, c_void};
use cuda_api::{CUdeviceptr, CUmemPoolPtrExportData, CUmemoryPool, CUresult, CudaError};
use driver_common::pool::Sharing;
use driver_common::pool_share;

pub(crate) fn cuMemPoolExportToShareableHandle(
    handle: Out<c_void>,
    pool: CUmemoryPool,
    handle_type: c_uint,
    flags: u64,
) -> CUresult {
    let client = mode::client_of(pool.0)?;
    handle.required()?;
    let sharing = client.memory().pools.get(pool)?.sharing();
    pool_share::export(sharing, handle, handle_type, flags)
}

pub(crate) fn cuMemPoolImportFromShareableHandle(
    pool: Out<CUmemoryPool>,
    handle: Out<c_void>,
    handle_type: c_uint,
    flags: u64,
) -> CUresult {
    let (client, _) = mode::enter()?;
    pool.required()?;
    let sharing = pool_share::import(handle, handle_type, flags)?;
    pool.set(client.memory().pools.create(0, sharing)?)
}

pub(crate) fn cuMemPoolExportPointer(
    data: Out<CUmemPoolPtrExportData>,
    pointer: CUdeviceptr,
) -> CUresult {
    let (client, _) = mode::enter()?;
    data.required()?;
    let (block, number) = {
        let mut memory = client.memory();
        let Place::Device { start, bytes, tag, .. } = memory.place(pointer.0)? else {
            return Err(CudaError::INVALID_VALUE);
        };
        match memory.pools.get(tag.pool)?.sharing() {
            Sharing::Exportable(number) if start == pointer.0 => ((start, bytes), number),
            _ => return Err(CudaError::INVALID_VALUE),
        }
    };
    let words = share(client, POINTER_MAGIC, block, number)?;
    data.set(CUmemPoolPtrExportData { reserved: to_bytes(words) })
}

pub(crate) fn cuMemPoolImportPointer(
    pointer: Out<CUdeviceptr>,
    pool: CUmemoryPool,
    data: Out<CUmemPoolPtrExportData>,
) -> CUresult {
    let (client, _) = mode::enter()?;
    pointer.required()?;
    let data: In<CUmemPoolPtrExportData> = data.as_in();
    let words = to_words(&data.get()?.reserved, POINTER_MAGIC)?;
    match client.memory().pools.get(pool)?.sharing() {
        Sharing::Imported(number) if number == words[7] => {}
        _ => return Err(CudaError::INVALID_VALUE),
    }
    let opened = open(client, words)?;
    client.memory().pools.imported.insert(opened.0);
    pointer.set(opened)
}

impl Client {
    /// Closes a block of another process' pool, behind all work: false if it is none.
    pub(crate) fn close_imported(&self, pointer: CUdeviceptr) -> Result<bool, CudaError> {
        if !self.memory().pools.imported.contains(&pointer.0) {
            return Ok(false);
        }
        self.wait_for_everything()?;
        self.close_shared(pointer.0)?;
        let mut memory = self.memory();
        // It may have been opened more than once.
        if memory.place(pointer.0).is_err() {
            memory.pools.imported.remove(&pointer.0);
        }
        Ok(true)
    }
}
