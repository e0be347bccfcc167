//! In flight: what each session of a device has submitted, as the others see it.

use cuda_api::CUstream;
use locks::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Work makes no progress if nothing of its stream has been seen to end for so long.
pub(in crate::device) const STALLED_AFTER: Duration = Duration::from_millis(100);

/// A stream at the provider.
#[derive(Debug)]
struct Stream {
    raw: CUstream,
    /// When it was seen last that its work makes progress, as time since this process' first such look.
    last_progress: Duration,
}

/// What one session has in flight, readable by others.
#[derive(Debug, Default)]
pub struct Submissions {
    kernels: AtomicU32,
    /// Launches of kernels and graphs.
    launches: AtomicU32,
    /// Streams with such launches.
    streams_with_launches: AtomicU32,
    /// It may have work in one of its streams.
    busy: AtomicBool,
    /// It has seen that nothing is held, and may submit something.
    submitting: AtomicBool,
    /// Its streams, as long as they live.
    streams: Mutex<Vec<Stream>>,
}

/// What one session has in flight, as it and others hold it.
pub type SessionInFlight = Arc<Submissions>;

impl Submissions {
    /// Says how many kernels are in flight, of how many launches (a graph is one), in how many streams.
    pub fn set_in_flight(&self, kernels: u32, launches: u32, streams: u32) {
        self.kernels.store(kernels, Ordering::Relaxed);
        self.launches.store(launches, Ordering::Relaxed);
        self.streams_with_launches.store(streams, Ordering::Relaxed);
    }

    /// How many streams have launches in flight, as far as the session knows.
    pub(in crate::device) fn streams_with_launches(&self) -> u32 {
        self.streams_with_launches.load(Ordering::Relaxed)
    }

    /// How many launches are in flight, as far as the session knows.
    pub(in crate::device) fn launches(&self) -> u32 {
        self.launches.load(Ordering::Relaxed)
    }

    /// How many kernels are in flight, as far as the session knows.
    pub(in crate::device) fn kernels(&self) -> u32 {
        self.kernels.load(Ordering::Relaxed)
    }

    /// Says whether there may be work in a stream: before something is submitted to one without work.
    pub fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// False if no stream has work.
    pub(in crate::device) fn may_be_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Some work of a stream has ended, or its first is about to be submitted.
    pub fn makes_progress(&self, stream: CUstream) {
        let now = now();
        let mut streams = self.streams.lock();
        if let Some(stream) = streams.iter_mut().find(|of| of.raw == stream) {
            stream.last_progress = now;
        }
    }

    /// For how long a stream has had work of which nothing has ended, if that is at least
    /// [`STALLED_AFTER`]: the longest of them, by what the provider says of a stream.
    pub(in crate::device) fn stalled(
        &self,
        is_done: &dyn Fn(CUstream) -> bool,
    ) -> Option<Duration> {
        if !self.may_be_busy() {
            return None;
        }
        let now = now();
        let streams = self.streams.lock();
        let since = |of: &Stream| now.saturating_sub(of.last_progress);
        let stalled = streams.iter().filter(|of| since(of) >= STALLED_AFTER && !is_done(of.raw));
        stalled.map(since).max()
    }

    /// Says that nothing is submitted until [`ContextSync::may_submit`](crate::device::ContextSync::may_submit) says so.
    #[inline]
    pub fn end_submitting(&self) {
        self.submitting.store(false, Ordering::Release);
    }

    /// Says that something may be submitted from now on, which others may not see at once.
    #[inline]
    pub(in crate::device) fn begin_submitting(&self) {
        self.submitting.store(true, Ordering::Relaxed);
    }

    /// Nothing is submitted during a call; whether it was before.
    pub(in crate::device) fn pause_submitting(&self) -> bool {
        self.submitting.swap(false, Ordering::AcqRel)
    }

    /// The call is over.
    pub(in crate::device) fn resume_submitting(&self) {
        self.submitting.store(true, Ordering::Release);
    }

    pub(in crate::device) fn add_stream(&self, raw: CUstream) {
        self.streams.lock().push(Stream { raw, last_progress: now() });
    }

    /// The stream is about to be destroyed.
    pub(in crate::device) fn remove_stream(&self, stream: CUstream) {
        self.streams.lock().retain(|of| of.raw != stream);
    }

    /// True if nothing is in flight, by what the provider says of a stream.
    pub(in crate::device) fn is_done(&self, is_done: &dyn Fn(CUstream) -> bool) -> bool {
        !self.submitting.load(Ordering::Acquire) && !self.has_work(is_done)
    }

    /// True if a stream has work, by what the provider says of it.
    pub(in crate::device) fn has_work(&self, is_done: &dyn Fn(CUstream) -> bool) -> bool {
        self.may_be_busy() && self.streams.lock().iter().any(|of| !is_done(of.raw))
    }
}

/// Time since the first call of this.
fn now() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}
