//! Stores of all lanes to one address: only the last lane's value is stored. They stand between
//! regions.

use crate::asm::assembler::{X, at};
use crate::frame_layout::{C, D, FILE};
use crate::function::Compiler;
use crate::memory::access::MemAccess;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{Access, Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};
use simt::kernel::WARP_LANES;

impl Compiler<'_> {
    /// The place that all lanes store to, and what they do, if the instruction is such a store.
    pub(in crate::avx2) fn one_place(&self, inst: &VectorInst) -> Option<(Source, MemAccess)> {
        let (Op::Store(access), Source::Vector(r)) = (&inst.op, inst.src[0]) else { return None };
        let mem = self.mem(inst)?;
        let same = !inst.uniform && self.f.storage[r.index()] == StorageClass::ScalarAndVector;
        let fits = mem.wide != mem.shared && access.width != Width::W128;
        (same && fits && inst.src.len() == 2 + usize::from(access.count))
            .then_some((Source::Scalar(r), mem))
    }

    /// Makes such a store; false if it is none.
    pub(in crate::avx2) fn store_last(&mut self, inst: &VectorInst) -> bool {
        let Some((address, mem)) = self.one_place(inst) else { return false };
        let some = self.masked || inst.guard.is_some();
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        let eax = Register::EAX;
        if inst.guard.is_some() {
            self.lanes_in_eax(inst);
            self.a.op(Code::Test_rm32_r32, &[eax.into(), eax.into()]);
            self.a.jump(Code::Je_rel32_64, back);
        }
        self.number_in(address, mem, C);
        self.add_to_address(mem, i64::from(mem.offset));
        self.check(mem, mem.total, slow);
        if some {
            self.count_some(inst, mem);
            self.lanes_in_eax(inst);
            self.a.op(Code::Lzcnt_r32_rm32, &[Register::EDX.into(), eax.into()]);
            let last = WARP_LANES as i32 - 1;
            self.a.op(Code::Xor_rm32_imm8, &[Register::EDX.into(), X::I(last)]);
        } else {
            self.count(mem, WARP_LANES as i32 * mem.total);
        }
        for (element, source) in inst.src[2..].iter().enumerate() {
            let to = at(C, element as i32 * i32::from(mem.access.bytes));
            match *source {
                Source::Vector(r) if self.f.storage[r.index()] == StorageClass::Vector => {
                    let start = self.layout.place(r.index()).vector.unwrap_or(0) as i32;
                    self.move_last(mem.access, start, some, to);
                }
                Source::Vector(r) => self.store_scalar(Source::Scalar(r), mem.access, to),
                one => self.store_scalar(one, mem.access, to),
            }
        }
        self.in_eax = None;
        self.a.bind(back);
        true
    }

    /// Moves an element of a lane in the register file: of the one whose number is in RDX if not all
    /// run. Uses RAX.
    fn move_last(&mut self, access: Access, start: i32, some: bool, to: MemoryOperand) {
        let bytes = access.width.bytes();
        let from = if some {
            let start = i64::from(start);
            MemoryOperand::with_base_index_scale_displ_size(FILE, D, bytes, start, 8)
        } else {
            at(FILE, start + (WARP_LANES as i32 - 1) * bytes as i32)
        };
        let (load, store, register) = match access.bytes {
            1 => (Code::Movzx_r32_rm8, Code::Mov_rm8_r8, [Register::EAX, Register::AL]),
            2 => (Code::Movzx_r32_rm16, Code::Mov_rm16_r16, [Register::EAX, Register::AX]),
            4 => (Code::Mov_r32_rm32, Code::Mov_rm32_r32, [Register::EAX; 2]),
            _ => (Code::Mov_r64_rm64, Code::Mov_rm64_r64, [Register::RAX; 2]),
        };
        self.a.op(load, &[register[0].into(), from.into()]);
        self.a.op(store, &[to.into(), register[1].into()]);
    }
}
