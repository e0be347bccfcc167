//! Half precision: f16 and bf16 arithmetic on 32 lanes, single and packed, by way of f32; and
//! 16-bit integers that are widened or narrowed.
//!
//! Sums and products of two halves are exact enough in f32 that rounding twice does no harm. For
//! `fma` the f32 result is rounded to odd: what is cut off leaves a trace in the last digit, so
//! that the second rounding is right.

use crate::asm::assembler::{X, at, repeated};
use crate::frame_layout::{K1, K2, LANE_SECONDS, SAVED_VECTOR, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::operands::{HalfBits, Value, move_code, ymm};
use iced_x86::{Code, Register, RoundingControl};
use simt::ir::op::{Convert, FloatMode, FloatOp, FloatType, Round, Width};
use simt::ir::vector::VectorInst;

/// NaN as operations on halves return it.
pub(crate) const NAN: u32 = 0x7fff;

/// A format: brain floats or not, in pairs or not.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) brain: bool,
    pub(crate) pair: bool,
}

impl Format {
    pub(crate) fn of(ty: FloatType) -> Option<Self> {
        Some(match ty {
            FloatType::F16 => Self { brain: false, pair: false },
            FloatType::BF16 => Self { brain: true, pair: false },
            FloatType::F16x2 => Self { brain: false, pair: true },
            FloatType::BF16x2 => Self { brain: true, pair: true },
            _ => return None,
        })
    }
}

