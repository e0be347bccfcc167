//! Quad-affine accesses of a full warp (fragment tiles): lane `4 j + m` has its element in line `j`
//! at place `m`, or in line `m` at place `j`; lines are any distance apart.
//!
//! Fragments of matrices are dealt to lanes so: what `wmma.load` and `wmma.store` become, and what
//! programs write that have no such instruction. The lines' distance is one number, so one
//! comparison checks an access, and each line is one move. Addresses that are computed for such
//! accesses only are not computed, unless an access fails its check: what they are made of is put
//! on the stack where it was first read, because it may be gone later.
//!
//! Deliberately absent: elements of bytes or of 64 bits whose lines are `m`.

use crate::analysis::use_weights::{mentioned, sources};
use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{A, C, D, Field, K1, SAVED_SCRATCH, Z0, Z1, Z2, Z3, field};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::access::{MemAccess, range_end, range_start};
use crate::memory::linear_sum::{LinearSum, LinearSums};
use crate::operands::{Value, move_code, store_code, xmm, ymm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::Reg;
use simt::ir::op::{Access, IntOp, IntType, Op, Special, Width};
use simt::ir::vector::{Source, VectorFunction, VectorInst};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Lanes whose elements are side by side in a line, if lines are `j`, and if they are `m`.
const SHORT: i32 = 4;
const LONG: i32 = 8;

/// What a register's lanes have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Formula {
    /// The lane's number.
    Lane,
    /// `base + (lane / 4) * major + (lane % 4) * minor`.
    Quad { base: LinearSum, major: LinearSum, minor: LinearSum },
}

/// An access to a quad tile.
#[derive(Clone, Debug)]
pub(crate) struct QuadTile {
    base: LinearSum,
    major: LinearSum,
    minor: LinearSum,
    /// Lines are `j`.
    short: bool,
    /// Where its addresses would be.
    address: Reg,
    /// Instructions that make its addresses.
    members: Vec<usize>,
}

/// The quad tiles of a block.
#[derive(Default)]
pub(crate) struct QuadTiles {
    block: usize,
    by_access: BTreeMap<usize, QuadTile>,
    /// Instructions that no other ones need.
    idle: BTreeSet<usize>,
    /// What they are made of.
    terms: LinearSums,
}

impl Formula {
    fn same(base: LinearSum) -> Self {
        Self::Quad { base, major: LinearSum::default(), minor: LinearSum::default() }
    }

    fn plus(&self, other: &Self) -> Option<Self> {
        let (Self::Quad { base, major, minor }, Self::Quad { base: b, major: j, minor: m }) =
            (self, other)
        else {
            return None;
        };
        let (base, major) = (base.clone().plus(b), major.clone().plus(j));
        Some(Self::Quad { base, major, minor: minor.clone().plus(m) })
    }

    fn times(&self, other: &Self) -> Option<Self> {
        let same = |f: &Self| match f {
            Self::Quad { base, major, minor }
                if major == minor && *major == LinearSum::default() =>
            {
                Some(base.clone())
            }
            _ => None,
        };
        let (factor, of) = match (same(self), same(other)) {
            (Some(factor), _) => (factor, other),
            (_, Some(factor)) => (factor, self),
            _ => return None,
        };
        let Self::Quad { base, major, minor } = of else { return None };
        let by = |sum: &LinearSum| sum.product(&factor);
        Some(Self::Quad { base: by(base)?, major: by(major)?, minor: by(minor)? })
    }
}

/// How often each register of a function is mentioned.
pub(crate) struct UseCounts {
    /// By register: sources that it is, and terminators that read or write it.
    reads: Vec<i32>,
    /// By register: instructions that write it.
    writes: Vec<i32>,
}

impl UseCounts {
    /// Counts.
    pub(crate) fn of(f: &VectorFunction) -> Self {
        let none = || vec![0; f.classes.len()];
        let (mut reads, mut writes) = (none(), none());
        for inst in f.prologue.iter().chain(f.blocks.iter().flat_map(|b| &b.insts)) {
            sources(inst).for_each(|r| reads[r.index()] += 1);
            inst.dst.iter().for_each(|d| writes[d.reg.index()] += 1);
        }
        for r in f.blocks.iter().flat_map(|b| mentioned(f, &b.term)) {
            reads[r.index()] += 1;
        }
        Self { reads, writes }
    }
}

