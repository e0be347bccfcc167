//! A client's kernels by name and shape: how often each was launched, and how long it takes.
//!
//! A launch costs a comparison with the last launch's shape and one count. Blocks and threads follow
//! from the shape. A sample of launches is timed ([`super::sampler`]).

use super::contexts::{Context, Contexts};
use super::counter::{Counter, Launched};
use super::device_time::{DeviceTime, Launches};
use crate::device::{Function, LaunchShape, SafeCalls};
use cuda_api::constants::function_attribute;
use locks::{Mutex, MutexGuard};
use scheduling::predict::takes_alone;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Shapes that are distinguished, of a kernel. Launches of further ones count together, by block.
pub const SHAPES_MAX: usize = 32;
/// Places of shapes that are remembered by hash.
const LIKELY_PLACES: usize = 128;
const _: () = assert!(SHAPES_MAX < u8::MAX as usize);
/// So many samples of all launches say more of the mean than those of the first launches, which found
/// cold caches.
const REGULAR_SAMPLES_MIN: u64 = 8;
/// Of the last samples so many decide what a launch is predicted to take.
const SAMPLES_REMEMBERED: u64 = 16;
/// A sample of more than so many times the mean says nothing of others: the thread that submitted it was
/// interrupted, or a more urgent kernel had the SMs.
const OUTLIER: u64 = 4;

/// How a launch is shaped, as far as its time depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
}

impl Shape {
    /// What stands for the shape of a graph's launch: how many kernels it has.
    pub fn of_graph(kernels: u32) -> Self {
        Self { grid: [kernels, 1, 1], block: [1, 1, 1], shared_bytes: u32::MAX }
    }

    /// True of what [`Shape::of_graph`] makes.
    pub fn is_graph(&self) -> bool {
        self.shared_bytes == u32::MAX
    }

    /// Of a launch.
    pub fn of(launch: &LaunchShape) -> Self {
        Self { grid: launch.grid, block: launch.block, shared_bytes: launch.shared_bytes }
    }

    /// Differs for most shapes of a kernel: they differ by few numbers.
    #[inline]
    pub(super) fn hash(&self) -> usize {
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        let words = [u64::from(gy) << 32 | u64::from(gx), u64::from(by) << 32 | u64::from(bx)];
        let rest = u64::from(self.shared_bytes) << 32 | u64::from(gz ^ bz.rotate_left(16));
        let mixed = words[0] ^ words[1].rotate_left(11) ^ rest.rotate_left(23);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
    }

    /// Blocks of the grid.
    pub fn blocks(&self) -> u64 {
        if self.is_graph() {
            return 0;
        }
        self.grid.iter().map(|extent| u64::from(*extent)).fold(1, u64::saturating_mul)
    }

    /// Threads of the grid.
    pub fn threads(&self) -> u64 {
        self.blocks().saturating_mul(self.threads_a_block())
    }

    /// Threads of a block.
    pub fn threads_a_block(&self) -> u64 {
        self.block.iter().map(|extent| u64::from(*extent)).fold(1, u64::saturating_mul)
    }
}

/// What is known of the time of one shape's launches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LaunchTime {
    /// What a launch takes, ns: the mean of the last samples.
    pub device_ns: u64,
    /// The longest of the last samples, ns, which is forgotten by and by.
    pub longest_ns: u64,
    /// How many samples there were.
    pub samples: u64,
    /// False if the device was always idle when the samples were submitted, so that `device_ns` is an
    /// upper bound.
    pub is_clean: bool,
}

/// A shape's launches by graphs: a launch of a graph counts for itself only, so that its cost does not
/// grow with the graph.
#[derive(Debug, Default)]
struct InGraphs {
    now: Vec<InGraph>,
    /// Of graphs that are gone.
    past: u64,
}

#[derive(Debug)]
struct InGraph {
    graph: Arc<Counter>,
    /// Launches of the shape in one of the graph.
    times: u64,
}

impl InGraph {
    fn launches(&self) -> u64 {
        self.graph.get().saturating_mul(self.times)
    }
}

/// Launches of one graph, which count for all of its kernels.
pub struct GraphTally {
    launches: Arc<Counter>,
    shapes: Vec<Arc<ShapeCounters>>,
    each: Launched,
}

