//! Several devices with a thread each: kernels that read and write a neighbour's memory, streams that
//! wait for events of other devices, results gathered by peer copies.

use std::process::ExitCode;
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::Parser;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result, sys};
use samples::{
    Gpu, driver,
    gpu::{failed, require_driver, shape},
    kernels,
    memory::DeviceMemory,
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
struct Shown {
    context: Arc<CudaContext>,
    values: DeviceMemory,
    sums: DeviceMemory,
    counter: DeviceMemory,
    filled: CudaEvent,
    added: CudaEvent,
}

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
            driver::cuDeviceCanAccessPeer(&mut can, from as i32, to as i32)?;
        }
        // All count in the first one's memory.
        let mut first = 1;
        if from != 0 {
            driver::cuDeviceCanAccessPeer(&mut first, from as i32, 0)?;
        }
        linked &= can == 1 && first == 1;
    }
    let shown: Vec<Mutex<Option<Arc<Shown>>>> = (0..devices).map(|_| Mutex::default()).collect();
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
    shown: &[Mutex<Option<Arc<Shown>>>],
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

fn allocate(bytes: usize) -> Result<DeviceMemory> {
    DeviceMemory::new(bytes).map_err(failed)
}

/// What the first device found of all results; `None` on the others.
fn work(
    arguments: &CommandLine,
    device: usize,
    linked: bool,
    shown: &[Mutex<Option<Arc<Shown>>>],
    barrier: &Barrier,
) -> Result<Option<bool>> {
    let devices = shown.len();
    let next = (device + 1) % devices;
    let n = arguments.size;
    let bytes = n as usize * 4;
    let context = CudaContext::new(device).map_err(failed)?;
    context.bind_to_thread().map_err(failed)?;
    let gpu = Gpu { stream: context.new_stream().map_err(failed)?, context };
    let (context, stream) = (&gpu.context, &gpu.stream);
    let kernels = kernels::Peers::load(&gpu)?;
    let untimed = Some(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
    let own = Arc::new(Shown {
        context: context.clone(),
        values: allocate(bytes)?,
        sums: allocate(bytes)?,
        counter: allocate(4)?,
        filled: context.new_event(untimed).map_err(failed)?,
        added: context.new_event(untimed).map_err(failed)?,
    });
    let every = shape(n.div_ceil(THREADS), THREADS, 0);
    *shown[device].lock().unwrap_or_else(PoisonError::into_inner) = Some(own.clone());
    barrier.wait();
    let of = |device: usize| {
        let shown = shown[device].lock().unwrap_or_else(PoisonError::into_inner);
        shown.clone().context("a device's thread has ended")
    };
    let (neighbour, first) = (of(next)?, of(0)?);
    if linked {
        for peer in [next, 0].into_iter().filter(|peer| *peer != device) {
            driver::enable_peer_access(&of(peer)?.context)?;
        }
    }
    let between = match linked || next == device {
        true => None,
        false => Some((allocate(bytes)?, allocate(bytes)?)),
    };
    let mut right = None;
    for round in 0..arguments.iterations {
        kernels.fill(stream, every, &own.values, &(device as u32 * n + round), &3, &n)?;
        if device == 0 {
            driver::cuMemsetD32Async(&own.counter, 0, stream)?;
        }
        driver::cuEventRecord(&own.filled, stream)?;
        // An event that is waited for must have been recorded.
        barrier.wait();
        driver::cuStreamWaitEvent(stream, &neighbour.filled)?;
        driver::cuStreamWaitEvent(stream, &first.filled)?;
        let (mut read, mut written) = (&neighbour.values, &neighbour.sums);
        if let Some((there, here)) = &between {
            driver::cuMemcpyPeerAsync(
                here,
                0,
                context,
                &neighbour.values,
                &neighbour.context,
                stream,
            )?;
            (read, written) = (here, there);
        }
        kernels.add_to_neighbour(stream, every, &own.values, read, written, &n)?;
        if let Some((there, _)) = &between {
            driver::cuMemcpyPeerAsync(
                &neighbour.sums,
                0,
                &neighbour.context,
                there,
                context,
                stream,
            )?;
        }
        if linked || device == 0 {
            let counter = if linked { &first.counter } else { &own.counter };
            kernels.count_there(stream, shape(2, THREADS, 0), counter)?;
        }
        driver::cuEventRecord(&own.added, stream)?;
        barrier.wait();
        if device == 0 {
            let expected = (round, n, devices, linked);
            let found = gather(stream, &own, expected, &of)?;
            right = Some(right.unwrap_or(true) && found);
        }
        // No thread begins the next round before the first device has read this one.
        barrier.wait();
    }
    Ok(right)
}

/// Gathers all devices' sums on the first one, and compares them.
fn gather(
    stream: &CudaStream,
    own: &Shown,
    (round, n, devices, linked): (u32, u32, usize, bool),
    of: &impl Fn(usize) -> Result<Arc<Shown>>,
) -> Result<bool> {
    let bytes = own.sums.bytes();
    let all = allocate(bytes * devices)?;
    for device in 0..devices {
        let other = of(device)?;
        // The sums of a device are written by the one before it.
        let writer = of((device + devices - 1) % devices)?;
        driver::cuStreamWaitEvent(stream, &writer.added)?;
        driver::cuStreamWaitEvent(stream, &other.added)?;
        let (sums, context) = (&other.sums, &other.context);
        driver::cuMemcpyPeerAsync(&all, bytes * device, &own.context, sums, context, stream)?;
    }
    let mut sums = vec![0u32; n as usize * devices];
    all.read_behind(stream, &mut sums).map_err(failed)?;
    let mut counted = 0;
    own.counter.read_behind(stream, std::slice::from_mut(&mut counted)).map_err(failed)?;
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
