//! The end of a session: nothing of the client stays behind.

use super::stream::pending::Pending;
use super::stream::submission::Submission;
use super::{End, Session, Stage};
use channel::region::ServerState;
use cuda_api::CudaError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a session waits for work of a client that is gone before it says so in the log.
/// Where the provider can end work, it does not wait at all.
const DRAIN_PERIOD: Duration = Duration::from_secs(10);

/// How long work may go on of a client that was terminated, and of one that is gone, before the
/// server is replaced to end it, where nothing else can.
const TERMINATED_PATIENCE: Duration = Duration::from_millis(50);
const GONE_PATIENCE: Duration = Duration::from_secs(2);

/// How long a session that has ended waits for an idle context before it destroys what makes others
/// wait, how often it looks, and how many sessions do so at a time.
const LINGER_MAX: Duration = Duration::from_secs(30);
const LINGER_PAUSE: Duration = Duration::from_millis(2);
const LINGERING_MAX: u32 = 16;

/// First pause between two looks at work that is waited for; the longest is [`LINGER_PAUSE`].
const PAUSE_MIN: Duration = Duration::from_micros(20);

impl Session {
    /// Ends the client's work and takes away everything that it had.
    pub(super) fn end(mut self) {
        let Submission { link, common, region, .. } = &self.submission;
        let (link, common, region) = (link.clone(), common.clone(), region.clone());
        link.set_ends();
        let mut reason = link.ending().unwrap_or(End::Broken);
        if reason == End::HandedOver && !self.submission.awaits_attribution() {
            let finished = self.finish_work();
            if let (false, Some(fault)) = (finished, common.fault()) {
                // Whose it was is found out first: it may have been this client.
                self.submission.record_evidence_at_end(fault);
                while link.ending() == Some(End::HandedOver) {
                    std::thread::sleep(LINGER_PAUSE);
                }
            }
            reason = link.ending().unwrap_or(reason).after_wait(finished);
        }
        let name = link.name();
        for line in self.spent.iter().flat_map(|spent| spent.lines()) {
            common.log.line(format!("Client {name}: {line}"));
        }
        if let Some(summary) = self.batcher.summary() {
            common.log.line(format!("Client {name}: {summary}"));
        }
        if reason == End::Terminated {
            common.log.line(format!("MPS server requesting client {name} to exit"));
        }
        if let (End::Faulting, Some(fault)) = (reason, common.fault()) {
            region.set_sticky_error(fault);
        }
        if let Some(fault) = common.fault().filter(|_| link.is_likely()) {
            region.set_likely_fault(fault);
        }
        match reason.notice() {
            Some(reason) => region.end_session(reason),
            None => region.set_server_state(ServerState::Ended),
        }
        self.submission.wake_waiters();
        if self.submission.awaits_attribution() {
            // The process ends, and takes with it what the context had.
            std::mem::forget(self);
            return;
        }
        let stopped = self.submission.share.end_work() || self.drain();
        self.release(stopped);
        if reason == End::Terminated {
            common.log.line("Client termination succeeded.");
        }
    }

    /// Waits until all that was taken from the ring is done, for a client that goes on elsewhere with
    /// what it left there; false if it will not be done. Host functions are run by the client meanwhile.
    fn finish_work(&mut self) -> bool {
        let mut pause = PAUSE_MIN;
        let carried_out = self.carry_out_pending(|pending| !pending.is_empty());
        self.submission.share.in_flight().end_submitting();
        if carried_out.is_err() {
            return false;
        }
        loop {
            match self.submission.poll() {
                Ok(false) => return self.submission.common.fault().is_none(),
                Ok(true) => {}
                Err(_) => return false,
            }
            if self.submission.link.ending() != Some(End::HandedOver)
                || self.submission.common.fault().is_some()
            {
                return false;
            }
            self.submission.watch();
            // How many kernels are left says whether it makes progress, beside another one's that do not end.
            if self.submission.make_room().is_err() {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LINGER_PAUSE);
        }
    }

