//! Thread block: its warps in time slices on a worker, its shared memory, its barriers.
//!
//! A block that has ended is the next one of the grid where that is wanted: same launch, same
//! memory. What native code does with a whole block at a time is in `block_entry`.

mod block_entry;

use crate::check::{AccessLog, Follow};
use crate::handler_context::HandlerContext;
use crate::ops::special::thread_of;
use crate::register_file::Registers;
use crate::run::cluster::Peer;
use crate::run::program::Program;
use crate::run::warp::{CLUSTER_BARRIER, Reduction, Stop, Waiting, Warp};
use simt::ir::op::BarrierOp;
use simt::kernel::{BlockRun, Dim3, Fault, FaultKind, Launch, Outcome, WARP_LANES, Wait, Worker};
use std::collections::VecDeque;
use std::sync::Arc;

/// Barriers of a block, by their numbers.
pub(crate) const BARRIERS: usize = 16;

/// What all warps of a block share and never changes.
pub(crate) struct BlockEnvironment {
    pub(crate) launch: Arc<Launch>,
    pub(crate) program: Arc<Program>,
    /// Local memory, bytes a thread.
    pub(crate) local_bytes: u64,
    /// How much of it is at its end for `alloca`.
    pub(crate) stack_bytes: u64,
    /// Shared memory of the cluster's blocks by rank, this one's included; empty without a cluster.
    pub(crate) peers: Arc<[Peer]>,
}

impl BlockEnvironment {
    /// The number of a block in its cluster, x fastest.
    pub(crate) fn rank(&self, block: Dim3) -> u32 {
        let of = self.launch.cluster_extents();
        block.x % of.x + of.x * (block.y % of.y + of.y * (block.z % of.z))
    }
}

#[derive(Clone, Copy)]
struct Barrier {
    /// Threads that have arrived, whole warps.
    arrived: u32,
    /// Threads expected; 0 is all that live.
    count: u32,
    /// Warps wait here.
    awaited: bool,
    votes: Reduction,
    /// Line of the PTX at which the last warp has arrived.
    line: u32,
}

const EMPTY: Barrier = Barrier {
    arrived: 0,
    count: 0,
    awaited: false,
    votes: Reduction { all: true, any: false, count: 0 },
    line: 0,
};

/// A block in progress.
pub(crate) struct InterpretedBlock {
    environment: BlockEnvironment,
    index: Dim3,
    shared: Vec<u128>,
    shared_bytes: u64,
    threads: u32,
    warps: u32,
    /// Warps from here on have not started.
    next_warp: u32,
    /// Warps that have not finished, started or not.
    alive: u32,
    ready: VecDeque<Box<Warp>>,
    #[allow(clippy::vec_box, reason = "warps are large and move between the queues")]
    waiting: Vec<Box<Warp>>,
    /// Finished warps whose memory the next ones take over.
    #[allow(clippy::vec_box, reason = "warps are large and move between the queues")]
    spare: Vec<Box<Warp>>,
    barriers: [Barrier; BARRIERS],
    /// Warps all of whose lanes have arrived at the cluster's barrier.
    at_cluster: u32,
    /// The warps take turns until the next barrier.
    apart: bool,
    /// The account of accesses, if it is kept.
    account: Option<AccessLog>,
}

impl InterpretedBlock {
    /// A block about to start.
    pub(crate) fn new(
        environment: BlockEnvironment,
        index: Dim3,
        static_shared_bytes: u64,
    ) -> Self {
        let threads = environment.launch.block.count() as u32;
        let warps = threads.div_ceil(WARP_LANES as u32);
        let shared_bytes = static_shared_bytes + u64::from(environment.launch.dynamic_shared_bytes);
        let shared = (shared_bytes, environment.program.kept_shared_bytes());
        let account = environment.program.checker().map(|_| AccessLog::new(shared, warps));
        Self {
            account,
            environment,
            index,
            shared: vec![0; shared_bytes.div_ceil(16) as usize],
            shared_bytes,
            threads,
            warps,
            next_warp: 0,
            alive: warps,
            ready: VecDeque::new(),
            waiting: Vec::new(),
            spare: Vec::new(),
            barriers: [EMPTY; BARRIERS],
            at_cluster: 0,
            apart: false,
        }
    }

    /// Its shared memory, for the others of its cluster.
    pub(crate) fn peer(&mut self) -> Peer {
        Peer { shared: self.shared.as_mut_ptr().cast(), shared_bytes: self.shared_bytes }
    }

