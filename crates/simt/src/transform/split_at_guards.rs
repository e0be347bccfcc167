//! Block splitting where a speculation needs a guard (an affine value that is widened), so that a
//! failed guard can leave at a block's start.
//!
//! A check that fails moves the warp to code for any order of blocks, and a warp can only move at
//! the start of a block. So a value that is widened in the block that computes it needs a block
//! boundary in between. Pure arithmetic that leads to such values is moved to the front first, so
//! that one boundary serves all of them.

use crate::analysis::affine::Rules;
use crate::analysis::dataflow::Marks;
use crate::analysis::divergence::Shapes;
use crate::ir::{Block, BlockId, Function, Inst, Target, Term};
use crate::transform::simplify_cfg::renumber;

/// Splits what needs it; false if nothing did.
pub(crate) fn run(f: &mut Function, shapes: &Shapes) -> bool {
    let mut written = Marks::new(f.regs.len());
    // By block, what is split off in front of it, and the number of the first piece.
    let mut heads = Vec::with_capacity(f.blocks.len());
    let mut number = Vec::with_capacity(f.blocks.len());
    let mut count = 0;
    for block in &mut f.blocks {
        number.push(count);
        let mut before = Vec::new();
        while let Some(at) = boundary(&mut block.insts, shapes, &mut written, f.regs.len()) {
            let behind = block.insts.split_off(at);
            let line = behind.first().map_or(block.line, |inst| inst.line);
            let insts = std::mem::replace(&mut block.insts, behind);
            count += 1;
            let term = Term::Jump(Target::Block(BlockId(count)));
            before.push(Block { insts, term, line });
        }
        heads.push(before);
        count += 1;
    }
    renumber(f, &number);
    let split = count as usize > f.blocks.len();
    let blocks = std::mem::take(&mut f.blocks).into_iter().zip(heads);
    f.blocks = blocks.flat_map(|(block, before)| before.into_iter().chain([block])).collect();
    split
}

/// Which instructions' checks cannot be made at the start of the block, because the block writes
/// the register before. Marks are of registers, and none counts that is there before.
pub(crate) fn late_checks(insts: &[Inst], shapes: &Shapes, written: &mut Marks) -> Vec<bool> {
    written.wipe();
    insts
        .iter()
        .map(|inst| {
            let late = shapes.widening(inst).is_some_and(|w| written.has(w.reg.index()));
            inst.dst.iter().for_each(|d| _ = written.mark(d.index()));
            late
        })
        .collect()
}

