//! Multi-instruction integer operations on the lanes of a slice: `prmt` by any selector, byte dot
//! products, high halves of products, bit masks and bit fields at any position.

use crate::asm::assembler::X;
use crate::avx2::slice::{Slice, pieces, xmm};
use iced_x86::{Code, Register};
use simt::ir::op::{IntOp, IntType, Round, Width};
use simt::ir::vector::VectorInst;

const ADD: Code = Code::VEX_Vpaddd_ymm_ymm_ymmm256;
const ADD_LONG: Code = Code::VEX_Vpaddq_ymm_ymm_ymmm256;
const SUBTRACT: Code = Code::VEX_Vpsubd_ymm_ymm_ymmm256;
const AND: Code = Code::VEX_Vpand_ymm_ymm_ymmm256;
const OR: Code = Code::VEX_Vpor_ymm_ymm_ymmm256;
const UP_BY: Code = Code::VEX_Vpsllvd_ymm_ymm_ymmm256;
const DOWN_LONG: Code = Code::VEX_Vpsrlq_ymm_ymm_imm8;
const BLEND: Code = Code::VEX_Vpblendvb_ymm_ymm_ymmm256_ymm;

/// The code that multiplies the lower halves of 64-bit lanes.
fn product(signed: bool) -> Code {
    match signed {
        true => Code::VEX_Vpmuldq_ymm_ymm_ymmm256,
        false => Code::VEX_Vpmuludq_ymm_ymm_ymmm256,
    }
}

/// True if there is a form for the operation.
pub(crate) fn has_form(op: IntOp, ty: IntType) -> bool {
    use IntOp::{BmskClamp, BmskWrap, MadHi, Mul24Hi, MulHi, Shl, Shr, SzextClamp, SzextWrap};
    match ty.width() {
        Width::W16 => matches!(op, Shl | Shr),
        Width::W32 => {
            matches!(op, MadHi | Mul24Hi | BmskClamp | BmskWrap | SzextClamp | SzextWrap)
        }
        _ => ty == IntType::U64 && op == MulHi || op == IntOp::Bfi,
    }
}

impl Slice<'_, '_> {
    pub(crate) fn uncommon(&mut self, inst: &VectorInst, op: IntOp, ty: IntType) {
        use IntOp::{BmskClamp, BmskWrap, MadHi, Mul24Hi, MulHi, Shl, Shr, SzextWrap};
        if op == IntOp::Bfi {
            return self.insert_field(inst, ty.width());
        }
        if op == MulHi {
            for piece in 0..pieces(Width::W64) {
                let made = self.long_product_high(inst, piece);
                self.put(inst, 0, piece, made);
            }
            return;
        }
        let made = match op {
            Shl | Shr => self.shift_words(inst, op == Shl, ty.signed()),
            MadHi => {
                let [a, b] = [0, 1].map(|n| self.piece_in(inst.src[n], Width::W32, 0));
                let made = self.products_from(a, b, 32, ty.signed());
                let c = self.piece(inst.src[2], Width::W32, 0);
                self.op(ADD, &[made.into(), made.into(), c]);
                made
            }
            Mul24Hi => {
                let [a, b] = [0, 1].map(|n| self.short_factor(inst, n, ty.signed()));
                self.products_from(a, b, 16, ty.signed())
            }
            BmskClamp | BmskWrap => self.mask_of_bits(inst, op == BmskWrap),
            _ => self.sized(inst, op == SzextWrap, ty.signed()),
        };
        self.put(inst, 0, 0, made);
    }

    /// 32 bits of each product of 32-bit lanes, from that bit on: even and odd lanes apart.
    fn products_from(&mut self, a: Register, b: Register, bit: i32, signed: bool) -> Register {
        let (even, odd, other) = (self.temp(), self.temp(), self.temp());
        self.op(product(signed), &[even.into(), a.into(), b.into()]);
        self.op(DOWN_LONG, &[even.into(), even.into(), X::I(bit)]);
        self.op(DOWN_LONG, &[odd.into(), a.into(), X::I(32)]);
        self.op(DOWN_LONG, &[other.into(), b.into(), X::I(32)]);
        self.op(product(signed), &[odd.into(), odd.into(), other.into()]);
        self.op(Code::VEX_Vpsllq_ymm_ymm_imm8, &[odd.into(), odd.into(), X::I(32 - bit)]);
        let blend = Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8;
        self.op(blend, &[even.into(), even.into(), odd.into(), X::I(0xaa - 0x100)]);
        self.free(odd);
        self.free(other);
        even
    }

