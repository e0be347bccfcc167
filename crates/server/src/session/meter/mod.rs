//! The meter: what a session counts of its client's work, and how long that takes on the device.
//!
//! What a launch is predicted to take is [`ShapeCounters::prediction`], by function and shape
//! ([`KernelMeter::prediction`]).

mod counters;
mod kernels;
mod tracing;

pub use counters::{ClientCounters, Direction, Submitted};
pub use kernels::{GraphTally, KernelCounters, KernelMeter, Prediction, Shape, ShapeCounters};
pub use tracing::Subject;

use super::streams::Streams;
use crate::device::{Share, Started, Stopwatch, Stream};
use crate::trace_log::{TraceLog, now_ns};
use channel::message::TraceEntry;
use cuda_api::CUresult;
use std::rc::Rc;
use std::sync::Arc;
use tracing::Tracing;

/// Why something is timed.
#[derive(Default)]
struct Why {
    sample_of: Option<Arc<ShapeCounters>>,
    record: Option<Subject>,
}

/// One session's.
pub struct Meter {
    share: Rc<Share>,
    stopwatch: Stopwatch<Why>,
    tracing: Tracing,
    /// All work is recorded by events.
    records: bool,
}

/// Work that is timed.
pub struct Timing {
    started: Started,
    why: Why,
}

impl Meter {
    /// Nothing is timed.
    pub fn new(share: &Rc<Share>) -> Self {
        let (stopwatch, tracing) = (Stopwatch::new(share), Tracing::default());
        Self { share: share.clone(), stopwatch, tracing, records: false }
    }

    /// Begins to time what comes next in a stream, if it is a sample (`sample_of`), or all is
    /// recorded; `subject` says what it is.
    #[inline]
    pub fn begin(
        &mut self,
        stream: &Stream,
        sample_of: Option<Arc<ShapeCounters>>,
        subject: impl FnOnce() -> Subject,
    ) -> Option<Timing> {
        if sample_of.is_none() && !self.records {
            return None;
        }
        let subject = self.records.then(subject);
        self.start(stream, sample_of, subject)
    }

    #[cold]
    fn start(
        &mut self,
        stream: &Stream,
        sample_of: Option<Arc<ShapeCounters>>,
        subject: Option<Subject>,
    ) -> Option<Timing> {
        let record = subject.map(|subject| {
            self.tracing.before(&self.share, |event| stream.record(event).is_ok());
            let launch = self.tracing.next_launch();
            let entry = TraceEntry { launch, submitted_ns: now_ns(), ..subject.entry };
            Subject { entry, ..subject }
        });
        let started = self.stopwatch.start(stream)?;
        Some(Timing { started, why: Why { sample_of, record } })
    }

    /// What is timed was submitted, or refused.
    #[inline]
    pub fn end(&mut self, timing: Option<Timing>, stream: &Stream, submitted: bool) {
        if let Some(timing) = timing {
            self.stop(timing, stream, submitted);
        }
    }

    #[cold]
    fn stop(&mut self, Timing { started, why }: Timing, stream: &Stream, submitted: bool) {
        match submitted {
            true => self.stopwatch.stop(started, stream, why),
            false => self.stopwatch.cancel(started),
        }
    }

    /// Takes in the times of what is done. The error is that of the work.
    pub fn read(&mut self) -> CUresult {
        if !self.stopwatch.is_pending() {
            return Ok(());
        }
        let tracing = &mut self.tracing;
        self.stopwatch.read(|mut timed, start| {
            if let Some(shape) = &timed.of.sample_of {
                shape.sampled(timed.device_ns, timed.is_clean);
            }
            if let Some(subject) = timed.of.record.take() {
                tracing.ended(&timed, subject, start);
            }
        })
    }

    /// Records work from now on if the log wants it, or ends that, and gives the log what has ended.
    /// True if it has just begun.
    #[inline]
    pub fn follow(&mut self, log: &TraceLog, streams: &mut Streams, client: u32) -> bool {
        if !log.is_on() && !self.tracing.is_on() {
            return false;
        }
        self.follow_log(log, streams, client)
    }

    #[cold]
    fn follow_log(&mut self, log: &TraceLog, streams: &mut Streams, client: u32) -> bool {
        let began = self.tracing.follow(log, &self.share);
        self.records = self.tracing.is_on() && !self.share.is_tenant();
        self.stopwatch.set_many(self.records);
        self.tracing.collect(log, &self.share, streams, client);
        began
    }

    /// Gives the events back.
    pub fn clear(&mut self) {
        self.stopwatch.clear();
        self.tracing.clear();
    }
}
