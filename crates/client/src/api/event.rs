//! Events (the manual's "Event Management"). Whether an event has happened is known here: it was
//! recorded at a place in a stream, and how far the stream has come stands in shared memory.

use crate::boundary::Out;
use crate::graph::backend::graphs;
use crate::program::Client;
use crate::program::launch::submission::{Event, Submission, wire_event, wire_stream};
use crate::program::mode;
use crate::program::recovery::reported::Reports;
use crate::stream::DefaultStream;
use channel::request::{
    CreateEvent, DestroyEvent, ElapsedTime, QueryEvent, RECORD_UNMARKED, RecordEvent,
};
use core::ffi::c_uint;
use core::time::Duration;
use cuda_api::constants::capture::EVENT_EXTERNAL;
use cuda_api::constants::event_flags;
use cuda_api::handle::Handle;
use cuda_api::{CUevent, CUresult, CUstream, CudaError};
use recovery::Mark;
use std::time::Instant;

/// Shortest and longest pause between two looks at an event that is shared with other processes.
const SHARED_PAUSE_MIN: Duration = Duration::from_micros(20);
const SHARED_PAUSE_MAX: Duration = Duration::from_millis(1);

/// Shortest and longest pause between two looks at one behind which no word is written.
const UNMARKED_PAUSE_MIN: Duration = Duration::from_micros(10);
const UNMARKED_PAUSE_MAX: Duration = Duration::from_micros(200);
/// First records of so many events are marked at once after a thread has waited for one that was not: a program that
/// makes an event for each wait seldom asks the server.
const EXPECTED_MAX: u32 = 64;

/// What a thread that asks about a record learns.
enum Asked {
    /// It is done.
    Done,
    /// It is not.
    NotDone,
    /// The device writes a word behind it: that will say it.
    Marked,
}

impl Client {
    /// Destroys an event. A stream that waits for it still does.
    pub(crate) fn destroy_event(&self, handle: Handle) -> CUresult {
        let mut state = self.posting()?;
        state.check_open()?;
        state.events.remove(handle).ok_or(CudaError::INVALID_HANDLE)?;
        state.push(&DestroyEvent { event: wire_event(handle) })
    }

    /// Makes an event.
    pub(crate) fn create_event(&self, event: Event) -> Result<Handle, CudaError> {
        let mut state = self.posting()?;
        // To the server they are events like any other: all clients' are in one process.
        let flags = event.flags & !event_flags::INTERPROCESS;
        let handle = state.events.insert(event)?;
        if let Err(error) = state.push(&CreateEvent { event: wire_event(handle), flags }) {
            state.events.remove(handle);
            return Err(error);
        }
        Ok(handle)
    }

    /// Records an event in a stream.
    pub(crate) fn record_event(&self, event: CUevent, stream: Handle) -> CUresult {
        let mut state = self.posting()?;
        let handle = state.events.decode(event.0)?;
        state.events.get(handle).ok_or(CudaError::INVALID_HANDLE)?;
        // A record that is marked is its own fence.
        let value = match self.marks_record(&mut state, handle) {
            true => state.streams.next_value(stream.index) as u32,
            false => RECORD_UNMARKED,
        };
        let is_marked = value != RECORD_UNMARKED;
        let (event, wire) = (wire_event(handle), wire_stream(stream));
        let mark = state.push_in(stream, &RecordEvent { event, stream: wire, value })?;
        if is_marked {
            state.streams.fenced(mark);
        }
        let Some(found) = state.events.get_mut(handle) else { return Ok(()) };
        (found.recorded, found.is_marked) = (Some(mark), is_marked);
        if found.flags & event_flags::DISABLE_TIMING == 0 {
            found.asked = Some(Instant::now());
        }
        if found.is_shared() {
            drop(state);
            // Another process may wait for it as soon as this returns: the server must have it.
            self.call(&QueryEvent { event: wire_event(handle) })?;
        }
        Ok(())
    }

    /// True if the device is to write a completion word behind the next record of an event. A word holds up the
    /// stream, and most events only order streams: no thread ever asks about them.
    fn marks_record(&self, state: &mut Submission, event: Handle) -> bool {
        let is_new = match state.events.get(event) {
            Some(found) if found.flags & event_flags::DISABLE_TIMING != 0 && !found.is_shared() => {
                if found.is_awaited {
                    return true;
                }
                found.recorded.is_none()
            }
            _ => return true,
        };
        // Another device's streams wait for words.
        if !state.connection().takes_unmarked_records() || self.program.has_several() {
            return true;
        }
        let expects = is_new && state.awaited_expected > 0;
        state.awaited_expected -= u32::from(expects);
        expects
    }

