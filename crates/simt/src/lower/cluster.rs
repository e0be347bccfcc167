//! Distributed shared memory: addresses in the shared memory of other blocks of a cluster (`mapa`,
//! `getctarank`).
//!
//! An address of shared memory has the offset in its lower [`WINDOW_BITS`] bits and above them 0
//! for the block's own memory, or the block's rank and one. Generic addresses have the same 32 bits
//! at their lower end.

use super::{Lowering, class_of};
use crate::ir::Operand;
use crate::ir::op::{Class, Compare, CompareType, IntOp, IntType, Op, Special, Width};
use crate::ir::vector::{CLUSTER_WINDOW_BYTES, SHARED_WINDOW, WINDOW_BITS, WINDOW_BYTES};
use ptx::ast::{self, Opcode, ScalarType as T};

impl Lowering<'_> {
    pub(super) fn cluster(&mut self, inst: &ast::Instruction) -> Option<()> {
        match (inst.opcode, &inst.operands[..]) {
            (Opcode::Mapa, [d, a, rank]) => self.mapa(inst.ty()?, d, a, rank),
            (Opcode::Getctarank, [d, a]) => self.rank_of(inst.ty()?, d, a),
            _ => None,
        }
    }

    fn mapa(
        &mut self,
        ty: T,
        d: &ast::Operand,
        a: &ast::Operand,
        rank: &ast::Operand,
    ) -> Option<()> {
        let width = class_of(ty).width()?;
        let int = |op| Op::Int(op, IntType::of(width, false));
        let a = self.source(a, ty)?;
        let rank = self.source(rank, T::U32)?;
        let above = Op::Int(IntOp::Add, IntType::U32);
        let above = self.value(above, Width::W32, vec![rank, Operand::Imm(1)]);
        let bits = Operand::Imm(WINDOW_BITS.into());
        let above = self.value(Op::Int(IntOp::Shl, IntType::U32), Width::W32, vec![above, bits]);
        let above = self.fit(above, width);
        let keep = Operand::Imm(!(CLUSTER_WINDOW_BYTES - WINDOW_BYTES));
        let low = self.value(int(IntOp::And), width, vec![a, keep]);
        self.emit_to(int(IntOp::Or), d, width, false, vec![low, above])
    }

    fn rank_of(&mut self, ty: T, d: &ast::Operand, a: &ast::Operand) -> Option<()> {
        let a = self.source(a, ty)?;
        let low = self.fit(a, Width::W32);
        let bits = Operand::Imm(WINDOW_BITS.into());
        let above = self.value(Op::Int(IntOp::Shr, IntType::U32), Width::W32, vec![low, bits]);
        let own = self.temporary(Class::Pred);
        let is_zero = Op::Setp(Compare::Eq, CompareType::Int(IntType::U32));
        self.emit(is_zero, vec![own], vec![above, Operand::Imm(0)]);
        let less = Op::Int(IntOp::Sub, IntType::U32);
        let other = self.value(less, Width::W32, vec![above, Operand::Imm(1)]);
        let mine = self.value(Op::Special(Special::ClusterCtarank), Width::W32, vec![]);
        let src = vec![mine, other, own.into()];
        self.emit_to(Op::Select(Width::W32), d, Width::W32, false, src)
    }

    /// `isspacep.shared::cluster`: of any block's shared memory.
    pub(super) fn is_of_cluster(&mut self, p: &ast::Operand, a: &ast::Operand) -> Option<()> {
        let a = self.source(a, T::U64)?;
        let sub = Op::Int(IntOp::Sub, IntType::U64);
        let offset = self.value(sub, Width::W64, vec![a, Operand::Imm(SHARED_WINDOW)]);
        let p = self.predicate_dest(p)?;
        let below = Op::Setp(Compare::Lt, CompareType::Int(IntType::U64));
        self.emit(below, vec![p], vec![offset, Operand::Imm(CLUSTER_WINDOW_BYTES)]);
        Some(())
    }
}
