//! Floating-point arithmetic on the lanes of a slice.
//!
//! Numbers are rounded as the thread says, which is to nearest. For instructions that round
//! otherwise the thread's mode is changed, and changed back behind them.

use crate::asm::assembler::X;
use crate::avx2::slice::{Slice, pieces};
use crate::lanewise::math;
use iced_x86::{Code, Register};
use simt::ir::op::{FloatMode, FloatOp, FloatType, Round, Width};
use simt::ir::vector::{Source, VectorInst};

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

/// True if there is a form for the operation.
pub(crate) fn has_form(op: FloatOp, ty: FloatType, mode: FloatMode) -> bool {
    let double = match ty {
        FloatType::F32 => false,
        FloatType::F64 => true,
        _ => return false,
    };
    let supported = match op {
        FloatOp::Add
        | FloatOp::Sub
        | FloatOp::Mul
        | FloatOp::Fma
        | FloatOp::Div
        | FloatOp::Rcp
        | FloatOp::Sqrt => control_word(mode.round).is_some(),
        _ if mode.round != Round::Near => false,
        FloatOp::RsqrtApprox | FloatOp::Min | FloatOp::Max => true,
        FloatOp::RcpApprox | FloatOp::MinNan | FloatOp::MaxNan => !double,
        FloatOp::Ex2 | FloatOp::Lg2 | FloatOp::Sin | FloatOp::Cos | FloatOp::Tanh => {
            !double && !mode.sat
        }
        FloatOp::Neg | FloatOp::Abs => !mode.sat,
        FloatOp::CopySign => !mode.ftz && !mode.sat,
        _ => false,
    };
    supported && !(double && mode.ftz)
}

