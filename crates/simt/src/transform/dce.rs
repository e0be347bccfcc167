//! Dead code elimination: drops instructions whose results are not read.
//!
//! Registers are mutable, so this is by use counts over the whole function: an instruction without
//! effects goes when none of its results is read anywhere, and that may free its sources in turn.

use crate::analysis::liveness::{Liveness, term_uses};
use crate::ir::op::{IntOp, Op};
use crate::ir::{Function, Inst, Operand, Reg, Term};

/// Drops dead code, and moves of constants and copies that have one use each are propagated.
pub(crate) fn run(f: &mut Function) {
    propagate_copies(f);
    drop_unused(f);
}

/// Drops instructions without effects whose results are not read.
pub(crate) fn drop_unused(f: &mut Function) {
    let mut reads = reads(f);
    loop {
        let mut dropped = false;
        for block in f.blocks.iter_mut().rev() {
            // From the end on, so that what only the dropped read goes at once.
            let wanted = block.insts.iter().rev().map(|inst| {
                let wanted = inst.op.has_effect() || inst.dst.iter().any(|r| reads[r.index()] > 0);
                if !wanted {
                    inst.uses().for_each(|r| reads[r.index()] -= 1);
                }
                wanted
            });
            let wanted: Vec<bool> = wanted.collect();
            dropped |= wanted.contains(&false);
            let mut wanted = wanted.into_iter().rev();
            block.insts.retain(|_| wanted.next() == Some(true));
        }
        if !dropped {
            return;
        }
    }
}

/// How often each register is read.
fn reads(f: &Function) -> Vec<u32> {
    let mut reads = vec![0; f.regs.len()];
    let mut count = |r: Reg| reads[r.index()] += 1;
    for block in &f.blocks {
        block.insts.iter().for_each(|inst| inst.uses().for_each(&mut count));
        term_uses(f, &block.term).for_each(&mut count);
    }
    reads
}

/// Replaces uses of a register whose only definition copies a constant, or copies a register
/// with one definition too, by what it copies. Unguarded definitions that dominate nothing but
/// themselves would be wrong to move, but a single definition is the value wherever it is read:
/// elsewhere the register is undefined.
fn propagate_copies(f: &mut Function) {
    let mut definitions = vec![0u32; f.regs.len()];
    // Block and instruction of each register's last definition.
    let mut places = vec![None; f.regs.len()];
    for (number, block) in f.blocks.iter().enumerate() {
        for (index, inst) in block.insts.iter().enumerate() {
            for r in &inst.dst {
                definitions[r.index()] += 1;
                places[r.index()] = Some((number, index));
            }
        }
        if let Some(r) = block.term.def() {
            definitions[r.index()] += 1;
        }
    }
    let mut value: Vec<Option<Operand>> = vec![None; f.regs.len()];
    // A copy of a register is only that register's value while it keeps it: in a loop the source
    // may be redefined (by its one definition) while the copy still holds the value of the
    // iteration before. So only copies whose source dies with them: inside one block, or of
    // registers that are never live around a loop.
    let liveness = Liveness::of(f);
    for (number, block) in f.blocks.iter().enumerate() {
        for (index, inst) in block.insts.iter().enumerate() {
            let [d] = inst.dst[..] else { continue };
            let redefined =
                |s: Reg| places[s.index()].is_some_and(|(of, at)| of == number && at >= index);
            if inst.guard.is_some() || definitions[d.index()] != 1 {
                continue;
            }
            match (&inst.op, &inst.src[..]) {
                (Op::Mov(_) | Op::PredMov, [Operand::Imm(v)]) => {
                    value[d.index()] = Some(Operand::Imm(*v));
                }
                (Op::Mov(w), [Operand::Reg(s)])
                    if definitions[s.index()] == 1
                        && f.regs[s.index()].width() == Some(*w)
                        && !liveness.crosses_back_edge(d)
                        && !redefined(*s) =>
                {
                    value[d.index()] = Some(Operand::Reg(*s));
                }
                _ => {}
            }
        }
    }
    let resolve = |operand: Operand| {
        let mut at = operand;
        for _ in 0..8 {
            match at {
                Operand::Reg(r) => match value[r.index()] {
                    Some(next) => at = next,
                    None => break,
                },
                _ => break,
            }
        }
        at
    };
    for block in &mut f.blocks {
        for inst in &mut block.insts {
            for source in &mut inst.src {
                *source = resolve(*source);
            }
            simplify(inst);
        }
        match &mut block.term {
            Term::Barrier { barrier, count, predicate, .. } => {
                *barrier = resolve(*barrier);
                *count = resolve(*count);
                *predicate = predicate.map(resolve);
            }
            Term::Table { index, .. } => *index = resolve(*index),
            _ => {}
        }
    }
}

