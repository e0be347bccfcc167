//! Scheduling of matrix products: those with the same accumulators are grouped.
//!
//! Programs multiply all tiles with one slice of the operands, then all with the next, since a GPU
//! waits for a sum before it can add to it again. Here a sum that is added to again at once stays
//! where it is. A product has no effect but its results, so it may run later: right in front of
//! the product that takes them, if nothing between looks at them or changes what it reads.
//!
//! The first instruction of a block stays where it is: lanes may have to come together there.

use crate::ir::op::Op;
use crate::ir::{Function, Inst, Operand, Reg};
use std::collections::HashSet;

/// Instructions that a product is moved across at most: what is farther apart is in no loop that
/// was written out.
const DISTANCE_MAX: usize = 1024;

/// Moves products in all blocks.
pub(crate) fn run(f: &mut Function) {
    f.blocks.iter_mut().for_each(|block| arrange(&mut block.insts));
}

fn arrange(insts: &mut [Inst]) {
    for last in (2..insts.len()).rev() {
        if let Some(first) = first_of(insts, last) {
            insts[first..last].rotate_left(1);
        }
    }
}

/// The registers of C, if the instruction is a product that always runs.
fn sums(inst: &Inst) -> Option<Vec<Reg>> {
    let Op::Multiply(product) = inst.op else { return None };
    let c = inst.src.get(product.a_registers() + product.b_registers()..)?;
    let registers = c.iter().map(|s| match s {
        Operand::Reg(r) => Some(*r),
        _ => None,
    });
    registers.collect::<Option<_>>().filter(|_| inst.guard.is_none())
}

/// The product whose results that at `last` adds to, if it can be moved there.
fn first_of(insts: &[Inst], last: usize) -> Option<usize> {
    let sums = sums(&insts[last])?;
    let mut written = HashSet::new();
    for (index, inst) in insts.iter().enumerate().take(last).skip(1).rev().take(DISTANCE_MAX) {
        if inst.op == insts[last].op && inst.dst == sums && inst.guard.is_none() {
            return inst.uses().all(|r| !written.contains(&r)).then_some(index);
        }
        if inst.uses().chain(inst.dst.iter().copied()).any(|r| sums.contains(&r)) {
            return None;
        }
        written.extend(inst.dst.iter().copied());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::matrix::{MatrixType, Multiply};

    /// A product of 16 by 8 by 8: two registers of A, one of B, four sums from the first on.
    fn product(a: u32, b: u32, sum: u32) -> Inst {
        let ty = MatrixType::BF16;
        let op = Op::Multiply(Multiply { tall: true, k: 8, a: ty, b: ty, saturate: false });
        let sums = (sum..sum + 4).map(Reg);
        let factors = [a, a + 1, b].map(|r| Operand::Reg(Reg(r)));
        let src = factors.into_iter().chain(sums.clone().map(Operand::Reg)).collect();
        Inst { op, guard: None, dst: sums.collect(), src, line: 0 }
    }

    fn load(d: u32) -> Inst {
        let src = vec![Operand::Imm(0)];
        Inst {
            op: Op::Mov(crate::ir::op::Width::W32),
            guard: None,
            dst: vec![Reg(d)],
            src,
            line: 0,
        }
    }

    fn order(insts: Vec<Inst>) -> Vec<u32> {
        let mut insts: Vec<Inst> =
            insts.into_iter().zip(0..).map(|(i, line)| Inst { line, ..i }).collect();
        arrange(&mut insts);
        insts.iter().map(|i| i.line).collect()
    }

    #[test]
    fn products_of_one_sum_come_together() {
        let slice = |a: u32| [load(a), product(a, a + 2, 100), product(a, a + 3, 200)];
        let two = [slice(0), slice(10), slice(20)].concat();
        assert_eq!(order(two), [0, 3, 6, 1, 4, 7, 2, 5, 8]);
    }

    #[test]
    fn what_looks_at_them_or_changes_factors_keeps_them_apart() {
        let first = [load(50), product(0, 2, 100)];
        let look = Inst { src: vec![Operand::Reg(Reg(103))], ..load(60) };
        for between in [load(1), load(101), look] {
            let all = [first.to_vec(), vec![between, product(10, 12, 100)]].concat();
            assert_eq!(order(all), [0, 1, 2, 3]);
        }
        // Another's result is not in the way; the first of a block stays.
        let all = [first.to_vec(), vec![load(3), product(10, 12, 100)]].concat();
        assert_eq!(order(all), [0, 2, 1, 3]);
        let all = vec![product(0, 2, 100), load(3), product(10, 12, 100)];
        assert_eq!(order(all), [0, 1, 2]);
    }

    #[test]
    fn what_not_all_lanes_run_stays() {
        let guard = Some(crate::ir::Guard { reg: Reg(300), negated: false });
        let all = [load(50), product(0, 2, 100), load(3), product(10, 12, 100)];
        assert_eq!(order(all.to_vec()), [0, 2, 1, 3]);
        for guarded in [1, 3] {
            let mut insts = all.to_vec();
            insts[guarded].guard = guard;
            assert_eq!(order(insts), [0, 1, 2, 3]);
        }
    }
}