/// Puts what widened values are computed from before the widenings, and gives where the latter
/// begin; `None` if all checks can be made at the start of the block.
fn boundary(
    insts: &mut Vec<Inst>,
    shapes: &Shapes,
    written: &mut Marks,
    registers: usize,
) -> Option<usize> {
    let late = late_checks(insts, shapes, written);
    if !late.contains(&true) {
        return None;
    }
    // What leads to them, found from the back.
    let mut wanted = vec![false; insts.len()];
    let mut needed = vec![false; registers];
    for (i, inst) in insts.iter().enumerate().rev() {
        wanted[i] = inst.dst.iter().any(|d| needed[d.index()]);
        if wanted[i] {
            inst.uses().for_each(|r| needed[r.index()] = true);
        }
        if let Some(widening) = shapes.widening(inst) {
            needed[widening.reg.index()] = true;
        }
    }
    // From the first widening on, only what is wanted passes those that stay behind: if neither
    // needs the other, and not if both may fault or be seen.
    let (mut before, mut behind) = (Vec::new(), Vec::<Inst>::new());
    let (mut read, mut written) = (vec![false; registers], vec![false; registers]);
    let mut effects = false;
    for (i, inst) in std::mem::take(insts).into_iter().enumerate() {
        let pure = Rules::is_formula(&inst.op);
        let apart = inst.dst.iter().all(|d| !read[d.index()] && !written[d.index()])
            && inst.uses().all(|r| !written[r.index()])
            && (pure || !effects);
        if !late[i] && (behind.is_empty() || (wanted[i] && apart)) {
            before.push(inst);
        } else {
            inst.uses().for_each(|r| read[r.index()] = true);
            inst.dst.iter().for_each(|d| written[d.index()] = true);
            effects |= !pure;
            behind.push(inst);
        }
    }
    let at = before.len();
    *insts = before;
    insts.append(&mut behind);
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::divergence;
    use crate::analysis::liveness::Liveness;
    use crate::ir::op::{Class, IntOp, IntType, Op, Special, Width};
    use crate::ir::{Operand, Reg};
    use crate::launch_shape::LaunchShape;

    #[test]
    fn values_widened_where_they_are_made_get_one_boundary() {
        let r = |n: u32| Operand::Reg(Reg(n));
        let inst = |op, d: u32, src| Inst { op, guard: None, dst: vec![Reg(d)], src, line: 0 };
        let add = |d, a, b| inst(Op::Int(IntOp::Add, IntType::S32), d, vec![a, b]);
        let wide = |d, a| inst(Op::Int(IntOp::MulWide, IntType::S32), d, vec![a, Operand::Imm(4)]);
        let narrow = Class::Lane(Width::W32);
        let broad = Class::Lane(Width::W64);
        let blocks = vec![Block {
            insts: vec![
                inst(Op::Special(Special::Tid(0)), 0, vec![]),
                inst(Op::Special(Special::SmId), 1, vec![]),
                add(2, r(0), r(1)),
                wide(4, r(2)),
                add(3, r(2), r(1)),
                wide(5, r(3)),
            ],
            term: Term::Jump(Target::Exit),
            line: 0,
        }];
        let regs = vec![narrow, narrow, narrow, narrow, broad, broad];
        let mut f = Function { regs, blocks, ..Function::default() };
        let shapes = divergence::analyse(&f, &Liveness::of(&f), LaunchShape::Line);
        assert!(run(&mut f, &shapes));
        let lengths: Vec<usize> = f.blocks.iter().map(|b| b.insts.len()).collect();
        assert_eq!(lengths, [4, 2]);
        assert!(!run(&mut f, &shapes), "one boundary is enough");
    }

    /// What is moved in front of widenings passes nothing that it needs or that needs it.
    #[test]
    fn what_depends_on_each_other_keeps_its_order() {
        let r = |n: u32| Operand::Reg(Reg(n));
        let inst = |op, dst: Vec<u32>, src| {
            let dst = dst.into_iter().map(Reg).collect();
            Inst { op, guard: None, dst, src, line: 0 }
        };
        let add = |d, a, b| inst(Op::Int(IntOp::Add, IntType::S32), vec![d], vec![a, b]);
        let wide =
            |d, a| inst(Op::Int(IntOp::MulWide, IntType::S32), vec![d], vec![a, Operand::Imm(4)]);
        let access = crate::ir::op::Access {
            space: crate::ir::op::Space::Global,
            bytes: 4,
            count: 1,
            signed: false,
            volatile: false,
            width: Width::W32,
        };
        let store = inst(Op::Store(access), vec![], vec![r(4), Operand::Imm(0), r(1)]);
        let clock = inst(Op::Special(Special::Clock), vec![7], vec![]);
        let before = [
            inst(Op::Special(Special::Tid(0)), vec![0], vec![]),
            inst(Op::Special(Special::SmId), vec![1], vec![]),
            add(2, r(0), r(1)),
            wide(4, r(2)),
        ];
        let third = || add(3, r(2), r(1));
        for (between, moves) in [
            // Neither needs the other.
            (vec![add(7, r(1), r(1)), third()], true),
            // The last one overwrites what the first reads, or what it makes.
            (vec![add(7, r(3), r(1)), third()], false),
            (vec![add(3, r(1), r(1)), third()], false),
            // Both may fault or be seen, and what the second one makes is read.
            (vec![store.clone(), clock, add(3, r(2), r(7))], false),
            (vec![store, third()], true),
        ] {
            let insts = [&before[..], &between, &[wide(5, r(3))]].concat();
            let (narrow, broad) = (Class::Lane(Width::W32), Class::Lane(Width::W64));
            let regs = vec![narrow, narrow, narrow, narrow, broad, broad, broad, narrow];
            let blocks = vec![Block { insts, term: Term::Jump(Target::Exit), line: 0 }];
            let mut f = Function { regs, blocks, ..Function::default() };
            let shapes = divergence::analyse(&f, &Liveness::of(&f), LaunchShape::Line);
            assert!(run(&mut f, &shapes));
            let all: Vec<&Inst> = f.blocks.iter().flat_map(|b| &b.insts).collect();
            let place = |inst: &Inst| all.iter().position(|i| *i == inst);
            assert_eq!(!between.iter().is_sorted_by_key(place), moves, "{between:?}");
        }
    }
}
