//! Work in flight across servers: read back from the ring of the old one, sorted, posted to the new.

use crate::memory::address::Surroundings;
use crate::memory::known_variables::{KnownVariables, Moved};
use crate::program::Client;
use crate::program::launch::posting::Posting;
use crate::program::launch::submission::{
    Event, ModuleSource, Submission, function_handle, wire_event, wire_module, wire_stream,
};
use crate::program::recovery::lost_at_work::{LOST_AT_WORK_MAX, LostAtWork};
use crate::replay::effects::Provenance;
use crate::stderr::say;
use channel::payload::Payload;
use channel::region::{Region, SessionEnd};
use channel::request::{
    Copy3D, CreateEvent, CreateStream, DestroyEvent, DestroyStream, DeviceToHost, Fence,
    GraphLaunch, HostFunc, HostReference, HostToDevice, LaunchKernel, RecordEvent, Repeats,
    Request, WaitEvent,
};
use core::ops::Range;
use cuda_api::constants::{event_flags, stream_flags};
use cuda_api::handle::Handle;
use cuda_api::{CUresult, CUstream, CudaError, number};
use recovery::{Access, Again, InFlight, Mark, Posted, ReplayPolicy};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What became of work in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// So many operations were posted again; nothing is lost.
    Repeated(usize),
    /// Work is lost; that is reported once.
    Lost,
}

impl Submission {
    /// Reads back what is in flight: `old` is the region of the lost connection, which nothing
    /// writes any more.
    pub(crate) fn take_in_flight(&mut self, old: &Region) -> InFlight {
        // A server that ends as planned finishes what it has taken, fence or not.
        let finished = old.session_end() == Some(SessionEnd::HandedOver);
        let waited = self.streams.waited_values();
        let waited =
            |mark: Mark| waited.get(mark.slot as usize).is_some_and(|value| *value >= mark.value);
        let (journal, streams) = (&mut self.journal, &mut self.streams);
        streams.unfollowed().for_each(|mark| journal.note_unwaited(mark));
        // Of what repeats that part alone its author has said nothing.
        if self.replay == ReplayPolicy::Always {
            streams.splits().for_each(|mark| journal.note_unwaited(mark));
        }
        if !streams.know_their_order() {
            journal.note_incomplete();
        }
        InFlight::take(journal, old, finished, |mark| streams.has_passed(mark, old), waited)
    }
}

impl Posting<'_> {
    /// Posts operations once more, in a ring that is new, with their streams and events, which the
    /// program may have destroyed meanwhile. Fences follow.
    fn post_again(&mut self, operations: &[&Posted], moved: &[Moved]) -> CUresult {
        for posted in operations {
            self.streams.repeat(posted.mark);
        }
        let region = self.connection().region();
        for mark in self.streams.completed() {
            if let Some(word) = region.completion_word(mark.slot) {
                word.store(mark.value as u32);
            }
        }
        let mut streams = BTreeSet::new();
        // Events that the program has destroyed, whose places may have others: stand-ins for them.
        let mut events: BTreeMap<u64, Handle> = BTreeMap::new();
        for posted in operations {
            let stream = self.streams.handle_in(posted.mark.slot);
            if posted.mark.slot != 0 && self.streams.get(stream).is_none() {
                streams.insert((posted.mark.slot, stream.to_word()));
            }
            if let Some(event) = event_of(posted).map(|at| posted.words[at])
                && let Some(handle) = Handle::from_word(event)
                && self.events.get(handle).is_none()
                && !events.contains_key(&event)
            {
                let stand_in = Event::new(0, event_flags::DISABLE_TIMING);
                events.insert(event, self.events.insert(stand_in)?);
            }
        }
        for (slot, word) in &streams {
            let flags = match self.streams.is_blocking(*slot) {
                true => stream_flags::DEFAULT,
                false => stream_flags::NON_BLOCKING,
            };
            self.make_room()?;
            self.push(&CreateStream { stream: CUstream(*word as usize), flags, priority: 0 })?;
        }
        let result = self.post_with_stand_ins(operations, &events, moved);
        for event in events.into_values() {
            self.events.remove(event);
        }
        result?;
        self.streams.all_is_posted();
        self.fence_all()?;
        for (_, word) in &streams {
            self.make_room()?;
            self.push(&DestroyStream { stream: CUstream(*word as usize) })?;
        }
        Ok(())
    }

    fn post_with_stand_ins(
        &mut self,
        operations: &[&Posted],
        events: &BTreeMap<u64, Handle>,
        moved: &[Moved],
    ) -> CUresult {
        for event in events.values().copied().map(wire_event) {
            self.make_room()?;
            self.push(&CreateEvent { event, flags: event_flags::DISABLE_TIMING })?;
        }
        for posted in operations {
            let mut words = Cow::Borrowed(&posted.words);
            if let Some(at) = event_of(posted)
                && let Some(stand_in) = events.get(&posted.words[at])
            {
                words.to_mut()[at] = stand_in.to_word();
            }
            if has_addresses(posted.opcode) && !moved.is_empty() {
                Moved::apply(moved, words.to_mut());
            }
            self.make_room()?;
            self.push_words(posted.opcode, &words)?;
            self.note(posted.mark);
            self.streams.posted_again(posted.mark);
        }
        // Those who wait for it in a stream still do.
        for event in events.values().copied().map(wire_event) {
            self.make_room()?;
            self.push(&DestroyEvent { event })?;
        }
        Ok(())
    }

    /// Puts a fence behind all that was posted to each stream.
    fn fence_all(&mut self) -> CUresult {
        for mark in self.streams.unfenced() {
            let stream = self.streams.handle_in(mark.slot);
            self.make_room()?;
            self.push(&Fence { stream: wire_stream(stream), value: mark.value as u32 })?;
            self.streams.fenced(mark);
        }
        Ok(())
    }
}

