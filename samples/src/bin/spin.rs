//! A kernel of few blocks that keeps them busy for as long as it shall. `--work` is how long,
//! in the unit of the chosen `--kernel`.

use std::{process::ExitCode, ptr, sync::atomic::AtomicU32, sync::atomic::Ordering};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use cudarc::driver::{CudaFunction, CudaSlice, PushKernelArg, result, sys};
use samples::{
    Check, Gpu, Options, Sample,
    gpu::{failed, function, shape},
    ptx, reference,
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

/// A word of page-locked host memory that the device sees too.
struct SharedWord {
    host: ptr::NonNull<AtomicU32>,
    device: sys::CUdeviceptr,
}

impl SharedWord {
    fn new() -> Result<Self> {
        let bytes = size_of::<AtomicU32>();
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: a context is current, and the memory is freed in `drop` only.
        let memory = unsafe { result::malloc_host(bytes, flags) }.map_err(failed)?;
        let host =
            ptr::NonNull::new(memory.cast()).context("cuMemHostAlloc gave a null pointer")?;
        let mut device = 0;
        // SAFETY: `device` is a place for the address, and `memory` was allocated with DEVICEMAP.
        let status = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut device, memory, 0) };
        status.result().map_err(failed)?;
        Ok(Self { host, device })
    }

    fn set(&self, value: u32) {
        // SAFETY: the memory is ours, aligned (page-locked memory is page-aligned) and lives as
        // long as `self`; the device only reads it.
        unsafe { self.host.as_ref() }.store(value, Ordering::SeqCst);
    }
}

impl Drop for SharedWord {
    fn drop(&mut self) {
        // SAFETY: allocated by cuMemHostAlloc, freed once; every iteration waits for the kernel
        // that reads it. An error cannot be reported from here, and the process ends anyway.
        let _ = unsafe { result::free_host(self.host.as_ptr().cast()) };
    }
}

struct Spin {
    kernel: Kernel,
    function: CudaFunction,
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
        let (name, work) = match extra.kernel {
            Kernel::Steps => ("spin_steps", 8000),
            Kernel::Clock => ("spin_clock", 500_000),
            Kernel::Until => ("spin_until", 1),
        };
        let work = options.work.unwrap_or(work);
        if extra.kernel == Kernel::Steps {
            u32::try_from(work).context("--work: the kernel counts its steps in 32 bits")?;
        }
        let module = gpu.load(ptx::SPIN)?;
        Ok(Self {
            kernel: extra.kernel,
            function: function(&module, name)?,
            blocks,
            work,
            seed: options.seed as u32,
            flag: SharedWord::new()?,
            results: gpu.stream.alloc_zeros((blocks * THREADS * 2) as usize).map_err(failed)?,
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let (steps, cycles) = (self.work as u32, self.work as i64);
        self.flag.set(0);
        let mut launch = gpu.stream.launch_builder(&self.function);
        match self.kernel {
            Kernel::Steps => launch.arg(&mut self.results).arg(&steps).arg(&self.seed),
            Kernel::Clock => launch.arg(&mut self.results).arg(&cycles),
            Kernel::Until => launch.arg(&self.flag.device).arg(&mut self.results),
        };
        // SAFETY: the arguments are the chosen kernel's parameters in order, `results` holds 64
        // bits for each thread, and the flag lives until after the synchronisation.
        unsafe { launch.launch(shape(self.blocks, THREADS, 0)) }.map_err(failed)?;
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
