//! Events: completion and time.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use cudarc::driver::sys::{self, CUresult};

use crate::{
    Check, device,
    support::{
        Env, Event, HostWords, Outcome, Stream, Words, call, equal, holds, one_of, only_strict,
        refused, status,
    },
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("event.never_recorded", never_recorded),
    ("event.completion", completion),
    ("event.synchronize", synchronize_event),
    ("event.time_goes_on", time_goes_on),
    ("event.time_of_a_kernel", time_of_a_kernel),
    ("event.elapsed_v2", elapsed_v2),
    ("event.wrong_elapsed", wrong_elapsed),
    ("event.recorded_again", recorded_again),
    ("event.destroyed_at_once", destroyed_at_once),
    ("event.wrong", wrong),
    ("event.destroyed_handle", destroyed_handle),
];

fn never_recorded(_: &Env) -> Outcome {
    let event = Event::timed()?;
    call!(cuEventQuery(event.0))?;
    call!(cuEventSynchronize(event.0))
}

fn completion(env: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let flag = HostWords::zeroed(2)?;
    let (before, after) = (Event::untimed()?, Event::timed()?);
    before.record(stream.0)?;
    env.wait_flag(flag.device, flag.device + 4, stream.0)?;
    after.record(stream.0)?;
    call!(cuEventSynchronize(before.0))?;
    call!(cuEventQuery(before.0))?;
    let busy = status!(cuEventQuery(after.0));
    flag.set(0, 1);
    one_of("an event behind a running kernel", busy, &[CUresult::CUDA_ERROR_NOT_READY])?;
    call!(cuEventSynchronize(after.0))?;
    call!(cuEventQuery(after.0))?;
    equal("what the kernel says", flag.get(1), 1)
}

fn synchronize_event(env: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let word = HostWords::zeroed(1)?;
    let mut event = ptr::null_mut();
    let flags = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
    call!(cuEventCreate(&mut event, flags))?;
    let event = Event(event);
    env.slow_write(word.device, 6, 20, stream.0)?;
    call!(cuEventRecordWithFlags(event.0, stream.0, 0))?;
    call!(cuEventSynchronize(event.0))?;
    equal("word", word.get(0), 6)
}

fn elapsed_ms(from: &Event, to: &Event) -> Outcome<f32> {
    let mut milliseconds = f32::NAN;
    call!(cuEventElapsedTime(&mut milliseconds, from.0, to.0))?;
    Ok(milliseconds)
}

fn time_goes_on(env: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let events = (0..10).map(|_| Event::timed()).collect::<Outcome<Vec<_>>>()?;
    for event in &events {
        event.record(stream.0)?;
        env.launch(c"nothing", 1, 32, stream.0, &mut [])?;
    }
    call!(cuStreamSynchronize(stream.0))?;
    let mut last = 0.0;
    for event in &events {
        let since_first = elapsed_ms(&events[0], event)?;
        holds("later events are later", since_first >= last)?;
        last = since_first;
    }
    equal("from an event to itself", elapsed_ms(&events[0], &events[0])?, 0.0)?;
    let back = elapsed_ms(&events[9], &events[0])?;
    holds("backwards is negative", back <= 0.0)
}

fn time_of_a_kernel(env: &Env) -> Outcome {
    let word = Words::filled(1, 0)?;
    for stream in [Stream::non_blocking()?, Stream(ptr::null_mut())] {
        let (start, end) = (Event::timed()?, Event::timed()?);
        start.record(stream.0)?;
        env.slow_write(word.address, 1, 20, stream.0)?;
        end.record(stream.0)?;
        call!(cuEventSynchronize(end.0))?;
        let milliseconds = elapsed_ms(&start, &end)?;
        holds(
            &format!("a kernel of 20 ms takes at least 19 ({milliseconds})"),
            milliseconds >= 19.0,
        )?;
        if stream.0.is_null() {
            // The default stream is not ours to destroy.
            std::mem::forget(stream);
        }
    }
    Ok(())
}

