//! Cluster: blocks that run together and reach each other's shared memory.
//!
//! One worker runs all of them, in turns, so what they share needs no order but that of their
//! turns. A block waits for the others where it comes to the cluster's barrier; whether that is
//! complete is decided here, between two turns.

use crate::run::block::InterpretedBlock;
use crate::run::program::InterpretedKernel;
use simt::kernel::{BlockRun, Dim3, Launch, Outcome, Wait, Worker};
use std::sync::Arc;

/// The shared memory of one block of a cluster.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) shared: *mut u8,
    pub(crate) shared_bytes: u64,
}

// SAFETY: the memory is the block's own, which is `Send`; only the worker that runs the cluster at
// the time touches it.
unsafe impl Send for Peer {}
// SAFETY: as above.
unsafe impl Sync for Peer {}

/// The blocks of a cluster, by their rank.
pub(crate) struct InterpretedCluster {
    launch: Arc<Launch>,
    blocks: Vec<InterpretedBlock>,
}

impl InterpretedCluster {
    /// The cluster whose first block has this index.
    pub(crate) fn new(kernel: &InterpretedKernel, launch: Arc<Launch>, first: Dim3) -> Self {
        let count = launch.cluster_extents().count() as u32;
        let mut blocks: Vec<InterpretedBlock> = (0..count)
            .map(|rank| kernel.block(launch.clone(), launch.block_of_cluster(first, rank)))
            .collect();
        let peers: Arc<[Peer]> = blocks.iter_mut().map(InterpretedBlock::peer).collect();
        let accounts = blocks.first().and_then(|first| first.accounts(count));
        let mut accounts = accounts.into_iter().flatten();
        for block in &mut blocks {
            block.join(peers.clone(), accounts.next());
        }
        Self { launch, blocks }
    }

    /// Lets all warps on if all have come to the cluster's barrier; false if not.
    fn open_barrier(&mut self) -> bool {
        let arrived: u32 = self.blocks.iter().map(InterpretedBlock::arrived_at_cluster).sum();
        let alive: u32 = self.blocks.iter().map(InterpretedBlock::warps_alive).sum();
        let complete = arrived > 0 && arrived == alive;
        if complete {
            if let Some(account) = self.blocks.first().and_then(InterpretedBlock::account) {
                account.open_cluster(self.blocks.len() as u32);
            }
            self.blocks.iter_mut().for_each(InterpretedBlock::open_cluster_barrier);
        }
        complete
    }
}

impl BlockRun for InterpretedCluster {
    fn resume(&mut self, worker: &mut Worker<'_>) -> Outcome {
        loop {
            let mut progress = false;
            let sms = std::iter::once(worker.sm).chain(worker.other_sms.iter().copied());
            // A block without a place is with the first.
            let sms = sms.chain(std::iter::repeat(worker.sm));
            let alive = |(block, _): &(&mut InterpretedBlock, u32)| block.warps_alive() > 0;
            for (block, sm) in self.blocks.iter_mut().zip(sms).filter(alive) {
                match block.resume(&mut worker.on_sm(sm)) {
                    Outcome::Finished => progress = true,
                    Outcome::Yielded => {}
                    fault @ Outcome::Fault(_) => return fault,
                }
                if worker.control.yield_requested() {
                    return Outcome::Yielded;
                }
            }
            progress |= self.open_barrier();
            let mut left = self.blocks.iter().filter(|block| block.warps_alive() > 0).peekable();
            match left.peek() {
                None => return Outcome::Finished,
                Some(_) if progress => {}
                Some(first) => {
                    let deadlock = first.deadlock();
                    let stuck = left.all(InterpretedBlock::waits_for_cluster);
                    return if stuck { deadlock } else { Outcome::Yielded };
                }
            }
        }
    }

    fn waits(&self) -> Option<Wait> {
        let mut alive = self.blocks.iter().filter(|block| block.warps_alive() > 0);
        let waits = |block: &InterpretedBlock| block.waits_for_cluster() || block.waits().is_some();
        let all = alive.clone().all(waits);
        alive.find_map(|block| block.waits()).filter(|_| all)
    }

    fn restart(&mut self, first: Dim3) -> bool {
        let launch = &self.launch;
        let mut ranks = 0..;
        self.blocks
            .iter_mut()
            .zip(&mut ranks)
            .all(|(block, rank)| block.restart(launch.block_of_cluster(first, rank)))
    }
}
