//! Errors: what is reported to a client, and faults.
//!
//! An error of a post is noted in the region, the first one until the client has reported it. A
//! fault is an error after which a context is of no use: where the provider has tenants it is
//! this client's alone. Where it has none, as on hardware, the server is lost: each session says what
//! of its client was in flight, the main thread decides whose the fault was (`run/attribution.rs`), and all
//! others go on at another server.

use super::stream::code_in_flight::Code;
use super::stream::submission::Submission;
use super::{End, FaultEvidence, FaultPart};
use cuda_api::{CUresult, CudaError};
use recovery::Evidence as InFlightEvidence;
use std::time::Duration;

/// Pause between two looks whether a fault is attributed.
const ATTRIBUTION_PAUSE: Duration = Duration::from_micros(20);

impl Submission {
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

    /// Tells the client the result of a request without a reply.
    pub(super) fn posted(&mut self, result: CUresult) {
        if let Err(error) = result {
            let error = self.note(error);
            if self.sticky.is_none() {
                self.region.note_async_error(error);
            }
        }
    }

    /// False if the client gets the answer of a call that failed like this from another server.
    pub(super) fn answers(&self, error: CudaError) -> bool {
        let is_given_up =
            error == CudaError::MPS_CLIENT_TERMINATED && self.link.makes_call_elsewhere();
        !self.awaits_attribution() && !is_given_up
    }

    /// From now on every request of this client is answered with the fault.
    pub(super) fn fault(&mut self, error: CudaError) {
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
    pub(super) fn begin_attribution(&mut self, error: CudaError) {
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
            None => FaultEvidence {
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
                FaultEvidence { part: InFlightEvidence::Kernels { launched_before }, text }
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
            std::thread::sleep(ATTRIBUTION_PAUSE);
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