    /// True if a record is done behind which no word is written, or if it is marked now: the word says it.
    fn ask_about_unmarked(&self, event: Handle, mark: Mark) -> Result<Asked, CudaError> {
        {
            let mut state = self.posting()?;
            if state.passed(mark) {
                return Ok(Asked::Done);
            }
            // Another thread may have recorded it anew: the word of what it was recorded behind says it.
            let is_last = state.streams.last(mark.slot) == mark;
            let Some(found) = state.events.get_mut(event) else { return Ok(Asked::Marked) };
            if found.recorded != Some(mark) || found.is_marked || is_last {
                found.is_marked |= found.recorded == Some(mark);
                found.is_awaited = true;
                state.fence(mark)?;
                return Ok(Asked::Marked);
            }
        }
        // A fence now would come behind work that was posted since.
        let done = self.call(&QueryEvent { event: wire_event(event) })?.done != 0;
        let mut state = self.state();
        if !done {
            state.awaited_expected = EXPECTED_MAX;
        }
        if let Some(found) = state.events.get_mut(event).filter(|of| of.recorded == Some(mark)) {
            found.is_awaited |= !done;
        }
        if !done {
            return Ok(Asked::NotDone);
        }
        state.streams.reached(mark, false);
        Ok(Asked::Done)
    }

    /// Waits until what an event was recorded behind is done.
    fn wait_for_record(&self, event: Handle, mark: Mark) -> CUresult {
        let mut pause = UNMARKED_PAUSE_MIN;
        loop {
            let is_marked = {
                let mut state = self.state();
                let has_word = |of: &Event| of.is_marked || of.recorded != Some(mark);
                state.events.get(event).is_none_or(has_word) || state.has_passed(mark)
            };
            if is_marked {
                break;
            }
            match self.ask_about_unmarked(event, mark)? {
                Asked::NotDone => std::thread::sleep(pause),
                Asked::Done | Asked::Marked => break,
            }
            pause = (pause * 2).min(UNMARKED_PAUSE_MAX);
        }
        if self.state().has_passed(mark) {
            self.state().streams.waited_for(mark);
            return Ok(());
        }
        self.wait_for(mark)
    }

    /// True if what an event was recorded behind is done, as the program then knows.
    pub(crate) fn is_event_done(&self, event: CUevent) -> Result<bool, CudaError> {
        let mut state = self.state();
        let found = state.events.lookup(event.0)?;
        let (recorded, is_shared, is_marked) = (found.recorded, found.is_shared(), found.is_marked);
        if is_shared {
            recorded.into_iter().for_each(|mark| state.streams.not_followed(mark));
            drop(state);
            return Ok(self.call(&QueryEvent { event })?.done != 0);
        }
        let Some(mark) = recorded else { return Ok(true) };
        let mut done = state.has_passed(mark);
        if !done && !is_marked {
            let handle = state.events.decode(event.0)?;
            drop(state);
            done = matches!(self.ask_about_unmarked(handle, mark)?, Asked::Done);
            state = self.state();
        }
        match done {
            true => state.streams.waited_for(mark),
            // Who asks once may ask until it is, and no other call would find the server lost.
            false => {
                state.hasten();
                if state.looks_at_server() {
                    state.connection().health_of_wait()?;
                }
            }
        }
        Ok(done)
    }
}

pub(crate) fn cuEventCreate(event: Out<CUevent>, flags: c_uint) -> CUresult {
    use event_flags::{BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS};
    let (client, context) = mode::enter()?;
    event.required()?;
    if flags & !(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS) != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    // An event for other processes must not take times.
    if flags & (INTERPROCESS | DISABLE_TIMING) == INTERPROCESS {
        return Err(CudaError::INVALID_VALUE);
    }
    event.set(wire_event(client.create_event(Event::new(context, flags))?))
}

