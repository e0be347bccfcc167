//! Width conversion (extend, pack, unpack), byte permutes and bitwise functions on 32 lanes.

use crate::asm::assembler::{X, repeated};
use crate::frame_layout::{K1, K2, Z0, Z1, Z2};
use crate::function::Compiler;
use crate::host::host_has;
use crate::operands::{Value, move_code};
use iced_x86::{Code, Register};
use simt::ir::op::{PrmtMode, Width};
use simt::ir::vector::{Source, VectorInst};

/// Bits of every byte in reverse order, as an affine map.
const REVERSED: u64 = 0x8040_2010_0804_0201;

/// Where `bfi` puts bits.
pub(crate) struct Moved {
    /// The lowest one's place.
    pub(crate) position: u32,
    /// All their places.
    pub(crate) mask: u32,
}

impl Moved {
    /// Of an instruction with a constant place; `None` if it is another, or changes nothing.
    pub(crate) fn of(inst: &VectorInst) -> Option<Self> {
        let (Source::Imm(position), Source::Imm(length)) = (inst.src[2], inst.src[3]) else {
            return None;
        };
        let (position, length) = (position as u32 & 0xff, length as u32 & 0xff);
        let field = 1u32.checked_shl(length).map_or(u32::MAX, |above| above - 1);
        (position < 32).then(|| Self { position, mask: field << position })
    }
}

/// What a `prmt` by a constant takes, if that is bytes as they are.
pub(crate) fn plain_selector(inst: &VectorInst, mode: PrmtMode) -> Option<u32> {
    match inst.src[2] {
        Source::Imm(selector) if mode == PrmtMode::Index && selector & 0x8888 == 0 => {
            Some(selector as u32)
        }
        _ => None,
    }
}

/// For each byte of a `prmt`'s result, by its lane and its number there: which byte of the first
/// source it is, or of the second, counted in 16 bytes; `None` if it is of the other.
pub(crate) fn bytes_taken(selector: u32, second: bool) -> impl Fn(u8, u8) -> Option<u8> {
    move |lane, byte| {
        let n = (selector >> (4 * byte) & 7) as u8;
        (second == (n >= 4)).then_some(4 * lane + n % 4)
    }
}

