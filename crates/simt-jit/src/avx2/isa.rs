//! AVX2 as an instruction set of lane-wise operations: a slice of eight 32-bit lanes at a time. What
//! AVX-512 has as one instruction takes several here.

use crate::asm::assembler::X;
use crate::avx2::layout::SLICE_LANES;
use crate::avx2::slice::{Slice, pieces, xmm};
use crate::host::SimdIsa;
use crate::lanewise::codes::LaneCode;
use crate::lanewise::compare::By;
use crate::lanewise::isa::VectorIsa;
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::ir::op::{IntOp, Op, Round, Width};
use simt::ir::vector::{Source, VectorInst};

const ADD: Code = Code::VEX_Vpaddd_ymm_ymm_ymmm256;
const AND: Code = Code::VEX_Vpand_ymm_ymm_ymmm256;
const ANDN: Code = Code::VEX_Vpandn_ymm_ymm_ymmm256;
const OR: Code = Code::VEX_Vpor_ymm_ymm_ymmm256;
const XOR: Code = Code::VEX_Vpxor_ymm_ymm_ymmm256;
const SUBTRACT: Code = Code::VEX_Vpsubd_ymm_ymm_ymmm256;
const SUBTRACT_LONG: Code = Code::VEX_Vpsubq_ymm_ymm_ymmm256;
const DOWN: Code = Code::VEX_Vpsrld_ymm_ymm_imm8;
const DOWN_SIGNED: Code = Code::VEX_Vpsrad_ymm_ymm_imm8;
const DOWN_LONG: Code = Code::VEX_Vpsrlq_ymm_ymm_imm8;
const UP: Code = Code::VEX_Vpslld_ymm_ymm_imm8;
const UP_LONG: Code = Code::VEX_Vpsllq_ymm_ymm_imm8;
const SHUFFLE: Code = Code::VEX_Vpshufb_ymm_ymm_ymmm256;
const BLEND: Code = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
const BLEND_BYTES: Code = Code::VEX_Vpblendvb_ymm_ymm_ymmm256_ymm;
const COMPARE: Code = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;

/// The control word of a thread that rounds so, keeps subnormals and takes no exceptions.
fn control_word(round: Round) -> Option<u32> {
    let mode = match round {
        Round::Near => 0,
        Round::Down => 1,
        Round::Up => 2,
        Round::Zero => 3,
        Round::NearAway => return None,
    };
    Some(0x1f80 | mode << 13)
}

impl VectorIsa for Slice<'_, '_> {
    const ISA: SimdIsa = SimdIsa::Avx2;
    const BYTES: usize = 32;

    fn pieces(&self, w: Width) -> usize {
        pieces(w)
    }

    fn op(&mut self, code: LaneCode, operands: &[X]) {
        self.c.a.op(code.of(SimdIsa::Avx2), operands);
    }

    fn op_rounded(&mut self, code: LaneCode, operands: &[X], round: Round) {
        let before = self.rounding;
        self.round(round);
        VectorIsa::op(self, code, operands);
        self.round(before);
    }

    fn defers_nan(&self, r: Reg) -> bool {
        self.c.nan_deferred[r.index()]
    }

    fn unsupported(&mut self) {
        Slice::unsupported(self);
    }

    fn temp(&mut self) -> Register {
        Slice::temp(self)
    }

    fn free(&mut self, register: Register) {
        Slice::free(self, register);
    }

    fn number(&mut self, bits: u64, w: Width) -> X {
        self.constant(bits, w).into()
    }

    fn bytes(&mut self, byte: impl Fn(u8) -> u8) -> X {
        let bytes: Vec<u8> = (0..32).map(byte).collect();
        self.c.a.constant(&bytes).into()
    }

    fn copied(&mut self, operand: X, _: Width) -> Register {
        Slice::copied(self, operand)
    }

    fn first_lane(&self, _: usize) -> usize {
        self.number * SLICE_LANES
    }

    fn is_in_memory(&self, source: Source) -> bool {
        matches!(source, Source::Imm(_))
    }

    fn source(&mut self, source: Source, w: Width, piece: usize) -> X {
        self.piece(source, w, piece)
    }

    fn source_in(&mut self, source: Source, w: Width, piece: usize) -> Register {
        self.piece_in(source, w, piece)
    }

