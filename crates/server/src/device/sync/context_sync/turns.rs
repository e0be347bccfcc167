//! Turns: who makes a call that waits for the context, whom its quiescent point serves, and how long those who were
//! held go on behind it.
//!
//! Knows no provider, and nothing of what is in flight. Invariants:
//! * One call is made at a time.
//! * A quiescent point serves the calls that waited when it came and none that comes later, so that it has an end.
//! * Behind a quiescent point no hold begins before those that were held have gone on for as long as they were, and
//!   each of them has had its turn (for [`TURN_MAX`] at the most).

use locks::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// So long sessions that were held are waited for, which the system may not have let run.
const TURN_MAX: Duration = Duration::from_millis(100);

/// One device's.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    /// A call is over, a quiescent point has come, or who brings one about has gone.
    changed: Condvar,
    /// Nothing is held any more.
    released: Condvar,
}

#[derive(Default)]
struct State {
    making: bool,
    /// Since when sessions have been held for the calls that are made now.
    since: Option<Instant>,
    /// There is a call that brings a quiescent point about.
    has_owner: bool,
    /// Calls that wait for a quiescent point that another one brings about, by number.
    waiting: Vec<u64>,
    /// Of them, those that the quiescent point serves which has come.
    admitted: Vec<u64>,
    /// Sessions that have something to submit and are held.
    held: usize,
    /// Of them, those that have not had their turn since the last call.
    owed: usize,
    /// Until when those that were held go on.
    rest_until: Option<Instant>,
    stalled: Vec<(String, Duration)>,
}

/// The right to make a call, until its end.
pub(super) struct Making<'a>(&'a Turns);

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.making = false;
        if state.held > 0 {
            state.owed = state.held;
            let took = state.since.map(|since| since.elapsed());
            state.rest_until = took.map(|took| Instant::now() + took);
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

/// A session that is held.
struct HeldSession<'a>(&'a Turns);

impl Drop for HeldSession<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.held = state.held.saturating_sub(1);
        state.owed = state.owed.saturating_sub(1);
    }
}

impl Turns {
    /// The right to make a call for which sessions have been held since then, if no other one is made.
    pub(super) fn try_make(&self, since: Instant) -> Option<Making<'_>> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.making, true) {
            return None;
        }
        state.since = Some(since);
        Some(Making(self))
    }

    /// True while a call is made.
    pub(super) fn is_making(&self) -> bool {
        self.state.lock().making
    }

    /// A quiescent point has come: the calls that wait are made in it, one after the other. Their number.
    pub(super) fn admit(&self) -> usize {
        let mut state = self.state.lock();
        let waiting = std::mem::take(&mut state.waiting);
        let count = waiting.len();
        state.admitted.extend(waiting);
        count
    }

    /// Waits until a quiescent point has come that serves that call, and it is its turn. `None` after so long, if the
    /// client ends before there is a quiescent point, or if there is no call that brings one about. Of a quiescent point that has
    /// come, nothing but the client's end keeps it from its turn.
    pub(super) fn wait_for_quiescent_point(
        &self,
        number: u64,
        longest: Duration,
        ends: &dyn Fn() -> bool,
    ) -> Option<Option<Making<'_>>> {
        let end = Instant::now() + longest;
        let mut state = self.state.lock();
        state.waiting.push(number);
        loop {
            let admitted = state.admitted.iter().position(|of| *of == number);
            if let Some(at) = admitted.filter(|_| !state.making) {
                state.admitted.remove(at);
                state.making = true;
                return Some(Some(Making(self)));
            }
            if let Some(at) = admitted.filter(|_| ends()) {
                state.admitted.remove(at);
                return Some(None);
            }
            let left = end.saturating_duration_since(Instant::now());
            if admitted.is_none() && (left.is_zero() || !state.has_owner || ends()) {
                state.waiting.retain(|of| *of != number);
                return None;
            }
            // The calls of a quiescent point wait for each other.
            let pause = if admitted.is_some() { longest } else { left };
            state = self.changed.wait_timeout(state, pause).0;
        }
    }

    /// True if a call brings a quiescent point about.
    pub(super) fn has_owner(&self) -> bool {
        self.state.lock().has_owner
    }

    /// How many calls wait for a quiescent point that another one brings about.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// A call brings a quiescent point about.
    pub(super) fn owner_is_there(&self) {
        self.state.lock().has_owner = true;
    }

    /// It does not any more: another one may.
    pub(super) fn owner_is_gone(&self) {
        self.state.lock().has_owner = false;
        self.changed.notify_all();
    }

    /// Says what the call that brings a quiescent point about has seen of work that makes no progress.
    pub(super) fn set_stalled(&self, stalled: Vec<(String, Duration)>) {
        self.state.lock().stalled = stalled;
    }

    /// Clients with work that made no progress when it was looked at last, and for how long it had not.
    pub(super) fn stalled(&self) -> Vec<(String, Duration)> {
        self.state.lock().stalled.clone()
    }

    /// True while those that were held during calls are to go on.
    pub(super) fn rests(&self) -> bool {
        let state = self.state.lock();
        let now = Instant::now();
        state.making
            || !state.admitted.is_empty()
            || state
                .rest_until
                .is_some_and(|until| now < until || state.owed > 0 && now < until + TURN_MAX)
    }

    /// True if a session waits that has something to submit.
    #[cfg(test)]
    pub(super) fn is_waited_for(&self) -> bool {
        self.state.lock().held > 0
    }

    /// A session that has something to submit waits, as long as the result lives.
    pub(super) fn begin_waiting(&self) -> impl Drop + '_ {
        self.state.lock().held += 1;
        HeldSession(self)
    }

    /// Waits until `is_free`, or for so long.
    pub(super) fn wait_for_release(&self, longest: Duration, is_free: impl Fn() -> bool) {
        let end = Instant::now() + longest;
        let mut state = self.state.lock();
        while !is_free() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.released.wait_timeout(state, left).0;
        }
    }

    /// Nothing is held any more.
    pub(super) fn release(&self) {
        // Who is about to wait has looked under the lock.
        drop(self.state.lock());
        self.released.notify_all();
    }
}
