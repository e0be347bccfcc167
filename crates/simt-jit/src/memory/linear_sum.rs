//! Linear sums in code: their terms are kept in frame slots where they are first read, and added up where
//! an address is wanted. `simt::analysis::address` says which.

use crate::asm::assembler::{X, at};
use crate::frame_layout::{A, SUMS};
use crate::function::Compiler;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::Reg;
use simt::ir::address::LinearSum;
use simt::ir::op::Width;
use simt::ir::vector::Source;

impl Compiler<'_> {
    /// Keeps what the instruction under construction reads, if addresses are made of it.
    pub(crate) fn keep_terms(&mut self) {
        let Some(addresses) = self.addresses() else { return };
        for (r, slot) in addresses.terms_at(self.index) {
            self.keep_term(*r, *slot);
        }
    }

    /// Keeps a value for the sums that it is in; uses RAX.
    fn keep_term(&mut self, r: Reg, slot: usize) {
        let wide = self.f.classes[r.index()].width() == Some(Width::W64);
        // The upper half of a narrow one is zero.
        let from = self.scalar_in(Source::Scalar(r), wide, A).full_register();
        self.a.op(Code::Mov_rm64_r64, &[kept_at(slot).into(), from.into()]);
        self.in_eax = None;
    }

    /// A sum in a register that is not RAX; uses that.
    pub(crate) fn sum_in(&mut self, sum: &LinearSum, to: Register) {
        let mut is_empty = sum.constant == 0 && !sum.terms.is_empty();
        if !is_empty {
            self.a.load_constant(to, sum.constant as u64);
        }
        for (slot, factor) in &sum.terms {
            let mut from: X = kept_at(*slot).into();
            if *factor != 1 {
                let factor = X::I(*factor as i32);
                self.a.op(Code::Imul_r64_rm64_imm32, &[A.into(), from, factor]);
                from = A.into();
            }
            let code = if is_empty { Code::Mov_r64_rm64 } else { Code::Add_r64_rm64 };
            self.a.op(code, &[to.into(), from]);
            is_empty = false;
        }
    }
}

/// Where a value is kept.
fn kept_at(slot: usize) -> MemoryOperand {
    at(Register::RSP, SUMS + 8 * slot as i32)
}
