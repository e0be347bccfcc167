//! Floating-point arithmetic and conversions on 32 lanes, with AVX-512.

use crate::assembler::{X, repeated};
use crate::assign::parts;
use crate::compiler::Compiler;
use crate::frame::{K1, K2, Z0, Z1, Z2, Z3};
use crate::value::{Place, Value, move_code};
use iced_x86::{Code, Register, RoundingControl};
use simt::op::{Convert, FloatMode, FloatOp, FloatType, IntType, Round, Width};
use simt::vector::VectorInst;

/// Rounding to nearest needs no mode of its own.
fn rounding(round: Round) -> Option<RoundingControl> {
    Some(match round {
        Round::Near => RoundingControl::None,
        Round::Zero => RoundingControl::RoundTowardZero,
        Round::Down => RoundingControl::RoundDown,
        Round::Up => RoundingControl::RoundUp,
        Round::NearAway => return None,
    })
}

fn float_code(op: FloatOp, double: bool) -> Option<Code> {
    Some(match (op, double) {
        (FloatOp::Add, false) => Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
        (FloatOp::Sub, false) => Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
        (FloatOp::Mul, false) => Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
        (FloatOp::Div, false) => Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
        (FloatOp::Add, true) => Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er,
        (FloatOp::Sub, true) => Code::EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er,
        (FloatOp::Mul, true) => Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er,
        (FloatOp::Div, true) => Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er,
        _ => return None,
    })
}

/// How one part of a float operation is made: its result in a register.
struct FloatParts {
    values: [Value; 3],
    width: Width,
    flush: bool,
    round: RoundingControl,
}

