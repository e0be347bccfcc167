//! Multi-instruction integer operations on 32 lanes: high products, saturating sums, bit fields at
//! any position, counts, dot products, 16-bit lanes in wider ones.

use crate::asm::assembler::{X, at, repeated};
use crate::frame_layout::{K1, LANE_SECONDS, LANE_VALUES, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::host::host_has;
use crate::operands::{Value, move_code, ymm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{IntOp, IntType, Special, Width};
use simt::ir::vector::VectorInst;

const AND: Code = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
const ANDN: Code = Code::EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32;
const OR: Code = Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
const XOR: Code = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
const ADD: Code = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
const SUBTRACT: Code = Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32;
const MULTIPLY: Code = Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32;
const UP: Code = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
const DOWN: Code = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
const DOWN_SIGNED: Code = Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8;

/// The instruction for lanes of 32 or of 64 bits.
fn pick(w: Width, narrow: Code, wide: Code) -> Code {
    if w == Width::W64 { wide } else { narrow }
}

impl Compiler<'_> {
    /// The sources, of a width each has.
    fn values(&mut self, inst: &VectorInst, widths: &[Width]) -> [Value; 3] {
        let mut values = [Value::Same(Z0); 3];
        for ((value, source), width) in values.iter_mut().zip(&inst.src).zip(widths) {
            *value = self.value(*source, *width);
        }
        values
    }

    /// Makes the first result: `make` leaves each part in Z0.
    fn by_parts(&mut self, inst: &VectorInst, w: Width, make: impl Fn(&mut Self, usize)) -> bool {
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(w) {
            make(self, part);
            self.put(&place, part, move_code(w), &[Z0.into()]);
        }
        true
    }

    fn number(&mut self, w: Width, value: i64) -> MemoryOperand {
        repeated(self.a.constant(&value.to_le_bytes()[..w.bytes() as usize]))
    }

    /// All bits of a register set.
    fn ones(&mut self, register: Register) {
        let code = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
        self.a.op(code, &[register.into(), register.into(), register.into(), X::I(-1)]);
    }

    /// A part in a register that may be overwritten.
    fn copy_in(&mut self, value: Value, part: usize, w: Width, to: Register) {
        let register = self.part_in(value, part, w, to);
        if register != to {
            self.a.op(move_code(w), &[to.into(), register.into()]);
        }
    }

    /// Operations that are not a few instructions; false if there is no form.
    pub(crate) fn rare_integer(&mut self, inst: &VectorInst, op: IntOp, ty: IntType) -> bool {
        use IntOp::*;
        let w = ty.width();
        match (op, w) {
            (_, Width::W16) => self.of_sixteen(inst, op, ty.signed()),
            (Popc | Clz, Width::W64) => self.count_wide(inst, op == Popc),
            (Bfind | BfindShift, _) => self.find_bit(inst, op == BfindShift, ty),
            (Bfe, _) => self.extract_bits(inst, ty),
            (Bfi, _) => self.insert_bits_anywhere(inst, w),
            (MulHi, Width::W64) => self.multiply_high(inst, ty.signed()),
            (MadHi, Width::W32) | (Mul24Lo | Mul24Hi | Mad24Lo | Mad24Hi, Width::W32) => {
                self.upper_product(inst, op, ty.signed())
            }
            (AddSat | SubSat, Width::W32) if ty.signed() => self.saturating(inst, op == SubSat),
            (Sad, _) => self.difference_sum(inst, ty),
            (Cnot, _) => self.logical_not(inst, w),
            (ShfLeftWrap | ShfLeftClamp | ShfRightWrap | ShfRightClamp, Width::W32) => {
                self.funnel_by(inst, op)
            }
            (BmskClamp | BmskWrap, _) => self.bit_mask(inst, op == BmskWrap),
            (SzextClamp | SzextWrap, Width::W32) => {
                self.extend_from(inst, op == SzextWrap, ty.signed())
            }
            (Add16x2 | Min16x2 | Max16x2, _) => self.of_pairs(inst, op, ty.signed()),
            _ => false,
        }
    }

    /// `popc` and `clz` of 64-bit lanes: results have 32.
    fn count_wide(&mut self, inst: &VectorInst, ones: bool) -> bool {
        let (code, has) = if ones {
            let has = host_has!("avx512vpopcntdq");
            (Code::EVEX_Vpopcntq_zmm_k1z_zmmm512b64, has)
        } else {
            (Code::EVEX_Vplzcntq_zmm_k1z_zmmm512b64, host_has!("avx512cd"))
        };
        let value = self.value(inst.src[0], Width::W64);
        has && self.by_parts(inst, Width::W32, |this, part| {
            this.narrowed(part, |this, wide, to| {
                let operand = this.part(value, wide);
                this.a.op(code, &[to.into(), operand]);
            });
        })
    }

    /// The low halves of what `make` leaves in its register for two parts of 64-bit lanes, in Z0.
    fn narrowed(&mut self, part: usize, make: impl Fn(&mut Self, usize, Register)) {
        for (half, to) in [(0, Z0), (1, Z1)] {
            make(self, 2 * part + half, to);
            self.a.op(Code::EVEX_Vpmovqd_ymmm256_k1z_zmm, &[ymm(to).into(), to.into()]);
        }
        let join = [Z0.into(), Z0.into(), ymm(Z1).into(), X::I(1)];
        self.a.op(Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, &join);
    }

    /// `bfind`: the place of the highest bit that is not the sign's, or its distance from the top.
    fn find_bit(&mut self, inst: &VectorInst, distance: bool, ty: IntType) -> bool {
        if !host_has!("avx512cd") {
            return false;
        }
        let w = ty.width();
        let value = self.value(inst.src[0], w);
        let count =
            pick(w, Code::EVEX_Vplzcntd_zmm_k1z_zmmm512b32, Code::EVEX_Vplzcntq_zmm_k1z_zmmm512b64);
        let find = |this: &mut Self, part: usize, to: Register| {
            let register = this.part_in(value, part, w, to);
            let mut from = register;
            if ty.signed() {
                let sign = pick(w, DOWN_SIGNED, Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8);
                this.a.op(sign, &[Z2.into(), register.into(), X::I(w.bits() as i32 - 1)]);
                this.a.op(XOR, &[to.into(), register.into(), Z2.into()]);
                from = to;
            }
            this.a.op(count, &[to.into(), from.into()]);
            let most = this.number(w, i64::from(w.bits()));
            if distance {
                let equal = pick(
                    w,
                    Code::EVEX_Vpcmpeqd_kr_k1_zmm_zmmm512b32,
                    Code::EVEX_Vpcmpeqq_kr_k1_zmm_zmmm512b64,
                );
                this.a.op(equal, &[K1.into(), to.into(), most.into()]);
                let ones = pick(
                    w,
                    Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8,
                    Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8,
                );
                let operands = [to.into(), to.into(), to.into(), X::I(-1)];
                this.a.op(ones, &operands).set_op_mask(K1);
            } else {
                // The top's place less the count: below 0 if there is none.
                let subtract = pick(w, SUBTRACT, Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64);
                let top = this.number(w, i64::from(w.bits()) - 1);
                this.copy_in(Value::One(top), 0, w, Z2);
                this.a.op(subtract, &[to.into(), Z2.into(), to.into()]);
            }
        };
        self.by_parts(inst, Width::W32, |this, part| match w {
            Width::W64 => this.narrowed(part, find),
            _ => find(this, part, Z0),
        })
    }

    /// Position and length of a bit field, 8 bits each, in Z1 and Z2.
    fn field(&mut self, inst: &VectorInst, first: usize, part: usize, w: Width) {
        let low = self.number(w, 0xff);
        for (n, to) in [(first, Z1), (first + 1, Z2)] {
            let register = match w {
                Width::W64 => self.widened(inst.src[n], part, false, to),
                _ => {
                    let value = self.value(inst.src[n], Width::W32);
                    self.part_in(value, part, Width::W32, to)
                }
            };
            let and = pick(w, AND, Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64);
            self.a.op(and, &[to.into(), register.into(), low.into()]);
        }
    }

    /// `bfe`: up until the field's last bit that there is stands at the top, then down.
    fn extract_bits(&mut self, inst: &VectorInst, ty: IntType) -> bool {
        let w = ty.width();
        let value = self.value(inst.src[0], w);
        let add = pick(w, ADD, Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64);
        let xor = pick(w, XOR, Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64);
        let least = pick(
            w,
            Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
            Code::EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64,
        );
        let empty = pick(
            w,
            Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32,
            Code::EVEX_Vptestnmq_kr_k1_zmm_zmmm512b64,
        );
        let up = pick(
            w,
            Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
            Code::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64,
        );
        let down = match ty.signed() {
            true => pick(
                w,
                Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64,
            ),
            false => pick(
                w,
                Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64,
            ),
        };
        self.by_parts(inst, w, |this, part| {
            this.field(inst, 1, part, w);
            this.a.op(empty, &[K1.into(), Z2.into(), Z2.into()]);
            let (minus, top) = (this.number(w, -1), this.number(w, i64::from(w.bits()) - 1));
            this.a.op(add, &[Z3.into(), Z1.into(), Z2.into()]);
            this.a.op(add, &[Z3.into(), Z3.into(), minus.into()]);
            this.a.op(least, &[Z3.into(), Z3.into(), top.into()]);
            // Its distance from the top, at most all bits of it.
            this.a.op(xor, &[Z3.into(), Z3.into(), top.into()]);
            let register = this.part_in(value, part, w, Z0);
            this.a.op(up, &[Z0.into(), register.into(), Z3.into()]);
            this.a.op(add, &[Z3.into(), Z3.into(), Z1.into()]);
            this.a.op(down, &[Z0.into(), Z0.into(), Z3.into()]);
            this.a.op(xor, &[Z0.into(), Z0.into(), Z0.into()]).set_op_mask(K1);
        })
    }

    /// `bfi`.
    fn insert_bits_anywhere(&mut self, inst: &VectorInst, w: Width) -> bool {
        let (a, b) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
        let up = pick(
            w,
            Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
            Code::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64,
        );
        self.by_parts(inst, w, |this, part| {
            this.field(inst, 2, part, w);
            this.ones(Z3);
            this.a.op(up, &[Z2.into(), Z3.into(), Z2.into()]);
            // Ones as many as are inserted, at their place: none where that is outside.
            this.a.op(XOR, &[Z2.into(), Z2.into(), Z3.into()]);
            this.a.op(up, &[Z2.into(), Z2.into(), Z1.into()]);
            let register = this.part_in(a, part, w, Z0);
            this.a.op(up, &[Z0.into(), register.into(), Z1.into()]);
            let base = this.part_in(b, part, w, Z1);
            // The third's bit chooses: the first's or the second's.
            let choose = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
            this.a.op(choose, &[Z0.into(), base.into(), Z2.into(), X::I(0xe4u8 as i8 as i32)]);
        })
    }

    /// The upper halves of products of 64-bit lanes, from four products of halves.
    fn multiply_high(&mut self, inst: &VectorInst, signed: bool) -> bool {
        let w = Width::W64;
        let [a, b, _] = self.values(inst, &[w, w]);
        let multiply = Code::EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64;
        let down = Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8;
        let add = Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
        self.by_parts(inst, w, |this, part| {
            let first = this.part_in(a, part, w, Z2);
            let second = this.part_in(b, part, w, Z3);
            this.a.op(multiply, &[Z0.into(), first.into(), second.into()]);
            this.a.op(down, &[Z0.into(), Z0.into(), X::I(32)]);
            this.a.op(down, &[Z1.into(), first.into(), X::I(32)]);
            this.a.op(multiply, &[Z1.into(), Z1.into(), second.into()]);
            this.a.op(add, &[Z0.into(), Z0.into(), Z1.into()]);
            // The low half of that goes with the other product across; the high one counts now.
            let low = this.number(w, 0xffff_ffff);
            this.a.op(down, &[Z1.into(), second.into(), X::I(32)]);
            this.a.op(multiply, &[Z1.into(), Z1.into(), first.into()]);
            let kept = at(Register::RSP, LANE_SECONDS);
            this.a.op(Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm, &[kept.into(), Z0.into()]);
            let and = Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64;
            this.a.op(and, &[Z0.into(), Z0.into(), low.into()]);
            this.a.op(add, &[Z1.into(), Z1.into(), Z0.into()]);
            this.a.op(down, &[Z1.into(), Z1.into(), X::I(32)]);
            this.a.op(down, &[Z0.into(), kept.into(), X::I(32)]);
            this.a.op(add, &[Z0.into(), Z0.into(), Z1.into()]);
            this.a.op(down, &[Z2.into(), first.into(), X::I(32)]);
            this.a.op(down, &[Z3.into(), second.into(), X::I(32)]);
            this.a.op(multiply, &[Z2.into(), Z2.into(), Z3.into()]);
            this.a.op(add, &[Z0.into(), Z0.into(), Z2.into()]);
            if !signed {
                return;
            }
            // Each factor below zero was taken for one that is 2^64 more.
            let subtract = Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64;
            let sign = Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8;
            for (negative, other) in [(a, b), (b, a)] {
                let register = this.part_in(negative, part, w, Z2);
                this.a.op(sign, &[Z2.into(), register.into(), X::I(63)]);
                let operand = this.part_in(other, part, w, Z3);
                this.a.op(and, &[Z2.into(), Z2.into(), operand.into()]);
                this.a.op(subtract, &[Z0.into(), Z0.into(), Z2.into()]);
            }
        })
    }

    /// `mad.hi`, and products of 24 bits: the upper or lower 32 bits, maybe with a sum.
    fn upper_product(&mut self, inst: &VectorInst, op: IntOp, signed: bool) -> bool {
        let w = Width::W32;
        let [a, b, c] = self.values(inst, &[w, w, w]);
        let short = op != IntOp::MadHi;
        let low = matches!(op, IntOp::Mul24Lo | IntOp::Mad24Lo);
        let sum = matches!(op, IntOp::MadHi | IntOp::Mad24Lo | IntOp::Mad24Hi);
        let multiply = match signed {
            true => Code::EVEX_Vpmuldq_zmm_k1z_zmm_zmmm512b64,
            false => Code::EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64,
        };
        let by = X::I(if short { 16 } else { 32 });
        self.in_eax = None;
        let down = Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8;
        self.by_parts(inst, w, |this, part| {
            let mut factors = [Z2, Z3];
            for (factor, value) in factors.iter_mut().zip([a, b]) {
                let register = this.part_in(value, part, w, *factor);
                if short {
                    let back = if signed { DOWN_SIGNED } else { DOWN };
                    this.a.op(UP, &[(*factor).into(), register.into(), X::I(8)]);
                    this.a.op(back, &[(*factor).into(), (*factor).into(), X::I(8)]);
                } else {
                    *factor = register;
                }
            }
            let [first, second] = factors;
            if low {
                this.a.op(MULTIPLY, &[Z0.into(), first.into(), second.into()]);
            } else {
                this.a.op(multiply, &[Z0.into(), first.into(), second.into()]);
                this.a.op(down, &[Z0.into(), Z0.into(), by]);
                this.a.op(down, &[Z1.into(), first.into(), X::I(32)]);
                this.a.op(down, &[Z3.into(), second.into(), X::I(32)]);
                this.a.op(multiply, &[Z1.into(), Z1.into(), Z3.into()]);
                if short {
                    let up = Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8;
                    this.a.op(up, &[Z1.into(), Z1.into(), by]);
                }
                this.a.op(Code::Mov_r32_imm32, &[Register::EAX.into(), X::I(0xaaaa)]);
                this.a.op(Code::VEX_Kmovd_kr_r32, &[K1.into(), Register::EAX.into()]);
                let blend = Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512;
                this.a.op(blend, &[Z0.into(), Z1.into()]).set_op_mask(K1);
            }
            if sum {
                let third = this.part(c, part);
                this.a.op(ADD, &[Z0.into(), Z0.into(), third]);
            }
        })
    }

    /// `add.sat` and `sub.sat` of signed lanes.
    fn saturating(&mut self, inst: &VectorInst, subtract: bool) -> bool {
        let w = Width::W32;
        let [a, b, _] = self.values(inst, &[w, w]);
        self.by_parts(inst, w, |this, part| {
            let first = this.part_in(a, part, w, Z1);
            let second = this.part_in(b, part, w, Z2);
            let code = if subtract { SUBTRACT } else { ADD };
            this.a.op(code, &[Z0.into(), first.into(), second.into()]);
            // It has wrapped where its sign is neither's; of a difference, not the first's, and
            // the others' differ.
            this.a.op(XOR, &[Z3.into(), first.into(), Z0.into()]);
            let other = if subtract { first } else { Z0 };
            this.a.op(XOR, &[Z2.into(), second.into(), other.into()]);
            this.a.op(AND, &[Z3.into(), Z3.into(), Z2.into()]);
            this.a.op(Code::EVEX_Vpmovd2m_kr_zmm, &[K1.into(), Z3.into()]);
            let most = this.number(w, i64::from(i32::MAX));
            this.a.op(DOWN_SIGNED, &[Z1.into(), first.into(), X::I(31)]);
            this.a.op(XOR, &[Z0.into(), Z1.into(), most.into()]).set_op_mask(K1);
        })
    }

    /// `sad`.
    fn difference_sum(&mut self, inst: &VectorInst, ty: IntType) -> bool {
        let w = ty.width();
        let [a, b, c] = self.values(inst, &[w, w, w]);
        let (least, most) = match ty {
            IntType::U32 => (
                Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
            ),
            IntType::S32 => (
                Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
            ),
            IntType::U64 => (
                Code::EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64,
                Code::EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64,
            ),
            IntType::S64 => (
                Code::EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64,
                Code::EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64,
            ),
            IntType::U16 | IntType::S16 => return false,
        };
        let subtract = pick(w, SUBTRACT, Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64);
        let add = pick(w, ADD, Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64);
        self.by_parts(inst, w, |this, part| {
            let first = this.part_in(a, part, w, Z1);
            let second = this.part_in(b, part, w, Z2);
            this.a.op(most, &[Z0.into(), first.into(), second.into()]);
            this.a.op(least, &[Z3.into(), first.into(), second.into()]);
            this.a.op(subtract, &[Z0.into(), Z0.into(), Z3.into()]);
            let third = this.part(c, part);
            this.a.op(add, &[Z0.into(), Z0.into(), third]);
        })
    }

    /// `cnot`: 1 where there is 0.
    fn logical_not(&mut self, inst: &VectorInst, w: Width) -> bool {
        let value = self.value(inst.src[0], w);
        let zero = pick(
            w,
            Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32,
            Code::EVEX_Vptestnmq_kr_k1_zmm_zmmm512b64,
        );
        let put =
            pick(w, Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64);
        self.by_parts(inst, w, |this, part| {
            let register = this.part_in(value, part, w, Z0);
            this.a.op(zero, &[K1.into(), register.into(), register.into()]);
            let one = this.a.constant(&1u64.to_le_bytes());
            let made = this.a.op(put, &[Z0.into(), one.into()]);
            made.set_op_mask(K1);
            made.set_zeroing_masking(true);
        })
    }

    /// `shf` by any amount: a shift by all bits leaves nothing.
    fn funnel_by(&mut self, inst: &VectorInst, op: IntOp) -> bool {
        use IntOp::{ShfLeftClamp, ShfLeftWrap, ShfRightWrap};
        let w = Width::W32;
        let [low, high, amount] = self.values(inst, &[w, w, w]);
        let left = matches!(op, ShfLeftWrap | ShfLeftClamp);
        let wrap = matches!(op, ShfLeftWrap | ShfRightWrap);
        let up = Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32;
        let down = Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32;
        self.by_parts(inst, w, |this, part| {
            let (limit, code) = match wrap {
                true => (this.number(w, 31), AND),
                false => (this.number(w, 32), Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32),
            };
            let register = this.part_in(amount, part, w, Z2);
            this.a.op(code, &[Z2.into(), register.into(), limit.into()]);
            let all = this.number(w, 32);
            this.copy_in(Value::One(all), 0, w, Z3);
            this.a.op(SUBTRACT, &[Z3.into(), Z3.into(), Z2.into()]);
            let (above, below) = if left { (Z2, Z3) } else { (Z3, Z2) };
            let upper = this.part_in(high, part, w, Z0);
            this.a.op(up, &[Z0.into(), upper.into(), above.into()]);
            let lower = this.part_in(low, part, w, Z1);
            this.a.op(down, &[Z1.into(), lower.into(), below.into()]);
            this.a.op(OR, &[Z0.into(), Z0.into(), Z1.into()]);
        })
    }

    /// `bmsk`: a number of ones from a bit on.
    fn bit_mask(&mut self, inst: &VectorInst, wrap: bool) -> bool {
        let w = Width::W32;
        let [position, length, _] = self.values(inst, &[w, w]);
        let up = Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32;
        self.by_parts(inst, w, |this, part| {
            // Beyond the width it makes no difference how far.
            let (limit, code) = match wrap {
                true => (this.number(w, 31), AND),
                false => (this.number(w, 64), Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32),
            };
            for (value, to) in [(position, Z1), (length, Z2)] {
                let register = this.part_in(value, part, w, to);
                this.a.op(code, &[to.into(), register.into(), limit.into()]);
            }
            this.ones(Z3);
            this.a.op(ADD, &[Z2.into(), Z2.into(), Z1.into()]);
            this.a.op(up, &[Z0.into(), Z3.into(), Z1.into()]);
            this.a.op(up, &[Z2.into(), Z3.into(), Z2.into()]);
            this.a.op(ANDN, &[Z0.into(), Z2.into(), Z0.into()]);
        })
    }

    /// `szext`: a number of low bits, sign- or zero-extended.
    fn extend_from(&mut self, inst: &VectorInst, wrap: bool, signed: bool) -> bool {
        let w = Width::W32;
        let [value, bits, _] = self.values(inst, &[w, w]);
        let up = Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32;
        let down = match signed {
            true => Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
            false => Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
        };
        self.by_parts(inst, w, |this, part| {
            let (limit, code) = match wrap {
                true => (this.number(w, 31), AND),
                false => (this.number(w, 32), Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32),
            };
            let register = this.part_in(bits, part, w, Z2);
            this.a.op(code, &[Z2.into(), register.into(), limit.into()]);
            let all = this.number(w, 32);
            this.copy_in(Value::One(all), 0, w, Z3);
            this.a.op(SUBTRACT, &[Z3.into(), Z3.into(), Z2.into()]);
            let register = this.part_in(value, part, w, Z0);
            this.a.op(up, &[Z0.into(), register.into(), Z3.into()]);
            this.a.op(down, &[Z0.into(), Z0.into(), Z3.into()]);
        })
    }

    /// Two numbers of 16 bits in each 32-bit lane.
    fn of_pairs(&mut self, inst: &VectorInst, op: IntOp, signed: bool) -> bool {
        let w = Width::W32;
        let [a, b, _] = self.values(inst, &[w, w]);
        let code = match (op, signed) {
            (IntOp::Add16x2, _) => Code::EVEX_Vpaddw_zmm_k1z_zmm_zmmm512,
            (IntOp::Min16x2, true) => Code::EVEX_Vpminsw_zmm_k1z_zmm_zmmm512,
            (IntOp::Min16x2, false) => Code::EVEX_Vpminuw_zmm_k1z_zmm_zmmm512,
            (_, true) => Code::EVEX_Vpmaxsw_zmm_k1z_zmm_zmmm512,
            (_, false) => Code::EVEX_Vpmaxuw_zmm_k1z_zmm_zmmm512,
        };
        self.by_parts(inst, w, |this, part| {
            let first = this.part_in(a, part, w, Z0);
            let second = this.part_in(b, part, w, Z1);
            this.a.op(code, &[Z0.into(), first.into(), second.into()]);
        })
    }

    /// Operations on 16-bit lanes, as on 32-bit ones.
    fn of_sixteen(&mut self, inst: &VectorInst, op: IntOp, signed: bool) -> bool {
        use IntOp::{Abs, Clz, Div, MadLo, MadWide, MulWide, Popc, Rem, Shl, Shr};
        let (narrow, w) = (Width::W16, Width::W32);
        match op {
            MulWide | MadWide => {
                let [a, b, c] = self.values(inst, &[narrow, narrow, w]);
                self.by_parts(inst, w, |this, part| {
                    this.sixteen_wide(a, part, signed, Z0);
                    this.sixteen_wide(b, part, signed, Z1);
                    this.a.op(MULTIPLY, &[Z0.into(), Z0.into(), Z1.into()]);
                    if op == MadWide {
                        let third = this.part(c, part);
                        this.a.op(ADD, &[Z0.into(), Z0.into(), third]);
                    }
                })
            }
            MadLo => {
                let [a, b, c] = self.values(inst, &[narrow; 3]);
                self.by_parts(inst, narrow, |this, part| {
                    let first = this.part_in(a, part, narrow, Z0);
                    let second = this.part_in(b, part, narrow, Z1);
                    let multiply = Code::EVEX_Vpmullw_zmm_k1z_zmm_zmmm512;
                    this.a.op(multiply, &[Z0.into(), first.into(), second.into()]);
                    let third = this.part_in(c, part, narrow, Z1);
                    let add = Code::EVEX_Vpaddw_zmm_k1z_zmm_zmmm512;
                    this.a.op(add, &[Z0.into(), Z0.into(), third.into()]);
                })
            }
            Abs => {
                let value = self.value(inst.src[0], narrow);
                self.by_parts(inst, narrow, |this, part| {
                    let register = this.part_in(value, part, narrow, Z0);
                    this.a.op(Code::EVEX_Vpabsw_zmm_k1z_zmmm512, &[Z0.into(), register.into()]);
                })
            }
            Shl | Shr => {
                let [value, amount, _] = self.values(inst, &[narrow, w]);
                let code = match (op, signed) {
                    (Shl, _) => Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
                    (_, true) => Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
                    _ => Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
                };
                self.by_halves(inst, |this, part| {
                    this.sixteen_wide(value, part, signed, Z0);
                    let by = this.part(amount, part);
                    this.a.op(code, &[Z0.into(), Z0.into(), by]);
                });
                true
            }
            Popc | Clz => {
                let (code, has) = if op == Popc {
                    let has = host_has!("avx512vpopcntdq");
                    (Code::EVEX_Vpopcntd_zmm_k1z_zmmm512b32, has)
                } else {
                    (Code::EVEX_Vplzcntd_zmm_k1z_zmmm512b32, host_has!("avx512cd"))
                };
                let value = self.value(inst.src[0], narrow);
                has && self.by_parts(inst, w, |this, part| {
                    this.sixteen_wide(value, part, false, Z0);
                    this.a.op(code, &[Z0.into(), Z0.into()]);
                    if op == Clz {
                        let more = this.number(w, 16);
                        this.a.op(SUBTRACT, &[Z0.into(), Z0.into(), more.into()]);
                    }
                })
            }
            Div | Rem => {
                let [a, b, _] = self.values(inst, &[narrow, narrow]);
                self.by_halves(inst, |this, part| {
                    this.sixteen_wide(a, part, signed, Z0);
                    this.sixteen_wide(b, part, signed, Z1);
                    // As f32 numbers: exact, and quotients of them are cut off rightly.
                    let single = Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er;
                    this.a.op(single, &[Z2.into(), Z0.into()]);
                    this.a.op(single, &[Z3.into(), Z1.into()]);
                    let divide = Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er;
                    this.a.op(divide, &[Z2.into(), Z2.into(), Z3.into()]);
                    let cut = Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae;
                    this.a.op(cut, &[Z2.into(), Z2.into()]);
                    if op == Rem {
                        this.a.op(MULTIPLY, &[Z2.into(), Z2.into(), Z1.into()]);
                        this.a.op(SUBTRACT, &[Z2.into(), Z0.into(), Z2.into()]);
                    }
                    // A division by 0 gives all ones.
                    let zero = Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32;
                    this.a.op(zero, &[K1.into(), Z1.into(), Z1.into()]);
                    let ones = Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8;
                    let operands = [Z2.into(), Z2.into(), Z2.into(), X::I(-1)];
                    this.a.op(ones, &operands).set_op_mask(K1);
                    this.a.op(move_code(w), &[Z0.into(), Z2.into()]);
                });
                true
            }
            _ => false,
        }
    }

    /// Sixteen 16-bit lanes as 32-bit ones.
    fn sixteen_wide(&mut self, value: Value, part: usize, signed: bool, to: Register) {
        let half = self.half(value, part, to);
        let code = match signed {
            true => Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256,
            false => Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256,
        };
        self.a.op(code, &[to.into(), half]);
    }

    /// `dp4a`: bytes at even places, then those at odd ones, as products of words that are added
    /// in pairs.
    pub(crate) fn dot_of_bytes(&mut self, inst: &VectorInst, a_signed: bool, b_signed: bool) {
        let w = Width::W32;
        let [a, b, c] = self.values(inst, &[w, w, w]);
        let sum = Code::EVEX_Vpmaddwd_zmm_k1z_zmm_zmmm512;
        self.by_parts(inst, w, |this, part| {
            for odd in [false, true] {
                for (value, signed, to) in [(a, a_signed, Z1), (b, b_signed, Z2)] {
                    let mut from = this.part_in(value, part, w, to);
                    if !odd {
                        let up = Code::EVEX_Vpsllw_zmm_k1z_zmmm512_imm8;
                        this.a.op(up, &[to.into(), from.into(), X::I(8)]);
                        from = to;
                    }
                    let down = match signed {
                        true => Code::EVEX_Vpsraw_zmm_k1z_zmmm512_imm8,
                        false => Code::EVEX_Vpsrlw_zmm_k1z_zmmm512_imm8,
                    };
                    this.a.op(down, &[to.into(), from.into(), X::I(8)]);
                }
                let to = if odd { Z1 } else { Z0 };
                this.a.op(sum, &[to.into(), Z1.into(), Z2.into()]);
            }
            this.a.op(ADD, &[Z0.into(), Z0.into(), Z1.into()]);
            let third = this.part(c, part);
            this.a.op(ADD, &[Z0.into(), Z0.into(), third]);
        });
    }

    /// `dp2a`: two halves of `a` times two bytes of `b`, the upper ones if `high`.
    pub(crate) fn dot_of_halves(
        &mut self,
        inst: &VectorInst,
        a_signed: bool,
        b_signed: bool,
        high: bool,
    ) {
        let w = Width::W32;
        let [a, b, c] = self.values(inst, &[w, w, w]);
        let down = |signed: bool| if signed { DOWN_SIGNED } else { DOWN };
        self.by_parts(inst, w, |this, part| {
            this.copy_in(c, part, w, Z0);
            for n in 0..2 {
                let byte = n + if high { 2 } else { 0 };
                let [first, second] =
                    [(a, Z1), (b, Z2)].map(|(v, to)| this.part_in(v, part, w, to));
                this.a.op(UP, &[Z1.into(), first.into(), X::I(16 * (1 - n))]);
                this.a.op(down(a_signed), &[Z1.into(), Z1.into(), X::I(16)]);
                this.a.op(UP, &[Z2.into(), second.into(), X::I(8 * (3 - byte))]);
                this.a.op(down(b_signed), &[Z2.into(), Z2.into(), X::I(24)]);
                this.a.op(MULTIPLY, &[Z1.into(), Z1.into(), Z2.into()]);
                this.a.op(ADD, &[Z0.into(), Z0.into(), Z1.into()]);
            }
        });
    }

    /// One register of several of 16-bit lanes, the lowest first; false if there is no form.
    pub(crate) fn pack_halves(&mut self, inst: &VectorInst, whole: Width) -> bool {
        match whole {
            Width::W32 => {
                let [low, high, _] = self.values(inst, &[Width::W16; 2]);
                self.by_parts(inst, whole, |this, part| {
                    this.sixteen_wide(low, part, false, Z0);
                    this.sixteen_wide(high, part, false, Z1);
                    this.a.op(UP, &[Z1.into(), Z1.into(), X::I(16)]);
                    this.a.op(OR, &[Z0.into(), Z0.into(), Z1.into()]);
                })
            }
            Width::W64 => {
                // Eight lanes at a time out of memory.
                for (n, source) in inst.src.iter().enumerate() {
                    let value = self.value(*source, Width::W16);
                    let register = self.part_in(value, 0, Width::W16, Z0);
                    let to = at(Register::RSP, LANE_VALUES + 64 * n as i32);
                    let store = Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm;
                    self.a.op(store, &[to.into(), register.into()]);
                }
                let count = inst.src.len() as i32;
                self.by_parts(inst, whole, |this, part| {
                    for n in 0..count {
                        let from = at(Register::RSP, LANE_VALUES + 64 * n + 16 * part as i32);
                        let to = if n == 0 { Z0 } else { Z1 };
                        let widen = Code::EVEX_Vpmovzxwq_zmm_k1z_xmmm128;
                        this.a.op(widen, &[to.into(), from.into()]);
                        if n > 0 {
                            let up = Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8;
                            this.a.op(up, &[Z1.into(), Z1.into(), X::I(16 * n)]);
                            this.a.op(OR, &[Z0.into(), Z0.into(), Z1.into()]);
                        }
                    }
                })
            }
            _ => false,
        }
    }

    /// The reverse.
    pub(crate) fn unpack_halves(&mut self, inst: &VectorInst, whole: Width) -> bool {
        if !matches!(whole, Width::W32 | Width::W64) {
            return false;
        }
        let value = self.value(inst.src[0], whole);
        for n in 0..inst.dst.len() {
            let by = X::I(16 * n as i32);
            if whole == Width::W32 {
                self.result_by_halves(inst, n, |this, part| {
                    let register = this.part_in(value, part, whole, Z0);
                    this.a.op(DOWN, &[Z0.into(), register.into(), by]);
                });
                continue;
            }
            let kept = |part: usize| at(Register::RSP, LANE_SECONDS + 16 * part as i32);
            let place = self.dest(inst, &inst.dst[n]);
            for part in 0..self.parts(whole) {
                let register = self.part_in(value, part, whole, Z0);
                let down = Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8;
                self.a.op(down, &[Z0.into(), register.into(), by]);
                self.a.op(Code::EVEX_Vpmovqw_xmmm128_k1z_zmm, &[kept(part).into(), Z0.into()]);
            }
            self.put(&place, 0, move_code(Width::W16), &[kept(0).into()]);
        }
        true
    }

    /// The masks of lanes by their numbers; false for other special registers.
    pub(crate) fn lane_masks(&mut self, inst: &VectorInst, special: Special) -> bool {
        let mask = |lane: u32| {
            let bit = 1u32 << lane;
            Some(match special {
                Special::LanemaskEq => bit,
                Special::LanemaskLe => bit | (bit - 1),
                Special::LanemaskLt => bit - 1,
                Special::LanemaskGe => !(bit - 1),
                Special::LanemaskGt => !(bit | (bit - 1)),
                _ => return None,
            })
        };
        let Some(masks) = (0..32).map(mask).collect::<Option<Vec<u32>>>() else { return false };
        let place = self.dest(inst, &inst.dst[0]);
        for (part, masks) in masks.chunks(16).enumerate() {
            let bytes: Vec<u8> = masks.iter().flat_map(|mask| mask.to_le_bytes()).collect();
            let lanes = self.a.constant(&bytes);
            self.put(&place, part, move_code(Width::W32), &[lanes.into()]);
        }
        true
    }
}
