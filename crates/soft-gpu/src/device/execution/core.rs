//! Core: the state that scheduling decisions are made on, under one lock.
//!
//! Invariants: nothing is run, freed, woken or waited for while the lock is held; what must
//! happen is noted in [`After`] and happens when the lock is let go. Lock order: memory tables,
//! then core. A space's access lock is waited for with the memory tables locked, until the blocks
//! that hold it give way; who holds it takes neither the tables nor core.

use locks::{Mutex, MutexGuard};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use crate::device::capability::Capability;
use crate::device::clock::now_ns;
use crate::device::execution::account::Account;
use crate::device::execution::activity::Activity;
use crate::device::execution::grid::{Block, EndedGrid, Grid, GridRoom};
use crate::device::execution::places::SmUse;
use crate::device::execution::turn::TurnState;
use crate::device::profile::Profile;
use crate::device::slab::{Key, Slab};
use crate::device::stream::host::{HostCall, HostWork, UnderWay};
use crate::device::stream::{Group, Op, Stream};
use crate::device::tenant::{Tenant, TenantId};
use crate::device::trace::Trace;
use crate::error::Error;
use simt::kernel::{BlockRun, Control, MemoryView};

/// Everything that scheduling looks at.
pub(in crate::device) struct Core {
    pub(in crate::device) streams: Slab<Stream>,
    pub(in crate::device) groups: Slab<Group>,
    /// Groups by context number and tenant.
    pub(in crate::device) group_of: HashMap<(u64, TenantId), Key<Group>>,
    pub(in crate::device) tenants: HashMap<TenantId, Arc<Tenant>>,
    /// What was done for each tenant.
    pub(in crate::device) accounts: Slab<Account>,
    pub(in crate::device) grids: Slab<Grid>,
    /// What ended grids leave to later ones.
    #[allow(clippy::vec_box, reason = "they move from grid to grid")]
    pub(in crate::device) rooms: Vec<Box<GridRoom>>,
    /// Grids with blocks that have no place yet, in the order they get places.
    pub(in crate::device) pending: Vec<Key<Grid>>,
    /// Grids with placed blocks that no worker runs, in turn.
    pub(in crate::device) runnable: VecDeque<Key<Grid>>,
    /// What the tenant had had whose blocks were taken last, ns: [`Account::share_ns`].
    pub(in crate::device) level_ns: u64,
    /// A block came back by itself: the next grid in `runnable` gets its turn.
    pub(in crate::device) anybodys_turn: bool,
    /// Streams whose head is a transfer that waits for a worker.
    pub(in crate::device) transfers: VecDeque<Key<Stream>>,
    /// Whose turn it is when a worker looks for work.
    pub(in crate::device) transfers_next: bool,
    /// Streams that wait for a word.
    pub(in crate::device) value_waits: Vec<Key<Stream>>,
    /// A word was written that one of them may wait for.
    pub(in crate::device) values_changed: bool,
    /// Streams whose head may be able to start.
    pub(in crate::device) ready: Vec<Key<Stream>>,
    pub(in crate::device) capability: &'static Capability,
    pub(in crate::device) sms: Vec<SmUse>,
    pub(in crate::device) slots: Vec<Slot>,
    #[allow(clippy::vec_box, reason = "they move to who takes a slot and back")]
    pub(in crate::device) slots_free: Vec<Box<Desk>>,
    /// That of the last slot, which no worker has: a thread that waits for urgent work, and so has a
    /// processor, does it there at once where less urgent blocks have all others.
    pub(in crate::device) reserve: Option<Box<Desk>>,
    /// Workers that found nothing to do.
    pub(in crate::device) sleepers: Vec<Thread>,
    /// Waking a worker costs a system call and an interrupt of another core. While this is set
    /// no worker is woken: the thread that holds the lock is expected to do the work, or to wake
    /// one later.
    pub(in crate::device) wake_deferred: bool,
    /// Streams whose work no worker was woken for; the next tick wakes one.
    pub(in crate::device) unannounced: Vec<Key<Stream>>,
    /// The ticker, while it sleeps without a time.
    pub(in crate::device) ticker: Option<Thread>,
    pub(in crate::device) activity: Activity,
    pub(in crate::device) profile: Profile,
    pub(in crate::device) trace: Trace,
    pub(in crate::device) turn: TurnState,
    pub(in crate::device) after: Box<After>,
    /// Launches so far: their order, and `%gridid`.
    pub(in crate::device) arrivals: u64,
    /// How long a grid only waits before a line says so, ns; 0: never.
    pub(in crate::device) stall_ns: u64,
    pub(in crate::device) shutdown: bool,
}

