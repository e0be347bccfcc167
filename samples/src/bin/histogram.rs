//! Counts bytes with atomics, in shared memory and in global memory. `--size` counts 32-bit words.

use std::process::ExitCode;

use anyhow::Result;
use cudarc::driver::CudaSlice;
use samples::{
    Check, Gpu, NoExtra, Options, Random, Sample,
    gpu::{failed, shape},
    kernels, reference,
};

const THREADS: u32 = 256;
const BINS: usize = 256;

struct Histogram {
    kernels: kernels::Histogram,
    blocks: u32,
    length: i32,
    words: CudaSlice<u32>,
    shared_bins: CudaSlice<u32>,
    global_bins: CudaSlice<u32>,
    expected: Vec<u32>,
}

impl Sample for Histogram {
    type Extra = NoExtra;
    const NAME: &'static str = "histogram";
    const ABOUT: &'static str =
        "Counts bytes with atomics in shared and in global memory; --size counts words";

    fn prepare(gpu: &Gpu, options: &Options, _: &NoExtra) -> Result<Self> {
        let length = options.size.unwrap_or(8 << 10) as usize;
        let mut random = Random::new(options.seed);
        // The product of two bytes favours small ones, so that lanes often meet in the same bin.
        let byte =
            |random: &mut Random| ((random.integer(0, 255) * random.integer(0, 255)) >> 8) as u8;
        let words: Vec<u32> = (0..length)
            .map(|_| u32::from_le_bytes(std::array::from_fn(|_| byte(&mut random))))
            .collect();
        Ok(Self {
            kernels: kernels::Histogram::load(gpu)?,
            blocks: options.blocks.unwrap_or(1),
            length: length as i32,
            expected: reference::byte_histogram(&words),
            words: gpu.stream.clone_htod(&words).map_err(failed)?,
            shared_bins: gpu.stream.alloc_zeros(BINS).map_err(failed)?,
            global_bins: gpu.stream.alloc_zeros(BINS).map_err(failed)?,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let Self { kernels, words, length, shared_bins, global_bins, .. } = self;
        gpu.stream.memset_zeros(shared_bins).map_err(failed)?;
        gpu.stream.memset_zeros(global_bins).map_err(failed)?;
        let shape = shape(self.blocks, THREADS, 0);
        kernels.histogram_shared(&gpu.stream, shape, words, length, shared_bins)?;

        let bytes = *length * 4;
        kernels.histogram_global(&gpu.stream, shape, words, &bytes, global_bins)?;
        Ok(2)
    }

    fn check(&mut self, gpu: &Gpu, check: &mut Check) -> Result<()> {
        let shared_bins = gpu.stream.clone_dtoh(&self.shared_bins).map_err(failed)?;
        let global_bins = gpu.stream.clone_dtoh(&self.global_bins).map_err(failed)?;
        check.equal("bins counted in shared memory", &shared_bins, &self.expected);
        check.equal("bins counted in global memory", &global_bins, &self.expected);
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<Histogram>()
}
