//! Virtual memory (the manual's "Virtual Memory Management").

use crate::boundary::{In, Out};
use crate::memory::heap::CHUNK_ALIGNMENT;
use crate::program::mode;
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::vmm;
use cuda_api::{
    CUdevice, CUdeviceptr, CUmemAccessDesc, CUmemAllocationProp, CUmemGenericAllocationHandle,
    CUmemLocation, CUresult, CudaError,
};
use driver_common::virtual_memory;
use std::os::fd::IntoRawFd;

/// Descriptions of access taken from one call: more than there are devices.
const DESCRIPTIONS_MAX: usize = 1024;

/// CUDA_ERROR_INVALID_VALUE for no whole number of what memory is mapped in.
fn check_size(bytes: usize) -> Result<u64, CudaError> {
    match bytes > 0 && (bytes as u64).is_multiple_of(CHUNK_ALIGNMENT) {
        true => Ok(bytes as u64),
        false => Err(CudaError::INVALID_VALUE),
    }
}

/// The device that a location is; CUDA_ERROR_NOT_SUPPORTED for the host.
fn device_of(location: CUmemLocation) -> Result<CUdevice, CudaError> {
    use cuda_api::constants::memory_location::*;
    match location.kind {
        DEVICE => match usize::try_from(location.id) {
            Ok(id) if id < mode::program()?.devices().len() => Ok(location.id),
            _ => Err(CudaError::INVALID_DEVICE),
        },
        HOST | HOST_NUMA | HOST_NUMA_CURRENT => Err(CudaError::NOT_SUPPORTED),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Device and handle types of memory with these properties; an error if there is no such memory.
fn check_properties(properties: &CUmemAllocationProp) -> Result<(CUdevice, c_uint), CudaError> {
    if properties.kind != vmm::ALLOCATION_PINNED {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok((device_of(properties.location)?, virtual_memory::check_properties(properties)?))
}

pub(crate) fn cuMemAddressReserve(
    pointer: Out<CUdeviceptr>,
    bytes: usize,
    alignment: usize,
    wanted: CUdeviceptr,
    flags: u64,
) -> CUresult {
    let client = mode::client()?;
    client.health()?;
    pointer.required()?;
    let bytes = check_size(bytes)?;
    if flags != 0 || alignment & alignment.wrapping_sub(1) != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    pointer.set(CUdeviceptr(client.reserve_addresses(bytes, alignment as u64, wanted.0)?))
}

pub(crate) fn cuMemAddressFree(pointer: CUdeviceptr, bytes: usize) -> CUresult {
    mode::client_at(pointer.0)?.free_addresses(pointer.0, check_size(bytes)?)
}

pub(crate) fn cuMemCreate(
    handle: Out<CUmemGenericAllocationHandle>,
    bytes: usize,
    properties: In<CUmemAllocationProp>,
    flags: u64,
) -> CUresult {
    mode::program()?;
    handle.required()?;
    let (device, handle_types) = check_properties(&properties.get()?)?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let client = mode::client_on(device)?;
    let bytes = check_size(bytes)?;
    handle.set(client.with_room(|| client.create_physical(bytes, handle_types))?)
}

pub(crate) fn cuMemRelease(handle: CUmemGenericAllocationHandle) -> CUresult {
    mode::client_of(handle as usize)?.release_physical(handle)
}

pub(crate) fn cuMemMap(
    pointer: CUdeviceptr,
    bytes: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: u64,
) -> CUresult {
    let client = mode::client_at(pointer.0)?;
    let bytes = check_size(bytes)?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let owner = mode::client_of(handle as usize)?;
    match owner.device == client.device {
        true => client.map_physical(pointer.0, bytes, offset as u64, handle),
        false => client.map_physical_of(owner, (pointer.0, bytes), offset as u64, handle),
    }
}

pub(crate) fn cuMemUnmap(pointer: CUdeviceptr, bytes: usize) -> CUresult {
    mode::client_at(pointer.0)?.unmap_physical(pointer.0, check_size(bytes)?)
}

pub(crate) fn cuMemSetAccess(
    pointer: CUdeviceptr,
    bytes: usize,
    descriptions: In<CUmemAccessDesc>,
    count: usize,
) -> CUresult {
    let client = mode::client_at(pointer.0)?;
    let bytes = check_size(bytes)?;
    if count == 0 || count > DESCRIPTIONS_MAX {
        return Err(CudaError::INVALID_VALUE);
    }
    // All are checked before the first is obeyed.
    for index in 0..count {
        let description = descriptions.array(count).at(index)?;
        device_of(description.location)?;
        if !matches!(
            description.flags,
            vmm::ACCESS_NONE | vmm::ACCESS_READ | vmm::ACCESS_READ_WRITE
        ) {
            return Err(CudaError::INVALID_VALUE);
        }
    }
    for index in 0..count {
        let CUmemAccessDesc { location, flags } = descriptions.array(count).at(index)?;
        match location.id == client.device {
            true => client.set_access(pointer.0, bytes, flags)?,
            false => client.set_access_of(location.id, pointer.0, bytes, flags)?,
        }
    }
    Ok(())
}

pub(crate) fn cuMemGetAccess(
    flags: Out<u64>,
    location: In<CUmemLocation>,
    pointer: CUdeviceptr,
) -> CUresult {
    let client = mode::client_at(pointer.0)?;
    flags.required()?;
    let device = device_of(location.get()?)?;
    flags.set(client.access_of(device, pointer.0)?.into())
}

/// What devices map memory in is the same everywhere, so the least is the recommended one.
pub(crate) fn cuMemGetAllocationGranularity(
    granularity: Out<usize>,
    properties: In<CUmemAllocationProp>,
    option: c_uint,
) -> CUresult {
    mode::program()?;
    check_properties(&properties.get()?)?;
    match option {
        vmm::GRANULARITY_MINIMUM | vmm::GRANULARITY_RECOMMENDED => {
            granularity.set(CHUNK_ALIGNMENT as usize)
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// The descriptor is the program's to close.
pub(crate) fn cuMemExportToShareableHandle(
    shareable: Out<c_void>,
    handle: CUmemGenericAllocationHandle,
    kind: c_uint,
    flags: u64,
) -> CUresult {
    let client = mode::client_of(handle as usize)?;
    shareable.required()?;
    match (kind, flags) {
        (vmm::HANDLE_POSIX_FD, 0) => {
            let file = client.memory().export_physical(handle)?;
            shareable.cast::<c_int>().set(file.into_raw_fd())
        }
        (vmm::HANDLE_POSIX_FD, _) => Err(CudaError::INVALID_VALUE),
        _ => Err(CudaError::NOT_SUPPORTED),
    }
}

/// The descriptor comes as a pointer, and stays the program's.
pub(crate) fn cuMemImportFromShareableHandle(
    handle: Out<CUmemGenericAllocationHandle>,
    shareable: Out<c_void>,
    kind: c_uint,
) -> CUresult {
    let client = mode::client()?;
    client.health()?;
    handle.required()?;
    if kind != vmm::HANDLE_POSIX_FD {
        return Err(CudaError::NOT_SUPPORTED);
    }
    let file = virtual_memory::with_descriptor(shareable, |fd| {
        fd.try_clone_to_owned().map_err(|error| channel::system::result_of(&error))
    })?;
    handle.set(client.import_physical(file, (client.device, vmm::HANDLE_POSIX_FD))?)
}

pub(crate) fn cuMemGetAllocationPropertiesFromHandle(
    properties: Out<CUmemAllocationProp>,
    handle: CUmemGenericAllocationHandle,
) -> CUresult {
    let client = mode::client_of(handle as usize)?;
    let (device, handle_types) = {
        let mut memory = client.memory();
        let physical = memory.physical(handle)?;
        (physical.device, physical.handle_types)
    };
    properties.set(virtual_memory::properties(device, handle_types))
}

pub(crate) fn cuMemRetainAllocationHandle(
    handle: Out<CUmemGenericAllocationHandle>,
    address: Out<c_void>,
) -> CUresult {
    let client = mode::client_at(address.address())?;
    handle.required()?;
    handle.set(client.memory().retain_physical(address.address())?)
}
