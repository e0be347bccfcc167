//! Decoder: vector IR to interpreter code. Every register gets its slot in the register file, every
//! instruction its handler.
//!
//! A block is decoded twice. The *full* form runs when all live lanes are active: results are
//! written without asking. The *masked* form keeps inactive lanes' values where the vector IR says
//! that a lane can look ([`Dest::keep`]). Handlers write all lanes, so keeping is an
//! instruction of its own: compute into a scratch register, blend into place.

mod expansion;
mod handlers;
mod slot_coloring;
mod spin_loops;
mod terminators;

use handlers::*;
use slot_coloring::SharedSlots;

use super::{check, runtime};
use crate::handler_context::{Handler, Ins, RESULTS_MAX, SOURCES_MAX};
use crate::ops::map::Target;
use crate::ops::memory::AddressForm;
use crate::ops::{
    async_copy, atomic, float, mbarrier, memory, mma, mov_carry_predicate, texture, tma,
    warp_collectives,
};
use crate::register_file::{FILE_ALIGN, Operand, Place, SCALAR_BYTES, SLACK_BYTES};
use crate::time_slice::{FUEL, SPIN_FUEL};
use simt::analysis::vector_cfg::{sources, terminator_sources};
use simt::ir::matrix::Multiply;
use simt::ir::op::{Class, Convert, FloatType, IntOp, MbarrierOp, Op, Space, Width};
use simt::ir::vector::{
    Dest, Source, StorageClass, VectorBlock, VectorFunction, VectorInst, VectorTerm,
};
use simt::ir::{self, Callee, Reg};
use simt::kernel::WARP_LANES;
use std::collections::HashMap;
use std::ops::Range;

/// The block number that stands for leaving the function.
pub(super) const RETURN: u32 = u32::MAX - 1;
/// The block number that stands for the end of the thread.
pub(super) const EXIT: u32 = u32::MAX;

/// A function ready to run.
pub(super) struct Code {
    /// Decoded instructions, both forms of all blocks.
    pub(super) ins: Vec<Ins>,
    /// What to run first, once for each block of the grid and register file.
    pub(super) prologue: Range<usize>,
    /// Where each of its instructions of the vector IR starts, and the end.
    pub(super) prologue_starts: Vec<u32>,
    /// The blocks.
    pub(super) blocks: Vec<CodeBlock>,
    /// Bytes of the register file.
    pub(super) file_bytes: usize,
    /// Initial contents of the file: constants.
    pub(super) constants: Vec<(u32, Vec<u8>)>,
    /// Where each register is.
    pub(super) places: Vec<Place>,
    /// Call sites.
    pub(super) calls: Vec<CodeCall>,
    /// Texts of unsupported instructions.
    pub(super) texts: Vec<String>,
    /// Frame offset and size of each parameter.
    pub(super) params: Vec<(u32, u32)>,
    /// Frame offset and size of each result.
    pub(super) results: Vec<(u32, u32)>,
    /// Bytes of local memory.
    pub(super) frame_bytes: u32,
}

/// A block.
pub(super) struct CodeBlock {
    /// Instructions when all live lanes run.
    pub(super) full: Range<usize>,
    /// Instructions when some do.
    pub(super) masked: Range<usize>,
    /// Where each instruction of the vector IR starts among the full form's, and the end.
    pub(super) full_starts: Vec<u32>,
    /// The same for the masked form.
    pub(super) masked_starts: Vec<u32>,
    /// The end.
    pub(super) term: CodeTerm,
    /// PTX instructions, for the counters.
    pub(super) size: u32,
    /// Its back-edge closes a loop that may wait for other threads.
    pub(super) spins: bool,
    /// First and last block of the innermost such loop that it is in.
    pub(super) spin_loop: Option<(u32, u32)>,
    /// What it does to memory may be more than waiting.
    pub(super) is_progress: bool,
    /// What its back-edge costs the warp's fuel.
    pub(super) cost: i64,
    /// Line of the terminator.
    pub(super) line: u32,
    /// Registers read by lanes that stand at its start.
    pub(super) live_in: Vec<Reg>,
    /// Registers live there that hold something of one of these, and that one.
    pub(super) companions_in: Vec<(Reg, Reg)>,
}