/// True for operations whose records may have an address of a module's variable.
fn has_addresses(opcode: u16) -> bool {
    !matches!(opcode, RecordEvent::OPCODE | WaitEvent::OPCODE | GraphLaunch::OPCODE)
}

/// Which word of its record is the event that an operation records or waits for.
fn event_of(posted: &Posted) -> Option<usize> {
    let at = match posted.opcode {
        RecordEvent::OPCODE => 0,
        WaitEvent::OPCODE => 1,
        _ => return None,
    };
    (at < posted.words.len()).then_some(at)
}

impl Submission {
    /// Counts a server that was lost with that operation as the first one that was not done, and says so once
    /// that is unlikely to be chance.
    pub(in crate::program) fn lost_behind(&mut self, first: Option<Mark>) {
        let servers = self.lost_at_work.count(first);
        if servers > LOST_AT_WORK_MAX / 2 {
            say(format_args!(
                "{servers} servers were lost one after the other at the same work of this program; it is repeated \
                 until {LOST_AT_WORK_MAX} were (server.log of the daemon says how they ended)"
            ));
        }
    }
}

impl Client {
    /// True if servers are lost again and again at what this program has in flight: it may well be the reason.
    fn is_repeated_in_vain(&self) -> bool {
        let mut state = self.state();
        let is_in_vain = state.lost_at_work.servers() >= LOST_AT_WORK_MAX;
        if is_in_vain {
            state.lost_at_work = LostAtWork::default();
        }
        is_in_vain
    }

    /// Goes on with what was in flight, on a connection to which all that the program has was
    /// declared. No other thread posts meanwhile. `known` has the variables of the provider's as they
    /// were at the server that was lost, and `error` reports to the program work that cannot be repeated.
    ///
    /// # Errors
    /// The new server is lost too, in which case `in_flight` is noted in its journal as far as it
    /// was posted.
    pub(in crate::program) fn replay(
        &self,
        in_flight: &mut InFlight,
        known: Option<&KnownVariables>,
        error: CudaError,
    ) -> Result<Outcome, CudaError> {
        // Other devices read and write this one's memory, and wait for its streams, in an order that
        // this journal does not know. What takes time to find out is asked for only where it decides.
        let policy = self.state().replay;
        let facts = |posted: &Posted| match policy {
            ReplayPolicy::Auto => (self.again(posted), self.accesses_beside_others(posted)),
            ReplayPolicy::Always | ReplayPolicy::Never => (self.again(posted), Access::default()),
        };
        if self.is_repeated_in_vain() || !in_flight.may_repeat(policy, facts) {
            let region = self.connection().region();
            let mut state = self.posting()?;
            for mark in state.streams.lose_all() {
                if let Some(word) = region.completion_word(mark.slot) {
                    word.store(mark.value as u32);
                }
            }
            region.note_async_error(error);
            state.push(&Repeats { operations: 0, kernels: 0, lost: 1 })?;
            return Ok(Outcome::Lost);
        }
        in_flight.keep_done(&mut self.state().journal);
        let moved =
            known.and_then(|was| Some(was.moves(&self.known_variables()?))).unwrap_or_default();
        // What a host function that was run stood behind is done, and it is run once.
        let is_due = |posted: &&Posted| match HostFunc::from_words(&posted.words) {
            Ok(request) if posted.opcode == HostFunc::OPCODE => {
                self.expect_host_function(posted.mark, request)
            }
            _ => true,
        };
        let again: Vec<_> = in_flight.again().filter(is_due).collect();
        if !again.is_empty() {
            let launches = [LaunchKernel::OPCODE, GraphLaunch::OPCODE];
            let kernels = again.iter().filter(|posted| launches.contains(&posted.opcode)).count();
            let (operations, kernels) = (again.len() as u32, kernels as u32);
            self.posting()?.push(&Repeats { operations, kernels, lost: 0 })?;
        }
        self.posting()?.post_again(&again, &moved)?;
        Ok(Outcome::Repeated(again.len()))
    }

