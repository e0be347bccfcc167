//! A kernel that never ends, to see what becomes of one. The program says when the kernel runs, and
//! waits for it until it is killed or the kernel is ended from outside; then it says how, and ends
//! with status 3.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use cudarc::driver::PushKernelArg;
use samples::{
    Gpu, Options,
    gpu::{error_name, failed, function, shape},
    ptx,
    report::say,
    start,
};

/// Runs a kernel that never ends.
#[derive(Parser)]
#[command(name = "endless")]
struct CommandLine {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    match run(&arguments.options) {
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

fn run(options: &Options) -> Result<String> {
    let gpu = Gpu::open(options)?;
    let module = gpu.load(ptx::SPIN)?;
    let set = function(&module, "spin_steps")?;
    let forever = function(&module, "spin_forever")?;

    // A kernel that ends goes first: once it is done, the device has begun with this stream's work.
    let mut word = gpu.stream.alloc_zeros::<u32>(1).map_err(failed)?;
    let mut launch = gpu.stream.launch_builder(&set);
    launch.arg(&mut word).arg(&1u32).arg(&1u32);
    // SAFETY: the arguments are the kernel's parameters in order, and one thread writes one word.
    unsafe { launch.launch(shape(1, 1, 0)) }.map_err(failed)?;
    gpu.stream.synchronize().map_err(failed)?;

    start::wait(options)?;
    let mut launch = gpu.stream.launch_builder(&forever);
    // SAFETY: the kernel has no parameters.
    unsafe { launch.launch(shape(options.blocks.unwrap_or(1), 32, 0)) }.map_err(failed)?;
    say("endless: running");
    match gpu.stream.synchronize() {
        Ok(()) => Ok("without an error".to_owned()),
        Err(error) => Ok(error_name(error.0)),
    }
}
