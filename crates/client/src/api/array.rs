//! Arrays (the manual's "Memory Management", cuArray... and cuMipmappedArray..., and the copies of
//! one row from or to an array).

use super::copy::Ends;
use super::copy3d;
use crate::boundary::{In, Out};
use crate::graph::backend::graphs;
use crate::program::mode;
use crate::stream::DefaultStream;
use channel::request::{ArrayRequirements, MemoryRequirements, MipmappedRequirements};
use core::ffi::{c_uint, c_void};
use cuda_api::constants::memory_type;
use cuda_api::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY3D_DESCRIPTOR, CUarray,
    CUdevice, CUdeviceptr, CUmipmappedArray, CUresult, CUstream, CudaError,
};
use graph::{CopyEnd, CopyNode};

pub(crate) fn cuArrayCreate_v2(
    array: Out<CUarray>,
    descriptor: In<CUDA_ARRAY_DESCRIPTOR>,
) -> CUresult {
    create(array, descriptor.get()?.into())
}

pub(crate) fn cuArray3DCreate_v2(
    array: Out<CUarray>,
    descriptor: In<CUDA_ARRAY3D_DESCRIPTOR>,
) -> CUresult {
    create(array, descriptor.get()?)
}

fn create(array: Out<CUarray>, descriptor: CUDA_ARRAY3D_DESCRIPTOR) -> CUresult {
    let (client, context) = mode::enter()?;
    graphs().unsafe_call()?;
    array.required()?;
    array.set(client.with_room(|| client.create_array(context, descriptor))?)
}

pub(crate) fn cuArrayDestroy(array: CUarray) -> CUresult {
    let client = mode::client_of(array.0)?;
    graphs().unsafe_call()?;
    client.destroy_array(array)
}

pub(crate) fn cuArrayGetDescriptor_v2(
    descriptor: Out<CUDA_ARRAY_DESCRIPTOR>,
    array: CUarray,
) -> CUresult {
    let client = mode::client_of(array.0)?;
    descriptor.set(client.arrays().descriptor(array)?.into())
}

pub(crate) fn cuArray3DGetDescriptor_v2(
    descriptor: Out<CUDA_ARRAY3D_DESCRIPTOR>,
    array: CUarray,
) -> CUresult {
    let client = mode::client_of(array.0)?;
    descriptor.set(client.arrays().descriptor(array)?)
}

fn check_device(device: CUdevice) -> CUresult {
    let devices = mode::program()?.devices().len();
    match usize::try_from(device) {
        Ok(device) if device < devices => Ok(()),
        _ => Err(CudaError::INVALID_DEVICE),
    }
}

fn answer(
    place: Out<CUDA_ARRAY_MEMORY_REQUIREMENTS>,
    requirements: MemoryRequirements,
) -> CUresult {
    place.set(CUDA_ARRAY_MEMORY_REQUIREMENTS {
        size: requirements.bytes as usize,
        alignment: requirements.alignment_bytes as usize,
        reserved: [0; 4],
    })
}

pub(crate) fn cuArrayGetMemoryRequirements(
    requirements: Out<CUDA_ARRAY_MEMORY_REQUIREMENTS>,
    array: CUarray,
    device: CUdevice,
) -> CUresult {
    let client = mode::client_of(array.0)?;
    requirements.required()?;
    check_device(device)?;
    client.arrays().descriptor(array)?;
    answer(requirements, client.call(&ArrayRequirements { array })?)
}

pub(crate) fn cuMipmappedArrayCreate(
    mipmapped: Out<CUmipmappedArray>,
    descriptor: In<CUDA_ARRAY3D_DESCRIPTOR>,
    levels: c_uint,
) -> CUresult {
    let (client, context) = mode::enter()?;
    graphs().unsafe_call()?;
    mipmapped.required()?;
    mipmapped.set(client.create_mipmapped_array(context, descriptor.get()?, levels)?)
}

pub(crate) fn cuMipmappedArrayGetLevel(
    array: Out<CUarray>,
    mipmapped: CUmipmappedArray,
    level: c_uint,
) -> CUresult {
    let client = mode::client_of(mipmapped.0)?;
    array.required()?;
    array.set(client.level(mipmapped, level)?)
}

