//! Memory (the manual's "Memory Management" but for copies): allocation, pinned host memory.

use crate::boundary::Out;
use crate::graph::backend::graphs;
use crate::memory::address::Place;
use crate::memory::{HostKind, HostTag};
use crate::program::memory::allocate::WIRE_DEVICE;
use crate::program::mode;
use core::ffi::{c_uint, c_void};
use cuda_api::constants::host_flags;
use cuda_api::{CUcontext, CUdevice, CUdeviceptr, CUmemoryPool, CUresult, CudaError};

/// Rows of a pitched allocation start at multiples of that: what drivers give.
const PITCH_ALIGNMENT: u64 = 512;

/// The current context's device.
pub(super) fn current_device() -> Result<CUdevice, CudaError> {
    mode::program()?.contexts().device_of(CUcontext::NULL)
}

pub(crate) fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> CUresult {
    let (client, _) = mode::enter()?;
    let reply = client.call(&channel::request::MemoryInfo { device: WIRE_DEVICE })?;
    // What lies free in chunks that this process has already is free too.
    let unused = {
        let memory = client.memory();
        memory.heap.chunk_bytes() - memory.heap.used_bytes()
    };
    let total_bytes = reply.total_bytes;
    free.set_if_wanted(reply.free_bytes.saturating_add(unused).min(total_bytes) as usize);
    total.set_if_wanted(total_bytes as usize);
    Ok(())
}

pub(crate) fn cuMemAlloc_v2(pointer: Out<CUdeviceptr>, bytes: usize) -> CUresult {
    let (client, context) = mode::enter()?;
    graphs().unsafe_call()?;
    pointer.set(CUdeviceptr(0))?;
    let address = client.allocate(context, bytes as u64, CUmemoryPool::NULL)?;
    pointer.set(CUdeviceptr(address))
}

pub(crate) fn cuMemAllocPitch_v2(
    pointer: Out<CUdeviceptr>,
    pitch: Out<usize>,
    width: usize,
    height: usize,
    element: c_uint,
) -> CUresult {
    let (client, context) = mode::enter()?;
    graphs().unsafe_call()?;
    pointer.required()?;
    pitch.required()?;
    if !matches!(element, 4 | 8 | 16) || width == 0 || height == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let row = (width as u64).checked_next_multiple_of(PITCH_ALIGNMENT);
    let row = row.ok_or(CudaError::INVALID_VALUE)?;
    let bytes = row.checked_mul(height as u64).ok_or(CudaError::OUT_OF_MEMORY)?;
    let address = client.allocate(context, bytes, CUmemoryPool::NULL)?;
    pitch.set(row as usize)?;
    pointer.set(CUdeviceptr(address))
}

pub(crate) fn cuMemFree_v2(pointer: CUdeviceptr) -> CUresult {
    let client = mode::client_at(pointer.0)?;
    // Nothing to free: libraries begin with this to have the runtime initialised.
    if pointer.0 == 0 {
        return Ok(());
    }
    graphs().unsafe_call()?;
    if graphs().free(pointer)? {
        return Ok(());
    }
    if client.close_imported(pointer)? {
        return Ok(());
    }
    let place = client.memory().place(pointer.0)?;
    if let Place::Pinned { tag: HostTag { kind: HostKind::Managed, .. }, .. } = place {
        return client.free_pinned(pointer.0, HostKind::Managed);
    }
    client.free(pointer.0)
}

pub(crate) fn cuMemGetAddressRange_v2(
    base: Out<CUdeviceptr>,
    size: Out<usize>,
    pointer: CUdeviceptr,
) -> CUresult {
    let (client, _) = mode::enter()?;
    let (start, bytes) = match client.memory().place(pointer.0)? {
        Place::Device { start, bytes, .. }
        | Place::Mapped { start, bytes, .. }
        | Place::Global { start, bytes }
        | Place::Pinned { start, bytes, .. } => (start, bytes),
        Place::Registered { .. } | Place::Pageable => return Err(CudaError::NOT_FOUND),
    };
    base.set_if_wanted(CUdeviceptr(start));
    size.set_if_wanted(bytes as usize);
    Ok(())
}

