//! A program that does what few do: it forks while its kernels run, launches without ever waiting,
//! asks for everything until it is refused. Its own results must be right all the same.

use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};
use cudarc::driver::{CudaFunction, CudaSlice, PushKernelArg, result, sys::CUresult};
use samples::{
    Gpu, Options,
    gpu::{failed, function, shape},
    ptx,
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
    kernel: CudaFunction,
    word: CudaSlice<u32>,
}

impl Work {
    fn new(gpu: &Gpu) -> Result<Self> {
        let module = gpu.load(ptx::SPIN)?;
        let word = gpu.stream.alloc_zeros::<u32>(1).map_err(failed)?;
        Ok(Self { kernel: function(&module, "spin_steps")?, word })
    }

    fn launch(&mut self, gpu: &Gpu, steps: u32, seed: u32) -> Result<()> {
        let mut launch = gpu.stream.launch_builder(&self.kernel);
        launch.arg(&mut self.word).arg(&steps).arg(&seed);
        // SAFETY: the arguments are the kernel's parameters in order, and one thread writes one word.
        unsafe { launch.launch(shape(1, 1, 0)) }.map_err(failed)?;
        Ok(())
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
        What::Limits { most } => limits(&gpu, &mut work, most),
    }
}

fn fork(gpu: &Gpu, work: &mut Work, children: u32) -> Result<()> {
    const STEPS: u32 = 200_000;
    let mut pids = Vec::new();
    for number in 0..children {
        work.launch(gpu, STEPS, number)?;
        // SAFETY: the child only makes system calls that are safe after a fork, and ends without
        // running anything of this process.
        match unsafe { libc::fork() } {
            -1 => bail!("fork: {}", std::io::Error::last_os_error()),
            // SAFETY: constant C strings; exec comes back only if it fails.
            0 => unsafe {
                match number % 3 {
                    0 => {}
                    1 => {
                        let program = c"/bin/true".as_ptr();
                        libc::execl(program, program, std::ptr::null::<libc::c_char>());
                    }
                    _ => {
                        libc::usleep(20_000);
                    }
                }
                libc::_exit(0)
            },
            pid => pids.push(pid),
        }
        work.check(gpu, STEPS, number)?;
    }
    for pid in pids {
        let mut status = 0;
        // SAFETY: waits for a child of this process; the local is written.
        let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
        ensure!(waited == pid && status == 0, "child {pid} ended with status {status}");
    }
    Ok(())
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
    // SAFETY: memory that nothing reads.
    let device = || unsafe { result::malloc_sync(DEVICE_PIECE_BYTES) };
    let device = as_many_as_there_are("pieces of device memory", most, device)?;
    // SAFETY: as above.
    let host = || unsafe { result::malloc_host(HOST_PIECE_BYTES, 0) };
    let host =
        as_many_as_there_are("pieces of page-locked memory", most.min(HOST_PIECES_MAX), host)?;
    work.launch(gpu, 3, 11)?;
    work.check(gpu, 3, 11)?;
    for piece in device {
        // SAFETY: allocated above and used by nothing else.
        unsafe { result::free_sync(piece) }.map_err(failed)?;
    }
    for piece in host {
        // SAFETY: as above.
        unsafe { result::free_host(piece) }.map_err(failed)?;
    }
    drop((streams, events));
    work.launch(gpu, 3, 12)?;
    work.check(gpu, 3, 12)
}
