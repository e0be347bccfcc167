//! Lane loops: unrolled code for one lane after the other in general registers, with operands and
//! results in stack slots.

use crate::asm::assembler::{X, at};
use crate::frame_layout::{LANE_ADDRESSES, LANE_RESULTS, MASK, SAVED_PAIR, Z0};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::access::{Address, MemAccess};
use crate::operands::{Value, move_code, single, ymm};
use crate::regalloc::allocate::parts;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::Width;
use simt::ir::vector::{Source, VectorInst};

/// Lanes that still have to go, in the loop over some lanes.
const LEFT: Register = Register::ESI;
/// The lane whose turn it is.
const LANE: Register = Register::RDI;

/// Where a lane's operand is in memory.
#[derive(Clone, Copy)]
pub(crate) enum Slot {
    /// The same for all lanes.
    One(MemoryOperand),
    /// Lane after lane behind an offset from a register.
    Lanes(Register, i32),
}

/// Which lane.
#[derive(Clone, Copy)]
pub(crate) enum Turn {
    /// This one.
    Number(usize),
    /// The one that the loop has come to.
    Loop,
}

impl Slot {
    /// The operand of a lane, of `bytes` bytes.
    pub(crate) fn of(self, turn: Turn, bytes: u32) -> MemoryOperand {
        match (self, turn) {
            (Self::One(memory), _) => memory,
            (Self::Lanes(base, offset), Turn::Number(lane)) => {
                at(base, offset + lane as i32 * bytes as i32)
            }
            (Self::Lanes(base, offset), Turn::Loop) => {
                let offset = i64::from(offset);
                MemoryOperand::with_base_index_scale_displ_size(base, LANE, bytes, offset, 8)
            }
        }
    }
}

/// Where results are made.
pub(crate) const RESULTS: Slot = Slot::Lanes(Register::RSP, LANE_RESULTS);

impl Compiler<'_> {
    /// The addresses of an access a lane, 4 or 8 bytes each, in memory; uses Z0.
    pub(crate) fn address_slots(&mut self, mem: MemAccess, address: Address) -> Slot {
        self.address_slots_at(mem, address, LANE_ADDRESSES)
    }

    /// The same, on the stack at `slots` if they are in registers.
    pub(crate) fn address_slots_at(
        &mut self,
        mem: MemAccess,
        address: Address,
        slots: i32,
    ) -> Slot {
        if self.isa == SimdIsa::Avx2 {
            return self.file_address_slots(mem, address, slots);
        }
        let width = if mem.wide { Width::W64 } else { Width::W32 };
        if let (Address::Lanes(Value::Memory(base, offset)), 0) = (address, mem.before) {
            return Slot::Lanes(base, offset);
        }
        for part in 0..parts(width) {
            let register = self.address_part(mem.before, address, part, width, Z0);
            self.lay_out(register, slots + 64 * part as i32);
        }
        Slot::Lanes(Register::RSP, slots)
    }

    /// Puts a register onto the stack from where lanes take their own: half by half, since
    /// processors whose units are half as wide pass on to a load only what one of them stores.
    pub(crate) fn lay_out(&mut self, register: Register, offset: i32) {
        let [low, high] = [0, 32].map(|half| at(Register::RSP, offset + half));
        self.a.op(Code::EVEX_Vmovdqu32_ymmm256_k1z_ymm, &[low.into(), ymm(register).into()]);
        let code = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
        self.a.op(code, &[high.into(), register.into(), X::I(1)]);
    }

    /// A source a lane in memory: on the stack at `offset`, if it is in registers. Uses Z0, or RCX
    /// without AVX-512.
    pub(crate) fn value_slots(&mut self, source: Source, width: Width, offset: i32) -> Slot {
        if self.isa == SimdIsa::Avx2 {
            return self.source_slots(source, width, offset);
        }
        match self.value(source, width) {
            Value::One(memory) | Value::Whole(memory) => Slot::One(single(memory)),
            Value::Memory(base, offset) => Slot::Lanes(base, offset),
            value @ (Value::Parts(_) | Value::Same(_)) => {
                for part in 0..parts(width) {
                    let register = self.part_in(value, part, width, Z0);
                    self.lay_out(register, offset + 64 * part as i32);
                }
                Slot::Lanes(Register::RSP, offset)
            }
        }
    }

    /// Gives result `n` what [`RESULTS`] hold.
    pub(crate) fn take_results(&mut self, inst: &VectorInst, n: usize, width: Width) {
        if self.isa == SimdIsa::Avx2 {
            return self.put_lanes(inst, n, width, Some(LANE_RESULTS));
        }
        let place = self.dest(inst, &inst.dst[n]);
        for part in 0..parts(width) {
            let from = at(Register::RSP, LANE_RESULTS + 64 * part as i32);
            self.put(&place, part, move_code(width), &[from.into()]);
        }
    }

    /// The lanes that run the instruction, in EAX.
    pub(crate) fn lanes_in_eax(&mut self, inst: &VectorInst) {
        match inst.guard {
            Some(guard) => self.active_lanes(guard),
            None => {
                self.a.op(Code::Mov_r32_rm32, &[Register::EAX.into(), MASK.into()]);
            }
        }
    }

    /// Makes code for each lane, or in a loop over `some`: those that run the instruction. It may
    /// use RAX, RCX and what was scratch before, and must keep RDX between lanes if it needs it.
    pub(crate) fn in_turn(
        &mut self,
        inst: &VectorInst,
        some: bool,
        mut one: impl FnMut(&mut Self, Turn),
    ) {
        if !some {
            for lane in 0..32 {
                one(self, Turn::Number(lane));
            }
            return;
        }
        let (next, none) = (self.a.label(), self.a.label());
        let pair = [(Register::RSI, SAVED_PAIR), (LANE, SAVED_PAIR + 8)];
        for (register, slot) in pair {
            self.a.op(Code::Mov_rm64_r64, &[at(Register::RSP, slot).into(), register.into()]);
        }
        self.lanes_in_eax(inst);
        self.a.op(Code::Mov_r32_rm32, &[LEFT.into(), Register::EAX.into()]);
        self.a.op(Code::Test_rm32_r32, &[LEFT.into(), LEFT.into()]);
        self.a.jump(Code::Je_rel32_64, none);
        self.a.bind(next);
        self.a.op(Code::Tzcnt_r32_rm32, &[Register::EDI.into(), LEFT.into()]);
        one(self, Turn::Loop);
        self.a.op(Code::VEX_Blsr_r32_rm32, &[LEFT.into(), LEFT.into()]);
        self.a.jump(Code::Jne_rel32_64, next);
        self.a.bind(none);
        for (register, slot) in pair {
            self.a.op(Code::Mov_r64_rm64, &[register.into(), at(Register::RSP, slot).into()]);
        }
        self.in_eax = None;
    }
}
