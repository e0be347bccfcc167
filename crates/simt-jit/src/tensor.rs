//! Products of matrices with AVX-512: [`Op::Multiply`] of 16 rows by a full warp.
//!
//! The sums of a product are eight vectors: of each of the four registers of C the rows 0 to 3, 8 to
//! 11 and so on, and the others. A quad of lanes is 128 bits and has a row of A, so an element of A
//! comes to all lanes of its row by a shuffle within 128 bits. What the four lanes of a quad want of
//! B is the same in all quads: it is picked once into 128 bits in memory, from where it is repeated.
//! Fragments of B that are used again within a block are not picked again ([`Fragments`]).
//!
//! Every tier adds in the order that `simt::matrix` says, to the bit. Two engines:
//!
//! - *pairs*: `vdpbf16ps` adds two products of bf16, in that order and each rounded as a fused
//!   multiply-add, but takes subnormal numbers for zero, as sources and as results. See
//!   [`PAIRED_LEAST`] for when no lane can tell; else the decoded form runs.
//! - *single*: elements become f32 and are multiplied one by one; always right.
//!
//! Deliberately absent: warps that are not whole, products of eight rows, and formats that few
//! programs have. Their decoded form runs.

use crate::Flavour;
use crate::assembler::{Label, X, at, repeated};
use crate::cold::Cold;
use crate::compiler::Compiler;
use crate::frame::{A, C, FRAGMENTS, FRAGMENTS_BYTES, K1, K2, REFUSED, ROWS, Z0, Z1, Z2, Z3};
use crate::nan;
use crate::value::{Value, move_code, ymm};
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::matrix::{MatrixType, Multiply, added};
use simt::op::{Op, Width};
use simt::vector::{Source, VectorFunction, VectorInst};

/// Fragments that are remembered of each kind, at most.
pub(crate) const FRAGMENTS_MAX: usize = 32;
/// Fragments of A that are kept: there is room for more of B, of which each is used less often.
pub(crate) const ROWS_MAX: usize = 16;
/// What one takes: four registers.
pub(crate) const ROWS_BYTES: i32 = 512;
/// Products that are made as one, at most: all of their fragments are remembered.
const CHAIN_MAX: usize = 8;

/// The sums of a product: of register `r`'s part `p` in `SUMS[2 * r + p]`.
const SUMS: [Register; 8] = [
    Register::ZMM20,
    Register::ZMM21,
    Register::ZMM22,
    Register::ZMM23,
    Register::ZMM24,
    Register::ZMM25,
    Register::ZMM26,
    Register::ZMM27,
];

/// Elements of A as f32, for products one by one.
const ELEMENTS: [Register; 8] = [
    Register::ZMM12,
    Register::ZMM13,
    Register::ZMM14,
    Register::ZMM15,
    Register::ZMM16,
    Register::ZMM17,
    Register::ZMM18,
    Register::ZMM19,
];

/// Least magnitude but zero of an element for products in pairs, as bf16: 2^-50.
///
/// Then a product but zero is at least 2^-100, and a multiple of 2^-114. A sum starts as C's
/// element: if that is subnormal, the decoded form runs. As long as products are zero the sum stays
/// what it is. The first other product `p` meets a sum `s`. If `s` is at least 2^-102 it is a
/// multiple of 2^-125 as `p` is, and so is the rounded sum: it is zero or normal. If `s` is less,
/// the sum is more than 2^-101, normal, and a multiple of 2^-124. From then on, all that is added is
/// a multiple of 2^-125: no sum is ever subnormal, so there is nothing that could be taken for zero.
const PAIRED_LEAST: u16 = (127 - 50) << 7;

/// How products are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Pairs,
    Single,
}

impl Engine {
    /// Bytes of a fragment of B that is ready: two vectors for each of two registers, or of four
    /// elements.
    fn fragment_bytes(self) -> i32 {
        match self {
            Self::Pairs => 256,
            Self::Single => 512,
        }
    }
}

/// How a product is made; `None` if it runs in its decoded form.
fn engine(product: Multiply) -> Option<Engine> {
    let known = matches!(product.a, MatrixType::BF16 | MatrixType::F16 | MatrixType::TF32);
    let paired = product.a == MatrixType::BF16 && is_x86_feature_detected!("avx512bf16");
    let engine = if paired { Engine::Pairs } else { Engine::Single };
    (known && product.tall && product.a == product.b).then_some(engine)
}

