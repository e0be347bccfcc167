//! Grids: launches whose blocks are being placed and run.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::device::clock::now_ns;
use crate::device::execution::activity::Resident;
use crate::device::execution::core::{Core, Slot};
use crate::device::execution::places::{self, Places, SmUse};
use crate::device::execution::stall::Stall;
use crate::device::limits;
use crate::device::occupancy::BlockNeed;
use crate::device::profile::{KernelTotals, ProfileRow};
use crate::device::slab::Key;
use crate::device::stream::{Op, Stream};
use crate::device::tenant::{Tenant, TenantId};
use simt::kernel::{BlockRun, Counters, Kernel, Launch};

/// Short blocks are handed to a worker in batches that take about this long, ns: well below the
/// time that other work should have to wait.
const BATCH_NS: u64 = 50_000;
/// Blocks in a batch.
const BATCH_BLOCKS_MAX: u64 = 256;
/// Ended grids whose room is kept: about as many as are in execution at once.
const ROOMS_MAX: usize = 32;

/// Grids for which it is looked at a tick whether they get places in slices: each time that takes a look
/// at all grids.
const TRIED_AT_A_TICK: u64 = 8;

/// SMs on which a stream's blocks may be placed, by number; `None` for all.
pub type SmMask = Option<Arc<[u32]>>;

/// A launch as a stream holds it until its turn comes.
pub struct KernelOp {
    /// What to run.
    pub kernel: Arc<dyn Kernel>,
    /// Its extents and parameters.
    pub launch: Arc<Launch>,
    /// What a block takes from its SM; one fits on an empty SM.
    pub need: BlockNeed,
    /// Its own priority, if it has another one than its stream.
    pub priority: Option<i32>,
    /// SMs on which its blocks may be placed, if not its stream's.
    pub sms: Option<SmMask>,
    /// What its threads may ask to be done when it has ended.
    pub followers: Option<Arc<dyn Followers>>,
    /// When it came to its stream, ns; 0 while nothing is traced.
    pub submitted_ns: u64,
}

/// Work that a grid brings about.
pub trait Followers: Send + Sync {
    /// Makes ready what was asked for since the last call. Called by who has run blocks of the grid,
    /// with nothing locked and no memory held: it may compile.
    fn prepare(&self);

    /// What is to be done in the place of the grid, in this order, now that it has ended; none of it
    /// is a record, a write, a wait or a host function, whose places in their stream others know.
    /// Called with the core locked: it must not wait, nor ask the device for anything.
    fn take(&self) -> Vec<Op>;
}

/// A block that has its place on an SM, or a cluster of blocks that all have theirs.
pub(in crate::device) struct Block {
    pub(in crate::device) places: Places,
    /// Number in the grid, x fastest; of a cluster, if the launch has clusters.
    pub(in crate::device) index: u64,
    /// Made when a worker takes the block for the first time.
    pub(in crate::device) run: Option<Box<dyn BlockRun>>,
}

impl KernelOp {
    /// Blocks that are placed and run together: a cluster's, or one.
    pub(in crate::device) fn blocks_together(&self) -> u32 {
        self.launch.cluster_extents().count() as u32
    }
}

/// Where a block that comes back waits among those of its grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::device) enum Place {
    Front,
    Back,
}

/// A launch in execution.
pub(in crate::device) struct Grid {
    pub(in crate::device) op: Box<KernelOp>,
    pub(in crate::device) stream: Key<Stream>,
    pub(in crate::device) tenant: Arc<Tenant>,
    pub(in crate::device) sms: SmMask,
    /// Numerically lowest first; blocks of an earlier launch first among equals.
    priority: i32,
    arrival: u64,
    /// Blocks in the grid, or clusters, each of which is one block here; once killed, those that were ever placed.
    total: u64,
    /// Number of the next block to place.
    next: u64,
    /// Blocks that have left, finished or not.
    left: u64,
    /// Workers that run a block of it now.
    pub(in crate::device) running: u32,
    /// In [`Core::runnable`].
    listed: bool,
    pub(in crate::device) killed: bool,
    /// It has places where other tenants' blocks are already, and its later blocks get them.
    in_slices: bool,
    /// Until then it is not looked again whether its blocks get places in slices, ns.
    next_try_ns: u64,
    /// Time that a block took lately, ns; 0 if none has finished, now or when the stream ran the
    /// kernel the time before.
    pace_ns: u64,
    started_ns: u64,
    pub(in crate::device) stall: Stall,
    room: Box<GridRoom>,
}

