//! The gate: the one place between taking a launch from the ring and submitting it.
//!
//! Every policy about *when* a client's work may go to the device belongs here. There is one at
//! present: a client has a bounded number of kernels at the provider, so that its queue there
//! has an end and its ring pushes back, as a GPU's own queue does. All else passes as it comes.

use super::meter::ClientCounters;
use super::streams::{Slot, Streams};
use crate::device::{Event, SHALLOW_KERNELS, Share};
use cuda_api::CudaError;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most kernels of a client that were submitted and are not known to be done: the depth of a
/// GPU's own queue under NVIDIA's driver.
pub const KERNELS_IN_FLIGHT_MAX: u32 = 1024;

/// A stream is marked with an event each time that it got this many kernels, so that room comes
/// back in steps smaller than the whole, at the price of an event for 256 launches.
const KERNELS_PER_MARK: u32 = 256;

const _: () = assert!(KERNELS_PER_MARK < KERNELS_IN_FLIGHT_MAX);

/// An event behind some kernels of one stream.
struct Mark {
    event: Event,
    kernels: u32,
}

/// What the gate keeps with each stream.
#[derive(Default)]
pub struct Load {
    unmarked: u32,
    marks: VecDeque<Mark>,
}

/// A client's gate.
pub struct Gate {
    share: Rc<Share>,
    counters: Arc<ClientCounters>,
    in_flight: u32,
    spare: Vec<Event>,
}

impl Gate {
    /// Nothing is in flight.
    pub fn new(share: &Rc<Share>, counters: &Arc<ClientCounters>) -> Self {
        let (share, counters) = (share.clone(), counters.clone());
        Self { share, counters, in_flight: 0, spare: Vec::new() }
    }

    /// True if another kernel may be submitted at once. Few while a call is to be made that waits for
    /// all that is in flight.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.in_flight < SHALLOW_KERNELS
            || self.in_flight < KERNELS_IN_FLIGHT_MAX && !self.share.device().sync().is_pending()
    }

    fn publish(&self) {
        self.share.in_flight().store(self.in_flight, Ordering::Relaxed);
        self.counters.in_flight.set(self.in_flight.into());
    }

    /// Counts kernels that were submitted to a stream.
    #[inline]
    pub fn submitted(&mut self, slot: &mut Slot, kernels: u32) -> Result<(), CudaError> {
        self.in_flight += kernels;
        self.publish();
        slot.load.unmarked += kernels;
        slot.kernels_since_fence = slot.kernels_since_fence.saturating_add(kernels);
        if slot.load.unmarked >= KERNELS_PER_MARK { self.mark(slot) } else { Ok(()) }
    }

    /// Looks which kernels are done; true if there is room now. Marks are put behind all
    /// kernels that have none, so that asking again and again comes to an end.
    pub fn make_room(&mut self, streams: &mut Streams) -> Result<bool, CudaError> {
        let mut result = Ok(());
        streams.busy_slots(|slot| {
            if slot.load.unmarked > 0 && result.is_ok() {
                result = self.mark(slot);
            }
            if result.is_ok() {
                result = self.retire(&mut slot.load.marks);
            }
        });
        self.publish();
        result.map(|()| self.has_room())
    }

    /// A stream was seen idle: all of its kernels are done.
    pub fn stream_idle(&mut self, slot: &mut Slot) {
        let mut kernels = std::mem::take(&mut slot.load.unmarked);
        for mark in slot.load.marks.drain(..) {
            kernels += mark.kernels;
            self.spare.push(mark.event);
        }
        self.in_flight = self.in_flight.saturating_sub(kernels);
        self.publish();
    }

    /// Gives the events back. The streams must be gone.
    pub fn clear(&mut self) {
        self.spare.clear();
        self.in_flight = 0;
        self.publish();
    }

    fn mark(&mut self, slot: &mut Slot) -> Result<(), CudaError> {
        let event = match self.spare.pop() {
            Some(event) => event,
            None => Event::for_order(&self.share)?,
        };
        slot.stream.record(&event)?;
        slot.load.marks.push_back(Mark { event, kernels: slot.load.unmarked });
        slot.load.unmarked = 0;
        Ok(())
    }

    fn retire(&mut self, marks: &mut VecDeque<Mark>) -> Result<(), CudaError> {
        while let Some(mark) = marks.front() {
            if !mark.event.is_done()? {
                break;
            }
            if let Some(mark) = marks.pop_front() {
                self.in_flight = self.in_flight.saturating_sub(mark.kernels);
                self.spare.push(mark.event);
            }
        }
        Ok(())
    }
}
