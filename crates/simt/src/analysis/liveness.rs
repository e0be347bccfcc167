//! Liveness of the SIMT IR: which registers may still be read, block by block.
//!
//! A guarded definition does not end a live range: lanes without the guard keep the old value.

use crate::analysis::dataflow::{Effects, Live, Marks, Set, left, turned};
use crate::ir::{Callee, Function, Reg, Term};

/// Live registers of a function.
pub(crate) struct Liveness {
    /// By block.
    pub(crate) live: Live,
    around_loops: Set,
}

/// Registers a terminator reads, an indirect callee included.
pub(crate) fn term_uses(f: &Function, term: &Term) -> impl Iterator<Item = Reg> + use<> {
    let callee = match term {
        Term::Call { site, .. } => match f.calls[*site as usize].callee {
            Callee::Indirect(r) => Some(r),
            Callee::Direct(_) => None,
        },
        _ => None,
    };
    term.uses().chain(callee)
}

/// What the function's blocks read and write.
fn effects(f: &Function) -> Effects {
    let mut effects = Effects::new(f.regs.len());
    for block in &f.blocks {
        effects.start_block();
        for inst in &block.insts {
            inst.uses().for_each(|r| effects.read(r));
            if inst.guard.is_none() {
                inst.dst.iter().for_each(|d| effects.write(*d));
            }
        }
        term_uses(f, &block.term).for_each(|r| effects.read(r));
        block.term.def().into_iter().for_each(|d| effects.write(d));
    }
    effects
}

impl Liveness {
    /// Computes it.
    pub(crate) fn of(f: &Function) -> Self {
        let successors = f.successors();
        let live = Live::of(effects(f), &successors);
        let mut around_loops = Set::new(live.names.count());
        let cycle = cycles(&successors, &turned(&successors));
        for (b, successors) in successors.iter().enumerate() {
            for s in successors.iter().filter(|s| cycle[**s] == cycle[b]) {
                around_loops.extend(&live.at_start[*s]);
            }
        }
        Self { live, around_loops }
    }

    /// Registers that are live at the start of a block, in order.
    pub(crate) fn at_start(&self, block: usize) -> impl Iterator<Item = Reg> + '_ {
        self.live.at_start[block].iter().map(|n| self.live.names.register(n))
    }

    /// True if the register is live along an edge that is part of a cycle.
    pub(crate) fn crosses_back_edge(&self, reg: Reg) -> bool {
        self.live.names.number(reg).is_some_and(|n| self.around_loops.contains(n))
    }

    /// The largest sum of weights of registers that are live at once.
    pub(crate) fn most(&self, f: &Function, weight: impl Fn(Reg) -> u32) -> u32 {
        let mut most = 0;
        let mut live = Marks::new(f.regs.len());
        for (b, block) in f.blocks.iter().enumerate() {
            live.wipe();
            let mut now = 0;
            for r in self.live.at_end[b].iter().map(|n| self.live.names.register(n)) {
                live.mark(r.index());
                now += weight(r);
            }
            most = most.max(now);
            for inst in block.insts.iter().rev() {
                if inst.guard.is_none() {
                    let ended = inst.dst.iter().filter(|d| live.unmark(d.index()));
                    now -= ended.map(|d| weight(*d)).sum::<u32>();
                }
                now += inst.uses().filter(|r| live.mark(r.index())).map(&weight).sum::<u32>();
                most = most.max(now);
            }
        }
        most
    }
}

