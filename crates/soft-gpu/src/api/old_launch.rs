//! Launches as before CUDA 4.0; what was set at a function is in [`driver_common::old_launch`].

use cuda_api::pointer::{FromProgram, Out};
use cuda_api::*;
use driver_common::device;
use driver_common::old_launch::OldLaunch;

use super::{devices, driver, exports};
use crate::device::attributes;
use crate::error::Result;

fn with<R>(function: CUfunction, f: impl FnOnce(&mut OldLaunch) -> Result<R>) -> Result<R> {
    f(&mut driver()?.function(function)?.old_launch())
}

fn launch(function: CUfunction, width: i32, height: i32, stream: CUstream) -> Result {
    let mut ready = with(function, |old| old.ready(width, height))?;
    let mut extra = ready.extra();
    // SAFETY: the list is one as a launch reads it, and lives as long as the call.
    let extra = unsafe { extra.as_mut_ptr().believe() };
    let config = CUlaunchConfig::plain(ready.grid, ready.block, ready.shared_bytes, stream);
    driver()?.launch(function, &config, false, Out::null(), extra)
}

exports! {
    fn cuFuncSetBlockShape(function: CUfunction, x: c_int, y: c_int, z: c_int) {
        with(function, |old| old.set_block([x, y, z]))
    }

    fn cuFuncSetSharedSize(function: CUfunction, bytes: c_uint) {
        with(function, |old| old.set_shared_bytes(bytes))
    }

    fn cuParamSetSize(function: CUfunction, bytes: c_uint) {
        with(function, |old| old.set_parameter_bytes(bytes))
    }

    fn cuParamSeti(function: CUfunction, offset: c_int, value: c_uint) {
        with(function, |old| old.set_parameter(offset, &value.to_ne_bytes()))
    }

    fn cuParamSetf(function: CUfunction, offset: c_int, value: f32) {
        with(function, |old| old.set_parameter(offset, &value.to_ne_bytes()))
    }

    fn cuParamSetv(function: CUfunction, offset: c_int, pointer: *mut c_void, bytes: c_uint) {
        with(function, |old| old.set_parameter_from(offset, pointer, bytes))
    }

    fn cuLaunch(function: CUfunction) {
        launch(function, 1, 1, CUstream::NULL)
    }

    fn cuLaunchGrid(function: CUfunction, width: c_int, height: c_int) {
        launch(function, width, height, CUstream::NULL)
    }

    fn cuLaunchGridAsync(function: CUfunction, width: c_int, height: c_int, stream: CUstream) {
        launch(function, width, height, stream)
    }

    fn cuDeviceGetProperties(properties: *mut CUdevprop, of: CUdevice) {
        devices::check(of)?;
        let settings = &driver()?.device.settings;
        let attribute = |number| attributes::attribute(settings, number).unwrap_or(0);
        properties.set(device::properties(attribute))
    }
}
