//! Contexts: names for what was made in them.
//!
//! A context here is a name for what was made in it: streams, allocations and modules carry its
//! number and go with it. All contexts of a process share its errors.

use locks::MutexGuard;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_api::constants::limit;
use cuda_api::*;
use driver_common::context::{
    API_VERSION, FOUR_BYTE_BANKS, PrimaryUse, check_cache_config, check_flags,
    check_shared_mem_config,
};

use super::context_object::Context;
use super::{Driver, devices, driver, exports, thread};
use crate::device::limits;
use crate::device::memory::AllocationKind;
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};
use simt::runtime::heap::HEAP_ALIGN;

/// The primary context's state that outlives its use.
#[derive(Default)]
pub(crate) struct Primary {
    pub(crate) context: Option<Arc<Context>>,
    usage: PrimaryUse,
    flags: u32,
}

impl Driver {
    /// The primary context's handle; making it does not retain it.
    pub(crate) fn primary(&self, device: u32) -> Result<Arc<Context>> {
        let mut primary = self.lock_primary(device)?;
        self.primary_of(&mut primary, device)
    }

    fn primary_of(&self, primary: &mut Primary, device: u32) -> Result<Arc<Context>> {
        if let Some(context) = &primary.context {
            return Ok(context.clone());
        }
        let number = self.next_number();
        let (_, context) = self.contexts.insert_with(|handle| {
            Context::new((handle, device), number, true, primary.flags, false)
        })?;
        primary.context = Some(context.clone());
        Ok(context)
    }

    /// The primary context, retained once more.
    pub(super) fn retain_primary(&self, device: u32) -> Result<Arc<Context>> {
        self.working_tenant()?;
        let mut primary = self.lock_primary(device)?;
        let made = self.primary_of(&mut primary, device)?;
        if !primary.usage.is_active() {
            self.enter_device(device)?;
            made.number.store(self.next_number(), Ordering::Release);
            made.active.store(true, Ordering::Release);
        }
        primary.usage.retain()?;
        Ok(made)
    }

    /// The context of a handle, or the current one for NULL.
    pub(super) fn context_or_current(&self, handle: CUcontext) -> Result<Arc<Context>> {
        if handle.is_null() {
            return thread::current();
        }
        let context = self.contexts.get(handle.0).map_err(|_| Error::INVALID_CONTEXT)?;
        context.require_active()?;
        Ok(context)
    }

    /// Ends all work of a context and frees all that was made in it.
    fn clear_context(&self, context: &Context) {
        context.active.store(false, Ordering::Release);
        export_tables::forget_context(CUcontext(context.handle));
        self.forget_peers(context);
        self.device.destroy_groups(context.number());
        self.streams.remove_all(|s| s.context == context.number());
        self.events.remove_all(|e| e.context == context.number());
        self.arrays.remove_all(|a| a.context == context.number());
        self.mipmapped.remove_all(|m| m.context == context.number());
        self.forget_images(context.number());
        for module in self.modules.remove_all(|m| m.context == context.number()) {
            self.forget_functions(&module);
        }
        self.device.free_context(context.number());
        self.heaps.lock().retain(|(number, _), _| *number != context.number());
        self.flush_printf(self.device.default_tenant());
    }

    /// Gives a tenant's kernels a heap of another size, if they have one already.
    ///
    /// # Errors
    /// CUDA_ERROR_INVALID_VALUE if something was allocated of it, as the manual has it.
    fn resize_heap(&self, context: &Context, tenant: &Arc<Tenant>, bytes: u64) -> Result {
        let heaps = self.heaps.lock();
        let Some(heap) = heaps.get(&(context.number(), tenant.id)) else { return Ok(()) };
        if heap.is_used() {
            return Err(Error::INVALID_VALUE);
        }
        let kind = AllocationKind::Module { writable: true };
        let number = context.number();
        let address = self.device.allocate(tenant, number, bytes, HEAP_ALIGN, kind)?;
        // The one that it had stays as long as its context: kernels may know addresses of it.
        match heap.replace(address, bytes) {
            true => Ok(()),
            false => Err(Error::INVALID_VALUE),
        }
    }

