//! How a session carries out what waits: records that could not go are tried again when something has changed.
//!
//! A session never sleeps with a record that it has taken: one that cannot go is kept ([`Pending`]), and the ring is
//! read on. What waits is tried again while the ring is read, and when it is empty.

use crate::session::Session;
use crate::session::stream::pending::{Deferral, Pending, Target, asks};
use channel::ring::{Record, RingBroken};
use cuda_api::CUresult;
use std::time::{Duration, Instant};

/// Records that are taken from the ring between two looks at those that wait.
const RECORDS_PER_ADVANCE: u32 = 64;
/// Records of a stream that are carried out in a row, before others have their turn.
const IN_A_ROW_MAX: u32 = 256;
/// Shortest and longest sleep of a session whose records wait for room. It is a part of the time for which nothing
/// was done: room is seen that much later at the most.
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_micros(500);
const PAUSE_PART: u32 = 8;
/// How often a session whose records wait looks at its work.
const LOOK_PERIOD: Duration = Duration::from_millis(1);

impl Session {
    /// The next request of the ring, unless too many wait already.
    pub(in crate::session) fn pop(&mut self, record: &mut Record) -> Result<bool, RingBroken> {
        if self.pending.is_full() { Ok(false) } else { self.consumer.pop(record) }
    }

    /// True if records that wait should be tried, although there may be more in the ring.
    #[inline]
    pub(in crate::session) fn must_advance(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        self.records_until_advance = self.records_until_advance.saturating_sub(1);
        self.records_until_advance == 0
    }

    /// Keeps a record that comes behind some that wait; false if it does not.
    #[cold]
    pub(in crate::session) fn keep_behind_others(&mut self, record: &mut Record) -> bool {
        let Some(target) = Target::of(record) else { return false };
        let (stream, turns) = self.submission.streams.turns(target.stream);
        let target = Target { stream, ..target };
        let is_behind =
            self.pending.comes_behind(target, turns) || self.pending.is_held() && asks(record);
        if is_behind {
            self.pending.push(target, turns, record, None);
            self.count_requests(1);
        }
        is_behind
    }

    /// Carries out a record, or keeps it if it cannot go now.
    #[inline]
    pub(in crate::session) fn dispatch_or_keep(&mut self, record: &mut Record) {
        self.submission.defers = true;
        self.dispatch(record);
        self.submission.defers = false;
        if let Some(deferral) = self.submission.deferral.take() {
            self.keep(record, deferral);
        }
    }

    #[cold]
    fn keep(&mut self, record: &mut Record, deferral: Deferral) {
        let Some(target) = Target::of(record) else {
            // One of no stream waits here.
            return self.dispatch(record);
        };
        let (stream, turns) = self.submission.streams.turns(target.stream);
        let now = Instant::now();
        if self.pending.is_empty() {
            self.looked = now;
        }
        self.pending.set_reason(deferral, now);
        self.pending.push(Target { stream, ..target }, turns, record, Some(now));
    }

    /// Carries out what waits and can go now; true if something did.
    pub(in crate::session) fn advance(&mut self) -> bool {
        self.records_until_advance = RECORDS_PER_ADVANCE;
        self.pending.forget_reason();
        if self.submission.sticky.is_none()
            && let Err(error) = self.submission.make_room()
        {
            self.submission.note(error);
        }
        if !self.submission.begin_submitting() {
            return false;
        }
        let moved = match self.submission.link.scheduling.is_free() {
            true => self.advance_streams(),
            false => self.advance_in_order(),
        };
        self.submission.share.in_flight().end_submitting();
        if self.pending.is_empty() {
            self.submission.work.end_asking();
        }
        moved
    }

    fn advance_streams(&mut self) -> bool {
        let streams = self.pending.streams().into_iter();
        // Each has its turn, whether others moved or not.
        streams.filter(|stream| self.advance_stream(*stream, IN_A_ROW_MAX)).count() > 0
    }

    /// As [`Self::advance_streams`], in the order in which the records came as far as they can go: the gate is asked
    /// for the client, and none of its streams is to take what another one asked for before.
    fn advance_in_order(&mut self) -> bool {
        for count in 0..IN_A_ROW_MAX {
            let mut streams = self.pending.streams().into_iter();
            if !streams.any(|stream| self.advance_stream(stream, 1) || self.pending.is_held())
                || self.pending.is_held()
            {
                return count > 0;
            }
        }
        true
    }

    /// Carries out records of a stream that can go, at most so many; true if some went.
    fn advance_stream(&mut self, stream: u64, most: u32) -> bool {
        for count in 0..most {
            let Some(mut waiting) = self.pending.take(stream) else { return count > 0 };
            crate::last_request::note(waiting.record.opcode());
            self.submission.work.arrived();
            self.submission.defers = true;
            self.dispatch(&waiting.record);
            self.submission.defers = false;
            if let Some(deferral) = self.submission.deferral.take() {
                let since = *waiting.since.get_or_insert_with(Instant::now);
                self.pending.set_reason(deferral, since);
                self.pending.give_back(stream, waiting);
                return count > 0;
            }
            if let Some(since) = waiting.since {
                self.submission.link.counters.was_paused(since);
            }
            if let Some(word) = self.pending.done(stream, waiting) {
                self.events.release(word);
                self.graphs.table.release(word);
            }
        }
        true
    }

    /// Tries what waits while the ring has nothing, and sleeps until that may have changed.
    pub(in crate::session) fn wait_with_pending(&mut self) -> Result<(), RingBroken> {
        if self.advance() || self.submission.share.work() {
            return Ok(());
        }
        self.follow_oversubscription();
        if self.looked.elapsed() >= LOOK_PERIOD {
            self.looked = Instant::now();
            self.submission.look();
        }
        match self.pending.reason() {
            // An end of the session shows in its loop.
            Some((Deferral::Gate(hold, answer), since)) => {
                let _ = self.submission.stay(hold, answer, since);
            }
            _ => {
                let since = self.submission.work.moved().elapsed();
                let pause = (since / PAUSE_PART).clamp(PAUSE_MIN, PAUSE_MAX)
                    * self.submission.place.factor();
                let pause = self.next_look_at_fences().map_or(pause, |look| pause.min(look));
                match self.pending.is_full() {
                    true => std::thread::sleep(pause),
                    false => drop(self.consumer.poll_sleep(pause)?),
                }
            }
        }
        Ok(())
    }

    /// Carries out what waits until there is none that is meant. Called while requests are submitted.
    pub(in crate::session) fn carry_out_pending(
        &mut self,
        is_meant: impl Fn(&Pending) -> bool,
    ) -> CUresult {
        if !is_meant(&self.pending) {
            return Ok(());
        }
        self.submission.share.in_flight().end_submitting();
        let defers = std::mem::take(&mut self.submission.defers);
        let mut result = Ok(());
        while is_meant(&self.pending) && result.is_ok() {
            result = self.submission.check_end();
            if result.is_ok() && !self.advance() {
                self.submission.look();
                let since = self.submission.work.moved().elapsed();
                std::thread::sleep((since / PAUSE_PART).clamp(PAUSE_MIN, PAUSE_MAX));
            }
        }
        self.submission.defers = defers;
        if !self.submission.begin_submitting() {
            self.submission.check_end()?;
        }
        result
    }

    /// Waits until all of the client's work is done.
    pub(in crate::session) fn wait_idle(&mut self) -> CUresult {
        self.carry_out_pending(|pending| !pending.is_empty())?;
        self.submission.wait_until(|submission| Ok(!submission.poll()?))
    }
}
