//! Requests without a reply: launches, copies, fences, streams and events.

use crate::device::{CheckedRange, LaunchShape};
use crate::meter::{Direction, Shape, Subject};
use crate::session::memory::Memory;
use crate::session::memory::arrays::Arrays;
use crate::session::module::table::LoadedFunction;
use crate::session::stream::callbacks::Callbacks;
use crate::session::stream::code_in_flight::Code;
use crate::session::stream::copies;
use crate::session::stream::events::Events;
use crate::session::stream::pending::Deferral;
use crate::session::stream::slot::StreamSlot;
use crate::session::stream::submission::Submission;
use crate::session::stream::table::{Presence, Streams, Work};
use channel::message::{TraceEntry, trace_kind};
use channel::request::*;
use cuda_api::{CUresult, CUstream, CudaError};
use scheduling::Predicted;
use std::sync::Arc;
use std::time::Instant;

/// How a launch's request wants it, but for its priority. CUDA_ERROR_INVALID_VALUE for unknown flags.
pub(in crate::session) fn launch_shape(
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    flags: u32,
) -> Result<LaunchShape, CudaError> {
    if flags & !LAUNCH_FLAGS != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(LaunchShape {
        grid,
        block,
        shared_bytes,
        cooperative: flags & LAUNCH_COOPERATIVE != 0,
        programmatic: flags & LAUNCH_PROGRAMMATIC != 0,
        remote_domain: flags & LAUNCH_REMOTE_DOMAIN != 0,
        cluster: cluster_of(flags),
        priority: None,
    })
}

/// What a trace says of a launch.
fn subject_of_launch(
    client: u32,
    slot: &StreamSlot,
    shape: &LaunchShape,
    name: Arc<str>,
) -> Subject {
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (shape.grid, shape.block);
    let entry = TraceEntry {
        kind: trace_kind::KERNEL,
        client,
        stream: slot.index(),
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        ..TraceEntry::default()
    };
    Subject { entry, name: Some(name) }
}

/// What a trace says of a copy.
pub(in crate::session) fn subject_of_copy(
    client: u32,
    slot: &StreamSlot,
    direction: Direction,
    bytes: u64,
) -> Subject {
    let kind = match direction {
        Direction::In => trace_kind::COPY_IN,
        Direction::Out => trace_kind::COPY_OUT,
        Direction::Within => trace_kind::COPY_WITHIN,
    };
    let entry = TraceEntry { kind, client, stream: slot.index(), bytes, ..TraceEntry::default() };
    Subject { entry, name: None }
}

impl Submission {
    #[inline]
    pub(in crate::session) fn launch(&mut self, request: LaunchKernel<'_>) -> CUresult {
        let LaunchKernel { grid, block, shared_bytes, flags, .. } = request;
        let shape = LaunchShape {
            priority: priority_of(flags).and_then(|levels| self.streams.priority_of_launch(levels)),
            ..launch_shape(grid, block, shared_bytes, flags)?
        };
        self.wait_for_room(request.stream.0 as u64)?;
        let predicted = self.predict_launch(request.function.0 as u64, &shape)?;
        let mut free_sms = 0;
        if let Some(predicted) = predicted {
            free_sms = self.pass(predicted)?;
            if self.modules.loaded_mut(request.function.0 as u64)?.wants_all_sms {
                free_sms = 0;
            }
            self.streams.keep_free(request.stream.0 as u64, free_sms)?;
        }
        match self.submit_launch(&request, shape, predicted) {
            // The SMs that batch work keeps free are the operator's request, of which the program knows
            // nothing: its clusters come first.
            Err(CudaError::INVALID_CLUSTER_SIZE) if free_sms > 0 => {
                self.modules.loaded_mut(request.function.0 as u64)?.wants_all_sms = true;
                self.streams.keep_free(request.stream.0 as u64, 0)?;
                self.submit_launch(&request, shape, predicted)
            }
            launched => launched,
        }
    }

    /// Submits a launch that was let through.
    fn submit_launch(
        &mut self,
        request: &LaunchKernel<'_>,
        shape: LaunchShape,
        predicted: Option<Predicted>,
    ) -> CUresult {
        let LoadedFunction { function, may_print, meter, launches, .. } =
            self.modules.loaded_mut(request.function.0 as u64)?;
        if *may_print {
            self.printing.begin();
        }
        let slot = self.streams.enter(request.stream.0 as u64, Work::Ordered)?;
        let is_counting = self.meter.is_counting();
        let sample = match is_counting {
            // An event behind a kernel holds up its hardware queue until the kernel has ended.
            true => self
                .meter
                .due(meter.before(self.share.device().calls(), function, &shape))
                .filter(|_| !self.place.shares_queues()),
            false => None,
        };
        let subject = || {
            let name = meter.kernel().text().clone();
            subject_of_launch(self.link.identity.id, slot, &shape, name)
        };
        let timing = self.meter.begin(&slot.stream, sample, subject);
        let launched = slot.stream.launch(function, shape, request.parameters);
        self.meter.end(timing, &slot.stream, launched.is_ok());
        launched?;
        if is_counting {
            let launched = meter.submitted();
            slot.load.unmarked_ns = slot.load.unmarked_ns.saturating_add(launched.device_ns);
            slot.counters.launched(launched);
        }
        if predicted.is_some() {
            self.meter.went_before(request.function.0 as u64, &Shape::of(&shape));
        }
        slot.code_in_flight.launched(Code::Kernel(request.function.0 as u64), *launches);
        *launches = launches.saturating_add(1);
        self.work.submitted(slot, 1, predicted)
    }

