//! Workers: the threads that run blocks and move bytes, and threads that help while they wait.
//!
//! A worker takes what is next, runs it without the lock, and settles the outcome. A thread that
//! waits for a stream does the same with that stream's own work: a short kernel then costs no
//! thread switch. Blocks run in as many threads at once as there are slots, regardless of the
//! threads that run them.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::clock::now_ns;
use crate::device::execution::core::{CachedView, Core, Desk, Running};
use crate::device::execution::grid::{Block, Followers, Grid, Place};
use crate::device::floats::DefaultFloats;
use crate::device::slab::Key;
use crate::device::stream::transfer::{Progress, Transfer};
use crate::device::stream::{Head, Op, Stream};
use crate::device::tenant::{Tenant, TenantId};
use crate::device::{Device, fault};
use crate::error::Error;
use simt::kernel::{
    BlockRun, Counters, Fault, FaultKind, Kernel, Launch, MemoryView, Outcome, PrintfSink, Worker,
};

/// How many streams that wait for one another a helper looks along.
const HELP_CHAIN_MAX: usize = 8;

/// Blocks in a row that gave way unasked before a worker offers its core to other threads.
const FRUITLESS_MAX: u32 = 64;

/// Work that a thread has taken, and what it holds meanwhile.
pub(in crate::device) struct Assignment {
    desk: Box<Desk>,
    tenant: Arc<Tenant>,
    work: Work,
    since_ns: u64,
}

enum Work {
    /// Those on the desk.
    Blocks {
        grid: Key<Grid>,
        /// How many of them have finished, from the front.
        finished: usize,
        kernel: Arc<dyn Kernel>,
        launch: Arc<Launch>,
        followers: Option<Arc<dyn Followers>>,
        counters: Counters,
    },
    Transfer {
        stream: Key<Stream>,
        transfer: Box<Transfer>,
    },
}

/// The result of an assignment.
pub(in crate::device) enum Settled {
    /// Of the first block that did not finish, or of the last.
    Blocks(Outcome),
    /// A block cannot go on: the error, and what happened in words.
    Fault(Error, String),
    Transfer(Progress),
}

impl Core {
    /// Takes what is next for a worker: transfers and blocks alternate.
    pub(in crate::device) fn assign(&mut self) -> Option<Assignment> {
        if self.slots_free.is_empty() {
            return None;
        }
        self.transfers_next = !self.transfers_next;
        if self.transfers_next {
            self.assign_next_transfer().or_else(|| self.assign_next_block())
        } else {
            self.assign_next_block().or_else(|| self.assign_next_transfer())
        }
    }

    fn assign_next_transfer(&mut self) -> Option<Assignment> {
        while let Some(stream) = self.transfers.pop_front() {
            if let Some(assignment) = self.assign_transfer(stream) {
                return Some(assignment);
            }
        }
        None
    }

    fn assign_next_block(&mut self) -> Option<Assignment> {
        if !self.may_run_blocks() {
            return None;
        }
        let mut desk = self.slots_free.pop()?;
        let grid = self.take_blocks(&mut desk.blocks);
        self.assign_blocks(grid, desk)
    }

    /// Takes work that brings this stream further.
    pub(in crate::device) fn assign_for(&mut self, stream: Key<Stream>) -> Option<Assignment> {
        let mut key = stream;
        for _ in 0..HELP_CHAIN_MAX {
            match &self.streams.get(key)?.head {
                Head::Kernel(grid) if self.may_run_blocks() => {
                    let grid = *grid;
                    if self.owes_a_turn() {
                        return self.assign();
                    }
                    if !self.may_go_ahead(grid) {
                        return None;
                    }
                    let mut desk = self.desk_for(grid)?;
                    let taken = self.take_blocks_now(grid, &mut desk.blocks);
                    if taken {
                        self.note_helped(key, grid);
                    }
                    return self.assign_blocks(taken.then_some(grid), desk);
                }
                Head::TransferQueued(_) if !self.slots_free.is_empty() => {
                    self.transfers.retain(|k| *k != key);
                    return self.assign_transfer(key);
                }
                Head::WaitStream(other, _) => key = *other,
                _ => return None,
            }
        }
        None
    }

    /// Takes work of this tenant.
    pub(in crate::device) fn assign_tenant(&mut self, tenant: TenantId) -> Option<Assignment> {
        let transfer = self.transfers.iter().position(|key| {
            self.streams.get(*key).is_some_and(|stream| stream.tenant.id == tenant)
        });
        if let Some(at) = transfer.filter(|_| !self.slots_free.is_empty()) {
            let key = self.transfers.remove(at)?;
            return self.assign_transfer(key);
        }
        if !self.may_run_blocks() {
            return None;
        }
        let mut runnable = self.runnable.iter().copied();
        let key = runnable.find(|key| {
            self.grids.get(*key).is_some_and(|g| g.tenant.id == tenant && g.has_waiting())
        })?;
        if !self.may_go_ahead(key) {
            return None;
        }
        let mut desk = self.desk_for(key)?;
        let taken = self.take_blocks_now(key, &mut desk.blocks);
        self.assign_blocks(taken.then_some(key), desk)
    }

