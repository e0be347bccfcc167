//! Halves of 32 lanes for code that is not made piece by piece: read as f32 numbers, combined by atomic
//! operations, put together from two registers.

use crate::asm::assembler::{X, at, repeated};
use crate::avx512::isa::Zmm;
use crate::frame_layout::{LANE_SECONDS, Z0, Z1, Z2};
use crate::function::Compiler;
use crate::lanewise::half::{combined, rounded};
use crate::operands::{HalfBits, Value, move_code, ymm};
use iced_x86::{Code, Register};
use simt::ir::op::{FloatOp, Width};
use simt::ir::vector::VectorInst;

impl Compiler<'_> {
    /// Sixteen halves as f32 numbers in a register.
    pub(crate) fn half_as_single(
        &mut self,
        value: Value,
        part: usize,
        (brain, bits): (bool, HalfBits),
        to: Register,
    ) {
        let up = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
        let widen = Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae;
        if bits == HalfBits::All {
            let half = self.half(value, part, to);
            if brain {
                self.a.op(Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, &[to.into(), half]);
                self.a.op(up, &[to.into(), to.into(), X::I(16)]);
            } else {
                self.a.op(widen, &[to.into(), half]);
            }
            return;
        }
        let mut from = self.part_in(value, part, Width::W32, to);
        match (brain, bits) {
            (true, HalfBits::Low) => {
                self.a.op(up, &[to.into(), from.into(), X::I(16)]);
            }
            (true, _) => {
                let upper = repeated(self.a.constant(&0xffff_0000u32.to_le_bytes()));
                let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
                self.a.op(and, &[to.into(), from.into(), upper.into()]);
            }
            (false, _) => {
                if bits == HalfBits::High {
                    let down = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
                    self.a.op(down, &[to.into(), from.into(), X::I(16)]);
                    from = to;
                }
                self.a.op(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, &[ymm(to).into(), from.into()]);
                self.a.op(widen, &[to.into(), ymm(to).into()]);
            }
        }
    }

    /// Makes the first result of 16-bit lanes: `make` leaves those of a half of the warp in the
    /// lower 16 bits of Z0's lanes.
    pub(crate) fn by_halves(&mut self, inst: &VectorInst, make: impl FnMut(&mut Self, usize)) {
        self.result_by_halves(inst, 0, make);
    }

    /// The same of another result.
    pub(crate) fn result_by_halves(
        &mut self,
        inst: &VectorInst,
        n: usize,
        mut make: impl FnMut(&mut Self, usize),
    ) {
        let kept = at(Register::RSP, LANE_SECONDS);
        let place = self.dest(inst, &inst.dst[n]);
        let narrow = Code::EVEX_Vpmovdw_ymmm256_k1z_zmm;
        make(self, 0);
        self.a.op(narrow, &[kept.into(), Z0.into()]);
        make(self, 1);
        self.a.op(narrow, &[ymm(Z1).into(), Z0.into()]);
        self.a.op(Code::EVEX_Vmovdqu32_ymm_k1z_ymmm256, &[ymm(Z0).into(), kept.into()]);
        let join = [Z0.into(), Z0.into(), ymm(Z1).into(), X::I(1)];
        self.a.op(Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, &join);
        self.put(&place, 0, move_code(Width::W16), &[Z0.into()]);
    }

    /// An operation on the f32 numbers of halves in Z1 and Z2: as halves in Z0.
    pub(crate) fn combine_singles(&mut self, op: FloatOp, brain: bool) {
        Zmm::of_scratch(self, [Z1, Z2], |i| {
            let made = combined(i, op, Z1, Z2);
            rounded(i, made, brain);
            if made != Z0 {
                i.c.a.op(move_code(Width::W32), &[Z0.into(), made.into()]);
            }
        });
    }
}
