//! Work ahead: for how long a stream has something to do, by events behind what was submitted to it.
//!
//! A lower bound: what went without an event is not counted, nor what other streams and clients have: that
//! may wait for what comes in this one.

use crate::device::{Event, Share, Stream};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// What a kernel takes at least, ns, of which nothing is known.
const KERNEL_NS_MIN: u64 = 1500;
/// Most events at a time.
const EVENTS_MAX: usize = 64;

/// One session's.
#[derive(Default)]
pub struct Ahead {
    /// The stream of the events.
    stream: u64,
    /// Events in their order, and what is predicted of the work before each, ns.
    marks: VecDeque<(Event, u64)>,
    spare: Vec<Event>,
}

impl Ahead {
    /// Kernels were submitted to a stream, of that number, that are predicted to take so long, or more where
    /// nothing is known.
    pub fn submitted(
        &mut self,
        share: &Rc<Share>,
        (number, stream): (u64, &Stream),
        kernels: u32,
        ns: u64,
    ) {
        if number != self.stream {
            self.stream = number;
            self.spare.extend(self.marks.drain(..).map(|(event, _)| event));
        }
        if self.marks.len() >= EVENTS_MAX {
            self.take_done();
        }
        if self.marks.len() >= EVENTS_MAX {
            return;
        }
        let event = self.spare.pop().map_or_else(|| Event::for_order(share), Ok);
        if let Ok(event) = event
            && stream.record(&event).is_ok()
        {
            let ns = ns.max(u64::from(kernels) * KERNEL_NS_MIN);
            self.marks.push_back((event, ns));
        }
    }

    /// True if a stream is known to have work for that long. What is in flight may be nearly done.
    pub fn lasts(&mut self, stream: u64, time: Duration) -> bool {
        if stream != self.stream {
            return false;
        }
        self.take_done();
        let ns: u64 = self.marks.iter().skip(1).map(|(_, ns)| ns).sum();
        u128::from(ns) >= time.as_nanos()
    }

    fn take_done(&mut self) {
        // An error is the work's: others see it.
        while let Some((event, _)) = self.marks.front()
            && event.is_done().unwrap_or(false)
        {
            self.spare.extend(self.marks.pop_front().map(|(event, _)| event));
        }
    }

    /// Gives the events back.
    pub fn clear(&mut self) {
        self.marks.clear();
        self.spare.clear();
    }
}
