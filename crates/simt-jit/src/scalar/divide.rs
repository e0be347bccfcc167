//! Uniform division and variable shifts in general registers; and division of 64-bit lanes by way
//! of doubles where these are exact.

use crate::asm::assembler::{X, repeated};
use crate::frame_layout::{A, C, D, K1, K2, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::operands::move_code;
use crate::regalloc::allocate::parts;
use iced_x86::{Code, Register};
use simt::ir::op::{IntOp, IntType, Width};
use simt::ir::vector::VectorInst;

impl Compiler<'_> {
    /// A quotient or, with `remainder`, what is left: of a division by 0 all ones, both.
    pub(crate) fn scalar_divide(&mut self, inst: &VectorInst, remainder: bool, ty: IntType) {
        let wide = ty.width() == Width::W64;
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let sized = |r: Register| if wide { r } else { r.full_register32() };
        let (rax, rcx, rdx) = (sized(A), sized(C), sized(D));
        let (zero, minus, done) = (self.a.label(), self.a.label(), self.a.label());
        self.scalar_copy(inst.src[0], wide, A);
        self.scalar_copy(inst.src[1], wide, C);
        let a = &mut self.a;
        a.op(pick(Code::Test_rm32_r32, Code::Test_rm64_r64), &[rcx.into(), rcx.into()]);
        a.jump(Code::Je_rel32_64, zero);
        if ty.signed() {
            // The least number has no counterpart, and the processor objects to asking for it.
            let compare = pick(Code::Cmp_rm32_imm8, Code::Cmp_rm64_imm8);
            a.op(compare, &[rcx.into(), X::I(-1)]);
            a.jump(Code::Je_rel32_64, minus);
            a.op(pick(Code::Cdq, Code::Cqo), &[]);
            a.op(pick(Code::Idiv_rm32, Code::Idiv_rm64), &[rcx.into()]);
        } else {
            a.op(Code::Xor_r32_rm32, &[Register::EDX.into(), Register::EDX.into()]);
            a.op(pick(Code::Div_rm32, Code::Div_rm64), &[rcx.into()]);
        }
        a.jump(Code::Jmp_rel32_64, done);
        if ty.signed() {
            a.bind(minus);
            a.op(pick(Code::Neg_rm32, Code::Neg_rm64), &[rax.into()]);
            a.op(Code::Xor_r32_rm32, &[Register::EDX.into(), Register::EDX.into()]);
            a.jump(Code::Jmp_rel32_64, done);
        }
        a.bind(zero);
        a.op(pick(Code::Or_rm32_imm8, Code::Or_rm64_imm8), &[rax.into(), X::I(-1)]);
        a.op(pick(Code::Mov_r32_rm32, Code::Mov_r64_rm64), &[rdx.into(), rax.into()]);
        a.bind(done);
        self.scalar_result(inst, 0, if remainder { D } else { A });
    }

    /// Quotients or remainders of 64-bit lanes. Numbers of up to 53 bits are doubles, and so is what
    /// a quotient of two of them is rounded to: never up to a whole number that it does not reach.
    /// Larger ones, and division by 0, are for the interpreter handlers.
    pub(crate) fn divide_wide(&mut self, inst: &VectorInst, remainder: bool, signed: bool) {
        const BITS: u32 = 53;
        let w = Width::W64;
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        let some = self.masked || inst.guard.is_some();
        if some {
            self.activate(inst.guard);
        }
        let (a, b) = (self.value(inst.src[0], w), self.value(inst.src[1], w));
        let too_large = repeated(self.a.constant(&(u64::MAX << BITS).to_le_bytes()));
        let half = repeated(self.a.constant(&(1u64 << (BITS - 1)).to_le_bytes()));
        let add = Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
        for part in 0..parts(w) {
            let mut first = self.part_in(a, part, w, Z0);
            let second = self.part_in(b, part, w, Z1);
            let mut divisor = second;
            if signed {
                self.a.op(add, &[Z2.into(), first.into(), half.into()]);
                self.a.op(add, &[Z3.into(), second.into(), half.into()]);
                (first, divisor) = (Z2, Z3);
            }
            let or = Code::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64;
            self.a.op(or, &[Z2.into(), first.into(), divisor.into()]);
            let mask = if some { Some(self.active(part, w)) } else { None };
            let above = [K1.into(), Z2.into(), too_large.into()];
            let zero = [K2.into(), second.into(), second.into()];
            for (code, operands) in [
                (Code::EVEX_Vptestmq_kr_k1_zmm_zmmm512b64, above),
                (Code::EVEX_Vptestnmq_kr_k1_zmm_zmmm512b64, zero),
            ] {
                let made = self.a.op(code, &operands);
                if let Some(k) = mask {
                    made.set_op_mask(k);
                }
            }
            self.a.op(Code::VEX_Kortestb_kr_kr, &[K1.into(), K2.into()]);
            self.a.jump(Code::Jne_rel32_64, slow);
        }
        let (to_double, to_integer) = if signed {
            let to_integer = Code::EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae;
            (Code::EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er, to_integer)
        } else {
            let to_integer = Code::EVEX_Vcvttpd2uqq_zmm_k1z_zmmm512b64_sae;
            (Code::EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er, to_integer)
        };
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..parts(w) {
            let first = self.part_in(a, part, w, Z2);
            let second = self.part_in(b, part, w, Z3);
            self.a.op(to_double, &[Z0.into(), first.into()]);
            self.a.op(to_double, &[Z1.into(), second.into()]);
            let divide = Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er;
            self.a.op(divide, &[Z0.into(), Z0.into(), Z1.into()]);
            self.a.op(to_integer, &[Z0.into(), Z0.into()]);
            if remainder {
                let multiply = Code::EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64;
                self.a.op(multiply, &[Z0.into(), Z0.into(), second.into()]);
                let subtract = Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64;
                self.put(&place, part, subtract, &[first.into(), Z0.into()]);
            } else {
                self.put(&place, part, move_code(w), &[Z0.into()]);
            }
        }
        self.a.bind(back);
    }

    /// A shift by any amount: over the width nothing is left but, of negative numbers, the sign.
    pub(crate) fn scalar_shift(&mut self, inst: &VectorInst, op: IntOp, ty: IntType) {
        let wide = ty.width() == Width::W64;
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let sized = |r: Register| if wide { r } else { r.full_register32() };
        let (rax, ecx, cl) = (sized(A), Register::ECX, Register::CL);
        let bits = if wide { 64 } else { 32 };
        self.scalar_copy(inst.src[0], wide, A);
        self.scalar_copy(inst.src[1], false, C);
        let inside = self.a.label();
        let a = &mut self.a;
        a.op(Code::Cmp_rm32_imm8, &[ecx.into(), X::I(bits)]);
        a.jump(Code::Jb_rel32_64, inside);
        let signed = op == IntOp::Shr && ty.signed();
        if !signed {
            a.op(Code::Xor_r32_rm32, &[Register::EAX.into(), Register::EAX.into()]);
        }
        // Of nothing, nothing is left; the sign is what the last place has.
        a.op(Code::Mov_r32_imm32, &[ecx.into(), X::I(bits - 1)]);
        a.bind(inside);
        let code = match (op, signed) {
            (IntOp::Shl, _) => pick(Code::Shl_rm32_CL, Code::Shl_rm64_CL),
            (_, true) => pick(Code::Sar_rm32_CL, Code::Sar_rm64_CL),
            _ => pick(Code::Shr_rm32_CL, Code::Shr_rm64_CL),
        };
        a.op(code, &[rax.into(), cl.into()]);
        self.scalar_result(inst, 0, A);
    }
}