impl GraphTally {
    /// Of a graph of these kernels.
    pub fn new(kernels: &[Arc<ShapeCounters>]) -> Self {
        let launches = Arc::<Counter>::default();
        let mut times: HashMap<*const ShapeCounters, (&Arc<ShapeCounters>, u64)> = HashMap::new();
        for shape in kernels {
            times.entry(Arc::as_ptr(shape)).or_insert((shape, 0)).1 += 1;
        }
        let mut shapes = Vec::with_capacity(times.len());
        for (shape, times) in times.into_values() {
            shape.graphs().now.push(InGraph { graph: launches.clone(), times });
            shapes.push(shape.clone());
        }
        let sum = |of: fn(&Shape) -> u64| kernels.iter().map(|kernel| of(&kernel.shape)).sum();
        let (blocks, threads) = (sum(Shape::blocks), sum(Shape::threads));
        let each = Launched { kernels: kernels.len() as u64, blocks, threads, device_ns: 0 };
        Self { launches, shapes, each }
    }

    /// The graph was launched.
    #[inline]
    pub fn launched(&self) {
        self.launches.add(1);
    }

    /// What one launch of it is, but for its time.
    pub fn each(&self) -> Launched {
        self.each
    }
}

impl Drop for GraphTally {
    fn drop(&mut self) {
        for shape in &self.shapes {
            let mut graphs = shape.graphs();
            let mut past = graphs.past;
            graphs.now.retain(|of| {
                let is_other = !Arc::ptr_eq(&of.graph, &self.launches);
                past += if is_other { 0 } else { of.launches() };
                is_other
            });
            graphs.past = past;
        }
    }
}

/// Counters of one shape.
#[derive(Debug, Default)]
pub struct ShapeCounters {
    /// The shape. Of launches that are not distinguished: zeros.
    pub shape: Shape,
    /// Blocks that an SM has room for, of such a launch; 0 if it is not known.
    pub blocks_per_sm: u32,
    /// Launches by themselves.
    pub launches: Counter,
    /// Launches by graphs.
    graphs: Mutex<InGraphs>,
    /// Blocks and threads of launches whose shapes are not distinguished.
    other_blocks: Counter,
    other_threads: Counter,
    /// Blocks of the last of them, and a moving mean of those whose time `recent_ns` has.
    last_blocks: Counter,
    recent_blocks: Counter,
    /// Samples that are exact, and the sum of their times, ns.
    clean: Counter,
    clean_ns: Counter,
    /// Of them, those that were drawn from all launches, and the sum of their times, ns.
    regular: Counter,
    regular_ns: Counter,
    /// Launches that CUPTI has timed, and the sum of their times, ns. Written by the thread that reads
    /// CUPTI's records alone.
    by_cupti: Counter,
    by_cupti_ns: Counter,
    /// Samples that came to an idle stream, and the shortest of their times, ns.
    rough: Counter,
    rough_min_ns: Counter,
    /// A moving mean of clean samples, ns; before the first one the shortest of the others.
    recent_ns: Counter,
    /// The longest of the last clean samples, ns.
    longest_ns: Counter,
    /// What it takes without batch work beside it, ns; 0: not known.
    alone_ns: Counter,
    /// Times by what was launched before.
    pub(super) contexts: Contexts,
    /// Device time that was reported to the daemon.
    pub reported: DeviceTime,
}

impl ShapeCounters {
    /// Of a shape that was not launched yet, and of which an SM has room for so many blocks.
    pub fn new(shape: Shape, blocks_per_sm: u32) -> Self {
        Self { shape, blocks_per_sm, ..Self::default() }
    }

    /// All launches.
    pub fn all_launches(&self) -> u64 {
        self.launches.get() + self.launches_in_graphs()
    }

    /// All launches, by what launched them.
    pub fn launched(&self) -> Launches {
        Launches { alone: self.launches.get(), in_graphs: self.launches_in_graphs() }
    }

