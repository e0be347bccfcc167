//! Spills and reloads between machine registers and the register file.

use crate::asm::assembler::at;
use crate::frame_layout::{C, FILE, FragmentOrder, K1, K2, MASK, Z0};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::operands::{Value, store_code};
use crate::regalloc::allocate::{Lanes, parts};
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::ir::op::Width;
use simt::ir::vector::StorageClass;

impl Compiler<'_> {
    /// Loads a register's machine registers from the register file.
    pub(crate) fn fill(&mut self, r: usize) {
        let place = self.layout.place(r);
        let Some(width) = self.f.classes[r].width() else { return };
        if let (Some(register), Some(offset)) = (self.assignment.scalars[r], place.scalar) {
            self.load_scalar(register, offset, width);
        }
        self.fill_lanes(r);
    }

    /// Loads the machine registers of a register's lanes from the register file.
    pub(crate) fn fill_lanes(&mut self, r: usize) {
        let place = self.layout.place(r);
        let Some(width) = self.f.classes[r].width() else { return };
        match self.assignment.lanes[r] {
            Lanes::File => {}
            Lanes::Stack(to, order) => {
                let Some(offset) = place.vector else { return };
                let (from, to) = ((FILE, offset as i32), (Register::RSP, to));
                match order {
                    FragmentOrder::Lanes => self.copy_lanes(from, to, width),
                    FragmentOrder::Columns => self.copy_picked(from, to, |place| order.lane(place)),
                }
            }
            Lanes::Parts(registers) => {
                let Some(offset) = place.vector else { return };
                for (part, register) in registers.into_iter().take(parts(width)).enumerate() {
                    let from = at(FILE, offset as i32 + 64 * part as i32);
                    let code = Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512;
                    self.a.op(code, &[register.into(), from.into()]);
                }
            }
            Lanes::Same(register) => {
                let code = match width {
                    Width::W64 => Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64,
                    _ => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
                };
                let from = match (self.f.storage[r], place.scalar, place.vector) {
                    (StorageClass::ScalarAndVector, Some(scalar), _) => at(FILE, scalar as i32),
                    // Lanes that are elsewhere may never have seen it.
                    (_, _, vector) => {
                        let offset = i64::from(vector.unwrap_or(0));
                        let first = [Register::ECX.into(), MASK.into()];
                        self.a.op(Code::Tzcnt_r32_rm32, &first);
                        let scale = width.bytes();
                        iced_x86::MemoryOperand::with_base_index_scale_displ_size(
                            FILE, C, scale, offset, 8,
                        )
                    }
                };
                self.a.op(code, &[register.into(), from.into()]);
            }
        }
    }

    pub(crate) fn load_scalar(&mut self, to: Register, offset: u32, width: Width) {
        let from = at(FILE, offset as i32);
        match width {
            Width::W64 => {
                self.a.op(Code::Mov_r64_rm64, &[to.full_register().into(), from.into()]);
            }
            _ => {
                self.a.op(Code::Mov_r32_rm32, &[to.full_register32().into(), from.into()]);
            }
        }
    }

    /// Stores a scalar's machine register into the register file.
    pub(crate) fn flush_scalar(&mut self, r: usize) {
        let place = self.layout.place(r);
        let (Some(register), Some(offset)) = (self.assignment.scalars[r], place.scalar) else {
            return;
        };
        let to = at(FILE, offset as i32);
        match place.bytes {
            8 => self.a.op(Code::Mov_rm64_r64, &[to.into(), register.full_register().into()]),
            _ => self.a.op(Code::Mov_rm32_r32, &[to.into(), register.full_register32().into()]),
        };
    }

    /// Stores a register's lanes into the register file, under the pair of masks K1, K2 if there
    /// are lanes that did not come in.
    pub(crate) fn flush_lanes(&mut self, r: usize, masked: bool) {
        if self.isa == SimdIsa::Avx2 {
            // The register file has all lanes but the copies of scalars.
            if self.f.storage[r] == StorageClass::ScalarAndVector {
                self.flush_copies(r);
            }
            return;
        }
        let place = self.layout.place(r);
        let (Some(width), Some(offset)) = (self.f.classes[r].width(), place.vector) else {
            return;
        };
        let to = |part: usize| at(FILE, offset as i32 + 64 * part as i32);
        let spread = match (self.lanes_of(Reg(r as u32)), self.assignment.lanes[r]) {
            (Value::Same(register), _) => register,
            (_, Lanes::Stack(from, order)) => {
                let (from, to) = ((Register::RSP, from), (FILE, offset as i32));
                return match order {
                    FragmentOrder::Lanes => self.copy_lanes(from, to, width),
                    FragmentOrder::Columns => self.copy_picked(from, to, |lane| order.place(lane)),
                };
            }
            (value @ Value::One(_), Lanes::File) => self.part_in(value, 0, width, Z0),
            (_, Lanes::Parts(registers)) => {
                for (part, register) in registers.into_iter().take(parts(width)).enumerate() {
                    let mask =
                        if masked { Some(self.of_pair([K1, K2], part, width)) } else { None };
                    let operands = [to(part).into(), register.into()];
                    let made = self.a.op(store_code(width), &operands);
                    if let Some(k) = mask {
                        made.set_op_mask(k);
                    }
                }
                return;
            }
            _ => return,
        };
        for part in 0..parts(width) {
            self.a.op(store_code(width), &[to(part).into(), spread.into()]);
        }
    }
}