/// What a grid that has ended leaves to be dropped without the lock.
pub(in crate::device) struct EndedGrid {
    _op: Box<KernelOp>,
    _tenant: Arc<Tenant>,
    _sms: SmMask,
}

/// What of a grid is large; one that has ended leaves it to a later one.
#[derive(Default)]
pub(in crate::device) struct GridRoom {
    /// Blocks that have a place and no worker now.
    waiting: VecDeque<Block>,
    resident: Resident,
    totals: KernelTotals,
    /// Since when it has had blocks on each SM, ns; kept while something is traced.
    on_sm_since: Vec<u64>,
}

impl GridRoom {
    /// For another grid; no block of the last one is left.
    fn begin_anew(&mut self) {
        debug_assert!(self.waiting.is_empty());
        self.resident.begin_anew();
        self.totals = KernelTotals::default();
        self.on_sm_since.clear();
    }
}

impl Grid {
    /// True if a worker could take a block of it.
    pub(in crate::device) fn has_waiting(&self) -> bool {
        !self.room.waiting.is_empty()
    }

    /// Number of the launch.
    pub(in crate::device) fn arrival(&self) -> u64 {
        self.arrival
    }

    /// When it began, ns.
    pub(in crate::device) fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// Blocks, or clusters, that have a place.
    pub(in crate::device) fn placed(&self) -> u64 {
        self.next - self.left
    }

    /// True if no block has come back yet and only one worker has any.
    pub(in crate::device) fn just_begun(&self) -> bool {
        self.left == 0 && u64::from(self.running) + self.room.waiting.len() as u64 == self.next
    }
}

/// What a stream remembers of the kernel that it ran last: the next launch is likely the same.
#[derive(Clone, Copy)]
pub(in crate::device) struct LastKernel {
    /// Its [`identity`].
    kernel: usize,
    /// Time of a block of it, ns.
    pace_ns: u64,
    /// Where its totals are.
    row: ProfileRow,
}

/// What distinguishes kernels while they exist; another one may come to have it later.
fn identity(op: &KernelOp) -> usize {
    Arc::as_ptr(&op.kernel).addr()
}

impl Core {
    /// Starts the launch at the head of `stream`.
    pub(in crate::device) fn start_grid(
        &mut self,
        stream: Key<Stream>,
        tenant: Arc<Tenant>,
        sms: SmMask,
        op: Box<KernelOp>,
    ) -> Key<Grid> {
        self.arrivals += 1;
        let now = now_ns();
        let (last, of_stream) =
            self.streams.get(stream).map_or((None, 0), |s| (s.last, s.priority));
        let pace_ns = last.filter(|last| last.kernel == identity(&op)).map_or(0, |l| l.pace_ns);
        let mut less_urgent = 0;
        if let Some(account) = self.accounts.get_mut(tenant.account) {
            account.kernel_started(now, self.level_ns);
            less_urgent = account.priority;
        }
        let total = op.launch.starts();
        let mut room = self.rooms.pop().unwrap_or_default();
        room.begin_anew();
        let grid = Grid {
            priority: op.priority.unwrap_or(of_stream).saturating_add(less_urgent),
            op,
            stream,
            tenant,
            sms,
            arrival: self.arrivals,
            total,
            next: 0,
            left: 0,
            running: 0,
            listed: false,
            killed: false,
            in_slices: false,
            next_try_ns: 0,
            pace_ns,
            started_ns: now,
            stall: Stall::default(),
            room,
        };
        let order = (grid.priority, grid.arrival);
        let key = self.grids.insert(grid).expect("fewer grids than streams, which are bounded");
        let at = self.pending.partition_point(|k| {
            self.grids.get(*k).is_some_and(|g| (g.priority, g.arrival) < order)
        });
        self.pending.insert(at, key);
        self.place_blocks(now);
        self.place_in_slices(key, now);
        self.preempt_for(key);
        key
    }

