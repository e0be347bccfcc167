//! What a program's counters say of its use of the device.

use super::observed::Observed;
use super::roofline::{Ceilings, KernelRates, Roof};
use super::sharing::{Limit, limit, predict};
use crate::names;
use crate::rates::DeviceRates;
use control::counts::{Kernel, Shape, Timing};
use control::report::CLIENTS_MAX;
use serde::Serialize;

/// Registers of an SM, as devices have them since compute capability 3.0.
const REGISTERS_PER_SM: u64 = 65_536;
/// Shared memory that blocks of an SM can have together at the least, bytes.
const SHARED_BYTES_PER_SM: u64 = 100 << 10;
/// Kernels that are told of.
const KERNELS_MAX: usize = 8;

/// The device, as far as advice needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Its SMs.
    pub sms: u32,
    /// Warps that an SM has room for.
    pub warps_per_sm: u32,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// What it does at the most, if that was measured.
    pub ceilings: Option<Ceilings>,
}

impl Machine {
    /// A device.
    pub fn of(device: &DeviceRates) -> Self {
        let DeviceRates { sms, warps_per_sm, memory_total, .. } = *device;
        Self { sms, warps_per_sm, memory_bytes: memory_total, ceilings: None }
    }
}

/// What keeps more blocks from an SM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limiter {
    /// There are no more blocks in the grid.
    Grid,
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// Threads.
    Threads,
    /// Places for blocks.
    Blocks,
    /// It is not known.
    #[default]
    Unknown,
}

/// What is said of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelAdvice {
    /// Its name, short.
    pub name: String,
    /// Its part of the program's device time, 0 to 1.
    pub part: f64,
    /// Launches.
    pub launches: u64,
    /// Mean time of a launch, ns.
    pub mean_ns: f64,
    /// Blocks of a launch, the most frequent shape's.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u64,
    /// Blocks that the device has room for at once.
    pub slots: u64,
    /// Share of the SMs that a launch has blocks on.
    pub sms: f64,
    /// What keeps more blocks from an SM.
    pub limiter: Limiter,
    /// Instructions of threads for each byte of global memory, where the device counts.
    pub instructions_per_byte: Option<f64>,
    /// How near it comes to what the device does at the most, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roof: Option<Roof>,
}

/// What a program did alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Analysis {
    /// Share of time in which a kernel of it ran.
    pub busy: f64,
    /// Share of time in which none did: gaps.
    pub gaps: f64,
    /// Mean gap after a kernel, ns.
    pub mean_gap_ns: f64,
    /// SMs that it had while its kernels ran, share.
    pub sms_while_busy: f64,
    /// Share of the SMs, over time.
    pub sm_share: f64,
    /// Share of the warps, over time.
    pub occupancy: f64,
    /// Bytes copied between host and device a second.
    pub copied_per_s: f64,
    /// Launches a second.
    pub kernels_per_s: f64,
    /// Device memory, bytes.
    pub memory_bytes: u64,
    /// Copies that fit the device's memory, of those that its server takes.
    pub fit: u64,
    /// Share of the machine's processors that it and its server had, 0 to 1; 0: not known.
    pub processors: f64,
    /// Share of them that all else had, 0 to 1.
    pub others: f64,
    /// Share of time that its server spent in calls of the driver that submit work, by a sample of them; 0:
    /// the provider takes several at a time.
    pub submitting: f64,
    /// Mean time of such a call, ns; 0: none was timed.
    pub submission_ns: f64,
    /// Times are estimated from a sample of launches.
    pub sampled: bool,
    /// Its kernels, those that took most time first.
    pub kernels: Vec<KernelAdvice>,
    /// Predicted gain of 2, 4 and 8 copies.
    pub predicted: [f64; 3],
    /// What keeps 8 copies from gaining more.
    pub limit: Limit,
    /// What the device does at the most, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceilings: Option<Ceilings>,
}

