//! Order between streams: what waits for what, and what must not.

use std::{ffi::c_void, ptr, thread};

use cudarc::driver::sys::{self, CUresult};

use crate::{
    Check, device,
    support::{
        Env, Event, HostWords, Outcome, Stream, Words, call, equal, holds, one_of, status,
        synchronize,
    },
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("order.within_a_stream", within_a_stream),
    ("order.legacy_waits_for_blocking", legacy_waits_for_blocking),
    ("order.blocking_waits_for_legacy", blocking_waits_for_legacy),
    ("order.non_blocking_is_apart", non_blocking_is_apart),
    ("order.legacy_by_its_number", legacy_by_its_number),
    ("order.legacy_waits_for_per_thread", legacy_waits_for_per_thread),
    ("order.per_thread_is_per_thread", per_thread_is_per_thread),
    ("order.per_thread_twins", per_thread_twins),
    ("order.streams_run_side_by_side", streams_run_side_by_side),
    ("order.wait_event", wait_event),
    ("order.wait_event_takes_the_record_before_it", wait_event_takes_the_record_before_it),
    ("order.synchronous_copy_waits", synchronous_copy_waits),
];

/// The default stream, by no name and by its number, and the thread's own.
const NULL: sys::CUstream = ptr::null_mut();
const LEGACY: sys::CUstream = ptr::without_provenance_mut(1);
const PER_THREAD: sys::CUstream = ptr::without_provenance_mut(2);

/// Writes slowly in one stream and copies what is there in another; the copy must see the write.
fn second_waits_for_first(env: &Env, first: sys::CUstream, second: sys::CUstream) -> Outcome {
    let words = Words::filled(2, 0)?;
    env.slow_write(words.address, 9, 20, first)?;
    env.copy_word(words.address, words.at(1), second)?;
    equal("what the second stream saw", words.read()?[1], 9)
}

fn within_a_stream(env: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    second_waits_for_first(env, stream.0, stream.0)
}

fn legacy_waits_for_blocking(env: &Env) -> Outcome {
    let stream = Stream::blocking()?;
    second_waits_for_first(env, stream.0, NULL)
}

fn blocking_waits_for_legacy(env: &Env) -> Outcome {
    let stream = Stream::blocking()?;
    second_waits_for_first(env, NULL, stream.0)?;
    // Also between two of them, across the legacy stream.
    let other = Stream::blocking()?;
    let words = Words::filled(3, 0)?;
    env.slow_write(words.address, 9, 20, stream.0)?;
    env.copy_word(words.address, words.at(1), NULL)?;
    env.copy_word(words.at(1), words.at(2), other.0)?;
    equal("words", words.read()?, vec![9, 9, 9])
}

/// A kernel of a non-blocking stream waits for a flag that is set only after work of the legacy
/// stream has been waited for: had the legacy stream waited for the kernel, the kernel would have
/// given up.
fn non_blocking_is_apart(env: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let flag = HostWords::zeroed(2)?;
    let word = Words::filled(1, 0)?;
    env.wait_flag(flag.device, flag.device + 4, stream.0)?;
    env.slow_write(word.address, 3, 0, NULL)?;
    call!(cuStreamSynchronize(NULL))?;
    flag.set(0, 1);
    call!(cuStreamSynchronize(stream.0))?;
    equal("what the waiting kernel says (2: it gave up)", flag.get(1), 1)
}

fn legacy_by_its_number(env: &Env) -> Outcome {
    let stream = Stream::blocking()?;
    second_waits_for_first(env, stream.0, LEGACY)?;
    second_waits_for_first(env, LEGACY, stream.0)?;
    second_waits_for_first(env, LEGACY, NULL)?;
    call!(cuStreamSynchronize(LEGACY))?;
    call!(cuStreamQuery(LEGACY))
}

fn legacy_waits_for_per_thread(env: &Env) -> Outcome {
    second_waits_for_first(env, PER_THREAD, NULL)?;
    second_waits_for_first(env, NULL, PER_THREAD)?;
    call!(cuStreamSynchronize(PER_THREAD))
}

