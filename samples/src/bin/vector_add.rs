//! Adds two vectors: the smallest whole CUDA program. `--size` counts elements.

use std::process::ExitCode;

use anyhow::Result;
use cudarc::driver::{CudaFunction, CudaSlice, PushKernelArg};
use samples::{
    Check, Gpu, NoExtra, Options, Random, Sample,
    gpu::{failed, function, shape},
    ptx,
};

const THREADS: u32 = 256;

struct VectorAdd {
    kernel: CudaFunction,
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
        let module = gpu.load(ptx::VECTOR_ADD)?;
        Ok(Self {
            kernel: function(&module, "vector_add")?,
            blocks: options.blocks.unwrap_or(1),
            length: length as i32,
            expected: a.iter().zip(&b).map(|(a, b)| a + b).collect(),
            a: gpu.stream.clone_htod(&a).map_err(failed)?,
            b: gpu.stream.clone_htod(&b).map_err(failed)?,
            sum: gpu.stream.alloc_zeros(length).map_err(failed)?,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let mut launch = gpu.stream.launch_builder(&self.kernel);
        launch.arg(&self.a).arg(&self.b).arg(&mut self.sum).arg(&self.length);
        // SAFETY: the arguments are the kernel's parameters in order, and the vectors hold `length`
        // elements.
        unsafe { launch.launch(shape(self.blocks, THREADS, 0)) }.map_err(failed)?;
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
