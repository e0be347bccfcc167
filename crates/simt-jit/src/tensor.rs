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
use crate::compiler::Compiler;
use crate::frame::{FRAGMENT_BYTES, FRAGMENTS, K1, K2, REFUSED, Z0, Z1, Z2, Z3};
use crate::value::{Value, move_code, ymm};
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::matrix::{MatrixType, Multiply, added};
use simt::op::{Op, Width};
use simt::vector::{Source, VectorFunction, VectorInst};

/// Fragments that are remembered of each kind.
pub(crate) const FRAGMENTS_MAX: usize = 8;

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

/// How a product is made; `None` if it runs in its decoded form.
fn engine(product: Multiply) -> Option<Engine> {
    let known = matches!(product.a, MatrixType::BF16 | MatrixType::F16 | MatrixType::TF32);
    let paired = product.a == MatrixType::BF16 && is_x86_feature_detected!("avx512bf16");
    let engine = if paired { Engine::Pairs } else { Engine::Single };
    (known && product.tall && product.a == product.b).then_some(engine)
}

/// Vector registers that hold values in a function; its products use the others.
pub(crate) fn vectors(f: &VectorFunction, most: usize) -> usize {
    let engines = f.blocks.iter().flat_map(|b| &b.insts).filter_map(|inst| match inst.op {
        Op::Multiply(product) => engine(product),
        _ => None,
    });
    let room = engines.map(|engine| match engine {
        Engine::Pairs => most - SUMS.len(),
        Engine::Single => most - SUMS.len() - ELEMENTS.len(),
    });
    room.min().unwrap_or(most)
}

/// Fragments that were looked at since the start of the block, by slot.
#[derive(Default)]
pub(crate) struct Fragments {
    /// Of A.
    rows: Held,
    /// Of B.
    columns: Held,
}

#[derive(Default)]
struct Held {
    slots: [Option<(MatrixType, Vec<Source>)>; FRAGMENTS_MAX],
    next: usize,
}

impl Fragments {
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
}

impl Held {
    /// The slot of a fragment, and whether it has it already.
    fn slot(&mut self, ty: MatrixType, sources: &[Source]) -> (usize, bool) {
        let is_it = |slot: &Option<(MatrixType, Vec<Source>)>| {
            slot.as_ref().is_some_and(|(t, s)| *t == ty && s == sources)
        };
        if let Some(slot) = self.slots.iter().position(is_it) {
            return (slot, true);
        }
        let slot = self.next;
        self.next = (slot + 1) % FRAGMENTS_MAX;
        self.slots[slot] = Some((ty, sources.to_vec()));
        (slot, false)
    }
}

/// Where a fragment of B is, as 128 bits for each value of `k` of a quad.
fn columns_at(slot: usize, vector: usize, quarter: usize) -> X {
    let offset = slot as i32 * FRAGMENT_BYTES + 64 * vector as i32 + 16 * quarter as i32;
    at(Register::RSP, FRAGMENTS + offset).into()
}

/// Where it says that a fragment has elements that products in pairs cannot have: of A, then of B.
fn refused_at(operand: usize, slot: usize) -> X {
    at(Register::RSP, REFUSED + 4 * (FRAGMENTS_MAX * operand + slot) as i32).into()
}

/// The immediate of a shuffle that repeats one of four.
fn of_four(quarter: usize) -> X {
    X::I((quarter as u8 * 0x55) as i8 as i32)
}

impl Compiler<'_> {
    /// Makes code for a product; false if there is none.
    pub(crate) fn multiply(&mut self, inst: &VectorInst, product: Multiply) -> bool {
        let Some(engine) = engine(product) else { return false };
        let whole = self.flavour == Flavour::Avx512 && !self.masked && inst.guard.is_none();
        let plain = |s: &Source| matches!(s, Source::Vector(_) | Source::Imm(_));
        if !whole || !inst.src.iter().all(plain) || !self.has_lane_results(inst) {
            return false;
        }
        let (a, rest) = inst.src.split_at(product.a_registers());
        let (b, c) = rest.split_at(product.b_registers());
        let back = self.a.label();
        match engine {
            Engine::Pairs => self.in_pairs([a, b, c], back),
            Engine::Single => self.one_by_one(product, [a, b, c]),
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
        if engine == Engine::Pairs {
            self.a.bind(back);
        }
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

    /// Adds the products of bf16, two at a time; if it cannot, leaves the instruction to its decoded
    /// form, which goes on at `back`.
    fn in_pairs(&mut self, [a, b, c]: [&[Source]; 3], back: Label) {
        let (row, known) = self.fragments.rows.slot(MatrixType::BF16, a);
        if !known {
            self.refuse(a, 0, row);
        }
        let (column, known) = self.fragments.columns.slot(MatrixType::BF16, b);
        if !known {
            self.refuse(b, 1, column);
            for (group, source) in b.iter().enumerate() {
                self.pick_columns(*source, None, column, 2 * group);
            }
        }
        let slow = self.aside(back);
        for place in [refused_at(0, row), refused_at(1, column)] {
            self.a.op(Code::Cmp_rm32_imm8, &[place, X::I(0)]);
            self.a.jump(Code::Jne_rel32_64, slow);
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
        let spread = Code::EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8;
        let add = Code::EVEX_Vdpbf16ps_zmm_k1z_zmm_zmmm512b32;
        for (group, quarter) in (0..b.len()).flat_map(|g| (0..4).map(move |q| (g, q))) {
            self.repeat_columns(column, 2 * group, quarter);
            for (half, part) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let value = self.value(a[2 * group + half], Width::W32);
                let to = if part == 0 { Z2 } else { Z3 };
                let from = self.part(value, part);
                self.a.op(spread, &[to.into(), from, of_four(quarter)]);
                for (odd, columns) in [Z0, Z1].into_iter().enumerate() {
                    let sum = SUMS[2 * (2 * half + odd) + part];
                    self.a.op(add, &[sum.into(), to.into(), columns.into()]);
                }
            }
        }
    }

    /// Adds products one by one.
    fn one_by_one(&mut self, product: Multiply, [a, b, c]: [&[Source]; 3]) {
        let ty = product.a;
        let packed = ty.packed() as usize;
        let (column, known) = self.fragments.columns.slot(ty, b);
        if !known {
            for (group, source) in b.iter().enumerate() {
                for e in 0..packed {
                    let vector = 2 * (packed * group + e);
                    self.pick_columns(*source, Some((ty, e)), column, vector);
                }
            }
        }
        self.start_sums(c);
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
            let from = columns_at(slot, vector + odd, quarter);
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
        if let Some(element) = element {
            self.widen_element(element, low, Z2);
            self.widen_element(element, high, Z3);
            (low, high) = (Z2, Z3);
        }
        for (odd, to) in SUMS.into_iter().enumerate().take(2) {
            // Lane `l` of a quad has the columns `2 l` and `2 l + 1`; a column is four lanes of B.
            let lanes = (0..4).flat_map(|k| (0..4).map(move |l| 8 * l + 4 * odd + k));
            self.load_picks(Width::W32, to, lanes);
            let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
            self.a.op(pick, &[to.into(), low.into(), high.into()]);
            let store = Code::EVEX_Vmovdqa32_zmmm512_k1z_zmm;
            self.a.op(store, &[columns_at(slot, vector + odd, 0), to.into()]);
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
