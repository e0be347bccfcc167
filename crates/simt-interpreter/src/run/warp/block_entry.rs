//! Block-level entry, seen from a warp: its slot among the warps of its block.

use crate::run::program::CodeId;
use crate::run::warp::{FUEL, Waiting, Warp};
use crate::tier1_abi::{START, Slot};
use simt::ir::op::BarrierOp;

impl Warp {
    /// Where it stands, if that can be said with one block: it is taken out of there.
    pub(crate) fn take_slot(&mut self, lanes: u32) -> Option<Slot> {
        let [top] = &mut self.activations[..] else { return None };
        let block = top.lowest;
        let simple = top.code == CodeId::Entry
            && self.waiting.is_empty()
            && self.at_cluster == 0
            && top.rotate_from.is_none()
            && top.parked.is_empty()
            && top.pending.get(block as usize) == Some(&top.live);
        if !simple {
            return None;
        }
        self.spin.restart();
        let top = &mut self.activations[0];
        top.take(block);
        debug_assert_eq!(top.lowest, u32::MAX);
        let block = if std::mem::replace(&mut top.prepared, true) { block } else { START };
        Some(Slot {
            regs: top.file.registers().base(),
            pending: top.pending.as_mut_ptr(),
            local: self.local.as_mut_ptr().cast(),
            live: top.live,
            block,
            lanes,
        })
    }

    /// Puts it where its slot says, not at its turn.
    pub(crate) fn put_slot(&mut self, slot: &Slot) {
        self.fuel = FUEL;
        let top = self.top();
        top.live = slot.live;
        top.prepared = slot.block != START;
        if slot.live != 0 {
            top.add(if top.prepared { slot.block } else { 0 }, slot.live);
        }
    }

    /// Makes it wait at the block's own barrier, behind which it goes on where its slot says.
    pub(crate) fn wait_in_slot(&mut self, slot: &Slot) {
        self.fuel = FUEL;
        self.top().live = slot.live;
        self.waiting.push(Waiting {
            activation: 0,
            mask: slot.live,
            barrier: 0,
            count: 0,
            votes: 0,
            op: BarrierOp::Sync,
            dst: None,
            next: slot.block,
            announced: false,
            line: 0,
        });
    }
}
