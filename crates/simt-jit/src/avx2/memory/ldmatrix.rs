//! `ldmatrix` between regions: rows of 16 bytes from the lanes' addresses into the register file,
//! where lanes 4 r to 4 r + 3 have row r of a matrix.
//!
//! Deliberately absent: warps that are not whole, and stores. They run in the interpreter.

use crate::asm::assembler::at;
use crate::frame_layout::{C, D, FILE};
use crate::function::Compiler;
use crate::memory::access::Address;
use crate::operands::Value;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::Space;
use simt::ir::vector::{Source, VectorInst};

/// Rows of a matrix.
const PACKED_A: usize = 8;
/// Bytes of one.
const ROW_BYTES: i32 = 16;

fn low(number: usize) -> Register {
    Register::XMM0 + number as u32
}

impl Compiler<'_> {
    /// Makes code for a load of matrices; false if there is none.
    pub(in crate::avx2) fn load_matrices(
        &mut self,
        inst: &VectorInst,
        space: Space,
        transpose: bool,
    ) -> bool {
        let (Some(mem), Source::Vector(r)) = (self.rows(inst, space, false), inst.src[0]) else {
            return false;
        };
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        let Value::Memory(base, numbers) = self.lanes_in_file(r) else { return false };
        let address = Address::Lanes(Value::Memory(base, numbers));
        self.check_lanes_in_memory(inst, mem, address, slow);
        for (matrix, dest) in inst.dst.iter().enumerate() {
            let start = self.layout.place(dest.reg.index()).vector.unwrap_or(0) as i32;
            for row in 0..PACKED_A {
                let number = at(base, numbers + 4 * (PACKED_A * matrix + row) as i32);
                self.a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), number.into()]);
                if mem.offset != 0 {
                    // Around at 32 bits, as it was checked.
                    let sum = at(C, mem.offset);
                    self.a.op(Code::Lea_r32_m, &[Register::ECX.into(), sum.into()]);
                }
                let from = MemoryOperand::with_base_index_scale_displ_size(D, C, 1, 0, 8);
                self.a.op(Code::VEX_Vmovdqu_xmm_xmmm128, &[low(row).into(), from.into()]);
            }
            let first = if transpose { self.turn_rows() } else { 0 };
            for row in 0..PACKED_A {
                let to = at(FILE, start + ROW_BYTES * row as i32);
                self.a.op(Code::VEX_Vmovdqu_xmmm128_xmm, &[to.into(), low(first + row).into()]);
            }
        }
        self.a.bind(back);
        true
    }

    /// Makes the rows of 16-bit elements in the first eight registers columns; gives back the number
    /// of the first register that has one.
    fn turn_rows(&mut self) -> usize {
        let halves = [Code::VEX_Vpunpcklwd_xmm_xmm_xmmm128, Code::VEX_Vpunpckhwd_xmm_xmm_xmmm128];
        let (mut from, mut to) = (0, PACKED_A);
        // Of an element's row and place, three bits each, every step makes the row's first bit the
        // place's last one, and the place's first one the row's last.
        for _ in 0..PACKED_A.trailing_zeros() {
            for n in 0..PACKED_A / 2 {
                let (a, b) = (low(from + n), low(from + n + PACKED_A / 2));
                for (half, code) in halves.into_iter().enumerate() {
                    self.a.op(code, &[low(to + 2 * n + half).into(), a.into(), b.into()]);
                }
            }
            std::mem::swap(&mut from, &mut to);
        }
        from
    }
}
