//! Escape counts of the Mandelbrot set, where neighbouring threads take very different paths.
//! `--size` is the side of the picture, `--work` the largest count.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use cudarc::driver::{CudaFunction, CudaSlice, PushKernelArg};
use samples::{
    Check, Gpu, NoExtra, Options, Sample,
    gpu::{failed, function, shape},
    ptx,
    reference::{self, View},
};

const THREADS: u32 = 128;
/// Largest side: pixels are counted in a signed word.
const SIDE_MAX: u32 = 32_768;

struct Mandelbrot {
    kernel: CudaFunction,
    blocks: u32,
    view: View,
    limit: u32,
    counts: CudaSlice<u32>,
    expected: Vec<u32>,
}

impl Sample for Mandelbrot {
    type Extra = NoExtra;
    const NAME: &'static str = "mandelbrot";
    const ABOUT: &'static str =
        "Escape counts of the Mandelbrot set; --size is the side of the picture, --work the limit";

    fn prepare(gpu: &Gpu, options: &Options, _: &NoExtra) -> Result<Self> {
        let side = options.size.unwrap_or(64);
        ensure!(side <= SIDE_MAX, "--size {side}: at most {SIDE_MAX} is supported");
        let limit = u32::try_from(options.work.unwrap_or(64))?;
        // The seed shifts the view a little, so that different seeds are different work.
        let shift = (options.seed % 64) as f32 / 1024.0;
        let view = View {
            width: side,
            height: side,
            left: -2.0 + shift,
            top: -1.25,
            step: 2.5 / side as f32,
        };
        let module = gpu.load(ptx::MANDELBROT)?;
        Ok(Self {
            kernel: function(&module, "mandelbrot")?,
            blocks: options.blocks.unwrap_or(1),
            view,
            limit,
            counts: gpu.stream.alloc_zeros((side * side) as usize).map_err(failed)?,
            expected: reference::mandelbrot(view, limit),
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let (width, height) = (self.view.width as i32, self.view.height as i32);
        let mut launch = gpu.stream.launch_builder(&self.kernel);
        launch.arg(&mut self.counts).arg(&width).arg(&height);
        launch.arg(&self.view.left).arg(&self.view.top).arg(&self.view.step).arg(&self.limit);
        // SAFETY: the arguments are the kernel's parameters in order, and `counts` holds a word for
        // each pixel.
        unsafe { launch.launch(shape(self.blocks, THREADS, 0)) }.map_err(failed)?;
        Ok(1)
    }

    fn check(&mut self, gpu: &Gpu, check: &mut Check) -> Result<()> {
        let counts = gpu.stream.clone_dtoh(&self.counts).map_err(failed)?;
        check.equal("count", &counts, &self.expected);
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<Mandelbrot>()
}