/// What is known in a block, from its start to an instruction.
struct Known<'a> {
    f: &'a VectorFunction,
    formulas: HashMap<Reg, Formula>,
    /// Scalars that are the number of the first lane.
    first_lane: BTreeSet<Reg>,
    /// By register: the instructions that its affine value came from.
    made_by: HashMap<Reg, BTreeSet<usize>>,
    terms: LinearSums,
}

impl Known<'_> {
    fn formula(&mut self, source: Source) -> Option<Formula> {
        match source {
            Source::Affine(r, 1) if self.first_lane.contains(&r) => Some(Formula::Lane),
            Source::Vector(r) | Source::Scalar(r) if self.formulas.contains_key(&r) => {
                self.formulas.get(&r).cloned()
            }
            source => Some(Formula::same(self.terms.of(self.f, source, Width::W64)?)),
        }
    }

    /// The affine value of an instruction's result.
    fn result(&mut self, inst: &VectorInst) -> Option<Formula> {
        let mut source = |n: usize| self.formula(*inst.src.get(n)?);
        let small = |f: &Formula| {
            let Formula::Quad { base, major, minor } = f else { return false };
            let few =
                |sum: &LinearSum| sum.as_constant().is_some_and(|n| (0..=LONG.into()).contains(&n));
            few(base) && few(major) && few(minor)
        };
        match inst.op {
            Op::Mov(_) => source(0),
            Op::Extend { .. } => source(0).filter(small),
            Op::Int(IntOp::Shr, IntType::U32) => match (source(0)?, inst.src.get(1)?) {
                (Formula::Lane, Source::Imm(2)) => {
                    let (base, minor) = (LinearSum::default(), LinearSum::default());
                    Some(Formula::Quad { base, major: LinearSum::of(1), minor })
                }
                _ => None,
            },
            Op::Int(IntOp::And, IntType::U32 | IntType::S32) => {
                match (source(0)?, inst.src.get(1)?) {
                    (Formula::Lane, Source::Imm(3)) => {
                        let (base, major) = (LinearSum::default(), LinearSum::default());
                        Some(Formula::Quad { base, major, minor: LinearSum::of(1) })
                    }
                    _ => None,
                }
            }
            Op::Int(IntOp::Add, IntType::U64 | IntType::S64) => source(0)?.plus(&source(1)?),
            Op::Int(IntOp::MulLo, IntType::U64 | IntType::S64) => source(0)?.times(&source(1)?),
            _ => None,
        }
    }

    fn changed(&mut self, r: Reg) {
        self.formulas.remove(&r);
        self.first_lane.remove(&r);
        self.terms.changed(r);
    }
}

impl QuadTiles {
    /// What they are made of.
    pub(crate) fn terms(&self) -> &LinearSums {
        &self.terms
    }
}