    /// Becomes one of these, which then say when the cluster's barrier is complete.
    pub(crate) fn join(&mut self, peers: Arc<[Peer]>, account: Option<AccessLog>) {
        self.environment.peers = peers;
        self.account = account;
    }

    /// The accounts of this block and the others of its cluster, if accesses are accounted for.
    pub(crate) fn accounts(&self, blocks: u32) -> Option<Vec<AccessLog>> {
        let shared = (self.shared_bytes, self.environment.program.kept_shared_bytes());
        self.account.as_ref().map(|_| AccessLog::of_cluster(blocks, shared, self.warps))
    }

    /// The account, if there is one.
    pub(crate) fn account(&self) -> Option<&AccessLog> {
        self.account.as_ref()
    }

    /// Warps that have not finished.
    pub(crate) fn warps_alive(&self) -> u32 {
        self.alive
    }

    /// Warps that have arrived at the cluster's barrier and not finished.
    pub(crate) fn arrived_at_cluster(&self) -> u32 {
        self.at_cluster
    }

    /// Nothing can happen here before the cluster's barrier opens.
    pub(crate) fn waits_for_cluster(&self) -> bool {
        let started = self.next_warp == self.warps && self.ready.is_empty();
        started && self.waiting.iter().any(|warp| warp.waits_for_cluster())
    }

    /// The fault of a block whose warps all wait.
    pub(crate) fn deadlock(&self) -> Outcome {
        let warp = self.waiting.first().map_or(0, |warp| warp.index);
        self.fault(FaultKind::BarrierDeadlock, warp, 0, 0)
    }

    /// Lets all warps on that wait for the cluster, and takes back all arrivals.
    pub(crate) fn open_cluster_barrier(&mut self) {
        self.at_cluster = 0;
        self.apart = false;
        for warp in &mut self.ready {
            warp.leave_cluster_barrier();
        }
        let mut index = 0;
        while index < self.waiting.len() {
            if self.waiting[index].leave_cluster_barrier() {
                let warp = self.waiting.remove(index);
                self.ready.push_back(warp);
            } else {
                index += 1;
            }
        }
    }

    /// Lanes of a warp.
    fn lanes(&self, index: u32) -> u32 {
        let left = self.threads - index * WARP_LANES as u32;
        if left >= WARP_LANES as u32 { u32::MAX } else { (1 << left) - 1 }
    }

    /// A warp that can run: a new one first, so that all get their turn.
    fn next(&mut self) -> Option<Box<Warp>> {
        if self.next_warp < self.warps {
            return Some(self.start_warp());
        }
        self.ready.pop_front()
    }

    fn start_warp(&mut self) -> Box<Warp> {
        let index = self.next_warp;
        self.next_warp += 1;
        let lanes = self.lanes(index);
        match self.spare.pop() {
            Some(mut warp) => {
                warp.restart(&self.environment.program, index, lanes);
                warp
            }
            None => {
                let BlockEnvironment { program, local_bytes, .. } = &self.environment;
                Box::new(Warp::new(program, *local_bytes, index, lanes))
            }
        }
    }

