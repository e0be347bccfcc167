//! Indirect call promotion: a call through a pointer becomes comparisons with the functions that the pointer
//! may hold, each with a direct call, which is inlined then.
//!
//! Candidates are functions of the module whose address is taken and that have the call's parameters. They call
//! through no pointer themselves, so that no function becomes recursive by this. The call through the pointer stays behind the comparisons, for every other function. Its arguments and results are
//! copied to variables of its own, so that those of the direct calls can be registers.

use crate::ir::op::{Access, Class, Compare, CompareType, IntType, Op, Space, Width};
use crate::ir::vector::FUNCTION_BASE;
use crate::ir::{
    Block, BlockId, CallSite, Callee, Function, Guard, Inst, Operand, Reg, SlotId, Target, Term,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Most functions that a pointer is compared with: beyond that a call costs less than the comparisons.
const CANDIDATES_MAX: usize = 16;
/// Most instructions that they have together: each call site gets them all.
const SIZE_MAX: usize = 2_000;

/// A function that calls through pointers may be meant for.
struct Candidate {
    number: u32,
    /// Bytes of each parameter and of each result.
    params: Vec<u32>,
    results: Vec<u32>,
    /// Instructions, with those of functions that it calls.
    size: usize,
}

/// Those of a module.
pub(crate) struct Candidates(Vec<Candidate>);

impl Candidates {
    /// Those among `callees` that `may_be` says; `recursive` are those that can reach themselves.
    pub(crate) fn of(
        callees: &BTreeMap<u32, Function>,
        recursive: &HashSet<u32>,
        may_be: impl Fn(u32) -> bool,
    ) -> Self {
        let candidate = |(number, f): (&u32, &Function)| {
            let size = closed_size(*number, callees, recursive)?;
            let bytes = |slots: &[SlotId]| slots.iter().map(|slot| bytes_of(f, *slot)).collect();
            let (params, results) = (bytes(&f.params), bytes(&f.results));
            Some(Candidate { number: *number, params, results, size })
        };
        let chosen = callees.iter().filter(|(number, _)| may_be(**number));
        Self(chosen.filter_map(candidate).collect())
    }

    /// Those that a call may be meant for, if they are few.
    fn for_site(&self, f: &Function, site: &CallSite) -> Vec<u32> {
        let bytes =
            |slots: &[SlotId]| slots.iter().map(|slot| bytes_of(f, *slot)).collect::<Vec<_>>();
        let (params, results) = (bytes(&site.args), bytes(&site.results));
        let fits = |c: &&Candidate| c.params == params && c.results == results;
        let size: usize = self.0.iter().filter(fits).map(|c| c.size).sum();
        let numbers: Vec<u32> = self.0.iter().filter(fits).map(|c| c.number).collect();
        if numbers.len() > CANDIDATES_MAX || size > SIZE_MAX { Vec::new() } else { numbers }
    }
}

fn bytes_of(f: &Function, slot: SlotId) -> u32 {
    f.slots[slot.0 as usize].bytes
}

/// Functions whose address an instruction of these functions has.
pub(crate) fn named<'a>(functions: impl Iterator<Item = &'a Function>) -> HashSet<u32> {
    let number = |operand: &Operand| match operand {
        Operand::Imm(v) if *v >= FUNCTION_BASE && v % 16 == 0 => {
            u32::try_from((v - FUNCTION_BASE) / 16).ok()
        }
        _ => None,
    };
    let insts = functions.flat_map(|f| &f.blocks).flat_map(|b| &b.insts);
    insts.flat_map(|inst| inst.src.iter().filter_map(number)).collect()
}

/// Instructions of a function and of all that it calls; `None` if one of them is recursive or calls through a
/// pointer.
fn closed_size(
    number: u32,
    callees: &BTreeMap<u32, Function>,
    recursive: &HashSet<u32>,
) -> Option<usize> {
    let (mut seen, mut work, mut size) = (BTreeSet::from([number]), vec![number], 0usize);
    while let Some(number) = work.pop() {
        let f = callees.get(&number).filter(|_| !recursive.contains(&number))?;
        size += f.size();
        for block in &f.blocks {
            let Term::Call { site, .. } = block.term else { continue };
            match f.calls[site as usize].callee {
                Callee::Indirect(_) => return None,
                Callee::Direct(called) if seen.insert(called) => work.push(called),
                Callee::Direct(_) => {}
            }
        }
    }
    Some(size)
}

