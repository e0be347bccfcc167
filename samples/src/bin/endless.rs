//! A kernel that never ends, to see what becomes of one. The program says when the kernel runs, and
//! waits for it until it is killed or the kernel is ended from outside; then it says how, and ends
//! with status 3.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use cudarc::driver::{CudaFunction, sys::CUdevice_attribute};
use samples::{
    Gpu, Options,
    gpu::{error_name, failed, shape},
    kernels,
    report::say,
    start,
};

/// Runs a kernel that never ends.
#[derive(Parser)]
#[command(name = "endless")]
struct CommandLine {
    #[command(flatten)]
    options: Options,
    /// As many blocks as fit on the device, of as many threads as a block may have: no other kernel
    /// finds room
    #[arg(long, conflicts_with = "blocks")]
    fill: bool,
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    match run(&arguments.options, arguments.fill) {
        Ok(how) => {
            say(format_args!("endless: the kernel was ended: {how}"));
            ExitCode::from(3)
        }
        Err(error) => {
            eprintln!("endless: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Threads of a block of a kernel that is to fill the device: the most.
const FILLING_THREADS: u32 = 1024;

/// Blocks of [`FILLING_THREADS`] threads that are resident at once.
fn filling_blocks(gpu: &Gpu, kernel: &CudaFunction) -> Result<u32> {
    let sms = gpu.context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    let sms = u32::try_from(sms.map_err(failed)?)?;
    let on_each = kernel.occupancy_max_active_blocks_per_multiprocessor(FILLING_THREADS, 0, None);
    Ok(sms * on_each.map_err(failed)?)
}

fn run(options: &Options, fill: bool) -> Result<String> {
    let gpu = Gpu::open(options)?;
    let kernels = kernels::Spin::load(&gpu)?;

    // A kernel that ends goes first: once it is done, the device has begun with this stream's work.
    let mut word = gpu.stream.alloc_zeros::<u32>(1).map_err(failed)?;
    kernels.spin_steps(&gpu.stream, shape(1, 1, 0), &mut word, &1, &1)?;
    gpu.stream.synchronize().map_err(failed)?;

    let (blocks, threads) = match fill {
        true => (filling_blocks(&gpu, &kernels.spin_forever)?, FILLING_THREADS),
        false => (options.blocks.unwrap_or(1), 32),
    };
    start::wait(options)?;
    kernels.spin_forever(&gpu.stream, shape(blocks, threads, 0))?;
    say("endless: running");
    match gpu.stream.synchronize() {
        Ok(()) => Ok("without an error".to_owned()),
        Err(error) => Ok(error_name(error.0)),
    }
}