/// Place of a thread that runs blocks; there are as many as workers, and one in reserve.
pub(in crate::device) struct Slot {
    pub(in crate::device) control: Arc<Control>,
    pub(in crate::device) running: Option<Running>,
}

/// What a thread works with as long as it has a slot.
pub(in crate::device) struct Desk {
    /// Number of the slot, and its control.
    pub(in crate::device) slot: usize,
    pub(in crate::device) control: Arc<Control>,
    /// What it runs, in that order; none while the slot is free.
    pub(in crate::device) blocks: VecDeque<Block>,
    pub(in crate::device) view: Option<CachedView>,
    /// A finished block of a grid that has not ended, for its next one.
    pub(in crate::device) spare: Option<(Key<Grid>, Box<dyn BlockRun>)>,
}

impl Desk {
    pub(in crate::device) fn new((slot, of): (usize, &Slot)) -> Box<Self> {
        let control = of.control.clone();
        Box::new(Self { slot, control, blocks: VecDeque::new(), view: None, spare: None })
    }
}

/// What a slot runs now.
pub(in crate::device) struct Running {
    pub(in crate::device) tenant: TenantId,
    /// `None` for a transfer.
    pub(in crate::device) grid: Option<Key<Grid>>,
    pub(in crate::device) since_ns: u64,
}

/// A view of a tenant's memory as it was at a version of its ranges.
pub(in crate::device) struct CachedView {
    pub(in crate::device) tenant: TenantId,
    pub(in crate::device) version: u64,
    pub(in crate::device) view: MemoryView,
}

/// A thread that sleeps until something is reached.
pub(in crate::device) struct Parker {
    reached: AtomicBool,
    thread: Thread,
}

impl Parker {
    pub(in crate::device) fn new() -> Arc<Self> {
        Arc::new(Self { reached: AtomicBool::new(false), thread: std::thread::current() })
    }

    /// Sleeps until it is woken by the core, and looks for so long, ns, before that; called by the
    /// thread that made it.
    pub(in crate::device) fn wait(&self, awake_ns: u64) {
        let until = now_ns() + awake_ns;
        while awake_ns > 0 && !self.reached.load(Ordering::Acquire) && now_ns() < until {
            std::hint::spin_loop();
        }
        while !self.reached.load(Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// Something of the driver's own to do.
pub(in crate::device) type Action = Box<dyn FnOnce() + Send>;

/// What to do once the lock is let go.
#[derive(Default)]
pub(in crate::device) struct After {
    threads: Vec<Thread>,
    words: Vec<u64>,
    grids: Vec<EndedGrid>,
    runs: Vec<Box<dyn BlockRun>>,
    ops: Vec<Op>,
    actions: Vec<(Option<Key<Stream>>, Action)>,
    calls: Vec<HostWork>,
    lines: Vec<String>,
    /// Lines that users get without asking.
    said: Vec<String>,
}

impl After {
    pub(in crate::device) fn unpark(&mut self, parker: &Parker) {
        parker.reached.store(true, Ordering::Release);
        self.threads.push(parker.thread.clone());
    }
    pub(in crate::device) fn unpark_thread(&mut self, thread: Thread) {
        self.threads.push(thread);
    }
    pub(in crate::device) fn wake_word(&mut self, address: u64) {
        self.words.push(address);
    }
    pub(in crate::device) fn drop_grid(&mut self, grid: EndedGrid) {
        self.grids.push(grid);
    }
    pub(in crate::device) fn drop_run(&mut self, run: Box<dyn BlockRun>) {
        self.runs.push(run);
    }
    pub(in crate::device) fn drop_op(&mut self, op: Op) {
        self.ops.push(op);
    }
    /// Runs an action, then completes the head of `stream`, whose operation it is.
    pub(in crate::device) fn run(&mut self, stream: Option<Key<Stream>>, action: Action) {
        self.actions.push((stream, action));
    }
    pub(in crate::device) fn call_host(
        &mut self,
        tenant: Arc<Tenant>,
        stream: Option<Key<Stream>>,
        call: HostCall,
    ) {
        self.calls.push(HostWork { under_way: UnderWay::new(tenant), stream, call });
    }

    pub(in crate::device) fn log(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(in crate::device) fn say(&mut self, line: String) {
        self.said.push(line);
    }

    fn is_empty(&self) -> bool {
        self.threads.is_empty()
            && self.words.is_empty()
            && self.grids.is_empty()
            && self.runs.is_empty()
            && self.ops.is_empty()
            && self.actions.is_empty()
            && self.calls.is_empty()
            && self.lines.is_empty()
            && self.said.is_empty()
    }

    /// Does all of it, and what completed actions have led to, until nothing is left: a long row of
    /// actions does not nest.
    fn perform(mut self: Box<Self>, device: &crate::device::Device) {
        while !self.is_empty() {
            for thread in self.threads.drain(..) {
                thread.unpark();
            }
            for word in self.words.drain(..) {
                channel::wait::wake_at(word);
            }
            for line in self.lines.drain(..) {
                device.log(&line);
            }
            for line in self.said.drain(..) {
                (device.settings.say)(&line);
            }
            for work in self.calls.drain(..) {
                device.hand_to_host(work);
            }
            let mut completed = Vec::new();
            for (stream, action) in self.actions.drain(..) {
                action();
                completed.extend(stream);
            }
            // What is dropped may free memory and take other locks.
            self.runs.clear();
            self.grids.clear();
            self.ops.clear();
            if !completed.is_empty() {
                let mut core = device.lock();
                for stream in completed {
                    core.complete_head(stream);
                }
                std::mem::swap(&mut core.after, &mut self);
            }
        }
        // A thread that ends has no use for it any more.
        let _ = EMPTY.try_with(|empty| empty.set(Some(self)));
    }

    /// One with nothing in it: the last that this thread has done, whose room is there.
    fn empty() -> Box<Self> {
        EMPTY.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }
}

thread_local! {
    /// See [`After::empty`].
    static EMPTY: Cell<Option<Box<After>>> = const { Cell::new(None) };
}

/// The lock on [`Core`]; when it is let go, what [`Core::after`] holds is done.
pub(in crate::device) struct CoreGuard<'a> {
    device: &'a crate::device::Device,
    guard: Option<MutexGuard<'a, Core>>,
}

impl<'a> CoreGuard<'a> {
    pub(in crate::device) fn new(device: &'a crate::device::Device, core: &'a Mutex<Core>) -> Self {
        Self { device, guard: Some(core.lock()) }
    }
}

impl Deref for CoreGuard<'_> {
    type Target = Core;
    fn deref(&self) -> &Core {
        self.guard.as_ref().expect("held until dropped")
    }
}

impl DerefMut for CoreGuard<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        self.guard.as_mut().expect("held until dropped")
    }
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        let Some(mut guard) = self.guard.take() else { return };
        if guard.after.is_empty() {
            return;
        }
        let after = std::mem::replace(&mut guard.after, After::empty());
        drop(guard);
        after.perform(self.device);
    }
}

