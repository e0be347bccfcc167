//! Contexts: which is current where, and how long the primary one lives.

use std::{
    ffi::{c_int, c_void},
    ptr, thread,
};

use cudarc::driver::sys::{self, CUlimit};

use crate::{
    Check, device,
    support::{Env, Event, Outcome, Stream, Words, call, equal, holds, refused},
};

/// To be run while the process has no context.
pub(crate) const BEFORE_CONTEXT: &[Check<()>] =
    &[("context.primary_inactive", primary_inactive), ("context.none_current", none_current)];

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("context.primary_active", primary_active),
    ("context.retain_counts", retain_counts),
    ("context.stack", stack),
    ("context.threads", threads),
    ("context.none_needed", none_needed),
    ("context.queries", queries),
    ("context.synchronize_v2", synchronize_v2),
    ("context.limits", limits),
    ("context.stream_priorities", stream_priorities),
];

/// To be run last, since it lets go of the primary context.
pub(crate) const AT_THE_END: &[Check<Env>] = &[("context.release", release)];

fn state(device: sys::CUdevice) -> Outcome<i32> {
    let (mut flags, mut active) = (0, -1);
    call!(cuDevicePrimaryCtxGetState(device, &mut flags, &mut active))?;
    Ok(active)
}

fn current() -> Outcome<sys::CUcontext> {
    let mut context = ptr::dangling_mut();
    call!(cuCtxGetCurrent(&mut context))?;
    Ok(context)
}

fn primary_inactive(_: &()) -> Outcome {
    let mut device = 0;
    call!(cuDeviceGet(&mut device, 0))?;
    equal("active", state(device)?, 0)
}

fn none_current(_: &()) -> Outcome {
    holds("no context is current", current()?.is_null())?;
    let mut address = 0;
    refused!(cuMemAlloc_v2(&mut address, 256), CUDA_ERROR_INVALID_CONTEXT)?;
    let mut device = 0;
    refused!(cuCtxGetDevice(&mut device), CUDA_ERROR_INVALID_CONTEXT)?;
    refused!(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT)
}

fn primary_active(env: &Env) -> Outcome {
    equal("active", state(env.device)?, 1)?;
    equal("the current context", current()?, env.context)
}

fn retain_counts(env: &Env) -> Outcome {
    let mut again = ptr::null_mut();
    call!(cuDevicePrimaryCtxRetain(&mut again, env.device))?;
    equal("the primary context", again, env.context)?;
    call!(cuDevicePrimaryCtxRelease_v2(env.device))?;
    equal("still active", state(env.device)?, 1)?;
    Words::filled(16, 3)?.read().map(|_| ())
}

fn stack(env: &Env) -> Outcome {
    call!(cuCtxPushCurrent_v2(env.context))?;
    let mut popped = ptr::null_mut();
    call!(cuCtxPopCurrent_v2(&mut popped))?;
    equal("what was pushed", popped, env.context)?;
    equal("what was below", current()?, env.context)?;
    call!(cuCtxPopCurrent_v2(&mut popped))?;
    holds("nothing is left", current()?.is_null())?;
    refused!(cuCtxPopCurrent_v2(&mut popped), CUDA_ERROR_INVALID_CONTEXT)?;
    call!(cuCtxSetCurrent(env.context))?;
    equal("what was set", current()?, env.context)?;
    call!(cuCtxSetCurrent(ptr::null_mut()))?;
    holds("setting null takes the context away", current()?.is_null())?;
    call!(cuCtxSetCurrent(env.context))
}

fn threads(env: &Env) -> Outcome {
    let context = env.context as usize;
    let other = thread::spawn(move || -> Outcome {
        holds("a new thread has no context", current()?.is_null())?;
        call!(cuCtxSetCurrent(context as sys::CUcontext))?;
        let words = Words::filled(8, 5)?;
        equal("words", words.read()?, vec![5; 8])
    });
    match other.join() {
        Ok(outcome) => outcome?,
        Err(_) => holds("the thread did not panic", false)?,
    }
    equal("this thread's context", current()?, env.context)
}

