//! A driver call that waits and does not come back, of the kind that `--at` names, to see what
//! becomes of it when what it waits for is gone. The program says so before it makes the call. If
//! the call returns, the program says how, and ends with status 3.

use std::{ffi::c_void, process::ExitCode, ptr};

use anyhow::Result;
use clap::{Parser, ValueEnum};
use cudarc::driver::{CudaStream, result, sys};
use samples::{
    Gpu, Options, driver,
    gpu::{error_name, failed, shape},
    kernels,
    memory::DeviceMemory,
    ptx,
    report::say,
    start,
};

/// What the call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wait {
    /// A stream with an endless kernel (cuStreamSynchronize)
    Stream,
    /// The whole context (cuCtxSynchronize)
    Context,
    /// An event behind an endless kernel (cuEventSynchronize)
    Event,
    /// An event that other processes may open, behind an endless kernel (cuEventSynchronize)
    SharedEvent,
    /// The first call of all, which two threads make at once (cuInit)
    Start,
    /// Room for more launches behind an endless kernel (cuLaunchKernel)
    Room,
    /// Room for more copies of pageable memory behind it (cuMemcpyHtoDAsync)
    Upload,
    /// A copy to pageable memory behind it (cuMemcpyDtoH)
    Download,
    /// A question while a module is unloaded beside an endless kernel (cuMemGetInfo after
    /// cuModuleUnload)
    Unload,
    /// A host function that does not return (cuLaunchHostFunc)
    HostFunction,
    /// A word of device memory that is never written (cuStreamWaitValue32)
    Value,
}

/// Waits in one driver call, for ever.
#[derive(Parser)]
#[command(name = "blocked")]
struct CommandLine {
    /// What the call waits for
    #[arg(long, value_enum)]
    at: Wait,
    #[command(flatten)]
    options: Options,
}

/// Words of a copy of pageable memory: 1 MiB.
const WORDS: usize = 1 << 18;

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    match run(&arguments) {
        Ok(result) => {
            eprintln!("blocked: the wait ended: {}", error_name(result));
            ExitCode::from(3)
        }
        Err(error) => {
            eprintln!("blocked: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &CommandLine) -> Result<sys::CUresult> {
    let options = &arguments.options;
    if arguments.at == Wait::Start {
        start::wait(options)?;
        say(format_args!("blocked: {:?}", arguments.at));
        let init = || result::init().map_or_else(|error| error.0, |()| sys::CUresult::CUDA_SUCCESS);
        let other = std::thread::spawn(init);
        let own = init();
        let other = other.join().expect("the other thread ends");
        return Ok(if own == sys::CUresult::CUDA_SUCCESS { other } else { own });
    }
    let gpu = Gpu::open(options)?;
    let kernels = kernels::Spin::load(&gpu)?;
    let stream = gpu.context.new_stream().map_err(failed)?;

    // A kernel that ends goes first: once it is done, the device has begun with this stream's work.
    let bytes = WORDS * size_of::<u32>();
    // Never freed, which would be one more call that may wait.
    let memory: &DeviceMemory = Box::leak(Box::new(DeviceMemory::new(bytes).map_err(failed)?));
    launch_one(&kernels, &stream, memory).result().map_err(failed)?;
    stream.synchronize().map_err(failed)?;
    let mut pageable = vec![0u32; WORDS];
    let flags = sys::CUevent_flags::CU_EVENT_INTERPROCESS as u32
        | sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
    let mut shared = ptr::null_mut();
    // SAFETY: the place is a local's; the event is never destroyed.
    unsafe { sys::cuEventCreate(&mut shared, flags) }.result().map_err(failed)?;
    // Loaded before the wait for a start: one that sleeps after it sleeps in the call that is meant.
    let unneeded = (arguments.at == Wait::Unload).then(|| gpu.load(ptx::SPIN)).transpose()?;

    start::wait(options)?;
    match arguments.at {
        Wait::HostFunction => {
            driver::cuLaunchHostFunc(&stream, || {
                loop {
                    std::thread::park();
                }
            })?;
        }
        Wait::Value => driver::cuStreamWaitValue32_v2(&stream, memory, u32::MAX)?,
        _ => kernels.spin_forever(&stream, shape(1, 32, 0))?,
    }
    say(format_args!("blocked: {:?}", arguments.at));
    let (host, address) = (pageable.as_mut_ptr().cast::<c_void>(), memory.address());
    // SAFETY: handles and memory live as long as the process; both ends of the copies have that
    // many bytes.
    Ok(unsafe {
        match arguments.at {
            Wait::Stream | Wait::HostFunction | Wait::Value => {
                sys::cuStreamSynchronize(stream.cu_stream())
            }
            Wait::Context => sys::cuCtxSynchronize(),
            Wait::Event => {
                let event = stream.record_event(None).map_err(failed)?;
                sys::cuEventSynchronize(event.cu_event())
            }
            Wait::SharedEvent => match sys::cuEventRecord(shared, stream.cu_stream()) {
                sys::CUresult::CUDA_SUCCESS => sys::cuEventSynchronize(shared),
                error => error,
            },
            Wait::Start => unreachable!("it has been made"),
            Wait::Room => until_it_fails(|| launch_one(&kernels, &stream, memory)),
            Wait::Upload => until_it_fails(|| {
                sys::cuMemcpyHtoDAsync_v2(address, host, bytes, stream.cu_stream())
            }),
            Wait::Download => sys::cuMemcpyDtoHAsync_v2(host, address, bytes, stream.cu_stream()),
            Wait::Unload => {
                drop(unneeded);
                let (mut free, mut total) = (0, 0);
                sys::cuMemGetInfo_v2(&mut free, &mut total)
            }
        }
    })
}

/// Makes a call again and again, until it fails.
fn until_it_fails(mut call: impl FnMut() -> sys::CUresult) -> sys::CUresult {
    loop {
        match call() {
            sys::CUresult::CUDA_SUCCESS => {}
            error => return error,
        }
    }
}

/// A launch of a kernel of one step.
fn launch_one(kernels: &kernels::Spin, stream: &CudaStream, word: &DeviceMemory) -> sys::CUresult {
    let (address, one) = (word.address(), 1u32);
    let mut parameters: [*mut c_void; 3] = [
        (&raw const address).cast_mut().cast(),
        (&raw const one).cast_mut().cast(),
        (&raw const one).cast_mut().cast(),
    ];
    // SAFETY: the parameters are the kernel's in order, and are read during the call. It writes a word of the memory.
    unsafe {
        let (kernel, stream) = (kernels.spin_steps.cu_function(), stream.cu_stream());
        sys::cuLaunchKernel(
            kernel,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            stream,
            parameters.as_mut_ptr(),
            ptr::null_mut(),
        )
    }
}