    fn by_half(&mut self, source: Source, w: Width, piece: usize, code: LaneCode) -> Register {
        let from = match w {
            Width::W16 => xmm(self.piece_in(source, w, 0)).into(),
            _ => self.half(source, piece),
        };
        let to = Slice::temp(self);
        VectorIsa::op(self, code, &[to.into(), from]);
        to
    }

    fn halves(&mut self, source: Source, _: usize, upper: bool) -> Register {
        let low = self.piece_in(source, Width::W64, 0);
        let high = self.piece(source, Width::W64, 1);
        let to = Slice::temp(self);
        self.joined_halves(to, low, high, upper);
        to
    }

    fn narrowed(&mut self, low: Register, high: Register) -> Register {
        self.joined_halves(low, low, high.into(), false);
        Slice::free(self, high);
        low
    }

    fn lower(register: Register) -> Register {
        xmm(register)
    }

    /// There are no conversions of unsigned numbers.
    fn is_below_sign(&self, source: Source) -> bool {
        let Source::Vector(r) = source else { return false };
        let Some(inst) = self.c.writer(r) else { return false };
        let second = match inst.src.get(1) {
            Some(Source::Imm(v)) => *v as u32,
            _ => 0,
        };
        match inst.op {
            Op::Int(IntOp::Shr, ty) => !ty.signed() && second > 0,
            Op::Int(IntOp::And, _) => second >> 31 == 0 && matches!(inst.src[1], Source::Imm(_)),
            Op::Extend { bits, signed, .. } => !signed && bits < 32,
            Op::Load(access) => !access.signed && access.bytes < 4,
            _ => false,
        }
    }

    /// Registers are kept until the instruction is made.
    fn hold(&mut self, register: Register) {
        self.keep(register);
    }

    fn put(&mut self, inst: &VectorInst, n: usize, piece: usize, made: Register) {
        let made = match self.is_scratch(made) {
            true => made,
            false => Slice::copied(self, made.into()),
        };
        Slice::put(self, inst, n, piece, made);
        self.unpin_operands();
    }

    fn put_by(&mut self, inst: &VectorInst, n: usize, piece: usize, code: LaneCode, from: &[X]) {
        let to = match from.first() {
            Some(X::R(register)) if self.is_scratch(*register) => *register,
            _ => Slice::temp(self),
        };
        let all: Vec<X> = std::iter::once(to.into()).chain(from.iter().copied()).collect();
        VectorIsa::op(self, code, &all);
        for operand in from {
            if let X::R(register) = operand
                && *register != to
            {
                Slice::free(self, *register);
            }
        }
        Slice::put(self, inst, n, piece, to);
        self.unpin_operands();
    }

    fn put_words(
        &mut self,
        inst: &VectorInst,
        n: usize,
        mut make: impl FnMut(&mut Self, usize) -> Register,
    ) {
        let made = make(self, 0);
        self.lower_words(made, made);
        Slice::put(self, inst, n, 0, made);
    }

    fn is_zero(&mut self, a: Register, bits: X, w: Width) -> Register {
        let equal = match w {
            Width::W64 => Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256,
            _ => Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
        };
        let to = self.zero();
        match bits {
            X::R(register) if register == a => self.op(equal, &[to.into(), to.into(), a.into()]),
            _ => {
                let here = Slice::temp(self);
                self.op(AND, &[here.into(), a.into(), bits]);
                self.op(equal, &[to.into(), to.into(), here.into()]);
                Slice::free(self, here);
            }
        }
        to
    }

    fn has_bit(&mut self, a: Register, bit: u32) -> Register {
        // Blends look at the highest bit alone.
        let to = Slice::temp(self);
        self.op(UP, &[to.into(), a.into(), X::I(31 - bit as i32)]);
        to
    }

    fn compare(&mut self, a: Register, b: X, condition: i32, w: Width) -> Register {
        let code = if w == Width::W64 { Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8 } else { COMPARE };
        let to = Slice::temp(self);
        self.op(code, &[to.into(), a.into(), b, X::I(condition)]);
        to
    }

    fn affine(&mut self, source: Source, w: Width, piece: usize) -> Register {
        match source {
            Source::Affine(..) | Source::HalfAffine(..) => self.formula(source, w, piece),
            source => self.piece_in(source, w, piece),
        }
    }