    /// The low 24 bits of a source, extended.
    fn short_factor(&mut self, inst: &VectorInst, n: usize, signed: bool) -> Register {
        let from = self.piece_in(inst.src[n], Width::W32, 0);
        let to = self.temp();
        let down = match signed {
            true => Code::VEX_Vpsrad_ymm_ymm_imm8,
            false => Code::VEX_Vpsrld_ymm_ymm_imm8,
        };
        self.op(Code::VEX_Vpslld_ymm_ymm_imm8, &[to.into(), from.into(), X::I(8)]);
        self.op(down, &[to.into(), to.into(), X::I(8)]);
        to
    }

    /// The upper halves of products of 64 bits, without signs: of four products of halves.
    fn long_product_high(&mut self, inst: &VectorInst, piece: usize) -> Register {
        let [a, b] = [0, 1].map(|n| self.piece_in(inst.src[n], Width::W64, piece));
        let times = product(false);
        let [a_high, b_high] = [a, b].map(|from| {
            let to = self.temp();
            self.op(DOWN_LONG, &[to.into(), from.into(), X::I(32)]);
            to
        });
        let low = self.constant(u64::from(u32::MAX), Width::W64);
        let low = self.copied(low.into());
        let (sum, middle, to) = (self.temp(), self.temp(), self.temp());
        // What the lowest product carries into the second.
        self.op(times, &[sum.into(), a.into(), b.into()]);
        self.op(DOWN_LONG, &[sum.into(), sum.into(), X::I(32)]);
        self.op(times, &[middle.into(), a_high.into(), b.into()]);
        self.op(ADD_LONG, &[sum.into(), sum.into(), middle.into()]);
        // The lower half of that and the third have place for one more.
        self.op(times, &[middle.into(), a.into(), b_high.into()]);
        self.op(AND, &[to.into(), sum.into(), low.into()]);
        self.op(ADD_LONG, &[middle.into(), middle.into(), to.into()]);
        self.op(times, &[to.into(), a_high.into(), b_high.into()]);
        for carry in [sum, middle] {
            self.op(DOWN_LONG, &[carry.into(), carry.into(), X::I(32)]);
            self.op(ADD_LONG, &[to.into(), to.into(), carry.into()]);
        }
        [a_high, b_high, low, sum, middle].into_iter().for_each(|register| self.free(register));
        to
    }

    /// Shifts of 16 bits by any amount, as shifts of 32.
    fn shift_words(&mut self, inst: &VectorInst, left: bool, signed: bool) -> Register {
        let a = self.piece_in(inst.src[0], Width::W16, 0);
        let by = self.piece_in(inst.src[1], Width::W32, 0);
        let to = self.temp();
        let (widen, code) = match (left, signed) {
            (true, _) => (Code::VEX_Vpmovzxwd_ymm_xmmm128, UP_BY),
            (_, true) => (Code::VEX_Vpmovsxwd_ymm_xmmm128, Code::VEX_Vpsravd_ymm_ymm_ymmm256),
            _ => (Code::VEX_Vpmovzxwd_ymm_xmmm128, Code::VEX_Vpsrlvd_ymm_ymm_ymmm256),
        };
        self.op(widen, &[to.into(), xmm(a).into()]);
        self.op(code, &[to.into(), to.into(), by.into()]);
        self.lower_words(to, to);
        to
    }

    /// `bmsk`: a number of ones from a bit on, none behind the last.
    fn mask_of_bits(&mut self, inst: &VectorInst, wrap: bool) -> Register {
        let [from, count] = [0, 1].map(|n| self.amount(inst, n, wrap));
        let one = self.constant(1, Width::W32);
        let one = self.copied(one.into());
        let to = self.temp();
        // A shift by all bits leaves nothing, and that less one is everything.
        self.op(UP_BY, &[to.into(), one.into(), count.into()]);
        self.op(SUBTRACT, &[to.into(), to.into(), one.into()]);
        self.op(UP_BY, &[to.into(), to.into(), from.into()]);
        [from, count, one].into_iter().for_each(|register| self.free(register));
        to
    }

    /// A source as an amount in a register of its own, modulo 32 if it wraps.
    fn amount(&mut self, inst: &VectorInst, n: usize, wrap: bool) -> Register {
        let from = self.piece(inst.src[n], Width::W32, 0);
        let to = self.copied(from);
        if wrap {
            let low = self.constant(31, Width::W32);
            self.op(AND, &[to.into(), to.into(), low.into()]);
        }
        to
    }

