//! Managed memory (the manual's "Unified Addressing"): memory that host and device see alike.
//!
//! It lies in files that client and server share, so it is coherent wherever it is used, and
//! advice and prefetching move nothing; what was said is kept and read back.

use super::memory::current_device;
use crate::boundary::Out;
use crate::graph::backend::graphs;
use crate::memory::address::Place;
use crate::memory::{HostKind, HostTag};
use crate::program::Client;
use crate::program::mode;
use crate::stream::DefaultStream;
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::advice::location_of;
use cuda_api::extension::memory_note;
use cuda_api::{CUdevice, CUdeviceptr, CUmemLocation, CUresult, CUstream, CudaError};
use driver_common::managed::{check_allocation_flags, check_attachment, range_attributes};

/// Checks that a range is managed memory, all of it; whose it is: that of the device on which it was
/// made, with any device current.
fn managed(pointer: CUdeviceptr, bytes: usize) -> Result<(&'static Client, (u64, u64)), CudaError> {
    let owner = mode::client_at(pointer.0)?;
    let memory = owner.memory();
    match memory.place(pointer.0)? {
        Place::Pinned { tag: HostTag { kind: HostKind::Managed, .. }, .. } if bytes > 0 => {
            memory.side(pointer.0, bytes as u64)?;
            drop(memory);
            Ok((owner, (pointer.0, bytes as u64)))
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

pub(crate) fn cuMemAllocManaged(
    pointer: Out<CUdeviceptr>,
    bytes: usize,
    flags: c_uint,
) -> CUresult {
    let (client, context) = mode::enter()?;
    graphs().unsafe_call()?;
    pointer.required()?;
    current_device()?;
    check_allocation_flags(flags)?;
    let address = client.allocate_pinned(context, bytes as u64, flags, HostKind::Managed)?;
    client.note_memory(address, bytes as u64, memory_note::FRESH_SHARED);
    pointer.set(CUdeviceptr(address))
}

pub(crate) fn cuMemAdvise_v2(
    pointer: CUdeviceptr,
    bytes: usize,
    advice: c_uint,
    location: CUmemLocation,
) -> CUresult {
    mode::enter()?;
    let (client, range) = managed(pointer, bytes)?;
    client.memory().advice.advise(range, advice, location, client.devices().len())
}

pub(crate) fn cuMemAdvise(
    pointer: CUdeviceptr,
    bytes: usize,
    advice: c_uint,
    device: CUdevice,
) -> CUresult {
    cuMemAdvise_v2(pointer, bytes, advice, location_of(device))
}

pub(crate) fn cuMemPrefetchAsync_v2(
    default: DefaultStream,
    pointer: CUdeviceptr,
    bytes: usize,
    location: CUmemLocation,
    flags: c_uint,
    stream: CUstream,
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    client.stream(stream, default)?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let (owner, range) = managed(pointer, bytes)?;
    owner.memory().advice.prefetch(range, location, client.devices().len())
}

pub(crate) fn cuMemPrefetchAsync(
    default: DefaultStream,
    pointer: CUdeviceptr,
    bytes: usize,
    device: CUdevice,
    stream: CUstream,
) -> CUresult {
    cuMemPrefetchAsync_v2(default, pointer, bytes, location_of(device), 0, stream)
}

pub(crate) fn cuMemRangeGetAttribute(
    data: Out<c_void>,
    data_bytes: usize,
    attribute: c_uint,
    pointer: CUdeviceptr,
    bytes: usize,
) -> CUresult {
    mode::enter()?;
    data.required()?;
    let (client, range) = managed(pointer, bytes)?;
    let words = data.cast::<c_int>().array(data_bytes / size_of::<c_int>());
    let answer = |index, value| words.set(index, value);
    client.memory().advice.attribute(range, attribute, data_bytes, answer)
}

pub(crate) fn cuMemRangeGetAttributes(
    data: Out<*mut c_void>,
    data_bytes: Out<usize>,
    attributes: Out<c_uint>,
    count: usize,
    pointer: CUdeviceptr,
    bytes: usize,
) -> CUresult {
    mode::enter()?;
    range_attributes(data, data_bytes, attributes, count, |place, room, attribute| {
        cuMemRangeGetAttribute(place, room, attribute, pointer, bytes)
    })
}

/// Memory that both sides always see alike is attached to every stream; that it is attached to
/// one is a promise of the program's that nothing here depends on.
pub(crate) fn cuStreamAttachMemAsync(
    default: DefaultStream,
    stream: CUstream,
    pointer: CUdeviceptr,
    bytes: usize,
    flags: c_uint,
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    // An attachment has no node.
    client.check_not_capturing(client.stream(stream, default)?)?;
    check_attachment(flags)?;
    // No length stands for the whole allocation.
    managed(pointer, bytes.max(1)).map(|_| ())
}
