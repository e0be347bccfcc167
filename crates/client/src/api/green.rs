//! Green contexts (the manual's "Green Contexts"): some of the device's SMs, with streams whose blocks
//! stay on them.
//!
//! Descriptions and green contexts are the client's; the server hears of one when a stream is made
//! in it. The SMs of one are neighbours: what else a description names is
//! CUDA_ERROR_NOT_SUPPORTED.

use super::context::cuDevicePrimaryCtxRelease;
use super::resource::partition;
use super::stream::{create, description};
use crate::boundary::Out;
use crate::context::table::current_green;
use crate::handles::Table;
use crate::lock::{Lock, Rank};
use crate::program::launch::submission::wire_stream;
use crate::program::mode;
use crate::stream::DefaultStream;
use core::ffi::{c_int, c_uint};
use cuda_api::constants::device_resource::GREEN_DEFAULT_STREAM;
use cuda_api::constants::stream_flags;
use cuda_api::handle::HandleKind;
use cuda_api::{
    CUcontext, CUdevResource, CUdevResourceDesc, CUdevice, CUgreenCtx, CUresult, CUstream,
    CudaError,
};
use std::ops::Range;

/// Most descriptions, which stay for the life of the process: a program makes one a green context.
const DESCRIPTIONS_MAX: u32 = 4096;

static DESCRIPTIONS: Lock<Table<Range<u32>>> =
    Lock::new(Rank::Leaf, Table::new(HandleKind::ResourceDescription, 0, DESCRIPTIONS_MAX));

pub(crate) fn cuDevResourceGenerateDesc(
    description: Out<CUdevResourceDesc>,
    resources: Out<CUdevResource>,
    count: c_uint,
) -> CUresult {
    mode::program()?;
    description.required()?;
    let parts = partition(0)?.read_parts(resources.as_in(), count)?;
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return Err(CudaError::INVALID_VALUE);
    };
    if !parts.windows(2).all(|pair| pair[0].end == pair[1].start) {
        return Err(CudaError::NOT_SUPPORTED);
    }
    let handle = DESCRIPTIONS.lock().insert(first.start..last.end)?;
    description.set(CUdevResourceDesc(handle.to_word() as usize))
}

pub(crate) fn cuGreenCtxCreate(
    green: Out<CUgreenCtx>,
    description: CUdevResourceDesc,
    device: CUdevice,
    flags: c_uint,
) -> CUresult {
    let client = mode::client_on(device)?;
    green.required()?;
    if flags != GREEN_DEFAULT_STREAM {
        return Err(CudaError::INVALID_VALUE);
    }
    let found = DESCRIPTIONS.lock().lookup(description.0).cloned();
    let sms = found.map_err(|_| CudaError::INVALID_VALUE)?;
    client.health()?;
    client.contexts().retain(device)?;
    match client.contexts().create_green(device, sms) {
        Ok(made) => green.set(made),
        Err(error) => cuDevicePrimaryCtxRelease(device).and(Err(error)),
    }
}

pub(crate) fn cuGreenCtxDestroy(green: CUgreenCtx) -> CUresult {
    let client = mode::client_of(green.0)?;
    let device = client.contexts().device_of(as_context(green)?)?;
    let destroyed = client.contexts().destroy_green(green)?;
    if let Some(stream) = destroyed.default_stream {
        // Gone already if the primary context was reset.
        let _ = client.destroy_stream(wire_stream(stream));
    }
    cuDevicePrimaryCtxRelease(device)
}

/// A green context's handle is also that of its context.
fn as_context(green: CUgreenCtx) -> Result<CUcontext, CudaError> {
    let contexts = mode::program()?.contexts();
    contexts.with_green(green.0 as u64, |_| CUcontext(green.0))
}

pub(crate) fn cuCtxFromGreenCtx(context: Out<CUcontext>, green: CUgreenCtx) -> CUresult {
    context.set(as_context(green)?)
}

pub(crate) fn cuGreenCtxGetDevResource(
    green: CUgreenCtx,
    resource: Out<CUdevResource>,
    kind: c_uint,
) -> CUresult {
    super::resource::cuCtxGetDevResource(as_context(green)?, resource, kind)
}

pub(crate) fn cuGreenCtxStreamCreate(
    stream: Out<CUstream>,
    green: CUgreenCtx,
    flags: c_uint,
    priority: c_int,
) -> CUresult {
    let contexts = mode::program()?.contexts();
    let device = contexts.with(as_context(green)?, |context| context.device)?;
    if flags != stream_flags::NON_BLOCKING {
        return Err(CudaError::INVALID_VALUE);
    }
    create(stream, contexts.primary(device).0 as u64, green.0 as u64, flags, priority)
}

pub(crate) fn cuGreenCtxGetId(green: CUgreenCtx, id: Out<u64>) -> CUresult {
    let green = if green.is_null() { CUgreenCtx(current_green() as usize) } else { green };
    id.set(mode::program()?.contexts().id(as_context(green)?)?)
}

pub(crate) fn cuStreamGetGreenCtx(stream: CUstream, context: Out<CUgreenCtx>) -> CUresult {
    let found = description(DefaultStream::Legacy, stream)?;
    context.set(CUgreenCtx(found.green as usize))
}

pub(crate) fn cuStreamGetCtx_v2(
    default: DefaultStream,
    stream: CUstream,
    context: Out<CUcontext>,
    green: Out<CUgreenCtx>,
) -> CUresult {
    let found = description(default, stream)?;
    context.set(CUcontext(found.context as usize))?;
    green.set(CUgreenCtx(found.green as usize))
}
