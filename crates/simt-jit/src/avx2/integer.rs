//! Integer arithmetic on the 16- and 32-bit lanes of a slice, and whatever is a single instruction
//! at any width.

use crate::asm::assembler::X;
use crate::avx2::layout::SLICE_LANES;
use crate::avx2::slice::{Slice, pieces, xmm};
use crate::avx2::{integer_saturating, integer_sequences, integer64, support};
use crate::avx512::bits::plain_selector;
use crate::avx512::half::Format;
use iced_x86::{Code, Register};
use simt::ir::op::{Convert, IntOp, IntType, Op, Width};
use simt::ir::vector::{Source, VectorInst};

/// Operations that are one instruction of two operands.
fn binary(op: IntOp, ty: IntType) -> Option<Code> {
    use IntType::{S16, S32, U16, U32};
    Some(match (op, ty.width()) {
        (IntOp::Add, Width::W16) => Code::VEX_Vpaddw_ymm_ymm_ymmm256,
        (IntOp::Add, Width::W32) => Code::VEX_Vpaddd_ymm_ymm_ymmm256,
        (IntOp::Add, _) => Code::VEX_Vpaddq_ymm_ymm_ymmm256,
        (IntOp::Sub, Width::W16) => Code::VEX_Vpsubw_ymm_ymm_ymmm256,
        (IntOp::Sub, Width::W32) => Code::VEX_Vpsubd_ymm_ymm_ymmm256,
        (IntOp::Sub, _) => Code::VEX_Vpsubq_ymm_ymm_ymmm256,
        (IntOp::MulLo, Width::W16) => Code::VEX_Vpmullw_ymm_ymm_ymmm256,
        (IntOp::MulLo, Width::W32) => Code::VEX_Vpmulld_ymm_ymm_ymmm256,
        (IntOp::And, _) => Code::VEX_Vpand_ymm_ymm_ymmm256,
        (IntOp::Or, _) => Code::VEX_Vpor_ymm_ymm_ymmm256,
        (IntOp::Xor, _) => Code::VEX_Vpxor_ymm_ymm_ymmm256,
        (IntOp::Min, _) => match ty {
            S16 => Code::VEX_Vpminsw_ymm_ymm_ymmm256,
            U16 => Code::VEX_Vpminuw_ymm_ymm_ymmm256,
            S32 => Code::VEX_Vpminsd_ymm_ymm_ymmm256,
            U32 => Code::VEX_Vpminud_ymm_ymm_ymmm256,
            _ => return None,
        },
        (IntOp::Max, _) => match ty {
            S16 => Code::VEX_Vpmaxsw_ymm_ymm_ymmm256,
            U16 => Code::VEX_Vpmaxuw_ymm_ymm_ymmm256,
            S32 => Code::VEX_Vpmaxsd_ymm_ymm_ymmm256,
            U32 => Code::VEX_Vpmaxud_ymm_ymm_ymmm256,
            _ => return None,
        },
        // The processor gives nothing for amounts over the width, as PTX wants it.
        (IntOp::Shl, Width::W32) => Code::VEX_Vpsllvd_ymm_ymm_ymmm256,
        (IntOp::Shr, Width::W32) if ty.signed() => Code::VEX_Vpsravd_ymm_ymm_ymmm256,
        (IntOp::Shr, Width::W32) => Code::VEX_Vpsrlvd_ymm_ymm_ymmm256,
        _ => return None,
    })
}

/// A `bfe` at a constant place inside of the register: shifts up and down.
fn field(inst: &VectorInst) -> Option<(i32, i32)> {
    let (Source::Imm(position), Source::Imm(length)) = (inst.src[1], inst.src[2]) else {
        return None;
    };
    let inside = length > 0 && position < 32 && length <= 32 && position + length <= 32;
    inside.then_some((32 - position as i32 - length as i32, 32 - length as i32))
}

