//! Block-level entry: all warps of a block in native code together, from barrier to barrier.
//!
//! Native code is left when a warp comes to something that it does not do, or when it is asked to yield.
//! Then every warp is put where it stands, in front of its code or at the barrier, and they take
//! turns as warps do; when a barrier has let all of them go on they enter together again. Not
//! earlier: a warp that waits for another one must not always be the first.

use crate::run::block::InterpretedBlock;
use crate::run::program::CodeId;
use crate::run::warp::Settled;
use crate::tier1_abi::{self, ASKED, FINISHED, Slot};
use simt::kernel::{Outcome, Worker};

impl InterpretedBlock {
    /// Runs all warps in native code, if there is such code for them and all are ready to enter.
    /// The outcome if there is one: the block goes on otherwise.
    pub(super) fn run_block_entry(
        &mut self,
        worker: &mut Worker<'_>,
        more: &mut u64,
    ) -> Option<Outcome> {
        if self.apart || !self.waiting.is_empty() || self.alive == 0 || self.account.is_some() {
            return None;
        }
        let program = self.environment.program.clone();
        let native = program.native()?;
        if !native.takes_all(self.environment.launch.params.len()) {
            return None;
        }
        self.apart = true;
        while self.next_warp < self.warps {
            let warp = self.start_warp();
            self.ready.push_back(warp);
        }
        let mut slots = self.take_slots()?;
        // Files of warps that have ended are not at hand for the next block.
        let blocks = if self.ready.len() == slots.len() { *more } else { 0 };
        let mut crew = std::mem::take(&mut self.ready);
        let control = worker.control;
        let code = program.code(CodeId::Entry);
        let mut machine = self.machine(worker, blocks);
        let before = machine.more;
        // SAFETY: the slots are of this block's warps, in the kernel's lockstep form; those of
        // warps that have ended have no lanes and cannot get any without further blocks.
        let back =
            unsafe { tier1_abi::enter_block(native, code, &mut machine, control, &mut slots) };
        *more -= u64::from(before - machine.more);
        let all = back.why == FINISHED || back.why == ASKED;
        let at = if all { None } else { crew.iter().position(|warp| warp.index == back.warp) };
        // WarpEntry again: what its turn has come to.
        let current = at.and_then(|at| crew.remove(at)).map(|mut warp| {
            machine.local = slots[back.warp as usize].local;
            let settled = warp.settle(&program, code, &mut machine, control, &back);
            (warp, settled)
        });
        self.index = machine.index;
        self.alive = u32::from(current.is_some());
        for mut warp in crew {
            let slot = &slots[warp.index as usize];
            let has_come = warp.index < back.warp && back.why != FINISHED;
            if slot.live == 0 {
                warp.put_slot(slot);
                self.spare.push(warp);
                continue;
            }
            self.alive += 1;
            if has_come {
                warp.wait_in_slot(slot);
                self.announce(&mut warp);
                self.waiting.push(warp);
            } else {
                warp.put_slot(slot);
                self.ready.push_back(warp);
            }
        }
        match current {
            None if self.alive == 0 => Some(Outcome::Finished),
            None => None,
            Some((warp, Settled::Stopped(stop))) => self.stopped(warp, stop, &mut 0),
            Some((warp, _)) => {
                self.ready.push_front(warp);
                None
            }
        }
    }

    /// Takes the warps that are ready out of where they stand; none if one of them cannot.
    fn take_slots(&mut self) -> Option<Vec<Slot>> {
        let mut slots = vec![Slot::ENDED; self.warps as usize];
        for at in 0..self.ready.len() {
            let index = self.ready[at].index;
            let lanes = self.lanes(index);
            if let Some(slot) = self.ready[at].take_slot(lanes) {
                slots[index as usize] = slot;
                continue;
            }
            for warp in self.ready.iter_mut().take(at) {
                warp.put_slot(&slots[warp.index as usize]);
            }
            return None;
        }
        Some(slots)
    }
}
