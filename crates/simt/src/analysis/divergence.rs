//! Divergence (uniformity) analysis: which values are uniform or affine over the lanes, and which
//! blocks all lanes run together.
//!
//! The two depend on each other and are found together, from the optimistic end: nothing is known
//! to vary, nothing diverges. A value has the shape that its operation makes of the operands'
//! shapes (`affine`); a branch on a varying predicate diverges, and every block between it and its
//! post-dominator may then run with some of the lanes.
//!
//! One value for all lanes can only live where no lane needs an older one: a register written
//! while lanes wait elsewhere that will read it (`inactive_liveness`) varies. Those that left a loop do not
//! read its counter, so a counter stays affine although its loop diverges.
//!
//! The result relies on the order of the blocks (`block_layout`) and on a warp running its lowest
//! pending block first. Where the order cannot promise that lanes reconverge at the post-dominator, all
//! that follows counts as divergent.

use crate::analysis::affine::{Rules, Shape, Widening};
use crate::analysis::inactive_liveness::{InactiveUses, needed_elsewhere};
use crate::analysis::influence_regions::Regions;
use crate::analysis::known_bits::{KnownBits, KnownValue};
use crate::analysis::liveness::Liveness;
use crate::analysis::postdominators::is_dead_end;
use crate::ir::op::{Convert, FloatType, Op, Round, Space, Special};
use crate::ir::{Function, Inst, Operand, Reg, Term};
use crate::launch_shape::LaunchShape;

/// What the pass found.
pub(crate) struct Shapes {
    /// By register: how lanes that can read it together differ.
    pub(crate) of: Vec<Shape>,
    /// By block: not all live lanes need run it together.
    pub(crate) divergent: Vec<bool>,
    /// By register: the same for all threads of the block, always, and free to compute early.
    pub(crate) invariant: Vec<bool>,
    /// By block: registers that lanes which do not run it may need.
    pub(crate) needed_elsewhere: InactiveUses,
    /// Which launches the code is for.
    pub(crate) launch_shape: LaunchShape,
    facts: KnownBits,
}

/// Analyses a function whose blocks are in order, for launches of a geometry.
pub(crate) fn analyse(f: &Function, liveness: &Liveness, launch_shape: LaunchShape) -> Shapes {
    let dead_end = (0..f.blocks.len()).map(|b| is_dead_end(f, liveness, b)).collect();
    let mut regions = Regions::of(f, dead_end);
    let mut shapes = Shapes {
        of: vec![Shape::Unknown; f.regs.len()],
        divergent: vec![false; f.blocks.len()],
        invariant: invariants(f),
        needed_elsewhere: InactiveUses::none(liveness, f.blocks.len()),
        launch_shape,
        facts: KnownBits::of(f, launch_shape),
    };
    let mut waited_for: Option<Vec<bool>> = None;
    loop {
        while shapes.step(f, &mut regions) {}
        // What is only computed from registers that are never written has any shape we like.
        if shapes.of.contains(&Shape::Unknown) {
            shapes
                .of
                .iter_mut()
                .filter(|s| **s == Shape::Unknown)
                .for_each(|s| *s = Shape::UNIFORM);
            continue;
        }
        // More divergence, more waiters; more waiters, more that varies.
        let parts: Vec<bool> = f.blocks.iter().map(|b| shapes.diverges(&b.term)).collect();
        let divergence = [&shapes.divergent[..], &parts].concat();
        if waited_for.as_ref() == Some(&divergence) {
            return shapes;
        }
        shapes.needed_elsewhere = needed_elsewhere(f, liveness, &shapes.divergent, &parts);
        waited_for = Some(divergence);
    }
}

impl Shapes {
    /// Looks at every block once; true if that changed anything.
    fn step(&mut self, f: &Function, regions: &mut Regions) -> bool {
        let mut changed = false;
        for (b, block) in f.blocks.iter().enumerate() {
            for inst in &block.insts {
                let shape = self.results(inst);
                for d in &inst.dst {
                    changed |= self.define(*d, b, shape);
                }
            }
            if let Some(d) = block.term.def() {
                // A terminator gives one value, not one a half.
                let one = matches!(self.of[d.index()], Shape::Unknown | Shape::Affine(_));
                let shape = if one { Shape::UNIFORM } else { Shape::Varying };
                changed |= self.define(d, b, shape);
            }
            if self.diverges(&block.term) {
                changed |= regions.spread(f, b, &mut self.divergent);
            }
        }
        changed
    }

    fn rules(&self) -> Rules<'_> {
        Rules { launch_shape: self.launch_shape, facts: &self.facts, shapes: &self.of }
    }

    /// The shape of an instruction's results.
    pub(crate) fn results(&self, inst: &Inst) -> Shape {
        self.rules().results(inst)
    }

    /// The widening that the instruction is, if its result is affine only after a check.
    pub(crate) fn widening(&self, inst: &Inst) -> Option<Widening> {
        self.rules().unproved(inst)
    }

    /// What is known of a register's values.
    pub(crate) fn fact(&self, reg: Reg) -> KnownValue {
        self.facts.register(reg)
    }

    /// True if the register's values differ between lanes that can read it together.
    pub(crate) fn varies(&self, reg: Reg) -> bool {
        self.of[reg.index()].varies()
    }

    fn define(&mut self, reg: Reg, block: usize, shape: Shape) -> bool {
        let old = self.of[reg.index()];
        let new = match old.join(shape) {
            Shape::Unknown => Shape::Unknown,
            _ if self.invariant[reg.index()] => Shape::UNIFORM,
            _ if self.needed_elsewhere.contains(block, reg) => Shape::Varying,
            shape => shape,
        };
        self.of[reg.index()] = new;
        new != old
    }

    fn diverges(&self, term: &Term) -> bool {
        match term {
            Term::Branch { guard, .. } => self.varies(guard.reg),
            Term::Table { index: Operand::Reg(r), .. } => self.varies(*r),
            _ => false,
        }
    }
}

