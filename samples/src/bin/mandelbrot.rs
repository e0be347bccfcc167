//! Escape counts of the Mandelbrot set, where neighbouring threads take very different paths.
//! `--size` is the side of the picture, `--work` the largest count.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use cudarc::driver::CudaSlice;
use samples::{
    Check, Gpu, NoExtra, Options, Sample,
    gpu::{failed, shape},
    kernels,
    reference::{self, View},
};

const THREADS: u32 = 128;
/// Largest side: pixels are counted in a signed word.
const SIDE_MAX: u32 = 32_768;

struct Mandelbrot {
    kernels: kernels::Mandelbrot,
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
        Ok(Self {
            kernels: kernels::Mandelbrot::load(gpu)?,
            blocks: options.blocks.unwrap_or(1),
            view,
            limit,
            counts: gpu.stream.alloc_zeros((side * side) as usize).map_err(failed)?,
            expected: reference::mandelbrot(view, limit),
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let Self { kernels, view, limit, counts, .. } = self;
        let (stream, shape) = (&gpu.stream, shape(self.blocks, THREADS, 0));
        let (width, height) = (view.width as i32, view.height as i32);
        let View { left, top, step, .. } = view;
        kernels.mandelbrot(stream, shape, counts, &width, &height, left, top, step, limit)?;
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