    /// Waits until another operation may be submitted to a stream.
    #[inline]
    pub(in crate::session) fn wait_for_room(&mut self, stream: u64) -> CUresult {
        if self.has_room(stream) { Ok(()) } else { self.wait_at_gate(stream) }
    }

    /// As [`Submission::wait_for_room`], before an operation that is no launch.
    pub(in crate::session) fn wait_for_step(&mut self, stream: u64) -> CUresult {
        if let Some(slot) = self.streams.slot_mut(stream) {
            self.work.mark_step(slot);
        }
        self.wait_for_room(stream)
    }

    #[cold]
    fn wait_at_gate(&mut self, stream: u64) -> CUresult {
        if self.defers {
            return self.defer(Deferral::Room);
        }
        let since = Instant::now();
        let waited = self.wait_until(|submission| {
            submission.make_room()?;
            Ok(submission.has_room(stream))
        });
        self.link.counters.was_paused(since);
        waited
    }

    pub(in crate::session) fn copy_in(
        &mut self,
        request: HostToDevice,
        memory: &Memory,
    ) -> CUresult {
        let to = memory.device_range(request.destination.0, request.bytes)?;
        let from = memory.host_range(request.source, request.bytes)?;
        self.copy(request.stream, (to, from), Direction::In)
    }

    pub(in crate::session) fn copy_out(
        &mut self,
        request: DeviceToHost,
        memory: &Memory,
    ) -> CUresult {
        let to = memory.host_range(request.destination, request.bytes)?;
        let from = memory.device_range(request.source.0, request.bytes)?;
        self.copy(request.stream, (to, from), Direction::Out)
    }

    /// Copies between host and device: in slices while the client is held to a bound, so that a long
    /// copy does not hold up another client's short one. Each slice is let through by itself.
    fn copy(
        &mut self,
        stream: CUstream,
        (to, from): (CheckedRange, CheckedRange),
        direction: Direction,
    ) -> CUresult {
        let (bytes, word) = (to.bytes(), stream.0 as u64);
        if bytes == 0 {
            return self.streams.enter(word, Work::Ordered).map(drop);
        }
        let slice_bytes = self.link.scheduling.slice_bytes();
        let mut done = 0;
        while done < bytes {
            // A part has gone: the rest follows it.
            self.defers &= done == 0;
            let slice = slice_bytes.map_or(bytes, |slice| slice.min(bytes - done));
            self.wait_for_step(word)?;
            let predicted = self.pass_copy(direction, slice)?;
            let slot = self.streams.enter(word, Work::Ordered)?;
            let (to, from) = (to.part(done, slice), from.part(done, slice));
            let subject = || subject_of_copy(self.link.identity.id, slot, direction, slice);
            let timing = self.meter.begin(&slot.stream, None, subject);
            let copied = match direction {
                Direction::Out => slot.stream.copy_out(to, from),
                _ => slot.stream.copy_in(to, from),
            };
            self.meter.end(timing, &slot.stream, copied.is_ok());
            copied?;
            self.work.submitted_copy(slot, predicted)?;
            done += slice;
        }
        let slot = self.streams.enter(word, Work::Mark)?;
        slot.counters.copied(direction, bytes);
        Ok(())
    }

    pub(in crate::session) fn notify(
        &mut self,
        request: Notify,
        callbacks: &Callbacks,
    ) -> CUresult {
        let stream = request.stream.0 as u64;
        let index = Streams::slot_of(stream)?;
        // The client may wait for the last work of a stream that it has destroyed.
        let slot = match self.streams.presence(stream) {
            Presence::Here => self.streams.enter(stream, Work::Mark)?,
            Presence::Leaving => self.streams.leaving(stream)?,
            Presence::Gone => {
                let word = self.region.completion_word(index).ok_or(CudaError::INVALID_HANDLE)?;
                channel::wait::wake(word);
                return Ok(());
            }
        };
        slot.counters.waits.add(1);
        // Such a provider has woken the client where it wrote the word.
        if self.share.is_tenant() {
            return Ok(());
        }
        slot.stream.call_host(callbacks.bell(index))
    }

    pub(in crate::session) fn host_function(
        &mut self,
        request: HostFunc,
        memory: &Memory,
        callbacks: &Callbacks,
    ) -> CUresult {
        let word = self.region.host_call_slot(request.slot).ok_or(CudaError::INVALID_VALUE)?;
        let word = memory.region_word(word.address());
        self.wait_for_step(request.stream.0 as u64)?;
        let slot = self.streams.enter(request.stream.0 as u64, Work::Ordered)?;
        let (call, done) = callbacks.prepare(request.slot, request.ticket)?;
        slot.stream.call_host(call)?;
        slot.stream.wait_word(word, done)
    }

