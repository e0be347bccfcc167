//! Byte permutes and bit-field moves by constants on the 32-bit lanes of a slice.

use crate::asm::assembler::X;
use crate::avx2::slice::Slice;
use crate::avx512::bits::{Moved, bytes_taken};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::Width;
use simt::ir::vector::VectorInst;

const SHUFFLE: Code = Code::VEX_Vpshufb_ymm_ymm_ymmm256;
const OR: Code = Code::VEX_Vpor_ymm_ymm_ymmm256;
const AND: Code = Code::VEX_Vpand_ymm_ymm_ymmm256;

impl Slice<'_, '_> {
    /// 32 numbers for `vpshufb`: where each byte of a dword comes from inside of 16 bytes, or
    /// nowhere, which gives 0.
    fn byte_order(&mut self, from: impl Fn(u8, u8) -> Option<u8>) -> MemoryOperand {
        let bytes: Vec<u8> = (0..32u8).map(|at| from(at / 4 % 4, at % 4).unwrap_or(0x80)).collect();
        self.c.a.constant(&bytes)
    }

    /// Halves of every byte in reverse order, shifted up.
    fn reversed_halves(&mut self, up: u32) -> Register {
        let bytes: Vec<u8> = (0..32u8).map(|n| ((n % 16).reverse_bits() >> 4) << up).collect();
        let table = self.c.a.constant(&bytes);
        self.copied(table.into())
    }

    /// `brev`: each half of a byte looked up, then the bytes turned round.
    pub(crate) fn reverse_bits(&mut self, inst: &VectorInst) {
        let a = self.piece_in(inst.src[0], Width::W32, 0);
        let halves = self.constant(0x0f0f_0f0f, Width::W32);
        let halves = self.copied(halves.into());
        let (high, low) = (self.reversed_halves(0), self.reversed_halves(4));
        let to = self.temp();
        self.op(AND, &[to.into(), a.into(), halves.into()]);
        self.op(SHUFFLE, &[low.into(), low.into(), to.into()]);
        self.op(Code::VEX_Vpsrld_ymm_ymm_imm8, &[to.into(), a.into(), X::I(4)]);
        self.op(AND, &[to.into(), to.into(), halves.into()]);
        self.op(SHUFFLE, &[high.into(), high.into(), to.into()]);
        self.op(OR, &[to.into(), low.into(), high.into()]);
        let swap = self.byte_order(|lane, byte| Some(4 * lane + 3 - byte));
        self.op(SHUFFLE, &[to.into(), to.into(), swap.into()]);
        self.put(inst, 0, 0, to);
    }

    /// `clz`: by the exponent of the number as a float.
    pub(crate) fn leading_zeros(&mut self, inst: &VectorInst) {
        let w = Width::W32;
        let a = self.piece_in(inst.src[0], w, 0);
        let to = self.temp();
        // Without the bit below the highest one it is never rounded up.
        self.op(Code::VEX_Vpsrld_ymm_ymm_imm8, &[to.into(), a.into(), X::I(1)]);
        self.op(Code::VEX_Vpandn_ymm_ymm_ymmm256, &[to.into(), to.into(), a.into()]);
        self.op(Code::VEX_Vcvtdq2ps_ymm_ymmm256, &[to.into(), to.into()]);
        self.op(Code::VEX_Vpsrld_ymm_ymm_imm8, &[to.into(), to.into(), X::I(23)]);
        // A sign makes the exponent too large for this difference, which is 0 then.
        let (most, bits) = (self.constant(127 + 31, w), self.constant(32, w));
        let zeros = self.copied(most.into());
        self.op(Code::VEX_Vpsubusw_ymm_ymm_ymmm256, &[to.into(), zeros.into(), to.into()]);
        self.op(Code::VEX_Vpminsd_ymm_ymm_ymmm256, &[to.into(), to.into(), bits.into()]);
        self.free(zeros);
        self.put(inst, 0, 0, to);
    }

    /// `bfi`, here at a constant place.
    pub(crate) fn insert_bits(&mut self, inst: &VectorInst) {
        let Some(Moved { position, mask }) = Moved::of(inst) else {
            return self.insert_field(inst, Width::W32);
        };
        let a = self.piece_in(inst.src[0], Width::W32, 0);
        let to = self.temp();
        let up = X::I(position as i32);
        self.op(Code::VEX_Vpslld_ymm_ymm_imm8, &[to.into(), a.into(), up]);
        let mask = self.constant(mask.into(), Width::W32);
        let mask = self.copied(mask.into());
        self.op(AND, &[to.into(), to.into(), mask.into()]);
        let b = self.piece(inst.src[1], Width::W32, 0);
        self.op(Code::VEX_Vpandn_ymm_ymm_ymmm256, &[mask.into(), mask.into(), b]);
        self.op(OR, &[to.into(), to.into(), mask.into()]);
        self.put(inst, 0, 0, to);
    }

    /// `prmt` by a constant that takes bytes as they are.
    pub(crate) fn permute_bytes(&mut self, inst: &VectorInst, selector: u32) {
        let [first, second] =
            [false, true].map(|second| self.byte_order(bytes_taken(selector, second)));
        let a = self.piece_in(inst.src[0], Width::W32, 0);
        let to = self.temp();
        self.op(SHUFFLE, &[to.into(), a.into(), first.into()]);
        let b = self.piece_in(inst.src[1], Width::W32, 0);
        let other = self.temp();
        self.op(SHUFFLE, &[other.into(), b.into(), second.into()]);
        self.op(OR, &[to.into(), to.into(), other.into()]);
        self.put(inst, 0, 0, to);
    }
}
