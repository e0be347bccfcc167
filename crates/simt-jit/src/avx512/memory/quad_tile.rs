//! Quad-affine accesses of a full warp (fragment tiles): lane `4 j + m` has its element in line `j`
//! at place `m`, or in line `m` at place `j`; lines are any distance apart.
//!
//! `simt::analysis::address` finds them. The lines' distance is one number, so one
//! comparison checks an access, and each line is one move. Addresses that are computed for such
//! accesses only are not computed, unless an access fails its check: what they are made of is put
//! on the stack where it was first read, because it may be gone later.

use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{A, C, D, Field, K1, SAVED_SCRATCH, Z0, Z1, Z2, Z3, field};
use crate::function::Compiler;
use crate::memory::access::{MemAccess, range_end, range_start};
use crate::operands::{Value, move_code, store_code, xmm, ymm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::Reg;
use simt::ir::address::{LinearSum, QuadAffine};
use simt::ir::op::Width;
use simt::ir::vector::{Source, VectorInst};

/// Lanes whose elements are side by side in a line, if lines are `j`, and if they are `m`.
const SHORT: i32 = 4;
const LONG: i32 = 8;

impl Compiler<'_> {
    /// True if there is code for all quad-affine accesses of a block: then what only their addresses are
    /// made of is not computed.
    pub(crate) fn has_quad_code(&mut self, block: usize) -> bool {
        let f = self.f;
        let shapes = &f.blocks[block].addresses.shapes;
        shapes.iter().filter(|(_, shape)| shape.quad.is_some()).all(|(index, _)| {
            let inst = &f.blocks[block].insts[*index];
            self.index = *index;
            let Source::Vector(address) = inst.src[0] else { return false };
            let kept = matches!(self.lanes_of(address), Value::Parts(_) | Value::Memory(..));
            kept && self.any_plan(inst).is_some() && self.has_lane_results(inst)
        })
    }

    /// True if the result of the instruction under construction is dead.
    pub(crate) fn is_idle(&self) -> bool {
        let addresses = self.addresses().filter(|_| self.offset_tables.quads);
        addresses.is_some_and(|a| a.only_for_quads.contains(&self.index))
    }

    /// Makes code for an access of a full warp to a quad tile; false if it is none.
    pub(crate) fn access_rectangle(&mut self, inst: &VectorInst, mem: MemAccess) -> bool {
        let quad = self.shape(self.index).and_then(|shape| shape.quad.as_ref());
        let Some(quad_tile) = quad.filter(|_| self.offset_tables.quads) else { return false };
        let Source::Vector(address) = inst.src[0] else { return false };
        let (slow, back) = (self.a.label(), self.a.label());
        let failed = quad_tile.clone();
        self.slow_path_to(slow, back, move |c| c.quad_tile_interpreted(&failed, address));
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
    fn quad_tile_interpreted(&mut self, quad_tile: &QuadAffine, address: Reg) {
        let width = Width::W64;
        let address = self.lanes_of(address);
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
