//! What events cost: two around a kernel see more than the kernel, by a time that is measured once.
//!
//! The device reaches the first event when all before it is done, and only then begins to launch the
//! kernel; it reaches the second one when the kernel's memory is written. Both take about the same
//! time for every kernel, so it is measured at one that does nothing; what a kernel of a program takes
//! beyond that is a constant. A kernel that does nothing for some microseconds goes before: the device
//! has all of the rest when it begins with it.

use super::{Device, Event, Function, LaunchShape, Module, Share, Stream};
use cuda_api::attributes::CLOCK_RATE;
use cuda_api::{CUmodule, CUresult, CudaError};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What an empty kernel takes by itself, ns: as CUPTI says of one on an H200. No event can tell.
const EMPTY_KERNEL_NS: u64 = 608;
/// What two events see of a program's kernel beyond its time, and not of an empty one that is launched
/// again and again, ns: code and parameters that are fetched, memory that is written back. By CUPTI an
/// H200 had 1020 to 1190 one day and 70 another, of ResNet-50, BERT and training
/// (bench/h200/observe.py): events alone know a short kernel's time to half a microsecond.
const PROGRAM_KERNEL_NS: u64 = 500;
/// How often each is measured.
const TRIES: usize = 16;
/// So long the device waits before work that is timed: longer than its submission takes.
const DELAY_NS: u64 = 10_000;
/// Longest wait for one try.
const PATIENCE: Duration = Duration::from_secs(1);
/// The kernels: every device that there is takes them.
const IMAGE: &str = "\
.version 6.4
.target sm_75
.address_size 64
.visible .entry openmps_empty()
{
    ret;
}
.visible .entry openmps_delay(.param .u64 cycles)
{
    .reg .u64 %r<5>;
    .reg .pred %p;
    ld.param.u64 %r1, [cycles];
    mov.u64 %r2, %clock64;
more:
    mov.u64 %r3, %clock64;
    sub.u64 %r4, %r3, %r2;
    setp.lt.u64 %p, %r4, %r1;
    @%p bra more;
    ret;
}
";
const ONE_WARP: LaunchShape = LaunchShape {
    grid: [1; 3],
    block: [32, 1, 1],
    shared_bytes: 0,
    cooperative: false,
    programmatic: false,
    remote_domain: false,
    cluster: None,
};

/// Kernels that help to time others.
pub(super) struct TimingKernels {
    module: CUmodule,
    empty: Function,
    delay: Function,
    delay_cycles: u64,
}

impl TimingKernels {
    /// Loads them.
    pub(super) fn load(device: &Device) -> Result<Self, CudaError> {
        let mut image = IMAGE.as_bytes().to_vec();
        image.push(0);
        let names = [c"openmps_empty", c"openmps_delay"];
        let (module, [empty, delay]) = Module::load_own(device, image, names, false)?;
        let khz = device.info().attributes.get(CLOCK_RATE as usize).copied().unwrap_or(0);
        // A device that says nothing is taken for one of 1 GHz.
        let khz = u64::try_from(khz).ok().filter(|khz| *khz > 0).unwrap_or(1_000_000);
        Ok(Self { module, empty, delay, delay_cycles: DELAY_NS * khz / 1_000_000 })
    }

    /// Unloads them; nothing uses them any more.
    pub(super) fn unload(&self, device: &Device) {
        Module::unload_own(device, self.module);
    }

    /// Has the stream wait for some microseconds.
    pub(super) fn delay(&self, stream: &Stream) -> CUresult {
        stream.launch(&self.delay, ONE_WARP, &self.delay_cycles.to_ne_bytes())
    }
}

/// What events add to the time of what is between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCost {
    /// Between two events around an empty kernel, ns; 0: not measured.
    pub pair_ns: u64,
    /// What is taken off, ns.
    pub cost_ns: u64,
}

