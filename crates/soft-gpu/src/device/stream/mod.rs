//! Streams: operations in order, started when all before them are complete.
//!
//! Only the head operation of a stream is ever in progress. Everything here happens under the
//! core's lock and is short; what takes time is done by workers ([`crate::device::execution::worker`]), the host
//! thread ([`crate::device::stream::host`]) or the submitter.

pub mod branch;
pub mod event;
pub mod host;
pub mod ops;
pub mod transfer;
pub mod values;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::clock::now_ns;
use crate::device::execution::core::{Core, Parker};
use crate::device::execution::grid::{Grid, KernelOp, LastKernel, SmMask};
use crate::device::limits;
use crate::device::slab::Key;
use crate::device::stream::branch::Branch;
use crate::device::stream::event::EventPoint;
use crate::device::stream::host::HostCall;
use crate::device::stream::transfer::Transfer;
use crate::device::stream::values::{ValueWait, ValueWrite};
use crate::device::tenant::Tenant;

/// What a stream can be asked to do.
pub enum Op {
    /// Run a kernel.
    Kernel(Box<KernelOp>),
    /// Copy or fill memory.
    Transfer(Box<Transfer>),
    /// Note the time; events wait for it.
    Record(Arc<EventPoint>),
    /// Wait until another stream has come so far.
    WaitStream {
        /// The other stream.
        stream: Key<Stream>,
        /// How many of its operations must be complete.
        seq: u64,
    },
    /// Write a word and wake the threads that sleep on it.
    WriteValue(ValueWrite),
    /// Wait for a word.
    WaitValue(ValueWait),
    /// Do what a word chooses.
    Branch(Branch),
    /// Call a function of the program.
    Host(HostCall),
    /// Do something of the driver's own, such as freeing memory; must not wait for a stream.
    Internal(Box<dyn FnOnce() + Send>),
    /// Nothing: a place in the order.
    Marker,
}

/// What the head of a stream is doing.
pub(super) enum Head {
    /// The next operation, if there is one, has not been started.
    Idle,
    /// Its blocks run.
    Kernel(Key<Grid>),
    /// In [`Core::transfers`], waiting for a worker.
    TransferQueued(Box<Transfer>),
    /// A worker or the submitter moves the bytes.
    TransferRunning,
    /// Waits for another stream.
    WaitStream(Key<Stream>, u64),
    /// The word cannot be written now; the ticker tries again.
    WriteValue(ValueWrite),
    /// The ticker looks at the word.
    WaitValue(ValueWait),
    /// The ticker looks at the word again.
    Branch(Branch),
    /// The host thread has it.
    Host,
    /// The thread that started it runs it once the lock is let go.
    Internal,
}

/// Operations that are submitted together take one entry of the stream's queue, as a graph's launch does with CUDA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Batch {
    /// Each operation has its own entry.
    #[default]
    None,
    /// The next operation has the entry of the batch.
    Begins,
    /// What follows is in it.
    Goes,
}

/// A stream of one tenant.
pub struct Stream {
    pub(super) group: Key<Group>,
    pub(super) tenant: Arc<Tenant>,
    /// Synchronises with the legacy default stream.
    pub(super) blocking: bool,
    pub(super) priority: i32,
    pub(super) sms: SmMask,
    pub(super) head: Head,
    /// Each with whether it is in the entry of an operation before it.
    queue: VecDeque<(Op, bool)>,
    /// Operations of the queue that are in the entry of another.
    without_entry: usize,
    batch: Batch,
    /// What the branch at the head has chosen, or the grid that was there has asked for, and is not
    /// started: branch and grid are complete after it.
    pub(super) chosen: VecDeque<Op>,
    /// Kernels and transfers ever started.
    pub(super) works: u64,
    /// Operations ever enqueued.
    pub(super) submitted: u64,
    /// Operations complete; the head operation is number `completed + 1`.
    pub(super) completed: u64,
    /// Threads that wait until `completed` reaches a number.
    waiters: Vec<(u64, Arc<Parker>)>,
    /// Streams that wait for it.
    dependents: Vec<(u64, Key<Stream>)>,
    /// Number of the legacy stream's operation that this stream has waited for, or the other way
    /// round if this is the legacy stream: see [`Core::order_with_legacy`].
    legacy_seen: u64,
    seen_by_legacy: u64,
    /// How often lately the submitter waited for its work at once and did it itself.
    pub(super) helped: u32,
    pub(super) last: Option<LastKernel>,
    pub(super) destroyed: bool,
}

/// Streams of one context and tenant.
#[derive(Default)]
pub struct Group {
    pub(super) legacy: Option<Key<Stream>>,
    pub(super) streams: Vec<Key<Stream>>,
}

