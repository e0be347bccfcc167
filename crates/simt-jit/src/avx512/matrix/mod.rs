//! Matrix products (mma) with AVX-512: [`Op::Multiply`] by a full warp.
//!
//! Accumulators are vectors; those of 16 rows by 8 columns of f32 are eight: of each register of C
//! the rows 0 to 3, 8 to 11 and so on, and the others. A quad of lanes has a row of A, so an element
//! of A comes to all lanes of its row by a shuffle within quads. What the four lanes of a quad need
//! of B is the same in all quads. Both are *packed* once, in memory, and serve all products of the
//! block that use the fragment again (`packed_cache` knows which are packed, `operand_packing` how
//! they lie, `microkernels` packs and multiplies them).
//!
//! Every tier adds in the order that `simt::ir::matrix` says, to the bit.
//!
//! Deliberately absent: partial warps. They run in the interpreter.

mod deferred_loads;
pub(crate) mod ldmatrix;
mod microkernels;
mod operand_packing;
mod packed_cache;
mod sparse;
pub(crate) mod store_accumulator;

use crate::asm::assembler::{Label, X, at, repeated};
use crate::avx512::matrix::microkernels::MovedSums;
pub(crate) use crate::avx512::matrix::microkernels::{Eights, Routine};
use crate::avx512::matrix::operand_packing::VECTOR;
pub(crate) use crate::avx512::matrix::operand_packing::{Engine, Form, Kind};
pub(crate) use crate::avx512::matrix::packed_cache::Fragments;
use crate::avx512::matrix::packed_cache::{Factor, engines, share_rows};
use crate::frame_layout::{
    A, C, D, FRAGMENTS_MAX, FragmentOrder, K1, PAIR_CHECK, UNPACKABLE, Z0, Z1, Z2, Z3,
};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::operands::{Place, Value, move_code};
use crate::regalloc::allocate::{Lanes, MatrixRegisters};
use iced_x86::{Code, MemoryOperand, Register};
use simt::analysis::nan_demand;
use simt::ir::Reg;
use simt::ir::matrix::{MatrixType, Multiply};
use simt::ir::op::{Op, Width};
use simt::ir::vector::{Dest, Source, VectorFunction, VectorInst};
use std::collections::BTreeSet;

/// Products that are made as one, at most.
const CHAIN_MAX: usize = 8;

/// Registers of sums of any product, for what comes before there are sums.
const SPARE: [Register; 4] = [Register::ZMM24, Register::ZMM25, Register::ZMM26, Register::ZMM27];

/// Least magnitude but zero of an element for products in pairs, as bf16: 2^-50.
///
/// Then a product but zero is at least 2^-100, and a multiple of 2^-114. A sum starts as C's
/// element: if that is subnormal, the interpreter runs it. As long as products are zero the sum stays
/// what it is. The first other product `p` meets a sum `s`. If `s` is at least 2^-102 it is a
/// multiple of 2^-125 as `p` is, and so is the rounded sum: it is zero or normal. If `s` is less,
/// the sum is more than 2^-101, normal, and a multiple of 2^-124. From then on, all that is added is
/// a multiple of 2^-125: no sum is ever subnormal, so there is nothing that could be taken for zero.
const PAIRED_LEAST: u16 = (127 - 50) << 7;

/// Registers that nothing but loads of matrices writes, and nothing but products reads, as operands:
/// those together that are one operand and no part of another, and in which order products want
/// their lanes.
fn fragments(f: &VectorFunction) -> Vec<(Vec<usize>, FragmentOrder)> {
    let mut loaded = vec![false; f.classes.len()];
    let mut other = vec![false; f.classes.len()];
    for inst in f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts)) {
        let factors = match inst.op {
            Op::Multiply(product) if Engine::of(product).is_some() => {
                product.a_registers() + product.b_registers()
            }
            _ => 0,
        };
        let rest = inst.src.iter().skip(factors).flat_map(|s| s.registers());
        rest.for_each(|r| other[r.index()] = true);
        let is_load = matches!(inst.op, Op::LoadMatrix { .. }) && inst.guard.is_none();
        let written = if is_load { &mut loaded } else { &mut other };
        inst.dst.iter().for_each(|d| written[d.reg.index()] = true);
    }
    let factors = sole_factors(f);
    let is_fragment = |r: &usize| loaded[*r] && !other[*r];
    let mut found = Vec::new();
    for r in (0..loaded.len()).filter(is_fragment) {
        let whole = factors[r].as_ref().filter(|(registers, _)| {
            registers.iter().all(|other| is_fragment(other) && factors[*other] == factors[r])
        });
        match whole {
            Some((registers, _)) if registers.iter().min() != Some(&r) => {}
            Some(factor) => found.push(factor.clone()),
            None => found.push((vec![r], FragmentOrder::Lanes)),
        }
    }
    found
}