impl EventCost {
    /// From times between two events with nothing between them, and with an empty kernel that takes
    /// `empty_ns`. What is below most: tries may have been disturbed.
    pub fn of(nothing_ns: &[u64], empty_kernel_ns: &[u64], empty_ns: u64) -> Self {
        let quartile = |times: &[u64]| {
            let mut times = times.to_vec();
            times.sort_unstable();
            times.get(times.len() / 4).copied().unwrap_or(0)
        };
        let pair_ns = quartile(empty_kernel_ns);
        // What is between two events takes at least the time between them.
        let least = quartile(nothing_ns).min(pair_ns);
        let around_empty_ns = pair_ns.saturating_sub(empty_ns).max(least);
        // A device without events' cost has none around programs' kernels either.
        let more_ns = PROGRAM_KERNEL_NS.min(around_empty_ns);
        Self { pair_ns, cost_ns: around_empty_ns + more_ns }
    }

    /// A time between two events without their cost, as long as an empty kernel at the least.
    pub fn take_off(&self, measured_ns: u64) -> u64 {
        let least = measured_ns.min(EMPTY_KERNEL_NS);
        measured_ns.saturating_sub(self.cost_ns).max(least)
    }

    /// Measures it. The context must be current on this thread.
    pub(super) fn measure(
        device: &Arc<Device>,
        with: &TimingKernels,
        goes_on: impl Fn() -> bool,
    ) -> Result<Self, CudaError> {
        let share = Rc::new(Share::new(device.clone(), "the server", || false)?);
        let stream = Stream::new(&share, 0)?;
        let (start, end) = (Event::new(&share, 0)?, Event::new(&share, 0)?);
        let once = |with_kernel: bool| {
            with.delay(&stream)?;
            stream.record(&start)?;
            if with_kernel {
                stream.launch(&with.empty, ONE_WARP, &[])?;
            }
            stream.record(&end)?;
            let since = Instant::now();
            while !end.is_done()? {
                if since.elapsed() > PATIENCE || !goes_on() {
                    return Err(CudaError::NOT_READY);
                }
                std::thread::yield_now();
            }
            Ok((f64::from(start.elapsed_ms(&end)?) * 1e6) as u64)
        };
        // The first ones load code.
        (0..2).try_for_each(|_| once(true).map(drop))?;
        let (mut nothing, mut empty) = (Vec::new(), Vec::new());
        for _ in 0..TRIES {
            nothing.push(once(false)?);
            empty.push(once(true)?);
        }
        Ok(Self::of(&nothing, &empty, EMPTY_KERNEL_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose events and launches take time as an H200's do, with jitter: what two events see
    /// of a kernel of so many ns.
    fn seen(kernel_ns: u64, random: &mut u64) -> u64 {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let jitter = (*random >> 33) % 60;
        2050 + kernel_ns + jitter
    }

    #[test]
    fn times_by_events_come_within_three_percent() {
        let mut random = 7;
        let nothing: Vec<u64> = (0..24).map(|at| 1500 + 20 * (at % 5)).collect();
        // Some tries were disturbed.
        let late = |at: u64| if at.is_multiple_of(7) { 9000 } else { 0 };
        let empty: Vec<u64> = (0..24).map(|at| seen(608, &mut random) + late(at)).collect();
        let cost = EventCost::of(&nothing, &empty, 608);
        for kernel_ns in [4000, 6000, 12_000, 70_000] {
            let times = (0..200).map(|_| cost.take_off(520 + seen(kernel_ns, &mut random)));
            let mean = times.sum::<u64>() as f64 / 200.0;
            let off = mean / kernel_ns as f64 - 1.0;
            assert!(off.abs() < 0.03, "{kernel_ns} ns: {mean} ns by events");
        }
    }

    #[test]
    fn no_more_is_taken_off_than_there_is() {
        let cost = EventCost::of(&[400], &[900], 1000);
        assert_eq!(cost, EventCost { pair_ns: 900, cost_ns: 800 });
        assert_eq!((cost.take_off(300), cost.take_off(2400), cost.take_off(0)), (300, 1600, 0));
        assert_eq!(EventCost::of(&[], &[], 1000), EventCost::default());
        assert_eq!(EventCost::default().take_off(77), 77);
    }
}
