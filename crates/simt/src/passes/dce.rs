//! Drops instructions whose results nobody reads.
//!
//! Registers are mutable, so this is by use counts over the whole function: an instruction without
//! effects goes when none of its results is read anywhere, and that may free its sources in turn.

use super::liveness::{Liveness, term_uses};
use crate::ir::{Function, Inst, Operand, Reg, Term};
use crate::op::{IntOp, Op};

/// Drops dead code, and moves of constants and copies that have one use each are propagated.
pub(crate) fn run(f: &mut Function) {
    propagate_copies(f);
    drop_unused(f);
}

/// Drops instructions without effects whose results nobody reads.
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
