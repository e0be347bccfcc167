//! Loop exit copies (as LCSSA phis), which remove temporal divergence: a value that is uniform
//! inside a loop but read behind it by lanes that left earlier gets a register of its own.
//!
//! Lanes leave a loop at different times, and those that have left still read its registers: a counter
//! that all lanes in the loop have in common varies for that reason alone, and so does every address
//! made of it. So such a register gets a *copy* that is written wherever it is. The loop reads
//! the register, which no other code needs any more and which is one number again; all others read the
//! copy, which keeps what each lane left with.
//!
//! A copy is a `mov` behind each definition, so only what becomes an affine value of the lane's number
//! gets one: that is found by trying. Registers that terminators read are left alone.
//!
//! Invariant: a register and its copy are equal in every lane, always.

use crate::analysis::affine::Shape;
use crate::analysis::dataflow::turned;
use crate::analysis::divergence::{self, Shapes};
use crate::analysis::liveness::{Liveness, term_uses};
use crate::analysis::loops::{Loops, Walk};
use crate::ir::op::{Class, Op, Width};
use crate::ir::{Function, Inst, Operand, Reg};
use crate::launch_shape::LaunchShape;
use crate::transform::dce;

/// Registers that are tried in a function: each is looked for in all of it.
const CANDIDATES_MAX: usize = 64;
/// Times that a function is looked at with copies: the second one nearly always confirms the first.
const ROUNDS_MAX: usize = 4;

/// A register, and the blocks that go on reading it.
struct Candidate {
    reg: Reg,
    width: Width,
    /// By block.
    inside: Vec<bool>,
}

/// Makes copies, and looks at the function again if there are any.
pub(crate) fn run(
    f: &mut Function,
    liveness: Liveness,
    shapes: Shapes,
    launch_shape: LaunchShape,
) -> (Liveness, Shapes) {
    let mut candidates = candidates(f, &shapes);
    for _ in 0..ROUNDS_MAX {
        if candidates.is_empty() {
            break;
        }
        let mut with = f.clone();
        candidates.iter().for_each(|c| make_copy(&mut with, c));
        dce::drop_unused(&mut with);
        let liveness = Liveness::of(&with);
        let shapes = divergence::analyse(&with, &liveness, launch_shape);
        let before = candidates.len();
        candidates.retain(|c| shapes.of[c.reg.index()] != Shape::Varying);
        if candidates.len() == before {
            *f = with;
            return (liveness, shapes);
        }
    }
    (liveness, shapes)
}

/// Registers that vary, written in a loop while lanes that have left it need them, and read there.
fn candidates(f: &Function, shapes: &Shapes) -> Vec<Candidate> {
    let loops = loops(f);
    if loops.all.is_empty() {
        return Vec::new();
    }
    let places = Places::of(f, shapes);
    let candidate = |index: usize| {
        let reg = Reg(index as u32);
        let Class::Lane(width) = f.regs[index] else { return None };
        let written = &places.written[index];
        if shapes.of[index] != Shape::Varying || width == Width::W128 || places.ends[index] {
            return None;
        }
        let is_in = |block: usize, l: usize| loops.around(block).any(|of| of == l);
        let around =
            loops.around(*written.first()?).find(|l| written.iter().all(|b| is_in(*b, *l)))?;
        let is_read = places.read[index].iter().any(|b| is_in(*b, around));
        let inside = || (0..f.blocks.len()).map(|b| is_in(b, around)).collect();
        is_read.then(|| Candidate { reg, width, inside: inside() })
    };
    (0..f.regs.len()).filter_map(candidate).take(CANDIDATES_MAX).collect()
}

/// Where registers are written and read.
struct Places {
    /// By register, the blocks that write it while lanes elsewhere need it.
    written: Vec<Vec<usize>>,
    /// By register, the blocks that read it for something else than its own next value.
    read: Vec<Vec<usize>>,
    /// By register: a terminator reads or writes it.
    ends: Vec<bool>,
}

impl Places {
    fn of(f: &Function, shapes: &Shapes) -> Self {
        let none = || vec![Vec::new(); f.regs.len()];
        let (mut written, mut read, mut ends) = (none(), none(), vec![false; f.regs.len()]);
        for (number, block) in f.blocks.iter().enumerate() {
            for inst in &block.insts {
                for r in &inst.dst {
                    if shapes.needed_elsewhere.contains(number, *r) {
                        written[r.index()].push(number);
                    }
                }
                for r in inst.uses().filter(|r| inst.dst != [*r]) {
                    read[r.index()].push(number);
                }
            }
            for r in term_uses(f, &block.term).chain(block.term.def()) {
                ends[r.index()] = true;
            }
        }
        Self { written, read, ends }
    }
}

/// The function's loops.
fn loops(f: &Function) -> Loops {
    let successors = f.successors();
    Loops::of(&turned(&successors), &Walk::of(&successors))
}

