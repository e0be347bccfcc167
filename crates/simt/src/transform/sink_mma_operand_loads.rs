//! Scheduling of matrix operands: their loads sink towards the products that read them.
//!
//! Programs load all operands of a slice, then multiply: a GPU's loads take long, and its other
//! warps multiply meanwhile. A processor that multiplies has time to load what the next products
//! want, but does not look so far ahead as to multiply while it still checks a slice's loads. So a
//! load comes a few sums ahead of its first product, and what makes only its address right in front
//! of it. Nothing that could change memory is between.
//!
//! Runs behind `group_mma_by_accumulator`, which brings the products of a sum together. The first instruction of a
//! block stays where it is: lanes may have to come together there.

use crate::ir::op::Op;
use crate::ir::{Function, Inst, Operand};

/// Sums, or pairs of them, that are made between a load and its first product: while they are, it is
/// made.
const AHEAD: usize = 1;
/// Instructions that a load is moved across at most, as products in `chains`.
const DISTANCE_MAX: usize = 1024;

/// Moves loads in all blocks.
pub(crate) fn run(f: &mut Function) {
    for block in &mut f.blocks {
        let insts = &block.insts;
        let is_load = |inst: &Inst| matches!(inst.op, Op::LoadMatrix { .. });
        if insts.iter().any(is_product) && insts.iter().any(is_load) {
            arrange(&mut block.insts);
        }
    }
}

fn arrange(insts: &mut [Inst]) {
    let mut moved = vec![false; insts.len()];
    for from in (1..insts.len()).rev() {
        let to = place(insts, &moved, from);
        if to > from + 1 {
            insts[from..to].rotate_left(1);
            moved[from..to].rotate_left(1);
            moved[to - 1] = true;
        }
    }
}

/// The instruction in front of which one is to be.
fn place(insts: &[Inst], moved: &[bool], from: usize) -> usize {
    let inst = &insts[from];
    let is_load = matches!(inst.op, Op::LoadMatrix { .. });
    if inst.guard.is_some() || inst.dst.is_empty() || (inst.op.has_effect() && !is_load) {
        return from;
    }
    let behind = insts.iter().enumerate().skip(from + 1).take(DISTANCE_MAX);
    let stops = |other: &Inst| {
        let memory = other.op.has_effect() && !matches!(other.op, Op::LoadMatrix { .. });
        is_load && memory && !is_product(other)
            || other.uses().chain(other.dst.iter().copied()).any(|r| inst.dst.contains(&r))
            || inst.uses().any(|r| other.dst.contains(&r))
    };
    let Some((end, other)) = behind.clone().find(|(_, other)| stops(other)) else { return from };
    let is_user = other.uses().any(|r| inst.dst.contains(&r));
    if !is_load {
        return if is_user && moved[end] { end } else { from };
    }
    // The sums that are started on the way there, the last first.
    let mut starts = (from + 1..=end).rev().filter(|n| is_start(insts, *n));
    let ahead = if is_user && is_product(other) { AHEAD } else { 0 };
    let start = starts.nth(ahead).unwrap_or(from);
    // In front of the loads that are there already.
    (from + 1..=start).rev().find(|n| !moved[n - 1]).unwrap_or(from)
}

fn is_product(inst: &Inst) -> bool {
    matches!(inst.op, Op::Multiply(_))
}

/// True if an instruction is a product that starts a sum, but for every other of those in a row
/// that have the same operand A: native code makes these two at once.
fn is_start(insts: &[Inst], index: usize) -> bool {
    let Some(rows) = starts_sum(insts, index) else { return false };
    let before = (1..index).rev().filter(|n| is_product(&insts[*n]));
    let starts = before.filter_map(|n| starts_sum(insts, n));
    starts.take_while(|other| *other == rows).count() % 2 == 0
}

