//! From the SIMT IR of a thread to the vector IR of a warp.
//!
//! Nothing is decided here: the shapes found before say what is scalar and which results must be
//! kept, this writes it down. In [`Mode::Independent`] the shapes are not believed.

use super::geometry::HALF_LANES;
use super::ir::{Block, Callee, Function, Inst, Operand, Reg, Target, Term};
use super::kernel::WARP_LANES;
use super::op::{Access, Class, CompareType, IntOp, IntType, Op, Space, Special, Width};
use super::passes::affine::{Rules, Shape, Widening};
use super::passes::liveness::Liveness;
use super::passes::shape::Shapes;
use super::passes::split::late_checks;
use super::vector::{
    ADDRESS_STRIDE_BITS, COMPARED_STRIDE_BITS, Dest, Home, Mode, NoWrap, Source, VectorBlock,
    VectorCall, VectorFunction, VectorInst, VectorTerm,
};
use std::collections::HashMap;

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
    let late = |block: &Block| match mode {
        Mode::Lockstep => late_checks(&block.insts, shapes, f.regs.len()),
        Mode::Independent => vec![false; block.insts.len()],
    };
    let mut v = Vectorizer {
        f,
        shapes,
        mode,
        classes: f.regs.clone(),
        homes: vec![Home::None; f.regs.len()],
        late: f.blocks.iter().map(late).collect(),
        copies: HashMap::new(),
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
            insts: (0..block.insts.len()).flat_map(|at| v.insts(index, at)).collect(),
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
        .map(|c| {
            let callee = v.callee(c.callee);
            VectorCall { callee, args: place(&c.args), results: place(&c.results) }
        })
        .collect();
    v.load_for_all(&blocks);
    let splats: Vec<bool> = v.splats(&blocks);
    if mode == Mode::Lockstep {
        prologue = v.hoist(&mut blocks);
        v.fill_copies(&mut blocks);
    }
    let mut function = VectorFunction {
        name: f.name.clone(),
        mode,
        classes: v.classes,
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
    /// Those of the function, and then those of `copies`.
    classes: Vec<Class>,
    homes: Vec<Home>,
    /// By block and instruction: must be computed a lane, because its check comes too late.
    late: Vec<Vec<bool>>,
    /// The vector register that holds an affine register's values.
    copies: HashMap<Reg, Reg>,
}

impl Vectorizer<'_> {
    fn assign_homes(&mut self) {
        for (index, class) in self.f.regs.iter().enumerate() {
            let shape = match self.mode {
                Mode::Lockstep => self.shapes.of[index],
                Mode::Independent => Shape::Varying,
            };
            self.homes[index] = match (class, shape) {
                (Class::Pred, _) => Home::Mask,
                // Too rare to be worth scalar handlers.
                (Class::Lane(Width::W128), _) => Home::Vector,
                (Class::Lane(_), Shape::Affine(0)) => Home::Scalar,
                (Class::Lane(_), Shape::Affine(stride)) => Home::Affine { stride },
                // The upper half gets its register below.
                (Class::Lane(_), Shape::Halves(stride)) => {
                    Home::Halves { high: Reg(index as u32), stride }
                }
                (Class::Lane(_), _) => Home::Vector,
            };
        }
        // What defines a register must be able to define it as a scalar.
        loop {
            let mut changed = false;
            for (inst, late) in
                self.f.blocks.iter().zip(&self.late).flat_map(|(b, late)| b.insts.iter().zip(late))
            {
                let scalar =
                    |r: &Reg| matches!(self.homes[r.index()], Home::Scalar | Home::Affine { .. });
                let any = inst.dst.iter().any(scalar);
                if any && (*late || !self.scalar_form(inst)) {
                    for d in inst.dst.iter().filter(|d| self.classes[d.index()] != Class::Pred) {
                        self.homes[d.index()] = Home::Vector;
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        for index in 0..self.homes.len() {
            if let Home::Halves { stride, .. } = self.homes[index] {
                let high = self.new_register(self.classes[index], Home::Scalar);
                self.homes[index] = Home::Halves { high, stride };
            }
        }
    }

    fn new_register(&mut self, class: Class, home: Home) -> Reg {
        self.classes.push(class);
        self.homes.push(home);
        Reg(self.classes.len() as u32 - 1)
    }

    /// True if the instruction can be computed once for all lanes.
    fn scalar_form(&self, inst: &Inst) -> bool {
        let all_scalar = inst.dst.iter().all(|d| match self.homes[d.index()] {
            Home::Vector => false,
            // Done once for each half.
            Home::Halves { .. } => Rules::is_formula(&inst.op) && inst.dst.len() == 1,
            _ => true,
        });
        // What is done once to lane 0's values is done to all where the results are formulas too.
        let formula = Rules::is_formula(&inst.op)
            || (matches!(inst.op, Op::Setp(..)) && !self.shapes.results(inst).varies());
        let sources_scalar = || {
            inst.src.iter().all(|s| match s {
                Operand::Reg(r) => match self.homes[r.index()] {
                    Home::Vector => false,
                    Home::Affine { .. } | Home::Halves { .. } => formula,
                    _ => true,
                },
                _ => true,
            })
        };
        // A predicate is a mask wherever it comes from; read as one value it must be uniform.
        let masks_uniform = || {
            inst.src.iter().all(|s| match s {
                Operand::Reg(r) => self.f.regs[r.index()] != Class::Pred || !self.shapes.varies(*r),
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
        let varies = inst.op.varies() && !Rules::is_formula(&inst.op);
        if self.mode == Mode::Independent || varies || !self.scalar_form(inst) {
            return false;
        }
        match &inst.op {
            // Without a register result it is the operands that decide.
            Op::Store(_) => true,
            _ => {
                !inst.dst.is_empty()
                    && inst.dst.iter().all(|d| match self.homes[d.index()] {
                        Home::Scalar
                        | Home::ScalarAndVector
                        | Home::Affine { .. }
                        | Home::Halves { .. } => true,
                        Home::Mask => !self.shapes.results(inst).varies(),
                        Home::Vector | Home::None => false,
                    })
            }
        }
    }

    /// What must hold at the start of a block for its widenings to be affine.
    fn checks(&self, block: usize) -> Vec<NoWrap> {
        let mut checks = Vec::new();
        for inst in self.f.blocks[block].insts.iter().filter(|inst| self.uniform(inst)) {
            let Some(Widening { reg, signed }) = self.shapes.widening(inst) else { continue };
            let no_wrap = |reg, stride, last| NoWrap { reg, stride, last, signed };
            let (low, high) = match self.homes[reg.index()] {
                Home::Affine { stride } => (no_wrap(reg, stride, WARP_LANES as u32 - 1), None),
                Home::Halves { high, stride } => {
                    let last = HALF_LANES as u32 - 1;
                    (no_wrap(reg, stride, last), Some(no_wrap(high, stride, last)))
                }
                _ => continue,
            };
            if !checks.contains(&low) {
                checks.push(low);
                checks.extend(high);
            }
        }
        checks
    }

    /// What an instruction becomes: two, if its result is a number for each half of a warp.
    fn insts(&mut self, block: usize, at: usize) -> Vec<VectorInst> {
        let low = self.inst(block, at);
        let [dest] = low.dst[..] else { return vec![low] };
        let Home::Halves { high, .. } = self.homes[dest.reg.index()] else { return vec![low] };
        let mut upper = low.clone();
        upper.dst[0].reg = high;
        let above =
            |n| (Op::Int(IntOp::Add, IntType::U32), vec![Source::Scalar(dest.reg), Source::Imm(n)]);
        (upper.op, upper.src) = match low.op {
            Op::Special(Special::Tid(0)) => (Op::Mov(Width::W32), vec![Source::Scalar(dest.reg)]),
            Op::Special(Special::Tid(1)) => above(1),
            Op::Special(Special::LaneId) => above(HALF_LANES as u64),
            op => {
                let upper_half = |source: &Source| match *source {
                    Source::Scalar(r) => Source::Scalar(self.high(r)),
                    same => same,
                };
                (op, low.src.iter().map(upper_half).collect())
            }
        };
        vec![VectorInst { op: self.f.blocks[block].insts[at].op.clone(), ..low }, upper]
    }

    /// The register of lane 16's value of what lives as a scalar.
    fn high(&self, reg: Reg) -> Reg {
        match self.homes[reg.index()] {
            Home::Halves { high, .. } => high,
            _ => reg,
        }
    }

    /// A source that is a formula of the lane's number.
    fn formula(&self, reg: Reg, halves: bool) -> Source {
        let stride = self.stride(reg).unwrap_or(0);
        match self.homes[reg.index()] {
            Home::Halves { high, .. } => Source::Halves(reg, high, stride),
            _ if halves => Source::Halves(reg, reg, stride),
            _ => Source::Affine(reg, stride),
        }
    }

    fn inst(&mut self, block: usize, at: usize) -> VectorInst {
        let inst = &self.f.blocks[block].insts[at];
        let uniform = !self.late[block][at] && self.uniform(inst);
        // These read masks and whole registers even where their result is one number.
        let scalar_sources =
            uniform && !matches!(inst.op, Op::Redux(..) | Op::Match { .. } | Op::Shfl(..));
        let formulas = if uniform { 0 } else { self.formula_sources(inst) };
        let halves = inst.src[..formulas].iter().any(|s| self.is_halves(s));
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
                    _ => self.source(s, scalar_sources),
                })
                .collect(),
            line: inst.line,
        }
    }

    /// The stride of what lives as a scalar.
    fn stride(&self, reg: Reg) -> Option<i64> {
        match self.homes[reg.index()] {
            Home::Scalar | Home::ScalarAndVector => Some(0),
            Home::Affine { stride } | Home::Halves { stride, .. } => Some(stride),
            Home::Vector | Home::Mask | Home::None => None,
        }
    }

    /// How many of the first sources of an instruction that runs a lane are given as formulas.
    fn formula_sources(&self, inst: &Inst) -> usize {
        let formula = |operand: &Operand| match operand {
            Operand::Reg(r) => self.stride(*r),
            _ => Some(0),
        };
        let any = |n: usize, bits: u32| {
            let fits = |s: &i64| s << (64 - bits) >> (64 - bits) == *s;
            let strides = inst.src[..n].iter().map(formula).collect::<Option<Vec<i64>>>();
            let given = strides.is_some_and(|strides| {
                let plain = strides.iter().all(|s| *s == 0)
                    && !inst.src[..n].iter().any(|s| self.is_halves(s));
                !plain && strides.iter().all(fits)
            });
            if given { n } else { 0 }
        };
        match &inst.op {
            Op::Setp(_, CompareType::Int(_)) => any(2, COMPARED_STRIDE_BITS),
            Op::Load(Access { space, .. })
            | Op::Store(Access { space, .. })
            | Op::Atom { space, .. }
                if *space != Space::Local =>
            {
                any(1, ADDRESS_STRIDE_BITS)
            }
            _ => 0,
        }
    }

    fn is_formula(&self, reg: Reg) -> bool {
        matches!(self.homes[reg.index()], Home::Affine { .. } | Home::Halves { .. })
    }

    fn is_halves(&self, operand: &Operand) -> bool {
        matches!(operand, Operand::Reg(r) if matches!(self.homes[r.index()], Home::Halves { .. }))
    }

    /// The vector register that holds the values of one that is a formula.
    fn copy(&mut self, reg: Reg) -> Reg {
        if let Some(copy) = self.copies.get(&reg) {
            return *copy;
        }
        let copy = self.new_register(self.classes[reg.index()], Home::Vector);
        self.copies.insert(reg, copy);
        copy
    }

    /// Makes the copies behind every definition of what they copy. They are right wherever the
    /// scalar is, so nothing in them is worth keeping.
    fn fill_copies(&self, blocks: &mut [VectorBlock]) {
        // By the register whose definition completes the value.
        let complete: HashMap<Reg, (Reg, Reg)> =
            self.copies.iter().map(|(reg, copy)| (self.high(*reg), (*reg, *copy))).collect();
        for block in blocks {
            let mut insts = Vec::with_capacity(block.insts.len());
            for inst in block.insts.drain(..) {
                let fill = inst.dst.iter().filter_map(|d| {
                    let (reg, copy) = *complete.get(&d.reg)?;
                    Some(VectorInst {
                        op: Op::Mov(self.classes[copy.index()].width()?),
                        guard: None,
                        uniform: false,
                        dst: vec![Dest { reg: copy, splat: false, keep: false }],
                        src: vec![self.formula(reg, false)],
                        line: inst.line,
                    })
                });
                let fill: Vec<VectorInst> = fill.collect();
                insts.push(inst);
                insts.extend(fill);
            }
            block.insts = insts;
        }
    }

    fn callee(&mut self, callee: Callee) -> Callee {
        match callee {
            Callee::Indirect(r) if self.is_formula(r) => Callee::Indirect(self.copy(r)),
            same => same,
        }
    }

    /// Takes what belongs into the prologue out of the blocks, definitions before uses. An
    /// invariant that is computed from one that must stay (predicates of predicates have no
    /// uniform form) stays as well.
    fn hoist(&self, blocks: &mut [VectorBlock]) -> Vec<VectorInst> {
        let mut prologue: Vec<VectorInst> = Vec::new();
        let mut known = vec![false; self.homes.len()];
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
    fn is_invariant(&self, inst: &VectorInst) -> bool {
        !inst.dst.is_empty()
            && inst.uniform
            && inst.dst.iter().all(|d| self.shapes.invariant.get(d.reg.index()) == Some(&true))
    }

    fn dest(&self, reg: Reg, block: usize, guarded: bool) -> Dest {
        let private = self.mode == Mode::Lockstep
            && (!self.shapes.divergent[block]
                || !self.shapes.needed_elsewhere[block].contains(reg));
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
        let scalar = matches!(operand, Operand::Reg(r) if self.homes[r.index()] == Home::Scalar);
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
                    Op::Atom { .. } | Op::Mbarrier(..) | Op::Fence => true,
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
