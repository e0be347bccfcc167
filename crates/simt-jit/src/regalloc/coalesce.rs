//! Copy coalescing: a result takes the machine registers of an operand that dies at its definition,
//! if the lowering reads each chunk before writing it.

use crate::analysis::use_weights::UseWeights;
use crate::function::Compiler;
use crate::regalloc::allocate::{Lanes, parts};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register};
use simt::ir::op::{FloatOp, FloatType, IntOp, Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorFunction, VectorInst};

/// By register: from whom it can get machine registers, or to whom it can pass them on, and where.
pub(crate) struct Coalescing(Vec<Vec<(usize, u32)>>);

/// True if the code of an instruction on lanes reads a part of its sources, or more of those of
/// another width, before it writes that part of its result, and writes that once. Wherever a
/// register is passed on, [`Compiler::passes_in_order`] looks whether that is so.
fn goes_part_by_part(op: &Op) -> bool {
    match op {
        Op::Mov(w) => *w != Width::W128,
        Op::Lop3(_) => true,
        Op::Select(w) => matches!(w, Width::W32 | Width::W64),
        Op::Int(op, ty) => {
            let plain = matches!(
                op,
                IntOp::Add | IntOp::Sub | IntOp::MulLo | IntOp::And | IntOp::Or | IntOp::Xor
            );
            let more = matches!(
                op,
                IntOp::Min
                    | IntOp::Max
                    | IntOp::Shl
                    | IntOp::Shr
                    | IntOp::MadLo
                    | IntOp::MadWide
                    | IntOp::Not
                    | IntOp::Neg
                    | IntOp::Abs
                    | IntOp::ShfLeftWrap
                    | IntOp::ShfRightWrap
            );
            plain || more && ty.width() != Width::W16
        }
        Op::Float(op, FloatType::F32 | FloatType::F64, _) => matches!(
            op,
            FloatOp::Add
                | FloatOp::Sub
                | FloatOp::Mul
                | FloatOp::Div
                | FloatOp::Fma
                | FloatOp::Min
                | FloatOp::Max
                | FloatOp::Neg
                | FloatOp::Abs
                | FloatOp::Sqrt
                | FloatOp::Rcp
                | FloatOp::RcpApprox
                | FloatOp::RsqrtApprox
                | FloatOp::RsqrtEstimate
        ),
        _ => false,
    }
}

impl Coalescing {
    /// None.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Finds them; `same` are registers whose lanes are in one part.
    pub(crate) fn of(f: &VectorFunction, weights: &UseWeights, same: &[bool]) -> Self {
        let mut found = vec![Vec::new(); f.classes.len()];
        let is_lanes = |r: usize| f.storage[r] == StorageClass::Vector && !same[r];
        let ends = |inst: &VectorInst, position: u32, r: usize| {
            inst.guard.is_none()
                && weights.kept.interval_at(r, position).is_some_and(|s| s.end == position)
        };
        let begins = |position: u32, r: usize| {
            weights.kept.interval_at(r, position).is_some_and(|s| s.start == position)
        };
        for (block, start) in f.blocks.iter().zip(&weights.kept.starts) {
            for (position, inst) in (start + 1..).zip(&block.insts) {
                let [dest] = &inst.dst[..] else { continue };
                let to = dest.reg.index();
                let width = f.classes[to].width();
                if inst.uniform
                    || !goes_part_by_part(&inst.op)
                    || !is_lanes(to)
                    || !begins(position, to)
                {
                    continue;
                }
                for source in &inst.src {
                    let Source::Vector(from) = source else { continue };
                    let from = from.index();
                    if from != to
                        && is_lanes(from)
                        && f.classes[from].width().map(parts) == width.map(parts)
                        && ends(inst, position, from)
                    {
                        found[from].push((to, position));
                        found[to].push((from, position));
                    }
                }
            }
        }
        Self(found)
    }

    /// The others and the positions.
    pub(crate) fn partners(&self, r: usize) -> &[(usize, u32)] {
        self.0.get(r).map_or(&[], |list| &list[..])
    }
}

impl Compiler<'_> {
    /// True if the code of an instruction, which begins behind the first machine
    /// instructions, reads what is passed on in it before that is overwritten.
    pub(crate) fn passes_in_order(&self, inst: &VectorInst, before: usize) -> bool {
        let machine = |r: usize| match self.assignment.lanes[r] {
            Lanes::Parts(registers) => {
                let count = self.f.classes[r].width().map_or(0, parts);
                registers.into_iter().take(count).collect()
            }
            _ => Vec::new(),
        };
        let [dest] = &inst.dst[..] else { return true };
        // An estimate is refined where its result goes, behind the last use of the argument.
        let refined = matches!(inst.op, Op::Float(FloatOp::RsqrtEstimate, ..));
        if inst.uniform || refined || !goes_part_by_part(&inst.op) {
            return true;
        }
        let to = machine(dest.reg.index());
        let others = inst.src.iter().filter_map(|s| match s {
            Source::Vector(r) if *r != dest.reg => Some(machine(r.index())),
            _ => None,
        });
        let passed: Vec<Register> = others.flatten().filter(|m| to.contains(m)).collect();
        passed.is_empty() || keeps_order(self.a.behind(before), &passed)
    }
}

/// True if each of the vector registers is written once at most, and neither read nor left behind
/// for code elsewhere after that.
fn keeps_order(code: &[Instruction], registers: &[Register]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let mut written = Vec::new();
    code.iter().all(|instruction| {
        let used = factory.info(instruction).used_registers();
        let all = |r: &Register| r.is_vector_register().then(|| r.full_register());
        let again = used.iter().any(|u| all(&u.register()).is_some_and(|r| written.contains(&r)));
        let leaves = !written.is_empty() && instruction.flow_control() != FlowControl::Next;
        let writes = |access: OpAccess| {
            use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
            matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
        };
        let new = used.iter().filter(|u| writes(u.access())).filter_map(|u| all(&u.register()));
        written.extend(new.filter(|r| registers.contains(r)));
        !again && !leaves
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::assembler::{Assembler, X};
    use iced_x86::Code;

    #[test]
    fn what_is_read_late_is_found() {
        use Register::{ZMM0, ZMM1, ZMM2, ZMM3};
        let ordered = |operands: &[[Register; 3]]| {
            let mut a = Assembler::new();
            for registers in operands {
                let add = Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32;
                a.op(add, &registers.map(X::from));
            }
            keeps_order(a.behind(0), &[ZMM0, ZMM1])
        };
        // Part by part, in place and through scratch.
        assert!(ordered(&[[ZMM0, ZMM0, ZMM2], [ZMM1, ZMM1, ZMM2]]));
        assert!(ordered(&[[ZMM3, ZMM0, ZMM1], [ZMM0, ZMM3, ZMM2], [ZMM1, ZMM3, ZMM2]]));
        // Read behind the write of another part, and written twice.
        assert!(!ordered(&[[ZMM0, ZMM0, ZMM2], [ZMM1, ZMM1, ZMM0]]));
        assert!(!ordered(&[[ZMM0, ZMM2, ZMM2], [ZMM0, ZMM3, ZMM3]]));
    }
}
