//! Use weights: what keeping each register in a machine register is worth (spill weights), with the
//! live intervals that it must be kept for.

use simt::analysis::live_intervals::LiveIntervals;
use simt::analysis::vector_cfg::{back_edges, result, sources, terminator_sources};
use simt::ir::vector::VectorFunction;

/// Where blocks are, and what registers need.
pub(crate) struct UseWeights {
    /// Where values must be kept.
    pub(crate) kept: LiveIntervals,
    /// By register: uses and definitions, weighted by the loops they are in.
    pub(crate) by_register: Vec<f32>,
    /// By register: its value is kept where some block starts or ends. Most are not.
    pub(crate) between_blocks: Vec<bool>,
    /// By register: something reads it.
    pub(crate) read: Vec<bool>,
    /// By register: some instruction of a block, not only of the prologue, writes it.
    pub(crate) written: Vec<bool>,
}

/// What a loop weighs more than what is around it.
const LOOP_WEIGHT: f32 = 8.0;
/// Loops deeper than this weigh no more.
const DEPTH_MAX: u32 = 6;

impl UseWeights {
    /// Finds them.
    pub(crate) fn of(f: &VectorFunction) -> Self {
        let registers = f.classes.len();
        let kept = LiveIntervals::of(f);
        let between_blocks = (0..registers).map(|r| is_between_blocks(&kept, r)).collect();
        let mut weights = Self {
            kept,
            by_register: vec![0.0; registers],
            between_blocks,
            read: vec![false; registers],
            written: vec![false; registers],
        };
        weights.weigh(f, &back_edges(f));
        weights
    }

    fn weigh(&mut self, f: &VectorFunction, loops: &[(usize, usize)]) {
        // Several back-edges to one header are one loop, to the last of them.
        let mut latches: Vec<Option<usize>> = vec![None; f.blocks.len()];
        loops.iter().for_each(|(header, latch)| latches[*header] = Some(*latch));
        let mut ended = vec![0; f.blocks.len() + 1];
        let mut depth = 0u32;
        for (b, block) in f.blocks.iter().enumerate() {
            depth -= ended[b];
            if let Some(latch) = latches[b] {
                depth += 1;
                ended[latch + 1] += 1;
            }
            let weight = LOOP_WEIGHT.powi(depth.min(DEPTH_MAX) as i32);
            for check in &block.checks {
                self.by_register[check.reg.index()] += weight;
            }
            for inst in &block.insts {
                for r in sources(inst) {
                    self.read[r.index()] = true;
                    self.by_register[r.index()] += weight;
                }
                for d in &inst.dst {
                    self.by_register[d.reg.index()] += weight;
                    self.written[d.reg.index()] = true;
                }
            }
            for r in terminator_sources(f, &block.term) {
                self.read[r.index()] = true;
                self.by_register[r.index()] += weight;
            }
            if let Some(r) = result(&block.term) {
                self.written[r.index()] = true;
                self.by_register[r.index()] += weight;
            }
        }
    }
}

/// True if the register's value must be kept where some block starts or ends.
fn is_between_blocks(kept: &LiveIntervals, register: usize) -> bool {
    kept.of_register(register).iter().any(|s| {
        let block = kept.ends.partition_point(|end| *end < s.start);
        let starts_there = kept.starts.get(block).is_some_and(|start| s.start <= *start);
        starts_there || kept.ends.get(block).is_some_and(|end| s.end >= *end)
    })
}