    /// `szext`: a number of low bits, extended.
    fn sized(&mut self, inst: &VectorInst, wrap: bool, signed: bool) -> Register {
        let count = self.amount(inst, 1, wrap);
        let most = self.constant(32, Width::W32);
        let most = self.copied(most.into());
        self.op(Code::VEX_Vpminud_ymm_ymm_ymmm256, &[count.into(), count.into(), most.into()]);
        self.op(SUBTRACT, &[most.into(), most.into(), count.into()]);
        let a = self.piece_in(inst.src[0], Width::W32, 0);
        let to = self.temp();
        // Of no bits nothing is left, whatever fills from above.
        self.op(UP_BY, &[to.into(), a.into(), most.into()]);
        let down = match signed {
            true => Code::VEX_Vpsravd_ymm_ymm_ymmm256,
            false => Code::VEX_Vpsrlvd_ymm_ymm_ymmm256,
        };
        self.op(down, &[to.into(), to.into(), most.into()]);
        self.free(count);
        self.free(most);
        to
    }

    /// Bits of one source inserted into another from a bit on: `bfi`.
    pub(crate) fn insert_field(&mut self, inst: &VectorInst, width: Width) {
        let long = width == Width::W64;
        let pick = |short: Code, full: Code| if long { full } else { short };
        let up = pick(UP_BY, Code::VEX_Vpsllvq_ymm_ymm_ymmm256);
        let subtract = pick(SUBTRACT, Code::VEX_Vpsubq_ymm_ymm_ymmm256);
        for piece in 0..pieces(width) {
            // The amounts are bytes.
            let [from, count] = [2, 3].map(|n| {
                let to = match long {
                    true => self.widened(inst.src[n], piece, false),
                    false => self.amount(inst, n, false),
                };
                let byte = self.constant(0xff, width);
                self.op(AND, &[to.into(), to.into(), byte.into()]);
                to
            });
            let one = self.constant(1, width);
            let one = self.copied(one.into());
            // A shift by all bits leaves nothing, and that less one is everything.
            self.op(up, &[count.into(), one.into(), count.into()]);
            self.op(subtract, &[count.into(), count.into(), one.into()]);
            self.op(up, &[count.into(), count.into(), from.into()]);
            let a = self.piece_in(inst.src[0], width, piece);
            self.op(up, &[from.into(), a.into(), from.into()]);
            self.op(AND, &[from.into(), from.into(), count.into()]);
            let b = self.piece(inst.src[1], width, piece);
            self.op(Code::VEX_Vpandn_ymm_ymm_ymmm256, &[count.into(), count.into(), b]);
            self.op(OR, &[from.into(), from.into(), count.into()]);
            [one, count].into_iter().for_each(|register| self.free(register));
            self.put(inst, 0, piece, from);
        }
    }

    /// To tf32: what is cut off has been added to before.
    pub(crate) fn tf32(&mut self, inst: &VectorInst, round: Round) {
        const DROPPED: u32 = 0x1fff;
        let w = Width::W32;
        let more = match round {
            Round::Near => DROPPED / 2,
            Round::NearAway => DROPPED / 2 + 1,
            _ => 0,
        };
        let a = self.piece_in(inst.src[0], w, 0);
        let (more, kept) = (self.constant(more.into(), w), self.constant((!DROPPED).into(), w));
        let (to, other) = (self.temp(), self.temp());
        self.op(ADD, &[to.into(), a.into(), more.into()]);
        if round == Round::Near {
            // To the even one, where it is in the middle.
            let one = self.constant(1, w);
            self.op(Code::VEX_Vpsrld_ymm_ymm_imm8, &[other.into(), a.into(), X::I(13)]);
            self.op(AND, &[other.into(), other.into(), one.into()]);
            self.op(ADD, &[to.into(), to.into(), other.into()]);
        }
        let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
        self.op(compare, &[other.into(), a.into(), a.into(), X::I(3)]);
        // Rounded away from zero, a NaN keeps its own digits.
        let instead = match round {
            Round::NearAway => a,
            _ => {
                let nan = self.constant(crate::analysis::nan_demand::NAN.into(), w);
                self.copied(nan.into())
            }
        };
        let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
        self.op(blend, &[to.into(), to.into(), instead.into(), other.into()]);
        self.op(AND, &[to.into(), to.into(), kept.into()]);
        self.put(inst, 0, 0, to);
    }