    fn compare_piece(&mut self, piece: usize, a: Register, b: X, by: By, w: Width) {
        self.compared[piece] = match by {
            By::Floats(condition) => VectorIsa::compare(self, a, b, condition, w),
            By::Integers(compare, signed) => {
                let b = match b {
                    X::R(b) => b,
                    memory => Slice::copied(self, memory),
                };
                self.compare_integers(a, b, compare, w, signed)
            }
        };
    }

    fn put_compared(&mut self, inst: &VectorInst, w: Width) {
        let [low, high] = self.compared;
        match w {
            Width::W64 => {
                self.narrow_masks(low, high);
                Slice::free(self, high);
            }
            Width::W16 => {
                self.op(Code::VEX_Vpmovsxwd_ymm_xmmm128, &[low.into(), xmm(low).into()]);
            }
            _ => {}
        }
        self.put_predicate(inst, 0, low);
    }

    fn blend(&mut self, to: Register, from: X, mask: Register, w: Width) {
        let code = match w {
            Width::W64 => Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm,
            _ => BLEND,
        };
        self.op(code, &[to.into(), to.into(), from, mask.into()]);
    }

    fn clear(&mut self, to: Register, mask: Register, _: Width) {
        self.op(ANDN, &[to.into(), mask.into(), to.into()]);
    }

    fn fill(&mut self, to: Register, mask: Register, _: Width) {
        self.op(OR, &[to.into(), to.into(), mask.into()]);
    }

    fn free_mask(&mut self, mask: Register) {
        Slice::free(self, mask);
    }

    fn signs(&mut self, a: Register, w: Width) -> Register {
        if w == Width::W64 {
            let to = self.zero();
            self.op(Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256, &[to.into(), to.into(), a.into()]);
            return to;
        }
        let to = Slice::temp(self);
        self.op(DOWN_SIGNED, &[to.into(), a.into(), X::I(31)]);
        to
    }

    fn shift_down(&mut self, a: Register, by: Register, w: Width, signed: bool) -> Register {
        let to = Slice::temp(self);
        let right = Code::VEX_Vpsrlvq_ymm_ymm_ymmm256;
        if w != Width::W64 || !signed {
            let code = match (w, signed) {
                (Width::W64, _) => right,
                (_, true) => Code::VEX_Vpsravd_ymm_ymm_ymmm256,
                (_, false) => Code::VEX_Vpsrlvd_ymm_ymm_ymmm256,
            };
            self.op(code, &[to.into(), a.into(), by.into()]);
            return to;
        }
        // The sign's bit, shifted too, is what has to be spread.
        let (most, sign) = (self.constant(63, w), self.constant(1 << 63, w));
        self.op(Code::VEX_Vpminud_ymm_ymm_ymmm256, &[by.into(), by.into(), most.into()]);
        self.op(right, &[to.into(), a.into(), by.into()]);
        let bit = Slice::copied(self, sign.into());
        self.op(right, &[bit.into(), bit.into(), by.into()]);
        self.op(XOR, &[to.into(), to.into(), bit.into()]);
        self.op(SUBTRACT_LONG, &[to.into(), to.into(), bit.into()]);
        Slice::free(self, bit);
        to
    }

    fn product_long(&mut self, a: Register, b: Register) -> Register {
        let (low, cross, other) = (Slice::temp(self), Slice::temp(self), Slice::temp(self));
        let (multiply, add) =
            (Code::VEX_Vpmuludq_ymm_ymm_ymmm256, Code::VEX_Vpaddq_ymm_ymm_ymmm256);
        self.op(DOWN_LONG, &[cross.into(), a.into(), X::I(32)]);
        self.op(multiply, &[cross.into(), cross.into(), b.into()]);
        self.op(DOWN_LONG, &[other.into(), b.into(), X::I(32)]);
        self.op(multiply, &[other.into(), other.into(), a.into()]);
        self.op(add, &[cross.into(), cross.into(), other.into()]);
        self.op(UP_LONG, &[cross.into(), cross.into(), X::I(32)]);
        self.op(multiply, &[low.into(), a.into(), b.into()]);
        self.op(add, &[low.into(), low.into(), cross.into()]);
        self.free_all([cross, other]);
        low
    }

    fn extreme_long(&mut self, a: Register, b: Register, larger: bool, signed: bool) -> Register {
        let above = self.above(a, b, signed);
        let (yes, no) = if larger { (a, b) } else { (b, a) };
        self.op(BLEND_BYTES, &[above.into(), no.into(), yes.into(), above.into()]);
        above
    }

