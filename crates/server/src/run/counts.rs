//! What is counted of clients, as the daemon is told it.
//!
//! Where the provider counts, its numbers are told. Elsewhere times are estimated: launches times the
//! mean of those that were timed, and from a launch's shape how many SMs and warps it had.

use super::Server;
use crate::common::Common;
use crate::device::{Device, SyncTotals, text};
use crate::meter::{ClientCounters, ShapeCounters, SubmittedTotals};
use crate::session::{GRAPHS, Link};
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
    }
}

/// What the device did for a client.
pub(super) fn work(link: &Link, device: &Device) -> ClientWork {
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

/// SMs and warps that kernels of graphs have on the average of their time. Those whose time is not known
/// count like each other.
fn mean_of_graphs(shapes: &[Arc<ShapeCounters>], sms: u64) -> (f64, f64) {
    let (mut all, mut of_sms, mut of_warps) = (0.0, 0.0, 0.0);
    for shape in shapes {
        let part = shape.launches_in_graphs() as f64 * shape.mean_ns().unwrap_or(UNKNOWN_NS);
        let blocks = shape.shape.blocks();
        let room = sms * u64::from(shape.blocks_per_sm.max(1));
        let warps = shape.shape.threads_a_block().div_ceil(WARP_LANES);
        all += part;
        of_sms += part * blocks.min(sms) as f64;
        of_warps += part * (blocks.min(room) * warps) as f64;
    }
    let all = f64::max(all, f64::MIN_POSITIVE);
    (of_sms / all, of_warps / all)
}

fn estimate(counters: &ClientCounters, device: &Device) -> ClientWork {
    let sms = attribute(device, MULTIPROCESSOR_COUNT);
    let mut work = ClientWork { sampled: true, ..ClientWork::default() };
    let kernels = counters.kernels();
    // Where all kernels of graphs are timed each, the graphs' own times count no more.
    let shapes = kernels.iter().flat_map(|kernel| kernel.shapes());
    let in_graphs: Vec<_> = shapes.filter(|shape| shape.launches_in_graphs() > 0).collect();
    let are_timed = !in_graphs.is_empty() && in_graphs.iter().all(|shape| shape.is_by_cupti());
    let (graph_sms, graph_warps) = mean_of_graphs(&in_graphs, sms);
    for kernel in kernels {
        let is_twice = are_timed && kernel.name.as_c_str() == GRAPHS;
        for shape in kernel.shapes() {
            work.blocks += shape.blocks();
            let Some(mean_ns) = shape.mean_ns().filter(|_| !is_twice) else { continue };
            let launches = match are_timed {
                true => shape.all_launches(),
                false => shape.launches.get(),
            };
            let device_ns = (mean_ns * launches as f64) as u64;
            let blocks = shape.shape.blocks();
            let room = sms * u64::from(shape.blocks_per_sm.max(1));
            let warps = shape.shape.threads_a_block().div_ceil(WARP_LANES);
            work.device_ns += device_ns;
            if shape.shape.is_graph() {
                work.sm_active_ns += (device_ns as f64 * graph_sms) as u64;
                work.warp_ns += (device_ns as f64 * graph_warps) as u64;
                continue;
            }
            work.sm_active_ns += device_ns.saturating_mul(blocks.min(sms));
            work.warp_ns += device_ns.saturating_mul(blocks.min(room) * warps);
        }
    }
    // Kernels of several streams may overlap: then this is too much, which readers see by the time
    // that has passed.
    work.busy_ns = work.device_ns;
    work
}

/// Adds what a client did.
pub(super) fn add(sum: &mut ClientWork, work: &ClientWork) {
    sum.busy_ns += work.busy_ns;
    sum.device_ns += work.device_ns;
    sum.sm_active_ns += work.sm_active_ns;
    sum.warp_ns += work.warp_ns;
}

/// What the device is and did; `sum` is what was done for all clients in the time that passed.
pub(super) fn device(device: &Device, sum: &ClientWork, elapsed: Duration) -> DeviceCounts {
    let sms = attribute(device, MULTIPROCESSOR_COUNT);
    let warps_per_sm = attribute(device, MAX_THREADS_PER_MULTIPROCESSOR) / WARP_LANES;
    let (free, total) = device.memory_info().unwrap_or((0, device.info().memory_bytes));
    let elapsed_ns = elapsed.as_nanos() as u64;
    let event_cost = device.event_cost().unwrap_or_default();
    let counts = DeviceCounts {
        sms: sms as u32,
        warps_per_sm: warps_per_sm as u32,
        memory_bytes: total,
        memory_free_bytes: free,
        elapsed_ns,
        busy_ns: sum.busy_ns.min(elapsed_ns),
        sm_active_ns: sum.sm_active_ns.min(elapsed_ns.saturating_mul(sms)),
        warp_ns: sum.warp_ns.min(elapsed_ns.saturating_mul(sms * warps_per_sm)),
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

fn shape_counts(kernel: (u32, u32, u32), shape: &ShapeCounters) -> ShapeCounts {
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
fn parts(link: &Link, device: &Device) -> Vec<CountsPart> {
    let mut shapes = Vec::new();
    for kernel in link.counters.kernels() {
        let name = kernel.name.to_string_lossy();
        let resources = (kernel.registers, kernel.shared_bytes, kernel.local_bytes);
        let rows = kernel.shapes();
        shapes.extend(
            rows.iter().map(|row| (name.clone().into_owned(), shape_counts(resources, row))),
        );
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
            self.tell(&Message::Answer(Answer { number, answered: Answered::Counts(part) }));
        }
    }

    /// Tells the daemon what was recorded from a number on, and has sessions record.
    pub(super) fn tell_trace(&mut self, number: u32, from: u64) {
        let parts = self.common.trace.read(from);
        self.clients.ring_all();
        for part in parts {
            self.tell(&Message::Answer(Answer { number, answered: Answered::Trace(part) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{GraphTally, Shape};

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
