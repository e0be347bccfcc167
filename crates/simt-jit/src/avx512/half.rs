//! Halves of 32 lanes for code that is not made piece by piece: read as f32 numbers, combined by atomic
//! operations, put together from two registers.

use crate::asm::assembler::{X, repeated};
use crate::avx512::isa::Zmm;
use crate::frame_layout::{Z0, Z1, Z2};
use crate::function::Compiler;
use crate::lanewise::half::{combined, rounded};
use crate::operands::{HalfBits, Value, move_code, ymm};
use iced_x86::{Code, Register};
use simt::ir::op::{FloatOp, Width};

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
