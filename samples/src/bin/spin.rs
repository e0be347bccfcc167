//! A kernel of few blocks that keeps them busy for as long as it shall. `--work` is how long,
//! in the unit of the chosen `--kernel`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use cudarc::driver::CudaSlice;
use samples::{
    Check, Gpu, Options, Sample,
    gpu::{failed, shape},
    kernels,
    memory::SharedWord,
    reference,
};

const THREADS: u32 = 128;

#[derive(Args)]
struct Extra {
    /// What the kernel does while it spins
    #[arg(long, value_enum, default_value_t = Kernel::Steps)]
    kernel: Kernel,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kernel {
    /// --work steps of a generator in each thread: the same work on any device
    Steps,
    /// Waits until --work cycles of the device's clock have passed
    Clock,
    /// Waits until the host, after the launch, writes to memory that both see
    Until,
}

struct Spin {
    kernel: Kernel,
    kernels: kernels::Spin,
    blocks: u32,
    work: u64,
    seed: u32,
    flag: SharedWord,
    /// A 64-bit word for each thread; the kernels that write 32-bit words use the first half.
    results: CudaSlice<u32>,
}

impl Sample for Spin {
    type Extra = Extra;
    const NAME: &'static str = "spin";
    const ABOUT: &'static str =
        "Keeps a few blocks busy; --work is for how long, as --kernel understands it";

    fn prepare(gpu: &Gpu, options: &Options, extra: &Extra) -> Result<Self> {
        let blocks = options.blocks.unwrap_or(1);
        let work = options.work.unwrap_or(match extra.kernel {
            Kernel::Steps => 8000,
            Kernel::Clock => 500_000,
            Kernel::Until => 1,
        });
        if extra.kernel == Kernel::Steps {
            u32::try_from(work).context("--work: the kernel counts its steps in 32 bits")?;
        }
        Ok(Self {
            kernel: extra.kernel,
            kernels: kernels::Spin::load(gpu)?,
            blocks,
            work,
            seed: options.seed as u32,
            flag: SharedWord::new().map_err(failed)?,
            results: gpu.stream.alloc_zeros((blocks * THREADS * 2) as usize).map_err(failed)?,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let (steps, cycles) = (self.work as u32, self.work as i64);
        self.flag.set(0);
        let (kernels, stream) = (&self.kernels, &gpu.stream);
        let (shape, results) = (shape(self.blocks, THREADS, 0), &mut self.results);
        match self.kernel {
            Kernel::Steps => kernels.spin_steps(stream, shape, results, &steps, &self.seed),
            Kernel::Clock => kernels.spin_clock(stream, shape, results, &cycles),
            Kernel::Until => kernels.spin_until(stream, shape, &self.flag, results),
        }?;
        self.flag.set(self.seed | 1);
        Ok(1)
    }

    fn check(&mut self, gpu: &Gpu, check: &mut Check) -> Result<()> {
        let threads = self.blocks * THREADS;
        let words = gpu.stream.clone_dtoh(&self.results).map_err(failed)?;
        match self.kernel {
            Kernel::Steps => {
                let expected: Vec<u32> = (0..threads)
                    .map(|t| reference::generator_after(self.seed.wrapping_add(t), self.work))
                    .collect();
                check.equal("state", &words[..threads as usize], &expected);
            }
            Kernel::Clock => {
                // How much longer than asked it took is the device's own affair.
                let cycles = self.work as i64;
                let took: Vec<i64> = words
                    .chunks(2)
                    .map(|pair| i64::from(pair[1]) << 32 | i64::from(pair[0]))
                    .map(|elapsed| elapsed.min(cycles))
                    .collect();
                check.equal("cycles", &took, &vec![cycles; threads as usize]);
            }
            Kernel::Until => {
                let expected = vec![self.seed | 1; threads as usize];
                check.equal("flag seen", &words[..threads as usize], &expected);
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<Spin>()
}
