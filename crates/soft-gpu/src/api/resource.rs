//! Resources of the device as programs partition them: its SMs, and what is made of some of them.

use cuda_api::resource::Partition;
use cuda_api::*;

use super::{Driver, devices, driver, exports};

impl Driver {
    /// How SMs can be parted.
    pub(super) fn partition(&self) -> Partition {
        let settings = &self.device.settings;
        Partition::of(settings.sms, settings.capability.major as c_int)
    }
}

exports! {
    fn cuDeviceGetDevResource(device: CUdevice, resource: *mut CUdevResource, kind: c_uint) {
        let driver = driver()?;
        devices::check(device)?;
        resource.set(driver.partition().whole(kind, &[])?)
    }

    fn cuCtxGetDevResource(context: CUcontext, resource: *mut CUdevResource, kind: c_uint) {
        let driver = driver()?;
        let context = driver.context_or_current(context)?;
        resource.set(driver.partition().whole(kind, context.sm_ranges())?)
    }

    fn cuStreamGetDevResource(
        stream: CUstream, resource: *mut CUdevResource, kind: c_uint,
    ) | cuStreamGetDevResource_ptsz per_thread {
        let driver = driver()?;
        let context = driver.context_of_stream(stream, per_thread)?;
        resource.set(driver.partition().whole(kind, context.sm_ranges())?)
    }

    fn cuDevSmResourceSplitByCount(
        result: *mut CUdevResource, groups: *mut c_uint, input: *const CUdevResource,
        remainder: *mut CUdevResource, flags: c_uint, sms_min: c_uint,
    ) {
        let partition = driver()?.partition();
        partition.answer_split_by_count(result, groups, input, remainder, flags, sms_min)
    }

    fn cuDevSmResourceSplit(
        result: *mut CUdevResource, groups: c_uint, input: *const CUdevResource,
        remainder: *mut CUdevResource, flags: c_uint, params: *mut CUdevSmGroupParams,
    ) {
        driver()?.partition().answer_split(result, groups, input, remainder, flags, params)
    }

    fn cuDeviceGetExecAffinitySupport(supported: *mut c_int, _kind: c_uint, device: CUdevice) {
        // No context is made with an affinity here; a type that there is not is none that is supported.
        driver()?;
        devices::check(device)?;
        supported.set(0)
    }
}
