//! CFG simplification: drops unreachable blocks, threads jumps through empty ones, merges chains,
//! and lets branches to a bare `ret` or `exit` leave directly.
//!
//! The last matters for speed: a lane that waits at a far `ret` block would keep the others from
//! being all the live lanes.

use crate::ir::{BlockId, Callee, Function, Target, Term};

/// Runs all of it.
pub(crate) fn run(f: &mut Function) {
    thread_jumps(f);
    merge_chains(f);
    drop_unreachable(f);
}

/// Where jumps to each block end up, through blocks that only jump. A loop of empty blocks is an endless
/// loop that must stay: jumps that end up there stay as they are.
fn destinations(f: &Function) -> Vec<Target> {
    let itself = |b: usize| Target::Block(BlockId(b as u32));
    let mut found: Vec<Option<Target>> = vec![None; f.blocks.len()];
    for start in 0..f.blocks.len() {
        let (mut path, mut at) = (Vec::new(), itself(start));
        let end = loop {
            let Target::Block(id) = at else { break Some(at) };
            if let Some(known) = found[id.index()] {
                // Met again, or known to end up in a loop.
                let loops = known == at && is_empty_jump(f, id);
                break Some(known).filter(|_| !loops);
            }
            found[id.index()] = Some(at);
            match f.blocks[id.index()].term {
                Term::Jump(next) if is_empty_jump(f, id) => {
                    path.push(id.index());
                    at = next;
                }
                _ => break Some(at),
            }
        };
        path.into_iter().for_each(|b| found[b] = Some(end.unwrap_or(itself(b))));
    }
    found.into_iter().enumerate().map(|(b, target)| target.unwrap_or(itself(b))).collect()
}

fn is_empty_jump(f: &Function, block: BlockId) -> bool {
    let block = &f.blocks[block.index()];
    block.insts.is_empty() && matches!(block.term, Term::Jump(_))
}

fn thread_jumps(f: &mut Function) {
    let map = destinations(f);
    for block in &mut f.blocks {
        block.term.map_targets(|target| match target {
            Target::Block(id) => map[id.index()],
            other => other,
        });
        if let Term::Branch { taken, other, .. } = block.term
            && taken == other
        {
            block.term = Term::Jump(taken);
        }
    }
}

/// Appends a block to its only predecessor if that one only jumps there, unless the block must
/// start where lanes gather.
fn merge_chains(f: &mut Function) {
    let mut predecessors: Vec<usize> = f.predecessors().iter().map(Vec::len).collect();
    // The entry has a predecessor that is not a block.
    predecessors[0] += 1;
    for index in 0..f.blocks.len() {
        while let Term::Jump(Target::Block(next)) = f.blocks[index].term {
            let starts_sync =
                f.blocks[next.index()].insts.first().is_some_and(|inst| inst.op.is_sync());
            if next.index() == index
                || predecessors[next.index()] != 1
                || starts_sync
                || is_indirect_call(f, next)
            {
                break;
            }
            let tail = &mut f.blocks[next.index()];
            let insts = std::mem::take(&mut tail.insts);
            let term = std::mem::replace(&mut tail.term, Term::Jump(Target::Exit));
            let line = tail.line;
            let block = &mut f.blocks[index];
            block.insts.extend(insts);
            block.term = term;
            block.line = line;
        }
    }
}

/// True for a block that is an indirect call and nothing else: lanes with different callees make
/// it one after the other, so nothing before it may run again.
fn is_indirect_call(f: &Function, block: BlockId) -> bool {
    let block = &f.blocks[block.index()];
    match block.term {
        Term::Call { site, .. } => {
            block.insts.is_empty() && matches!(f.calls[site as usize].callee, Callee::Indirect(_))
        }
        _ => false,
    }
}

fn drop_unreachable(f: &mut Function) {
    let mut reached = vec![false; f.blocks.len()];
    let mut work = vec![BlockId(0)];
    while let Some(id) = work.pop() {
        if !std::mem::replace(&mut reached[id.index()], true) {
            work.extend(f.blocks[id.index()].term.successors());
        }
    }
    let mut number = vec![0u32; f.blocks.len()];
    let mut count = 0;
    for (index, reached) in reached.iter().enumerate() {
        number[index] = count;
        count += u32::from(*reached);
    }
    let mut index = 0;
    f.blocks.retain(|_| {
        index += 1;
        reached[index - 1]
    });
    renumber(f, &number);
}

