//! Hoisting: what is computed once for all warps of a block (the uniform preamble), or once for all
//! lanes and then broadcast.

use crate::ir::op::{Op, Width};
use crate::ir::vector::{Source, StorageClass, VectorBlock, VectorInst, VectorTerm};
use crate::ir::{Callee, Reg};
use crate::vectorize::Vectorizer;

impl Vectorizer<'_> {
    /// Takes what belongs into the prologue out of the blocks, definitions before uses. An
    /// invariant that is computed from one that must stay (predicates of predicates have no
    /// uniform form) stays as well.
    pub(super) fn hoist(&self, blocks: &mut [VectorBlock]) -> Vec<VectorInst> {
        let mut prologue: Vec<VectorInst> = Vec::new();
        let mut known = vec![false; self.storage.len()];
        // More than once, because blocks are not in the order of their numbers of execution where
        // a value is defined behind a loop and read in front of it.
        loop {
            let before = prologue.len();
            for block in &mut *blocks {
                let early = block.insts.extract_if(.., |inst| {
                    let ready = inst.src.iter().all(|s| s.registers().all(|r| known[r.index()]));
                    let hoisted = ready && self.is_invariant(inst);
                    if hoisted {
                        inst.dst.iter().for_each(|d| known[d.reg.index()] = true);
                    }
                    hoisted
                });
                prologue.extend(early);
            }
            if prologue.len() == before {
                return prologue;
            }
        }
    }

    /// True if the instruction may be computed once for the whole block.
    pub(super) fn is_invariant(&self, inst: &VectorInst) -> bool {
        !inst.dst.is_empty()
            && inst.uniform
            && inst.dst.iter().all(|d| self.shapes.invariant.get(d.reg.index()) == Some(&true))
    }

    /// Values loaded from one address that no instruction reads as one value go straight to all lanes.
    pub(super) fn load_for_all(&mut self, blocks: &[VectorBlock]) {
        let mut candidate = vec![false; self.storage.len()];
        for inst in blocks.iter().flat_map(|b| &b.insts) {
            let whole = matches!(&inst.op, Op::Load(access)
                if matches!(access.width, Width::W32 | Width::W64)
                    && u32::from(access.bytes) == access.width.bytes());
            if whole && inst.uniform && inst.guard.is_none() {
                inst.dst.iter().for_each(|d| candidate[d.reg.index()] = true);
            }
        }
        let mut veto = |r: Reg| candidate[r.index()] = false;
        for block in blocks {
            for inst in &block.insts {
                for source in &inst.src {
                    if !matches!(source, Source::Vector(_)) {
                        source.registers().for_each(&mut veto);
                    }
                }
                // All results of a load move together; other definitions need the scalar.
                if !matches!(inst.op, Op::Load(_)) || !inst.uniform || inst.guard.is_some() {
                    inst.dst.iter().for_each(|d| veto(d.reg));
                }
            }
            let sources = match &block.term {
                VectorTerm::Table { index, .. } => vec![*index],
                VectorTerm::Barrier { barrier, count, .. } => vec![*barrier, *count],
                _ => vec![],
            };
            for source in sources {
                if let Source::Scalar(r) = source {
                    veto(r);
                }
            }
        }
        loop {
            let mut changed = false;
            for inst in blocks.iter().flat_map(|b| &b.insts) {
                if matches!(inst.op, Op::Load(_))
                    && inst.dst.iter().any(|d| !candidate[d.reg.index()])
                {
                    for d in &inst.dst {
                        changed |= std::mem::replace(&mut candidate[d.reg.index()], false);
                    }
                }
            }
            if !changed {
                break;
            }
        }
        for (storage, candidate) in self.storage.iter_mut().zip(candidate) {
            if candidate && *storage == StorageClass::Scalar {
                *storage = StorageClass::Vector;
            }
        }
    }

    /// Scalars that some instruction reads a lane.
    pub(super) fn splats(&self, blocks: &[VectorBlock]) -> Vec<bool> {
        let mut needed = vec![false; self.storage.len()];
        let mut note = |source: &Source| {
            if let Source::Vector(r) = source
                && self.storage[r.index()] == StorageClass::Scalar
            {
                needed[r.index()] = true;
            }
        };
        for block in blocks {
            block.insts.iter().flat_map(|i| &i.src).for_each(&mut note);
            match &block.term {
                VectorTerm::Table { index, .. } => note(index),
                VectorTerm::Barrier { barrier, count, predicate, .. } => {
                    [Some(barrier), Some(count), predicate.as_ref()]
                        .into_iter()
                        .flatten()
                        .for_each(&mut note);
                }
                _ => {}
            }
        }
        // An indirect callee is looked up a lane.
        for call in &self.f.calls {
            if let Callee::Indirect(r) = call.callee {
                note(&Source::Vector(r));
            }
        }
        needed
    }
}
