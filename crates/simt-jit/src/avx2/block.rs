//! Block emission with AVX2: vector regions, and the instructions between them.

use super::compare::is_of_formulas;
use super::shuffle::exchanged;
use crate::asm::assembler::{Label, X, at};
use crate::avx2::layout::predicate_slot;
use crate::avx2::partition::{Step, VectorRegion};
use crate::avx2::slice::Slice;
use crate::frame_layout::MASK;
use crate::function::Compiler;
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::ir::op::Op;
use simt::ir::vector::{StorageClass, VectorInst};
use std::rc::Rc;

impl Compiler<'_> {
    /// Makes the instructions of the block under construction.
    pub(crate) fn emit_regions(&mut self) {
        // Blocks can be made again for a branch in front of them.
        let steps = self.steps[self.block][usize::from(self.masked)].clone();
        let count = steps.len();
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Whole(index) => self.emit_single(index),
                Step::VectorRegion(region) => self.region(&region, n + 1 == count),
            }
        }
    }

    /// Makes instructions on one value, behind which nothing of the block is made if they are the
    /// `last` ones.
    fn one_by_one(&mut self, indices: &[usize], last: bool) {
        for (n, index) in indices.iter().enumerate() {
            self.is_program_order = last && n + 1 == indices.len();
            self.emit_single(*index);
        }
        self.is_program_order = false;
    }

    fn emit_single(&mut self, index: usize) {
        let f = self.f;
        self.index = index;
        self.instruction(&f.blocks[self.block].insts[index]);
    }

    /// Makes code for an instruction on one value or on predicates; false if there is none.
    pub(crate) fn native_single(&mut self, inst: &VectorInst) -> bool {
        match inst.op {
            Op::Load(_) if self.load_parameter(inst) => true,
            _ if inst.dst.iter().any(|d| self.f.storage[d.reg.index()] == StorageClass::Vector) => {
                false
            }
            Op::PredMov | Op::PredNot | Op::Pred(_) | Op::PredSelect => self.predicates(inst),
            Op::Setp(compare, ty) if is_of_formulas(inst, compare, ty) => self.predicates(inst),
            _ if !inst.uniform => false,
            Op::Load(_) | Op::Store(_) => self.memory(inst),
            Op::Setp(..) => self.predicates(inst),
            _ => self.scalars(inst),
        }
    }

    fn region(&mut self, region: &Rc<VectorRegion>, last: bool) {
        let alone = region.members.is_empty() && region.after.is_empty();
        self.one_by_one(&region.before, last && alone);
        if !region.members.is_empty() {
            self.in_eax = None;
            let back = self.a.label();
            let slow = self.a.label();
            let f = self.f;
            for member in &region.members {
                let inst = &f.blocks[self.block].insts[member.index];
                if exchanged(inst).is_some() {
                    let exposed: Vec<Reg> =
                        simt::analysis::nan_demand::exposed(&self.nan_deferred, inst).collect();
                    exposed.into_iter().for_each(|r| self.canonicalise_file(r));
                }
            }
            let checked = self.check_region(region, slow);
            Slice::new(self, region).make_all();
            for (number, r) in region.predicates.iter().enumerate() {
                if region.live.contains(r) {
                    self.gather_predicate(number, *r);
                }
            }
            self.a.bind(back);
            if checked {
                let mut members: Vec<usize> = region.members.iter().map(|m| m.index).collect();
                // Faults come in their order.
                members.sort_unstable();
                let in_eax = self.in_eax;
                self.interpreter_path_of(slow, back, members, in_eax);
            }
        }
        self.one_by_one(&region.after, last);
    }

    /// Makes the checks of a region's accesses; true if there are any.
    fn check_region(&mut self, region: &Rc<VectorRegion>, slow: Label) -> bool {
        let f = self.f;
        let insts = &f.blocks[self.block].insts;
        let accesses: Vec<_> = region
            .members
            .iter()
            .filter_map(|m| {
                m.access.map(|(mem, address_mode)| (&insts[m.index], mem, address_mode))
            })
            .collect();
        for number in 0..accesses.len() {
            self.check_reach(&accesses, number, slow);
        }
        self.check_groups(region, slow);
        let counted: Vec<_> = accesses.iter().map(|(inst, mem, _)| (*inst, *mem)).collect();
        self.count_accesses(&counted);
        !accesses.is_empty()
    }

    /// Makes a bit a lane of the masks that the slices have left on the stack.
    fn gather_predicate(&mut self, number: usize, r: Reg) {
        let slot = |slice: i32| at(Register::RSP, predicate_slot(number) + 32 * slice);
        let [low, high]: [X; 2] = [Register::YMM0.into(), Register::YMM1.into()];
        let (load, words) = (Code::VEX_Vmovdqu_ymm_ymmm256, Code::VEX_Vpackssdw_ymm_ymm_ymmm256);
        self.a.op(load, &[low, slot(0).into()]);
        self.a.op(words, &[low, low, slot(1).into()]);
        self.a.op(load, &[high, slot(2).into()]);
        self.a.op(words, &[high, high, slot(3).into()]);
        self.a.op(Code::VEX_Vpacksswb_ymm_ymm_ymmm256, &[low, low, high]);
        // Packing keeps to halves of registers: each has four lanes of every slice.
        let order: Vec<u8> =
            [0u32, 4, 1, 5, 2, 6, 3, 7].iter().flat_map(|n| n.to_le_bytes()).collect();
        let order = self.a.constant(&order);
        self.a.op(load, &[high, order.into()]);
        self.a.op(Code::VEX_Vpermd_ymm_ymm_ymmm256, &[low, high, low]);
        self.a.op(Code::VEX_Vpmovmskb_r32_ymm, &[Register::EAX.into(), low]);
        let memory: X = self.mask_of(r).into();
        let (eax, ecx) = (Register::EAX.into(), Register::ECX.into());
        if self.masked {
            // Slices without lanes have left nothing.
            self.a.op(Code::Mov_r32_rm32, &[ecx, memory]);
            self.a.op(Code::Xor_r32_rm32, &[eax, ecx]);
            self.a.op(Code::And_r32_rm32, &[eax, MASK.into()]);
            self.a.op(Code::Xor_r32_rm32, &[eax, ecx]);
        }
        self.a.op(Code::Mov_rm32_r32, &[memory, eax]);
        self.in_eax = Some(r);
    }

    /// [`Compiler::canonicalise`] of the register file's lanes.
    pub(crate) fn canonicalise_file(&mut self, r: Reg) {
        let start = self.layout.place(r.index()).vector.unwrap_or(0) as i32;
        let nan = self.a.constant(&simt::analysis::nan_demand::NAN.to_le_bytes().repeat(8));
        let [value, mask]: [X; 2] = [Register::YMM0.into(), Register::YMM1.into()];
        for slice in 0..4 {
            let memory: X = at(crate::frame_layout::FILE, start + 32 * slice).into();
            self.a.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[value, memory]);
            let compare = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
            self.a.op(compare, &[mask, value, value, X::I(3)]);
            let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
            self.a.op(blend, &[value, value, nan.into(), mask]);
            self.a.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[memory, value]);
        }
    }
}
