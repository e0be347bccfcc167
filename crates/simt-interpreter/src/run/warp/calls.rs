//! Calls and returns: lanes of a warp in different functions.
//!
//! The functions that lanes are in are a tree: the kernel is its root, and a call adds a branch.
//! Normally a callee runs until all of its lanes have returned, so that callers stay together. When
//! its lanes wait, for a barrier or spinning on something that other lanes of the warp must do,
//! another function's turn comes; the kernel's code must allow any order of lanes then.

use crate::decode::{Code, EXIT};
use crate::handler_context::HandlerContext;
use crate::ops::memory::lanes;
use crate::run::program::{CodeId, Program};
use crate::run::warp::activation::Activation;
use crate::run::warp::{Next, Stop, Warp, fault};
use simt::ir::vector::FUNCTION_BASE;
use simt::kernel::FaultKind;
use std::sync::Arc;

/// Least bytes of a stack that a call takes on hardware: as many calls may be nested as the
/// launch's limit has room for.
const CALL_BYTES_MIN: u32 = 16;
/// Nested calls of a thread that are always good.
const CALL_DEPTH_MIN: u32 = 512;
/// Where the kernel itself is among the activations.
pub(super) const KERNEL: usize = 0;

impl Warp {
    /// The next function after the current one that has lanes to run, if another one has.
    pub(super) fn other_to_run(&self) -> Option<usize> {
        let (me, n) = (self.current, self.activations.len());
        (me + 1..n).chain(0..me).find(|index| self.activations[*index].has_pending())
    }

    /// A function with lanes that do not wait for others to come, if one has some: whom all lanes of
    /// the current one wait for may be there, or have returned from there.
    pub(super) fn runnable(
        &mut self,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
    ) -> Option<usize> {
        self.send_all_back(program, machine);
        let (me, n) = (self.current, self.activations.len());
        (me..n).chain(0..me).find(|index| self.activations[*index].has_runnable())
    }

    /// Lanes of another function run next, before those of this one are back.
    pub(super) fn go_on_with(
        &mut self,
        other: usize,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
    ) {
        if self.activations[other].code == CodeId::Entry {
            self.become_independent(program, machine);
        }
        self.current = other;
    }

    /// Lets the lanes go on that have returned from a function in which others still are.
    pub(super) fn send_all_back(
        &mut self,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
    ) {
        for callee in KERNEL + 1..self.activations.len() {
            self.send_back(callee, program, machine);
        }
    }

    /// Lets the lanes that have returned from a function go on in its caller.
    fn send_back(
        &mut self,
        index: usize,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
    ) {
        let callee = &self.activations[index];
        let caller = &self.activations[callee.parent];
        let back = callee.entered & !callee.live & caller.live;
        if back == 0 {
            return;
        }
        let call = &program.code(caller.code).calls[callee.site as usize];
        for ((at, bytes), (result, room)) in
            program.code(callee.code).results.iter().zip(&call.results)
        {
            let from = callee.frame + u64::from(*at);
            let to = caller.frame + u64::from(*result);
            copy_local(machine, back, from, to, *bytes.min(room));
        }
        let Activation { parent, next, .. } = *callee;
        self.activations[index].entered &= !back;
        self.activations[parent].add(next, back);
    }

    /// No lane can run in the current function: it is over, or its lanes wait.
    pub(super) fn nothing_pending(
        &mut self,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
    ) -> Option<Stop> {
        let me = self.current;
        if self.activations[me].live != 0 {
            self.send_all_back(program, machine);
            let Some(other) = self.other_to_run() else { return Some(Stop::Barrier) };
            self.go_on_with(other, program, machine);
            return None;
        }
        if me == KERNEL {
            return Some(Stop::Finished);
        }
        self.send_back(me, program, machine);
        self.current = self.activations[me].parent;
        // What is over and not last stays until what is behind it is over too.
        self.activations[me].over = true;
        while self.activations.len() > 1 && self.activations.last().is_some_and(|a| a.over) {
            self.activations.pop();
        }
        None
    }

    /// Moves the kernel to the form that allows any order of blocks.
    pub(super) fn become_independent(
        &mut self,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
    ) {
        let to = program.code(CodeId::Independent);
        let mut file = program.file(CodeId::Independent);
        let kernel = &self.activations[KERNEL];
        let pending = kernel.pending.iter().copied().enumerate();
        let waiting = self.waiting.iter().filter(|w| w.activation == KERNEL);
        let called = self.activations[1..].iter().filter(|a| a.parent == KERNEL);
        let places = pending
            .chain(waiting.map(|w| (w.next as usize, w.mask)))
            .chain(called.map(|a| (a.next as usize, a.entered)));
        let from = program.code(kernel.code);
        for (block, mask) in places.filter(|(_, mask)| *mask != 0) {
            for reg in &from.blocks[block].live_in {
                let (from, to) = (from.places[reg.index()], to.places[reg.index()]);
                file.adopt(&kernel.file, from, to, mask);
            }
        }
        self.spin.advance();
        self.return_to_lockstep.left();
        let kernel = &mut self.activations[KERNEL];
        let old = std::mem::replace(&mut kernel.file, file);
        let code = std::mem::replace(&mut kernel.code, CodeId::Independent);
        if self.current == KERNEL {
            machine.regs = kernel.file.registers();
        }
        program.recycle(old, code);
    }

    /// Lanes leave the function, or end.
    pub(super) fn leave(&mut self, machine: &mut HandlerContext<'_>, how: u32, mask: u32) {
        if how == EXIT {
            self.activations.iter_mut().for_each(|a| a.live &= !mask);
        } else {
            self.top().live &= !mask;
        }
        let top = self.top();
        // Lanes that waited for these wait no longer.
        top.parked.clear();
        machine.live = top.live;
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one terminator")]
    pub(super) fn call(
        &mut self,
        program: &Arc<Program>,
        code: &Code,
        machine: &mut HandlerContext<'_>,
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
                let target = machine.regs.lane::<u64>(call.indirect, lane);
                let same = lanes(mask)
                    .filter(|l| machine.regs.lane::<u64>(call.indirect, *l) == target)
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
        let Activation { frame, depth, .. } = self.activations[self.current];
        let at = frame + u64::from(code.frame_bytes);
        let end = at + u64::from(function.frame_bytes);
        let depth_max = (machine.block.launch.stack_bytes / CALL_BYTES_MIN).max(CALL_DEPTH_MIN);
        if depth + 1 >= depth_max as usize || end > machine.local_bytes - machine.block.stack_bytes
        {
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
        activation.parent = self.current;
        activation.depth = depth + 1;
        activation.site = site;
        activation.next = next;
        self.current = self.activations.len();
        self.activations.push(activation);
        Next::Choose
    }
}

/// Copies within each lane's local memory. Both ranges were laid out inside it.
fn copy_local(machine: &mut HandlerContext<'_>, mask: u32, from: u64, to: u64, bytes: u32) {
    if let Some(account) = machine.check {
        account.copy_local((machine.warp, machine.local_bytes), mask, (from, to), bytes);
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