    fn graphs(&self) -> MutexGuard<'_, InGraphs> {
        self.graphs.lock()
    }

    /// Launches by graphs.
    pub fn launches_in_graphs(&self) -> u64 {
        let graphs = self.graphs();
        graphs.now.iter().map(InGraph::launches).sum::<u64>() + graphs.past
    }

    /// Blocks of all launches.
    pub fn blocks(&self) -> u64 {
        match self.shape == Shape::default() {
            true => self.other_blocks.get(),
            false => self.all_launches().saturating_mul(self.shape.blocks()),
        }
    }

    /// Threads of all launches.
    pub fn threads(&self) -> u64 {
        match self.shape == Shape::default() {
            true => self.other_threads.get(),
            false => self.all_launches().saturating_mul(self.shape.threads()),
        }
    }

    /// How often its time was measured.
    pub fn samples(&self) -> u64 {
        match self.by_cupti.get() {
            0 => self.clean.get() + self.rough.get(),
            records => records,
        }
    }

    /// True if CUPTI has timed it.
    pub fn is_by_cupti(&self) -> bool {
        self.by_cupti.get() > 0
    }

    /// What a launch takes on the average of its life, ns; `None` before the first sample.
    pub fn mean_ns(&self) -> Option<f64> {
        let mean = |sum: &Counter, of: u64| Some(sum.get() as f64 / of as f64);
        match (self.by_cupti.get(), self.regular.get(), self.clean.get(), self.rough.get()) {
            (0, 0, 0, 0) => None,
            (0, _, 0, _) => Some(self.rough_min_ns.get() as f64),
            (0, REGULAR_SAMPLES_MIN.., ..) => mean(&self.regular_ns, self.regular.get()),
            (0, _, samples, _) => mean(&self.clean_ns, samples),
            (records, ..) => mean(&self.by_cupti_ns, records),
        }
    }

    /// CUPTI has timed a launch.
    pub fn timed_by_cupti(&self, device_ns: u64) {
        self.by_cupti_ns.add(device_ns);
        self.by_cupti.add(1);
    }

    /// What the next launch will take; `None` before the first sample.
    #[inline]
    pub fn launch_time(&self) -> Option<LaunchTime> {
        let (clean, rough) = (self.clean.get(), self.rough.get());
        let (device_ns, is_clean) = match (clean, rough) {
            (0, 0) => return None,
            (0, _) => (self.rough_min_ns.get(), false),
            _ => (self.recent_ns.get(), true),
        };
        let longest_ns =
            self.longest_ns.get().min(device_ns.saturating_mul(OUTLIER)).max(device_ns);
        Some(LaunchTime { device_ns, longest_ns, samples: clean + rough, is_clean })
    }

    /// What the next launch will take behind those launches.
    pub fn launch_time_behind(&self, context: Context) -> Option<LaunchTime> {
        let known = self.launch_time()?;
        let Some((mean_ns, longest_ns)) = self.contexts.times_ns(context) else {
            return Some(known);
        };
        // A few samples decide, and one may be an outlier.
        let device_ns = mean_ns.min(known.device_ns.saturating_mul(OUTLIER));
        let longest_ns = longest_ns.min(device_ns.saturating_mul(OUTLIER)).max(device_ns);
        Some(LaunchTime { device_ns, longest_ns, ..known })
    }

    /// Blocks of the last launch, where shapes are not distinguished.
    pub fn last_blocks(&self) -> u64 {
        self.last_blocks.get()
    }

    /// The launch that was timed last had so many blocks, and is not distinguished. To be called by the session's
    /// thread.
    pub fn sampled_blocks(&self, blocks: u64) {
        let before = self.samples().saturating_sub(1).min(SAMPLES_REMEMBERED - 1);
        self.recent_blocks.set((self.recent_blocks.get() * before + blocks) / (before + 1));
    }

    /// What a launch of so many blocks will take that is not distinguished: in proportion to what others took.
    fn launch_time_of(&self, blocks: u64) -> Option<LaunchTime> {
        let known = self.launch_time()?;
        let mean = self.recent_blocks.get().max(1);
        let of = |ns: u64| {
            u64::try_from(u128::from(ns) * u128::from(blocks) / u128::from(mean))
                .unwrap_or(u64::MAX)
        };
        let (device_ns, longest_ns) = (of(known.device_ns), of(known.longest_ns));
        Some(LaunchTime { device_ns, longest_ns, ..known })
    }

    /// A launch took so long, beside no batch work if `is_alone`. Returns what it takes alone, ns; 0: not known. To be
    /// called by the session's thread.
    pub fn takes_alone(&self, device_ns: u64, is_alone: bool) -> u64 {
        let alone = takes_alone(self.alone_ns.get(), device_ns, is_alone);
        self.alone_ns.set(alone);
        alone
    }

    /// A launch was timed: `is_clean` if the time is exact, `is_regular` if the launch was drawn from all
    /// launches. To be called by the session's thread.
    pub fn sampled(&self, device_ns: u64, is_clean: bool, is_regular: bool) {
        if !is_clean {
            let shortest = match self.rough.get() {
                0 => device_ns,
                _ => self.rough_min_ns.get().min(device_ns),
            };
            self.rough_min_ns.set(shortest);
            if self.clean.get() == 0 {
                self.recent_ns.set(shortest);
            }
            return self.rough.add(1);
        }
        let before = self.clean.get().min(SAMPLES_REMEMBERED - 1);
        self.recent_ns.set((self.recent_ns.get() * before + device_ns) / (before + 1));
        let longest = self.longest_ns.get();
        let forgotten = longest.saturating_sub(device_ns) / SAMPLES_REMEMBERED;
        self.longest_ns.set(device_ns.max(longest - forgotten));
        self.clean_ns.add(device_ns);
        self.clean.add(1);
        if is_regular {
            self.regular_ns.add(device_ns);
            self.regular.add(1);
        }
    }
}

