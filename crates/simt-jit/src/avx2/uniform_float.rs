//! Uniform floating-point instructions, in the low element of a vector register.

use crate::asm::assembler::X;
use crate::frame_layout::{A, C};
use crate::function::Compiler;
use crate::lanewise::compare::float_condition;
use iced_x86::{Code, Register};
use simt::ir::op::{Compare, FloatOp};
use simt::ir::vector::{Source, VectorInst};

impl Compiler<'_> {
    /// A scalar source in the lowest lane of a register.
    fn lowest(&mut self, source: Source, double: bool, to: Register) {
        let from = self.scalar_in(source, double, C);
        let code = if double { Code::VEX_Vmovq_xmm_rm64 } else { Code::VEX_Vmovd_xmm_rm32 };
        self.a.op(code, &[to.into(), from.into()]);
    }

    /// Arithmetic on one float, rounded to nearest.
    pub(crate) fn single_float(&mut self, inst: &VectorInst, op: FloatOp, double: bool) {
        let pick = |narrow: Code, wide: Code| if double { wide } else { narrow };
        let registers = [Register::XMM0, Register::XMM1, Register::XMM2];
        for (source, register) in inst.src.iter().zip(registers) {
            self.lowest(*source, double, register);
        }
        let [a, b, c]: [X; 3] = registers.map(X::from);
        let code = match op {
            FloatOp::Fma => {
                let code = pick(
                    Code::VEX_Vfmadd213ss_xmm_xmm_xmmm32,
                    Code::VEX_Vfmadd213sd_xmm_xmm_xmmm64,
                );
                self.a.op(code, &[a, b, c]);
                None
            }
            FloatOp::Add => {
                Some(pick(Code::VEX_Vaddss_xmm_xmm_xmmm32, Code::VEX_Vaddsd_xmm_xmm_xmmm64))
            }
            FloatOp::Sub => {
                Some(pick(Code::VEX_Vsubss_xmm_xmm_xmmm32, Code::VEX_Vsubsd_xmm_xmm_xmmm64))
            }
            FloatOp::Mul => {
                Some(pick(Code::VEX_Vmulss_xmm_xmm_xmmm32, Code::VEX_Vmulsd_xmm_xmm_xmmm64))
            }
            _ => Some(pick(Code::VEX_Vdivss_xmm_xmm_xmmm32, Code::VEX_Vdivsd_xmm_xmm_xmmm64)),
        };
        if let Some(code) = code {
            self.a.op(code, &[a, a, b]);
        }
        let (store, to) = if double {
            (Code::VEX_Vmovq_rm64_xmm, A)
        } else {
            (Code::VEX_Vmovd_rm32_xmm, Register::EAX)
        };
        self.a.op(store, &[to.into(), a]);
        if !double {
            let number = self.a.label();
            self.a.op(Code::VEX_Vucomiss_xmm_xmmm32, &[a, a]);
            self.a.jump(Code::Jnp_rel32_64, number);
            self.a.load_constant(A, u64::from(simt::analysis::nan_demand::NAN));
            self.a.bind(number);
        }
        self.scalar_result(inst, 0, A);
    }

    /// A comparison of two floats: -1 or 0 in EAX.
    pub(crate) fn single_compare(&mut self, inst: &VectorInst, compare: Compare, double: bool) {
        let [a, b]: [X; 2] = [Register::XMM0.into(), Register::XMM1.into()];
        self.lowest(inst.src[0], double, Register::XMM0);
        self.lowest(inst.src[1], double, Register::XMM1);
        let code = if double {
            Code::VEX_Vcmpsd_xmm_xmm_xmmm64_imm8
        } else {
            Code::VEX_Vcmpss_xmm_xmm_xmmm32_imm8
        };
        self.a.op(code, &[a, a, b, X::I(float_condition(compare))]);
        self.a.op(Code::VEX_Vmovd_rm32_xmm, &[Register::EAX.into(), a]);
    }
}
