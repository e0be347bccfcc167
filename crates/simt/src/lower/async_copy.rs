//! Asynchronous copies: with the mbarriers that wait for them.
//!
//! A copy is done where it is issued: PTX says when it is done at the latest, not at the earliest.
//! So groups need not be distinguished, waiting for them is nothing, and an mbarrier that waits for
//! bytes hears of them at once. The checker that looks for programs that do not wait gets notes.

use super::Lowering;
use crate::ir::op::{
    BulkCopy, BulkPart, Class, CopyNote, IntOp, IntType, MbarrierOp, Op, Reduction, Space, Width,
};
use crate::ir::{Operand, Term};
use crate::runtime::mbarrier::COUNT_MAX;
use ptx::ast::{self, Modifier as M, Opcode, ScalarType as T, StateSpace};

impl Lowering<'_> {
    pub(super) fn async_copy(&mut self, inst: &ast::Instruction) -> Option<()> {
        match inst.opcode {
            Opcode::Mbarrier => self.mbarrier(inst),
            Opcode::Cp if inst.has(M::Tensor) => self.tensor_map(inst),
            Opcode::Tensormap => self.tensor_map(inst),
            Opcode::Cp
                if inst.has(M::CommitGroup) || inst.has(M::WaitGroup) || inst.has(M::WaitAll) =>
            {
                self.copy_groups(inst)
            }
            // Prefetches and cache hints have no visible effect.
            Opcode::Cp if inst.has(M::Prefetch) => Some(()),
            Opcode::Cp if inst.has(M::Bulk) => self.bulk(inst),
            Opcode::Cp if inst.has(M::Mbarrier) => {
                let [m] = &inst.operands[..] else { return None };
                self.copy_note(CopyNote::Arrive, inst.space(), &[m])?;
                // Without `.noinc` the barrier first waits for one arrival more, then for one less.
                if inst.has(M::Noinc) {
                    let (space, base, offset) = self.location(inst, m)?;
                    let src = vec![base, offset, Operand::Imm(1)];
                    let op = MbarrierOp::Arrive { drop: false };
                    let state = self.temp(Width::W64);
                    self.emit(Op::Mbarrier(op, space), vec![state], src);
                }
                Some(())
            }
            Opcode::Cp => self.copy(inst),
            _ => None,
        }
    }

    /// `cp.async`: 4, 8 or 16 bytes a thread, the rest of them zero where the source has less.
    fn copy(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [to, from, ast::Operand::Immediate(bytes), rest @ ..] = &inst.operands[..] else {
            return None;
        };
        let bytes = u8::try_from(bytes.as_i64()?).ok().filter(|n| matches!(n, 4 | 8 | 16))?;
        let (_, base, offset) = self.location_in(Some(StateSpace::Global), from)?;
        let (_, to_base, to_offset) = self.location_in(Some(StateSpace::Shared), to)?;
        let mut src = vec![to_base, to_offset, base, offset];
        let policy = usize::from(inst.has(M::L2CacheHint));
        if rest.len().checked_sub(policy)? > 0 {
            match self.source_size(&rest[0], bytes.into())? {
                Operand::Imm(size) if size as u32 >= bytes.into() => {}
                size => src.push(size),
            }
        }
        self.effect(Op::CopyToShared { bytes }, src);
        let note = CopyNote::Written { bytes, barrier: false };
        self.copy_note(note, Some(StateSpace::Shared), &[to])
    }

    /// `commit_group`, `wait_group`, `wait_all`.
    fn copy_groups(&mut self, inst: &ast::Instruction) -> Option<()> {
        let bulk = inst.has(M::Bulk);
        let note = match &inst.operands[..] {
            [] if inst.has(M::CommitGroup) => CopyNote::Commit { bulk },
            [] => CopyNote::Wait { bulk, left: None },
            [ast::Operand::Immediate(left), ..] => {
                CopyNote::Wait { bulk, left: Some(u32::try_from(left.as_i64()?).ok()?) }
            }
            _ => return None,
        };
        self.copy_note(note, None, &[])
    }

    /// Notes what becomes of asynchronous copies, if those notes are on; addresses are in that
    /// space.
    pub(super) fn copy_note(
        &mut self,
        note: CopyNote,
        space: Option<StateSpace>,
        addresses: &[&ast::Operand],
    ) -> Option<()> {
        if !self.env.copy_notes {
            return Some(());
        }
        let (mut of_first, mut src) = (Space::Shared, Vec::new());
        for (index, operand) in addresses.iter().enumerate() {
            let (space, address) = self.address(space, operand)?;
            of_first = if index == 0 { space } else { of_first };
            src.push(address);
        }
        self.effect(Op::CopyNote(note, of_first), src);
        Some(())
    }

    /// Bytes that the source has: a number, or none where a predicate says to ignore it.
    fn source_size(&mut self, operand: &ast::Operand, bytes: u32) -> Option<Operand> {
        let ignored = match operand {
            ast::Operand::Register(id) => {
                let reg = self.register(*id)?;
                self.reg_class(reg) == Class::Pred
            }
            ast::Operand::Not(_) => true,
            _ => false,
        };
        if !ignored {
            return self.source(operand, T::U32);
        }
        let ignore = self.predicate(operand)?;
        let src = vec![Operand::Imm(0), Operand::Imm(u64::from(bytes)), ignore];
        Some(self.value(Op::Select(Width::W32), Width::W32, src))
    }

    /// The address of `[a]`, its offset added, in a register of 64 bits.
    pub(super) fn address(
        &mut self,
        space: Option<StateSpace>,
        operand: &ast::Operand,
    ) -> Option<(Space, Operand)> {
        let (space, base, offset) = self.location_in(space, operand)?;
        let base = match (base, offset) {
            (base, Operand::Imm(0)) => base,
            (Operand::Imm(base), Operand::Imm(offset)) => Operand::Imm(base.wrapping_add(offset)),
            (base, offset) => {
                let width = match base {
                    Operand::Reg(reg) => self.reg_class(reg).width()?,
                    _ => Width::W64,
                };
                let ty = IntType::of(width, false);
                self.value(Op::Int(IntOp::Add, ty), width, vec![base, offset])
            }
        };
        Some((space, self.fit(base, Width::W64)))
    }

    /// `cp.async.bulk`, `cp.reduce.async.bulk`.
    fn bulk(&mut self, inst: &ast::Instruction) -> Option<()> {
        let [to, from, size, rest @ ..] = &inst.operands[..] else { return None };
        let mut spaces = inst.modifiers.iter().filter_map(|m| match m {
            M::Space(space) => Some(*space),
            _ => None,
        });
        let (to_space, from_space) = (spaces.next()?, spaces.next()?);
        let (to_space, to) = self.address(Some(to_space), to)?;
        let (from_space, from) = self.address(Some(from_space), from)?;
        let mut src = vec![to, from, self.source(size, T::U32)?];
        let barrier = inst.has(M::CompleteTxBytes);
        if barrier {
            // Behind the numbers of bytes at the ends, if these are given.
            let at = if inst.has(M::IgnoreOob) { 2 } else { 0 };
            let (_, m) = self.address(Some(StateSpace::Shared), rest.get(at)?)?;
            src.push(m);
        }
        let part = match () {
            () if inst.has(M::CpMask) => {
                // There is no mbarrier.
                src.push(Operand::Imm(0));
                let mask = self.source(rest.last()?, T::U16)?;
                src.push(self.fit(mask, Width::W32));
                BulkPart::Masked
            }
            () if inst.has(M::IgnoreOob) => {
                let [left, right, ..] = rest else { return None };
                let (left, right) = (self.source(left, T::U32)?, self.source(right, T::U32)?);
                let int = |op| Op::Int(op, IntType::U32);
                let above = self.value(int(IntOp::Shl), Width::W32, vec![right, Operand::Imm(8)]);
                src.push(self.value(int(IntOp::Or), Width::W32, vec![left, above]));
                BulkPart::Inner
            }
            () => BulkPart::Whole,
        };
        let multicast = inst.has(M::MulticastCluster);
        if multicast {
            let mask = self.source(rest.get(1)?, T::U16)?;
            src.push(self.fit(mask, Width::W32));
        }
        let reduction = match inst.has(M::Reduce) {
            true => Some(Reduction {
                op: super::memory::atomic_op(inst.atomic_op()?),
                ty: super::memory::atomic_type(inst.ty()?)?,
            }),
            false => None,
        };
        let copy = BulkCopy { to: to_space, from: from_space, barrier, multicast, reduction, part };
        self.effect(Op::BulkCopy(copy), src);
        Some(())
    }

    fn mbarrier(&mut self, inst: &ast::Instruction) -> Option<()> {
        let operands = &inst.operands[..];
        if inst.has(M::PendingCount) {
            let [d, state] = operands else { return None };
            let state = self.source(state, T::B64)?;
            let low = Op::Extend { from: Width::W64, bits: 32, signed: false, to: Width::W32 };
            let low = self.value(low, Width::W32, vec![state]);
            let src = vec![low, Operand::Imm(u64::from(COUNT_MAX))];
            return self.emit_to(Op::Int(IntOp::And, IntType::U32), d, Width::W32, false, src);
        }
        if inst.has(M::TestWait) || inst.has(M::TryWait) {
            return self.mbarrier_wait(inst);
        }
        if !inst.has(M::Arrive) && !inst.has(M::ArriveDrop) {
            let [m, count @ ..] = operands else { return None };
            let op = match () {
                () if inst.has(M::Init) => MbarrierOp::Init,
                () if inst.has(M::Inval) => MbarrierOp::Invalidate,
                () if inst.has(M::ExpectTx) => MbarrierOp::Expect,
                () if inst.has(M::CompleteTx) => MbarrierOp::Complete,
                () => return None,
            };
            let (space, base, offset) = self.location(inst, m)?;
            let mut src = vec![base, offset];
            if let Some(count) = count.first() {
                src.push(self.source(count, T::U32)?);
            }
            self.effect(Op::Mbarrier(op, space), src);
            return Some(());
        }
        let [d, m, count @ ..] = operands else { return None };
        let (space, base, offset) = self.location(inst, m)?;
        let count = match count.first() {
            Some(count) => self.source(count, T::U32)?,
            None => Operand::Imm(1),
        };
        let op = MbarrierOp::Arrive { drop: inst.has(M::ArriveDrop) };
        let arrivals = if inst.has(M::ExpectTx) {
            self.effect(Op::Mbarrier(MbarrierOp::Expect, space), vec![base, offset, count]);
            Operand::Imm(1)
        } else {
            count
        };
        self.emit_to(Op::Mbarrier(op, space), d, Width::W64, false, vec![base, offset, arrivals])
    }

    fn mbarrier_wait(&mut self, inst: &ast::Instruction) -> Option<()> {
        // A time limit, if any, comes last and is not needed: other warps get their turn at once.
        let [p, m, phase, ..] = &inst.operands[..] else { return None };
        let (space, base, offset) = self.location(inst, m)?;
        let parity = inst.has(M::Parity);
        let phase = self.source(phase, if parity { T::U32 } else { T::B64 })?;
        let p = self.predicate_dest(p)?;
        let op = Op::Mbarrier(MbarrierOp::Test { parity }, space);
        self.emit(op, vec![p], vec![base, offset, phase]);
        if inst.has(M::TryWait) {
            // A lane that has to wait lets others run.
            let (pause, next) = (self.new_block(), self.new_block());
            let guard = crate::ir::Guard { reg: p, negated: false };
            let to = |block| crate::ir::Target::Block(block);
            self.finish(Term::Branch { guard, taken: to(next), other: to(pause) }, pause);
            self.finish(Term::Pause { next }, next);
        }
        Some(())
    }
}
