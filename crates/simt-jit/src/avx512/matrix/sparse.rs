//! Sparse operands: [`Op::Expand`], which makes a 2:4 sparse operand dense.
//!
//! Of a row, a lane of the result has one group of four units of 8 bits, or half a group of units of
//! 16. Each of the two that were kept is shifted to its place, or out of the lane.
//!
//! Deliberately absent: warps that are not whole. They run in the interpreter.
//!
//! [`Op::Expand`]: simt::ir::op::Op::Expand

use crate::asm::assembler::{X, repeated};
use crate::avx512::matrix::is_plain;
use crate::frame_layout::{Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::host::SimdIsa;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::Width;
use simt::ir::sparse::Sparse;
use simt::ir::vector::{Source, VectorInst};

impl Compiler<'_> {
    /// Makes code that expands matrix A's operand; false if there is none.
    pub(crate) fn expand(&mut self, inst: &VectorInst, sparse: Sparse) -> bool {
        let whole = self.isa == SimdIsa::Avx512 && !self.masked;
        let written = |s: &Source| s.registers().any(|r| inst.dst.iter().any(|d| d.reg == r));
        let kept = !inst.src.iter().any(written);
        if !whole || !kept || !is_plain(inst) || !self.has_lane_results(inst) {
            return false;
        }
        for (n, part) in (0..inst.dst.len()).flat_map(|n| [(n, 0), (n, 1)]) {
            let (high, second) = (n % 2, n / 2);
            let place = self.dest(inst, &inst.dst[n]);
            self.expand_part(inst, sparse, (high, second), part);
            self.put_register(&place, part, Z0);
        }
        true
    }

    /// A part of the register of the upper rows or the lower, of the second half of columns or the
    /// first, in Z0.
    fn expand_part(
        &mut self,
        inst: &VectorInst,
        sparse: Sparse,
        (high, second): (usize, usize),
        part: usize,
    ) {
        let wide = sparse.unit_bits == 16;
        let spread = Code::EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8;
        let (left, right) =
            (Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32, Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32);
        let down = |c: &mut Self, to: Register, by: i32| {
            let code = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
            c.a.op(code, &[to.into(), to.into(), X::I(by)]);
        };
        let and = |c: &mut Self, to: Register, from: Register, bits: u32| {
            let bits = repeated(c.a.constant(&bits.to_le_bytes()));
            let code = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
            c.a.op(code, &[to.into(), from.into(), bits.into()]);
        };
        // What two lanes of the result have is kept in one.
        let value = self.value(inst.src[high], Width::W32);
        let from = self.part_in(value, part, Width::W32, Z0);
        let lanes = if second == 1 { 0xfau8 } else { 0x50 };
        self.a.op(spread, &[Z0.into(), from.into(), X::I(lanes as i8 as i32)]);
        if !wide {
            let halves = self.each_of_four(|lane| 16 * (lane % 2));
            self.a.op(right, &[Z0.into(), Z0.into(), halves.into()]);
        }
        let value = self.value(inst.src[2], Width::W32);
        let from = self.part_in(value, part, Width::W32, Z1);
        let holder = sparse.lane + if wide { 0 } else { high as u8 };
        let how = X::I((holder * 0x55) as i8 as i32);
        self.a.op(spread, &[Z1.into(), from.into(), how]);
        let (high, second) = (high as u32, second as u32);
        let first = self.each_of_four(|lane| match wide {
            true => 16 * high + 4 * (2 * second + lane / 2),
            false => 4 * (4 * second + lane),
        });
        self.a.op(right, &[Z1.into(), Z1.into(), first.into()]);
        // The places of the two, in bits from the lane's first.
        and(self, Z2, Z1, 3);
        down(self, Z1, 2);
        and(self, Z1, Z1, 3);
        for place in [Z1, Z2] {
            let by = X::I(sparse.unit_bits.trailing_zeros() as i32);
            let up = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
            self.a.op(up, &[place.into(), place.into(), by]);
            if wide {
                let before = self.each_of_four(|lane| 32 * (lane % 2));
                let subtract = Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
                self.a.op(subtract, &[place.into(), place.into(), before.into()]);
            }
        }
        let unit = (1 << sparse.unit_bits) - 1;
        and(self, Z3, Z0, unit);
        self.a.op(left, &[Z3.into(), Z3.into(), Z2.into()]);
        down(self, Z0, sparse.unit_bits.into());
        and(self, Z0, Z0, unit);
        self.a.op(left, &[Z0.into(), Z0.into(), Z1.into()]);
        self.a.op(Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, &[Z0.into(), Z0.into(), Z3.into()]);
    }

    /// A number for each lane of a quad, in all quads.
    fn each_of_four(&mut self, number: impl Fn(u32) -> u32) -> MemoryOperand {
        let numbers: Vec<u8> = (0..16).flat_map(|lane| number(lane % 4).to_le_bytes()).collect();
        self.a.constant(&numbers)
    }
}
