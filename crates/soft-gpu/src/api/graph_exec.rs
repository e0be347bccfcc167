//! Executable graph: made ready to be launched on the software GPU.
//!
//! A launch puts the steps into streams: the first lane's into the stream that was named, the
//! others' into streams of the graph's own, which begin and end with it. Where a step waits for
//! one in another lane, a point is recorded there. Kernels of other devices than the one that the graph was
//! made ready on, and conditional nodes, run in streams of those devices.

use std::sync::Arc;

use cuda_api::CUstreamBatchMemOpParams;
use graph::{HostNode, Lanes, NodeKind, Step};

use super::Driver;
use super::conditional::Conditional;
use super::event::Event;
use super::host_op::host_op;
use super::prepare::{Place, Prepared, has_choice, place_of_kernel, prepared};
use crate::device::memory::Pointer;
use crate::device::slab::Key;
use crate::device::stream::event::EventPoint;
use crate::device::stream::ops::StreamSpec;
use crate::device::stream::transfer::{Copy, Fill, Transfer};
use crate::device::stream::{Group, Op, Stream};
use crate::device::tenant::Tenant;
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
    /// Which of [`GraphExec::rows`] it is in.
    row: usize,
    /// Steps in other rows that it waits for.
    waits: Vec<usize>,
    /// A step in another row waits for it.
    awaited: bool,
}

/// What runs one after the other: of a lane, what is on one device.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Row {
    lane: usize,
    /// `None` where the graph is launched.
    place: Option<Place>,
}

/// A graph made ready.
pub(crate) struct GraphExec {
    driver: &'static Driver,
    nodes: Vec<Node>,
    /// The first one is in the stream that the graph is launched in.
    rows: Vec<Row>,
    /// Streams of the rows but the first, with their tenants, and for which streams' group they were
    /// made.
    streams: Vec<(Key<Stream>, Arc<Tenant>)>,
    home: Option<Key<Group>>,
    /// The end of the last launch.
    end: Option<Arc<EventPoint>>,
}

impl GraphExec {
    /// Checks all steps.
    pub(crate) fn new(driver: &'static Driver, steps: &[Step]) -> Result<Self> {
        let tenant = driver.working_tenant()?;
        let lanes = Lanes::new(steps);
        let mut nodes: Vec<Node> = Vec::with_capacity(steps.len());
        let mut rows: Vec<Row> =
            (0..lanes.count.max(1)).map(|lane| Row { lane, place: None }).collect();
        for (step, lane) in steps.iter().zip(&lanes.of_step) {
            let place = place_of(driver, step)?.filter(|place| place.device != tenant.device);
            let at = Row { lane: *lane, place };
            let row = rows.iter().position(|row| *row == at).unwrap_or_else(|| {
                rows.push(at);
                rows.len() - 1
            });
            // A kernel starts when those that it waits for have ended, also where its edges allow more.
            let before = step.dependencies.iter().map(|d| d.step);
            let waits: Vec<usize> = before.filter(|step| nodes[*step].row != row).collect();
            let work = match place {
                None => work_of(driver, &tenant, step)?,
                Some(place) => work_of(driver, &*driver.working_tenant_on(place.device)?, step)?,
            };
            nodes.push(Node { work, row, waits, awaited: false });
        }
        for index in 0..nodes.len() {
            for awaited in nodes[index].waits.clone() {
                nodes[awaited].awaited = true;
            }
        }
        let (streams, home, end) = (Vec::new(), None, None);
        Ok(Self { driver, nodes, rows, streams, home, end })
    }

    /// Puts all steps into streams, behind what is in `stream`; what comes after in it comes
    /// after all of them.
    pub(crate) fn launch(&mut self, stream: Key<Stream>) -> Result {
        let device = &self.driver.device;
        self.make_rows(stream)?;
        let rows = self.streams.iter().map(|(side, _)| *side);
        let streams: Vec<_> = std::iter::once(stream).chain(rows).collect();
        let _batch = device.batch(&streams)?;
        if let Some(end) = &self.end {
            device.wait_for_point(stream, end)?;
        }
        let own = self.driver.working_tenant()?;
        let row = |number: usize| match number.checked_sub(1) {
            None => (stream, &own),
            Some(side) => (self.streams[side].0, &self.streams[side].1),
        };
        if self.rows.len() > 1 {
            let start = device.record(stream)?;
            for (side, _) in &self.streams {
                device.wait_for_point(*side, &start)?;
            }
        }
        let mut points: Vec<Option<Arc<EventPoint>>> = vec![None; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let (stream, tenant) = row(node.row);
            for point in node.waits.iter().filter_map(|step| points[*step].as_ref()) {
                device.wait_for_point(stream, point)?;
            }
            submit(self.driver, tenant, stream, &node.work)?;
            if node.awaited {
                points[index] = Some(device.record(stream)?);
            }
        }
        for (side, _) in &self.streams {
            let end = device.record(*side)?;
            device.wait_for_point(stream, &end)?;
        }
        self.end = Some(device.record(stream)?);
        Ok(())
    }

    /// Makes the rows' streams, beside `stream`.
    fn make_rows(&mut self, stream: Key<Stream>) -> Result {
        let device = &self.driver.device;
        let (group, _) = device.stream_group(stream)?;
        if self.home != Some(group) {
            self.forget_rows();
        }
        self.home = Some(group);
        let (priority, _, tenant) = device.stream_properties(stream)?;
        while let Some(row) = self.rows.get(self.streams.len() + 1) {
            let (group, tenant) = match row.place {
                None => (group, tenant.clone()),
                Some(Place { device: other, context }) => {
                    let tenant = self.driver.working_tenant_on(other)?;
                    (device.group(context, &tenant)?, tenant)
                }
            };
            // All that the legacy stream has to wait for is in the stream of the launch.
            let spec = StreamSpec { non_blocking: true, priority, ..Default::default() };
            self.streams.push((device.create_stream(group, &tenant, spec)?, tenant));
        }
        Ok(())
    }

    fn forget_rows(&mut self) {
        for (stream, _) in self.streams.drain(..) {
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
        self.forget_rows();
    }
}

/// Where a step runs, if it is tied to a device.
fn place_of(driver: &'static Driver, step: &Step) -> Result<Option<Place>> {
    match step.work() {
        NodeKind::Kernel(node) => place_of_kernel(driver, node),
        // Where the condition is.
        NodeKind::Conditional(node) if has_choice(driver) => {
            let found = driver.device.memory.pointer(node.condition);
            let place =
                |found: Pointer| Place { device: found.tenant.device, context: found.context };
            Ok(found.map(place))
        }
        _ => Ok(None),
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

fn submit(
    driver: &'static Driver,
    tenant: &Arc<Tenant>,
    stream: Key<Stream>,
    work: &Work,
) -> Result {
    let device = &driver.device;
    let op = match work {
        Work::Nothing => return Ok(()),
        Work::Kernel(prepared) => return prepared.clone().submit_as(driver, tenant, stream),
        Work::Copy(copy) => Op::Transfer(Box::new(Transfer::copy(copy.clone()))),
        Work::Fill(fill) => Op::Transfer(Box::new(Transfer::fill(fill.clone()))),
        Work::Host(node) => host_op(*node)?,
        Work::Record(event) => return event.record(device, stream),
        Work::Wait(event) => {
            return event.wait_in(device, stream);
        }
        Work::Conditional(node) => node.clone().into_op(driver, tenant.clone()),
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