/// Promotes the calls of a function.
pub(crate) fn run(f: &mut Function, candidates: &Candidates) {
    for at in 0..f.blocks.len() {
        let Term::Call { site, next } = f.blocks[at].term else { continue };
        let call = &f.calls[site as usize];
        let Callee::Indirect(pointer) = call.callee else { continue };
        let numbers = candidates.for_site(f, call);
        // Such a call is not inlined.
        let in_place = call.results.iter().any(|slot| call.args.contains(slot));
        if !numbers.is_empty() && !in_place {
            promote(f, at, (site, next), pointer, &numbers);
        }
    }
}

fn promote(
    f: &mut Function,
    at: usize,
    (site, next): (u32, BlockId),
    pointer: Reg,
    numbers: &[u32],
) {
    let line = f.blocks[at].line;
    let direct = f.calls[site as usize].clone();
    let first = f.blocks.len() as u32;
    // A direct call, and the next comparison, for each; then the copies around the call through the pointer.
    let last = first + 2 * numbers.len() as u32 - 1;
    let mut from = at;
    for (index, number) in numbers.iter().enumerate() {
        let (call, other) = (first + 2 * index as u32, first + 2 * index as u32 + 1);
        let p = f.new_reg(Class::Pred);
        let address = FUNCTION_BASE + 16 * u64::from(*number);
        f.blocks[from].insts.push(Inst {
            op: Op::Setp(Compare::Eq, CompareType::Int(IntType::U64)),
            guard: None,
            dst: vec![p],
            src: vec![pointer.into(), Operand::Imm(address)],
            line,
        });
        let guard = Guard { reg: p, negated: false };
        let (taken, other) = (Target::Block(BlockId(call)), Target::Block(BlockId(other)));
        f.blocks[from].term = Term::Branch { guard, taken, other };
        let here = f.calls.len() as u32;
        f.calls.push(CallSite { callee: Callee::Direct(*number), ..direct.clone() });
        f.blocks.push(Block { insts: vec![], term: Term::Call { site: here, next }, line });
        f.blocks.push(Block { insts: vec![], term: Term::Jump(Target::Block(next)), line });
        from = f.blocks.len() - 1;
    }
    let (before, after) = separate(f, site, line);
    let (call, back) = (BlockId(last + 1), BlockId(last + 2));
    f.blocks[from].insts = before;
    f.blocks[from].term = Term::Jump(Target::Block(call));
    // It stands alone, since lanes with different callees make it again.
    f.blocks.push(Block { insts: vec![], term: Term::Call { site, next: back }, line });
    f.blocks.push(Block { insts: after, term: Term::Jump(Target::Block(next)), line });
}

/// Gives a call site variables of its own, as far as it is known what is in them. Returns what copies its arguments
/// there, and its results back.
fn separate(f: &mut Function, site: u32, line: u32) -> (Vec<Inst>, Vec<Inst>) {
    let mut copies = [Vec::new(), Vec::new()];
    for (results, copies) in [false, true].into_iter().zip(&mut copies) {
        let count = slots_of(&f.calls[site as usize], results).len();
        for index in 0..count {
            let slot = slots_of(&f.calls[site as usize], results)[index];
            let Some(elements) = elements(f, slot, site, results) else { continue };
            let align = f.slots[slot.0 as usize].align;
            let own = f.new_slot(bytes_of(f, slot), align);
            let call = &mut f.calls[site as usize];
            let list = if results { &mut call.results } else { &mut call.args };
            list[index] = own;
            let (from, to) = if results { (own, slot) } else { (slot, own) };
            for (offset, bytes) in elements {
                copy(f, (from, to), (offset, bytes), line, copies);
            }
        }
    }
    let [before, after] = copies;
    (before, after)
}

