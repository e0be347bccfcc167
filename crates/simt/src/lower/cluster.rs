//! Distributed shared memory: addresses in the shared memory of other blocks of a cluster (`mapa`,
//! `getctarank`).
//!
//! An address of shared memory has the offset in its lower [`WINDOW_BITS`] bits and above them 0
//! for the block's own memory, or the block's rank and one. Generic addresses have the same 32 bits
//! at their lower end.
//!
//! And `clusterlaunchcontrol`, by which a block asks for the work of one that has not started: the
//! answer, 16 bytes, is always that there is none, since a grid's blocks are all started.

use super::{Lowering, class_of};
use crate::ir::op::{
    Access, Class, Compare, CompareType, IntOp, IntType, MbarrierOp, Op, Special, Width,
};
use crate::ir::vector::{CLUSTER_WINDOW_BYTES, SHARED_WINDOW, WINDOW_BITS, WINDOW_BYTES};
use crate::ir::{Operand, Term};
use ptx::ast::{self, Modifier as M, Opcode, ScalarType as T, StateSpace};

impl Lowering<'_> {
    pub(super) fn cluster(&mut self, inst: &ast::Instruction) -> Option<()> {
        match (inst.opcode, &inst.operands[..]) {
            (Opcode::Mapa, [d, a, rank]) => self.mapa(inst.ty()?, d, a, rank),
            (Opcode::Getctarank, [d, a]) => self.rank_of(inst.ty()?, d, a),
            (Opcode::Clusterlaunchcontrol, [to, m]) if inst.has(M::TryCancel) => {
                self.cancel_nothing(inst, to, m)
            }
            (Opcode::Clusterlaunchcontrol, [d, a]) => self.query_cancel(inst, d, a),
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

    /// `try_cancel`: writes that nothing was cancelled, and notifies the mbarrier of the bytes.
    fn cancel_nothing(
        &mut self,
        inst: &ast::Instruction,
        to: &ast::Operand,
        m: &ast::Operand,
    ) -> Option<()> {
        if inst.has(M::MulticastClusterAll) {
            return None;
        }
        let shared = Some(StateSpace::Shared);
        let (space, base, offset) = self.location_in(shared, to)?;
        let (bytes, count, width) = (4, 4, Width::W32);
        let access = Access { space, bytes, signed: false, count, width, volatile: false };
        let zero = Operand::Imm(0);
        self.effect(Op::Store(access), vec![base, offset, zero, zero, zero, zero]);
        let (space, base, offset) = self.location_in(shared, m)?;
        let complete = Op::Mbarrier(MbarrierOp::Complete, space);
        self.effect(complete, vec![base, offset, Operand::Imm(16)]);
        Some(())
    }

    /// `query_cancel`: the answer's words are whether there is a block, and its place in the grid.
    fn query_cancel(
        &mut self,
        inst: &ast::Instruction,
        d: &ast::Operand,
        a: &ast::Operand,
    ) -> Option<()> {
        let a = self.source(a, T::B128)?;
        let halves = [self.temp(Width::W64), self.temp(Width::W64)];
        let split = Op::Unpack { part: Width::W64, whole: Width::W128 };
        self.emit(split, halves.to_vec(), vec![a]);
        let mut words = Vec::new();
        for half in halves {
            let two = [self.temp(Width::W32), self.temp(Width::W32)];
            let split = Op::Unpack { part: Width::W32, whole: Width::W64 };
            self.emit(split, two.to_vec(), vec![half.into()]);
            words.extend(two.map(Operand::from));
        }
        if inst.has(M::IsCanceled) {
            let p = self.predicate_dest(d)?;
            let is_there = Op::Setp(Compare::Ne, CompareType::Int(IntType::U32));
            self.emit(is_there, vec![p], vec![words[0], Operand::Imm(0)]);
            return Some(());
        }
        let axes = [M::GetFirstCtaidX, M::GetFirstCtaidY, M::GetFirstCtaidZ];
        if let Some(axis) = axes.iter().position(|axis| inst.has(*axis)) {
            return self.emit_to(Op::Mov(Width::W32), d, Width::W32, false, vec![words[1 + axis]]);
        }
        let dst = self.results(d, Width::W32)?;
        // The fourth component has no meaning.
        for (d, word) in dst.into_iter().zip([words[1], words[2], words[3], Operand::Imm(0)]) {
            self.emit(Op::Mov(Width::W32), vec![d], vec![word]);
        }
        Some(())
    }

    /// `st.bulk`: clears a number of bytes, eight at a time.
    pub(super) fn clear(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [address, bytes, ..] = &inst.operands[..] else { return None };
        let (space, base, offset) = self.location(inst, address)?;
        let bytes = self.source(bytes, inst.ty().unwrap_or(T::U64))?;
        let bytes = self.fit(bytes, Width::W64);
        let width = if space == crate::ir::op::Space::Shared { Width::W32 } else { Width::W64 };
        let int = |op, width| Op::Int(op, IntType::of(width, false));
        let (at, left) = (self.temp(width), self.temp(Width::W64));
        // What follows is a loop, in which a lane whose guard fails has nothing to do.
        let guard = self.guard.take();
        let bytes = match guard {
            Some(guard) => {
                let holds = match guard.negated {
                    true => {
                        let not = self.temporary(Class::Pred);
                        self.emit(Op::PredNot, vec![not], vec![guard.reg.into()]);
                        not
                    }
                    false => guard.reg,
                };
                let src = vec![bytes, Operand::Imm(0), holds.into()];
                self.value(Op::Select(Width::W64), Width::W64, src)
            }
            None => bytes,
        };
        self.emit(Op::Mov(width), vec![at], vec![base]);
        self.emit(Op::Mov(Width::W64), vec![left], vec![bytes]);
        let (head, body, next) = (self.new_block(), self.new_block(), self.new_block());
        let to = crate::ir::Target::Block;
        self.finish(Term::Jump(to(head)), head);
        let more = self.temporary(Class::Pred);
        let is_more = Op::Setp(Compare::Ne, CompareType::Int(IntType::U64));
        self.emit(is_more, vec![more], vec![left.into(), Operand::Imm(0)]);
        let guard = crate::ir::Guard { reg: more, negated: false };
        self.finish(Term::Branch { guard, taken: to(body), other: to(next) }, body);
        let (bytes, count) = (8, 1);
        let access =
            Access { space, bytes, signed: false, count, width: Width::W64, volatile: false };
        self.effect(Op::Store(access), vec![at.into(), offset, Operand::Imm(0)]);
        let eight = Operand::Imm(8);
        self.emit(int(IntOp::Add, width), vec![at], vec![at.into(), eight]);
        self.emit(int(IntOp::Sub, Width::W64), vec![left], vec![left.into(), eight]);
        self.finish(Term::Jump(to(head)), next);
        Some(())
    }
}
