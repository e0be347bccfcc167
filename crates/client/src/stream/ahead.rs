//! Launches in flight of one stream: how far a program is ahead of it, and what to wait for if that is too far.
//!
//! Counted in steps, so that a stream says how far it is with one fence for many launches. A stream that does not
//! make progress is let have more: what it waits for may be what the thread does next.

use channel::limits::{LAUNCHES_IN_STALLED_STREAM_MAX, LAUNCHES_IN_STREAM_MAX};

/// Launches between two fences.
const STEP: u32 = LAUNCHES_IN_STREAM_MAX / STEPS as u32;
/// Steps in flight of a stream that makes progress, and most of one that does not.
const STEPS: usize = 2;
const STEPS_MAX: usize = (LAUNCHES_IN_STALLED_STREAM_MAX / STEP) as usize;
const _: () = assert!(STEP * STEPS as u32 == LAUNCHES_IN_STREAM_MAX);
const _: () = assert!(STEP * STEPS_MAX as u32 == LAUNCHES_IN_STALLED_STREAM_MAX);

/// How far ahead of a stream its launches are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    /// Launches since the last step's end.
    launches: u32,
    /// The last operations of steps that are not known to have passed, oldest first.
    steps: [u64; STEPS_MAX],
    /// How many these are.
    count: usize,
    /// Steps that the stream may have beyond [`STEPS`], while the oldest has not passed.
    more: usize,
}

impl Ahead {
    /// Counts a launch that was posted as that operation; true if a step ends with it.
    #[inline(always)]
    pub(super) fn launched(&mut self, value: u64) -> bool {
        self.launches += 1;
        self.launches >= STEP && self.end_step(value)
    }

    #[cold]
    fn end_step(&mut self, value: u64) -> bool {
        // A step more than there may be has been let through: it counts with the one before.
        let at = self.count.min(STEPS_MAX - 1);
        self.steps[at] = value;
        self.count = at + 1;
        self.launches = 0;
        true
    }

    /// The operation that has to pass before another launch is posted, if as many are in flight as may be.
    #[inline(always)]
    pub(super) fn full_behind(&mut self, passed: impl FnMut(u64) -> bool) -> Option<u64> {
        if self.count < STEPS + self.more { None } else { self.oldest(passed) }
    }

    #[cold]
    fn oldest(&mut self, mut passed: impl FnMut(u64) -> bool) -> Option<u64> {
        while self.count > 0 && passed(self.steps[0]) {
            self.steps.rotate_left(1);
            self.count -= 1;
            self.more = 0;
        }
        (self.count >= STEPS + self.more).then_some(self.steps[0])
    }

    /// That operation was waited for and does not pass: lets the stream have another step. False if it has all that
    /// it may have.
    pub(super) fn let_further(&mut self, behind: u64) -> bool {
        if self.count == 0 || self.steps[0] != behind || self.count < STEPS + self.more {
            // Another thread has seen to it.
            return true;
        }
        let may = self.count < STEPS_MAX;
        self.more += usize::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_launches_are_in_flight_as_may_be_and_no_more() {
        let mut ahead = Ahead::default();
        let mut fences = Vec::new();
        for value in 1..=u64::from(LAUNCHES_IN_STREAM_MAX) {
            assert_eq!(ahead.full_behind(|_| false), None, "launch {value}");
            if ahead.launched(value) {
                fences.push(value);
            }
        }
        assert_eq!(fences.len(), STEPS);
        assert_eq!(ahead.full_behind(|_| false), Some(fences[0]));
        assert_eq!(ahead.full_behind(|value| value < fences[0]), Some(fences[0]));
        assert_eq!(ahead.full_behind(|value| value <= fences[0]), None);
        // A step of room, and then the next one is waited for.
        for value in 0..u64::from(STEP) {
            assert_eq!(ahead.full_behind(|_| false), None);
            ahead.launched(10_000 + value);
        }
        assert_eq!(ahead.full_behind(|_| false), Some(fences[1]));
        assert_eq!(ahead.full_behind(|_| true), None);
    }

    #[test]
    fn a_stream_without_progress_is_let_have_more_and_not_without_end() {
        let mut ahead = Ahead::default();
        let (mut value, mut fences) = (0, Vec::new());
        let mut launch_until_full = |ahead: &mut Ahead| loop {
            if let Some(behind) = ahead.full_behind(|_| false) {
                return (behind, value);
            }
            value += 1;
            if ahead.launched(value) {
                fences.push(value);
            }
        };
        let mut launched = 0;
        loop {
            let (behind, count) = launch_until_full(&mut ahead);
            assert_eq!(behind, u64::from(STEP));
            assert_eq!(count - launched, u64::from(if launched == 0 { 2 * STEP } else { STEP }));
            launched = count;
            if !ahead.let_further(behind) {
                break;
            }
        }
        assert_eq!(launched, u64::from(LAUNCHES_IN_STALLED_STREAM_MAX));
        // It makes progress, and is held to less again.
        let behind = ahead.full_behind(|passed| passed <= u64::from(STEP));
        assert_eq!(behind, Some(u64::from(2 * STEP)));
        assert_eq!(ahead.full_behind(|passed| passed < launched), None);
    }
}
