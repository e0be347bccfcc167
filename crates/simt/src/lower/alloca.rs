//! `alloca`, `stacksave`, `stackrestore`: the thread's stack.
//!
//! The stack grows down in the last bytes of the thread's local memory, behind all frames; how many
//! these are is the launch's to say. Its pointer is the first word of local memory. So functions that
//! are called find both, wherever their own frames are. Only kernels that can reach such an instruction
//! have one.

use crate::ir::Operand;
use crate::ir::op::{
    Access, Class, Compare, CompareType, IntOp, IntType, Op, Space, Special, Width,
};
use crate::lower::{Lowering, class_of};
use ptx::ast::{self, Opcode, ScalarType as T};

/// Bytes of the pointer; frames behind it stay aligned for any type.
const POINTER_BYTES: u32 = 16;
/// Least alignment of what `alloca` gives, bytes.
const ALIGN_MIN: i64 = 8;
/// Where the pointer is.
const POINTER: Operand = Operand::Imm(0);

/// Whether a function has instructions that need the stack.
pub(crate) fn uses_stack(function: &ast::Function) -> bool {
    let needs = |inst: &ast::Instruction| {
        matches!(inst.opcode, Opcode::Alloca | Opcode::Stacksave | Opcode::Stackrestore)
    };
    function.instructions().any(needs)
}

fn pointer_access() -> Access {
    let (space, width) = (Space::Local, Width::W64);
    Access { space, bytes: 8, signed: false, count: 1, width, volatile: false }
}

impl Lowering<'_> {
    /// Makes the stack: before anything else in a kernel, so that it is first in local memory.
    pub(super) fn make_stack(&mut self) {
        let slot = Operand::Slot(self.f.new_slot(POINTER_BYTES, POINTER_BYTES));
        // The slot's offset is 0; that it is read keeps the slot in memory.
        let end = self.stack_bound(Special::StackEnd);
        let end = self.value(Op::Int(IntOp::Add, IntType::U64), Width::W64, vec![slot, end]);
        self.set_stack_pointer(end);
    }

    fn stack_bound(&mut self, bound: Special) -> Operand {
        self.value(Op::Special(bound), Width::W64, vec![])
    }

    pub(super) fn stack(&mut self, inst: &ast::Instruction) -> Option<()> {
        match (inst.opcode, &inst.operands[..]) {
            (Opcode::Alloca, [d, size, align @ ..]) => self.alloca(inst.ty()?, d, size, align),
            (Opcode::Stacksave, [d]) => {
                let pointer = self.stack_pointer();
                self.stack_result(inst.ty()?, d, pointer)
            }
            (Opcode::Stackrestore, [a]) => {
                let a = self.source(a, inst.ty()?)?;
                let a = self.fit(a, Width::W64);
                self.set_stack_pointer(a);
                Some(())
            }
            _ => None,
        }
    }

    fn stack_pointer(&mut self) -> Operand {
        self.value(Op::Load(pointer_access()), Width::W64, vec![POINTER, Operand::Imm(0)])
    }

    fn set_stack_pointer(&mut self, pointer: Operand) {
        self.effect(Op::Store(pointer_access()), vec![POINTER, Operand::Imm(0), pointer]);
    }

    fn stack_result(&mut self, ty: T, d: &ast::Operand, pointer: Operand) -> Option<()> {
        let width = class_of(ty).width()?;
        let pointer = self.fit(pointer, width);
        self.emit_to(Op::Mov(width), d, width, false, vec![pointer])
    }

    /// What does not fit gives the end of local memory, where any access faults; the stack stays as it is.
    fn alloca(
        &mut self,
        ty: T,
        d: &ast::Operand,
        size: &ast::Operand,
        align: &[ast::Operand],
    ) -> Option<()> {
        let align = match align {
            [] => ALIGN_MIN,
            [ast::Operand::Immediate(align)] => align.as_i64()?.max(ALIGN_MIN),
            _ => return None,
        };
        let size = self.source(size, ty)?;
        let size = self.fit(size, Width::W64);
        let pointer = self.stack_pointer();
        let int = |op| Op::Int(op, IntType::U64);
        let floor = self.stack_bound(Special::StackBegin);
        let room = self.value(int(IntOp::Sub), Width::W64, vec![pointer, floor]);
        let taken = self.value(int(IntOp::Sub), Width::W64, vec![pointer, size]);
        let mask = Operand::Imm(align.wrapping_neg() as u64);
        let taken = self.value(int(IntOp::And), Width::W64, vec![taken, mask]);
        // Too much, or no room left for the alignment.
        let fits = self.temporary(Class::Pred);
        let setp = |how| Op::Setp(how, CompareType::Int(IntType::U64));
        self.emit(setp(Compare::Le), vec![fits], vec![size, room]);
        let nowhere = self.stack_bound(Special::StackEnd);
        let src = vec![taken, nowhere, fits.into()];
        let taken = self.value(Op::Select(Width::W64), Width::W64, src);
        let above = self.temporary(Class::Pred);
        self.emit(setp(Compare::Ge), vec![above], vec![taken, floor]);
        let src = vec![taken, nowhere, above.into()];
        let taken = self.value(Op::Select(Width::W64), Width::W64, src);
        let least = self.value(int(IntOp::Min), Width::W64, vec![taken, pointer]);
        self.set_stack_pointer(least);
        self.stack_result(ty, d, taken)
    }
}
