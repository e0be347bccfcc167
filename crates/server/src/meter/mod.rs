//! The meter: what a session counts of its client's work, and how long that takes on the device.
//!
//! What a launch is predicted to take is [`ShapeCounters::launch_time`], by function and shape
//! ([`KernelMeter::launch_time`]), and by what was launched before it ([`Context`]).

mod contexts;
mod counter;
mod counters;
mod device_time;
mod kernels;
mod recorder;
mod sampler;
mod tracing;

pub use contexts::Context;
pub use counter::Launched;
pub use counters::{ClientCounters, Direction, Submitted, SubmittedTotals};
pub use device_time::{Counted, Mean, Reported};
pub use kernels::{GraphTally, KernelCounters, KernelMeter, LaunchTime, Shape, ShapeCounters};
pub use recorder::Subject;
pub use sampler::Sampler;

use crate::device::{Share, Started, Stopwatch, Stream};
use crate::trace_log::{TraceLog, now_ns};
use cuda_api::CUresult;
use cuda_api::settings::Counting;
use recorder::{Recorder, TraceMark};
use sampler::{Due, GRAPHS_PER_SAMPLE_MIN, KERNELS_PER_SAMPLE_MIN};
use std::rc::Rc;
use std::sync::Arc;
use tracing::Tracing;

/// Work that takes longer than this, ns, needs no delay before it: the way of its submission is small
/// beside it.
const DELAYED_NS_MAX: u64 = 200_000;

/// Time between two samples of a client whose work is followed beside others', ns.
const FOLLOWED_PERIOD_NS: u64 = 10_000_000;

/// Beside what a launch is submitted.
#[derive(Clone, Copy, Debug)]
pub struct Company {
    /// Beside no batch work.
    pub is_alone: bool,
    /// It is to be known how much batch work slows it.
    pub is_followed: bool,
    /// When, ns of the gate's clock.
    pub at_ns: u64,
}

impl Default for Company {
    /// No other client has to make way for it.
    fn default() -> Self {
        Self { is_alone: true, is_followed: false, at_ns: 0 }
    }
}

/// A launch that is to be timed.
pub struct Sample {
    shape: Arc<ShapeCounters>,
    is_regular: bool,
    context: Context,
    /// Its blocks, if its shape is not distinguished; else 0.
    blocks: u64,
    /// Where a graph's own times are kept.
    own: Option<Arc<ShapeCounters>>,
    company: Company,
}

/// One session's.
pub struct Meter {
    counting: Counting,
    kernels: Sampler,
    graphs: Sampler,
    stopwatch: Stopwatch<Sample>,
    /// Idle streams may wait for a sample's sake.
    may_delay: bool,
    tracing: Tracing,
    recorder: Recorder,
    /// All work is recorded by events.
    records: bool,
    /// Of the next launch, while the gate wants to know what that takes.
    context: Context,
    /// Of the next launch.
    company: Company,
    /// When kernels and graphs were timed last to be followed, ns.
    followed_ns: [u64; 2],
    /// Times of launches that are followed, with what they are alone, ns, and when they were submitted.
    followed: Vec<((u64, u64), u64)>,
}

/// Work that is timed or recorded.
pub struct Timing {
    sample: Option<(Started, Sample)>,
    record: Option<TraceMark>,
}

impl Meter {
    /// Nothing is timed. Sessions should differ by `seed`.
    pub fn new(share: &Rc<Share>, counting: Counting, seed: u64) -> Self {
        Self {
            counting,
            kernels: Sampler::new(KERNELS_PER_SAMPLE_MIN, seed),
            graphs: Sampler::new(GRAPHS_PER_SAMPLE_MIN, !seed),
            stopwatch: Stopwatch::new(share),
            may_delay: true,
            tracing: Tracing::default(),
            recorder: Recorder::new(share),
            records: false,
            context: Context::default(),
            company: Company::default(),
            followed_ns: [0; 2],
            followed: Vec::new(),
        }
    }

