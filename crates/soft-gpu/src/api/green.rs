//! Green contexts: some of the device's SMs, with streams whose blocks stay on them.
//!
//! A green context is a context beside the primary one, whose memory, modules and functions it
//! has; only its streams are its own. Its description is a handle that stays for the life of the
//! process, as the manual has it.

use cuda_api::constants::device_resource::GREEN_DEFAULT_STREAM;
use cuda_api::constants::stream_flags;
use cuda_api::*;

use super::context::release_primary;
use super::context_object::{Context, Green};
use super::{devices, driver, exports, stream};
use crate::device::execution::grid::SmMask;
use crate::device::stream::ops::StreamSpec;
use crate::error::{Error, Result};

impl Context {
    /// Its handle as a green context; NULL if it is none.
    fn green_handle(&self) -> CUgreenCtx {
        CUgreenCtx(if self.green.is_some() { self.handle } else { 0 })
    }
}

exports! {
    fn cuDevResourceGenerateDesc(
        description: *mut CUdevResourceDesc, resources: *mut CUdevResource, count: c_uint,
    ) {
        let driver = driver()?;
        description.required()?;
        let parts = driver.partition().read_parts(resources.as_in(), count)?;
        description.set(CUdevResourceDesc(driver.descriptions.insert(parts)?))
    }

    fn cuGreenCtxCreate(
        green: *mut CUgreenCtx, description: CUdevResourceDesc, device: CUdevice, flags: c_uint,
    ) {
        let driver = driver()?;
        let ordinal = devices::check(device)?;
        green.required()?;
        if flags != GREEN_DEFAULT_STREAM {
            return Err(Error::INVALID_VALUE);
        }
        let sms = driver.descriptions.get(description.0).map_err(|_| Error::INVALID_VALUE)?;
        let primary = driver.retain_primary(ordinal)?;
        let made = (|| {
            let tenant = driver.working_tenant_on(ordinal)?;
            let group = driver.device.group(primary.number(), &tenant)?;
            let mask: SmMask = Some(sms.iter().cloned().flatten().collect());
            let spec = StreamSpec { sms: mask, ..Default::default() };
            let default_stream = driver.device.create_stream(group, &tenant, spec)?;
            let green = Green { sms: sms.to_vec(), default_stream };
            let make = |handle| Context::of_green(handle, &primary, green);
            driver.contexts.insert_with(make).map(|(handle, _)| handle)
        })();
        match made {
            Ok(handle) => green.set(CUgreenCtx(handle)),
            Err(error) => release_primary(device).and(Err(error)),
        }
    }

    fn cuGreenCtxDestroy(green: CUgreenCtx) {
        let driver = driver()?;
        let context = find(green)?;
        driver.contexts.remove(context.handle).map_err(|_| Error::INVALID_CONTEXT)?;
        context.deactivate();
        if let Some(green) = &context.green {
            // Gone already if the primary context was reset.
            let _ = driver.device.destroy_stream(green.default_stream);
        }
        release_primary(context.device as CUdevice)
    }

    fn cuCtxFromGreenCtx(context: *mut CUcontext, green: CUgreenCtx) {
        context.set(CUcontext(find(green)?.handle))
    }

    fn cuGreenCtxGetDevResource(
        green: CUgreenCtx, resource: *mut CUdevResource, kind: c_uint,
    ) {
        let context = find(green)?;
        resource.set(driver()?.partition().whole(kind, context.sm_ranges())?)
    }

    fn cuGreenCtxStreamCreate(
        stream: *mut CUstream, green: CUgreenCtx, flags: c_uint, priority: c_int,
    ) {
        stream.required()?;
        let context = find(green)?;
        if flags != stream_flags::NON_BLOCKING {
            return Err(Error::INVALID_VALUE);
        }
        stream.set(stream::create_in(&context, flags, priority)?)
    }

    fn cuGreenCtxGetId(green: CUgreenCtx, id: *mut u64) {
        let context = match green.is_null() {
            true => super::thread::current()?,
            false => find(green)?,
        };
        id.set(context.id())
    }

    fn cuStreamGetGreenCtx(stream: CUstream, ph_ctx: *mut CUgreenCtx) {
        ph_ctx.set(driver()?.context_of_stream(stream, false)?.green_handle())
    }

    fn cuStreamGetCtx_v2(
        stream: CUstream, context: *mut CUcontext, green: *mut CUgreenCtx,
    ) | cuStreamGetCtx_v2_ptsz per_thread {
        let driver = driver()?;
        let found = driver.context_of_stream(stream, per_thread)?;
        let regular = match found.green.is_some() {
            true => driver.primary(found.device)?,
            false => found.clone(),
        };
        context.set(CUcontext(regular.handle))?;
        green.set(found.green_handle())
    }
}

/// The context of a green one.
fn find(green: CUgreenCtx) -> Result<std::sync::Arc<Context>> {
    let found = driver()?.contexts.get(green.0).ok();
    found.filter(|context| context.green.is_some()).ok_or(Error::INVALID_CONTEXT)
}
