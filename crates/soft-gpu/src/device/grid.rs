//! Grids: launches whose blocks are being placed and run.

use std::collections::VecDeque;
use std::sync::Arc;

use super::activity::Resident;
use super::clock::now_ns;
use super::core::{Core, Slot};
use super::occupancy::BlockNeed;
use super::places::{Places, SmUse, find_places};
use super::profile::KernelTotals;
use super::slab::Key;
use super::stream::Stream;
use super::tenant::Tenant;
use simt::kernel::{BlockRun, Counters, Kernel, Launch};

/// Short blocks are handed to a worker in batches that take about this long, ns: well below the
/// time that other work should have to wait.
const BATCH_NS: u64 = 50_000;
/// Blocks in a batch.
const BATCH_BLOCKS_MAX: u64 = 256;

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
    /// Numerically lowest first; blocks of an earlier launch first among equals.
    pub priority: i32,
}

/// A block that has its place on an SM, or a cluster of blocks that all have theirs.
pub(super) struct Block {
    pub(super) places: Places,
    /// Number in the grid, x fastest; of a cluster, if the launch has clusters.
    pub(super) index: u64,
    /// Made when a worker takes the block for the first time.
    pub(super) run: Option<Box<dyn BlockRun>>,
}

impl KernelOp {
    /// Blocks that are placed and run together: a cluster's, or one.
    pub(super) fn blocks_together(&self) -> u32 {
        self.launch.cluster_extents().count() as u32
    }
}

/// Where a block that comes back waits among those of its grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Front,
    Back,
}

/// A launch in execution.
pub(super) struct Grid {
    pub(super) op: Box<KernelOp>,
    pub(super) stream: Key<Stream>,
    pub(super) tenant: Arc<Tenant>,
    pub(super) sms: SmMask,
    arrival: u64,
    /// Blocks in the grid, or clusters, each of which is one block here; once killed, those that were ever placed.
    total: u64,
    /// Number of the next block to place.
    next: u64,
    /// Blocks that have left, finished or not.
    left: u64,
    /// Blocks that have a place and no worker now.
    waiting: VecDeque<Block>,
    /// Workers that run a block of it now.
    pub(super) running: u32,
    /// In [`Core::runnable`].
    listed: bool,
    pub(super) killed: bool,
    /// Time that a block took lately, ns; 0 if none has finished, now or when the stream ran the
    /// kernel the time before.
    pace_ns: u64,
    started_ns: u64,
    totals: KernelTotals,
    resident: Resident,
}

/// What a grid that has ended leaves to be dropped without the lock.
pub(super) struct EndedGrid {
    _op: Box<KernelOp>,
    _tenant: Arc<Tenant>,
    _sms: SmMask,
    _waiting: VecDeque<Block>,
}

impl Grid {
    /// True if a worker could take a block of it.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Blocks, or clusters, that have a place.
    fn placed(&self) -> u64 {
        self.next - self.left
    }

    /// True if no block has come back yet and only one worker has any.
    pub(super) fn just_begun(&self) -> bool {
        self.left == 0 && u64::from(self.running) + self.waiting.len() as u64 == self.next
    }
}

/// What tells kernels apart while they exist; another one may come to have it later.
fn identity(op: &KernelOp) -> usize {
    Arc::as_ptr(&op.kernel).addr()
}

impl Core {
    /// Starts the launch at the head of `stream`.
    pub(super) fn start_grid(
        &mut self,
        stream: Key<Stream>,
        tenant: Arc<Tenant>,
        sms: SmMask,
        op: Box<KernelOp>,
    ) -> Key<Grid> {
        self.arrivals += 1;
        let now = now_ns();
        let known = self.streams.get(stream).and_then(|s| s.pace);
        let pace_ns = known.filter(|(of, _)| *of == identity(&op)).map_or(0, |(_, pace)| pace);
        tenant.kernel_started(now);
        let total = op.launch.starts();
        let grid = Grid {
            op,
            stream,
            tenant,
            sms,
            arrival: self.arrivals,
            total,
            next: 0,
            left: 0,
            waiting: VecDeque::new(),
            running: 0,
            listed: false,
            killed: false,
            pace_ns,
            started_ns: now,
            totals: KernelTotals::default(),
            resident: Resident::default(),
        };
        let order = (grid.op.priority, grid.arrival);
        let key = self.grids.insert(grid).expect("fewer grids than streams, which are bounded");
        let at = self.pending.partition_point(|k| {
            self.grids.get(*k).is_some_and(|g| (g.op.priority, g.arrival) < order)
        });
        self.pending.insert(at, key);
        self.place_blocks(now);
        self.preempt_for(key);
        key
    }

