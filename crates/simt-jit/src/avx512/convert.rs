//! `cvt` on 32 lanes between f32 or f64 and other types. `half` has those of f16 and bf16.
//!
//! Integers saturate. NaN becomes 0 or, where f64 or 64-bit integers are involved, the top bit alone.

use crate::asm::assembler::{X, repeated};
use crate::avx512::isa::rounding;
use crate::frame_layout::{K1, K2, Z0, Z1, Z2};
use crate::function::Compiler;
use crate::operands::{Value, move_code, ymm};
use iced_x86::{Code, Register, RoundingControl};
use simt::ir::op::{Convert, FloatMode, FloatType, IntType, Round, Width};
use simt::ir::vector::VectorInst;

const JOIN: Code = Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8;
const SINGLES: Code = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
const DOUBLES: Code = Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae;
/// Conditions of these: neither is NaN and the first is not below; either is NaN.
const NOT_BELOW: X = X::I(0x1d);
const UNORDERED: X = X::I(3);

/// The rounding as instructions without a mode of their own want it named.
fn explicit(round: Round) -> Option<RoundingControl> {
    Some(match rounding(round)? {
        RoundingControl::None => RoundingControl::RoundToNearest,
        other => other,
    })
}

impl Compiler<'_> {
    /// `cvt` between floats and other numbers; false if there is no form.
    pub(crate) fn lanes_convert(&mut self, inst: &VectorInst, convert: Convert) -> bool {
        use FloatType::{F32, F64};
        match convert {
            Convert::FromInt { from, to, mode } if !mode.sat => {
                self.integer_to_float(inst, from, to, mode.round)
            }
            Convert::ToInt { from: F32, bits: 64, signed, round, ftz } => {
                self.wide_integer(inst, (false, ftz), signed, round)
            }
            Convert::ToInt { from: F64, bits: 64, signed, round, .. } => {
                self.wide_integer(inst, (true, false), signed, round)
            }
            Convert::ToInt { from: F64, bits: 32, signed, round, .. } => {
                self.double_to_integer(inst, signed, round)
            }
            Convert::ToInt { from: F32, bits, signed, round, ftz } => {
                self.single_to_integer(inst, bits, signed, (round, ftz))
            }
            Convert::Float { from: F32, to: F64, mode, relu: false } if !mode.sat => {
                self.single_to_double(inst, mode.ftz);
                true
            }
            Convert::Float { from: F64, to: F32, mode, relu: false } if !mode.sat => {
                self.double_to_single(inst, mode)
            }
            _ => false,
        }
    }

    fn integer_to_float(
        &mut self,
        inst: &VectorInst,
        from: IntType,
        to: FloatType,
        round: Round,
    ) -> bool {
        let Some(round) = rounding(round) else { return false };
        let (w, code) = match (from, to) {
            (IntType::S32, FloatType::F32) => {
                (Width::W32, Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er)
            }
            (IntType::U32, FloatType::F32) => {
                (Width::W32, Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er)
            }
            (IntType::S64, FloatType::F64) => {
                (Width::W64, Code::EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er)
            }
            (IntType::U64, FloatType::F64) => {
                (Width::W64, Code::EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er)
            }
            (IntType::S32, FloatType::F64) => {
                self.widen_by(inst, Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er);
                return true;
            }
            (IntType::U32, FloatType::F64) => {
                self.widen_by(inst, Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er);
                return true;
            }
            (IntType::S64, FloatType::F32) => {
                let code = Code::EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er;
                self.narrow_by(inst, |this, to, from| {
                    this.a.op(code, &[to.into(), from.into()]).set_rounding_control(round);
                });
                return true;
            }
            (IntType::U64, FloatType::F32) => {
                let code = Code::EVEX_Vcvtuqq2ps_ymm_k1z_zmmm512b64_er;
                self.narrow_by(inst, |this, to, from| {
                    this.a.op(code, &[to.into(), from.into()]).set_rounding_control(round);
                });
                return true;
            }
            _ => return false,
        };
        let value = self.value(inst.src[0], w);
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(w) {
            let register = self.part_in(value, part, w, Z0);
            self.put_rounded(&place, part, code, &[register.into()], round);
        }
        true
    }

    /// 64-bit lanes of 32-bit ones, by one instruction on half a register.
    fn widen_by(&mut self, inst: &VectorInst, code: Code) {
        let value = self.value(inst.src[0], Width::W32);
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(Width::W64) {
            let half = self.half(value, part, Z0);
            self.put(&place, part, code, &[half]);
        }
    }

    /// 32-bit lanes of 64-bit ones: `make` leaves in its first register, half a one, what becomes of
    /// those in its second, which is Z2 or none of the scratch registers.
    fn narrow_by(&mut self, inst: &VectorInst, make: impl Fn(&mut Self, Register, Register)) {
        let value = self.value(inst.src[0], Width::W64);
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(Width::W32) {
            for (half, to) in [(0, Z0), (1, Z1)] {
                let from = self.part_in(value, 2 * part + half, Width::W64, Z2);
                make(self, ymm(to), from);
            }
            self.a.op(JOIN, &[Z0.into(), Z0.into(), ymm(Z1).into(), X::I(1)]);
            self.put(&place, part, move_code(Width::W32), &[Z0.into()]);
        }
    }

    fn single_to_integer(
        &mut self,
        inst: &VectorInst,
        bits: u8,
        signed: bool,
        (round, flush): (Round, bool),
    ) -> bool {
        let Some(control) = explicit(round) else { return false };
        let w = Width::W32;
        let value = self.value(inst.src[0], w);
        let integer = |this: &mut Self, part: usize| {
            // Subnormals become 0, or what rounding makes of them.
            let mut register = this.part_in(value, part, w, Z1);
            if flush {
                register = this.flushed(register, Z1);
            }
            this.clamped_int(register, signed, control);
        };
        if bits == 32 {
            let place = self.dest(inst, &inst.dst[0]);
            for part in 0..self.parts(w) {
                integer(self, part);
                self.put(&place, part, move_code(w), &[Z0.into()]);
            }
            return true;
        }
        let (least, most) = match (bits, signed) {
            (8, true) => (i32::from(i8::MIN), i32::from(i8::MAX)),
            (8, false) => (0, i32::from(u8::MAX)),
            (16, true) => (i32::from(i16::MIN), i32::from(i16::MAX)),
            (16, false) => (0, i32::from(u16::MAX)),
            _ => return false,
        };
        let (min, max) = match signed {
            true => (
                Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
            ),
            false => (
                Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
            ),
        };
        self.by_halves(inst, |this, part| {
            integer(this, part);
            let [least, most] =
                [least, most].map(|limit| repeated(this.a.constant(&limit.to_le_bytes())));
            this.a.op(max, &[Z0.into(), Z0.into(), least.into()]);
            this.a.op(min, &[Z0.into(), Z0.into(), most.into()]);
        });
        true
    }

    /// f32 lanes to clamped 32-bit integers, NaN to 0, in Z0. The register must not be Z0.
    fn clamped_int(&mut self, register: Register, signed: bool, control: RoundingControl) {
        if signed {
            let code = Code::EVEX_Vcvtps2dq_zmm_k1z_zmmm512b32_er;
            self.a.op(code, &[Z0.into(), register.into()]).set_rounding_control(control);
            // What is too large would become the least number.
            let limit = repeated(self.a.constant(&2_147_483_648f32.to_le_bytes()));
            let most = self.a.constant(&i32::MAX.to_le_bytes());
            self.a.op(SINGLES, &[K1.into(), register.into(), limit.into(), NOT_BELOW]);
            let put = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
            self.a.op(put, &[Z0.into(), most.into()]).set_op_mask(K1);
            self.a.op(SINGLES, &[K2.into(), register.into(), register.into(), UNORDERED]);
            let clear = Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32;
            self.a.op(clear, &[Z0.into(), Z0.into(), Z0.into()]).set_op_mask(K2);
        } else {
            // The maximum of NaN and 0 is 0, and what is too large becomes the largest number.
            self.zero(Z2);
            let max = Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae;
            self.a.op(max, &[Z2.into(), register.into(), Z2.into()]);
            let code = Code::EVEX_Vcvtps2udq_zmm_k1z_zmmm512b32_er;
            self.a.op(code, &[Z0.into(), Z2.into()]).set_rounding_control(control);
        }
    }

    /// f64 lanes to 32-bit integers.
    fn double_to_integer(&mut self, inst: &VectorInst, signed: bool, round: Round) -> bool {
        let Some(control) = explicit(round) else { return false };
        let value = self.value(inst.src[0], Width::W64);
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(Width::W32) {
            for (half, to) in [(0, Z0), (1, Z1)] {
                let from = self.part_in(value, 2 * part + half, Width::W64, Z2);
                self.a.op(DOUBLES, &[K2.into(), from.into(), from.into(), UNORDERED]);
                let put = Code::EVEX_Vpbroadcastd_ymm_k1z_xmmm32;
                if signed {
                    let code = Code::EVEX_Vcvtpd2dq_ymm_k1z_zmmm512b64_er;
                    // From the largest integer on, since what is above it may be rounded out of range.
                    let limit = repeated(self.a.constant(&2_147_483_647f64.to_le_bytes()));
                    self.a.op(DOUBLES, &[K1.into(), from.into(), limit.into(), NOT_BELOW]);
                    self.a.op(code, &[ymm(to).into(), from.into()]).set_rounding_control(control);
                    let most = self.a.constant(&i32::MAX.to_le_bytes());
                    self.a.op(put, &[ymm(to).into(), most.into()]).set_op_mask(K1);
                } else {
                    let least = Code::EVEX_Vxorpd_zmm_k1z_zmm_zmmm512b64;
                    self.a.op(least, &[to.into(), to.into(), to.into()]);
                    let max = Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae;
                    self.a.op(max, &[to.into(), from.into(), to.into()]);
                    let code = Code::EVEX_Vcvtpd2udq_ymm_k1z_zmmm512b64_er;
                    self.a.op(code, &[ymm(to).into(), to.into()]).set_rounding_control(control);
                }
                let nan = self.a.constant(&i32::MIN.to_le_bytes());
                self.a.op(put, &[ymm(to).into(), nan.into()]).set_op_mask(K2);
            }
            self.a.op(JOIN, &[Z0.into(), Z0.into(), ymm(Z1).into(), X::I(1)]);
            self.put(&place, part, move_code(Width::W32), &[Z0.into()]);
        }
        true
    }

    /// f32 or f64 lanes to 64-bit integers.
    fn wide_integer(
        &mut self,
        inst: &VectorInst,
        (double, flush): (bool, bool),
        signed: bool,
        round: Round,
    ) -> bool {
        let Some(control) = explicit(round) else { return false };
        let from = if double { Width::W64 } else { Width::W32 };
        let value = self.value(inst.src[0], from);
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(Width::W64) {
            // As doubles in Z1: exact.
            if double {
                let register = self.part_in(value, part, from, Z1);
                if register != Z1 {
                    self.a.op(move_code(from), &[Z1.into(), register.into()]);
                }
            } else {
                self.as_doubles(value, part, flush);
            }
            self.a.op(DOUBLES, &[K2.into(), Z1.into(), Z1.into(), UNORDERED]);
            let put = Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64;
            if signed {
                let code = Code::EVEX_Vcvtpd2qq_zmm_k1z_zmmm512b64_er;
                let limit = repeated(self.a.constant(&9_223_372_036_854_775_808f64.to_le_bytes()));
                self.a.op(DOUBLES, &[K1.into(), Z1.into(), limit.into(), NOT_BELOW]);
                self.a.op(code, &[Z0.into(), Z1.into()]).set_rounding_control(control);
                let most = self.a.constant(&i64::MAX.to_le_bytes());
                self.a.op(put, &[Z0.into(), most.into()]).set_op_mask(K1);
            } else {
                self.zero(Z0);
                let max = Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae;
                self.a.op(max, &[Z0.into(), Z1.into(), Z0.into()]);
                let code = Code::EVEX_Vcvtpd2uqq_zmm_k1z_zmmm512b64_er;
                self.a.op(code, &[Z0.into(), Z0.into()]).set_rounding_control(control);
            }
            let nan = self.a.constant(&i64::MIN.to_le_bytes());
            self.a.op(put, &[Z0.into(), nan.into()]).set_op_mask(K2);
            self.put(&place, part, move_code(Width::W64), &[Z0.into()]);
        }
        true
    }

    /// Eight f32 lanes as doubles in Z1; uses Z0.
    fn as_doubles(&mut self, value: Value, part: usize, flush: bool) {
        let widen = Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae;
        if !flush {
            let half = self.half(value, part, Z0);
            self.a.op(widen, &[Z1.into(), half]);
            return;
        }
        let register = self.part_in(value, part / 2, Width::W32, Z1);
        self.flushed(register, Z1);
        if !part.is_multiple_of(2) {
            let upper = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
            self.a.op(upper, &[ymm(Z1).into(), Z1.into(), X::I(1)]);
        }
        self.a.op(widen, &[Z1.into(), ymm(Z1).into()]);
    }

    fn single_to_double(&mut self, inst: &VectorInst, flush: bool) {
        if !flush {
            return self.widen_by(inst, Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae);
        }
        let value = self.value(inst.src[0], Width::W32);
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(Width::W64) {
            self.as_doubles(value, part, true);
            self.put(&place, part, move_code(Width::W64), &[Z1.into()]);
        }
    }

    /// A NaN keeps its sign and upper digits, as the processor has it.
    fn double_to_single(&mut self, inst: &VectorInst, mode: FloatMode) -> bool {
        let Some(round) = rounding(mode.round) else { return false };
        let code = Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er;
        let value = self.value(inst.src[0], Width::W64);
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(Width::W32) {
            for (half, to) in [(0, Z0), (1, Z1)] {
                let from = self.part_in(value, 2 * part + half, Width::W64, Z2);
                self.a.op(code, &[ymm(to).into(), from.into()]).set_rounding_control(round);
            }
            self.a.op(JOIN, &[Z0.into(), Z0.into(), ymm(Z1).into(), X::I(1)]);
            if mode.ftz {
                self.flushed(Z0, Z0);
            }
            self.put(&place, part, move_code(Width::W32), &[Z0.into()]);
        }
        true
    }
}