    /// What handlers see of a block; the rest is the warp's.
    fn machine<'a>(&'a mut self, worker: &'a mut Worker<'_>, more: u64) -> HandlerContext<'a> {
        let params = self.environment.launch.params.len();
        let native = self.environment.program.native();
        HandlerContext {
            regs: Registers::NONE,
            mask: 0,
            live: 0,
            force: false,
            shared: self.shared.as_mut_ptr().cast(),
            shared_bytes: self.shared_bytes,
            local: std::ptr::null_mut(),
            local_bytes: self.environment.local_bytes,
            frame: 0,
            warp: 0,
            following: 0,
            last_lanes: self.lanes(self.warps - 1),
            warps: self.warps,
            index: self.index,
            more: native.map_or(0, |native| native.following_blocks(more, params)),
            memory: worker.memory,
            counters: worker.counters,
            block: &self.environment,
            sm: (worker.sm, worker.sm_count),
            locate: self.environment.program.locate,
            check: self.account.as_ref(),
            followed: (Follow::No, 0),
            fault: None,
        }
    }

    /// A warp arrives at a barrier that expects `count` threads.
    fn arrive(&mut self, warp: u32, number: u32, (count, line): (u32, u32)) {
        let b = self.barriers[number as usize];
        if let Some(checker) = self.environment.program.checker() {
            // Warps that exit change what the whole block is.
            let others =
                (b.arrived != 0 && b.count != count).then(|| (self.expected(b.count), b.line));
            checker.arrives(number, (self.expected(count), line), others);
        }
        let b = &mut self.barriers[number as usize];
        b.arrived += WARP_LANES as u32;
        b.count = count;
        b.line = line;
        if let Some(account) = &self.account {
            account.arrive(warp, Some(number));
        }
    }

    /// Threads that a barrier is for.
    fn expected(&self, count: u32) -> u32 {
        if count == 0 { self.alive * WARP_LANES as u32 } else { count }
    }

    /// All lanes of the warp wait: it arrives once at each barrier that lanes have come to, unless
    /// others of its lanes wait there already. True if lanes go on that only arrive.
    fn announce(&mut self, warp: &mut Warp) -> bool {
        let named = |w: &&mut Waiting| w.barrier != CLUSTER_BARRIER;
        let mut arrived = [false; BARRIERS];
        for w in warp.waiting.iter_mut().filter(named).filter(|w| w.announced) {
            arrived[w.barrier as usize] = true;
        }
        let index = warp.index;
        for w in warp.waiting.iter_mut().filter(named).filter(|w| !w.announced) {
            w.announced = true;
            if !std::mem::replace(&mut arrived[w.barrier as usize], true) {
                self.arrive(index, w.barrier, (w.count, w.line));
            }
            let b = &mut self.barriers[w.barrier as usize];
            if w.op != BarrierOp::Arrive {
                b.awaited = true;
                b.votes.all &= w.votes == w.mask;
                b.votes.any |= w.votes != 0;
                b.votes.count += w.votes.count_ones();
            }
        }
        warp.leave_arrivals()
    }

    /// Opens barriers that are complete; true if any was.
    fn open_barriers(&mut self) -> bool {
        let mut opened = false;
        for number in 0..BARRIERS as u32 {
            let b = self.barriers[number as usize];
            let expected = self.expected(b.count).next_multiple_of(WARP_LANES as u32);
            // A barrier without a count and without a warp that waits is not in use.
            if b.arrived == 0 || b.arrived < expected || !(b.awaited || b.count != 0) {
                continue;
            }
            self.barriers[number as usize] = EMPTY;
            if let Some(account) = &self.account {
                let warps = self.waiting.iter().chain(&self.ready);
                let waiting = warps.filter(|warp| warp.waits_at(number));
                account.open(number, waiting.map(|warp| warp.index));
            }
            opened = true;
            self.apart = false;
            // Other lanes of a warp may have been let go by another barrier.
            for warp in self.ready.iter_mut().filter(|warp| warp.waits_at(number)) {
                warp.release(&self.environment.program, number, b.votes);
            }
            let mut index = 0;
            while index < self.waiting.len() {
                if self.waiting[index].waits_at(number) {
                    let mut warp = self.waiting.remove(index);
                    warp.release(&self.environment.program, number, b.votes);
                    self.ready.push_back(warp);
                } else {
                    index += 1;
                }
            }
        }
        opened
    }

    fn fault(&self, kind: FaultKind, warp: u32, lane: u32, line: u32) -> Outcome {
        Outcome::Fault(Box::new(Fault {
            kind,
            kernel: self.environment.program.name().to_owned(),
            block: self.index,
            thread: thread_of(self.environment.launch.block, warp * WARP_LANES as u32 + lane),
            line,
        }))
    }
}

impl BlockRun for InterpretedBlock {
    fn restart(&mut self, index: Dim3) -> bool {
        debug_assert!(self.ready.is_empty() && self.waiting.is_empty() && self.alive == 0);
        self.index = index;
        self.spare.iter_mut().for_each(|warp| warp.change_block());
        self.next_warp = 0;
        self.alive = self.warps;
        // Arrivals without a waiter may be left.
        self.barriers = [EMPTY; BARRIERS];
        self.at_cluster = 0;
        self.apart = false;
        if let Some(account) = &self.account {
            account.restart();
        }
        true
    }

    fn resume(&mut self, worker: &mut Worker<'_>) -> Outcome {
        self.resume_row(worker, 0).1
    }

    fn resume_row(&mut self, worker: &mut Worker<'_>, more: u64) -> (u64, Outcome) {
        let mut left = more;
        let outcome = self.run(worker, &mut left);
        (more - left, outcome)
    }

    fn waits(&self) -> Option<Wait> {
        let all = self.next_warp == self.warps && self.ready.iter().all(|w| w.stuck_at().is_some());
        let first = self.ready.front().filter(|_| all)?;
        Some(Wait {
            block: self.index,
            thread: thread_of(self.environment.launch.block, first.index * WARP_LANES as u32),
            line: first.stuck_at()?,
        })
    }
}