/// Counters of the kernels of one name.
pub struct KernelCounters {
    /// The name, as the image has it.
    pub name: CString,
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Local memory of a thread, bytes.
    pub local_bytes: u32,
    text: Arc<str>,
    shapes: Mutex<Vec<Arc<ShapeCounters>>>,
}

impl KernelCounters {
    /// Of a kernel that was not launched yet.
    pub fn new(name: &CStr, attributes: &[i32]) -> Self {
        let attribute = |which: u32| {
            let value = attributes.get(which as usize).copied().unwrap_or(0);
            u32::try_from(value).unwrap_or(0)
        };
        Self {
            name: name.to_owned(),
            text: name.to_string_lossy().into(),
            registers: attribute(function_attribute::NUM_REGS),
            shared_bytes: attribute(function_attribute::SHARED_SIZE_BYTES),
            local_bytes: attribute(function_attribute::LOCAL_SIZE_BYTES),
            shapes: Mutex::default(),
        }
    }

    /// Of a graph as a whole: the shape says how many kernels it has, and nothing else.
    pub fn of_graphs(name: &CStr) -> Self {
        Self::new(name, &[])
    }

    /// The name as a text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// A shape of it, if it was counted by itself.
    pub fn find(&self, shape: &Shape) -> Option<Arc<ShapeCounters>> {
        let shapes = self.shapes.lock();
        shapes.iter().find(|known| known.shape == *shape).cloned()
    }

    /// Its shapes.
    pub fn shapes(&self) -> Vec<Arc<ShapeCounters>> {
        self.shapes.lock().clone()
    }

    fn shape(&self, shape: Shape, blocks_per_sm: impl FnOnce() -> u32) -> Arc<ShapeCounters> {
        let mut shapes = self.shapes.lock();
        if let Some(known) = shapes.iter().find(|known| known.shape == shape) {
            return known.clone();
        }
        let shape = if shapes.len() < SHAPES_MAX { shape } else { Shape::default() };
        if let Some(others) = shapes.iter().find(|known| known.shape == shape) {
            return others.clone();
        }
        let blocks_per_sm = if shape == Shape::default() { 0 } else { blocks_per_sm() };
        let new = Arc::new(ShapeCounters::new(shape, blocks_per_sm));
        shapes.push(new.clone());
        new
    }
}

/// One shape, as the session counts it.
struct ShapeMeter {
    shape: Shape,
    /// Of a launch.
    blocks: u64,
    threads: u64,
    counters: Arc<ShapeCounters>,
    /// The counters are those of all shapes that are not distinguished.
    is_other: bool,
}