/// By register: the only operand that it is in, whose registers are all different, and in which order
/// products want their lanes.
fn sole_factors(f: &VectorFunction) -> Vec<Option<(Vec<usize>, FragmentOrder)>> {
    let mut found: Vec<Option<Option<_>>> = vec![None; f.classes.len()];
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        let Op::Multiply(product) = inst.op else { continue };
        let Some(engine) = Engine::of(product) else { continue };
        let plain = engine.columns().is_plain() && engine.width() == Width::W32;
        let columns = if plain { FragmentOrder::Columns } else { FragmentOrder::Lanes };
        for (sources, order) in
            factors(inst, product).into_iter().zip([FragmentOrder::Lanes, columns])
        {
            let registers: Vec<usize> =
                sources.iter().flat_map(|s| s.registers()).map(|r| r.index()).collect();
            let different = registers.iter().collect::<BTreeSet<_>>().len() == sources.len();
            let factor = different.then_some((registers.clone(), order));
            for r in registers {
                match &mut found[r] {
                    Some(known) if *known != factor => *known = None,
                    Some(_) => {}
                    unknown => *unknown = Some(factor.clone()),
                }
            }
        }
    }
    found.into_iter().map(Option::flatten).collect()
}

/// What the products of a function need of the registers.
pub(crate) fn registers(f: &VectorFunction) -> MatrixRegisters {
    let beside = share_rows(f);
    let reserved = engines(f).map(|engine| engine.vectors(beside)).max().unwrap_or(0);
    MatrixRegisters { fragments: fragments(f), reserved }
}

/// What products in pairs cannot have, if there is doubt.
pub(crate) struct PairCheck {
    engines: Vec<Engine>,
    /// What says that a fragment is refused.
    refused: Vec<MemoryOperand>,
}

/// Where it says that a fragment has elements that products in pairs cannot have: of A, then of B.
fn refused_at(factor: Factor, slot: usize) -> MemoryOperand {
    let first = if factor == Factor::A { 0 } else { FRAGMENTS_MAX };
    at(Register::RSP, UNPACKABLE + 4 * (first + slot) as i32)
}

/// Where registers are, if they lie in memory one behind the other.
fn in_order(values: &[Value], engine: Engine) -> Option<(Register, i32)> {
    let Value::Memory(base, first) = *values.first()? else { return None };
    let bytes = VECTOR * engine.parts() as i32;
    let mut expected = (first..).step_by(bytes as usize);
    let all = values.iter().all(|value| {
        let place = expected.next();
        matches!(value, Value::Memory(b, offset) if *b == base && Some(*offset) == place)
    });
    all.then_some((base, first))
}

/// True if a product always runs, and its sources are vectors or constants.
fn is_plain(inst: &VectorInst) -> bool {
    let plain = |s: &Source| matches!(s, Source::Vector(_) | Source::Imm(_));
    inst.guard.is_none() && inst.src.iter().all(plain)
}

/// The operands of a product.
fn factors(inst: &VectorInst, product: Multiply) -> [&[Source]; 2] {
    let (a, rest) = inst.src.split_at(product.a_registers());
    [a, &rest[..product.b_registers()]]
}

/// What a product adds to.
fn sums(inst: &VectorInst, product: Multiply) -> &[Source] {
    &inst.src[product.a_registers() + product.b_registers()..]
}