    /// False if nothing is counted.
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.counting != Counting::Off
    }

    /// What is counted and timed from now on; whether idle streams may wait for it.
    pub fn set(&mut self, counting: Counting, may_delay: bool) {
        self.may_delay = may_delay;
        if self.counting != counting {
            self.counting = counting;
            self.stopwatch.set_many(counting == Counting::Every);
        }
    }

    /// A kernel is about to be launched: whether it is to be timed.
    #[inline]
    pub fn due(&mut self, shape: &Arc<ShapeCounters>) -> Option<Sample> {
        let due = self.kernels.due(shape.launches.get(), self.counting, now_ns);
        let due = due.or_else(|| self.follows(0))?;
        self.sample(due, shape, self.context)
    }

    /// Beside what the next launches are submitted.
    #[inline]
    pub fn set_company(&mut self, company: Company) {
        self.company = company;
    }

    /// What launches took that are followed, and take alone, ns, and when they were submitted, since this was asked
    /// for last.
    pub fn take_followed(&mut self) -> Vec<((u64, u64), u64)> {
        std::mem::take(&mut self.followed)
    }

    /// Whether a launch is timed because its client is followed: a kernel (0) or a graph (1).
    #[inline]
    fn follows(&mut self, kind: usize) -> Option<Due> {
        if !self.company.is_followed || self.counting == Counting::Off {
            return None;
        }
        let now = self.company.at_ns;
        let is_due = now.saturating_sub(self.followed_ns[kind]) >= FOLLOWED_PERIOD_NS;
        is_due.then(|| {
            self.followed_ns[kind] = now;
            Due::Early
        })
    }

    /// What was launched before the next launch.
    pub fn context(&self) -> Context {
        self.context
    }

    /// What is launched from now on is not followed.
    #[inline]
    pub fn forget_context(&mut self) {
        self.context = Context::default();
    }

    /// A launch of this function and shape was submitted.
    pub fn went_before(&mut self, function: u64, shape: &Shape) {
        self.context = self.context.behind(function, shape.hash());
    }

    /// Launches of these shapes are about to be submitted together, so that none of them is timed. False
    /// if one of them is to be, and nothing was said of them.
    pub fn pass_over<'a>(
        &mut self,
        shapes: impl Iterator<Item = &'a ShapeCounters> + Clone,
    ) -> bool {
        match self.counting {
            Counting::Off => true,
            Counting::Every | Counting::Cupti => false,
            Counting::Sampled => {
                let count = shapes.clone().count() as u32;
                let mut shapes = shapes.map(|shape| shape.launches.get());
                !self.records && shapes.all(sampler::is_past_early) && self.kernels.pass_over(count)
            }
        }
    }

    /// A graph is about to be launched, or a piece of one: whether it is to be timed. `own` has its launches and
    /// times by itself, `shape` those of all of its size.
    pub fn due_graph(
        &mut self,
        shape: &Arc<ShapeCounters>,
        own: &Arc<ShapeCounters>,
    ) -> Option<Sample> {
        // A graph that is launched once is not timed for the sake of its next launches.
        let before = match own.launches.get() {
            0 => shape.launches.get(),
            launches => launches,
        };
        let due = self.graphs.due(before, self.counting, now_ns);
        let due = due.or_else(|| self.follows(1))?;
        let sample = self.sample(due, shape, Context::default())?;
        Some(Sample { own: Some(own.clone()), ..sample })
    }

    #[cold]
    fn sample(&self, due: Due, shape: &Arc<ShapeCounters>, context: Context) -> Option<Sample> {
        // What is recorded has events of its own.
        let is_regular = due == Due::Regular;
        let blocks = shape.last_blocks();
        let (shape, company) = (shape.clone(), self.company);
        let sample = Sample { shape, is_regular, context, blocks, own: None, company };
        (!self.records).then_some(sample)
    }

    /// Begins to time what comes next in a stream, if it is a sample, or all is recorded; `subject`
    /// says what it is.
    #[inline]
    pub fn begin(
        &mut self,
        stream: &Stream,
        sample: Option<Sample>,
        subject: impl FnOnce() -> Subject,
    ) -> Option<Timing> {
        if sample.is_none() && !self.records {
            return None;
        }
        let subject = self.records.then(subject);
        Some(self.start(stream, sample, subject))
    }

    #[cold]
    fn start(
        &mut self,
        stream: &Stream,
        sample: Option<Sample>,
        subject: Option<Subject>,
    ) -> Timing {
        let sample = sample.and_then(|sample| {
            let known_ns = sample.shape.launch_time().map_or(0, |known| known.device_ns);
            let delayed =
                self.may_delay && self.counting != Counting::Every && known_ns < DELAYED_NS_MAX;
            Some((self.stopwatch.start(stream, delayed)?, sample))
        });
        let record = subject.and_then(|subject| self.recorder.begin(stream, subject));
        Timing { sample, record }
    }

    /// What is timed was submitted, or refused.
    #[inline]
    pub fn end(&mut self, timing: Option<Timing>, stream: &Stream, submitted: bool) {
        if let Some(timing) = timing {
            self.stop(timing, stream, submitted);
        }
    }

    #[cold]
    fn stop(&mut self, Timing { sample, record }: Timing, stream: &Stream, submitted: bool) {
        if let Some((started, sample)) = sample {
            match submitted {
                true => self.stopwatch.stop(started, stream, sample),
                false => self.stopwatch.cancel(started),
            }
        }
        if let Some(mark) = record {
            self.recorder.end(mark, stream, submitted);
        }
    }

    /// Takes in the times of what is done. The error is that of the work.
    pub fn read(&mut self) -> CUresult {
        if self.stopwatch.is_pending() {
            let followed = &mut self.followed;
            self.stopwatch.read(|timed| {
                let is_clean = timed.is_clean || timed.device_ns > DELAYED_NS_MAX;
                let Sample { shape, is_regular, context, blocks, own, company } = timed.of;
                if is_clean {
                    let of = own.as_ref().unwrap_or(&shape);
                    let alone_ns = of.takes_alone(timed.device_ns, company.is_alone);
                    if company.is_followed {
                        followed.push(((timed.device_ns, alone_ns), company.at_ns));
                    }
                }
                shape.sampled(timed.device_ns, is_clean, is_regular);
                if let Some(own) = own.filter(|own| !Arc::ptr_eq(own, &shape)) {
                    own.sampled(timed.device_ns, is_clean, is_regular);
                }
                if blocks > 0 {
                    shape.sampled_blocks(blocks);
                }
                if is_clean {
                    shape.contexts.sampled(context, timed.device_ns);
                }
            })?;
        }
        self.recorder.read()
    }

    /// Records work from now on if the log wants it, or ends that, and gives the log what has ended.
    /// `streams` lists the streams' numbers at the provider with their slots. True if it has just begun.
    #[inline]
    pub fn follow(
        &mut self,
        log: &TraceLog,
        streams: impl FnOnce() -> Vec<(u64, u32)>,
        client: u32,
    ) -> bool {
        if !log.is_on() && !self.tracing.is_on() {
            return false;
        }
        self.follow_log(log, streams, client)
    }

    #[cold]
    fn follow_log(
        &mut self,
        log: &TraceLog,
        streams: impl FnOnce() -> Vec<(u64, u32)>,
        client: u32,
    ) -> bool {
        let began = self.tracing.follow(log, self.recorder.share());
        self.records = self.tracing.is_on() && !self.recorder.share().is_tenant();
        if !self.records {
            self.recorder.clear();
        }
        self.tracing.collect(log, self.recorder.share(), streams, client);
        self.recorder.give(log);
        began
    }

    /// Gives the events back.
    pub fn clear(&mut self) {
        self.stopwatch.clear();
        self.recorder.clear();
    }
}
