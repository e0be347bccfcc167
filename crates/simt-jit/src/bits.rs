//! Bits and bytes of 32-bit lanes moved to places that are known when the code is made.

use crate::assembler::{X, repeated};
use crate::assign::parts;
use crate::compiler::Compiler;
use crate::frame::{Z0, Z1};
use crate::value::move_code;
use iced_x86::Code;
use simt::op::{PrmtMode, Width};
use simt::vector::{Source, VectorInst};

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
    pub(crate) fn reverse_bits(&mut self, inst: &VectorInst) -> bool {
        if !is_x86_feature_detected!("gfni") {
            return false;
        }
        let w = Width::W32;
        let a = self.value(inst.src[0], w);
        let place = self.dest(inst, &inst.dst[0]);
        let map = repeated(self.a.constant(&REVERSED.to_le_bytes()));
        let swap = self.byte_order(|lane, byte| Some(4 * lane + 3 - byte));
        for part in 0..parts(w) {
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
        for part in 0..parts(w) {
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

    /// `prmt` by a constant that takes bytes as they are.
    pub(crate) fn permute_bytes(&mut self, inst: &VectorInst, mode: PrmtMode) -> bool {
        let Some(selector) = plain_selector(inst, mode) else { return false };
        let w = Width::W32;
        let (a, b) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
        let place = self.dest(inst, &inst.dst[0]);
        let [first, second] =
            [false, true].map(|second| self.byte_order(bytes_taken(selector, second)));
        let shuffle = Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512;
        for part in 0..parts(w) {
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
