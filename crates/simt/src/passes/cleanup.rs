//! Tidies the graph: drops what cannot be reached, threads jumps through empty blocks, merges
//! chains, and lets branches to a bare `ret` or `exit` leave directly.
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

/// Where a jump to `target` ends up, through blocks that only jump.
fn destination(f: &Function, target: Target) -> Target {
    let mut at = target;
    // A chain longer than the function is a loop of empty blocks: an endless loop that must stay.
    for _ in 0..=f.blocks.len() {
        let Target::Block(id) = at else { return at };
        let block = &f.blocks[id.index()];
        match block.term {
            Term::Jump(next) if block.insts.is_empty() => at = next,
            _ => return at,
        }
    }
    target
}

fn thread_jumps(f: &mut Function) {
    let map: Vec<Target> =
        (0..f.blocks.len()).map(|b| destination(f, Target::Block(BlockId(b as u32)))).collect();
    for block in &mut f.blocks {
        // A call, barrier or pause must come back to a block, whatever that block does.
        let continues =
            matches!(block.term, Term::Call { .. } | Term::Barrier { .. } | Term::Pause { .. });
        block.term.map_targets(|target| match target {
            Target::Block(id) => match map[id.index()] {
                Target::Return | Target::Exit if continues => target,
                mapped => mapped,
            },
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
pub(super) fn renumber(f: &mut Function, number: &[u32]) {
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
    use crate::ir::{Block, Guard, Reg};
    use crate::op::Class;

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

    #[test]
    fn an_endless_loop_of_nothing_stays() {
        let jump = |t| Block { insts: vec![], term: Term::Jump(t), line: 0 };
        let blocks = vec![jump(Target::Block(BlockId(1))), jump(Target::Block(BlockId(1)))];
        let mut f = Function { blocks, ..Function::default() };
        run(&mut f);
        assert_eq!(f.blocks[0].term.successors().count(), 1);
    }
}
