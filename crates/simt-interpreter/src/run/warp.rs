//! Warp: where each lane stands, and running it until it ends or must wait.
//!
//! A warp is always at the start of blocks: `pending` says which lanes wait at which block. In
//! code for lockstep the lowest pending block runs, so that lanes reconverge; when lanes spin on
//! something that waiting lanes of the same warp must do, the warp moves to the independent form
//! of the function, where a group runs until its fuel ends and then the next one does. Once all of
//! its lanes are together again it goes back.

mod activation;
mod barriers;
mod block_entry;
mod calls;
mod lockstep;
mod spinning;

use crate::run::warp::activation::Activation;
pub(crate) use crate::run::warp::barriers::{CLUSTER_BARRIER, Reduction, Waiting};
use crate::run::warp::lockstep::ReturnToLockstep;
use crate::run::warp::spinning::{SliceEnd, Spin};
use crate::time_slice::FUEL;

use crate::decode::{Code, CodeTerm, RETURN, Word};
use crate::handler_context::{HandlerContext, LaneFault, Step};
use crate::ops::map::read_pred;
use crate::ops::memory::lanes;
use crate::run::program::{CodeId, Program};
use crate::tier1_abi;
use simt::ir::op::BarrierOp;
use simt::kernel::{Control, FaultKind, WARP_LANES};
use std::sync::Arc;

/// Why a warp came back.
#[derive(Debug)]
pub(crate) enum Stop {
    /// All lanes have exited.
    Finished,
    /// The control word asked for it.
    Asked,
    /// It used up its fuel, or paused.
    Turn,
    /// All of its lanes wait at barriers.
    Barrier,
    /// It arrived at a barrier without waiting: the block must look at it, then go on.
    Arrived,
    /// A lane faulted, at a line.
    Fault(Box<LaneFault>, u32),
}

/// A warp.
pub(crate) struct Warp {
    /// Its number in the block.
    pub(crate) index: u32,
    /// The functions that its lanes are in; the kernel is the first.
    activations: Vec<Activation>,
    /// The one whose lanes run.
    current: usize,
    /// Lanes that wait at barriers.
    pub(crate) waiting: Vec<Waiting>,
    /// A barrier it has just arrived at without waiting.
    pub(crate) arrival: Option<(u32, u32, u32)>,
    /// Lanes that have arrived at the cluster's barrier.
    at_cluster: u32,
    /// They are all there are, and the block knows.
    counted_at_cluster: bool,
    local: Vec<u64>,
    fuel: i64,
    spin: Spin,
    return_to_lockstep: ReturnToLockstep,
    /// Why the warp stops, set with [`Next::Stop`].
    stop: Option<Stop>,
}

/// What the terminator led to.
enum Next {
    /// Run this block with these lanes.
    Run(u32, u32),
    /// Look for pending lanes.
    Choose,
    /// Come back later: `Warp::stop` says why. Kept there because it is large, and this is what
    /// every branch returns.
    Stop,
}

/// The result of a return from native code.
pub(crate) enum Settled {
    /// The warp goes on in the function it is in.
    Here,
    /// Another function, or another form, is next.
    Elsewhere,
    /// The warp comes back.
    Stopped(Stop),
}

impl Warp {
    /// A warp about to start.
    pub(crate) fn new(program: &Arc<Program>, local_bytes: u64, index: u32, lanes: u32) -> Self {
        let local_words = local_bytes as usize * WARP_LANES / size_of::<u64>();
        Self {
            index,
            activations: vec![Activation::new(program, CodeId::Entry, lanes, 0)],
            current: 0,
            waiting: Vec::new(),
            arrival: None,
            at_cluster: 0,
            counted_at_cluster: false,
            local: vec![0; local_words],
            fuel: FUEL,
            spin: Spin::default(),
            return_to_lockstep: ReturnToLockstep::default(),
            stop: None,
        }
    }