    /// Gives places to blocks: the front grid takes all that it can, what is left over goes to
    /// the next one.
    pub(in crate::device) fn place_blocks(&mut self, now: u64) {
        // SMs that an earlier grid still waits for are not for later ones.
        let mut claimed: Option<Vec<bool>> = None;
        let mut at = 0;
        while let Some(&key) = self.pending.get(at) {
            self.place_blocks_of(key, claimed.as_deref(), now);
            let unplaced = |grid: &&Grid| grid.next < grid.total;
            if self.grids.get(key).filter(unplaced).is_none() {
                self.pending.remove(at);
                continue;
            }
            match self.mask_of(key) {
                None => break,
                Some(mask) => {
                    let claimed = claimed.get_or_insert_with(|| vec![false; self.sms.len()]);
                    mask.iter().for_each(|sm| claimed[*sm as usize] = true);
                    at += 1;
                }
            }
        }
    }

    /// SMs on which a grid's blocks may be placed: those of its stream that are its tenant's, and its
    /// tenant's if those are none.
    fn mask_of(&self, key: Key<Grid>) -> SmMask {
        let grid = self.grids.get(key)?;
        let of_tenant = self.accounts.get(grid.tenant.account).and_then(|a| a.sms.clone());
        match (grid.sms.clone(), of_tenant) {
            (mask, None) | (None, mask) => mask,
            (Some(of_stream), Some(of_tenant)) => {
                let both = of_stream.iter().filter(|sm| of_tenant.contains(sm));
                let both: Arc<[u32]> = both.copied().collect();
                Some(if both.is_empty() { of_tenant } else { both })
            }
        }
    }

    /// True if a cooperative grid waits for room that there will never be: its tenant has been given
    /// fewer SMs since the launch was found to fit.
    fn is_too_large_for_share(&self, grid: &Grid) -> bool {
        let account = self.accounts.get(grid.tenant.account);
        let Some(sms) = account.and_then(|account| account.sms.as_ref()) else { return false };
        let mut sm = SmUse::default();
        let mut of_sm = 0;
        while sm.fits(&grid.op.need, self.capability) {
            sm.take(&grid.op.need);
            of_sm += 1;
        }
        grid.op.launch.workspace != 0 && grid.total > of_sm * sms.len() as u64
    }

    /// Gives places to a grid's blocks as long as there are some. A worker's worth of blocks needs
    /// none where less urgent ones are, which give way: what they have on the SM is saved, as
    /// hardware does it.
    fn place_blocks_of(&mut self, key: Key<Grid>, claimed: Option<&[bool]>, now: u64) {
        let capability = self.capability;
        self.place_where(key, claimed, (u64::MAX, None), now, |on_sm, need| {
            on_sm.fits(need, capability)
        });
        let Some(grid) = self.grids.get(key) else { return };
        if grid.next < grid.total && self.is_too_large_for_share(grid) {
            return self.place_where(key, claimed, (u64::MAX, None), now, |_, _| true);
        }
        let most = self.on_top(grid);
        let less_urgent = |other: &Grid| other.priority > grid.priority && other.placed() > 0;
        if most > 0
            && grid.next < grid.total
            && self.grids.iter().any(|(_, other)| less_urgent(other))
        {
            self.place_where(key, claimed, (most, None), now, |_, _| true);
        }
    }

    /// How many more blocks of a grid get places where others are: a worker's worth, as more would
    /// not run. Blocks of a cooperative grid wait for each other, so they all do.
    fn on_top(&self, grid: &Grid) -> u64 {
        match grid.op.launch.workspace {
            0 => (self.workers() as u64).saturating_sub(grid.placed()),
            _ => grid.total - grid.next,
        }
    }

    /// Gives places to blocks that other tenants have kept out for longer than a slice, as if the
    /// device were their tenant's alone: from then on the tenants take turns, as processes do that have
    /// no server in common.
    fn place_in_slices(&mut self, key: Key<Grid>, now: u64) {
        let later_ns = self.pending.len() as u64 / TRIED_AT_A_TICK * limits::QUANTUM_NS;
        let Some(grid) = self.grids.get_mut(key).filter(|grid| grid.next < grid.total) else {
            return;
        };
        grid.next_try_ns = now + later_ns;
        let Some(grid) = self.grids.get(key) else { return };
        let begun = now.saturating_sub(limits::TURN_NS);
        let keeps_out = |other: &Grid| {
            let as_urgent = other.priority >= grid.priority && other.started_ns <= begun;
            as_urgent && other.tenant.id != grid.tenant.id && other.placed() > 0
        };
        if !self.grids.iter().any(|(_, other)| keeps_out(other)) {
            return;
        }
        let Some(claimed) = self.claimed_by_earlier(key, grid.tenant.id) else { return };
        let (placed, capability) = (grid.next, self.capability);
        let everywhere = self.is_too_large_for_share(grid);
        let alone = self.use_of(grid.tenant.id);
        let fits = |on_sm: &SmUse, need: &BlockNeed| everywhere || on_sm.fits(need, capability);
        self.place_where(key, Some(&claimed), (u64::MAX, Some(alone)), now, fits);
        let Some(grid) = self.grids.get_mut(key) else { return };
        grid.in_slices |= grid.next > placed;
        if grid.next == grid.total {
            self.pending.retain(|pending| *pending != key);
        }
    }

