//! Prefix sums and sorting, where the threads of a block wait for each other all the time: three
//! kernels of a scan over `--size` values, and a bitonic sort of the same values in runs of
//! `--work` keys (a power of two).

use std::process::ExitCode;

use anyhow::{Result, ensure};
use cudarc::driver::CudaSlice;
use samples::{
    Check, Gpu, NoExtra, Options, Random, Sample,
    gpu::{failed, shape},
    kernels, reference,
};

const THREADS: u32 = 128;
/// What 48 KiB of shared memory hold, as a power of two.
const RUN_MAX: u64 = 8192;

struct Scan {
    kernels: kernels::Scan,
    blocks: u32,
    length: i32,
    parts: i32,
    run: i32,
    values: CudaSlice<u32>,
    sums: CudaSlice<u32>,
    totals: CudaSlice<u32>,
    keys: CudaSlice<u32>,
    expected_sums: Vec<u32>,
    expected_keys: Vec<u32>,
}

impl Sample for Scan {
    type Extra = NoExtra;
    const NAME: &'static str = "scan";
    const ABOUT: &'static str =
        "Prefix sums of --size values, and a sort of them in runs of --work keys";

    fn prepare(gpu: &Gpu, options: &Options, _: &NoExtra) -> Result<Self> {
        let length = options.size.unwrap_or(2048) as usize;
        let run = options.work.unwrap_or(256);
        ensure!(
            run.is_power_of_two() && run <= RUN_MAX,
            "--work {run}: runs of a power of two of keys up to {RUN_MAX} are supported"
        );
        let mut random = Random::new(options.seed);
        let values: Vec<u32> = (0..length).map(|_| random.word()).collect();
        // The last run is filled up with the largest key, which stays behind.
        let padded = length.next_multiple_of(run as usize);
        let mut expected_keys = values.clone();
        expected_keys.resize(padded, u32::MAX);
        expected_keys.chunks_mut(run as usize).for_each(<[u32]>::sort_unstable);

        let parts = length.div_ceil(THREADS as usize);
        Ok(Self {
            kernels: kernels::Scan::load(gpu)?,
            blocks: options.blocks.unwrap_or(1),
            length: length as i32,
            parts: parts as i32,
            run: run as i32,
            expected_sums: reference::prefix_sums(&values),
            values: gpu.stream.clone_htod(&values).map_err(failed)?,
            sums: gpu.stream.alloc_zeros(length).map_err(failed)?,
            totals: gpu.stream.alloc_zeros(parts).map_err(failed)?,
            keys: gpu.stream.clone_htod(&vec![u32::MAX; padded]).map_err(failed)?,
            expected_keys,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let Self { kernels, values, sums, totals, length, parts, keys, run, .. } = self;
        let (stream, all) = (&gpu.stream, shape(self.blocks, THREADS, 0));
        let part_length = THREADS as i32;
        kernels.scan_parts(stream, all, values, sums, totals, length, parts)?;

        kernels.scan_totals(stream, shape(1, THREADS, 0), totals, parts)?;

        kernels.add_offsets(stream, all, sums, totals, length, &part_length)?;

        // The padding behind the values sorts to where it is, so only the values need to be put
        // back.
        let mut unsorted = keys.slice_mut(..*length as usize);
        stream.memcpy_dtod(values, &mut unsorted).map_err(failed)?;
        let runs = keys.len() as i32 / *run;
        let shared_bytes = *run as u32 * 4;
        let shape = shape(self.blocks, THREADS, shared_bytes);
        kernels.bitonic_sort(stream, shape, keys, &runs, run)?;
        Ok(4)
    }

    fn check(&mut self, gpu: &Gpu, check: &mut Check) -> Result<()> {
        let sums = gpu.stream.clone_dtoh(&self.sums).map_err(failed)?;
        let keys = gpu.stream.clone_dtoh(&self.keys).map_err(failed)?;
        check.equal("sum", &sums, &self.expected_sums);
        check.equal("key", &keys, &self.expected_keys);
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<Scan>()
}
