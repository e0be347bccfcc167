//! Several devices: each adds vectors in a thread of its own; the first gathers the sums by peer copies
//! behind the others' events, and adds what lies in the others' memory where it reaches that, also as a
//! graph with kernels of two devices.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, PushKernelArg, result, sys,
};
use cudarc::nvrtc::Ptx;
use samples::{
    Gpu, Random,
    driver::{self, Graph},
    gpu::{failed, function, require_driver, shape},
    kernels, ptx,
};

const THREADS: u32 = 256;
const LENGTH: usize = 64 << 10;
/// Times that all is done over.
const ROUNDS: usize = 4;

/// What a device's thread leaves.
struct Part {
    stream: Arc<CudaStream>,
    a: CudaSlice<f32>,
    b: CudaSlice<f32>,
    sum: CudaSlice<f32>,
    /// Behind the addition.
    added: CudaEvent,
    expected: Vec<f32>,
}

fn add(context: &Arc<CudaContext>, seed: u64) -> Result<Part> {
    context.bind_to_thread().map_err(failed)?;
    let stream = context.new_stream().map_err(failed)?;
    let gpu = Gpu { context: context.clone(), stream: stream.clone() };
    let kernels = kernels::VectorAdd::load(&gpu)?;
    let mut random = Random::new(seed);
    let (a, b) = (random.reals(LENGTH, -1.0, 1.0), random.reals(LENGTH, -1.0, 1.0));
    let expected = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let a = stream.clone_htod(&a).map_err(failed)?;
    let b = stream.clone_htod(&b).map_err(failed)?;
    let mut sum = stream.alloc_zeros(LENGTH).map_err(failed)?;
    let length = LENGTH as i32;
    kernels.vector_add(&stream, shape(4, THREADS, 0), &a, &b, &mut sum, &length)?;
    let added = stream.record_event(None).map_err(failed)?;
    Ok(Part { stream, a, b, sum, added, expected })
}

/// Gathers the sums in the first device's memory; true if it also added in the others' memory.
fn gather(contexts: &[Arc<CudaContext>], parts: &[Part], round: usize) -> Result<bool> {
    let first = &contexts[0];
    first.bind_to_thread().map_err(failed)?;
    let stream = first.new_stream().map_err(failed)?;
    let bytes = LENGTH * size_of::<f32>();
    let gathered: CudaSlice<f32> = stream.alloc_zeros(LENGTH * parts.len()).map_err(failed)?;
    for (device, part) in parts.iter().enumerate() {
        let to = gathered.device_ptr(&stream).0 + (device * bytes) as u64;
        let from = part.sum.device_ptr(&part.stream).0;
        driver::cuStreamWaitEvent(&stream, &part.added)?;
        // SAFETY: both ranges hold that many bytes, and live until the stream is synchronised.
        let copied = unsafe {
            let (to_context, from_context) = (first.cu_ctx(), contexts[device].cu_ctx());
            result::memcpy_peer_async(to_context, to, from_context, from, bytes, stream.cu_stream())
        };
        copied.map_err(failed).with_context(|| format!("peer copy from device {device}"))?;
    }
    let all = stream.clone_dtoh(&gathered).map_err(failed)?;
    for (device, part) in parts.iter().enumerate() {
        let found = &all[device * LENGTH..(device + 1) * LENGTH];
        ensure!(found == part.expected, "device {device}: the gathered sum is wrong");
    }
    let Some(last) = parts.last().filter(|_| parts.len() > 1) else { return Ok(false) };
    let peer = contexts.last().context("there is one")?;
    let mut can = 0;
    driver::cuDeviceCanAccessPeer(&mut can, first.cu_device(), peer.cu_device())?;
    if can == 0 {
        return Ok(false);
    }
    if round == 0 {
        driver::cuCtxEnablePeerAccess(peer)?;
    }
    let module = first.load_module(Ptx::from_src(ptx::VECTOR_ADD)).map_err(failed)?;
    let kernel = function(&module, "vector_add")?;
    let (a, b) = (last.a.device_ptr(&last.stream).0, last.b.device_ptr(&last.stream).0);
    let sum = last.sum.device_ptr(&last.stream).0;
    last.stream.synchronize().map_err(failed)?;
    // That made the peer's context current.
    first.bind_to_thread().map_err(failed)?;
    // SAFETY: the range is the last device's sum; nothing else uses it now.
    unsafe { result::memset_d8_sync(sum, 0, bytes) }.map_err(failed)?;
    first.synchronize().map_err(failed)?;
    let length = LENGTH as i32;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&a).arg(&b).arg(&sum).arg(&length);
    // SAFETY: the arguments are addresses of the kernel's parameters in the peer's memory, which this
    // device reaches.
    unsafe { launch.launch(shape(4, THREADS, 0)) }.map_err(failed)?;
    stream.synchronize().map_err(failed)?;
    let found = last.stream.clone_dtoh(&last.sum).map_err(failed)?;
    ensure!(found == last.expected, "the sum in the peer's memory is wrong");
    Ok(true)
}