    /// Makes a finished warp another one of the same block.
    pub(crate) fn restart(&mut self, program: &Arc<Program>, index: u32, lanes: u32) {
        self.index = index;
        self.fuel = FUEL;
        self.spin.restart();
        self.return_to_lockstep = ReturnToLockstep::default();
        self.current = 0;
        self.at_cluster = 0;
        self.counted_at_cluster = false;
        self.activations.truncate(1);
        match self.activations.first_mut() {
            // Finished, so no lane is pending.
            Some(activation) if activation.code == CodeId::Entry => {
                activation.pending[0] = lanes;
                activation.lowest = 0;
                activation.parked.clear();
                activation.rotate_from = None;
                activation.live = lanes;
                activation.entered = lanes;
            }
            _ => self.activations = vec![Activation::new(program, CodeId::Entry, lanes, 0)],
        }
    }

    /// What is the same for all warps of a block is to be computed anew.
    pub(crate) fn change_block(&mut self) {
        for activation in &mut self.activations {
            activation.prepared = false;
        }
    }

    /// Line of the loop in which its lanes have waited for the whole of the last time slice.
    pub(crate) fn stuck_at(&self) -> Option<u32> {
        self.spin.stuck
    }

    /// Gives the register files back to the program.
    pub(crate) fn retire(self, program: &Program) {
        for activation in self.activations {
            program.recycle(activation.file, activation.code);
        }
    }

    /// Runs until something stops it.
    pub(crate) fn run(
        &mut self,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
        control: &Control,
    ) -> Stop {
        machine.warp = self.index;
        machine.local = self.local.as_mut_ptr().cast();
        self.spin.stuck = None;
        loop {
            let top = self.top();
            machine.regs = top.file.registers();
            machine.frame = top.frame;
            let code = program.code(top.code);
            match self.run_function(program, code, machine, control) {
                // Lanes of another function run now.
                None => {}
                Some(stop) => return stop,
            }
        }
    }

