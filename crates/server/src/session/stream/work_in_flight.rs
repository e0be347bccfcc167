//! Work in flight: what a session has submitted and does not know to be done.
//!
//! A stream has a bounded number of operations at the provider, so that its hardware queue is never full. The
//! client's library keeps to fewer launches by itself ([`LAUNCHES_IN_STREAM_MAX`]): a thread that launches more waits
//! there, and what other threads post to other streams goes on. A session that waits here is that of a
//! client that does not keep to it, or of one with very many streams. While clients are kept apart by
//! [`scheduling`](crate::scheduling), their work in flight is also counted by predicted time, and
//! marked in small steps. Whether a client may submit at all is asked in
//! [`admission`](super::admission).

use crate::device::{Event, HARDWARE_QUEUES, SHALLOW_KERNELS, Share};
use crate::meter::ClientCounters;
use crate::scheduling::Member;
use crate::session::stream::slot::{Load, StreamMark, StreamSlot};
use crate::session::stream::table::Streams;
use channel::limits::LAUNCHES_IN_STREAM_MAX;
use cuda_api::CudaError;
use scheduling::Predicted;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most operations of a stream that were submitted and are not known to be done. A hardware queue of a GPU has 1024
/// entries, and a session submits up to a chunk at a time. A call of the driver that finds its queue full waits there,
/// with the context's lock.
pub const OPERATIONS_OF_STREAM_MAX: u32 = 920;

/// Fewest, however many streams share a hardware queue.
const OPERATIONS_OF_STREAM_MIN: u32 = 16;

/// How often the room of a stream is computed again, in launches of the stream.
const LAUNCHES_PER_ROOM: u32 = 64;

/// Most launches of a client that were submitted and are not known to be done: twice of what fills all of
/// a GPU's own queues.
pub const LAUNCHES_IN_FLIGHT_MAX: u32 = 65_536;

/// A stream is marked with an event each time that it got this many operations, or kernels of graphs, so that room
/// comes back in steps smaller than the whole, at the price of an event for each step.
pub(in crate::session) const OPERATIONS_PER_MARK: u32 = 128;

/// A stream is also marked each time that it got kernels which should take so long together, ns, as far as that is
/// known: others see that its work makes progress well before it would count as work that does not.
const TIME_PER_MARK_NS: u64 = 25_000_000;

/// Where work in flight is bounded by its time, a mark comes behind this part of the bound: what is
/// done is seen soon, and short kernels cost no event each.
const MARKS_IN_BOUND: u64 = 4;

// A client that keeps to its bound never waits at the gate for a stream of launches alone: those behind a mark may
// be done, and marks are operations too.
const _: () = assert!(
    LAUNCHES_IN_STREAM_MAX + OPERATIONS_PER_MARK + LAUNCHES_IN_STREAM_MAX / OPERATIONS_PER_MARK + 2
        <= OPERATIONS_OF_STREAM_MAX
);

/// Work in flight none of which is done for so long may wait for what has not been submitted yet.
const STALLED: Duration = Duration::from_millis(500);

/// A client's gate.
pub struct WorkInFlight {
    share: Rc<Share>,
    counters: Arc<ClientCounters>,
    /// Kernels.
    in_flight: u64,
    /// Launches of those kernels: a graph is one.
    launches: u32,
    /// Streams with such launches.
    streams: u32,
    /// Operations that a stream may have in flight.
    room: u32,
    spare: Vec<Event>,
    scheduling: Arc<Member>,
    /// Predicted time that may be in flight, if that is bounded, ns.
    bound_ns: Option<u64>,
    /// When some work was last seen to be done, or begun while there was none.
    moved: Instant,
    /// The client is known to have work.
    open: bool,
    /// Its next piece of work is waiting to be let through.
    asking: bool,
    /// Time that the provider's threads had spent for the client when it was last charged, ns, where
    /// the provider counts that.
    charged_ns: Option<u64>,
}

