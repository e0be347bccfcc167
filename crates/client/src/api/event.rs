//! Events (the manual's "Event Management"). Whether an event has happened is known here: it was
//! recorded at a place in a stream, and how far the stream has come stands in shared memory.

use crate::boundary::Out;
use crate::graph::backend::graphs;
use crate::program::Client;
use crate::program::launch::submission::{Event, wire_event, wire_stream};
use crate::program::mode;
use crate::program::recovery::reported::Reports;
use crate::stream::DefaultStream;
use channel::request::{CreateEvent, DestroyEvent, ElapsedTime, QueryEvent, RecordEvent};
use core::ffi::c_uint;
use core::time::Duration;
use cuda_api::constants::capture::EVENT_EXTERNAL;
use cuda_api::constants::event_flags;
use cuda_api::handle::Handle;
use cuda_api::{CUevent, CUresult, CUstream, CudaError};
use std::time::Instant;

/// Shortest and longest pause between two looks at an event that is shared with other processes.
const SHARED_PAUSE_MIN: Duration = Duration::from_micros(20);
const SHARED_PAUSE_MAX: Duration = Duration::from_millis(1);

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
        // The record is its own fence.
        let value = state.streams.next_value(stream.index);
        let mark = state.push_in(
            stream,
            &RecordEvent {
                event: wire_event(handle),
                stream: wire_stream(stream),
                value: value as u32,
            },
        )?;
        state.streams.fenced(mark);
        let Some(found) = state.events.get_mut(handle) else { return Ok(()) };
        found.recorded = Some(mark);
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

    /// True if what an event was recorded behind is done, as the program then knows.
    pub(crate) fn is_event_done(&self, event: CUevent) -> Result<bool, CudaError> {
        let mut state = self.state();
        let found = state.events.lookup(event.0)?;
        let (recorded, is_shared) = (found.recorded, found.is_shared());
        if is_shared {
            recorded.into_iter().for_each(|mark| state.streams.not_followed(mark));
            drop(state);
            return Ok(self.call(&QueryEvent { event })?.done != 0);
        }
        let Some(mark) = recorded else { return Ok(true) };
        let done = state.passed(mark);
        match done {
            true => state.streams.waited_for(mark),
            // Who asks once may ask until it is.
            false => state.hasten(),
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
    let (shared, recorded) = {
        let state = client.state();
        let found = state.events.lookup(event.0)?;
        (found.is_shared(), found.recorded)
    };
    if shared {
        recorded.into_iter().for_each(|mark| client.state().streams.not_followed(mark));
        return wait_for_shared(client, event);
    }
    let waited = recorded.map_or(Ok(()), |mark| client.wait_for(mark));
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