/// Captures a row of kernels on two devices, of which each adds to what the one before made, as one
/// graph, and launches it.
fn graph(contexts: &[Arc<CudaContext>], parts: &[Part]) -> Result<()> {
    let ends = [(0, &contexts[0], &parts[0]), (1, &contexts[1], &parts[1])];
    let mut kernels = Vec::new();
    for (_, context, _) in ends {
        context.bind_to_thread().map_err(failed)?;
        kernels.push((context.load_module(Ptx::from_src(ptx::VECTOR_ADD)), context.new_stream()));
    }
    let mut streams = Vec::new();
    let mut functions = Vec::new();
    for (module, stream) in kernels {
        streams.push(stream.map_err(failed)?);
        functions.push(function(&module.map_err(failed)?, "vector_add")?);
    }
    for (device, context, _) in ends {
        context.bind_to_thread().map_err(failed)?;
        driver::enable_peer_access(&contexts[1 - device])?;
    }
    let a = parts[0].a.device_ptr(&parts[0].stream).0;
    let b = parts[0].b.device_ptr(&parts[0].stream).0;
    let sums: Vec<u64> = parts.iter().map(|part| part.sum.device_ptr(&part.stream).0).collect();
    for (_, context, _) in ends {
        context.bind_to_thread().map_err(failed)?;
        context.synchronize().map_err(failed)?;
    }
    contexts[0].bind_to_thread().map_err(failed)?;
    let length = LENGTH as i32;
    let add = |device: usize, (a, b): (u64, u64), sum: u64| -> Result<()> {
        contexts[device].bind_to_thread().map_err(failed)?;
        let mut launch = streams[device].launch_builder(&functions[device]);
        launch.arg(&a).arg(&b).arg(&sum).arg(&length);
        // SAFETY: three vectors of that length, on devices that reach each other.
        unsafe { launch.launch(shape(4, THREADS, 0)) }.map(drop).map_err(failed)
    };
    let wait = |device: usize| -> Result<()> {
        contexts[device].bind_to_thread().map_err(failed)?;
        let flags = Some(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        let event = contexts[device].new_event(flags).map_err(failed)?;
        event.record(&streams[device]).map_err(failed)?;
        Ok(driver::cuStreamWaitEvent(&streams[1 - device], &event)?)
    };
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    driver::cuStreamBeginCapture_v2(&streams[0], mode)?;
    add(0, (a, b), sums[0])?; // a + b
    wait(0)?;
    add(1, (sums[0], b), sums[1]).context("a captured kernel of another device")?; // a + 2 b
    wait(1)?;
    add(0, (sums[1], b), sums[0])?; // a + 3 b
    let captured = Graph::captured(&streams[0])?;
    let exec = captured.instantiate().context("a graph of two devices")?;
    for _ in 0..3 {
        exec.launch(&streams[0])?;
    }
    driver::cuStreamSynchronize(&streams[0])?;
    drop((exec, captured));
    let read = |slice: &CudaSlice<f32>| parts[0].stream.clone_dtoh(slice).map_err(failed);
    let (a, b) = (read(&parts[0].a)?, read(&parts[0].b)?);
    let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b + b + b).collect();
    ensure!(read(&parts[0].sum)? == expected, "what a graph of two devices made is wrong");
    Ok(())
}

fn run() -> Result<()> {
    require_driver();
    let count = CudaContext::device_count().map_err(failed)? as usize;
    ensure!(count > 0, "there is no device");
    let contexts: Vec<Arc<CudaContext>> =
        (0..count).map(|d| CudaContext::new(d).map_err(failed)).collect::<Result<_>>()?;
    let mut reached = false;
    for round in 0..ROUNDS {
        let parts: Vec<Result<Part>> = std::thread::scope(|scope| {
            let threads: Vec<_> = contexts
                .iter()
                .enumerate()
                .map(|(d, context)| scope.spawn(move || add(context, (round * 16 + d) as u64)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|part| part.unwrap_or_else(|_| anyhow::bail!("a thread panicked"))).collect()
        });
        let parts = parts.into_iter().collect::<Result<Vec<_>>>()?;
        reached = gather(&contexts, &parts, round)?;
        if reached {
            graph(&contexts, &parts)?;
        }
    }
    let how = if reached { "with" } else { "without" };
    println!("{count} devices ok, {how} peer access");
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("devices: {error:#}");
            ExitCode::FAILURE
        }
    }
}