/// The operand A of a product that does not add to the results of the instruction before it.
fn starts_sum(insts: &[Inst], index: usize) -> Option<&[Operand]> {
    let Op::Multiply(product) = insts[index].op else { return None };
    let before = &insts[index - 1];
    let (rows, rest) = insts[index].src.split_at(product.a_registers());
    let c = rest.iter().skip(product.b_registers());
    let adds = is_product(before) && c.copied().eq(before.dst.iter().copied().map(Operand::Reg));
    (!adds).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::matrix::{MatrixType, Multiply};
    use crate::ir::op::{IntOp, IntType, Space};
    use crate::ir::{Guard, Reg};

    fn inst(op: Op, dst: &[u32], src: &[u32]) -> Inst {
        let dst = dst.iter().copied().map(Reg).collect();
        let src = src.iter().copied().map(|r| Operand::Reg(Reg(r))).collect();
        Inst { op, guard: None, dst, src, line: 0 }
    }

    /// A product of 16 by 8 by 8 that adds to four registers from `sum` on.
    fn product(a: u32, b: u32, sum: u32) -> Inst {
        let ty = MatrixType::BF16;
        let op = Op::Multiply(Multiply { tall: true, k: 8, a: ty, b: ty, saturate: false });
        let sums = [sum, sum + 1, sum + 2, sum + 3];
        inst(op, &sums, &[&[a, a + 1, b], &sums[..]].concat())
    }

    fn load(d: u32, address: u32) -> Inst {
        let op = Op::LoadMatrix { space: Space::Shared, count: 1, transpose: false };
        inst(op, &[d], &[address])
    }

    fn add(d: u32, a: u32) -> Inst {
        inst(Op::Int(IntOp::Add, IntType::U32), &[d], &[a, a])
    }

    /// The numbers of the instructions in their new order.
    fn order(insts: &[Inst]) -> Vec<u32> {
        let numbered = insts.iter().cloned().zip(0..);
        let mut insts: Vec<Inst> = numbered.map(|(i, line)| Inst { line, ..i }).collect();
        arrange(&mut insts);
        insts.iter().map(|i| i.line).collect()
    }

    /// Five sums of two products each: all share operands A, the last wants what is loaded in front.
    fn slice() -> Vec<Inst> {
        let loads = [add(50, 60), add(51, 60), load(10, 50), load(11, 51)];
        let sums = [100, 110, 120, 130].map(|sum| [product(0, 3, sum), product(4, 6, sum)]);
        let last = [product(0, 10, 140), product(4, 11, 140)];
        [&[add(0, 61)], &loads[..], &sums.concat(), &last].concat()
    }

    #[test]
    fn loads_and_their_addresses_come_a_pair_of_sums_ahead() {
        let expected = [0, 5, 6, 7, 8, 1, 3, 2, 4, 9, 10, 11, 12, 13, 14];
        assert_eq!(order(&slice()), expected);
    }

    #[test]
    fn what_changes_memory_or_reads_the_results_is_not_passed() {
        let mut insts = slice();
        let store = inst(Op::Fence, &[], &[]);
        insts.insert(5, store);
        assert_eq!(order(&insts), (0..16).collect::<Vec<_>>());
        let mut insts = slice();
        insts.insert(5, add(70, 10));
        assert_eq!(order(&insts)[..4], [0, 1, 3, 5]);
        // Its address changes.
        let mut insts = slice();
        insts.insert(5, add(50, 60));
        let found = order(&insts);
        let place = |n: u32| found.iter().position(|other| *other == n);
        assert!(place(3) < place(5));
    }

    #[test]
    fn what_has_a_guard_or_other_users_stays() {
        let mut insts = slice();
        insts[3].guard = Some(Guard { reg: Reg(90), negated: false });
        assert_eq!(order(&insts)[..3], [0, 1, 3]);
        let short = [add(0, 61), load(10, 50), product(0, 10, 100), product(4, 10, 110)];
        assert_eq!(order(&short), [0, 1, 2, 3]);
    }
}
