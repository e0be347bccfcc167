//! Executable graph: made ready to be launched on the software GPU.
//!
//! A launch puts the steps into streams: the first lane's into the stream that was named, the
//! others' into streams of the graph's own, which begin and end with it. Where a step waits for
//! one in another lane, a point is recorded there.

use std::sync::Arc;

use cuda_api::CUstreamBatchMemOpParams;
use graph::{HostNode, KernelNode, Lanes, NodeKind, Step};

use super::Driver;
use super::conditional::Conditional;
use super::event::Event;
use super::graph::host_op;
use super::launch::Prepared;
use crate::device::event::EventPoint;
use crate::device::ops::StreamSpec;
use crate::device::slab::Key;
use crate::device::stream::{Group, Op, Stream};
use crate::device::tenant::Tenant;
use crate::device::transfer::{Copy, Fill, Transfer};
use crate::error::Result;

/// What a step does, checked.
enum Work {
    Nothing,
    Kernel(Prepared),
    Copy(Copy),
    Fill(Fill),
    Host(HostNode),
    Record(Arc<Event>),
    Wait(Arc<Event>),
    MemOps(Vec<CUstreamBatchMemOpParams>),
    Conditional(Arc<Conditional>),
}

struct Node {
    work: Work,
    lane: usize,
    /// Steps in other lanes that it waits for.
    waits: Vec<usize>,
    /// A step in another lane waits for it.
    awaited: bool,
}

/// A graph made ready.
pub(crate) struct GraphExec {
    driver: &'static Driver,
    nodes: Vec<Node>,
    lanes: usize,
    /// Streams of the lanes but the first, and for which streams' group they were made.
    streams: Vec<Key<Stream>>,
    home: Option<Key<Group>>,
    /// The end of the last launch.
    end: Option<Arc<EventPoint>>,
}

impl GraphExec {
    /// Checks all steps.
    pub(crate) fn new(driver: &'static Driver, steps: &[Step]) -> Result<Self> {
        let tenant = driver.working_tenant()?;
        let lanes = Lanes::new(steps);
        let mut nodes = Vec::with_capacity(steps.len());
        for (step, lane) in steps.iter().zip(&lanes.of_step) {
            let elsewhere = |d: &&usize| lanes.of_step[**d] != *lane;
            let waits: Vec<usize> = step.dependencies.iter().filter(elsewhere).copied().collect();
            let work = work_of(driver, &tenant, step)?;
            nodes.push(Node { work, lane: *lane, waits, awaited: false });
        }
        for index in 0..nodes.len() {
            for awaited in nodes[index].waits.clone() {
                nodes[awaited].awaited = true;
            }
        }
        let (streams, home, end) = (Vec::new(), None, None);
        Ok(Self { driver, nodes, lanes: lanes.count, streams, home, end })
    }

    /// Puts all steps into streams, behind what is in `stream`; what comes after in it comes
    /// after all of them.
    pub(crate) fn launch(&mut self, stream: Key<Stream>) -> Result {
        let device = &self.driver.device;
        self.make_lanes(stream)?;
        if let Some(end) = &self.end {
            device.wait_for_point(stream, end)?;
        }
        let lane = |number: usize| match number {
            0 => stream,
            side => self.streams[side - 1],
        };
        if self.lanes > 1 {
            let start = device.record(stream)?;
            for side in &self.streams {
                device.wait_for_point(*side, &start)?;
            }
        }
        let mut points: Vec<Option<Arc<EventPoint>>> = vec![None; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let stream = lane(node.lane);
            for point in node.waits.iter().filter_map(|step| points[*step].as_ref()) {
                device.wait_for_point(stream, point)?;
            }
            submit(self.driver, stream, &node.work)?;
            if node.awaited {
                points[index] = Some(device.record(stream)?);
            }
        }
        for side in &self.streams {
            let end = device.record(*side)?;
            device.wait_for_point(stream, &end)?;
        }
        self.end = Some(device.record(stream)?);
        Ok(())
    }

    /// Makes the lanes' streams, beside `stream`.
    fn make_lanes(&mut self, stream: Key<Stream>) -> Result {
        let device = &self.driver.device;
        let (group, _) = device.stream_group(stream)?;
        if self.home != Some(group) {
            self.forget_lanes();
        }
        self.home = Some(group);
        let (priority, _, tenant) = device.stream_properties(stream)?;
        while self.streams.len() + 1 < self.lanes {
            // All that the legacy stream has to wait for is in the stream of the launch.
            let spec = StreamSpec { non_blocking: true, priority, ..Default::default() };
            self.streams.push(device.create_stream(group, &tenant, spec)?);
        }
        Ok(())
    }

    fn forget_lanes(&mut self) {
        for stream in self.streams.drain(..) {
            // Gone already if its context is.
            let _ = self.driver.device.destroy_stream(stream);
        }
    }

    /// Waits for the last launch, however it ends.
    pub(crate) fn finish(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = self.driver.device.synchronize_point(&end);
        }
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        self.forget_lanes();
    }
}

fn work_of(driver: &'static Driver, tenant: &Tenant, step: &Step) -> Result<Work> {
    Ok(match step.work() {
        NodeKind::Kernel(node) => Work::Kernel(prepared(driver, node)?),
        NodeKind::Copy(node) => driver.copy_of(tenant, node)?.map_or(Work::Nothing, Work::Copy),
        NodeKind::Fill(node) => driver.fill_of(tenant, node)?.map_or(Work::Nothing, Work::Fill),
        NodeKind::Host(node) => Work::Host(*node),
        NodeKind::RecordEvent(event) => Work::Record(driver.events.get(event.0)?),
        NodeKind::WaitEvent(event) => Work::Wait(driver.events.get(event.0)?),
        NodeKind::MemOps(ops) => Work::MemOps(ops.clone()),
        NodeKind::Conditional(node) => {
            Work::Conditional(Arc::new(Conditional::new(driver, tenant, node, step)?))
        }
        // Memory is there as long as the graph; child graphs are dissolved in a plan; conditions are
        // words here.
        NodeKind::Alloc(_)
        | NodeKind::Free(_)
        | NodeKind::Empty
        | NodeKind::Child(_)
        | NodeKind::Condition(_) => Work::Nothing,
    })
}

pub(super) fn prepared(driver: &'static Driver, node: &KernelNode) -> Result<Prepared> {
    let read = |_: &_| Ok(node.parameters.bytes.clone());
    let prepared = driver.prepare(node.function, &node.config(), read)?;
    prepared.on_sms(&driver.device, node.sms.clone())
}

fn submit(driver: &'static Driver, stream: Key<Stream>, work: &Work) -> Result {
    let device = &driver.device;
    let op = match work {
        Work::Nothing => return Ok(()),
        Work::Kernel(prepared) => return prepared.clone().submit(driver, stream),
        Work::Copy(copy) => Op::Transfer(Box::new(Transfer::copy(copy.clone()))),
        Work::Fill(fill) => Op::Transfer(Box::new(Transfer::fill(fill.clone()))),
        Work::Host(node) => host_op(*node)?,
        Work::Record(event) => return event.record(device, stream),
        Work::Wait(event) => {
            return event.wait_in(device, stream);
        }
        Work::Conditional(node) => node.clone().into_op(driver, driver.working_tenant()?),
        Work::MemOps(ops) => {
            let (_, _, tenant) = device.stream_properties(stream)?;
            for op in ops {
                device.enqueue(stream, driver.mem_op(&tenant, op)?)?;
            }
            return Ok(());
        }
    };
    device.enqueue(stream, op).map(|_| ())
}
