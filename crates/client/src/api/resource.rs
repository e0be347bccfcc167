//! What programs ask of a device to hand it on: a context or stream has all SMs of its device, and
//! no range of memory has a handle of its own.

use super::device::{attribute_of, device};
use super::stream::check_stream;
use crate::boundary::Out;
use crate::mode;
use crate::threads::DefaultStream;
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::attributes as attribute;
use cuda_api::resource::{check_range_handle, sm_resource};
use cuda_api::{CUcontext, CUdevResource, CUdevice, CUdeviceptr, CUresult, CUstream, CudaError};

pub(crate) fn cuDeviceGetDevResource(
    d: CUdevice,
    resource: Out<CUdevResource>,
    kind: c_uint,
) -> CUresult {
    let device = device(d)?;
    let sms = attribute_of(device, attribute::MULTIPROCESSOR_COUNT).max(0) as c_uint;
    let major = attribute_of(device, attribute::COMPUTE_CAPABILITY_MAJOR);
    resource.set(sm_resource(kind, sms, major)?)
}

pub(crate) fn cuCtxGetDevResource(
    context: CUcontext,
    resource: Out<CUdevResource>,
    kind: c_uint,
) -> CUresult {
    let device = mode::attached()?.contexts().with(context, |context| context.device)?;
    cuDeviceGetDevResource(device, resource, kind)
}

pub(crate) fn cuStreamGetDevResource(
    default: DefaultStream,
    stream: CUstream,
    resource: Out<CUdevResource>,
    kind: c_uint,
) -> CUresult {
    check_stream(default, stream)?;
    cuCtxGetDevResource(CUcontext::NULL, resource, kind)
}

/// A dma-buf is for other devices' drivers; the memory is the server's to export.
pub(crate) fn cuMemGetHandleForAddressRange(
    handle: Out<c_void>,
    pointer: CUdeviceptr,
    bytes: usize,
    handle_type: c_uint,
    flags: u64,
) -> CUresult {
    let (client, _) = mode::enter()?;
    handle.required()?;
    check_range_handle(pointer, bytes, handle_type, flags)?;
    client.memory().place(pointer.0)?;
    Err(CudaError::NOT_SUPPORTED)
}

/// No context is made for a number of SMs: the server shares the device by other means.
pub(crate) fn cuDeviceGetExecAffinitySupport(
    supported: Out<c_int>,
    kind: c_uint,
    d: CUdevice,
) -> CUresult {
    const LAST: c_uint = 0;
    device(d)?;
    if kind > LAST { Err(CudaError::INVALID_VALUE) } else { supported.set(0) }
}
