//! Hazard notes for `wgmma`, for checks: instrumentation around accesses to registers that an
//! asynchronous product may still write.
//!
//! A register holds such a value if a product leaves it there or a `mov` brings it there. Compilers
//! move sums between products that go on with them, and assemblers take such copies away again; so a
//! copy is no read, and neither is a store to memory that may be the thread's own, which is where
//! sums are kept without optimisation. What stands on the line of a product is its own business.
//!
//! Only the kernel itself is looked at, once functions are inlined: a product that is in progress where
//! a function begins or ends is not followed. This runs before any other pass, while registers are
//! those of the program. Without products it does nothing.

use crate::ir::op::{CopyNote, Op, Space, Touch};
use crate::ir::{Function, Inst, Operand, Reg};
use std::collections::{HashMap, HashSet};

/// Puts notes into a kernel.
pub(crate) fn run(f: &mut Function) {
    let products = || f.blocks.iter().flat_map(|b| &b.insts).filter(|inst| is_product(inst));
    let lines: HashSet<u32> = products().map(|inst| inst.line).collect();
    if lines.is_empty() {
        return;
    }
    let held = held(f, products().flat_map(sources).collect());
    for block in &mut f.blocks {
        let mut noted = Vec::with_capacity(block.insts.len());
        for inst in std::mem::take(&mut block.insts) {
            let note = |note| {
                let (op, guard) = (Op::CopyNote(note, Space::Shared), inst.guard);
                Inst { op, guard, dst: vec![], src: vec![], line: inst.line }
            };
            let sum = |register: Reg, touch| note(CopyNote::Sum { register: register.0, touch });
            if is_product(&inst) {
                noted.extend(sources(&inst).map(|r| sum(r, Touch::Product)));
                continue;
            }
            let copied = copy(&inst).filter(|(from, _)| held.contains(from));
            let copied =
                copied.map(|(from, to)| note(CopyNote::SumCopied { from: from.0, to: to.0 }));
            if !lines.contains(&inst.line) {
                let read = sources(&inst).filter(|r| held.contains(r));
                if let Some(touch) = reading(&inst.op) {
                    noted.extend(read.map(|r| sum(r, touch)));
                }
                let written = inst.dst.iter().filter(|r| held.contains(r));
                noted.extend(written.map(|r| sum(*r, Touch::Written)));
            }
            noted.push(inst);
            noted.extend(copied);
        }
        block.insts = noted;
    }
}

/// Takes out of a function that is called what only [`run`] understands.
pub(crate) fn forget(f: &mut Function) {
    f.blocks.iter_mut().for_each(|block| block.insts.retain(|inst| !is_product(inst)));
}

fn is_product(inst: &Inst) -> bool {
    matches!(inst.op, Op::CopyNote(CopyNote::Product, _))
}

fn sources(inst: &Inst) -> impl Iterator<Item = Reg> + '_ {
    inst.src.iter().filter_map(|source| match source {
        Operand::Reg(register) => Some(*register),
        _ => None,
    })
}

/// From where to where an instruction copies a register.
fn copy(inst: &Inst) -> Option<(Reg, Reg)> {
    match inst.op {
        Op::Mov(_) => sources(inst).next().zip(inst.dst.first().copied()),
        _ => None,
    }
}

/// What an operation does to a sum that it reads; a copy is noted by itself.
fn reading(op: &Op) -> Option<Touch> {
    match op {
        Op::Mov(_) => None,
        Op::Store(to) if matches!(to.space, Space::Local | Space::Generic) => Some(Touch::Kept),
        _ => Some(Touch::Read),
    }
}

/// These registers and all that copies bring their values to.
fn held(f: &Function, mut held: HashSet<Reg>) -> HashSet<Reg> {
    let mut goes_to: HashMap<Reg, Vec<Reg>> = HashMap::new();
    for (from, to) in f.blocks.iter().flat_map(|b| &b.insts).filter_map(copy) {
        goes_to.entry(from).or_default().push(to);
    }
    let mut work: Vec<Reg> = held.iter().copied().collect();
    while let Some(from) = work.pop() {
        for to in goes_to.get(&from).into_iter().flatten() {
            if held.insert(*to) {
                work.push(*to);
            }
        }
    }
    held
}
