//! Which values are the same in all lanes, and which blocks all lanes run together.
//!
//! The two depend on each other and are found together, from the optimistic end: nothing varies,
//! nothing diverges. A value varies if its operation or an operand does; a branch on a varying
//! predicate diverges, and every block between it and its post-dominator may then run with some
//! of the lanes; a register written in such a block varies unless nobody reads it outside.
//!
//! The result relies on the order of the blocks (`order`) and on a warp running its lowest
//! pending block first. Where the order cannot promise that lanes meet at the post-dominator, all
//! that follows counts as divergent.

use super::dominators::{is_dead_end, lasting_successors, post_dominators};
use super::liveness::{Liveness, RegSet, term_uses};
use super::waiters::needed_elsewhere;
use crate::ir::{Function, Inst, Operand, Reg, Term};
use crate::op::{Convert, FloatType, Op, Round, Space, Special};

/// What the pass found.
pub(crate) struct Shapes {
    /// By register: differs between lanes that can read it together.
    pub(crate) varying: Vec<bool>,
    /// By block: not all live lanes need run it together.
    pub(crate) divergent: Vec<bool>,
    /// By register: the same for all threads of the block, always, and free to compute early.
    pub(crate) invariant: Vec<bool>,
    /// By block: registers that lanes which do not run it may need.
    pub(crate) needed_elsewhere: Vec<RegSet>,
    /// By register: written and read in one block only, so lanes outside cannot tell.
    pub(crate) local: Vec<bool>,
}

/// Analyses a function whose blocks are in order.
pub(crate) fn analyse(f: &Function, liveness: &Liveness) -> Shapes {
    let post = post_dominators(f, liveness);
    let dead_end: Vec<bool> = (0..f.blocks.len()).map(|b| is_dead_end(f, liveness, b)).collect();
    let mut shapes = Shapes {
        varying: vec![false; f.regs.len()],
        divergent: vec![false; f.blocks.len()],
        invariant: invariants(f),
        needed_elsewhere: Vec::new(),
        local: local_registers(f, liveness),
    };
    loop {
        let mut changed = false;
        for (b, block) in f.blocks.iter().enumerate() {
            for inst in &block.insts {
                let varies = shapes.inst_varies(inst);
                for d in &inst.dst {
                    changed |= shapes.define(*d, b, varies);
                }
            }
            if let Some(d) = block.term.def() {
                changed |= shapes.define(d, b, false);
            }
            if shapes.diverges(&block.term) {
                changed |= shapes.spread(f, b, &post, &dead_end);
            }
        }
        if !changed {
            let parts: Vec<bool> = f.blocks.iter().map(|b| shapes.diverges(&b.term)).collect();
            shapes.needed_elsewhere = needed_elsewhere(f, liveness, &shapes.divergent, &parts);
            return shapes;
        }
    }
}

impl Shapes {
    fn operand_varies(&self, operand: &Operand) -> bool {
        matches!(operand, Operand::Reg(r) if self.varying[r.index()])
    }

    /// True if the results differ between lanes.
    pub(crate) fn inst_varies(&self, inst: &Inst) -> bool {
        let guard = inst.guard.is_some_and(|g| self.varying[g.reg.index()]);
        let sources = match inst.op {
            // One answer for all lanes that are asked together.
            Op::Vote(_) | Op::Redux(..) | Op::Match { all: true, .. } => &inst.src[1..],
            _ => &inst.src[..],
        };
        guard || inst.op.varies() || sources.iter().any(|s| self.operand_varies(s))
    }

    fn define(&mut self, reg: Reg, block: usize, varies: bool) -> bool {
        let outside = self.divergent[block] && !self.local[reg.index()];
        let new = (varies || outside) && !self.invariant[reg.index()] && !self.varying[reg.index()];
        self.varying[reg.index()] |= new;
        new
    }

    fn diverges(&self, term: &Term) -> bool {
        match term {
            Term::Branch { guard, .. } => self.varying[guard.reg.index()],
            Term::Table { index, .. } => self.operand_varies(index),
            _ => false,
        }
    }

    /// Marks what lies between a divergent branch and where its lanes meet.
    fn spread(
        &mut self,
        f: &Function,
        branch: usize,
        post: &[Option<usize>],
        dead_end: &[bool],
    ) -> bool {
        let mut changed = false;
        for s in f.blocks[branch].term.successors().map(|s| s.index()).filter(|s| dead_end[*s]) {
            changed |= !std::mem::replace(&mut self.divergent[s], true);
        }
        let next = lasting_successors(&f.blocks[branch].term, dead_end);
        if next.len() < 2 {
            return changed;
        }
        let mut meet = post[branch];
        let mut region = reachable(f, &next, meet);
        // Lanes that reach the meeting point early must wait there: it must stand behind.
        if meet.is_some_and(|m| region.iter().any(|b| *b >= m)) {
            meet = None;
            region = reachable(f, &next, meet);
        }
        for b in region {
            changed |= !std::mem::replace(&mut self.divergent[b], true);
        }
        changed
    }
}

fn reachable(f: &Function, from: &[usize], stop: Option<usize>) -> Vec<usize> {
    let mut seen = vec![false; f.blocks.len()];
    let mut found = Vec::new();
    let mut work = from.to_vec();
    while let Some(b) = work.pop() {
        if Some(b) != stop && !std::mem::replace(&mut seen[b], true) {
            found.push(b);
            work.extend(f.blocks[b].term.successors().map(|s| s.index()));
        }
    }
    found
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
                | Special::NwarpId
                | Special::GridId
                | Special::DynamicSharedBytes
                | Special::TotalSharedBytes
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

/// Registers all of whose mentions are in one block that does not read them before writing.
fn local_registers(f: &Function, liveness: &Liveness) -> Vec<bool> {
    const NOWHERE: u32 = u32::MAX;
    const MANY: u32 = u32::MAX - 1;
    let mut home = vec![NOWHERE; f.regs.len()];
    let mut mention = |r: Reg, b: usize| {
        let h = &mut home[r.index()];
        *h = if *h == NOWHERE || *h == b as u32 { b as u32 } else { MANY };
    };
    for (b, block) in f.blocks.iter().enumerate() {
        for inst in &block.insts {
            inst.dst.iter().for_each(|r| mention(*r, b));
            inst.uses().for_each(|r| mention(r, b));
        }
        term_uses(f, &block.term).into_iter().for_each(|r| mention(r, b));
        if let Some(d) = block.term.def() {
            // A result of a barrier arrives when the block has already been left.
            mention(d, f.blocks.len());
        }
    }
    home.iter()
        .enumerate()
        .map(|(r, h)| {
            *h < MANY
                && !liveness.live_in.get(*h as usize).is_some_and(|l| l.contains(Reg(r as u32)))
        })
        .collect()
}