fn slots_of(call: &CallSite, results: bool) -> &[SlotId] {
    if results { &call.results } else { &call.args }
}

/// Offsets and sizes of what the function stores into a call's argument, or reads of its result; `None` if that is not
/// known, or another call has the variable in the other role.
fn elements(f: &Function, slot: SlotId, site: u32, result: bool) -> Option<BTreeMap<u64, u8>> {
    let elsewhere = f.calls.iter().enumerate().any(|(number, call)| {
        let same = slots_of(call, result).iter().filter(|s| **s == slot).count();
        slots_of(call, !result).contains(&slot) || number == site as usize && same > 1
    });
    if elsewhere || f.params.contains(&slot) || f.results.contains(&slot) {
        return None;
    }
    let mut known: BTreeMap<u64, u8> = BTreeMap::new();
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        for (position, source) in inst.src.iter().enumerate() {
            if *source != Operand::Slot(slot) {
                continue;
            }
            let (Op::Load(access) | Op::Store(access)) = inst.op else { return None };
            let (0, Some(Operand::Imm(offset))) = (position, inst.src.get(1)) else { return None };
            if access.space != Space::Local || access.bytes > 8 {
                return None;
            }
            for i in 0..u64::from(access.count) {
                let at = offset.checked_add(i * u64::from(access.bytes))?;
                if *known.entry(at).or_insert(access.bytes) != access.bytes {
                    return None;
                }
            }
        }
    }
    let ends = known.iter().map(|(at, bytes)| at + u64::from(*bytes));
    let starts = known.keys().copied().skip(1).chain([bytes_of(f, slot).into()]);
    let apart = ends.zip(starts).all(|(end, start)| end <= start);
    apart.then_some(known)
}

