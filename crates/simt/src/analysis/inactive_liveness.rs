//! Liveness in inactive lanes: registers that a block must write under a mask, because lanes
//! pending at another block still read them.
//!
//! When lanes diverge, some wait at a higher block while the others run lower ones. Their registers
//! must survive: a block that can run while lanes wait at `Y` must keep, in the lanes that do not
//! run it, all registers that are live at `Y`. Everything else it may write in all lanes, which is
//! cheaper.
//!
//! The relation over-approximates the scheduling rule of lockstep code. Lanes come to wait at `Y`
//! by an edge from some `P`. The others are then at another successor of `P`, or at a block
//! between `P` and `Y` where lanes were waiting before; from there they run blocks below `Y`
//! until they get to `Y` or beyond. Lanes that wait at a barrier, or for others at a synchronising
//! instruction, may see anything run meanwhile.

use crate::analysis::dataflow::{Names, Set, turned};
use crate::analysis::liveness::Liveness;
use crate::ir::{Function, Reg, Term};
use std::rc::Rc;

/// By block, the registers that lanes outside of it may need later.
pub(crate) struct InactiveUses {
    names: Rc<Names>,
    of: Vec<Set>,
}

impl InactiveUses {
    /// Nothing, for a function of `blocks` blocks.
    pub(crate) fn none(liveness: &Liveness, blocks: usize) -> Self {
        let names = liveness.live.names.clone();
        let of = vec![Set::new(names.count()); blocks];
        Self { names, of }
    }

    /// True if lanes that do not run the block may need the register.
    pub(crate) fn contains(&self, block: usize, reg: Reg) -> bool {
        self.names.number(reg).is_some_and(|n| self.of[block].contains(n))
    }
}

