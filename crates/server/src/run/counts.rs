//! What is counted of clients, as it is reported to the daemon.
//!
//! Where the provider counts, its numbers are reported. Elsewhere times are estimated: launches times the
//! mean of those that were timed, and from a launch's shape how many SMs and warps it had. No figure that
//! is a sum falls: a launch counts once, with the mean of the time when it is reported first, and in an interval of
//! time no more counts than has room in it.

use super::Server;
use crate::common::Common;
use crate::device::{Device, SyncTotals, text};
use crate::meter::{
    ClientCounters, Counted, KernelCounters, Mean, Reported, ShapeCounters, SubmittedTotals,
};
use crate::session::{GRAPHS, SessionLink};
use channel::message::{
    Answer, Answered, CONTEXT_CALLS_MAX, CallCounts, ClientCounts, ClientWork, ContextStatus,
    CountsPart, DeviceCounts, ExactCounts, Message, ShapeCounts, StreamCounts, SubmittedCounts,
    WaitingCall,
};
use cuda_api::attributes::{MAX_THREADS_PER_MULTIPROCESSOR, MULTIPROCESSOR_COUNT};
use cuda_api::handle::Handle;
use std::sync::Arc;
use std::time::Duration;

/// Lanes of a warp.
const WARP_LANES: u64 = 32;
/// What a kernel that was never timed is taken to take, ns.
const UNKNOWN_NS: f64 = 5000.0;

pub(super) fn submitted(counters: &SubmittedTotals) -> SubmittedCounts {
    let SubmittedTotals { kernels, copies, bytes_in, bytes_out, bytes_within, .. } = *counters;
    SubmittedCounts { kernels, copies, bytes_in, bytes_out, bytes_within }
}

pub(super) fn requests(counters: &ClientCounters) -> ClientCounts {
    ClientCounts {
        waits: counters.submitted().waits,
        in_flight: counters.in_flight.get(),
        throttled_ns: counters.throttled_ns.get(),
        limits_hit: counters.limits_hit.get(),
        submissions: counters.submissions.get(),
        submitting_ns: counters.submitting_ns.get(),
        streams: counters.stream_number(),
        uncounted: counters.uncounted.get() as u32,
        ring_stalls: counters.ring_stalls.get(),
    }
}

/// What the device did for a client; kernels that overlap count each in all of it where it is estimated.
pub(super) fn work(link: &SessionLink, device: &Device) -> ClientWork {
    let usage = link.tenant.get().and_then(|tenant| device.usage_of(*tenant));
    let usage = usage.or_else(|| link.last_usage.get().copied());
    let Some(usage) = usage else { return estimate(&link.counters, device) };
    ClientWork {
        busy_ns: usage.busy_ns,
        worker_ns: usage.worker_ns,
        blocks: usage.blocks,
        warp_instructions: usage.warp_instructions,
        thread_instructions: usage.thread_instructions,
        global_bytes: usage.global_bytes,
        sm_active_ns: usage.sm_active_ns,
        warp_ns: usage.warp_ns,
        device_ns: usage.kernel_ns,
        sampled: false,
    }
}

fn attribute(device: &Device, which: u32) -> u64 {
    let value = device.info().attributes.get(which as usize).copied().unwrap_or(0);
    u64::try_from(value).unwrap_or(0)
}

/// SMs and warps that a launch of a shape has at once.
fn resident(shape: &ShapeCounters, sms: u64) -> (f64, f64) {
    let blocks = shape.shape.blocks();
    let room = sms * u64::from(shape.blocks_per_sm.max(1));
    let warps = shape.shape.threads_a_block().div_ceil(WARP_LANES);
    (blocks.min(sms) as f64, (blocks.min(room) * warps) as f64)
}

/// SMs and warps that kernels of graphs have on the average of their time. Those whose time is not known
/// count like each other.
fn mean_of_graphs(shapes: &[Arc<ShapeCounters>], sms: u64) -> (f64, f64) {
    let (mut all, mut of_sms, mut of_warps) = (0.0, 0.0, 0.0);
    for shape in shapes {
        let part = shape.launches_in_graphs() as f64 * shape.mean_ns().unwrap_or(UNKNOWN_NS);
        let (sms, warps) = resident(shape, sms);
        all += part;
        of_sms += part * sms;
        of_warps += part * warps;
    }
    let all = f64::max(all, f64::MIN_POSITIVE);
    (of_sms / all, of_warps / all)
}

/// A kernel with the time of its shapes.
type Timed = (Arc<KernelCounters>, Vec<(Arc<ShapeCounters>, Reported)>);

