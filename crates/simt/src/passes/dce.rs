//! Drops instructions whose results nobody reads.
//!
//! Registers are mutable, so this is by use counts over the whole function: an instruction without
//! effects goes when none of its results is read anywhere, and that may free its sources in turn.

use super::liveness::Liveness;
use crate::ir::{Callee, Function, Inst, Operand, Reg, Term};
use crate::op::{IntOp, Op};

/// Drops dead code, and moves of constants and copies that have one use each are propagated.
pub(crate) fn run(f: &mut Function) {
    propagate_copies(f);
    drop_unused(f);
}

/// Drops instructions without effects whose results nobody reads.
pub(crate) fn drop_unused(f: &mut Function) {
    loop {
        let mut used = vec![false; f.regs.len()];
        for block in &f.blocks {
            for inst in &block.insts {
                inst.uses().for_each(|r| used[r.index()] = true);
            }
            block.term.uses().iter().for_each(|r| used[r.index()] = true);
            if let Term::Call { site, .. } = block.term
                && let Callee::Indirect(r) = f.calls[site as usize].callee
            {
                used[r.index()] = true;
            }
        }
        let mut dropped = false;
        for block in &mut f.blocks {
            let before = block.insts.len();
            block
                .insts
                .retain(|inst| inst.op.has_effect() || inst.dst.iter().any(|r| used[r.index()]));
            dropped |= block.insts.len() != before;
        }
        if !dropped {
            return;
        }
    }
}

/// Replaces uses of a register whose only definition copies a constant, or copies a register
/// with one definition too, by what it copies. Unguarded definitions that dominate nothing but
/// themselves would be wrong to move, but a single definition is the value wherever it is read:
/// elsewhere the register is undefined.
fn propagate_copies(f: &mut Function) {
    let mut definitions = vec![0u32; f.regs.len()];
    for block in &f.blocks {
        for inst in &block.insts {
            inst.dst.iter().for_each(|r| definitions[r.index()] += 1);
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
    for block in &f.blocks {
        for (index, inst) in block.insts.iter().enumerate() {
            let [d] = inst.dst[..] else { continue };
            let redefined = |s: Reg| block.insts[index..].iter().any(|i| i.dst.contains(&s));
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