impl Compiler<'_> {
    /// `brev`; false if the processor lacks what it takes.
    pub(crate) fn reverse_bits(&mut self, inst: &VectorInst, w: Width) -> bool {
        if !host_has!("gfni") {
            return false;
        }
        let a = self.value(inst.src[0], w);
        let place = self.dest(inst, &inst.dst[0]);
        let map = repeated(self.a.constant(&REVERSED.to_le_bytes()));
        let last = w.bytes() as u8 - 1;
        let swapped: Vec<u8> =
            (0..64u8).map(|at| (at & 15 & !last) + (last - (at & last))).collect();
        let swap = self.a.constant(&swapped);
        for part in 0..self.parts(w) {
            let register = self.part_in(a, part, w, Z0);
            let affine = Code::EVEX_Vgf2p8affineqb_zmm_k1z_zmm_zmmm512b64_imm8;
            self.a.op(affine, &[Z0.into(), register.into(), map.into(), X::I(0)]);
            // Its masks have a bit a byte.
            let shuffle = Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512;
            self.a.op(shuffle, &[Z0.into(), Z0.into(), swap.into()]);
            self.put(&place, part, move_code(w), &[Z0.into()]);
        }
        true
    }

    /// 64 numbers for `vpshufb`: where each byte of a dword comes from inside of 16 bytes, or
    /// nowhere, which gives 0.
    fn byte_order(&mut self, from: impl Fn(u8, u8) -> Option<u8>) -> iced_x86::MemoryOperand {
        let bytes: Vec<u8> = (0..64u8).map(|at| from(at / 4 % 4, at % 4).unwrap_or(0x80)).collect();
        self.a.constant(&bytes)
    }

    /// `bfi` at a constant place.
    pub(crate) fn insert_bits(&mut self, inst: &VectorInst) -> bool {
        let Some(Moved { position, mask }) = Moved::of(inst) else { return false };
        let w = Width::W32;
        let (a, b) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
        let place = self.dest(inst, &inst.dst[0]);
        let mask = repeated(self.a.constant(&mask.to_le_bytes()));
        for part in 0..self.parts(w) {
            let inserted = self.part(a, part);
            let up = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
            self.a.op(up, &[Z0.into(), inserted, X::I(position as i32)]);
            let base = self.part_in(b, part, w, Z1);
            // The third's bit chooses: the first's or the second's.
            let choose = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
            let operands = [Z0.into(), base.into(), mask.into(), X::I(0xe4u8 as i8 as i32)];
            self.a.op(choose, &operands);
            self.put(&place, part, move_code(w), &[Z0.into()]);
        }
        true
    }

    /// `prmt` of whatever a selector says.
    fn permute_bytes_by(&mut self, inst: &VectorInst, mode: PrmtMode) {
        let w = Width::W32;
        let values: [Value; 3] = std::array::from_fn(|n| self.value(inst.src[n], w));
        let place = self.dest(inst, &inst.dst[0]);
        let each = |this: &mut Self, byte: u8| repeated(this.a.constant(&[byte; 4]));
        let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
        let or = Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
        let xor = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
        let up = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
        let shuffle = Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512;
        for part in 0..self.parts(w) {
            let selector = self.part_in(values[2], part, w, Z0);
            // In Z0, by byte of the result, which byte of eight it is, and 8 for its sign.
            self.selected_bytes(mode, selector);
            let sign = self.a.constant(&[8; 64]);
            self.a.op(Code::EVEX_Vptestmb_kr_k1_zmm_zmmm512, &[K1.into(), Z0.into(), sign.into()]);
            // Of bytes of the other source the top bit is set, which gives zero.
            let four = each(self, 4);
            self.a.op(and, &[Z1.into(), Z0.into(), four.into()]);
            self.a.op(up, &[Z1.into(), Z1.into(), X::I(5)]);
            let three = each(self, 3);
            self.a.op(and, &[Z0.into(), Z0.into(), three.into()]);
            self.a.op(or, &[Z0.into(), Z0.into(), Z1.into()]);
            let lanes: Vec<u8> = (0..64u8).map(|at| at & 12).collect();
            let lanes = self.a.constant(&lanes);
            self.a.op(or, &[Z0.into(), Z0.into(), lanes.into()]);
            let low = self.part_in(values[0], part, w, Z1);
            self.a.op(shuffle, &[Z1.into(), low.into(), Z0.into()]);
            let top = each(self, 0x80);
            self.a.op(xor, &[Z0.into(), Z0.into(), top.into()]);
            let high = self.part_in(values[1], part, w, Z2);
            self.a.op(shuffle, &[Z2.into(), high.into(), Z0.into()]);
            self.a.op(or, &[Z0.into(), Z1.into(), Z2.into()]);
            self.a.op(Code::EVEX_Vpmovb2m_kr_zmm, &[K2.into(), Z0.into()]);
            self.a.op(Code::EVEX_Vpmovm2b_zmm_kr, &[Z1.into(), K2.into()]);
            let copy = Code::EVEX_Vmovdqu8_zmm_k1z_zmmm512;
            self.a.op(copy, &[Z0.into(), Z1.into()]).set_op_mask(K1);
            self.put(&place, part, move_code(w), &[Z0.into()]);
        }
    }

    /// What a selector means, a byte for each of the result's, in Z0. Uses Z1.
    fn selected_bytes(&mut self, mode: PrmtMode, selector: Register) {
        let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
        let or = Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
        let up = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
        let word = |this: &mut Self, bits: u32| repeated(this.a.constant(&bits.to_le_bytes()));
        if mode == PrmtMode::Index {
            // Nibbles to bytes.
            let four = word(self, 0xffff);
            self.a.op(and, &[Z0.into(), selector.into(), four.into()]);
            for (by, kept) in [(8, 0x00ff_00ff), (4, 0x0f0f_0f0f)] {
                self.a.op(up, &[Z1.into(), Z0.into(), X::I(by)]);
                self.a.op(or, &[Z0.into(), Z0.into(), Z1.into()]);
                let kept = word(self, kept);
                self.a.op(and, &[Z0.into(), Z0.into(), kept.into()]);
            }
            return;
        }
        let (most, first) = match mode {
            PrmtMode::Rc16 => (1, 0x0100_0100),
            PrmtMode::F4e | PrmtMode::Ecl | PrmtMode::Ecr => (3, 0x0302_0100),
            PrmtMode::B4e => (3, 0x0506_0700),
            PrmtMode::Rc8 | PrmtMode::Index => (3, 0),
        };
        let (most, first) = (word(self, most), word(self, first));
        self.a.op(and, &[Z0.into(), selector.into(), most.into()]);
        let every = word(self, if mode == PrmtMode::Rc16 { 0x0202_0202 } else { 0x0101_0101 });
        let multiply = Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32;
        self.a.op(multiply, &[Z0.into(), Z0.into(), every.into()]);
        let spread = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
        self.a.op(spread, &[Z1.into(), crate::operands::single(first).into()]);
        let combine = match mode {
            PrmtMode::Ecl => Code::EVEX_Vpmaxub_zmm_k1z_zmm_zmmm512,
            PrmtMode::Ecr => Code::EVEX_Vpminub_zmm_k1z_zmm_zmmm512,
            _ => Code::EVEX_Vpaddb_zmm_k1z_zmm_zmmm512,
        };
        self.a.op(combine, &[Z0.into(), Z0.into(), Z1.into()]);
        let seven = word(self, 0x0707_0707);
        self.a.op(and, &[Z0.into(), Z0.into(), seven.into()]);
    }

    /// `prmt` by a constant that takes bytes as they are, or by any selector.
    pub(crate) fn permute_bytes(&mut self, inst: &VectorInst, mode: PrmtMode) -> bool {
        let Some(selector) = plain_selector(inst, mode) else {
            self.permute_bytes_by(inst, mode);
            return true;
        };
        let w = Width::W32;
        let (a, b) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
        let place = self.dest(inst, &inst.dst[0]);
        let [first, second] =
            [false, true].map(|second| self.byte_order(bytes_taken(selector, second)));
        let shuffle = Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512;
        for part in 0..self.parts(w) {
            let low = self.part_in(a, part, w, Z0);
            self.a.op(shuffle, &[Z0.into(), low.into(), first.into()]);
            let high = self.part_in(b, part, w, Z1);
            self.a.op(shuffle, &[Z1.into(), high.into(), second.into()]);
            let or = Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
            self.put(&place, part, or, &[Z0.into(), Z1.into()]);
        }
        true
    }
}