/// The time of each kernel and shape: what was reported before, and what was launched since.
fn timed(counters: &ClientCounters, sms: u64) -> Vec<Timed> {
    let kernels: Vec<_> =
        counters.kernels().into_iter().map(|kernel| (kernel.shapes(), kernel)).collect();
    // Where all kernels of graphs are timed each, the graphs' own times count no more.
    let shapes = kernels.iter().flat_map(|(shapes, _)| shapes);
    let in_graphs: Vec<_> =
        shapes.filter(|shape| shape.launches_in_graphs() > 0).cloned().collect();
    let are_timed = !in_graphs.is_empty() && in_graphs.iter().all(|shape| shape.is_by_cupti());
    let of_graphs = mean_of_graphs(&in_graphs, sms);
    let report = |kernel: &KernelCounters, shape: &ShapeCounters| {
        let is_graphs = kernel.name.as_c_str() == GRAPHS;
        let counted = Counted { alone: !(are_timed && is_graphs), in_graphs: are_timed };
        let (sms, warps) = match shape.shape.is_graph() {
            true => of_graphs,
            false => resident(shape, sms),
        };
        shape.reported.report(
            shape.launched(),
            counted,
            Mean { device_ns: shape.mean_ns(), sms, warps },
        )
    };
    let rows = kernels.into_iter().map(|(shapes, kernel)| {
        let reported = shapes.into_iter().map(|shape| {
            let reported = report(&kernel, &shape);
            (shape, reported)
        });
        let reported = reported.collect();
        (kernel, reported)
    });
    rows.collect()
}

fn estimate(counters: &ClientCounters, device: &Device) -> ClientWork {
    let mut work = ClientWork { sampled: true, ..ClientWork::default() };
    let kernels = timed(counters, attribute(device, MULTIPROCESSOR_COUNT));
    for (shape, reported) in kernels.iter().flat_map(|(_, shapes)| shapes) {
        work.blocks += shape.blocks();
        work.device_ns += reported.device_ns;
        work.sm_active_ns += reported.sm_active_ns;
        work.warp_ns += reported.warp_ns;
    }
    work.busy_ns = work.device_ns;
    work
}

/// What was done for a client, or by the device, of whose kernels only the sum of their times is known: in a
/// interval of time no more is counted than has room in it.
#[derive(Debug, Default)]
pub(super) struct BusyIntervals {
    elapsed_ns: u64,
    /// Reported before.
    sum: ClientWork,
    /// What of it had no room, as far as it was not done yet.
    left: ClientWork,
    counted: ClientWork,
}

/// What an interval of time has room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    sms: u64,
    warps: u64,
}

impl Room {
    pub(super) fn of(device: &Device) -> Self {
        let sms = attribute(device, MULTIPROCESSOR_COUNT);
        let warps_per_sm = attribute(device, MAX_THREADS_PER_MULTIPROCESSOR) / WARP_LANES;
        Self { sms, warps: sms * warps_per_sm }
    }
}

impl BusyIntervals {
    /// Of what the provider has counted itself.
    pub(super) fn exact(sum: ClientWork) -> Self {
        Self { sum, counted: sum, ..Self::default() }
    }

    /// An interval ends: by now so much was done in all. Launches count when they are submitted, so of what has no
    /// room the part that is `in_flight`, of all launches, is left for the next interval.
    pub(super) fn end(
        &mut self,
        sum: &ClientWork,
        elapsed: Duration,
        room: Room,
        in_flight: (u64, u64),
    ) {
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let interval_ns = elapsed_ns.saturating_sub(self.elapsed_ns);
        let part = in_flight.0.min(in_flight.1) as f64 / in_flight.1.max(1) as f64;
        let count = |now: u64, before: u64, left: &mut u64, counted: &mut u64, room: u64| {
            let grown = now.saturating_sub(before).saturating_add(*left);
            let done = grown.min(interval_ns.saturating_mul(room));
            *left = (grown - done).min((now as f64 * part) as u64);
            *counted += done;
        };
        let (before, left, counted) = (&self.sum, &mut self.left, &mut self.counted);
        count(sum.busy_ns, before.busy_ns, &mut left.busy_ns, &mut counted.busy_ns, 1);
        count(
            sum.sm_active_ns,
            before.sm_active_ns,
            &mut left.sm_active_ns,
            &mut counted.sm_active_ns,
            room.sms,
        );
        count(sum.warp_ns, before.warp_ns, &mut left.warp_ns, &mut counted.warp_ns, room.warps);
        (self.elapsed_ns, self.sum) = (elapsed_ns, *sum);
    }

    /// What was done in all, with what had room; the rest as it was reported last.
    pub(super) fn counted(&self) -> ClientWork {
        let ClientWork { busy_ns, sm_active_ns, warp_ns, .. } = self.counted;
        ClientWork { busy_ns, sm_active_ns, warp_ns, ..self.sum }
    }
}