impl<'a> Compiler<'a> {
    /// Makes code for a product, those behind it that add to its sums, and as many behind these that
    /// share their operands A; false if there is none.
    pub(crate) fn multiply(&mut self, inst: &VectorInst, product: Multiply) -> bool {
        let Some(engine) = Engine::of(product) else { return false };
        let whole = self.isa == SimdIsa::Avx512 && !self.masked;
        if !whole || !self.has_lane_results(inst) || !is_plain(inst) {
            self.emit_deferred_loads(usize::MAX);
            return false;
        }
        let chain = self.chain(self.index, engine);
        let mut end = self.index + chain.len();
        let mut sides = vec![(engine, chain)];
        if let Some((second, chain)) = self.chain_beside(engine, &sides[0].1) {
            end += chain.len();
            sides.push((second, chain));
        }
        let (back, slow, late) = (self.a.label(), self.a.label(), self.a.label());
        if engine.kind == Kind::Pairs {
            self.interpreter_path_of(slow, late, (self.index..end).collect(), None);
        }
        self.emit_deferred_loads(end);
        let (mut rows, mut columns) = (Vec::new(), Vec::new());
        for inst in &sides[0].1 {
            rows.push(self.ready(engine, Factor::A, factors(inst, product)[0], &rows));
        }
        for inst in sides.iter().flat_map(|(_, chain)| chain) {
            columns.push(self.ready(engine, Factor::B, factors(inst, product)[1], &columns));
        }
        let of_sides = |n: usize| n * rows.len()..(n + 1) * rows.len();
        for (n, (engine, chain)) in sides.iter().enumerate() {
            self.start_sums(*engine, sums(chain[0], product), &columns[of_sides(n)]);
        }
        if engine.kind == Kind::Pairs {
            self.go_aside_if_in_doubt(&sides, [&rows, &columns], slow);
        }
        let mut loads = Vec::new();
        for (n, row) in rows.iter().enumerate() {
            let mut places = vec![(A, Factor::A, *row)];
            for (to, column) in [C, D].into_iter().zip(columns[n..].iter().step_by(rows.len())) {
                places.push((to, Factor::B, *column));
            }
            for group in 0..engine.groups() {
                for (to, factor, slot) in &places {
                    let (base, offset) = self.fragments.place(*factor, *slot);
                    self.a.op(Code::Lea_r64_m, &[(*to).into(), at(base, offset).into()]);
                }
                let add = if sides.len() == 2 { Routine::AddBoth } else { Routine::Add };
                self.call(add(engine, group));
                for _ in &sides {
                    loads.extend(self.load_next());
                }
            }
        }
        if engine.kind == Kind::Pairs {
            self.load_aside(late, back, loads);
        }
        for (engine, chain) in &sides {
            let last = chain.last().copied().unwrap_or(inst);
            self.finish_sums(last, *engine, sums(chain[0], product));
        }
        self.a.bind(back);
        for (n, (_, chain)) in sides.iter().enumerate() {
            self.release(chain, product, end, [&rows, &columns[of_sides(n)]]);
        }
        self.merged = self.index + 1..end;
        true
    }

    /// Products right behind a chain that can be made beside it: they have its operands A.
    fn chain_beside(
        &self,
        engine: Engine,
        chain: &[&'a VectorInst],
    ) -> Option<(Engine, Vec<&'a VectorInst>)> {
        let second = engine.second().filter(|_| self.fragments.beside)?;
        let product = engine.product;
        let start = self.index + chain.len();
        let first = self.f.blocks.get(self.block)?.insts.get(start)?;
        let same = first.op == chain[0].op && is_plain(first) && self.has_lane_results(first);
        if !same || 2 * chain.len() > self.fragments.together_max() {
            return None;
        }
        let other = self.chain(start, engine);
        let row = |inst: &&'a VectorInst| factors(inst, product)[0];
        let rows = other.iter().map(row).eq(chain.iter().map(row));
        let written = |r: Reg| chain.iter().flat_map(|inst| &inst.dst).any(|d| d.reg == r);
        let apart = other.iter().all(|inst| {
            let exposed = nan_demand::exposed(&self.nan_deferred, inst).next().is_some();
            let touched = inst.src.iter().flat_map(|s| s.registers());
            !exposed && !touched.chain(inst.dst.iter().map(|d| d.reg)).any(written)
        });
        (rows && apart).then_some((second, other))
    }

    /// A product, and those behind it that can be made with it: they add to its sums.
    fn chain(&self, start: usize, engine: Engine) -> Vec<&'a VectorInst> {
        let product = engine.product;
        let f = self.f;
        let inst = self.inst_at(self.block, start);
        let more = f.blocks.get(self.block).map_or(&[][..], |b| &b.insts[start + 1..]);
        let c = product.a_registers() + product.b_registers();
        let reads = |sums: &[Dest], source: &Source| {
            source.registers().any(|r| sums.iter().any(|d| d.reg == r))
        };
        let adds = |last: &VectorInst, next: &VectorInst| {
            let (factors, sums) = next.src.split_at(c.min(next.src.len()));
            // What it adds to is not wanted otherwise.
            let only = || last.dst.iter().all(|d| self.fragments.reads[d.reg.index()] == 1);
            next.op == inst.op
                && is_plain(next)
                && (next.dst == last.dst || only())
                && sums.iter().copied().eq(last.dst.iter().map(|d| Source::Vector(d.reg)))
                && !factors.iter().any(|s| reads(&last.dst, s) || reads(&next.dst, s))
                && nan_demand::exposed(&self.nan_deferred, next).next().is_none()
        };
        // Each sum is clamped.
        let most = if product.saturate { 1 } else { CHAIN_MAX.min(self.fragments.together_max()) };
        let mut chain = vec![inst];
        for next in more.iter().take(most - 1) {
            if !chain.last().is_some_and(|last| adds(last, next)) {
                break;
            }
            chain.push(next);
        }
        chain
    }

