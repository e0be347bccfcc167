//! Fences: how a client learns that a stream's work is done.
//!
//! The device writes a stream's completion word when it gets there, which costs the session nothing.
//! But a write that waits for its stream's kernel holds up all that is behind it in its hardware
//! queue, of whichever stream. While more sessions are at work than there are queues, one's fence
//! would be another one's wait. So a fence behind a few kernels is kept back then: it goes to the
//! device with the next work of its stream, and if none comes, the session looks when the stream's
//! work is done and writes the word itself. Many kernels hold up their queue without a fence too,
//! by waiting for each other.
//!
//! Invariant: no work of a client's is in a stream behind a fence that is kept back.

use crate::device::CheckedRange;
use crate::session::stream::slot::{DeferredFence, StreamSlot, has_passed};
use crate::session::stream::table::{Presence, Streams};
use channel::region::Region;
use channel::wait::SpinPolicy;
use cuda_api::{CUresult, CUstream};
use std::time::{Duration, Instant};

/// As `REQUESTS_PER_LOOK` in `submission.rs`, while fences are kept back for which a thread may wait.
pub(in crate::session) const REQUESTS_PER_LOOK_AT_FENCES: u32 = 16;

/// Most kernels since the last fence of a stream behind which one is kept back.
const KERNELS_MAX: u32 = 4;

impl StreamSlot {
    /// Puts a fence behind all that is in the stream, or keeps it back if that is worth it.
    pub(in crate::session) fn fence(
        &mut self,
        word: CheckedRange,
        value: u32,
        shared: bool,
        region: &Region,
    ) -> CUresult {
        let kernels = std::mem::take(&mut self.kernels_since_fence);
        let index = self.index();
        self.code_in_flight.fence(value, |fence| has_passed(region, index, fence));
        if !shared || kernels > KERNELS_MAX {
            return self.stream.write_word(word, value);
        }
        self.kept = Some(DeferredFence { word, value, since: Instant::now() });
        Ok(())
    }
}

impl Streams {
    /// Ends a client's wait for a fence of a stream that could not be made or is gone: nothing of
    /// it is outstanding, and no device would ever write the word.
    pub(in crate::session) fn pass_without_stream(
        &self,
        region: &Region,
        stream: CUstream,
        value: u32,
    ) {
        if !matches!(self.presence(stream.0 as u64), Presence::Gone) {
            return;
        }
        let slot = Self::slot_of(stream.0 as u64).ok();
        if let Some(word) = slot.and_then(|slot| region.completion_word(slot)) {
            word.store(value);
            channel::wait::wake(word);
        }
    }

    /// How long it is until the stream of a fence that is kept back should be looked at; `None` if
    /// none is.
    pub(in crate::session) fn next_look(&mut self, policy: SpinPolicy) -> Option<Duration> {
        let mut soonest = None;
        self.busy_slots(|slot| {
            if let Some(kept) = &slot.kept {
                let pause = policy.back_off_after(kept.since.elapsed(), slot.last_wait);
                soonest = Some(soonest.map_or(pause, |soonest| pause.min(soonest)));
            }
        });
        soonest
    }
}