fn elapsed_v2(_: &Env) -> Outcome {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> c_int;
    let entry = device::entry(c"cuEventElapsedTime", 12_080, 0)?;
    let (start, end) = (Event::timed()?, Event::timed()?);
    start.record(ptr::null_mut())?;
    end.record(ptr::null_mut())?;
    call!(cuEventSynchronize(end.0))?;
    let mut milliseconds = -1.0;
    // SAFETY: the manual's signature, the same for both forms; a place for the time, and two live events.
    let status = unsafe {
        std::mem::transmute::<*mut c_void, Elapsed>(entry)(&mut milliseconds, start.0, end.0)
    };
    equal("status", status, 0)?;
    holds("time does not go backwards", milliseconds >= 0.0)
}

fn wrong_elapsed(env: &Env) -> Outcome {
    let mut milliseconds = 0.0;
    let (fresh, recorded, untimed) = (Event::timed()?, Event::timed()?, Event::untimed()?);
    recorded.record(ptr::null_mut())?;
    untimed.record(ptr::null_mut())?;
    call!(cuEventSynchronize(untimed.0))?;
    refused!(
        cuEventElapsedTime(&mut milliseconds, recorded.0, fresh.0),
        CUDA_ERROR_INVALID_HANDLE
    )?;
    refused!(
        cuEventElapsedTime(&mut milliseconds, recorded.0, untimed.0),
        CUDA_ERROR_INVALID_HANDLE
    )?;
    let stream = Stream::non_blocking()?;
    let flag = HostWords::zeroed(2)?;
    env.wait_flag(flag.device, flag.device + 4, stream.0)?;
    fresh.record(stream.0)?;
    let busy = status!(cuEventElapsedTime(&mut milliseconds, recorded.0, fresh.0));
    flag.set(0, 1);
    one_of("an event that is not reached", busy, &[CUresult::CUDA_ERROR_NOT_READY])?;
    call!(cuStreamSynchronize(stream.0))
}

/// An event stands for its last record.
fn recorded_again(env: &Env) -> Outcome {
    let (first, second) = (Stream::non_blocking()?, Stream::non_blocking()?);
    let flag = HostWords::zeroed(2)?;
    let event = Event::untimed()?;
    env.wait_flag(flag.device, flag.device + 4, first.0)?;
    event.record(first.0)?;
    event.record(second.0)?;
    // Only the idle stream counts now.
    call!(cuEventSynchronize(event.0))?;
    flag.set(0, 1);
    call!(cuStreamSynchronize(first.0))?;
    equal("what the waiting kernel says (2: it gave up)", flag.get(1), 1)
}

/// Events and streams may be destroyed as soon as they were used, and new ones take their place.
fn destroyed_at_once(_: &Env) -> Outcome {
    for _ in 0..200 {
        let word = Words::filled(1, 0)?;
        let stream = Stream::non_blocking()?;
        let (used, unused) = (Event::timed()?, Event::timed()?);
        used.record(stream.0)?;
        drop((used, unused, stream));
        // Freeing waits for what was left behind.
        drop(word);
        let (start, end) = (Event::timed()?, Event::timed()?);
        start.record(ptr::null_mut())?;
        end.record(ptr::null_mut())?;
        call!(cuEventSynchronize(end.0))?;
        holds("time does not go backwards", elapsed_ms(&start, &end)? >= 0.0)?;
    }
    Ok(())
}

fn wrong(_: &Env) -> Outcome {
    let mut event = ptr::null_mut();
    refused!(cuEventCreate(&mut event, 0x100), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuEventCreate(ptr::null_mut(), 0), CUDA_ERROR_INVALID_VALUE)?;
    let none = ptr::null_mut();
    refused!(cuEventQuery(none), CUDA_ERROR_INVALID_HANDLE)?;
    refused!(cuEventRecord(none, ptr::null_mut()), CUDA_ERROR_INVALID_HANDLE)?;
    refused!(cuEventDestroy_v2(none), CUDA_ERROR_INVALID_HANDLE)
}

/// The manual promises nothing about handles that are gone; a careful driver refuses them.
fn destroyed_handle(env: &Env) -> Outcome {
    only_strict(env)?;
    let event = Event::timed()?.0;
    let gone = [CUresult::CUDA_ERROR_INVALID_HANDLE, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED];
    one_of("asking", status!(cuEventQuery(event)), &gone)?;
    one_of("recording", status!(cuEventRecord(event, ptr::null_mut())), &gone)?;
    one_of("destroying again", status!(cuEventDestroy_v2(event)), &gone)
}
