//! What events cost: two around a kernel see more than the kernel, by a time that is measured once.
//!
//! The device reaches the first event when all before it is done, and only then begins to launch the
//! kernel; it reaches the second one when the kernel's memory is written. Both take about the same
//! time for every kernel but those that do nothing at all, which end before the device could have taken
//! the second event anyway. So it is measured at a kernel that counts cycles, for a short and for a long
//! while: the difference says how long a cycle is, and what the short one takes beyond its cycles is not
//! the kernel's. A kernel that does nothing for some microseconds goes before: the device has all of the
//! rest when it begins with it. A device that had no work is slower at first, so it gets some.

use crate::device::safe_calls::Owned;
use crate::device::{Device, Event, Function, LaunchShape, Module, Share, Stream};
use cuda_api::attributes::CLOCK_RATE;
use cuda_api::{CUmodule, CUresult, CudaError};
use locks::Mutex;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What an empty kernel takes by itself, ns: as CUPTI says of one on an H200. No event can show it.
const EMPTY_KERNEL_NS: u64 = 608;
/// What two events see of a program's kernel beyond what they see of one that counts cycles, ns: memory
/// that is written, more blocks. Beside CUPTI an H200 has 130 to 260 of PyTorch's kernels one by one, and
/// 280 to 380 within networks (bench/h200/observe.py, parts `pairs` and `time`).
const PROGRAM_KERNEL_NS: f64 = 300.0;
/// How often each is measured.
const TRIES: usize = 48;
/// Cycles that the measured kernels count: some microseconds.
const COUNTED_NS: [u64; 2] = [3_000, 9_000];
/// Work before the measurement: an idle device takes some ten milliseconds to its full clock rate.
const WARM_UP_NS: u64 = 1_000_000;
const WARM_UPS: usize = 40;
/// What is so far from the median was disturbed, ns; a quarter of the median if that is more.
const DISTURBED_NS: u64 = 700;
/// So long the device waits before work that is timed: longer than its submission takes.
const DELAY_NS: u64 = 16_000;
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
const ONE_WARP: LaunchShape = LaunchShape::one_block(32);

/// Kernels that help to time others.
pub(in crate::device) struct TimingKernels {
    module: Mutex<Owned<CUmodule>>,
    empty: Function,
    delay: Function,
    /// Of the device's clock, as it says itself.
    khz: u64,
}

impl TimingKernels {
    /// Loads them.
    pub(in crate::device) fn load(device: &Device) -> Result<Self, CudaError> {
        let mut image = IMAGE.as_bytes().to_vec();
        image.push(0);
        let names = [c"openmps_empty", c"openmps_delay"];
        let (module, [empty, delay]) = Module::load_own(device, image, names, false)?;
        let khz = device.info().attributes.get(CLOCK_RATE as usize).copied().unwrap_or(0);
        // A device that says nothing is taken for one of 1 GHz.
        let khz = u64::try_from(khz).ok().filter(|khz| *khz > 0).unwrap_or(1_000_000);
        Ok(Self { module: Mutex::new(module), empty, delay, khz })
    }

    /// Unloads them; nothing uses them any more.
    pub(in crate::device) fn unload(&self, device: &Device) {
        Module::unload_own(device, self.module.lock().take());
    }

    /// Has the stream wait for some microseconds.
    pub(in crate::device) fn delay(&self, stream: &Stream) -> CUresult {
        self.count(stream, self.cycles(DELAY_NS))
    }

    /// Cycles of so many ns.
    fn cycles(&self, ns: u64) -> u64 {
        ns * self.khz / 1_000_000
    }