/// By block, a number that two blocks share if each can be reached from the other.
pub(crate) fn cycles(successors: &[Vec<usize>], predecessors: &[Vec<usize>]) -> Vec<usize> {
    let mut cycle = vec![usize::MAX; successors.len()];
    // The last left first: walks backwards in this order stay each in a cycle.
    for root in left(successors).into_iter().rev() {
        let mut work = vec![root];
        while let Some(b) = work.pop() {
            if cycle[b] == usize::MAX {
                cycle[b] = root;
                work.extend(&predecessors[b]);
            }
        }
    }
    cycle
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::{BarrierOp, Class, Op, Width};
    use crate::ir::{Block, BlockId, Guard, Inst, Operand, Target};

    #[test]
    fn blocks_that_reach_each_other_share_a_cycle() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3 -> 3, 3 -> 4.
        let edges = [(0, 1), (1, 2), (2, 1), (2, 3), (3, 3), (3, 4)];
        let mut successors = vec![vec![]; 5];
        edges.iter().for_each(|(from, to)| successors[*from].push(*to));
        let cycle = cycles(&successors, &turned(&successors));
        assert_eq!(cycle[1], cycle[2]);
        for (a, b) in [(0, 1), (2, 3), (3, 4), (0, 4)] {
            assert_ne!(cycle[a], cycle[b], "{a} {b}");
        }
    }

    fn function(blocks: Vec<(Vec<Inst>, Term)>) -> Function {
        let lane = Class::Lane(Width::W32);
        let regs = vec![lane, lane, Class::Pred];
        let blocks = blocks.into_iter().map(|(insts, term)| Block { insts, term, line: 0 });
        Function { regs, blocks: blocks.collect(), ..Function::default() }
    }

    /// Reads the second register, and writes the first.
    fn mov(guard: Option<Guard>) -> Inst {
        let (op, src) = (Op::Mov(Width::W32), vec![Operand::Reg(Reg(1))]);
        Inst { op, guard, dst: vec![Reg(0)], src, line: 0 }
    }

    /// Reads the first one.
    fn uses() -> Inst {
        Inst { dst: vec![Reg(1)], src: vec![Operand::Reg(Reg(0))], ..mov(None) }
    }

    const PART: Guard = Guard { reg: Reg(2), negated: false };

    #[test]
    fn what_only_some_lanes_write_was_needed_before() {
        for (guard, expected) in [(None, vec![Reg(1)]), (Some(PART), vec![Reg(0), Reg(1), Reg(2)])]
        {
            let f = function(vec![(vec![mov(guard), uses()], Term::Jump(Target::Exit))]);
            assert_eq!(Liveness::of(&f).at_start(0).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn terminators_write_in_all_lanes() {
        let barrier = Term::Barrier {
            op: BarrierOp::RedPopc,
            barrier: Operand::Imm(0),
            count: Operand::Imm(0),
            predicate: Some(Operand::Reg(Reg(2))),
            negated: false,
            dst: Some(Reg(0)),
            next: BlockId(1),
        };
        let f = function(vec![(vec![], barrier), (vec![uses()], Term::Jump(Target::Exit))]);
        let liveness = Liveness::of(&f);
        assert_eq!(liveness.at_start(0).collect::<Vec<_>>(), [Reg(2)]);
        assert_eq!(liveness.at_start(1).collect::<Vec<_>>(), [Reg(0)]);
    }

    #[test]
    fn what_is_kept_from_block_to_block_of_a_loop_crosses_its_edges() {
        let to = |n| Target::Block(BlockId(n));
        let back = Term::Branch { guard: PART, taken: to(1), other: to(3) };
        let blocks = |first: Vec<Inst>, last: Vec<Inst>| {
            let f = function(vec![
                (vec![], Term::Jump(to(1))),
                (first, Term::Jump(to(2))),
                (vec![], back.clone()),
                (last, Term::Jump(Target::Exit)),
            ]);
            let liveness = Liveness::of(&f);
            [Reg(0), Reg(1)].map(|r| liveness.crosses_back_edge(r))
        };
        assert_eq!(blocks(vec![uses(), mov(None)], vec![]), [true, false]);
        assert_eq!(blocks(vec![mov(None), uses()], vec![]), [false, true]);
        assert_eq!(blocks(vec![], vec![mov(None), uses()]), [false, true]);
        assert_eq!(
            blocks(vec![Inst { src: vec![Operand::Imm(0)], ..mov(None) }], vec![]),
            [false; 2]
        );
    }
}