    /// SMs that earlier grids of the tenant wait for, which are not for this one; `None` if one of them
    /// waits for any.
    fn claimed_by_earlier(&self, key: Key<Grid>, tenant: TenantId) -> Option<Vec<bool>> {
        let mut claimed = vec![false; self.sms.len()];
        for earlier in self.pending.iter().take_while(|pending| **pending != key) {
            if self.grids.get(*earlier).is_some_and(|grid| grid.tenant.id == tenant) {
                let mask = self.mask_of(*earlier)?;
                mask.iter().for_each(|sm| claimed[*sm as usize] = true);
            }
        }
        Some(claimed)
    }

    /// What a tenant's blocks use of each SM.
    fn use_of(&self, tenant: TenantId) -> Vec<SmUse> {
        let mut sms = vec![SmUse::default(); self.sms.len()];
        for (_, grid) in self.grids.iter().filter(|(_, grid)| grid.tenant.id == tenant) {
            for (number, sm) in (0..).zip(&mut sms) {
                (0..grid.room.resident.blocks_on(number)).for_each(|_| sm.take(&grid.op.need));
            }
        }
        sms
    }

    /// As [`Core::place_in_slices`], for those that have waited until now: for a few of them, first those
    /// that were not tried for longest.
    pub(in crate::device) fn place_pending_in_slices(&mut self, now: u64) {
        let next_try = |key: Key<Grid>| Some((self.grids.get(key)?.next_try_ns, key));
        let waiting = self.pending.iter().filter_map(|key| next_try(*key));
        let mut due: Vec<_> = waiting.filter(|(next_try_ns, _)| *next_try_ns <= now).collect();
        due.sort_by_key(|(next_try_ns, _)| *next_try_ns);
        for (_, key) in due.into_iter().take(TRIED_AT_A_TICK as usize) {
            self.place_in_slices(key, now);
        }
    }

    /// Gives places to at most so many of a grid's blocks, on SMs that fit: by what is in use of
    /// them, or by what is said to be.
    fn place_where(
        &mut self,
        key: Key<Grid>,
        claimed: Option<&[bool]>,
        (most, mut said): (u64, Option<Vec<SmUse>>),
        now: u64,
        fits: impl Fn(&SmUse, &BlockNeed) -> bool,
    ) {
        let clock_ns = self.activity.clock_ns(now);
        let mask = self.mask_of(key);
        let Some(grid) = self.grids.get_mut(key) else { return };
        let Some(account) = self.accounts.get_mut(grid.tenant.account) else { return };
        let mut counted =
            [&mut self.activity.resident, &mut account.resident, &mut grid.room.resident];
        counted.iter_mut().for_each(|resident| resident.advance(clock_ns));
        let need = grid.op.need;
        let blocks = (grid.op.blocks_together(), most.min(grid.total - grid.next));
        let open = |sm: &u32| !claimed.is_some_and(|claimed| claimed[*sm as usize]);
        let fits = |on_sm: &SmUse| fits(on_sm, &need);
        let traced = self.trace.is_on();
        let on_sm_since = &mut grid.room.on_sm_since;
        let (sms, mut all) = match &mut said {
            Some(said) => (said, Some(&mut self.sms)),
            None => (&mut self.sms, None),
        };
        let placed = |places: Places| {
            for sm in places.iter() {
                if let Some(all) = &mut all {
                    all[sm as usize].take(&need);
                }
                counted.iter_mut().for_each(|resident| resident.came(sm, need.warps));
                if traced && counted[2].blocks_on(sm) == 1 {
                    let places = on_sm_since.len().max(sm as usize + 1);
                    on_sm_since.resize(places, 0);
                    on_sm_since[sm as usize] = now;
                }
            }
            grid.room.waiting.push_back(Block { places, index: grid.next, run: None });
            grid.next += 1;
        };
        match &mask {
            Some(mask) => {
                let open = mask.iter().copied().filter(open);
                places::fill(sms, open, &need, blocks, fits, placed);
            }
            None => {
                let open = (0..sms.len() as u32).filter(open);
                places::fill(sms, open, &need, blocks, fits, placed);
            }
        }
        if !grid.listed && !grid.room.waiting.is_empty() {
            grid.listed = true;
            self.runnable.push_back(key);
        }
    }