/// Adds what a client did.
pub(super) fn add(sum: &mut ClientWork, work: &ClientWork) {
    sum.busy_ns += work.busy_ns;
    sum.device_ns += work.device_ns;
    sum.sm_active_ns += work.sm_active_ns;
    sum.warp_ns += work.warp_ns;
}

/// What the device is and did, unless it counts itself what `done` says.
pub(super) fn device(device: &Device, done: &BusyIntervals) -> DeviceCounts {
    let room = Room::of(device);
    let (free, total) = device.memory_info().unwrap_or((0, device.info().memory_bytes));
    let ClientWork { busy_ns, sm_active_ns, warp_ns, .. } = done.counted();
    let event_cost = device.event_cost().unwrap_or_default();
    let counts = DeviceCounts {
        sms: room.sms as u32,
        warps_per_sm: (room.warps / room.sms.max(1)) as u32,
        memory_bytes: total,
        memory_free_bytes: free,
        elapsed_ns: done.elapsed_ns,
        busy_ns,
        sm_active_ns,
        warp_ns,
        sampled: true,
        event_pair_ns: event_cost.pair_ns,
        event_cost_ns: event_cost.cost_ns,
        start_bytes: device.start_bytes(),
    };
    match device.activity() {
        None => counts,
        Some(activity) => DeviceCounts {
            elapsed_ns: activity.elapsed_ns,
            busy_ns: activity.kernel_ns,
            sm_active_ns: activity.sm_active_ns,
            warp_ns: activity.warp_ns,
            sms: activity.sms,
            warps_per_sm: activity.warps_per_sm,
            sampled: false,
            ..counts
        },
    }
}

/// What clients of the context cost each other.
pub(super) fn context(common: &Common) -> ContextStatus {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let sync = common.device.sync();
    let calls = sync.totals().filter(|(_, totals)| totals.calls > 0).map(|(call, totals)| {
        let SyncTotals { calls, beside_others, waited_ns, total_ns, longest_ns } = totals;
        let counts = CallCounts { calls, beside_others, waited_ns, total_ns, longest_ns };
        (call.text().to_owned(), counts)
    });
    let waiting = sync.waiting().into_iter().take(CONTEXT_CALLS_MAX).map(|of| WaitingCall {
        call: of.call.text().to_owned(),
        client: of.client,
        others: of.others.join(", "),
        since_ns: ns(of.since),
    });
    ContextStatus {
        calls: calls.collect(),
        waiting: waiting.collect(),
        warm: common.warm.status(&common.device),
    }
}

fn shape_counts(
    kernel: (u32, u32, u32),
    shape: &ShapeCounters,
    reported: &Reported,
) -> ShapeCounts {
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) =
        (shape.shape.grid, shape.shape.block);
    let (registers, shared_bytes, local_bytes) = kernel;
    ShapeCounts {
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        dynamic_shared_bytes: shape.shape.shared_bytes,
        blocks_per_sm: shape.blocks_per_sm,
        registers,
        shared_bytes,
        local_bytes,
        launches: shape.launches.get(),
        launches_in_graphs: shape.launches_in_graphs(),
        blocks: shape.blocks(),
        threads: shape.threads(),
        samples: shape.samples(),
        mean_ns: shape.mean_ns().unwrap_or(0.0) as u64,
        by_cupti: u32::from(shape.is_by_cupti()),
        device_ns: reported.device_ns,
        sm_active_ns: reported.sm_active_ns,
        warp_ns: reported.warp_ns,
    }
}

fn stream_counts(slot: u32, counters: &SubmittedTotals) -> StreamCounts {
    let SubmittedCounts { kernels, copies, bytes_in, bytes_out, bytes_within } =
        submitted(counters);
    let SubmittedTotals { blocks, threads, device_ns, waits, .. } = *counters;
    StreamCounts {
        slot,
        kernels,
        copies,
        bytes_in,
        bytes_out,
        bytes_within,
        blocks,
        threads,
        device_ns,
        waits,
    }
}