    /// `dp4a`: bytes at even places, then those at odd ones, as products of words that are added in
    /// pairs.
    pub(crate) fn dot_of_bytes(&mut self, inst: &VectorInst, signed: [bool; 2]) {
        let mut sums = Vec::new();
        for odd in [false, true] {
            let [a, b] = [0, 1].map(|n| {
                let mut from = self.piece_in(inst.src[n], Width::W32, 0);
                let to = self.temp();
                if !odd {
                    self.op(Code::VEX_Vpsllw_ymm_ymm_imm8, &[to.into(), from.into(), X::I(8)]);
                    from = to;
                }
                let down = match signed[n] {
                    true => Code::VEX_Vpsraw_ymm_ymm_imm8,
                    false => Code::VEX_Vpsrlw_ymm_ymm_imm8,
                };
                self.op(down, &[to.into(), from.into(), X::I(8)]);
                to
            });
            self.op(Code::VEX_Vpmaddwd_ymm_ymm_ymmm256, &[a.into(), a.into(), b.into()]);
            self.free(b);
            sums.push(a);
        }
        let (to, other) = (sums[0], sums[1]);
        self.op(ADD, &[to.into(), to.into(), other.into()]);
        let c = self.piece(inst.src[2], Width::W32, 0);
        self.op(ADD, &[to.into(), to.into(), c]);
        self.put(inst, 0, 0, to);
    }

    /// `prmt` by any selector: a number of 4 bits for each byte, of which the lowest two say which
    /// byte, the third of which source, and the highest whether its sign takes all of it.
    pub(crate) fn permute_by(&mut self, inst: &VectorInst) {
        let selector = self.piece_in(inst.src[2], Width::W32, 0);
        let (numbers, other) = (self.temp(), self.temp());
        // A byte for each of the four numbers in the lower half.
        let low = self.constant(0xffff, Width::W32);
        self.op(AND, &[numbers.into(), selector.into(), low.into()]);
        for (up, kept) in [(8, 0x00ff_00ff), (4, 0x0f0f_0f0f)] {
            let kept = self.constant(kept, Width::W32);
            self.op(Code::VEX_Vpslld_ymm_ymm_imm8, &[other.into(), numbers.into(), X::I(up)]);
            self.op(OR, &[numbers.into(), numbers.into(), other.into()]);
            self.op(AND, &[numbers.into(), numbers.into(), kept.into()]);
        }
        // Bytes are found within 16.
        let lane: Vec<u8> = (0..32u8).map(|at| at & 0x0c).collect();
        let lane = self.c.a.constant(&lane);
        let three = self.constant(0x0303_0303, Width::W32);
        self.op(AND, &[other.into(), numbers.into(), three.into()]);
        self.op(OR, &[other.into(), other.into(), lane.into()]);
        let shuffle = Code::VEX_Vpshufb_ymm_ymm_ymmm256;
        let [first, second] = [0, 1].map(|n| {
            let from = self.piece_in(inst.src[n], Width::W32, 0);
            let to = self.temp();
            self.op(shuffle, &[to.into(), from.into(), other.into()]);
            to
        });
        // The bit that chooses becomes the highest of its byte.
        let up = Code::VEX_Vpsllw_ymm_ymm_imm8;
        self.op(up, &[other.into(), numbers.into(), X::I(5)]);
        self.op(BLEND, &[first.into(), first.into(), second.into(), other.into()]);
        self.op(up, &[other.into(), numbers.into(), X::I(4)]);
        self.free(numbers);
        let signs = self.zero();
        let greater = Code::VEX_Vpcmpgtb_ymm_ymm_ymmm256;
        self.op(greater, &[signs.into(), signs.into(), first.into()]);
        self.op(BLEND, &[first.into(), first.into(), signs.into(), other.into()]);
        [second, other, signs].into_iter().for_each(|register| self.free(register));
        self.put(inst, 0, 0, first);
    }

    /// 16-bit lanes as those of 64 bits.
    pub(crate) fn widen_words(&mut self, inst: &VectorInst, signed: bool) {
        let code = match signed {
            true => Code::VEX_Vpmovsxwq_ymm_xmmm64,
            false => Code::VEX_Vpmovzxwq_ymm_xmmm64,
        };
        for piece in 0..pieces(Width::W64) {
            let a = self.piece_in(inst.src[0], Width::W16, 0);
            let to = self.temp();
            // Four words at the start.
            self.op(
                Code::VEX_Vpsrldq_xmm_xmm_imm8,
                &[xmm(to).into(), xmm(a).into(), X::I(8 * piece as i32)],
            );
            self.op(code, &[to.into(), xmm(to).into()]);
            self.put(inst, 0, piece, to);
        }
    }
}
