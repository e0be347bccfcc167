//! 64-bit integer arithmetic on the lanes of a slice, four at a time.

use crate::asm::assembler::X;
use crate::avx2::slice::{Slice, pieces};
use iced_x86::{Code, Register};
use simt::ir::op::{IntOp, IntType, Width};
use simt::ir::vector::{Source, VectorInst};

/// True if there is a form for the operation here.
pub(crate) fn has_form(op: IntOp, ty: IntType) -> bool {
    match ty.width() {
        Width::W32 => matches!(op, IntOp::MulWide | IntOp::MadWide),
        Width::W64 => matches!(
            op,
            IntOp::MulLo | IntOp::MadLo | IntOp::Shl | IntOp::Shr | IntOp::Min | IntOp::Max
        ),
        _ => false,
    }
}

impl Slice<'_, '_> {
    pub(crate) fn wide(&mut self, inst: &VectorInst, op: IntOp, ty: IntType) {
        let w = Width::W64;
        for piece in 0..pieces(w) {
            let made = match op {
                IntOp::MulWide | IntOp::MadWide => {
                    let code = if ty.signed() {
                        Code::VEX_Vpmuldq_ymm_ymm_ymmm256
                    } else {
                        Code::VEX_Vpmuludq_ymm_ymm_ymmm256
                    };
                    // Only the low halves count.
                    let a = self.widened(inst.src[0], piece, false);
                    let b = self.widened(inst.src[1], piece, false);
                    self.op(code, &[a.into(), a.into(), b.into()]);
                    a
                }
                IntOp::MulLo | IntOp::MadLo => self.multiply_low(inst, piece),
                IntOp::Shl | IntOp::Shr => self.shift(inst, op, ty.signed(), piece),
                _ => self.least(inst, op == IntOp::Max, ty.signed(), piece),
            };
            if matches!(op, IntOp::MadWide | IntOp::MadLo) {
                let c = self.piece(inst.src[2], w, piece);
                self.op(Code::VEX_Vpaddq_ymm_ymm_ymmm256, &[made.into(), made.into(), c]);
            }
            self.put(inst, 0, piece, made);
        }
    }

    /// Four 32-bit lanes as 64-bit ones, in a register of its own.
    pub(crate) fn widened(&mut self, source: Source, half: usize, signed: bool) -> Register {
        let code =
            if signed { Code::VEX_Vpmovsxdq_ymm_xmmm128 } else { Code::VEX_Vpmovzxdq_ymm_xmmm128 };
        let from = self.half(source, half);
        let to = self.temp();
        self.op(code, &[to.into(), from]);
        to
    }

    fn multiply_low(&mut self, inst: &VectorInst, piece: usize) -> Register {
        let a = self.piece_in(inst.src[0], Width::W64, piece);
        let b = self.piece_in(inst.src[1], Width::W64, piece);
        let (low, cross, other) = (self.temp(), self.temp(), self.temp());
        let (multiply, shift) = (Code::VEX_Vpmuludq_ymm_ymm_ymmm256, Code::VEX_Vpsrlq_ymm_ymm_imm8);
        let add = Code::VEX_Vpaddq_ymm_ymm_ymmm256;
        self.op(shift, &[cross.into(), a.into(), X::I(32)]);
        self.op(multiply, &[cross.into(), cross.into(), b.into()]);
        self.op(shift, &[other.into(), b.into(), X::I(32)]);
        self.op(multiply, &[other.into(), other.into(), a.into()]);
        self.op(add, &[cross.into(), cross.into(), other.into()]);
        self.op(Code::VEX_Vpsllq_ymm_ymm_imm8, &[cross.into(), cross.into(), X::I(32)]);
        self.op(multiply, &[low.into(), a.into(), b.into()]);
        self.op(add, &[low.into(), low.into(), cross.into()]);
        self.free(cross);
        self.free(other);
        low
    }

    fn shift(&mut self, inst: &VectorInst, op: IntOp, signed: bool, piece: usize) -> Register {
        let signed = signed && op == IntOp::Shr;
        let amount = match inst.src[1] {
            Source::Imm(v) => {
                let v = u64::from(v as u32);
                let constant = self.constant(v, Width::W64);
                self.copied(constant.into())
            }
            source => self.widened(source, piece, false),
        };
        let a = self.piece_in(inst.src[0], Width::W64, piece);
        let to = self.temp();
        let right = Code::VEX_Vpsrlvq_ymm_ymm_ymmm256;
        if !signed {
            let code = if op == IntOp::Shl { Code::VEX_Vpsllvq_ymm_ymm_ymmm256 } else { right };
            self.op(code, &[to.into(), a.into(), amount.into()]);
            return to;
        }
        // The sign's bit, shifted too, is what has to be spread.
        let (most, sign) = (self.constant(63, Width::W64), self.constant(1 << 63, Width::W64));
        self.op(Code::VEX_Vpminud_ymm_ymm_ymmm256, &[amount.into(), amount.into(), most.into()]);
        self.op(right, &[to.into(), a.into(), amount.into()]);
        let bit = self.copied(sign.into());
        self.op(right, &[bit.into(), bit.into(), amount.into()]);
        self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[to.into(), to.into(), bit.into()]);
        self.op(Code::VEX_Vpsubq_ymm_ymm_ymmm256, &[to.into(), to.into(), bit.into()]);
        self.free(bit);
        to
    }

    /// The smaller or larger of two.
    fn least(&mut self, inst: &VectorInst, larger: bool, signed: bool, piece: usize) -> Register {
        let a = self.piece_in(inst.src[0], Width::W64, piece);
        let b = self.piece_in(inst.src[1], Width::W64, piece);
        let above = self.above(a, b, signed);
        let (yes, no) = if larger { (a, b) } else { (b, a) };
        let blend = Code::VEX_Vpblendvb_ymm_ymm_ymmm256_ymm;
        self.op(blend, &[above.into(), no.into(), yes.into(), above.into()]);
        above
    }

    /// Lanes of 64 bits in which the first is larger.
    pub(crate) fn above(&mut self, a: Register, b: Register, signed: bool) -> Register {
        let to = self.temp();
        let greater = Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256;
        if signed {
            self.op(greater, &[to.into(), a.into(), b.into()]);
            return to;
        }
        // As signed numbers they are in the same order with the highest bits turned over.
        let sign = self.constant(1 << 63, Width::W64);
        let other = self.temp();
        let xor = Code::VEX_Vpxor_ymm_ymm_ymmm256;
        let sign = self.copied(sign.into());
        self.op(xor, &[to.into(), a.into(), sign.into()]);
        self.op(xor, &[other.into(), b.into(), sign.into()]);
        self.op(greater, &[to.into(), to.into(), other.into()]);
        self.free(sign);
        self.free(other);
        to
    }
}
