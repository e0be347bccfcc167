//! Adds two vectors: the smallest whole CUDA program. `--size` counts elements.

use std::process::ExitCode;

use anyhow::Result;
use cudarc::driver::CudaSlice;
use samples::{
    Check, Gpu, NoExtra, Options, Random, Sample,
    gpu::{failed, shape},
    kernels,
};

const THREADS: u32 = 256;

struct VectorAdd {
    kernels: kernels::VectorAdd,
    blocks: u32,
    length: i32,
    a: CudaSlice<f32>,
    b: CudaSlice<f32>,
    sum: CudaSlice<f32>,
    expected: Vec<f32>,
}

impl Sample for VectorAdd {
    type Extra = NoExtra;
    const NAME: &'static str = "vector_add";
    const ABOUT: &'static str = "Adds two vectors; --size counts elements";

    fn prepare(gpu: &Gpu, options: &Options, _: &NoExtra) -> Result<Self> {
        let length = options.size.unwrap_or(128 << 10) as usize;
        let mut random = Random::new(options.seed);
        let a = random.reals(length, -1.0, 1.0);
        let b = random.reals(length, -1.0, 1.0);
        Ok(Self {
            kernels: kernels::VectorAdd::load(gpu)?,
            blocks: options.blocks.unwrap_or(1),
            length: length as i32,
            expected: a.iter().zip(&b).map(|(a, b)| a + b).collect(),
            a: gpu.stream.clone_htod(&a).map_err(failed)?,
            b: gpu.stream.clone_htod(&b).map_err(failed)?,
            sum: gpu.stream.alloc_zeros(length).map_err(failed)?,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let Self { kernels, a, b, sum, length, .. } = self;
        let shape = shape(self.blocks, THREADS, 0);
        kernels.vector_add(&gpu.stream, shape, a, b, sum, length)?;
        Ok(1)
    }

    fn check(&mut self, gpu: &Gpu, check: &mut Check) -> Result<()> {
        let sum = gpu.stream.clone_dtoh(&self.sum).map_err(failed)?;
        check.equal("sum", &sum, &self.expected);
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<VectorAdd>()
}
