//! Stream-ordered allocation (the manual's "Stream Ordered Memory Allocator").

use crate::boundary::{In, Out};
use crate::graph::backend::{ClientGraphs, graphs};
use crate::handles::device_of_word;
use crate::memory::pools::default_pool;
use crate::program::mode;
use crate::stream::DefaultStream;
use core::ffi::{c_uint, c_void};
use cuda_api::constants::vmm;
use cuda_api::{
    CUdevice, CUdeviceptr, CUmemAccessDesc, CUmemLocation, CUmemPoolProps, CUmemoryPool, CUresult,
    CUstream, CudaError,
};
use driver_common::pool::{Sharing, check_pool_location};

/// Descriptions of access taken from one call: more than there are devices.
const DESCRIPTIONS_MAX: usize = 1024;

/// CUDA_ERROR_INVALID_DEVICE for a device that is none.
fn check_device(device: CUdevice) -> CUresult {
    match usize::try_from(device) {
        Ok(device) if device < mode::program()?.devices().len() => Ok(()),
        _ => Err(CudaError::INVALID_DEVICE),
    }
}

pub(crate) fn cuDeviceGetDefaultMemPool(pool: Out<CUmemoryPool>, device: CUdevice) -> CUresult {
    check_device(device)?;
    pool.set(default_pool(device))
}

pub(crate) fn cuDeviceGetMemPool(pool: Out<CUmemoryPool>, device: CUdevice) -> CUresult {
    check_device(device)?;
    pool.set(mode::client_on(device)?.memory().pools.current())
}

pub(crate) fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) -> CUresult {
    check_device(device)?;
    match device_of_word(pool.0 as u64) == Some(device) {
        true => mode::client_on(device)?.memory().pools.set_current(pool),
        false => Err(CudaError::INVALID_VALUE),
    }
}

/// The device of a location. CUDA_ERROR_NOT_SUPPORTED for memory that pools are not made of:
/// the host's, and managed one.
fn device_of(location: Out<CUmemLocation>, kind: c_uint) -> Result<CUdevice, CudaError> {
    let location = location.as_in().get()?;
    check_pool_location(location, kind)?;
    Ok(location.id)
}

pub(crate) fn cuMemGetDefaultMemPool(
    pool: Out<CUmemoryPool>,
    location: Out<CUmemLocation>,
    kind: c_uint,
) -> CUresult {
    cuDeviceGetDefaultMemPool(pool, device_of(location, kind)?)
}

pub(crate) fn cuMemGetMemPool(
    pool: Out<CUmemoryPool>,
    location: Out<CUmemLocation>,
    kind: c_uint,
) -> CUresult {
    cuDeviceGetMemPool(pool, device_of(location, kind)?)
}

pub(crate) fn cuMemSetMemPool(
    location: Out<CUmemLocation>,
    kind: c_uint,
    pool: CUmemoryPool,
) -> CUresult {
    cuDeviceSetMemPool(device_of(location, kind)?, pool)
}

pub(crate) fn cuMemPoolCreate(pool: Out<CUmemoryPool>, properties: In<CUmemPoolProps>) -> CUresult {
    mode::program()?;
    pool.required()?;
    let properties = properties.get()?;
    let sharing = Sharing::of_new(&properties)?;
    check_device(properties.location.id).map_err(|_| CudaError::INVALID_VALUE)?;
    let bytes_max = properties.maxSize as u64;
    pool.set(mode::client_on(properties.location.id)?.memory().pools.create(bytes_max, sharing)?)
}

pub(crate) fn cuMemPoolDestroy(pool: CUmemoryPool) -> CUresult {
    mode::client_of(pool.0)?.memory().pools.destroy(pool)
}

