//! Memory operands: descriptors of loads and stores, their bounds checks, and contiguous accesses.
//!
//! A global access is inside of the range that its site found last; otherwise the interpreter finds
//! another range and reports a fault. One comparison checks a warp whose lanes access adjacent
//! elements; others are compared lane by lane.

use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{A, C, D, Field, K1, MASK, SAVED_SCRATCH, Z0, Z1, Z2, field};
use crate::function::Compiler;
use crate::memory::per_lane_access::is_narrow;
use crate::operands::{Value, low_byte, move_code, store_code};
use crate::regalloc::allocate::{Lanes, parts};
use crate::scalar::integer::mov;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{Access, Op, Space, Width};
use simt::ir::vector::{Source, VectorInst};
use simt::kernel::Range;
use simt::kernel::WARP_LANES;
use simt::launch_shape::HALF_LANES;
use std::mem::offset_of;

/// How the addresses of a full warp follow from one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressForm {
    /// One address.
    One,
    /// Consecutive elements.
    Span,
    /// Consecutive elements for each half, or one element.
    HalfAffine {
        /// One element.
        one: bool,
    },
    /// Two or four elements a lane, lane behind lane.
    Interleaved,
    /// One element of 32 bits a lane, at a stride in bytes.
    Strided(i32),
    /// Elements of a lane one behind the other, at a stride in bytes from the next lane's: by
    /// permutations.
    Spaced(i32),
}

impl AddressForm {
    /// The first byte accessed and the one behind the last, from the address of lane 0 or 16.
    pub(crate) fn reach(self, mem: MemAccess) -> (i64, i64) {
        let total = i64::from(mem.total);
        match self {
            Self::One | Self::HalfAffine { one: true } => (0, total),
            Self::Span | Self::Interleaved => (0, WARP_LANES as i64 * total),
            Self::HalfAffine { one: false } => (0, HALF_LANES as i64 * total),
            Self::Strided(stride) | Self::Spaced(stride) => {
                let last = (WARP_LANES as i64 - 1) * i64::from(stride);
                (last.min(0), last.max(0) + total)
            }
        }
    }

    /// Bytes for the counters.
    pub(crate) fn bytes(self, mem: MemAccess) -> i32 {
        if self == Self::One { mem.total } else { WARP_LANES as i32 * mem.total }
    }
}

/// An access as the code below sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemAccess {
    pub(crate) access: Access,
    pub(crate) write: bool,
    pub(crate) shared: bool,
    /// In each lane's own memory.
    pub(crate) local: bool,
    /// Bytes a lane.
    pub(crate) total: i32,
    /// Added to the address.
    pub(crate) offset: i32,
    /// Added to every lane's address first: a negative offset, which would wrap.
    pub(crate) before: i32,
    /// Addresses have 64 bits.
    pub(crate) wide: bool,
    /// Number of the remembered range.
    pub(crate) site: usize,
}

/// The addresses of an access a lane.
#[derive(Clone, Copy)]
pub(crate) enum Address {
    /// In a register.
    Lanes(Value),
    /// Lane 0's and a stride.
    Formula(Source),
    /// In a register, each in its lane's own memory.
    Local(Value),
}