    fn extended(&mut self, a: Register, w: Width, bits: u8, signed: bool) -> Register {
        if u32::from(bits) == w.bits() {
            return Slice::copied(self, a.into());
        }
        let to = Slice::temp(self);
        if !signed {
            let low = self.constant((1 << bits) - 1, w);
            self.op(AND, &[to.into(), a.into(), low.into()]);
            return to;
        }
        if w != Width::W64 {
            let by = X::I(32 - i32::from(bits));
            self.op(UP, &[to.into(), a.into(), by]);
            self.op(DOWN_SIGNED, &[to.into(), to.into(), by]);
            return to;
        }
        if bits == 32 {
            // The low halves' signs, beside the low halves.
            self.op(DOWN_SIGNED, &[to.into(), a.into(), X::I(31)]);
            self.op(UP_LONG, &[to.into(), to.into(), X::I(32)]);
            let blend = Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8;
            self.op(blend, &[to.into(), to.into(), a.into(), X::I(0x55)]);
            return to;
        }
        // (x ^ s) - s with s the sign's bit, of the bits alone.
        let sign = self.constant(1 << (bits - 1), w);
        let low = self.constant((1 << bits) - 1, w);
        self.op(AND, &[to.into(), a.into(), low.into()]);
        self.op(XOR, &[to.into(), to.into(), sign.into()]);
        self.op(SUBTRACT_LONG, &[to.into(), to.into(), sign.into()]);
        to
    }

    fn odd_lanes(&mut self, to: Register, odd: Register) {
        let blend = Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8;
        self.op(blend, &[to.into(), to.into(), odd.into(), X::I(0xaa - 0x100)]);
    }

    fn choose_bits(&mut self, to: Register, other: Register, mask: Register) {
        self.op(AND, &[to.into(), to.into(), mask.into()]);
        self.op(ANDN, &[mask.into(), mask.into(), other.into()]);
        self.op(OR, &[to.into(), to.into(), mask.into()]);
    }

    fn blend_bytes(&mut self, to: Register, from: Register, by: Register) {
        self.op(BLEND_BYTES, &[to.into(), to.into(), from.into(), by.into()]);
    }

    fn byte_signs(&mut self, a: Register) -> Register {
        let to = self.zero();
        self.op(Code::VEX_Vpcmpgtb_ymm_ymm_ymmm256, &[to.into(), to.into(), a.into()]);
        to
    }

    fn count_ones(&mut self, a: Register, w: Width) -> Register {
        // By a table of four of them.
        let table = self.bytes(|at| (at & 15).count_ones() as u8);
        let nibbles = self.constant(0x0f0f_0f0f, Width::W32);
        let table = Slice::copied(self, table);
        let (low, high) = (Slice::temp(self), Slice::temp(self));
        self.op(AND, &[low.into(), a.into(), nibbles.into()]);
        self.op(DOWN, &[high.into(), a.into(), X::I(4)]);
        self.op(AND, &[high.into(), high.into(), nibbles.into()]);
        self.op(SHUFFLE, &[low.into(), table.into(), low.into()]);
        self.op(SHUFFLE, &[high.into(), table.into(), high.into()]);
        self.op(Code::VEX_Vpaddb_ymm_ymm_ymmm256, &[low.into(), low.into(), high.into()]);
        // Bytes to pairs to fours.
        let ones = self.bytes(|_| 1);
        self.op(Code::VEX_Vpmaddubsw_ymm_ymm_ymmm256, &[low.into(), low.into(), ones]);
        let pairs = self.constant(1, Width::W16);
        self.op(Code::VEX_Vpmaddwd_ymm_ymm_ymmm256, &[low.into(), low.into(), pairs.into()]);
        if w == Width::W64 {
            // To eights, of which the lower half is read.
            self.op(DOWN_LONG, &[high.into(), low.into(), X::I(32)]);
            self.op(ADD, &[low.into(), low.into(), high.into()]);
        }
        self.free_all([table, high]);
        low
    }