pub(crate) fn cuEventDestroy_v2(event: CUevent) -> CUresult {
    let client = mode::client_of(event.0)?;
    let handle = client.state().events.decode(event.0)?;
    client.destroy_event(handle)?;
    graphs().forget_event(event);
    Ok(())
}

pub(crate) fn cuEventRecord(default: DefaultStream, event: CUevent, stream: CUstream) -> CUresult {
    cuEventRecordWithFlags(default, event, stream, 0)
}

pub(crate) fn cuEventRecordWithFlags(
    default: DefaultStream,
    event: CUevent,
    stream: CUstream,
    flags: c_uint,
) -> CUresult {
    let client = mode::client_of(event.0)?;
    if flags & !EVENT_EXTERNAL != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let stream = client.stream(stream, default)?;
    client.state().events.lookup(event.0)?;
    if graphs().watches_events()
        && graphs().record_event(client.stream_key(stream)?, event, flags)?
    {
        return Ok(());
    }
    // Only a capture has a node for it.
    if flags & EVENT_EXTERNAL != 0 {
        return Err(CudaError::ILLEGAL_STATE);
    }
    client.record_event(event, stream)
}

pub(crate) fn cuEventQuery(event: CUevent) -> CUresult {
    let client = mode::client_of(event.0)?;
    graphs().asking_event(event)?;
    match client.is_event_done(event)? {
        true => client.report_error(Reports::AndLeaves),
        false => Err(CudaError::NOT_READY),
    }
}

pub(crate) fn cuEventSynchronize(event: CUevent) -> CUresult {
    let client = mode::client_of(event.0)?;
    graphs().asking_event(event)?;
    let (handle, shared, recorded) = {
        let state = client.state();
        let found = state.events.lookup(event.0)?;
        (state.events.decode(event.0)?, found.is_shared(), found.recorded)
    };
    if shared {
        recorded.into_iter().for_each(|mark| client.state().streams.not_followed(mark));
        return wait_for_shared(client, event);
    }
    let waited = recorded.map_or(Ok(()), |mark| client.wait_for_record(handle, mark));
    client.report()?;
    waited
}

/// Waits for an event that another process may have recorded: only the server can be asked.
fn wait_for_shared(client: &Client, event: CUevent) -> CUresult {
    let mut pause = SHARED_PAUSE_MIN;
    while client.call(&QueryEvent { event })?.done == 0 {
        std::thread::sleep(pause);
        pause = (pause * 2).min(SHARED_PAUSE_MAX);
    }
    client.report()
}

pub(crate) fn cuEventElapsedTime(milliseconds: Out<f32>, start: CUevent, end: CUevent) -> CUresult {
    let client = mode::client_of(start.0)?;
    milliseconds.required()?;
    graphs().check_event(start)?;
    graphs().check_event(end)?;
    let asked = {
        let mut state = client.state();
        let (mut marks, mut asked) = ([None; 2], [None; 2]);
        for (index, event) in [start, end].into_iter().enumerate() {
            let found = state.events.lookup(event.0)?;
            if found.flags & event_flags::DISABLE_TIMING != 0 {
                return Err(CudaError::INVALID_HANDLE);
            }
            marks[index] = Some(found.recorded.ok_or(CudaError::INVALID_HANDLE)?);
            asked[index] = found.asked;
        }
        if !marks.into_iter().flatten().all(|mark| state.passed(mark)) {
            state.hasten();
            return Err(CudaError::NOT_READY);
        }
        marks.into_iter().flatten().for_each(|mark| state.streams.waited_for(mark));
        asked
    };
    match client.call(&ElapsedTime { start, end }) {
        // One was recorded by a server that is gone: as nearly as is known here.
        Err(CudaError::INVALID_HANDLE) if asked.iter().all(Option::is_some) => {
            milliseconds.set(estimate(asked))
        }
        answer => milliseconds.set(answer?.milliseconds),
    }
}

/// Milliseconds between two records by when the program asked for them.
fn estimate(asked: [Option<Instant>; 2]) -> f32 {
    let [Some(start), Some(end)] = asked else { return 0.0 };
    let between = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f32();
    (between(start, end) - between(end, start)) * 1e3
}

pub(crate) fn cuEventElapsedTime_v2(
    milliseconds: Out<f32>,
    start: CUevent,
    end: CUevent,
) -> CUresult {
    cuEventElapsedTime(milliseconds, start, end)
}