/// True if there is a form for the operation.
pub(crate) fn has_form(op: IntOp, ty: IntType, inst: &VectorInst) -> bool {
    binary(op, ty).is_some()
        || integer64::has_form(op, ty)
        || integer_saturating::has_form(op, ty)
        || integer_sequences::has_form(op, ty)
        || match (op, ty.width()) {
            (IntOp::Not | IntOp::Neg, _) => true,
            (
                IntOp::MadLo | IntOp::MulHi | IntOp::Abs | IntOp::Popc | IntOp::Div | IntOp::Rem,
                Width::W32,
            ) => true,
            (IntOp::Abs, Width::W16 | Width::W64) | (IntOp::Clz, Width::W32) => true,
            (IntOp::Bfe, Width::W32) => field(inst).is_some(),
            (IntOp::Bfi | IntOp::Brev, Width::W32) => true,
            _ => false,
        }
}

impl Slice<'_, '_> {
    /// Makes an instruction on lanes that is no load or store.
    pub(crate) fn lanes(&mut self, inst: &VectorInst) {
        match inst.op {
            Op::Special(special) => {
                let lanes = (0..SLICE_LANES).map(|n| self.number * SLICE_LANES + n);
                let masks = lanes.filter_map(|lane| super::bits::lane_mask(special, lane));
                let masks: Vec<u8> = masks.flat_map(u32::to_le_bytes).collect();
                let masks = self.c.a.constant(&masks);
                let made = self.copied(masks.into());
                self.put(inst, 0, 0, made);
            }
            Op::Mov(w) => {
                let keeps = support::keeps(inst, &inst.dst[0], self.c.masked);
                for piece in 0..pieces(w) {
                    let made = match inst.src[0] {
                        source @ (Source::Affine(..) | Source::HalfAffine(..)) => {
                            self.formula(source, w, piece)
                        }
                        source if keeps => self.piece_in(source, w, piece),
                        source => self.owned(inst, source, w, piece),
                    };
                    self.put(inst, 0, piece, made);
                }
            }
            Op::Int(op, ty) => self.integer(inst, op, ty),
            Op::Float(op, ty, mode) if Format::of(ty).is_some() => {
                self.halves(inst, op, ty, mode);
            }
            Op::Float(op, ty, mode) => self.float(inst, op, ty, mode),
            Op::Select(w) => self.select(inst, w),
            Op::Extend { from, bits, signed, to } => self.extend(inst, from, bits, signed, to),
            Op::Pack { part: Width::W16, .. } => self.pack_words(inst),
            Op::Unpack { part: Width::W16, .. } => self.unpack_words(inst),
            Op::Pack { .. } => self.pack(inst),
            Op::Unpack { .. } => self.unpack(inst),
            Op::Lop3(table) => self.lop3(inst, table),
            Op::Prmt(mode) => match plain_selector(inst, mode) {
                Some(selector) => self.permute_bytes(inst, selector),
                None => self.permute_by(inst),
            },
            Op::Dp4a(a, b) => self.dot_of_bytes(inst, [a, b]),
            Op::Convert(Convert::Float { from, to, .. })
                if [from, to].into_iter().any(|ty| Format::of(ty).is_some()) =>
            {
                self.convert_halves(inst, from, to);
            }
            Op::Convert(convert) => self.convert(inst, convert),
            Op::Carry { .. } => self.carry(inst),
            Op::ToGeneric(space) | Op::FromGeneric(space) => {
                let window = crate::scalar::integer::window(space).unwrap_or(0);
                let code = match inst.op {
                    Op::ToGeneric(_) => Code::VEX_Vpaddq_ymm_ymm_ymmm256,
                    _ => Code::VEX_Vpsubq_ymm_ymm_ymmm256,
                };
                for piece in 0..pieces(Width::W64) {
                    let a = self.piece_in(inst.src[0], Width::W64, piece);
                    let window = self.constant(window, Width::W64);
                    let to = self.temp();
                    self.op(code, &[to.into(), a.into(), window.into()]);
                    self.put(inst, 0, piece, to);
                }
            }
            Op::Setp(compare, ty) => self.compare(inst, compare, ty),
            Op::Shfl(..) => self.exchange(inst),
            _ => self.unsupported(),
        }
    }

