//! From the SIMT IR of a thread to the vector IR of a warp.
//!
//! Nothing is decided here: the shapes found before say what is scalar and which results must be
//! kept, this writes it down. In [`Mode::Independent`] the shapes are not believed.

use super::ir::{Function, Inst, Operand, Reg, Target, Term};
use super::op::{Class, Op, Space, Width};
use super::passes::liveness::Liveness;
use super::passes::shape::Shapes;
use super::vector::{
    Dest, Home, Mode, Source, VectorBlock, VectorCall, VectorFunction, VectorInst, VectorTerm,
};

/// Offsets of the function's slots in its frame, and the frame's size.
pub(super) struct Frame<'a> {
    /// By slot, bytes.
    pub(super) offsets: &'a [u32],
    /// Bytes.
    pub(super) bytes: u32,
}

/// Vectorises a function whose blocks are in order and whose slots are placed.
pub(super) fn vectorize(
    f: &Function,
    shapes: &Shapes,
    liveness: &Liveness,
    frame: &Frame<'_>,
    mode: Mode,
) -> VectorFunction {
    let mut v = Vectorizer { f, shapes, mode, homes: vec![Home::None; f.regs.len()] };
    v.assign_homes();
    let spins = spinning_latches(f);
    let mut prologue = Vec::new();
    let mut blocks: Vec<VectorBlock> = f
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| VectorBlock {
            insts: block.insts.iter().map(|inst| v.inst(inst, index)).collect(),
            term: v.term(&block.term, index),
            line: block.line,
            convergent: mode == Mode::Lockstep && !shapes.divergent[index],
            spins: spins[index],
            live_in: liveness.live_in[index].iter().collect(),
        })
        .collect();
    let place = |slots: &[super::ir::SlotId]| {
        slots
            .iter()
            .map(|s| (frame.offsets[s.0 as usize], f.slots[s.0 as usize].bytes))
            .collect::<Vec<_>>()
    };
    let calls = f
        .calls
        .iter()
        .map(|c| VectorCall { callee: c.callee, args: place(&c.args), results: place(&c.results) })
        .collect();
    v.load_for_all(&blocks);
    let splats: Vec<bool> = v.splats(&blocks);
    if mode == Mode::Lockstep {
        prologue = v.hoist(&mut blocks);
    }
    let mut function = VectorFunction {
        name: f.name.clone(),
        mode,
        classes: f.regs.clone(),
        homes: v.homes,
        prologue,
        blocks,
        calls,
        texts: f.texts.clone(),
        params: place(&f.params),
        results: place(&f.results),
        frame_bytes: frame.bytes,
    };
    mark_splats(&mut function, &splats);
    function
}

struct Vectorizer<'a> {
    f: &'a Function,
    shapes: &'a Shapes,
    mode: Mode,
    homes: Vec<Home>,
}

