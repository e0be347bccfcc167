//! Recovery order: after a fault the programs that were not it go on first, and only then servers of
//! isolated processes start and the corrupted server ends.
//!
//! Both hold a lock of NVIDIA's driver for long (making a context, taking one down), for which the mapping
//! of memory at the next server waits. What is put off is put off for a bounded time.

use super::{COMES_S_MAX, Effects, Phase, ServerKey, Servers};
use std::time::{Duration, Instant};

/// How long programs may take to go to a server that is ready and to declare there what they have. Those
/// that do nothing then do not come at all.
pub const DECLARED_MS_MAX: u64 = 500;
/// How long a server that was not in standby is waited for.
const READY_MS_MAX: u64 = 5000;

/// What is put off for a server key.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecoveryOrder {
    /// The server with the fault.
    corrupted: u32,
    /// The server to which its clients go.
    next: u32,
    /// The clients that the server with the fault had.
    clients: usize,
    /// Of them, those that may have caused it and go to servers of their own.
    candidates: usize,
    /// Those that have declared at the next one.
    declared: usize,
    since: Instant,
    /// Until then at most.
    until: Instant,
}

impl RecoveryOrder {
    /// True as long as others come first. One client caused the fault and comes to no server, unless
    /// several may have.
    fn goes_on(&self, now: Instant) -> bool {
        self.declared + self.candidates.max(1) < self.clients && now < self.until
    }
}

impl<L> Servers<L> {
    /// A server has met a fault, and the next one of its server key is there or starts: its clients come first.
    pub(super) fn order_recovery(
        &mut self,
        corrupted: u32,
        now: Instant,
        effects: &mut impl Effects<L>,
    ) {
        let Some(server) = self.get(corrupted) else { return };
        let (server_key, clients) = (server.server_key(), server.clients);
        let alone = server.isolated().is_some();
        let next = self.at(server_key).filter(|_| !alone).map(|next| (next.pid, next.phase));
        let ready = next.is_some_and(|(_, phase)| phase == Phase::Running);
        if let Some((next, _)) = next {
            let ms = if ready { DECLARED_MS_MAX } else { READY_MS_MAX };
            let until = now + Duration::from_millis(ms);
            let begun = RecoveryOrder {
                corrupted,
                next,
                clients,
                candidates: 0,
                declared: 0,
                since: now,
                until,
            };
            let before = self.recovery_order.insert(server_key, begun);
            // One more fault, before all had gone on after the one before: no program comes from that server any more.
            if let Some(corrupted) = before.and_then(|of| self.get(of.corrupted)) {
                effects.leave(&corrupted.link);
            }
        }
        // While the next one makes its context no client restores its state, and the device may not have the memory
        // for both.
        if !ready && let Some(server) = self.get(corrupted) {
            effects.leave(&server.link);
        }
    }

    /// A server is ready: from now on its clients come.
    pub(super) fn begin_declarations(&mut self, pid: u32, now: Instant) {
        let until = now + Duration::from_millis(DECLARED_MS_MAX);
        let here = self.recovery_order.values_mut().filter(|of| of.next == pid);
        here.for_each(|of| of.until = of.until.min(until));
    }

    /// One client less comes from a server with a fault: it goes to a server of its own.
    pub(super) fn is_no_unaffected(&mut self, corrupted: u32) {
        let of_it = self.recovery_order.values_mut().filter(|of| of.corrupted == corrupted);
        of_it.for_each(|of| of.candidates += 1);
    }

    /// A client has declared to a server what it had at another one.
    pub fn has_declared(&mut self, pid: u32, effects: &mut impl Effects<L>) {
        for of in self.recovery_order.values_mut().filter(|of| of.next == pid) {
            of.declared += 1;
        }
        effects.look_again();
    }

    /// True if a process that may have caused a fault waits of that server key until others have gone on.
    pub(super) fn comes_later(&self, server_key: ServerKey, now: Instant) -> bool {
        self.recovery_order.get(&server_key).is_some_and(|of| of.goes_on(now))
    }

    /// True while processes are about to come of which it is known here alone who comes later, and who gets a
    /// server of its own.
    pub fn sorts_out_a_fault(&self, now: Instant) -> bool {
        let comes_max = Duration::from_secs(COMES_S_MAX);
        let comes = |since: &Instant| now.saturating_duration_since(*since) < comes_max;
        !self.recovery_order.is_empty() || self.candidates.values().any(comes)
    }

    /// When what is put off is due at the latest.
    pub(super) fn recovery_order_end(&self) -> Option<Instant> {
        self.recovery_order.values().map(|of| of.until).min()
    }

    /// Ends what is over: corrupted servers may leave.
    pub(super) fn end_recovery_order(&mut self, now: Instant, effects: &mut impl Effects<L>) {
        let list = &self.list;
        self.recovery_order.retain(|_, of| {
            let is_there =
                list.iter().any(|server| server.pid == of.next && server.takes_clients());
            let goes_on = is_there && of.goes_on(now);
            let corrupted = list.iter().find(|server| server.pid == of.corrupted);
            if !goes_on && let Some(server) = corrupted {
                effects.leave(&server.link);
            }
            if !goes_on {
                effects.log(format!(
                    "Of {} clients of server {} {} have declared to server {} after {} ms: {} that may have \
                     caused its fault go on now",
                    of.clients,
                    of.corrupted,
                    of.declared,
                    of.next,
                    now.saturating_duration_since(of.since).as_millis(),
                    of.candidates
                ));
            }
            goes_on
        });
    }
}