/// Finds them. `divergent` says which blocks may run with some of the lanes, `parts` whose terminators
/// may send lanes different ways.
///
/// Blocks where lanes wait are looked at from the last to the first. So what is known to be needed in
/// a block is needed for a wait at least as late as the one that is looked at, and has gone on to
/// wherever this one would go on to: only what is new in a block goes on from there.
pub(crate) fn needed_elsewhere(
    f: &Function,
    liveness: &Liveness,
    divergent: &[bool],
    parts: &[bool],
) -> InactiveUses {
    let n = f.blocks.len();
    let live = &liveness.live;
    let successors = f.successors();
    let predecessors = turned(&successors);
    let mut needed = InactiveUses::none(liveness, n);
    let no_lane = Set::new(live.names.count());
    let mut everywhere = no_lane.clone();
    // By block, what is needed in all that it leads to in front of the wait.
    let mut beside = vec![no_lane; n];
    // By register: all blocks from this one to the wait need it.
    let mut from = vec![usize::MAX; live.names.count()];
    let mut work = Vec::new();
    for y in (0..n).rev() {
        let waiting = &live.at_start[y];
        let syncs = f.blocks[y].insts.first().is_some_and(|inst| inst.op.is_sync());
        let after_barrier = predecessors[y]
            .iter()
            .any(|p| divergent[*p] && matches!(f.blocks[*p].term, Term::Barrier { .. }));
        if (syncs && divergent[y]) || after_barrier {
            everywhere.extend(waiting);
            continue;
        }
        // Lanes that are together and go the same way leave no lane behind.
        for p in predecessors[y].iter().filter(|p| divergent[**p] || parts[**p]) {
            if beside[*p].extend(waiting) {
                work.extend(successors[*p].iter().filter(|s| **s < y));
            }
        }
        // All lanes are together in a block that does not diverge: no lane waits before `y`.
        if let Some(p) = predecessors[y].iter().filter(|p| divergent[**p]).min() {
            let first = p + 1;
            let last = waiting.iter().map(|r| from[r]).max().unwrap_or(first).min(y);
            work.extend(first..last.max(first));
            waiting.iter().for_each(|r| from[r] = from[r].min(first));
        }
        while let Some(x) = work.pop() {
            if needed.of[x].extend(waiting) {
                work.extend(successors[x].iter().filter(|s| **s < y));
            }
        }
    }
    for (x, set) in needed.of.iter_mut().enumerate() {
        // A block that all live lanes run together keeps nothing for other lanes.
        match divergent[x] {
            true => _ = set.extend(&everywhere),
            false => *set = Set::new(live.names.count()),
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::{BarrierOp, Class, Op, Width};
    use crate::ir::{Block, BlockId, Guard, Inst, Operand, Reg, Target};

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
        assert!(needed.contains(1, Reg(result)), "the result of those who left");
        assert!(!needed.contains(0, Reg(inner)), "no lane waits at block 1 while block 0 runs");
        assert!(!needed.contains(2, Reg(result)), "no lane is left when block 2 runs");
    }

    /// Blocks that can run while lanes wait at `y`, by the rule.
    fn running(f: &Function, y: usize, divergent: &[bool], parts: &[bool]) -> Vec<bool> {
        let mut runs = vec![false; f.blocks.len()];
        let onwards =
            |x: usize| f.blocks[x].term.successors().map(BlockId::index).filter(|s| *s < y);
        let mut work = Vec::new();
        for p in (0..f.blocks.len()).filter(|p| divergent[*p] || parts[*p]) {
            if f.blocks[p].term.successors().any(|s| s.index() == y) {
                work.extend(onwards(p));
                work.extend((p + 1..y).filter(|_| divergent[p]));
            }
        }
        while let Some(x) = work.pop() {
            if !std::mem::replace(&mut runs[x], true) {
                work.extend(onwards(x));
            }
        }
        runs
    }

    #[test]
    fn what_waiting_lanes_will_read_is_needed_wherever_others_run() {
        let mut random = crate::analysis::dataflow::tests::random();
        let mut seen = 0;
        for _ in 0..1000 {
            let (n, registers) = (3 + random(12), 8);
            let block = |_| {
                let way = |n| if random(5) == 0 { random(n) as u32 } else { random(n + 1) as u32 };
                let [taken, other] = [n, n].map(way).map(|b| b.min(n as u32 - 1));
                let reg = |random: &mut dyn FnMut(usize) -> usize| 1 + random(registers - 1) as u32;
                let insts =
                    (0..random(3)).map(|_| mov(reg(&mut random), reg(&mut random))).collect();
                Block { insts, term: branch(taken, other), line: 0 }
            };
            let blocks: Vec<Block> = (0..n).map(block).collect();
            let mut regs = vec![Class::Lane(Width::W32); registers];
            regs[0] = Class::Pred;
            let f = Function { regs, blocks, ..Function::default() };
            let mut some = || -> Vec<bool> { (0..n).map(|_| random(2) == 0).collect() };
            let (divergent, parts) = (some(), some());
            let liveness = Liveness::of(&f);
            let needed = needed_elsewhere(&f, &liveness, &divergent, &parts);
            let waits: Vec<Vec<bool>> =
                (0..n).map(|y| running(&f, y, &divergent, &parts)).collect();
            for x in 0..n {
                for r in (0..registers as u32).map(Reg) {
                    let waited_for =
                        (0..n).any(|y| waits[y][x] && liveness.at_start(y).any(|live| live == r));
                    assert_eq!(needed.contains(x, r), divergent[x] && waited_for, "{x} {r:?} {f}");
                    seen += usize::from(divergent[x] && waited_for);
                }
            }
        }
        assert!(seen > 1000, "{seen}");
    }

    /// Read in the block where lanes may wait.
    const KEPT: Reg = Reg(0);

    /// Which of three blocks behind each other keep what the second one reads.
    fn keep(first: Term, start: Option<Op>, divergent: [bool; 3], parts: [bool; 3]) -> Vec<bool> {
        let uses = |op: Op| {
            let dst = if op.is_sync() { vec![] } else { vec![Reg(1)] };
            Inst { op, guard: None, dst, src: vec![Operand::Reg(KEPT)], line: 0 }
        };
        let insts = start.into_iter().chain([Op::Mov(Width::W32)]).map(uses).collect();
        let to = |n| Term::Jump(Target::Block(BlockId(n)));
        let guard = Guard { reg: Reg(2), negated: false };
        let last = Term::Branch { guard, taken: Target::Block(BlockId(0)), other: Target::Exit };
        let blocks = [(vec![], first), (insts, to(2)), (vec![], last)].map(|(insts, term)| Block {
            insts,
            term,
            line: 0,
        });
        let regs = vec![Class::Lane(Width::W32), Class::Lane(Width::W32), Class::Pred];
        let f = Function { regs, blocks: blocks.into(), ..Function::default() };
        let needed = needed_elsewhere(&f, &Liveness::of(&f), &divergent, &parts);
        (0..3).map(|block| needed.contains(block, KEPT)).collect()
    }

    #[test]
    fn what_lanes_that_wait_need_is_kept_by_all_that_may_run_meanwhile() {
        let on = || Term::Jump(Target::Block(BlockId(1)));
        let all = [true; 3];
        // No lane waits where all are together.
        assert_eq!(keep(on(), None, [false; 3], [false; 3]), [false; 3]);
        assert_eq!(keep(on(), Some(Op::WarpSync), [false; 3], [false; 3]), [false; 3]);
        // Lanes that are not together gather at what they synchronise at.
        assert_eq!(keep(on(), None, [false, true, true], [false; 3]), [false; 3]);
        let gather = keep(on(), Some(Op::WarpSync), [false, true, true], [false; 3]);
        assert_eq!(gather, [false, true, true]);
        // They may come to a barrier one by one.
        let barrier = Term::Barrier {
            op: BarrierOp::Sync,
            barrier: Operand::Imm(0),
            count: Operand::Imm(0),
            predicate: None,
            negated: false,
            dst: None,
            next: BlockId(1),
        };
        assert_eq!(keep(barrier.clone(), None, all, [false; 3]), all);
        assert_eq!(keep(barrier, None, [false; 3], [false; 3]), [false; 3]);
    }
}
