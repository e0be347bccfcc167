//! Inlining of called functions.
//!
//! Every direct call of a function that is not recursive is inlined while the caller stays under
//! a limit of size: a call costs the vector IR copies of parameters through local memory, and an
//! inlined body takes part in the analyses of shape and divergence. Lanes that leave an inlined
//! body early also reconverge with the others by the caller's own rules, which a real call cannot
//! offer. What is left (recursion, calls through pointers, giants, results that take the place of an
//! argument) is called.

use crate::analysis::liveness::cycles;
use crate::ir::{
    Block, BlockId, CallSite, Callee, Function, Guard, Operand, Reg, SlotId, Target, Term,
};
use std::collections::{BTreeMap, HashSet};

/// Instructions a function may grow to by inlining. Compilation is linear in it; the largest
/// kernels seen in real modules have a few ten thousand.
const SIZE_MAX: usize = 60_000;

/// Inlines direct calls in `caller`; `callees` holds the functions by their number, `recursive` says
/// which of them are.
pub(crate) fn run(
    caller: &mut Function,
    callees: &BTreeMap<u32, Function>,
    recursive: &HashSet<u32>,
) {
    let mut size = caller.size();
    let mut block = 0;
    // Bodies are appended, so blocks that an inlined body brought are looked at as well.
    while block < caller.blocks.len() {
        if let Term::Call { site, next } = caller.blocks[block].term
            && let CallSite { callee: Callee::Direct(number), args, results } =
                &caller.calls[site as usize]
            && !recursive.contains(number)
            // A body may write its result and read an argument afterwards.
            && !results.iter().any(|slot| args.contains(slot))
            && let Some(callee) = callees.get(number)
            && size + callee.size() <= SIZE_MAX
        {
            size += callee.size();
            inline_one(caller, block, site, next, callee);
        }
        block += 1;
    }
}

/// Functions that can reach themselves by direct calls.
pub(crate) fn recursive_functions(callees: &BTreeMap<u32, Function>) -> HashSet<u32> {
    let numbers: Vec<u32> = callees.keys().copied().collect();
    let calls = |f: &Function| -> Vec<usize> {
        let direct = f.calls.iter().filter_map(|c| match c.callee {
            Callee::Direct(number) => numbers.binary_search(&number).ok(),
            Callee::Indirect(_) => None,
        });
        direct.collect()
    };
    let called: Vec<Vec<usize>> = callees.values().map(calls).collect();
    let mut callers = vec![Vec::new(); called.len()];
    for (caller, called) in called.iter().enumerate() {
        called.iter().for_each(|c| callers[*c].push(caller));
    }
    let cycle = cycles(&called, &callers);
    let in_cycle = |f: &usize| called[*f].iter().any(|c| cycle[*c] == cycle[*f]);
    (0..called.len()).filter(in_cycle).map(|f| numbers[f]).collect()
}