    /// Takes the next blocks of the most urgent grid, grids of one priority in turn: as many as
    /// run in about [`BATCH_NS`].
    pub(in crate::device) fn take_blocks(
        &mut self,
        batch: &mut VecDeque<Block>,
    ) -> Option<Key<Grid>> {
        while let Some(key) = self.next_runnable() {
            let taken = self.take_blocks_of(key, batch);
            let Some(grid) = self.grids.get_mut(key) else { continue };
            grid.listed = !grid.room.waiting.is_empty();
            if grid.listed {
                self.runnable.push_back(key);
            }
            if taken {
                return Some(key);
            }
        }
        None
    }

    /// Removes the first of the most urgent grids from those that can run, of those the ones of the
    /// tenant that has had the least. After a block that waits for something the first grid
    /// follows, however urgent: the block may be waiting for a less urgent one.
    fn next_runnable(&mut self) -> Option<Key<Grid>> {
        let at = if std::mem::take(&mut self.anybodys_turn) || self.runnable.len() < 2 {
            0
        } else {
            let keys = self.runnable.iter().enumerate();
            keys.min_by_key(|(_, key)| self.rank(**key))?.0
        };
        let key = self.runnable.remove(at)?;
        if let Some((_, share_ns)) = self.rank(key) {
            self.level_ns = self.level_ns.max(share_ns);
        }
        Some(key)
    }

    /// What decides whose blocks run next, the smallest first: priority, and what the tenant has had.
    fn rank(&self, key: Key<Grid>) -> Option<(i32, u64)> {
        let grid = self.grids.get(key)?;
        let account = self.accounts.get(grid.tenant.account)?;
        Some((grid.priority, account.share_ns))
    }

    /// True if a grid's blocks may run out of their turn: no other tenant's that are as urgent wait
    /// and have had less, by more than a quantum.
    pub(in crate::device) fn may_go_ahead(&self, key: Key<Grid>) -> bool {
        let Some((priority, share_ns)) = self.rank(key).filter(|_| self.runnable.len() > 1) else {
            return true;
        };
        let is_owed = |other: &Key<Grid>| {
            let rank = self.rank(*other);
            rank.is_some_and(|(of, had)| of == priority && had + limits::QUANTUM_NS < share_ns)
        };
        !self.runnable.iter().any(is_owed)
    }

    /// Asks less urgent blocks to give way to those of this grid that wait, the least urgent first.
    fn preempt_for(&self, key: Key<Grid>) {
        if self.slots[..self.workers()].iter().any(|slot| slot.running.is_none()) {
            return;
        }
        let Some(grid) = self.grids.get(key) else { return };
        let mut slots: Vec<_> = self.less_urgent_slots(grid).collect();
        slots.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
        for (_, slot) in slots.into_iter().take(grid.room.waiting.len()) {
            slot.control.request_yield();
        }
    }

    /// Slots in which blocks run that are less urgent than this grid's, and how urgent those are.
    pub(in crate::device) fn less_urgent_slots(
        &self,
        grid: &Grid,
    ) -> impl Iterator<Item = (i32, &Slot)> {
        let mine = grid.priority;
        let priority_in =
            |slot: &Slot| Some(self.grids.get(slot.running.as_ref()?.grid?)?.priority);
        let slots = self.slots.iter().filter_map(move |slot| Some((priority_in(slot)?, slot)));
        slots.filter(move |(priority, _)| *priority > mine)
    }

