//! Reduces an array to its sum, extremes and count of negative values with shuffles, votes, shared
//! memory and atomics. `--size` counts values.

use std::process::ExitCode;

use anyhow::Result;
use cudarc::driver::CudaSlice;
use samples::{
    Check, Gpu, NoExtra, Options, Random, Sample,
    gpu::{failed, shape},
    kernels,
    reference::Totals,
};

const THREADS: u32 = 256;

struct Reduction {
    kernels: kernels::Reduction,
    blocks: u32,
    length: i32,
    values: CudaSlice<i32>,
    totals: CudaSlice<Totals>,
    expected: Totals,
}

impl Sample for Reduction {
    type Extra = NoExtra;
    const NAME: &'static str = "reduction";
    const ABOUT: &'static str =
        "Reduces an array by shuffles, votes and atomics; --size counts values";

    fn prepare(gpu: &Gpu, options: &Options, _: &NoExtra) -> Result<Self> {
        let length = options.size.unwrap_or(64 << 10) as usize;
        let mut random = Random::new(options.seed);
        // So small that not even all of one sign reach 2^24, up to which a float sum is exact in
        // any order.
        let bound = ((1 << 24) / length as i32).clamp(1, 1000);
        let values: Vec<i32> = (0..length).map(|_| random.integer(-bound, bound)).collect();
        Ok(Self {
            kernels: kernels::Reduction::load(gpu)?,
            blocks: options.blocks.unwrap_or(1),
            length: length as i32,
            expected: Totals::of(&values),
            values: gpu.stream.clone_htod(&values).map_err(failed)?,
            totals: gpu.stream.clone_htod(&[Totals::NONE]).map_err(failed)?,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let (kernels, shape) = (&self.kernels, shape(self.blocks, THREADS, 0));
        let none = [Totals::NONE];
        gpu.stream.memcpy_htod(&none, &mut self.totals).map_err(failed)?;
        kernels.reduce(&gpu.stream, shape, &self.values, &self.length, &mut self.totals)?;
        Ok(1)
    }

    fn check(&mut self, gpu: &Gpu, check: &mut Check) -> Result<()> {
        let got = gpu.stream.clone_dtoh(&self.totals).map_err(failed)?[0];
        let expected = self.expected;
        check.equal("sum", &[got.sum], &[expected.sum]);
        check.equal("float sum", &[got.float_sum], &[expected.float_sum]);
        check.equal("minimum", &[got.minimum], &[expected.minimum]);
        check.equal("maximum", &[got.maximum], &[expected.maximum]);
        check.equal("negatives", &[got.negatives], &[expected.negatives]);
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<Reduction>()
}
