//! A program that does what it must not, and reports what it gets: the error at the next
//! synchronisation, and that every call after it fails alike, since a fault ends a context
//! for good. The status is 0 if that is what happened.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use cudarc::driver::{CudaSlice, DevicePtr, DriverError, PushKernelArg, sys::CUresult};
use samples::{
    Gpu, Options,
    gpu::{error_name, failed, shape},
    kernels,
    memory::DeviceMemory,
    report::say,
    start,
};
use serde::Serialize;

/// Makes a kernel fault and reports the error.
#[derive(Parser)]
#[command(name = "fault")]
struct CommandLine {
    #[command(flatten)]
    options: Options,
    /// What the kernel does
    #[arg(long, value_enum, default_value_t = Kind::NullWrite)]
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Writes to address 0
    NullWrite,
    /// Reads from address 0
    NullRead,
    /// Writes where no memory is
    StrayWrite,
    /// Writes a word to an address that is no multiple of four
    Misaligned,
    /// Executes a trap instruction
    Trap,
    /// Writes where another program's device memory may lie
    Neighbour,
    /// An assertion fails
    Assert,
    /// Calls itself until its stack is full
    Stack,
}

/// An address that is not the device's: below any allocation, above the first pages.
const STRAY: u64 = 0x00ff_ffff_f000;

impl Kind {
    /// The errors that CUDA documents for it.
    fn expected(self) -> &'static [CUresult] {
        match self {
            Self::NullWrite | Self::NullRead | Self::StrayWrite => {
                &[CUresult::CUDA_ERROR_ILLEGAL_ADDRESS]
            }
            Self::Neighbour => &[CUresult::CUDA_ERROR_ILLEGAL_ADDRESS],
            Self::Assert => &[CUresult::CUDA_ERROR_ASSERT],
            Self::Stack => &[
                CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                CUresult::CUDA_ERROR_LAUNCH_FAILED,
                CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
            ],
            Self::Misaligned => &[CUresult::CUDA_ERROR_MISALIGNED_ADDRESS],
            Self::Trap => {
                &[CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION, CUresult::CUDA_ERROR_LAUNCH_FAILED]
            }
        }
    }
}

#[derive(Serialize)]
struct Outcome {
    sample: &'static str,
    kind: Kind,
    error: String,
    expected: bool,
    sticky: bool,
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    match run(&arguments) {
        Ok(outcome) => {
            if arguments.options.json {
                say(serde_json::to_string(&outcome).expect("strings are JSON"));
            } else {
                say(format_args!("fault: error {}", outcome.error));
                say(format_args!(
                    "fault: expected {}, sticky {}",
                    outcome.expected, outcome.sticky
                ));
            }
            ExitCode::from(u8::from(!(outcome.expected && outcome.sticky)))
        }
        Err(error) => {
            eprintln!("fault: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &CommandLine) -> Result<Outcome> {
    let options = &arguments.options;
    let gpu = Gpu::open(options)?;
    let kernels = kernels::Fault::load(&gpu)?;
    let mut memory = gpu.stream.clone_htod(&[0u32; 64]).map_err(failed)?;

    // The same kernel with a good address, so that what fails afterwards is the address and nothing
    // else.
    let (shape, value) = (shape(1, 32, 0), 42);
    kernels.write_word(&gpu.stream, shape, &mut memory, &8, &value)?;
    let words = gpu.stream.clone_dtoh(&memory).map_err(failed)?;
    ensure!(words[2] == value, "a good write left {} instead of {value}", words[2]);
    start::wait(options)?;

    let base = match arguments.kind {
        Kind::StrayWrite => STRAY,
        Kind::Neighbour => neighbours_address(&gpu, &memory),
        _ => 0,
    };
    let offset = i64::from(arguments.kind == Kind::Misaligned);
    let mut launch = gpu.stream.launch_builder(match arguments.kind {
        Kind::Trap => &kernels.trap_now,
        Kind::Assert => &kernels.assert_not,
        Kind::Stack => &kernels.overflow_stack,
        Kind::NullRead => &kernels.read_word,
        _ => &kernels.write_word,
    });
    match arguments.kind {
        Kind::Trap => &mut launch,
        Kind::Assert => launch.arg(&value),
        Kind::Stack => launch.arg(&mut memory),
        Kind::NullRead => launch.arg(&base).arg(&offset).arg(&mut memory),
        Kind::Misaligned => launch.arg(&mut memory).arg(&offset).arg(&value),
        Kind::NullWrite | Kind::StrayWrite | Kind::Neighbour => {
            launch.arg(&base).arg(&offset).arg(&value)
        }
    };
    // SAFETY: the arguments are the kernel's parameters in order. The address is wrong on purpose:
    // the device's memory protection is what this program shows.
    let launched = unsafe { launch.launch(shape) }.map(|_| ());
    let error = launched.and_then(|()| gpu.stream.synchronize()).err();
    let status = error.map_or(CUresult::CUDA_SUCCESS, |error| error.0);

    Ok(Outcome {
        sample: "fault",
        kind: arguments.kind,
        error: error_name(status),
        expected: arguments.kind.expected().contains(&status),
        sticky: later_calls(&gpu).iter().all(|&later| later == status),
    })
}

/// An address among those that a server keeps for the next client, near their end, where memory
/// hardly ever is.
fn neighbours_address(gpu: &Gpu, memory: &CudaSlice<u32>) -> u64 {
    const WINDOW_BYTES: u64 = 256 << 30;
    let (own, _guard) = memory.device_ptr(&gpu.stream);
    own / WINDOW_BYTES * WINDOW_BYTES + 2 * WINDOW_BYTES - (4 << 20)
}

/// What several calls that are all right in themselves answer after the fault.
fn later_calls(gpu: &Gpu) -> [CUresult; 4] {
    let status = |result: Result<(), DriverError>| match result {
        Ok(()) => CUresult::CUDA_SUCCESS,
        Err(error) => error.0,
    };
    [
        status(DeviceMemory::new(256).map(|_| ())),
        status(gpu.stream.synchronize()),
        status(gpu.context.synchronize()),
        status(gpu.stream.alloc_zeros::<u32>(1).map(|_| ())),
    ]
}