/// Writes the copy behind every definition, and has all that is not inside read it.
fn make_copy(f: &mut Function, candidate: &Candidate) {
    let Candidate { reg, width, .. } = *candidate;
    let copy = f.new_reg(Class::Lane(width));
    for (block, inside) in f.blocks.iter_mut().zip(&candidate.inside) {
        for inst in block.insts.iter_mut().filter(|_| !inside) {
            for source in inst.src.iter_mut().filter(|s| **s == Operand::Reg(reg)) {
                *source = Operand::Reg(copy);
            }
        }
        let mut insts = Vec::with_capacity(block.insts.len());
        for inst in block.insts.drain(..) {
            let copy = inst.dst.contains(&reg).then(|| Inst {
                op: Op::Mov(width),
                guard: None,
                dst: vec![copy],
                src: vec![Operand::Reg(reg)],
                line: inst.line,
            });
            insts.push(inst);
            insts.extend(copy);
        }
        block.insts = insts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::{Access, Compare, CompareType, IntOp, IntType, Space, Special};
    use crate::ir::{Block, BlockId, Guard, Target, Term};

    const COUNTER: Reg = Reg(0);
    const LOADED: Reg = Reg(2);
    const PART: Reg = Reg(4);

    fn inst(op: Op, dst: Reg, src: Vec<Operand>) -> Inst {
        Inst { op, guard: None, dst: vec![dst], src, line: 0 }
    }

    /// A loop of blocks 1 and 2 that lanes leave from either for block 3, which reads the counter;
    /// what it grows by is given.
    fn counting(step: Operand) -> Function {
        let (address, sum) = (Reg(1), Reg(3));
        let load = Op::Load(Access {
            space: Space::Shared,
            bytes: 4,
            count: 1,
            signed: false,
            volatile: false,
            width: Width::W32,
        });
        let differs = || Op::Setp(Compare::Ne, CompareType::Int(IntType::S32));
        let add = || Op::Int(IntOp::Add, IntType::S32);
        let branch = |taken, other| Term::Branch {
            guard: Guard { reg: PART, negated: false },
            taken: Target::Block(BlockId(taken)),
            other: Target::Block(BlockId(other)),
        };
        let r = Operand::Reg;
        let blocks = vec![
            Block {
                insts: vec![
                    inst(Op::Special(Special::Tid(0)), address, vec![]),
                    inst(Op::Mov(Width::W32), COUNTER, vec![Operand::Imm(0)]),
                ],
                term: Term::Jump(Target::Block(BlockId(1))),
                line: 0,
            },
            Block {
                insts: vec![
                    inst(add(), sum, vec![r(address), r(COUNTER)]),
                    inst(load, LOADED, vec![r(sum), Operand::Imm(0)]),
                    inst(differs(), PART, vec![r(LOADED), Operand::Imm(0)]),
                ],
                term: branch(3, 2),
                line: 0,
            },
            Block {
                insts: vec![
                    inst(add(), COUNTER, vec![r(COUNTER), step]),
                    inst(differs(), PART, vec![r(COUNTER), Operand::Imm(64)]),
                ],
                term: branch(1, 3),
                line: 0,
            },
            Block {
                insts: vec![inst(Op::Mov(Width::W32), LOADED, vec![r(COUNTER)])],
                term: Term::Jump(Target::Exit),
                line: 0,
            },
        ];
        let narrow = Class::Lane(Width::W32);
        let regs = vec![narrow, narrow, narrow, narrow, Class::Pred];
        Function { regs, blocks, ..Function::default() }
    }

    fn looked_at(f: &mut Function) -> (Shapes, Shapes) {
        let before = || divergence::analyse(f, &Liveness::of(f), LaunchShape::Line);
        let (first, given) = (before(), before());
        let liveness = Liveness::of(f);
        let (_, after) = run(f, liveness, given, LaunchShape::Line);
        (first, after)
    }

    #[test]
    fn a_counter_that_lanes_leave_with_is_one_number_in_the_loop() {
        let mut f = counting(Operand::Imm(1));
        let (before, after) = looked_at(&mut f);
        assert!(before.of[COUNTER.index()] == Shape::Varying, "those that left keep theirs");
        assert!(after.of[COUNTER.index()] == Shape::UNIFORM);
        let Operand::Reg(copy) = f.blocks[3].insts[0].src[0] else { panic!("{:?}", f.blocks) };
        assert_ne!(copy, COUNTER, "who has left reads the copy");
        assert!(after.of[copy.index()] == Shape::Varying);
        for block in [0, 2] {
            let copies = f.blocks[block].insts.iter().filter(|i| i.dst == [copy]);
            assert_eq!(copies.count(), 1, "block {block}: {:?}", f.blocks);
        }
    }

    #[test]
    fn what_varies_anyway_gets_no_copy() {
        let mut f = counting(Operand::Reg(LOADED));
        let blocks = f.blocks.clone();
        let (_, after) = looked_at(&mut f);
        assert!(after.of[COUNTER.index()] == Shape::Varying);
        assert_eq!(f.blocks, blocks);
    }

    #[test]
    fn a_loop_may_be_one_block() {
        let mut f = counting(Operand::Imm(1));
        let second = f.blocks.remove(2);
        f.blocks[1].insts.extend(second.insts);
        f.blocks[1].term = Term::Branch {
            guard: Guard { reg: PART, negated: false },
            taken: Target::Block(BlockId(1)),
            other: Target::Block(BlockId(2)),
        };
        let (before, after) = looked_at(&mut f);
        assert!(before.of[COUNTER.index()] == Shape::Varying);
        assert!(after.of[COUNTER.index()] == Shape::UNIFORM);
    }

    #[test]
    fn what_terminators_read_gets_no_copy() {
        let mut f = counting(Operand::Imm(1));
        let targets = vec![Target::Exit];
        f.blocks[3].term = Term::Table { index: Operand::Reg(COUNTER), targets };
        let blocks = f.blocks.clone();
        let (_, after) = looked_at(&mut f);
        assert!(after.of[COUNTER.index()] == Shape::Varying);
        assert_eq!(f.blocks, blocks);
    }
}
