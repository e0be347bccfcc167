//! Shared pools: pools and their blocks in other processes.
//!
//! What a program passes for a pool is a file with nothing but the pool's number, which no
//! process can guess; what it passes for a block says where the block's memory is, and that
//! number. The memory itself is opened as cuIpcOpenMemHandle does.

use cuda_api::*;
use driver_common::pool::Sharing;
use driver_common::pool_share;

use super::ipc::{POINTER, Shared};
use super::pool_memory::Pool;
use super::{driver, exports, thread};
use crate::device::memory::{AllocationKind, PointerKind};
use crate::error::Error;

exports! {
    fn cuMemPoolExportToShareableHandle(
        handle_out: *mut c_void, pool: CUmemoryPool, handle_type: c_uint, flags: u64,
    ) {
        let driver = driver()?;
        handle_out.required()?;
        let pool = driver.pool(pool)?;
        pool_share::export(pool.sharing(), handle_out, handle_type, flags)
    }

    fn cuMemPoolImportFromShareableHandle(
        pool_out: *mut CUmemoryPool, handle: *mut c_void, handle_type: c_uint, flags: u64,
    ) {
        let driver = driver()?;
        pool_out.required()?;
        let sharing = pool_share::import(handle, handle_type, flags)?;
        let device = driver.tenant().device;
        let make = |handle| Pool::new(handle, device, 0, sharing);
        pool_out.set(CUmemoryPool(driver.pools.insert_with(make)?.0))
    }

    fn cuMemPoolExportPointer(
        share_data: *mut CUmemPoolPtrExportData, pointer: CUdeviceptr,
    ) {
        let driver = driver()?;
        thread::current()?;
        share_data.required()?;
        let found = driver.device.memory.pointer(pointer.0).ok_or(Error::INVALID_VALUE)?;
        let PointerKind::Allocation(AllocationKind::Pool { pool }) = found.kind else {
            return Err(Error::INVALID_VALUE);
        };
        let pool = driver.pool(CUmemoryPool(pool))?;
        match pool.sharing() {
            Sharing::Exportable(number) if found.base == pointer.0 => {
                let shared = driver.share(found.base, found.bytes, number)?;
                share_data.set(CUmemPoolPtrExportData { reserved: shared.to_bytes(POINTER) })
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }

    fn cuMemPoolImportPointer(
        pointer: *mut CUdeviceptr, pool: CUmemoryPool, share_data: *mut CUmemPoolPtrExportData,
    ) {
        let driver = driver()?;
        thread::current()?;
        pointer.required()?;
        let pool = driver.pool(pool)?;
        let shared = Shared::from_bytes(&share_data.as_in().get()?.reserved, POINTER)?;
        match pool.sharing() {
            Sharing::Imported(number) if number == shared.tag => {
                pointer.set(driver.open(&shared, true)?)
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }
}
