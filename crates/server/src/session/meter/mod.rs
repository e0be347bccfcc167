//! The meter: what a session counts of its client's work, and how long that takes on the device.
//!
//! What a launch is predicted to take is [`ShapeCounters::prediction`], by function and shape
//! ([`KernelMeter::prediction`]).

mod counters;
mod kernels;

pub use counters::{ClientCounters, Direction, Submitted};
pub use kernels::{KernelCounters, KernelMeter, Prediction, Shape, ShapeCounters};

use crate::device::{Share, Started, Stopwatch, Stream};
use cuda_api::CUresult;
use std::rc::Rc;
use std::sync::Arc;

/// One session's.
pub struct Meter {
    stopwatch: Stopwatch<Arc<ShapeCounters>>,
}

/// A launch that is timed.
pub struct Timing {
    started: Started,
    of: Arc<ShapeCounters>,
}

impl Meter {
    /// Nothing is timed.
    pub fn new(share: &Rc<Share>) -> Self {
        Self { stopwatch: Stopwatch::new(share) }
    }

    /// Begins to time what comes next in a stream, if that can be done.
    #[cold]
    pub fn begin(&mut self, stream: &Stream, of: Arc<ShapeCounters>) -> Option<Timing> {
        let started = self.stopwatch.start(stream)?;
        Some(Timing { started, of })
    }

    /// What is timed was submitted, or refused.
    #[cold]
    pub fn end(&mut self, Timing { started, of }: Timing, stream: &Stream, submitted: bool) {
        match submitted {
            true => self.stopwatch.stop(started, stream, of),
            false => self.stopwatch.cancel(started),
        }
    }

    /// Takes in the times of what is done. The error is that of the work.
    pub fn read(&mut self) -> CUresult {
        if !self.stopwatch.is_pending() {
            return Ok(());
        }
        self.stopwatch.read(|timed| timed.of.sampled(timed.device_ns, timed.is_clean))
    }

    /// Gives the events back.
    pub fn clear(&mut self) {
        self.stopwatch.clear();
    }
}
