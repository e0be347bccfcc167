//! Virtual memory management: addresses, physical memory, and the one mapped at the other.

use std::{os::fd::FromRawFd, os::fd::OwnedFd, ptr};

use cudarc::driver::sys::{
    self, CUdevice_attribute as Attribute, CUmemAccess_flags as Access,
    CUmemAllocationHandleType as HandleType, CUmemAllocationProp as Properties,
};
use samples::gpu::blank;

use crate::{
    Check,
    support::{Env, Outcome, Stop, call, equal, holds, place, refused, synchronize},
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("virtual.map", map),
    ("virtual.grows", grows),
    ("virtual.two_addresses", two_addresses),
    ("virtual.export", export),
    ("virtual.handles", handles),
    ("virtual.wrong", wrong),
];

/// What all checks need: the device's granularity, if it has virtual memory management.
fn granularity(env: &Env, properties: &Properties) -> Outcome<usize> {
    let supported = Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    if env.attribute(supported)? == 0 {
        return Err(Stop::Absent("the device has no virtual memory management".to_owned()));
    }
    let mut bytes = 0;
    let minimum = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    call!(cuMemGetAllocationGranularity(&mut bytes, properties, minimum))?;
    holds("the granularity is a power of two", bytes.is_power_of_two())?;
    Ok(bytes)
}

fn properties(env: &Env, handle_type: HandleType) -> Properties {
    let mut properties: Properties = blank();
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = env.device;
    properties.requestedHandleTypes = handle_type;
    properties
}

/// Reserved addresses; what is mapped there must be unmapped before.
struct Addresses {
    base: sys::CUdeviceptr,
    bytes: usize,
}

impl Addresses {
    fn reserve(bytes: usize) -> Outcome<Self> {
        let mut base = 0;
        call!(cuMemAddressReserve(&mut base, bytes, 0, 0, 0))?;
        Ok(Self { base, bytes })
    }

    fn open(&self, env: &Env, offset: usize, bytes: usize) -> Outcome {
        let access = sys::CUmemAccessDesc {
            location: properties(env, HandleType::CU_MEM_HANDLE_TYPE_NONE).location,
            flags: Access::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        call!(cuMemSetAccess(self.base + offset as u64, bytes, &access, 1))
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        let _ = call!(cuMemAddressFree(self.base, self.bytes));
    }
}

fn create(properties: &Properties, bytes: usize) -> Outcome<u64> {
    let mut handle = 0;
    call!(cuMemCreate(&mut handle, bytes, properties, 0))?;
    Ok(handle)
}

fn words(address: u64, count: usize) -> Outcome<Vec<u32>> {
    let mut host = vec![0; count];
    call!(cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), address, 4 * count))?;
    Ok(host)
}

fn map(env: &Env) -> Outcome {
    let properties = properties(env, HandleType::CU_MEM_HANDLE_TYPE_NONE);
    let bytes = granularity(env, &properties)?;
    let memory = create(&properties, bytes)?;
    let addresses = Addresses::reserve(bytes)?;
    call!(cuMemMap(addresses.base, bytes, 0, memory, 0))?;
    addresses.open(env, 0, bytes)?;
    let mut flags = 0;
    call!(cuMemGetAccess(&mut flags, &properties.location, addresses.base))?;
    equal("access", flags, 3)?;
    call!(cuMemsetD32_v2(addresses.base, 9, bytes / 4))?;
    env.slow_write(addresses.base + 8, 10, 0, ptr::null_mut())?;
    synchronize()?;
    equal("words", words(addresses.base, 4)?, vec![9, 9, 10, 9])?;
    equal("last word", words(addresses.base + bytes as u64 - 4, 1)?, vec![9])?;
    call!(cuMemUnmap(addresses.base, bytes))?;
    call!(cuMemRelease(memory))
}

/// As an allocator with expandable segments: more memory behind what is there.
fn grows(env: &Env) -> Outcome {
    let properties = properties(env, HandleType::CU_MEM_HANDLE_TYPE_NONE);
    let bytes = granularity(env, &properties)?;
    let addresses = Addresses::reserve(64 * bytes)?;
    for piece in 0..3 {
        let memory = create(&properties, bytes)?;
        call!(cuMemMap(addresses.base + (piece * bytes) as u64, bytes, 0, memory, 0))?;
        // The mapping keeps what it maps.
        call!(cuMemRelease(memory))?;
        addresses.open(env, piece * bytes, bytes)?;
    }
    // Over the borders.
    call!(cuMemsetD32_v2(addresses.base, 3, 3 * bytes / 4))?;
    let border = addresses.base + bytes as u64 - 8;
    let host = [4u32, 5, 6, 7];
    call!(cuMemcpyHtoD_v2(border, host.as_ptr().cast(), 16))?;
    call!(cuMemcpyDtoD_v2(border + bytes as u64, border, 16))?;
    synchronize()?;
    equal("over the first border", words(border - 4, 6)?, vec![3, 4, 5, 6, 7, 3])?;
    equal("over the second one", words(border + bytes as u64, 5)?, vec![4, 5, 6, 7, 3])?;
    refused!(cuMemsetD32_v2(addresses.base + 3 * bytes as u64, 0, 1), CUDA_ERROR_INVALID_VALUE)?;
    // A piece in the middle goes, the others stay.
    call!(cuMemUnmap(addresses.base + bytes as u64, bytes))?;
    equal("the first piece", words(addresses.base, 1)?, vec![3])?;
    call!(cuMemUnmap(addresses.base, bytes))?;
    call!(cuMemUnmap(addresses.base + 2 * bytes as u64, bytes))
}

