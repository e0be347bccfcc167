//! Integer arithmetic, bit fields and carry chains.

use super::{Lowering, int_type};
use crate::ir::op::{Class, Compare, CompareType, IntOp, IntType, Op, PredOp, PrmtMode, Width};
use crate::ir::{Operand, Reg};
use ptx::ast::{self, Modifier as M, Opcode, ScalarType as T};

impl Lowering<'_> {
    pub(super) fn integer(&mut self, inst: &ast::Instruction) -> Option<()> {
        let operands = &inst.operands[..];
        match inst.opcode {
            Opcode::Add | Opcode::Sub | Opcode::Addc | Opcode::Subc => self.add_sub(inst),
            Opcode::Mul | Opcode::Mad | Opcode::Madc => self.multiply(inst),
            Opcode::Mul24 | Opcode::Mad24 => self.multiply24(inst),
            Opcode::Div => self.plain(IntOp::Div, inst),
            Opcode::Rem => self.plain(IntOp::Rem, inst),
            Opcode::Sad => self.plain(IntOp::Sad, inst),
            Opcode::Min | Opcode::Max => {
                let max = inst.opcode == Opcode::Max;
                match inst.ty()? {
                    T::U16x2 | T::S16x2 => {
                        let op = if max { IntOp::Max16x2 } else { IntOp::Min16x2 };
                        let ty = if inst.ty()? == T::S16x2 { IntType::S32 } else { IntType::U32 };
                        self.minmax(inst, op, IntOp::Max16x2, ty)
                    }
                    ty => {
                        let op = if max { IntOp::Max } else { IntOp::Min };
                        self.minmax(inst, op, IntOp::Max, int_type(ty)?)
                    }
                }
            }
            Opcode::Abs => self.plain(IntOp::Abs, inst),
            Opcode::Neg => self.plain(IntOp::Neg, inst),
            Opcode::Not => self.plain(IntOp::Not, inst),
            Opcode::Cnot => self.plain(IntOp::Cnot, inst),
            Opcode::And => self.plain(IntOp::And, inst),
            Opcode::Or => self.plain(IntOp::Or, inst),
            Opcode::Xor => self.plain(IntOp::Xor, inst),
            Opcode::Shl => self.shift(IntOp::Shl, inst),
            Opcode::Shr => self.shift(IntOp::Shr, inst),
            Opcode::Popc => self.count(IntOp::Popc, inst),
            Opcode::Clz => self.count(IntOp::Clz, inst),
            Opcode::Bfind if inst.has(M::Shiftamt) => self.count(IntOp::BfindShift, inst),
            Opcode::Bfind => self.count(IntOp::Bfind, inst),
            Opcode::Brev => self.plain(IntOp::Brev, inst),
            Opcode::Fns => {
                let op = Op::Int(IntOp::Fns, IntType::U32);
                self.operation(op, T::B32, Width::W32, operands)
            }
            Opcode::Bfe => {
                let ty = inst.ty()?;
                let [d, a, b, c] = operands else { return None };
                let src =
                    vec![self.source(a, ty)?, self.source(b, T::U32)?, self.source(c, T::U32)?];
                let ty = int_type(ty)?;
                self.emit_to(Op::Int(IntOp::Bfe, ty), d, ty.width(), false, src)
            }
            Opcode::Bfi => {
                let ty = inst.ty()?;
                let [d, a, b, c, e] = operands else { return None };
                let src = vec![
                    self.source(a, ty)?,
                    self.source(b, ty)?,
                    self.source(c, T::U32)?,
                    self.source(e, T::U32)?,
                ];
                let ty = int_type(ty)?;
                self.emit_to(Op::Int(IntOp::Bfi, ty), d, ty.width(), false, src)
            }
            Opcode::Bmsk => {
                let op = if inst.has(M::Wrap) { IntOp::BmskWrap } else { IntOp::BmskClamp };
                self.operation(Op::Int(op, IntType::U32), T::U32, Width::W32, operands)
            }
            Opcode::Szext => {
                let op = if inst.has(M::Wrap) { IntOp::SzextWrap } else { IntOp::SzextClamp };
                self.operation(Op::Int(op, int_type(inst.ty()?)?), T::B32, Width::W32, operands)
            }
            Opcode::Shf => {
                let op = match (inst.has(M::L), inst.has(M::Wrap)) {
                    (true, true) => IntOp::ShfLeftWrap,
                    (true, false) => IntOp::ShfLeftClamp,
                    (false, true) => IntOp::ShfRightWrap,
                    (false, false) => IntOp::ShfRightClamp,
                };
                self.operation(Op::Int(op, IntType::U32), T::B32, Width::W32, operands)
            }
            Opcode::Prmt => {
                let mode = [
                    (M::F4e, PrmtMode::F4e),
                    (M::B4e, PrmtMode::B4e),
                    (M::Rc8, PrmtMode::Rc8),
                    (M::Ecl, PrmtMode::Ecl),
                    (M::Ecr, PrmtMode::Ecr),
                    (M::Rc16, PrmtMode::Rc16),
                ]
                .into_iter()
                .find(|(modifier, _)| inst.has(*modifier))
                .map_or(PrmtMode::Index, |(_, mode)| mode);
                self.operation(Op::Prmt(mode), T::B32, Width::W32, operands)
            }
            Opcode::Lop3 if inst.bool_op().is_some() => self.lop3_tested(inst),
            Opcode::Lop3 => {
                let [d, a, b, c, ast::Operand::Immediate(table)] = operands else { return None };
                let table = u8::try_from(table.as_i64()?).ok()?;
                let src =
                    vec![self.source(a, T::B32)?, self.source(b, T::B32)?, self.source(c, T::B32)?];
                self.emit_to(Op::Lop3(table), d, Width::W32, false, src)
            }
            Opcode::Dp4a | Opcode::Dp2a => {
                let mut types = inst.types();
                let (a, b) = (types.next()?.is_signed(), types.next()?.is_signed());
                let op = match inst.opcode {
                    Opcode::Dp4a => Op::Dp4a(a, b),
                    _ => Op::Dp2a(a, b, inst.has(M::Hi)),
                };
                self.operation(op, T::B32, Width::W32, operands)
            }
            _ => None,
        }
    }

    /// `d = op(sources)`, all sources of type `ty`.
    pub(super) fn operation(
        &mut self,
        op: Op,
        ty: T,
        result: Width,
        operands: &[ast::Operand],
    ) -> Option<()> {
        let (d, sources) = operands.split_first()?;
        let src = sources.iter().map(|s| self.source(s, ty)).collect::<Option<Vec<_>>>()?;
        self.emit_to(op, d, result, false, src)
    }

    /// `min` or `max`, with `.relu` not below zero.
    fn minmax(
        &mut self,
        inst: &ast::Instruction,
        op: IntOp,
        most: IntOp,
        ty: IntType,
    ) -> Option<()> {
        let [d, a, b] = &inst.operands[..] else { return None };
        let bits = crate::lower::mov_setp_selp::bits_type(ty.width());
        let mut src = vec![self.source(a, bits)?, self.source(b, bits)?];
        let mut op = op;
        if inst.has(M::Relu) {
            let value = self.value(Op::Int(op, ty), ty.width(), src);
            (op, src) = (most, vec![value, Operand::Imm(0)]);
        }
        self.emit_to(Op::Int(op, ty), d, ty.width(), ty.signed(), src)
    }

    /// An operation whose sources and result are of the instruction's type.
    fn plain(&mut self, op: IntOp, inst: &ast::Instruction) -> Option<()> {
        let ty = inst.ty()?;
        let int = int_type(ty)?;
        if inst.has(M::Sat) || inst.has(M::Relu) {
            return None;
        }
        self.operation(Op::Int(op, int), ty, int.width(), &inst.operands)
    }

    /// An operation whose result is 32 bits wide for every source type.
    fn count(&mut self, op: IntOp, inst: &ast::Instruction) -> Option<()> {
        let ty = inst.ty()?;
        self.operation(Op::Int(op, int_type(ty)?), ty, Width::W32, &inst.operands)
    }

    fn shift(&mut self, op: IntOp, inst: &ast::Instruction) -> Option<()> {
        let ty = inst.ty()?;
        let [d, a, amount] = &inst.operands[..] else { return None };
        let src = vec![self.source(a, ty)?, self.source(amount, T::U32)?];
        let int = int_type(ty)?;
        self.emit_to(Op::Int(op, int), d, int.width(), false, src)
    }

    /// `lop3.or d|p, a, b, c, table, q`: whether the result is not zero, or `q`.
    fn lop3_tested(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [d, a, b, c, ast::Operand::Immediate(table), q] = &inst.operands[..] else {
            return None;
        };
        let ast::Operand::Pair(pair) = d else { return None };
        let table = u8::try_from(table.as_i64()?).ok()?;
        let src = vec![self.source(a, T::B32)?, self.source(b, T::B32)?, self.source(c, T::B32)?];
        let q = self.predicate(q)?;
        let value = self.value(Op::Lop3(table), Width::W32, src);
        let some = self.temporary(Class::Pred);
        let not_zero = Op::Setp(Compare::Ne, CompareType::Int(IntType::U32));
        self.emit(not_zero, vec![some], vec![value, Operand::Imm(0)]);
        let op = if inst.has(M::Or) { PredOp::Or } else { PredOp::And };
        let p = self.predicate_dest(&pair.1)?;
        self.emit(Op::Pred(op), vec![p], vec![some.into(), q]);
        self.emit_to(Op::Mov(Width::W32), &pair.0, Width::W32, false, vec![value])
    }

    /// The carry flag as sums have it and as differences do, which is the opposite: hardware
    /// subtracts by adding a complement, and compilers add up what a difference left.
    fn carry_and_borrow(&mut self) -> [Reg; 2] {
        *self.carry.get_or_insert_with(|| [(); 2].map(|()| self.f.new_reg(Class::Pred)))
    }

    /// `a ± b (± carry)`, with the carry flag as the instruction says.
    fn carry_op(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        a: Operand,
        b: Operand,
        width: Width,
    ) -> Option<()> {
        let subtract = matches!(inst.opcode, Opcode::Sub | Opcode::Subc);
        let carry_in = matches!(inst.opcode, Opcode::Addc | Opcode::Subc | Opcode::Madc);
        let carry_out = inst.has(M::Cc);
        let [carry, borrow] = self.carry_and_borrow();
        let (flag, opposite) = if subtract { (borrow, carry) } else { (carry, borrow) };
        let mut src = vec![a, b];
        if carry_in {
            src.push(Operand::Reg(flag));
        }
        let reg = match self.dest_reg(d)? {
            Some(reg) => reg,
            None => self.temp(width),
        };
        (self.reg_class(reg) == Class::Lane(width)).then_some(())?;
        let mut dst = vec![reg];
        if carry_out {
            dst.push(flag);
        }
        self.emit(Op::Carry { subtract, width, carry_in, carry_out }, dst, src);
        if carry_out {
            self.emit(Op::PredNot, vec![opposite], vec![Operand::Reg(flag)]);
        }
        Some(())
    }

    fn add_sub(&mut self, inst: &ast::Instruction) -> Option<()> {
        let ty = inst.ty()?;
        let [d, a, b] = &inst.operands[..] else { return None };
        let subtract = matches!(inst.opcode, Opcode::Sub | Opcode::Subc);
        if matches!(ty, T::U16x2 | T::S16x2) && !subtract {
            let op = Op::Int(IntOp::Add16x2, IntType::U32);
            return self.operation(op, T::B32, Width::W32, &inst.operands);
        }
        let int = int_type(ty)?;
        let src = vec![self.source(a, ty)?, self.source(b, ty)?];
        if inst.has(M::Cc) || matches!(inst.opcode, Opcode::Addc | Opcode::Subc) {
            return self.carry_op(inst, d, src[0], src[1], int.width());
        }
        let op = match (subtract, inst.has(M::Sat)) {
            (false, false) => IntOp::Add,
            (true, false) => IntOp::Sub,
            (false, true) => IntOp::AddSat,
            (true, true) => IntOp::SubSat,
        };
        self.emit_to(Op::Int(op, int), d, int.width(), false, src)
    }

    fn multiply(&mut self, inst: &ast::Instruction) -> Option<()> {
        let ty = inst.ty()?;
        let int = int_type(ty)?;
        let width = int.width();
        let (d, sources) = inst.operands.split_first()?;
        let wide_ty = match (width, int.signed()) {
            (Width::W16, false) => T::U32,
            (Width::W16, true) => T::S32,
            (Width::W32, false) => T::U64,
            (Width::W32, true) => T::S64,
            _ => T::B128,
        };
        let mut src = vec![self.source(sources.first()?, ty)?, self.source(sources.get(1)?, ty)?];
        if inst.opcode == Opcode::Mul {
            (sources.len() == 2).then_some(())?;
            let (op, result) = match () {
                () if inst.has(M::Lo) => (IntOp::MulLo, width),
                () if inst.has(M::Hi) => (IntOp::MulHi, width),
                () if inst.has(M::Wide) && width != Width::W64 => {
                    (IntOp::MulWide, Width::for_bits(width.bits() * 2))
                }
                () => return None,
            };
            return self.emit_to(Op::Int(op, int), d, result, int.signed(), src);
        }
        let [_, _, c] = sources else { return None };
        if inst.has(M::Cc) || inst.opcode == Opcode::Madc {
            let op = if inst.has(M::Hi) { IntOp::MulHi } else { IntOp::MulLo };
            let product = self.value(Op::Int(op, int), width, src);
            let c = self.source(c, ty)?;
            return self.carry_op(inst, d, product, c, width);
        }
        let (op, result) = match () {
            () if inst.has(M::Lo) => (IntOp::MadLo, width),
            () if inst.has(M::Hi) && inst.has(M::Sat) => (IntOp::MadHiSat, width),
            () if inst.has(M::Hi) => (IntOp::MadHi, width),
            () if inst.has(M::Wide) && width != Width::W64 => {
                (IntOp::MadWide, Width::for_bits(width.bits() * 2))
            }
            () => return None,
        };
        src.push(self.source(c, if op == IntOp::MadWide { wide_ty } else { ty })?);
        self.emit_to(Op::Int(op, int), d, result, int.signed(), src)
    }

    fn multiply24(&mut self, inst: &ast::Instruction) -> Option<()> {
        let ty = inst.ty()?;
        let op = match (inst.opcode, inst.has(M::Hi)) {
            (Opcode::Mul24, false) => IntOp::Mul24Lo,
            (Opcode::Mul24, true) => IntOp::Mul24Hi,
            (_, false) => IntOp::Mad24Lo,
            (_, true) if !inst.has(M::Sat) => IntOp::Mad24Hi,
            (_, true) => {
                let [d, a, b, c] = &inst.operands[..] else { return None };
                let int = int_type(ty)?;
                let src = vec![self.source(a, ty)?, self.source(b, ty)?];
                let product = self.value(Op::Int(IntOp::Mul24Hi, int), Width::W32, src);
                let src = vec![product, self.source(c, ty)?];
                return self.emit_to(Op::Int(IntOp::AddSat, int), d, Width::W32, false, src);
            }
        };
        self.operation(Op::Int(op, int_type(ty)?), ty, Width::W32, &inst.operands)
    }
}
