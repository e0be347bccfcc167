//! Several devices with a thread each: kernels that read and write a neighbour's memory, streams that
//! wait for events of other devices, results gathered by peer copies.

use std::ffi::{CString, c_uint, c_void};
use std::process::ExitCode;
use std::ptr::{from_mut, null_mut};
use std::sync::{Barrier, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::Parser;
use cudarc::driver::{CudaContext, result, sys};
use samples::{
    cu,
    gpu::{failed, require_driver},
    ptx,
    report::say,
};

const THREADS: u32 = 128;

/// Computes on all devices at once, each with a neighbour's memory, and gathers by peer copies.
#[derive(Parser)]
#[command(name = "peers")]
struct CommandLine {
    /// Values on each device
    #[arg(long, default_value_t = 100_000)]
    size: u32,
    /// How often all of it is done
    #[arg(long, default_value_t = 1)]
    iterations: u32,
    /// Devices: the first so many; all if not said
    #[arg(long)]
    devices: Option<usize>,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
}

/// What a device's thread shows the others.
#[derive(Clone, Copy)]
struct Shown {
    context: sys::CUcontext,
    values: u64,
    sums: u64,
    counter: u64,
    filled: sys::CUevent,
    added: sys::CUevent,
}

// SAFETY: handles and addresses, which every thread of a process may use.
unsafe impl Send for Shown {}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    match run(&arguments) {
        Ok(ExitReport { devices, linked, verified }) => {
            let (size, iterations) = (arguments.size, arguments.iterations);
            if arguments.json {
                say(format_args!(
                    "{{\"sample\":\"peers\",\"devices\":{devices},\"peer_access\":{linked},\
                     \"iterations\":{iterations},\"size\":{size},\"verified\":{verified}}}"
                ));
            } else {
                let link = if linked { "with peer access" } else { "without peer access" };
                let word = if verified { "right" } else { "WRONG" };
                say(format_args!("{devices} devices {link}: {word}"));
            }
            if verified { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::from(2)
        }
    }
}

struct ExitReport {
    devices: usize,
    linked: bool,
    verified: bool,
}

fn run(arguments: &CommandLine) -> Result<ExitReport> {
    require_driver();
    result::init().map_err(failed).context("cuInit")?;
    let found = CudaContext::device_count().map_err(failed)? as usize;
    let devices = arguments.devices.unwrap_or(found);
    if devices == 0 || devices > found || arguments.size == 0 {
        bail!("--devices {devices} --size {}: there are {found} devices", arguments.size);
    }
    let mut linked = devices > 1;
    for from in 0..devices {
        let mut can = 1;
        let to = (from + 1) % devices;
        if from != to {
            cu!(cuDeviceCanAccessPeer(&mut can, from as i32, to as i32))?;
        }
        // All count in the first one's memory.
        let mut first = 1;
        if from != 0 {
            cu!(cuDeviceCanAccessPeer(&mut first, from as i32, 0))?;
        }
        linked &= can == 1 && first == 1;
    }
    let shown: Vec<Mutex<Option<Shown>>> = (0..devices).map(|_| Mutex::default()).collect();
    let barrier = Barrier::new(devices);
    let outcomes: Vec<bool> = std::thread::scope(|scope| {
        let work = |device| {
            let (shown, barrier) = (&shown, &barrier);
            move || one_device(arguments, device, linked, shown, barrier)
        };
        let threads: Vec<_> = (0..devices).map(|device| scope.spawn(work(device))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(false)).collect()
    });
    Ok(ExitReport { devices, linked, verified: outcomes.iter().all(|right| *right) })
}

/// One device's part; true unless it found something wrong. A device that fails ends the process,
/// since the others wait for it.
fn one_device(
    arguments: &CommandLine,
    device: usize,
    linked: bool,
    shown: &[Mutex<Option<Shown>>],
    barrier: &Barrier,
) -> bool {
    match work(arguments, device, linked, shown, barrier) {
        Ok(right) => right.unwrap_or(true),
        Err(error) => {
            eprintln!("peers: device {device}: {error:#}");
            std::process::exit(2)
        }
    }
}

fn allocate(bytes: usize) -> Result<u64> {
    let mut address = 0;
    cu!(cuMemAlloc_v2(&mut address, bytes))?;
    Ok(address)
}

fn event() -> Result<sys::CUevent> {
    let mut event = null_mut();
    // CU_EVENT_DISABLE_TIMING
    cu!(cuEventCreate(&mut event, 2))?;
    Ok(event)
}

/// What the first device found of all results; `None` on the others.
fn work(
    arguments: &CommandLine,
    device: usize,
    linked: bool,
    shown: &[Mutex<Option<Shown>>],
    barrier: &Barrier,
) -> Result<Option<bool>> {
    let devices = shown.len();
    let next = (device + 1) % devices;
    let mut n = arguments.size;
    let bytes = n as usize * 4;
    let context = CudaContext::new(device).map_err(failed)?;
    context.bind_to_thread().map_err(failed)?;
    let (text, mut module) = (CString::new(ptx::PEERS)?, null_mut());
    cu!(cuModuleLoadData(&mut module, text.as_ptr().cast()))?;
    let function = |name: &str| -> Result<sys::CUfunction> {
        let name = CString::new(name)?;
        let mut function = null_mut();
        cu!(cuModuleGetFunction(&mut function, module, name.as_ptr()))?;
        Ok(function)
    };
    let (fill, add, count) =
        (function("fill")?, function("add_to_neighbour")?, function("count_there")?);
    let mut stream = null_mut();
    cu!(cuStreamCreate(&mut stream, 1))?;
    let blocks = n.div_ceil(THREADS);
    let launch = |function, blocks: c_uint, parameters: &mut [*mut c_void]| {
        let parameters = parameters.as_mut_ptr();
        cu!(cuLaunchKernel(
            function,
            blocks,
            1,
            1,
            THREADS,
            1,
            1,
            0,
            stream,
            parameters,
            null_mut()
        ))
    };
    let own = Shown {
        context: context.cu_ctx(),
        values: allocate(bytes)?,
        sums: allocate(bytes)?,
        counter: allocate(4)?,
        filled: event()?,
        added: event()?,
    };
    *shown[device].lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
    barrier.wait();
    let of = |device: usize| {
        let shown = shown[device].lock().unwrap_or_else(PoisonError::into_inner);
        shown.context("a device's thread has ended")
    };
    let (neighbour, first) = (of(next)?, of(0)?);
    if linked {
        for peer in [next, 0].into_iter().filter(|peer| *peer != device) {
            match cu!(cuCtxEnablePeerAccess(of(peer)?.context, 0)) {
                Err(error) if error.root_cause().to_string().contains("ALREADY_ENABLED") => {}
                outcome => outcome?,
            }
        }
    }
    let (there, here) = match linked || next == device {
        true => (0, 0),
        false => (allocate(bytes)?, allocate(bytes)?),
    };
    let mut right = None;
    for round in 0..arguments.iterations {
        let (mut start, mut scale) = (device as u32 * n + round, 3u32);
        let mut values = own.values;
        launch(
            fill,
            blocks,
            &mut [
                from_mut(&mut values).cast(),
                from_mut(&mut start).cast(),
                from_mut(&mut scale).cast(),
                from_mut(&mut n).cast(),
            ],
        )?;
        if device == 0 {
            cu!(cuMemsetD32Async(own.counter, 0, 1, stream))?;
        }
        cu!(cuEventRecord(own.filled, stream))?;
        // An event that is waited for must have been recorded.
        barrier.wait();
        cu!(cuStreamWaitEvent(stream, neighbour.filled, 0))?;
        cu!(cuStreamWaitEvent(stream, first.filled, 0))?;
        let (mut read, mut written) = (neighbour.values, neighbour.sums);
        if here != 0 {
            let (to, from) = (own.context, neighbour.context);
            cu!(cuMemcpyPeerAsync(here, to, neighbour.values, from, bytes, stream))?;
            (read, written) = (here, there);
        }
        launch(
            add,
            blocks,
            &mut [
                from_mut(&mut values).cast(),
                from_mut(&mut read).cast(),
                from_mut(&mut written).cast(),
                from_mut(&mut n).cast(),
            ],
        )?;
        if here != 0 {
            let (to, from) = (neighbour.context, own.context);
            cu!(cuMemcpyPeerAsync(neighbour.sums, to, there, from, bytes, stream))?;
        }
        let mut counter = if linked { first.counter } else { own.counter };
        if linked || device == 0 {
            launch(count, 2, &mut [from_mut(&mut counter).cast()])?;
        }
        cu!(cuEventRecord(own.added, stream))?;
        barrier.wait();
        if device == 0 {
            let expected = (round, n, devices, linked);
            let found = gather(stream, own, expected, bytes, &of)?;
            right = Some(right.unwrap_or(true) && found);
        }
        // No thread begins the next round before the first device has read this one.
        barrier.wait();
    }
    Ok(right)
}

/// Gathers all devices' sums on the first one, and compares them.
fn gather(
    stream: sys::CUstream,
    own: Shown,
    (round, n, devices, linked): (u32, u32, usize, bool),
    bytes: usize,
    of: &impl Fn(usize) -> Result<Shown>,
) -> Result<bool> {
    let all = allocate(bytes * devices)?;
    for device in 0..devices {
        let other = of(device)?;
        // The sums of a device are written by the one before it.
        let writer = of((device + devices - 1) % devices)?;
        cu!(cuStreamWaitEvent(stream, writer.added, 0))?;
        cu!(cuStreamWaitEvent(stream, other.added, 0))?;
        let to = all + (bytes * device) as u64;
        cu!(cuMemcpyPeerAsync(to, own.context, other.sums, other.context, bytes, stream))?;
    }
    let mut sums = vec![0u32; n as usize * devices];
    cu!(cuMemcpyDtoHAsync_v2(sums.as_mut_ptr().cast(), all, bytes * devices, stream))?;
    let mut counted = 0u32;
    cu!(cuMemcpyDtoHAsync_v2(from_mut(&mut counted).cast(), own.counter, 4, stream))?;
    cu!(cuStreamSynchronize(stream))?;
    cu!(cuMemFree_v2(all))?;
    let value = |device: usize, i: u32| (device as u32 * n + round).wrapping_add(i).wrapping_mul(3);
    let sum = |place: usize| {
        let (device, i) = (place / n as usize, (place % n as usize) as u32);
        let writer = (device + devices - 1) % devices;
        value(writer, i).wrapping_add(value(device, i).wrapping_mul(2))
    };
    let counters = if linked { devices as u32 } else { 1 };
    let wrong = sums.iter().enumerate().find(|(place, found)| **found != sum(*place));
    if let Some((place, found)) = wrong {
        eprintln!("peers: value {place} is {found}, not {}", sum(place));
    }
    if counted != counters * 2 * THREADS {
        eprintln!("peers: {counted} threads counted, not {}", counters * 2 * THREADS);
    }
    Ok(wrong.is_none() && counted == counters * 2 * THREADS)
}
