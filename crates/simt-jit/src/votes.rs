//! What lanes find out about each other: votes, the mask of those that run, reductions.
//!
//! Lanes that the member mask names and that are elsewhere must be waited for: then the decoded
//! form runs, and parks the warp.

use crate::Flavour;
use crate::assembler::{Label, X};
use crate::assign::parts;
use crate::atomics::identity;
use crate::compiler::Compiler;
use crate::frame::{A, Field, MASK, Z0, field};
use crate::value::{move_code, xmm};
use iced_x86::{Code, Register};
use simt::op::{AtomOp, AtomType, IntType, Op, ReduxOp, VoteMode, Width};
use simt::vector::{Source, VectorInst};

const EAX: Register = Register::EAX;
const ECX: Register = Register::ECX;
const EDX: Register = Register::EDX;

impl Compiler<'_> {
    /// Makes code for a vote, `activemask` or a reduction; false if there is none.
    pub(crate) fn votes(&mut self, inst: &VectorInst) -> bool {
        match inst.op {
            Op::Vote(mode) => self.vote(inst, mode),
            Op::ActiveMask => self.active_mask(inst),
            Op::Redux(op, ty) => self.reduction(inst, op, ty),
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
        if self.flavour == Flavour::Avx2 {
            return self.put_eax(inst);
        }
        self.a.op(Code::EVEX_Vpbroadcastd_zmm_k1z_r32, &[Z0.into(), EAX.into()]);
        // Making masks needs EAX, but not what is in it.
        let place = self.dest(inst, &inst.dst[0]);
        for part in 0..parts(Width::W32) {
            self.put(&place, part, move_code(Width::W32), &[Z0.into()]);
        }
    }

    /// Goes to `back` if no lane runs the instruction, and to its decoded form if it must wait for
    /// members. Else the lanes that run are in ECX.
    pub(crate) fn all_here(&mut self, inst: &VectorInst, members: u32, back: Label) {
        if !self.masked && inst.guard.is_none() {
            self.a.op(Code::Mov_r32_imm32, &[ECX.into(), X::I(-1)]);
            return;
        }
        let slow = self.aside(back);
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
            self.forget();
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
        match (self.flavour, identity(op, ty), Self::combining(op, signed, false)) {
            (Flavour::Avx2, Some(neutral), Some(codes)) => {
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
