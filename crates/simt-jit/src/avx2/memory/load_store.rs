//! Loads and stores of the lanes of a slice, after their checks have passed.

use crate::asm::assembler::{X, at};
use crate::avx2::layout::{SLICE_LANES, table_slot};
use crate::avx2::memory::address_mode::{AddressMode, memory_of};
use crate::avx2::memory::check_coalescing::is_exact;
use crate::avx2::slice::{Slice, pieces, xmm};
use crate::frame_layout::{A, C, D, FILE, Field, field};
use crate::lanewise::isa::VectorIsa;
use crate::memory::access::MemAccess;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{Access, Width};
use simt::ir::vector::VectorInst;

/// The instruction that loads a piece of consecutive elements.
fn load_code(access: Access) -> Option<Code> {
    Some(match (access.bytes, access.signed, access.width) {
        (4, _, Width::W32) | (8, _, Width::W64) => Code::VEX_Vmovdqu_ymm_ymmm256,
        (1, false, Width::W32) => Code::VEX_Vpmovzxbd_ymm_xmmm64,
        (1, true, Width::W32) => Code::VEX_Vpmovsxbd_ymm_xmmm64,
        (2, false, Width::W32) => Code::VEX_Vpmovzxwd_ymm_xmmm128,
        (2, true, Width::W32) => Code::VEX_Vpmovsxwd_ymm_xmmm128,
        (4, false, Width::W64) => Code::VEX_Vpmovzxdq_ymm_xmmm128,
        (4, true, Width::W64) => Code::VEX_Vpmovsxdq_ymm_xmmm128,
        (2, _, Width::W16) => Code::VEX_Vmovdqu_xmm_xmmm128,
        (1, false, Width::W16) => Code::VEX_Vpmovzxbw_xmm_xmmm64,
        _ => return None,
    })
}

