//! Asynchronous copies: loads of 16 bytes a lane whose values go to shared memory and nowhere else.
//!
//! `cp.async` is lowered to a load and a store, so that every tier has it; a tier that moves the bytes
//! by other means finds the pair here.

use super::use_counts::UseCounts;
use crate::ir::address::BlockAddresses;
use crate::ir::op::{Op, Space, Width};
use crate::ir::vector::{Source, VectorFunction, VectorInst};

/// Bytes that a lane copies.
const BYTES: u64 = 16;

/// Finds the copies of a block.
pub(super) fn find(
    f: &VectorFunction,
    block: usize,
    counts: &mut Option<UseCounts>,
    found: &mut BlockAddresses,
) {
    let pairs = f.blocks[block].insts.windows(2).enumerate();
    for (index, pair) in pairs.filter(|(_, pair)| is_pair(f, &pair[0], &pair[1])) {
        let counts = counts.get_or_insert_with(|| UseCounts::of(f));
        if pair[0].dst.iter().all(|d| counts.reads[d.reg.index()] == 1) {
            found.copies.insert(index);
        }
    }
}

/// True if a load is of 16 bytes a lane from global memory, and a store puts them into shared memory, which is
/// apart, so that lanes may take turns.
fn is_pair(f: &VectorFunction, load: &VectorInst, store: &VectorInst) -> bool {
    let (Op::Load(from) | Op::LoadPrefix(from), Op::Store(to)) = (&load.op, &store.op) else {
        return false;
    };
    let wide = load.src[0].registers().all(|r| f.classes[r.index()].width() == Some(Width::W64));
    let aligned = matches!(load.src[1], Source::Imm(offset) if offset % BYTES == 0);
    let plain = from.space == Space::Global && wide && load.guard.is_none() && aligned;
    let rows = from.is_row() && to.space == Space::Shared && to.is_row();
    let values = load.dst.iter().map(|d| Source::Vector(d.reg));
    plain && rows && store.src.len() == 6 && values.eq(store.src[2..].iter().copied())
}
