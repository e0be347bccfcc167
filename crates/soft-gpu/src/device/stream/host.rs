//! Host functions: functions of the program in stream order, on a thread of their own, one a
//! tenant, so that a function that blocks holds up no other tenant.
//!
//! A function is *in progress* from when its stream comes to it until its call has returned and its
//! stream learnt so ([`UnderWay`]). What a function was given is its program's to free only then:
//! the end of a tenant waits for it.

use locks::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use crate::device::Device;
use crate::device::slab::Key;
use crate::device::stream::Stream;
use crate::device::tenant::{Tenant, TenantId};
use crate::error::{Error, Result};

/// A function to call in stream order.
pub struct HostCall {
    /// Gets the tenant's error, if it has one by then.
    pub call: Box<dyn FnOnce(Result) + Send>,
    /// Call it even if the stream's work was dropped (cuStreamAddCallback promises that).
    pub always: bool,
}

/// Number of a tenant's functions that are in progress.
#[derive(Default)]
pub(in crate::device) struct HostCalls {
    under_way: Mutex<u64>,
    none: Condvar,
}

impl HostCalls {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.under_way.lock()
    }

    /// Waits until none is in progress.
    fn wait_for_none(&self) {
        let waited = self.none.wait_while(self.lock(), |under_way| *under_way > 0);
        drop(waited);
    }
}

/// A function of a tenant that is in progress, for as long as this lives.
pub(in crate::device) struct UnderWay(Arc<Tenant>);

impl UnderWay {
    pub(in crate::device) fn new(tenant: Arc<Tenant>) -> Self {
        *tenant.host_calls.lock() += 1;
        Self(tenant)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut under_way = self.0.host_calls.lock();
        *under_way -= 1;
        if *under_way == 0 {
            self.0.host_calls.none.notify_all();
        }
    }
}

/// What a host thread is sent: a function, and the stream of which it is the head.
pub(in crate::device) struct HostWork {
    pub(in crate::device) under_way: UnderWay,
    pub(in crate::device) stream: Option<Key<Stream>>,
    pub(in crate::device) call: HostCall,
}

pub(in crate::device) type HostSender = Sender<HostWork>;

impl Device {
    /// Gives a function to the tenant's host thread, which completes the head of its stream after.
    pub(in crate::device) fn hand_to_host(&self, work: HostWork) {
        let tenant = work.under_way.0.clone();
        let unsent = {
            let mut senders = self.host_threads.lock();
            let sender = senders.entry(tenant.id).or_insert_with(|| self.start_host_thread());
            // There is no receiver if the thread could not be started: the next one may be.
            let unsent = sender.send(work).err();
            if unsent.is_some() {
                senders.remove(&tenant.id);
            }
            unsent
        };
        if let Some(unsent) = unsent {
            let HostWork { under_way: _under_way, stream, call } = unsent.0;
            let text = "no thread can be started for functions of the program".to_owned();
            let mut core = self.lock();
            core.poison(&tenant, Error::OPERATING_SYSTEM, text);
            if let Some(stream) = stream {
                core.complete_head(stream);
            }
            drop(core);
            drop(call);
        }
    }

    fn start_host_thread(&self) -> HostSender {
        let (sender, calls) = channel::<HostWork>();
        self.spawn("openmps-host", move |device| {
            for HostWork { under_way, stream, call: HostCall { call, always } } in calls {
                let tenant = &under_way.0;
                let state = tenant.sticky();
                if always || tenant.alive().is_ok() {
                    // A panic that comes out of the program's function is its end only.
                    let call = std::panic::AssertUnwindSafe(|| call(state));
                    let _ = std::panic::catch_unwind(call);
                }
                if let Some(stream) = stream {
                    device.lock().complete_head(stream);
                }
                drop(under_way);
            }
        });
        sender
    }

    /// Waits until no function of a tenant that has ended is in progress, and ends the thread that
    /// called them. Nothing may be left in the tenant's streams.
    pub(in crate::device) fn end_host_calls(&self, tenant: &Tenant) {
        tenant.host_calls.wait_for_none();
        self.end_host_thread(tenant.id);
    }

    fn end_host_thread(&self, tenant: TenantId) {
        self.host_threads.lock().remove(&tenant);
    }
}