    /// Waits for the client's work; false if a fault has ended it. Without tenants a kernel can
    /// only be waited for, however long it takes: its memory must not go before.
    fn drain(&mut self) -> bool {
        let mut said = false;
        let patience = match self.submission.link.ending() {
            Some(End::Terminated) => TERMINATED_PATIENCE,
            _ => GONE_PATIENCE,
        };
        match self.wait_gone(patience) {
            Ok(true) => return true,
            Ok(false) => {
                // Only the end of this process ends it: the others go on at the next server.
                self.submission.link.set_stuck();
                self.submission.common.wake_main();
            }
            Err(error) => {
                self.submission.record_evidence_at_end(error);
                return false;
            }
        }
        loop {
            match self.wait_gone(DRAIN_PERIOD) {
                Ok(true) => return true,
                Ok(false) if !said => {
                    said = true;
                    let name = self.submission.link.name();
                    let text = format!("Client {name} is gone, its work goes on: waiting for it");
                    self.submission.common.log.line(text);
                }
                Ok(false) => {}
                Err(error) => {
                    self.submission.record_evidence_at_end(error);
                    return false;
                }
            }
        }
    }

    /// Waits for work of a client that is gone: its host functions count as run, and nothing but
    /// `limit` ends the wait early. True if all is done.
    fn wait_gone(&mut self, limit: Duration) -> Result<bool, CudaError> {
        let start = Instant::now();
        let mut pause = PAUSE_MIN;
        loop {
            self.callbacks.release_all();
            if !self.submission.streams.poll(|_| {})? {
                return Ok(true);
            }
            if start.elapsed() >= limit {
                return Ok(false);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LINGER_PAUSE);
        }
    }

    /// Destroys what the client has; `clean` if all of it must go without an error.
    fn release(mut self, clean: bool) {
        let Submission { share, common, link, .. } = &self.submission;
        let (share, common, link) = (share.clone(), common.clone(), link.clone());
        self.callbacks.release_all();
        self.submission.printing.end();
        if let Some(usage) = share.tenant().and_then(|tenant| share.device().usage_of(tenant)) {
            let _ = link.last_usage.set(usage);
        }
        self.clear_at_once();
        if clean && !share.is_tenant() {
            // From here on the client is gone for all others.
            self.callbacks.close();
            link.set_stage(Stage::Inactive);
            common.wake_main();
            self.linger();
        }
        self.clear_rest();
        let lease = self.lease.take();
        // What is left of the session gives back its windows, the region and its own stream.
        drop(self);
        let left = share.leftovers();
        if !left.is_empty() {
            common.log.line(format!("Client {} left behind: {left}", link.name()));
            debug_assert!(!clean || share.has_abandoned(), "a session left behind: {left}");
        }
        if left.reservations > 0 {
            // Its addresses are still taken at the provider: no other client can have the window.
            std::mem::forget(lease);
        }
    }

    /// Waits until nothing is in flight in the context: what is left to destroy makes all clients
    /// wait. Ends early if the context stays busy, the server ends, many sessions linger, or a client waits
    /// for windows that a session that ends may have.
    fn linger(&self) {
        let lingering = &self.submission.common.lingering;
        let others = lingering.fetch_add(1, Ordering::Relaxed);
        let start = Instant::now();
        let sync = self.submission.share.device().sync();
        while !sync.is_idle()
            && others < LINGERING_MAX
            && start.elapsed() < LINGER_MAX
            && !self.submission.common.is_ending()
            && !self.submission.common.windows.are_waited_for()
        {
            std::thread::sleep(LINGER_PAUSE);
        }
        lingering.fetch_sub(1, Ordering::Relaxed);
    }

    /// Destroys all objects of the client. Its work must have ended.
    pub(super) fn clear(&mut self) {
        self.clear_at_once();
        self.clear_rest();
    }

    /// Destroys what waits for nothing.
    fn clear_at_once(&mut self) {
        // The last of its work is reported too.
        let _ = self.submission.meter.read();
        self.submission.follow_trace();
        self.pending = Pending::default();
        self.graphs.clear();
        self.batcher.clear();
        self.submission.common.shared.forget_client(self.submission.link.identity.id);
        self.events.clear();
        self.submission.streams.clear();
        self.submission.work.clear();
        self.submission.meter.clear();
        self.memory.clear_device();
        self.submission.modules.clear_shared();
    }

    /// Destroys what waits for the context.
    fn clear_rest(&mut self) {
        self.arrays.clear();
        self.memory.retired.clear();
        self.submission.modules.clear();
        self.memory.clear_host();
        let device = self.submission.share.device();
        device.unload_unused(device.code_cache().unused_bytes_max());
    }
}
