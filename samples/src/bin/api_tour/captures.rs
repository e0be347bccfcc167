//! Stream capture: what becomes of work that is put into a capturing stream, and what must not be
//! done meanwhile.

use std::ptr;

use cudarc::driver::sys::{
    self, CUresult, CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status,
};

use crate::{
    Check,
    support::{
        Env, Event, HostWords, Outcome, Stop, Stream, Words, call, equal, holds, place, refused,
        status, synchronize,
    },
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("captures.run_at_each_launch", run_at_each_launch),
    ("captures.keep_the_parameters", keep_the_parameters),
    ("captures.copies_and_fills", copies_and_fills),
    ("captures.fork_and_join", fork_and_join),
    ("captures.host_functions_in_order", host_functions_in_order),
    ("captures.status_and_information", status_and_information),
    ("captures.launched_in_a_capture", launched_in_a_capture),
    ("captures.memory_in_order", memory_in_order),
    ("captures.allocation_in_relaxed_mode", allocation_in_relaxed_mode),
    ("captures.synchronising_is_unsupported", synchronising_is_unsupported),
    ("captures.legacy_stream_is_left_alone", legacy_stream_is_left_alone),
    ("captures.must_be_joined", must_be_joined),
    ("captures.wrong", wrong),
];

/// A graph that is destroyed with the value.
pub(crate) struct Graph(pub(crate) sys::CUgraph);

