//! Launches as before CUDA 4.0 (the manual's "Execution Control \[DEPRECATED\]"), as PyCUDA makes them;
//! what was set at a function is in [`driver_common::old_launch`]. And what programs asked of a device then.

use super::launch::cuLaunchKernel;
use crate::boundary::{FromProgram, Out};
use crate::program::mode;
use crate::stream::DefaultStream;
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::{CUdevice, CUdevprop, CUfunction, CUresult, CUstream, CudaError};
use driver_common::device;
use driver_common::old_launch::OldLaunch;

/// Calls `f` with what was set at a function.
fn with<R>(
    function: CUfunction,
    f: impl FnOnce(&mut OldLaunch) -> Result<R, CudaError>,
) -> Result<R, CudaError> {
    let mut state = mode::client_of(function.0)?.state();
    let handle = state.function(function.0)?.0;
    let function = state.functions.get_mut(handle).ok_or(CudaError::INVALID_HANDLE)?;
    f(function.old_launch.get_or_insert_default())
}

pub(crate) fn cuFuncSetBlockShape(function: CUfunction, x: c_int, y: c_int, z: c_int) -> CUresult {
    with(function, |old| old.set_block([x, y, z]))
}

pub(crate) fn cuFuncSetSharedSize(function: CUfunction, bytes: c_uint) -> CUresult {
    with(function, |old| old.set_shared_bytes(bytes))
}

pub(crate) fn cuParamSetSize(function: CUfunction, bytes: c_uint) -> CUresult {
    with(function, |old| old.set_parameter_bytes(bytes))
}

pub(crate) fn cuParamSeti(function: CUfunction, offset: c_int, value: c_uint) -> CUresult {
    with(function, |old| old.set_parameter(offset, &value.to_ne_bytes()))
}

pub(crate) fn cuParamSetf(function: CUfunction, offset: c_int, value: f32) -> CUresult {
    with(function, |old| old.set_parameter(offset, &value.to_ne_bytes()))
}

pub(crate) fn cuParamSetv(
    function: CUfunction,
    offset: c_int,
    pointer: Out<c_void>,
    bytes: c_uint,
) -> CUresult {
    with(function, |old| old.set_parameter_from(offset, pointer, bytes))
}

pub(crate) fn cuLaunch(function: CUfunction) -> CUresult {
    cuLaunchGrid(function, 1, 1)
}

pub(crate) fn cuLaunchGrid(function: CUfunction, width: c_int, height: c_int) -> CUresult {
    cuLaunchGridAsync(function, width, height, CUstream::NULL)
}

pub(crate) fn cuLaunchGridAsync(
    function: CUfunction,
    width: c_int,
    height: c_int,
    stream: CUstream,
) -> CUresult {
    let mut ready = with(function, |old| old.ready(width, height))?;
    let mut extra = ready.extra();
    // SAFETY: the list is one as cuLaunchKernel reads it, and lives as long as the call.
    let extra = unsafe { extra.as_mut_ptr().believe() };
    let ([x, y, z], [block_x, block_y, block_z]) = (ready.grid, ready.block);
    let (default, none) = (DefaultStream::Legacy, Out::null());
    let shared = ready.shared_bytes;
    cuLaunchKernel(
        default, function, x, y, z, block_x, block_y, block_z, shared, stream, none, extra,
    )
}

pub(crate) fn cuDeviceGetProperties(properties: Out<CUdevprop>, device: CUdevice) -> CUresult {
    let device = super::device::device(device)?;
    let attribute = |number: c_uint| device.attributes.get(number as usize).copied().unwrap_or(0);
    properties.set(device::properties(attribute))
}