/// Registers with one definition, by an operation without effects, from constants, the launch and
/// other such registers. Wherever one is read it has that one value: elsewhere it is undefined.
fn invariants(f: &Function) -> Vec<bool> {
    let mut definitions = vec![0u32; f.regs.len()];
    for block in &f.blocks {
        for d in block.insts.iter().flat_map(|i| &i.dst) {
            definitions[d.index()] += 1;
        }
        if let Some(d) = block.term.def() {
            definitions[d.index()] += 2;
        }
    }
    let mut invariant = vec![false; f.regs.len()];
    loop {
        let mut changed = false;
        for inst in f.blocks.iter().flat_map(|b| &b.insts) {
            let known = inst.src.iter().all(|s| match s {
                Operand::Imm(_) => true,
                Operand::Reg(r) => invariant[r.index()],
                Operand::Slot(_) => false,
            });
            let free = inst.guard.is_none() && known && is_invariant(&inst.op);
            if free && inst.dst.iter().all(|d| definitions[d.index()] == 1) {
                for d in &inst.dst {
                    changed |= !std::mem::replace(&mut invariant[d.index()], true);
                }
            }
        }
        if !changed {
            return invariant;
        }
    }
}

/// True if equal operands give equal results anywhere in the block, at any time.
fn is_invariant(op: &Op) -> bool {
    match op {
        Op::Special(s) => matches!(
            s,
            Special::Ntid(_)
                | Special::Ctaid(_)
                | Special::Nctaid(_)
                | Special::GridId
                | Special::WorkspaceLow
                | Special::WorkspaceHigh
                | Special::DynamicSharedBytes
                | Special::TotalSharedBytes
                | Special::NwarpId
                | Special::StackBegin
                | Special::StackEnd
                | Special::Clusterid(_)
                | Special::Nclusterid(_)
                | Special::ClusterCtaid(_)
                | Special::ClusterNctaid(_)
                | Special::ClusterCtarank
                | Special::ClusterNctarank
                | Special::ExplicitCluster
        ),
        Op::Load(access) => access.space == Space::Param,
        // What every tier has: an unsupported instruction must not be met early.
        Op::Mov(_)
        | Op::PredMov
        | Op::Pack { .. }
        | Op::Unpack { .. }
        | Op::Int(..)
        | Op::Extend { .. }
        | Op::Pred(_)
        | Op::PredNot
        | Op::ToGeneric(_)
        | Op::FromGeneric(_)
        | Op::Select(_)
        | Op::Setp(..) => true,
        Op::Float(_, FloatType::F32 | FloatType::F64, mode) => mode.round == Round::Near,
        Op::Convert(Convert::FromInt { to: FloatType::F32 | FloatType::F64, mode, .. }) => {
            mode.round == Round::Near
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::op::{BarrierOp, Class, IntOp, IntType, Width};
    use crate::ir::{Block, BlockId, Guard, Reg, Target};

    const VALUE: Reg = Reg(0);

    /// Whether the first register is the same always, if that and a barrier write it.
    fn is_invariant_of(inst: Inst, result: Option<Reg>) -> bool {
        let exit = Block { insts: vec![], term: Term::Jump(Target::Exit), line: 0 };
        let barrier = Term::Barrier {
            op: BarrierOp::RedPopc,
            barrier: Operand::Imm(0),
            count: Operand::Imm(0),
            predicate: Some(Operand::Reg(Reg(1))),
            negated: false,
            dst: result,
            next: BlockId(1),
        };
        let blocks = vec![Block { insts: vec![inst], term: barrier, line: 0 }, exit];
        let lane = Class::Lane(Width::W32);
        let regs = vec![lane, Class::Pred, lane];
        invariants(&Function { regs, blocks, ..Function::default() })[VALUE.index()]
    }

    #[test]
    fn what_one_instruction_makes_of_the_launch_is_the_same_always() {
        let inst = |op, src| Inst { op, guard: None, dst: vec![VALUE], src, line: 0 };
        let add = || Op::Int(IntOp::Add, IntType::U32);
        let size = || inst(Op::Special(Special::Ntid(0)), vec![]);
        let constants = inst(add(), vec![Operand::Imm(1), Operand::Imm(2)]);
        assert!(is_invariant_of(size(), None) && is_invariant_of(constants, None));
        let guard = Some(Guard { reg: Reg(1), negated: false });
        for other in [
            Inst { guard, ..size() },
            inst(Op::Special(Special::Tid(0)), vec![]),
            inst(Op::Special(Special::LaneId), vec![]),
            inst(add(), vec![Operand::Reg(Reg(2)), Operand::Imm(1)]),
            inst(add(), vec![Operand::Reg(VALUE), Operand::Imm(1)]),
        ] {
            assert!(!is_invariant_of(other.clone(), None), "{other:?}");
        }
        assert!(!is_invariant_of(size(), Some(VALUE)), "a barrier writes it too");
        assert!(is_invariant_of(size(), Some(Reg(2))));
    }
}