    fn peers(&self) -> MutexGuard<'_, HashSet<(u64, u64)>> {
        self.peers.lock()
    }

    /// Ends a context's access to others, and theirs to it.
    fn forget_peers(&self, context: &Context) {
        let number = context.number();
        let gone: Vec<(u64, u64)> =
            self.peers().extract_if(|(from, of)| number == *from || number == *of).collect();
        for (from, of) in gone {
            let device = |wanted: u64| {
                let all = self.contexts.all();
                all.iter().find(|other| other.number() == wanted).map(|other| other.device)
            };
            let device = |wanted| match wanted == number {
                true => Some(context.device),
                false => device(wanted),
            };
            if let (Some(from), Some(of)) = (device(from), device(of)) {
                self.device.disable_peer(from, of);
            }
        }
    }

    /// Waits for the work of a context that is about to be destroyed, as an H200's driver does,
    /// however long it takes. The result is not used.
    fn finish_context(&self, context: &Context) {
        let _ = self.synchronize_context(context);
    }

    /// Waits for all that this thread's tenant has in the context, and shows what it printed.
    pub(crate) fn synchronize_context(&self, context: &Context) -> Result {
        let tenant = self.tenant();
        let group = self.device.group(context.number(), &tenant)?;
        self.graphs.synchronizing_context(group.number())?;
        let result = self.device.synchronize_group(group, &tenant);
        self.flush_printf(&tenant);
        result
    }
}

