//! A program that does what few do: it forks while its kernels run, launches without ever waiting,
//! asks for everything until it is refused. Its own results must be right all the same.

use std::ffi::c_void;
use std::hint::black_box;
use std::process::ExitCode;
use std::ptr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use cudarc::driver::{
    CudaSlice, CudaStream,
    sys::{self, CUresult},
};
use rustix::process::{Pid, WaitOptions, waitpid};
use samples::{
    Gpu, Options, driver,
    gpu::{failed, shape},
    kernels,
    memory::{DeviceMemory, HostMemory},
    report::say,
    start,
};

/// Forks at work, fills its queue, or asks until it is refused.
#[derive(Parser)]
#[command(name = "unruly")]
struct CommandLine {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum What {
    /// Forks while kernels run; children leave at once, become another program, or linger
    Fork {
        /// How many children
        #[arg(default_value_t = 6)]
        children: u32,
    },
    /// Launches so many kernels before it waits for the first
    Flood {
        /// How many launches
        #[arg(default_value_t = 100_000)]
        launches: u32,
    },
    /// Threads that are cancelled (pthread_cancel) while they wait for a stream
    Cancel {
        /// How many threads
        #[arg(default_value_t = 6)]
        threads: u32,
    },
    /// Children that read the parent's page-locked memory
    Pinned {
        /// How many children
        #[arg(default_value_t = 6)]
        children: u32,
    },
    /// Loads machine code for no device, from its own file and from memory, and is refused
    Image,
    /// Makes streams, events and memory until it is refused, or has so many of each
    Limits {
        /// Most of each kind
        #[arg(default_value_t = 5000)]
        most: usize,
    },
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    match run(&arguments) {
        Ok(()) => {
            say("unruly: all results were right");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("unruly: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Bytes of a piece of device memory that is asked for, and of a piece of page-locked memory.
const DEVICE_PIECE_BYTES: usize = 64 << 20;
const HOST_PIECE_BYTES: usize = 1 << 20;
/// Most pieces of page-locked memory: it is the machine's.
const HOST_PIECES_MAX: usize = 64;

/// One step of the generator in `spin_steps`.
fn step(state: u32) -> u32 {
    state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
}

/// A kernel whose result is known.
struct Work {
    kernels: kernels::Spin,
    word: CudaSlice<u32>,
}

impl Work {
    fn new(gpu: &Gpu) -> Result<Self> {
        let kernels = kernels::Spin::load(gpu)?;
        Ok(Self { kernels, word: gpu.stream.alloc_zeros(1).map_err(failed)? })
    }

    fn launch(&mut self, gpu: &Gpu, steps: u32, seed: u32) -> Result<()> {
        self.launch_in(&gpu.stream, steps, seed)
    }

    fn launch_in(&mut self, stream: &CudaStream, steps: u32, seed: u32) -> Result<()> {
        self.kernels.spin_steps(stream, shape(1, 1, 0), &mut self.word, &steps, &seed)
    }

    /// Compares what the last launch, of so many steps from `seed`, has left.
    fn check(&self, gpu: &Gpu, steps: u32, seed: u32) -> Result<()> {
        let found = gpu.stream.clone_dtoh(&self.word).map_err(failed)?[0];
        let expected = (0..steps).fold(seed, |state, _| step(state));
        ensure!(found == expected, "the device's result is {found}, it should be {expected}");
        Ok(())
    }
}

fn run(arguments: &CommandLine) -> Result<()> {
    let gpu = Gpu::open(&arguments.options)?;
    let mut work = Work::new(&gpu)?;
    work.launch(&gpu, 1, 7)?;
    work.check(&gpu, 1, 7)?;
    start::wait(&arguments.options)?;
    match arguments.what {
        What::Fork { children } => fork(&gpu, &mut work, children),
        What::Flood { launches } => flood(&gpu, &mut work, launches),
        What::Cancel { threads } => cancel(&gpu, &mut work, threads),
        What::Pinned { children } => pinned(children),
        What::Image => images(),
        What::Limits { most } => limits(&gpu, &mut work, most),
    }
}

/// The header of a cubin, and nothing behind it.
static CUBIN: [u8; 64] = {
    let mut elf = [0; 64];
    let identification = *b"\x7fELF\x02\x01\x01\x33\x07";
    let mut index = 0;
    while index < identification.len() {
        elf[index] = identification[index];
        index += 1;
    }
    elf[18] = 190;
    elf
};

fn images() -> Result<()> {
    let made = CUBIN.to_vec();
    for image in [&CUBIN[..], &CUBIN[..], &made[..], &made[..]] {
        let mut module = ptr::null_mut();
        // SAFETY: the image is a static or lives through the call, and the result is a local.
        let code = unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) };
        let refused = [CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU, CUresult::CUDA_ERROR_INVALID_IMAGE];
        ensure!(refused.contains(&code), "an image of nothing: {code:?}");
    }
    Ok(())
}

fn fork(gpu: &Gpu, work: &mut Work, children: u32) -> Result<()> {
    const STEPS: u32 = 200_000;
    let mut pids = Vec::new();
    for number in 0..children {
        work.launch(gpu, STEPS, number)?;
        // SAFETY: the child makes system calls only. The C strings are constant; exec comes back only
        // if it fails.
        let child = unsafe {
            child(|| {
                match number % 3 {
                    0 => {}
                    1 => {
                        let program = c"/bin/true".as_ptr();
                        libc::execl(program, program, ptr::null::<libc::c_char>());
                    }
                    _ => std::thread::sleep(Duration::from_millis(20)),
                }
                0
            })
        };
        pids.push(child?);
        work.check(gpu, STEPS, number)?;
    }
    for pid in pids {
        let status = ended(pid)?;
        ensure!(status == 0, "child {pid} ended with status {status}");
    }
    Ok(())
}

/// A child that does this and ends with its status, and runs nothing else of this process.
///
/// # Safety
/// It must be safe after a fork.
unsafe fn child(work: impl FnOnce() -> i32) -> Result<i32> {
    // SAFETY: as the caller promises.
    let pid = unsafe {
        match libc::fork() {
            0 => libc::_exit(work()),
            pid => pid,
        }
    };
    ensure!(pid > 0, "fork: {}", std::io::Error::last_os_error());
    Ok(pid)
}

/// Waits for a child; its status, as `wait` gives it.
fn ended(pid: i32) -> Result<i32> {
    let waited = waitpid(Pid::from_raw(pid), WaitOptions::empty()).context("waitpid")?;
    Ok(waited.context("no child")?.1.as_raw())
}

fn flood(gpu: &Gpu, work: &mut Work, launches: u32) -> Result<()> {
    for number in 0..launches {
        work.launch(gpu, 1, number)?;
    }
    gpu.stream.synchronize().map_err(failed)?;
    work.check(gpu, 1, launches.saturating_sub(1))
}

/// Makes things until it is refused; anything but a refusal for want of room is an error.
fn as_many_as_there_are<T>(
    what: &str,
    most: usize,
    mut make: impl FnMut() -> Result<T, cudarc::driver::DriverError>,
) -> Result<Vec<T>> {
    let mut made = Vec::new();
    while made.len() < most {
        match make() {
            Ok(one) => made.push(one),
            Err(error) if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY => break,
            Err(error) => return Err(failed(error)).context(format!("{what} {}", made.len())),
        }
    }
    say(format_args!("unruly: {} {what}", made.len()));
    Ok(made)
}

fn limits(gpu: &Gpu, work: &mut Work, most: usize) -> Result<()> {
    let streams = as_many_as_there_are("streams", most, || gpu.context.new_stream())?;
    let events = as_many_as_there_are("events", most, || gpu.context.new_event(None))?;
    let device = || DeviceMemory::new(DEVICE_PIECE_BYTES);
    let device = as_many_as_there_are("pieces of device memory", most, device)?;
    let host = || HostMemory::new(HOST_PIECE_BYTES, 0);
    let host =
        as_many_as_there_are("pieces of page-locked memory", most.min(HOST_PIECES_MAX), host)?;
    work.launch(gpu, 3, 11)?;
    work.check(gpu, 3, 11)?;
    drop((device, host, streams, events));
    work.launch(gpu, 3, 12)?;
    work.check(gpu, 3, 12)
}

/// What a thread that is to be cancelled waits for.
struct Waiting(sys::CUcontext, sys::CUstream);

extern "C" fn wait_for_stream(waiting: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's, with handles of its own; it joins this thread before it ends.
    unsafe {
        let Waiting(context, stream) = &*waiting.cast::<Waiting>();
        sys::cuCtxSetCurrent(*context);
        sys::cuStreamSynchronize(*stream);
    }
    ptr::null_mut()
}

/// Threads that are cancelled (pthread_cancel) while they wait for a stream.
fn cancel(gpu: &Gpu, work: &mut Work, threads: u32) -> Result<()> {
    for number in 0..threads {
        let stream = gpu.context.new_stream().map_err(failed)?;
        driver::cuLaunchHostFunc(&stream, || std::thread::sleep(Duration::from_millis(100)))?;
        work.launch_in(&stream, 2, number)?;
        let waiting = Waiting(gpu.context.cu_ctx(), stream.cu_stream());
        let argument: *const Waiting = &waiting;
        let mut thread = 0;
        // SAFETY: the argument lives until the thread was joined; the thread holds nothing that a cancellation leaks.
        let created = unsafe {
            libc::pthread_create(
                &mut thread,
                ptr::null(),
                wait_for_stream,
                argument.cast_mut().cast(),
            )
        };
        ensure!(created == 0, "pthread_create: {created}");
        std::thread::sleep(Duration::from_millis(10));
        // SAFETY: joined once, below.
        unsafe {
            libc::pthread_cancel(thread);
            libc::pthread_join(thread, ptr::null_mut());
        }
        stream.synchronize().map_err(failed)?;
        work.check(gpu, 2, number)?;
    }
    Ok(())
}

/// Children that read the parent's page-locked memory, and write to it, which the parent must not see.
fn pinned(children: u32) -> Result<()> {
    const BYTES: usize = 1 << 16;
    let mut memory = HostMemory::new(BYTES, 0).map_err(failed)?;
    memory.fill(7);
    for _ in 0..children {
        let reads_right = || black_box(&memory[0]) == &7 && black_box(&memory[BYTES - 1]) == &7;
        // SAFETY: the child reads memory only.
        let status = ended(unsafe { child(|| i32::from(!reads_right())) }?)?;
        ensure!(status == 0, "a child that reads pinned memory ended with {status:#x}");
    }
    Ok(())
}