    /// Takes the next blocks of this grid out of its turn; false if none waits.
    pub(in crate::device) fn take_blocks_now(
        &mut self,
        key: Key<Grid>,
        batch: &mut VecDeque<Block>,
    ) -> bool {
        let taken = self.take_blocks_of(key, batch);
        if let Some(grid) = self.grids.get_mut(key)
            && grid.listed
            && grid.room.waiting.is_empty()
        {
            grid.listed = false;
            self.runnable.retain(|k| *k != key);
        }
        taken
    }

    fn take_blocks_of(&mut self, key: Key<Grid>, batch: &mut VecDeque<Block>) -> bool {
        let threads = self.workers();
        let Some(grid) = self.grids.get_mut(key) else { return false };
        // What is known to be short is taken several at a time, but never another worker's share.
        let most = match grid.pace_ns {
            0 => 1,
            pace => (BATCH_NS / pace).clamp(1, BATCH_BLOCKS_MAX) as usize,
        };
        let share = grid.room.waiting.len().div_ceil(threads).min(most);
        if batch.is_empty() && share == grid.room.waiting.len() {
            std::mem::swap(batch, &mut grid.room.waiting);
        } else {
            batch.extend(grid.room.waiting.drain(..share));
        }
        grid.running += batch.len() as u32;
        if !self.unannounced.is_empty() {
            let stream = grid.stream;
            self.unannounced.retain(|k| *k != stream);
        }
        !batch.is_empty()
    }

    /// Notes what a worker did in `worker_ns`, in which `finished` blocks, or clusters, came to
    /// their end.
    pub(in crate::device) fn note_work(
        &mut self,
        key: Key<Grid>,
        worker_ns: u64,
        counters: &Counters,
        finished: u64,
    ) {
        let Some(grid) = self.grids.get_mut(key) else { return };
        let blocks = finished * u64::from(grid.op.blocks_together());
        grid.room.totals.add_work(worker_ns, counters, blocks);
        if let Some(account) = self.accounts.get_mut(grid.tenant.account) {
            account.worked(worker_ns, counters, blocks);
        }
        if let Some(block_ns) = worker_ns.checked_div(finished) {
            grid.pace_ns = (grid.pace_ns * 3 + block_ns).div_ceil(4).max(1);
        }
    }

    /// A block came back and wants to go on.
    pub(in crate::device) fn return_block(
        &mut self,
        key: Key<Grid>,
        block: Block,
        place: Place,
        now: u64,
    ) {
        let Some(grid) = self.grids.get_mut(key) else { return };
        grid.running -= 1;
        if grid.killed {
            return self.blocks_left(key, &mut VecDeque::from([block]), now);
        }
        match place {
            Place::Front => grid.room.waiting.push_front(block),
            Place::Back => grid.room.waiting.push_back(block),
        }
        if !grid.listed {
            grid.listed = true;
            self.runnable.push_back(key);
        }
    }

    /// Blocks came back and are done; takes them all.
    pub(in crate::device) fn finish_blocks(
        &mut self,
        key: Key<Grid>,
        blocks: &mut VecDeque<Block>,
        now: u64,
    ) {
        if blocks.is_empty() {
            return;
        }
        let Some(grid) = self.grids.get_mut(key) else { return };
        grid.running -= blocks.len() as u32;
        self.blocks_left(key, blocks, now);
    }