/// One function, as the session counts its launches.
pub struct KernelMeter {
    kernel: Arc<KernelCounters>,
    shapes: Vec<ShapeMeter>,
    /// Place of the last launch's shape.
    last: usize,
    /// Places by the shapes' hashes: where a shape most probably is.
    likely: [u8; LIKELY_PLACES],
}

impl KernelMeter {
    /// Of a function that is one of the kernels of that name.
    pub fn new(kernel: Arc<KernelCounters>) -> Self {
        Self { kernel, shapes: Vec::new(), last: 0, likely: [0; LIKELY_PLACES] }
    }

    /// What all of its name count.
    pub fn kernel(&self) -> &Arc<KernelCounters> {
        &self.kernel
    }

    /// What is known of a shape's time behind those launches: if it, or one that is not distinguished from it, was
    /// launched before. For the gate.
    pub fn launch_time(&self, shape: &Shape, context: Context) -> Option<LaunchTime> {
        let known = self.shapes.iter().find(|meter| meter.shape == *shape && !meter.is_other);
        match known {
            Some(known) => known.counters.launch_time_behind(context),
            None => self.launch_time_by_name(shape),
        }
    }

    /// As other functions of the name know it.
    #[cold]
    fn launch_time_by_name(&self, shape: &Shape) -> Option<LaunchTime> {
        match self.kernel.find(shape) {
            Some(known) => known.launch_time(),
            // Graphs of other sizes say nothing of it.
            None if shape.is_graph() => None,
            None => self.kernel.find(&Shape::default())?.launch_time_of(shape.blocks()),
        }
    }

    /// The counters of a shape.
    pub fn counters(
        &mut self,
        calls: SafeCalls,
        function: &Function,
        launch: &LaunchShape,
    ) -> Arc<ShapeCounters> {
        let at = self.place(Shape::of(launch), || function.blocks_per_sm(calls, launch));
        self.shapes[at].counters.clone()
    }

    #[inline]
    fn place(&mut self, shape: Shape, blocks_per_sm: impl FnOnce() -> u32) -> usize {
        let is_at = |at: usize| self.shapes.get(at).is_some_and(|known| known.shape == shape);
        if !is_at(self.last) {
            let hash = shape.hash() % LIKELY_PLACES;
            let likely = usize::from(self.likely[hash]);
            self.last = if is_at(likely) { likely } else { self.find(shape, blocks_per_sm) };
            self.likely[hash] = self.last as u8;
        }
        self.last
    }

    #[cold]
    fn find(&mut self, shape: Shape, blocks_per_sm: impl FnOnce() -> u32) -> usize {
        if let Some(at) = self.shapes.iter().position(|meter| meter.shape == shape) {
            return at;
        }
        let counters = self.kernel.shape(shape, blocks_per_sm);
        let is_other = counters.shape != shape;
        let (blocks, threads) = (shape.blocks(), shape.threads());
        if is_other {
            counters.last_blocks.set(blocks);
        }
        let meter = ShapeMeter { shape, blocks, threads, counters, is_other };
        if self.shapes.len() <= SHAPES_MAX {
            self.shapes.push(meter);
        } else {
            // The last place is for the launches that are not distinguished, one shape after the other.
            self.shapes[SHAPES_MAX] = meter;
        }
        self.shapes.len() - 1
    }

    /// A launch is about to be submitted: the counters of its shape.
    #[inline]
    pub fn before(
        &mut self,
        calls: SafeCalls,
        function: &Function,
        launch: &LaunchShape,
    ) -> &Arc<ShapeCounters> {
        let at = self.place(Shape::of(launch), || function.blocks_per_sm(calls, launch));
        &self.shapes[at].counters
    }

    /// As [`KernelMeter::before`], of what is no kernel.
    #[inline]
    pub fn before_other(&mut self, shape: Shape) -> &Arc<ShapeCounters> {
        let at = self.place(shape, || 0);
        &self.shapes[at].counters
    }

