//! Streams by themselves: making, asking, destroying, host functions.

use std::{
    ffi::c_void,
    ptr,
    sync::{Mutex, atomic::AtomicU32, atomic::Ordering},
};

use cudarc::driver::sys::{self, CUresult};

use crate::{
    Check,
    support::{
        Env, HostWords, Outcome, Stream, Words, call, equal, holds, one_of, only_strict, refused,
        status, synchronize,
    },
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("stream.create", create),
    ("stream.priorities", priorities),
    ("stream.identity", identity),
    ("stream.query", query),
    ("stream.destroy_with_work", destroy_with_work),
    ("stream.many", many),
    ("stream.host_functions", host_functions),
    ("stream.host_function_sees_the_device", host_function_sees_the_device),
    ("stream.wrong", wrong),
    ("stream.destroyed_handle", destroyed_handle),
];

fn create(_: &Env) -> Outcome {
    for (stream, expected) in [(Stream::blocking()?, 0), (Stream::non_blocking()?, 1)] {
        let mut flags = 99;
        call!(cuStreamGetFlags(stream.0, &mut flags))?;
        equal("flags", flags, expected)?;
        call!(cuStreamSynchronize(stream.0))?;
        call!(cuStreamQuery(stream.0))?;
    }
    Ok(())
}

fn priorities(_: &Env) -> Outcome {
    let (mut least, mut greatest) = (0, 0);
    call!(cuCtxGetStreamPriorityRange(&mut least, &mut greatest))?;
    // Priorities outside the range are moved into it.
    for (asked, expected) in
        [(least, least), (greatest, greatest), (least + 5, least), (greatest - 5, greatest)]
    {
        let mut stream = ptr::null_mut();
        call!(cuStreamCreateWithPriority(&mut stream, 1, asked))?;
        let stream = Stream(stream);
        let mut priority = 99;
        call!(cuStreamGetPriority(stream.0, &mut priority))?;
        equal("priority", priority, expected)?;
    }
    Ok(())
}

fn identity(env: &Env) -> Outcome {
    let (a, b) = (Stream::blocking()?, Stream::blocking()?);
    holds("two streams have two handles", a.0 != b.0)?;
    let (mut id_a, mut id_b) = (0, 0);
    call!(cuStreamGetId(a.0, &mut id_a))?;
    call!(cuStreamGetId(b.0, &mut id_b))?;
    holds("two streams have two ids", id_a != id_b)?;
    for stream in [a.0, ptr::null_mut()] {
        let mut context = ptr::null_mut();
        call!(cuStreamGetCtx(stream, &mut context))?;
        equal("the stream's context", context, env.context)?;
    }
    Ok(())
}

fn query(env: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let flag = HostWords::zeroed(2)?;
    env.wait_flag(flag.device, flag.device + 4, stream.0)?;
    let busy = status!(cuStreamQuery(stream.0));
    flag.set(0, 1);
    one_of("while a kernel runs", busy, &[CUresult::CUDA_ERROR_NOT_READY])?;
    call!(cuStreamSynchronize(stream.0))?;
    equal("what the kernel says", flag.get(1), 1)?;
    call!(cuStreamQuery(stream.0))
}

/// Destroying a stream does not take its work away.
fn destroy_with_work(env: &Env) -> Outcome {
    let words = Words::filled(1, 0)?;
    let stream = Stream::non_blocking()?;
    env.slow_write(words.address, 5, 20, stream.0)?;
    drop(stream);
    equal("word", words.first()?, 5)
}

fn many(env: &Env) -> Outcome {
    let words = Words::filled(100, 0)?;
    let streams = (0..100).map(|_| Stream::non_blocking()).collect::<Outcome<Vec<_>>>()?;
    for (index, stream) in streams.iter().enumerate() {
        env.slow_write(words.at(index), index as u32 + 1, 0, stream.0)?;
    }
    equal("words", words.read()?, (1..=100).collect())
}

/// What host functions of `host_functions` leave, in the order in which they were called.
static CALLED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

unsafe extern "C" fn note(number: *mut c_void) {
    if let Ok(mut called) = CALLED.lock() {
        called.push(number as usize as u32);
    }
}

fn host_functions(env: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let words = Words::filled(1, 0)?;
    for number in 0..20usize {
        if number % 5 == 0 {
            env.slow_write(words.address, number as u32, 2, stream.0)?;
        }
        call!(cuLaunchHostFunc(stream.0, Some(note), ptr::without_provenance_mut(number)))?;
    }
    call!(cuStreamSynchronize(stream.0))?;
    let called = CALLED.lock().map(|called| called.clone()).unwrap_or_default();
    equal("order of calls", called, (0..20).collect())?;
    refused!(cuLaunchHostFunc(stream.0, None, ptr::null_mut()), CUDA_ERROR_INVALID_VALUE)
}

/// What the host function below saw.
static SEEN: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn look(word: *mut c_void) {
    // SAFETY: the check passes a word of page-locked memory and waits for this call.
    let value = unsafe { word.cast::<u32>().read_volatile() };
    SEEN.store(value, Ordering::SeqCst);
}

/// A host function runs after the work before it and before the work behind it.
fn host_function_sees_the_device(env: &Env) -> Outcome {
    let stream = Stream::blocking()?;
    let word = HostWords::zeroed(1)?;
    env.slow_write(word.device, 41, 10, stream.0)?;
    call!(cuLaunchHostFunc(stream.0, Some(look), word.host.cast()))?;
    env.slow_write(word.device, 42, 0, stream.0)?;
    synchronize()?;
    equal("what the host function saw", SEEN.load(Ordering::SeqCst), 41)?;
    equal("what the next kernel left", word.get(0), 42)
}

fn wrong(_: &Env) -> Outcome {
    let mut stream = ptr::null_mut();
    refused!(cuStreamCreate(&mut stream, 0x100), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuStreamCreate(ptr::null_mut(), 0), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuStreamDestroy_v2(ptr::null_mut()), CUDA_ERROR_INVALID_HANDLE)
}

/// The manual promises nothing about handles that are gone; a careful driver refuses them.
fn destroyed_handle(env: &Env) -> Outcome {
    only_strict(env)?;
    let stream = Stream::blocking()?.0;
    let gone = [CUresult::CUDA_ERROR_INVALID_HANDLE, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED];
    one_of("synchronising", status!(cuStreamSynchronize(stream)), &gone)?;
    one_of("asking", status!(cuStreamQuery(stream)), &gone)?;
    one_of("destroying again", status!(cuStreamDestroy_v2(stream)), &gone)?;
    let invented: sys::CUstream = ptr::without_provenance_mut(0xdead_beef_0000);
    one_of("an invented handle", status!(cuStreamSynchronize(invented)), &gone)
}
