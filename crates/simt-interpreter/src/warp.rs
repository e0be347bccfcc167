//! One warp: where each lane stands, and running it until it ends or must wait.
//!
//! A warp is always at the start of blocks: `pending` says which lanes wait at which block. In
//! code for lockstep the lowest pending block runs, so that lanes meet again; when lanes spin on
//! something that waiting lanes of the same warp must do, the warp moves to the independent form
//! of the function, where a group runs until its patience ends and then the next one does.

mod activation;
mod together;

use activation::Activation;

use super::decode::{BarrierTerm, Code, CodeTerm, EXIT, RETURN};
use super::lanes::read_pred;
use super::machine::{LaneFault, Machine, Step};
use super::memory::lanes;
use super::native;
use super::program::{CodeId, Program};
use simt::ir::Reg;
use simt::kernel::{Control, FaultKind};
use simt::op::BarrierOp;
use simt::vector::FUNCTION_BASE;
use std::sync::Arc;

/// Back-edges a warp takes before other warps get a turn.
pub(super) const PATIENCE: i64 = 1 << 16;
/// Back-edges of loops that watch memory, before other lanes and warps get a turn: a lock's
/// holder may be among them.
pub(super) const SPIN_PATIENCE: i64 = 1 << 10;
/// The same once lanes have been seen to wait for each other.
const INDEPENDENT_PATIENCE: i64 = 1 << 6;
/// Nested calls of a thread.
const CALL_DEPTH_MAX: usize = 512;

/// Why a warp came back.
#[derive(Debug)]
pub(super) enum Stop {
    /// All lanes have exited.
    Finished,
    /// The control word asked for it.
    Asked,
    /// It used up its patience, or paused.
    Turn,
    /// All of its lanes wait at barriers.
    Barrier,
    /// It arrived at a barrier without waiting: the block must look at it, then go on.
    Arrived,
    /// A lane faulted, at a line.
    Fault(Box<LaneFault>, u32),
}

/// Lanes that wait at a barrier.
pub(super) struct Waiting {
    /// Depth of the function they are in.
    frame: usize,
    /// The lanes.
    pub(super) mask: u32,
    /// Which barrier.
    pub(super) barrier: u32,
    /// Threads it expects; 0 is the whole block.
    pub(super) count: u32,
    /// Values of the predicate.
    pub(super) votes: u32,
    op: BarrierOp,
    dst: Option<Reg>,
    next: u32,
    /// The block has been told.
    pub(super) announced: bool,
}

/// A warp.
pub(super) struct Warp {
    /// Its number in the block.
    pub(super) index: u32,
    stack: Vec<Activation>,
    /// Lanes that wait at barriers.
    pub(super) waiting: Vec<Waiting>,
    /// A barrier it has just arrived at without waiting.
    pub(super) arrival: Option<(u32, u32)>,
    local: Vec<u64>,
    patience: i64,
    /// The block of a group that has had its turn: the next one is for others.
    rotate_from: Option<u32>,
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

/// What came of a return from native code.
pub(super) enum Settled {
    /// The warp goes on in the function it is in.
    Here,
    /// Another function, or another form, is on top now.
    Elsewhere,
    /// The warp comes back.
    Stopped(Stop),
}

impl Warp {
    /// A warp about to start.
    pub(super) fn new(program: &Arc<Program>, index: u32, lanes: u32) -> Self {
        let local_words = program.local_bytes as usize * 4;
        Self {
            index,
            stack: vec![Activation::new(program, CodeId::Entry, lanes, 0)],
            waiting: Vec::new(),
            arrival: None,
            local: vec![0; local_words],
            patience: PATIENCE,
            rotate_from: None,
            stop: None,
        }
    }

    /// Makes a finished warp another one of the same block.
    pub(super) fn restart(&mut self, program: &Arc<Program>, index: u32, lanes: u32) {
        self.index = index;
        self.patience = PATIENCE;
        self.rotate_from = None;
        self.stack.truncate(1);
        match self.stack.first_mut() {
            // Finished, so nobody is pending anywhere.
            Some(activation) if activation.code == CodeId::Entry => {
                activation.pending[0] = lanes;
                activation.lowest = 0;
                activation.parked.clear();
                activation.live = lanes;
                activation.entered = lanes;
            }
            _ => self.stack = vec![Activation::new(program, CodeId::Entry, lanes, 0)],
        }
    }

    /// What is the same for all warps of a block is to be computed anew.
    pub(super) fn change_block(&mut self) {
        for activation in &mut self.stack {
            activation.prepared = false;
        }
    }

