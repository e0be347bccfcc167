//! Warp collectives: `shfl`, `vote`, `match`, `redux`, `activemask`, `elect`.

use crate::ir::Operand;
use crate::ir::op::{Class, IntType, Op, ReduxOp, ShflMode, VoteMode, Width};
use crate::lower::{Lowering, int_type};
use ptx::ast::{self, AtomicOp, Modifier as M, Opcode, Operand as AstOperand, ScalarType as T};

impl Lowering<'_> {
    pub(super) fn warp(&mut self, inst: &ast::Instruction) -> Option<()> {
        match inst.opcode {
            Opcode::Shfl => self.shfl(inst),
            Opcode::Vote => self.vote(inst),
            Opcode::Activemask => {
                let [d] = &inst.operands[..] else { return None };
                // Which lanes run together depends on where this stands: keep it in place.
                self.emit_to(Op::ActiveMask, d, Width::W32, false, vec![])
            }
            Opcode::Match => self.match_lanes(inst),
            Opcode::Redux => {
                let [d, a, mask] = &inst.operands[..] else { return None };
                let ty = inst.ty()?;
                if ty == T::F32 {
                    let max = inst.atomic_op()? == AtomicOp::Max;
                    let op = Op::ReduxFloat { max, abs: inst.has(M::Abs), nan: inst.has(M::NaN) };
                    let src = vec![self.source(a, ty)?, self.source(mask, T::B32)?];
                    return self.emit_to(op, d, Width::W32, false, src);
                }
                let int = int_type(ty)?;
                (int.width() == Width::W32).then_some(())?;
                let op = match inst.atomic_op()? {
                    AtomicOp::Add => ReduxOp::Add,
                    AtomicOp::Min => ReduxOp::Min,
                    AtomicOp::Max => ReduxOp::Max,
                    AtomicOp::And => ReduxOp::And,
                    AtomicOp::Or => ReduxOp::Or,
                    AtomicOp::Xor => ReduxOp::Xor,
                    _ => return None,
                };
                let src = vec![self.source(a, ty)?, self.source(mask, T::B32)?];
                self.emit_to(Op::Redux(op, int), d, Width::W32, false, src)
            }
            Opcode::Elect => {
                let [d, mask] = &inst.operands[..] else { return None };
                let AstOperand::Pair(pair) = d else { return None };
                let lane = match self.dest_reg(&pair.0)? {
                    Some(reg) => reg,
                    None => self.temp(Width::W32),
                };
                let p = self.predicate_dest(&pair.1)?;
                let mask = self.source(mask, T::B32)?;
                self.emit(Op::Elect, vec![lane, p], vec![mask]);
                Some(())
            }
            _ => None,
        }
    }

    fn shfl(&mut self, inst: &ast::Instruction) -> Option<()> {
        let mode = inst.modifiers.iter().find_map(|m| {
            Some(match m {
                M::Up => ShflMode::Up,
                M::Down => ShflMode::Down,
                M::Bfly => ShflMode::Bfly,
                M::Idx => ShflMode::Idx,
                _ => return None,
            })
        })?;
        let (d, a, b, c, mask) = match &inst.operands[..] {
            [d, a, b, c, mask] => (d, a, b, c, Some(mask)),
            // The form without `.sync` names no lanes: those that are here.
            [d, a, b, c] => (d, a, b, c, None),
            _ => return None,
        };
        let mut src =
            vec![self.source(a, T::B32)?, self.source(b, T::U32)?, self.source(c, T::U32)?];
        src.push(match mask {
            Some(mask) => self.source(mask, T::B32)?,
            None => Operand::Imm(0),
        });
        if let AstOperand::Pair(pair) = d {
            let value = match self.dest_reg(&pair.0)? {
                Some(reg) => reg,
                None => self.temp(Width::W32),
            };
            let p = self.predicate_dest(&pair.1)?;
            self.emit(Op::Shfl(mode, true), vec![value, p], src);
            return Some(());
        }
        self.emit_to(Op::Shfl(mode, false), d, Width::W32, false, src)
    }

    fn vote(&mut self, inst: &ast::Instruction) -> Option<()> {
        let mode = inst.modifiers.iter().find_map(|m| {
            Some(match m {
                M::All => VoteMode::All,
                M::Any => VoteMode::Any,
                M::Uni => VoteMode::Uni,
                M::Ballot => VoteMode::Ballot,
                _ => return None,
            })
        })?;
        let (d, p, mask) = match &inst.operands[..] {
            [d, p, mask] => (d, p, Some(mask)),
            [d, p] => (d, p, None),
            _ => return None,
        };
        let p = self.predicate(p)?;
        let mask = match mask {
            Some(mask) => self.source(mask, T::B32)?,
            None => Operand::Imm(0),
        };
        if mode == VoteMode::Ballot {
            return self.emit_to(Op::Vote(mode), d, Width::W32, false, vec![p, mask]);
        }
        let d = self.predicate_dest(d)?;
        self.emit(Op::Vote(mode), vec![d], vec![p, mask]);
        Some(())
    }

    fn match_lanes(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [d, a, mask] = &inst.operands[..] else { return None };
        let ty = inst.ty()?;
        let width = match int_type(ty)? {
            IntType::U32 => Width::W32,
            IntType::U64 => Width::W64,
            _ => return None,
        };
        let all = inst.has(M::All);
        let src = vec![self.source(a, ty)?, self.source(mask, T::B32)?];
        if let AstOperand::Pair(pair) = d {
            let reg = match self.dest_reg(&pair.0)? {
                Some(reg) => reg,
                None => self.temp(Width::W32),
            };
            (self.reg_class(reg) == Class::Lane(Width::W32)).then_some(())?;
            let p = self.predicate_dest(&pair.1)?;
            self.emit(Op::Match { all, width, predicate: true }, vec![reg, p], src);
            return Some(());
        }
        self.emit_to(Op::Match { all, width, predicate: false }, d, Width::W32, false, src)
    }
}
