//! Division of one value for all lanes, and shifts of one by an amount that is not known when the
//! code is made: in general registers.

use crate::assembler::X;
use crate::compiler::Compiler;
use crate::frame::{A, C, D};
use iced_x86::{Code, Register};
use simt::op::{IntOp, IntType, Width};
use simt::vector::VectorInst;

impl Compiler<'_> {
    /// A quotient or, with `remainder`, what is left. What is divided by 0 gives all ones, and all
    /// is left of it.
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
        a.op(pick(Code::Mov_r32_rm32, Code::Mov_r64_rm64), &[rdx.into(), rax.into()]);
        a.op(pick(Code::Or_rm32_imm8, Code::Or_rm64_imm8), &[rax.into(), X::I(-1)]);
        a.bind(done);
        self.scalar_result(inst, 0, if remainder { D } else { A });
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