fn inline_one(caller: &mut Function, at: usize, site: u32, next: BlockId, callee: &Function) {
    let call = caller.calls[site as usize].clone();
    let reg_base = caller.regs.len() as u32;
    caller.regs.extend_from_slice(&callee.regs);
    let block_base = caller.blocks.len() as u32;
    let call_base = caller.calls.len() as u32;
    let text_base = caller.texts.len() as u32;
    caller.texts.extend_from_slice(&callee.texts);

    // Formals are the caller's slots themselves: PTX functions do not write their parameters,
    // and read results only by returning.
    let mut slots: Vec<Option<SlotId>> = vec![None; callee.slots.len()];
    for (formal, actual) in callee.params.iter().zip(&call.args) {
        slots[formal.0 as usize] = Some(*actual);
    }
    for (formal, actual) in callee.results.iter().zip(&call.results) {
        slots[formal.0 as usize] = Some(*actual);
    }
    let slots: Vec<SlotId> = slots
        .into_iter()
        .zip(&callee.slots)
        .map(|(mapped, slot)| mapped.unwrap_or_else(|| caller.new_slot(slot.bytes, slot.align)))
        .collect();

    let reg = |r: Reg| Reg(r.0 + reg_base);
    let guard = |g: Guard| Guard { reg: reg(g.reg), negated: g.negated };
    let operand = |o: Operand| match o {
        Operand::Reg(r) => Operand::Reg(reg(r)),
        Operand::Slot(s) => Operand::Slot(slots[s.0 as usize]),
        Operand::Imm(_) => o,
    };
    for site in &callee.calls {
        let mut site = site.clone();
        if let Callee::Indirect(r) = &mut site.callee {
            *r = reg(*r);
        }
        let remap = |s: &mut SlotId| *s = slots[s.0 as usize];
        site.args.iter_mut().for_each(remap);
        site.results.iter_mut().for_each(remap);
        caller.calls.push(site);
    }
    for block in &callee.blocks {
        let mut block: Block = block.clone();
        for inst in &mut block.insts {
            inst.guard = inst.guard.map(guard);
            inst.dst.iter_mut().for_each(|r| *r = reg(*r));
            inst.src.iter_mut().for_each(|o| *o = operand(*o));
            if let crate::ir::op::Op::Unsupported(text) = &mut inst.op {
                *text += text_base;
            }
        }
        block.term.map_targets(|target| match target {
            Target::Block(id) => Target::Block(BlockId(id.0 + block_base)),
            Target::Return => Target::Block(next),
            Target::Exit => Target::Exit,
        });
        match &mut block.term {
            Term::Branch { guard: g, .. } => *g = guard(*g),
            Term::Table { index, .. } => *index = operand(*index),
            Term::Call { site, .. } => *site += call_base,
            Term::Barrier { barrier, count, predicate, dst, .. } => {
                *barrier = operand(*barrier);
                *count = operand(*count);
                *predicate = predicate.map(operand);
                *dst = dst.map(reg);
            }
            Term::Jump(_) | Term::Pause { .. } => {}
        }
        caller.blocks.push(block);
    }
    caller.blocks[at].term = Term::Jump(Target::Block(BlockId(block_base)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Inst;
    use crate::ir::op::{Class, IntOp, IntType, Op, Width};

    fn inline(caller: &mut Function, number: u32, callee: Function) {
        let callees = BTreeMap::from([(number, callee)]);
        run(caller, &callees, &recursive_functions(&callees));
    }

    fn jump(target: Target) -> Block {
        Block { insts: vec![], term: Term::Jump(target), line: 0 }
    }

    #[test]
    fn a_body_moves_to_its_call_and_returns_behind_it() {
        let mut callee = Function { regs: vec![Class::Lane(Width::W32)], ..Function::default() };
        let slot = callee.new_slot(4, 4);
        callee.params.push(slot);
        let mut body = jump(Target::Return);
        body.insts.push(Inst {
            op: Op::Int(IntOp::Add, IntType::U32),
            guard: None,
            dst: vec![Reg(0)],
            src: vec![Operand::Reg(Reg(0)), Operand::Slot(slot)],
            line: 1,
        });
        callee.blocks.push(body);
        let mut caller = Function { regs: vec![Class::Pred], ..Function::default() };
        let arg = caller.new_slot(4, 4);
        caller.calls.push(CallSite { callee: Callee::Direct(7), args: vec![arg], results: vec![] });
        caller.blocks.push(Block {
            insts: vec![],
            term: Term::Call { site: 0, next: BlockId(1) },
            line: 0,
        });
        caller.blocks.push(jump(Target::Exit));
        inline(&mut caller, 7, callee);
        assert_eq!(caller.blocks[0].term, Term::Jump(Target::Block(BlockId(2))));
        assert_eq!(caller.blocks[2].term, Term::Jump(Target::Block(BlockId(1))));
        let inst = &caller.blocks[2].insts[0];
        assert_eq!(inst.dst, [Reg(1)]);
        assert_eq!(inst.src, [Operand::Reg(Reg(1)), Operand::Slot(arg)]);
    }

    #[test]
    fn recursion_stays_a_call() {
        let mut f = Function::default();
        f.calls.push(CallSite { callee: Callee::Direct(3), args: vec![], results: vec![] });
        f.blocks.push(Block {
            insts: vec![],
            term: Term::Call { site: 0, next: BlockId(0) },
            line: 0,
        });
        let mut caller = f.clone();
        inline(&mut caller, 3, f);
        assert_eq!(caller.blocks.len(), 1);
    }

    #[test]
    fn everything_in_a_body_gets_numbers_of_its_new_place() {
        let (lane, own) = (Class::Lane(Width::W32), Operand::Reg(Reg(0)));
        let mut callee = Function { regs: vec![lane, Class::Pred], ..Function::default() };
        callee.texts.push("what is not known".into());
        let site = CallSite { callee: Callee::Indirect(Reg(0)), args: vec![], results: vec![] };
        callee.calls.push(site);
        let unknown =
            Inst { op: Op::Unsupported(0), guard: None, dst: vec![], src: vec![], line: 1 };
        let block = |insts, term| Block { insts, term, line: 0 };
        let barrier = |barrier, predicate, dst, next| Term::Barrier {
            op: crate::ir::op::BarrierOp::RedPopc,
            barrier,
            count: barrier,
            predicate: Some(predicate),
            negated: false,
            dst: Some(dst),
            next,
        };
        let predicate = Operand::Reg(Reg(1));
        callee.blocks = vec![
            block(vec![unknown], barrier(own, predicate, Reg(0), BlockId(1))),
            block(vec![], Term::Table { index: own, targets: vec![Target::Block(BlockId(2))] }),
            block(vec![], Term::Call { site: 0, next: BlockId(3) }),
            block(
                vec![],
                Term::Branch {
                    guard: Guard { reg: Reg(1), negated: true },
                    taken: Target::Exit,
                    other: Target::Return,
                },
            ),
        ];
        let mut caller = Function { regs: vec![lane; 10], ..Function::default() };
        caller.texts.push("another".into());
        let site = CallSite { callee: Callee::Direct(7), args: vec![], results: vec![] };
        caller.calls.push(site);
        caller.blocks = vec![
            block(vec![], Term::Call { site: 0, next: BlockId(1) }),
            block(vec![], Term::Jump(Target::Exit)),
        ];
        inline(&mut caller, 7, callee);
        let (value, part) = (Reg(10), Reg(11));
        let terms: Vec<&Term> = caller.blocks[2..].iter().map(|b| &b.term).collect();
        assert_eq!(caller.blocks[2].insts[0].op, Op::Unsupported(1));
        assert_eq!(caller.texts[1], "what is not known");
        let number = Operand::Reg(value);
        assert_eq!(*terms[0], barrier(number, Operand::Reg(part), value, BlockId(3)));
        let targets = vec![Target::Block(BlockId(4))];
        assert_eq!(*terms[1], Term::Table { index: number, targets });
        assert_eq!(*terms[2], Term::Call { site: 1, next: BlockId(5) });
        assert_eq!(caller.calls[1].callee, Callee::Indirect(value));
        let (guard, taken) = (Guard { reg: part, negated: true }, Target::Exit);
        assert_eq!(*terms[3], Term::Branch { guard, taken, other: Target::Block(BlockId(1)) });
    }
}