impl WorkInFlight {
    /// Nothing is in flight.
    pub fn new(
        share: &Rc<Share>,
        counters: &Arc<ClientCounters>,
        scheduling: &Arc<Member>,
    ) -> Self {
        Self {
            share: share.clone(),
            counters: counters.clone(),
            in_flight: 0,
            launches: 0,
            streams: 0,
            room: OPERATIONS_OF_STREAM_MAX,
            spare: Vec::new(),
            scheduling: scheduling.clone(),
            bound_ns: None,
            moved: Instant::now(),
            open: false,
            asking: false,
            charged_ns: None,
        }
    }

    /// Work of the client has come: others may have to make way. Nothing while no client has to ask.
    #[inline]
    pub fn arrived(&mut self) {
        if !self.open && !self.scheduling.is_free() {
            self.open();
        }
    }

    #[cold]
    fn open(&mut self) {
        self.open = true;
        self.charged_ns = self.device_time();
        self.scheduling.arrived();
    }

    /// True if the client is known to have work.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Its next piece of work is waiting to be let through: until it is, the client has work.
    pub fn begin_asking(&mut self) {
        self.asking = true;
    }

    /// It was let through, or given up.
    pub fn end_asking(&mut self) {
        self.asking = false;
    }

    /// All work of the client that was submitted is done, and none has come.
    pub fn close(&mut self) {
        if !self.asking && std::mem::take(&mut self.open) {
            self.charge(Predicted::default());
            self.scheduling.idle();
        }
    }

    /// Bounds what is in flight from now on, or does not.
    pub fn set_bound(&mut self, bound_ns: Option<u64>) {
        self.bound_ns = bound_ns;
    }

    /// Time that the provider's threads have spent for the client, where it counts that.
    fn device_time(&self) -> Option<u64> {
        let usage = self.share.device().usage_of(self.share.tenant()?)?;
        Some(usage.worker_ns)
    }

    /// Work that was predicted to take so long is done.
    fn charge(&mut self, predicted: Predicted) {
        if !self.open {
            return;
        }
        let spent = self.device_time();
        let device_ns = match (spent, self.charged_ns) {
            (Some(now), Some(before)) => now.saturating_sub(before),
            _ => predicted.mean_ns,
        };
        self.charged_ns = spent;
        if (predicted.mean_ns, device_ns) != (0, 0) {
            self.scheduling.completed(predicted, device_ns);
        }
    }

    /// True if another operation may be submitted at once to a stream that has so many in flight. Few launches
    /// while a call is to be made that waits for all that is in flight.
    #[inline]
    pub fn has_room(&self, of_stream: u32) -> bool {
        of_stream < self.room
            && (self.in_flight < u64::from(SHALLOW_KERNELS)
                || self.launches < LAUNCHES_IN_FLIGHT_MAX
                    && !self.share.device().sync().is_pending())
    }

    /// True if there is work in flight that makes no progress.
    pub fn is_stalled(&self) -> bool {
        self.in_flight > 0 && self.moved.elapsed() >= STALLED
    }

    /// When some of the work was last seen to be done.
    pub fn moved(&self) -> Instant {
        self.moved
    }

    /// Kernels that were submitted and are not known to be done.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Bounds a stream's operations so that those of all streams fit into the hardware queues.
    fn compute_room(&mut self) {
        // The software GPU has a queue for each stream.
        if !self.share.is_tenant() {
            self.room = room_of_stream(self.share.device().sync().streams_with_launches());
        }
    }

    fn publish(&self) {
        let kernels = u32::try_from(self.in_flight).unwrap_or(u32::MAX);
        self.share.in_flight().set_in_flight(kernels, self.launches, self.streams);
        self.counters.in_flight.set(self.in_flight);
    }

    /// Counts kernels that were submitted to a stream, and what they are predicted to take if the
    /// client had to ask.
    #[inline]
    pub fn submitted(
        &mut self,
        slot: &mut StreamSlot,
        kernels: u32,
        predicted: Option<Predicted>,
    ) -> Result<(), CudaError> {
        self.submitted_as(slot, (kernels, u32::from(kernels > 0)), predicted)
    }

