//! What each thread of the program has of its own: its stack of contexts, its tenant, its default
//! streams.

use std::cell::RefCell;
use std::sync::Arc;

use channel::per_thread::PerThread;
use cuda_api::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUstream};

use super::Driver;
use super::context_object::Context;
use crate::device::slab::Key;
use crate::device::stream::Stream;
use crate::device::stream::ops::StreamSpec;
use crate::device::tenant::{Tenant, TenantId};
use crate::error::{Error, Result};

/// Contexts a thread may have pushed: nesting deeper than this is a leak.
const CONTEXT_STACK_MAX: usize = 4096;

#[derive(Default)]
struct ThreadState {
    contexts: RefCell<Vec<Arc<Context>>>,
    tenant: RefCell<Option<Arc<Tenant>>>,
    defaults: RefCell<Vec<DefaultStream>>,
}

/// A default stream that this thread has used.
#[derive(Clone, Copy)]
struct DefaultStream {
    context: u64,
    tenant: TenantId,
    per_thread: bool,
    key: Key<Stream>,
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        let Ok(driver) = super::driver() else { return };
        for default in self.defaults.get_mut().iter().filter(|d| d.per_thread) {
            let _ = driver.device.destroy_stream(default.key);
        }
    }
}

static STATE: PerThread<ThreadState> = PerThread::new();

fn with<R>(f: impl FnOnce(&ThreadState) -> R) -> Result<R> {
    STATE.with(f).ok_or(Error::OUT_OF_MEMORY)
}

/// The current context, which must be alive.
pub(crate) fn current() -> Result<Arc<Context>> {
    let context = top()?.ok_or(Error::INVALID_CONTEXT)?;
    context.require_active()?;
    Ok(context)
}

/// The current context, alive or not.
pub(crate) fn top() -> Result<Option<Arc<Context>>> {
    with(|s| s.contexts.borrow().last().cloned())
}

pub(crate) fn push(context: Arc<Context>) -> Result {
    with(|s| {
        let mut contexts = s.contexts.borrow_mut();
        if contexts.len() >= CONTEXT_STACK_MAX {
            return Err(Error::OUT_OF_MEMORY);
        }
        contexts.push(context);
        Ok(())
    })?
}

pub(crate) fn pop() -> Result<Arc<Context>> {
    with(|s| s.contexts.borrow_mut().pop())?.ok_or(Error::INVALID_CONTEXT)
}

/// Replaces the current context; `None` takes it away.
pub(crate) fn set_current(context: Option<Arc<Context>>) -> Result {
    with(|s| {
        let mut contexts = s.contexts.borrow_mut();
        contexts.pop();
        contexts.extend(context);
    })
}

/// Binds this thread to a tenant.
pub(crate) fn bind(tenant: Option<Arc<Tenant>>) -> Result {
    with(|s| *s.tenant.borrow_mut() = tenant)
}

impl Driver {
    /// The tenant that this thread is bound to; the streams that it uses are that tenant's.
    pub(crate) fn tenant(&self) -> Arc<Tenant> {
        with(|s| s.tenant.borrow().clone()).ok().flatten().unwrap_or_else(|| {
            let device = top().ok().flatten().map_or(0, |context| context.device);
            self.device.default_tenant_on(device).clone()
        })
    }

    /// The tenant of this thread on a device if it may go on working.
    pub(crate) fn working_tenant_on(&self, device: u32) -> Result<Arc<Tenant>> {
        let mut tenant = self.tenant();
        if self.device.is_default(&tenant) {
            tenant = self.device.default_tenant_on(device).clone();
        }
        tenant.alive()?;
        Ok(tenant)
    }

    /// The tenant of this thread if it may go on working.
    pub(crate) fn working_tenant(&self) -> Result<Arc<Tenant>> {
        let tenant = self.tenant();
        tenant.alive()?;
        Ok(tenant)
    }

    /// The stream that a handle stands for in this thread; `per_thread` says what 0 means.
    pub(crate) fn stream(&self, handle: CUstream, per_thread: bool) -> Result<Key<Stream>> {
        match handle {
            CUstream::NULL => self.default_stream(per_thread),
            CU_STREAM_LEGACY => self.default_stream(false),
            CU_STREAM_PER_THREAD => self.default_stream(true),
            // Its handle says which context's it is: none need be current.
            _ => Ok(self.streams.get(handle.0)?.key),
        }
    }

    fn default_stream(&self, per_thread: bool) -> Result<Key<Stream>> {
        let context = current()?;
        if let Some(green) = &context.green {
            // A green context has no default stream a thread.
            return if per_thread { Err(Error::INVALID_HANDLE) } else { Ok(green.default_stream) };
        }
        let tenant = self.tenant();
        let known = with(|s| {
            let defaults = s.defaults.borrow();
            defaults
                .iter()
                .find(|d| {
                    d.context == context.number()
                        && d.tenant == tenant.id
                        && d.per_thread == per_thread
                })
                .map(|d| d.key)
        })?;
        if let Some(key) = known {
            return Ok(key);
        }
        let group = self.device.group(context.number(), &tenant)?;
        let key = if per_thread {
            self.device.create_stream(group, &tenant, StreamSpec::default())?
        } else {
            self.device.legacy_stream(group, &tenant)?
        };
        let default =
            DefaultStream { context: context.number(), tenant: tenant.id, per_thread, key };
        with(|s| s.defaults.borrow_mut().push(default))?;
        Ok(key)
    }
}