pub(crate) fn cuMipmappedArrayDestroy(mipmapped: CUmipmappedArray) -> CUresult {
    let client = mode::client_of(mipmapped.0)?;
    graphs().unsafe_call()?;
    client.destroy_mipmapped_array(mipmapped)
}

pub(crate) fn cuMipmappedArrayGetMemoryRequirements(
    requirements: Out<CUDA_ARRAY_MEMORY_REQUIREMENTS>,
    mipmapped: CUmipmappedArray,
    device: CUdevice,
) -> CUresult {
    let client = mode::client_of(mipmapped.0)?;
    requirements.required()?;
    check_device(device)?;
    client.arrays().check_mipmapped(mipmapped)?;
    answer(requirements, client.call(&MipmappedRequirements { mipmapped })?)
}

/// One end of a copy of bytes of one row.
fn in_array(array: CUarray, offset: usize) -> CopyEnd {
    let memory_type = memory_type::ARRAY;
    CopyEnd { memory_type, array, offset: [offset, 0, 0], ..CopyEnd::default() }
}

fn on_device(device: CUdeviceptr) -> CopyEnd {
    CopyEnd { memory_type: memory_type::DEVICE, device, ..CopyEnd::default() }
}

fn on_host(host: u64) -> CopyEnd {
    CopyEnd { memory_type: memory_type::HOST, host, ..CopyEnd::default() }
}

fn copy_row(
    default: DefaultStream,
    stream: CUstream,
    (destination, source): (CopyEnd, CopyEnd),
    bytes: usize,
    ends: Ends,
) -> CUresult {
    copy3d::copy(default, stream, &CopyNode { destination, source, extent: [bytes, 1, 1] }, ends)
}

pub(crate) fn cuMemcpyDtoA_v2(
    default: DefaultStream,
    to: CUarray,
    offset: usize,
    from: CUdeviceptr,
    bytes: usize,
) -> CUresult {
    let ends = (in_array(to, offset), on_device(from));
    copy_row(default, CUstream::NULL, ends, bytes, Ends::WithCall)
}

pub(crate) fn cuMemcpyAtoD_v2(
    default: DefaultStream,
    to: CUdeviceptr,
    from: CUarray,
    offset: usize,
    bytes: usize,
) -> CUresult {
    let ends = (on_device(to), in_array(from, offset));
    copy_row(default, CUstream::NULL, ends, bytes, Ends::WithCall)
}

pub(crate) fn cuMemcpyHtoA_v2(
    default: DefaultStream,
    to: CUarray,
    offset: usize,
    from: In<c_void>,
    bytes: usize,
) -> CUresult {
    let ends = (in_array(to, offset), on_host(from.address()));
    copy_row(default, CUstream::NULL, ends, bytes, Ends::WithCall)
}

pub(crate) fn cuMemcpyAtoH_v2(
    default: DefaultStream,
    to: Out<c_void>,
    from: CUarray,
    offset: usize,
    bytes: usize,
) -> CUresult {
    let ends = (on_host(to.address()), in_array(from, offset));
    copy_row(default, CUstream::NULL, ends, bytes, Ends::WithCall)
}

pub(crate) fn cuMemcpyAtoA_v2(
    default: DefaultStream,
    to: CUarray,
    to_offset: usize,
    from: CUarray,
    from_offset: usize,
    bytes: usize,
) -> CUresult {
    let ends = (in_array(to, to_offset), in_array(from, from_offset));
    copy_row(default, CUstream::NULL, ends, bytes, Ends::WithCall)
}

pub(crate) fn cuMemcpyHtoAAsync_v2(
    default: DefaultStream,
    to: CUarray,
    offset: usize,
    from: In<c_void>,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    let ends = (in_array(to, offset), on_host(from.address()));
    copy_row(default, stream, ends, bytes, Ends::InStream)
}

pub(crate) fn cuMemcpyAtoHAsync_v2(
    default: DefaultStream,
    to: Out<c_void>,
    from: CUarray,
    offset: usize,
    bytes: usize,
    stream: CUstream,
) -> CUresult {
    let ends = (on_host(to.address()), in_array(from, offset));
    copy_row(default, stream, ends, bytes, Ends::InStream)
}