    /// What an operation does with memory.
    fn accesses(&self, posted: &Posted) -> Access {
        let words = &posted.words[..];
        let opaque = Access { opaque: true, ..Access::default() };
        match posted.opcode {
            LaunchKernel::OPCODE => match LaunchKernel::from_words(words) {
                Ok(launch) => self.access_of_launch(&launch).unwrap_or(opaque),
                Err(_) => opaque,
            },
            HostToDevice::OPCODE => match HostToDevice::from_words(words) {
                Ok(copy) => Access {
                    reads: host_range(copy.source, copy.bytes),
                    writes: vec![range(copy.destination.0, copy.bytes)],
                    exact: true,
                    ..Access::default()
                },
                Err(_) => opaque,
            },
            DeviceToHost::OPCODE => match DeviceToHost::from_words(words) {
                Ok(copy) => Access {
                    reads: vec![range(copy.source.0, copy.bytes)],
                    writes: host_range(copy.destination, copy.bytes),
                    exact: true,
                    ..Access::default()
                },
                Err(_) => opaque,
            },
            RecordEvent::OPCODE | WaitEvent::OPCODE => Access::default(),
            HostFunc::OPCODE | GraphLaunch::OPCODE => opaque,
            // Repeating a wait for another device is waiting for what has happened.
            number::cuStreamWaitValue32_v2
                if words.get(1).is_some_and(|word| self.is_word_of_peer(*word)) =>
            {
                Access::default()
            }
            row => generic_access(row, words).unwrap_or(opaque),
        }
    }

    /// As [`Self::accesses`], where other devices may do something with the same memory meanwhile: that
    /// is not known here.
    fn accesses_beside_others(&self, posted: &Posted) -> Access {
        let mut access = self.accesses(posted);
        let are_variables = |ranges: &[Range<u64>]| {
            let memory = self.memory();
            ranges.iter().any(|range| memory.is_variable(range.start))
        };
        access.reads_variables |= are_variables(&access.reads);
        access.writes_variables |= are_variables(&access.writes);
        let mut ranges = access.reads.iter().chain(&access.writes);
        let shared =
            self.program.has_several() && ranges.any(|range| self.is_used_elsewhere(range.start));
        match shared {
            true => Access { opaque: true, ..access },
            false => access,
        }
    }

    /// Whether an operation that is done can be done again. A slice of staging is free when its copy is
    /// done, and has other bytes then.
    fn again(&self, posted: &Posted) -> Again {
        match posted.opcode {
            HostToDevice::OPCODE => match HostToDevice::from_words(&posted.words) {
                Ok(HostToDevice { source: HostReference::Mapped(_), .. }) => Again::Can,
                _ => Again::Cannot,
            },
            DeviceToHost::OPCODE => match DeviceToHost::from_words(&posted.words) {
                Ok(DeviceToHost { destination: HostReference::Mapped(_), .. }) => Again::Can,
                _ => Again::Idle,
            },
            // The program may have unloaded the module since.
            LaunchKernel::OPCODE => match LaunchKernel::from_words(&posted.words) {
                Ok(launch) if self.source_of(launch.function.0).is_some() => Again::Can,
                _ => Again::Cannot,
            },
            // A host function is run once; what it copied for the device it does not copy again.
            Copy3D::OPCODE | HostFunc::OPCODE => Again::Cannot,
            RecordEvent::OPCODE | WaitEvent::OPCODE => Again::Order,
            _ => Again::Can,
        }
    }