    fn select(&mut self, inst: &VectorInst, w: Width) {
        if let Some(bits) = self.known(inst.src[2]) {
            return self.select_known(inst, w, u32::from(bits));
        }
        let predicate = self.predicate(inst.src[2]);
        for piece in 0..pieces(w) {
            let mask = self.mask_of_width(predicate, w, piece);
            // What is 0 where the other is chosen is masked.
            let masked = match (inst.src[0], inst.src[1]) {
                (other, Source::Imm(0)) => Some((Code::VEX_Vpand_ymm_ymm_ymmm256, other)),
                (Source::Imm(0), other) => Some((Code::VEX_Vpandn_ymm_ymm_ymmm256, other)),
                _ => None,
            };
            if let Some((code, other)) = masked {
                let other = self.piece(other, w, piece);
                let to = self.temp();
                self.op(code, &[to.into(), mask.into(), other]);
                self.put(inst, 0, piece, to);
                continue;
            }
            let b = self.piece_in(inst.src[1], w, piece);
            let a = self.piece(inst.src[0], w, piece);
            let to = self.temp();
            let blend = Code::VEX_Vpblendvb_ymm_ymm_ymmm256_ymm;
            self.op(blend, &[to.into(), b.into(), a, mask.into()]);
            self.put(inst, 0, piece, to);
        }
    }

    /// A choice by a predicate that is known.
    fn select_known(&mut self, inst: &VectorInst, w: Width, bits: u32) {
        let lanes = SLICE_LANES / pieces(w);
        for piece in 0..pieces(w) {
            let here = bits >> (lanes * piece) & ((1 << lanes) - 1);
            let to = if here == 0 || here == (1 << lanes) - 1 {
                self.owned(inst, inst.src[usize::from(here == 0)], w, piece)
            } else {
                let b = self.piece_in(inst.src[1], w, piece);
                let a = self.piece(inst.src[0], w, piece);
                let to = self.temp();
                let (code, to_here, b, bits) = match w {
                    Width::W16 => (Code::VEX_Vpblendw_xmm_xmm_xmmm128_imm8, xmm(to), xmm(b), here),
                    Width::W32 => (Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8, to, b, here),
                    _ => {
                        let pairs = (0..lanes).map(|n| ((here >> n & 1) * 3) << (2 * n)).sum();
                        (Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8, to, b, pairs)
                    }
                };
                let a = match a {
                    X::R(a) if w == Width::W16 => xmm(a).into(),
                    a => a,
                };
                let bits = X::I(i32::from(bits as u8 as i8));
                self.op(code, &[to_here.into(), b.into(), a, bits]);
                to
            };
            self.put(inst, 0, piece, to);
        }
    }

    /// An instruction of two operands, the second maybe in memory.
    fn binary(&mut self, inst: &VectorInst, op: IntOp, code: Code, w: Width) {
        let (mut a, mut b) = (inst.src[0], inst.src[1]);
        let swaps = !matches!(op, IntOp::Sub | IntOp::Shl | IntOp::Shr);
        if swaps && matches!(a, Source::Imm(_)) {
            std::mem::swap(&mut a, &mut b);
        }
        for piece in 0..pieces(w) {
            let first = self.piece_in(a, w, piece);
            let second = self.piece(b, w, piece);
            let to = self.temp();
            self.op(code, &[to.into(), first.into(), second]);
            self.put(inst, 0, piece, to);
        }
    }