impl Vectorizer<'_> {
    fn assign_homes(&mut self) {
        for (index, class) in self.f.regs.iter().enumerate() {
            let uniform = self.mode == Mode::Lockstep && !self.shapes.varying[index];
            self.homes[index] = match class {
                Class::Pred => Home::Mask,
                // Too rare to be worth scalar handlers.
                Class::Lane(Width::W128) => Home::Vector,
                Class::Lane(_) if uniform => Home::Scalar,
                Class::Lane(_) => Home::Vector,
            };
        }
        // What defines a register must be able to define it as a scalar.
        loop {
            let mut changed = false;
            for inst in self.f.blocks.iter().flat_map(|b| &b.insts) {
                let scalar = |r: &Reg| self.homes[r.index()] == Home::Scalar;
                let any = inst.dst.iter().any(scalar);
                if any && !self.scalar_form(inst) {
                    for d in &inst.dst {
                        if self.homes[d.index()] == Home::Scalar {
                            self.homes[d.index()] = Home::Vector;
                            changed = true;
                        }
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn is_vector(&self, operand: &Operand) -> bool {
        matches!(operand, Operand::Reg(r) if self.homes[r.index()] == Home::Vector)
    }

    /// True if the instruction can be computed once for all lanes.
    fn scalar_form(&self, inst: &Inst) -> bool {
        let all_scalar = inst.dst.iter().all(|d| self.homes[d.index()] != Home::Vector);
        let sources_scalar = || !inst.src.iter().any(|s| self.is_vector(s));
        // A predicate is a mask wherever it comes from; read as one value it must be uniform.
        let masks_uniform = || {
            inst.src.iter().all(|s| match s {
                Operand::Reg(r) => {
                    self.f.regs[r.index()] != Class::Pred || !self.shapes.varying[r.index()]
                }
                _ => true,
            })
        };
        all_scalar
            && match &inst.op {
                // Computed from masks or under the mask anyway; the result is one number.
                Op::Vote(_) | Op::Redux(..) | Op::Match { all: true, .. } | Op::ActiveMask => true,
                Op::Load(access) => {
                    sources_scalar()
                        && access.space != Space::Local
                        && access.space != Space::Generic
                        && access.bytes <= 8
                }
                Op::Store(access) => {
                    sources_scalar()
                        && matches!(access.space, Space::Global | Space::Shared)
                        && access.bytes <= 8
                }
                op if op.has_effect() => false,
                Op::IsSpace(_) | Op::PredMov | Op::PredNot | Op::Pred(_) | Op::PredSelect => false,
                _ => sources_scalar() && masks_uniform(),
            }
    }

    fn uniform(&self, inst: &Inst) -> bool {
        if self.mode == Mode::Independent || inst.op.varies() || !self.scalar_form(inst) {
            return false;
        }
        match &inst.op {
            // Without a register result it is the operands that decide.
            Op::Store(_) => true,
            _ => {
                !inst.dst.is_empty()
                    && inst.dst.iter().all(|d| match self.homes[d.index()] {
                        Home::Scalar | Home::ScalarAndVector => true,
                        Home::Mask => !self.shapes.inst_varies(inst),
                        _ => false,
                    })
            }
        }
    }

    fn inst(&self, inst: &Inst, block: usize) -> VectorInst {
        let uniform = self.uniform(inst);
        // These read masks and whole registers even where their result is one number.
        let scalar_sources =
            uniform && !matches!(inst.op, Op::Redux(..) | Op::Match { .. } | Op::Shfl(..));
        VectorInst {
            op: inst.op.clone(),
            guard: inst.guard,
            uniform,
            dst: inst.dst.iter().map(|d| self.dest(*d, block, inst.guard.is_some())).collect(),
            src: inst.src.iter().map(|s| self.source(s, scalar_sources)).collect(),
            line: inst.line,
        }
    }

    /// Takes what belongs into the prologue out of the blocks, definitions before uses. An
    /// invariant that is computed from one that must stay (predicates of predicates have no
    /// uniform form) stays as well.
    fn hoist(&self, blocks: &mut [VectorBlock]) -> Vec<VectorInst> {
        let mut prologue: Vec<VectorInst> = Vec::new();
        let mut known = vec![false; self.f.regs.len()];
        // More than once, because blocks are not in the order of their numbers of execution where
        // a value is defined behind a loop and read in front of it.
        loop {
            let before = prologue.len();
            for block in &mut *blocks {
                let early = block.insts.extract_if(.., |inst| {
                    let ready = inst.src.iter().all(|s| match s {
                        Source::Vector(r) | Source::Scalar(r) | Source::Mask(r) => known[r.index()],
                        Source::Imm(_) => true,
                    });
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
    fn is_invariant(&self, inst: &VectorInst) -> bool {
        !inst.dst.is_empty()
            && inst.uniform
            && inst.dst.iter().all(|d| self.shapes.invariant[d.reg.index()])
    }

    fn dest(&self, reg: Reg, block: usize, guarded: bool) -> Dest {
        let private = self.mode == Mode::Lockstep
            && (!self.shapes.divergent[block]
                || !self.shapes.needed_elsewhere[block].contains(reg));
        Dest { reg, splat: false, keep: guarded || !private }
    }

    fn source(&self, operand: &Operand, scalar: bool) -> Source {
        match *operand {
            Operand::Imm(v) => Source::Imm(v),
            Operand::Reg(r) if self.f.regs[r.index()] == Class::Pred => Source::Mask(r),
            Operand::Reg(r) if scalar => Source::Scalar(r),
            Operand::Reg(r) => Source::Vector(r),
            // Slots were replaced by frame addresses before.
            Operand::Slot(_) => Source::Imm(0),
        }
    }

    fn term(&self, term: &Term, block: usize) -> VectorTerm {
        let is_scalar = |o: &Operand| {
            self.mode == Mode::Lockstep
                && matches!(o, Operand::Reg(r) if self.homes[r.index()] == Home::Scalar)
        };
        match term {
            Term::Jump(t) => VectorTerm::Jump(*t),
            Term::Branch { guard, taken, other } => VectorTerm::Branch {
                guard: *guard,
                uniform: self.mode == Mode::Lockstep && !self.shapes.varying[guard.reg.index()],
                taken: *taken,
                other: *other,
            },
            Term::Table { index, targets } => VectorTerm::Table {
                index: self.source(index, is_scalar(index)),
                targets: targets.clone(),
            },
            Term::Call { site, next } => VectorTerm::Call { site: *site, next: next.0 },
            Term::Barrier { op, barrier, count, predicate, negated, dst, next } => {
                VectorTerm::Barrier {
                    op: *op,
                    barrier: self.source(barrier, is_scalar(barrier)),
                    count: self.source(count, is_scalar(count)),
                    predicate: predicate.as_ref().map(|p| self.source(p, false)),
                    negated: *negated,
                    dst: dst.map(|d| self.dest(d, block, false)),
                    next: next.0,
                }
            }
            Term::Pause { next } => VectorTerm::Pause { next: next.0 },
        }
    }

    /// Values loaded from one address that nobody reads as one value go straight to all lanes.
    fn load_for_all(&mut self, blocks: &[VectorBlock]) {
        let mut candidate = vec![false; self.homes.len()];
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
                    if let Source::Scalar(r) = source {
                        veto(*r);
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
        for (home, candidate) in self.homes.iter_mut().zip(candidate) {
            if candidate && *home == Home::Scalar {
                *home = Home::Vector;
            }
        }
    }

    /// Scalars that some instruction reads a lane.
    fn splats(&self, blocks: &[VectorBlock]) -> Vec<bool> {
        let mut needed = vec![false; self.homes.len()];
        let mut note = |source: &Source| {
            if let Source::Vector(r) = source
                && self.homes[r.index()] == Home::Scalar
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
            if let super::ir::Callee::Indirect(r) = call.callee {
                note(&Source::Vector(r));
            }
        }
        needed
    }
}

fn mark_splats(f: &mut VectorFunction, splats: &[bool]) {
    for (home, splat) in f.homes.iter_mut().zip(splats) {
        if *splat {
            *home = Home::ScalarAndVector;
        }
    }
    for dest in f.prologue.iter_mut().flat_map(|i| &mut i.dst) {
        dest.splat = splats[dest.reg.index()];
    }
    for block in &mut f.blocks {
        for dest in block.insts.iter_mut().flat_map(|i| &mut i.dst) {
            dest.splat = splats[dest.reg.index()];
        }
        if let VectorTerm::Barrier { dst: Some(dest), .. } = &mut block.term {
            dest.splat = splats[dest.reg.index()];
        }
    }
}

/// Blocks that close a loop in which some instruction sees what other threads do.
fn spinning_latches(f: &Function) -> Vec<bool> {
    let watches: Vec<bool> = f
        .blocks
        .iter()
        .map(|b| {
            matches!(b.term, Term::Pause { .. } | Term::Call { .. })
                || b.insts.iter().any(|i| match &i.op {
                    Op::Atom { .. } | Op::Fence => true,
                    Op::Load(access) => access.volatile,
                    _ => false,
                })
        })
        .collect();
    f.blocks
        .iter()
        .enumerate()
        .map(|(latch, block)| {
            block.term.targets().into_iter().filter_map(Target::block).any(|header| {
                header.index() <= latch && watches[header.index()..=latch].contains(&true)
            })
        })
        .collect()
}