    fn access_of_launch(&self, launch: &LaunchKernel<'_>) -> Option<Access> {
        let (source, name) = self.source_of(launch.function.0)?;
        let effects = source.effects()?.get(&name)?;
        if effects.opaque {
            return None;
        }
        // The program sees managed variables while the kernel runs.
        let mut accesses = effects.reads.iter().chain(&effects.writes);
        if accesses.any(|access| access.variable) && self.has_managed(launch.function.0) {
            return None;
        }
        let mut access = Access::default();
        for read in &effects.reads {
            access.reads_variables |= read.variable;
            access.reads.extend(self.places(read, launch.parameters)?);
        }
        for write in &effects.writes {
            access.writes_variables |= write.variable;
            access.writes.extend(self.places(write, launch.parameters)?);
        }
        Some(access)
    }

    /// True if the module of a kernel has managed variables.
    fn has_managed(&self, function: usize) -> bool {
        let module = self.state().function(function).map(|(_, function)| function.module);
        module.is_ok_and(|module| self.memory().managed_of(wire_module(module).0 as u64).is_some())
    }

    /// What the module of a kernel was loaded from, and the kernel's name, by what its launch calls it.
    fn source_of(&self, function: usize) -> Option<(Arc<ModuleSource>, String)> {
        let state = self.state();
        let word = function_handle(function).ok()?.to_word() as usize;
        let (_, function) = state.function(word).ok()?;
        let source = Arc::clone(&state.modules.get(function.module)?.source);
        Some((source, function.name.to_string_lossy().into_owned()))
    }

    /// The allocations that an access may touch, by the values of a launch's parameters; `None` if
    /// that is not known.
    fn places(&self, access: &Provenance, parameters: &[u8]) -> Option<Vec<Range<u64>>> {
        let mut places = Vec::new();
        let mut outside = false;
        for offset in &access.parameters {
            let bytes = parameters.get(*offset as usize..*offset as usize + 8)?;
            let value = u64::from_le_bytes(bytes.try_into().ok()?);
            match self.memory().surroundings(value) {
                Surroundings::Allocation(range) => places.push(range),
                // A kernel that accesses it faults, alone: nothing is read or written.
                Surroundings::Nothing => outside = true,
                Surroundings::Unknown => return None,
            }
        }
        match places.is_empty() && !outside && !access.variable {
            true => None,
            false => Some(places),
        }
    }
}

fn range(address: u64, bytes: u64) -> Range<u64> {
    address..address.saturating_add(bytes)
}

/// The host side of a copy. A slice of staging is that copy's alone.
fn host_range(reference: HostReference, bytes: u64) -> Vec<Range<u64>> {
    match reference {
        HostReference::Staging(_) => Vec::new(),
        HostReference::Mapped(address) => vec![range(address, bytes)],
    }
}

/// Copies and fills that travel as their rows.
fn generic_access(row: u16, words: &[u64]) -> Option<Access> {
    let word = |index: usize| words.get(index).copied();
    let writes = |range| Some(Access { writes: vec![range], exact: true, ..Access::default() });
    // Destination, pitch, value, width, height.
    let rows = |element: u64| {
        let (start, pitch, width, height) = (word(0)?, word(1)?, word(3)?, word(4)?);
        let bytes = height.saturating_sub(1).checked_mul(pitch)?.checked_add(width * element)?;
        // Between its rows lies what it leaves.
        let exact = height <= 1 || pitch == width * element;
        writes(range(start, bytes)).map(|access| Access { exact, ..access })
    };
    match row {
        number::cuMemsetD8Async => writes(range(word(0)?, word(2)?)),
        number::cuMemsetD16Async => writes(range(word(0)?, word(2)?.checked_mul(2)?)),
        number::cuMemsetD32Async => writes(range(word(0)?, word(2)?.checked_mul(4)?)),
        number::cuMemsetD2D8Async => rows(1),
        number::cuMemsetD2D16Async => rows(2),
        number::cuMemsetD2D32Async => rows(4),
        number::cuMemcpyDtoDAsync_v2 => Some(Access {
            reads: vec![range(word(1)?, word(2)?)],
            writes: vec![range(word(0)?, word(2)?)],
            exact: true,
            ..Access::default()
        }),
        _ => None,
    }
}