fn limiter(shape: &Shape, machine: &Machine) -> Limiter {
    let per_sm = u64::from(shape.blocks_per_sm);
    if per_sm == 0 || shape.blocks() == 0 {
        return Limiter::Unknown;
    }
    if shape.blocks() < per_sm * u64::from(machine.sms) {
        return Limiter::Grid;
    }
    // One block more: what of it would not fit?
    let more = per_sm + 1;
    let threads = shape.threads_a_block().next_multiple_of(32);
    let shared = u64::from(shape.shared_bytes) + u64::from(shape.dynamic_shared_bytes);
    let registers = u64::from(shape.registers).next_multiple_of(8) * threads;
    match () {
        () if more * registers > REGISTERS_PER_SM => Limiter::Registers,
        () if more * threads > 32 * u64::from(machine.warps_per_sm) => Limiter::Threads,
        () if more * shared > SHARED_BYTES_PER_SM => Limiter::SharedMemory,
        () => Limiter::Blocks,
    }
}

fn kernel_advice(kernel: &Kernel, all_ns: u64, machine: &Machine) -> KernelAdvice {
    let shape =
        kernel.shapes.iter().max_by_key(|shape| shape.launches).cloned().unwrap_or_default();
    let sms = u64::from(machine.sms.max(1));
    let per_byte = (kernel.global_bytes > 0)
        .then(|| kernel.thread_instructions as f64 / kernel.global_bytes as f64);
    KernelAdvice {
        name: names::short(&kernel.name),
        part: kernel.device_ns as f64 / all_ns.max(1) as f64,
        launches: kernel.launches,
        mean_ns: kernel.device_ns as f64 / kernel.launches.max(1) as f64,
        blocks: shape.blocks(),
        threads: shape.threads_a_block(),
        slots: u64::from(shape.blocks_per_sm) * sms,
        sms: shape.blocks().min(sms) as f64 / sms as f64,
        limiter: limiter(&shape, machine),
        instructions_per_byte: per_byte,
        roof: machine.ceilings.and_then(|ceilings| {
            Some(ceilings.over(KernelRates::between(&Kernel::default(), kernel)?))
        }),
    }
}

/// Looks at what a program did alone.
pub fn analyse(observed: &Observed, kernels: &[Kernel], machine: &Machine) -> Analysis {
    let timed = kernels.iter().filter(|kernel| kernel.timing != Timing::None);
    let all_ns: u64 = timed.clone().map(|kernel| kernel.device_ns).sum();
    let rows: Vec<KernelAdvice> =
        timed.take(KERNELS_MAX).map(|kernel| kernel_advice(kernel, all_ns, machine)).collect();
    let idle_ns = (1.0 - observed.busy) * observed.seconds * 1e9;
    let sms_while_busy = match observed.busy > 0.0 {
        true => (observed.sm_share / observed.busy).min(1.0),
        false => 0.0,
    };
    let fit = match observed.memory_bytes {
        0 => u64::MAX,
        bytes => machine.memory_bytes / bytes,
    };
    Analysis {
        busy: observed.busy,
        gaps: 1.0 - observed.busy,
        mean_gap_ns: idle_ns / observed.kernels.max(1) as f64,
        sms_while_busy,
        sm_share: observed.sm_share,
        occupancy: observed.occupancy,
        copied_per_s: observed.copied_bytes as f64 / observed.seconds.max(1e-9),
        kernels_per_s: observed.kernels as f64 / observed.seconds.max(1e-9),
        memory_bytes: observed.memory_bytes,
        fit: fit.min(CLIENTS_MAX),
        processors: observed.processors,
        others: observed.others,
        submitting: observed.submitting,
        submission_ns: observed.submission_ns,
        sampled: observed.sampled,
        kernels: rows,
        predicted: [2, 4, 8].map(|copies| predict(observed, copies)),
        limit: limit(observed, 8),
        ceilings: machine.ceilings,
    }
}