    /// As [`WorkInFlight::submitted`], of kernels that the program launched one by one and that went as one graph: a call that
    /// waits for the context waits for each of them.
    pub fn submitted_together(
        &mut self,
        slot: &mut StreamSlot,
        kernels: u32,
    ) -> Result<(), CudaError> {
        self.submitted_as(slot, (kernels, kernels), None)
    }

    fn submitted_as(
        &mut self,
        slot: &mut StreamSlot,
        (kernels, launches): (u32, u32),
        predicted: Option<Predicted>,
    ) -> Result<(), CudaError> {
        if self.in_flight == 0 {
            self.moved = Instant::now();
        }
        self.in_flight += u64::from(kernels);
        self.launches = self.launches.saturating_add(launches);
        self.streams += u32::from(slot.load.launches == 0 && launches > 0);
        slot.load.launches = slot.load.launches.saturating_add(launches);
        if slot.load.launches.is_multiple_of(LAUNCHES_PER_ROOM) {
            self.compute_room();
        }
        if let Some(predicted) = predicted {
            self.scheduling.submitted(predicted);
            slot.load.unmarked_work = slot.load.unmarked_work + predicted;
        }
        self.publish();
        slot.load.unmarked += u64::from(kernels);
        slot.load.unmarked_launches = slot.load.unmarked_launches.saturating_add(launches);
        slot.submitted_kernels += u64::from(kernels);
        slot.kernels_since_fence = slot.kernels_since_fence.saturating_add(kernels);
        let step_ns = self.bound_ns.map_or(u64::MAX, |bound| bound / MARKS_IN_BOUND);
        let is_due = slot.load.unmarked >= u64::from(OPERATIONS_PER_MARK)
            || slot.stream.unmarked() >= OPERATIONS_PER_MARK
            || slot.load.unmarked_ns >= TIME_PER_MARK_NS
            || slot.load.unmarked_work.mean_ns > 0 && slot.load.unmarked_work.mean_ns >= step_ns;
        if is_due { self.mark(slot) } else { Ok(()) }
    }

    /// Counts a copy or a fill that was submitted to a stream, if the client had to ask.
    #[inline]
    pub fn submitted_copy(
        &mut self,
        slot: &mut StreamSlot,
        predicted: Option<Predicted>,
    ) -> Result<(), CudaError> {
        if predicted.is_some() { self.submitted(slot, 0, predicted) } else { Ok(()) }
    }

    /// Marks a stream that got as many operations as a step has, and sees which of its earlier ones are done. Launches
    /// are marked as they are counted; copies, events and waits here. An error is the next operation's as well.
    pub fn mark_step(&mut self, slot: &mut StreamSlot) {
        if slot.stream.unmarked() >= OPERATIONS_PER_MARK {
            let _ = self.mark(slot).and_then(|()| self.retire(slot));
            self.publish();
        }
    }

    /// Looks which kernels are done. Marks are put behind all kernels that have none, so that asking again
    /// and again comes to an end.
    pub fn make_room(&mut self, streams: &mut Streams) -> Result<(), CudaError> {
        let mut result = Ok(());
        streams.busy_slots(|slot| {
            if slot.stream.unmarked() > 0 && result.is_ok() {
                result = self.mark(slot);
            }
            if result.is_ok() {
                result = self.retire(slot);
            }
        });
        self.publish();
        self.compute_room();
        result
    }

    /// Looks which kernels are done, for those who wait for that; nothing is submitted. An error is the
    /// work's: others see it.
    pub fn see_progress(&mut self, streams: &mut Streams) {
        streams.busy_slots(|slot| {
            let _ = self.retire(slot);
        });
        self.publish();
    }

