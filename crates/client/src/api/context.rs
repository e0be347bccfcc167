//! Contexts: the manual's "Context Management" and "Primary Context Management".

use super::resource::partition;
use crate::boundary::Out;
use crate::context::affinity;
use crate::context::current;
use crate::context::table::Context;
use crate::graph::backend::graphs;
use crate::graph::host_copy::end_unused;
use crate::program::Client;
use crate::program::mode;
use core::ffi::{c_int, c_uint};
use cuda_api::attributes as attribute;
use cuda_api::constants::limit;
use cuda_api::{CUcontext, CUctxCreateParams, CUdevice, CUexecAffinityParam, CUresult, CudaError};
use driver_common::context::{FOUR_BYTE_BANKS, check_flags, check_shared_mem_config};

/// The current context, usable or not. CUDA_ERROR_INVALID_CONTEXT if there is none.
fn with_current<R>(f: impl FnOnce(&mut Context) -> R) -> Result<R, CudaError> {
    mode::program()?.contexts().with(CUcontext::NULL, f)
}

pub(crate) fn cuDevicePrimaryCtxRetain(context: Out<CUcontext>, device: CUdevice) -> CUresult {
    mode::program()?;
    context.required()?;
    let client = mode::client_on(device)?;
    let primary = client.contexts().retain(device)?;
    if let Some(sms) = share_of_new_context(device)
        && client.contexts().own_default(primary.0 as u64).is_none()
        && let Err(error) = client.give_sms(primary, sms, partition(device)?.unit)
    {
        return cuDevicePrimaryCtxRelease(device).and(Err(error));
    }
    context.set(primary)
}

/// SMs that a context made now has by the variables, if these are not all.
fn share_of_new_context(device: CUdevice) -> Option<u32> {
    let share = match affinity::share_now() {
        Ok(share) => share?,
        Err(error) => {
            let name = cuda_api::environment::CUDA_MPS_ACTIVE_THREAD_PERCENTAGE;
            crate::stderr::say(format_args!("{name} is not taken: {error}"));
            return None;
        }
    };
    let partition = partition(device).ok()?;
    Some(share.sms(partition.sms, partition.unit)).filter(|sms| *sms < partition.sms)
}

pub(crate) fn cuDevicePrimaryCtxRelease(device: CUdevice) -> CUresult {
    let program = mode::program()?;
    let contexts = program.contexts();
    if contexts.release(device)? {
        end_what_belongs_to(program.client_at(device as usize)?, contexts.primary(device));
    }
    Ok(())
}

pub(crate) fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> CUresult {
    cuDevicePrimaryCtxRelease(device)
}

pub(crate) fn cuDevicePrimaryCtxReset(device: CUdevice) -> CUresult {
    let program = mode::program()?;
    if program.contexts().reset(device)? {
        let context = program.contexts().primary(device);
        end_what_belongs_to(program.client_at(device as usize)?, context);
    }
    program.contexts().set_back(device)?;
    program.client_at(device as usize).map_or(Ok(()), Client::health)
}

pub(crate) fn cuDevicePrimaryCtxReset_v2(device: CUdevice) -> CUresult {
    cuDevicePrimaryCtxReset(device)
}

/// Ends all objects of a context that the program cannot use any more. Errors of earlier work are
/// left to calls that report them.
fn end_what_belongs_to(client: &'static Client, context: CUcontext) {
    client.finish_everything();
    client.contexts().forget_peers(context.0 as u64);
    client.end_objects_of(context.0 as u64);
    client.contexts().unplace(context);
}

pub(crate) fn cuDevicePrimaryCtxGetState(
    device: CUdevice,
    flags: Out<c_uint>,
    active: Out<c_int>,
) -> CUresult {
    let (state_flags, is_active) = mode::program()?.contexts().primary_state(device)?;
    active.required()?;
    flags.set(state_flags)?;
    active.set(c_int::from(is_active))
}

pub(crate) fn cuDevicePrimaryCtxSetFlags(device: CUdevice, flags: c_uint) -> CUresult {
    mode::program()?.contexts().set_primary_flags(device, flags)
}

pub(crate) fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint) -> CUresult {
    cuDevicePrimaryCtxSetFlags(device, flags)
}

pub(crate) fn cuCtxCreate_v2(context: Out<CUcontext>, flags: c_uint, device: CUdevice) -> CUresult {
    mode::program()?;
    context.required()?;
    check_flags(flags)?;
    create(context, flags, device, share_of_new_context(device))
}

/// Makes a context, with so many SMs of its own if they are said.
fn create(context: Out<CUcontext>, flags: c_uint, device: CUdevice, sms: Option<u32>) -> CUresult {
    let client = mode::client_on(device)?;
    let made = client.contexts().create(device, flags)?;
    if let Some(sms) = sms
        && let Err(error) = client.give_sms(made, sms, partition(device)?.unit)
    {
        client.contexts().destroy(made)?;
        return Err(error);
    }
    context.set(made)
}