impl Stream {
    pub(super) fn new(group: Key<Group>, tenant: Arc<Tenant>, priority: i32) -> Self {
        Self {
            group,
            tenant,
            blocking: true,
            priority,
            sms: None,
            head: Head::Idle,
            queue: VecDeque::new(),
            without_entry: 0,
            batch: Batch::None,
            chosen: VecDeque::new(),
            works: 0,
            submitted: 0,
            completed: 0,
            waiters: Vec::new(),
            dependents: Vec::new(),
            legacy_seen: 0,
            seen_by_legacy: 0,
            helped: 0,
            last: None,
            destroyed: false,
        }
    }

    /// True if nothing is queued or in progress.
    pub(super) fn drained(&self) -> bool {
        self.completed == self.submitted
    }

    /// Operations that have not been started.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// True if the next operation has to wait.
    pub(super) fn is_full(&self) -> bool {
        let queued = self.queue.len();
        self.batch == Batch::None
            && (queued - self.without_entry >= limits::STREAM_QUEUE_MAX
                || queued >= limits::STREAM_OPERATIONS_MAX)
    }

    /// What is submitted from now on takes one entry together.
    pub(super) fn begin_batch(&mut self) {
        self.batch = Batch::Begins;
    }

    pub(super) fn end_batch(&mut self) {
        self.batch = Batch::None;
    }

    /// Takes the next operation that was queued.
    fn next_queued(&mut self) -> Option<Op> {
        let (op, without_entry) = self.queue.pop_front()?;
        self.without_entry -= usize::from(without_entry);
        Some(op)
    }

    pub(super) fn wait_for(&mut self, seq: u64, parker: Arc<Parker>) {
        self.waiters.push((seq, parker));
    }
}

impl Core {
    /// True once the first `seq` operations of `stream` are complete; also if it is gone.
    pub(super) fn reached(&self, stream: Key<Stream>, seq: u64) -> bool {
        self.streams.get(stream).is_none_or(|s| s.completed >= seq)
    }

    /// Adds the waits that order the next operation of `stream` with the legacy default stream.
    pub(super) fn order_with_legacy(&mut self, key: Key<Stream>) {
        let Some(stream) = self.streams.get(key) else { return };
        if !stream.blocking {
            return;
        }
        let Some(group) = self.groups.get(stream.group) else { return };
        let Some(legacy) = group.legacy else { return };
        if legacy != key {
            let Some(order) = self.streams.get(legacy).map(|l| (l.submitted, l.drained())) else {
                return;
            };
            if !order.1 && stream.legacy_seen < order.0 {
                self.push(key, Op::WaitStream { stream: legacy, seq: order.0 });
                if let Some(stream) = self.streams.get_mut(key) {
                    stream.legacy_seen = order.0;
                }
            }
            return;
        }
        let busy: Vec<(Key<Stream>, u64)> = group
            .streams
            .iter()
            .filter_map(|k| self.streams.get(*k).map(|s| (*k, s)))
            .filter(|(k, s)| *k != key && s.blocking && !s.drained())
            .filter(|(_, s)| s.seen_by_legacy < s.submitted)
            .map(|(k, s)| (k, s.submitted))
            .collect();
        for (other, seq) in busy {
            self.push(key, Op::WaitStream { stream: other, seq });
            if let Some(other) = self.streams.get_mut(other) {
                other.seen_by_legacy = seq;
            }
        }
    }

    /// Appends an operation; returns its number, or `None` if the stream is gone. The caller runs
    /// [`Core::start_ready`] before it lets the lock go.
    pub(super) fn push(&mut self, key: Key<Stream>, mut op: Op) -> Option<u64> {
        if self.trace.is_on() {
            match &mut op {
                Op::Kernel(kernel) => kernel.submitted_ns = now_ns(),
                Op::Transfer(transfer) => transfer.times.submitted_ns = now_ns(),
                _ => {}
            }
        }
        let stream = self.streams.get_mut(key)?;
        stream.submitted += 1;
        if let Op::Record(point) = &op {
            point.seq.store(stream.submitted, Ordering::Release);
        }
        let without_entry = stream.batch == Batch::Goes;
        if stream.batch == Batch::Begins {
            stream.batch = Batch::Goes;
        }
        stream.without_entry += usize::from(without_entry);
        stream.queue.push_back((op, without_entry));
        if matches!(stream.head, Head::Idle) {
            self.ready.push(key);
        }
        Some(stream.submitted)
    }

    /// Starts what can start, until nothing more can.
    pub(super) fn start_ready(&mut self) {
        while let Some(key) = self.ready.pop() {
            while self.start_head(key) {}
        }
        if self.values_changed {
            self.poll_values();
        }
        self.wake_workers();
    }

