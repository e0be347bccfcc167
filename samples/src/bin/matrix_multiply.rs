//! Multiplies two square matrices by tiles in shared memory. `--size` is the side. The entries are
//! small integers, so that the product is exact and can be compared to the bit.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use cudarc::driver::{CudaSlice, LaunchConfig};
use samples::{Check, Gpu, NoExtra, Options, Random, Sample, gpu::failed, kernels, reference};

/// The side of a tile in the kernel.
const TILE: u32 = 16;
/// Largest side: a matrix of 1 GiB.
const SIDE_MAX: u32 = 16_384;
/// Entries are integers of at most this size.
const ENTRY_MAX: i32 = 15;
// No sum of products reaches 2^24, up to which single precision is exact.
const _: () = assert!(SIDE_MAX * (ENTRY_MAX * ENTRY_MAX) as u32 <= 1 << 24);

struct MatrixMultiply {
    kernels: kernels::MatrixMultiply,
    blocks: u32,
    size: i32,
    a: CudaSlice<f32>,
    b: CudaSlice<f32>,
    product: CudaSlice<f32>,
    expected: Vec<f32>,
}

impl Sample for MatrixMultiply {
    type Extra = NoExtra;
    const NAME: &'static str = "matrix_multiply";
    const ABOUT: &'static str =
        "Multiplies two square matrices by tiles in shared memory; --size is the side";

    fn prepare(gpu: &Gpu, options: &Options, _: &NoExtra) -> Result<Self> {
        let side = options.size.unwrap_or(64);
        ensure!(side <= SIDE_MAX, "--size {side}: at most {SIDE_MAX} is supported");
        let size = side as usize;
        let mut random = Random::new(options.seed);
        let mut matrix = || -> Vec<f32> {
            (0..size * size).map(|_| random.integer(-ENTRY_MAX, ENTRY_MAX) as f32).collect()
        };
        let (a, b) = (matrix(), matrix());
        Ok(Self {
            kernels: kernels::MatrixMultiply::load(gpu)?,
            blocks: options.blocks.unwrap_or(1),
            size: side as i32,
            expected: reference::matrix_product(&a, &b, size),
            a: gpu.stream.clone_htod(&a).map_err(failed)?,
            b: gpu.stream.clone_htod(&b).map_err(failed)?,
            product: gpu.stream.alloc_zeros(size * size).map_err(failed)?,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let Self { kernels, a, b, product, size, .. } = self;
        let shape = LaunchConfig {
            grid_dim: (self.blocks, 1, 1),
            block_dim: (TILE, TILE, 1),
            shared_mem_bytes: 0,
        };
        kernels.matrix_multiply(&gpu.stream, shape, a, b, product, size)?;
        Ok(1)
    }

    fn check(&mut self, gpu: &Gpu, check: &mut Check) -> Result<()> {
        let product = gpu.stream.clone_dtoh(&self.product).map_err(failed)?;
        check.equal("product", &product, &self.expected);
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<MatrixMultiply>()
}