    /// Makes a fragment ready, if it is not; its slot.
    fn ready(
        &mut self,
        engine: Engine,
        factor: Factor,
        sources: &[Source],
        in_use: &[usize],
    ) -> usize {
        let form = if factor == Factor::A { engine.rows() } else { engine.columns() };
        let (slot, known) = self.fragments.slot(factor, form, sources, in_use);
        if known {
            return slot;
        }
        let values: Vec<Value> = sources.iter().map(|s| self.value(*s, engine.width())).collect();
        let look = engine.kind == Kind::Pairs;
        let as_wanted = match factor {
            Factor::A => form.is_plain(),
            Factor::B => self.are_columns(sources),
        };
        if let Some(place) = in_order(&values, engine).filter(|_| as_wanted) {
            self.fragments.leave_at(factor, slot, place);
            if look {
                self.load_places([(A, at(place.0, place.1)), (D, refused_at(factor, slot))]);
                self.call(Routine::Look(values.len() * engine.parts()));
            }
            return slot;
        }
        let (base, start) = self.fragments.place(factor, slot);
        if look {
            self.start_least();
        }
        for (n, value) in values.into_iter().enumerate() {
            match (factor, value) {
                (Factor::A, value) => {
                    for part in 0..engine.parts() {
                        self.load_part(value, part, engine, Z0);
                        self.load_places([(A, at(base, start + engine.row_offset(n, part)))]);
                        self.call(Routine::Ready(factor, form));
                    }
                }
                (Factor::B, Value::Memory(from, offset)) => {
                    let to = at(base, start + engine.column_offset(n));
                    self.load_places([(C, at(from, offset)), (A, to)]);
                    self.call(Routine::ReadyFrom(form));
                }
                (Factor::B, value) => {
                    for (part, to) in [Z0, Z1, Z2, Z3].into_iter().take(engine.parts()).enumerate()
                    {
                        self.load_part(value, part, engine, to);
                    }
                    self.load_places([(A, at(base, start + engine.column_offset(n)))]);
                    self.call(Routine::Ready(factor, form));
                }
            }
        }
        if look {
            self.load_places([(D, refused_at(factor, slot))]);
            self.call(Routine::Refuse);
        }
        slot
    }

    /// In which order a register's lanes are, wherever they are.
    pub(crate) fn order_of(&self, r: Reg) -> FragmentOrder {
        match self.assignment.lanes[r.index()] {
            Lanes::Stack(_, order) => order,
            _ => FragmentOrder::Lanes,
        }
    }

    /// True if the registers of B are as products want them.
    fn are_columns(&self, sources: &[Source]) -> bool {
        let in_order = |r: Reg| self.order_of(r) == FragmentOrder::Columns;
        sources.iter().all(|s| matches!(s, Source::Vector(r) if in_order(*r)))
    }

    /// Loads a part of a value into a register.
    fn load_part(&mut self, value: Value, part: usize, engine: Engine, to: Register) {
        let from = self.part_in(value, part, engine.width(), to);
        if from != to {
            self.a.op(move_code(Width::W32), &[to.into(), from.into()]);
        }
    }

