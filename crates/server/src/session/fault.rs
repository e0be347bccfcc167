//! Errors: what is reported to a client, and faults.
//!
//! An error of a post is noted in the region, the first one until the client has reported it. A
//! fault is an error after which a context is of no use: where the provider has tenants it is
//! this client's alone. Where it has none, as on hardware, the server is lost: each session says what
//! of its client was in flight, the main thread decides whose the fault was (`run/attribution.rs`), and all
//! others go on at another server.

use super::policy::placement::report_unkept;
use super::stream::code_in_flight::Code;
use super::stream::watchdog;
use super::{End, Evidence, FaultPart, Session};
use channel::message::TraceClient;
use cuda_api::settings::Counting;
use cuda_api::{CUresult, CudaError};
use recovery::Evidence as InFlightEvidence;
use scheduling::Class;
use std::time::{Duration, Instant};

/// First and longest pause between two looks at work that a session waits for.
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(2);
/// Pause of a session that is held: others are too, and what they wait for is short.
const HELD_PAUSE: Duration = Duration::from_micros(50);

impl Session {
    /// Looks at work that is in flight: what is done, and whether it went wrong.
    pub(super) fn look(&mut self) {
        if self.sticky.is_some() {
            return;
        }
        self.heed_limits();
        self.heed_counters();
        let work = &mut self.work;
        let polled = self.streams.poll(|slot| work.stream_idle(slot));
        let polled = polled.and_then(|_| self.meter.read());
        for (times, submitted_ns) in self.meter.take_followed() {
            self.link.scheduling.sampled(times, submitted_ns);
        }
        if !self.streams.may_be_busy() {
            self.work.close();
        } else if self.share.device().sync().is_pending() {
            self.work.see_progress(&mut self.streams);
        }
        self.follow_trace();
        if let Err(error) = polled {
            self.note(error);
        } else if let Err(error) = self.share.tenant_error() {
            self.fault(error);
        } else if let Some(error) = self.common.fault() {
            self.begin_attribution(error);
        } else {
            self.watch();
        }
    }

    /// Counts and times what the operator wants now.
    fn heed_counters(&mut self) {
        let counting = self.common.counters.counting();
        if counting == Counting::Off {
            self.link.counters.uncounted.set(1);
        }
        // A request whose answer is waited for is not held up for the sake of a time.
        self.meter.set(counting, self.link.scheduling.class() != Class::Latency);
        let time = self.share.submission_time();
        time.set(counting != Counting::Off && !self.share.is_tenant());
        let (calls, together_ns) = time.totals();
        self.link.counters.submissions.set(calls);
        self.link.counters.submitting_ns.set(together_ns);
        if counting == Counting::Cupti {
            let Self { common, link, streams, .. } = self;
            streams.busy_slots(|slot| common.counters.introduce(&slot.stream, &link.counters));
        }
    }

    /// Records the client's work if a reader of the trace asks for it.
    pub(super) fn follow_trace(&mut self) {
        let identity = &self.link.identity;
        if self.meter.follow(&self.common.trace, || self.streams.numbers(), identity.id) {
            self.common.trace.introduce(TraceClient {
                client: identity.id,
                pid: identity.pid,
                command_line: identity.command.clone(),
            });
        }
    }

    /// Takes note of an error of a request. Returns what is to be reported to the client: of a fault
    /// instead, if there was one behind it.
    pub(super) fn note(&mut self, error: CudaError) -> CudaError {
        // What was given up because the client ends is reported as its end.
        if error == CudaError::MPS_CLIENT_TERMINATED
            && let Err(end) = self.check_end()
        {
            return end;
        }
        let fault = if self.share.is_tenant() {
            self.share.tenant_error().err()
        } else {
            is_fault(error).then_some(error)
        };
        match fault {
            None => error,
            Some(fault) if self.share.is_tenant() => {
                self.fault(fault);
                fault
            }
            Some(fault) => {
                self.common.set_fault(fault);
                self.begin_attribution(fault);
                fault
            }
        }
    }

    /// From now on every request of this client is answered with the fault.
    fn fault(&mut self, error: CudaError) {
        if self.sticky.replace(error).is_some() {
            return;
        }
        self.region.set_sticky_error(error);
        let name = self.link.name();
        let text = self.share.tenant_fault();
        let separator = if text.is_empty() { "" } else { ": " };
        self.common.log.line(format!("Client {name} has a sticky error, {error}{separator}{text}"));
        self.link.set_fault(FaultPart { is_faulting: true, error, why: text });
        self.common.wake_main();
        self.wake_waiters();
    }

    /// The shared context is corrupted: says what of this client was in flight. From now on nothing
    /// is taken from the ring and nothing is answered; the main thread, which hears all sessions,
    /// says which client gets the error and which go on elsewhere.
    fn begin_attribution(&mut self, error: CudaError) {
        if self.sticky.replace(error).is_some() {
            return;
        }
        self.record_evidence();
    }

    /// An error has ended the work of a client whose session is about to end: if that is a fault of the
    /// shared context, it may have caused it like others.
    pub(super) fn record_evidence_at_end(&mut self, error: CudaError) {
        if !self.share.is_tenant() && is_fault(error) {
            self.common.set_fault(error);
            self.record_evidence();
        }
    }

    fn record_evidence(&mut self) {
        let (codes, least) = self.streams.code_in_flight();
        let evidence = match least {
            None => Evidence {
                part: InFlightEvidence::Nothing,
                text: "none of its kernels was in flight".into(),
            },
            Some(launched_before) => {
                let names = codes.into_iter().filter_map(|code| match code {
                    Code::Kernel(word) => Some(self.modules.name(word)?.to_string_lossy()),
                    Code::Graph(kernels) => Some(format!("a graph of {kernels} kernels").into()),
                });
                let names: Vec<_> = names.collect();
                let names = names.join(", ");
                let text = format!(
                    "in flight were its kernels {names}, the rarest launched {launched_before} times before"
                );
                Evidence { part: InFlightEvidence::Kernels { launched_before }, text }
            }
        };
        self.link.record_evidence(evidence);
        self.common.wake_main();
    }