    fn leading_zeros(&mut self, a: Register, w: Width) -> Register {
        // By the exponent of the number as a float. Without the bit below the highest one it is never
        // rounded up.
        let to = Slice::temp(self);
        self.op(DOWN, &[to.into(), a.into(), X::I(1)]);
        self.op(ANDN, &[to.into(), to.into(), a.into()]);
        self.op(Code::VEX_Vcvtdq2ps_ymm_ymmm256, &[to.into(), to.into()]);
        self.op(DOWN, &[to.into(), to.into(), X::I(23)]);
        // A sign makes the exponent too large for this difference, which is 0 then.
        let (most, bits) = (self.constant(127 + 31, w), self.constant(32, w));
        let zeros = Slice::copied(self, most.into());
        self.op(Code::VEX_Vpsubusw_ymm_ymm_ymmm256, &[to.into(), zeros.into(), to.into()]);
        self.op(Code::VEX_Vpminsd_ymm_ymm_ymmm256, &[to.into(), to.into(), bits.into()]);
        Slice::free(self, zeros);
        to
    }

    fn reversed(&mut self, a: Register, w: Width) -> Register {
        // Each half of a byte looked up, then the bytes turned round.
        let halves = self.constant(0x0f0f_0f0f, w);
        let halves = Slice::copied(self, halves.into());
        let [high, low] = [0, 4].map(|up| {
            let table = self.bytes(|at| ((at % 16).reverse_bits() >> 4) << up);
            Slice::copied(self, table)
        });
        let to = Slice::temp(self);
        self.op(AND, &[to.into(), a.into(), halves.into()]);
        self.op(SHUFFLE, &[low.into(), low.into(), to.into()]);
        self.op(DOWN, &[to.into(), a.into(), X::I(4)]);
        self.op(AND, &[to.into(), to.into(), halves.into()]);
        self.op(SHUFFLE, &[high.into(), high.into(), to.into()]);
        self.op(OR, &[to.into(), low.into(), high.into()]);
        let swap = self.bytes(|at| at % 16 / 4 * 4 + 3 - at % 4);
        self.op(SHUFFLE, &[to.into(), to.into(), swap]);
        self.free_all([halves, high, low]);
        to
    }

    /// `f0 ^ ((f0 ^ f1) & c)`, where `f0` and `f1` are the functions of two that are left where `c` is 0
    /// and 1.
    fn lookup(&mut self, inst: &VectorInst, _: usize, table: u8) -> Register {
        let w = Width::W32;
        let [a, b] = [0, 1].map(|n| self.piece_in(inst.src[n], w, 0));
        // By a's and b's bits, in the order 00, 01, 10, 11.
        let of_two = |c: u8| (0..4).fold(0, |f, ab| f | (table >> (2 * ab + c) & 1) << ab);
        let (zero, one) = (of_two(0), of_two(1));
        let to = self.function_of_two(a, b, zero);
        let differ = self.function_of_two(a, b, zero ^ one);
        let c = self.piece(inst.src[2], w, 0);
        self.op(AND, &[differ.into(), differ.into(), c]);
        self.op(XOR, &[to.into(), to.into(), differ.into()]);
        Slice::free(self, differ);
        to
    }

    fn rotated(&mut self, _: Source, _: usize, _: i32) -> Option<Register> {
        None
    }

    /// Where a source may be overwritten, the result is made there.
    fn fused(&mut self, inst: &VectorInst, w: Width, piece: usize) -> bool {
        let (times, plus) = match w {
            Width::W64 => {
                (Code::VEX_Vfmadd213pd_ymm_ymm_ymmm256, Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256)
            }
            _ => (Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256, Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256),
        };
        let accumulates = inst.src[2] == Source::Vector(inst.dst[0].reg);
        let to = if accumulates || self.is_spent(inst, inst.src[2], piece) {
            let a = self.piece_in(inst.src[0], w, piece);
            let b = self.piece(inst.src[1], w, piece);
            let to = self.owned(inst, inst.src[2], w, piece);
            self.op(plus, &[to.into(), a.into(), b]);
            to
        } else {
            let (mut a, mut b) = (inst.src[0], inst.src[1]);
            if self.is_spent(inst, b, piece) {
                std::mem::swap(&mut a, &mut b);
            }
            let b = self.piece_in(b, w, piece);
            let c = self.piece(inst.src[2], w, piece);
            let to = self.owned(inst, a, w, piece);
            self.op(times, &[to.into(), b.into(), c]);
            to
        };
        Slice::put(self, inst, 0, piece, to);
        true
    }