impl Compiler<'_> {
    /// Finds the accesses to quad tiles of a block's unmasked version.
    pub(crate) fn find_quad_tiles(&mut self, block: usize) {
        self.quad_tiles = QuadTiles { block, ..QuadTiles::default() };
        let f = self.f;
        let insts = &f.blocks[block].insts;
        let is_access = |inst: &VectorInst| matches!(inst.op, Op::Load(_) | Op::Store(_));
        let scattered = |inst: &VectorInst| matches!(inst.src[..], [Source::Vector(_), ..]);
        if !insts.iter().any(|inst| is_access(inst) && scattered(inst)) {
            return;
        }
        let mut known = Known {
            f,
            formulas: HashMap::new(),
            first_lane: BTreeSet::new(),
            made_by: HashMap::new(),
            terms: LinearSums::default(),
        };
        for (index, inst) in insts.iter().enumerate() {
            let plain = inst.guard.is_none() && !inst.uniform;
            let result = if plain { known.result(inst) } else { None };
            known.terms.end(index, result.is_some());
            if is_access(inst)
                && let Source::Vector(address) = inst.src[0]
                && let Some(formula) = known.formulas.get(&address)
            {
                self.index = index;
                let members = known.made_by.get(&address);
                let members = members.into_iter().flatten().copied().collect();
                if let Some(found) = self.quad_tile(inst, formula, members) {
                    self.quad_tiles.by_access.insert(index, found);
                }
            }
            let mut made_by: BTreeSet<usize> =
                sources(inst).filter_map(|r| known.made_by.get(&r)).flatten().copied().collect();
            made_by.insert(index);
            for d in &inst.dst {
                known.changed(d.reg);
                known.made_by.remove(&d.reg);
            }
            let [d] = &inst.dst[..] else { continue };
            if let (Op::Special(Special::LaneId), true) = (&inst.op, inst.uniform) {
                known.first_lane.insert(d.reg);
            }
            if let Some(result) = result {
                known.formulas.insert(d.reg, result);
                known.made_by.insert(d.reg, made_by);
            }
        }
        self.quad_tiles.terms = known.terms;
        self.find_idle(block);
    }

    /// An access to memory whose addresses are an affine value, if there is code for it.
    fn quad_tile(
        &self,
        inst: &VectorInst,
        formula: &Formula,
        members: Vec<usize>,
    ) -> Option<QuadTile> {
        let mem = self.any_plan(inst).filter(|mem| !mem.local && mem.before == 0)?;
        let Formula::Quad { base, major, minor } = formula else { return None };
        let Access { bytes, count, width, signed, .. } = mem.access;
        let whole = u32::from(bytes) == width.bytes();
        let plain = |s: &Source| matches!(s, Source::Vector(_) | Source::Imm(_));
        let values = inst.src.get(2..).is_none_or(|values| values.iter().all(plain));
        let address = inst.src[0].registers().next()?;
        let kept = inst.dst.iter().all(|d| d.reg != address)
            && matches!(self.lanes_of(address), Value::Parts(_) | Value::Memory(..));
        if inst.guard.is_some() || inst.uniform || !kept || !values || !self.has_lane_results(inst)
        {
            return None;
        }
        let short = minor.as_constant() == Some(i64::from(mem.total))
            && matches!((width, count), (Width::W32, 1 | 2) | (Width::W64, 1))
            && whole;
        let element = major.as_constant() == Some(i64::from(bytes)) && count == 1;
        let long =
            element && width == Width::W32 && (bytes == 4 || bytes == 2 && !signed && !mem.write);
        let small = [base, major, minor].into_iter().all(LinearSum::is_small);
        let [base, major, minor] = [base, major, minor].map(LinearSum::clone);
        (small && (short || long)).then_some(QuadTile {
            base,
            major,
            minor,
            short,
            address,
            members,
        })
    }

    /// Finds the instructions whose results only accesses to quad tiles read, as addresses.
    fn find_idle(&mut self, block: usize) {
        let f = self.f;
        let insts = &f.blocks[block].insts;
        let found = &mut self.quad_tiles;
        let wanted: BTreeSet<usize> =
            found.by_access.values().flat_map(|r| &r.members).copied().collect();
        // By register: who else reads it.
        let mentions = &self.use_counts;
        let registers = wanted.iter().flat_map(|n| &insts[*n].dst).map(|d| d.reg);
        let mut others: HashMap<Reg, i32> =
            registers.map(|r| (r, mentions.reads[r.index()])).collect();
        for access in found.by_access.keys() {
            for r in insts[*access].src[0].registers() {
                others.entry(r).and_modify(|n| *n -= 1);
            }
        }
        for index in wanted.into_iter().rev() {
            let inst = &insts[index];
            let idle = !inst.uniform
                && inst
                    .dst
                    .iter()
                    .all(|d| others[&d.reg] == 0 && mentions.writes[d.reg.index()] == 1);
            if idle {
                found.idle.insert(index);
                for r in sources(inst) {
                    others.entry(r).and_modify(|n| *n -= 1);
                }
            }
        }
        // What only others are made of is not wanted.
        let sums = found.by_access.values().flat_map(|r| [&r.base, &r.major, &r.minor]);
        found.terms.retain(sums);
    }

    /// Keeps what the instruction under construction reads, if addresses are made of it.
    pub(crate) fn keep_linear_sums(&mut self) {
        if self.masked || self.quad_tiles.block != self.block {
            return;
        }
        for (r, slot) in self.quad_tiles.terms.kept_at(self.index).to_vec() {
            self.keep_term(r, slot);
        }
    }

    /// True if the result of the instruction under construction is dead.
    pub(crate) fn is_idle(&self) -> bool {
        let found = &self.quad_tiles;
        !self.masked && found.block == self.block && found.idle.contains(&self.index)
    }

    /// Makes code for an access of a full warp to a quad tile; false if it is none.
    pub(crate) fn access_rectangle(&mut self, inst: &VectorInst, mem: MemAccess) -> bool {
        if self.masked || self.isa != SimdIsa::Avx512 || self.quad_tiles.block != self.block {
            return false;
        }
        let Some(quad_tile) = self.quad_tiles.by_access.get(&self.index).cloned() else {
            return false;
        };
        let (slow, back) = (self.a.label(), self.a.label());
        let failed = quad_tile.clone();
        self.slow_path_to(slow, back, move |c| c.quad_tile_interpreted(&failed));
        let distance = if quad_tile.short { &quad_tile.major } else { &quad_tile.minor };
        let MemAccess { total, offset, .. } = mem;
        let base = quad_tile.base.clone().plus(&LinearSum::of(offset.into()));
        self.sum_in(&base, C);
        self.sum_in(distance, D);
        let (lines, line) = match quad_tile.short {
            true => (LONG, SHORT * total),
            false => (SHORT, LONG * total),
        };
        self.check_rectangle(mem, lines, line, slow);
        self.count(mem, 32 * total);
        match (quad_tile.short, mem.write) {
            (true, false) => self.load_short(inst, mem, line),
            (true, true) => self.store_short(inst, mem, line),
            (false, false) => self.load_long(inst, mem),
            (false, true) => self.store_long(inst),
        }
        self.a.bind(back);
        true
    }

    /// An access failed its check: its addresses are made, if they were not, for its interpreter handlers.
    pub(crate) fn quad_tile_interpreted(&mut self, quad_tile: &QuadTile) {
        let width = Width::W64;
        let address = self.lanes_of(quad_tile.address);
        for part in 0..4u64 {
            let to = Z2;
            self.sum_in(&quad_tile.base, C);
            self.a.op(Code::EVEX_Vpbroadcastq_zmm_k1z_r64, &[to.into(), C.into()]);
            let lanes = 8 * part..8 * (part + 1);
            let numbers: [Vec<u8>; 2] = [
                lanes.clone().flat_map(|lane| (lane / 4).to_le_bytes()).collect(),
                lanes.flat_map(|lane| (lane % 4).to_le_bytes()).collect(),
            ];
            for (sum, numbers) in [&quad_tile.major, &quad_tile.minor].into_iter().zip(numbers) {
                self.sum_in(sum, C);
                self.a.op(Code::EVEX_Vpbroadcastq_zmm_k1z_r64, &[Z0.into(), C.into()]);
                let numbers = self.a.constant(&numbers);
                let multiply = Code::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64;
                self.a.op(multiply, &[Z0.into(), Z0.into(), numbers.into()]);
                let add = Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
                self.a.op(add, &[to.into(), to.into(), Z0.into()]);
            }
            let code = match self.part(address, part as usize) {
                X::R(_) => move_code(width),
                _ => store_code(width),
            };
            let place = self.part(address, part as usize);
            self.a.op(code, &[place, to.into()]);
        }
        self.call_interpreter(self.block, self.index);
    }

    /// Makes a number in RCX, that of the first of the lines, a pointer, if all of them may be
    /// accessed; their distance in RDX stays.
    fn check_rectangle(&mut self, mem: MemAccess, lines: i32, line: i32, slow: Label) {
        let kept = at(Register::RSP, SAVED_SCRATCH);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), C.into()]);
        self.a.op(Code::Or_r64_rm64, &[A.into(), D.into()]);
        self.a.op(Code::Test_rm8_imm8, &[Register::AL.into(), X::I(mem.total - 1)]);
        self.a.jump(Code::Jne_rel32_64, slow);
        // Upwards, and not around the end of the address space.
        self.a.op(Code::Mov_r64_rm64, &[A.into(), D.into()]);
        self.a.op(Code::Shr_rm64_imm8, &[A.into(), X::I(40)]);
        self.a.jump(Code::Jne_rel32_64, slow);
        self.a.op(Code::Imul_r64_rm64_imm32, &[A.into(), D.into(), X::I(lines - 1)]);
        self.a.op(Code::Add_rm64_imm32, &[A.into(), X::I(line)]);
        self.a.op(Code::Add_r64_rm64, &[A.into(), C.into()]);
        self.a.jump(Code::Jb_rel32_64, slow);
        if mem.shared {
            self.a.op(Code::Cmp_r64_rm64, &[A.into(), field(Field::SharedBytes).into()]);
            self.a.jump(Code::Ja_rel32_64, slow);
            self.a.op(Code::Add_r64_rm64, &[C.into(), field(Field::Shared).into()]);
            return;
        }
        self.a.op(Code::Mov_rm64_r64, &[kept.into(), D.into()]);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Ranges).into()]);
        self.a.op(Code::Cmp_r64_rm64, &[A.into(), range_end(mem.site).into()]);
        self.a.jump(Code::Ja_rel32_64, slow);
        self.a.op(Code::Cmp_r64_rm64, &[C.into(), range_start(mem.site).into()]);
        self.a.jump(Code::Jb_rel32_64, slow);
        self.check_writable(mem, slow);
        self.a.op(Code::Mov_r64_rm64, &[D.into(), kept.into()]);
    }

    /// The line after line from RCX on, RDX apart; changes RAX and RCX.
    fn line(&mut self, n: usize) -> MemoryOperand {
        if n == 4 {
            self.a.op(Code::Lea_r64_m, &[C.into(), indexed(C, D, 4).into()]);
        }
        match n % 4 {
            0 => at(C, 0),
            1 => indexed(C, D, 1),
            2 => indexed(C, D, 2),
            _ => {
                if n == 3 {
                    self.a.op(Code::Lea_r64_m, &[A.into(), indexed(D, D, 2).into()]);
                }
                indexed(C, A, 1)
            }
        }
    }

    /// Loads a number of lines of 16 or 32 bytes into a vector register.
    fn load_lines(&mut self, first: usize, line: i32, to: Register) {
        for n in 0..(64 / line) as usize {
            let from = self.line(first + n).into();
            match (line, n as i32) {
                (16, 0) => self.a.op(Code::EVEX_Vmovdqu32_xmm_k1z_xmmm128, &[xmm(to).into(), from]),
                (16, n) => {
                    let code = Code::EVEX_Vinserti32x4_zmm_k1z_zmm_xmmm128_imm8;
                    self.a.op(code, &[to.into(), to.into(), from, X::I(n)])
                }
                (_, 0) => self.a.op(Code::EVEX_Vmovdqu32_ymm_k1z_ymmm256, &[ymm(to).into(), from]),
                (_, n) => {
                    let code = Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8;
                    self.a.op(code, &[to.into(), to.into(), from, X::I(n)])
                }
            };
        }
    }

    fn store_lines(&mut self, first: usize, line: i32, from: Register) {
        for n in 0..(64 / line) as usize {
            let to = self.line(first + n).into();
            match (line, n as i32) {
                (16, 0) => self.a.op(Code::EVEX_Vmovdqu32_xmmm128_k1z_xmm, &[to, xmm(from).into()]),
                (16, n) => {
                    let code = Code::EVEX_Vextracti32x4_xmmm128_k1z_zmm_imm8;
                    self.a.op(code, &[to, from.into(), X::I(n)])
                }
                (_, 0) => self.a.op(Code::EVEX_Vmovdqu32_ymmm256_k1z_ymm, &[to, ymm(from).into()]),
                (_, n) => {
                    let code = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
                    self.a.op(code, &[to, from.into(), X::I(n)])
                }
            };
        }
    }

    /// Lines of four lanes.
    fn load_short(&mut self, inst: &VectorInst, mem: MemAccess, line: i32) {
        let vector_lines = (64 / line) as usize;
        if mem.access.count == 1 {
            let place = self.dest(inst, &inst.dst[0]);
            for part in 0..LONG as usize / vector_lines {
                self.load_lines(vector_lines * part, line, Z0);
                self.put_register(&place, part, Z0);
            }
            return;
        }
        for part in 0..2 {
            self.load_lines(4 * part, line, Z0);
            self.load_lines(4 * part + 2, line, Z1);
            for (n, to) in [Z2, Z3].into_iter().enumerate() {
                let place = self.dest(inst, &inst.dst[n]);
                self.load_picks(Width::W32, to, (0..16).map(|lane| 2 * lane + n));
                let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
                self.a.op(pick, &[to.into(), Z0.into(), Z1.into()]);
                self.put_register(&place, part, to);
            }
        }
    }

    fn store_short(&mut self, inst: &VectorInst, mem: MemAccess, line: i32) {
        let vector_lines = (64 / line) as usize;
        let width = mem.access.width;
        let first = self.value(inst.src[2], width);
        if mem.access.count == 1 {
            for part in 0..LONG as usize / vector_lines {
                let from = self.part_in(first, part, width, Z0);
                self.store_lines(vector_lines * part, line, from);
            }
            return;
        }
        let second = self.value(inst.src[3], width);
        for part in 0..2 {
            let pair = [(first, Z0), (second, Z1)].map(|(v, z)| self.part_in(v, part, width, z));
            for (n, to) in [Z2, Z3].into_iter().enumerate() {
                let picks = (0..16).map(|e| 8 * n + e / 2 + 16 * (e % 2));
                self.load_picks(Width::W32, to, picks);
                let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
                self.a.op(pick, &[to.into(), pair[0].into(), pair[1].into()]);
                self.store_lines(4 * part + 2 * n, line, to);
            }
        }
    }

    /// Lines of eight lanes.
    fn load_long(&mut self, inst: &VectorInst, mem: MemAccess) {
        let place = self.dest(inst, &inst.dst[0]);
        if mem.access.bytes == 4 {
            self.load_lines(0, 32, Z0);
            self.load_lines(2, 32, Z1);
            for part in 0..2 {
                let picks = (0..16).map(|lane| 8 * (lane % 4) + 4 * part + lane / 4);
                self.load_picks(Width::W32, Z2, picks);
                let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
                self.a.op(pick, &[Z2.into(), Z0.into(), Z1.into()]);
                self.put_register(&place, part, Z2);
            }
            return;
        }
        self.load_lines(0, 16, Z0);
        // Every other element of 16 bits is zero.
        self.a.load_constant(A, 0x5555_5555);
        self.a.op(Code::VEX_Kmovd_kr_r32, &[K1.into(), Register::EAX.into()]);
        for part in 0..2 {
            let picks = (0..32).map(|n| 8 * (n / 2 % 4) + 4 * part + n / 8);
            self.load_picks(Width::W16, Z1, picks);
            let pick = Code::EVEX_Vpermw_zmm_k1z_zmm_zmmm512;
            let made = self.a.op(pick, &[Z2.into(), Z1.into(), Z0.into()]);
            made.set_op_mask(K1);
            made.set_zeroing_masking(true);
            self.put_register(&place, part, Z2);
        }
    }

    fn store_long(&mut self, inst: &VectorInst) {
        let value = self.value(inst.src[2], Width::W32);
        let parts = [(0, Z0), (1, Z1)].map(|(part, z)| self.part_in(value, part, Width::W32, z));
        for (n, to) in [Z2, Z3].into_iter().enumerate() {
            let picks = (0..16).map(|e| 4 * (e % 8) + 2 * n + e / 8);
            self.load_picks(Width::W32, to, picks);
            let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
            self.a.op(pick, &[to.into(), parts[0].into(), parts[1].into()]);
            self.store_lines(2 * n, 32, to);
        }
    }
}

/// Memory at the sum of two registers, one of them times a scale.
fn indexed(base: Register, index: Register, scale: u32) -> MemoryOperand {
    MemoryOperand::with_base_index_scale(base, index, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(slot: usize) -> Formula {
        Formula::same(LinearSum { constant: 0, terms: vec![(slot, 1)] })
    }

    #[test]
    fn formulas_are_linear() {
        let zero = LinearSum::default;
        let major = Formula::Quad { base: zero(), major: LinearSum::of(1), minor: zero() };
        let scaled =
            major.times(&term(1)).expect("a product").times(&Formula::same(LinearSum::of(2)));
        let sum = scaled.expect("a product").plus(&term(2)).expect("a sum");
        let Formula::Quad { base, major: lines, minor } = &sum else { panic!("no quad") };
        assert_eq!(base.terms, [(2, 1)]);
        assert_eq!(lines.terms, [(1, 2)]);
        assert_eq!(*minor, zero());
        // Products of two values are none.
        assert!(term(1).times(&term(2)).is_none() && Formula::Lane.plus(&term(1)).is_none());
    }
}
