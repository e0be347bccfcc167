//! Return to lockstep: a warp that ran its lanes in any order goes back to the code for lockstep,
//! which may be native, once all of its lanes are at the start of one block.
//!
//! What that code keeps once for all lanes must be the same in all of them. That is nearly always
//! so; where it is not, as after lanes read a word of memory at different times, the warp stays.

use crate::handler_context::{HandlerContext, Step};
use crate::run::program::{CodeId, Program};
use crate::run::warp::Warp;
use crate::run::warp::calls::KERNEL;
use std::sync::Arc;

/// Occasions passed over after a return that would have failed.
const FAILED_WAIT: u32 = 16;
/// Most that are passed over before a warp that leaves lockstep again and again goes back.
const WAIT_MAX: u32 = 1 << 12;

/// When a warp may go back.
#[derive(Debug, Default)]
pub(super) struct ReturnToLockstep {
    /// Occasions to pass over.
    wait: u32,
    /// As many as were passed over the last time, and some.
    next_wait: u32,
    /// First and last block of the loop in which lanes spun when the warp left lockstep: there they
    /// stay as they are.
    pub(super) spun_in: Option<(u32, u32)>,
}

impl ReturnToLockstep {
    /// The warp has left lockstep. The first time it may go back at once, then ever later: lanes that take
    /// a lock again and again do better apart.
    pub(super) fn left(&mut self) {
        self.wait = self.next_wait;
        self.next_wait = (2 * self.next_wait + 1).min(WAIT_MAX);
    }

    /// A value of it is none that code for lockstep can hold.
    pub(super) fn fails(&mut self) {
        self.wait = self.wait.max(FAILED_WAIT);
    }
}

impl Warp {
    /// Lanes are about to run `block`: if that is all of them, in code for any order, the warp goes
    /// back to lockstep. True if it did.
    pub(super) fn goes_back_to_lockstep(
        &mut self,
        program: &Arc<Program>,
        machine: &mut HandlerContext<'_>,
        block: u32,
    ) -> bool {
        let [kernel] = &mut self.activations[..] else { return false };
        let converged = kernel.code == CodeId::Independent
            && kernel.pending[block as usize] == kernel.live
            && self.waiting.is_empty()
            && !self.return_to_lockstep.spun_in.is_some_and(|(a, b)| (a..=b).contains(&block));
        if !converged {
            return false;
        }
        if self.return_to_lockstep.wait > 0 {
            self.return_to_lockstep.wait -= 1;
            return false;
        }
        let (from, to) = (program.code(CodeId::Independent), program.code(CodeId::Entry));
        let (mask, mut file) = (kernel.live, program.file(CodeId::Entry));
        // What the launch and the block decide is computed anew.
        (machine.regs, machine.mask) = (file.registers(), u32::MAX);
        let prologue = to.ins[to.prologue.clone()].iter();
        // SAFETY: the code was decoded for this target, the file is one of its function, and the
        // machine's spaces are those of this block and warp.
        let computed =
            prologue.into_iter().all(|ins| unsafe { (ins.run)(machine, ins) } == Step::Next);
        let start = &to.blocks[block as usize];
        let united = computed
            && start.live_in.iter().all(|reg| {
                let (from, to) = (from.places[reg.index()], to.places[reg.index()]);
                file.unite(&kernel.file, from, to, mask)
            });
        if !united {
            machine.regs = kernel.file.registers();
            machine.fault = None;
            program.recycle(file, CodeId::Entry);
            self.return_to_lockstep.fails();
            return false;
        }
        for (companion, of) in &start.companions_in {
            let (from, here) = (from.places[of.index()], to.places[of.index()]);
            file.complete(&kernel.file, from, here, to.places[companion.index()], mask);
        }
        let kernel = &mut self.activations[KERNEL];
        kernel.file = file;
        kernel.code = CodeId::Entry;
        kernel.prepared = true;
        machine.regs = kernel.file.registers();
        self.spin.restart();
        true
    }
}