    fn integer(&mut self, inst: &VectorInst, op: IntOp, ty: IntType) {
        let w = ty.width();
        if let (IntOp::Shl | IntOp::Shr, Some(Source::Imm(amount)), Width::W32 | Width::W64) =
            (op, inst.src.get(1), w)
            && !(op == IntOp::Shr && ty == IntType::S64)
        {
            self.shift_by(inst, op, ty, *amount);
        } else if let Some(code) = binary(op, ty) {
            self.binary(inst, op, code, w);
        } else if integer64::has_form(op, ty) {
            self.wide(inst, op, ty);
        } else if integer_sequences::has_form(op, ty) {
            self.uncommon(inst, op, ty);
        } else {
            match op {
                IntOp::MadLo => {
                    let a = self.piece_in(inst.src[0], w, 0);
                    let b = self.piece(inst.src[1], w, 0);
                    let to = self.temp();
                    self.op(Code::VEX_Vpmulld_ymm_ymm_ymmm256, &[to.into(), a.into(), b]);
                    let c = self.piece(inst.src[2], w, 0);
                    self.op(Code::VEX_Vpaddd_ymm_ymm_ymmm256, &[to.into(), to.into(), c]);
                    self.put(inst, 0, 0, to);
                }
                IntOp::MulHi => self.multiply_high(inst, ty.signed()),
                IntOp::Not => {
                    for piece in 0..pieces(w) {
                        let a = self.piece_in(inst.src[0], w, piece);
                        let ones = self.constant(u64::MAX, Width::W64);
                        let to = self.temp();
                        let xor = Code::VEX_Vpxor_ymm_ymm_ymmm256;
                        self.op(xor, &[to.into(), a.into(), ones.into()]);
                        self.put(inst, 0, piece, to);
                    }
                }
                IntOp::Neg => {
                    let code = match w {
                        Width::W16 => Code::VEX_Vpsubw_ymm_ymm_ymmm256,
                        Width::W32 => Code::VEX_Vpsubd_ymm_ymm_ymmm256,
                        _ => Code::VEX_Vpsubq_ymm_ymm_ymmm256,
                    };
                    for piece in 0..pieces(w) {
                        let to = self.zero();
                        let a = self.piece(inst.src[0], w, piece);
                        self.op(code, &[to.into(), to.into(), a]);
                        self.put(inst, 0, piece, to);
                    }
                }
                IntOp::Abs if w == Width::W64 => {
                    for piece in 0..pieces(w) {
                        // The sign's bits turn the number over, which is one less than its negative.
                        let (a, sign) = (self.piece_in(inst.src[0], w, piece), self.zero());
                        let greater = Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256;
                        self.op(greater, &[sign.into(), sign.into(), a.into()]);
                        let to = self.temp();
                        let xor = Code::VEX_Vpxor_ymm_ymm_ymmm256;
                        self.op(xor, &[to.into(), a.into(), sign.into()]);
                        let subtract = Code::VEX_Vpsubq_ymm_ymm_ymmm256;
                        self.op(subtract, &[to.into(), to.into(), sign.into()]);
                        self.free(sign);
                        self.put(inst, 0, piece, to);
                    }
                }
                IntOp::Abs => {
                    let code = match w {
                        Width::W16 => Code::VEX_Vpabsw_ymm_ymmm256,
                        _ => Code::VEX_Vpabsd_ymm_ymmm256,
                    };
                    let a = self.piece(inst.src[0], w, 0);
                    let to = self.temp();
                    self.op(code, &[to.into(), a]);
                    self.put(inst, 0, 0, to);
                }
                IntOp::Popc => self.count_ones(inst),
                IntOp::Clz => self.leading_zeros(inst),
                IntOp::Brev => self.reverse_bits(inst),
                IntOp::Bfi => self.insert_bits(inst),
                IntOp::Div | IntOp::Rem => self.divide(inst, op == IntOp::Rem, ty.signed()),
                IntOp::ShfLeftWrap | IntOp::ShfRightWrap
                    if matches!(inst.src[2], Source::Imm(_)) =>
                {
                    self.funnel(inst, op == IntOp::ShfLeftWrap);
                }
                _ if integer_saturating::has_form(op, ty) => self.rare(inst, op, ty),
                IntOp::Bfe => {
                    let Some((up, down)) = field(inst) else { return self.unsupported() };
                    let a = self.piece_in(inst.src[0], w, 0);
                    let to = self.temp();
                    self.op(Code::VEX_Vpslld_ymm_ymm_imm8, &[to.into(), a.into(), X::I(up)]);
                    let shift = if ty.signed() {
                        Code::VEX_Vpsrad_ymm_ymm_imm8
                    } else {
                        Code::VEX_Vpsrld_ymm_ymm_imm8
                    };
                    self.op(shift, &[to.into(), to.into(), X::I(down)]);
                    self.put(inst, 0, 0, to);
                }
                _ => self.unsupported(),
            }
        }
    }

