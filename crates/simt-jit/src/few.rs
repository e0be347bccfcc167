//! Accesses apart that turn out to be one: a full warp that loads one element, and one lane alone.

use crate::access::{Address, Plan};
use crate::assembler::{Label, X, at};
use crate::assign::parts;
use crate::compiler::Compiler;
use crate::frame::{A, C, D, K1, LANE_VALUES, SAVED_PAIR, Z0, Z1};
use crate::scalar::mov;
use crate::turnwise::Slot;
use crate::value::{Value, xmm};
use iced_x86::{Code, MemoryOperand, Register};
use simt::op::Width;
use simt::vector::VectorInst;

/// Where the lane is kept whose turn it is, while its access is checked.
const KEPT: i32 = SAVED_PAIR;

impl Compiler<'_> {
    /// If all lanes of a full warp load from one address, does it at once and goes to `back`.
    pub(crate) fn same_for_all(
        &mut self,
        inst: &VectorInst,
        plan: Plan,
        address: Value,
        back: Label,
    ) {
        let slow = self.aside(back);
        let apart = self.a.label();
        let wide = plan.wide;
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let base = if wide { C } else { Register::ECX };
        match self.part(address, 0) {
            X::R(register) => {
                let code = pick(Code::EVEX_Vmovd_rm32_xmm, Code::EVEX_Vmovq_rm64_xmm);
                self.a.op(code, &[base.into(), xmm(register).into()]);
            }
            memory => {
                self.a.op(mov(wide), &[base.into(), memory]);
            }
        }
        let spread = pick(Code::EVEX_Vpbroadcastd_zmm_k1z_r32, Code::EVEX_Vpbroadcastq_zmm_k1z_r64);
        self.a.op(spread, &[Z1.into(), base.into()]);
        for part in 0..parts(if wide { Width::W64 } else { Width::W32 }) {
            let theirs = self.part(address, part);
            if part == 0 {
                let xor = Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
                self.a.op(xor, &[Z0.into(), Z1.into(), theirs]);
            } else {
                // a | (b ^ c)
                let code = Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8;
                self.a.op(code, &[Z0.into(), Z1.into(), theirs, X::I(0xf6u8 as i8 as i32)]);
            }
        }
        let test = Code::EVEX_Vptestmq_kr_k1_zmm_zmmm512b64;
        self.a.op(test, &[K1.into(), Z0.into(), Z0.into()]);
        self.a.op(Code::VEX_Kortestb_kr_kr, &[K1.into(), K1.into()]);
        self.a.jump(Code::Jne_rel32_64, apart);
        self.step_to_element(plan);
        self.check(plan, plan.total, slow);
        self.count(plan, 32 * plan.total);
        let width = plan.access.width;
        for element in 0..usize::from(plan.access.count) {
            let from = at(C, element as i32 * i32::from(plan.access.bytes));
            let place = self.dest(inst, &inst.dst[element]);
            for part in 0..parts(width) {
                let code = match width {
                    Width::W64 => Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64,
                    _ => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
                };
                self.put(&place, part, code, &[from.into()]);
            }
        }
        self.a.jump(Code::Jmp_rel32_64, back);
        self.a.bind(apart);
    }

    /// Adds the access's offset to the address in RCX.
    fn step_to_element(&mut self, plan: Plan) {
        if plan.offset != 0 {
            let (code, base) = if plan.wide {
                (Code::Add_rm64_imm32, C)
            } else {
                (Code::Add_rm32_imm32, Register::ECX)
            };
            self.a.op(code, &[base.into(), X::I(plan.offset)]);
        }
    }

    /// If one lane only runs the instruction, makes its access and goes to `back`; also if none
    /// does.
    pub(crate) fn one_lane(
        &mut self,
        inst: &VectorInst,
        plan: Plan,
        address: Address,
        back: Label,
    ) {
        let slow = self.aside(back);
        let many = self.a.label();
        let (eax, edx) = (Register::EAX, Register::EDX);
        // Here, so that it is done wherever `back` is come from.
        self.activate(inst.guard);
        self.lanes_in_eax(inst);
        self.a.op(Code::Test_rm32_r32, &[eax.into(), eax.into()]);
        self.a.jump(Code::Je_rel32_64, back);
        self.a.op(Code::VEX_Blsr_r32_rm32, &[edx.into(), eax.into()]);
        self.a.jump(Code::Jne_rel32_64, many);
        let kept = at(Register::RSP, KEPT);
        self.a.op(Code::Tzcnt_r32_rm32, &[eax.into(), eax.into()]);
        self.a.op(Code::Mov_rm64_r64, &[kept.into(), A.into()]);
        // Formulas need RAX.
        let addresses = self.address_slots(plan, address);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), kept.into()]);
        let bytes = if plan.wide { 8 } else { 4 };
        let base = if plan.wide { C } else { Register::ECX };
        self.a.op(mov(plan.wide), &[base.into(), of_lane(addresses, bytes).into()]);
        self.step_to_element(plan);
        self.check(plan, plan.total, slow);
        self.count(plan, plan.total);
        let width = plan.access.width;
        let wide = width == Width::W64;
        for element in 0..usize::from(plan.access.count) {
            let memory = at(C, element as i32 * i32::from(plan.access.bytes));
            let value = if wide { D } else { edx };
            if plan.write {
                let values = self.value_slots(inst.src[2 + element], width, LANE_VALUES);
                self.a.op(Code::Mov_r64_rm64, &[A.into(), kept.into()]);
                let from = of_lane(values, width.bytes());
                self.a.op(mov(wide), &[value.into(), from.into()]);
                let store = if wide { Code::Mov_rm64_r64 } else { Code::Mov_rm32_r32 };
                self.a.op(store, &[memory.into(), value.into()]);
                continue;
            }
            let place = self.dest(inst, &inst.dst[element]);
            for part in 0..parts(width) {
                let code = match width {
                    Width::W64 => Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64,
                    _ => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
                };
                self.put(&place, part, code, &[memory.into()]);
            }
        }
        self.a.jump(Code::Jmp_rel32_64, back);
        self.a.bind(many);
        self.in_eax = None;
    }
}

/// The operand of the lane in RAX.
fn of_lane(slot: Slot, bytes: u32) -> MemoryOperand {
    match slot {
        Slot::One(memory) => memory,
        Slot::Lanes(base, offset) => {
            let offset = i64::from(offset);
            MemoryOperand::with_base_index_scale_displ_size(base, A, bytes, offset, 8)
        }
    }
}
