//! Shared pools: pools and their blocks in other processes.
//!
//! What a program hands over for a pool is a file with nothing but the pool's number, which no
//! process can guess; what it hands over for a block says where the block's memory is, and that
//! number. The memory itself is opened as cuIpcOpenMemHandle does.

use std::os::fd::IntoRawFd;

use channel::{pool_file, system};
use cuda_api::constants::vmm;
use cuda_api::*;

use super::ipc::{POINTER, Shared};
use super::pool_memory::{Pool, Sharing};
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
        if flags != 0 || handle_type != vmm::HANDLE_POSIX_FD {
            return Err(Error::INVALID_VALUE);
        }
        let Sharing::Exportable(number) = pool.sharing else { return Err(Error::INVALID_VALUE) };
        let file = pool_file::create(number).map_err(|error| system::result_of(&error))?;
        handle_out.cast::<c_int>().set(file.into_raw_fd())
    }

    fn cuMemPoolImportFromShareableHandle(
        pool_out: *mut CUmemoryPool, handle: *mut c_void, handle_type: c_uint, flags: u64,
    ) {
        let driver = driver()?;
        pool_out.required()?;
        if flags != 0 || handle_type != vmm::HANDLE_POSIX_FD {
            return Err(Error::INVALID_VALUE);
        }
        // The descriptor comes as a pointer.
        let fd = i32::try_from(handle.cast::<u8>().address()).map_err(|_| Error::INVALID_VALUE)?;
        let number = pool_file::number_in(fd).ok_or(Error::INVALID_VALUE)?;
        let device = driver.tenant().device;
        let make = |handle| Pool::new(handle, device, 0, Sharing::Imported(number));
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
        match pool.sharing {
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
        match pool.sharing {
            Sharing::Imported(number) if number == shared.tag => {
                pointer.set(driver.open(&shared, true)?)
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }
}
