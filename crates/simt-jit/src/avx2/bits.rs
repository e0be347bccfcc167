//! Width conversion (extend, pack, unpack) and bitwise functions on the lanes of a slice.

use crate::asm::assembler::X;
use crate::avx2::slice::{Slice, pieces, xmm};
use iced_x86::{Code, Register};
use simt::ir::op::{Special, Width};
use simt::ir::vector::VectorInst;

/// True if there is a form for an extension.
pub(crate) fn extends(from: Width, bits: u8, to: Width) -> bool {
    matches!(
        (from, bits, to),
        (Width::W32, 8 | 16 | 32, Width::W32)
            | (Width::W64, 8 | 16 | 32 | 64, Width::W64)
            | (Width::W32, 32, Width::W64)
            | (Width::W64, 32, Width::W32)
            | (Width::W16, 8 | 16, Width::W16 | Width::W32)
            | (Width::W32, 8 | 16, Width::W16)
            | (Width::W16, 16, Width::W64)
    )
}

/// What a special register that is a mask of lanes is in a lane.
pub(crate) fn lane_mask(special: Special, lane: usize) -> Option<u32> {
    let own = 1u32 << lane;
    Some(match special {
        Special::LanemaskEq => own,
        Special::LanemaskLt => own - 1,
        Special::LanemaskLe => own | (own - 1),
        Special::LanemaskGt => !(own | (own - 1)),
        Special::LanemaskGe => !(own - 1),
        _ => return None,
    })
}

impl Slice<'_, '_> {
    pub(crate) fn extend(
        &mut self,
        inst: &VectorInst,
        from: Width,
        bits: u8,
        signed: bool,
        to: Width,
    ) {
        match (from, to) {
            (Width::W32, Width::W64) => {
                for piece in 0..pieces(to) {
                    let made = self.widened(inst.src[0], piece, signed);
                    self.put(inst, 0, piece, made);
                }
            }
            (Width::W64, Width::W32) => {
                let made = self.narrowed(inst, 0x88);
                self.put(inst, 0, 0, made);
            }
            (Width::W16, Width::W64) => self.widen_words(inst, signed),
            (Width::W16, _) => {
                let a = self.piece_in(inst.src[0], from, 0);
                let made = self.temp();
                let code = if signed {
                    Code::VEX_Vpmovsxwd_ymm_xmmm128
                } else {
                    Code::VEX_Vpmovzxwd_ymm_xmmm128
                };
                self.op(code, &[made.into(), xmm(a).into()]);
                self.cut_to(made, made, Width::W32, bits.min(16), signed);
                if to == Width::W16 {
                    self.lower_words(made, made);
                }
                self.put(inst, 0, 0, made);
            }
            (_, Width::W16) => {
                let a = self.piece_in(inst.src[0], from, 0);
                let made = self.temp();
                if bits == 8 {
                    self.cut_to(made, a, from, bits, signed);
                    self.lower_words(made, made);
                } else {
                    self.lower_words(made, a);
                }
                self.put(inst, 0, 0, made);
            }
            _ => {
                for piece in 0..pieces(to) {
                    let a = self.piece_in(inst.src[0], from, piece);
                    let made = self.temp();
                    self.cut_to(made, a, from, bits, signed);
                    self.put(inst, 0, piece, made);
                }
            }
        }
    }