    /// The launch of [`KernelMeter::before`] was submitted: what its stream counts.
    #[inline]
    pub fn submitted(&mut self) -> Launched {
        let Some(meter) = self.shapes.get(self.last) else { return Launched::default() };
        let &ShapeMeter { blocks, threads, .. } = meter;
        meter.counters.launches.add(1);
        if meter.is_other {
            meter.counters.other_blocks.add(blocks);
            meter.counters.other_threads.add(threads);
        }
        let device_ns = meter.counters.recent_ns.get();
        Launched { kernels: 1, blocks, threads, device_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(blocks: u32) -> Shape {
        Shape { grid: [blocks, 1, 1], block: [64, 1, 1], shared_bytes: 0 }
    }

    fn meter() -> KernelMeter {
        KernelMeter::new(Arc::new(KernelCounters::new(c"k", &[])))
    }

    #[test]
    fn an_outlier_behind_rare_launches_is_bounded_by_the_shape() {
        let counters = ShapeCounters::default();
        (0..16).for_each(|_| counters.sampled(100, true, true));
        let context = Context::default().behind(1, 1).behind(2, 1);
        counters.contexts.sampled(context, 50_000);
        let known = counters.launch_time_behind(context).unwrap();
        assert_eq!((known.device_ns, known.longest_ns), (100 * OUTLIER, 100 * OUTLIER * OUTLIER));
        assert_eq!(counters.launch_time_behind(Context::default()), counters.launch_time());
    }

    #[test]
    fn what_a_kernel_takes_alone_is_a_mean_as_what_it_takes_beside_others_is() {
        let counters = ShapeCounters::default();
        assert_eq!(counters.takes_alone(900, false), 0, "not known");
        // Times vary, as on a machine that does other work.
        let times = || [5_000, 15_000, 25_000, 15_000].into_iter().cycle();
        for ns in times().take(400) {
            counters.takes_alone(ns, true);
        }
        let beside = times().skip(1).step_by(3).take(400);
        let (took, alone) =
            beside.fold((0, 0), |sum, ns| (sum.0 + ns, sum.1 + counters.takes_alone(ns, false)));
        let slowed_permille = took * 1000 / alone;
        assert!((900..1150).contains(&slowed_permille), "{slowed_permille}");
        // A kernel that does less from now on is known to, though batch work is beside it.
        for _ in 0..40 {
            counters.takes_alone(1000, false);
        }
        assert!(counters.takes_alone(1000, false) <= 8 * 1000);
    }

    #[test]
    fn blocks_and_threads_follow_from_launches() {
        let mut meter = meter();
        for blocks in [3, 3, 5] {
            meter.place(shape(blocks), || 7);
            meter.submitted();
        }
        let shapes = meter.kernel().shapes();
        let counted: Vec<_> =
            shapes.iter().map(|s| (s.all_launches(), s.blocks(), s.threads())).collect();
        assert_eq!(counted, [(2, 6, 384), (1, 5, 320)]);
        assert_eq!(shapes[0].blocks_per_sm, 7);
    }

    #[test]
    fn a_launch_of_a_graph_counts_for_its_kernels_while_it_is_there_and_after() {
        let mut meter = meter();
        let mut shape_of = |blocks| {
            meter.place(shape(blocks), || 1);
            meter.submitted();
            meter.kernel().shapes().last().cloned().expect("a shape")
        };
        let (three, five) = (shape_of(3), shape_of(5));
        let tally = GraphTally::new(&[three.clone(), five.clone(), three.clone()]);
        let other = GraphTally::new(std::slice::from_ref(&five));
        (0..10).for_each(|_| tally.launched());
        other.launched();
        let counts = || [&three, &five].map(|shape| shape.launches_in_graphs());
        assert_eq!(counts(), [20, 11]);
        drop(tally);
        assert_eq!(counts(), [20, 11]);
        drop(other);
        assert_eq!((counts(), three.all_launches(), three.blocks()), ([20, 11], 21, 63));
    }

    #[test]
    fn shapes_beyond_the_last_count_together() {
        let mut meter = meter();
        for blocks in 1..=SHAPES_MAX as u32 + 10 {
            for _ in 0..2 {
                meter.before_other(shape(blocks));
                meter.submitted();
            }
        }
        let shapes = meter.kernel().shapes();
        assert_eq!(shapes.len(), SHAPES_MAX + 1);
        let rest = &shapes[SHAPES_MAX];
        let blocks: u64 = (SHAPES_MAX as u64 + 1..=SHAPES_MAX as u64 + 10).map(|n| 2 * n).sum();
        assert_eq!((rest.all_launches(), rest.blocks(), rest.threads()), (20, blocks, 64 * blocks));
    }

    #[test]
    fn shapes_beyond_the_last_are_predicted_by_their_blocks() {
        let mut meter = meter();
        let time = |blocks: u32| 5_000_000 + u64::from(blocks) * 1000;
        for blocks in (1..=SHAPES_MAX as u32 + 10).chain(1..=SHAPES_MAX as u32 + 10) {
            let counters = meter.before_other(shape(blocks)).clone();
            counters.sampled(time(blocks), true, true);
            counters.sampled_blocks(counters.last_blocks());
            meter.submitted();
        }
        let known = |meter: &KernelMeter, blocks| {
            meter.launch_time(&shape(blocks), Context::default()).map(|known| known.device_ns)
        };
        assert_eq!(known(&meter, 7), Some(time(7)));
        let rest = known(&meter, SHAPES_MAX as u32 + 3).expect("a time");
        assert!((4_000_000..6_000_000).contains(&rest), "{rest}");
        let large = known(&meter, 10 * SHAPES_MAX as u32).expect("a time");
        assert!((8 * rest..10 * rest).contains(&large), "{large}");
        // Another function of the name knows them too.
        let other = KernelMeter::new(meter.kernel().clone());
        assert_eq!((known(&other, 7), known(&other, 35)), (known(&meter, 7), known(&meter, 35)));
        let mut other = KernelMeter::new(meter.kernel().clone());
        assert_eq!(other.before_other(shape(7)).shape, shape(7));
    }

    #[test]
    fn shapes_of_one_hash_are_distinguished() {
        let hash = |blocks: u32| shape(blocks).hash() % LIKELY_PLACES;
        let other = (2..).find(|blocks| hash(*blocks) == hash(1)).expect("there are many shapes");
        let mut meter = meter();
        for blocks in [1, other, other, 1, other, 3] {
            meter.before_other(shape(blocks));
            meter.submitted();
        }
        let shapes = meter.kernel().shapes();
        let counted: Vec<_> = shapes.iter().map(|s| (s.shape, s.all_launches())).collect();
        assert_eq!(counted, [(shape(1), 2), (shape(other), 3), (shape(3), 1)]);
    }

    #[test]
    fn clean_samples_beat_rough_ones_and_late_ones_early_ones() {
        let counters = ShapeCounters::default();
        assert_eq!(counters.launch_time(), None);
        counters.sampled(900, false, true);
        counters.sampled(700, false, true);
        let rough = LaunchTime { device_ns: 700, longest_ns: 700, samples: 2, is_clean: false };
        assert_eq!(counters.launch_time(), Some(rough));
        counters.sampled(500, true, false);
        assert_eq!(counters.launch_time().unwrap().device_ns, 500);
        (0..200).for_each(|_| counters.sampled(100, true, true));
        assert!(counters.launch_time().unwrap().device_ns < 110);
        assert!(counters.launch_time().unwrap().longest_ns < 120, "the longest is forgotten");
        // What found cold caches does not count among many.
        assert_eq!(counters.mean_ns(), Some(100.0));
        counters.timed_by_cupti(90);
        assert_eq!((counters.mean_ns(), counters.samples()), (Some(90.0), 1));
    }

    #[test]
    fn the_longest_of_a_kernels_like_is_remembered_but_no_outlier() {
        let counters = ShapeCounters::default();
        let known = || counters.launch_time().unwrap();
        (0..20).for_each(|_| counters.sampled(100, true, true));
        counters.sampled(300, true, true);
        (0..6).for_each(|_| counters.sampled(100, true, true));
        assert!(known().device_ns < 120 && known().longest_ns > 220, "{:?}", known());
        counters.sampled(90_000, true, true);
        (0..100).for_each(|_| counters.sampled(100, true, true));
        assert!(known().longest_ns <= 4 * known().device_ns, "{:?}", known());
    }
}
