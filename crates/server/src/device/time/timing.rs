//! Device time by events: how long a sample of what was submitted took, as the device's clock says.
//!
//! Works on every provider, because it uses nothing but events: one before and one behind the work, in
//! its stream. Work that comes to an idle stream gets a delay before it, so that the device has all of it
//! before it begins: else the way of the submission would be in the time. What the events
//! themselves add is measured once, at an empty kernel ([`crate::device::EventCost`]), and taken off.
//!
//! Which work is timed is not decided here. What is timed costs two events and some calls, so it
//! should be little of what there is.

use crate::device::{Event, Share, Stream};
use cuda_api::{CUresult, CUstream, CudaError};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Most timed pieces of work that were not read yet: events are some hundred bytes at the provider.
const PENDING_MAX: usize = 64;
/// As [`PENDING_MAX`], while all work is timed.
const PENDING_MANY_MAX: usize = 4096;

/// What was submitted has arrived at the device after this time, and what the device has done is known here:
/// a start that comes sooner may have come before the rest of the work. Of an H200's mean times of kernels up
/// to a microsecond was the way of their submission without this.
const ARRIVAL: Duration = Duration::from_micros(4);

/// How long a piece of work took.
#[derive(Debug)]
pub struct Timed<T> {
    /// What it was.
    pub of: T,
    /// From its beginning to its end, ns, without what the events cost.
    pub device_ns: u64,
    /// The device had all of it before the first event was reached, and what events cost is known. If not,
    /// `device_ns` is an upper bound.
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
    /// By stream: what is behind something that is not done is not done.
    pending: Vec<(CUstream, VecDeque<Pending<T>>)>,
    pending_now: usize,
    pending_max: usize,
}

/// Behind this event comes the work that is timed.
pub struct Started(Event);

/// True of an event that is still ahead of the device when what was submitted behind it has arrived there.
fn stays_ahead(
    mut is_ahead: impl FnMut() -> bool,
    since_submission: impl Fn() -> Duration,
) -> bool {
    while is_ahead() {
        if since_submission() > ARRIVAL {
            return true;
        }
    }
    false
}

impl<T> Stopwatch<T> {
    /// Nothing is timed yet.
    pub fn new(share: &Rc<Share>) -> Self {
        Self {
            share: share.clone(),
            spare: Vec::new(),
            pending: Vec::new(),
            pending_now: 0,
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

    /// To be called right before a piece of work is submitted to a stream. `delayed`: an idle stream may
    /// wait for some microseconds before it, for the sake of a time that is exact. `None` if it cannot be
    /// timed: too much is, or the provider has no event for it. No error of the client's.
    pub fn start(&mut self, stream: &Stream, delayed: bool) -> Option<Started> {
        if self.pending_now >= self.pending_max {
            return None;
        }
        let event = self.event().ok()?;
        if delayed
            && let Some(kernels) = self.share.device().timing_kernels()
            && stream.is_idle() == Ok(true)
        {
            // Without it the time is an upper bound.
            let _ = kernels.delay(stream);
        }
        match stream.record(&event) {
            Ok(()) => Some(Started(event)),
            Err(_) => {
                self.spare.push(event);
                None
            }
        }
    }

    /// To be called right behind the submission.
    pub fn stop(&mut self, Started(start): Started, stream: &Stream, of: T) {
        let end = self.event().and_then(|end| stream.record(&end).map(|()| end));
        let Ok(end) = end else { return self.spare.push(start) };
        let is_clean = self.has_all_before(&start);
        let pending = Pending { of, start, end, is_clean };
        self.pending_now += 1;
        match self.pending.iter_mut().find(|(of, _)| *of == stream.raw()) {
            Some((_, queue)) => queue.push_back(pending),
            None => self.pending.push((stream.raw(), VecDeque::from([pending]))),
        }
    }

    /// Whether the device has all that was submitted before it reaches an event.
    fn has_all_before(&self, start: &Event) -> bool {
        let submitted = Instant::now();
        let is_ahead = || start.is_done() == Ok(false);
        match self.pending_max == PENDING_MANY_MAX {
            // Where all work is timed a wait for each would be too much.
            true => is_ahead(),
            false => stays_ahead(is_ahead, || submitted.elapsed()),
        }
    }

    /// A piece of work that was started and not submitted.
    pub fn cancel(&mut self, Started(start): Started) {
        self.spare.push(start);
    }

    /// True if something is timed whose time was not read.
    pub fn is_pending(&self) -> bool {
        self.pending_now > 0
    }

    /// Reads the times of what is done. The error is that of the work.
    pub fn read(&mut self, mut each: impl FnMut(Timed<T>)) -> CUresult {
        let known_cost = self.share.device().event_cost();
        let cost = known_cost.unwrap_or_default();
        for (_, queue) in &mut self.pending {
            while let Some(pending) = queue.front() {
                if !pending.end.is_done()? {
                    break;
                }
                let Some(Pending { of, start, end, is_clean }) = queue.pop_front() else { break };
                self.pending_now -= 1;
                if let Ok(ms) = start.elapsed_ms(&end) {
                    let device_ns = cost.take_off((f64::from(ms) * 1e6).max(0.0) as u64);
                    let is_clean = is_clean && known_cost.is_some();
                    each(Timed { of, device_ns, is_clean });
                }
                self.spare.extend([start, end]);
            }
        }
        self.pending.retain(|(_, queue)| !queue.is_empty());
        Ok(())
    }

    /// Gives the events back. What was timed is forgotten.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.pending_now = 0;
        self.spare.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_start_that_comes_before_its_work_has_arrived_is_not_clean() {
        // The device reaches the event after so long; each look takes 400 ns.
        let stays = |reached_ns: u64| {
            let now = Cell::new(0);
            let look = || {
                now.set(now.get() + 400);
                now.get() < reached_ns
            };
            stays_ahead(look, || Duration::from_nanos(now.get()))
        };
        assert!(!stays(0) && !stays(1500) && !stays(3900));
        assert!(stays(4800) && stays(1_000_000));
    }
}
