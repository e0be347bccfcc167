//! Calls of the interpreter for instructions without native code: operands are stored to the
//! register file first, results loaded from it.

use crate::asm::assembler::{Label, X, at};
use crate::frame::entry_exit::Exit;
use crate::frame_layout::{
    A, ACTIVE, C, FILE, FRAME, Field, MASK, PREDICATE, SAVED_MASKS, SAVED_SCALARS, SAVED_VECTORS,
    field,
};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::regalloc::allocate::{Lanes, SCALARS};
use iced_x86::{Code, Register};
use simt::analysis::vector_cfg::sources;
use simt::ir::Reg;
use simt::ir::vector::StorageClass;
use simt_interpreter::tier1_abi::{FAULT, LEAVE, PARK};
use std::collections::BTreeSet;

impl Compiler<'_> {
    /// A slow path for the instruction under construction: the interpreter runs it.
    pub(crate) fn interpreter_path(&mut self, back: Label) -> Label {
        let label = self.a.label();
        let (block, index) = (self.block, self.index);
        let counted = self.counted_ahead(index, index.saturating_add(1));
        self.slow_path_to(label, back, move |c| {
            c.uncount_bytes(counted);
            c.call_interpreter(block, index);
        });
        label
    }

    /// A slow path for several instructions of the block: the interpreter runs them; then EAX holds
    /// the predicate `in_eax`.
    pub(crate) fn interpreter_path_of(
        &mut self,
        label: Label,
        back: Label,
        members: Vec<usize>,
        in_eax: Option<Reg>,
    ) {
        self.slow_path_to(label, back, move |c| c.region_interpreted(&members, in_eax));
    }

    /// Makes a block's checks again, in the interpreter; leaves if one fails there too.
    pub(crate) fn interpret_checks(&mut self, block: usize) {
        let (first, count) = self.layout.checks(block, self.masked);
        for check in &self.f.blocks[block].checks {
            self.flush_scalar(check.reg.index());
        }
        self.a.load_constant(A, u64::from(first));
        self.a.load_constant(C, u64::from(count));
        self.a.jump(Code::Call_rel32_64, self.decoded);
        let out = self.exit_stub(block, Exit::Leave);
        self.a.op(Code::Cmp_rm32_imm8, &[Register::EAX.into(), X::I(LEAVE as i32)]);
        self.a.jump(Code::Je_rel32_64, out);
    }

    /// Runs instructions of the block under construction by the interpreter.
    fn members_interpreted(&mut self, members: &[usize]) {
        let f = self.f;
        for index in members {
            self.index = *index;
            let inst = &f.blocks[self.block].insts[*index];
            for r in
                simt::analysis::nan_demand::exposed(&self.nan_deferred, inst).collect::<Vec<_>>()
            {
                self.canonicalise(r);
            }
            self.call_interpreter(self.block, *index);
        }
    }

    /// Runs a region's members by the interpreter.
    pub(crate) fn region_interpreted(&mut self, members: &[usize], in_eax: Option<Reg>) {
        self.members_interpreted(members);
        if let Some(r) = in_eax {
            let memory = self.mask_of(r);
            self.a.op(Code::Mov_r32_rm32, &[Register::EAX.into(), memory.into()]);
        }
    }

    /// Runs an instruction as the interpreter would.
    pub(crate) fn call_interpreter(&mut self, block: usize, index: usize) {
        let inst = self.inst_at(block, index);
        let (first, count) = self.handler_range(block, index);
        let writes: Vec<Reg> = inst.dst.iter().map(|d| d.reg).collect();
        let f = self.f;
        // These are many in a kernel and short, so that what is kept meanwhile matters.
        let in_block = block < self.weights.kept.starts.len();
        let frequent = self.isa == SimdIsa::Avx512 && in_block && inst.op.names_object();
        let overwritten = frequent && !self.masked && inst.guard.is_none();
        let old = writes.iter().copied().filter(|_| !overwritten);
        let mut reads: Vec<Reg> = sources(inst).chain(old).collect();
        reads.sort_unstable();
        reads.dedup();
        for r in reads {
            self.flush_scalar(r.index());
            if f.storage[r.index()] != StorageClass::Scalar {
                self.flush_lanes(r.index(), false);
            }
        }
        if count > 0 {
            self.a.load_constant(A, u64::from(first));
            self.a.load_constant(C, u64::from(count));
            match frequent {
                true => self.call_keeping(&self.live_vectors(block, index, &writes)),
                false => self.a.jump(Code::Call_rel32_64, self.decoded),
            }
            self.multiplied_elsewhere(&inst.op);
            if inst.op.is_sync() {
                let park = self.exit_stub(block, Exit::Park);
                self.a.op(Code::Cmp_rm32_imm8, &[Register::EAX.into(), X::I(PARK as i32)]);
                self.a.jump(Code::Je_rel32_64, park);
            }
        }
        for r in writes {
            if !frequent || self.weights.read[r.index()] {
                self.fill_result(r);
            }
            if self.in_pair == Some(r) {
                self.in_pair = None;
            }
        }
        self.in_eax = None;
    }

    /// Vector registers that hold values which an instruction leaves as they are: those that are
    /// read later, and those of the prologue, which the warps that follow read.
    fn live_vectors(&self, block: usize, index: usize, writes: &[Reg]) -> Vec<Register> {
        let position = self.weights.kept.starts[block] + 1 + index as u32;
        let held = |r: usize| {
            let kept = self.weights.kept.covers(r, position) || !self.weights.written[r];
            kept && !writes.contains(&Reg(r as u32))
        };
        let lanes = (0..self.assignment.lanes.len()).filter(|r| held(*r));
        let lanes = lanes.map(|r| self.assignment.lanes[r]);
        let live: BTreeSet<Register> = lanes.flat_map(Lanes::registers).collect();
        live.into_iter().collect()
    }

    /// As a call of [`Self::emit_interpreter_thunk`], but keeps only these vector registers.
    fn call_keeping(&mut self, vectors: &[Register]) {
        let slots = || (SAVED_VECTORS..).step_by(64).map(|offset| at(Register::RSP, offset));
        for (slot, register) in slots().zip(vectors) {
            self.a.op(Code::EVEX_Vmovdqa32_zmmm512_k1z_zmm, &[slot.into(), (*register).into()]);
        }
        self.a.jump(Code::Call_rel32_64, self.decoded_bare);
        for (slot, register) in slots().zip(vectors) {
            self.a.op(Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512, &[(*register).into(), slot.into()]);
        }
    }

    fn fill_result(&mut self, r: Reg) {
        // The interpreter writes all copies, so any lane will do.
        let place = self.layout.place(r.index());
        if let (Lanes::Same(register), Some(offset)) =
            (self.assignment.lanes[r.index()], place.vector)
        {
            let code = match place.bytes {
                8 => Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64,
                _ => Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
            };
            let offset = place.scalar.unwrap_or(offset);
            self.a.op(code, &[register.into(), at(FILE, offset as i32).into()]);
            if let (Some(scalar), Some(offset), Some(width)) = (
                self.assignment.scalars[r.index()],
                place.scalar,
                self.f.classes[r.index()].width(),
            ) {
                self.load_scalar(scalar, offset, width);
            }
            return;
        }
        self.fill(r.index());
    }

    /// Calls the interpreter for instructions whose first number is in EAX, their count in ECX.
    /// Keeps all registers that hold values; the result is in EAX.
    pub(crate) fn emit_interpreter_thunk(&mut self) {
        // Only what holds values somewhere in the function.
        let used = self.assignment.used_vectors();
        self.run_decoded_keeping(self.decoded, used.into_iter().collect());
        let blocks = self.f.blocks.iter().flat_map(|block| &block.insts);
        if self.f.prologue.iter().chain(blocks).any(|inst| inst.op.names_object()) {
            // The caller of this code keeps vector registers.
            self.run_decoded_keeping(self.decoded_bare, Vec::new());
        }
    }

    fn run_decoded_keeping(&mut self, label: Label, used: Vec<Register>) {
        self.a.bind(label);
        let a = &mut self.a;
        // Behind the return address.
        let slot = |offset: i32| at(Register::RSP, offset + 8);
        let vectors: Vec<(Register, i32)> =
            used.into_iter().zip((SAVED_VECTORS..).step_by(64)).collect();
        let vectors = vectors.into_iter();
        let masks = [PREDICATE[0], PREDICATE[1], ACTIVE[0], ACTIVE[1]];
        let held = if self.isa == SimdIsa::Avx512 { masks.len() } else { 0 };
        let masks =
            masks.into_iter().take(held).enumerate().map(|(n, k)| (k, SAVED_MASKS + 8 * n as i32));
        // The first two are callee-saved.
        let mut used = self.assignment.used_scalars();
        used.extend(&self.temporaries);
        let scalars: Vec<(Register, i32)> = SCALARS
            .into_iter()
            .skip(2)
            .filter(|r| used.contains(r))
            .zip((SAVED_SCALARS..).step_by(8))
            .collect();
        let scalars = scalars.into_iter();
        for (register, offset) in vectors.clone() {
            a.op(Code::EVEX_Vmovdqa32_zmmm512_k1z_zmm, &[slot(offset).into(), register.into()]);
        }
        for (register, offset) in masks.clone() {
            a.op(Code::VEX_Kmovq_m64_kr, &[slot(offset).into(), register.into()]);
        }
        for (register, offset) in scalars.clone() {
            a.op(Code::Mov_rm64_r64, &[slot(offset).into(), register.into()]);
        }
        a.op(Code::Mov_rm32_r32, &[field(Field::Mask).into(), MASK.into()]);
        a.op(Code::Mov_r64_rm64, &[Register::RDI.into(), FRAME.into()]);
        a.op(Code::Mov_r32_rm32, &[Register::ESI.into(), Register::EAX.into()]);
        a.op(Code::Mov_r32_rm32, &[Register::EDX.into(), Register::ECX.into()]);
        a.op(Code::VEX_Vzeroupper, &[]);
        a.op(Code::Sub_rm64_imm8, &[Register::RSP.into(), X::I(8)]);
        a.op(Code::Call_rm64, &[field(Field::Run).into()]);
        a.op(Code::Add_rm64_imm8, &[Register::RSP.into(), X::I(8)]);
        for (register, offset) in vectors {
            a.op(Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512, &[register.into(), slot(offset).into()]);
        }
        for (register, offset) in masks {
            a.op(Code::VEX_Kmovq_kr_km64, &[register.into(), slot(offset).into()]);
        }
        for (register, offset) in scalars {
            a.op(Code::Mov_r64_rm64, &[register.into(), slot(offset).into()]);
        }
        let faulted = a.label();
        a.op(Code::Cmp_rm32_imm8, &[Register::EAX.into(), X::I(FAULT as i32)]);
        a.jump(Code::Je_rel32_64, faulted);
        a.op(Code::Retnq, &[]);
        a.bind(faulted);
        // The values of a kernel that ends are dead.
        a.op(Code::Add_rm64_imm8, &[Register::RSP.into(), X::I(8)]);
        a.jump(Code::Jmp_rel32_64, self.leave);
    }
}
