//! Device time by events: how long a sample of what was submitted took, as the device's clock says.
//!
//! Works on every provider, because it uses nothing but events: one before and one behind the work, in
//! its stream. The first event is reached when all before it in the stream is done. If it has been
//! reached before the work was submitted, the time has the way of the submission in it, and is only an
//! upper bound ([`Timed::is_clean`]).
//!
//! Which work is timed is not decided here. What is timed costs two events and some calls, so it
//! should be little of what there is.

use super::{Event, Share, Stream};
use cuda_api::{CUresult, CudaError};
use std::collections::VecDeque;
use std::rc::Rc;

/// Most timed pieces of work that were not read yet: events are some hundred bytes at the provider.
const PENDING_MAX: usize = 64;
/// As [`PENDING_MAX`], while all work is timed.
const PENDING_MANY_MAX: usize = 4096;

/// How long a piece of work took.
#[derive(Debug)]
pub struct Timed<T> {
    /// What it was.
    pub of: T,
    /// From its beginning to its end, ns.
    pub device_ns: u64,
    /// The device had something before it in its stream when it was submitted. If not, `device_ns` is
    /// an upper bound.
    pub is_clean: bool,
}

struct Pending<T> {
    of: T,
    start: Event,
    end: Event,
    is_clean: bool,
}

/// Times pieces of work of one session, of which each is called a `T`.
pub struct Stopwatch<T> {
    share: Rc<Share>,
    spare: Vec<Event>,
    pending: VecDeque<Pending<T>>,
    pending_max: usize,
}

/// Behind this event comes the work that is timed.
pub struct Started(Event);

impl<T> Stopwatch<T> {
    /// Nothing is timed yet.
    pub fn new(share: &Rc<Share>) -> Self {
        Self {
            share: share.clone(),
            spare: Vec::new(),
            pending: VecDeque::new(),
            pending_max: PENDING_MAX,
        }
    }

    /// Whether all work is to be timed, or a sample.
    pub fn set_many(&mut self, many: bool) {
        self.pending_max = if many { PENDING_MANY_MAX } else { PENDING_MAX };
        self.spare.truncate(2 * self.pending_max);
    }

    fn event(&mut self) -> Result<Event, CudaError> {
        self.spare.pop().map_or_else(|| Event::new(&self.share, 0), Ok)
    }

    /// To be called right before a piece of work is submitted to a stream. `None` if it cannot be
    /// timed: too much is, or the provider has no event for it. No error of the client's.
    pub fn start(&mut self, stream: &Stream) -> Option<Started> {
        if self.pending.len() >= self.pending_max {
            return None;
        }
        let event = self.event().ok()?;
        stream.record(&event).ok()?;
        Some(Started(event))
    }

    /// To be called right behind the submission.
    pub fn stop(&mut self, Started(start): Started, stream: &Stream, of: T) {
        let is_clean = start.is_done() == Ok(false);
        let Ok(end) = self.event() else { return self.spare.push(start) };
        match stream.record(&end) {
            Ok(()) => self.pending.push_back(Pending { of, start, end, is_clean }),
            Err(_) => self.spare.extend([start, end]),
        }
    }

    /// A piece of work that was started and not submitted.
    pub fn cancel(&mut self, Started(start): Started) {
        self.spare.push(start);
    }

    /// True if something is timed whose time was not read.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Reads the times of what is done. The error is that of the work.
    /// `each` is also given the event before the work.
    pub fn read(&mut self, mut each: impl FnMut(Timed<T>, &Event)) -> CUresult {
        let mut at = 0;
        while let Some(pending) = self.pending.get(at) {
            if !pending.end.is_done()? {
                // Others are in other streams.
                at += 1;
                continue;
            }
            let Some(Pending { of, start, end, is_clean }) = self.pending.remove(at) else { break };
            if let Ok(ms) = start.elapsed_ms(&end) {
                let device_ns = (f64::from(ms) * 1e6).max(0.0) as u64;
                each(Timed { of, device_ns, is_clean }, &start);
            }
            self.spare.extend([start, end]);
        }
        Ok(())
    }

    /// Gives the events back. What was timed is forgotten.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.spare.clear();
    }
}
