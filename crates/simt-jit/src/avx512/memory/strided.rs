//! Uniform, unit-stride, interleaved and strided accesses of a full warp, whose addresses are
//! affine, or affine in each half warp: no gather is needed.
//!
//! An access is one element for all, consecutive elements, groups of two or four elements one
//! behind the other, or elements at a constant distance, near (`permuted`) or far. The bytes that are touched are those of
//! the lanes and no others, but for the gaps between lanes.

use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{C, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::memory::access::{AddressForm, MemAccess, span_code};
use crate::memory::check_coalescing::based;
use crate::operands::{move_code, xmm, ymm};
use crate::regalloc::allocate::{loads_for_all, parts};
use crate::scalar::integer::mov;
use iced_x86::{Code, Register};
use simt::ir::op::{Access, Space, Width};
use simt::ir::vector::{Source, VectorInst};

impl Compiler<'_> {
    /// The form of an access that all lanes of a full warp make.
    pub(crate) fn form(&self, inst: &VectorInst, mem: MemAccess) -> Option<AddressForm> {
        let MemAccess { access, write, total, wide, shared, .. } = mem;
        if inst.uniform {
            return self.has_uniform_form(inst, mem).then_some(AddressForm::One);
        }
        if inst.guard.is_some() || !self.has_lane_results(inst) {
            return None;
        }
        let width = access.width;
        let whole =
            u32::from(access.bytes) == width.bytes() && matches!(width, Width::W32 | Width::W64);
        match inst.src[0] {
            Source::Affine(_, stride) if access.count == 1 && stride == i64::from(total) => {
                let has = span_code(access, write).is_some() && (write || inst.dst.len() == 1);
                has.then_some(AddressForm::Span)
            }
            // Where the space's addresses are as wide as they are elsewhere.
            _ if !whole || wide == shared => None,
            Source::Affine(_, stride) if stride == i64::from(total) => {
                matches!(access.count, 2 | 4).then_some(AddressForm::Interleaved)
            }
            Source::Affine(_, stride) => {
                let stride = i32::try_from(stride).ok().filter(|s| s % total == 0 && *s != 0)?;
                let alone = access.count == 1 && width == Width::W32;
                let permuted = self.permutation(mem).map(|_| AddressForm::Spaced(stride));
                permuted.or(alone.then_some(AddressForm::Strided(stride)))
            }
            Source::HalfAffine(_, _, stride) if access.count == 1 => {
                let one = stride == 0 && !write;
                (one || stride == i64::from(total)).then_some(AddressForm::HalfAffine { one })
            }
            _ => None,
        }
    }

    /// True if there is code for an access of all lanes to one address.
    fn has_uniform_form(&self, inst: &VectorInst, mem: MemAccess) -> bool {
        let MemAccess { access, write, .. } = mem;
        let for_all = !write && loads_for_all(self.f, inst);
        let narrow = |w: Option<Width>| match w {
            Some(Width::W32 | Width::W64) => true,
            Some(Width::W16) => !for_all,
            _ => false,
        };
        let results = inst.dst.iter().all(|d| narrow(self.f.classes[d.reg.index()].width()));
        let placed =
            for_all || inst.dst.iter().all(|d| self.layout.place(d.reg.index()).scalar.is_some());
        inst.guard.is_none() && access.space != Space::Generic && results && placed
    }

    /// Makes an access of a form.
    pub(crate) fn known(&mut self, inst: &VectorInst, mem: MemAccess, form: AddressForm) {
        let is_counted = self.count_block(mem);
        let (mem, bases) = based(inst.src[0], mem);
        if let Some(group) = self.grouped() {
            for half in 0..bases.len() {
                let pointer = self.group_pointer(group, half);
                let pointer = self.out_of_the_way(inst, pointer);
                self.transfer(inst, mem, form, half, (pointer, mem.offset));
            }
            self.leave_group(group);
            return;
        }
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        let (low, high) = form.reach(mem);
        for (half, base) in bases.into_iter().enumerate() {
            let to = self.checked(inst, base, mem, (low, high), slow);
            self.transfer(inst, mem, form, half, to);
        }
        // What the interpreter does it counts itself.
        if !is_counted {
            self.count(mem, form.bytes(mem));
        }
        self.a.bind(back);
    }

    /// A pointer that the first result of a load does not overwrite, which the next would miss.
    fn out_of_the_way(&mut self, inst: &VectorInst, pointer: Register) -> Register {
        let written = inst.dst.iter().filter_map(|d| self.assignment.scalars[d.reg.index()]);
        if written.into_iter().all(|r| r.full_register() != pointer) {
            return pointer;
        }
        self.a.op(mov(true), &[C.into(), pointer.into()]);
        C
    }

    /// Lane 0's element of an access of these bytes, which may be made: a register and a constant.
    fn checked(
        &mut self,
        inst: &VectorInst,
        base: Source,
        mem: MemAccess,
        (low, high): (i64, i64),
        slow: Label,
    ) -> (Register, i32) {
        let more = low + i64::from(mem.offset);
        let span = (high - low) as i32;
        let total = i64::from(mem.total);
        if more % total == 0
            && !self.ablation.bounds
            && let Ok(more) = i32::try_from(more)
            && let Some(register) = self.own_pointer(base, mem)
        {
            self.check_global((register, more), mem, span, slow);
            return (self.out_of_the_way(inst, register), mem.offset);
        }
        self.number_in(base, mem, C);
        self.add_to_address(mem, more);
        self.check(mem, span, slow);
        (C, -low as i32)
    }

    /// Moves what is accessed; lane 0's is at a register and a constant. For one half, if the
    /// form has two. Leaves RCX alone, and RDX.
    pub(crate) fn transfer(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        form: AddressForm,
        half: usize,
        to: (Register, i32),
    ) {
        let access = mem.access;
        match form {
            AddressForm::One => self.one_address(inst, mem, to),
            AddressForm::Span => {
                let count = parts(access.width);
                self.consecutive(inst, mem, 0..count, span_code(access, mem.write), to);
            }
            AddressForm::HalfAffine { one: true } => {
                let per_half = parts(access.width) / 2;
                let code = match access.width {
                    Width::W64 => Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64,
                    _ => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
                };
                let place = self.dest(inst, &inst.dst[0]);
                for part in half * per_half..(half + 1) * per_half {
                    self.put(&place, part, code, &[at(to.0, to.1).into()]);
                }
            }
            AddressForm::HalfAffine { one: false } => {
                let per_half = parts(access.width) / 2;
                let these = half * per_half..(half + 1) * per_half;
                self.consecutive(inst, mem, these, span_code(access, mem.write), to);
            }
            AddressForm::Interleaved if mem.write => self.interleave(inst, access, to),
            AddressForm::Interleaved => self.separate(inst, access, to),
            AddressForm::Spaced(_) => {
                if let Some(permutation) = self.permutation(mem) {
                    self.move_permuted(inst, mem, &permutation, to);
                }
            }
            AddressForm::Strided(stride) if mem.write => self.store_strided(inst, stride, to),
            AddressForm::Strided(stride) => self.load_strided(inst, stride, to),
        }
    }

    /// Parts of consecutive elements, from the first of these parts on.
    fn consecutive(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        these: std::ops::Range<usize>,
        code: Option<Code>,
        (base, offset): (Register, i32),
    ) {
        let Some(code) = code else { return };
        let width = mem.access.width;
        let step = 64 / width.bytes() as i32 * mem.total;
        let place = if mem.write { None } else { Some(self.dest(inst, &inst.dst[0])) };
        for (n, part) in these.enumerate() {
            let memory = at(base, offset + step * n as i32);
            match &place {
                Some(place) => self.put(place, part, code, &[memory.into()]),
                None => {
                    let value = self.value(inst.src[2], width);
                    let register = self.part_in(value, part, width, Z0);
                    self.a.op(code, &[memory.into(), register.into()]);
                }
            }
        }
    }

    /// Loads lanes of two or four elements: results are every second or fourth element.
    fn separate(&mut self, inst: &VectorInst, access: Access, (base, offset): (Register, i32)) {
        let width = access.width;
        let lanes = 64 / width.bytes() as usize;
        let count = usize::from(access.count);
        for part in 0..parts(width) {
            let piece = |n: usize| at(base, offset + 64 * (part * count + n) as i32);
            if count == 2 {
                for element in 0..2 {
                    self.a.op(move_code(width), &[Z0.into(), piece(0).into()]);
                    let picks = (0..lanes).map(|lane| 2 * lane + element);
                    let place = self.dest(inst, &inst.dst[element]);
                    let target = self.target(&place, part);
                    let to = target.unwrap_or(Z1);
                    self.pick(width, to, Z0, piece(1), picks);
                    if target.is_none() {
                        self.put(&place, part, move_code(width), &[to.into()]);
                    }
                }
                continue;
            }
            // Two elements at a time: of the first half of the part's lanes in Z1, one behind the
            // other, of the second in Z2.
            for pair in [0, 2] {
                let picks = |n: usize| {
                    let element = pair + n / (lanes / 2);
                    4 * (n % (lanes / 2)) + element
                };
                for (first, to) in [(0, Z1), (2, Z2)] {
                    self.a.op(move_code(width), &[Z0.into(), piece(first).into()]);
                    self.pick(width, to, Z0, piece(first + 1), (0..lanes).map(picks));
                }
                for (half, element) in [(0x44, pair), (0xee, pair + 1)] {
                    let place = self.dest(inst, &inst.dst[element]);
                    let code = Code::EVEX_Vshufi64x2_zmm_k1z_zmm_zmmm512b64_imm8;
                    let which = X::I(half as u8 as i8 as i32);
                    self.put(&place, part, code, &[Z1.into(), Z2.into(), which]);
                }
            }
        }
    }

    /// Elements by number of the 128 bytes of a register and memory, into `to`.
    fn pick(
        &mut self,
        width: Width,
        to: Register,
        first: Register,
        second: iced_x86::MemoryOperand,
        picks: impl Iterator<Item = usize>,
    ) {
        let code = match width {
            Width::W64 => Code::EVEX_Vpermi2q_zmm_k1z_zmm_zmmm512b64,
            _ => Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32,
        };
        self.load_picks(width, to, picks);
        self.a.op(code, &[to.into(), first.into(), second.into()]);
    }

    /// Numbers of elements, for an instruction that picks by them.
    pub(crate) fn load_picks(
        &mut self,
        width: Width,
        to: Register,
        picks: impl Iterator<Item = usize>,
    ) {
        let bytes = width.bytes() as usize;
        let picks: Vec<u8> =
            picks.flat_map(|n| (n as u64).to_le_bytes().into_iter().take(bytes)).collect();
        let picks = self.a.constant(&picks);
        self.a.op(move_code(width), &[to.into(), picks.into()]);
    }

    /// Stores lanes of two or four elements.
    fn interleave(&mut self, inst: &VectorInst, access: Access, (base, offset): (Register, i32)) {
        let width = access.width;
        let lanes = 64 / width.bytes() as usize;
        let count = usize::from(access.count);
        let code = match width {
            Width::W64 => Code::EVEX_Vpermi2q_zmm_k1z_zmm_zmmm512b64,
            _ => Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32,
        };
        let shuffle = Code::EVEX_Vshufi64x2_zmm_k1z_zmm_zmmm512b64_imm8;
        for part in 0..parts(width) {
            let piece = |n: usize| at(base, offset + 64 * (part * count + n) as i32);
            let element = |c: &mut Self, n: usize, scratch: Register| {
                let value = c.value(inst.src[2 + n], width);
                c.part_in(value, part, width, scratch)
            };
            if count == 2 {
                for n in 0..2 {
                    let (a, b) = (element(self, 0, Z0), element(self, 1, Z1));
                    let picks = (0..lanes).map(|k| lanes / 2 * n + k / 2 + lanes * (k % 2));
                    self.load_picks(width, Z2, picks);
                    self.a.op(code, &[Z2.into(), a.into(), b.into()]);
                    self.a.op(move_out(width), &[piece(n).into(), Z2.into()]);
                }
                continue;
            }
            for half in 0..2 {
                // Half of the part's lanes: two elements in Z2, two in Z3.
                for (pair, to) in [(0, Z2), (2, Z3)] {
                    let (a, b) = (element(self, pair, Z0), element(self, pair + 1, Z1));
                    let which = if half == 0 { 0x44 } else { 0xeeu8 as i8 as i32 };
                    self.a.op(shuffle, &[to.into(), a.into(), b.into(), X::I(which)]);
                }
                for n in 0..2 {
                    let picks = (0..lanes).map(|k| {
                        let (lane, element) = (lanes / 4 * n + k / 4, k % 4);
                        lane + lanes / 2 * (element % 2) + lanes * (element / 2)
                    });
                    self.load_picks(width, Z0, picks);
                    self.a.op(code, &[Z0.into(), Z2.into(), Z3.into()]);
                    self.a.op(move_out(width), &[piece(2 * half + n).into(), Z0.into()]);
                }
            }
        }
    }

    /// Loads elements of 32 bits that lie a constant apart.
    fn load_strided(&mut self, inst: &VectorInst, stride: i32, (base, offset): (Register, i32)) {
        let place = self.dest(inst, &inst.dst[0]);
        let insert = Code::EVEX_Vpinsrd_xmm_xmm_rm32_imm8;
        for part in 0..2 {
            let lane = |n: i32| at(base, offset + (16 * part + n) * stride);
            let slice = |c: &mut Self, number: i32, to: Register| {
                let to = xmm(to);
                let first = lane(4 * number);
                c.a.op(Code::EVEX_Vmovd_xmm_rm32, &[to.into(), first.into()]);
                for n in 1..4 {
                    let from = lane(4 * number + n);
                    c.a.op(insert, &[to.into(), to.into(), from.into(), X::I(n)]);
                }
            };
            let join = Code::EVEX_Vinserti32x4_ymm_k1z_ymm_xmmm128_imm8;
            for (number, to, other) in [(0, Z1, Z2), (2, Z3, Z2)] {
                slice(self, number, to);
                slice(self, number + 1, other);
                self.a.op(join, &[ymm(to).into(), ymm(to).into(), xmm(other).into(), X::I(1)]);
            }
            let join = Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8;
            self.put(&place, part as usize, join, &[Z1.into(), ymm(Z3).into(), X::I(1)]);
        }
    }

    /// Stores elements of 32 bits a constant apart, the first lane first.
    fn store_strided(&mut self, inst: &VectorInst, stride: i32, (base, offset): (Register, i32)) {
        let value = self.value(inst.src[2], Width::W32);
        for part in 0..2 {
            let register = self.part_in(value, part, Width::W32, Z0);
            for slice in 0..4 {
                let from = if slice == 0 {
                    register
                } else {
                    let code = Code::EVEX_Vextracti32x4_xmmm128_k1z_zmm_imm8;
                    self.a.op(code, &[xmm(Z1).into(), register.into(), X::I(slice)]);
                    Z1
                };
                for n in 0..4 {
                    let lane = 16 * part as i32 + 4 * slice + n;
                    let to = at(base, offset + lane * stride);
                    let (code, operands): (_, &[X]) = if n == 0 {
                        (Code::EVEX_Vmovd_rm32_xmm, &[to.into(), xmm(from).into()])
                    } else {
                        let code = Code::EVEX_Vpextrd_rm32_xmm_imm8;
                        (code, &[to.into(), xmm(from).into(), X::I(n)])
                    };
                    self.a.op(code, operands);
                }
            }
        }
    }

    /// An access of all lanes to one address.
    fn one_address(&mut self, inst: &VectorInst, mem: MemAccess, (base, offset): (Register, i32)) {
        let access = mem.access;
        for element in 0..usize::from(access.count) {
            let memory = at(base, offset + element as i32 * i32::from(access.bytes));
            if mem.write {
                self.store_scalar(inst.src[2 + element], access, memory);
            } else if loads_for_all(self.f, inst) {
                self.load_for_all(inst, element, access, memory);
            } else {
                self.load_one(inst, element, access, memory);
            }
        }
    }
}

/// The instruction that stores a part.
fn move_out(width: Width) -> Code {
    match width {
        Width::W64 => Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
        _ => Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm,
    }
}
