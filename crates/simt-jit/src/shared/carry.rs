//! Add and subtract with carry, uniform and (AVX-512) on lanes; the carry is a predicate.

use crate::asm::assembler::{X, repeated};
use crate::frame_layout::{A, C, D, K1, K2, MASK, Z0, Z1, Z2};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::operands::move_code;
use crate::regalloc::allocate::parts;
use iced_x86::{Code, Register};
use simt::ir::op::{Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};

/// What there is to do.
#[derive(Clone, Copy)]
struct Carry {
    subtract: bool,
    width: Width,
    carry_in: bool,
    carry_out: bool,
}

impl Compiler<'_> {
    /// Makes code for a sum or difference with a carry flag; false if there is none.
    pub(crate) fn carry(&mut self, inst: &VectorInst) -> bool {
        let Op::Carry { subtract, width, carry_in, carry_out } = inst.op else { return false };
        let carry = Carry { subtract, width, carry_in, carry_out };
        let storage = |n: usize| inst.dst.get(n).map(|d| self.f.storage[d.reg.index()]);
        if carry_out && storage(1) != Some(StorageClass::Mask)
            || !matches!(width, Width::W32 | Width::W64)
        {
            return false;
        }
        match (inst.uniform, storage(0)) {
            (_, None | Some(StorageClass::Mask | StorageClass::None)) => false,
            (true, Some(StorageClass::Vector)) => false,
            (true, _) if inst.guard.is_none() => {
                self.carry_one(inst, carry);
                true
            }
            (false, Some(StorageClass::Vector)) if self.isa == SimdIsa::Avx512 => {
                self.carry_lanes(inst, carry)
            }
            _ => false,
        }
    }

    fn carry_one(&mut self, inst: &VectorInst, carry: Carry) {
        let (eax, wide) = (Register::EAX, carry.width == Width::W64);
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let first = self.scalar_copy(inst.src[0], wide, D);
        let second = self.scalar_copy(inst.src[1], wide, C);
        let code = match (carry.subtract, carry.carry_in) {
            (false, false) => pick(Code::Add_r32_rm32, Code::Add_r64_rm64),
            (false, true) => pick(Code::Adc_r32_rm32, Code::Adc_r64_rm64),
            (true, false) => pick(Code::Sub_r32_rm32, Code::Sub_r64_rm64),
            (true, true) => pick(Code::Sbb_r32_rm32, Code::Sbb_r64_rm64),
        };
        if carry.carry_in {
            self.load_mask(A, inst.src[2]);
            self.a.op(Code::And_r32_rm32, &[eax.into(), MASK.into()]);
            // Sets the carry flag unless it is zero.
            self.a.op(Code::Neg_rm32, &[eax.into()]);
        }
        self.a.op(code, &[first.into(), second.into()]);
        self.a.op(Code::Sbb_r32_rm32, &[eax.into(), eax.into()]);
        self.scalar_result(inst, 0, D);
        if carry.carry_out {
            self.store_predicate(inst, 1);
        }
    }

    fn carry_lanes(&mut self, inst: &VectorInst, carry: Carry) -> bool {
        let Carry { subtract, width, carry_in, carry_out } = carry;
        if !matches!(self.assignment.same.get(inst.dst[0].reg.index()), Some(false))
            || inst.src.iter().any(|s| matches!(s, Source::Affine(..) | Source::HalfAffine(..)))
        {
            return false;
        }
        let wide = width == Width::W64;
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let step = pick(
            Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
            Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
        );
        let difference = pick(
            Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
            Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64,
        );
        let (combine, one) = if subtract { (difference, -1i64) } else { (step, 1) };
        let below = pick(
            Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
            Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8,
        );
        let one = self.a.constant(&one.to_le_bytes()[..width.bytes() as usize]);
        let (a, b) = (self.value(inst.src[0], width), self.value(inst.src[1], width));
        // Masks are made with EAX and ECX, results gather in EDX.
        let place = self.dest(inst, &inst.dst[0]);
        let carries = carry_in.then(|| self.predicate(inst.src[2]));
        let (ecx, edx) = (Register::ECX, Register::EDX);
        self.a.op(Code::Xor_r32_rm32, &[edx.into(), edx.into()]);
        for part in 0..parts(width) {
            let first = self.part_in(a, part, width, Z0);
            let second = self.part_in(b, part, width, Z1);
            self.a.op(combine, &[Z2.into(), first.into(), second.into()]);
            // A sum that wraps is below its parts; a difference wraps if it takes away more.
            let than = if subtract { second } else { first };
            let less = if subtract { first } else { Z2 };
            self.a.op(below, &[K1.into(), less.into(), than.into(), X::I(1)]);
            if let Some(carries) = carries {
                let k = self.of_pair(carries, part, width);
                // One more wraps at the end: at zero going down, and to zero going up.
                let zero = pick(
                    Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32,
                    Code::EVEX_Vptestnmq_kr_k1_zmm_zmmm512b64,
                );
                let test = [K2.into(), Z2.into(), Z2.into()];
                if subtract {
                    self.a.op(zero, &test).set_op_mask(k);
                }
                let more = [Z2.into(), Z2.into(), repeated(one).into()];
                self.a.op(step, &more).set_op_mask(k);
                if !subtract {
                    self.a.op(zero, &test).set_op_mask(k);
                }
                self.a.op(Code::VEX_Korw_kr_kr_kr, &[K1.into(), K1.into(), K2.into()]);
            }
            if carry_out {
                self.a.op(Code::VEX_Kmovw_r32_kr, &[ecx.into(), K1.into()]);
                let lanes = 32 / parts(width) as i32;
                self.a.op(Code::Shl_rm32_imm8, &[ecx.into(), X::I(lanes * part as i32)]);
                self.a.op(Code::Or_r32_rm32, &[edx.into(), ecx.into()]);
            }
            self.put(&place, part, move_code(width), &[Z2.into()]);
        }
        if carry_out {
            self.a.op(Code::Mov_r32_rm32, &[Register::EAX.into(), edx.into()]);
            self.store_predicate(inst, 1);
        }
        true
    }
}
