//! Cache of packed operands: which fragments have been packed since the start of the block and
//! where, and which registers hold accumulators that paired products can take.

use crate::asm::assembler::Label;
use crate::avx512::matrix::CHAIN_MAX;
use crate::avx512::matrix::deferred_loads::DeferredLoad;
use crate::avx512::matrix::microkernels::Routine;
use crate::avx512::matrix::operand_packing::{Engine, Form, Kind};
use crate::frame_layout::{FRAGMENTS_MAX, PACKED_A, PACKED_A_BYTES, PACKED_B, PACKED_B_BYTES};
use iced_x86::Register;
use simt::analysis::vector_cfg::{mentioned, sources};
use simt::ir::Reg;
use simt::ir::matrix::Multiply;
use simt::ir::op::{Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorFunction, VectorInst, VectorTerm};

/// The operand that a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    A,
    B,
}

/// Fragments that are ready, and the routines that make and multiply them.
pub(crate) struct Fragments {
    rows: PackedOperand,
    columns: PackedOperand,
    /// By register: never subnormal, if no product ran in its interpreter handlers.
    normal: Vec<bool>,
    /// By register: how often something reads it.
    pub(super) reads: Vec<u32>,
    /// Products of pairs are there.
    pub(crate) pairs: bool,
    /// Products can be made beside others: the registers for that are free.
    pub(super) beside: bool,
    /// Loads that are to be made, those first that are needed first.
    pub(super) late: Vec<DeferredLoad>,
    /// What code is called from somewhere.
    pub(super) routines: Vec<(Routine, Label)>,
}

/// A fragment that is ready.
#[derive(Clone)]
struct Ready {
    form: Form,
    sources: Vec<Source>,
    /// Where it is, if it is not in its slot.
    elsewhere: Option<(Register, i32)>,
}

/// The fragments of one operand.
struct PackedOperand {
    slots: Vec<Option<Ready>>,
    next: usize,
    /// Where they start on the stack, and bytes of one.
    start: i32,
    bytes: i32,
}

/// The engines of a function's products.
pub(super) fn engines(f: &VectorFunction) -> impl Iterator<Item = Engine> {
    f.blocks.iter().flat_map(|b| &b.insts).filter_map(|inst| match inst.op {
        Op::Multiply(product) => Engine::of(product),
        _ => None,
    })
}

/// True if products with the same A are near each other somewhere.
pub(super) fn share_rows(f: &VectorFunction) -> bool {
    f.blocks.iter().any(|block| {
        let products: Vec<_> = block.insts.iter().filter_map(Rows::of).collect();
        let share = |n: usize| {
            let behind = products[n + 1..].iter().take(CHAIN_MAX);
            behind.into_iter().any(|other| *other == products[n])
        };
        (0..products.len()).any(share)
    })
}

/// What products have in common that are made beside each other.
#[derive(PartialEq)]
struct Rows<'a> {
    product: Multiply,
    a: &'a [Source],
}

impl<'a> Rows<'a> {
    fn of(inst: &'a VectorInst) -> Option<Self> {
        let Op::Multiply(product) = inst.op else { return None };
        Engine::of(product)?.second()?;
        Some(Self { product, a: &inst.src[..product.a_registers()] })
    }
}

impl Fragments {
    /// None, in a function.
    pub(crate) fn of(f: &VectorFunction) -> Self {
        let of = |bytes: fn(Engine) -> i32, start: i32, room: i32| {
            let bytes = engines(f).map(bytes).max().unwrap_or(room);
            let count = ((room / bytes) as usize).min(FRAGMENTS_MAX);
            PackedOperand { slots: vec![None; count], next: 0, start, bytes }
        };
        let pairs = engines(f).any(|engine| engine.kind == Kind::Pairs);
        let calls = f.blocks.iter().any(|b| matches!(b.term, VectorTerm::Call { .. }));
        Self {
            rows: of(Engine::rows_bytes, PACKED_A, PACKED_A_BYTES),
            columns: of(Engine::columns_bytes, PACKED_B, PACKED_B_BYTES),
            normal: if pairs && !calls { normal(f) } else { vec![false; f.classes.len()] },
            reads: reads(f),
            pairs,
            beside: share_rows(f),
            late: Vec::new(),
            routines: Vec::new(),
        }
    }

    /// Nothing is known any more.
    pub(crate) fn clear(&mut self) {
        self.rows.slots.fill(None);
        self.columns.slots.fill(None);
    }

    /// The register has another value from here on.
    pub(crate) fn forget(&mut self, r: Reg) {
        for slot in self.rows.slots.iter_mut().chain(&mut self.columns.slots) {
            let read = slot.as_ref().is_some_and(|ready| {
                ready.sources.iter().flat_map(|s| s.registers()).any(|other| other == r)
            });
            if read {
                *slot = None;
            }
        }
    }

    /// Products that can be made as one: all of their fragments are ready at the same time.
    pub(super) fn together_max(&self) -> usize {
        self.rows.slots.len().min(self.columns.slots.len())
    }