    /// A kernel that counts so many cycles.
    fn count(&self, stream: &Stream, cycles: u64) -> CUresult {
        stream.launch(&self.delay, ONE_WARP, &cycles.to_ne_bytes())
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

/// What one measurement found.
pub(in crate::device) struct Measured {
    /// The cost.
    pub cost: EventCost,
    /// Its times were like each other: nothing else kept the device from them.
    pub is_calm: bool,
}

/// Kernels that count cycles, and the times between the events around them.
struct Counted {
    cycles: [u64; 2],
    ns: [Vec<u64>; 2],
}

/// How far from their median times may be.
fn slack(median: u64) -> u64 {
    DISTURBED_NS.max(median / 4)
}

/// Whether the middle half of times is close together.
fn is_calm(times: &[u64]) -> bool {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |quarter: usize| times.get(quarter * times.len() / 4).copied().unwrap_or(0);
    at(3) - at(1) <= slack(at(2))
}

/// The mean of times that were not disturbed, ns. A mean: events may have a resolution that is coarser
/// than what is looked for.
fn typical(times: &[u64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or(0);
    times.retain(|time| time.abs_diff(median) <= slack(median));
    times.iter().sum::<u64>() as f64 / times.len().max(1) as f64
}

impl EventCost {
    /// From times around an empty kernel, which takes `empty_ns`, and around kernels that count cycles.
    fn of(empty_kernel_ns: &[u64], counted: &Counted, empty_ns: u64) -> Self {
        let pair = typical(empty_kernel_ns);
        let [short, long] = counted.ns.each_ref().map(|times| typical(times));
        let [few, many] = counted.cycles.map(|cycles| cycles as f64);
        let around_counting = match many > few && long > short {
            true => short - few * (long - short) / (many - few),
            // A clock that does not count: an empty kernel is better than nothing.
            false => pair,
        };
        // Both kernels have begun and ended beside what they did, as an empty one does; and less is seen
        // around none.
        let counting = (around_counting - empty_ns as f64).clamp(0.0, pair.max(0.0));
        // A device without events' cost has none around programs' kernels either.
        let cost = counting + PROGRAM_KERNEL_NS.min(counting);
        Self { pair_ns: pair as u64, cost_ns: cost as u64 }
    }

    /// A time between two events without their cost, as long as an empty kernel at the least.
    pub fn take_off(&self, measured_ns: u64) -> u64 {
        let least = measured_ns.min(EMPTY_KERNEL_NS);
        measured_ns.saturating_sub(self.cost_ns).max(least)
    }

    /// Measures it. The context must be current on this thread.
    pub(in crate::device) fn measure(
        device: &Arc<Device>,
        with: &TimingKernels,
        goes_on: impl Fn() -> bool,
    ) -> Result<Measured, CudaError> {
        let share = Rc::new(Share::new(device.clone(), "the server", || false)?);
        let stream = Stream::new(&share, 0)?;
        let (start, end) = (Event::new(&share, 0)?, Event::new(&share, 0)?);
        let wait = || {
            let since = Instant::now();
            while !end.is_done()? {
                if since.elapsed() > PATIENCE || !goes_on() {
                    return Err(CudaError::NOT_READY);
                }
                std::thread::yield_now();
            }
            Ok(())
        };
        let once = |cycles: Option<u64>| {
            with.delay(&stream)?;
            stream.record(&start)?;
            match cycles {
                Some(cycles) => with.count(&stream, cycles)?,
                None => stream.launch(&with.empty, ONE_WARP, &[])?,
            }
            stream.record(&end)?;
            wait()?;
            Ok((f64::from(start.elapsed_ms(&end)?) * 1e6) as u64)
        };
        for _ in 0..WARM_UPS {
            with.count(&stream, with.cycles(WARM_UP_NS))?;
            stream.record(&end)?;
            wait()?;
        }
        let cycles = COUNTED_NS.map(|ns| with.cycles(ns));
        // The first ones load code.
        [None, Some(cycles[0])].into_iter().try_for_each(|cycles| once(cycles).map(drop))?;
        let (mut empty, mut counted) = (Vec::new(), Counted { cycles, ns: Default::default() });
        for _ in 0..TRIES {
            empty.push(once(None)?);
            for (times, cycles) in counted.ns.iter_mut().zip(cycles) {
                times.push(once(Some(cycles))?);
            }
        }
        let is_calm = counted.ns.iter().chain([&empty]).all(|times| is_calm(times));
        Ok(Measured { cost: Self::of(&empty, &counted, EMPTY_KERNEL_NS), is_calm })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a device's events see beyond a kernel's time, ns: of one that counts cycles, and of a program's.
    const COUNTING_NS: u64 = 2170;
    const COST_NS: u64 = COUNTING_NS + 300;
    /// A device whose clock is slower than it says.
    const NS_OF_1000_CYCLES: u64 = 520;

    /// A device whose events have a resolution, and whose launches take time as an H200's do, with jitter.
    struct Model {
        resolution_ns: u64,
        random: u64,
    }

    impl Model {
        fn new(resolution_ns: u64) -> Self {
            Self { resolution_ns, random: 7 }
        }

        fn below(&mut self, end: u64) -> u64 {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.random >> 33) % end
        }

        /// What two events around a program's kernel of so many ns see.
        fn seen(&mut self, kernel_ns: u64) -> u64 {
            self.seen_counting(kernel_ns + COST_NS - COUNTING_NS)
        }

        /// As `seen`, of a kernel that counts cycles.
        fn seen_counting(&mut self, kernel_ns: u64) -> u64 {
            let at = self.below(1_000_000);
            let end = at + COUNTING_NS + kernel_ns + self.below(60);
            let ticks = end / self.resolution_ns - at / self.resolution_ns;
            ticks * self.resolution_ns
        }

        /// As many as are measured, some of them disturbed.
        fn tries(&mut self, kernel_ns: u64) -> Vec<u64> {
            let late = |at: usize| if at.is_multiple_of(7) { 9000 } else { 0 };
            (0..TRIES).map(|at| self.seen_counting(kernel_ns) + late(at)).collect()
        }

        fn measured(&mut self) -> EventCost {
            // An empty kernel is over before the second event could be there.
            let empty: Vec<u64> = self.tries(608).iter().map(|ns| (*ns).max(2650)).collect();
            let cycles = [6000, 18_000];
            let ns = cycles.map(|cycles| self.tries(608 + cycles * NS_OF_1000_CYCLES / 1000));
            EventCost::of(&empty, &Counted { cycles, ns }, 608)
        }
    }

    #[test]
    fn times_by_events_come_within_three_percent() {
        for resolution_ns in [1, 32, 500] {
            let mut model = Model::new(resolution_ns);
            let cost = model.measured();
            for kernel_ns in [4000, 6000, 12_000, 70_000] {
                let times = (0..800).map(|_| cost.take_off(model.seen(kernel_ns)));
                let mean = times.sum::<u64>() as f64 / 800.0;
                let off = mean / kernel_ns as f64 - 1.0;
                assert!(off.abs() < 0.03, "{resolution_ns}, {kernel_ns} ns: {mean} ns by events");
            }
        }
    }

    #[test]
    fn a_resolution_of_half_a_microsecond_is_enough_for_two() {
        let mut model = Model::new(500);
        let cost = model.measured();
        assert!(cost.pair_ns > 0 && cost.cost_ns.abs_diff(COST_NS) < 200, "{cost:?}");
        let times = (0..2000).map(|_| cost.take_off(model.seen(2000)));
        let mean = times.sum::<u64>() as f64 / 2000.0;
        assert!((mean - 2000.0).abs() < 200.0, "{mean} ns by events");
    }

    #[test]
    fn times_beside_other_work_are_not_calm() {
        let mut model = Model::new(32);
        assert!(is_calm(&model.tries(2000)));
        let waited: Vec<u64> = (0..TRIES).map(|_| model.seen(2000) + model.below(20_000)).collect();
        assert!(!is_calm(&waited));
    }

    #[test]
    fn no_more_is_taken_off_than_there_is() {
        let counted = |short, long| Counted { cycles: [3000, 9000], ns: [vec![short], vec![long]] };
        // 3000 cycles take 3000 ns, and the rest of the short one 1400.
        let cost = EventCost::of(&[1500], &counted(4400, 10_400), 1000);
        // And 300 for a program's kernel.
        assert_eq!(cost, EventCost { pair_ns: 1500, cost_ns: 700 });
        assert_eq!((cost.take_off(300), cost.take_off(2400), cost.take_off(0)), (300, 1700, 0));
        // Without a clock by the empty kernel; without anything nothing.
        assert_eq!(EventCost::of(&[1500], &counted(10_400, 4400), 1000).cost_ns, 800);
        let none = Counted { cycles: [0; 2], ns: Default::default() };
        assert_eq!(EventCost::of(&[], &none, 1000), EventCost::default());
        assert_eq!(EventCost::default().take_off(77), 77);
    }
}
