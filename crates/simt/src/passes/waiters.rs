//! What lanes that wait elsewhere still need while a block runs.
//!
//! When lanes part, some wait at a higher block while the others run lower ones. Their registers
//! must survive: a block that can run while lanes wait at `Y` must keep, in the lanes that do not
//! run it, whatever is live at `Y`. Everything else it may write in all lanes, which is cheaper.
//!
//! The relation over-approximates the scheduling rule of lockstep code. Lanes come to wait at `Y`
//! by an edge from some `P`. The others are then at another successor of `P`, or at a block
//! between `P` and `Y` where lanes were waiting before; from there they run blocks below `Y`
//! until they get to `Y` or beyond. Lanes that wait at a barrier, or for others at a synchronising
//! instruction, may see anything run meanwhile.

use super::liveness::{Liveness, RegSet};
use crate::ir::{Function, Term};

/// For each block, the registers that lanes outside of it may need later. `divergent` says which
/// blocks may run with some of the lanes, `parts` whose terminators may send lanes different ways.
pub(crate) fn needed_elsewhere(
    f: &Function,
    liveness: &Liveness,
    divergent: &[bool],
    parts: &[bool],
) -> Vec<RegSet> {
    let n = f.blocks.len();
    let mut needed = vec![RegSet::new(f.regs.len()); n];
    let predecessors = f.predecessors();
    for y in 0..n {
        let block = &f.blocks[y];
        let syncs = block.insts.first().is_some_and(|inst| inst.op.is_sync());
        let after_barrier = predecessors[y].iter().any(|p| {
            divergent[p.index()] && matches!(f.blocks[p.index()].term, Term::Barrier { .. })
        });
        let running = if (syncs && divergent[y]) || after_barrier {
            vec![true; n]
        } else {
            running_while_waiting(f, y, &predecessors[y], divergent, parts)
        };
        // A block that all live lanes run together has nobody to keep anything for.
        for x in (0..n).filter(|x| running[*x] && divergent[*x]) {
            needed[x].extend(&liveness.live_in[y]);
        }
    }
    needed
}

/// Blocks that can run while lanes wait at `y`.
fn running_while_waiting(
    f: &Function,
    y: usize,
    predecessors: &[crate::ir::BlockId],
    divergent: &[bool],
    parts: &[bool],
) -> Vec<bool> {
    let mut runs = vec![false; f.blocks.len()];
    let mut work = Vec::new();
    for p in predecessors {
        let p = p.index();
        // Lanes that are together and go the same way leave nobody behind.
        if !divergent[p] && !parts[p] {
            continue;
        }
        let others = f.blocks[p].term.successors().map(|s| s.index()).filter(|s| *s < y);
        work.extend(others);
        // All lanes are together in a block that does not diverge: nobody waits before `y`.
        if divergent[p] {
            work.extend(p + 1..y);
        }
    }
    while let Some(x) = work.pop() {
        if !std::mem::replace(&mut runs[x], true) {
            work.extend(f.blocks[x].term.successors().map(|s| s.index()).filter(|s| *s < y));
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Block, BlockId, Guard, Inst, Operand, Reg, Target};
    use crate::op::{Class, Op, Width};

    const P: Reg = Reg(0);

    fn mov(d: u32, s: u32) -> Inst {
        let src = vec![Operand::Reg(Reg(s))];
        Inst { op: Op::Mov(Width::W32), guard: None, dst: vec![Reg(d)], src, line: 0 }
    }

    fn branch(taken: u32, other: u32) -> Term {
        let guard = Guard { reg: P, negated: false };
        let to = |b| Target::Block(BlockId(b));
        Term::Branch { guard, taken: to(taken), other: to(other) }
    }

    /// A loop of blocks 0 and 1 that lanes leave from block 0 for block 2.
    #[test]
    fn a_loop_keeps_what_those_who_left_it_need() {
        let (inner, result) = (1, 2);
        let blocks = vec![
            Block { insts: vec![mov(inner, result)], term: branch(2, 1), line: 0 },
            Block {
                insts: vec![mov(result, inner)],
                term: Term::Jump(Target::Block(BlockId(0))),
                line: 0,
            },
            Block { insts: vec![mov(3, result)], term: Term::Jump(Target::Exit), line: 0 },
        ];
        let mut regs = vec![Class::Lane(Width::W32); 4];
        regs[0] = Class::Pred;
        let f = Function { regs, blocks, ..Function::default() };
        let liveness = Liveness::of(&f);
        let needed = needed_elsewhere(&f, &liveness, &[true, true, false], &[true, false, false]);
        assert!(needed[1].contains(Reg(result)), "the result of those who left");
        assert!(!needed[0].contains(Reg(inner)), "nobody waits at block 1 while block 0 runs");
        assert!(!needed[2].contains(Reg(result)), "nobody is left when block 2 runs");
    }
}