    /// Gives the register files back to the program.
    pub(super) fn retire(self, program: &Program) {
        for activation in self.stack {
            program.recycle(activation.file, activation.code);
        }
    }

    /// Runs until something stops it.
    pub(super) fn run(
        &mut self,
        program: &Arc<Program>,
        machine: &mut Machine<'_>,
        control: &Control,
    ) -> Stop {
        machine.warp = self.index;
        machine.local = self.local.as_mut_ptr().cast();
        machine.local_bytes = program.local_bytes;
        loop {
            let Some(top) = self.stack.last_mut() else { return Stop::Finished };
            machine.regs = top.file.base();
            machine.frame = top.frame;
            let code = program.code(top.code);
            match self.run_function(program, code, machine, control) {
                // Another function is on top now.
                None => {}
                Some(stop) => return stop,
            }
        }
    }

    /// Runs the function on top of the stack until it is not, or the warp stops.
    fn run_function(
        &mut self,
        program: &Arc<Program>,
        code: &Code,
        machine: &mut Machine<'_>,
        control: &Control,
    ) -> Option<Stop> {
        let depth = self.stack.len();
        let entry = self.stack[depth - 1].code == CodeId::Entry;
        let params = machine.block.launch.params.len();
        let mut native = if entry { program.native() } else { None };
        if !self.stack[depth - 1].prepared && !native.is_some_and(|n| n.has_params(params)) {
            self.stack[depth - 1].prepared = true;
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
            let after = self.rotate_from.take();
            let top = &mut self.stack[depth - 1];
            let Some((block, force)) = top.choose(after) else {
                return self.nothing_pending(program, machine);
            };
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
            if let (Some(native), false, true) = (native, force, top.parked.is_empty()) {
                let alone = native::Alone {
                    pending: &mut top.pending,
                    lowest,
                    patience: self.patience,
                    block,
                    mask,
                    prepared: &mut top.prepared,
                };
                // SAFETY: the code is that of the kernel's lockstep form, and so is the file; the
                // prologue has run, or the warp starts and native code has what that needs.
                let back = unsafe { native::enter(native, code, machine, control, alone) };
                match self.settle(program, code, machine, control, &back) {
                    Settled::Here => continue,
                    Settled::Elsewhere => return None,
                    Settled::Stopped(stop) => return Some(stop),
                }
            }
            // Blocks that follow each other without anybody else being in the way.
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
                            let top = &mut self.stack[depth - 1];
                            top.add(block, mask);
                            top.parked.push(block);
                            break 'run;
                        }
                        Step::Leave => {
                            // Nothing has happened here either.
                            self.stack[depth - 1].add(block, mask);
                            self.become_independent(program, machine);
                            return None;
                        }
                        Step::Fault => return Some(fault(code, machine, ins.imm, ins.line)),
                    }
                }
                machine.force = false;
                // Nearly always all lanes go to a block that nobody waits in front of.
                let to = match &b.term {
                    CodeTerm::Jump(to) => *to,
                    CodeTerm::Branch { predicate, flip, taken, other } => {
                        // SAFETY: the decoder gave a predicate of this file.
                        let yes = mask & (unsafe { read_pred(machine, *predicate) } ^ flip);
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
                if to < lowest && to < RETURN {
                    if to > block {
                        block = to;
                        continue;
                    }
                    self.patience -= b.cost;
                    if self.patience > 0 && !control.yield_requested() {
                        block = to;
                        continue;
                    }
                    // Not twice for the same back-edge.
                    self.patience += b.cost;
                }
                match self.terminate(program, code, machine, control, block, mask) {
                    Next::Run(to, lanes) => (block, mask) = (to, lanes),
                    Next::Choose => break,
                    Next::Stop => return self.stop.take(),
                }
                if self.stack.len() != depth {
                    return None;
                }
                lowest = self.stack[depth - 1].lowest;
            }
            if self.stack.len() != depth {
                return None;
            }
        }
    }

    /// Does what native code has left to do where it came back, with the warp that it came back
    /// with.
    pub(super) fn settle(
        &mut self,
        program: &Arc<Program>,
        code: &Code,
        machine: &mut Machine<'_>,
        control: &Control,
        back: &native::Return,
    ) -> Settled {
        let depth = self.stack.len();
        // Others may have been run to their ends in this one's place, and it is theirs now.
        self.index = back.warp;
        machine.following = back.following;
        let top = self.top();
        top.live = back.live;
        top.lowest = back.lowest;
        machine.live = back.live;
        machine.regs = top.file.base();
        machine.mask = back.mask;
        self.patience = back.patience;
        let (block, mask) = (back.block, back.mask);
        match back.why {
            native::NEXT => return Settled::Here,
            native::PARK => {
                self.top().add(block, mask);
                self.top().parked.push(block);
                return Settled::Here;
            }
            native::LEAVE => {
                self.top().add(block, mask);
                self.become_independent(program, machine);
                return Settled::Elsewhere;
            }
            native::FAULT => {
                let ins = &code.ins[back.ins as usize];
                return Settled::Stopped(fault(code, machine, ins.imm, ins.line));
            }
            _ => {}
        }
        match self.terminate(program, code, machine, control, block, mask) {
            Next::Run(to, lanes) => self.stack[depth - 1].add(to, lanes),
            Next::Choose => {}
            Next::Stop => {
                return self.stop.take().map_or(Settled::Here, Settled::Stopped);
            }
        }
        if self.stack.len() == depth { Settled::Here } else { Settled::Elsewhere }
    }

    /// The function on top has nobody to run: it is over, or its lanes wait.
    fn nothing_pending(
        &mut self,
        program: &Arc<Program>,
        machine: &mut Machine<'_>,
    ) -> Option<Stop> {
        let depth = self.stack.len();
        let top = &self.stack[depth - 1];
        if top.live != 0 {
            return Some(Stop::Barrier);
        }
        if depth == 1 {
            return Some(Stop::Finished);
        }
        let Some(callee) = self.stack.pop() else { return Some(Stop::Finished) };
        let caller = &mut self.stack[depth - 2];
        let back = callee.entered & caller.live;
        let call = &program.code(caller.code).calls[callee.site as usize];
        let (from, to) = (callee.frame, caller.frame);
        for ((at, bytes), (result, room)) in
            program.code(callee.code).results.iter().zip(&call.results)
        {
            copy_local(
                machine,
                back,
                from + u64::from(*at),
                to + u64::from(*result),
                *bytes.min(room),
            );
        }
        if back != 0 {
            caller.add(callee.next, back);
        }
        program.recycle(callee.file, callee.code);
        None
    }

    fn terminate(
        &mut self,
        program: &Arc<Program>,
        code: &Code,
        machine: &mut Machine<'_>,
        control: &Control,
        block: u32,
        mask: u32,
    ) -> Next {
        let b = &code.blocks[block as usize];
        match &b.term {
            CodeTerm::Jump(to) => self.go(program, machine, control, block, *to, mask),
            CodeTerm::Branch { predicate, flip, taken, other } => {
                // SAFETY: the decoder gave a predicate of this file.
                let p = unsafe { read_pred(machine, *predicate) } ^ flip;
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
            CodeTerm::Barrier(barrier) => self.barrier(code, machine, barrier, mask, b.line),
            CodeTerm::Pause { next } => {
                self.top().add(*next, mask);
                self.patience = 0;
                self.lose_patience(program, machine, *next, true)
            }
        }
    }

    /// Stops the warp.
    fn halt(&mut self, stop: Stop) -> Next {
        self.stop = Some(stop);
        Next::Stop
    }

    fn top(&mut self) -> &mut Activation {
        let depth = self.stack.len() - 1;
        &mut self.stack[depth]
    }

    /// All lanes of the group go to one target.
    fn go(
        &mut self,
        program: &Arc<Program>,
        machine: &mut Machine<'_>,
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
            let top = self.top();
            let b = &program.code(top.code).blocks[from as usize];
            let spins = b.spins;
            self.patience -= b.cost;
            if control.yield_requested() {
                self.top().add(to, mask);
                return self.halt(Stop::Asked);
            }
            if self.patience <= 0 {
                self.top().add(to, mask);
                return self.lose_patience(program, machine, to, spins);
            }
        }
        let top = self.top();
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
        machine: &mut Machine<'_>,
        control: &Control,
        from: u32,
        parts: &[(u32, u32)],
    ) -> Next {
        let independent = self.top().code != CodeId::Entry;
        if independent && let Some(((first, mask), rest)) = parts.split_first() {
            for (to, lanes) in rest {
                if *to >= RETURN {
                    self.leave(machine, *to, *lanes);
                } else {
                    self.top().add(*to, *lanes);
                }
            }
            return self.go(program, machine, control, from, *first, *mask);
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
            let b = &program.code(self.top().code).blocks[from as usize];
            let spins = b.spins;
            self.patience -= b.cost;
            if control.yield_requested() {
                return self.halt(Stop::Asked);
            }
            if self.patience <= 0 {
                return self.lose_patience(program, machine, to, spins);
            }
        }
        Next::Choose
    }

    /// The group that runs has had its turn: others of the warp, and other warps, get theirs.
    fn lose_patience(
        &mut self,
        program: &Arc<Program>,
        machine: &mut Machine<'_>,
        at: u32,
        spins: bool,
    ) -> Next {
        let top = self.top();
        let others = top.pending.iter().enumerate().any(|(b, m)| b as u32 != at && *m != 0);
        if !(spins && others) {
            self.patience = PATIENCE;
            return self.halt(Stop::Turn);
        }
        if top.code == CodeId::Entry {
            self.become_independent(program, machine);
        }
        self.patience = INDEPENDENT_PATIENCE * (PATIENCE / SPIN_PATIENCE);
        self.rotate_from = Some(at);
        self.halt(Stop::Turn)
    }

    /// Moves the kernel to the form that allows any order of blocks.
    fn become_independent(&mut self, program: &Arc<Program>, machine: &mut Machine<'_>) {
        let to = program.code(CodeId::Independent);
        let mut file = program.file(CodeId::Independent);
        let depth = self.stack.len() - 1;
        let top = &mut self.stack[depth];
        let pending = top.pending.iter().enumerate().map(|(b, m)| (b, *m)).filter(|(_, m)| *m != 0);
        let waiting =
            self.waiting.iter().filter(|w| w.frame == depth).map(|w| (w.next as usize, w.mask));
        for (block, mask) in pending.chain(waiting) {
            let from = program.code(top.code);
            for reg in &from.blocks[block].live_in {
                let (from, to) = (from.places[reg.index()], to.places[reg.index()]);
                file.adopt(&top.file, from, to, mask);
            }
        }
        let old = std::mem::replace(&mut top.file, file);
        let code = std::mem::replace(&mut top.code, CodeId::Independent);
        machine.regs = top.file.base();
        program.recycle(old, code);
    }

    /// Lanes leave the function, or end.
    fn leave(&mut self, machine: &mut Machine<'_>, how: u32, mask: u32) {
        let depth = self.stack.len();
        if how == EXIT {
            self.stack.iter_mut().for_each(|a| a.live &= !mask);
        } else {
            self.stack[depth - 1].live &= !mask;
        }
        machine.live = self.stack[depth - 1].live;
        // Lanes that waited for these wait no longer.
        self.stack[depth - 1].parked.clear();
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one terminator")]
    fn call(
        &mut self,
        program: &Arc<Program>,
        code: &Code,
        machine: &mut Machine<'_>,
        block: u32,
        site: u32,
        next: u32,
        mask: u32,
    ) -> Next {
        let line = code.blocks[block as usize].line;
        let call = &code.calls[site as usize];
        // One callee at a time: the others' lanes come back here.
        let (callee, lanes_here) = match call.direct {
            Some(number) => (number, mask),
            None => {
                let lane = mask.trailing_zeros();
                let target = lane_u64(machine, call.indirect, lane);
                let same = lanes(mask)
                    .filter(|l| lane_u64(machine, call.indirect, *l) == target)
                    .fold(0, |m, l| m | 1u32 << l);
                let number = target.wrapping_sub(FUNCTION_BASE) / 16;
                let known = target >= FUNCTION_BASE && target.is_multiple_of(16);
                match u32::try_from(number) {
                    Ok(number) if known => (number, same),
                    _ => {
                        machine.fail(lane, FaultKind::InvalidPc { target });
                        return self.halt(fault(code, machine, 0, line));
                    }
                }
            }
        };
        if !program.has_function(callee) {
            let target = FUNCTION_BASE + 16 * u64::from(callee);
            machine.fail(mask.trailing_zeros(), FaultKind::InvalidPc { target });
            return self.halt(fault(code, machine, 0, line));
        }
        let function = program.code(CodeId::Function(callee));
        let depth = self.stack.len();
        let frame = self.stack[depth - 1].frame;
        let at = frame + u64::from(code.frame_bytes);
        let end = at + u64::from(function.frame_bytes);
        if depth >= CALL_DEPTH_MAX || end > program.local_bytes {
            machine.fail(mask.trailing_zeros(), FaultKind::StackOverflow);
            return self.halt(fault(code, machine, 0, line));
        }
        for ((from, bytes), (to, room)) in call.args.iter().zip(&function.params) {
            let (from, to) = (frame + u64::from(*from), at + u64::from(*to));
            copy_local(machine, lanes_here, from, to, *bytes.min(room));
        }
        let rest = mask & !lanes_here;
        if rest != 0 {
            // An indirect call stands alone in its block: they make it again.
            self.top().add(block, rest);
        }
        let mut activation = Activation::new(program, CodeId::Function(callee), lanes_here, at);
        activation.site = site;
        activation.next = next;
        self.stack.push(activation);
        Next::Choose
    }

    fn barrier(
        &mut self,
        code: &Code,
        machine: &mut Machine<'_>,
        barrier: &BarrierTerm,
        mask: u32,
        line: u32,
    ) -> Next {
        let lane = mask.trailing_zeros();
        let number = lane_u32(machine, barrier.barrier, lane);
        let count = lane_u32(machine, barrier.count, lane);
        if number >= super::block::BARRIERS as u32 {
            machine.fail(lane, FaultKind::Trap);
            return self.halt(fault(code, machine, 0, line));
        }
        if barrier.op == BarrierOp::Arrive {
            self.arrival = Some((number, count));
            self.top().add(barrier.next, mask);
            return self.halt(Stop::Arrived);
        }
        // SAFETY: the decoder gave a predicate of this file.
        let votes = barrier.predicate.map_or(0, |p| unsafe { read_pred(machine, p) });
        let votes = if barrier.negated { !votes } else { votes } & mask;
        self.waiting.push(Waiting {
            frame: self.stack.len() - 1,
            mask,
            barrier: number,
            count,
            votes,
            op: barrier.op,
            dst: barrier.dst,
            next: barrier.next,
            announced: false,
        });
        Next::Choose
    }

    /// The barrier is complete: its lanes go on, with the reduction's result.
    pub(super) fn release(&mut self, program: &Arc<Program>, barrier: u32, outcome: Reduction) {
        let mut index = 0;
        while index < self.waiting.len() {
            if self.waiting[index].barrier != barrier || !self.waiting[index].announced {
                index += 1;
                continue;
            }
            let w = self.waiting.swap_remove(index);
            let activation = &mut self.stack[w.frame];
            if let Some(place) = w.dst.map(|r| program.code(activation.code).places[r.index()]) {
                let value = match w.op {
                    BarrierOp::RedAnd => u32::from(outcome.all),
                    BarrierOp::RedOr => u32::from(outcome.any),
                    _ => outcome.count,
                };
                activation.file.put(place, w.mask, value);
            }
            activation.add(w.next, w.mask & activation.live);
        }
    }
}

