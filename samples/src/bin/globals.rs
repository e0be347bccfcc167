//! Variables of a module: the host fills constants, the kernel reads them, and what a kernel leaves
//! in a variable is there for the host. `--size` counts threads that evaluate a polynomial.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use cudarc::driver::CudaSlice;
use samples::{
    Check, Gpu, NoExtra, Options, Random, Sample,
    gpu::{failed, shape},
    kernels, reference,
};

const THREADS: u32 = 128;
const COEFFICIENTS: usize = 8;
/// The kernel gives each thread one value.
const LENGTH_MAX: u32 = 1 << 20;
/// The sum of the 16 primes that the table begins with.
const TABLE_SUM: u32 = 381;

struct Globals {
    kernels: kernels::Globals,
    length: i32,
    xs: CudaSlice<f32>,
    values: CudaSlice<f32>,
    table_sum: CudaSlice<u32>,
    expected: Vec<f32>,
}

impl Sample for Globals {
    type Extra = NoExtra;
    const NAME: &'static str = "globals";
    const ABOUT: &'static str =
        "Exchanges data through variables of a module; --size counts threads";

    fn prepare(gpu: &Gpu, options: &Options, _: &NoExtra) -> Result<Self> {
        let length = options.size.unwrap_or(1000);
        ensure!(length <= LENGTH_MAX, "--size {length}: at most {LENGTH_MAX} is supported");
        let mut random = Random::new(options.seed);
        let coefficients = random.reals(COEFFICIENTS, -2.0, 2.0);
        let xs = random.reals(length as usize, -1.0, 1.0);
        // `degree` is 3 as compiled in and becomes 7 here.
        let degree = COEFFICIENTS as i32 - 1;

        let kernels = kernels::Globals::load(gpu)?;
        let mut variable =
            kernels.module.get_global("coefficients", &gpu.stream).map_err(failed)?;
        let bytes: Vec<u8> = coefficients.iter().flat_map(|c| c.to_le_bytes()).collect();
        ensure!(variable.len() == bytes.len(), "`coefficients` has {} bytes", variable.len());
        gpu.stream.memcpy_htod(&bytes, &mut variable).map_err(failed)?;
        let mut variable = kernels.module.get_global("degree", &gpu.stream).map_err(failed)?;
        let before = gpu.stream.clone_dtoh(&variable).map_err(failed)?;
        ensure!(before == 3i32.to_le_bytes(), "`degree` begins as {before:?}, not 3");
        gpu.stream.memcpy_htod(&degree.to_le_bytes(), &mut variable).map_err(failed)?;

        Ok(Self {
            kernels,
            length: length as i32,
            expected: xs.iter().map(|&x| reference::polynomial(&coefficients, x)).collect(),
            xs: gpu.stream.clone_htod(&xs).map_err(failed)?,
            values: gpu.stream.alloc_zeros(length as usize).map_err(failed)?,
            table_sum: gpu.stream.alloc_zeros(1).map_err(failed)?,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let Self { kernels, xs, values, length, table_sum, .. } = self;
        let mut calls = kernels.module.get_global("calls", &gpu.stream).map_err(failed)?;
        gpu.stream.memset_zeros(&mut calls).map_err(failed)?;
        let blocks = (*length as u32).div_ceil(THREADS);
        kernels.polynomial(&gpu.stream, shape(blocks, THREADS, 0), xs, values, length)?;
        kernels.sum_table(&gpu.stream, shape(1, 1, 0), table_sum)?;
        Ok(2)
    }

    fn check(&mut self, gpu: &Gpu, check: &mut Check) -> Result<()> {
        let values = gpu.stream.clone_dtoh(&self.values).map_err(failed)?;
        check.equal("value", &values, &self.expected);
        let table_sum = gpu.stream.clone_dtoh(&self.table_sum).map_err(failed)?;
        check.equal("sum of the table", &table_sum, &[TABLE_SUM]);
        let calls = self.kernels.module.get_global("calls", &gpu.stream).map_err(failed)?;
        let calls = gpu.stream.clone_dtoh(&calls).map_err(failed)?;
        check.equal("calls", &calls, &(self.length as u64).to_le_bytes());
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<Globals>()
}