    /// True if a thread that works out of turn would take the last slot behind a block that gave way: that may
    /// wait for what only this slot can run.
    fn owes_a_turn(&self) -> bool {
        let others = self.runnable.len() > 1 || !self.transfers.is_empty();
        self.anybodys_turn && self.slots_free.len() == 1 && others
    }

    /// True if a stream has come to a kernel that is more urgent than one that runs.
    pub(in crate::device) fn is_urgent(&self, stream: Key<Stream>) -> bool {
        let Some(Head::Kernel(grid)) = self.streams.get(stream).map(|s| &s.head) else {
            return false;
        };
        self.grids.get(*grid).is_some_and(|grid| self.less_urgent_slots(grid).next().is_some())
    }

    /// For a thread that waits for this grid: a free slot's, or the reserve's if the grid is more
    /// urgent than one that runs.
    fn desk_for(&mut self, grid: Key<Grid>) -> Option<Box<Desk>> {
        self.slots_free.pop().or_else(|| {
            let grid = self.grids.get(grid)?;
            let urgent = grid.has_waiting() && self.less_urgent_slots(grid).next().is_some();
            urgent.then(|| self.reserve.take()).flatten()
        })
    }

    fn give_back(&mut self, desk: Box<Desk>) {
        if desk.slot == self.workers() {
            self.reserve = Some(desk);
        } else {
            self.slots_free.push(desk);
        }
    }

    /// The blocks of a grid that are on the desk; `None`, and the slot is free, if there are none.
    fn assign_blocks(
        &mut self,
        grid: Option<Key<Grid>>,
        mut desk: Box<Desk>,
    ) -> Option<Assignment> {
        let Some((key, grid)) = grid.and_then(|key| Some((key, self.grids.get(key)?))) else {
            self.give_back(desk);
            return None;
        };
        let (tenant, kernel) = (grid.tenant.clone(), grid.op.kernel.clone());
        let (launch, followers) = (grid.op.launch.clone(), grid.op.followers.clone());
        let since_ns = now_ns();
        let running = Running { tenant: tenant.id, grid: Some(key), since_ns };
        self.slots[desk.slot].running = Some(running);
        if tenant.unmaps_pending.load(Ordering::Acquire) == 0 {
            desk.control.clear();
        } else {
            desk.control.request_yield();
        }
        if let Some((_, run)) = desk.spare.take_if(|(of, _)| *of != key) {
            self.after.drop_run(run);
        }
        let counters = Counters::default();
        let work = Work::Blocks { grid: key, finished: 0, kernel, launch, followers, counters };
        Some(Assignment { desk, tenant, work, since_ns })
    }

    fn assign_transfer(&mut self, key: Key<Stream>) -> Option<Assignment> {
        let stream = self.streams.get_mut(key)?;
        if !matches!(stream.head, Head::TransferQueued(_)) {
            return None;
        }
        let Head::TransferQueued(mut transfer) =
            std::mem::replace(&mut stream.head, Head::TransferRunning)
        else {
            return None;
        };
        let tenant = stream.tenant.clone();
        let desk = self.slots_free.pop()?;
        let since_ns = now_ns();
        if self.trace.is_on() {
            transfer.begins(since_ns);
        }
        let running = Running { tenant: tenant.id, grid: None, since_ns };
        self.slots[desk.slot].running = Some(running);
        let work = Work::Transfer { stream: key, transfer };
        Some(Assignment { desk, tenant, work, since_ns })
    }

