//! Warp collectives: `vote`, `activemask`, `redux`, `match`, `elect`.
//!
//! Lanes that the member mask names and that are elsewhere must be waited for: then the decoded
//! form runs, and parks the warp.

use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{
    A, Field, K1, K2, K3, LANE_RESULTS, LANE_VALUES, MASK, SAVED_SCRATCH, Z0, Z2, Z3, field,
};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::lane_loop::Slot;
use crate::operands::{Value, move_code, xmm};
use crate::regalloc::allocate::parts;
use crate::shared::atomics::identity;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{AtomOp, AtomType, IntType, Op, ReduxOp, VoteMode, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};

const EAX: Register = Register::EAX;
const ECX: Register = Register::ECX;
const EDX: Register = Register::EDX;

/// Eight bytes that results can be kept in while masks are made.
fn kept() -> MemoryOperand {
    at(Register::RSP, SAVED_SCRATCH)
}

impl Compiler<'_> {
    /// Makes code for a vote, `activemask` or a reduction; false if there is none.
    pub(crate) fn votes(&mut self, inst: &VectorInst) -> bool {
        match inst.op {
            Op::Vote(mode) => self.vote(inst, mode),
            Op::ActiveMask => self.active_mask(inst),
            Op::Redux(op, ty) => self.reduction(inst, op, ty),
            Op::Elect => self.election(inst),
            Op::Match { all, width, predicate } => self.matching(inst, all, width, predicate),
            _ => false,
        }
    }

    /// True if the first result is a number that can be written from EAX.
    fn has_number(&self, inst: &VectorInst) -> bool {
        if inst.uniform { self.has_scalar_results(inst) } else { self.has_lane_results(inst) }
    }

    /// Writes EAX to the first result, 32 bits, the same for all lanes that run.
    fn put_number(&mut self, inst: &VectorInst) {
        if inst.uniform {
            return self.scalar_result(inst, 0, A);
        }
        if self.isa == SimdIsa::Avx2 {
            return self.put_eax(inst);
        }
        self.a.op(Code::EVEX_Vpbroadcastd_zmm_k1z_r32, &[Z0.into(), EAX.into()]);
        // Making masks needs EAX, but not what is in it.
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..parts(Width::W32) {
            self.put(&place, part, move_code(Width::W32), &[Z0.into()]);
        }
    }

    /// Goes to `back` if no lane runs the instruction, and to its interpreter handlers if it must wait for
    /// members. Else the lanes that run are in ECX.
    pub(crate) fn all_here(&mut self, inst: &VectorInst, members: u32, back: Label) {
        if !self.masked && inst.guard.is_none() {
            self.a.op(Code::Mov_r32_imm32, &[ECX.into(), X::I(-1)]);
            return;
        }
        let slow = self.interpreter_path(back);
        self.lanes_in_eax(inst);
        self.a.op(Code::Mov_r32_rm32, &[ECX.into(), EAX.into()]);
        self.a.op(Code::Test_rm32_r32, &[ECX.into(), ECX.into()]);
        self.a.jump(Code::Je_rel32_64, back);
        self.a.op(Code::Not_rm32, &[EAX.into()]);
        self.a.op(Code::And_r32_rm32, &[EAX.into(), field(Field::Live).into()]);
        self.a.op(Code::Test_rm32_imm32, &[EAX.into(), X::I(members as i32)]);
        self.a.jump(Code::Jne_rel32_64, slow);
    }

    fn vote(&mut self, inst: &VectorInst, mode: VoteMode) -> bool {
        let Source::Imm(members) = inst.src[1] else { return false };
        let members = members as u32;
        if mode == VoteMode::Ballot && !self.has_number(inst) {
            return false;
        }
        let back = self.a.label();
        self.all_here(inst, members, back);
        // Voters in EDX, those of them that say yes in EAX.
        self.a.op(Code::Mov_r32_rm32, &[EDX.into(), ECX.into()]);
        if members != 0 {
            self.a.op(Code::And_rm32_imm32, &[EDX.into(), X::I(members as i32)]);
        }
        self.load_mask(A, inst.src[0]);
        self.a.op(Code::And_r32_rm32, &[EAX.into(), EDX.into()]);
        let al = Register::AL;
        match mode {
            VoteMode::Ballot => {
                self.put_number(inst);
                self.join_ways(inst, back);
                return true;
            }
            VoteMode::All => {
                self.a.op(Code::Cmp_r32_rm32, &[EAX.into(), EDX.into()]);
                self.a.op(Code::Sete_rm8, &[al.into()]);
            }
            VoteMode::Any => {
                self.a.op(Code::Test_rm32_r32, &[EAX.into(), EAX.into()]);
                self.a.op(Code::Setne_rm8, &[al.into()]);
            }
            VoteMode::Uni => {
                self.a.op(Code::Cmp_r32_rm32, &[EAX.into(), EDX.into()]);
                self.a.op(Code::Sete_rm8, &[Register::CL.into()]);
                self.a.op(Code::Test_rm32_r32, &[EAX.into(), EAX.into()]);
                self.a.op(Code::Sete_rm8, &[al.into()]);
                self.a.op(Code::Or_r8_rm8, &[al.into(), Register::CL.into()]);
            }
        }
        self.a.op(Code::Movzx_r32_rm8, &[EAX.into(), al.into()]);
        self.a.op(Code::Neg_rm32, &[EAX.into()]);
        self.store_predicate(inst, 0);
        self.join_ways(inst, back);
        true
    }

    /// The end of an instruction that [`Self::all_here`] began.
    pub(crate) fn join_ways(&mut self, inst: &VectorInst, back: Label) {
        self.a.bind(back);
        if self.masked || inst.guard.is_some() {
            // Two ways lead here: nothing is known of what masks and EAX hold.
            self.forget_cached();
        }
    }

    /// The lowest member leads.
    fn election(&mut self, inst: &VectorInst) -> bool {
        let Source::Imm(members) = inst.src[0] else { return false };
        let members = members as u32;
        if !self.has_lane_results_or_one(inst) {
            return false;
        }
        let back = self.a.label();
        self.all_here(inst, members, back);
        if members != 0 {
            self.a.op(Code::And_rm32_imm32, &[ECX.into(), X::I(members as i32)]);
        }
        self.a.op(Code::VEX_Blsi_r32_rm32, &[EDX.into(), ECX.into()]);
        self.a.op(Code::Mov_rm32_r32, &[kept().into(), EDX.into()]);
        self.a.op(Code::Tzcnt_r32_rm32, &[EAX.into(), ECX.into()]);
        self.put_number(inst);
        self.a.op(Code::Mov_r32_rm32, &[EAX.into(), kept().into()]);
        self.store_predicate(inst, 1);
        self.join_ways(inst, back);
        true
    }

    /// Which lanes have the same value: as each lane, or whether all have one.
    fn matching(&mut self, inst: &VectorInst, all: bool, width: Width, predicate: bool) -> bool {
        let lanes = matches!(inst.src[0], Source::Vector(_)) && self.has_lane_results_or_one(inst);
        // All that run are members.
        if !lanes || inst.src[1] != Source::Imm(0xffff_ffff) {
            return false;
        }
        let value = self.value(inst.src[0], width);
        if !matches!(value, Value::Parts(_) | Value::Memory(..)) {
            return false;
        }
        let back = self.a.label();
        self.all_here(inst, u32::MAX, back);
        let Slot::Lanes(base, offset) = self.value_slots(inst.src[0], width, LANE_VALUES) else {
            return false;
        };
        let bytes = width.bytes();
        let first =
            MemoryOperand::with_base_index_scale_displ_size(base, A, bytes, i64::from(offset), 8);
        if all {
            self.a.op(Code::Tzcnt_r32_rm32, &[EAX.into(), ECX.into()]);
            self.equal_to(value, first, width);
            self.a.op(Code::Xor_r32_rm32, &[EDX.into(), EDX.into()]);
            self.a.op(Code::Cmp_r32_rm32, &[EAX.into(), ECX.into()]);
            self.a.op(Code::Cmove_r32_rm32, &[EDX.into(), ECX.into()]);
            self.a.op(Code::Mov_rm32_r32, &[kept().into(), EDX.into()]);
            self.a.op(Code::Mov_r32_rm32, &[EAX.into(), EDX.into()]);
            self.put_number(inst);
            if predicate {
                self.a.op(Code::Mov_r32_rm32, &[EAX.into(), kept().into()]);
                // All ones unless it is zero.
                self.a.op(Code::Neg_rm32, &[EAX.into()]);
                self.a.op(Code::Sbb_r32_rm32, &[EAX.into(), EAX.into()]);
                self.store_predicate(inst, 1);
            }
        } else {
            // Those in EDX have no answer yet: one value after the other.
            let next = self.a.label();
            self.a.op(Code::Mov_r32_rm32, &[EDX.into(), ECX.into()]);
            self.a.bind(next);
            self.a.op(Code::Tzcnt_r32_rm32, &[EAX.into(), EDX.into()]);
            self.equal_to(value, first, width);
            if self.isa == SimdIsa::Avx2 {
                self.answer_in_file();
            } else {
                self.a.op(Code::VEX_Kmovd_kr_r32, &[K1.into(), EAX.into()]);
                self.a.op(Code::VEX_Kshiftrd_kr_kr_imm8, &[K2.into(), K1.into(), X::I(16)]);
                for (to, k) in [(Z2, K1), (Z3, K2)] {
                    let spread = Code::EVEX_Vpbroadcastd_zmm_k1z_r32;
                    self.a.op(spread, &[to.into(), EAX.into()]).set_op_mask(k);
                }
            }
            let rest = [EDX.into(), EAX.into(), EDX.into()];
            self.a.op(Code::VEX_Andn_r32_r32_rm32, &rest);
            self.a.jump(Code::Jne_rel32_64, next);
            if self.isa == SimdIsa::Avx2 {
                self.put_lanes(inst, 0, Width::W32, Some(LANE_RESULTS));
            } else {
                let place = self.dest(inst, &inst.dst[0]);
                for (part, from) in [Z2, Z3].into_iter().enumerate() {
                    self.put(&place, part, move_code(Width::W32), &[from.into()]);
                }
            }
        }
        self.join_ways(inst, back);
        true
    }

    /// The lanes of those in ECX that have the value in memory, in EAX. Uses Z0, Z1.
    fn equal_to(&mut self, value: Value, other: MemoryOperand, width: Width) {
        if let (SimdIsa::Avx2, Value::Memory(base, offset)) = (self.isa, value) {
            self.equal_in_file((base, offset), other, width);
            self.a.op(Code::And_r32_rm32, &[EAX.into(), ECX.into()]);
            return;
        }
        let (spread, compare) = match width {
            Width::W64 => {
                (Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, Code::EVEX_Vpcmpeqq_kr_k1_zmm_zmmm512b64)
            }
            _ => (Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, Code::EVEX_Vpcmpeqd_kr_k1_zmm_zmmm512b32),
        };
        self.a.op(spread, &[Z0.into(), other.into()]);
        let found = |c: &mut Self, part: usize, k: Register| {
            let theirs = c.part(value, part);
            c.a.op(compare, &[k.into(), Z0.into(), theirs]);
        };
        if width == Width::W64 {
            let join = Code::VEX_Kunpckbw_kr_kr_kr;
            for (pair, k) in [(0, K1), (2, K2)] {
                found(self, pair, k);
                found(self, pair + 1, K3);
                self.a.op(join, &[k.into(), K3.into(), k.into()]);
            }
        } else {
            found(self, 0, K1);
            found(self, 1, K2);
        }
        self.a.op(Code::VEX_Kunpckwd_kr_kr_kr, &[K1.into(), K2.into(), K1.into()]);
        self.a.op(Code::VEX_Kmovd_r32_kr, &[EAX.into(), K1.into()]);
        self.a.op(Code::And_r32_rm32, &[EAX.into(), ECX.into()]);
    }

    /// The first result is lanes or one number.
    fn has_lane_results_or_one(&self, inst: &VectorInst) -> bool {
        let first = &inst.dst[0];
        let storage = self.f.storage[first.reg.index()];
        if inst.uniform {
            !matches!(storage, StorageClass::Vector | StorageClass::Mask | StorageClass::None)
        } else {
            storage == StorageClass::Vector && !self.assignment.same[first.reg.index()]
        }
    }

    fn active_mask(&mut self, inst: &VectorInst) -> bool {
        if !self.has_number(inst) {
            return false;
        }
        let back = self.a.label();
        if self.masked || inst.guard.is_some() {
            self.lanes_in_eax(inst);
            self.a.op(Code::Test_rm32_r32, &[EAX.into(), EAX.into()]);
            self.a.jump(Code::Je_rel32_64, back);
        } else {
            self.a.op(Code::Mov_r32_rm32, &[EAX.into(), MASK.into()]);
        }
        self.put_number(inst);
        self.join_ways(inst, back);
        true
    }

    fn reduction(&mut self, inst: &VectorInst, op: ReduxOp, ty: IntType) -> bool {
        // All that run are members.
        if inst.src[1] != Source::Imm(0xffff_ffff)
            || !matches!(inst.src[0], Source::Vector(_))
            || !self.has_number(inst)
        {
            return false;
        }
        let op = match op {
            ReduxOp::Add => AtomOp::Add,
            ReduxOp::Min => AtomOp::Min,
            ReduxOp::Max => AtomOp::Max,
            ReduxOp::And => AtomOp::And,
            ReduxOp::Or => AtomOp::Or,
            ReduxOp::Xor => AtomOp::Xor,
        };
        let signed = ty.signed();
        let ty = if signed { AtomType::S32 } else { AtomType::U32 };
        let some = self.masked || inst.guard.is_some();
        let back = self.a.label();
        if some {
            self.all_here(inst, u32::MAX, back);
        }
        match (self.isa, identity(op, ty), Self::combining(op, signed, false)) {
            (SimdIsa::Avx2, Some(neutral), Some(codes)) => {
                self.combine_in_rax(inst, inst.src[0], codes, (neutral, false), some);
            }
            _ => {
                if some {
                    self.activate(inst.guard);
                }
                self.reduce(inst.src[0], op, ty, some);
                self.a.op(Code::EVEX_Vmovd_rm32_xmm, &[EAX.into(), xmm(Z0).into()]);
            }
        }
        self.put_number(inst);
        self.in_eax = None;
        self.join_ways(inst, back);
        true
    }
}
