//! Barriers of a block and a cluster, seen from a warp. Warps arrive; the block counts.

use crate::decode::{BarrierTerm, Code};
use crate::handler_context::HandlerContext;
use crate::ops::map::read_pred;
use crate::run::block::BARRIERS;
use crate::run::program::Program;
use crate::run::warp::calls::KERNEL;
use crate::run::warp::{Next, Stop, Warp, fault, lane_u32};
use simt::ir::Reg;
use simt::ir::op::BarrierOp;
use simt::kernel::FaultKind;
use std::sync::Arc;

/// What stands for the cluster's barrier among those of the block.
pub(crate) const CLUSTER_BARRIER: u32 = u32::MAX;

/// Lanes that wait at a barrier.
pub(crate) struct Waiting {
    /// The function they are in.
    pub(super) activation: usize,
    /// The lanes.
    pub(crate) mask: u32,
    /// Which barrier.
    pub(crate) barrier: u32,
    /// Threads it expects; 0 is the whole block.
    pub(crate) count: u32,
    /// Values of the predicate.
    pub(crate) votes: u32,
    pub(crate) op: BarrierOp,
    pub(super) dst: Option<Reg>,
    pub(super) next: u32,
    /// The warp has arrived there.
    pub(crate) announced: bool,
    /// Line of the PTX.
    pub(crate) line: u32,
}

/// What a barrier's predicates amounted to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduction {
    /// True in all threads.
    pub(crate) all: bool,
    /// True in any.
    pub(crate) any: bool,
    /// True in this many.
    pub(crate) count: u32,
}

impl Warp {
    pub(super) fn barrier(
        &mut self,
        code: &Code,
        machine: &mut HandlerContext<'_>,
        barrier: &BarrierTerm,
        mask: u32,
        line: u32,
    ) -> Next {
        let lane = mask.trailing_zeros();
        let number = lane_u32(machine, barrier.barrier, lane);
        let count = lane_u32(machine, barrier.count, lane);
        if number >= BARRIERS as u32 {
            machine.fail(lane, FaultKind::Trap);
            return self.halt(fault(code, machine, 0, line));
        }
        // An arrival waits for the other lanes of the warp, wherever they are: it is the warp's.
        if barrier.op == BarrierOp::Arrive && mask == self.activations[KERNEL].live {
            self.arrival = Some((number, count, line));
            self.top().add(barrier.next, mask);
            return self.halt(Stop::Arrived);
        }
        let votes = barrier.predicate.map_or(0, |p| read_pred(machine, p));
        let votes = if barrier.negated { !votes } else { votes } & mask;
        self.waiting.push(Waiting {
            activation: self.current,
            mask,
            barrier: number,
            count,
            votes,
            op: barrier.op,
            dst: barrier.dst,
            next: barrier.next,
            announced: false,
            line,
        });
        Next::Choose
    }

    /// Lanes arrive at the cluster's barrier, or wait until it opens.
    pub(super) fn cluster_barrier(&mut self, barrier: &BarrierTerm, mask: u32) -> Next {
        let mut waits = 0;
        if barrier.op == BarrierOp::ClusterArrive {
            self.at_cluster |= mask;
        } else {
            // It has opened already for those whose arrival has been taken back.
            waits = mask & self.at_cluster;
        }
        if mask & !waits != 0 {
            self.top().add(barrier.next, mask & !waits);
        }
        if waits != 0 {
            self.waiting.push(Waiting {
                activation: self.current,
                mask: waits,
                barrier: CLUSTER_BARRIER,
                count: 0,
                votes: 0,
                op: barrier.op,
                dst: None,
                next: barrier.next,
                announced: false,
                line: 0,
            });
        }
        Next::Choose
    }

    /// The warp has arrived wherever its lanes wait: those that only arrive go on. True if there were any.
    pub(crate) fn leave_arrivals(&mut self) -> bool {
        let before = self.waiting.len();
        let arrived = |w: &mut Waiting| w.op == BarrierOp::Arrive && w.announced;
        for w in self.waiting.extract_if(.., arrived) {
            let activation = &mut self.activations[w.activation];
            activation.add(w.next, w.mask & activation.live);
        }
        self.waiting.len() < before
    }

    /// Some of its lanes have arrived at a barrier and wait there.
    pub(crate) fn waits_at(&self, barrier: u32) -> bool {
        self.waiting.iter().any(|w| w.barrier == barrier && w.announced)
    }

    /// True once all of its lanes that have not exited have arrived at the cluster's barrier.
    pub(crate) fn arrives_at_cluster(&mut self) -> bool {
        let live = self.activations.first().map_or(0, |entry| entry.live);
        let all = self.at_cluster != 0 && live & !self.at_cluster == 0;
        all && !std::mem::replace(&mut self.counted_at_cluster, true)
    }

    /// It has, and the barrier has not opened since.
    pub(crate) fn has_arrived_at_cluster(&self) -> bool {
        self.counted_at_cluster
    }

    /// Some of its lanes wait for the cluster.
    pub(crate) fn waits_for_cluster(&self) -> bool {
        self.waiting.iter().any(|w| w.barrier == CLUSTER_BARRIER)
    }

    /// The cluster's barrier has opened: arrivals are taken back, and lanes that waited go on; true
    /// if there were any.
    pub(crate) fn leave_cluster_barrier(&mut self) -> bool {
        self.at_cluster = 0;
        self.counted_at_cluster = false;
        let before = self.waiting.len();
        let mut index = 0;
        while index < self.waiting.len() {
            if self.waiting[index].barrier == CLUSTER_BARRIER {
                let w = self.waiting.swap_remove(index);
                let activation = &mut self.activations[w.activation];
                activation.add(w.next, w.mask & activation.live);
            } else {
                index += 1;
            }
        }
        self.waiting.len() < before
    }

    /// The barrier is complete: its lanes go on, with the reduction's result.
    pub(crate) fn release(&mut self, program: &Arc<Program>, barrier: u32, outcome: Reduction) {
        let mut index = 0;
        while index < self.waiting.len() {
            if self.waiting[index].barrier != barrier || !self.waiting[index].announced {
                index += 1;
                continue;
            }
            let w = self.waiting.swap_remove(index);
            let activation = &mut self.activations[w.activation];
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