    /// Settles what an assignment came to and frees its slot. Wakes no worker for what can start now:
    /// the caller takes of it itself, and wakes a worker for the rest.
    pub(in crate::device) fn settle(&mut self, assignment: Assignment, settled: Settled) {
        self.wake_deferred = true;
        let Assignment { mut desk, tenant, work, since_ns } = assignment;
        self.slots[desk.slot].running = None;
        match (work, settled) {
            (
                Work::Blocks { grid, finished, counters, .. },
                settled @ (Settled::Blocks(_) | Settled::Fault(..)),
            ) => {
                self.anybodys_turn |= matches!(settled, Settled::Blocks(Outcome::Yielded))
                    && !desk.control.yield_requested();
                let now = now_ns();
                let busy_ns = now.saturating_sub(since_ns);
                self.note_work(grid, busy_ns, &counters, finished as u64);
                if let Settled::Fault(error, text) = settled
                    && self.grids.get(grid).is_some_and(|g| !g.killed)
                {
                    self.poison(&tenant, error, text);
                }
                let left: Vec<_> = desk.blocks.drain(finished..).collect();
                let run =
                    left.first().filter(|_| finished == 0).and_then(|block| block.run.as_ref());
                let waits = run.and_then(|run| run.waits());
                // A block that was asked to give way in the middle of a time slice does not know.
                if waits.is_some() || run.is_none() || !desk.control.yield_requested() {
                    self.note_stall(grid, waits, now);
                }
                self.finish_blocks(grid, &mut desk.blocks, now);
                // The one that gave way goes behind all others. Those that did not get their turn
                // stay in front: it may be waiting for them.
                let mut left = left.into_iter();
                let gave_way = left.next();
                for block in left.rev() {
                    self.return_block(grid, block, Place::Front, now);
                }
                if let Some(block) = gave_way {
                    self.return_block(grid, block, Place::Back, now);
                }
                if self.grids.get(grid).is_none() {
                    let spare = desk.spare.take();
                    spare.into_iter().for_each(|(_, run)| self.after.drop_run(run));
                }
                if self.turn.giving_up {
                    self.give_turn_up();
                }
            }
            (Work::Transfer { stream, transfer }, Settled::Transfer(progress)) => {
                self.settle_transfer(stream, &tenant, transfer, progress);
            }
            // `execute` answers each kind of work with its own kind of outcome.
            _ => {}
        }
        self.give_back(desk);
        self.wake_deferred = false;
    }

    /// Settles what a step of a transfer came to.
    pub(in crate::device) fn settle_transfer(
        &mut self,
        key: Key<Stream>,
        tenant: &Arc<Tenant>,
        transfer: Box<Transfer>,
        progress: Progress,
    ) {
        match progress {
            Progress::More if tenant.alive().is_ok() => {
                if let Some(stream) = self.streams.get_mut(key) {
                    stream.head = Head::TransferQueued(transfer);
                    self.transfers.push_back(key);
                }
                return;
            }
            Progress::Fault { address, bytes, write } => {
                let verb = if write { "written" } else { "read" };
                let text = format!("copy: {bytes} bytes at {address:#x} cannot be {verb}");
                self.poison(tenant, Error::ILLEGAL_ADDRESS, text);
            }
            Progress::Done | Progress::More => {}
        }
        if self.trace.is_on() {
            self.trace.transfer(tenant.id, key, &transfer, now_ns());
        }
        self.complete_head(key);
        self.after.drop_op(Op::Transfer(transfer));
    }
}

impl Device {
    /// Runs an assignment, without the lock.
    pub(in crate::device) fn execute(&self, assignment: &mut Assignment) -> Settled {
        let settled = self.execute_mapped(assignment);
        if let Work::Blocks { followers: Some(followers), .. } = &assignment.work {
            // What it does not make ready is made ready where it starts.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| followers.prepare()));
        }
        match settled {
            // Memory's tables may be asked only when no memory is held.
            Settled::Blocks(Outcome::Fault(fault)) => {
                let (error, mut text) = fault::describe(&fault);
                if let FaultKind::Assert { message } = &fault.kind {
                    self.show_assertion(&assignment.tenant, message);
                }
                if let FaultKind::IllegalAddress { address, bytes, write } = fault.kind {
                    let why = self.memory.explain(&assignment.tenant, address, bytes.into(), write);
                    text = format!("{text}: {why}");
                }
                Settled::Fault(error, text)
            }
            settled => settled,
        }
    }

    /// Shows a failed assertion where CUDA does, on standard error; that of another tenant's program
    /// is elsewhere, so the text is kept for it.
    fn show_assertion(&self, tenant: &Tenant, message: &str) {
        if self.is_default(tenant) {
            // The program may have closed it.
            let _ = writeln!(io::stderr(), "{message}");
        } else {
            tenant.assertions.print(format!("{message}\n").as_bytes());
        }
    }

