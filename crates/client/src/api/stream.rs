//! Streams (the manual's "Stream Management").

use crate::boundary::Out;
use crate::context::table::current_green;
use crate::graph::backend::graphs;
use crate::graph::host_copy::end_unused;
use crate::handles::device_of_word;
use crate::program::launch::submission::wire_stream;
use crate::program::mode;
use crate::program::streams::host_functions::HostFunction;
use crate::stream::DefaultStream;
use crate::stream::table::{OwnDefault, Stream};
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::capture::EVENT_EXTERNAL;
use cuda_api::constants::stream_flags;
use cuda_api::{CUcontext, CUdevice, CUevent, CUresult, CUstream, CUstreamCallback, CudaError};

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
    let (_, context) = mode::enter()?;
    create(stream, context, current_green(), flags, priority)
}

/// Makes a stream in a context, of a green context unless that is 0.
pub(super) fn create(
    stream: Out<CUstream>,
    context: u64,
    green: u64,
    flags: c_uint,
    priority: c_int,
) -> CUresult {
    let client = mode::client_on(device_of_word(context).unwrap_or(0))?;
    stream.required()?;
    if flags & !stream_flags::NON_BLOCKING != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    // Beyond the range, the nearest priority is meant. The least is the largest number.
    let (least, greatest) = client.priority_range();
    let priority = priority.min(least).max(greatest);
    let default = client.default_of(context, green);
    let handle = client.create_stream(Stream { context, green, default, flags, priority })?;
    stream.set(wire_stream(handle))
}

pub(crate) fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    let client = mode::client_of(stream.0)?;
    client.destroy_stream(stream)
}

pub(crate) fn cuStreamSynchronize(default: DefaultStream, stream: CUstream) -> CUresult {
    let client = mode::client_of(stream.0)?;
    let stream = client.stream(stream, default)?;
    client.check_not_capturing(stream)?;
    graphs().unsafe_call()?;
    client.synchronize(stream)?;
    end_unused();
    Ok(())
}

pub(crate) fn cuStreamQuery(default: DefaultStream, stream: CUstream) -> CUresult {
    let client = mode::client_of(stream.0)?;
    let stream = client.stream(stream, default)?;
    client.check_not_capturing(stream)?;
    graphs().unsafe_call()?;
    match client.is_idle(stream)? {
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
    let client = mode::client_of(stream.0)?;
    if flags & !EVENT_EXTERNAL != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let stream = client.stream(stream, default)?;
    let owner = mode::client_of(event.0)?;
    let (handle, recorded) = {
        let state = owner.state();
        (state.events.decode(event.0)?, state.events.lookup(event.0)?.recorded.is_some())
    };
    if graphs().watches_events()
        && graphs().wait_event(client.stream_key(stream)?, event, flags, recorded)?
    {
        return Ok(());
    }
    // Only a capture has a node for it.
    if flags & EVENT_EXTERNAL != 0 {
        return Err(CudaError::ILLEGAL_STATE);
    }
    match owner.device == client.device {
        true => client.wait_event(handle, stream),
        false => client.wait_event_of(owner, handle, stream),
    }
}

/// What a stream is: priority, flags and context. Default streams are blocking ones of the
/// current context.
pub(super) fn description(default: DefaultStream, stream: CUstream) -> Result<Stream, CudaError> {
    let client = mode::client_of(stream.0)?;
    let handle = client.stream(stream, default)?;
    let found = client.state().streams.get(handle).copied();
    found.map_or_else(
        || {
            let context = client.context_of(handle)?;
            let (default, flags) = (OwnDefault::Legacy, stream_flags::DEFAULT);
            Ok(Stream { context, green: 0, default, flags, priority: 0 })
        },
        Ok,
    )
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
    let client = mode::client_of(stream.0)?;
    client.check_not_capturing(client.stream(stream, default)?)?;
    flags.set(description(default, stream)?.flags)
}

pub(crate) fn cuStreamGetCtx(
    default: DefaultStream,
    stream: CUstream,
    context: Out<CUcontext>,
) -> CUresult {
    let found = description(default, stream)?;
    let word = if found.green != 0 { found.green } else { found.context };
    context.set(CUcontext(word as usize))
}

pub(crate) fn cuStreamGetId(default: DefaultStream, stream: CUstream, id: Out<u64>) -> CUresult {
    let client = mode::client_of(stream.0)?;
    let handle = client.stream(stream, default)?;
    id.set(match handle == crate::stream::table::LEGACY {
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
    device.set(mode::program()?.contexts().device_of(context)?)
}

pub(crate) fn cuStreamAddCallback(
    default: DefaultStream,
    stream: CUstream,
    callback: CUstreamCallback,
    user_data: Out<c_void>,
    flags: c_uint,
) -> CUresult {
    let client = mode::client_of(stream.0)?;
    if flags != 0 || callback.is_none() {
        return Err(CudaError::INVALID_VALUE);
    }
    let handle = client.stream(stream, default)?;
    // Unlike cuLaunchHostFunc's, such a function has no node.
    client.check_not_capturing(handle)?;
    let user_data = user_data.address() as usize;
    client.post_host_function(handle, HostFunction::Callback { callback, stream, user_data })
}