impl Graph {
    /// Captures what `work` puts into a stream.
    pub(crate) fn captured(stream: &Stream, work: impl FnOnce() -> Outcome) -> Outcome<Self> {
        begin(stream, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let worked = work();
        let graph = end(stream);
        worked.and(graph)
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> Outcome<Vec<sys::CUgraphNode>> {
        let mut count = 0;
        call!(cuGraphGetNodes(self.0, ptr::null_mut(), &mut count))?;
        // A list without places is an error.
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut nodes = vec![ptr::null_mut(); count];
        call!(cuGraphGetNodes(self.0, nodes.as_mut_ptr(), &mut count))?;
        Ok(nodes)
    }

    /// The graph ready to be launched.
    pub(crate) fn instantiate(&self) -> Outcome<Exec> {
        let mut exec = ptr::null_mut();
        call!(cuGraphInstantiateWithFlags(&mut exec, self.0, 0))?;
        Ok(Exec(exec))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = call!(cuGraphDestroy(self.0));
    }
}

/// A graph that can be launched, destroyed with the value.
pub(crate) struct Exec(pub(crate) sys::CUgraphExec);

impl Exec {
    pub(crate) fn launch(&self, stream: &Stream) -> Outcome {
        call!(cuGraphLaunch(self.0, stream.0))
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        let _ = synchronize();
        let _ = call!(cuGraphExecDestroy(self.0));
    }
}

fn begin(stream: &Stream, mode: Mode) -> Outcome {
    call!(cuStreamBeginCapture_v2(stream.0, mode))
}

fn end(stream: &Stream) -> Outcome<Graph> {
    let mut graph = ptr::null_mut();
    call!(cuStreamEndCapture(stream.0, &mut graph))?;
    Ok(Graph(graph))
}

fn status(stream: &Stream) -> Outcome<Status> {
    let mut status = Status::CU_STREAM_CAPTURE_STATUS_NONE;
    call!(cuStreamIsCapturing(stream.0, &mut status))?;
    Ok(status)
}

fn run_at_each_launch(env: &Env) -> Outcome {
    let (stream, words) = (Stream::non_blocking()?, Words::filled(4, 0)?);
    let graph = Graph::captured(&stream, || {
        // Each launch moves the words on by one place.
        env.copy_word(words.at(2), words.at(3), stream.0)?;
        env.copy_word(words.at(1), words.at(2), stream.0)?;
        env.slow_write(words.at(1), 9, 0, stream.0)
    })?;
    equal("nodes", graph.nodes()?.len(), 3)?;
    equal("words before a launch", words.read()?, vec![0; 4])?;
    let exec = graph.instantiate()?;
    exec.launch(&stream)?;
    equal("words after a launch", words.read()?, vec![0, 9, 0, 0])?;
    exec.launch(&stream)?;
    exec.launch(&stream)?;
    equal("words after three", words.read()?, vec![0, 9, 9, 9])
}

/// The values that parameters had when they were captured are the graph's.
fn keep_the_parameters(env: &Env) -> Outcome {
    let (stream, words) = (Stream::non_blocking()?, Words::filled(1, 0)?);
    let (mut address, mut value, mut nanoseconds) = (words.address, 5u32, 0u64);
    let graph = Graph::captured(&stream, || {
        let mut arguments = [place(&mut address), place(&mut value), place(&mut nanoseconds)];
        env.launch(c"slow_write", 1, 1, stream.0, &mut arguments)
    })?;
    (address, value) = (0, 6);
    holds("the variables have changed", address == 0 && value == 6)?;
    let exec = graph.instantiate()?;
    // What was captured into is not needed any more.
    drop(graph);
    exec.launch(&stream)?;
    equal("word", words.first()?, 5)
}

fn copies_and_fills(_: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let (words, copied, host) =
        (Words::filled(64, 0)?, Words::filled(64, 0)?, HostWords::zeroed(128)?);
    let exec = Graph::captured(&stream, || {
        call!(cuMemsetD32Async(words.address, 7, 32, stream.0))?;
        call!(cuMemsetD8Async(words.at(32), 1, 64, stream.0))?;
        call!(cuMemcpyHtoDAsync_v2(words.at(48), host.host.cast(), 64, stream.0))?;
        call!(cuMemcpyDtoDAsync_v2(copied.address, words.address, 256, stream.0))?;
        let to = host.host.wrapping_add(64).cast();
        call!(cuMemcpyDtoHAsync_v2(to, copied.address, 256, stream.0))
    })?
    .instantiate()?;
    for round in 1..=3 {
        host.set(0, round);
        exec.launch(&stream)?;
        call!(cuStreamSynchronize(stream.0))?;
        let got: Vec<u32> = [0, 31, 32, 47, 48, 49].map(|i| host.get(64 + i)).to_vec();
        equal("words", got, vec![7, 7, 0x0101_0101, 0x0101_0101, round, 0])?;
    }
    Ok(())
}

fn fork_and_join(env: &Env) -> Outcome {
    let (main, side) = (Stream::non_blocking()?, Stream::blocking()?);
    let (fork, join) = (Event::untimed()?, Event::untimed()?);
    let words = Words::filled(4, 0)?;
    let exec = Graph::captured(&main, || {
        env.slow_write(words.at(0), 3, 10, main.0)?;
        fork.record(main.0)?;
        call!(cuStreamWaitEvent(side.0, fork.0, 0))?;
        equal("the side stream", status(&side)?, Status::CU_STREAM_CAPTURE_STATUS_ACTIVE)?;
        env.copy_word(words.at(0), words.at(1), side.0)?;
        env.slow_write(words.at(1), 4, 10, side.0)?;
        env.copy_word(words.at(0), words.at(2), main.0)?;
        join.record(side.0)?;
        call!(cuStreamWaitEvent(main.0, join.0, 0))?;
        env.copy_word(words.at(1), words.at(3), main.0)
    })?
    .instantiate()?;
    equal("the side stream", status(&side)?, Status::CU_STREAM_CAPTURE_STATUS_NONE)?;
    for _ in 0..3 {
        call!(cuMemsetD32_v2(words.address, 0, 4))?;
        synchronize()?;
        exec.launch(&main)?;
        equal("words", words.read()?, vec![3, 4, 3, 4])?;
    }
    Ok(())
}

unsafe extern "C" fn double(word: *mut std::ffi::c_void) {
    let word = word.cast::<u32>();
    // SAFETY: the check passes a word of page-locked memory and waits for this call.
    unsafe { word.write_volatile(2 * word.read_volatile()) };
}

fn host_functions_in_order(env: &Env) -> Outcome {
    let (stream, host) = (Stream::non_blocking()?, HostWords::zeroed(2)?);
    let exec = Graph::captured(&stream, || {
        env.slow_write(host.device, 21, 5, stream.0)?;
        call!(cuLaunchHostFunc(stream.0, Some(double), host.host.cast()))?;
        env.copy_word(host.device, host.device + 4, stream.0)
    })?
    .instantiate()?;
    for _ in 0..3 {
        host.set(1, 0);
        exec.launch(&stream)?;
        call!(cuStreamSynchronize(stream.0))?;
        equal("words", [host.get(0), host.get(1)], [42, 42])?;
    }
    Ok(())
}

fn status_and_information(env: &Env) -> Outcome {
    let (stream, words) = (Stream::non_blocking()?, Words::filled(1, 0)?);
    equal("before", status(&stream)?, Status::CU_STREAM_CAPTURE_STATUS_NONE)?;
    let graph = Graph::captured(&stream, || {
        equal("during", status(&stream)?, Status::CU_STREAM_CAPTURE_STATUS_ACTIVE)?;
        env.slow_write(words.address, 1, 0, stream.0)?;
        let (mut now, mut id) = (Status::CU_STREAM_CAPTURE_STATUS_NONE, 0);
        let (mut graph, mut nodes, mut count) = (ptr::null_mut(), ptr::null(), 0);
        call!(cuStreamGetCaptureInfo_v2(
            stream.0, &mut now, &mut id, &mut graph, &mut nodes, &mut count
        ))?;
        equal("status", now, Status::CU_STREAM_CAPTURE_STATUS_ACTIVE)?;
        equal("dependencies", count, 1)?;
        holds("a capture has a number and a graph", id != 0 && !graph.is_null())?;
        let mut all = 0;
        call!(cuGraphGetNodes(graph, ptr::null_mut(), &mut all))?;
        equal("nodes so far", all, 1)
    })?;
    equal("after", status(&stream)?, Status::CU_STREAM_CAPTURE_STATUS_NONE)?;
    equal("nodes", graph.nodes()?.len(), 1)
}

/// A graph that is ready is no node of another one.
fn launched_in_a_capture(env: &Env) -> Outcome {
    let (stream, words) = (Stream::non_blocking()?, Words::filled(1, 0)?);
    let inner = Graph::captured(&stream, || env.slow_write(words.at(0), 8, 5, stream.0))?;
    let inner = inner.instantiate()?;
    begin(&stream, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    refused!(cuGraphLaunch(inner.0, stream.0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    invalidated(&stream)?;
    inner.launch(&stream)?;
    equal("word", words.first()?, 8)
}

fn memory_in_order(env: &Env) -> Outcome {
    let pools =
        env.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)?;
    if pools == 0 {
        return Err(Stop::Absent("the device has no memory pools".to_owned()));
    }
    const ROUNDS: usize = 4;
    let (stream, words) = (Stream::non_blocking()?, Words::filled(ROUNDS, 0)?);
    // What is freed in a round may be what the next one gets.
    let exec = Graph::captured(&stream, || {
        for round in 0..ROUNDS {
            let mut memory = 0;
            call!(cuMemAllocAsync(&mut memory, 4096, stream.0))?;
            env.slow_write(memory, 6 + round as u32, 0, stream.0)?;
            env.copy_word(memory, words.at(round), stream.0)?;
            call!(cuMemFreeAsync(memory, stream.0))?;
        }
        Ok(())
    })?
    .instantiate()?;
    for _ in 0..3 {
        call!(cuMemsetD32_v2(words.address, 0, ROUNDS))?;
        synchronize()?;
        exec.launch(&stream)?;
        synchronize()?;
        equal("words", words.read()?, vec![6, 7, 8, 9])?;
    }
    Ok(())
}

/// Who captures in relaxed mode may do what is else prohibited, such as allocating.
fn allocation_in_relaxed_mode(env: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    begin(&stream, Mode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let mut memory = 0;
    let allocated = call!(cuMemAlloc_v2(&mut memory, 4096));
    let worked = allocated.and_then(|()| env.slow_write(memory, 12, 0, stream.0));
    let graph = end(&stream)?;
    worked?;
    graph.instantiate()?.launch(&stream)?;
    call!(cuStreamSynchronize(stream.0))?;
    let mut host = 0u32;
    call!(cuMemcpyDtoH_v2((&raw mut host).cast(), memory, 4))?;
    call!(cuMemFree_v2(memory))?;
    equal("word", host, 12)
}

fn invalidated(stream: &Stream) -> Outcome {
    let mut graph = ptr::null_mut();
    refused!(cuStreamEndCapture(stream.0, &mut graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)?;
    holds("no graph comes of it", graph.is_null())?;
    equal("afterwards", status(stream)?, Status::CU_STREAM_CAPTURE_STATUS_NONE)
}

fn synchronising_is_unsupported(_: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    begin(&stream, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    refused!(cuStreamSynchronize(stream.0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    invalidated(&stream)?;
    begin(&stream, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    refused!(cuStreamQuery(stream.0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    invalidated(&stream)
}

/// The legacy stream would have to wait for a capturing one that takes turns with it.
fn legacy_stream_is_left_alone(env: &Env) -> Outcome {
    let (blocking, words) = (Stream::blocking()?, Words::filled(1, 0)?);
    refused!(
        cuStreamBeginCapture_v2(ptr::null_mut(), Mode::CU_STREAM_CAPTURE_MODE_GLOBAL),
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    )?;
    begin(&blocking, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let function = env.function(c"nothing")?;
    let none = ptr::null_mut();
    let refusal = refused!(
        cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, ptr::null_mut(), ptr::null_mut(), none),
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
    );
    let ended = invalidated(&blocking);
    refusal.and(ended)?;
    // One that does not take turns with it is nothing to it.
    let apart = Stream::non_blocking()?;
    begin(&apart, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let worked = env.slow_write(words.address, 3, 0, ptr::null_mut());
    let graph = end(&apart)?;
    worked?;
    equal("nodes", graph.nodes()?.len(), 0)?;
    equal("word", words.first()?, 3)
}

fn must_be_joined(env: &Env) -> Outcome {
    let (main, side, words) =
        (Stream::non_blocking()?, Stream::non_blocking()?, Words::filled(1, 0)?);
    let fork = Event::untimed()?;
    begin(&main, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    fork.record(main.0)?;
    call!(cuStreamWaitEvent(side.0, fork.0, 0))?;
    env.slow_write(words.address, 1, 0, side.0)?;
    let mut graph = ptr::null_mut();
    refused!(cuStreamEndCapture(main.0, &mut graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED)?;
    holds("no graph comes of it", graph.is_null())?;
    equal("word", words.first()?, 0)
}

fn wrong(env: &Env) -> Outcome {
    let stream = Stream::non_blocking()?;
    let mut graph = ptr::null_mut();
    refused!(cuStreamEndCapture(stream.0, &mut graph), CUDA_ERROR_ILLEGAL_STATE)?;
    begin(&stream, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    refused!(
        cuStreamBeginCapture_v2(stream.0, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        CUDA_ERROR_ILLEGAL_STATE
    )?;
    drop(end(&stream));
    // Work outside of a capture is nothing that a captured stream can wait for.
    let event = Event::untimed()?;
    let (other, words) = (Stream::non_blocking()?, Words::filled(1, 0)?);
    env.slow_write(words.address, 1, 0, other.0)?;
    event.record(other.0)?;
    begin(&stream, Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    refused!(cuStreamWaitEvent(stream.0, event.0, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION)?;
    // Whether the capture has survived that is not said.
    if status!(cuStreamEndCapture(stream.0, &mut graph)) == CUresult::CUDA_SUCCESS {
        drop(Graph(graph));
    }
    let mut exec = ptr::null_mut();
    refused!(cuGraphInstantiateWithFlags(&mut exec, ptr::null_mut(), 0), CUDA_ERROR_INVALID_VALUE)
}