/// As [`cuCtxCreate_v2`], with the SMs that `params` ask for.
pub(crate) fn cuCtxCreate_v3(
    context: Out<CUcontext>,
    params: Out<CUexecAffinityParam>,
    count: c_int,
    flags: c_uint,
    device: CUdevice,
) -> CUresult {
    mode::program()?;
    context.required()?;
    match count {
        ..=0 => return cuCtxCreate_v2(context, flags, device),
        1 => {}
        _ => return Err(CudaError::INVALID_VALUE),
    }
    check_flags(flags)?;
    let param = params.as_in().get()?;
    mode::client_on(device)?;
    affinity::check(param.kind, param.smCount, partition(device)?.sms)?;
    create(context, flags, device, Some(param.smCount))
}

/// How many SMs the current context has.
pub(crate) fn cuCtxGetExecAffinity(param: Out<CUexecAffinityParam>, kind: c_uint) -> CUresult {
    let device = with_current(|context| context.device)?;
    param.required()?;
    if kind != affinity::SM_COUNT {
        return Err(CudaError::UNSUPPORTED_EXEC_AFFINITY);
    }
    let smCount = mode::client_on(device)?.sms_here().max(0) as c_uint;
    param.set(CUexecAffinityParam { kind, smCount })
}

pub(crate) fn cuCtxCreate_v4(
    context: Out<CUcontext>,
    params: Out<CUctxCreateParams>,
    flags: c_uint,
    device: CUdevice,
) -> CUresult {
    if !params.is_null() {
        let params = params.as_in().get()?;
        if !params.cigParams.is_null() {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let affinities = params.affinities();
        return cuCtxCreate_v3(context, affinities, params.numExecAffinityParams, flags, device);
    }
    cuCtxCreate_v2(context, flags, device)
}

pub(crate) fn cuCtxDestroy_v2(context: CUcontext) -> CUresult {
    let contexts = mode::program()?.contexts();
    if context.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    if !contexts.is_created(context) {
        return Err(CudaError::INVALID_CONTEXT);
    }
    let device = contexts.with(context, |context| context.device)?;
    end_what_belongs_to(mode::program()?.client_at(device as usize)?, context);
    contexts.destroy(context)
}

/// Counts a use of the current context (deprecated).
pub(crate) fn cuCtxAttach(context: Out<CUcontext>, flags: c_uint) -> CUresult {
    mode::enter()?;
    context.required()?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    with_current(|context| context.uses = context.uses.saturating_add(1))?;
    cuCtxGetCurrent(context)
}

/// Ends a use of a context, which is destroyed with its last one (deprecated).
pub(crate) fn cuCtxDetach(context: CUcontext) -> CUresult {
    let contexts = mode::program()?.contexts();
    if !contexts.is_created(context) {
        return Err(CudaError::INVALID_CONTEXT);
    }
    let is_last = contexts.with(context, |context| {
        context.uses = context.uses.saturating_sub(1);
        context.uses == 0
    })?;
    if is_last { cuCtxDestroy_v2(context) } else { Ok(()) }
}

pub(crate) fn cuCtxPushCurrent_v2(context: CUcontext) -> CUresult {
    mode::program()?.contexts().push_current(context)
}

pub(crate) fn cuCtxPopCurrent_v2(context: Out<CUcontext>) -> CUresult {
    mode::program()?;
    match current::pop() {
        0 => Err(CudaError::INVALID_CONTEXT),
        word => {
            context.set_if_wanted(CUcontext(word as usize));
            Ok(())
        }
    }
}

pub(crate) fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    mode::program()?.contexts().set_current(context)
}

pub(crate) fn cuCtxGetCurrent(context: Out<CUcontext>) -> CUresult {
    mode::program()?;
    context.set(CUcontext(current::word() as usize))
}

pub(crate) fn cuCtxGetDevice(device: Out<CUdevice>) -> CUresult {
    device.set(mode::program()?.contexts().device_of(CUcontext::NULL)?)
}

pub(crate) fn cuCtxGetDevice_v2(device: Out<CUdevice>, context: CUcontext) -> CUresult {
    device.set(mode::program()?.contexts().device_of(context)?)
}

pub(crate) fn cuCtxGetApiVersion(context: CUcontext, version: Out<c_uint>) -> CUresult {
    version.set(mode::program()?.contexts().api_version(context)?)
}

pub(crate) fn cuCtxGetId(context: CUcontext, id: Out<u64>) -> CUresult {
    id.set(mode::program()?.contexts().id(context)?)
}

pub(crate) fn cuCtxGetFlags(flags: Out<c_uint>) -> CUresult {
    flags.set(with_current(|context| context.flags)?)
}

pub(crate) fn cuCtxSetFlags(flags: c_uint) -> CUresult {
    check_flags(flags)?;
    with_current(|context| context.flags = flags)
}

pub(crate) fn cuCtxSynchronize() -> CUresult {
    let (client, context) = mode::enter()?;
    graphs().synchronizing_context(context)?;
    client.synchronize_all()?;
    end_unused();
    Ok(())
}

