//! Scalarised accesses: checked together, then made one lane after the other, for elements narrower
//! than their registers and for processors without scatters.

use crate::asm::assembler::Label;
use crate::frame_layout::{A, C, D, LANE_VALUES};
use crate::function::Compiler;
use crate::memory::access::{Address, MemAccess};
use crate::memory::lane_loop::{RESULTS, Turn};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{Access, Width};
use simt::ir::vector::VectorInst;

/// True if an element is narrower than its register, or too narrow for gathers.
pub(crate) fn is_narrow(access: Access) -> bool {
    access.bytes <= 2 || access.bytes == 4 && access.width == Width::W64
}

/// The instruction that loads an element into all of a register, and the register as it names it.
pub(crate) fn load_code(access: Access, to: Register) -> (Code, Register) {
    let low = to.full_register32();
    let wide = access.width == Width::W64;
    match (access.bytes, access.signed, wide) {
        (1, false, _) => (Code::Movzx_r32_rm8, low),
        (1, true, false) => (Code::Movsx_r32_rm8, low),
        (1, true, true) => (Code::Movsx_r64_rm8, to),
        (2, true, true) => (Code::Movsx_r64_rm16, to),
        (2, true, false) => (Code::Movsx_r32_rm16, low),
        (2, false, _) => (Code::Movzx_r32_rm16, low),
        (8, ..) => (Code::Mov_r64_rm64, to),
        (_, true, true) => (Code::Movsxd_r64_rm32, to),
        _ => (Code::Mov_r32_rm32, low),
    }
}

/// The instruction that stores as many bytes of RCX.
fn store_code(bytes: u32) -> (Code, Register) {
    match bytes {
        1 => (Code::Mov_rm8_r8, Register::CL),
        2 => (Code::Mov_rm16_r16, Register::CX),
        4 => (Code::Mov_rm32_r32, Register::ECX),
        _ => (Code::Mov_rm64_r64, C),
    }
}

impl Compiler<'_> {
    /// An access of which every lane is checked and made on its own.
    pub(crate) fn narrow_lanes(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        back: Label,
    ) {
        let slow = self.interpreter_path(back);
        let (mem, some) = self.check_lanes(inst, mem, address, slow);
        let addresses = self.address_slots(mem, address);
        let Access { bytes, width, count, .. } = mem.access;
        for element in 0..usize::from(count) {
            let values =
                mem.write.then(|| self.value_slots(inst.src[2 + element], width, LANE_VALUES));
            let offset = mem.offset + element as i32 * i32::from(bytes);
            self.in_turn(inst, some, |this, turn| {
                let memory = if mem.wide {
                    let address = addresses.of(turn, 8);
                    this.a.op(Code::Mov_r64_rm64, &[A.into(), address.into()]);
                    crate::asm::assembler::at(A, offset)
                } else {
                    let address = addresses.of(turn, 4);
                    this.a.op(Code::Mov_r32_rm32, &[Register::EAX.into(), address.into()]);
                    let offset = i64::from(offset);
                    MemoryOperand::with_base_index_scale_displ_size(D, A, 1, offset, 8)
                };
                this.narrow_element(mem, memory, values.map(|v| v.of(turn, width.bytes())), turn);
            });
            if !mem.write {
                self.take_results(inst, element, width);
            }
        }
    }

    /// Stores a value to an element or, without one, loads it to the lane's result.
    fn narrow_element(
        &mut self,
        mem: MemAccess,
        memory: MemoryOperand,
        value: Option<MemoryOperand>,
        turn: Turn,
    ) {
        let bytes = mem.access.width.bytes();
        match value {
            Some(value) => {
                let load = match bytes {
                    2 => (Code::Movzx_r32_rm16, Register::ECX),
                    4 => (Code::Mov_r32_rm32, Register::ECX),
                    _ => (Code::Mov_r64_rm64, C),
                };
                self.a.op(load.0, &[load.1.into(), value.into()]);
                let (code, from) = store_code(mem.access.bytes.into());
                self.a.op(code, &[memory.into(), from.into()]);
            }
            None => {
                let (code, to) = load_code(mem.access, C);
                self.a.op(code, &[to.into(), memory.into()]);
                let (code, from) = store_code(bytes);
                self.a.op(code, &[RESULTS.of(turn, bytes).into(), from.into()]);
            }
        }
    }
}