impl Core {
    /// True if blocks may run: the device is this process's turn.
    pub(in crate::device) fn may_run_blocks(&self) -> bool {
        self.turn.held && !self.turn.giving_up
    }

    /// True if there is something that a worker could take.
    pub(in crate::device) fn has_work(&self) -> bool {
        !self.transfers.is_empty() || (!self.runnable.is_empty() && self.may_run_blocks())
    }

    /// Wakes one worker if there is work for it; it wakes the next one.
    pub(in crate::device) fn wake_workers(&mut self) {
        if self.wake_deferred {
            return;
        }
        if !self.slots_free.is_empty()
            && self.has_work()
            && let Some(thread) = self.sleepers.pop()
        {
            self.after.unpark_thread(thread);
        }
    }

    /// Makes the ticker look at things now if it sleeps.
    pub(in crate::device) fn wake_ticker(&mut self) {
        if let Some(thread) = self.ticker.take() {
            self.after.unpark_thread(thread);
        }
    }

    /// Threads that run blocks, but for the one in reserve.
    pub(in crate::device) fn workers(&self) -> usize {
        self.slots.len() - 1
    }

    /// Blocks that workers run now.
    pub(in crate::device) fn running_blocks(&self) -> usize {
        self.slots.iter().filter(|s| s.running.as_ref().is_some_and(|r| r.grid.is_some())).count()
    }

    /// Makes an error sticky for a tenant and ends all that it has in its streams.
    pub(in crate::device) fn poison(&mut self, tenant: &Arc<Tenant>, error: Error, text: String) {
        self.after.log(format!("tenant {}: {text}", tenant.id.0));
        // All contexts of a process share its errors, whichever device they are on.
        let family = self.tenants.values().filter(|other| other.family == tenant.family);
        let mut family: Vec<TenantId> = family
            .map(|other| {
                other.poison(error, Some(text.clone()));
                other.id
            })
            .collect();
        if !family.contains(&tenant.id) {
            tenant.poison(error, Some(text));
            family.push(tenant.id);
        }
        for id in family {
            self.cancel_tenant(id);
        }
    }

    /// Ends all that a tenant has in its streams.
    pub(in crate::device) fn cancel_tenant(&mut self, tenant: TenantId) {
        let streams: Vec<Key<Stream>> =
            self.streams.iter().filter(|(_, s)| s.tenant.id == tenant).map(|(k, _)| k).collect();
        for key in streams {
            self.cancel_stream(key);
        }
        self.start_ready();
    }
}