    /// Gives places to blocks: the front grid takes all that it can, what is left over goes to
    /// the next one.
    fn place_blocks(&mut self, now: u64) {
        // SMs that an earlier grid still waits for are not for later ones.
        let mut claimed: Option<Vec<bool>> = None;
        let mut at = 0;
        while let Some(&key) = self.pending.get(at) {
            let unplaced = |grid: &&Grid| grid.next < grid.total;
            if let Some(grid) = self.grids.get(key).filter(unplaced) {
                let tenant = Arc::clone(&grid.tenant);
                tenant.with_resident(|theirs| {
                    self.place_blocks_of(key, claimed.as_deref(), theirs, now)
                });
            }
            let Some(grid) = self.grids.get(key).filter(unplaced) else {
                self.pending.remove(at);
                continue;
            };
            match &grid.sms {
                None => break,
                Some(mask) => {
                    let claimed = claimed.get_or_insert_with(|| vec![false; self.sms.len()]);
                    mask.iter().for_each(|sm| claimed[*sm as usize] = true);
                    at += 1;
                }
            }
        }
    }

    /// Gives places to a grid's blocks as long as there are some.
    fn place_blocks_of(
        &mut self,
        key: Key<Grid>,
        claimed: Option<&[bool]>,
        theirs: &mut Resident,
        now: u64,
    ) {
        let clock_ns = self.activity.clock_ns(now);
        while let Some(grid) = self.grids.get(key).filter(|grid| grid.next < grid.total) {
            let Some(places) = self.find_place(grid, claimed) else { break };
            let Some(grid) = self.grids.get_mut(key) else { break };
            let need = grid.op.need;
            for sm in places.iter() {
                let on_sm = &mut self.sms[sm as usize];
                let first = on_sm.is_empty();
                on_sm.take(&need);
                self.activity.block_placed(need.warps, first, now);
                grid.resident.came(sm, need.warps, clock_ns);
                theirs.came(sm, need.warps, clock_ns);
            }
            grid.waiting.push_back(Block { places, index: grid.next, run: None });
            grid.next += 1;
            if !grid.listed {
                grid.listed = true;
                self.runnable.push_back(key);
            }
        }
    }

    /// Room for the next block of a grid. A worker's worth of blocks needs none where less urgent
    /// ones are, which give way: what they have on the SM is saved, as hardware does it.
    fn find_place(&self, grid: &Grid, claimed: Option<&[bool]>) -> Option<Places> {
        let (need, blocks) = (&grid.op.need, grid.op.blocks_together());
        let open = |sm: &u32| !claimed.is_some_and(|claimed| claimed[*sm as usize]);
        let all = 0..self.sms.len() as u32;
        let fits = |on_sm: &SmUse| on_sm.fits(need, self.capability);
        let place = match &grid.sms {
            Some(mask) => {
                find_places(&self.sms, mask.iter().copied().filter(open), need, blocks, fits)
            }
            None => find_places(&self.sms, all.clone().filter(open), need, blocks, fits),
        };
        place.or_else(|| {
            let less_urgent =
                |other: &Grid| other.op.priority > grid.op.priority && other.placed() > 0;
            let gives_way = grid.placed() < self.slots.len() as u64
                && self.grids.iter().any(|(_, other)| less_urgent(other));
            let on_mine =
                |sm: &u32| open(sm) && grid.sms.as_ref().is_none_or(|mask| mask.contains(sm));
            let anywhere = |_: &SmUse| true;
            gives_way
                .then(|| find_places(&self.sms, all.filter(on_mine), need, blocks, anywhere))
                .flatten()
        })
    }