    /// Runs an assignment while its tenant's memory stays mapped.
    fn execute_mapped(&self, assignment: &mut Assignment) -> Settled {
        let tenant = &assignment.tenant;
        let space = match &assignment.work {
            Work::Transfer { .. } => &tenant.copies,
            Work::Blocks { .. } => &tenant.space,
        };
        let _mapped = space.access();
        // Programs count the SMs of each device from 0.
        let first_sm = self.settings.sm_stride() * tenant.device;
        match &mut assignment.work {
            Work::Transfer { transfer, .. } => {
                let stop = || tenant.wants_worker_back();
                Settled::Transfer(transfer.step(space, stop))
            }
            Work::Blocks { grid, finished, kernel, launch, counters, .. } => {
                let Desk { control, blocks, view, spare: kept, .. } = &mut *assignment.desk;
                let mut spare = kept.take().map(|(_, run)| run);
                let version = tenant.space.version();
                let cached = match view.take() {
                    Some(c) if c.tenant == tenant.id && c.version == version => view.insert(c),
                    _ => view.insert(CachedView {
                        tenant: tenant.id,
                        version,
                        view: MemoryView::new(tenant.space.clone()),
                    }),
                };
                let _floats = DefaultFloats::new();
                let mut outcome = Outcome::Finished;
                while *finished < blocks.len() {
                    if *finished > 0 && control.yield_requested() {
                        break;
                    }
                    let more = following(blocks, *finished);
                    let block = &mut blocks[*finished];
                    let shifted: Vec<u32>;
                    let other_sms = match first_sm {
                        0 => block.places.others(),
                        first => {
                            let others = block.places.others().iter();
                            shifted = others.map(|sm| sm.saturating_sub(first)).collect();
                            &shifted
                        }
                    };
                    let mut worker = Worker {
                        control,
                        memory: &mut cached.view,
                        sm: block.places.first().saturating_sub(first_sm),
                        other_sms,
                        sm_count: self.settings.sms,
                        counters: &mut *counters,
                    };
                    let moved;
                    let begun = (&mut block.run, block.index);
                    (moved, outcome) = resume(begun, more, &mut spare, kernel, launch, &mut worker);
                    if moved > 0 {
                        let run = block.run.take();
                        *finished += moved as usize;
                        blocks[*finished].run = run;
                    }
                    if !matches!(outcome, Outcome::Finished) {
                        break;
                    }
                    spare = blocks[*finished].run.take();
                    *finished += 1;
                }
                *kept = spare.map(|run| (*grid, run));
                Settled::Blocks(outcome)
            }
        }
    }

    /// What each worker thread does until the device is shut down.
    pub(in crate::device) fn work(&self) {
        let me = std::thread::current();
        let mut fruitless = 0u32;
        let mut core = self.lock();
        while !core.shutdown {
            if let Some(mut assignment) = core.assign() {
                core.wake_workers();
                drop(core);
                let settled = self.execute(&mut assignment);
                // Blocks that do nothing but wait leave the core to the threads they wait for.
                let waits = matches!(&settled, Settled::Blocks(Outcome::Yielded))
                    && !assignment.desk.control.yield_requested();
                fruitless = if waits { fruitless.saturating_add(1) } else { 0 };
                if fruitless > FRUITLESS_MAX {
                    std::thread::yield_now();
                }
                core = self.lock();
                core.settle(assignment, settled);
                continue;
            }
            core.sleepers.push(me.clone());
            drop(core);
            std::thread::park();
            core = self.lock();
            core.sleepers.retain(|t| t.id() != me.id());
        }
    }
}

/// How many of the blocks behind the one at `at` are those that follow it in the grid and have not
/// been started.
fn following(blocks: &VecDeque<Block>, at: usize) -> u64 {
    let first = blocks[at].index;
    let behind = blocks.range(at + 1..).zip(first + 1..);
    behind.take_while(|(block, index)| block.index == *index && block.run.is_none()).count() as u64
}

/// Runs a block, of which this is the state and the number, until it comes back, in the memory of
/// a finished one if there is a `spare`, and then up to `more` that follow it: as
/// [`BlockRun::resume_row`]. A panic in it is a fault, since a defect of ours must end one launch
/// and not the program it runs in.
fn resume(
    (state, number): (&mut Option<Box<dyn BlockRun>>, u64),
    more: u64,
    spare: &mut Option<Box<dyn BlockRun>>,
    kernel: &Arc<dyn Kernel>,
    launch: &Arc<Launch>,
    worker: &mut Worker<'_>,
) -> (u64, Outcome) {
    let index = launch.start_index(number);
    let run = AssertUnwindSafe(|| {
        let run = state.get_or_insert_with(|| {
            let restarted = spare.take().and_then(|mut run| run.restart(index).then_some(run));
            restarted.unwrap_or_else(|| kernel.clone().start(launch.clone(), index))
        });
        let (moved, outcome) = run.resume_row(worker, more);
        (moved.min(more), outcome)
    });
    std::panic::catch_unwind(run).unwrap_or_else(|_| {
        let fault = Fault {
            kind: FaultKind::Trap,
            kernel: kernel.info().name.clone(),
            block: index,
            thread: Default::default(),
            line: 0,
        };
        (0, Outcome::Fault(Box::new(fault)))
    })
}