/// All of one memory at two addresses of a reservation and one of another.
fn two_addresses(env: &Env) -> Outcome {
    let properties = properties(env, HandleType::CU_MEM_HANDLE_TYPE_NONE);
    let bytes = 2 * granularity(env, &properties)?;
    let memory = create(&properties, bytes)?;
    let (first, second) = (Addresses::reserve(2 * bytes)?, Addresses::reserve(bytes)?);
    call!(cuMemMap(first.base, bytes, 0, memory, 0))?;
    call!(cuMemMap(first.base + bytes as u64, bytes, 0, memory, 0))?;
    first.open(env, 0, 2 * bytes)?;
    call!(cuMemMap(second.base, bytes, 0, memory, 0))?;
    second.open(env, 0, bytes)?;
    call!(cuMemsetD32_v2(first.base, 11, 4))?;
    synchronize()?;
    for other in [first.base + bytes as u64, second.base] {
        equal("what another one shows", words(other, 2)?, vec![11, 11])?;
    }
    call!(cuMemUnmap(first.base, 2 * bytes))?;
    equal("what the other one still shows", words(second.base, 2)?, vec![11, 11])?;
    call!(cuMemUnmap(second.base, bytes))?;
    call!(cuMemRelease(memory))
}

fn export(env: &Env) -> Outcome {
    let supported = Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    if env.attribute(supported)? == 0 {
        return Err(Stop::Absent("memory cannot be exported as a descriptor".to_owned()));
    }
    let fd_type = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    let properties = properties(env, fd_type);
    let bytes = granularity(env, &properties)?;
    let (memory, first) = (create(&properties, bytes)?, Addresses::reserve(bytes)?);
    call!(cuMemMap(first.base, bytes, 0, memory, 0))?;
    first.open(env, 0, bytes)?;
    let mut fd = -1i32;
    call!(cuMemExportToShareableHandle(place(&mut fd), memory, fd_type, 0))?;
    // SAFETY: the driver has made the descriptor for its caller.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut imported = 0;
    let handle = ptr::without_provenance_mut(fd as usize);
    call!(cuMemImportFromShareableHandle(&mut imported, handle, fd_type))?;
    drop(file);
    let second = Addresses::reserve(bytes)?;
    call!(cuMemMap(second.base, bytes, 0, imported, 0))?;
    second.open(env, 0, bytes)?;
    env.slow_write(second.base, 21, 0, ptr::null_mut())?;
    synchronize()?;
    equal("what was written through the import", words(first.base, 1)?, vec![21])?;
    for (addresses, memory) in [(&first, memory), (&second, imported)] {
        call!(cuMemUnmap(addresses.base, bytes))?;
        call!(cuMemRelease(memory))?;
    }
    Ok(())
}

fn handles(env: &Env) -> Outcome {
    let none = HandleType::CU_MEM_HANDLE_TYPE_NONE;
    let asked = properties(env, none);
    let bytes = granularity(env, &asked)?;
    let (memory, addresses) = (create(&asked, bytes)?, Addresses::reserve(bytes)?);
    let mut got = properties(env, HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    call!(cuMemGetAllocationPropertiesFromHandle(&mut got, memory))?;
    equal("type", got.type_ as u32, asked.type_ as u32)?;
    equal("device", got.location.id, env.device)?;
    call!(cuMemMap(addresses.base, bytes, 0, memory, 0))?;
    addresses.open(env, 0, bytes)?;
    let mut retained = 0;
    call!(cuMemRetainAllocationHandle(&mut retained, (addresses.base + 64) as *mut _))?;
    call!(cuMemRelease(memory))?;
    call!(cuMemGetAllocationPropertiesFromHandle(&mut got, retained))?;
    call!(cuMemUnmap(addresses.base, bytes))?;
    // The handle alone keeps the memory.
    call!(cuMemMap(addresses.base, bytes, 0, retained, 0))?;
    call!(cuMemUnmap(addresses.base, bytes))?;
    call!(cuMemRelease(retained))
}

fn wrong(env: &Env) -> Outcome {
    let properties = properties(env, HandleType::CU_MEM_HANDLE_TYPE_NONE);
    let bytes = granularity(env, &properties)?;
    let mut handle = 0;
    refused!(cuMemCreate(&mut handle, bytes / 2, &properties, 0), CUDA_ERROR_INVALID_VALUE)?;
    let (memory, addresses) = (create(&properties, bytes)?, Addresses::reserve(2 * bytes)?);
    // Memory is mapped whole.
    refused!(cuMemMap(addresses.base, 2 * bytes, 0, memory, 0), CUDA_ERROR_NOT_SUPPORTED)?;
    call!(cuMemMap(addresses.base, bytes, 0, memory, 0))?;
    refused!(cuMemMap(addresses.base, bytes, 0, memory, 0), CUDA_ERROR_INVALID_VALUE)?;
    // Access was not given to any device.
    refused!(cuMemsetD32_v2(addresses.base, 0, 1), CUDA_ERROR_INVALID_VALUE)?;
    call!(cuMemUnmap(addresses.base, bytes))?;
    call!(cuMemRelease(memory))
}