    /// Takes the next blocks of the most urgent grid, grids of one priority in turn: as many as
    /// run in about [`BATCH_NS`].
    pub(super) fn take_blocks(&mut self, batch: &mut VecDeque<Block>) -> Option<Key<Grid>> {
        while let Some(key) = self.next_runnable() {
            let taken = self.take_blocks_of(key, batch);
            let Some(grid) = self.grids.get_mut(key) else { continue };
            grid.listed = !grid.waiting.is_empty();
            if grid.listed {
                self.runnable.push_back(key);
            }
            if taken {
                return Some(key);
            }
        }
        None
    }

    /// Removes the first of the most urgent grids from those that can run. After a block that
    /// waits for something it is anybody's turn: it may be waiting for a less urgent one.
    fn next_runnable(&mut self) -> Option<Key<Grid>> {
        if std::mem::take(&mut self.anybodys_turn) || self.runnable.len() < 2 {
            return self.runnable.pop_front();
        }
        let priority = |key: &Key<Grid>| self.grids.get(*key).map(|grid| grid.op.priority);
        let keys = self.runnable.iter().enumerate();
        let (at, _) = keys.min_by_key(|(_, key)| priority(key))?;
        self.runnable.remove(at)
    }

    /// Asks less urgent blocks to give way to those of this grid that wait, the least urgent first.
    fn preempt_for(&self, key: Key<Grid>) {
        if !self.slots_free.is_empty() {
            return;
        }
        let Some(grid) = self.grids.get(key) else { return };
        let less_urgent = |slot: &Slot| {
            let running = self.grids.get(slot.running.as_ref()?.grid?)?;
            (running.op.priority > grid.op.priority).then_some(running.op.priority)
        };
        let mut slots: Vec<_> =
            self.slots.iter().filter_map(|slot| Some((less_urgent(slot)?, slot))).collect();
        slots.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
        for (_, slot) in slots.into_iter().take(grid.waiting.len()) {
            slot.control.request_yield();
        }
    }

    /// Takes the next blocks of this grid out of its turn; false if none waits.
    pub(super) fn take_blocks_now(&mut self, key: Key<Grid>, batch: &mut VecDeque<Block>) -> bool {
        let taken = self.take_blocks_of(key, batch);
        if let Some(grid) = self.grids.get_mut(key)
            && grid.listed
            && grid.waiting.is_empty()
        {
            grid.listed = false;
            self.runnable.retain(|k| *k != key);
        }
        taken
    }

    fn take_blocks_of(&mut self, key: Key<Grid>, batch: &mut VecDeque<Block>) -> bool {
        let threads = self.slots.len();
        let Some(grid) = self.grids.get_mut(key) else { return false };
        // What is known to be short is taken several at a time, but never another worker's share.
        let most = match grid.pace_ns {
            0 => 1,
            pace => (BATCH_NS / pace).clamp(1, BATCH_BLOCKS_MAX) as usize,
        };
        let share = grid.waiting.len().div_ceil(threads).min(most);
        if batch.is_empty() && share == grid.waiting.len() {
            std::mem::swap(batch, &mut grid.waiting);
        } else {
            batch.extend(grid.waiting.drain(..share));
        }
        grid.running += batch.len() as u32;
        if !self.unannounced.is_empty() {
            let stream = grid.stream;
            self.unannounced.retain(|k| *k != stream);
        }
        !batch.is_empty()
    }

    /// Notes what a worker did in `worker_ns`, in which `finished` blocks, or clusters, came to
    /// their end. Gives how many blocks that were.
    pub(super) fn note_work(
        &mut self,
        key: Key<Grid>,
        worker_ns: u64,
        counters: &Counters,
        finished: u64,
    ) -> u64 {
        let Some(grid) = self.grids.get_mut(key) else { return finished };
        let blocks = finished * u64::from(grid.op.blocks_together());
        grid.totals.add_work(worker_ns, counters, blocks);
        if let Some(block_ns) = worker_ns.checked_div(finished) {
            grid.pace_ns = (grid.pace_ns * 3 + block_ns).div_ceil(4).max(1);
        }
        blocks
    }

