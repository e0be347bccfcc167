//! Entries and exit stubs: live values are loaded into machine registers on entry (also in the
//! middle of the function), and stored to the register file on exit.
//!
//! Entry: the block's number is in ESI. Exit: the frame has the block's number and the reason.

use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{
    A, C, COUNT, D, FILE, FRAME, Field, K1, K2, MASK, SAVED_STACK, STACK_BYTES, field,
};
use crate::function::Compiler;
use crate::host::SimdIsa;
use iced_x86::{Code, Register};
use simt_interpreter::tier1_abi::{LEAVE, NEXT, PARK, TERMINATE};

/// Why code comes back at the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Exit {
    /// The terminator is for others.
    Terminate,
    /// All lanes are in the table, or have exited.
    Done,
    /// The block cannot start yet.
    Park,
    /// The block cannot run in this form.
    Leave,
}

impl Compiler<'_> {
    pub(crate) fn emit_prologue(&mut self) {
        let a = &mut self.a;
        let saved = [Register::RBX, Register::RBP, Register::R12];
        for r in saved.into_iter().chain([Register::R13, Register::R14, Register::R15]) {
            a.op(Code::Push_r64, &[r.into()]);
        }
        let stack = Register::RSP;
        a.op(Code::Mov_r64_rm64, &[A.into(), stack.into()]);
        a.op(Code::Sub_rm64_imm32, &[stack.into(), X::I(STACK_BYTES)]);
        a.op(Code::And_rm64_imm8, &[stack.into(), X::I(-64)]);
        a.op(Code::Mov_rm64_r64, &[at(stack, SAVED_STACK).into(), A.into()]);
        a.op(Code::Mov_r64_rm64, &[FRAME.into(), Register::RDI.into()]);
        a.op(Code::Mov_r64_rm64, &[FILE.into(), field(Field::Regs).into()]);
        a.op(Code::Mov_r32_rm32, &[MASK.into(), field(Field::Mask).into()]);
        a.op(Code::Xor_r32_rm32, &[Register::R14D.into(), Register::R14D.into()]);
        if self.block_entry {
            a.op(Code::Cmp_rm64_imm8, &[field(Field::Slots).into(), X::I(0)]);
            a.jump(Code::Jne_rel32_64, self.first_time_slice);
        }
        self.say_of_sums(false);
        self.a.op(Code::Cmp_rm32_imm8, &[field(Field::Fresh).into(), X::I(0)]);
        self.a.jump(Code::Jne_rel32_64, self.start);
        self.say_of_sums(true);
        self.a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), Register::ESI.into()]);
        self.jump_through_table(0);
    }

    /// Goes to the block in ECX by the list of the table that starts at `list`.
    pub(crate) fn jump_through_table(&mut self, list: usize) {
        let first = 4 * (list * self.f.blocks.len()) as i64;
        let a = &mut self.a;
        a.op(Code::Mov_r64_rm64, &[A.into(), field(Field::Own).into()]);
        let entry = iced_x86::MemoryOperand::with_base_index_scale_displ_size(A, C, 4, first, 8);
        a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), entry.into()]);
        a.op(Code::Add_r64_rm64, &[A.into(), C.into()]);
        a.op(Code::Jmp_rm64, &[A.into()]);
    }

    pub(crate) fn epilogue(&mut self) {
        self.a.bind(self.leave);
        let a = &mut self.a;
        a.op(Code::Add_rm64_r64, &[field(Field::WarpInstructions).into(), COUNT.into()]);
        a.op(Code::Shl_rm64_imm8, &[COUNT.into(), X::I(5)]);
        a.op(Code::Add_rm64_r64, &[field(Field::ThreadInstructions).into(), COUNT.into()]);
        a.op(Code::Mov_r64_rm64, &[Register::RSP.into(), at(Register::RSP, SAVED_STACK).into()]);
        a.op(Code::VEX_Vzeroupper, &[]);
        let saved = [Register::R15, Register::R14, Register::R13];
        for r in saved.into_iter().chain([Register::R12, Register::RBP, Register::RBX]) {
            a.op(Code::Pop_r64, &[r.into()]);
        }
        a.op(Code::Retnq, &[]);
    }

    /// Takes the lanes of the lowest pending block and goes there; out by the entry RDX if they
    /// are not for native code.
    pub(crate) fn emit_next_pending(&mut self) {
        self.a.bind(self.next_pending);
        let blocks = self.f.blocks.len() as i32;
        let (ecx, eax) = (Register::ECX, Register::EAX);
        let (scan, none, found, inside) =
            (self.a.label(), self.a.label(), self.a.label(), self.a.label());
        let a = &mut self.a;
        a.op(Code::Mov_r32_rm32, &[ecx.into(), field(Field::Lowest).into()]);
        a.op(Code::Cmp_r32_rm32, &[ecx.into(), field(Field::Limit).into()]);
        a.jump(Code::Jb_rel32_64, inside);
        a.op(Code::Jmp_rm64, &[D.into()]);
        a.bind(inside);
        let entry = |index| iced_x86::MemoryOperand::with_base_index_scale(D, index, 4);
        a.op(Code::Mov_r64_rm64, &[D.into(), field(Field::Pending).into()]);
        a.op(Code::Mov_r32_rm32, &[MASK.into(), entry(C).into()]);
        a.op(Code::Mov_rm32_imm32, &[entry(C).into(), X::I(0)]);
        a.op(Code::Mov_r32_rm32, &[eax.into(), ecx.into()]);
        a.bind(scan);
        a.op(Code::Add_rm32_imm8, &[eax.into(), X::I(1)]);
        a.op(Code::Cmp_rm32_imm32, &[eax.into(), X::I(blocks)]);
        a.jump(Code::Jae_rel32_64, none);
        a.op(Code::Cmp_rm32_imm8, &[entry(A).into(), X::I(0)]);
        a.jump(Code::Je_rel32_64, scan);
        a.jump(Code::Jmp_rel32_64, found);
        a.bind(none);
        a.op(Code::Mov_r32_imm32, &[eax.into(), X::I(-1)]);
        a.bind(found);
        a.op(Code::Mov_rm32_r32, &[field(Field::Lowest).into(), eax.into()]);
        let all = a.label();
        a.op(Code::Cmp_rm32_imm8, &[MASK.into(), X::I(-1)]);
        a.jump(Code::Je_rel32_64, all);
        self.jump_through_table(2);
        self.a.bind(all);
        self.jump_through_table(1);
    }

    /// Loads what lives at the start of a block, and what the next warp expects to find, and goes
    /// there.
    pub(crate) fn entry(&mut self, block: usize, left: &[bool]) {
        self.a.bind(self.entries[block]);
        self.block = block;
        let position = self.weights.kept.starts[block];
        for (r, left) in left.iter().enumerate() {
            let kept = self.weights.between_blocks[r] && self.weights.kept.covers(r, position);
            if kept || *left {
                self.fill(r);
            }
        }
        self.a.op(Code::Cmp_rm32_imm8, &[MASK.into(), X::I(-1)]);
        self.a.jump(Code::Je_rel32_64, self.unmasked_labels[block]);
        self.a.jump(Code::Jmp_rel32_64, self.masked_labels[block]);
    }

    /// Puts back what a lane may read at a position, and leaves.
    pub(crate) fn emit_exit(&mut self, block: usize, way: Exit) {
        self.block = block;
        let position = match way {
            Exit::Park | Exit::Leave => self.weights.kept.starts[block],
            Exit::Terminate | Exit::Done => self.weights.kept.ends[block],
        };
        if self.isa == SimdIsa::Avx512 {
            self.a.op(Code::VEX_Kmovd_kr_km32, &[K1.into(), field(Field::Lanes).into()]);
            self.a.op(Code::VEX_Kshiftrd_kr_kr_imm8, &[K2.into(), K1.into(), X::I(16)]);
        }
        for r in 0..self.f.classes.len() {
            let ranges = &self.weights;
            if ranges.between_blocks[r] && ranges.written[r] && ranges.kept.covers(r, position) {
                self.flush_scalar(r);
                self.flush_lanes(r, true);
            }
        }
        let why = match way {
            Exit::Park => PARK,
            Exit::Leave => LEAVE,
            Exit::Terminate => TERMINATE,
            Exit::Done => NEXT,
        };
        self.a.op(Code::Mov_rm32_r32, &[field(Field::Mask).into(), MASK.into()]);
        self.a.op(Code::Mov_rm32_imm32, &[field(Field::Block).into(), X::I(block as i32)]);
        self.a.op(Code::Mov_r32_imm32, &[Register::EAX.into(), X::I(why as i32)]);
        self.a.jump(Code::Jmp_rel32_64, self.leave);
    }

    /// The exit stub at a block.
    pub(crate) fn exit_stub(&mut self, block: usize, way: Exit) -> Label {
        if let Some(label) = self.exit_stubs.get(&(block, way)) {
            return *label;
        }
        let label = self.a.label();
        self.exit_stubs.insert((block, way), label);
        self.out_of_line(label, move |c| c.emit_exit(block, way));
        label
    }
}