/// What is done to operands and results besides.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct How {
    /// Subnormal f16 numbers become zero.
    flush: bool,
    /// Results are clamped to [0, 1].
    sat: bool,
}

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

    /// The f32 numbers in Z0 as halves, in the lower 16 bits of its lanes. Uses Z3.
    pub(crate) fn single_as_half(&mut self, brain: bool) {
        let unordered = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
        self.a.op(unordered, &[K1.into(), Z0.into(), Z0.into(), X::I(3)]);
        if brain {
            let down = Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8;
            let add = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
            let one = repeated(self.a.constant(&1u32.to_le_bytes()));
            let most = repeated(self.a.constant(&0x7fffu32.to_le_bytes()));
            // To the even one, where it is in the middle.
            self.a.op(down, &[Z3.into(), Z0.into(), X::I(16)]);
            let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
            self.a.op(and, &[Z3.into(), Z3.into(), one.into()]);
            self.a.op(add, &[Z0.into(), Z0.into(), Z3.into()]);
            self.a.op(add, &[Z0.into(), Z0.into(), most.into()]);
            self.a.op(down, &[Z0.into(), Z0.into(), X::I(16)]);
        } else {
            let narrow = Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae;
            self.a.op(narrow, &[ymm(Z0).into(), Z0.into(), X::I(0)]);
            self.a.op(Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, &[Z0.into(), ymm(Z0).into()]);
        }
        let nan = self.a.constant(&NAN.to_le_bytes());
        let put = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
        self.a.op(put, &[Z0.into(), nan.into()]).set_op_mask(K1);
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

    /// Makes the first result of pairs in 32-bit lanes: `make` leaves the asked for ones in the
    /// lower 16 bits of Z0's lanes.
    fn by_pairs(&mut self, inst: &VectorInst, mut make: impl FnMut(&mut Self, usize, HalfBits)) {
        let kept = at(Register::RSP, LANE_SECONDS);
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(Width::W32) {
            make(self, part, HalfBits::Low);
            self.a.op(Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm, &[kept.into(), Z0.into()]);
            make(self, part, HalfBits::High);
            let up = Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8;
            self.a.op(up, &[Z0.into(), Z0.into(), X::I(16)]);
            let or = Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
            self.put(&place, part, or, &[Z0.into(), kept.into()]);
        }
    }

    /// Arithmetic on halves; false if there is no form.
    pub(crate) fn half_arithmetic(
        &mut self,
        inst: &VectorInst,
        op: FloatOp,
        ty: FloatType,
        mode: FloatMode,
    ) -> bool {
        let Some(format) = Format::of(ty) else { return false };
        use FloatOp::{Abs, Add, Ex2, Fma, FmaRelu, Max, MaxNan, Min, MinNan, Mul, Neg, Sub, Tanh};
        if mode.round != Round::Near || mode.sat && format.brain {
            return false;
        }
        let extreme = matches!(op, Min | Max | MinNan | MaxNan);
        // bf16 has f32's exponents, and the extremes are taken as they are.
        let how = How { flush: mode.ftz && !format.brain && !extreme, sat: mode.sat };
        match op {
            Neg | Abs if how == How::default() => {
                self.half_sign(inst, op == Neg, ty.width());
                return true;
            }
            Add | Sub | Mul | Fma | FmaRelu | Min | Max | MinNan | MaxNan | Ex2 | Tanh => {}
            _ => return false,
        }
        let nothing = Value::Same(Z0);
        let mut values = [nothing; 3];
        for (value, source) in values.iter_mut().zip(&inst.src) {
            *value = self.value(*source, ty.width());
        }
        if format.pair {
            self.by_pairs(inst, |this, part, bits| {
                this.half_part(inst, op, how, values, part, (format.brain, bits));
            });
        } else {
            self.by_halves(inst, |this, part| {
                this.half_part(inst, op, how, values, part, (format.brain, HalfBits::All));
            });
        }
        true
    }

    /// Halves with the other sign, or without one.
    fn half_sign(&mut self, inst: &VectorInst, other: bool, width: Width) {
        let value = self.value(inst.src[0], width);
        let place = self.dest(inst, &inst.dst[0]);
        let (bits, code) = if other {
            (0x8000_8000u32, Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32)
        } else {
            (0x7fff_7fff, Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32)
        };
        let bits = repeated(self.a.constant(&bits.to_le_bytes()));
        for part in 0..self.parts(width) {
            let register = self.part_in(value, part, width, Z1);
            // Its masks have a bit for 32 bits, those of the result maybe for 16.
            self.a.op(code, &[Z0.into(), register.into(), bits.into()]);
            self.put(&place, part, move_code(width), &[Z0.into()]);
        }
    }

    /// Sixteen results, in the lower 16 bits of Z0's lanes.
    fn half_part(
        &mut self,
        inst: &VectorInst,
        op: FloatOp,
        how: How,
        values: [Value; 3],
        part: usize,
        what: (bool, HalfBits),
    ) {
        let operand = |this: &mut Self, n: usize, to: Register| {
            this.half_as_single(values[n], part, what, to);
            if how.flush {
                this.flush_half_range(to);
            }
        };
        match op {
            FloatOp::Min | FloatOp::Max | FloatOp::MinNan | FloatOp::MaxNan => {
                operand(self, 0, Z1);
                operand(self, 1, Z2);
                self.minimum(matches!(op, FloatOp::Max | FloatOp::MaxNan), false, Z1, Z2);
                if let FloatOp::MinNan | FloatOp::MaxNan = op {
                    self.sum_where_unordered(Z1, Z2);
                }
            }
            FloatOp::Ex2 | FloatOp::Tanh => {
                operand(self, 0, Z3);
                self.power(inst, op, Z3);
            }
            FloatOp::Fma | FloatOp::FmaRelu => {
                operand(self, 0, Z0);
                operand(self, 1, Z1);
                operand(self, 2, Z2);
                self.fma_to_odd();
            }
            _ => {
                operand(self, 0, Z0);
                operand(self, 1, Z1);
                let code = match op {
                    FloatOp::Add => Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
                    FloatOp::Sub => Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
                    _ => Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
                };
                self.a.op(code, &[Z0.into(), Z0.into(), Z1.into()]);
            }
        }
        if how.sat {
            self.saturate(false);
        }
        self.single_as_half(what.0);
        let test = |this: &mut Self, code: Code, bits: u32| {
            let bits = repeated(this.a.constant(&bits.to_le_bytes()));
            this.a.op(code, &[K1.into(), Z0.into(), bits.into()]);
        };
        if how.flush {
            test(self, Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32, 0x7c00);
            let sign = repeated(self.a.constant(&0x8000u32.to_le_bytes()));
            let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
            self.a.op(and, &[Z0.into(), Z0.into(), sign.into()]).set_op_mask(K1);
        }
        if op == FloatOp::FmaRelu {
            // NaN has no sign, and stays.
            test(self, Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32, 0x8000);
            let clear = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
            self.a.op(clear, &[Z0.into(), Z0.into(), Z0.into()]).set_op_mask(K1);
        }
    }

    /// f32 numbers that are subnormal as f16 become zero of the same sign.
    fn flush_half_range(&mut self, register: Register) {
        let compare = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
        let least = f32::from_bits(0x3880_0000);
        for (limit, condition) in [(least, 0x11), (-least, 0x1e)] {
            let limit = repeated(self.a.constant(&limit.to_le_bytes()));
            let test = [K1.into(), register.into(), limit.into(), X::I(condition)];
            let made = self.a.op(compare, &test);
            if condition == 0x1e {
                made.set_op_mask(K1);
            }
        }
        let sign = repeated(self.a.constant(&0x8000_0000u32.to_le_bytes()));
        let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
        self.a.op(and, &[register.into(), register.into(), sign.into()]).set_op_mask(K1);
    }

    /// Z0 times Z1 plus Z2 in Z0; inexact results have an odd last digit. Uses Z3.
    fn fma_to_odd(&mut self) {
        let code = Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er;
        let kept = at(Register::RSP, SAVED_VECTOR);
        for round in [RoundingControl::RoundDown, RoundingControl::RoundUp] {
            self.a.op(move_code(Width::W32), &[Z3.into(), Z0.into()]);
            self.a.op(code, &[Z3.into(), Z1.into(), Z2.into()]).set_rounding_control(round);
            if round == RoundingControl::RoundDown {
                self.a.op(Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm, &[kept.into(), Z3.into()]);
            }
        }
        let differs = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
        self.a.op(differs, &[K2.into(), Z3.into(), kept.into(), X::I(4)]);
        let cut = RoundingControl::RoundTowardZero;
        self.a.op(code, &[Z0.into(), Z1.into(), Z2.into()]).set_rounding_control(cut);
        let one = repeated(self.a.constant(&1u32.to_le_bytes()));
        let or = Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32;
        self.a.op(or, &[Z0.into(), Z0.into(), one.into()]).set_op_mask(K2);
    }

    /// `cvt` between halves and f32; false if there is no form.
    pub(crate) fn half_convert(&mut self, inst: &VectorInst, convert: Convert) -> bool {
        let Convert::Float { from, to, mode, relu } = convert else { return false };
        // Subnormals are not flushed where halves are made, or made of halves.
        if mode.round != Round::Near || mode.sat || relu && from != FloatType::F32 {
            return false;
        }
        match (from, Format::of(from), to, Format::of(to)) {
            (_, Some(Format { brain, pair: false }), FloatType::F32, _) => {
                let value = self.value(inst.src[0], Width::W16);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..self.parts(Width::W32) {
                    self.half_as_single(value, part, (brain, HalfBits::All), Z0);
                    self.canonical(Z0);
                    self.put(&place, part, move_code(Width::W32), &[Z0.into()]);
                }
            }
            (FloatType::F32, _, _, Some(Format { brain, pair: false })) => {
                let value = self.value(inst.src[0], Width::W32);
                self.by_halves(inst, |this, part| this.rounded_half(value, part, (brain, relu)));
            }
            (FloatType::F32, _, _, Some(Format { brain, pair: true })) => {
                let high = self.value(inst.src[0], Width::W32);
                let low = self.value(inst.src[1], Width::W32);
                self.by_pairs(inst, |this, part, bits| {
                    let value = if bits == HalfBits::Low { low } else { high };
                    this.rounded_half(value, part, (brain, relu));
                });
            }
            _ => return false,
        }
        true
    }

    fn rounded_half(&mut self, value: Value, part: usize, (brain, relu): (bool, bool)) {
        let register = self.part_in(value, part, Width::W32, Z0);
        if register != Z0 {
            self.a.op(move_code(Width::W32), &[Z0.into(), register.into()]);
        }
        if relu {
            // Numbers that are not above zero become it; NaN stays.
            self.zero(Z3);
            let compare = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
            self.a.op(compare, &[K1.into(), Z0.into(), Z3.into(), X::I(0x12)]);
            self.a.op(move_code(Width::W32), &[Z0.into(), Z3.into()]).set_op_mask(K1);
        }
        self.single_as_half(brain);
    }
}