    /// A block came back and wants to go on.
    pub(super) fn return_block(&mut self, key: Key<Grid>, block: Block, place: Place, now: u64) {
        let Some(grid) = self.grids.get_mut(key) else { return };
        grid.running -= 1;
        if grid.killed {
            return self.blocks_left(key, &mut VecDeque::from([block]), now);
        }
        match place {
            Place::Front => grid.waiting.push_front(block),
            Place::Back => grid.waiting.push_back(block),
        }
        if !grid.listed {
            grid.listed = true;
            self.runnable.push_back(key);
        }
    }

    /// Blocks came back and are done; takes them all.
    pub(super) fn finish_blocks(&mut self, key: Key<Grid>, blocks: &mut VecDeque<Block>, now: u64) {
        if blocks.is_empty() {
            return;
        }
        let Some(grid) = self.grids.get_mut(key) else { return };
        grid.running -= blocks.len() as u32;
        self.blocks_left(key, blocks, now);
    }

    /// Frees the blocks' places; the grid ends with its last block.
    fn blocks_left(&mut self, key: Key<Grid>, blocks: &mut VecDeque<Block>, now: u64) {
        // With nobody in front, the grid's next blocks get the places of these: what is in use
        // stays what it is.
        let heirs = self.pending.first() == Some(&key);
        let Some(grid) = self.grids.get_mut(key) else { return };
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
            if heirs == blocks.len() && grid.waiting.is_empty() {
                std::mem::swap(&mut grid.waiting, blocks);
            } else {
                grid.waiting.extend(blocks.drain(..heirs));
            }
            if !grid.listed {
                grid.listed = true;
                self.runnable.push_back(key);
            }
        }
        if !blocks.is_empty() {
            let clock_ns = self.activity.clock_ns(now);
            let Grid { tenant, resident, .. } = grid;
            tenant.with_resident(|theirs| {
                for sm in blocks.iter().flat_map(|block| block.places.iter()) {
                    let on_sm = &mut self.sms[sm as usize];
                    on_sm.give(&need);
                    self.activity.block_left(need.warps, on_sm.is_empty(), now);
                    resident.left(sm, need.warps, clock_ns);
                    theirs.left(sm, need.warps, clock_ns);
                }
            });
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
        let Some(mut grid) = self.grids.remove(key) else { return };
        grid.tenant.kernel_ended(now, !grid.killed);
        let span_ns = now.saturating_sub(grid.started_ns);
        let (sm_ns, warp_ns) = grid.resident.totals(self.activity.clock_ns(now));
        let totals = KernelTotals { launches: 1, span_ns, sm_ns, warp_ns, ..grid.totals };
        self.profile.add(&grid.tenant, &grid.op.kernel.info().name, &totals);
        let stream = grid.stream;
        for slot in &mut self.slots {
            let spare = slot.spare.take_if(|(of, _)| *of == key);
            spare.into_iter().for_each(|(_, run)| self.after.drop_run(run));
        }
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.pace = Some((identity(&grid.op), grid.pace_ns));
        }
        let Grid { op, tenant, sms, waiting, .. } = grid;
        self.after.drop_grid(EndedGrid { _op: op, _tenant: tenant, _sms: sms, _waiting: waiting });
        if self.grids.is_empty() {
            self.turn_idle(now);
        }
        self.complete_head(stream);
    }

    /// Ends a grid without finishing it: blocks that run give way and are dropped, others never
    /// run again.
    pub(super) fn kill_grid(&mut self, key: Key<Grid>) {
        let Some(grid) = self.grids.get_mut(key) else { return };
        if grid.killed {
            return;
        }
        grid.killed = true;
        grid.total = grid.next;
        let mut waiting = std::mem::take(&mut grid.waiting);
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
