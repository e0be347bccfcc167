//! Functions of the program in stream order, on a thread of their own: one a tenant, so that a
//! function that blocks holds up nobody else.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError, Weak};

use super::Device;
use super::slab::Key;
use super::stream::Stream;
use super::tenant::{Tenant, TenantId};
use crate::error::Result;

/// A function to call in stream order.
pub struct HostCall {
    /// Gets the tenant's error, if it has one by then.
    pub call: Box<dyn FnOnce(Result) + Send>,
    /// Call it even if the stream's work was dropped (cuStreamAddCallback promises that).
    pub always: bool,
}

pub(super) type HostSender = Sender<(Option<Key<Stream>>, HostCall)>;

impl Device {
    /// Hands a function to the tenant's host thread, which completes the head of `stream` after.
    pub(super) fn hand_to_host(
        &self,
        tenant: &Arc<Tenant>,
        stream: Option<Key<Stream>>,
        call: HostCall,
    ) {
        let mut senders = self.host_threads.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = senders.entry(tenant.id).or_insert_with(|| self.start_host_thread(tenant));
        // The receiver ends only when this map lets its sender go.
        let _ = sender.send((stream, call));
    }

    fn start_host_thread(&self, tenant: &Arc<Tenant>) -> HostSender {
        let (sender, calls) = channel::<(Option<Key<Stream>>, HostCall)>();
        let (device, tenant) = (self.myself.clone(), tenant.clone());
        let run = move || {
            for (stream, call) in calls {
                let state = tenant.sticky();
                if state.is_ok() || call.always {
                    // A panic of ours cannot come out of a C function, but a Rust test's can.
                    let call = std::panic::AssertUnwindSafe(|| (call.call)(state));
                    let _ = std::panic::catch_unwind(call);
                }
                let Some(device) = Weak::upgrade(&device) else { return };
                if let Some(stream) = stream {
                    device.lock().complete_head(stream);
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("openmps-host".into()).spawn(run) {
            self.log(&format!("cannot start a thread for host functions: {error}"));
        }
        sender
    }

    /// Ends the host thread of a tenant once it has nothing more to call.
    pub(super) fn end_host_thread(&self, tenant: TenantId) {
        self.host_threads.lock().unwrap_or_else(PoisonError::into_inner).remove(&tenant);
    }
}
