//! Resources of the device as programs partition them. There is one device, and no green context:
//! every context and stream has all of its SMs.

use cuda_api::resource::sm_resource;
use cuda_api::*;

use super::{Driver, devices, driver, exports};
use crate::error::Result;

impl Driver {
    fn sm_resource(&self, kind: u32) -> Result<CUdevResource> {
        let settings = &self.device.settings;
        sm_resource(kind, settings.sms, settings.capability.major as c_int)
    }
}

exports! {
    fn cuDeviceGetDevResource(device: CUdevice, resource: *mut CUdevResource, kind: c_uint) {
        let driver = driver()?;
        devices::check(device)?;
        resource.set(driver.sm_resource(kind)?)
    }

    fn cuCtxGetDevResource(context: CUcontext, resource: *mut CUdevResource, kind: c_uint) {
        let driver = driver()?;
        driver.context_or_current(context)?;
        resource.set(driver.sm_resource(kind)?)
    }

    fn cuStreamGetDevResource(
        stream: CUstream, resource: *mut CUdevResource, kind: c_uint,
    ) | cuStreamGetDevResource_ptsz per_thread {
        let driver = driver()?;
        driver.stream(stream, per_thread)?;
        resource.set(driver.sm_resource(kind)?)
    }

    fn cuDeviceGetExecAffinitySupport(supported: *mut c_int, kind: c_uint, device: CUdevice) {
        // CU_EXEC_AFFINITY_TYPE_SM_COUNT is the only type; no context is made with it here.
        const LAST: u32 = 0;
        driver()?;
        devices::check(device)?;
        if kind > LAST { Err(CudaError::INVALID_VALUE) } else { supported.set(0) }
    }
}