pub(crate) fn cuCtxSynchronize_v2(context: CUcontext) -> CUresult {
    let device = mode::program()?.contexts().device_of(context)?;
    let client = mode::client_on(device)?;
    graphs().synchronizing_context(context.0 as u64)?;
    client.synchronize_all()
}

pub(crate) fn cuCtxGetLimit(value: Out<usize>, limit: c_uint) -> CUresult {
    value.required()?;
    match limit {
        // What a block may have: asked by libraries that share the device with graphics.
        limit::SHMEM_SIZE => {
            let device = with_current(|context| context.device)?;
            let devices = mode::program()?.devices();
            let device = devices.get(device as usize).ok_or(CudaError::INVALID_DEVICE)?;
            let bytes = device.attributes[attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as usize];
            return value.set(bytes.max(0) as usize);
        }
        // No context here shares its device with graphics.
        limit::CIG_ENABLED => {
            with_current(|_| ())?;
            return value.set(0);
        }
        _ => {}
    }
    value.set(with_current(|context| context.limits.get(limit))??)
}

/// Sets a limit. All clients share a context at the server: `at_server` has what kernels need be
/// theirs there, and is CUDA_ERROR_UNSUPPORTED_LIMIT where the provider has that for all alike.
pub(crate) fn set_limit(
    limit: c_uint,
    value: usize,
    at_server: impl FnOnce(usize) -> CUresult,
) -> CUresult {
    let (client, _) = mode::enter()?;
    graphs().unsafe_call()?;
    let mut limits = with_current(|context| context.limits.clone())?;
    let before = limits.get(limit)?;
    limits.set(limit, value)?;
    let after = limits.get(limit)?;
    let is_of_kernels =
        matches!(limit, limit::STACK_SIZE | limit::PRINTF_FIFO_SIZE | limit::MALLOC_HEAP_SIZE);
    if is_of_kernels && after != before {
        at_server(after).inspect_err(|error| {
            if *error == CudaError::UNSUPPORTED_LIMIT {
                crate::stderr::say(format_args!(
                    "cuCtxSetLimit: limit {limit} of {after} bytes is more than programs that \
                     share this device have"
                ));
            }
        })?;
        client.server_limits.lock().insert(limit, after);
    }
    with_current(|context| context.limits = limits)
}

pub(crate) fn cuCtxGetCacheConfig(config: Out<c_uint>) -> CUresult {
    config.set(with_current(|context| context.cache_config)?)
}

pub(crate) fn cuCtxGetSharedMemConfig(config: Out<c_uint>) -> CUresult {
    with_current(|_| ())?;
    config.set(FOUR_BYTE_BANKS)
}

/// Without meaning on any device of today: a preference that none can follow.
pub(crate) fn cuCtxSetSharedMemConfig(config: c_uint) -> CUresult {
    check_shared_mem_config(config)?;
    with_current(|_| ())
}

pub(crate) fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) -> CUresult {
    let (client, _) = mode::enter()?;
    let (l, g) = client.priority_range();
    least.set_if_wanted(l);
    greatest.set_if_wanted(g);
    Ok(())
}

/// Has the current context's device reach all memory of the peer context's.
pub(crate) fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) -> CUresult {
    let (client, context) = mode::enter()?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let device = peer_device(client, peer)?;
    // A device is no peer of itself.
    if device == client.device {
        return Err(CudaError::PEER_ACCESS_UNSUPPORTED);
    }
    if !client.can_access(device) {
        return Err(CudaError::PEER_ACCESS_UNSUPPORTED);
    }
    if !client.contexts().add_peer(context, peer) {
        return Err(CudaError::PEER_ACCESS_ALREADY_ENABLED);
    }
    let enabled = client.program.client_on(device)?.set_reader(client.device, true);
    if enabled.is_err() {
        client.contexts().remove_peer(context, peer);
    }
    enabled
}

pub(crate) fn cuCtxDisablePeerAccess(peer: CUcontext) -> CUresult {
    let (client, context) = mode::enter()?;
    let device = peer_device(client, peer)?;
    if !client.contexts().remove_peer(context, peer) {
        return Err(CudaError::PEER_ACCESS_NOT_ENABLED);
    }
    // Another pair of contexts of these devices, or a pool, may still want it.
    match client.contexts().has_peers(client.device, device) {
        true => Ok(()),
        false => client.program.client_on(device)?.set_reader(client.device, false),
    }
}

fn peer_device(client: &Client, peer: CUcontext) -> Result<CUdevice, CudaError> {
    match peer.is_null() {
        true => Err(CudaError::INVALID_CONTEXT),
        false => client.contexts().device_of(peer),
    }
}

/// The persisting part of the cache is the server's: there is nothing of this client's to reset.
pub(crate) fn cuCtxResetPersistingL2Cache() -> CUresult {
    mode::enter().map(|_| ())
}