    fn flushed(&mut self, a: Register) -> Register {
        let (exponent, magnitude) =
            (self.constant(0x7f80_0000, Width::W32), self.constant(0x7fff_ffff, Width::W32));
        let zero = self.zero();
        let to = self.temp();
        self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[to.into(), a.into(), exponent.into()]);
        self.op(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, &[to.into(), to.into(), zero.into()]);
        self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[to.into(), to.into(), magnitude.into()]);
        self.op(Code::VEX_Vpandn_ymm_ymm_ymmm256, &[to.into(), to.into(), a.into()]);
        self.free(zero);
        to
    }

    fn root_estimate(&mut self, a: Register) -> Register {
        self.unsupported();
        a
    }

    fn lower_f16_as_f32(&mut self, a: Register) {
        self.lower_words(a, a);
        self.op(Code::VEX_Vcvtph2ps_ymm_xmmm128, &[a.into(), xmm(a).into()]);
    }

    fn f32_as_f16(&mut self, a: Register) {
        let narrow = Code::VEX_Vcvtps2ph_xmmm128_ymm_imm8;
        self.op(narrow, &[xmm(a).into(), a.into(), X::I(0)]);
        self.op(Code::VEX_Vpmovzxwd_ymm_xmmm128, &[a.into(), xmm(a).into()]);
    }

    fn scale(&mut self, to: Register, exponents: Register) {
        // In two steps; what the exponent is of a NaN does not matter, for the factor is one.
        let first = Slice::temp(self);
        self.op(Code::VEX_Vcvttps2dq_ymm_ymmm256, &[exponents.into(), exponents.into()]);
        self.op(DOWN_SIGNED, &[first.into(), exponents.into(), X::I(1)]);
        self.op(SUBTRACT, &[exponents.into(), exponents.into(), first.into()]);
        let bias = self.constant(127, Width::W32);
        for exponent in [first, exponents] {
            self.op(ADD, &[exponent.into(), exponent.into(), bias.into()]);
            self.op(UP, &[exponent.into(), exponent.into(), X::I(23)]);
            self.op(Code::VEX_Vmulps_ymm_ymm_ymmm256, &[to.into(), to.into(), exponent.into()]);
        }
        Slice::free(self, first);
    }

    fn mantissas(&mut self, a: Register) -> [Register; 2] {
        let w = Width::W32;
        let [normal, up, down, one] = [f32::MIN_POSITIVE, 16_777_216.0, 24.0, 1.0]
            .map(|value| self.constant(value.to_bits().into(), w));
        let (multiply, subtract) =
            (Code::VEX_Vmulps_ymm_ymm_ymmm256, Code::VEX_Vsubps_ymm_ymm_ymmm256);
        // Where the argument is subnormal.
        let (back, x, exponent) = (Slice::temp(self), Slice::temp(self), Slice::temp(self));
        self.op(COMPARE, &[back.into(), a.into(), normal.into(), X::I(0x11)]);
        self.op(multiply, &[x.into(), a.into(), up.into()]);
        self.op(BLEND, &[x.into(), a.into(), x.into(), back.into()]);
        self.op(AND, &[back.into(), back.into(), down.into()]);
        let first = self.constant(simt_interpreter::tier1_abi::LOG2_FIRST.into(), w);
        self.op(SUBTRACT, &[exponent.into(), x.into(), first.into()]);
        self.op(DOWN_SIGNED, &[exponent.into(), exponent.into(), X::I(23)]);
        let whole = Slice::temp(self);
        self.op(UP, &[whole.into(), exponent.into(), X::I(23)]);
        self.op(SUBTRACT, &[x.into(), x.into(), whole.into()]);
        self.op(subtract, &[x.into(), x.into(), one.into()]);
        self.op(Code::VEX_Vcvtdq2ps_ymm_ymmm256, &[exponent.into(), exponent.into()]);
        self.op(subtract, &[exponent.into(), exponent.into(), back.into()]);
        self.free_all([whole, back]);
        [x, exponent]
    }

    fn special_logarithms(&mut self, a: Register, made: Register) {
        let w = Width::W32;
        let (zero, here) = (self.zero(), Slice::temp(self));
        let [infinity, least] =
            [f32::INFINITY, f32::NEG_INFINITY].map(|v| self.constant(v.to_bits().into(), w));
        let nan = self.constant(simt::analysis::nan_demand::NAN.into(), w);
        // The last: neither 0 nor more, a NaN as well.
        for (with, condition, instead) in
            [(zero.into(), 0, least), (infinity.into(), 0, infinity), (X::from(zero), 0x19, nan)]
        {
            self.op(COMPARE, &[here.into(), a.into(), with, X::I(condition)]);
            self.op(BLEND, &[made.into(), made.into(), instead.into(), here.into()]);
        }
        self.free_all([zero, here]);
    }
}