/// How a block ends; targets are block numbers, [`RETURN`] or [`EXIT`].
pub(super) enum CodeTerm {
    Jump(u32),
    /// `flip` inverts the predicate.
    Branch {
        predicate: Operand,
        flip: u32,
        taken: u32,
        other: u32,
    },
    /// The index, targets.
    Table {
        index: Word,
        targets: Vec<u32>,
    },
    Call {
        site: u32,
        next: u32,
    },
    Barrier(BarrierTerm),
    Pause {
        next: u32,
    },
}

/// A 32-bit operand of a terminator.
#[derive(Clone, Copy)]
pub(super) struct Word {
    /// Where it is.
    pub(super) at: Operand,
    /// There is one for all lanes, else one a lane.
    pub(super) uniform: bool,
}

/// A barrier's operands.
pub(super) struct BarrierTerm {
    pub(super) op: simt::ir::op::BarrierOp,
    pub(super) barrier: Word,
    pub(super) count: Word,
    pub(super) predicate: Option<Operand>,
    pub(super) negated: bool,
    pub(super) dst: Option<Reg>,
    pub(super) next: u32,
}

/// A call.
pub(super) struct CodeCall {
    /// The callee, if it is known.
    pub(super) direct: Option<u32>,
    /// The register with the callee's address.
    pub(super) indirect: Operand,
    /// Caller's frame offset and size of each argument.
    pub(super) args: Vec<(u32, u32)>,
    /// Caller's frame offset and size of each result.
    pub(super) results: Vec<(u32, u32)>,
}

/// Decodes a function for a target; `checked` adds what keeps account of accesses.
pub(super) fn decode(f: &VectorFunction, target: Target, checked: bool) -> Code {
    let mut d = Decoder {
        f,
        target,
        checked,
        file: 0,
        constants: Vec::new(),
        pool: HashMap::new(),
        places: Vec::new(),
        scratch: Vec::new(),
        ones: 0,
        flipped: 0,
        ins: Vec::new(),
        texts: f.texts.clone(),
        line: 0,
        site: 0,
        objects: Vec::new(),
        read: read(f),
    };
    let shared = slot_coloring::shared(f);
    d.place_registers(&shared);
    let (prologue, prologue_starts) = d.instructions(&f.prologue, false);
    let spin_loops = spin_loops::innermost(f);
    let blocks = f
        .blocks
        .iter()
        .zip(spin_loops)
        .enumerate()
        .map(|(number, (block, spin_loop))| {
            let (site, objects) = (d.site, d.objects.len());
            let (full, full_starts) = d.block(block, false);
            // Both forms remember the same ranges.
            d.site = site;
            d.objects.truncate(objects);
            let (masked, masked_starts) = d.block(block, true);
            CodeBlock {
                full,
                masked,
                full_starts,
                masked_starts,
                term: d.term(&block.term),
                size: block.insts.len() as u32 + 1,
                spins: block.spins,
                spin_loop,
                is_progress: block.insts.iter().any(|inst| inst.op.is_progress()),
                cost: if block.spins { FUEL / SPIN_FUEL } else { 1 },
                line: block.line,
                live_in: block.live_in.clone(),
                companions_in: shared.companions_in(f, number),
            }
        })
        .collect();
    let calls = f
        .calls
        .iter()
        .map(|call| {
            let (direct, indirect) = match call.callee {
                Callee::Direct(n) => (Some(n), Operand::NONE),
                Callee::Indirect(r) => (None, d.operand(Source::Vector(r), W64)),
            };
            CodeCall { direct, indirect, args: call.args.clone(), results: call.results.clone() }
        })
        .collect();
    Code {
        ins: d.ins,
        prologue,
        prologue_starts,
        blocks,
        file_bytes: ((d.file + SLACK_BYTES) as usize).next_multiple_of(FILE_ALIGN),
        constants: d.constants,
        places: d.places,
        calls,
        texts: d.texts,
        params: f.params.clone(),
        results: f.results.clone(),
        frame_bytes: f.frame_bytes,
    }
}