/// While this thread's default stream is busy, another thread's is idle and works.
fn per_thread_is_per_thread(env: &Env) -> Outcome {
    let flag = HostWords::zeroed(2)?;
    let word = Words::filled(1, 0)?;
    env.wait_flag(flag.device, flag.device + 4, PER_THREAD)?;
    let busy = status!(cuStreamQuery(PER_THREAD));
    let context = env.context as usize;
    let address = word.address;
    let other = thread::spawn(move || -> Outcome {
        call!(cuCtxSetCurrent(context as sys::CUcontext))?;
        call!(cuStreamQuery(PER_THREAD))?;
        call!(cuMemsetD32Async(address, 4, 1, PER_THREAD))?;
        call!(cuStreamSynchronize(PER_THREAD))
    });
    let outcome = other.join();
    flag.set(0, 1);
    call!(cuStreamSynchronize(PER_THREAD))?;
    one_of("this thread's stream", busy, &[CUresult::CUDA_ERROR_NOT_READY])?;
    match outcome {
        Ok(outcome) => outcome?,
        Err(_) => holds("the thread did not panic", false)?,
    }
    equal("what the waiting kernel says (2: it gave up)", flag.get(1), 1)?;
    equal("what the other thread wrote", word.first()?, 4)
}

/// Functions found with the per-thread flag take stream 0 for the thread's own.
fn per_thread_twins(env: &Env) -> Outcome {
    type Query = unsafe extern "C" fn(sys::CUstream) -> u32;
    let flags =
        sys::CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM as u64;
    let entry = device::entry(c"cuStreamQuery", 12_080, flags)?;
    let stream = Stream::non_blocking()?;
    let flag = HostWords::zeroed(2)?;
    env.wait_flag(flag.device, flag.device + 4, PER_THREAD)?;
    // SAFETY: the manual's signature; a status is a 32-bit number. 0 is the thread's default stream.
    let twin = unsafe { std::mem::transmute::<*mut c_void, Query>(entry)(NULL) };
    flag.set(0, 1);
    call!(cuStreamSynchronize(PER_THREAD))?;
    drop(stream);
    equal("status of stream 0", twin, CUresult::CUDA_ERROR_NOT_READY as u32)
}

/// A kernel waits for what a kernel launched later, in another stream, writes.
fn streams_run_side_by_side(env: &Env) -> Outcome {
    let (first, second) = (Stream::non_blocking()?, Stream::non_blocking()?);
    let words = Words::filled(2, 0)?;
    env.wait_flag(words.address, words.at(1), first.0)?;
    env.slow_write(words.address, 1, 1, second.0)?;
    equal("what the waiting kernel says (2: it gave up)", words.read()?[1], 1)
}

fn wait_event(env: &Env) -> Outcome {
    let (first, second) = (Stream::non_blocking()?, Stream::non_blocking()?);
    let event = Event::untimed()?;
    // An event that was never recorded holds no stream up.
    call!(cuStreamWaitEvent(second.0, event.0, 0))?;
    let words = Words::filled(2, 0)?;
    env.slow_write(words.address, 9, 20, first.0)?;
    event.record(first.0)?;
    call!(cuStreamWaitEvent(second.0, event.0, 0))?;
    env.copy_word(words.address, words.at(1), second.0)?;
    equal("what the second stream saw", words.read()?[1], 9)
}

/// A wait is for what was recorded when it was called, regardless of what the event is used for
/// afterwards.
fn wait_event_takes_the_record_before_it(env: &Env) -> Outcome {
    let (first, second) = (Stream::non_blocking()?, Stream::non_blocking()?);
    let event = Event::untimed()?;
    let flag = HostWords::zeroed(2)?;
    let words = Words::filled(2, 0)?;
    env.slow_write(words.address, 7, 5, first.0)?;
    event.record(first.0)?;
    call!(cuStreamWaitEvent(second.0, event.0, 0))?;
    // The event now stands for the end of a kernel that waits for the host.
    env.wait_flag(flag.device, flag.device + 4, first.0)?;
    event.record(first.0)?;
    env.copy_word(words.address, words.at(1), second.0)?;
    call!(cuStreamSynchronize(second.0))?;
    flag.set(0, 1);
    synchronize()?;
    equal("what the waiting kernel says (2: it gave up)", flag.get(1), 1)?;
    equal("words", words.read()?, vec![7, 7])
}

/// The synchronous copy works in the legacy stream, so it comes after blocking streams' work.
fn synchronous_copy_waits(env: &Env) -> Outcome {
    let stream = Stream::blocking()?;
    let words = Words::filled(1, 0)?;
    env.slow_write(words.address, 8, 20, stream.0)?;
    let mut word = 0u32;
    call!(cuMemcpyDtoH_v2((&raw mut word).cast(), words.address, 4))?;
    equal("word", word, 8)
}