impl Compiler<'_> {
    /// `cvt` between floats and other numbers; false if there is no form.
    pub(crate) fn lanes_convert(&mut self, inst: &VectorInst, convert: Convert) -> bool {
        let w = Width::W32;
        match convert {
            Convert::FromInt { from, to: FloatType::F32, mode } if !mode.sat => {
                let code = match from {
                    IntType::S32 => Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er,
                    IntType::U32 => Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er,
                    _ => return false,
                };
                let Some(round) = rounding(mode.round) else { return false };
                let value = self.value(inst.src[0], w);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..parts(w) {
                    let register = self.part_in(value, part, w, Z0);
                    self.put_rounded(&place, part, code, &[register.into()], round);
                }
                true
            }
            Convert::FromInt { from, to: FloatType::F64, mode } if !mode.sat => {
                let code = match from {
                    IntType::S32 => Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er,
                    IntType::U32 => Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er,
                    _ => return false,
                };
                let value = self.value(inst.src[0], w);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..parts(Width::W64) {
                    let half = self.half(value, part, Z0);
                    self.put(&place, part, code, &[half]);
                }
                true
            }
            Convert::ToInt { from: FloatType::F32, bits: 32, signed, round, .. } => {
                // Subnormals become 0, or what rounding makes of them.
                let flush = matches!(convert, Convert::ToInt { ftz: true, .. });
                let Some(control) = rounding(round) else { return false };
                let control = if control == RoundingControl::None {
                    RoundingControl::RoundToNearest
                } else {
                    control
                };
                let value = self.value(inst.src[0], w);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..parts(w) {
                    let mut register = self.part_in(value, part, w, Z1);
                    if flush {
                        register = self.flushed(register, Z1);
                    }
                    self.clamped_int(register, signed, control);
                    self.put(&place, part, move_code(w), &[Z0.into()]);
                }
                true
            }
            Convert::Float { from: FloatType::F32, to: FloatType::F32, mode, relu: false }
                if mode.sat =>
            {
                // Subnormals flush or stay; neither they nor numbers are rounded.
                let value = self.value(inst.src[0], w);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..parts(w) {
                    let mut register = self.part_in(value, part, w, Z0);
                    if mode.ftz {
                        register = self.flushed(register, Z0);
                    }
                    if register != Z0 {
                        self.a.op(move_code(w), &[Z0.into(), register.into()]);
                    }
                    self.saturate(false);
                    self.put(&place, part, move_code(w), &[Z0.into()]);
                }
                true
            }
            Convert::Float { from: FloatType::F32, to: FloatType::F64, mode, relu: false }
                if !mode.sat && !mode.ftz =>
            {
                let value = self.value(inst.src[0], w);
                let place = self.dest(inst, &inst.dst[0]);
                for part in 0..parts(Width::W64) {
                    let half = self.half(value, part, Z0);
                    let code = Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae;
                    self.put(&place, part, code, &[half]);
                }
                true
            }
            _ => false,
        }
    }

    /// f32 lanes to clamped 32-bit integers, NaN to 0, in Z0. The register must not be Z0.
    fn clamped_int(&mut self, register: Register, signed: bool, control: RoundingControl) {
        if signed {
            let code = Code::EVEX_Vcvtps2dq_zmm_k1z_zmmm512b32_er;
            self.a.op(code, &[Z0.into(), register.into()]).set_rounding_control(control);
            let compare = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
            // What is too large would become the least number.
            let limit = repeated(self.a.constant(&2_147_483_648f32.to_le_bytes()));
            let most = self.a.constant(&i32::MAX.to_le_bytes());
            let test = [K1.into(), register.into(), limit.into(), X::I(0x1d)];
            self.a.op(compare, &test);
            let put = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
            self.a.op(put, &[Z0.into(), most.into()]).set_op_mask(K1);
            self.a.op(compare, &[K2.into(), register.into(), register.into(), X::I(3)]);
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

    /// Arithmetic; false if there is no form.
    pub(crate) fn lanes_float(
        &mut self,
        inst: &VectorInst,
        op: FloatOp,
        ty: FloatType,
        mode: FloatMode,
    ) -> bool {
        let double = match ty {
            FloatType::F32 => false,
            FloatType::F64 => true,
            _ => return false,
        };
        let Some(round) = rounding(mode.round) else { return false };
        let near = round == RoundingControl::None;
        if op == FloatOp::Ex2 && !double && near && !mode.sat {
            self.exp2(inst, mode.ftz);
            return true;
        }
        if !double && near && !mode.sat && self.series(inst, op, mode.ftz) {
            return true;
        }
        let supported = match op {
            FloatOp::Add | FloatOp::Sub | FloatOp::Mul | FloatOp::Fma | FloatOp::Div => true,
            FloatOp::Rcp | FloatOp::Sqrt => true,
            FloatOp::RcpApprox => !double && near,
            FloatOp::RsqrtApprox | FloatOp::Min | FloatOp::Max => near,
            FloatOp::Neg | FloatOp::Abs => !mode.ftz && !mode.sat,
            _ => false,
        };
        if !supported || double && mode.ftz {
            return false;
        }
        let width = ty.width();
        let dest = inst.dst[0].reg;
        let nothing = Value::Same(Z0);
        let mut values = [nothing; 3];
        for (value, source) in values.iter_mut().zip(&inst.src) {
            *value = self.value(*source, width);
        }
        let sources = FloatParts { values, width, flush: mode.ftz, round };
        let place = self.dest(inst, &inst.dst[0]);
        let signs = matches!(op, FloatOp::Neg | FloatOp::Abs);
        let canonical = !double && !signs && !self.lazy[dest.index()];
        let plain = !canonical && !mode.ftz && !mode.sat;
        for part in 0..parts(width) {
            if plain
                && let Some(code) = float_code(op, double)
                && self.simple_float(&sources, &place, part, code)
            {
                continue;
            }
            if plain && op == FloatOp::Fma && self.simple_fma(&sources, &place, part, double) {
                continue;
            }
            self.float_part(op, &sources, part, double);
            if mode.ftz {
                self.flushed(Z0, Z0);
            }
            if canonical {
                self.canonical(Z0);
            }
            if mode.sat {
                self.saturate(double);
            }
            self.put(&place, part, move_code(width), &[Z0.into()]);
        }
        true
    }

    /// Z0 clamped to [0, 1], NaN to 0.
    fn saturate(&mut self, double: bool) {
        let (max, min, one) = if double {
            (
                Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae,
                Code::EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae,
                1f64.to_le_bytes().to_vec(),
            )
        } else {
            (
                Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
                Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
                1f32.to_le_bytes().to_vec(),
            )
        };
        // Of a NaN or two zeros these give the second.
        self.zero(Z1);
        self.a.op(max, &[Z0.into(), Z0.into(), Z1.into()]);
        let one = repeated(self.a.constant(&one));
        self.a.op(min, &[Z0.into(), Z0.into(), one.into()]);
    }

    fn simple_float(
        &mut self,
        sources: &FloatParts,
        place: &Place,
        part: usize,
        code: Code,
    ) -> bool {
        let [a, b, _] = sources.values;
        let first = self.part_in(a, part, sources.width, Z0);
        let second = if sources.round == RoundingControl::None {
            self.part(b, part)
        } else {
            self.part_in(b, part, sources.width, Z1).into()
        };
        self.put_rounded(place, part, code, &[first.into(), second], sources.round);
        true
    }

    /// a * b + c where one of the three is where the result goes, or may be put there.
    fn simple_fma(
        &mut self,
        sources: &FloatParts,
        place: &Place,
        part: usize,
        double: bool,
    ) -> bool {
        let Some(target) = self.target(place, part) else { return false };
        if sources.round != RoundingControl::None {
            return false;
        }
        let [a, b, c] = sources.values;
        let is = |x: X| matches!(x, X::R(r) if r == target);
        let at = [self.part(a, part), self.part(b, part), self.part(c, part)];
        let (add, times) = if double {
            (
                Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er,
                Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
            )
        } else {
            (
                Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
                Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            )
        };
        if is(at[2]) {
            let first = self.part_in(a, part, sources.width, Z0);
            self.a.op(add, &[target.into(), first.into(), at[1]]);
        } else if is(at[0]) {
            let second = self.part_in(b, part, sources.width, Z0);
            self.a.op(times, &[target.into(), second.into(), at[2]]);
        } else if is(at[1]) {
            let first = self.part_in(a, part, sources.width, Z0);
            self.a.op(times, &[target.into(), first.into(), at[2]]);
        } else {
            let first = self.part_in(a, part, sources.width, target);
            if first != target {
                self.a.op(move_code(sources.width), &[target.into(), first.into()]);
            }
            let second = self.part_in(b, part, sources.width, Z0);
            self.a.op(times, &[target.into(), second.into(), at[2]]);
        }
        true
    }

    /// A part of a float operation, in Z0.
    fn float_part(&mut self, op: FloatOp, sources: &FloatParts, part: usize, double: bool) {
        let [a, b, c] = sources.values;
        let (width, round) = (sources.width, sources.round);
        let operand = |this: &mut Self, value: Value, scratch: Register| {
            let register = this.part_in(value, part, width, scratch);
            if sources.flush { this.flushed(register, scratch) } else { register }
        };
        let pick = |narrow: Code, wide: Code| if double { wide } else { narrow };
        let divide = pick(
            Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er,
        );
        let root = pick(
            Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er,
            Code::EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er,
        );
        match op {
            FloatOp::Fma => {
                let first = operand(self, a, Z1);
                let second = operand(self, b, Z2);
                let third = operand(self, c, Z3);
                self.a.op(move_code(width), &[Z0.into(), first.into()]);
                let code = pick(
                    Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
                    Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
                );
                let operands = [Z0.into(), second.into(), third.into()];
                self.a.op(code, &operands).set_rounding_control(round);
            }
            FloatOp::Sqrt => {
                let first = operand(self, a, Z1);
                self.a.op(root, &[Z0.into(), first.into()]).set_rounding_control(round);
            }
            FloatOp::Rcp | FloatOp::RcpApprox | FloatOp::RsqrtApprox => {
                let mut first = operand(self, a, Z1);
                if op == FloatOp::RsqrtApprox {
                    self.a.op(root, &[Z1.into(), first.into()]);
                    first = Z1;
                }
                let one = self.one(double);
                self.part_in(one, 0, width, Z0);
                let operands = [Z0.into(), Z0.into(), first.into()];
                self.a.op(divide, &operands).set_rounding_control(round);
            }
            FloatOp::Min | FloatOp::Max => {
                let first = operand(self, a, Z1);
                let second = operand(self, b, Z2);
                self.minimum(op == FloatOp::Max, double, first, second);
            }
            FloatOp::Neg | FloatOp::Abs => {
                let first = operand(self, a, Z1);
                let (bits, code) = match (op, double) {
                    (FloatOp::Neg, false) => (
                        0x8000_0000u32.to_le_bytes().to_vec(),
                        Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
                    ),
                    (FloatOp::Neg, true) => (
                        (1u64 << 63).to_le_bytes().to_vec(),
                        Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64,
                    ),
                    (_, false) => (
                        0x7fff_ffffu32.to_le_bytes().to_vec(),
                        Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
                    ),
                    (_, true) => (
                        (u64::MAX >> 1).to_le_bytes().to_vec(),
                        Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64,
                    ),
                };
                let bits = repeated(self.a.constant(&bits));
                self.a.op(code, &[Z0.into(), first.into(), bits.into()]);
            }
            _ => {
                let first = operand(self, a, Z1);
                let second = operand(self, b, Z2);
                if let Some(code) = float_code(op, double) {
                    let operands = [Z0.into(), first.into(), second.into()];
                    self.a.op(code, &operands).set_rounding_control(round);
                }
            }
        }
    }

    fn one(&mut self, double: bool) -> Value {
        let one = if double { 1f64.to_le_bytes().to_vec() } else { 1f32.to_le_bytes().to_vec() };
        Value::One(repeated(self.a.constant(&one)))
    }

    /// The smaller or larger of two, in Z0: a number rather than a NaN, -0 below 0.
    pub(crate) fn minimum(&mut self, larger: bool, double: bool, a: Register, b: Register) {
        let pick = |narrow: Code, wide: Code| if double { wide } else { narrow };
        let code = if larger {
            pick(
                Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
                Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae,
            )
        } else {
            pick(
                Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
                Code::EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae,
            )
        };
        let compare = pick(
            Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
            Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae,
        );
        let copy = move_code(if double { Width::W64 } else { Width::W32 });
        let both = match (larger, double) {
            (true, false) => Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
            (true, true) => Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64,
            (false, false) => Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
            (false, true) => Code::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64,
        };
        // The second, if either is NaN.
        self.a.op(code, &[Z0.into(), a.into(), b.into()]);
        self.a.op(compare, &[K1.into(), a.into(), a.into(), X::I(7)]);
        self.a.op(compare, &[K1.into(), b.into(), b.into(), X::I(3)]).set_op_mask(K1);
        self.a.op(copy, &[Z0.into(), a.into()]).set_op_mask(K1);
        self.a.op(compare, &[K2.into(), a.into(), b.into(), X::I(0)]);
        self.a.op(both, &[Z0.into(), a.into(), b.into()]).set_op_mask(K2);
    }
}