/// Additions of 0 and multiplications by 1 become moves.
fn simplify(inst: &mut Inst) {
    let Op::Int(op, ty) = inst.op else { return };
    let neutral = match (op, &inst.src[..]) {
        (IntOp::Add | IntOp::Sub | IntOp::Or | IntOp::Xor, [_, Operand::Imm(0)])
        | (IntOp::Shl | IntOp::Shr, [_, Operand::Imm(0)])
        | (IntOp::MulLo, [_, Operand::Imm(1)]) => 0,
        (IntOp::Add | IntOp::Or | IntOp::Xor, [Operand::Imm(0), _]) => 1,
        _ => return,
    };
    inst.op = Op::Mov(ty.width());
    inst.src = vec![inst.src[neutral]];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::{Class, IntType, Space, Width};
    use crate::ir::{Block, BlockId, Guard, Target};

    /// A register that is copied, its copy, and what is computed of the copy.
    const SOURCE: Reg = Reg(0);
    const COPY: Reg = Reg(1);
    const RESULT: Reg = Reg(2);
    const PART: Reg = Reg(3);

    fn inst(op: Op, dst: Reg, src: &[Operand]) -> Inst {
        Inst { op, guard: None, dst: vec![dst], src: src.to_vec(), line: 0 }
    }

    fn set(value: u64) -> Inst {
        inst(Op::Int(IntOp::Add, IntType::U32), SOURCE, &[Operand::Imm(value), Operand::Imm(5)])
    }

    fn copy() -> Inst {
        inst(Op::Mov(Width::W32), COPY, &[Operand::Reg(SOURCE)])
    }

    /// What reads the copy, and cannot go.
    fn uses() -> [Inst; 2] {
        let access = crate::ir::op::Access {
            space: Space::Global,
            bytes: 4,
            count: 1,
            signed: false,
            volatile: false,
            width: Width::W32,
        };
        let add = Op::Int(IntOp::Add, IntType::U32);
        let src = [Operand::Imm(0), Operand::Imm(0), Operand::Reg(RESULT)];
        let store = Inst { dst: vec![], ..inst(Op::Store(access), RESULT, &src) };
        [inst(add, RESULT, &[Operand::Reg(COPY), Operand::Imm(1)]), store]
    }

    /// What is read in the place of the copy, in blocks one behind the other; `again` from the last
    /// one to which.
    fn reads(blocks: &[Vec<Inst>], again: Option<u32>) -> Operand {
        let last = blocks.len() - 1;
        let term = |n: usize| match again {
            Some(to) if n == last => Term::Branch {
                guard: Guard { reg: PART, negated: false },
                taken: Target::Block(BlockId(to)),
                other: Target::Exit,
            },
            _ if n == last => Term::Jump(Target::Exit),
            _ => Term::Jump(Target::Block(BlockId(n as u32 + 1))),
        };
        let block = |(n, insts): (usize, &Vec<Inst>)| Block {
            insts: insts.clone(),
            term: term(n),
            line: 0,
        };
        let lane = Class::Lane(Width::W32);
        let regs = vec![lane, lane, lane, Class::Pred];
        let blocks = blocks.iter().enumerate().map(block).collect();
        let mut f = Function { regs, blocks, ..Function::default() };
        run(&mut f);
        let mut all = f.blocks.iter().flat_map(|b| &b.insts);
        all.find(|i| i.dst == [RESULT]).expect("it is stored").src[0]
    }

    #[test]
    fn copies_go_while_their_source_keeps_what_they_hold() {
        let (source, own) = (Operand::Reg(SOURCE), Operand::Reg(COPY));
        let with = |first: &[Inst]| [first, &uses()].concat();
        assert_eq!(reads(&[with(&[set(1), copy()])], None), source);
        assert_eq!(reads(&[vec![set(1), copy()], with(&[])], None), source);
        assert_eq!(reads(&[vec![set(1)], with(&[copy()])], Some(1)), source);
        // The source is overwritten between: behind the copy, or once around the loop.
        assert_eq!(reads(&[with(&[copy(), set(1)])], Some(0)), own);
        assert_eq!(reads(&[vec![copy()], with(&[set(1)])], Some(0)), own);
        assert_eq!(reads(&[vec![set(1), copy()], with(&[set(2)])], None), own);
        // Some lanes keep what they had.
        let guard = Some(Guard { reg: PART, negated: false });
        assert_eq!(reads(&[with(&[set(1), Inst { guard, ..copy() }])], None), own);
        let constant = inst(Op::Mov(Width::W32), COPY, &[Operand::Imm(7)]);
        assert_eq!(reads(&[with(std::slice::from_ref(&constant))], None), Operand::Imm(7));
        assert_eq!(reads(&[with(&[Inst { guard, ..constant.clone() }])], None), own);
        assert_eq!(reads(&[with(&[constant, set(1), copy()])], None), own, "two definitions");
    }

    #[test]
    fn neutral_operands_leave_the_other_one() {
        let (x, zero, one) = (Operand::Reg(SOURCE), Operand::Imm(0), Operand::Imm(1));
        for (op, src, neutral) in [
            (IntOp::Add, [x, zero], true),
            (IntOp::Add, [zero, x], true),
            (IntOp::Xor, [zero, x], true),
            (IntOp::Sub, [x, zero], true),
            (IntOp::Sub, [zero, x], false),
            (IntOp::Shl, [x, zero], true),
            (IntOp::Shl, [zero, x], false),
            (IntOp::MulLo, [x, one], true),
            (IntOp::MulLo, [x, zero], false),
            (IntOp::And, [x, zero], false),
            (IntOp::Add, [x, one], false),
        ] {
            let mut made = inst(Op::Int(op, IntType::U32), RESULT, &src);
            let before = made.clone();
            simplify(&mut made);
            let moved = inst(Op::Mov(Width::W32), RESULT, &[x]);
            assert_eq!(made, if neutral { moved } else { before }, "{op:?} {src:?}");
        }
    }
}
