//! Vectorisation: from the SIMT IR of a thread to the vector IR of a warp.
//!
//! Little is decided here: the shapes found before say what is scalar and which results must be
//! kept, this writes it down. In [`Mode::Independent`] the shapes are not believed.

mod affine_values;
mod hoist_uniform;
mod splats;
mod storage_class;

use super::ir::{Block, Callee, Function, Inst, Operand, Reg, Target, Term};
use crate::analysis::address;
use crate::analysis::dataflow::Marks;
use crate::analysis::divergence::Shapes;
use crate::analysis::liveness::Liveness;
use crate::ir::address::BlockAddresses;
use crate::ir::op::{Class, Op, Width};
use crate::ir::vector::{
    Dest, Mode, Source, StorageClass, VectorBlock, VectorCall, VectorFunction, VectorInst,
    VectorTerm,
};
use crate::transform::split_at_guards::late_checks;
use crate::vectorize::splats::mark_splats;
use std::collections::BTreeMap;

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
    let mut written = Marks::new(f.regs.len());
    let late = |block: &Block| match mode {
        Mode::Lockstep => late_checks(&block.insts, shapes, &mut written),
        Mode::Independent => vec![false; block.insts.len()],
    };
    let mut v = Vectorizer {
        f,
        shapes,
        mode,
        classes: f.regs.clone(),
        storage: vec![StorageClass::None; f.regs.len()],
        late: f.blocks.iter().map(late).collect(),
        copies: BTreeMap::new(),
        uppers: BTreeMap::new(),
    };
    v.assign_homes();
    let spins = spinning_latches(f);
    let mut prologue = Vec::new();
    let mut blocks: Vec<VectorBlock> = f
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| VectorBlock {
            checks: v.checks(index),
            addresses: BlockAddresses::default(),
            insts: (0..block.insts.len()).flat_map(|at| v.insts(index, at)).collect(),
            term: v.term(&block.term, index),
            line: block.line,
            convergent: mode == Mode::Lockstep && !shapes.divergent[index],
            spins: spins[index],
            live_in: liveness.at_start(index).collect(),
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
        .map(|c| {
            let callee = v.callee(c.callee);
            VectorCall { callee, args: place(&c.args), results: place(&c.results) }
        })
        .collect();
    v.load_for_all(&blocks);
    let splats: Vec<bool> = v.splats(&blocks);
    if mode == Mode::Lockstep {
        prologue = v.hoist(&mut blocks);
        v.fill(&mut blocks);
    }
    let companions = v.companions();
    let mut function = VectorFunction {
        name: f.name.clone(),
        mode,
        classes: v.classes,
        companions,
        storage: v.storage,
        prologue,
        blocks,
        calls,
        texts: f.texts.clone(),
        params: place(&f.params),
        results: place(&f.results),
        frame_bytes: frame.bytes,
    };
    mark_splats(&mut function, &splats);
    address::annotate(&mut function);
    function
}

struct Vectorizer<'a> {
    f: &'a Function,
    shapes: &'a Shapes,
    mode: Mode,
    /// Those of the function, and then those of registers that only code for lockstep has.
    classes: Vec<Class>,
    storage: Vec<StorageClass>,
    /// By block and instruction: must be computed a lane, because its check comes too late.
    late: Vec<Vec<bool>>,
    /// The vector register that holds an affine register's values.
    copies: BTreeMap<Reg, Reg>,
    /// The scalar that holds lane 16's value of an affine register.
    uppers: BTreeMap<Reg, Reg>,
}

