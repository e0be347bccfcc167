//! Virtual memory management.

use std::os::fd::{BorrowedFd, IntoRawFd};

use cuda_api::constants::vmm;
use cuda_api::*;
use driver_common::virtual_memory;

use super::{devices, driver, exports};
use crate::device::limits::CHUNK_BYTES;
use crate::device::memory::{Access, Physical};
use crate::device::slab::Key;
use crate::error::{Error, Result};

/// Marks handles of physical memory among all words.
const HANDLE_MARK: u64 = 0xC9 << 56;

fn to_handle(key: Key<Physical>) -> u64 {
    HANDLE_MARK | u64::from(key.generation()) << 24 | u64::from(key.index())
}

fn from_handle(handle: u64) -> Result<Key<Physical>> {
    if handle >> 48 != HANDLE_MARK >> 48 {
        return Err(Error::INVALID_VALUE);
    }
    Ok(Key::from_parts(handle as u32 & 0xff_ffff, (handle >> 24) as u32 & 0xff_ffff))
}

exports! {
    fn cuMemAddressReserve(
        ptr: *mut CUdeviceptr, size: usize, alignment: usize, addr: CUdeviceptr, flags: u64,
    ) {
        let driver = driver()?;
        ptr.required()?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let (size, alignment) = (size as u64, (alignment as u64).max(1));
        ptr.set(CUdeviceptr(driver.device.reserve_addresses(size, alignment, addr.0)?))
    }

    fn cuMemAddressFree(ptr: CUdeviceptr, size: usize) {
        driver()?.device.free_addresses(ptr.0, size as u64)
    }

    fn cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle, size: usize, prop: *const CUmemAllocationProp,
        flags: u64,
    ) {
        let driver = driver()?;
        handle.required()?;
        driver.working_tenant()?;
        let (exportable, device) = check_properties(&prop.get()?)?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        handle.set(to_handle(driver.device.create_physical(size as u64, exportable, device)?))
    }

    fn cuMemRelease(handle: CUmemGenericAllocationHandle) {
        driver()?.device.release_physical(from_handle(handle)?)
    }

    fn cuMemMap(
        ptr: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle,
        flags: u64,
    ) {
        let driver = driver()?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let tenant = driver.working_tenant()?;
        let key = from_handle(handle)?;
        driver.device.map(&tenant, ptr.0, size as u64, offset as u64, key)
    }

    fn cuMemUnmap(ptr: CUdeviceptr, size: usize) {
        driver()?.device.unmap(ptr.0, size as u64)
    }

    fn cuMemSetAccess(
        ptr: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc, count: usize,
    ) {
        let driver = driver()?;
        if count == 0 || count > driver.device.count() as usize {
            return Err(Error::INVALID_VALUE);
        }
        for index in 0..count {
            let desc = desc.array(count).at(index)?;
            if desc.location.kind != vmm::LOCATION_DEVICE {
                return Err(Error::INVALID_VALUE);
            }
            let device = devices::check(desc.location.id)?;
            let access = match desc.flags {
                vmm::ACCESS_NONE => Access::None,
                vmm::ACCESS_READ => Access::Read,
                vmm::ACCESS_READ_WRITE => Access::ReadWrite,
                _ => return Err(Error::INVALID_VALUE),
            };
            driver.device.set_access(ptr.0, size as u64, device, access)?;
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: *mut u64, location: *const CUmemLocation, ptr: CUdeviceptr) {
        let driver = driver()?;
        flags.required()?;
        let location = location.get()?;
        if location.kind != vmm::LOCATION_DEVICE {
            return Err(Error::INVALID_VALUE);
        }
        let device = devices::check(location.id)?;
        flags.set(match driver.device.access(ptr.0, device)? {
            Access::None => vmm::ACCESS_NONE,
            Access::Read => vmm::ACCESS_READ,
            Access::ReadWrite => vmm::ACCESS_READ_WRITE,
        }.into())
    }

    fn cuMemGetAllocationGranularity(
        granularity: *mut usize, prop: *const CUmemAllocationProp, option: c_uint,
    ) {
        driver()?;
        check_properties(&prop.get()?)?;
        if option > vmm::GRANULARITY_RECOMMENDED {
            return Err(Error::INVALID_VALUE);
        }
        granularity.set(CHUNK_BYTES as usize)
    }

    fn cuMemExportToShareableHandle(
        shareable_handle: *mut c_void, handle: CUmemGenericAllocationHandle, handle_type: c_uint,
        flags: u64,
    ) {
        let driver = driver()?;
        shareable_handle.cast::<c_int>().required()?;
        if handle_type != vmm::HANDLE_POSIX_FD {
            return Err(Error::NOT_SUPPORTED);
        }
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        let fd = driver.device.export_physical(from_handle(handle)?)?;
        shareable_handle.cast::<c_int>().set(fd.into_raw_fd())
    }

    fn cuMemImportFromShareableHandle(
        handle: *mut CUmemGenericAllocationHandle, os_handle: *mut c_void, handle_type: c_uint,
    ) {
        let driver = driver()?;
        handle.required()?;
        if handle_type != vmm::HANDLE_POSIX_FD {
            return Err(Error::NOT_SUPPORTED);
        }
        let device = driver.tenant().device;
        let import = |fd: BorrowedFd<'_>| driver.device.import_physical(fd, device);
        handle.set(to_handle(virtual_memory::with_descriptor(os_handle, import)?))
    }

    fn cuMemGetAllocationPropertiesFromHandle(
        prop: *mut CUmemAllocationProp, handle: CUmemGenericAllocationHandle,
    ) {
        let driver = driver()?;
        let (_, exportable, device) = driver.device.physical_properties(from_handle(handle)?)?;
        let types = if exportable { vmm::HANDLE_POSIX_FD } else { vmm::HANDLE_NONE };
        prop.set(virtual_memory::properties(device as CUdevice, types))
    }

    fn cuMemRetainAllocationHandle(
        handle: *mut CUmemGenericAllocationHandle, addr: *mut c_void,
    ) {
        let driver = driver()?;
        handle.required()?;
        let address = addr.cast::<u8>().address();
        handle.set(to_handle(driver.device.retain_physical(address)?))
    }
}

/// True if memory with these properties can be exported, and the device; fails if there is no such memory.
fn check_properties(prop: &CUmemAllocationProp) -> Result<(bool, u32)> {
    if prop.kind != vmm::ALLOCATION_PINNED || prop.location.kind != vmm::LOCATION_DEVICE {
        return Err(Error::INVALID_VALUE);
    }
    let device = devices::check(prop.location.id)?;
    Ok((virtual_memory::check_properties(prop)? == vmm::HANDLE_POSIX_FD, device))
}
