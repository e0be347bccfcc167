//! Run-time fast paths tried before a gather or scatter: uniform address, one active lane, unit
//! stride.

use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{A, C, D, K1, K2, LANE_VALUES, SAVED_PAIR, Z1, Z2};
use crate::function::Compiler;
use crate::memory::access::{Address, MemAccess, span_code};
use crate::memory::lane_loop::Slot;
use crate::memory::per_lane_access::{is_narrow, load_code};
use crate::operands::{Value, xmm};
use crate::regalloc::allocate::parts;
use crate::scalar::integer::mov;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::Width;
use simt::ir::vector::VectorInst;

/// Where the lane is kept whose turn it is, while its access is checked.
const SUMS: i32 = SAVED_PAIR;

impl Compiler<'_> {
    /// If all lanes that run load from one address, does it at once and goes to `back`; also if
    /// there are none.
    pub(crate) fn same_for_all(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Value,
        back: Label,
    ) {
        let slow = self.interpreter_path(back);
        let apart = self.a.label();
        let some = self.masked || inst.guard.is_some();
        if some {
            self.first_of_some(inst, mem, address, back);
        } else {
            self.first_of_all(mem, address);
        }
        self.differ_from_first(mem, address, some);
        self.a.jump(Code::Jne_rel32_64, apart);
        self.step_to_element(mem);
        self.check(mem, mem.total, slow);
        if some {
            self.count_some(inst, mem);
        } else {
            self.count(mem, 32 * mem.total);
        }
        let access = mem.access;
        let width = access.width;
        for element in 0..usize::from(access.count) {
            let memory = at(C, element as i32 * i32::from(access.bytes));
            let place = self.dest(inst, &inst.dst[element]);
            let (code, from) = if is_narrow(access) {
                let (load, to) = load_code(access, D);
                self.a.op(load, &[to.into(), memory.into()]);
                match width {
                    Width::W16 => (Code::EVEX_Vpbroadcastw_zmm_k1z_r32, Register::EDX.into()),
                    Width::W64 => (Code::EVEX_Vpbroadcastq_zmm_k1z_r64, D.into()),
                    _ => (Code::EVEX_Vpbroadcastd_zmm_k1z_r32, Register::EDX.into()),
                }
            } else {
                (broadcast(width), memory.into())
            };
            for part in 0..parts(width) {
                self.put(&place, part, code, &[from]);
            }
        }
        self.a.jump(Code::Jmp_rel32_64, back);
        self.a.bind(apart);
        self.in_eax = None;
    }

    /// Lane 0's address in RCX.
    pub(crate) fn first_of_all(&mut self, mem: MemAccess, address: Value) {
        let base = if mem.wide { C } else { Register::ECX };
        match self.part(address, 0) {
            X::R(register) => {
                let code = match mem.wide {
                    true => Code::EVEX_Vmovq_rm64_xmm,
                    false => Code::EVEX_Vmovd_rm32_xmm,
                };
                self.a.op(code, &[base.into(), xmm(register).into()]);
            }
            memory => {
                self.a.op(mov(mem.wide), &[base.into(), memory]);
            }
        }
    }

    /// The address of the first lane that runs in RCX; goes to `back` if none does.
    fn first_of_some(&mut self, inst: &VectorInst, mem: MemAccess, address: Value, back: Label) {
        let eax = Register::EAX;
        // Here, so that it is done wherever `back` is come from.
        self.activate(inst.guard);
        self.lanes_in_eax(inst);
        self.a.op(Code::Test_rm32_r32, &[eax.into(), eax.into()]);
        self.a.jump(Code::Je_rel32_64, back);
        self.a.op(Code::Tzcnt_r32_rm32, &[eax.into(), eax.into()]);
        let addresses = self.address_slots(mem, Address::Lanes(address));
        let (base, bytes) = if mem.wide { (C, 8) } else { (Register::ECX, 4) };
        self.a.op(mov(mem.wide), &[base.into(), of_lane(addresses, bytes).into()]);
    }

    /// Sets the zero flag if the addresses of the lanes that run are what is in RCX.
    fn differ_from_first(&mut self, mem: MemAccess, address: Value, some: bool) {
        let (width, spread, base, compare) = if mem.wide {
            let compare = Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8;
            (Width::W64, Code::EVEX_Vpbroadcastq_zmm_k1z_r64, C, compare)
        } else {
            let compare = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
            (Width::W32, Code::EVEX_Vpbroadcastd_zmm_k1z_r32, Register::ECX, compare)
        };
        self.a.op(spread, &[Z1.into(), base.into()]);
        for part in 0..parts(width) {
            let k = if some { Some(self.active(part, width)) } else { None };
            let found = if part == 0 { K2 } else { K1 };
            let theirs = self.part(address, part);
            let made = self.a.op(compare, &[found.into(), Z1.into(), theirs, X::I(4)]);
            if let Some(k) = k {
                made.set_op_mask(k);
            }
            if part > 0 {
                self.a.op(Code::VEX_Korw_kr_kr_kr, &[K2.into(), K2.into(), K1.into()]);
            }
        }
        self.a.op(Code::VEX_Kortestw_kr_kr, &[K2.into(), K2.into()]);
    }

    /// Adds the access's offset to the address in RCX.
    fn step_to_element(&mut self, mem: MemAccess) {
        if mem.offset != 0 {
            let (code, base) = if mem.wide {
                (Code::Add_rm64_imm32, C)
            } else {
                (Code::Add_rm32_imm32, Register::ECX)
            };
            self.a.op(code, &[base.into(), X::I(mem.offset)]);
        }
    }

    /// If one lane only runs the instruction, makes its access and goes to `back`; also if none
    /// does.
    pub(crate) fn one_lane(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        back: Label,
    ) {
        let slow = self.interpreter_path(back);
        let many = self.a.label();
        let (eax, edx) = (Register::EAX, Register::EDX);
        // Here, so that it is done wherever `back` is come from.
        self.activate(inst.guard);
        self.lanes_in_eax(inst);
        self.a.op(Code::Test_rm32_r32, &[eax.into(), eax.into()]);
        self.a.jump(Code::Je_rel32_64, back);
        self.a.op(Code::VEX_Blsr_r32_rm32, &[edx.into(), eax.into()]);
        self.a.jump(Code::Jne_rel32_64, many);
        let kept = at(Register::RSP, SUMS);
        self.a.op(Code::Tzcnt_r32_rm32, &[eax.into(), eax.into()]);
        self.a.op(Code::Mov_rm64_r64, &[kept.into(), A.into()]);
        // Formulas need RAX.
        let addresses = self.address_slots(mem, address);
        self.a.op(Code::Mov_r64_rm64, &[A.into(), kept.into()]);
        let bytes = if mem.wide { 8 } else { 4 };
        let base = if mem.wide { C } else { Register::ECX };
        self.a.op(mov(mem.wide), &[base.into(), of_lane(addresses, bytes).into()]);
        self.step_to_element(mem);
        self.check(mem, mem.total, slow);
        self.count(mem, mem.total);
        let width = mem.access.width;
        let wide = width == Width::W64;
        for element in 0..usize::from(mem.access.count) {
            let memory = at(C, element as i32 * i32::from(mem.access.bytes));
            let value = if wide { D } else { edx };
            if mem.write {
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
                self.put(&place, part, broadcast(width), &[memory.into()]);
            }
        }
        self.a.jump(Code::Jmp_rel32_64, back);
        self.a.bind(many);
        self.in_eax = None;
    }

    /// If the lanes that run access elements as far apart as they are themselves, makes the access
    /// at once and goes to `back`; also if none runs.
    pub(crate) fn neighbours(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Value,
        back: Label,
    ) {
        let MemAccess { access, write, total, wide, .. } = mem;
        let Some(code) = span_code(access, write) else { return };
        if access.count != 1 {
            return;
        }
        let slow = self.interpreter_path(back);
        let apart = self.a.label();
        self.first_of_some(inst, mem, address, back);
        // Where lane 0's would be.
        let log = X::I(total.trailing_zeros() as i32);
        self.a.op(Code::Shl_rm32_imm8, &[Register::EAX.into(), log]);
        if wide {
            self.a.op(Code::Sub_r64_rm64, &[C.into(), A.into()]);
        } else {
            self.a.op(Code::Sub_r32_rm32, &[Register::ECX.into(), Register::EAX.into()]);
            self.a.jump(Code::Jb_rel32_64, apart);
        }
        let (width, spread, base, add, compare) = if wide {
            let compare = Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8;
            let add = Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64;
            (Width::W64, Code::EVEX_Vpbroadcastq_zmm_k1z_r64, C, add, compare)
        } else {
            let compare = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
            let add = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
            (Width::W32, Code::EVEX_Vpbroadcastd_zmm_k1z_r32, Register::ECX, add, compare)
        };
        self.a.op(spread, &[Z1.into(), base.into()]);
        for part in 0..parts(width) {
            let first = part * (64 / width.bytes() as usize);
            let steps = self.steps(i64::from(total), first, width);
            self.a.op(add, &[Z2.into(), Z1.into(), steps.into()]);
            let k = self.active(part, width);
            let theirs = self.part(address, part);
            let found = if part == 0 { K2 } else { K1 };
            self.a.op(compare, &[found.into(), Z2.into(), theirs, X::I(4)]).set_op_mask(k);
            if part > 0 {
                self.a.op(Code::VEX_Korw_kr_kr_kr, &[K2.into(), K2.into(), K1.into()]);
            }
        }
        self.a.op(Code::VEX_Kortestw_kr_kr, &[K2.into(), K2.into()]);
        self.a.jump(Code::Jne_rel32_64, apart);
        self.step_to_element(mem);
        self.check_some(inst, mem, 0, slow, back);
        self.count_some(inst, mem);
        self.transfer_some(inst, mem, code);
        self.a.jump(Code::Jmp_rel32_64, back);
        self.a.bind(apart);
        self.in_eax = None;
    }
}

/// The instruction that repeats a value from memory.
fn broadcast(width: Width) -> Code {
    match width {
        Width::W64 => Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64,
        _ => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
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