/// A context must be current only where no handle says which one is meant.
fn none_needed(env: &Env) -> Outcome {
    let (stream, event) = (Stream::non_blocking()?, Event::untimed()?);
    let function = env.function(c"nothing")? as usize;
    let handles = (stream.0 as usize, event.0 as usize);
    let other = thread::spawn(move || -> Outcome {
        let (stream, event) = (handles.0 as sys::CUstream, handles.1 as sys::CUevent);
        let (function, none) = (function as sys::CUfunction, ptr::null_mut());
        holds("the thread has no context", current()?.is_null())?;
        call!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, none, none))?;
        call!(cuEventRecord(event, stream))?;
        call!(cuStreamWaitEvent(stream, event, 0))?;
        call!(cuEventSynchronize(event))?;
        call!(cuEventQuery(event))?;
        call!(cuStreamSynchronize(stream))?;
        call!(cuStreamQuery(stream))?;
        refused!(cuEventRecord(event, ptr::null_mut()), CUDA_ERROR_INVALID_CONTEXT)?;
        refused!(cuStreamQuery(ptr::null_mut()), CUDA_ERROR_INVALID_CONTEXT)?;
        let mut made = ptr::null_mut();
        refused!(cuEventCreate(&mut made, 0), CUDA_ERROR_INVALID_CONTEXT)
    });
    match other.join() {
        Ok(outcome) => outcome,
        Err(_) => holds("the thread did not panic", false),
    }
}

fn queries(env: &Env) -> Outcome {
    let mut device = -1;
    call!(cuCtxGetDevice(&mut device))?;
    equal("the context's device", device, env.device)?;
    let mut version = 0;
    call!(cuCtxGetApiVersion(env.context, &mut version))?;
    holds("the context has an API version", version >= 3010)?;
    let (mut id, mut again) = (0, 0);
    call!(cuCtxGetId(env.context, &mut id))?;
    call!(cuCtxGetId(ptr::null_mut(), &mut again))?;
    equal("the current context's id", again, id)?;
    let mut flags = 0;
    call!(cuCtxGetFlags(&mut flags))
}

/// The forms of CUDA 13, which name the context.
fn synchronize_v2(env: &Env) -> Outcome {
    type GetDevice = unsafe extern "C" fn(*mut sys::CUdevice, sys::CUcontext) -> c_int;
    type Synchronize = unsafe extern "C" fn(sys::CUcontext) -> c_int;
    let mut version = 0;
    call!(cuDriverGetVersion(&mut version))?;
    if version < 13_000 {
        return Err(crate::Stop::Absent("the driver is older than CUDA 13".to_owned()));
    }
    let get_device = device::entry(c"cuCtxGetDevice", 13_000, 0)?;
    let synchronize = device::entry(c"cuCtxSynchronize", 13_000, 0)?;
    for context in [env.context, ptr::null_mut()] {
        let mut device = -1;
        // SAFETY: the signatures that the manual gives these functions as of CUDA 13.0; a place for
        // the device, and a live context or null for the current one.
        let statuses = unsafe {
            [
                std::mem::transmute::<*mut c_void, GetDevice>(get_device)(&mut device, context),
                std::mem::transmute::<*mut c_void, Synchronize>(synchronize)(context),
            ]
        };
        equal("statuses", statuses, [0, 0])?;
        equal("the context's device", device, env.device)?;
    }
    Ok(())
}

fn limits(_: &Env) -> Outcome {
    for limit in [CUlimit::CU_LIMIT_STACK_SIZE, CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE] {
        let mut bytes = 0;
        call!(cuCtxGetLimit(&mut bytes, limit))?;
        holds("the limit is not zero", bytes > 0)?;
    }
    refused!(cuCtxGetLimit(ptr::null_mut(), CUlimit::CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE)
}

fn stream_priorities(_: &Env) -> Outcome {
    let (mut least, mut greatest) = (1, 1);
    call!(cuCtxGetStreamPriorityRange(&mut least, &mut greatest))?;
    equal("the least priority", least, 0)?;
    holds("the greatest priority is numerically at most the least", greatest <= least)
}

fn release(env: &Env) -> Outcome {
    call!(cuCtxSetCurrent(env.context))?;
    call!(cuModuleUnload(env.module))?;
    call!(cuDevicePrimaryCtxRelease_v2(env.device))?;
    equal("active", state(env.device)?, 0)
}
