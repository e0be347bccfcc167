//! Tiles of fragments, with AVX-512: lane `4 j + i` has its element in line `j` at place `i`, or in line `i` at place
//! `j`. Each line is one move.

use crate::asm::assembler::{X, at};
use crate::frame_layout::{A, C, D, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::memory::fragment::VALUES;
use crate::operands::{xmm, ymm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::Width;
use simt::ir::op::fragment::{Layout, Tile};
use simt::ir::vector::VectorInst;

/// Lines whose lanes are four.
const LINES: usize = 8;

impl Compiler<'_> {
    /// Makes code for the load or store of a tile by a full warp; false if there is none.
    pub(crate) fn move_tile(
        &mut self,
        inst: &VectorInst,
        layout: &Layout,
        tile: &Tile,
        write: bool,
    ) -> bool {
        let narrow = layout.width == Width::W32;
        if layout.four_places {
            if layout.place_bytes != layout.bytes() {
                return false;
            }
            let line = 4 * layout.place_bytes as i32;
            self.start_tile(tile);
            match write {
                false => self.load_fours(inst, tile, line),
                true => self.store_fours(inst, layout.width, tile, line),
            }
            return true;
        }
        if !narrow || layout.pieces > if write { 1 } else { 2 } {
            return false;
        }
        self.start_lines(layout, tile);
        match (write, layout.pieces) {
            (true, _) => self.store_eights(inst, tile),
            (false, 1) => self.load_eights(inst, tile),
            (false, _) => self.load_halves(inst, layout, tile),
        }
        true
    }

    /// As [`Self::start_tile`], with the distance of two lanes' lines.
    fn start_lines(&mut self, layout: &Layout, tile: &Tile) {
        self.start_tile(tile);
        if layout.line_step == 2 {
            self.a.op(Code::Add_r64_rm64, &[D.into(), D.into()]);
        }
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
    fn load_fours(&mut self, inst: &VectorInst, tile: &Tile, line: i32) {
        let vector_lines = (64 / line) as usize;
        if tile.registers == 1 {
            let place = self.dest(inst, &inst.dst[tile.register]);
            for part in 0..LINES / vector_lines {
                self.load_lines(vector_lines * part, line, Z0);
                self.put_register(&place, part, Z0);
            }
            return;
        }
        for part in 0..2 {
            self.load_lines(4 * part, line, Z0);
            self.load_lines(4 * part + 2, line, Z1);
            for (n, to) in [Z2, Z3].into_iter().enumerate() {
                let place = self.dest(inst, &inst.dst[tile.register + n]);
                self.load_picks(Width::W32, to, (0..16).map(|lane| 2 * lane + n));
                let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
                self.a.op(pick, &[to.into(), Z0.into(), Z1.into()]);
                self.put_register(&place, part, to);
            }
        }
    }

    fn store_fours(&mut self, inst: &VectorInst, width: Width, tile: &Tile, line: i32) {
        let vector_lines = (64 / line) as usize;
        let first = self.value(inst.src[VALUES + tile.register], width);
        if tile.registers == 1 {
            for part in 0..LINES / vector_lines {
                let from = self.part_in(first, part, width, Z0);
                self.store_lines(vector_lines * part, line, from);
            }
            return;
        }
        let second = self.value(inst.src[VALUES + tile.register + 1], width);
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
    fn load_eights(&mut self, inst: &VectorInst, tile: &Tile) {
        let place = self.dest(inst, &inst.dst[tile.register]);
        self.load_lines(0, 32, Z0);
        self.load_lines(2, 32, Z1);
        for part in 0..2 {
            let picks = (0..16).map(|lane| 8 * (lane % 4) + 4 * part + lane / 4);
            self.load_picks(Width::W32, Z2, picks);
            let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
            self.a.op(pick, &[Z2.into(), Z0.into(), Z1.into()]);
            self.put_register(&place, part, Z2);
        }
    }

    /// Lines of eight lanes' lower halves, and behind each the line of their upper halves.
    fn load_halves(&mut self, inst: &VectorInst, layout: &Layout, tile: &Tile) {
        let place = self.dest(inst, &inst.dst[tile.register]);
        self.load_lines(0, 16, Z0);
        self.start_lines(layout, &Tile { line: tile.line + 1, ..*tile });
        self.load_lines(0, 16, Z1);
        for part in 0..2 {
            let picks = (0..32).map(|n| 32 * (n % 2) + 8 * (n / 2 % 4) + 4 * part + n / 8);
            self.load_picks(Width::W16, Z2, picks);
            let pick = Code::EVEX_Vpermi2w_zmm_k1z_zmm_zmmm512;
            self.a.op(pick, &[Z2.into(), Z0.into(), Z1.into()]);
            self.put_register(&place, part, Z2);
        }
    }

    fn store_eights(&mut self, inst: &VectorInst, tile: &Tile) {
        let value = self.value(inst.src[VALUES + tile.register], Width::W32);
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
