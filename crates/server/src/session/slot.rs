//! Stream slots: what a session keeps of one stream.

use super::order::Blocking;
use super::under_way::UnderWay;
use crate::device::{CheckedRange, Event, Stream};
use crate::meter::Submitted;
use channel::region::Region;
use channel::wait::reached;
use cuda_api::CUresult;
use cuda_api::handle::Handle;
use scheduling::Predicted;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One stream.
pub struct Slot {
    /// The stream at the provider.
    pub stream: Stream,
    pub(super) made: Made,
    /// The stream that it had while it left other SMs free, or none.
    pub(super) other: Option<(u32, Stream)>,
    /// What the gate keeps of it.
    pub load: Load,
    /// What was submitted to it.
    pub counters: Arc<Submitted>,
    /// Which code in it is not known to be done.
    pub under_way: UnderWay,
    pub(super) word: u64,
    /// The default stream that it takes turns with if it is a blocking one.
    pub(super) default: u64,
    pub(super) blocking: Option<Blocking>,
    pub(super) join: Option<Event>,
    pub(super) busy: bool,
    /// Kernels that were launched in it since its last fence.
    pub(super) kernels_since_fence: u32,
    /// A fence that the device has not got yet.
    pub(super) kept: Option<Kept>,
    /// How long the last fence was kept back until the stream's work was done.
    pub(super) last_wait: Duration,
    /// What the watchdog waits for.
    pub(super) watch: Option<Watch>,
    /// Kernels that have been submitted, counters on or off.
    pub(super) submitted_kernels: u64,
    /// Of them, those that had been when it was looked at last, or had no work.
    pub(super) watched_kernels: u64,
}

/// True if the device has passed a fence of the stream with that index, by what it has written.
pub(super) fn has_passed(region: &Region, index: u32, fence: u32) -> bool {
    region.completion_word(index).is_some_and(|word| reached(word.load(), fence))
}

/// How a stream was made at the provider, and what the client wants of it.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) wanted: i32,
    pub(super) priority: i32,
    pub(super) sms: Option<Range<u32>>,
    /// SMs that its blocks keep off.
    pub(super) free_sms: u32,
}

impl Slot {
    /// Its place among the client's streams.
    pub fn index(&self) -> u32 {
        Handle::from_word(self.word).map_or(0, |handle| handle.index)
    }

    /// Gives the device the fence that is kept back, if one is.
    pub(super) fn give_fence(&mut self) -> CUresult {
        match self.kept.take() {
            Some(kept) => self.stream.write_word(kept.word, kept.value),
            None => Ok(()),
        }
    }

    /// Takes the fence that is kept back out: the stream's work is done.
    pub(super) fn take_fence(&mut self) -> Option<Kept> {
        let kept = self.kept.take()?;
        self.last_wait = kept.since.elapsed();
        Some(kept)
    }

    /// The stream has no work.
    pub(super) fn end_watch(&mut self) {
        self.watch = None;
        self.watched_kernels = self.submitted_kernels;
        self.under_way.end();
    }
}

/// An event behind some kernels of one stream.
pub(super) struct Mark {
    pub(super) event: Event,
    pub(super) kernels: u64,
    pub(super) launches: u32,
    /// Entries of the hardware queue, the mark's own among them.
    pub(super) operations: u32,
    pub(super) predicted: Predicted,
}

/// What the gate keeps with each stream.
#[derive(Default)]
pub struct Load {
    /// Launches that are not known to be done.
    pub(super) launches: u32,
    /// Kernels behind the last mark.
    pub(super) unmarked: u64,
    /// Launches of those kernels: a graph is one.
    pub(super) unmarked_launches: u32,
    pub(super) unmarked_work: Predicted,
    /// What they should take on the device, ns, as far as it is known.
    pub(super) unmarked_ns: u64,
    pub(super) marks: VecDeque<Mark>,
}

/// A fence that is kept back.
pub struct Kept {
    pub(super) word: CheckedRange,
    /// What the completion word is to say.
    pub value: u32,
    pub(super) since: Instant,
}

/// An event behind what a stream had at that time.
pub struct Watch {
    pub(super) event: Event,
    pub(super) since: Instant,
    /// Kernels between the one before it and this one: at most these are ahead of it.
    pub(super) kernels: u64,
    /// How often the rarest code among them had been launched before.
    pub(super) launched_before: Option<u32>,
    /// The main thread has heard that one of them runs for long.
    pub(super) told: bool,
}