    /// Runs the current function until another one is, or the warp stops.
    fn run_function(
        &mut self,
        program: &Arc<Program>,
        code: &Code,
        machine: &mut HandlerContext<'_>,
        control: &Control,
    ) -> Option<Stop> {
        let me = self.current;
        let entry = self.activations[me].code == CodeId::Entry;
        let params = machine.block.launch.params.len();
        let mut native = if entry { program.native() } else { None };
        if !self.activations[me].prepared && !native.is_some_and(|n| n.has_params(params)) {
            self.activations[me].prepared = true;
            machine.mask = u32::MAX;
            for ins in &code.ins[code.prologue.clone()] {
                // SAFETY: as for the blocks below.
                if unsafe { (ins.run)(machine, ins) } == Step::Fault {
                    // A parameter beyond those that the launch gave.
                    return Some(fault(code, machine, ins.imm, ins.line));
                }
            }
        }
        loop {
            let top = &mut self.activations[me];
            let Some((block, force)) = top.choose() else {
                return self.nothing_pending(program, machine);
            };
            if force && let Some(other) = self.runnable(program, machine) {
                if other == me {
                    continue;
                }
                self.go_on_with(other, program, machine);
                return None;
            }
            if !force && self.goes_back_to_lockstep(program, machine, block) {
                return None;
            }
            let top = &mut self.activations[me];
            let mask = top.take(block);
            machine.live = top.live;
            machine.force = force;
            if force {
                top.parked.clear();
            }
            let mut lowest = top.lowest;
            let (mut block, mut mask) = (block, mask);
            if entry && !force && top.parked.is_empty() {
                native = native.or_else(|| program.native());
            }
            let native_now = native.filter(|_| self.spin.probe.is_none());
            if let (Some(native), false, true) = (native_now, force, top.parked.is_empty()) {
                let alone = tier1_abi::WarpEntry {
                    pending: &mut top.pending,
                    lowest,
                    fuel: self.fuel,
                    block,
                    mask,
                    prepared: &mut top.prepared,
                    watched: self.at_cluster != 0,
                };
                // SAFETY: the code is that of the kernel's lockstep form, and so is the file; the
                // prologue has run, or the warp starts and native code has what that needs.
                let back = unsafe { tier1_abi::enter(native, code, machine, control, alone) };
                match self.settle(program, code, machine, control, &back) {
                    Settled::Here => continue,
                    Settled::Elsewhere => return None,
                    Settled::Stopped(stop) => return Some(stop),
                }
            }
            // Blocks that follow each other without other lanes being in the way.
            'run: loop {
                let b = &code.blocks[block as usize];
                machine.mask = mask;
                machine.counters.warp_instructions += u64::from(b.size);
                machine.counters.thread_instructions +=
                    u64::from(b.size) * u64::from(mask.count_ones());
                let range = if mask == machine.live { &b.full } else { &b.masked };
                for ins in &code.ins[range.clone()] {
                    // SAFETY: the code was decoded for this target, `regs` is the file of this
                    // function, and the machine's spaces are those of this block and warp.
                    match unsafe { (ins.run)(machine, ins) } {
                        Step::Next => {}
                        Step::Park => {
                            // First in its block, so nothing has happened yet.
                            let top = &mut self.activations[me];
                            top.add(block, mask);
                            top.parked.push(block);
                            break 'run;
                        }
                        Step::Leave => {
                            // Nothing has happened here either.
                            self.activations[me].add(block, mask);
                            self.become_independent(program, machine);
                            self.return_to_lockstep.fails();
                            return None;
                        }
                        Step::Fault => return Some(fault(code, machine, ins.imm, ins.line)),
                    }
                }
                machine.force = false;
                self.spin.is_progress |= b.is_progress;
                // Nearly always all lanes go to a block in front of which none wait.
                let to = match &b.term {
                    CodeTerm::Jump(to) => *to,
                    CodeTerm::Branch { predicate, flip, taken, other } => {
                        let yes = mask & (read_pred(machine, *predicate) ^ flip);
                        if yes == mask {
                            *taken
                        } else if yes == 0 {
                            *other
                        } else {
                            RETURN
                        }
                    }
                    _ => RETURN,
                };
                let watched = self.spin.probe.is_some() || b.spins && to <= block;
                if to < lowest && to < RETURN && !watched {
                    if to > block {
                        block = to;
                        continue;
                    }
                    self.fuel -= b.cost;
                    if self.fuel > 0 && !control.yield_requested() {
                        block = to;
                        continue;
                    }
                    // Not twice for the same back-edge.
                    self.fuel += b.cost;
                }
                match self.terminate(program, code, machine, control, block, mask) {
                    Next::Run(to, lanes) => (block, mask) = (to, lanes),
                    Next::Choose => break,
                    Next::Stop => return self.stop.take(),
                }
                if self.current != me {
                    return None;
                }
                lowest = self.activations[me].lowest;
            }
            if self.current != me {
                return None;
            }
        }
    }

    /// Does what native code has left to do where it came back, with the warp that it came back
    /// with.
    pub(crate) fn settle(
        &mut self,
        program: &Arc<Program>,
        code: &Code,
        machine: &mut HandlerContext<'_>,
        control: &Control,
        back: &tier1_abi::Return,
    ) -> Settled {
        let me = self.current;
        // Others may have been run to their ends in this one's place, and it is theirs now.
        self.index = back.warp;
        self.spin.is_progress = true;
        machine.following = back.following;
        let top = self.top();
        top.live = back.live;
        top.lowest = back.lowest;
        machine.live = back.live;
        machine.regs = top.file.registers();
        machine.mask = back.mask;
        self.fuel = back.fuel;
        let (block, mask) = (back.block, back.mask);
        match back.why {
            tier1_abi::NEXT => return Settled::Here,
            tier1_abi::PARK => {
                self.top().add(block, mask);
                self.top().parked.push(block);
                return Settled::Here;
            }
            tier1_abi::LEAVE => {
                self.top().add(block, mask);
                self.become_independent(program, machine);
                self.return_to_lockstep.fails();
                return Settled::Elsewhere;
            }
            tier1_abi::FAULT => {
                let ins = &code.ins[back.ins as usize];
                return Settled::Stopped(fault(code, machine, ins.imm, ins.line));
            }
            _ => {}
        }
        match self.terminate(program, code, machine, control, block, mask) {
            Next::Run(to, lanes) => self.activations[me].add(to, lanes),
            Next::Choose => {}
            Next::Stop => {
                return self.stop.take().map_or(Settled::Here, Settled::Stopped);
            }
        }
        if self.current == me { Settled::Here } else { Settled::Elsewhere }
    }

    fn terminate(
        &mut self,
        program: &Arc<Program>,
        code: &Code,
        machine: &mut HandlerContext<'_>,
        control: &Control,
        block: u32,
        mask: u32,
    ) -> Next {
        let b = &code.blocks[block as usize];
        match &b.term {
            CodeTerm::Jump(to) => self.go(program, machine, control, block, *to, mask),
            CodeTerm::Branch { predicate, flip, taken, other } => {
                let p = read_pred(machine, *predicate) ^ flip;
                let yes = mask & p;
                if yes == mask {
                    return self.go(program, machine, control, block, *taken, mask);
                }
                if yes == 0 {
                    return self.go(program, machine, control, block, *other, mask);
                }
                self.part(program, machine, control, block, &[(*taken, yes), (*other, mask & !yes)])
            }
            CodeTerm::Table { index, targets } => {
                let mut parts: Vec<(u32, u32)> = Vec::new();
                for lane in lanes(mask) {
                    let at = lane_u32(machine, *index, lane);
                    let Some(&to) = targets.get(at as usize) else {
                        machine.fail(lane, FaultKind::InvalidPc { target: u64::from(at) });
                        return self.halt(fault(code, machine, 0, b.line));
                    };
                    match parts.iter_mut().find(|(target, _)| *target == to) {
                        Some((_, lanes)) => *lanes |= 1 << lane,
                        None => parts.push((to, 1 << lane)),
                    }
                }
                self.part(program, machine, control, block, &parts)
            }
            CodeTerm::Call { site, next } => {
                if control.yield_requested() {
                    self.top().add(block, mask);
                    return self.halt(Stop::Asked);
                }
                self.call(program, code, machine, block, *site, *next, mask)
            }
            CodeTerm::Barrier(barrier) => match barrier.op {
                BarrierOp::ClusterArrive | BarrierOp::ClusterWait => {
                    self.cluster_barrier(barrier, mask)
                }
                _ => self.barrier(code, machine, barrier, mask, b.line),
            },
            CodeTerm::Pause { next } => {
                self.top().add(*next, mask);
                self.end_slice(program, machine, *next, SliceEnd::Paused)
            }
        }
    }

    /// Stops the warp.
    fn halt(&mut self, stop: Stop) -> Next {
        self.stop = Some(stop);
        Next::Stop
    }

    fn top(&mut self) -> &mut Activation {
        &mut self.activations[self.current]
    }

    /// All lanes of the group go to one target.
    fn go(
        &mut self,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
        control: &Control,
        from: u32,
        to: u32,
        mask: u32,
    ) -> Next {
        if to >= RETURN {
            self.leave(machine, to, mask);
            return Next::Choose;
        }
        if to <= from {
            let code = program.code(self.top().code);
            let b = &code.blocks[from as usize];
            self.fuel -= b.cost;
            if control.yield_requested() {
                self.top().add(to, mask);
                return self.halt(Stop::Asked);
            }
            let probed = self.spin.probe.is_some();
            let fruitless = b.spins && self.is_fruitless(code, from, to, mask);
            if fruitless || self.fuel <= 0 {
                self.top().add(to, mask);
                let end = match (fruitless, b.spins) {
                    (true, _) => SliceEnd::Fruitless,
                    (false, true) => SliceEnd::Spun,
                    (false, false) => SliceEnd::Used,
                };
                return self.end_slice(program, machine, to, end);
            }
            if probed && self.spin.probe.is_none() {
                // Back to native code.
                self.top().add(to, mask);
                return Next::Choose;
            }
        }
        if self.spin.probe.is_some_and(|(first, last)| !(first..=last).contains(&to)) {
            self.spin.advance();
            self.top().add(to, mask);
            return Next::Choose;
        }
        let top = self.top();
        if top.code == CodeId::Independent && mask != top.live {
            let others = top.pending[to as usize];
            if mask | others == top.live {
                // All are together: they may go back to lockstep.
                top.add(to, mask);
                return Next::Choose;
            }
        }
        if to < top.lowest {
            return Next::Run(to, mask);
        }
        if to == top.lowest {
            top.parked.retain(|b| *b != to);
            return Next::Run(to, mask | top.take(to));
        }
        if top.code != CodeId::Entry {
            // Stay with this group, and with those it meets.
            top.parked.retain(|b| *b != to);
            return Next::Run(to, mask | top.take(to));
        }
        top.add(to, mask);
        Next::Choose
    }

    /// Lanes of the group go different ways.
    fn part(
        &mut self,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
        control: &Control,
        from: u32,
        parts: &[(u32, u32)],
    ) -> Next {
        let b = &program.code(self.top().code).blocks[from as usize];
        let leaves =
            |to: u32| b.spin_loop.is_some_and(|(first, last)| !(first..=last).contains(&to));
        if self.top().code != CodeId::Entry {
            // Lanes that leave a spin loop run first: the others may wait for them.
            let first = parts.iter().position(|(to, _)| leaves(*to)).unwrap_or(0);
            return self.part_independent(program, machine, control, from, (parts, first));
        }
        if parts.iter().any(|(to, _)| leaves(*to)) {
            self.spin.advance();
        }
        let mut back = None;
        for (to, lanes) in parts {
            if *to >= RETURN {
                self.leave(machine, *to, *lanes);
            } else {
                self.top().add(*to, *lanes);
                if *to <= from {
                    back = Some(*to);
                }
            }
        }
        if let Some(to) = back {
            self.fuel -= b.cost;
            if control.yield_requested() {
                return self.halt(Stop::Asked);
            }
            if self.fuel <= 0 {
                let end = if b.spins { SliceEnd::Spun } else { SliceEnd::Used };
                return self.end_slice(program, machine, to, end);
            }
        }
        Next::Choose
    }

    /// Lanes of the group go different ways, in code for any order: one part goes on.
    fn part_independent(
        &mut self,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
        control: &Control,
        from: u32,
        (parts, first): (&[(u32, u32)], usize),
    ) -> Next {
        let mut back = false;
        for (index, (to, lanes)) in parts.iter().enumerate() {
            if index == first {
                continue;
            }
            if *to >= RETURN {
                self.leave(machine, *to, *lanes);
            } else {
                self.top().add(*to, *lanes);
                back |= *to <= from;
            }
        }
        let (to, mask) = parts[first];
        if back {
            self.spin.advance();
            self.fuel -= program.code(self.top().code).blocks[from as usize].cost;
        }
        if back && to < RETURN && (self.fuel <= 0 || control.yield_requested()) {
            self.top().add(to, mask);
            self.top().rotate_from = to.checked_sub(1);
            let asked = control.yield_requested();
            self.fuel = FUEL;
            return self.halt(if asked { Stop::Asked } else { Stop::Turn });
        }
        self.go(program, machine, control, from, to, mask)
    }
}

fn lane_u32(machine: &HandlerContext<'_>, word: Word, lane: u32) -> u32 {
    let lane = if word.uniform { 0 } else { lane };
    machine.regs.lane(word.at, lane)
}

/// The stop for the fault that the machine holds.
fn fault(code: &Code, machine: &mut HandlerContext<'_>, imm: i64, line: u32) -> Stop {
    let mut fault = machine
        .fault
        .take()
        .unwrap_or(LaneFault { kind: FaultKind::Trap, lane: machine.mask.trailing_zeros() });
    if let FaultKind::UnsupportedInstruction { text } = &mut fault.kind {
        *text = code.texts.get(imm as usize).cloned().unwrap_or_default();
    }
    Stop::Fault(Box::new(fault), line)
}