/// A client's counts by kernel and stream.
fn parts(link: &SessionLink, device: &Device) -> Vec<CountsPart> {
    let mut shapes = Vec::new();
    for (kernel, rows) in timed(&link.counters, attribute(device, MULTIPROCESSOR_COUNT)) {
        let name = kernel.name.to_string_lossy();
        let resources = (kernel.registers, kernel.shared_bytes, kernel.local_bytes);
        shapes.extend(rows.iter().map(|(row, reported)| {
            (name.clone().into_owned(), shape_counts(resources, row, reported))
        }));
    }
    let exact = link.tenant.get().map(|tenant| device.kernels_of(*tenant)).unwrap_or_default();
    let exact = exact.iter().map(|row| {
        let counts = ExactCounts {
            launches: row.launches,
            blocks: row.blocks,
            device_ns: row.kernel_ns,
            worker_ns: row.worker_ns,
            sm_active_ns: row.sm_active_ns,
            warp_ns: row.warp_ns,
            warp_instructions: row.warp_instructions,
            thread_instructions: row.thread_instructions,
            global_bytes: row.global_bytes,
        };
        (text(&row.name), counts)
    });
    let slot = |word| Handle::from_word(word).map_or(0, |handle| handle.index);
    let streams = link.counters.streams();
    let mut rows: Vec<StreamCounts> =
        streams.iter().map(|(word, counters)| stream_counts(slot(*word), counters)).collect();
    rows.push(stream_counts(StreamCounts::PAST_STREAMS, &link.counters.past_streams()));
    CountsPart::split(link.identity.id, shapes, exact.collect(), rows)
}

impl Server {
    /// Tells the daemon what is counted by kernel and stream, of one client or of all (0).
    pub(super) fn tell_counts(&mut self, number: u32, client: u32) {
        let device = self.common.device.clone();
        let links = self.clients.links();
        let wanted = links.filter(|link| client == 0 || link.identity.id == client);
        let all: Vec<CountsPart> = wanted.flat_map(|link| parts(link, &device)).collect();
        // The last one says that it is the last.
        for part in all.into_iter().chain([CountsPart::default()]) {
            self.notify(&Message::Answer(Answer { number, answered: Answered::Counts(part) }));
        }
    }

    /// Tells the daemon what was recorded from a number on, and has sessions record.
    pub(super) fn tell_trace(&mut self, number: u32, from: u64) {
        let parts = self.common.trace.read(from);
        self.clients.ring_all();
        for part in parts {
            self.notify(&Message::Answer(Answer { number, answered: Answered::Trace(part) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{GraphTally, Shape};

    const ROOM: Room = Room { sms: 10, warps: 640 };
    const S: u64 = 1_000_000_000;

    fn sum(busy_ns: u64) -> ClientWork {
        ClientWork {
            busy_ns,
            sm_active_ns: 5 * busy_ns,
            warp_ns: 64 * busy_ns,
            ..Default::default()
        }
    }

    #[test]
    fn a_device_is_idle_once_its_clients_are_however_much_they_overlapped() {
        let mut done = BusyIntervals::default();
        let mut end = |busy_ns, at_s| {
            done.end(&sum(busy_ns), Duration::from_secs(at_s), ROOM, (0, 0));
            let counted = done.counted();
            [counted.busy_ns, counted.sm_active_ns, counted.warp_ns]
        };
        assert_eq!(end(4 * S, 1), [S, 10 * S, 256 * S]);
        assert_eq!(end(4 * S, 2), [S, 10 * S, 256 * S]);
        assert_eq!(end(4 * S + S / 2, 4), [S + S / 2, 12 * S + S / 2, 288 * S]);
    }

    #[test]
    fn work_that_waits_is_counted_when_there_is_room_for_it() {
        let mut done = BusyIntervals::default();
        let mut end = |at_s, in_flight| {
            done.end(&sum(4 * S), Duration::from_secs(at_s), ROOM, (in_flight, 40));
            done.counted().busy_ns
        };
        // 40 kernels of 100 ms, submitted at once, of which 10 a second end.
        assert_eq!(
            [end(1, 30), end(2, 20), end(3, 10), end(4, 0), end(5, 0)],
            [1, 2, 3, 4, 4].map(|s| s * S)
        );
    }

    #[test]
    fn kernels_of_graphs_have_the_sms_that_their_shapes_say() {
        let shape = |blocks, ns: u64| {
            let shape = Shape { grid: [blocks, 1, 1], block: [64, 1, 1], shared_bytes: 0 };
            let shape = Arc::new(ShapeCounters::new(shape, 2));
            (0..u64::from(ns > 0)).for_each(|_| shape.sampled(ns, true, true));
            shape
        };
        // One on 4 SMs for 3 us, and one on all 10 for 1 us, with room for 20 of its blocks.
        let (small, large) = (shape(4, 3000), shape(100, 1000));
        let graph = GraphTally::new(&[small.clone(), large.clone()]);
        graph.launched();
        let (sms, warps) = mean_of_graphs(&[small.clone(), large.clone()], 10);
        assert!((sms - 5.5).abs() < 1e-9 && (warps - 16.0).abs() < 1e-9, "{sms} {warps}");
        // Their times are not known: they count alike.
        let alike = [shape(4, 0), shape(100, 0)];
        let other = GraphTally::new(&alike);
        other.launched();
        assert!((mean_of_graphs(&alike, 10).0 - 7.0).abs() < 1e-9);
        assert_eq!(mean_of_graphs(&[], 10), (0.0, 0.0));
    }
}