impl InterpretedBlock {
    /// Runs until the block or one of the `more` that may follow has an outcome.
    fn run(&mut self, worker: &mut Worker<'_>, more: &mut u64) -> Outcome {
        // Turns that ended without anything having happened.
        let mut idle_turns = 0;
        loop {
            if worker.control.yield_requested() {
                return Outcome::Yielded;
            }
            if let Some(outcome) = self.run_block_entry(worker, more) {
                return outcome;
            }
            let Some(mut warp) = self.next() else {
                if self.waiting.is_empty() {
                    self.check_arrivals_left();
                    return Outcome::Finished;
                }
                // Every warp that is left waits, and only they could come, or the cluster.
                let others = !self.environment.peers.is_empty() && self.waits_for_cluster();
                return if others { Outcome::Yielded } else { self.deadlock() };
            };
            // No barrier waits for these to end, so they may run one after the other.
            let undisturbed = self.ready.is_empty() && self.waiting.is_empty();
            let program = self.environment.program.clone();
            let following = if undisturbed { self.warps - self.next_warp } else { 0 };
            let control = worker.control;
            let mut machine = self.machine(worker, if undisturbed { *more } else { 0 });
            machine.following = following;
            let before = machine.more;
            let stop = warp.run(&program, &mut machine, control);
            *more -= u64::from(before - machine.more);
            let (left, index) = (machine.following, machine.index);
            self.index = index;
            if undisturbed {
                // As many as have started meanwhile have ended, one after the other.
                self.next_warp = self.warps - left;
                self.alive = left + 1;
            }
            if let Some(outcome) = self.stopped(warp, stop, &mut idle_turns) {
                return outcome;
            }
        }
    }

    /// Says at which barriers threads have arrived for nothing.
    fn check_arrivals_left(&self) {
        let Some(checker) = self.environment.program.checker() else { return };
        for (number, b) in self.barriers.iter().enumerate().filter(|(_, b)| b.arrived != 0) {
            checker.leaves(number as u32, (b.arrived, self.expected(b.count)), b.line);
        }
    }

    /// Puts a warp that has come back where it belongs; the outcome if the block comes back too.
    fn stopped(
        &mut self,
        mut warp: Box<Warp>,
        stop: Stop,
        idle_turns: &mut usize,
    ) -> Option<Outcome> {
        if warp.arrives_at_cluster() {
            self.at_cluster += 1;
            if let Some(account) = &self.account {
                account.arrive(warp.index, None);
            }
        }
        match stop {
            Stop::Finished => {
                self.alive -= 1;
                self.at_cluster -= u32::from(warp.has_arrived_at_cluster());
                *idle_turns = 0;
                if let Some(account) = &self.account {
                    account.exit(warp.index);
                }
                let waited_for = !self.waiting.is_empty();
                self.spare.push(warp);
                if waited_for {
                    self.open_barriers();
                }
            }
            Stop::Asked => {
                self.ready.push_front(warp);
                return Some(Outcome::Yielded);
            }
            Stop::Turn => {
                *idle_turns += 1;
                self.ready.push_back(warp);
                if self.next_warp == self.warps && *idle_turns >= self.ready.len() {
                    return Some(Outcome::Yielded);
                }
            }
            Stop::Barrier => {
                if self.announce(&mut warp) {
                    self.ready.push_front(warp);
                } else {
                    self.waiting.push(warp);
                }
                if self.open_barriers() {
                    *idle_turns = 0;
                }
            }
            Stop::Arrived => {
                if let Some((number, count, line)) = warp.arrival.take() {
                    self.arrive(warp.index, number, (count, line));
                }
                self.ready.push_front(warp);
                self.open_barriers();
            }
            Stop::Fault(fault, line) => {
                return Some(self.fault(fault.kind, warp.index, fault.lane, line));
            }
        }
        // Without a cluster, the block is all there is of one.
        let complete = self.at_cluster > 0 && self.at_cluster == self.alive;
        if complete && self.environment.peers.is_empty() {
            self.open_cluster_barrier();
            *idle_turns = 0;
        }
        None
    }
}

impl Drop for InterpretedBlock {
    fn drop(&mut self) {
        let left = self.ready.drain(..).chain(self.waiting.drain(..)).chain(self.spare.drain(..));
        for warp in left {
            warp.retire(&self.environment.program);
        }
    }
}