    /// True if the shared context is corrupted and it is not said yet by whom, or is.
    pub(super) fn awaits_attribution(&self) -> bool {
        self.sticky.is_some() && self.link.evidence().is_some()
    }

    /// Waits until the main thread has said whose the fault was.
    pub(super) fn await_attribution(&self) {
        while self.link.ending().is_none() {
            std::thread::sleep(PAUSE_MIN);
        }
    }

    /// Wakes the threads that wait for work that will not be done any more.
    pub(super) fn wake_waiters(&self) {
        for slot in self.streams.busy_indices() {
            if let Some(word) = self.region.completion_word(slot) {
                channel::wait::wake(word);
            }
        }
        let signal = self.region.host_call_signal();
        signal.fetch_add(1);
        channel::wait::wake(signal);
    }

    /// An error if the session is to end.
    pub(super) fn check_end(&self) -> CUresult {
        // A client that is handed over is served to the end of what was taken from its ring.
        let Some(end) = self.link.ending().filter(|end| *end != End::HandedOver) else {
            return match self.awaits_attribution() {
                true => Err(CudaError::MPS_RPC_FAILURE),
                false => Ok(()),
            };
        };
        // Before the reply: the client knows then that it is the last one.
        if let Some(reason) = end.notice() {
            self.region.set_session_end(reason);
        }
        Err(end.error())
    }

    /// Waits until `done` says true, with short pauses in between. Ends with an error as soon as
    /// the session is to end.
    pub(super) fn wait_until(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Result<bool, CudaError>,
    ) -> CUresult {
        if done(self)? {
            return Ok(());
        }
        // Others' calls that wait for the context do not wait for this.
        self.share.in_flight().end_submitting();
        let waited = self.wait_with_pauses(done);
        let may_submit = self.begin_submitting();
        waited?;
        if may_submit { Ok(()) } else { self.check_end() }
    }

    fn wait_with_pauses(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Result<bool, CudaError>,
    ) -> CUresult {
        let mut pause = PAUSE_MIN;
        loop {
            self.check_end()?;
            // A thread may wait for a fence that is kept back, and this session for what that
            // thread does then.
            self.look();
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            if done(self)? {
                return Ok(());
            }
        }
    }

    /// Waits while nothing may be submitted: another session makes a call that waits for the context. False if
    /// the session is to end before: it has nothing to submit then.
    #[inline]
    pub(super) fn begin_submitting(&mut self) -> bool {
        self.share.device().sync().may_submit(self.share.in_flight()) || self.wait_while_held()
    }

    #[cold]
    fn wait_while_held(&mut self) -> bool {
        let device = self.share.device().clone();
        let sync = device.sync();
        let _waits = sync.begin_waiting();
        // One that is handed over carries out what it has taken.
        while self.link.ending().is_none_or(|end| end == End::HandedOver) {
            if sync.may_submit(self.share.in_flight()) {
                return true;
            }
            // The driver would let this thread in when the call is over.
            if !sync.is_making() {
                self.look();
            }
            sync.wait_while_held(HELD_PAUSE);
        }
        false
    }

    /// Waits until all of the client's work is done.
    pub(super) fn wait_idle(&mut self) -> CUresult {
        self.carry_out_pending(|pending| !pending.is_empty())?;
        self.wait_until(|session| {
            let work = &mut session.work;
            Ok(!session.streams.poll(|slot| work.stream_idle(slot))?)
        })
    }

    /// As [`Session::wait_idle`], for a client that is gone: its host functions count as run,
    /// and nothing but `limit` ends the wait early. True if all is done.
    pub(super) fn wait_gone(&mut self, limit: Duration) -> Result<bool, CudaError> {
        let start = Instant::now();
        let mut pause = PAUSE_MIN;
        loop {
            self.callbacks.release_all();
            if !self.streams.poll(|_| {})? {
                return Ok(true);
            }
            if start.elapsed() >= limit {
                return Ok(false);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Goes on with the terms that were set since it last looked.
    fn heed_limits(&mut self) {
        let version = self.link.limits.version();
        if version == self.limits_version {
            return;
        }
        self.limits_version = version;
        self.batcher.forget();
        if self.share.is_tenant() {
            return;
        }
        let set = self.streams.set_terms(self.link.limits.terms());
        let unkept = set.err().or(self.streams.unkept());
        report_unkept(&self.link, &self.common, unkept);
    }

    /// Looks whether the client's work makes progress.
    pub(super) fn watch(&mut self) {
        let watched = watchdog::watch(&mut self.streams, &self.share, &self.link, &self.common);
        if let Err(error) = watched {
            self.note(error);
        }
    }
}

/// True for errors that corrupt a context: the sticky ones, without those that are our own.
pub(super) fn is_fault(error: CudaError) -> bool {
    let own = [CudaError::MPS_RPC_FAILURE, CudaError::MPS_CLIENT_TERMINATED];
    error.is_sticky() && !own.contains(&error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_errors_are_no_faults_of_the_device() {
        assert!(is_fault(CudaError::ILLEGAL_ADDRESS));
        assert!(is_fault(CudaError::LAUNCH_FAILED));
        for error in [
            CudaError::MPS_CLIENT_TERMINATED,
            CudaError::MPS_RPC_FAILURE,
            CudaError::INVALID_VALUE,
            CudaError::OUT_OF_MEMORY,
        ] {
            assert!(!is_fault(error), "{error}");
        }
    }
}
