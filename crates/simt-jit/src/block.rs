//! Block emission: one version (unmasked or masked) of a block: counters, guards, instructions.

use crate::asm::assembler::X;
use crate::frame_layout::{A, COUNT, Field, MASK, field};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::check_coalescing::CheckGroups;
use iced_x86::{Code, Register};
use simt::analysis::nan_demand;
use simt::ir::Reg;
use simt::ir::vector::{Source, StorageClass, VectorInst};

impl Compiler<'_> {
    pub(crate) fn emit_version(&mut self, block: usize) {
        let f = self.f;
        let b = &f.blocks[block];
        let label =
            if self.masked { self.masked_labels[block] } else { self.unmasked_labels[block] };
        self.a.bind(label);
        self.forget_cached();
        self.block = block;
        if let Some(serial) = self.scalar_loops[block].clone() {
            return self.serial(&serial);
        }
        self.contents(block);
        if !std::mem::take(&mut self.ended) {
            self.terminator(&b.term);
        }
    }

    /// Counts `size` instructions of the lanes that run.
    fn count_instructions(&mut self, size: i32) {
        if self.ablation.counters {
            return;
        }
        if !self.masked {
            self.a.op(Code::Add_rm64_imm32, &[COUNT.into(), X::I(size)]);
            return;
        }
        let (eax, rax) = (Register::EAX, A);
        self.a.op(Code::Popcnt_r32_rm32, &[eax.into(), MASK.into()]);
        self.a.op(Code::Imul_r32_rm32_imm32, &[eax.into(), eax.into(), X::I(size)]);
        let threads = field(Field::ThreadInstructions);
        self.a.op(Code::Add_rm64_r64, &[threads.into(), rax.into()]);
        let warps = field(Field::WarpInstructions);
        self.a.op(Code::Add_rm64_imm32, &[warps.into(), X::I(size)]);
    }

    /// A block but for its end.
    pub(crate) fn contents(&mut self, block: usize) {
        let f = self.f;
        let b = &f.blocks[block];
        self.merged = 0..0;
        self.count_instructions(b.insts.len() as i32 + 1);
        self.checks(block);
        self.groups = CheckGroups::default();
        match self.isa {
            SimdIsa::Avx512 => {
                if !self.masked {
                    self.find_groups(block);
                    self.begin_addresses(block);
                }
                for (index, inst) in b.insts.iter().enumerate() {
                    self.index = index;
                    self.instruction(inst);
                }
                self.emit_deferred_loads(usize::MAX);
                debug_assert!(self.groups.is_closed(), "a pointer's register is not back");
            }
            SimdIsa::Avx2 => self.emit_regions(),
        }
    }

    /// What the block relies on: that affine registers do not wrap before the last lane.
    fn checks(&mut self, block: usize) {
        let f = self.f;
        if f.blocks[block].checks.is_empty() {
            return;
        }
        let (label, back) = (self.a.label(), self.a.label());
        self.slow_path_to(label, back, move |c| c.interpret_checks(block));
        for check in &f.blocks[block].checks {
            let value = self.scalar(Source::Scalar(check.reg), false, A);
            let Ok(reach) = i32::try_from(check.stride.saturating_mul(check.last.into())) else {
                self.a.jump(Code::Jmp_rel32_64, label);
                break;
            };
            // The last number of lane 0 for which the last lane's is one of the width.
            let (limit, beyond) = match (check.signed, reach >= 0) {
                (true, true) => (i32::MAX - reach, Code::Jg_rel32_64),
                (true, false) => (i32::MIN - reach, Code::Jl_rel32_64),
                (false, true) => (-1 - reach, Code::Ja_rel32_64),
                (false, false) => (reach.wrapping_neg(), Code::Jb_rel32_64),
            };
            self.a.op(Code::Cmp_rm32_imm32, &[value, X::I(limit)]);
            self.a.jump(beyond, label);
        }
        self.a.bind(back);
    }

    pub(crate) fn instruction(&mut self, inst: &VectorInst) {
        self.load_before(inst);
        self.keep_terms();
        for r in nan_demand::exposed(&self.nan_deferred, inst).collect::<Vec<_>>() {
            self.canonicalise(r);
        }
        let in_eax = self.in_eax;
        let made = self.merged.contains(&self.index);
        if !made && !self.native(inst) {
            self.interpreted_at.insert((self.block, self.index, self.masked));
            self.call_interpreter(self.block, self.index);
        }
        // What an instruction leaves in EAX is good until the next one.
        if self.in_eax == in_eax {
            self.in_eax = None;
        }
        for d in &inst.dst {
            self.forget_predicate(d.reg);
            self.fragments.forget(d.reg);
        }
    }

    /// The predicate has changed, unless the caches were made of the new value.
    fn forget_predicate(&mut self, r: Reg) {
        if self.f.storage[r.index()] != StorageClass::Mask {
            return;
        }
        if self.active_for.is_some_and(|key| key.is_some_and(|(guard, _)| guard == r)) {
            self.active_for = None;
        }
    }
}