    /// Frees the blocks' places; the grid ends with its last block.
    fn blocks_left(&mut self, key: Key<Grid>, blocks: &mut VecDeque<Block>, now: u64) {
        // With no grid in front, the grid's next blocks get the places of these: what is in use
        // stays what it is.
        let heirs = self.pending.first() == Some(&key);
        let Some(grid) = self.grids.get_mut(key) else { return };
        // Unless these are on SMs that are not the tenant's any more.
        let of_tenant = self.accounts.get(grid.tenant.account).and_then(|a| a.sms.as_ref());
        let stay = of_tenant.is_none_or(|sms| {
            blocks.iter().all(|block| block.places.iter().all(|sm| sms.contains(&sm)))
        });
        let heirs = stay && (heirs || grid.in_slices);
        let need = grid.op.need;
        grid.left += blocks.len() as u64;
        let ended = grid.left == grid.total;
        let left = if heirs { grid.total - grid.next } else { 0 };
        let heirs = blocks.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        for block in blocks.iter_mut() {
            block.run.take().into_iter().for_each(|run| self.after.drop_run(run));
        }
        if heirs > 0 {
            for block in blocks.iter_mut().take(heirs) {
                block.index = grid.next;
                grid.next += 1;
            }
            if heirs == blocks.len() && grid.room.waiting.is_empty() {
                std::mem::swap(&mut grid.room.waiting, blocks);
            } else {
                grid.room.waiting.extend(blocks.drain(..heirs));
            }
            if !grid.listed {
                grid.listed = true;
                self.runnable.push_back(key);
            }
        }
        if !blocks.is_empty()
            && let Some(account) = self.accounts.get_mut(grid.tenant.account)
        {
            let clock_ns = self.activity.clock_ns(now);
            let mut counted =
                [&mut self.activity.resident, &mut account.resident, &mut grid.room.resident];
            counted.iter_mut().for_each(|resident| resident.advance(clock_ns));
            for sm in blocks.iter().flat_map(|block| block.places.iter()) {
                self.sms[sm as usize].give(&need);
                counted.iter_mut().for_each(|resident| resident.left(sm, need.warps));
                if self.trace.is_on()
                    && counted[2].blocks_on(sm) == 0
                    && let Some(since) = grid.room.on_sm_since.get(sm as usize)
                {
                    self.trace.on_sm(grid.tenant.id, grid.arrival, sm, *since, now);
                }
            }
            blocks.clear();
        }
        if !self.pending.is_empty() {
            self.place_blocks(now);
        }
        if ended {
            self.end_grid(key, now);
        }
    }

    fn end_grid(&mut self, key: Key<Grid>, now: u64) {
        let Some(grid) = self.grids.remove(key) else { return };
        let span_ns = now.saturating_sub(grid.started_ns);
        if let Some(account) = self.accounts.get_mut(grid.tenant.account) {
            account.kernel_ended(now, !grid.killed);
            account.spanned(span_ns);
        }
        if self.trace.is_on() {
            self.trace.kernel(&grid, now);
        }
        let Resident { sm_ns, warp_ns, .. } = grid.room.resident;
        let totals = KernelTotals { launches: 1, span_ns, sm_ns, warp_ns, ..grid.room.totals };
        let stream = grid.stream;
        let last = self.streams.get(stream).and_then(|s| s.last);
        let name = &grid.op.kernel.info().name;
        let row = self.profile.add(&grid.tenant, name, &totals, last.map(|last| last.row));
        for desk in self.slots_free.iter_mut().chain(&mut self.reserve) {
            let spare = desk.spare.take_if(|(of, _)| *of == key);
            spare.into_iter().for_each(|(_, run)| self.after.drop_run(run));
        }
        let followers = grid.op.followers.as_ref().map(|followers| followers.take());
        if let Some(stream) = self.streams.get_mut(stream) {
            let kernel = identity(&grid.op);
            stream.last = Some(LastKernel { kernel, pace_ns: grid.pace_ns, row });
        }
        for op in followers.into_iter().flatten().rev() {
            match self.streams.get_mut(stream).filter(|_| !grid.killed) {
                Some(stream) => stream.chosen.push_front(op),
                None => self.after.drop_op(op),
            }
        }
        let Grid { op, tenant, sms, room, .. } = grid;
        self.after.drop_grid(EndedGrid { _op: op, _tenant: tenant, _sms: sms });
        if self.rooms.len() < ROOMS_MAX {
            self.rooms.push(room);
        }
        if self.grids.is_empty() {
            self.turn_idle(now);
        }
        self.complete_head(stream);
    }

    /// Ends a grid without finishing it: blocks that run give way and are dropped, others never
    /// run again.
    pub(in crate::device) fn kill_grid(&mut self, key: Key<Grid>) {
        let Some(grid) = self.grids.get_mut(key) else { return };
        if grid.killed {
            return;
        }
        grid.killed = true;
        grid.total = grid.next;
        let mut waiting = std::mem::take(&mut grid.room.waiting);
        let running = grid.running;
        self.pending.retain(|k| *k != key);
        for slot in &self.slots {
            if slot.running.as_ref().is_some_and(|r| r.grid == Some(key)) {
                slot.control.request_yield();
            }
        }
        let now = now_ns();
        if waiting.is_empty() && running == 0 {
            return self.end_grid(key, now);
        }
        self.blocks_left(key, &mut waiting, now);
    }
}