fn copy(
    f: &mut Function,
    (from, to): (SlotId, SlotId),
    (offset, bytes): (u64, u8),
    line: u32,
    copies: &mut Vec<Inst>,
) {
    let width = Width::for_bits(u32::from(bytes) * 8);
    let (space, signed, volatile) = (Space::Local, false, false);
    let access = Access { space, bytes, count: 1, signed, volatile, width };
    let value = f.new_reg(Class::Lane(width));
    let place = |slot| vec![Operand::Slot(slot), Operand::Imm(offset)];
    let load = Inst { op: Op::Load(access), guard: None, dst: vec![value], src: place(from), line };
    let mut src = place(to);
    src.push(value.into());
    copies.push(load);
    copies.push(Inst { op: Op::Store(access), guard: None, dst: vec![], src, line });
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: BlockId = BlockId(1);

    fn jump(target: Target) -> Block {
        Block { insts: vec![], term: Term::Jump(target), line: 0 }
    }

    /// A function of one argument of that many bytes.
    fn taking(bytes: u32) -> Function {
        let mut f = Function { blocks: vec![jump(Target::Return)], ..Function::default() };
        let slot = f.new_slot(bytes, 4);
        f.params.push(slot);
        f
    }

    /// With a call at its start.
    fn calling(mut f: Function, callee: Callee) -> Function {
        f.calls.push(CallSite { callee, args: vec![], results: vec![] });
        f.blocks[0].term = Term::Call { site: 0, next: NEXT };
        f.blocks.push(jump(Target::Return));
        f
    }

    /// Stores into its variable of four bytes, and calls by the pointer in its first register.
    fn caller(args: Vec<SlotId>) -> Function {
        let regs = vec![Class::Lane(Width::W64), Class::Lane(Width::W32)];
        let mut f = Function { regs, ..Function::default() };
        let slot = f.new_slot(4, 4);
        let (space, width) = (Space::Local, Width::W32);
        let access = Access { space, bytes: 4, count: 1, signed: false, volatile: false, width };
        let src = vec![Operand::Slot(slot), Operand::Imm(0), Operand::Reg(Reg(1))];
        let store = Inst { op: Op::Store(access), guard: None, dst: vec![], src, line: 1 };
        f.calls.push(CallSite { callee: Callee::Indirect(Reg(0)), args, results: vec![] });
        f.blocks = vec![
            Block { insts: vec![store], term: Term::Jump(Target::Block(NEXT)), line: 1 },
            Block { insts: vec![], term: Term::Call { site: 0, next: BlockId(2) }, line: 2 },
            jump(Target::Exit),
        ];
        f
    }

    /// Functions that the caller's pointer is compared with.
    fn compared(callees: BTreeMap<u32, Function>, f: &mut Function) -> Vec<u64> {
        let recursive = crate::transform::inline::recursive_functions(&callees);
        run(f, &Candidates::of(&callees, &recursive, |number| number != 9));
        let insts = f.blocks.iter().flat_map(|b| &b.insts);
        let compared = insts.filter(|inst| matches!(inst.op, Op::Setp(..)));
        let address = |inst: &Inst| match inst.src[..] {
            [Operand::Reg(Reg(0)), Operand::Imm(address)] => (address - FUNCTION_BASE) / 16,
            _ => panic!("{inst}"),
        };
        compared.map(address).collect()
    }

    #[test]
    fn a_pointer_is_compared_with_functions_that_the_call_may_be_meant_for() {
        let callees = BTreeMap::from([
            (2, taking(4)),
            (3, calling(taking(4), Callee::Direct(2))),
            (4, taking(8)),
            (5, calling(taking(4), Callee::Direct(5))),
            (6, calling(taking(4), Callee::Indirect(Reg(0)))),
            (7, calling(taking(4), Callee::Direct(6))),
            (9, taking(4)),
        ]);
        let mut f = caller(vec![SlotId(0)]);
        assert_eq!(compared(callees, &mut f), [2, 3]);
        let calls = f.blocks.iter().filter_map(|b| match b.term {
            Term::Call { site, .. } => Some((b.insts.len(), &f.calls[site as usize])),
            _ => None,
        });
        let calls: Vec<_> =
            calls.map(|(before, call)| (before, call.callee, call.args[0])).collect();
        // The call through the pointer stands alone, and has a variable of its own.
        let direct = |number| (0, Callee::Direct(number), SlotId(0));
        assert_eq!(calls, [direct(2), direct(3), (0, Callee::Indirect(Reg(0)), SlotId(1))]);
        let copies: Vec<_> = f.blocks.iter().flat_map(|b| &b.insts).map(|i| i.src[0]).collect();
        assert_eq!(
            copies[copies.len() - 2..],
            [Operand::Slot(SlotId(0)), Operand::Slot(SlotId(1))]
        );
    }

    #[test]
    fn a_pointer_that_may_hold_too_much_is_not_compared() {
        let few = (0..CANDIDATES_MAX as u32).map(|n| (10 + n, taking(4)));
        let mut callees: BTreeMap<u32, Function> = few.collect();
        let all: Vec<u64> = callees.keys().map(|n| u64::from(*n)).collect();
        assert_eq!(compared(callees.clone(), &mut caller(vec![SlotId(0)])), all);
        callees.insert(100, taking(4));
        assert_eq!(compared(callees, &mut caller(vec![SlotId(0)])), []);
        let mut large = taking(4);
        large.blocks = vec![jump(Target::Return); SIZE_MAX + 1];
        assert_eq!(compared(BTreeMap::from([(2, large)]), &mut caller(vec![SlotId(0)])), []);
    }

    #[test]
    fn a_variable_whose_address_is_taken_is_the_calls_own() {
        let mut f = caller(vec![SlotId(0)]);
        let src = vec![Operand::Slot(SlotId(0))];
        let (op, dst) = (Op::Mov(Width::W64), vec![Reg(0)]);
        f.blocks[2].insts.push(Inst { op, guard: None, dst, src, line: 3 });
        assert_eq!(compared(BTreeMap::from([(2, taking(4))]), &mut f), [2]);
        assert_eq!(f.calls[0].args, [SlotId(0)], "nothing is known of what is in it");
    }
}