impl Compiler<'_> {
    /// Makes code for a load or store; false if there is none.
    pub(crate) fn memory(&mut self, inst: &VectorInst) -> bool {
        let Some(mem) = self.any_plan(inst) else { return false };
        if mem.local {
            return self.own_memory(inst, mem);
        }
        if (inst.uniform || !self.masked)
            && let Some(form) = self.form(inst, mem)
        {
            self.known(inst, mem, form);
            return true;
        }
        !inst.uniform && (self.store_results(inst, mem) || self.varying(inst, mem))
    }

    /// An access as code sees it, if lanes that name one place mean one place; `None` if there is
    /// no code for it.
    pub(crate) fn mem(&self, inst: &VectorInst) -> Option<MemAccess> {
        self.any_plan(inst).filter(|mem| !mem.local)
    }

    pub(crate) fn any_plan(&self, inst: &VectorInst) -> Option<MemAccess> {
        let (access, write) = match inst.op {
            Op::Load(access) => (access, false),
            Op::Store(access) => (access, true),
            _ => return None,
        };
        let (address, Source::Imm(offset)) = (inst.src.first()?, inst.src.get(1)?) else {
            return None;
        };
        let offset = i32::try_from(*offset as i64).ok()?;
        let shared = match access.space {
            Space::Global | Space::Generic | Space::Local => false,
            Space::Shared => true,
            Space::Param => return None,
        };
        let local = access.space == Space::Local;
        let wide = match address {
            Source::Vector(r)
            | Source::Scalar(r)
            | Source::Affine(r, _)
            | Source::HalfAffine(r, ..) => self.f.classes[r.index()].width() == Some(Width::W64),
            _ => true,
        };
        let (first, count) = self.handler_range(self.block, self.index);
        if count == 0 || access.bytes > 8 {
            return None;
        }
        let total = i32::from(access.bytes) * i32::from(access.count);
        let site = self.layout.site(first, count) % simt::kernel::RECENT_RANGES;
        Some(MemAccess { access, write, shared, local, total, offset, before: 0, wide, site })
    }

    fn varying(&mut self, inst: &VectorInst, mem: MemAccess) -> bool {
        // A number has the width of its space's addresses.
        let wide = mem.wide && !(mem.shared && matches!(inst.src[0], Source::Imm(_)));
        let mem = MemAccess { wide, ..mem };
        let MemAccess { access, offset, total, .. } = mem;
        let narrow = is_narrow(access);
        let whole = u32::from(access.bytes) == access.width.bytes()
            && matches!(access.width, Width::W32 | Width::W64);
        if let Source::Affine(_, stride) = inst.src[0]
            && stride == i64::from(total)
            && access.count == 1
            && self.span_of_some(inst, mem)
        {
            return true;
        }
        let plain = (whole || narrow)
            && !matches!(inst.src[0], Source::Mask(_))
            && mem.wide != mem.shared
            && offset % total == 0
            && !(mem.shared && offset < 0 && access.width != Width::W32 && !narrow);
        // Addresses must stay until the last element is there.
        let kept = access.count == 1
            || inst.src[0].registers().all(|r| inst.dst.iter().all(|d| d.reg != r));
        if !plain || !kept || !self.has_lane_results(inst) {
            return false;
        }
        let address_width = if mem.wide { Width::W64 } else { Width::W32 };
        let address = self.address(inst.src[0], address_width);
        let back = self.a.label();
        let whole_warp = !self.masked && inst.guard.is_none();
        let lanes = match address {
            Address::Lanes(lanes @ (Value::Parts(_) | Value::Memory(..))) if whole_warp => {
                Some(lanes)
            }
            _ => None,
        };
        let apart = self.a.label();
        let guessed = lanes.is_some_and(|lanes| {
            self.by_pattern(inst, mem, lanes, (apart, back))
                || self.contiguous(inst, mem, lanes, (apart, back))
        });
        if guessed {
            self.scattered_path(apart, back);
        } else {
            self.lane_by_lane(inst, mem, address, back);
        }
        self.a.bind(back);
        true
    }

    /// A slow path for the access under construction, of a full warp: it gathers or scatters.
    pub(crate) fn scattered_path(&mut self, apart: Label, back: Label) {
        let (block, index) = (self.block, self.index);
        self.slow_path_to(apart, back, move |c| {
            let f = c.f;
            c.apart(&f.blocks[block].insts[index], back);
        });
    }

    /// The cold part of an access of a full warp that is not contiguous.
    pub(crate) fn apart(&mut self, inst: &VectorInst, back: Label) {
        let (access, write) = match inst.op {
            Op::Load(access) => (access, false),
            Op::Store(access) => (access, true),
            _ => return,
        };
        let Source::Imm(offset) = inst.src[1] else { return };
        let shared = access.space == Space::Shared;
        let total = i32::from(access.bytes) * i32::from(access.count);
        let (first, count) = self.handler_range(self.block, self.index);
        let site = self.layout.site(first, count) % simt::kernel::RECENT_RANGES;
        let wide = !shared;
        let offset = offset as i32;
        let local = false;
        let mem = MemAccess { access, write, shared, local, total, offset, before: 0, wide, site };
        let address_width = if wide { Width::W64 } else { Width::W32 };
        let address = self.address(inst.src[0], address_width);
        self.lane_by_lane(inst, mem, address, back);
    }

    pub(crate) fn address(&mut self, source: Source, width: Width) -> Address {
        match source {
            Source::Imm(_) | Source::Scalar(_) | Source::Affine(..) | Source::HalfAffine(..) => {
                Address::Formula(source)
            }
            _ => Address::Lanes(self.value(source, width)),
        }
    }

    /// Lane 0's address in RCX, if lanes are at a stride in bytes from it; goes to `apart` if they are not.
    pub(crate) fn arranged(
        &mut self,
        mem: MemAccess,
        address: Value,
        steps: [i64; WARP_LANES],
        apart: Label,
    ) {
        let width = if mem.wide { Width::W64 } else { Width::W32 };
        let pick = |narrow: Code, wide: Code| if mem.wide { wide } else { narrow };
        self.first_of_all(mem, address);
        let spread = pick(Code::EVEX_Vpbroadcastd_zmm_k1z_r32, Code::EVEX_Vpbroadcastq_zmm_k1z_r64);
        let base = if mem.wide { C } else { Register::ECX };
        self.a.op(spread, &[Z1.into(), base.into()]);
        let bytes = width.bytes() as usize;
        for (part, steps) in steps.chunks(64 / bytes).enumerate() {
            let steps: Vec<u8> =
                steps.iter().flat_map(|s| s.to_le_bytes().into_iter().take(bytes)).collect();
            let steps = self.a.constant(&steps);
            let add = pick(
                Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
            );
            self.a.op(add, &[Z2.into(), Z1.into(), steps.into()]);
            let actual = self.part(address, part);
            if part == 0 {
                let xor = Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
                self.a.op(xor, &[Z0.into(), Z2.into(), actual]);
            } else {
                // a | (b ^ c)
                let code = Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8;
                self.a.op(code, &[Z0.into(), Z2.into(), actual, X::I(0xf6u8 as i8 as i32)]);
            }
        }
        let test = Code::EVEX_Vptestmq_kr_k1_zmm_zmmm512b64;
        self.a.op(test, &[K1.into(), Z0.into(), Z0.into()]);
        self.a.op(Code::VEX_Kortestb_kr_kr, &[K1.into(), K1.into()]);
        self.a.jump(Code::Jne_rel32_64, apart);
    }

    /// A full warp's access to consecutive elements, and elsewhere if they are not; false if there is
    /// no form.
    fn contiguous(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Value,
        (apart, back): (Label, Label),
    ) -> bool {
        let access = mem.access;
        let whole = u32::from(access.bytes) == access.width.bytes()
            && matches!(access.width, Width::W32 | Width::W64);
        let has_form = match access.count {
            1 => span_code(access, mem.write).is_some(),
            count => whole && matches!(count, 2 | 4),
        };
        if !has_form {
            return false;
        }
        let slow = self.interpreter_path(back);
        let steps = std::array::from_fn(|lane| i64::from(mem.total) * lane as i64);
        self.arranged(mem, address, steps, apart);
        self.add_to_address(mem, i64::from(mem.offset));
        let span = 32 * mem.total;
        self.check(mem, span, slow);
        self.count(mem, span);
        let form = if access.count > 1 { AddressForm::Interleaved } else { AddressForm::Span };
        self.transfer(inst, mem, form, 0, (C, 0));
        true
    }

    /// An access of some lanes to consecutive elements, the first of which is known; false if
    /// there is no form.
    fn span_of_some(&mut self, inst: &VectorInst, mem: MemAccess) -> bool {
        let MemAccess { access, write, .. } = mem;
        let Some(code) = span_code(access, write) else { return false };
        if !self.has_lane_results(inst) || !write && inst.dst.len() != 1 {
            return false;
        }
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        self.activate(inst.guard);
        self.number_in(inst.src[0], mem, C);
        self.add_to_address(mem, i64::from(mem.offset));
        self.check_some(inst, mem, 0, slow, back);
        self.count_some(inst, mem);
        self.transfer_some(inst, mem, code);
        self.a.bind(back);
        true
    }

    /// Moves consecutive elements of the lanes that run; lane 0's is at RCX.
    pub(crate) fn transfer_some(&mut self, inst: &VectorInst, mem: MemAccess, code: Code) {
        let MemAccess { access, write, total, .. } = mem;
        let width = access.width;
        let lanes = 64 / width.bytes() as i32;
        if write {
            let value = self.value(inst.src[2], width);
            for part in 0..parts(width) {
                let register = self.part_in(value, part, width, Z0);
                let k = self.active(part, width);
                let memory = at(C, lanes * total * part as i32);
                self.a.op(code, &[memory.into(), register.into()]).set_op_mask(k);
            }
            return;
        }
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..parts(width) {
            let memory = at(C, lanes * total * part as i32);
            // What is masked off is not touched.
            let k = self.active(part, width);
            let made = self.a.op(code, &[Z0.into(), memory.into()]);
            made.set_op_mask(k);
            made.set_zeroing_masking(true);
            self.put(&place, part, move_code(width), &[Z0.into()]);
        }
    }

    /// [`Self::check`] of the elements of the lanes that run, counted from lane 0's address, and of
    /// an offset in bytes behind each of them.
    pub(crate) fn check_some(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        more: i32,
        slow: Label,
        back: Label,
    ) {
        if self.ablation.bounds {
            return self.point(mem);
        }
        let (eax, edx) = (Register::EAX, Register::EDX);
        if mem.total > 1 {
            self.a.op(Code::Test_rm8_imm8, &[Register::CL.into(), X::I(mem.total - 1)]);
            self.a.jump(Code::Jne_rel32_64, slow);
        }
        match inst.guard {
            Some(guard) => {
                self.active_lanes(guard);
                self.a.op(Code::Test_rm32_r32, &[eax.into(), eax.into()]);
                self.a.jump(Code::Je_rel32_64, back);
            }
            None => {
                self.a.op(Code::Mov_r32_rm32, &[eax.into(), MASK.into()]);
            }
        }
        let log = X::I(mem.total.trailing_zeros() as i32);
        // The first byte in RDX, the end in RAX.
        self.a.op(Code::Tzcnt_r32_rm32, &[edx.into(), eax.into()]);
        self.a.op(Code::Shl_rm32_imm8, &[edx.into(), log]);
        self.a.op(Code::Add_r64_rm64, &[D.into(), C.into()]);
        self.a.op(Code::Lzcnt_r32_rm32, &[eax.into(), eax.into()]);
        self.a.op(Code::Neg_rm32, &[eax.into()]);
        self.a.op(Code::Add_rm32_imm8, &[eax.into(), X::I(32)]);
        self.a.op(Code::Shl_rm32_imm8, &[eax.into(), log]);
        self.a.op(Code::Add_r64_rm64, &[A.into(), C.into()]);
        if more != 0 {
            self.a.op(Code::Add_rm64_imm32, &[A.into(), X::I(more)]);
        }
        if mem.wide {
            // Around the end of the address space.
            self.a.op(Code::Cmp_r64_rm64, &[D.into(), A.into()]);
            self.a.jump(Code::Jae_rel32_64, slow);
        }
        if mem.shared {
            self.a.op(Code::Cmp_r64_rm64, &[A.into(), field(Field::SharedBytes).into()]);
            self.a.jump(Code::Ja_rel32_64, slow);
            return self.point(mem);
        }
        let kept = at(Register::RSP, SAVED_SCRATCH);
        self.a.op(Code::Mov_rm64_r64, &[kept.into(), C.into()]);
        self.a.op(Code::Mov_r64_rm64, &[C.into(), field(Field::Ranges).into()]);
        let start = (mem.site * size_of::<Range>() + offset_of!(Range, start)) as i32;
        let end = (mem.site * size_of::<Range>() + offset_of!(Range, end)) as i32;
        let writable = (mem.site * size_of::<Range>() + offset_of!(Range, writable)) as i32;
        self.a.op(Code::Cmp_r64_rm64, &[D.into(), at(C, start).into()]);
        self.a.jump(Code::Jb_rel32_64, slow);
        self.a.op(Code::Cmp_r64_rm64, &[A.into(), at(C, end).into()]);
        self.a.jump(Code::Ja_rel32_64, slow);
        if mem.write {
            self.a.op(Code::Cmp_rm8_imm8, &[at(C, writable).into(), X::I(0)]);
            self.a.jump(Code::Je_rel32_64, slow);
        }
        self.a.op(Code::Mov_r64_rm64, &[C.into(), kept.into()]);
    }

    /// Makes an address in RCX, in the space, a pointer in RCX to `span` bytes that may be
    /// accessed. Needs RAX and RDX.
    pub(crate) fn check(&mut self, mem: MemAccess, span: i32, slow: Label) {
        if self.ablation.bounds {
            return self.point(mem);
        }
        if !mem.shared {
            return self.check_global((C, 0), mem, span, slow);
        }
        self.check_aligned(C, mem, slow);
        self.a.op(Code::Lea_r64_m, &[A.into(), at(C, span).into()]);
        self.a.op(Code::Cmp_r64_rm64, &[A.into(), field(Field::SharedBytes).into()]);
        self.a.jump(Code::Ja_rel32_64, slow);
        if mem.wide {
            // Around the end of the address space.
            self.a.op(Code::Cmp_r64_rm64, &[C.into(), A.into()]);
            self.a.jump(Code::Ja_rel32_64, slow);
        }
        self.point(mem);
    }

    /// Goes to `slow` if `span` bytes may not be accessed that are at an address of global memory in
    /// a register, and a multiple of the access's size behind it. Uses RAX and RDX.
    pub(crate) fn check_global(
        &mut self,
        (address, more): (Register, i32),
        mem: MemAccess,
        span: i32,
        slow: Label,
    ) {
        self.check_aligned(address, mem, slow);
        let first = if more == 0 {
            address
        } else {
            self.a.op(Code::Lea_r64_m, &[A.into(), at(address, more).into()]);
            A
        };
        self.a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Ranges).into()]);
        // Ranges are of a process's addresses, whose top bit is clear: the sum with an access's bytes does
        // not wrap.
        self.a.op(Code::Cmp_r64_rm64, &[first.into(), range_start(mem.site).into()]);
        self.a.jump(Code::Jl_rel32_64, slow);
        self.a.op(Code::Lea_r64_m, &[A.into(), at(first, span).into()]);
        self.a.op(Code::Cmp_r64_rm64, &[A.into(), range_end(mem.site).into()]);
        self.a.jump(Code::Ja_rel32_64, slow);
        self.check_writable(mem, slow);
    }

    /// Goes to `slow` if an address in a register is no multiple of the access's size.
    fn check_aligned(&mut self, address: Register, mem: MemAccess, slow: Label) {
        if mem.total > 1 {
            let low = low_byte(address);
            self.a.op(Code::Test_rm8_imm8, &[low.into(), X::I(mem.total - 1)]);
            self.a.jump(Code::Jne_rel32_64, slow);
        }
    }

    /// Makes an address in RCX, in the space, a pointer.
    pub(crate) fn point(&mut self, mem: MemAccess) {
        if mem.shared {
            self.a.op(Code::Add_r64_rm64, &[C.into(), field(Field::Shared).into()]);
        }
    }

    /// With the ranges in RDX.
    pub(crate) fn check_writable(&mut self, mem: MemAccess, slow: Label) {
        if mem.write {
            let offset = mem.site * size_of::<Range>() + offset_of!(Range, writable);
            self.a.op(Code::Cmp_rm8_imm8, &[at(D, offset as i32).into(), X::I(0)]);
            self.a.jump(Code::Je_rel32_64, slow);
        }
    }

    pub(crate) fn count(&mut self, mem: MemAccess, bytes: i32) {
        if !mem.shared && !mem.local && !self.ablation.counters {
            self.a.op(Code::Add_rm64_imm32, &[field(Field::GlobalBytes).into(), X::I(bytes)]);
        }
    }

    /// Counts the bytes of the lanes that run.
    pub(crate) fn count_some(&mut self, inst: &VectorInst, mem: MemAccess) {
        if mem.shared || mem.local || self.ablation.counters {
            return;
        }
        let eax = Register::EAX;
        match inst.guard {
            Some(guard) => self.active_lanes(guard),
            None => {
                self.a.op(Code::Mov_r32_rm32, &[eax.into(), MASK.into()]);
            }
        }
        self.a.op(Code::Popcnt_r32_rm32, &[eax.into(), eax.into()]);
        if mem.total != 1 {
            self.a.op(Code::Imul_r32_rm32_imm32, &[eax.into(), eax.into(), X::I(mem.total)]);
        }
        self.a.op(Code::Add_rm64_r64, &[field(Field::GlobalBytes).into(), A.into()]);
    }

    /// One element of a load that all lanes make at one address, as one value.
    pub(crate) fn load_one(
        &mut self,
        inst: &VectorInst,
        element: usize,
        access: Access,
        memory: MemoryOperand,
    ) {
        let wide = access.width == Width::W64;
        let target = self.scalar_target(inst, element, wide);
        let full = target.full_register();
        let low = target.full_register32();
        let (code, to) = match (access.bytes, access.signed, wide) {
            (1, false, _) => (Code::Movzx_r32_rm8, low),
            (1, true, false) => (Code::Movsx_r32_rm8, low),
            (1, true, true) => (Code::Movsx_r64_rm8, full),
            (2, false, _) => (Code::Movzx_r32_rm16, low),
            (2, true, false) => (Code::Movsx_r32_rm16, low),
            (2, true, true) => (Code::Movsx_r64_rm16, full),
            (4, true, true) => (Code::Movsxd_r64_rm32, full),
            (4, ..) => (Code::Mov_r32_rm32, low),
            _ => (Code::Mov_r64_rm64, full),
        };
        self.a.op(code, &[to.into(), memory.into()]);
        self.scalar_result(inst, element, target);
    }

    pub(crate) fn store_scalar(&mut self, source: Source, access: Access, memory: MemoryOperand) {
        let wide = access.width == Width::W64;
        let register = self.scalar_in(source, wide, A);
        let (code, from) = match access.bytes {
            1 => {
                // Any register's low byte will not do: this one's will.
                if register.full_register() != A {
                    self.a.op(
                        mov(wide),
                        &[if wide { A } else { Register::EAX }.into(), register.into()],
                    );
                }
                (Code::Mov_rm8_r8, Register::AL)
            }
            2 => {
                if register.full_register() != A {
                    self.a.op(
                        mov(wide),
                        &[if wide { A } else { Register::EAX }.into(), register.into()],
                    );
                }
                (Code::Mov_rm16_r16, Register::AX)
            }
            4 => (Code::Mov_rm32_r32, register.full_register32()),
            _ => (Code::Mov_rm64_r64, register.full_register()),
        };
        self.a.op(code, &[memory.into(), from.into()]);
    }

    pub(crate) fn load_for_all(
        &mut self,
        inst: &VectorInst,
        element: usize,
        access: Access,
        memory: MemoryOperand,
    ) {
        let r = inst.dst[element].reg;
        let width = access.width;
        let code = match width {
            Width::W64 => Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64,
            _ => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
        };
        match self.assignment.lanes[r.index()] {
            Lanes::Same(register) => {
                self.a.op(code, &[register.into(), memory.into()]);
            }
            Lanes::Parts(registers) => {
                for register in registers.into_iter().take(parts(width)) {
                    self.a.op(code, &[register.into(), memory.into()]);
                }
            }
            Lanes::File | Lanes::Stack(..) => {
                self.a.op(code, &[Z0.into(), memory.into()]);
                let offset = self.layout.place(r.index()).vector.unwrap_or(0) as i32;
                for part in 0..parts(width) {
                    let to = at(crate::frame_layout::FILE, offset + 64 * part as i32);
                    self.a.op(store_code(width), &[to.into(), Z0.into()]);
                }
            }
        }
    }
}