/// The engines of a function's products.
fn engines(f: &VectorFunction) -> impl Iterator<Item = Engine> {
    f.blocks.iter().flat_map(|b| &b.insts).filter_map(|inst| match inst.op {
        Op::Multiply(product) => engine(product),
        _ => None,
    })
}

/// Registers that nothing but loads of matrices writes, and nothing but products reads, as factors.
pub(crate) fn fragments(f: &VectorFunction) -> impl Iterator<Item = usize> {
    let mut loaded = vec![false; f.classes.len()];
    let mut other = vec![false; f.classes.len()];
    for inst in f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts)) {
        let factors = match inst.op {
            Op::Multiply(product) if engine(product).is_some() => {
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
    (0..loaded.len()).filter(move |r| loaded[*r] && !other[*r])
}

/// Vector registers that hold values in a function; its products use the others.
pub(crate) fn vectors(f: &VectorFunction, most: usize) -> usize {
    let room = engines(f).map(|engine| match engine {
        Engine::Pairs => most - SUMS.len(),
        Engine::Single => most - SUMS.len() - ELEMENTS.len(),
    });
    room.min().unwrap_or(most)
}

/// Fragments that were looked at since the start of the block, by slot.
pub(crate) struct Fragments {
    /// Of A.
    rows: Held,
    /// Of B.
    columns: Held,
    /// Of one of B, in all of the function.
    bytes: i32,
}

type Fragment<'a> = (MatrixType, &'a [Source]);

#[derive(Default)]
struct Held {
    slots: Vec<Option<(MatrixType, Vec<Source>)>>,
    next: usize,
}

impl Fragments {
    /// None, in a function.
    pub(crate) fn of(f: &VectorFunction) -> Self {
        let bytes = engines(f).map(Engine::fragment_bytes).max().unwrap_or(FRAGMENTS_BYTES);
        let of = |count: i32| Held { slots: vec![None; count as usize], next: 0 };
        Self { rows: of(ROWS_MAX as i32), columns: of(FRAGMENTS_BYTES / bytes), bytes }
    }

    /// Nothing is known any more.
    pub(crate) fn clear(&mut self) {
        self.rows.slots.fill(None);
        self.columns.slots.fill(None);
    }

    /// The register has another value from here on.
    pub(crate) fn forget(&mut self, r: Reg) {
        for slot in self.rows.slots.iter_mut().chain(&mut self.columns.slots) {
            let read = slot.as_ref().is_some_and(|(_, sources)| {
                sources.iter().flat_map(|s| s.registers()).any(|other| other == r)
            });
            if read {
                *slot = None;
            }
        }
    }

    /// Where a fragment of A in a slot is.
    fn rows_at(&self, slot: usize) -> X {
        at(Register::RSP, ROWS + ROWS_BYTES * slot as i32).into()
    }

    /// Where a fragment of B in a slot is, as 128 bits for each value of `k` of a quad.
    fn columns_at(&self, slot: usize, vector: usize, quarter: usize) -> X {
        let offset = slot as i32 * self.bytes + 64 * vector as i32 + 16 * quarter as i32;
        at(Register::RSP, FRAGMENTS + offset).into()
    }
}

impl Held {
    /// The slot of a fragment, and whether it has it already; none of those in use is taken.
    fn slot(&mut self, (ty, sources): Fragment<'_>, in_use: &[usize]) -> (usize, bool) {
        let is_it = |slot: &Option<(MatrixType, Vec<Source>)>| {
            slot.as_ref().is_some_and(|(t, s)| *t == ty && s == sources)
        };
        if let Some(slot) = self.slots.iter().position(is_it) {
            return (slot, true);
        }
        while in_use.contains(&self.next) {
            self.next = (self.next + 1) % self.slots.len();
        }
        let slot = self.next;
        self.next = (slot + 1) % self.slots.len();
        self.slots[slot] = Some((ty, sources.to_vec()));
        (slot, false)
    }
}

/// Where it says that a fragment has elements that products in pairs cannot have: of A, then of B.
fn refused_at(operand: usize, slot: usize) -> X {
    at(Register::RSP, REFUSED + 4 * (FRAGMENTS_MAX * operand + slot) as i32).into()
}

/// The immediate of a shuffle that repeats one of four.
fn of_four(quarter: usize) -> X {
    X::I((quarter as u8 * 0x55) as i8 as i32)
}

/// True if a product always runs, and its sources are vectors or constants.
fn is_plain(inst: &VectorInst) -> bool {
    let plain = |s: &Source| matches!(s, Source::Vector(_) | Source::Imm(_));
    inst.guard.is_none() && inst.src.iter().all(plain)
}

impl Compiler<'_> {
    /// Makes code for a product and those behind it that add to its sums; false if there is none.
    pub(crate) fn multiply(&mut self, inst: &VectorInst, product: Multiply) -> bool {
        let Some(engine) = engine(product) else { return false };
        let whole = self.flavour == Flavour::Avx512 && !self.masked;
        if !whole || !self.has_lane_results(inst) || !is_plain(inst) {
            return false;
        }
        let f = self.f;
        let more = f.blocks.get(self.block).map_or(&[][..], |b| &b.insts[self.index + 1..]);
        let c = product.a_registers() + product.b_registers();
        let is_sum = |s: &Source| s.registers().any(|r| inst.dst.iter().any(|d| d.reg == r));
        let adds = |next: &&VectorInst| {
            let (factors, sums) = next.src.split_at(c.min(next.src.len()));
            next.op == inst.op
                && is_plain(next)
                && next.dst == inst.dst
                && sums.iter().copied().eq(inst.dst.iter().map(|d| Source::Vector(d.reg)))
                && !factors.iter().any(is_sum)
                && nan::exposed(&self.lazy, next).next().is_none()
        };
        let more = more.iter().take(CHAIN_MAX - 1).take_while(adds);
        let chain: Vec<&VectorInst> = std::iter::once(inst).chain(more).collect();
        let end = self.index + chain.len();
        let factors: Vec<[&[Source]; 2]> = chain
            .iter()
            .map(|inst| {
                let (a, b) = inst.src[..c].split_at(product.a_registers());
                [a, b]
            })
            .collect();
        let back = self.a.label();
        match engine {
            Engine::Pairs => {
                let label = self.a.label();
                let members = (self.index..end).collect();
                let (block, masked, in_eax) = (self.block, self.masked, None);
                self.cold.push(Cold::Segment { label, back, block, masked, members, in_eax });
                self.in_pairs(&factors, &inst.src[c..], label);
            }
            Engine::Single => {
                self.start_sums(&inst.src[c..]);
                factors.iter().for_each(|factors| self.one_by_one(product, *factors));
            }
        }
        for (r, d) in inst.dst.iter().enumerate() {
            let place = self.dest(inst, d);
            for part in 0..2 {
                let sum = SUMS[2 * r + part];
                if !self.lazy[d.reg.index()] {
                    self.canonical(sum);
                }
                self.put_register(&place, part, sum);
            }
        }
        self.a.bind(back);
        self.merged = self.index + 1..end;
        true
    }

    /// Puts C into the sums.
    fn start_sums(&mut self, c: &[Source]) {
        for (r, c) in c.iter().enumerate() {
            let value = self.value(*c, Width::W32);
            for part in 0..2 {
                let sum = SUMS[2 * r + part];
                let from = self.part_in(value, part, Width::W32, sum);
                if from != sum {
                    self.a.op(move_code(Width::W32), &[sum.into(), from.into()]);
                }
            }
        }
    }

    /// Adds the products of bf16, two at a time; goes elsewhere if it cannot.
    fn in_pairs(&mut self, factors: &[[&[Source]; 2]], c: &[Source], slow: Label) {
        let (mut rows, mut columns) = (Vec::new(), Vec::new());
        for [a, b] in factors {
            let (row, known) = self.fragments.rows.slot((MatrixType::BF16, a), &rows);
            if !known {
                self.refuse(a, 0, row);
                self.keep_rows(a, row);
            }
            rows.push(row);
            let (column, known) = self.fragments.columns.slot((MatrixType::BF16, b), &columns);
            if !known {
                self.refuse(b, 1, column);
                for (group, source) in b.iter().enumerate() {
                    self.pick_columns(*source, None, column, 2 * group);
                }
            }
            columns.push(column);
        }
        for (operand, slots) in [&rows, &columns].into_iter().enumerate() {
            for slot in slots {
                self.a.op(Code::Cmp_rm32_imm8, &[refused_at(operand, *slot), X::I(0)]);
                self.a.jump(Code::Jne_rel32_64, slow);
            }
        }
        self.start_sums(c);
        for pair in SUMS.chunks_exact(2) {
            for (k, sum) in [K1, K2].into_iter().zip(pair) {
                // Subnormal.
                let code = Code::EVEX_Vfpclassps_kr_k1_zmmm512b32_imm8;
                self.a.op(code, &[k.into(), (*sum).into(), X::I(0x20)]);
            }
            self.a.op(Code::VEX_Kortestw_kr_kr, &[K1.into(), K2.into()]);
            self.a.jump(Code::Jne_rel32_64, slow);
        }
        let groups = factors[0][1].len();
        let routine = *self.pairs[groups - 1].get_or_insert_with(|| self.a.label());
        for (row, column) in rows.into_iter().zip(columns) {
            let lea = Code::Lea_r64_m;
            self.a.op(lea, &[A.into(), self.fragments.rows_at(row)]);
            self.a.op(lea, &[C.into(), self.fragments.columns_at(column, 0, 0)]);
            self.a.jump(Code::Call_rel32_64, routine);
        }
    }

    /// Makes the code that adds the products of two fragments to the sums, if something calls it:
    /// of A at RAX, of B at RCX. Once for all products, so that it stays where the processor need
    /// not fetch it again.
    pub(crate) fn add_pairs(&mut self) {
        let spread = Code::EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8;
        let add = Code::EVEX_Vdpbf16ps_zmm_k1z_zmm_zmmm512b32;
        for (groups, label) in (1..).zip(self.pairs) {
            let Some(label) = label else { continue };
            self.a.bind(label);
            for (group, quarter) in (0..groups).flat_map(|g| (0..4).map(move |q| (g, q))) {
                for (odd, to) in [Z0, Z1].into_iter().enumerate() {
                    let from = at(C, 64 * (2 * group + odd as i32) + 16 * quarter as i32);
                    self.a.op(Code::EVEX_Vbroadcasti32x4_zmm_k1z_m128, &[to.into(), from.into()]);
                }
                for (half, part) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let to = if part == 0 { Z2 } else { Z3 };
                    let from = at(A, 128 * (2 * group + half) + 64 * part);
                    self.a.op(spread, &[to.into(), from.into(), of_four(quarter)]);
                    for (odd, columns) in [Z0, Z1].into_iter().enumerate() {
                        let sum = SUMS[(2 * (2 * half + odd as i32) + part) as usize];
                        self.a.op(add, &[sum.into(), to.into(), columns.into()]);
                    }
                }
            }
            self.a.op(Code::Retnq, &[]);
        }
    }

    /// Adds products one by one.
    fn one_by_one(&mut self, product: Multiply, [a, b]: [&[Source]; 2]) {
        let ty = product.a;
        let packed = ty.packed() as usize;
        let (column, known) = self.fragments.columns.slot((ty, b), &[]);
        if !known {
            for (group, source) in b.iter().enumerate() {
                for e in 0..packed {
                    let vector = 2 * (packed * group + e);
                    self.pick_columns(*source, Some((ty, e)), column, vector);
                }
            }
        }
        let spread = Code::EVEX_Vpermilps_zmm_k1z_zmmm512b32_imm8;
        let add = Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er;
        for group in 0..b.len() {
            // Of element `e`, upper or lower rows, and part: where it is.
            let element = |e: usize, half: usize, part: usize| ELEMENTS[4 * e + 2 * half + part];
            for (e, half) in (0..packed).flat_map(|e| [(e, 0), (e, 1)]) {
                let value = self.value(a[2 * group + half], Width::W32);
                for part in 0..2 {
                    let from = self.part_in(value, part, Width::W32, Z2);
                    self.widen_element((ty, e), from, element(e, half, part));
                }
            }
            for (quarter, i) in (0..4).flat_map(|q| (0..packed).map(move |i| (q, i))) {
                let e = added(packed, i);
                self.repeat_columns(column, 2 * (packed * group + e), quarter);
                for (half, part) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let to = if part == 0 { Z2 } else { Z3 };
                    let from = element(e, half, part);
                    self.a.op(spread, &[to.into(), from.into(), of_four(quarter)]);
                    for (odd, columns) in [Z0, Z1].into_iter().enumerate() {
                        let sum = SUMS[2 * (2 * half + odd) + part];
                        self.a.op(add, &[sum.into(), to.into(), columns.into()]);
                    }
                }
            }
        }
    }

    /// What even columns multiply with in Z0, odd ones in Z1.
    fn repeat_columns(&mut self, slot: usize, vector: usize, quarter: usize) {
        for (odd, to) in [Z0, Z1].into_iter().enumerate() {
            let from = self.fragments.columns_at(slot, vector + odd, quarter);
            self.a.op(Code::EVEX_Vbroadcasti32x4_zmm_k1z_m128, &[to.into(), from]);
        }
    }

    /// Picks what even and odd columns of a register of B multiply with into two vectors of a slot:
    /// the lanes as they are, or an element of each.
    fn pick_columns(
        &mut self,
        source: Source,
        element: Option<(MatrixType, usize)>,
        slot: usize,
        vector: usize,
    ) {
        let value = self.value(source, Width::W32);
        let mut low = self.part_in(value, 0, Width::W32, Z0);
        let mut high = match value {
            Value::One(_) => low,
            _ => self.part_in(value, 1, Width::W32, Z1),
        };
        let mut made = [SUMS[0], SUMS[1]];
        if let Some(element) = element {
            self.widen_element(element, low, Z2);
            self.widen_element(element, high, Z3);
            (low, high) = (Z2, Z3);
            // Sums may have been started.
            made = [ELEMENTS[0], ELEMENTS[1]];
        }
        for (odd, to) in made.into_iter().enumerate() {
            // Lane `l` of a quad has the columns `2 l` and `2 l + 1`; a column is four lanes of B.
            let lanes = (0..4).flat_map(|k| (0..4).map(move |l| 8 * l + 4 * odd + k));
            self.load_picks(Width::W32, to, lanes);
            let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
            self.a.op(pick, &[to.into(), low.into(), high.into()]);
            let store = Code::EVEX_Vmovdqa32_zmmm512_k1z_zmm;
            let at = self.fragments.columns_at(slot, vector + odd, 0);
            self.a.op(store, &[at, to.into()]);
        }
    }

    /// Element `e` of 16 lanes as f32; may overwrite where they are if that is the target.
    fn widen_element(&mut self, (ty, e): (MatrixType, usize), from: Register, to: Register) {
        let word = |c: &mut Self, bits: u32| repeated(c.a.constant(&bits.to_le_bytes()));
        let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
        match (ty, e) {
            (MatrixType::F16, e) => {
                let mut from = from;
                if e == 1 {
                    let shift = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
                    self.a.op(shift, &[to.into(), from.into(), X::I(16)]);
                    from = to;
                }
                self.a.op(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, &[ymm(to).into(), from.into()]);
                let widen = Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae;
                self.a.op(widen, &[to.into(), ymm(to).into()]);
            }
            (MatrixType::BF16, 0) => {
                let shift = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
                self.a.op(shift, &[to.into(), from.into(), X::I(16)]);
            }
            (MatrixType::BF16, _) => {
                let upper = word(self, 0xffff_0000);
                self.a.op(and, &[to.into(), from.into(), upper.into()]);
            }
            // f32 without the low 13 bits.
            _ => {
                let kept = word(self, 0xffff_e000);
                self.a.op(and, &[to.into(), from.into(), kept.into()]);
            }
        }
    }

    /// Keeps a fragment of A as it is.
    fn keep_rows(&mut self, sources: &[Source], slot: usize) {
        for (r, source) in sources.iter().enumerate() {
            let value = self.value(*source, Width::W32);
            for part in 0..2 {
                let from = self.part_in(value, part, Width::W32, Z0);
                let offset = ROWS_BYTES * slot as i32 + 128 * r as i32 + 64 * part as i32;
                let to = at(Register::RSP, ROWS + offset);
                let store = Code::EVEX_Vmovdqa32_zmmm512_k1z_zmm;
                self.a.op(store, &[to.into(), from.into()]);
            }
        }
    }

    /// Says of a fragment of bf16 whether products in pairs can have it: [`PAIRED_LEAST`].
    fn refuse(&mut self, sources: &[Source], operand: usize, slot: usize) {
        let [ones, double, least, ..] = SUMS;
        let set = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        for to in [ones, least] {
            self.a.op(set, &[to.into(), to.into(), to.into(), X::I(-1)]);
        }
        for source in sources {
            let value = self.value(*source, Width::W32);
            for part in 0..2 {
                let from = self.part_in(value, part, Width::W32, Z0);
                // Without the sign, and less one: zero becomes the largest.
                let add = Code::EVEX_Vpaddw_zmm_k1z_zmm_zmmm512;
                self.a.op(add, &[double.into(), from.into(), from.into()]);
                self.a.op(add, &[double.into(), double.into(), ones.into()]);
                let min = Code::EVEX_Vpminuw_zmm_k1z_zmm_zmmm512;
                self.a.op(min, &[least.into(), least.into(), double.into()]);
            }
        }
        let bound = self.a.constant(&(2 * PAIRED_LEAST - 1).to_le_bytes().repeat(32));
        let compare = Code::EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8;
        self.a.op(compare, &[K1.into(), least.into(), bound.into(), X::I(1)]);
        self.a.op(Code::VEX_Kmovd_m32_kr, &[refused_at(operand, slot), K1.into()]);
    }
}