exports! {
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) {
        let driver = driver()?;
        let device = devices::check(device)?;
        context.required()?;
        context.set(CUcontext(driver.retain_primary(device)?.handle))
    }

    fn cuDevicePrimaryCtxRelease(device: CUdevice) {
        release_primary(device)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) {
        release_primary(device)
    }

    fn cuDevicePrimaryCtxReset(device: CUdevice) {
        reset_primary(device)
    }

    fn cuDevicePrimaryCtxReset_v2(device: CUdevice) {
        reset_primary(device)
    }

    fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int) {
        let driver = driver()?;
        let primary = driver.lock_primary(devices::check(device)?)?;
        active.required()?;
        flags.set(primary.flags)?;
        active.set(primary.usage.is_active().into())
    }

    fn cuDevicePrimaryCtxSetFlags(device: CUdevice, flags: c_uint) {
        set_primary_flags(device, flags)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: c_uint) {
        set_primary_flags(device, flags)
    }

    fn cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice) {
        context.required()?;
        context.set(create(flags, device)?)
    }

    fn cuCtxCreate_v3(
        context: *mut CUcontext, params: *mut CUexecAffinityParam, num_params: c_int,
        flags: c_uint, device: CUdevice,
    ) {
        context.required()?;
        if num_params > 0 {
            params.get()?;
            return Err(Error::UNSUPPORTED_EXEC_AFFINITY);
        }
        context.set(create(flags, device)?)
    }

    fn cuCtxCreate_v4(
        context: *mut CUcontext, params: *mut CUctxCreateParams, flags: c_uint, device: CUdevice,
    ) {
        context.required()?;
        if !params.is_null() && params.get()?.numExecAffinityParams != 0 {
            return Err(Error::UNSUPPORTED_EXEC_AFFINITY);
        }
        context.set(create(flags, device)?)
    }

    fn cuCtxGetExecAffinity(param: *mut CUexecAffinityParam, kind: c_uint) {
        let driver = driver()?;
        let context = driver.context_or_current(CUcontext::NULL)?;
        param.required()?;
        if kind != 0 {
            return Err(Error::UNSUPPORTED_EXEC_AFFINITY);
        }
        let all = driver.device.settings.sms;
        let sms = match context.sm_ranges() {
            [] => all,
            ranges => ranges.iter().map(|sms| sms.end - sms.start).sum(),
        };
        param.set(CUexecAffinityParam { kind, smCount: sms })
    }

    fn cuCtxDestroy_v2(context: CUcontext) {
        if context.is_null() {
            driver()?;
            return Err(Error::INVALID_VALUE);
        }
        destroy(&*created(context)?)
    }

    fn cuCtxAttach(context: *mut CUcontext, flags: c_uint) {
        driver()?;
        let current = thread::current()?;
        context.required()?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        current.uses.fetch_add(1, Ordering::Relaxed);
        context.set(CUcontext(current.handle))
    }

    fn cuCtxDetach(context: CUcontext) {
        let found = created(context)?;
        match found.uses.fetch_sub(1, Ordering::Relaxed) {
            1 => destroy(&found),
            _ => Ok(()),
        }
    }

    fn cuCtxPushCurrent_v2(context: CUcontext) {
        let driver = driver()?;
        if context.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        thread::push(driver.contexts.get(context.0).map_err(|_| Error::INVALID_CONTEXT)?)
    }

    fn cuCtxPopCurrent_v2(context: *mut CUcontext) {
        driver()?;
        let popped = thread::pop()?;
        context.set_if_wanted(CUcontext(popped.handle));
        Ok(())
    }

    fn cuCtxSetCurrent(context: CUcontext) {
        let driver = driver()?;
        if context.is_null() {
            return thread::set_current(None);
        }
        let found = driver.contexts.get(context.0).map_err(|_| Error::INVALID_CONTEXT)?;
        thread::set_current(Some(found))
    }

    fn cuCtxGetCurrent(context: *mut CUcontext) {
        driver()?;
        context.set(CUcontext(thread::top()?.map_or(0, |top| top.handle)))
    }

    fn cuCtxGetDevice(device: *mut CUdevice) {
        driver()?;
        device.set(thread::top()?.ok_or(Error::INVALID_CONTEXT)?.device as CUdevice)
    }

    fn cuCtxGetDevice_v2(device: *mut CUdevice, context: CUcontext) {
        let driver = driver()?;
        let found = match context.is_null() {
            true => thread::top()?.ok_or(Error::INVALID_CONTEXT)?,
            false => driver.contexts.get(context.0).map_err(|_| Error::INVALID_CONTEXT)?,
        };
        device.set(found.device as CUdevice)
    }

    fn cuCtxGetApiVersion(context: CUcontext, version: *mut c_uint) {
        let driver = driver()?;
        if context.is_null() {
            thread::top()?.ok_or(Error::INVALID_CONTEXT)?;
        } else {
            driver.contexts.get(context.0).map_err(|_| Error::INVALID_CONTEXT)?;
        }
        version.set(API_VERSION)
    }

    fn cuCtxGetId(context: CUcontext, ctx_id: *mut u64) {
        let driver = driver()?;
        ctx_id.set(driver.context_or_current(context)?.id())
    }

    fn cuCtxGetFlags(flags: *mut c_uint) {
        driver()?;
        flags.set(thread::current()?.flags.load(Ordering::Relaxed))
    }

    fn cuCtxSetFlags(flags: c_uint) {
        driver()?;
        let context = thread::current()?;
        check_flags(flags)?;
        context.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxSynchronize() {
        let driver = driver()?;
        let context = thread::current()?;
        driver.synchronize_context(&context)
    }

    fn cuCtxSynchronize_v2(context: CUcontext) {
        let driver = driver()?;
        let context = driver.context_or_current(context)?;
        driver.synchronize_context(&context)
    }

    fn cuCtxGetLimit(pvalue: *mut usize, limit: c_uint) {
        let driver = driver()?;
        let context = thread::current()?;
        pvalue.set(match limit {
            limit::SHMEM_SIZE => driver.device.settings.capability.shared_per_block_optin as usize,
            // No context here shares its device with graphics.
            limit::CIG_ENABLED => 0,
            limit => context.limits().get(limit)?,
        })
    }

    fn cuCtxSetLimit(limit: c_uint, value: usize) {
        let driver = driver()?;
        let context = thread::current()?;
        driver.graphs.unsafe_call()?;
        let tenant = driver.tenant();
        // Tenants share a context, but not its limits.
        let is_default = tenant.id == driver.device.default_tenant().id;
        let mut limits = context.limits().clone();
        limits.set(limit, value)?;
        let bytes = limits.get(limit)?;
        match limit {
            limit::MALLOC_HEAP_SIZE => {
                driver.resize_heap(&context, &tenant, bytes as u64)?;
                if !is_default {
                    tenant.heap_bytes.store(bytes as u64, Ordering::Relaxed);
                }
            }
            limit::PRINTF_FIFO_SIZE => tenant.printf.set_limit_bytes(bytes),
            limit::STACK_SIZE if !is_default => {
                tenant.stack_bytes.store(bytes as u64, Ordering::Relaxed);
            }
            _ => {}
        }
        if is_default {
            *context.limits() = limits;
        }
        Ok(())
    }

    fn cuCtxGetCacheConfig(pconfig: *mut c_uint) {
        driver()?;
        pconfig.set(thread::current()?.cache_config.load(Ordering::Relaxed))
    }

    fn cuCtxSetCacheConfig(config: c_uint) {
        driver()?;
        check_cache_config(config)?;
        thread::current()?.cache_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetSharedMemConfig(p_config: *mut c_uint) {
        driver()?;
        thread::current()?;
        p_config.set(FOUR_BYTE_BANKS)
    }

    fn cuCtxSetSharedMemConfig(config: c_uint) {
        driver()?;
        check_shared_mem_config(config)?;
        // A preference that no device of today can follow.
        thread::current().map(drop)
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        driver()?;
        thread::current()?;
        least.set_if_wanted(limits::PRIORITY_LEAST);
        greatest.set_if_wanted(limits::PRIORITY_GREATEST);
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() {
        driver()?;
        thread::current().map(|_| ())
    }

    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) {
        let driver = driver()?;
        let context = thread::current()?;
        let peer = driver.contexts.get(peer.0).map_err(|_| Error::INVALID_CONTEXT)?;
        peer.require_active().map_err(|_| Error::INVALID_CONTEXT)?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        // A device is no peer of itself.
        if peer.device == context.device {
            return Err(Error::PEER_ACCESS_UNSUPPORTED);
        }
        let pair = (context.number(), peer.number());
        let mut peers = driver.peers();
        if peers.contains(&pair) {
            return Err(Error::PEER_ACCESS_ALREADY_ENABLED);
        }
        driver.device.enable_peer(context.device, peer.device)?;
        peers.insert(pair);
        Ok(())
    }

    fn cuCtxDisablePeerAccess(peer: CUcontext) {
        let driver = driver()?;
        let context = thread::current()?;
        let peer = driver.contexts.get(peer.0).map_err(|_| Error::INVALID_CONTEXT)?;
        if !driver.peers().remove(&(context.number(), peer.number())) {
            return Err(Error::PEER_ACCESS_NOT_ENABLED);
        }
        driver.device.disable_peer(context.device, peer.device);
        Ok(())
    }
}

/// A context that cuCtxCreate made. CUDA_ERROR_INVALID_CONTEXT for another one.
fn created(context: CUcontext) -> Result<Arc<Context>> {
    let found = driver()?.contexts.get(context.0).map_err(|_| Error::INVALID_CONTEXT)?;
    match found.primary || found.green.is_some() {
        true => Err(Error::INVALID_CONTEXT),
        false => Ok(found),
    }
}

fn destroy(context: &Context) -> Result {
    let driver = driver()?;
    driver.finish_context(context);
    driver.clear_context(context);
    driver.contexts.remove(context.handle).map_err(|_| Error::INVALID_CONTEXT)?;
    if thread::top()?.is_some_and(|top| top.handle == context.handle) {
        thread::pop()?;
    }
    Ok(())
}

fn create(flags: u32, device: CUdevice) -> Result<CUcontext> {
    let driver = driver()?;
    let device = devices::check(device)?;
    check_flags(flags)?;
    driver.working_tenant()?;
    driver.enter_device(device)?;
    let number = driver.next_number();
    let make = |handle| Context::new((handle, device), number, false, flags, true);
    let (handle, context) = driver.contexts.insert_with(make)?;
    thread::push(context)?;
    Ok(CUcontext(handle))
}

pub(super) fn release_primary(device: CUdevice) -> Result {
    let driver = driver()?;
    let mut primary = driver.lock_primary(devices::check(device)?)?;
    if primary.usage.release()?
        && let Some(context) = primary.context.clone()
    {
        driver.clear_context(&context);
    }
    Ok(())
}

/// A reset ends the context until it is retained again, puts back what was set in it, and releases
/// it not.
fn reset_primary(device: CUdevice) -> Result {
    let driver = driver()?;
    let device = devices::check(device)?;
    let context = driver.lock_primary(device)?.context.clone();
    context.iter().for_each(|context| driver.finish_context(context));
    let mut primary = driver.lock_primary(device)?;
    primary.flags = 0;
    primary.usage.reset();
    if let Some(context) = primary.context.clone() {
        driver.clear_context(&context);
        context.set_back();
    }
    Ok(())
}

fn set_primary_flags(device: CUdevice, flags: u32) -> Result {
    let driver = driver()?;
    check_flags(flags)?;
    let mut primary = driver.lock_primary(devices::check(device)?)?;
    primary.flags = flags;
    if let Some(context) = &primary.context {
        context.flags.store(flags, Ordering::Relaxed);
    }
    Ok(())
}