impl Slice<'_, '_> {
    /// One half of each 64-bit lane of two registers.
    fn joined_halves(&mut self, to: Register, low: Register, high: X, upper: bool) {
        let which = X::I((if upper { 0xdd } else { 0x88 }) - 0x100);
        let shuffle = Code::VEX_Vshufps_ymm_ymm_ymmm256_imm8;
        self.op(shuffle, &[to.into(), low.into(), high, which]);
        let order = X::I(0xd8 - 0x100);
        self.op(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[to.into(), to.into(), order]);
    }

    /// Masks of 64-bit lanes as one of 32-bit lanes, in the first.
    pub(crate) fn narrow_masks(&mut self, low: Register, high: Register) {
        self.joined_halves(low, low, high.into(), false);
    }

    /// The lower words of 32-bit lanes, in the low half of a register.
    pub(crate) fn lower_words(&mut self, to: Register, a: Register) {
        let order = self.bytes(|n| if n & 15 < 8 { (n & 15) / 2 * 4 + n % 2 } else { 0x80 });
        self.op(SHUFFLE, &[to.into(), a.into(), order]);
        self.op(Code::VEX_Vpermq_ymm_ymmm256_imm8, &[to.into(), to.into(), X::I(8)]);
    }

    /// Lanes of 64 bits in which the first is larger.
    pub(crate) fn above(&mut self, a: Register, b: Register, signed: bool) -> Register {
        let to = Slice::temp(self);
        let greater = Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256;
        if signed {
            self.op(greater, &[to.into(), a.into(), b.into()]);
            return to;
        }
        // As signed numbers they are in the same order with the highest bits turned over.
        let sign = self.constant(1 << 63, Width::W64);
        let other = Slice::temp(self);
        self.op(XOR, &[to.into(), a.into(), sign.into()]);
        self.op(XOR, &[other.into(), b.into(), sign.into()]);
        self.op(greater, &[to.into(), to.into(), other.into()]);
        Slice::free(self, other);
        to
    }

    /// A function of two bits by its table, in a register of its own.
    fn function_of_two(&mut self, a: Register, b: Register, table: u8) -> Register {
        // Those that are true of two zeros are the others turned over.
        let inverted = table & 1 != 0;
        let plain = if inverted { !table & 15 } else { table };
        let to = Slice::temp(self);
        let [to_x, a, b]: [X; 3] = [to.into(), a.into(), b.into()];
        match plain {
            0b0000 => self.op(XOR, &[to_x, to_x, to_x]),
            0b1000 => self.op(AND, &[to_x, a, b]),
            0b0100 => self.op(ANDN, &[to_x, b, a]),
            0b0010 => self.op(ANDN, &[to_x, a, b]),
            0b0110 => self.op(XOR, &[to_x, a, b]),
            0b1110 => self.op(OR, &[to_x, a, b]),
            0b1100 => self.op(OR, &[to_x, a, a]),
            _ => self.op(OR, &[to_x, b, b]),
        }
        if inverted {
            let ones = self.constant(u64::MAX, Width::W64);
            self.op(XOR, &[to_x, to_x, ones.into()]);
        }
        to
    }

    /// Changes how the thread rounds, if it does otherwise.
    pub(crate) fn round(&mut self, round: Round) {
        if std::mem::replace(&mut self.rounding, round) == round {
            return;
        }
        let Some(word) = control_word(round) else { return self.unsupported() };
        let word = self.c.a.constant(&word.to_le_bytes());
        self.op(Code::VEX_Vldmxcsr_m32, &[word.into()]);
    }

    /// f32 lanes with NaNs made canonical, in a register of their own.
    pub(crate) fn canonical(&mut self, a: Register) -> Register {
        let nan = self.constant(u64::from(simt::analysis::nan_demand::NAN), Width::W32);
        let to = self.temp();
        let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
        self.op(compare, &[to.into(), a.into(), a.into(), X::I(3)]);
        let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
        self.op(blend, &[to.into(), a.into(), nan.into(), to.into()]);
        to
    }
}