pub(crate) fn cuMemAllocHost_v2(pointer: Out<*mut c_void>, bytes: usize) -> CUresult {
    cuMemHostAlloc(pointer, bytes, 0)
}

pub(crate) fn cuMemHostAlloc(pointer: Out<*mut c_void>, bytes: usize, flags: c_uint) -> CUresult {
    let known = host_flags::PORTABLE | host_flags::DEVICE_MAP | host_flags::WRITE_COMBINED;
    let (client, context) = mode::enter()?;
    graphs().unsafe_call()?;
    pointer.required()?;
    if flags & !known != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    // Nothing is allocated, and that is no error.
    if bytes == 0 {
        return pointer.set(core::ptr::null_mut());
    }
    let address = client.allocate_pinned(context, bytes as u64, flags, HostKind::Pinned)?;
    pointer.set(address as *mut c_void)
}

pub(crate) fn cuMemFreeHost(pointer: Out<c_void>) -> CUresult {
    let client = mode::client_at(pointer.address())?;
    // Nothing to free.
    if pointer.is_null() {
        return Ok(());
    }
    graphs().unsafe_call()?;
    client.free_pinned(pointer.address(), HostKind::Pinned)
}

/// Registers the program's own memory, see [`crate::memory`]'s `registered`. All of it is portable
/// and mapped, where it can be mapped.
pub(crate) fn cuMemHostRegister_v2(pointer: Out<c_void>, bytes: usize, flags: c_uint) -> CUresult {
    use host_flags::{DEVICE_MAP, PORTABLE, READ_ONLY};
    let (client, context) = mode::enter()?;
    graphs().unsafe_call()?;
    // Memory of other devices is none that this process could give.
    if pointer.is_null() || bytes == 0 || flags & !(PORTABLE | DEVICE_MAP | READ_ONLY) != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    client.register_host(context, pointer.address(), bytes as u64, flags)
}

pub(crate) fn cuMemHostUnregister(pointer: Out<c_void>) -> CUresult {
    let client = mode::client_at(pointer.address())?;
    client.unregister_host(pointer.address())
}

/// Pinned memory is at the same address for the device, registered memory at another one.
/// CUDA_ERROR_NOT_SUPPORTED for memory that is registered but that the device cannot reach.
pub(crate) fn cuMemHostGetDevicePointer_v2(
    device_pointer: Out<CUdeviceptr>,
    pointer: Out<c_void>,
    flags: c_uint,
) -> CUresult {
    let (client, _) = mode::enter()?;
    device_pointer.required()?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    match client.memory().place(pointer.address())? {
        Place::Pinned { tag: HostTag { kind: HostKind::Pinned, .. }, .. } => {
            device_pointer.set(CUdeviceptr(pointer.address()))
        }
        Place::Registered { to_device: Some(offset), .. } => {
            device_pointer.set(CUdeviceptr(pointer.address().wrapping_add(offset)))
        }
        Place::Registered { to_device: None, .. } => Err(CudaError::NOT_SUPPORTED),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

pub(crate) fn cuMemHostGetFlags(flags: Out<c_uint>, pointer: Out<c_void>) -> CUresult {
    let (client, _) = mode::enter()?;
    match client.memory().place(pointer.address())? {
        // Unified addressing maps all of it for every context.
        Place::Pinned { tag, .. } if tag.kind == HostKind::Pinned => {
            flags.set(tag.flags & !host_flags::PORTABLE | host_flags::DEVICE_MAP)
        }
        Place::Registered { tag, .. } => {
            flags.set(tag.flags & host_flags::PORTABLE | host_flags::DEVICE_MAP)
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}
