//! Stream-ordered allocation (the manual's "Stream Ordered Memory Allocator").

use crate::boundary::Out;
use crate::graphs::ClientGraphs;
use crate::memory::pools::device_of_pool;
use crate::mode;
use crate::threads::DefaultStream;
use core::ffi::{c_uint, c_void};
use cuda_api::{CUcontext, CUdevice, CUdeviceptr, CUmemoryPool, CUresult, CUstream};

fn allocate(
    default: DefaultStream,
    pointer: Out<CUdeviceptr>,
    bytes: usize,
    device: CUdevice,
    stream: CUstream,
) -> CUresult {
    let (client, context) = mode::enter()?;
    pointer.required()?;
    let per_thread = default == DefaultStream::PerThread;
    let graphs = ClientGraphs(client);
    if let Some(address) = graph::capture_alloc(graphs, stream, per_thread, bytes as u64)? {
        return pointer.set(address);
    }
    let stream = client.stream(stream, default)?;
    let address = client.allocate_in_stream(device, context, bytes as u64, stream.index)?;
    pointer.set(CUdeviceptr(address))
}

pub(crate) fn cuMemAllocAsync(
    default: DefaultStream,
    pointer: Out<CUdeviceptr>,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    let device = mode::attached()?.contexts().with(CUcontext::NULL, |c| c.device)?;
    allocate(default, pointer, bytes, device, stream)
}

pub(crate) fn cuMemAllocFromPoolAsync(
    default: DefaultStream,
    pointer: Out<CUdeviceptr>,
    bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> CUresult {
    mode::attached()?;
    allocate(default, pointer, bytes, device_of_pool(pool)?, stream)
}

pub(crate) fn cuMemFreeAsync(
    default: DefaultStream,
    pointer: CUdeviceptr,
    stream: CUstream,
) -> CUresult {
    let (client, _) = mode::enter()?;
    let per_thread = default == DefaultStream::PerThread;
    if graph::capture_free(ClientGraphs(client), stream, per_thread, pointer)? {
        return Ok(());
    }
    let stream = client.stream(stream, default)?;
    let mark = client.state().end_of(stream);
    client.free_in_stream(pointer.0, mark)
}

pub(crate) fn cuMemPoolTrimTo(pool: CUmemoryPool, min_bytes_to_keep: usize) -> CUresult {
    let client = mode::attached()?;
    client.trim_pool(device_of_pool(pool)?, min_bytes_to_keep as u64)
}

pub(crate) fn cuMemPoolGetAttribute(
    pool: CUmemoryPool,
    attribute: c_uint,
    value: Out<c_void>,
) -> CUresult {
    let client = mode::attached()?;
    value.required()?;
    match client.pool_attribute(device_of_pool(pool)?, attribute)? {
        (wide, true) => value.of::<u64>().set(wide),
        (narrow, false) => value.of::<i32>().set(narrow as i32),
    }
}

pub(crate) fn cuMemPoolSetAttribute(
    pool: CUmemoryPool,
    attribute: c_uint,
    value: Out<c_void>,
) -> CUresult {
    let client = mode::attached()?;
    value.required()?;
    client.set_pool_attribute(device_of_pool(pool)?, attribute, |wide| match wide {
        true => value.of::<u64>().as_in().get(),
        false => value.of::<i32>().as_in().get().map(|n| n as u64),
    })
}