/// Applies new block numbers to all targets.
pub(crate) fn renumber(f: &mut Function, number: &[u32]) {
    for block in &mut f.blocks {
        block.term.map_targets(|target| match target {
            Target::Block(id) => Target::Block(BlockId(number[id.index()])),
            other => other,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::{Class, Op, Width};
    use crate::ir::{Block, CallSite, Guard, Inst, Operand, Reg};

    #[test]
    fn a_branch_to_a_bare_return_returns() {
        let jump = |t| Block { insts: vec![], term: Term::Jump(t), line: 0 };
        let guard = Guard { reg: Reg(0), negated: false };
        let (taken, other) = (Target::Block(BlockId(2)), Target::Block(BlockId(1)));
        let branch = Block { insts: vec![], term: Term::Branch { guard, taken, other }, line: 0 };
        let blocks = vec![branch, jump(Target::Block(BlockId(2))), jump(Target::Return)];
        let mut f = Function { regs: vec![Class::Pred], blocks, ..Function::default() };
        run(&mut f);
        assert_eq!(f.blocks.len(), 1);
        assert_eq!(f.blocks[0].term, Term::Jump(Target::Return));
    }

    fn mov() -> Inst {
        let src = vec![Operand::Imm(1)];
        Inst { op: Op::Mov(Width::W32), guard: None, dst: vec![Reg(1)], src, line: 0 }
    }

    fn function(blocks: Vec<(Vec<Inst>, Term)>) -> Function {
        let regs = vec![Class::Pred, Class::Lane(Width::W32)];
        let blocks = blocks.into_iter().map(|(insts, term)| Block { insts, term, line: 0 });
        Function { regs, blocks: blocks.collect(), ..Function::default() }
    }

    fn lengths(f: &Function) -> Vec<usize> {
        f.blocks.iter().map(|b| b.insts.len()).collect()
    }

    #[test]
    fn chains_become_one_block_where_no_other_edge_comes_in() {
        let to = |n| Term::Jump(Target::Block(BlockId(n)));
        let chain = [(vec![mov()], to(1)), (vec![mov()], to(2))];
        let mut f = function([&chain[..], &[(vec![mov()], Term::Jump(Target::Exit))]].concat());
        run(&mut f);
        assert_eq!(lengths(&f), [3]);
        // The first block is where the kernel comes from as well.
        let guard = Guard { reg: Reg(0), negated: false };
        let (taken, other) = (Target::Block(BlockId(1)), Target::Exit);
        let mut f = function(vec![
            (vec![mov()], Term::Branch { guard, taken, other }),
            (vec![mov(), mov()], to(0)),
        ]);
        run(&mut f);
        assert_eq!(lengths(&f), [1, 2]);
        // Lanes gather at the start of a block.
        let vote = Inst { op: Op::ActiveMask, dst: vec![Reg(1)], src: vec![], ..mov() };
        let meet = Inst { op: Op::WarpSync, dst: vec![], src: vec![Operand::Imm(!0)], ..mov() };
        assert!(meet.op.is_sync() && !vote.op.is_sync());
        for (first, expected) in [(vote, vec![2]), (meet, vec![1, 1])] {
            let mut f =
                function(vec![(vec![mov()], to(1)), (vec![first], Term::Jump(Target::Exit))]);
            run(&mut f);
            assert_eq!(lengths(&f), expected);
        }
    }

    #[test]
    fn what_goes_on_goes_on_at_a_block() {
        let bare = || (vec![], Term::Jump(Target::Return));
        let mut f = function(vec![(vec![mov()], Term::Pause { next: BlockId(1) }), bare()]);
        run(&mut f);
        assert_eq!(f.blocks[0].term, Term::Pause { next: BlockId(1) });
        assert_eq!(f.blocks[1].term, Term::Jump(Target::Return));
    }

    #[test]
    fn a_call_through_a_register_stays_alone() {
        let call = (vec![], Term::Call { site: 0, next: BlockId(2) });
        for (callee, expected) in
            [(Callee::Indirect(Reg(1)), vec![1, 0, 1]), (Callee::Direct(3), vec![1, 1])]
        {
            let mut f = function(vec![
                (vec![mov()], Term::Jump(Target::Block(BlockId(1)))),
                call.clone(),
                (vec![mov()], Term::Jump(Target::Exit)),
            ]);
            f.calls.push(CallSite { callee, args: vec![], results: vec![] });
            run(&mut f);
            assert_eq!(lengths(&f), expected);
        }
    }

    #[test]
    fn an_endless_loop_of_nothing_stays() {
        let jump = |t| Block { insts: vec![], term: Term::Jump(t), line: 0 };
        let blocks = vec![jump(Target::Block(BlockId(1))), jump(Target::Block(BlockId(1)))];
        let mut f = Function { blocks, ..Function::default() };
        run(&mut f);
        assert_eq!(f.blocks[0].term.successors().count(), 1);
    }
}