impl Slice<'_, '_> {
    /// Makes a load or store.
    pub(crate) fn transfer(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address_mode: AddressMode,
    ) {
        if mem.shared && matches!(address_mode, AddressMode::File(_)) {
            self.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Shared).into()]);
        }
        if self.move_rows(inst, mem, address_mode) {
            return;
        }
        for element in 0..usize::from(mem.access.count) {
            if mem.write {
                self.store(inst, mem, address_mode, element);
            } else {
                self.load(inst, mem, address_mode, element);
            }
        }
    }

    /// Lanes that do not take part must not be touched, and a mask keeps them out.
    fn is_masked(&self, inst: &VectorInst) -> bool {
        self.c.masked || inst.guard.is_some()
    }

    fn load(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address_mode: AddressMode,
        element: usize,
    ) {
        let access = mem.access;
        let offset = element as i32 * i32::from(access.bytes);
        let per_piece = SLICE_LANES / pieces(access.width);
        let stride = match address_mode {
            AddressMode::Formula { stride, .. } => Some(stride),
            _ => None,
        };
        for piece in 0..pieces(access.width) {
            let first = piece * per_piece;
            let from = memory_of(address_mode, self.number, first, offset);
            let to = self.temp();
            match (stride, load_code(access)) {
                (Some(0), _) => self.load_for_all_lanes(to, access, from),
                (Some(s), Some(code)) if s == mem.total && access.count == 1 => {
                    let halves = matches!(address_mode, AddressMode::Formula { halves: true, .. });
                    if self.is_masked(inst) && is_exact(mem, s, halves) {
                        let active = self.active(inst.guard);
                        let mask = self.mask_of_width(active, access.width, piece);
                        let code = match access.width {
                            Width::W32 => Code::VEX_Vpmaskmovd_ymm_ymm_m256,
                            _ => Code::VEX_Vpmaskmovq_ymm_ymm_m256,
                        };
                        self.op(code, &[to.into(), mask.into(), from.into()]);
                    } else {
                        let to = if access.width == Width::W16 { xmm(to) } else { to };
                        self.op(code, &[to.into(), from.into()]);
                    }
                }
                _ => self.load_lanes(to, mem, address_mode, first, offset),
            }
            self.put(inst, element, piece, to);
        }
    }

    /// One element for all lanes.
    fn load_for_all_lanes(&mut self, to: Register, access: Access, from: MemoryOperand) {
        let spread = match access.width {
            Width::W16 => Code::VEX_Vpbroadcastw_ymm_xmmm16,
            Width::W32 => Code::VEX_Vpbroadcastd_ymm_xmmm32,
            _ => Code::VEX_Vpbroadcastq_ymm_xmmm64,
        };
        if u32::from(access.bytes) == access.width.bytes() {
            self.op(spread, &[to.into(), from.into()]);
            return;
        }
        self.load_element(C, access, from);
        self.op(Code::VEX_Vmovq_xmm_rm64, &[xmm(to).into(), C.into()]);
        self.op(spread, &[to.into(), xmm(to).into()]);
    }

    /// An element in a general register, extended to 64 bits.
    fn load_element(&mut self, to: Register, access: Access, from: MemoryOperand) {
        let low = to.full_register32();
        let (code, to) = match (access.bytes, access.signed) {
            (1, false) => (Code::Movzx_r32_rm8, low),
            (1, true) => (Code::Movsx_r64_rm8, to),
            (2, false) => (Code::Movzx_r32_rm16, low),
            (2, true) => (Code::Movsx_r64_rm16, to),
            (4, false) => (Code::Mov_r32_rm32, low),
            (4, true) => (Code::Movsxd_r64_rm32, to),
            _ => (Code::Mov_r64_rm64, to),
        };
        self.op(code, &[to.into(), from.into()]);
    }

    /// What is `offset` bytes behind a lane's address, which is loaded into RAX unless it is a
    /// affine value. Needs the start of shared memory in RDX, if it is there and in the register file.
    pub(in crate::avx2) fn memory_of_lane(
        &mut self,
        mem: MemAccess,
        address_mode: AddressMode,
        lane: usize,
        offset: i32,
    ) -> MemoryOperand {
        let number = (self.number * SLICE_LANES + lane) as i32;
        match address_mode {
            AddressMode::Formula { .. } => {}
            AddressMode::Table { table, .. } => {
                let from = at(Register::RSP, table_slot(table) + 8 * number);
                self.op(Code::Mov_r64_rm64, &[A.into(), from.into()]);
            }
            AddressMode::File(r) => {
                let start = self.c.layout.place(r.index()).vector.unwrap_or(0) as i32;
                if mem.shared {
                    let from = at(FILE, start + 4 * number);
                    self.op(Code::Mov_r32_rm32, &[Register::EAX.into(), from.into()]);
                    if mem.offset != 0 {
                        // Around at 32 bits.
                        let sum = at(A, mem.offset);
                        self.op(Code::Lea_r32_m, &[Register::EAX.into(), sum.into()]);
                    }
                    let offset = i64::from(offset);
                    return MemoryOperand::with_base_index_scale_displ_size(D, A, 1, offset, 8);
                }
                let from = at(FILE, start + 8 * number);
                self.op(Code::Mov_r64_rm64, &[A.into(), from.into()]);
            }
        }
        memory_of(address_mode, self.number, lane, offset)
    }

    /// The offset that is not part of a lane's address yet.
    pub(in crate::avx2) fn rest(mem: MemAccess, address_mode: AddressMode, offset: i32) -> i32 {
        if address_mode.is_formula() || mem.shared { offset } else { mem.offset + offset }
    }

    /// A piece of elements, one by one.
    fn load_lanes(
        &mut self,
        to: Register,
        mem: MemAccess,
        address_mode: AddressMode,
        first: usize,
        offset: i32,
    ) {
        let access = mem.access;
        let per_piece = SLICE_LANES / pieces(access.width);
        let offset = Self::rest(mem, address_mode, offset);
        // Sixteen bytes at a time.
        let at_once = (16 / access.width.bytes() as usize).min(per_piece);
        let upper = (at_once < per_piece).then(|| self.temp());
        for lane in 0..per_piece {
            let target = if lane < at_once { Some(to) } else { upper };
            let Some(target) = target else { continue };
            let memory = self.memory_of_lane(mem, address_mode, first + lane, offset);
            self.insert(xmm(target), lane % at_once, access, memory);
        }
        if let Some(upper) = upper {
            self.joined(to, upper);
        }
    }

    /// Loads an element into a lane of sixteen bytes; the first one clears the others.
    fn insert(&mut self, to: Register, lane: usize, access: Access, memory: MemoryOperand) {
        let whole = u32::from(access.bytes) == access.width.bytes();
        let from: X = if whole && access.width != Width::W16 {
            memory.into()
        } else {
            self.load_element(C, access, memory);
            match access.width {
                Width::W64 => C.into(),
                _ => Register::ECX.into(),
            }
        };
        let n = X::I(lane as i32);
        match (access.width, lane) {
            (Width::W64, 0) => self.op(Code::VEX_Vmovq_xmm_rm64, &[to.into(), from]),
            (Width::W64, _) => {
                self.op(Code::VEX_Vpinsrq_xmm_xmm_rm64_imm8, &[to.into(), to.into(), from, n]);
            }
            (_, 0) => self.op(Code::VEX_Vmovd_xmm_rm32, &[to.into(), from]),
            (Width::W16, _) => {
                self.op(Code::VEX_Vpinsrw_xmm_xmm_r32m16_imm8, &[to.into(), to.into(), from, n]);
            }
            _ => self.op(Code::VEX_Vpinsrd_xmm_xmm_rm32_imm8, &[to.into(), to.into(), from, n]),
        }
    }

    fn store(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address_mode: AddressMode,
        element: usize,
    ) {
        let access = mem.access;
        let source = inst.src[2 + element];
        let offset = element as i32 * i32::from(access.bytes);
        let per_piece = SLICE_LANES / pieces(access.width);
        for piece in 0..pieces(access.width) {
            let first = piece * per_piece;
            let from = self.piece_in(source, access.width, piece);
            if let AddressMode::Formula { stride, .. } = address_mode
                && stride == mem.total
                && access.count == 1
            {
                let to = memory_of(address_mode, self.number, first, offset);
                self.store_together(inst, access, from, to, piece);
            } else {
                self.store_lanes(mem, address_mode, from, first, offset);
            }
        }
    }

    /// A piece of consecutive elements.
    fn store_together(
        &mut self,
        inst: &VectorInst,
        access: Access,
        from: Register,
        to: MemoryOperand,
        piece: usize,
    ) {
        if u32::from(access.bytes) == access.width.bytes() && access.width != Width::W16 {
            if !self.is_masked(inst) {
                self.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[to.into(), from.into()]);
                return;
            }
            let active = self.active(inst.guard);
            let mask = self.mask_of_width(active, access.width, piece);
            let code = match access.width {
                Width::W32 => Code::VEX_Vpmaskmovd_m256_ymm_ymm,
                _ => Code::VEX_Vpmaskmovq_m256_ymm_ymm,
            };
            self.op(code, &[to.into(), mask.into(), from.into()]);
            return;
        }
        // Only the low bytes of each lane are stored.
        let made = self.temp();
        match (access.width, access.bytes) {
            (Width::W32, _) => self.lower_words(made, from),
            (Width::W64, _) => {
                let which = X::I(0x88 - 0x100);
                let shuffle = Code::VEX_Vpermilps_ymm_ymmm256_imm8;
                self.op(shuffle, &[made.into(), from.into(), which]);
                self.op(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[made.into(), made.into(), X::I(8)]);
            }
            _ => self.op(Code::VEX_Vmovdqa_ymm_ymmm256, &[made.into(), from.into()]),
        }
        match (access.width, access.bytes) {
            (Width::W64, 4) | (_, 2) => {
                self.op(Code::VEX_Vmovdqu_xmmm128_xmm, &[to.into(), xmm(made).into()]);
            }
            (Width::W32 | Width::W16, 1) => {
                let low: Vec<u8> = (0..32u8).map(|n| if n < 8 { 2 * n } else { 0x80 }).collect();
                let low = self.c.a.constant(&low);
                let shuffle = Code::VEX_Vpshufb_ymm_ymm_ymmm256;
                self.op(shuffle, &[made.into(), made.into(), low.into()]);
                self.op(Code::VEX_Vmovq_xmmm64_xmm, &[to.into(), xmm(made).into()]);
            }
            _ => self.unsupported(),
        }
        self.free(made);
    }

    /// A piece of elements, one by one.
    fn store_lanes(
        &mut self,
        mem: MemAccess,
        address_mode: AddressMode,
        from: Register,
        first: usize,
        offset: i32,
    ) {
        let access = mem.access;
        let per_piece = SLICE_LANES / pieces(access.width);
        let offset = Self::rest(mem, address_mode, offset);
        let at_once = (16 / access.width.bytes() as usize).min(per_piece);
        for half in 0..per_piece / at_once {
            let part = self.half_of(from, half);
            for lane in 0..at_once {
                let number = first + half * at_once + lane;
                let to = self.memory_of_lane(mem, address_mode, number, offset);
                self.extract(part, lane, access, to);
            }
        }
    }

    fn extract(&mut self, from: Register, lane: usize, access: Access, to: MemoryOperand) {
        let n = X::I(lane as i32);
        let bytes = i32::from(access.bytes);
        match access.width {
            Width::W32 if bytes == 4 => {
                self.op(Code::VEX_Vpextrd_rm32_xmm_imm8, &[to.into(), from.into(), n]);
            }
            Width::W64 if bytes == 8 => {
                self.op(Code::VEX_Vpextrq_rm64_xmm_imm8, &[to.into(), from.into(), n]);
            }
            _ if bytes == 4 => {
                let n = X::I(2 * lane as i32);
                self.op(Code::VEX_Vpextrd_rm32_xmm_imm8, &[to.into(), from.into(), n]);
            }
            width if bytes <= 2 => {
                let scale = width.bytes() as i32 / bytes;
                let n = X::I(scale * lane as i32);
                let code = match bytes {
                    1 => Code::VEX_Vpextrb_r32m8_xmm_imm8,
                    _ => Code::VEX_Vpextrw_r32m16_xmm_imm8,
                };
                self.op(code, &[to.into(), from.into(), n]);
            }
            _ => self.unsupported(),
        }
    }
}
