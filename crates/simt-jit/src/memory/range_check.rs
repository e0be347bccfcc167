//! Range checks: one bounds check a warp for addresses whose offset has a known upper bound (a
//! mask, a shift, a narrow load), as in look-up tables and histograms.
//!
//! Such an access is looked at by numbers that all lanes have in common. Only where those do not
//! suffice, every lane's address is.

use crate::asm::assembler::{Label, X};
use crate::frame_layout::{C, Field, field};
use crate::function::Compiler;
use crate::memory::access::{Address, MemAccess};
use iced_x86::Code;
use simt::ir::Reg;
use simt::ir::address::InRange;
use simt::ir::vector::{Source, VectorInst};

impl Compiler<'_> {
    /// Goes to `fine` if no lane can be where it may not, as far as that is known without a look
    /// at the lanes.
    pub(crate) fn check_bounded(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        fine: Label,
    ) {
        if mem.local || mem.before != 0 || mem.offset % mem.total != 0 {
            return;
        }
        let (Address::Lanes(_), Some(InRange { base, max, zero_bits })) =
            (address, self.in_range(inst))
        else {
            return;
        };
        let end = i32::try_from(max.saturating_add(mem.total as u64));
        let (Ok(end), true) = (end, mem.total.trailing_zeros() <= zero_bits) else { return };
        match base {
            None => {
                let Some(end) = end.checked_add(mem.offset) else { return };
                let shared = field(Field::SharedBytes).into();
                self.a.op(Code::Cmp_rm64_imm32, &[shared, X::I(end)]);
                self.a.jump(Code::Jae_rel32_64, fine);
            }
            Some(base) if !self.stays(base) => {}
            Some(base) => {
                let look = self.a.label();
                self.number_in(Source::Scalar(base), mem, C);
                self.check_global((C, mem.offset), mem, end, look);
                self.a.jump(Code::Jmp_rel32_64, fine);
                self.a.bind(look);
            }
        }
    }

    /// The bound of the addresses of the instruction under construction, if it is by its first source.
    fn in_range(&self, inst: &VectorInst) -> Option<InRange> {
        let b = self.f.blocks.get(self.block)?;
        let this = b.insts.get(self.index)?.src.first() == inst.src.first();
        b.addresses.shapes.get(&self.index).filter(|_| this)?.in_range
    }

    /// True if a register that all lanes have, and nothing changes, is still there: as it is if instructions
    /// are made in their order.
    fn stays(&self, r: Reg) -> bool {
        let position = self.weights.kept.starts[self.block] + 1 + self.index as u32;
        self.is_program_order
            && !self.weights.written[r.index()]
            && self.weights.kept.covers(r.index(), position)
    }
}