const W64: Class = Class::Lane(Width::W64);
const W32: Class = Class::Lane(Width::W32);

/// By register: whether something reads it.
fn read(f: &VectorFunction) -> Vec<bool> {
    let mut read = vec![false; f.classes.len()];
    let blocks = f.blocks.iter();
    let insts = f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts)).flat_map(sources);
    let ends = blocks.clone().flat_map(|b| terminator_sources(f, &b.term));
    let checks = blocks.flat_map(|b| b.checks.iter().map(|check| check.reg));
    insts.chain(ends).chain(checks).for_each(|r| read[r.index()] = true);
    read
}

struct Decoder<'a> {
    f: &'a VectorFunction,
    target: Target,
    /// Accesses are accounted for.
    checked: bool,
    file: u32,
    constants: Vec<(u32, Vec<u8>)>,
    /// Constants by value, bytes a lane (0: predicate) and whether all lanes are needed.
    pool: HashMap<(u64, u32, bool), u32>,
    places: Vec<Place>,
    /// Scratch vector registers, wide enough for anything.
    scratch: Vec<u32>,
    /// The predicate that is always true.
    ones: u32,
    /// Where negated guards go.
    flipped: u32,
    ins: Vec<Ins>,
    texts: Vec<String>,
    line: u32,
    /// Accesses so far.
    site: u32,
    /// Sites of textures and surfaces, by their handles.
    objects: Vec<(Source, u32)>,
    /// By register: something reads it.
    read: Vec<bool>,
}

