//! Address analysis: the shapes of the addresses of a function's loads and stores, which stand in the
//! vector IR ([`crate::ir::address::AddressShape`]) for every tier to read.
//!
//! Divergence analysis has found uniform and affine addresses before: they stand in the sources. Here are
//! those of lanes: those that share their offsets (`shared_offsets`), guessed ones
//! (`lane_offsets`), bounded ones (`range`); `growth` is asked by tiers that run a loop lane by lane.

pub mod growth;
mod lane_offsets;
mod range;
mod shared_offsets;
mod terms;

use crate::analysis::vector_cfg::writers;
use crate::ir::address::BlockAddresses;
use crate::ir::op::{Op, Space};
use crate::ir::vector::{Source, VectorFunction, VectorInst};
use terms::Terms;

/// True if there may be more to know of an instruction's addresses than its source says.
fn is_open(inst: &VectorInst) -> bool {
    let side_by_side = |stride: i64| match inst.op {
        Op::Load(access) | Op::Store(access) => {
            stride == i64::from(access.bytes) * i64::from(access.count)
        }
        _ => true,
    };
    let lanes = match inst.src.first() {
        Some(Source::Vector(_)) => true,
        Some(Source::Affine(_, stride)) => !side_by_side(*stride),
        _ => false,
    };
    !inst.uniform && lanes && inst.op.address_space().is_some_and(|s| s != Space::Param)
}

/// Writes the shapes of all addresses into a function.
pub(crate) fn annotate(f: &mut VectorFunction) {
    if !f.blocks.iter().any(|b| b.insts.iter().any(is_open)) {
        return;
    }
    let guesses = lane_offsets::of_addresses(f);
    let writers = writers(f);
    let mut found: Vec<BlockAddresses> = Vec::with_capacity(f.blocks.len());
    for (block, b) in f.blocks.iter().enumerate() {
        let mut addresses = BlockAddresses::default();
        if b.insts.iter().any(is_open) {
            let mut terms = Terms::default();
            shared_offsets::find(f, block, &mut terms, &mut addresses);
            addresses.terms = terms.take();
            for (index, inst) in b.insts.iter().enumerate().filter(|(_, inst)| is_open(inst)) {
                if let Some(in_range) = range::of_address(f, &writers, (block, index), inst) {
                    addresses.shape_mut(index).in_range = Some(in_range);
                }
            }
        }
        found.push(addresses);
    }
    for ((block, index), guess) in guesses {
        if !is_open(&f.blocks[block].insts[index]) {
            continue;
        }
        found[block].shape_mut(index).guess = Some(Box::new(guess));
    }
    for (block, addresses) in f.blocks.iter_mut().zip(found) {
        block.addresses = addresses;
    }
}
