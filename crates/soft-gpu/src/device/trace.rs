//! The trace: each kernel and copy of a tenant, and which SMs a kernel was on, while it is asked for.
//!
//! Records are made when the work ends, under the core's lock. What is not taken in time is lost,
//! and counted.

use std::collections::{HashMap, VecDeque};

use cuda_api::extension::{TRACE_NAME_BYTES, TraceRecord, trace_kind};

use crate::device::Device;
use crate::device::execution::grid::Grid;
use crate::device::slab::Key;
use crate::device::stream::Stream;
use crate::device::stream::transfer::Transfer;
use crate::device::tenant::{Tenant, TenantId};

/// Most records that are kept for a tenant until they are taken.
pub const RECORDS_MAX: usize = 65_536;

#[derive(Default)]
struct Buffer {
    records: VecDeque<TraceRecord>,
    lost: u64,
}

impl Buffer {
    fn add(&mut self, record: TraceRecord) {
        match self.records.len() < RECORDS_MAX {
            true => self.records.push_back(record),
            false => self.lost += 1,
        }
    }
}

/// The records of the tenants that are traced.
#[derive(Default)]
pub(super) struct Trace {
    buffers: HashMap<TenantId, Buffer>,
}

/// A stream's number as cuStreamGetId says it.
fn stream_number(key: Key<Stream>) -> u64 {
    u64::from(key.generation()) << 32 | u64::from(key.index())
}

fn name_of(kernel: &str) -> [u8; TRACE_NAME_BYTES] {
    let mut name = [0; TRACE_NAME_BYTES];
    let mut end = kernel.len().min(TRACE_NAME_BYTES - 1);
    while !kernel.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].copy_from_slice(&kernel.as_bytes()[..end]);
    name
}

impl Trace {
    /// True if some tenant is traced.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        !self.buffers.is_empty()
    }

    /// A launch has ended.
    pub(super) fn kernel(&mut self, grid: &Grid, now: u64) {
        let Some(buffer) = self.buffers.get_mut(&grid.tenant.id) else { return };
        let launch = &grid.op.launch;
        let (g, b) = (launch.grid, launch.block);
        buffer.add(TraceRecord {
            kind: trace_kind::KERNEL,
            stream: stream_number(grid.stream),
            launch: grid.arrival(),
            submitted_ns: grid.op.submitted_ns,
            start_ns: grid.started_ns(),
            end_ns: now,
            grid: [g.x, g.y, g.z],
            block: [b.x, b.y, b.z],
            name: name_of(&grid.op.kernel.info().name),
            ..TraceRecord::default()
        });
    }

    /// The last block of a launch has left an SM for now.
    pub(super) fn on_sm(&mut self, tenant: TenantId, launch: u64, sm: u32, since: u64, now: u64) {
        let Some(buffer) = self.buffers.get_mut(&tenant) else { return };
        buffer.add(TraceRecord {
            kind: trace_kind::ON_SM,
            sm,
            launch,
            start_ns: since,
            end_ns: now,
            ..TraceRecord::default()
        });
    }

    /// A copy or fill has ended.
    pub(super) fn transfer(
        &mut self,
        tenant: TenantId,
        stream: Key<Stream>,
        done: &Transfer,
        now: u64,
    ) {
        let Some(buffer) = self.buffers.get_mut(&tenant) else { return };
        buffer.add(TraceRecord {
            kind: done.trace_kind(),
            stream: stream_number(stream),
            submitted_ns: done.times.submitted_ns,
            start_ns: done.times.started_ns,
            end_ns: now,
            bytes: done.bytes(),
            ..TraceRecord::default()
        });
    }
}

impl Device {
    /// Begins to trace a tenant, or ends it.
    pub fn set_trace(&self, tenant: &Tenant, on: bool) {
        let buffers = &mut self.lock().trace.buffers;
        match on {
            true => drop(buffers.entry(tenant.id).or_default()),
            false => drop(buffers.remove(&tenant.id)),
        }
    }

    /// Takes at most so many records, oldest first, and the number of those that were lost.
    pub fn take_trace(&self, tenant: &Tenant, most: usize) -> (Vec<TraceRecord>, u64) {
        let mut core = self.lock();
        let Some(buffer) = core.trace.buffers.get_mut(&tenant.id) else {
            return (Vec::new(), 0);
        };
        let taken = most.min(buffer.records.len());
        (buffer.records.drain(..taken).collect(), std::mem::take(&mut buffer.lost))
    }
}