/// A pool's own device has access, which cannot be taken away. Another device gets access to all
/// memory of the pool's, or loses it.
pub(crate) fn cuMemPoolSetAccess(
    pool: CUmemoryPool,
    descriptions: In<CUmemAccessDesc>,
    count: usize,
) -> CUresult {
    let client = mode::client_of(pool.0)?;
    client.memory().pools.get(pool)?;
    if count == 0 || count > DESCRIPTIONS_MAX {
        return Err(CudaError::INVALID_VALUE);
    }
    for index in 0..count {
        let CUmemAccessDesc { location, flags } = descriptions.array(count).at(index)?;
        let (own, device) = (client.device, location.id);
        let of_device = location.kind == vmm::LOCATION_DEVICE;
        match flags {
            _ if !of_device => return Err(CudaError::INVALID_DEVICE),
            vmm::ACCESS_READ_WRITE if device == own => {}
            vmm::ACCESS_NONE if device == own => return Err(CudaError::INVALID_DEVICE),
            _ if device == own => return Err(CudaError::INVALID_VALUE),
            _ if !client.program.can_access(device, own) => return Err(CudaError::INVALID_DEVICE),
            vmm::ACCESS_READ_WRITE => client.set_reader(device, true)?,
            vmm::ACCESS_NONE if client.contexts().has_peers(device, own) => {}
            vmm::ACCESS_NONE => client.set_reader(device, false)?,
            _ => return Err(CudaError::INVALID_VALUE),
        }
    }
    Ok(())
}

pub(crate) fn cuMemPoolGetAccess(
    flags: Out<c_uint>,
    pool: CUmemoryPool,
    location: Out<CUmemLocation>,
) -> CUresult {
    let client = mode::client_of(pool.0)?;
    client.memory().pools.get(pool)?;
    let location = location.as_in().get()?;
    let reaches = location.kind == vmm::LOCATION_DEVICE
        && (location.id == client.device || client.is_read_by(location.id));
    flags.set(if reaches { vmm::ACCESS_READ_WRITE } else { vmm::ACCESS_NONE })
}

/// Allocates from a pool, or from the current one of the stream's device. No bytes at all are NULL,
/// as with NVIDIA's driver.
fn allocate(
    default: DefaultStream,
    pointer: Out<CUdeviceptr>,
    bytes: usize,
    pool: Option<CUmemoryPool>,
    stream: CUstream,
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    pointer.required()?;
    let per_thread = default == DefaultStream::PerThread;
    let graphs = ClientGraphs(client);
    if let Some(address) = graph::capture_alloc(graphs, stream, per_thread, bytes as u64)? {
        return pointer.set(address);
    }
    let stream = client.stream(stream, default)?;
    let context = client.context_of(stream)?;
    let pool = match pool {
        Some(pool) => pool,
        None => client.memory().pools.current(),
    };
    if bytes == 0 {
        client.memory().pools.get(pool)?;
        return pointer.set(CUdeviceptr(0));
    }
    let address = client.allocate_in_stream(pool, context, bytes as u64, stream.index)?;
    pointer.set(CUdeviceptr(address))
}

pub(crate) fn cuMemAllocAsync(
    default: DefaultStream,
    pointer: Out<CUdeviceptr>,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    allocate(default, pointer, bytes, None, stream)
}

pub(crate) fn cuMemAllocFromPoolAsync(
    default: DefaultStream,
    pointer: Out<CUdeviceptr>,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> CUresult {
    allocate(default, pointer, bytes, Some(pool), stream)
}

pub(crate) fn cuMemFreeAsync(
    default: DefaultStream,
    pointer: CUdeviceptr,
    stream: CUstream,
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    let per_thread = default == DefaultStream::PerThread;
    if graph::capture_free(ClientGraphs(client), stream, per_thread, pointer)? {
        return Ok(());
    }
    let stream = client.stream(stream, default)?;
    if pointer.0 == 0 || client.close_imported(pointer)? {
        return Ok(());
    }
    let mark = client.state().end_of(stream);
    client.free_in_stream(pointer.0, mark)
}

pub(crate) fn cuMemPoolTrimTo(pool: CUmemoryPool, min_bytes_to_keep: usize) -> CUresult {
    let client = mode::client_of(pool.0)?;
    graphs().unsafe_call()?;
    client.trim_pool(pool, min_bytes_to_keep as u64)
}

pub(crate) fn cuMemPoolGetAttribute(
    pool: CUmemoryPool,
    attribute: c_uint,
    value: Out<c_void>,
) -> CUresult {
    mode::client_of(pool.0)?.memory().pools.get(pool)?.attribute(attribute, value)
}

pub(crate) fn cuMemPoolSetAttribute(
    pool: CUmemoryPool,
    attribute: c_uint,
    value: Out<c_void>,
) -> CUresult {
    mode::client_of(pool.0)?.memory().pools.get(pool)?.set_attribute(attribute, value)
}