impl Slice<'_, '_> {
    pub(crate) fn float(&mut self, inst: &VectorInst, op: FloatOp, ty: FloatType, mode: FloatMode) {
        let (double, width) = (ty == FloatType::F64, ty.width());
        let signs = matches!(op, FloatOp::Neg | FloatOp::Abs | FloatOp::CopySign);
        let canonical = !double && !signs && !self.c.nan_deferred[inst.dst[0].reg.index()];
        for piece in 0..pieces(width) {
            let mut made = self.float_piece(inst, op, width, mode.ftz, piece);
            if mode.ftz {
                made = self.flushed(made);
            }
            if canonical {
                made = self.canonical(made);
            }
            if mode.sat {
                made = self.saturated(made, double);
            }
            self.put(inst, 0, piece, made);
        }
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

    fn float_piece(
        &mut self,
        inst: &VectorInst,
        op: FloatOp,
        width: Width,
        flush: bool,
        piece: usize,
    ) -> Register {
        let double = width == Width::W64;
        let pick = |narrow: Code, wide: Code| if double { wide } else { narrow };
        let divide = pick(Code::VEX_Vdivps_ymm_ymm_ymmm256, Code::VEX_Vdivpd_ymm_ymm_ymmm256);
        let root = pick(Code::VEX_Vsqrtps_ymm_ymmm256, Code::VEX_Vsqrtpd_ymm_ymmm256);
        let operand = |this: &mut Self, n: usize| {
            let register = this.piece_in(inst.src[n], width, piece);
            if flush { this.flushed(register) } else { register }
        };
        match op {
            FloatOp::Add | FloatOp::Sub | FloatOp::Mul | FloatOp::Div => {
                let code = match op {
                    FloatOp::Add => {
                        pick(Code::VEX_Vaddps_ymm_ymm_ymmm256, Code::VEX_Vaddpd_ymm_ymm_ymmm256)
                    }
                    FloatOp::Sub => {
                        pick(Code::VEX_Vsubps_ymm_ymm_ymmm256, Code::VEX_Vsubpd_ymm_ymm_ymmm256)
                    }
                    FloatOp::Mul => {
                        pick(Code::VEX_Vmulps_ymm_ymm_ymmm256, Code::VEX_Vmulpd_ymm_ymm_ymmm256)
                    }
                    _ => divide,
                };
                let a = operand(self, 0);
                let b: X = if flush {
                    operand(self, 1).into()
                } else {
                    self.piece(inst.src[1], width, piece)
                };
                let to = self.temp();
                self.op(code, &[to.into(), a.into(), b]);
                to
            }
            FloatOp::Fma => self.fused(inst, width, flush, piece),
            FloatOp::Sqrt => {
                let a = operand(self, 0);
                let to = self.temp();
                self.op(root, &[to.into(), a.into()]);
                to
            }
            FloatOp::Rcp | FloatOp::RcpApprox | FloatOp::RsqrtApprox => {
                let mut a = operand(self, 0);
                if op == FloatOp::RsqrtApprox {
                    let of = a;
                    a = self.temp();
                    self.op(root, &[a.into(), of.into()]);
                }
                let one = if double { 1f64.to_bits() } else { u64::from(1f32.to_bits()) };
                let one = self.constant(one, width);
                let to = self.copied(one.into());
                self.op(divide, &[to.into(), to.into(), a.into()]);
                to
            }
            FloatOp::Min | FloatOp::Max => {
                let (a, b) = (operand(self, 0), operand(self, 1));
                self.extreme(op == FloatOp::Max, double, a, b)
            }
            FloatOp::MinNan | FloatOp::MaxNan => {
                let (a, b) = (operand(self, 0), operand(self, 1));
                let to = self.extreme(op == FloatOp::MaxNan, double, a, b);
                let unordered = self.temp();
                let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
                self.op(compare, &[unordered.into(), a.into(), b.into(), X::I(3)]);
                let nan = self.constant(crate::analysis::nan_demand::NAN.into(), width);
                let nan = self.copied(nan.into());
                let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
                self.op(blend, &[to.into(), to.into(), nan.into(), unordered.into()]);
                self.free(unordered);
                self.free(nan);
                to
            }
            FloatOp::Neg | FloatOp::Abs => {
                let a = operand(self, 0);
                let sign = if double { 1 << 63 } else { 1 << 31 };
                let (bits, code) = if op == FloatOp::Neg {
                    (sign, Code::VEX_Vpxor_ymm_ymm_ymmm256)
                } else {
                    (sign - 1, Code::VEX_Vpand_ymm_ymm_ymmm256)
                };
                let bits = self.constant(bits, width);
                let to = self.temp();
                self.op(code, &[to.into(), a.into(), bits.into()]);
                to
            }
            FloatOp::CopySign => {
                let (a, b) = (operand(self, 0), operand(self, 1));
                let magnitude = if double { i64::MAX as u64 } else { i32::MAX as u64 };
                let magnitude = self.constant(magnitude, width);
                let sign = self.copied(magnitude.into());
                let to = self.temp();
                self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[to.into(), b.into(), sign.into()]);
                self.op(Code::VEX_Vpandn_ymm_ymm_ymmm256, &[sign.into(), sign.into(), a.into()]);
                self.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[to.into(), to.into(), sign.into()]);
                self.free(sign);
                to
            }
            FloatOp::Ex2 | FloatOp::Lg2 | FloatOp::Sin | FloatOp::Cos | FloatOp::Tanh => {
                let a = operand(self, 0);
                math::function(self, op, a)
            }
            _ => {
                self.unsupported();
                self.temp()
            }
        }
    }

    /// a * b + c. Where a source may be overwritten, the result is made there.
    fn fused(&mut self, inst: &VectorInst, width: Width, flush: bool, piece: usize) -> Register {
        let double = width == Width::W64;
        let pick = |narrow: Code, wide: Code| if double { wide } else { narrow };
        let times =
            pick(Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256, Code::VEX_Vfmadd213pd_ymm_ymm_ymmm256);
        let plus =
            pick(Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256, Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256);
        if flush {
            let [a, b, c] = [0, 1, 2].map(|n| {
                let register = self.piece_in(inst.src[n], width, piece);
                self.flushed(register)
            });
            self.op(times, &[a.into(), b.into(), c.into()]);
            return a;
        }
        let accumulates = inst.src[2] == Source::Vector(inst.dst[0].reg);
        if accumulates || self.is_spent(inst, inst.src[2], piece) {
            let a = self.piece_in(inst.src[0], width, piece);
            let b = self.piece(inst.src[1], width, piece);
            let to = self.owned(inst, inst.src[2], width, piece);
            self.op(plus, &[to.into(), a.into(), b]);
            return to;
        }
        let (mut a, mut b) = (inst.src[0], inst.src[1]);
        if self.is_spent(inst, b, piece) {
            std::mem::swap(&mut a, &mut b);
        }
        let b = self.piece_in(b, width, piece);
        let c = self.piece(inst.src[2], width, piece);
        let to = self.owned(inst, a, width, piece);
        self.op(times, &[to.into(), b.into(), c]);
        to
    }

    /// f32 lanes with subnormals made zero, in a register of their own.
    pub(crate) fn flushed(&mut self, a: Register) -> Register {
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

    /// f32 lanes with NaNs made canonical, in a register of their own.
    pub(crate) fn canonical(&mut self, a: Register) -> Register {
        let nan = self.constant(u64::from(crate::analysis::nan_demand::NAN), Width::W32);
        let to = self.temp();
        let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
        self.op(compare, &[to.into(), a.into(), a.into(), X::I(3)]);
        let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
        self.op(blend, &[to.into(), a.into(), nan.into(), to.into()]);
        to
    }

    /// Clamped to [0, 1], NaN to 0, in a register of its own.
    pub(crate) fn saturated(&mut self, a: Register, double: bool) -> Register {
        let pick = |narrow: Code, wide: Code| if double { wide } else { narrow };
        let max = pick(Code::VEX_Vmaxps_ymm_ymm_ymmm256, Code::VEX_Vmaxpd_ymm_ymm_ymmm256);
        let min = pick(Code::VEX_Vminps_ymm_ymm_ymmm256, Code::VEX_Vminpd_ymm_ymm_ymmm256);
        let one = if double {
            self.constant(1f64.to_bits(), Width::W64)
        } else {
            self.constant(u64::from(1f32.to_bits()), Width::W32)
        };
        // Of a NaN or two zeros these give the second.
        let to = self.zero();
        self.op(max, &[to.into(), a.into(), to.into()]);
        self.op(min, &[to.into(), to.into(), one.into()]);
        to
    }

    /// The smaller or larger of two: a number rather than a NaN, -0 below 0.
    pub(crate) fn extreme(
        &mut self,
        larger: bool,
        double: bool,
        a: Register,
        b: Register,
    ) -> Register {
        let pick = |narrow: Code, wide: Code| if double { wide } else { narrow };
        let code = if larger {
            pick(Code::VEX_Vmaxps_ymm_ymm_ymmm256, Code::VEX_Vmaxpd_ymm_ymm_ymmm256)
        } else {
            pick(Code::VEX_Vminps_ymm_ymm_ymmm256, Code::VEX_Vminpd_ymm_ymm_ymmm256)
        };
        let compare =
            pick(Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8, Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8);
        let blend =
            pick(Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm, Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm);
        let both =
            if larger { Code::VEX_Vpand_ymm_ymm_ymmm256 } else { Code::VEX_Vpor_ymm_ymm_ymmm256 };
        let (to, mask, of_both) = (self.temp(), self.temp(), self.temp());
        // The second, if either is NaN.
        self.op(code, &[to.into(), a.into(), b.into()]);
        self.op(compare, &[mask.into(), a.into(), b.into(), X::I(0)]);
        self.op(both, &[of_both.into(), a.into(), b.into()]);
        self.op(blend, &[to.into(), to.into(), of_both.into(), mask.into()]);
        self.op(compare, &[mask.into(), b.into(), b.into(), X::I(3)]);
        self.op(blend, &[to.into(), to.into(), a.into(), mask.into()]);
        self.free(mask);
        self.free(of_both);
        to
    }
}
