//! Stream slots: what a session keeps of one stream.

use crate::device::{CheckedRange, Event, Stream};
use crate::meter::Submitted;
use crate::session::stream::code_in_flight::CodeInFlight;
use crate::session::stream::order::Blocking;
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
pub struct StreamSlot {
    /// The stream at the provider.
    pub stream: Stream,
    pub(in crate::session) made: Made,
    /// The stream that it had while it left other SMs free, or none.
    pub(in crate::session) other: Option<(u32, Stream)>,
    /// What the gate keeps of it.
    pub load: Load,
    /// What was submitted to it.
    pub counters: Arc<Submitted>,
    /// Which code in it is not known to be done.
    pub code_in_flight: CodeInFlight,
    pub(in crate::session) word: u64,
    /// The default stream that it takes turns with if it is a blocking one.
    pub(in crate::session) default: u64,
    pub(in crate::session) blocking: Option<Blocking>,
    pub(in crate::session) join: Option<Event>,
    pub(in crate::session) busy: bool,
    /// Kernels that were launched in it since its last fence.
    pub(in crate::session) kernels_since_fence: u32,
    /// A fence that the device has not got yet.
    pub(in crate::session) kept: Option<DeferredFence>,
    /// How long the last fence was kept back until the stream's work was done.
    pub(in crate::session) last_wait: Duration,
    /// What the watchdog waits for.
    pub(in crate::session) watch: Option<Watch>,
    /// Kernels that have been submitted, counters on or off.
    pub(in crate::session) submitted_kernels: u64,
    /// Of them, those that had been when it was looked at last, or had no work.
    pub(in crate::session) watched_kernels: u64,
}

/// True if the device has passed a fence of the stream with that index, by what it has written.
pub(in crate::session) fn has_passed(region: &Region, index: u32, fence: u32) -> bool {
    region.completion_word(index).is_some_and(|word| reached(word.load(), fence))
}

/// How a stream was made at the provider, and what the client wants of it.
#[derive(Clone, Debug)]
pub(in crate::session) struct Made {
    pub(in crate::session) wanted: i32,
    pub(in crate::session) priority: i32,
    pub(in crate::session) sms: Option<Range<u32>>,
    /// SMs that its blocks keep off.
    pub(in crate::session) free_sms: u32,
}

impl StreamSlot {
    /// Its place among the client's streams.
    pub fn index(&self) -> u32 {
        Handle::from_word(self.word).map_or(0, |handle| handle.index)
    }

    /// Gives the device the fence that is kept back, if one is.
    pub(in crate::session) fn give_fence(&mut self) -> CUresult {
        match self.kept.take() {
            Some(kept) => self.stream.write_word(kept.word, kept.value),
            None => Ok(()),
        }
    }

    /// Takes the fence that is kept back out: the stream's work is done.
    pub(in crate::session) fn take_fence(&mut self) -> Option<DeferredFence> {
        let kept = self.kept.take()?;
        self.last_wait = kept.since.elapsed();
        Some(kept)
    }

    /// The stream has no work.
    pub(in crate::session) fn end_watch(&mut self) {
        self.watch = None;
        self.watched_kernels = self.submitted_kernels;
        self.code_in_flight.end();
    }
}

/// An event behind some kernels of one stream.
pub(in crate::session) struct StreamMark {
    pub(in crate::session) event: Event,
    pub(in crate::session) kernels: u64,
    pub(in crate::session) launches: u32,
    /// Entries of the hardware queue, the mark's own among them.
    pub(in crate::session) operations: u32,
    pub(in crate::session) predicted: Predicted,
}

/// What the gate keeps with each stream.
#[derive(Default)]
pub struct Load {
    /// Launches that are not known to be done.
    pub(in crate::session) launches: u32,
    /// Kernels behind the last mark.
    pub(in crate::session) unmarked: u64,
    /// Launches of those kernels: a graph is one.
    pub(in crate::session) unmarked_launches: u32,
    pub(in crate::session) unmarked_work: Predicted,
    /// What they should take on the device, ns, as far as it is known.
    pub(in crate::session) unmarked_ns: u64,
    pub(in crate::session) marks: VecDeque<StreamMark>,
}

/// A fence that is kept back.
pub struct DeferredFence {
    pub(in crate::session) word: CheckedRange,
    /// What the completion word is to say.
    pub value: u32,
    pub(in crate::session) since: Instant,
}

/// An event behind what a stream had at that time.
pub struct Watch {
    pub(in crate::session) event: Event,
    pub(in crate::session) since: Instant,
    /// Kernels between the one before it and this one: at most these are ahead of it.
    pub(in crate::session) kernels: u64,
    /// How often the rarest code among them had been launched before.
    pub(in crate::session) launched_before: Option<u32>,
    /// The main thread has heard that one of them runs for long.
    pub(in crate::session) is_reported: bool,
}
