//! Packed integers: four bytes or two halves a register, saturating sums, comparisons; and the
//! unsigned saturating sum of 32 bits.
//!
//! Each part is computed in 32 bits, where nothing overflows, and put back. Where a comparison holds
//! all bits of the part are set, as `set` sets all of a register. Sums of `.u16x2` and `.s16x2` are operations.

use crate::ir::Operand;
use crate::ir::op::{Class, CompareType, IntOp, IntType, Op, Width};
use crate::lower::Lowering;
use crate::lower::mov_setp_selp::comparison;
use crate::lower::video::Part;
use ptx::ast::{self, Modifier as M, Opcode, ScalarType as T};

const WORD: IntType = IntType::S32;

impl Lowering<'_> {
    pub(super) fn packed(&mut self, inst: &ast::Instruction) -> Option<()> {
        let ty = inst.ty()?;
        let sum = inst.opcode == Opcode::Add && inst.has(M::Sat);
        let set = inst.opcode == Opcode::Set;
        match ty {
            T::U8x4 | T::S8x4 => self.parts(inst, 8, ty == T::S8x4),
            T::U16x2 | T::S16x2 if sum => {
                let op = Op::Int(IntOp::AddSat16x2, IntType::of(Width::W32, ty == T::S16x2));
                self.operation(op, T::B32, Width::W32, &inst.operands)
            }
            T::U16x2 | T::S16x2 if set => self.parts(inst, 16, ty == T::S16x2),
            T::U32 if sum => self.unsigned_sum(inst),
            _ => None,
        }
    }

    fn parts(&mut self, inst: &ast::Instruction, bits: u32, signed: bool) -> Option<()> {
        let (d, sources) = inst.operands.split_first()?;
        let sources = sources.iter().map(|s| self.source(s, T::B32)).collect::<Option<Vec<_>>>()?;
        let mut whole = Operand::Imm(0);
        for first in (0..32).step_by(bits as usize) {
            let part = Part { first, bits };
            let values: Vec<Operand> =
                sources.iter().map(|&from| self.part(from, part, signed, Width::W32)).collect();
            let op = match inst.opcode {
                Opcode::Add => Some(IntOp::Add),
                Opcode::Sub => Some(IntOp::Sub),
                Opcode::Neg => Some(IntOp::Neg),
                Opcode::Min => Some(IntOp::Min),
                Opcode::Max => Some(IntOp::Max),
                Opcode::Set => None,
                _ => return None,
            };
            let mut value = match op {
                Some(op) => self.value(Op::Int(op, WORD), Width::W32, values),
                None => {
                    let holds = self.temporary(Class::Pred);
                    let how = CompareType::Int(IntType::of(Width::W32, signed));
                    let compare = Op::Setp(comparison(inst.comparison()?), how);
                    self.emit(compare, vec![holds], values);
                    let ones = Operand::Imm(u64::from(u32::MAX));
                    let src = vec![ones, Operand::Imm(0), holds.into()];
                    self.value(Op::Select(Width::W32), Width::W32, src)
                }
            };
            if inst.has(M::Sat) {
                value = self.clamp(value, Width::W32, true, bits, signed);
            }
            if inst.has(M::Relu) {
                let src = vec![value, Operand::Imm(0)];
                value = self.value(Op::Int(IntOp::Max, WORD), Width::W32, src);
            }
            let place = [first, bits].map(|n| Operand::Imm(u64::from(n)));
            let src = vec![value, whole, place[0], place[1]];
            whole = self.value(Op::Int(IntOp::Bfi, IntType::U32), Width::W32, src);
        }
        self.emit_to(Op::Mov(Width::W32), d, Width::W32, false, vec![whole])
    }

    /// `add.sat.u32`: no more is added than there is room for.
    fn unsigned_sum(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [d, a, b] = &inst.operands[..] else { return None };
        let (a, b) = (self.source(a, T::U32)?, self.source(b, T::U32)?);
        let int = |op| Op::Int(op, IntType::U32);
        let room = self.value(int(IntOp::Not), Width::W32, vec![a]);
        let more = self.value(int(IntOp::Min), Width::W32, vec![b, room]);
        self.emit_to(int(IntOp::Add), d, Width::W32, false, vec![a, more])
    }
}