    fn load_places<const N: usize>(&mut self, places: [(Register, MemoryOperand); N]) {
        for (to, place) in places {
            self.a.op(Code::Lea_r64_m, &[to.into(), place.into()]);
        }
    }

    /// Goes elsewhere if products in pairs cannot have one of the fragments, or a sum starts as a
    /// subnormal number.
    fn go_aside_if_in_doubt(
        &mut self,
        sides: &[(Engine, Vec<&VectorInst>)],
        slots: [&[usize]; 2],
        slow: Label,
    ) {
        for (engine, chain) in sides {
            let mut c = sums(chain[0], engine.product).iter();
            if !c.all(|source| self.fragments.is_normal(*source)) {
                self.call(Routine::Subnormal(*engine));
                self.a.jump(Code::Jne_rel32_64, slow);
            }
        }
        let engines = sides.iter().map(|(engine, _)| *engine).collect();
        let (label, back) = (self.a.label(), self.a.label());
        let refused = [Factor::A, Factor::B]
            .into_iter()
            .zip(slots)
            .flat_map(|(factor, slots)| slots.iter().map(move |slot| refused_at(factor, *slot)))
            .collect();
        let check = PairCheck { engines, refused };
        self.slow_path_to(label, back, move |c| c.look_closely(&check, slow));
        self.a.op(Code::Cmp_rm32_imm8, &[at(Register::RSP, PAIR_CHECK).into(), X::I(0)]);
        self.a.jump(Code::Jne_rel32_64, label);
        self.a.bind(back);
    }

    /// Something was refused, or a product ran in its interpreter handlers: looks whether that matters.
    pub(crate) fn look_closely(&mut self, pair_check: &PairCheck, slow: Label) {
        for place in &pair_check.refused {
            self.a.op(Code::Cmp_rm32_imm8, &[(*place).into(), X::I(0)]);
            self.a.jump(Code::Jne_rel32_64, slow);
        }
        for engine in &pair_check.engines {
            self.call(Routine::Subnormal(*engine));
            self.a.jump(Code::Jne_rel32_64, slow);
        }
    }

    /// Says whether sums may be subnormal, if products care: not those of a warp at its start.
    pub(crate) fn say_of_sums(&mut self, subnormal: bool) {
        if self.fragments.pairs {
            let to = at(Register::RSP, PAIR_CHECK);
            self.a.op(Code::Mov_rm32_imm32, &[to.into(), X::I(subnormal.into())]);
        }
    }

    /// A product runs in its interpreter handlers, of which subnormal sums can come.
    pub(crate) fn multiplied_elsewhere(&mut self, op: &Op) {
        if let Op::Multiply(Multiply { a: MatrixType::BF16, .. }) = op {
            self.say_of_sums(true);
        }
    }

    /// Puts C into the sums, and takes off what turned operands add to them.
    fn start_sums(&mut self, engine: Engine, c: &[Source], columns: &[usize]) {
        let values: Vec<Value> = c.iter().map(|c| self.value(*c, engine.width())).collect();
        let sums = engine.sums().zip((0..).map(|n| (n / engine.parts(), n % engine.parts())));
        if engine.product.saturate {
            for sum in engine.sums() {
                let zero = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
                self.a.op(zero, &[sum.into(), sum.into(), sum.into()]);
            }
        } else if let Some((place, offsets)) = near_each_other(&values) {
            let moved = MovedSums { store: false, canonical: false, offsets };
            self.load_places([(D, place)]);
            self.call(Routine::Move(engine, moved));
        } else {
            for (sum, (r, part)) in sums.clone() {
                self.load_part(values[r], part, engine, sum);
            }
        }
        let form = engine.columns();
        if !form.counted {
            return;
        }
        for (column, unit) in
            columns.iter().flat_map(|c| (0..engine.groups() * form.units).map(move |u| (*c, u)))
        {
            let (base, start) = self.fragments.place(Factor::B, column);
            for (sum, (r, _)) in sums.clone() {
                let count = 8 * form.step + VECTOR * (r % 2) as i32;
                let count = at(base, start + form.unit_bytes() * unit as i32 + count);
                let subtract = Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
                self.a.op(subtract, &[sum.into(), sum.into(), count.into()]);
            }
        }
    }

