//! Paired gathers and scatters: two adjacent 32-bit elements as one of 64 bits, since the cost is
//! by the element.

use crate::asm::assembler::Label;
use crate::frame_layout::{K1, Z0, Z1, Z2, Z3};
use crate::function::Compiler;
use crate::memory::access::{Address, MemAccess};
use crate::operands::move_code;
use iced_x86::{Code, Register};
use simt::ir::op::Width;
use simt::ir::vector::VectorInst;

/// The instruction that picks elements of two registers by number.
const PICK: Code = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;

/// True if the elements of an access can be moved two at a time.
pub(crate) fn come_in_pairs(mem: MemAccess) -> bool {
    let access = mem.access;
    access.count.is_multiple_of(2)
        && access.width == Width::W32
        && access.bytes == 4
        && mem.before == 0
}

impl Compiler<'_> {
    /// Eight lanes' addresses in a register, and the lanes of these that take part in K1; goes to
    /// `none` if none does.
    fn eight(
        &mut self,
        mem: MemAccess,
        address: Address,
        eighth: usize,
        some: bool,
        none: Label,
    ) -> Register {
        let index = if mem.wide {
            self.address_part(0, address, eighth, Width::W64, Z3)
        } else {
            self.address_half(address, eighth, Z3)
        };
        self.lanes_of_part(eighth, Width::W64, some, none);
        index
    }

    /// Loads two elements a lane, from `element` on; as [`Self::gather`].
    pub(crate) fn gather_pair(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        element: usize,
        some: bool,
    ) {
        for part in 0..2 {
            for (half, to) in [(0, Z0), (1, Z1)] {
                let none = self.a.label();
                let index = self.eight(mem, address, 2 * part + half, some, none);
                let from = self.spread(mem, index, element);
                let code = if mem.wide {
                    Code::EVEX_Vpgatherqq_zmm_k1_vm64z
                } else {
                    Code::EVEX_Vpgatherdq_zmm_k1_vm32y
                };
                self.a.op(code, &[to.into(), from.into()]).set_op_mask(K1);
                self.a.bind(none);
            }
            for (n, to) in [(0, Z2), (1, Z3)] {
                self.load_picks(Width::W32, to, (0..16).map(|lane| 2 * lane + n));
                self.a.op(PICK, &[to.into(), Z0.into(), Z1.into()]);
            }
            for (n, from) in [(0, Z2), (1, Z3)] {
                let place = self.dest(inst, &inst.dst[element + n]);
                self.put(&place, part, move_code(Width::W32), &[from.into()]);
            }
        }
    }

    /// Stores two elements a lane, from `element` on; as [`Self::scatter`].
    pub(crate) fn scatter_pair(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        element: usize,
        some: bool,
    ) {
        let width = Width::W32;
        let first = self.value(inst.src[2 + element], width);
        let second = self.value(inst.src[3 + element], width);
        for eighth in 0..4 {
            let a = self.part_in(first, eighth / 2, width, Z0);
            let b = self.part_in(second, eighth / 2, width, Z1);
            let picks = (0..16).map(|k| 8 * (eighth % 2) + k / 2 + 16 * (k % 2));
            self.load_picks(width, Z2, picks);
            self.a.op(PICK, &[Z2.into(), a.into(), b.into()]);
            let none = self.a.label();
            let index = self.eight(mem, address, eighth, some, none);
            let to = self.spread(mem, index, element);
            let code = if mem.wide {
                Code::EVEX_Vpscatterqq_vm64z_k1_zmm
            } else {
                Code::EVEX_Vpscatterdq_vm32y_k1_zmm
            };
            self.a.op(code, &[to.into(), Z2.into()]).set_op_mask(K1);
            self.a.bind(none);
        }
    }
}