impl Decoder<'_> {
    fn reserve(&mut self, bytes: u32, align: u32) -> u32 {
        let at = self.file.next_multiple_of(align);
        self.file = at + bytes;
        at
    }

    fn place_registers(&mut self, slots: &SharedSlots) {
        let all: Vec<(Class, StorageClass)> =
            self.f.classes.iter().copied().zip(self.f.storage.iter().copied()).collect();
        self.places = vec![Place::default(); all.len()];
        for (index, (class, storage)) in all.iter().enumerate() {
            let bytes = class.width().map_or(0, Width::bytes);
            self.places[index].bytes = bytes;
            if matches!(storage, StorageClass::Mask) {
                self.places[index].mask = Some(self.reserve(4, 4));
            }
        }
        self.ones = self.constant(1, Class::Pred, false);
        self.flipped = self.reserve(4, 4);
        for (index, (_, storage)) in all.iter().enumerate() {
            if self.places[index].scalar.is_some() {
                // The upper half of one that came before.
                continue;
            }
            match *storage {
                StorageClass::Scalar | StorageClass::ScalarAndVector => {
                    self.places[index].scalar = Some(self.reserve(SCALAR_BYTES, SCALAR_BYTES));
                }
                StorageClass::Affine { stride } => {
                    let scalar = Some(self.reserve(SCALAR_BYTES, SCALAR_BYTES));
                    self.places[index] = Place { scalar, stride, ..self.places[index] };
                }
                StorageClass::HalfAffine { high, stride } => {
                    let at = self.reserve(2 * SCALAR_BYTES, SCALAR_BYTES);
                    let place = self.places[index];
                    self.places[index] = Place { scalar: Some(at), stride, halves: true, ..place };
                    self.places[high.index()].scalar = Some(at + SCALAR_BYTES);
                }
                StorageClass::Vector | StorageClass::Mask | StorageClass::None => {}
            }
        }
        let shared = &slots.of;
        let mut starts: HashMap<usize, u32> = HashMap::new();
        for (index, (_, storage)) in all.iter().enumerate() {
            if matches!(storage, StorageClass::Vector | StorageClass::ScalarAndVector) {
                let bytes = self.places[index].bytes * WARP_LANES as u32;
                let known = shared[index].and_then(|slot| starts.get(&slot).copied());
                let start = known.unwrap_or_else(|| self.reserve(bytes, FILE_ALIGN as u32));
                self.places[index].vector = Some(start);
                shared[index].map(|slot| starts.insert(slot, start));
            }
        }
    }

    fn scratch(&mut self, index: usize) -> u32 {
        while self.scratch.len() <= index {
            let at = self.reserve(16 * WARP_LANES as u32, FILE_ALIGN as u32);
            self.scratch.push(at);
        }
        self.scratch[index]
    }

    /// The place of a constant, for scalar or vector use.
    fn constant(&mut self, value: u64, class: Class, all_lanes: bool) -> u32 {
        let width = class.width().map_or(0, Width::bytes);
        if let Some(&at) = self.pool.get(&(value, width, all_lanes)) {
            return at;
        }
        let (at, bytes) = match class {
            Class::Pred => {
                let mask = if value != 0 { u32::MAX } else { 0 };
                (self.reserve(4, 4), mask.to_le_bytes().to_vec())
            }
            Class::Lane(w) => {
                let one = &u128::from(value).to_le_bytes()[..w.bytes() as usize];
                if all_lanes {
                    let at = self.reserve(w.bytes() * WARP_LANES as u32, FILE_ALIGN as u32);
                    (at, one.repeat(WARP_LANES))
                } else {
                    (self.reserve(SCALAR_BYTES, SCALAR_BYTES), one.to_vec())
                }
            }
        };
        self.constants.push((at, bytes));
        self.pool.insert((value, width, all_lanes), at);
        at
    }

    fn source(&mut self, source: Source, class: Class, scalar: bool) -> u32 {
        let place = |r: Reg| self.places[r.index()];
        match source {
            Source::Vector(r) => place(r).vector.unwrap_or(0),
            Source::Scalar(r) | Source::Affine(r, _) | Source::HalfAffine(r, ..) => {
                place(r).scalar.unwrap_or(0)
            }
            Source::Mask(r) => place(r).mask.unwrap_or(0),
            Source::Imm(v) => self.constant(v, class, !scalar),
        }
    }

    /// The class of a source, for constants.
    fn source_class(&self, source: Source, fallback: Class) -> Class {
        match source {
            Source::Vector(r)
            | Source::Scalar(r)
            | Source::Affine(r, _)
            | Source::HalfAffine(r, ..)
            | Source::Mask(r) => self.f.classes[r.index()],
            Source::Imm(_) => fallback,
        }
    }

    /// A block's checks and instructions; also gives where each instruction starts.
    fn block(&mut self, block: &VectorBlock, masked: bool) -> (Range<usize>, Vec<u32>) {
        let start = self.ins.len();
        for check in &block.checks {
            let a = self.source(Source::Scalar(check.reg), W32, true);
            let run = mov_carry_predicate::no_wrap(check.signed);
            self.push(run, &[], &[a], check.stride, self.ones, check.last);
        }
        let (range, starts) = self.instructions(&block.insts, masked);
        (start..range.end, starts)
    }

    /// Decodes a list; also gives where each of its instructions starts.
    fn instructions(&mut self, insts: &[VectorInst], masked: bool) -> (Range<usize>, Vec<u32>) {
        let start = self.ins.len();
        let mut starts = Vec::with_capacity(insts.len() + 1);
        for inst in insts {
            starts.push(self.ins.len() as u32);
            self.line = inst.line;
            if self.instruction(inst, masked).is_none() {
                let text = self.texts.len() as i64;
                self.texts.push(format!("{} (no such form in this tier)", inst.op));
                let guard = self.guard(inst);
                self.push(unsupported(), &[], &[], text, guard, 0);
            }
        }
        starts.push(self.ins.len() as u32);
        (start..self.ins.len(), starts)
    }

    fn guard(&mut self, inst: &VectorInst) -> u32 {
        let Some(guard) = inst.guard else { return self.ones };
        let p = self.places[guard.reg.index()].mask.unwrap_or(self.ones);
        if !guard.negated {
            return p;
        }
        let (ones, flipped) = (self.ones, self.flipped);
        self.push(mov_carry_predicate::pred_not(), &[flipped], &[p], 0, ones, 0);
        flipped
    }

    fn push(&mut self, run: Handler, d: &[u32], a: &[u32], imm: i64, guard: u32, tag: u32) {
        let mut results = [Operand::NONE; RESULTS_MAX];
        for (result, at) in results[..d.len()].iter_mut().zip(d) {
            *result = Operand::new(*at, self.file);
        }
        self.push_any(run, results, a, imm, guard, tag);
    }

    /// As [`Self::push`], of a handler that has numbers in the place of results.
    fn push_note(
        &mut self,
        run: Handler,
        numbers: [u32; RESULTS_MAX],
        a: &[u32],
        imm: i64,
        guard: u32,
        tag: u32,
    ) {
        self.push_any(run, numbers.map(Operand::of_number), a, imm, guard, tag);
    }

    fn push_any(
        &mut self,
        run: Handler,
        d: [Operand; RESULTS_MAX],
        a: &[u32],
        imm: i64,
        guard: u32,
        tag: u32,
    ) {
        let guard = Operand::new(guard, self.file);
        let mut ins =
            Ins { run, imm, d, a: [Operand::NONE; SOURCES_MAX], guard, line: self.line, tag };
        for (source, at) in ins.a[..a.len()].iter_mut().zip(a) {
            *source = Operand::new(*at, self.file);
        }
        self.ins.push(ins);
    }

    fn instruction(&mut self, inst: &VectorInst, masked: bool) -> Option<()> {
        let t = if inst.uniform { Target::Scalar } else { self.target };
        let guard = self.guard(inst);
        if self.masking(inst, t, guard)? {
            return Some(());
        }
        let formulas =
            inst.src.iter().any(|s| matches!(s, Source::Affine(..) | Source::HalfAffine(..)));
        let (run, imm) = if formulas { of_formulas(inst, t)? } else { lanewise(&inst.op, t)? };
        if matches!(inst.op, Op::IsSpace(_)) && inst.uniform {
            return None;
        }
        let mut a = Vec::with_capacity(SOURCES_MAX);
        for (i, source) in inst.src.iter().enumerate() {
            let class = inst.op.source_class(i);
            a.push(self.source(*source, class, inst.uniform || formulas));
        }
        if formulas {
            // The upper halves' values behind the lower ones'.
            for (i, source) in inst.src.iter().enumerate() {
                a.push(match source {
                    Source::HalfAffine(_, high, _) => {
                        self.source(Source::Scalar(*high), inst.op.source_class(i), true)
                    }
                    _ => a[i],
                });
            }
        }
        (a.len() <= SOURCES_MAX && inst.dst.len() <= RESULTS_MAX).then_some(())?;
        let mut d = Vec::with_capacity(RESULTS_MAX);
        let mut after: Vec<(u32, Dest)> = Vec::new();
        for (k, dest) in inst.dst.iter().enumerate() {
            let place = self.places[dest.reg.index()];
            let storage = match (place.mask, inst.uniform) {
                // Handlers of predicates look at the mask themselves.
                (Some(mask), _) => {
                    d.push(mask);
                    continue;
                }
                (None, true) => place.scalar?,
                (None, false) => place.vector?,
            };
            // A scalar has no lanes to keep; only its guard can stop it.
            let keep = inst.guard.is_some() || (masked && dest.keep && !inst.uniform);
            let at = if keep { self.scratch(k) } else { storage };
            d.push(at);
            if keep {
                after.push((at, *dest));
            }
        }
        self.push(run, &d, &a, imm, guard, 0);
        if let (Some(ty), Some(first)) = (saturated(&inst.op), d.first()) {
            let ones = self.ones;
            self.push(float::saturate(ty, t)?, &[*first], &[*first], 0, ones, 0);
        }
        for (from, dest) in after {
            let place = self.places[dest.reg.index()];
            let to = if inst.uniform { place.scalar? } else { place.vector? };
            self.push(blend(place.bytes, t)?, &[to], &[from], 0, guard, 0);
        }
        self.splats(inst)
    }

    /// Copies scalar results to all lanes where the function needs them.
    fn splats(&mut self, inst: &VectorInst) -> Option<()> {
        for dest in inst.dst.iter().filter(|d| d.splat) {
            let place = self.places[dest.reg.index()];
            let (Some(from), Some(to)) = (place.scalar, place.vector) else { continue };
            let (run, ones) = (splat(place.bytes, self.target)?, self.ones);
            self.push(run, &[to], &[from], 0, ones, 0);
        }
        Some(())
    }

    /// Decodes an instruction whose handler looks at the mask itself; false if it is not one.
    fn masking(&mut self, inst: &VectorInst, t: Target, guard: u32) -> Option<bool> {
        let first = inst.src.first().copied();
        let (run, imm, tag, skip_offset) = match &inst.op {
            Op::Load(access) => {
                let broadcast = inst.uniform
                    && inst.dst.iter().all(|d| self.places[d.reg.index()].scalar.is_none());
                let run = if broadcast {
                    memory::load_for_all(*access, self.target)?
                } else {
                    memory::load(*access, t)?
                };
                (run, self.offset(inst)?, self.tag(first?, access.space)?, true)
            }
            Op::Store(access) => {
                let run = memory::store(*access, t)?;
                (run, self.offset(inst)?, self.tag(first?, access.space)?, true)
            }
            Op::CopyToShared { bytes } => {
                return self.copy_to_shared(inst, *bytes, guard).map(|()| true);
            }
            Op::LoadFragment(fragment) => {
                return self.fragment(inst, *fragment, guard, false).map(|()| true);
            }
            Op::StoreFragment(fragment) => {
                return self.fragment(inst, *fragment, guard, true).map(|()| true);
            }
            Op::Mbarrier(op, space) => {
                (mbarrier::handler(*op), self.offset(inst)?, self.tag(first?, *space)?, true)
            }
            Op::Texture(op) => {
                let (run, imm) = texture::sample(*op, self.target);
                let unread = inst.dst.iter().map(|d| !self.read[d.reg.index()]);
                let tag = texture::unread_tag(unread) | self.object_tag(first?);
                (run, imm, tag, false)
            }
            Op::TextureQuery(what) => (texture::query(*what), 0, self.object_tag(first?), false),
            Op::SurfaceLoad(op) => {
                let (run, imm) = texture::surface_load(*op, self.target);
                (run, imm, self.object_tag(first?), false)
            }
            Op::SurfaceStore(op) => {
                let (run, imm) = texture::surface_store(*op, self.target);
                (run, imm, self.object_tag(first?), false)
            }
            Op::SurfaceAddress(op) => {
                let (run, imm) = texture::surface_address(*op);
                (run, imm, self.object_tag(first?), false)
            }
            Op::CopyNote(note, space) => {
                let ((run, d), a) = (check::copies::noting(*note)?, &inst.src);
                let a: Vec<u32> = a.iter().map(|a| self.source(*a, W64, false)).collect();
                self.push_note(run, d, &a, 0, guard, memory::space_code(*space));
                return Some(true);
            }
            Op::BulkCopy(copy) => (async_copy::bulk(*copy)?, 0, async_copy::bulk_tag(*copy), false),
            Op::Atom { space, op, ty, returns } => {
                let run = atomic::handler(*op, *ty, *space, *returns)?;
                (run, self.offset(inst)?, self.tag(first?, *space)?, true)
            }
            Op::TensorCopy(copy) => {
                let (run, imm) = tma::handler(*copy);
                let list = inst.src.iter().enumerate();
                let list = list.map(|(i, source)| (*source, inst.op.source_class(i))).collect();
                let list = self.list(list);
                if self.checked {
                    self.account_before(&inst.op, None, imm, guard, 0);
                }
                self.push(run, &[], &[list], imm, guard, 0);
                return Some(true);
            }
            Op::Multiply(product) => return self.product(inst, *product, guard).map(|()| true),
            Op::LoadMatrix { space, count, transpose } => {
                let run = mma::load(*count, *transpose, t)?;
                (run, self.offset(inst)?, self.tag(first?, *space)?, true)
            }
            Op::StoreMatrix { space, count, transpose } => {
                let run = mma::store(*count, *transpose, t)?;
                (run, self.offset(inst)?, self.tag(first?, *space)?, true)
            }
            Op::Expand(sparse) => {
                let (run, imm) = mma::expand(*sparse);
                (run, imm, 0, false)
            }
            Op::TransposeMatrix => (mma::transpose(), 0, 0, false),
            Op::Shfl(mode, predicate) => {
                (warp_collectives::shuffle(*mode, *predicate, t), 0, 0, false)
            }
            Op::Vote(mode) => (warp_collectives::vote(*mode, t), 0, 0, false),
            Op::Match { all, width, predicate } => {
                (warp_collectives::match_lanes(*all, *width, *predicate, t)?, 0, 0, false)
            }
            Op::Redux(op, ty) => (warp_collectives::redux(*op, *ty, t), 0, 0, false),
            Op::ReduxFloat { max, abs, nan } => {
                (warp_collectives::redux_float(*max, *abs, *nan), 0, 0, false)
            }
            Op::Elect => (warp_collectives::elect(), 0, 0, false),
            Op::WarpSync => (warp_collectives::warp_sync(), 0, 0, false),
            Op::Runtime(function) => (runtime::handler(*function), 0, 0, false),
            Op::Fence => (fence(), 0, 0, false),
            Op::Trap => (trap(), 0, 0, false),
            Op::Breakpoint => return Some(true),
            Op::Unsupported(text) => (unsupported(), i64::from(*text), 0, false),
            _ => return Some(false),
        };
        let whole = matches!(inst.op, Op::Redux(..) | Op::Match { .. });
        let mut a = Vec::with_capacity(SOURCES_MAX);
        for (i, source) in inst.src.iter().enumerate() {
            if skip_offset && i == 1 {
                continue;
            }
            let class = inst.op.source_class(i);
            a.push(self.source(*source, class, inst.uniform && !whole));
        }
        if matches!(inst.op, Op::Atom { .. }) && a.len() == 2 {
            // The operand that only `cas` has.
            a.push(a[1]);
        }
        (a.len() <= SOURCES_MAX && inst.dst.len() <= RESULTS_MAX).then_some(())?;
        let mut d = Vec::with_capacity(RESULTS_MAX);
        for dest in &inst.dst {
            let place = self.places[dest.reg.index()];
            d.push(place.mask.or(if inst.uniform { place.scalar } else { None }).or(place.vector)?);
        }
        if self.checked {
            self.account_before(&inst.op, a.first().copied(), imm, guard, tag);
        }
        self.push(run, &d, &a, imm, guard, tag);
        if self.checked {
            self.account_after(&inst.op);
        }
        self.splats(inst)?;
        Some(true)
    }

    /// What keeps account of an access, in front of it.
    fn account_before(&mut self, op: &Op, address: Option<u32>, imm: i64, guard: u32, tag: u32) {
        let (unit, count, reads, writes, atomic) = match op {
            Op::Load(access) => (access.bytes, access.count, true, false, access.volatile),
            Op::Store(access) => (access.bytes, access.count, false, true, access.volatile),
            Op::Atom { ty, .. } => (ty.width().bytes() as u8, 1, true, true, true),
            op => {
                let follow = check::Follow::of(op);
                if follow != check::Follow::No {
                    self.follow(follow);
                }
                return;
            }
        };
        let kind = check::Kind { reads, writes, atomic, unit: unit.into() }.code();
        let address = address.unwrap_or(0);
        let bytes = u32::from(unit) * u32::from(count);
        self.push_note(check::accounting(), [bytes, kind, 0, 0], &[address], imm, guard, tag);
    }

    /// From here on what instructions access by themselves is followed so.
    fn follow(&mut self, follow: check::Follow) {
        let ((run, number), ones) = (check::following(follow), self.ones);
        self.push_note(run, [number, 0, 0, 0], &[], 0, ones, 0);
    }

    /// What orders accesses, behind it.
    fn account_after(&mut self, op: &Op) {
        if check::Follow::of(op) != check::Follow::No {
            self.follow(check::Follow::No);
        }
        let run = match op {
            // A thread that looks at an mbarrier has done nothing yet that others wait for.
            Op::Mbarrier(MbarrierOp::Test { .. }, _) => return,
            Op::Atom { .. } | Op::Fence | Op::Mbarrier(..) => check::released(),
            op if op.is_sync() => check::met(),
            _ => return,
        };
        let ones = self.ones;
        self.push(run, &[], &[], 0, ones, 0);
    }

    /// Decodes a product of matrices, whose operands are a list among the constants.
    fn product(&mut self, inst: &VectorInst, product: Multiply, guard: u32) -> Option<()> {
        let run = mma::multiply(product, self.target)?;
        let mut list = Vec::with_capacity(inst.dst.len() + inst.src.len());
        for dest in &inst.dst {
            list.push(self.places[dest.reg.index()].vector?);
        }
        for source in &inst.src {
            list.push(self.source(*source, Class::Lane(product.a.width()), false));
        }
        let at = self.reserve(4 * list.len() as u32, SCALAR_BYTES);
        self.constants.push((at, list.iter().flat_map(|offset| offset.to_le_bytes()).collect()));
        self.push(run, &[], &[at], 0, guard, mma::tag(product));
        Some(())
    }

    /// Puts operands' places among the constants, for an instruction with many; where the list is.
    fn list(&mut self, sources: Vec<(Source, Class)>) -> u32 {
        let places = sources.into_iter().map(|(source, class)| self.source(source, class, false));
        let bytes: Vec<u8> = places.flat_map(u32::to_le_bytes).collect();
        let at = self.reserve(bytes.len() as u32, SCALAR_BYTES);
        self.constants.push((at, bytes));
        at
    }

    fn offset(&self, inst: &VectorInst) -> Option<i64> {
        match inst.src.get(1)? {
            Source::Imm(offset) => Some(*offset as i64),
            _ => None,
        }
    }

    /// The tag of what reads a texture or surface: the object's site, behind which is that of the
    /// texels. A handle that all lanes have is a formula.
    fn object_tag(&mut self, handle: Source) -> u32 {
        let known = self.objects.iter().find(|(other, _)| *other == handle);
        let site = known.map_or(self.site + 1, |(_, site)| *site);
        if known.is_none() {
            self.objects.push((handle, site));
            self.site += 2;
        }
        let form = match handle {
            Source::Scalar(_) => AddressForm::Formula { wide: true, stride: 0, halves: false },
            _ => AddressForm::Register { wide: true },
        };
        memory::tag(Space::Global, form, site)
    }

    fn tag(&mut self, address: Source, space: Space) -> Option<u32> {
        let form = self.address_form(address)?;
        self.site += 1;
        Some(memory::tag(space, form, self.site))
    }

    fn address_form(&self, address: Source) -> Option<AddressForm> {
        let wide = self.source_class(address, W64) != W32;
        Some(match address {
            Source::Affine(_, stride) => {
                AddressForm::Formula { wide, stride: i16::try_from(stride).ok()?, halves: false }
            }
            Source::HalfAffine(low, _, stride) => {
                // The upper half's address is found by its place. One of two addresses may go on through
                // the warp, or be the same for it, where the other one breaks in the middle.
                let halves = self.places[low.index()].halves;
                AddressForm::Formula { wide, stride: i16::try_from(stride).ok()?, halves }
            }
            _ => AddressForm::Register { wide },
        })
    }
}
