//! Fault attribution in the server: collects evidence of sessions, and reports the outcome to clients.
//!
//! Whose it was is decided in crate `recovery`. Of several that may have caused it the daemon is notified:
//! each gets a server of its own.
//!
//! Nothing runs in the context any more when it is reported to the first client, so none of them repeats work
//! beside its own first attempt. For the same reason the process may stay for a while then: taking down
//! its context would hold up what the clients restore at the next server.

use super::Server;
use super::clients::Clients;
use crate::session::{End, FaultPart, Stage};
use crate::window::device_window_of;
use channel::message::Message;
use cuda_api::CudaError;
use recovery::{Candidate, Part};
use std::time::Instant;

impl Server {
    /// Goes on with what a fault calls for, as far as the sessions have spoken.
    pub(super) fn try_fault(&mut self) {
        let Some(fault) = self.common.fault() else { return };
        let now = Instant::now();
        if self.attribution.open(now) {
            // The daemon first, so that the next server starts meanwhile.
            self.notify(&Message::Fault(fault.to_string()));
            self.common.warm.give_up_held();
            self.common.device.settle_after_fault();
            self.clients.ring_all();
        }
        let parts = self.attribution.attribute(&self.clients.candidates(), now);
        // What is stuck without a fault may still write to memory: its end is not put off. A daemon that is
        // gone says nothing.
        if self.may_leave || self.daemon_gone || !self.clients.stuck().is_empty() {
            self.attribution.may_end();
        }
        let Some(parts) = parts else { return };
        for (pid, part) in self.clients.pids().into_iter().zip(&parts) {
            if part.is_alone() {
                self.notify(&Message::Candidate(pid));
            }
        }
        self.clients.pass_attribution(&parts);
        // Only now: it may take some milliseconds, and no client needs it.
        let report = self.common.fault_report();
        self.clients.log(format!("The device's fault, {fault}: {}", report.text));
        if let Some(address) = report.address {
            let owner =
                self.clients.links().find(|link| window_holds(link.identity.window, address));
            let whose = owner
                .map_or("of no client".to_owned(), |link| format!("of client {}", link.name()));
            self.clients.log(format!("The fault's address is {address:#x}, {whose}"));
        }
        self.clients.note_parts(&parts, fault, &report.text);
    }
}

/// True if an address lies in the device window with that number.
fn window_holds(number: u32, address: u64) -> bool {
    device_window_of(address) == Some(number)
}

impl Clients {
    /// All clients, as attribution sees them.
    fn candidates(&self) -> Vec<Candidate> {
        let candidates = self.links().map(|link| Candidate {
            active: link.stage() == Stage::Active,
            evidence: link.evidence().map(|evidence| evidence.part),
        });
        candidates.collect()
    }

    /// The processes of all, in the same order.
    fn pids(&self) -> Vec<u32> {
        self.links().map(|link| link.identity.pid).collect()
    }

    /// Notes for the daemon who caused the fault, or may have.
    fn note_parts(&self, parts: &[Part], error: CudaError, said: &str) {
        for (link, part) in self.links().zip(parts) {
            if *part != Part::Faulting && !part.is_alone() {
                continue;
            }
            let in_flight =
                link.evidence().map_or("its session did not say", |evidence| &evidence.text);
            let why = format!("{in_flight}; the device: {said}");
            link.set_fault(FaultPart { is_faulting: *part == Part::Faulting, error, why });
        }
    }

    /// Tells every client what becomes of it.
    fn pass_attribution(&self, parts: &[Part]) {
        for (link, part) in self.links().zip(parts) {
            let verdict = match part {
                Part::Faulting => "it gets the error",
                Part::Candidate => "goes on at a server of its own: others may have been it too",
                Part::Likeliest => {
                    "goes on at a server of its own, and gets the error if its work cannot be repeated there"
                }
                Part::Unlikely => {
                    "goes on at another server: others are far more likely to have been it"
                }
                Part::Unaffected => "goes on at another server",
            };
            let why = link.evidence().map_or("its session did not say", |evidence| &evidence.text);
            self.log(format!("Client {}: {why}; {verdict}", link.name()));
            if *part == Part::Likeliest {
                link.set_likely();
            }
            link.end(if *part == Part::Faulting { End::Faulting } else { End::Moved });
        }
    }
}
