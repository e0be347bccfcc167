//! Stalled clients: whose work makes no progress within the watchdog's limit, and what becomes of it.
//!
//! A stream says for how long it has made no progress, and not why: a kernel that keeps the device to itself stalls
//! the streams of all clients. If one client alone has kernels that make no progress it is ended, with an error.
//! Of several the likely ones go on at servers of their own, as after a fault (crate `recovery`, `attribution.rs`),
//! and the one whose work stalls again is alone then.

use super::Server;
use super::clients::Clients;
use crate::session::{End, FaultPart, SessionLink, Stage, watchdog_limit};
use channel::message::Message;
use cuda_api::CudaError;
use recovery::{Candidate, Evidence, Part, attribute};
use std::time::{Duration, Instant};

/// How often stalled clients are looked at.
const PERIOD: Duration = Duration::from_millis(50);

impl Server {
    /// Ends a client whose work takes longer than it may, or has this server replaced if several may be to blame.
    pub(super) fn see_to_stalled(&mut self) {
        let Some(limit) = watchdog_limit() else { return };
        for pid in self.clients.end_stalled(limit) {
            self.notify(&Message::Candidate(pid));
        }
    }
}

impl Clients {
    /// When stalled clients are to be looked at again, if there are any.
    pub(super) fn next_stall(&self) -> Option<Instant> {
        let any = self.links().any(|link| link.stalled().is_some());
        any.then(|| Instant::now() + PERIOD)
    }

    /// Ends a client whose work takes longer than it may. If several may be to blame, marks those whose work
    /// only the end of the process ends, and returns the processes that are to have servers of their own.
    fn end_stalled(&mut self, limit: Duration) -> Vec<u32> {
        // What of another one's work is being ended may be what all wait for.
        let is_ended = |end| matches!(end, Some(End::Terminated | End::ClientGone));
        let being_ended =
            self.links().any(|l| l.stage() != Stage::Inactive && is_ended(l.ending()));
        if being_ended || !self.stuck().is_empty() {
            return Vec::new();
        }
        let goes_on = |end| matches!(end, None | Some(End::HandedOver));
        let links = self.links().filter(|l| l.stage() == Stage::Active && goes_on(l.ending()));
        let stalled: Vec<_> = links.filter_map(|link| Some((link, link.stalled()?))).collect();
        let has_kernels = stalled.iter().any(|(_, stall)| stall.evidence != Evidence::Nothing);
        let mut over = stalled.iter().filter(|(_, stall)| stall.waited >= limit).peekable();
        if over.peek().is_none() {
            return Vec::new();
        }
        // A stream without kernels keeps no other one waiting.
        if !has_kernels {
            over.for_each(|(link, _)| self.time_out(link, limit));
            return Vec::new();
        }
        let candidates: Vec<_> = stalled
            .iter()
            .map(|(_, s)| Candidate { active: true, evidence: Some(s.evidence) })
            .collect();
        let parts = attribute(&candidates);
        let mut candidates = Vec::new();
        let others = || {
            let of_others = parts.iter().filter(|part| **part != Part::Unaffected);
            of_others.count() - 1
        };
        for ((link, stall), part) in stalled.iter().zip(&parts) {
            let is_over = stall.waited >= limit;
            match part {
                Part::Faulting if is_over => self.time_out(link, limit),
                Part::Faulting | Part::Unaffected => {}
                Part::Candidate | Part::Likeliest | Part::Unlikely => {
                    if part.is_alone() {
                        candidates.push(link);
                    }
                    if is_over {
                        self.log(format!(
                            "Client {} has work that takes longer than {} s, as {} others may have: each \
                             likely one goes on at a server of its own",
                            link.name(), limit.as_secs(), others()
                        ));
                        link.set_stuck();
                    }
                }
            }
        }
        if self.stuck().is_empty() {
            return Vec::new();
        }
        let why = format!("its work makes no progress, nor does that of {} others", others());
        let candidate = FaultPart { is_faulting: false, error: CudaError::LAUNCH_TIMEOUT, why };
        candidates.iter().for_each(|link| link.set_fault(candidate.clone()));
        candidates.iter().map(|link| link.identity.pid).collect()
    }

    fn time_out(&self, link: &SessionLink, limit: Duration) {
        self.log(format!(
            "Client {} has work that takes longer than {} s: it is terminated",
            link.name(),
            limit.as_secs()
        ));
        let why = format!("its work takes longer than {} s", limit.as_secs());
        link.set_fault(FaultPart { is_faulting: true, error: CudaError::LAUNCH_TIMEOUT, why });
        link.time_out();
    }
}
