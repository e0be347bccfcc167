//! Moves bodies under their gravity. `--size` counts bodies, `--work` steps (two buffers change
//! places after each).

use std::process::ExitCode;

use anyhow::{Result, ensure};
use cudarc::driver::CudaSlice;
use samples::{
    Check, Gpu, NoExtra, Options, Random, Sample,
    check::Tolerance,
    gpu::{failed, shape},
    kernels,
    reference::n_body::{Bodies, Vector},
};

const THREADS: u32 = 128;
const SHARED_BYTES: u32 = THREADS * std::mem::size_of::<Vector>() as u32;
const DT: f32 = 0.01;
const SOFTENING2: f32 = 0.01;
/// More steps than this and rounding errors grow past the tolerance.
const STEPS_MAX: u64 = 20;
/// Positions are about 1; single precision and an approximate square root leave a few 1e-7.
const TOLERANCE: Tolerance = Tolerance { difference: 2e-5, step: 1e-2 };

/// Positions and velocities on the device, in 32-bit words.
struct Buffers {
    positions: CudaSlice<f32>,
    velocities: CudaSlice<f32>,
}

struct NBody {
    kernels: kernels::NBody,
    blocks: u32,
    bodies: i32,
    steps: u64,
    start: Buffers,
    work: [Buffers; 2],
    expected: Vec<f64>,
}

impl Sample for NBody {
    type Extra = NoExtra;
    const NAME: &'static str = "n_body";
    const ABOUT: &'static str =
        "Moves bodies under their gravity; --size counts bodies, --work steps";

    fn prepare(gpu: &Gpu, options: &Options, _: &NoExtra) -> Result<Self> {
        let bodies = options.size.unwrap_or(256) as usize;
        let steps = options.work.unwrap_or(2);
        ensure!(
            (1..=STEPS_MAX).contains(&steps),
            "--work {steps}: 1 to {STEPS_MAX} steps are supported"
        );
        let mut random = Random::new(options.seed);
        let mass = 1.0 / bodies as f32;
        let positions: Vec<Vector> = (0..bodies)
            .map(|_| {
                let [x, y, z] = std::array::from_fn(|_| random.real(-1.0, 1.0));
                [x, y, z, mass]
            })
            .collect();
        let velocities: Vec<Vector> = (0..bodies)
            .map(|_| {
                let [x, y, z] = std::array::from_fn(|_| random.real(-0.1, 0.1));
                [x, y, z, 0.0]
            })
            .collect();

        let mut reference = Bodies::new(&positions, &velocities);
        for _ in 0..steps {
            reference.step(f64::from(DT), f64::from(SOFTENING2));
        }
        let upload =
            |vectors: &[Vector]| gpu.stream.clone_htod(vectors.as_flattened()).map_err(failed);
        let empty = || -> Result<Buffers> {
            Ok(Buffers {
                positions: gpu.stream.alloc_zeros(4 * bodies).map_err(failed)?,
                velocities: gpu.stream.alloc_zeros(4 * bodies).map_err(failed)?,
            })
        };
        Ok(Self {
            kernels: kernels::NBody::load(gpu)?,
            blocks: options.blocks.unwrap_or(1),
            bodies: bodies as i32,
            steps,
            start: Buffers { positions: upload(&positions)?, velocities: upload(&velocities)? },
            work: [empty()?, empty()?],
            expected: reference.flat_positions(),
        })
    }

    fn enqueue(&mut self, gpu: &Gpu) -> Result<u64> {
        let [even, odd] = &mut self.work;
        for step in 0..self.steps {
            let (from, to) = match step {
                0 => (&self.start, &mut *odd),
                _ if step % 2 == 0 => (&*even, &mut *odd),
                _ => (&*odd, &mut *even),
            };
            self.kernels.n_body_step(
                &gpu.stream,
                shape(self.blocks, THREADS, SHARED_BYTES),
                &from.positions,
                &from.velocities,
                &mut to.positions,
                &mut to.velocities,
                &self.bodies,
                &DT,
                &SOFTENING2,
            )?;
        }
        Ok(self.steps)
    }

    fn check(&mut self, gpu: &Gpu, check: &mut Check) -> Result<()> {
        let result = &self.work[(self.steps % 2) as usize];
        let positions = gpu.stream.clone_dtoh(&result.positions).map_err(failed)?;
        check.close("position", &positions, &self.expected, TOLERANCE);
        Ok(())
    }
}

fn main() -> ExitCode {
    samples::main::<NBody>()
}