/// What a barrier's predicates amounted to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduction {
    /// True in all threads.
    pub(super) all: bool,
    /// True in any.
    pub(super) any: bool,
    /// True in this many.
    pub(super) count: u32,
}

fn lane_u32(machine: &Machine<'_>, offset: u32, lane: u32) -> u32 {
    // SAFETY: terminators' operands are 32-bit registers of 32 lanes in the running file.
    unsafe { machine.regs.add(offset as usize).cast::<u32>().add(lane as usize).read() }
}

fn lane_u64(machine: &Machine<'_>, offset: u32, lane: u32) -> u64 {
    // SAFETY: an indirect callee is a 64-bit register of 32 lanes in the running file.
    unsafe { machine.regs.add(offset as usize).cast::<u64>().add(lane as usize).read() }
}

/// Copies within each lane's local memory. Both ranges were laid out inside it.
fn copy_local(machine: &mut Machine<'_>, mask: u32, from: u64, to: u64, bytes: u32) {
    if let Some(shadow) = &mut machine.check {
        shadow.copy_local((machine.warp, machine.local_bytes), mask, from, to, bytes);
    }
    for lane in lanes(mask) {
        let base = u64::from(lane) * machine.local_bytes;
        debug_assert!(from.max(to) + u64::from(bytes) <= machine.local_bytes);
        // SAFETY: frames lie in the lane's part of local memory, checked at the call.
        unsafe {
            let local = machine.local.add(base as usize);
            std::ptr::copy(local.add(from as usize), local.add(to as usize), bytes as usize);
        }
    }
}

/// The stop for the fault that the machine holds.
fn fault(code: &Code, machine: &mut Machine<'_>, imm: i64, line: u32) -> Stop {
    let mut fault = machine
        .fault
        .take()
        .unwrap_or(LaneFault { kind: FaultKind::Trap, lane: machine.mask.trailing_zeros() });
    if let FaultKind::UnsupportedInstruction { text } = &mut fault.kind {
        *text = code.texts.get(imm as usize).cloned().unwrap_or_default();
    }
    Stop::Fault(Box::new(fault), line)
}