    /// True if a load that is to be made needs distances that are there on the stack.
    pub(crate) fn is_late(&self, distances: i32) -> bool {
        self.late.iter().any(|late| late.distances == distances)
    }

    fn held(&mut self, factor: Factor) -> &mut PackedOperand {
        match factor {
            Factor::A => &mut self.rows,
            Factor::B => &mut self.columns,
        }
    }

    /// The slot of a fragment, and whether it is ready there; none of those in use is taken.
    pub(super) fn slot(
        &mut self,
        factor: Factor,
        form: Form,
        sources: &[Source],
        in_use: &[usize],
    ) -> (usize, bool) {
        let held = self.held(factor);
        let is_it = |slot: &Option<Ready>| {
            slot.as_ref().is_some_and(|r| r.form == form && r.sources == sources)
        };
        if let Some(slot) = held.slots.iter().position(is_it) {
            return (slot, true);
        }
        // A dead one is in the cache already.
        let free = (0..held.slots.len()).find(|n| held.slots[*n].is_none() && !in_use.contains(n));
        let slot = free.unwrap_or_else(|| {
            while in_use.contains(&held.next) {
                held.next = (held.next + 1) % held.slots.len();
            }
            let slot = held.next;
            held.next = (slot + 1) % held.slots.len();
            slot
        });
        held.slots[slot] = Some(Ready { form, sources: sources.to_vec(), elsewhere: None });
        (slot, false)
    }

    /// The contents of a slot are dead.
    pub(super) fn release(&mut self, factor: Factor, slot: usize) {
        self.held(factor).slots[slot] = None;
    }

    /// A fragment is ready where its registers are.
    pub(super) fn leave_at(&mut self, factor: Factor, slot: usize, place: (Register, i32)) {
        if let Some(ready) = &mut self.held(factor).slots[slot] {
            ready.elsewhere = Some(place);
        }
    }

    /// Where the fragment of a slot is: a register and an offset.
    pub(super) fn place(&self, factor: Factor, slot: usize) -> (Register, i32) {
        let held = match factor {
            Factor::A => &self.rows,
            Factor::B => &self.columns,
        };
        let elsewhere = held.slots[slot].as_ref().and_then(|ready| ready.elsewhere);
        elsewhere.unwrap_or((Register::RSP, held.start + slot as i32 * held.bytes))
    }

    /// True if the source is subnormal only after some product ran in its interpreter handlers.
    pub(super) fn is_normal(&self, source: Source) -> bool {
        is_normal(&self.normal, source)
    }
}

fn reads(f: &VectorFunction) -> Vec<u32> {
    let mut reads = vec![0; f.classes.len()];
    let insts = f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts));
    let ends = f.blocks.iter().flat_map(|b| mentioned(f, &b.term));
    for r in insts.flat_map(sources).chain(ends) {
        reads[r.index()] += 1;
    }
    reads
}

/// True if a value of 32 bits is no subnormal number of f32.
fn is_normal(registers: &[bool], source: Source) -> bool {
    match source {
        Source::Imm(v) => v as u32 & 0x7f80_0000 != 0 || v as u32 & 0x7fff_ffff == 0,
        Source::Vector(r) => registers[r.index()],
        _ => false,
    }
}

/// By register: all that writes it are moves of such values, and products of pairs that add to such
/// values, whose sums are never subnormal then (see [`crate::avx512::matrix::PAIRED_LEAST`]).
fn normal(f: &VectorFunction) -> Vec<bool> {
    let is_f32 = |(storage, width): (&StorageClass, Option<Width>)| {
        *storage == StorageClass::Vector && width == Some(Width::W32)
    };
    let widths = f.classes.iter().map(|class| class.width());
    let mut normal: Vec<bool> = f.storage.iter().zip(widths).map(is_f32).collect();
    let written = f.prologue.iter().flat_map(|inst| &inst.dst).map(|d| d.reg);
    for r in written.chain(f.blocks.iter().flat_map(|b| mentioned(f, &b.term))) {
        normal[r.index()] = false;
    }
    let good = |normal: &[bool], inst: &VectorInst| match inst.op {
        Op::Mov(Width::W32) | Op::Select(Width::W32) => {
            let values = inst.src.iter().filter(|s| !matches!(s, Source::Mask(_)));
            values.copied().all(|s| is_normal(normal, s))
        }
        Op::Multiply(product) => {
            let factors = product.a_registers() + product.b_registers();
            Engine::of(product).is_some_and(|engine| engine.kind == Kind::Pairs)
                && inst.src[factors..].iter().all(|s| is_normal(normal, *s))
        }
        _ => false,
    };
    loop {
        let mut changed = false;
        for inst in f.blocks.iter().flat_map(|b| &b.insts) {
            if inst.dst.iter().any(|d| normal[d.reg.index()]) && !good(&normal, inst) {
                inst.dst.iter().for_each(|d| normal[d.reg.index()] = false);
                changed = true;
            }
        }
        if !changed {
            return normal;
        }
    }
}