    /// The low bits of each lane, extended to the whole lane.
    fn cut_to(&mut self, to: Register, a: Register, width: Width, bits: u8, signed: bool) {
        let amount = X::I(width.bits() as i32 - i32::from(bits));
        match (width, signed) {
            _ if u32::from(bits) == width.bits() => {
                self.op(Code::VEX_Vmovdqa_ymm_ymmm256, &[to.into(), a.into()]);
            }
            (Width::W32, true) => {
                self.op(Code::VEX_Vpslld_ymm_ymm_imm8, &[to.into(), a.into(), amount]);
                self.op(Code::VEX_Vpsrad_ymm_ymm_imm8, &[to.into(), to.into(), amount]);
            }
            (Width::W64, true) if bits == 32 => {
                // The low halves' signs, beside the low halves.
                let sign = self.temp();
                self.op(Code::VEX_Vpsrad_ymm_ymm_imm8, &[sign.into(), a.into(), X::I(31)]);
                self.op(Code::VEX_Vpsllq_ymm_ymm_imm8, &[sign.into(), sign.into(), X::I(32)]);
                let blend = Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8;
                self.op(blend, &[to.into(), a.into(), sign.into(), X::I(0xaa - 0x100)]);
                self.free(sign);
            }
            (_, true) => {
                // (x ^ s) - s with s the sign's bit, of the bits alone.
                let sign = self.constant(1 << (bits - 1), Width::W64);
                let low = self.constant((1 << bits) - 1, Width::W64);
                let sign = self.copied(sign.into());
                self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[to.into(), a.into(), low.into()]);
                self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[to.into(), to.into(), sign.into()]);
                self.op(Code::VEX_Vpsubq_ymm_ymm_ymmm256, &[to.into(), to.into(), sign.into()]);
                self.free(sign);
            }
            (_, false) => {
                let low = self.constant((1 << bits) - 1, width);
                self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[to.into(), a.into(), low.into()]);
            }
        }
    }

    /// The lower words of 32-bit lanes, in the low half of a register.
    pub(crate) fn lower_words(&mut self, to: Register, a: Register) {
        let order: Vec<u8> =
            (0..32u8).map(|n| if n & 15 < 8 { (n & 15) / 2 * 4 + n % 2 } else { 0x80 }).collect();
        let order = self.c.a.constant(&order);
        self.op(Code::VEX_Vpshufb_ymm_ymm_ymmm256, &[to.into(), a.into(), order.into()]);
        self.op(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[to.into(), to.into(), X::I(8)]);
    }

    /// One half of each 64-bit lane: the lower (0x88) or the upper one (0xdd).
    fn narrowed(&mut self, inst: &VectorInst, which: i32) -> Register {
        let low = self.piece_in(inst.src[0], Width::W64, 0);
        let high = self.piece(inst.src[0], Width::W64, 1);
        let to = self.temp();
        let which = X::I(i32::from(which as u8 as i8));
        self.op(Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8, &[to.into(), low.into(), high, which]);
        let order = X::I(0xd8 - 0x100);
        self.op(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[to.into(), to.into(), order]);
        to
    }

    /// Masks of 64-bit lanes as one of 32-bit lanes, in the first.
    pub(crate) fn narrow_masks(&mut self, low: Register, high: Register) {
        let which = X::I(0x88 - 0x100);
        let shuffle = Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8;
        self.op(shuffle, &[low.into(), low.into(), high.into(), which]);
        let order = X::I(0xd8 - 0x100);
        self.op(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[low.into(), low.into(), order]);
    }

    pub(crate) fn pack(&mut self, inst: &VectorInst) {
        for piece in 0..pieces(Width::W64) {
            let low = self.widened(inst.src[0], piece, false);
            let high = self.widened(inst.src[1], piece, false);
            self.op(Code::VEX_Vpsllq_ymm_ymm_imm8, &[high.into(), high.into(), X::I(32)]);
            self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[low.into(), low.into(), high.into()]);
            self.put(inst, 0, piece, low);
        }
    }

    pub(crate) fn unpack(&mut self, inst: &VectorInst) {
        for (n, which) in [0x88, 0xdd].into_iter().enumerate().take(inst.dst.len()) {
            let made = self.narrowed(inst, which);
            self.put(inst, n, 0, made);
        }
    }

    pub(crate) fn pack_words(&mut self, inst: &VectorInst) {
        let [low, high] = [0, 1].map(|n| {
            let words = self.piece_in(inst.src[n], Width::W16, 0);
            let to = self.temp();
            self.op(Code::VEX_Vpmovzxwd_ymm_xmmm128, &[to.into(), xmm(words).into()]);
            to
        });
        self.op(Code::VEX_Vpslld_ymm_ymm_imm8, &[high.into(), high.into(), X::I(16)]);
        self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[low.into(), low.into(), high.into()]);
        self.free(high);
        self.put(inst, 0, 0, low);
    }

    pub(crate) fn unpack_words(&mut self, inst: &VectorInst) {
        let pairs = self.piece_in(inst.src[0], Width::W32, 0);
        for n in 0..inst.dst.len() {
            let made = self.temp();
            if n == 0 {
                self.lower_words(made, pairs);
            } else {
                self.op(Code::VEX_Vpsrld_ymm_ymm_imm8, &[made.into(), pairs.into(), X::I(16)]);
                self.lower_words(made, made);
            }
            self.put(inst, n, 0, made);
        }
    }

    /// A function of three bits by its table: `f0 ^ ((f0 ^ f1) & c)`, where `f0` and `f1` are the
    /// functions of two that are left where `c` is 0 and 1.
    pub(crate) fn lop3(&mut self, inst: &VectorInst, table: u8) {
        let w = Width::W32;
        let a = self.piece_in(inst.src[0], w, 0);
        let b = self.piece_in(inst.src[1], w, 0);
        // By a's and b's bits, in the order 00, 01, 10, 11.
        let of_two = |c: u8| (0..4).fold(0, |f, ab| f | (table >> (2 * ab + c) & 1) << ab);
        let (zero, one) = (of_two(0), of_two(1));
        let to = self.function_of_two(a, b, zero);
        let differ = self.function_of_two(a, b, zero ^ one);
        let c = self.piece(inst.src[2], w, 0);
        self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[differ.into(), differ.into(), c]);
        self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[to.into(), to.into(), differ.into()]);
        self.put(inst, 0, 0, to);
    }

    /// A function of two bits by its table, in a register of its own.
    fn function_of_two(&mut self, a: Register, b: Register, table: u8) -> Register {
        let (and, or) = (Code::VEX_Vpand_ymm_ymm_ymmm256, Code::VEX_Vpor_ymm_ymm_ymmm256);
        let (xor, andn) = (Code::VEX_Vpxor_ymm_ymm_ymmm256, Code::VEX_Vpandn_ymm_ymm_ymmm256);
        // Those that are true of two zeros are the others turned over.
        let inverted = table & 1 != 0;
        let plain = if inverted { !table & 15 } else { table };
        let to = self.temp();
        let [to_x, a, b]: [X; 3] = [to.into(), a.into(), b.into()];
        match plain {
            0b0000 => self.op(xor, &[to_x, to_x, to_x]),
            0b1000 => self.op(and, &[to_x, a, b]),
            0b0100 => self.op(andn, &[to_x, b, a]),
            0b0010 => self.op(andn, &[to_x, a, b]),
            0b0110 => self.op(xor, &[to_x, a, b]),
            0b1110 => self.op(or, &[to_x, a, b]),
            0b1100 => self.op(or, &[to_x, a, a]),
            _ => self.op(or, &[to_x, b, b]),
        }
        if inverted {
            let ones = self.constant(u64::MAX, Width::W64);
            self.op(xor, &[to_x, to_x, ones.into()]);
        }
        to
    }
}
