//! The end of a session: nothing of the client stays behind.

use super::{End, Session};
use channel::region::ServerState;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a session waits for work of a client that is gone before it says so in the log.
/// Where the provider can end work, it does not wait at all.
const DRAIN_PERIOD: Duration = Duration::from_secs(10);

impl Session {
    /// Ends the client's work and takes away everything that it had.
    pub(super) fn end(mut self) {
        self.link.set_ends();
        let reason = self.link.ending().unwrap_or(End::Broken);
        let name = self.link.name();
        if reason == End::Terminated {
            self.common.log.line(format!("MPS server requesting client {name} to exit"));
        }
        match reason.told() {
            Some(told) => self.region.end_session(told),
            None => self.region.set_server_state(ServerState::Ended),
        }
        self.wake_waiters();
        let stopped = self.share.end_work() || self.drain();
        let log = self.common.log.clone();
        self.release(stopped);
        if reason == End::Terminated {
            log.line("Client termination succeeded.");
        }
    }

    /// Waits for the client's work; false if a fault has ended it. Without tenants a kernel can
    /// only be waited for, however long it takes: its memory must not go before.
    fn drain(&mut self) -> bool {
        let mut said = false;
        loop {
            match self.wait_gone(DRAIN_PERIOD) {
                Ok(true) => return true,
                Ok(false) if !said => {
                    said = true;
                    let name = self.link.name();
                    let text = format!("Client {name} is gone, its work goes on: waiting for it");
                    self.common.log.line(text);
                }
                Ok(false) => {}
                Err(_) => return false,
            }
        }
    }

    /// Destroys what the client has; `clean` if all of it must go without an error.
    fn release(mut self, clean: bool) {
        self.callbacks.release_all();
        self.end_printing();
        self.clear();
        let (share, common, link) = (self.share.clone(), self.common.clone(), self.link.clone());
        let lease = self.lease.take();
        // What is left of the session gives back its windows, the region and its own stream.
        drop(self);
        let left = share.leftovers();
        if !left.is_empty() {
            common.log.line(format!("Client {} left behind: {left}", link.name()));
            debug_assert!(!clean, "a session left behind: {left}");
        }
        if left.reservations > 0 {
            // Its addresses are still taken at the provider: nobody else can have the window.
            std::mem::forget(lease);
        }
    }

    /// Destroys all objects of the client. Its work must have ended.
    pub(super) fn clear(&mut self) {
        self.graphs.clear();
        self.arrays.clear();
        self.common.shared.forget_client(self.link.identity.id);
        self.events.clear();
        self.streams.clear();
        self.gate.clear();
        self.modules.clear();
        self.memory.clear();
        self.link.memory_bytes.store(0, Ordering::Relaxed);
    }
}
