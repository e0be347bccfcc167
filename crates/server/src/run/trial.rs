//! A fault of the shared context: whose it was, and what becomes of the others.
//!
//! The provider says that there was a fault, and neither where nor whose. Each session says whether
//! kernels of its client were under way. If only one had any, that client gets the error. Of several
//! the daemon is told: each of them goes on at a server of its own and repeats there what it can, and
//! whoever faults again is alone then. Clients that had no kernel under way go on at the next server.
//!
//! Nothing runs in the context any more when the first client is told, so none of them repeats work
//! beside its own first attempt.

use super::Server;
use super::clients::Clients;
use crate::session::{End, Stage};
use crate::window::device_window_of;
use channel::message::Message;
use std::time::{Duration, Instant};

/// How long sessions may take to say what was under way: calls in a spoiled context return at once.
const PLEA_MAX: Duration = Duration::from_millis(250);

/// Where the server is after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    /// There was none.
    None,
    /// The sessions are asked, until then.
    Open(Instant),
    /// All clients have been told.
    Closed,
}

impl Server {
    /// Goes on with what a fault calls for, as far as the sessions have spoken.
    pub(super) fn try_fault(&mut self) {
        let Some(fault) = self.common.fault() else { return };
        if self.trial == Trial::None {
            // The daemon first, so that the next server starts meanwhile.
            self.tell(&Message::Fault(fault.to_string()));
            self.common.device.settle_after_fault();
            self.clients.ring_all();
            self.trial = Trial::Open(Instant::now() + PLEA_MAX);
        }
        let Trial::Open(deadline) = self.trial else { return };
        if !self.clients.have_pleaded() && Instant::now() < deadline {
            return;
        }
        self.trial = Trial::Closed;
        let suspects = self.clients.suspects();
        if let [_, _, ..] = suspects[..] {
            for pid in &suspects {
                self.tell(&Message::Suspect(*pid));
            }
        }
        self.clients.pass_verdict(suspects.len() == 1);
        // Only now: it may take a moment, and no client needs it.
        let report = self.common.fault_report();
        self.clients.log(format!("The device's fault, {fault}: {}", report.text));
        if let Some(address) = report.address {
            let owner =
                self.clients.links().find(|link| window_holds(link.identity.window, address));
            let whose =
                owner.map_or("nobody's".to_owned(), |link| format!("of client {}", link.name()));
            self.clients.log(format!("The fault's address is {address:#x}, {whose}"));
        }
    }

    /// When the sessions will have had their time, if they are asked.
    pub(super) fn trial_deadline(&self) -> Option<Instant> {
        match self.trial {
            Trial::Open(deadline) => Some(deadline),
            Trial::None | Trial::Closed => None,
        }
    }
}

/// True if an address lies in the device window with that number.
fn window_holds(number: u32, address: u64) -> bool {
    device_window_of(address) == Some(number)
}

impl Clients {
    /// True if every session that serves a client has said what was under way.
    fn have_pleaded(&self) -> bool {
        self.links().all(|link| link.stage() != Stage::Active || link.plea().is_some())
    }

    /// The processes of clients that may have caused the fault: those whose kernels were under way,
    /// and those whose sessions did not say.
    fn suspects(&self) -> Vec<u32> {
        let suspects = self.links().filter(|link| match link.plea() {
            Some(plea) => plea.suspect,
            // Where a session ends, a kernel of its client may be running on.
            None => link.stage() == Stage::Active,
        });
        suspects.map(|link| link.identity.pid).collect()
    }

    /// Tells every client what becomes of it; `known` if the one suspect is the cause.
    fn pass_verdict(&self, known: bool) {
        for link in self.links() {
            let suspect = link.plea().is_none_or(|plea| plea.suspect);
            let verdict = match (suspect, known) {
                (true, true) => "it gets the error",
                (true, false) => "goes on at a server of its own: others may have been it too",
                (false, _) => "goes on at another server",
            };
            let why = link.plea().map_or("its session did not say", |plea| &plea.text);
            self.log(format!("Client {}: {why}; {verdict}", link.name()));
            link.end(if suspect && known { End::Guilty } else { End::Moved });
        }
    }
}
