//! Streams (the manual's "Stream Management").

use crate::boundary::Out;
use crate::hostfunc::HostFunction;
use crate::mode;
use crate::state::{wire_event, wire_stream};
use crate::streams::Stream;
use crate::threads::DefaultStream;
use channel::request::WaitEvent;
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::stream_flags;
use cuda_api::{
    CUcontext, CUdevice, CUevent, CUgraph, CUgraphEdgeData, CUgraphNode, CUgreenCtx, CUresult,
    CUstream, CUstreamCallback, CudaError,
};

/// CUstreamCaptureStatus: no stream captures here.
const NOT_CAPTURING: c_uint = 0;
/// Ids of default streams; those of others are their handles.
const LEGACY_ID: u64 = 1;

pub(crate) fn cuStreamCreate(stream: Out<CUstream>, flags: c_uint) -> CUresult {
    cuStreamCreateWithPriority(stream, flags, 0)
}

pub(crate) fn cuStreamCreateWithPriority(
    stream: Out<CUstream>,
    flags: c_uint,
    priority: c_int,
) -> CUresult {
    let (client, context) = mode::enter()?;
    stream.required()?;
    if flags & !stream_flags::NON_BLOCKING != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    // Beyond the range, the nearest priority is meant. The least is the largest number.
    let (least, greatest) = client.priority_range();
    let priority = priority.min(least).max(greatest);
    let handle = client.create_stream(Stream { context, flags, priority })?;
    stream.set(wire_stream(handle))
}

pub(crate) fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    let (client, _) = mode::enter()?;
    client.destroy_stream(stream)
}

pub(crate) fn cuStreamSynchronize(default: DefaultStream, stream: CUstream) -> CUresult {
    let (client, _) = mode::enter()?;
    client.synchronize(client.stream(stream, default)?)
}

pub(crate) fn cuStreamQuery(default: DefaultStream, stream: CUstream) -> CUresult {
    let (client, _) = mode::enter()?;
    match client.is_idle(client.stream(stream, default)?)? {
        true => Ok(()),
        false => Err(CudaError::NOT_READY),
    }
}

pub(crate) fn cuStreamWaitEvent(
    default: DefaultStream,
    stream: CUstream,
    event: CUevent,
    flags: c_uint,
) -> CUresult {
    const EXTERNAL: c_uint = 1;
    let (client, _) = mode::enter()?;
    if flags & !EXTERNAL != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let stream = client.stream(stream, default)?;
    let mut state = client.state();
    let handle = state.events.decode(event.0)?;
    let found = state.events.get(handle).ok_or(CudaError::INVALID_HANDLE)?;
    // An event that was never recorded is nothing to wait for.
    match found.recorded {
        None if !found.is_shared() => Ok(()),
        _ => {
            let request = WaitEvent { stream: wire_stream(stream), event: wire_event(handle) };
            state.push_in(stream, &request).map(|_| ())
        }
    }
}

/// What a stream is: priority, flags and context. Default streams are blocking ones of the
/// current context.
fn description(default: DefaultStream, stream: CUstream) -> Result<Stream, CudaError> {
    let (client, context) = mode::enter()?;
    let handle = client.stream(stream, default)?;
    let found = client.state().streams.get(handle).copied();
    Ok(found.unwrap_or(Stream { context, flags: stream_flags::DEFAULT, priority: 0 }))
}

pub(crate) fn cuStreamGetPriority(
    default: DefaultStream,
    stream: CUstream,
    priority: Out<c_int>,
) -> CUresult {
    priority.set(description(default, stream)?.priority)
}

pub(crate) fn cuStreamGetFlags(
    default: DefaultStream,
    stream: CUstream,
    flags: Out<c_uint>,
) -> CUresult {
    flags.set(description(default, stream)?.flags)
}

pub(crate) fn cuStreamGetCtx(
    default: DefaultStream,
    stream: CUstream,
    context: Out<CUcontext>,
) -> CUresult {
    context.set(CUcontext(description(default, stream)?.context as usize))
}

pub(crate) fn cuStreamGetId(default: DefaultStream, stream: CUstream, id: Out<u64>) -> CUresult {
    let (client, _) = mode::enter()?;
    let handle = client.stream(stream, default)?;
    id.set(match handle == crate::streams::LEGACY {
        true => LEGACY_ID,
        false => handle.to_word(),
    })
}

pub(crate) fn cuStreamGetDevice(
    default: DefaultStream,
    stream: CUstream,
    device: Out<CUdevice>,
) -> CUresult {
    let context = CUcontext(description(default, stream)?.context as usize);
    device.set(mode::attached()?.contexts().with(context, |context| context.device)?)
}

pub(crate) fn cuStreamAddCallback(
    default: DefaultStream,
    stream: CUstream,
    callback: CUstreamCallback,
    user_data: Out<c_void>,
    flags: c_uint,
) -> CUresult {
    let (client, _) = mode::enter()?;
    if flags != 0 || callback.is_none() {
        return Err(CudaError::INVALID_VALUE);
    }
    let handle = client.stream(stream, default)?;
    let user_data = user_data.address() as usize;
    client.post_host_function(handle, HostFunction::Callback { callback, stream, user_data })
}

/// Capture is not offered, so no stream ever captures; programs ask all the time.
fn check_stream(default: DefaultStream, stream: CUstream) -> CUresult {
    let (client, _) = mode::enter()?;
    client.stream(stream, default).map(|_| ())
}

pub(crate) fn cuStreamIsCapturing(
    default: DefaultStream,
    stream: CUstream,
    status: Out<c_uint>,
) -> CUresult {
    check_stream(default, stream)?;
    status.set(NOT_CAPTURING)
}

pub(crate) fn cuStreamGetCaptureInfo_v2(
    default: DefaultStream,
    stream: CUstream,
    status: Out<c_uint>,
    _id: Out<u64>,
    _graph: Out<CUgraph>,
    _dependencies: Out<*const CUgraphNode>,
    _count: Out<usize>,
) -> CUresult {
    cuStreamIsCapturing(default, stream, status)
}

#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub(crate) fn cuStreamGetCaptureInfo_v3(
    default: DefaultStream,
    stream: CUstream,
    status: Out<c_uint>,
    _id: Out<u64>,
    _graph: Out<CUgraph>,
    _dependencies: Out<*const CUgraphNode>,
    _edges: Out<*const CUgraphEdgeData>,
    _count: Out<usize>,
) -> CUresult {
    cuStreamIsCapturing(default, stream, status)
}

/// No stream belongs to a green context.
pub(crate) fn cuStreamGetGreenCtx(stream: CUstream, context: Out<CUgreenCtx>) -> CUresult {
    check_stream(DefaultStream::Legacy, stream)?;
    context.set(CUgreenCtx::NULL)
}

/// The mode of a thread for captures, of which there are none: it is exchanged for the default.
pub(crate) fn cuThreadExchangeStreamCaptureMode(capture_mode: Out<c_uint>) -> CUresult {
    const GLOBAL: c_uint = 0;
    const RELAXED: c_uint = 2;
    thread_local! {
        static MODE: core::cell::Cell<c_uint> = const { core::cell::Cell::new(GLOBAL) };
    }
    mode::attached()?;
    let wanted = capture_mode.as_in().get()?;
    if wanted > RELAXED {
        return Err(CudaError::INVALID_VALUE);
    }
    capture_mode.set(MODE.replace(wanted))
}