/// The instruction that moves a part of consecutive elements.
pub(crate) fn span_code(access: Access, write: bool) -> Option<Code> {
    Some(match (write, access.bytes, access.signed, access.width) {
        (false, 4, _, Width::W32) => Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512,
        (false, 8, _, Width::W64) => Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512,
        (false, 2, _, Width::W16) => Code::EVEX_Vmovdqu16_zmm_k1z_zmmm512,
        (false, 1, false, Width::W16) => Code::EVEX_Vpmovzxbw_zmm_k1z_ymmm256,
        (false, 1, false, Width::W32) => Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128,
        (false, 1, true, Width::W32) => Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128,
        (false, 2, false, Width::W32) => Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256,
        (false, 2, true, Width::W32) => Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256,
        (false, 4, false, Width::W64) => Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256,
        (false, 4, true, Width::W64) => Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256,
        (true, 4, _, Width::W32) => Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm,
        (true, 8, _, Width::W64) => Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
        (true, 2, _, Width::W16) => Code::EVEX_Vmovdqu16_zmmm512_k1z_zmm,
        (true, 1, _, Width::W16) => Code::EVEX_Vpmovwb_ymmm256_k1z_zmm,
        (true, 1, _, Width::W32) => Code::EVEX_Vpmovdb_xmmm128_k1z_zmm,
        (true, 2, _, Width::W32) => Code::EVEX_Vpmovdw_ymmm256_k1z_zmm,
        (true, 4, _, Width::W64) => Code::EVEX_Vpmovqd_ymmm256_k1z_zmm,
        _ => return None,
    })
}

pub(crate) fn range_start(site: usize) -> MemoryOperand {
    at(D, (site * size_of::<Range>() + offset_of!(Range, start)) as i32)
}

pub(crate) fn range_end(site: usize) -> MemoryOperand {
    at(D, (site * size_of::<Range>() + offset_of!(Range, end)) as i32)
}
