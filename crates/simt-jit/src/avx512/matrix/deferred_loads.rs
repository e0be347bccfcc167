//! Deferred operand loads: `ldmatrix` loads are scheduled between matrix products, so that the
//! processor loads while it multiplies.
//!
//! Programs load all operands of a slice, then multiply. Here a load is only checked where it
//! stands, and where its rows are is kept (`offset_table`); each matrix is loaded behind some earlier
//! product, or at last in front of the first that uses it. Nothing that could change memory, or see
//! that it is late, stands between.

use crate::asm::assembler::{Label, X, at};
use crate::avx512::matrix::Engine;
use crate::avx512::matrix::ldmatrix::RowLoad;
use crate::frame_layout::{C, D, DEFERRED, DEFERRED_SLOTS};
use crate::function::Compiler;
use crate::regalloc::allocate::Lanes;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::Reg;
use simt::ir::op::Op;
use simt::ir::vector::VectorInst;

/// A load of a matrix that has been checked.
#[derive(Clone, Debug)]
pub(crate) struct DeferredLoad {
    block: usize,
    index: usize,
    matrix: usize,
    /// Where its pointer is.
    slot: usize,
    /// Where the distances of its rows from that are.
    pub(super) distances: i32,
    load: RowLoad,
    /// The instruction that is first to use it.
    user: usize,
}

impl Compiler<'_> {
    /// A slot for the rows of a load of matrices that can be made later; `None` if it cannot.
    pub(crate) fn late_slot(&self, inst: &VectorInst) -> Option<usize> {
        let on_stack = |r: Reg| matches!(self.assignment.lanes[r.index()], Lanes::Stack(..));
        if !inst.dst.iter().all(|d| on_stack(d.reg)) {
            return None;
        }
        (0..DEFERRED_SLOTS).find(|slot| self.fragments.late.iter().all(|late| late.slot != *slot))
    }

    /// Nothing of a slot is still to be loaded.
    pub(crate) fn say_loaded(&mut self, slot: usize) {
        self.a.op(Code::Mov_rm64_imm32, &[late_at(slot).into(), X::I(0)]);
    }

    /// The matrices of a slot are still to be loaded: the pointer to their rows is in RCX.
    pub(crate) fn say_late(&mut self, slot: usize) {
        self.a.op(Code::Mov_rm64_r64, &[late_at(slot).into(), C.into()]);
    }

    /// The matrices of the instruction under construction are loaded later: the pointer to their
    /// rows is in a slot, their distances from it are on the stack.
    pub(crate) fn load_later(
        &mut self,
        inst: &VectorInst,
        slot: usize,
        distances: i32,
        transpose: bool,
    ) {
        let (block, index) = (self.block, self.index);
        let behind = self.f.blocks[block].insts.iter().enumerate().skip(index + 1);
        for (matrix, d) in inst.dst.iter().enumerate() {
            let reads =
                |inst: &VectorInst| inst.src.iter().any(|s| s.registers().any(|r| r == d.reg));
            let user = behind.clone().find(|(_, inst)| reads(inst));
            let user = user.map_or(usize::MAX, |(n, _)| n);
            let order = self.order_of(d.reg);
            let list = &mut self.fragments.late;
            let place = list.partition_point(|late| late.user <= user);
            let load = RowLoad { transpose, order };
            list.insert(place, DeferredLoad { block, index, matrix, slot, distances, load, user });
        }
    }

    /// Loads what the instruction under construction must not come before.
    pub(crate) fn load_before(&mut self, inst: &VectorInst) {
        let waits = matches!(inst.op, Op::Multiply(product) if Engine::of(product).is_some())
            || matches!(inst.op, Op::LoadMatrix { .. })
            || !inst.op.has_effect();
        if !waits {
            self.emit_deferred_loads(usize::MAX);
        }
    }

    /// Loads all that the instructions in front of `end` use; all that is late if that is the
    /// greatest number.
    pub(crate) fn emit_deferred_loads(&mut self, end: usize) {
        let needed = |late: &DeferredLoad| late.user < end || end == usize::MAX;
        while self.fragments.late.first().is_some_and(needed) {
            let late = self.fragments.late.remove(0);
            self.load_matrix_now(&late);
        }
    }

    /// Loads what is next of all that is late; gives it back. One matrix amid the products of two
    /// fragments: more is more than a processor looks ahead while it multiplies.
    pub(crate) fn load_next(&mut self) -> Option<DeferredLoad> {
        let late = (!self.fragments.late.is_empty()).then(|| self.fragments.late.remove(0))?;
        self.load_matrix_now(&late);
        Some(late)
    }

    /// Products run elsewhere: so do the loads that stand between them.
    pub(crate) fn load_aside(&mut self, label: Label, back: Label, loads: Vec<DeferredLoad>) {
        self.out_of_line(label, move |c| {
            loads.iter().for_each(|late| c.load_matrix_now(late));
            c.a.jump(Code::Jmp_rel32_64, back);
        });
    }

    /// Loads a matrix, if the interpreter handlers has not; keeps sums.
    pub(crate) fn load_matrix_now(&mut self, late: &DeferredLoad) {
        let f = self.f;
        let inst = &f.blocks[late.block].insts[late.index];
        let done = self.a.label();
        // The loads use general registers.
        self.in_eax = None;
        self.a.op(Code::Mov_r64_rm64, &[D.into(), late_at(late.slot).into()]);
        self.a.op(Code::Test_rm64_r64, &[D.into(), D.into()]);
        self.a.jump(Code::Je_rel32_64, done);
        self.load_rows_of(late.load, late.distances, late.matrix);
        let place = self.dest(inst, &inst.dst[late.matrix]);
        self.put_rows(&place, late.load);
        self.a.bind(done);
    }
}

/// Where the pointer of a slot is.
fn late_at(slot: usize) -> MemoryOperand {
    at(Register::RSP, DEFERRED + 8 * slot as i32)
}