impl Vectorizer<'_> {
    fn inst(&mut self, block: usize, at: usize) -> VectorInst {
        let inst = &self.f.blocks[block].insts[at];
        let uniform = !self.late[block][at] && self.uniform(inst);
        // These read masks and whole registers even where their result is one number.
        if uniform && let Some(zero) = self.starts_at_zero(inst) {
            return VectorInst {
                op: Op::Mov(zero),
                guard: None,
                uniform,
                dst: vec![self.dest(inst.dst[0], block, false)],
                src: vec![Source::Imm(0)],
                line: inst.line,
            };
        }
        let scalar_sources =
            uniform && !matches!(inst.op, Op::Redux(..) | Op::Match { .. } | Op::Shfl(..));
        let formulas = if uniform { 0 } else { self.formula_sources(inst) };
        let halves = inst.src[..formulas].iter().any(|s| self.is_halves(s));
        let scalars = inst.op.scalar_sources();
        VectorInst {
            op: inst.op.clone(),
            guard: inst.guard,
            uniform,
            dst: inst.dst.iter().map(|d| self.dest(*d, block, inst.guard.is_some())).collect(),
            src: inst
                .src
                .iter()
                .enumerate()
                .map(|(i, s)| match (s, i < formulas) {
                    (Operand::Reg(r), true) => self.formula(*r, halves),
                    (Operand::Reg(r), _)
                        if i < scalars && self.storage[r.index()] == StorageClass::Scalar =>
                    {
                        Source::Scalar(*r)
                    }
                    _ => self.source(s, scalar_sources),
                })
                .collect(),
            line: inst.line,
        }
    }

    /// The width of a result that counts up from 0, by what is known of it: the lane's number.
    fn starts_at_zero(&self, inst: &Inst) -> Option<Width> {
        let [reg] = inst.dst[..] else { return None };
        let known = inst.guard.is_none()
            && matches!(inst.op, Op::Int(..) | Op::Extend { .. })
            && matches!(self.storage[reg.index()], StorageClass::Affine { .. })
            && self.shapes.fact(reg).starts_at_zero();
        if known { self.f.regs[reg.index()].width() } else { None }
    }

    fn callee(&mut self, callee: Callee) -> Callee {
        match callee {
            Callee::Indirect(r) if self.is_formula(r) => Callee::Indirect(self.copy(r)),
            same => same,
        }
    }

    fn dest(&self, reg: Reg, block: usize, guarded: bool) -> Dest {
        let private = self.mode == Mode::Lockstep
            && (!self.shapes.divergent[block]
                || !self.shapes.needed_elsewhere.contains(block, reg));
        Dest { reg, splat: false, keep: guarded || !private }
    }

    fn source(&mut self, operand: &Operand, scalar: bool) -> Source {
        match *operand {
            Operand::Imm(v) => Source::Imm(v),
            Operand::Reg(r) if self.f.regs[r.index()] == Class::Pred => Source::Mask(r),
            Operand::Reg(r) if scalar => Source::Scalar(r),
            Operand::Reg(r) if self.is_formula(r) => Source::Vector(self.copy(r)),
            Operand::Reg(r) => Source::Vector(r),
            // Slots were replaced by frame addresses before.
            Operand::Slot(_) => Source::Imm(0),
        }
    }

    /// A source of a terminator.
    fn operand(&mut self, operand: &Operand) -> Source {
        let scalar =
            matches!(operand, Operand::Reg(r) if self.storage[r.index()] == StorageClass::Scalar);
        self.source(operand, scalar)
    }

    fn term(&mut self, term: &Term, block: usize) -> VectorTerm {
        match term {
            Term::Jump(t) => VectorTerm::Jump(*t),
            Term::Branch { guard, taken, other } => VectorTerm::Branch {
                guard: *guard,
                uniform: self.mode == Mode::Lockstep && !self.shapes.varies(guard.reg),
                taken: *taken,
                other: *other,
            },
            Term::Table { index, targets } => {
                VectorTerm::Table { index: self.operand(index), targets: targets.clone() }
            }
            Term::Call { site, next } => VectorTerm::Call { site: *site, next: next.0 },
            Term::Barrier { op, barrier, count, predicate, negated, dst, next } => {
                VectorTerm::Barrier {
                    op: *op,
                    barrier: self.operand(barrier),
                    count: self.operand(count),
                    predicate: predicate.as_ref().map(|p| self.source(p, false)),
                    negated: *negated,
                    dst: dst.map(|d| self.dest(d, block, false)),
                    next: next.0,
                }
            }
            Term::Pause { next } => VectorTerm::Pause { next: next.0 },
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
                    Op::Atom { .. } | Op::Mbarrier(..) | Op::Fence | Op::SurfaceLoad(_) => true,
                    Op::Load(access) => access.volatile,
                    _ => false,
                })
        })
        .collect();
    f.blocks
        .iter()
        .enumerate()
        .map(|(latch, block)| {
            block.term.targets().filter_map(Target::block).any(|header| {
                header.index() <= latch && watches[header.index()..=latch].contains(&true)
            })
        })
        .collect()
}