    /// Looks at the head of a stream; true if the stream came a step further.
    fn start_head(&mut self, key: Key<Stream>) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        match &stream.head {
            Head::Idle => {}
            Head::WaitStream(other, seq) => {
                let (other, seq) = (*other, *seq);
                if self.reached(other, seq) {
                    self.complete_one(key);
                    return true;
                }
                return false;
            }
            _ => return false,
        }
        let Some(op) = stream.chosen.pop_front().or_else(|| stream.next_queued()) else {
            if stream.destroyed {
                self.remove_stream(key);
            }
            return false;
        };
        match op {
            Op::Kernel(op) => {
                stream.works += 1;
                let tenant = stream.tenant.clone();
                let sms = op.sms.clone().unwrap_or_else(|| stream.sms.clone());
                let grid = self.start_grid(key, tenant, sms, op);
                if let Some(stream) = self.streams.get_mut(key) {
                    stream.head = Head::Kernel(grid);
                }
                self.want_turn();
                // Quanta and turns end by its ticks.
                self.wake_ticker();
                return false;
            }
            Op::Transfer(transfer) => {
                stream.works += 1;
                stream.head = Head::TransferQueued(transfer);
                self.transfers.push_back(key);
                return false;
            }
            Op::Record(point) => point.reach(now_ns()),
            Op::WaitStream { stream: other, seq } => {
                if !self.reached(other, seq) {
                    if let Some(stream) = self.streams.get_mut(key) {
                        stream.head = Head::WaitStream(other, seq);
                    }
                    if let Some(other) = self.streams.get_mut(other) {
                        other.dependents.push((seq, key));
                    }
                    return false;
                }
            }
            Op::WriteValue(write) => {
                if !self.try_write_value(key, &write) {
                    return false;
                }
            }
            Op::WaitValue(wait) => {
                if !self.try_wait_value(key, &wait) {
                    return false;
                }
            }
            Op::Branch(branch) => return self.start_branch(key, branch),
            Op::Host(call) => {
                stream.head = Head::Host;
                let tenant = stream.tenant.clone();
                self.after.call_host(tenant, Some(key), call);
                return false;
            }
            Op::Internal(action) => {
                stream.head = Head::Internal;
                self.after.run(Some(key), action);
                return false;
            }
            Op::Marker => {}
        }
        self.complete_one(key);
        true
    }

    /// The operation in progress at the head of `key` is complete: goes on with the next ones.
    pub(super) fn complete_head(&mut self, key: Key<Stream>) {
        self.complete_one(key);
        self.ready.push(key);
        self.start_ready();
    }

    pub(super) fn complete_one(&mut self, key: Key<Stream>) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.head = Head::Idle;
        if !stream.chosen.is_empty() {
            return;
        }
        // What was dropped from the queue counts as complete once nothing is in progress.
        stream.completed =
            if stream.queue.is_empty() { stream.submitted } else { stream.completed + 1 };
        let completed = stream.completed;
        if !stream.waiters.is_empty() {
            stream.waiters.retain(|(seq, parker)| {
                let reached = *seq <= completed;
                if reached {
                    self.after.unpark(parker);
                }
                !reached
            });
        }
        if !stream.dependents.is_empty() {
            stream.dependents.retain(|(seq, dependent)| {
                let reached = *seq <= completed;
                if reached {
                    self.ready.push(*dependent);
                }
                !reached
            });
        }
    }

    /// Drops what is queued and ends what is in progress as soon as that can be.
    pub(super) fn cancel_stream(&mut self, key: Key<Stream>) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let chosen = std::mem::take(&mut stream.chosen);
        stream.without_entry = 0;
        let queued = std::mem::take(&mut stream.queue).into_iter().map(|(op, _)| op);
        for op in chosen.into_iter().chain(queued) {
            match op {
                // A thread that waits for the event shall not wait for ever.
                Op::Record(point) => point.reach(now_ns()),
                Op::Host(call) if call.always => {
                    self.after.call_host(stream.tenant.clone(), None, call);
                }
                Op::Internal(action) => self.after.run(None, action),
                other => self.after.drop_op(other),
            }
        }
        match &stream.head {
            Head::Idle => {
                self.complete_one(key);
                self.ready.push(key);
            }
            Head::Kernel(grid) => {
                let grid = *grid;
                self.kill_grid(grid);
            }
            Head::TransferQueued(_)
            | Head::WaitStream(..)
            | Head::WaitValue(_)
            | Head::Branch(_)
            | Head::WriteValue(_) => {
                self.complete_one(key);
                self.ready.push(key);
            }
            Head::TransferRunning | Head::Host | Head::Internal => {}
        }
    }

    fn remove_stream(&mut self, key: Key<Stream>) {
        let Some(stream) = self.streams.remove(key) else { return };
        if let Some(group) = self.groups.get_mut(stream.group) {
            group.streams.retain(|k| *k != key);
        }
        for (_, parker) in &stream.waiters {
            self.after.unpark(parker);
        }
        self.ready.extend(stream.dependents.iter().map(|(_, dependent)| *dependent));
    }

    /// Marks a stream destroyed; it goes once its work is complete.
    pub(super) fn destroy_stream(&mut self, key: Key<Stream>) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.destroyed = true;
            self.ready.push(key);
            self.start_ready();
        }
    }
}