    /// Puts the sums where they belong.
    fn finish_sums(&mut self, inst: &VectorInst, engine: Engine, c: &[Source]) {
        let sums = engine.sums().zip((0..).map(|n| (n / engine.parts(), n % engine.parts())));
        if engine.product.saturate {
            for (sum, (r, part)) in sums.clone() {
                let value = self.value(c[r], Width::W32);
                let c = self.part_in(value, part, Width::W32, Z0);
                self.add_clamped(sum, c);
            }
        }
        let floats = matches!(engine.kind, Kind::Pairs | Kind::Single);
        let canonical: Vec<bool> =
            inst.dst.iter().map(|d| floats && !self.nan_deferred[d.reg.index()]).collect();
        let places: Vec<Place> = inst.dst.iter().map(|d| self.dest(inst, d)).collect();
        let values: Option<Vec<Value>> = places.iter().map(Place::whole).collect();
        let same = canonical.iter().all(|c| *c == canonical[0]);
        if let Some((place, offsets)) = values.as_deref().and_then(near_each_other).filter(|_| same)
        {
            let moved = MovedSums { store: true, canonical: canonical[0], offsets };
            self.load_places([(D, place)]);
            return self.call(Routine::Move(engine, moved));
        }
        for (sum, (r, part)) in sums {
            if canonical[r] {
                self.canonical(sum);
            }
            self.put_register(&places[r], part, sum);
        }
    }

    /// Adds integers with signs to a sum, which stays within 32 bits.
    fn add_clamped(&mut self, sum: Register, c: Register) {
        let add = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
        self.a.op(add, &[Z1.into(), sum.into(), c.into()]);
        // The two have one sign, the sum has the other: a & b & !s | !a & !b & s.
        let choose = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        self.a.op(move_code(Width::W32), &[Z2.into(), sum.into()]);
        self.a.op(choose, &[Z2.into(), c.into(), Z1.into(), X::I(0x42)]);
        // The end that is nearer to them.
        let right = Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8;
        self.a.op(right, &[Z3.into(), sum.into(), X::I(31)]);
        let most = repeated(self.a.constant(&i32::MAX.to_le_bytes()));
        let xor = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        self.a.op(xor, &[Z3.into(), Z3.into(), most.into()]);
        let signs = Code::EVEX_Vpmovd2m_kr_zmm;
        self.a.op(signs, &[K1.into(), Z2.into()]);
        self.a.op(move_code(Width::W32), &[sum.into(), Z1.into()]);
        self.a.op(move_code(Width::W32), &[sum.into(), Z3.into()]).set_op_mask(K1);
    }

    /// Gives up slots of fragments that no product behind uses.
    fn release(
        &mut self,
        chain: &[&VectorInst],
        product: Multiply,
        end: usize,
        slots: [&[usize]; 2],
    ) {
        let f = self.f;
        let behind = f.blocks.get(self.block).map_or(&[][..], |b| &b.insts[end..]);
        for (n, factor) in [Factor::A, Factor::B].into_iter().enumerate() {
            for (inst, slot) in chain.iter().zip(slots[n]) {
                let sources = factors(inst, product)[n];
                if !is_used(behind, n, sources) {
                    self.fragments.release(factor, *slot);
                }
            }
        }
    }
}

/// Where the first of some registers is, if all are in memory, and how far the others are from it.
fn near_each_other(values: &[Value]) -> Option<(MemoryOperand, [i32; 4])> {
    let Value::Memory(base, first) = *values.first()? else { return None };
    let mut offsets = [0; 4];
    for (to, value) in offsets.iter_mut().zip(values) {
        match value {
            Value::Memory(b, offset) if *b == base => *to = offset - first,
            _ => return None,
        }
    }
    Some((at(base, first), offsets))
}

/// True if one of the instructions multiplies with the registers, as A or as B, before they change.
fn is_used(insts: &[VectorInst], factor: usize, sources: &[Source]) -> bool {
    let written = |r: Reg| sources.iter().flat_map(|s| s.registers()).any(|other| other == r);
    for inst in insts {
        if let Op::Multiply(product) = inst.op
            && factors(inst, product)[factor] == sources
        {
            return true;
        }
        if inst.dst.iter().any(|d| written(d.reg)) {
            return false;
        }
    }
    false
}
