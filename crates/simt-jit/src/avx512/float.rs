//! Floating-point arithmetic on 32 lanes.

use crate::asm::assembler::{X, repeated};
use crate::avx512::isa::Zmm;
use crate::frame_layout::{K1, K2, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::lanewise::isa::VectorIsa;
use crate::lanewise::math;
use crate::operands::{Place, Value, move_code};
use iced_x86::{Code, Register, RoundingControl};
use simt::ir::op::{FloatMode, FloatOp, FloatType, Round, Width};
use simt::ir::vector::VectorInst;

/// Rounding to nearest needs no mode of its own.
pub(crate) fn rounding(round: Round) -> Option<RoundingControl> {
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
    /// Arithmetic; false if there is no form.
    pub(crate) fn lanes_float(
        &mut self,
        inst: &VectorInst,
        op: FloatOp,
        ty: FloatType,
        mode: FloatMode,
    ) -> bool {
        let double = match ty {
            // Of two numbers in a lane each is one of its own.
            FloatType::F32 | FloatType::F32x2 => false,
            FloatType::F64 => true,
            _ => return false,
        };
        let pair = ty == FloatType::F32x2;
        let Some(round) = rounding(mode.round) else { return false };
        let near = round == RoundingControl::None;
        let single = !double && !pair && near && !mode.sat;
        use FloatOp::{Cos, Ex2, Lg2, Sin, Tanh};
        if single && matches!(op, Ex2 | Lg2 | Sin | Cos | Tanh) {
            self.transcendental(inst, op, mode.ftz);
            return true;
        }
        if double && near && self.coarse(inst, op) {
            return true;
        }
        let supported = match op {
            FloatOp::Add | FloatOp::Sub | FloatOp::Mul | FloatOp::Fma => true,
            _ if pair => false,
            FloatOp::Div | FloatOp::Rcp | FloatOp::Sqrt => true,
            FloatOp::RcpApprox => !double && near,
            FloatOp::RsqrtApprox | FloatOp::RsqrtEstimate | FloatOp::Min | FloatOp::Max => near,
            FloatOp::MinNan | FloatOp::MaxNan => near && !double,
            FloatOp::Neg | FloatOp::Abs => !mode.sat,
            FloatOp::CopySign => !mode.ftz && !mode.sat,
            _ => false,
        };
        if !supported || double && mode.ftz || pair && mode.sat {
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
        let signs = matches!(op, FloatOp::Neg | FloatOp::Abs | FloatOp::CopySign);
        let canonical = !double && !signs && !self.nan_deferred[dest.index()];
        let plain = !canonical && !pair && !mode.ftz && !mode.sat;
        if plain && op == FloatOp::RsqrtEstimate && self.estimated_roots(values[0], &place) {
            return true;
        }
        for part in 0..self.parts(width) {
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

    /// A transcendental function of f32 lanes; subnormals are zero with `flush`.
    fn transcendental(&mut self, inst: &VectorInst, op: FloatOp, flush: bool) {
        let canonical = !self.nan_deferred[inst.dst[0].reg.index()];
        Zmm::with(self, inst, |i| {
            for piece in 0..i.pieces(Width::W32) {
                let mut a = i.source_in(inst.src[0], Width::W32, piece);
                if flush {
                    let to = i.temp();
                    a = i.c.flushed(a, to);
                }
                let made = math::function(i, op, a);
                if flush {
                    i.c.flushed(made, made);
                }
                if canonical {
                    i.c.canonical(made);
                }
                i.put(inst, 0, piece, made);
            }
        });
    }

    /// A transcendental function of a scratch register's f32 lanes, in Z0. Uses all scratch.
    pub(crate) fn power(&mut self, inst: &VectorInst, op: FloatOp, x: Register) {
        Zmm::with(self, inst, |i| {
            i.take(x);
            // Some may have a source's value.
            i.c.spares.clone().into_iter().for_each(|spare| i.take(spare));
            let made = math::function(i, op, x);
            i.c.a.op(move_code(Width::W32), &[Z0.into(), made.into()]);
        });
    }

    /// Z0 clamped to [0, 1], NaN to 0.
    pub(crate) fn saturate(&mut self, double: bool) {
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

    /// a * b + c where one of the three is where the result goes, or may be put there: one that is
    /// in memory, if there is one.
    fn simple_fma(
        &mut self,
        sources: &FloatParts,
        place: &Place,
        part: usize,
        double: bool,
    ) -> bool {
        if sources.round != RoundingControl::None {
            return false;
        }
        let (target, kept) = match (self.target(place, part), place.whole()) {
            (Some(target), _) => (target, true),
            (None, Some(Value::Memory(..))) => (Z0, false),
            _ => return false,
        };
        let at = sources.values.map(|value| self.part(value, part));
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
        let is_target = |n: &usize| matches!(at[*n], X::R(r) if r == target);
        let in_memory = |n: &usize| matches!(at[*n], X::M(_));
        let order = [2, 0, 1];
        let found = order.iter().find(|n| is_target(n)).or(order.iter().find(|n| in_memory(n)));
        let first = found.copied().unwrap_or(0);
        let width = sources.width;
        let register = self.part_in(sources.values[first], part, width, target);
        if register != target {
            self.a.op(move_code(width), &[target.into(), register.into()]);
        }
        // The factor that must be in a register, and the rest.
        let (code, factor, last) = match first {
            2 => (add, 0, 1),
            0 => (times, 1, 2),
            _ => (times, 0, 2),
        };
        let factor = self.part_in(sources.values[factor], part, width, Z1);
        self.a.op(code, &[target.into(), factor.into(), at[last]]);
        if !kept {
            self.put(place, part, move_code(width), &[target.into()]);
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
            FloatOp::RsqrtEstimate => {
                let first = operand(self, a, Z1);
                self.estimated_root([(Z0, first.into(), Z2, Z3)]);
            }
            FloatOp::Min | FloatOp::Max => {
                let first = operand(self, a, Z1);
                let second = operand(self, b, Z2);
                self.minimum(op == FloatOp::Max, double, first, second);
            }
            FloatOp::MinNan | FloatOp::MaxNan => {
                let first = operand(self, a, Z1);
                let second = operand(self, b, Z2);
                self.minimum(op == FloatOp::MaxNan, double, first, second);
                self.sum_where_unordered(first, second);
            }
            FloatOp::CopySign => {
                let first = operand(self, a, Z1);
                let second = operand(self, b, Z2);
                self.a.op(move_code(width), &[Z0.into(), first.into()]);
                self.sign_of(double, second);
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

    /// Z0 with the magnitudes of another register and its own signs.
    pub(crate) fn sign_of(&mut self, double: bool, magnitudes: Register) {
        let sign = if double { 1u64 << 63 } else { 1 << 31 };
        let bytes = if double { 8 } else { 4 };
        let sign = repeated(self.a.constant(&sign.to_le_bytes()[..bytes]));
        let choose = match double {
            true => Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8,
            false => Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8,
        };
        // The third's bit chooses: the first's or the second's.
        let how = X::I(0xe4u8 as i8 as i32);
        self.a.op(choose, &[Z0.into(), magnitudes.into(), sign.into(), how]);
    }

    /// Z0's f32 lanes become a NaN where one of two others is.
    pub(crate) fn sum_where_unordered(&mut self, a: Register, b: Register) {
        let compare = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
        self.a.op(compare, &[K1.into(), a.into(), b.into(), X::I(3)]);
        // A sum with a NaN is one.
        let add = Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er;
        self.a.op(add, &[Z0.into(), a.into(), b.into()]).set_op_mask(K1);
    }

    /// Reciprocals and those of roots whose lower halves are zero; subnormals are zero. False if it
    /// is none of these.
    fn coarse(&mut self, inst: &VectorInst, op: FloatOp) -> bool {
        let root = match op {
            FloatOp::RcpApproxCoarse => false,
            FloatOp::RsqrtApproxCoarse => true,
            _ => return false,
        };
        const NAN: u64 = 0x7fff_ffff_0000_0000;
        let w = Width::W64;
        let value = self.value(inst.src[0], w);
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..self.parts(w) {
            let mut first = self.part_in(value, part, w, Z1);
            first = self.flushed_doubles(first, Z1);
            if root {
                let code = Code::EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er;
                self.a.op(code, &[Z1.into(), first.into()]);
            }
            let one = self.one(true);
            self.part_in(one, 0, w, Z0);
            let divide = Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er;
            self.a.op(divide, &[Z0.into(), Z0.into(), Z1.into()]);
            self.flushed_doubles(Z0, Z0);
            let unordered = Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae;
            self.a.op(unordered, &[K1.into(), Z0.into(), Z0.into(), X::I(3)]);
            let nan = self.a.constant(&NAN.to_le_bytes());
            let put = Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64;
            self.a.op(put, &[Z0.into(), nan.into()]).set_op_mask(K1);
            let upper = repeated(self.a.constant(&(u64::MAX << 32).to_le_bytes()));
            let and = Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64;
            self.put(&place, part, and, &[Z0.into(), upper.into()]);
        }
        true
    }

    /// The register with f64 subnormals made zero, in `scratch`.
    fn flushed_doubles(&mut self, register: Register, scratch: Register) -> Register {
        let exponent = repeated(self.a.constant(&0x7ff0_0000_0000_0000u64.to_le_bytes()));
        let sign = repeated(self.a.constant(&(1u64 << 63).to_le_bytes()));
        if register != scratch {
            self.a.op(move_code(Width::W64), &[scratch.into(), register.into()]);
        }
        let test = Code::EVEX_Vptestnmq_kr_k1_zmm_zmmm512b64;
        self.a.op(test, &[K1.into(), scratch.into(), exponent.into()]);
        let and = Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64;
        self.a.op(and, &[scratch.into(), scratch.into(), sign.into()]).set_op_mask(K1);
        scratch
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