    /// A register of zeros.
    pub(crate) fn zero(&mut self) -> Register {
        let to = self.temp();
        self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[to.into(), to.into(), to.into()]);
        to
    }

    /// A shift by a constant.
    fn shift_by(&mut self, inst: &VectorInst, op: IntOp, ty: IntType, amount: u64) {
        let w = ty.width();
        let signed = ty.signed() && op == IntOp::Shr;
        // Amounts have 32 bits. Those over the width give nothing, or the sign.
        let amount = (amount as u32).min(if signed { w.bits() - 1 } else { w.bits() });
        let code = match (op, signed, w) {
            (IntOp::Shl, _, Width::W32) => Code::VEX_Vpslld_ymm_ymm_imm8,
            (IntOp::Shl, ..) => Code::VEX_Vpsllq_ymm_ymm_imm8,
            (_, true, _) => Code::VEX_Vpsrad_ymm_ymm_imm8,
            (_, false, Width::W32) => Code::VEX_Vpsrld_ymm_ymm_imm8,
            _ => Code::VEX_Vpsrlq_ymm_ymm_imm8,
        };
        for piece in 0..pieces(w) {
            let a = self.piece_in(inst.src[0], w, piece);
            let to = self.temp();
            self.op(code, &[to.into(), a.into(), X::I(amount as i32)]);
            self.put(inst, 0, piece, to);
        }
    }

    /// The upper halves of the products, even and odd lanes apart.
    fn multiply_high(&mut self, inst: &VectorInst, signed: bool) {
        let code = if signed {
            Code::VEX_Vpmuldq_ymm_ymm_ymmm256
        } else {
            Code::VEX_Vpmuludq_ymm_ymm_ymmm256
        };
        let a = self.piece_in(inst.src[0], Width::W32, 0);
        let b = self.piece_in(inst.src[1], Width::W32, 0);
        let (even, odd, other) = (self.temp(), self.temp(), self.temp());
        let shift = Code::VEX_Vpsrlq_ymm_ymm_imm8;
        self.op(code, &[even.into(), a.into(), b.into()]);
        self.op(shift, &[odd.into(), a.into(), X::I(32)]);
        self.op(shift, &[other.into(), b.into(), X::I(32)]);
        self.op(code, &[odd.into(), odd.into(), other.into()]);
        self.op(shift, &[even.into(), even.into(), X::I(32)]);
        let blend = Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8;
        self.op(blend, &[even.into(), even.into(), odd.into(), X::I(0xaa - 0x100)]);
        self.put(inst, 0, 0, even);
    }

    /// `shf.wrap` by a constant.
    fn funnel(&mut self, inst: &VectorInst, left: bool) {
        let Source::Imm(amount) = inst.src[2] else { return self.unsupported() };
        let amount = (amount & 31) as i32;
        let w = Width::W32;
        let to = if amount == 0 {
            let whole = self.piece(inst.src[usize::from(left)], w, 0);
            self.copied(whole)
        } else {
            // As a shift to the left of the upper half.
            let left_by = if left { amount } else { 32 - amount };
            let (lower, upper) =
                (self.piece_in(inst.src[0], w, 0), self.piece_in(inst.src[1], w, 0));
            let (to, down) = (self.temp(), self.temp());
            self.op(Code::VEX_Vpslld_ymm_ymm_imm8, &[to.into(), upper.into(), X::I(left_by)]);
            let right_by = X::I(32 - left_by);
            self.op(Code::VEX_Vpsrld_ymm_ymm_imm8, &[down.into(), lower.into(), right_by]);
            self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[to.into(), to.into(), down.into()]);
            to
        };
        self.put(inst, 0, 0, to);
    }

    /// Bits that are set: by a table of four of them.
    fn count_ones(&mut self, inst: &VectorInst) {
        let table: Vec<u8> = (0..32u32).map(|n| (n & 15).count_ones() as u8).collect();
        let table = self.c.a.constant(&table);
        let a = self.piece_in(inst.src[0], Width::W32, 0);
        let nibbles = self.constant(0x0f0f_0f0f, Width::W32);
        let table = self.copied(table.into());
        let (low, high) = (self.temp(), self.temp());
        let (and, look) = (Code::VEX_Vpand_ymm_ymm_ymmm256, Code::VEX_Vpshufb_ymm_ymm_ymmm256);
        self.op(and, &[low.into(), a.into(), nibbles.into()]);
        self.op(Code::VEX_Vpsrld_ymm_ymm_imm8, &[high.into(), a.into(), X::I(4)]);
        self.op(and, &[high.into(), high.into(), nibbles.into()]);
        self.op(look, &[low.into(), table.into(), low.into()]);
        self.op(look, &[high.into(), table.into(), high.into()]);
        self.op(Code::VEX_Vpaddb_ymm_ymm_ymmm256, &[low.into(), low.into(), high.into()]);
        // Bytes to pairs to fours.
        let ones = self.c.a.constant(&[1; 32]);
        self.op(Code::VEX_Vpmaddubsw_ymm_ymm_ymmm256, &[low.into(), low.into(), ones.into()]);
        let pairs = self.constant(1, Width::W16);
        self.op(Code::VEX_Vpmaddwd_ymm_ymm_ymmm256, &[low.into(), low.into(), pairs.into()]);
        self.put(inst, 0, 0, low);
    }

    /// 32-bit division: doubles hold the quotient exactly enough that cutting it off is right.
    fn divide(&mut self, inst: &VectorInst, remainder: bool, signed: bool) {
        let w = Width::W32;
        let to = self.temp();
        for half in 0..2 {
            let (a, b) = (self.temp(), self.temp());
            for (n, register) in [(0, a), (1, b)] {
                let number = self.half(inst.src[n], half);
                self.double_of(register, number, signed);
            }
            self.op(Code::VEX_Vdivpd_ymm_ymm_ymmm256, &[a.into(), a.into(), b.into()]);
            self.cut(a, b, signed);
            self.join(to, a, half);
            self.free(a);
            self.free(b);
        }
        let divisor = self.piece_in(inst.src[1], w, 0);
        if remainder {
            let multiply = Code::VEX_Vpmulld_ymm_ymm_ymmm256;
            self.op(multiply, &[to.into(), to.into(), divisor.into()]);
            let number = self.piece_in(inst.src[0], w, 0);
            let subtract = Code::VEX_Vpsubd_ymm_ymm_ymmm256;
            self.op(subtract, &[to.into(), number.into(), to.into()]);
        }
        // A division by 0 gives all ones.
        let none = self.zero();
        self.op(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, &[none.into(), none.into(), divisor.into()]);
        self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[to.into(), to.into(), none.into()]);
        self.put(inst, 0, 0, to);
    }

    /// The low half of `from` becomes a half of `to`.
    pub(crate) fn join(&mut self, to: Register, from: Register, half: usize) {
        if half == 0 {
            self.op(Code::VEX_Vmovdqa_xmm_xmmm128, &[xmm(to).into(), xmm(from).into()]);
        } else {
            let code = Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8;
            self.op(code, &[to.into(), to.into(), xmm(from).into(), X::I(1)]);
        }
    }
}