    /// A stream was seen idle: all of its kernels are done.
    pub fn stream_idle(&mut self, slot: &mut StreamSlot) {
        self.moved = Instant::now();
        slot.load.unmarked_ns = 0;
        slot.stream.all_passed();
        let mut kernels = std::mem::take(&mut slot.load.unmarked);
        let mut launches = std::mem::take(&mut slot.load.unmarked_launches);
        let had_launches = std::mem::take(&mut slot.load.launches) > 0;
        self.streams = self.streams.saturating_sub(had_launches.into());
        let mut predicted = std::mem::take(&mut slot.load.unmarked_work);
        for mark in slot.load.marks.drain(..) {
            kernels += mark.kernels;
            launches += mark.launches;
            predicted = predicted + mark.predicted;
            self.spare.push(mark.event);
        }
        self.in_flight = self.in_flight.saturating_sub(kernels);
        self.launches = self.launches.saturating_sub(launches);
        self.charge(predicted);
        self.publish();
    }

    /// Gives the events back. The streams must be gone.
    pub fn clear(&mut self) {
        self.close();
        self.spare.clear();
        (self.in_flight, self.launches, self.streams) = (0, 0, 0);
        self.publish();
    }

    fn mark(&mut self, slot: &mut StreamSlot) -> Result<(), CudaError> {
        let event = match self.spare.pop() {
            Some(event) => event,
            None => Event::for_order(&self.share)?,
        };
        slot.stream.record(&event)?;
        let Load { unmarked, unmarked_launches, unmarked_work, unmarked_ns, marks, .. } =
            &mut slot.load;
        *unmarked_ns = 0;
        let launches = std::mem::take(unmarked_launches);
        let (kernels, predicted) = (std::mem::take(unmarked), std::mem::take(unmarked_work));
        let operations = slot.stream.take_unmarked();
        marks.push_back(StreamMark { event, kernels, launches, operations, predicted });
        Ok(())
    }

    fn retire(&mut self, slot: &mut StreamSlot) -> Result<(), CudaError> {
        while let Some(mark) = slot.load.marks.front() {
            if !mark.event.is_done()? {
                break;
            }
            self.share.in_flight().makes_progress(slot.stream.raw());
            self.moved = Instant::now();
            if let Some(mark) = slot.load.marks.pop_front() {
                self.in_flight = self.in_flight.saturating_sub(mark.kernels);
                self.launches = self.launches.saturating_sub(mark.launches);
                let had_launches = slot.load.launches > 0;
                slot.load.launches = slot.load.launches.saturating_sub(mark.launches);
                let ended = had_launches && slot.load.launches == 0;
                self.streams = self.streams.saturating_sub(ended.into());
                slot.stream.passed(mark.operations);
                self.spare.push(mark.event);
                self.charge(mark.predicted);
            }
        }
        Ok(())
    }
}

/// Operations that a stream may have in flight if so many streams of all clients have some.
fn room_of_stream(streams: u32) -> u32 {
    let of_queue = streams.div_ceil(HARDWARE_QUEUES as u32).max(1);
    (OPERATIONS_OF_STREAM_MAX / of_queue).max(OPERATIONS_OF_STREAM_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_of_all_streams_fit_into_the_hardware_queues() {
        let queues = HARDWARE_QUEUES as u32;
        assert_eq!(room_of_stream(0), OPERATIONS_OF_STREAM_MAX);
        assert_eq!(room_of_stream(queues), OPERATIONS_OF_STREAM_MAX);
        assert_eq!(room_of_stream(queues + 1), OPERATIONS_OF_STREAM_MAX / 2);
        assert_eq!(room_of_stream(u32::MAX), OPERATIONS_OF_STREAM_MIN);
        for streams in 1..=queues * (OPERATIONS_OF_STREAM_MAX / OPERATIONS_OF_STREAM_MIN) {
            let of_queue = streams.div_ceil(queues) * room_of_stream(streams);
            assert!(of_queue <= OPERATIONS_OF_STREAM_MAX, "{streams} streams");
        }
    }
}