    pub(in crate::session) fn create_stream(&mut self, request: CreateStream) -> CUresult {
        self.make_room_for_stream();
        let CreateStream { stream, flags, priority } = request;
        self.streams.create(stream.0 as u64, flags, priority, None, 0)
    }

    pub(in crate::session) fn create_green_stream(
        &mut self,
        request: CreateGreenStream,
    ) -> CUresult {
        self.make_room_for_stream();
        let CreateGreenStream { stream, flags, priority, sm_first, sms, default } = request;
        let end = sm_first.checked_add(sms).ok_or(CudaError::INVALID_VALUE)?;
        let sms = Some(sm_first..end);
        self.streams.create(stream.0 as u64, flags, priority, sms, default.0 as u64)
    }

    /// Room comes back from streams that were destroyed only when the session looks.
    fn make_room_for_stream(&mut self) {
        if !self.streams.has_room() {
            self.look();
        }
    }

    pub(in crate::session) fn record_event(
        &mut self,
        request: RecordEvent,
        events: &Events,
        memory: &Memory,
    ) -> CUresult {
        let recorded = self.record(&request, events, memory);
        if recorded.is_err() && self.deferral.is_none() && request.value != RECORD_UNMARKED {
            // An event that could not be made is no reason for its fence to be missing.
            let fence = Fence { stream: request.stream, value: request.value };
            let _ = self.fence(fence, memory);
        }
        recorded
    }

    fn record(&mut self, request: &RecordEvent, events: &Events, memory: &Memory) -> CUresult {
        self.wait_for_step(request.stream.0 as u64)?;
        let event = events.get(request.event)?;
        let word = memory.completion_word(Streams::slot_of(request.stream.0 as u64)?)?;
        let slot = self.streams.enter(request.stream.0 as u64, Work::Ordered)?;
        slot.stream.record(event)?;
        if request.value == RECORD_UNMARKED {
            return Ok(());
        }
        slot.fence(word, request.value, self.place.shares_queues(), &self.region)
    }

    pub(in crate::session) fn wait_event(
        &mut self,
        request: WaitEvent,
        events: &Events,
    ) -> CUresult {
        self.wait_for_step(request.stream.0 as u64)?;
        let event = events.get(request.event)?;
        let slot = self.streams.enter(request.stream.0 as u64, Work::Ordered)?;
        slot.stream.wait(event)
    }

    #[inline]
    pub(in crate::session) fn fence(&mut self, request: Fence, memory: &Memory) -> CUresult {
        let fenced = self.put_fence(request, memory);
        if fenced.is_err() {
            self.streams.pass_without_stream(&self.region, request.stream, request.value);
        }
        fenced
    }

    fn put_fence(&mut self, request: Fence, memory: &Memory) -> CUresult {
        let word = memory.completion_word(Streams::slot_of(request.stream.0 as u64)?)?;
        self.requests_until_look = self.requests_until_look.min(self.requests_per_look());
        let slot = self.streams.enter(request.stream.0 as u64, Work::Mark)?;
        slot.counters.waits.add(1);
        slot.fence(word, request.value, self.place.shares_queues(), &self.region)
    }

    pub(in crate::session) fn copy_3d(
        &mut self,
        request: Copy3D,
        memory: &Memory,
        arrays: &Arrays,
    ) -> CUresult {
        let Copy3DParams { destination, source, extent } = request.copy;
        if extent.contains(&0) {
            copies::side(memory, arrays, &source, extent)?;
            copies::side(memory, arrays, &destination, extent)?;
            return self.streams.enter(request.stream.0 as u64, Work::Ordered).map(drop);
        }
        let is_host = |end| matches!(end, &Copy3DEnd::Host { .. });
        let direction = match (is_host(&source), is_host(&destination)) {
            (true, false) => Direction::In,
            (false, true) => Direction::Out,
            _ => Direction::Within,
        };
        let bytes = extent.iter().fold(1u64, |bytes, extent| bytes.saturating_mul(*extent));
        self.wait_for_step(request.stream.0 as u64)?;
        let predicted = self.pass_copy(direction, bytes)?;
        let (from, _) = copies::side(memory, arrays, &source, extent)?;
        let (to, _) = copies::side(memory, arrays, &destination, extent)?;
        let slot = self.streams.enter(request.stream.0 as u64, Work::Ordered)?;
        let subject = || subject_of_copy(self.link.identity.id, slot, direction, bytes);
        let timing = self.meter.begin(&slot.stream, None, subject);
        let copied = slot.stream.copy_3d(to, from, extent);
        self.meter.end(timing, &slot.stream, copied.is_ok());
        copied?;
        slot.counters.copied(direction, bytes);
        self.work.submitted_copy(slot, predicted)
    }
}
