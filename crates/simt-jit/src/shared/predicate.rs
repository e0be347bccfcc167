//! Predicates: `setp` and predicate logic; a bit a lane, in the register file.

use crate::asm::assembler::{Label, X};
use crate::frame_layout::{A, C, D, K1, K3, MASK, Z0, Z1};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::lanewise::compare;
use crate::operands::xmm;
use iced_x86::{Code, Register};
use simt::analysis::vector_cfg::PROLOGUE;
use simt::ir::Reg;
use simt::ir::op::{Compare, CompareType, FloatType, Op, PredOp, Width};
use simt::ir::vector::{Dest, Source, VectorInst, VectorTerm};
use simt::kernel::WARP_LANES;

/// A comparison of numbers that grow by one from lane to lane with one number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    /// What it is for lanes whose numbers are below the other one, 0 or -1.
    outcome: i32,
    /// 1 if it is that for the lane whose number is equal as well.
    plus: i32,
    /// The numbers are signed.
    signed: bool,
}

fn width_of(ty: CompareType) -> Width {
    match ty {
        CompareType::Int(ty) => ty.width(),
        CompareType::Float(ty, _) => ty.width(),
    }
}

fn is_signed(ty: CompareType) -> bool {
    matches!(ty, CompareType::Int(ty) if ty.signed())
}

impl Compiler<'_> {
    /// Makes code for an instruction on predicates; false if there is none.
    pub(crate) fn predicates(&mut self, inst: &VectorInst) -> bool {
        match inst.op {
            Op::Setp(compare, ty) if inst.uniform => self.compare_scalars(inst, compare, ty),
            Op::Setp(compare, ty) => self.compare_lanes(inst, compare, ty),
            Op::PredMov | Op::PredNot => {
                self.load_mask(A, inst.src[0]);
                if inst.op == Op::PredNot {
                    self.a.op(Code::Not_rm32, &[Register::EAX.into()]);
                }
                self.store_predicate(inst, 0);
                true
            }
            Op::Pred(op) => {
                let code = match op {
                    PredOp::And => Code::And_r32_rm32,
                    PredOp::Or => Code::Or_r32_rm32,
                    PredOp::Xor => Code::Xor_r32_rm32,
                };
                self.load_mask(A, inst.src[0]);
                self.load_mask(C, inst.src[1]);
                self.a.op(code, &[Register::EAX.into(), Register::ECX.into()]);
                self.store_predicate(inst, 0);
                true
            }
            Op::PredSelect => {
                // b ^ ((a ^ b) & p)
                self.load_mask(A, inst.src[0]);
                self.load_mask(C, inst.src[1]);
                self.load_mask(D, inst.src[2]);
                let (eax, ecx, edx) = (Register::EAX, Register::ECX, Register::EDX);
                self.a.op(Code::Xor_r32_rm32, &[eax.into(), ecx.into()]);
                self.a.op(Code::And_r32_rm32, &[eax.into(), edx.into()]);
                self.a.op(Code::Xor_r32_rm32, &[eax.into(), ecx.into()]);
                self.store_predicate(inst, 0);
                true
            }
            _ => false,
        }
    }

    /// Loads a predicate into the low half of a scratch register.
    pub(crate) fn load_mask(&mut self, to: Register, source: Source) {
        let to = to.full_register32();
        match source {
            Source::Mask(r) => {
                let memory = self.mask_of(r);
                self.a.op(Code::Mov_r32_rm32, &[to.into(), memory.into()]);
            }
            Source::Imm(v) => {
                let value = if v != 0 { -1 } else { 0 };
                self.a.op(Code::Mov_r32_imm32, &[to.into(), X::I(value)]);
            }
            Source::Vector(_) | Source::Scalar(_) | Source::Affine(..) | Source::HalfAffine(..) => {
            }
        }
    }

    /// Writes EAX to result `n`, a predicate, in the lanes that run the instruction.
    pub(crate) fn store_predicate(&mut self, inst: &VectorInst, n: usize) {
        let Dest { reg, keep, .. } = inst.dst[n];
        let memory = self.mask_of(reg);
        let (eax, ecx, edx) = (Register::EAX, Register::ECX, Register::EDX);
        let merge = inst.guard.is_some() || (self.masked && keep);
        if merge {
            self.a.op(Code::Mov_r32_rm32, &[ecx.into(), eax.into()]);
            match inst.guard {
                Some(guard) => self.active_lanes(guard),
                None => {
                    self.a.op(Code::Mov_r32_rm32, &[eax.into(), MASK.into()]);
                }
            }
            // d ^ ((value ^ d) & active)
            self.a.op(Code::Mov_r32_rm32, &[edx.into(), memory.into()]);
            self.a.op(Code::Xor_r32_rm32, &[ecx.into(), edx.into()]);
            self.a.op(Code::And_r32_rm32, &[eax.into(), ecx.into()]);
            self.a.op(Code::Xor_r32_rm32, &[eax.into(), edx.into()]);
        }
        self.a.op(Code::Mov_rm32_r32, &[memory.into(), eax.into()]);
        self.in_eax = Some(reg);
        if self.in_pair == Some(reg) {
            self.in_pair = None;
        }
    }

    fn compare_lanes(&mut self, inst: &VectorInst, compare: Compare, ty: CompareType) -> bool {
        if compare::form(compare, ty).is_none() {
            return false;
        }
        let width = width_of(ty);
        let halves = inst.src.iter().any(|s| matches!(s, Source::HalfAffine(..)));
        if width == Width::W16 && halves {
            return false;
        }
        if let Some(outcomes) = self.known_outcomes(inst, compare, ty) {
            self.a.op(Code::Mov_r32_imm32, &[Register::EAX.into(), X::I(outcomes as i32)]);
            self.store_predicate(inst, 0);
            return true;
        }
        if self.compare_ends(inst, compare, ty) {
            return true;
        }
        self.compare_each(inst);
        let whole = inst.guard.is_none() && !(self.masked && inst.dst[0].keep);
        self.store_predicate(inst, 0);
        if whole && width != Width::W16 {
            self.in_pair = Some(inst.dst[0].reg);
        }
        true
    }

    /// What a predicate is in all lanes that have it, if it is that of numbers that are known.
    pub(crate) fn known_predicate(&self, r: Reg) -> Option<u32> {
        let inst = self.writer(r).filter(|inst| !inst.uniform)?;
        match inst.op {
            Op::Setp(compare, ty) => self.known_outcomes(inst, compare, ty),
            _ => None,
        }
    }

    /// The outcomes of a comparison of numbers that are known: the lane's with a constant.
    fn known_outcomes(&self, inst: &VectorInst, compare: Compare, ty: CompareType) -> Option<u32> {
        let CompareType::Int(ty) = ty else { return None };
        let (a, b) = (self.known_lanes(inst.src[0])?, self.known_lanes(inst.src[1])?);
        let unused = 64 - ty.width().bits().min(64);
        let number = |v: u64| match ty.signed() {
            true => i128::from((v << unused) as i64 >> unused),
            false => i128::from(v << unused >> unused),
        };
        let mut outcomes = 0;
        for (lane, (a, b)) in a.into_iter().zip(b).enumerate() {
            let order = number(a).cmp(&number(b));
            let holds = match compare {
                Compare::Eq => order.is_eq(),
                Compare::Ne => order.is_ne(),
                Compare::Lt => order.is_lt(),
                Compare::Le => order.is_le(),
                Compare::Gt => order.is_gt(),
                Compare::Ge => order.is_ge(),
                _ => return None,
            };
            outcomes |= u32::from(holds) << lane;
        }
        Some(outcomes)
    }

    /// Compares numbers that grow from lane to lane with one number: if the last lane's is below
    /// it, all are. False if there is no such form. Others are compared one by one, elsewhere.
    fn compare_ends(&mut self, inst: &VectorInst, compare: Compare, ty: CompareType) -> bool {
        let CompareType::Int(int) = ty else { return false };
        if int.width() != Width::W32 {
            return false;
        }
        let is_one =
            |s: Source| matches!(s, Source::Affine(_, 0) | Source::Scalar(_) | Source::Imm(_));
        let (growing, one, compare) = match (inst.src[0], inst.src[1]) {
            (Source::Affine(r, stride), one) if stride > 0 && is_one(one) => {
                ((r, stride), one, compare)
            }
            (one, Source::Affine(r, stride)) if stride > 0 && is_one(one) => {
                let turned = match compare {
                    Compare::Lt => Compare::Gt,
                    Compare::Le => Compare::Ge,
                    Compare::Gt => Compare::Lt,
                    Compare::Ge => Compare::Le,
                    other => other,
                };
                ((r, stride), one, turned)
            }
            _ => return false,
        };
        // Numbers below a number of 32 bits have not wrapped.
        let (outcome, otherwise) = match compare {
            Compare::Lt => (-1, Code::Jge_rel32_64),
            Compare::Ge => (0, Code::Jge_rel32_64),
            Compare::Le => (-1, Code::Jg_rel32_64),
            Compare::Gt => (0, Code::Jg_rel32_64),
            _ => return false,
        };
        let Ok(reach) = i32::try_from(growing.1.saturating_mul(WARP_LANES as i64 - 1)) else {
            return false;
        };
        let (label, back) = (self.a.label(), self.a.label());
        let (block, index) = (self.block, self.index);
        let plus = i32::from(matches!(compare, Compare::Le | Compare::Gt));
        let steps = (growing.1 == 1).then_some(Steps { outcome, plus, signed: int.signed() });
        self.slow_path_to(label, back, move |c| {
            if let Some(steps) = steps {
                c.compare_steps(steps, back);
            }
            let inst = c.inst_at(block, index);
            c.compare_each(inst);
        });
        self.widen(Source::Scalar(growing.0), int.signed(), A);
        self.a.op(Code::Add_rm64_imm32, &[A.into(), X::I(reach)]);
        self.widen(one, int.signed(), C);
        self.a.op(Code::Cmp_r64_rm64, &[A.into(), C.into()]);
        self.a.jump(otherwise, label);
        if let Some([yes, no]) = self.decided_here(inst) {
            // Nearly always all lanes go one way.
            // The end of the block where not all lanes agree: their outcomes are in EAX.
            self.out_of_line(back, move |c| {
                let b = &c.f.blocks[block];
                c.store_predicate(&b.insts[index], 0);
                c.terminator(&b.term);
            });
            self.in_pair = None;
            self.known_branch = Some((inst.dst[0].reg, outcome));
            self.fall(block, if outcome != 0 { yes } else { no });
            self.known_branch = None;
            self.ended = true;
            return true;
        }
        self.a.op(Code::Mov_r32_imm32, &[Register::EAX.into(), X::I(outcome)]);
        self.a.bind(back);
        // The other way uses these.
        self.in_pair = None;
        self.store_predicate(inst, 0);
        true
    }

    /// Where lanes go for which a comparison holds, and where others, if it is the last thing in the
    /// unmasked version of a block and serves nothing else.
    fn decided_here(&self, inst: &VectorInst) -> Option<[Option<usize>; 2]> {
        let in_order = self.is_program_order && self.inline && self.block != PROLOGUE;
        if !in_order || self.masked || inst.guard.is_some() {
            return None;
        }
        let b = &self.f.blocks[self.block];
        let VectorTerm::Branch { guard, uniform: false, taken, other } = &b.term else {
            return None;
        };
        let last = self.index + 1 == b.insts.len() && guard.reg == inst.dst[0].reg;
        let [mut yes, mut no] = [taken, other].map(|to| to.block().map(|b| b.index()));
        let read =
            |to: Option<usize>| to.is_some_and(|to| self.f.blocks[to].live_in.contains(&guard.reg));
        if guard.negated {
            std::mem::swap(&mut yes, &mut no);
        }
        (last && yes != no && !read(yes) && !read(no)).then_some([yes, no])
    }

    /// The outcomes in EAX where numbers that grow by one from lane to lane reach the other number
    /// within the warp: the last lane's number is in RAX, the other one in RCX. Falls through if
    /// they wrap.
    pub(crate) fn compare_steps(&mut self, steps: Steps, back: Label) {
        let (eax, ecx, edx) = (Register::EAX, Register::ECX, Register::EDX);
        let wraps = self.a.label();
        let last = WARP_LANES as i32 - 1;
        if steps.signed {
            self.a.op(Code::Movsxd_r64_rm32, &[D.into(), eax.into()]);
        } else {
            self.a.op(Code::Mov_r32_rm32, &[edx.into(), eax.into()]);
        }
        self.a.op(Code::Cmp_r64_rm64, &[D.into(), A.into()]);
        self.a.jump(Code::Jne_rel32_64, wraps);
        // Lanes in front of the other number: at most 32, or the last one would be.
        self.a.op(Code::Sub_r64_rm64, &[C.into(), A.into()]);
        self.a.op(Code::Xor_r32_rm32, &[eax.into(), eax.into()]);
        self.a.op(Code::Add_rm64_imm8, &[C.into(), X::I(last + steps.plus)]);
        self.a.op(Code::Cmovs_r32_rm32, &[ecx.into(), eax.into()]);
        self.a.op(Code::Or_rm64_imm8, &[A.into(), X::I(-1)]);
        self.a.op(Code::Shl_rm64_CL, &[A.into(), Register::CL.into()]);
        if steps.outcome != 0 {
            self.a.op(Code::Not_rm32, &[eax.into()]);
        }
        self.a.jump(Code::Jmp_rel32_64, back);
        self.a.bind(wraps);
    }

    /// The outcomes of a comparison of lanes, in EAX.
    pub(crate) fn compare_each(&mut self, inst: &VectorInst) {
        let Op::Setp(compare, ty) = inst.op else { return };
        if self.isa == SimdIsa::Avx2 {
            // Others are members of regions.
            return self.compare_formulas(inst, compare, is_signed(ty));
        }
        let Some(form) = compare::form(compare, ty) else { return };
        self.in_pair = None;
        self.compare_pieces(inst, form);
    }

    /// The register with f32 subnormals made zero, in `scratch`.
    pub(crate) fn flushed(&mut self, register: Register, scratch: Register) -> Register {
        let exponent =
            crate::asm::assembler::repeated(self.a.constant(&0x7f80_0000u32.to_le_bytes()));
        let sign = crate::asm::assembler::repeated(self.a.constant(&0x8000_0000u32.to_le_bytes()));
        if register != scratch {
            let code = Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512;
            self.a.op(code, &[scratch.into(), register.into()]);
        }
        let test = Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32;
        self.a.op(test, &[K3.into(), scratch.into(), exponent.into()]);
        let and = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
        self.a.op(and, &[scratch.into(), scratch.into(), sign.into()]).set_op_mask(K3);
        scratch
    }

    fn compare_scalars(&mut self, inst: &VectorInst, compare: Compare, ty: CompareType) -> bool {
        let (eax, al) = (Register::EAX, Register::AL);
        match ty {
            CompareType::Int(ty) if ty.width() != Width::W16 => {
                let signed = ty.signed();
                let Some(flags) = compare::flags(compare, signed) else { return false };
                let wide = ty.width() == Width::W64;
                let first = self.scalar_in(inst.src[0], wide, C);
                let second = self.scalar(inst.src[1], wide, D);
                let compare = match (wide, second) {
                    (true, X::I(_)) => Code::Cmp_rm64_imm32,
                    (false, X::I(_)) => Code::Cmp_rm32_imm32,
                    (true, _) => Code::Cmp_r64_rm64,
                    (false, _) => Code::Cmp_r32_rm32,
                };
                self.a.op(compare, &[first.into(), second]);
                self.a.op(flags.set, &[al.into()]);
                self.a.op(Code::Movzx_r32_rm8, &[eax.into(), al.into()]);
            }
            CompareType::Float(FloatType::F32, false) | CompareType::Float(FloatType::F64, _) => {
                let wide = matches!(ty, CompareType::Float(FloatType::F64, _));
                if self.isa == SimdIsa::Avx2 {
                    self.single_compare(inst, compare, wide);
                    self.store_predicate(inst, 0);
                    return true;
                }
                let code = if wide {
                    Code::EVEX_Vcmpsd_kr_k1_xmm_xmmm64_imm8_sae
                } else {
                    Code::EVEX_Vcmpss_kr_k1_xmm_xmmm32_imm8_sae
                };
                let first = self.scalar_in_vector(inst.src[0], wide, Z0);
                let second = self.scalar_in_vector(inst.src[1], wide, Z1);
                let condition = X::I(compare::float_condition(compare));
                self.a.op(code, &[K1.into(), xmm(first).into(), xmm(second).into(), condition]);
                self.a.op(Code::VEX_Kmovw_r32_kr, &[eax.into(), K1.into()]);
            }
            _ if self.isa == SimdIsa::Avx2 => return self.one_in_quarter(inst),
            _ => {
                if compare::form(compare, ty).is_none() || !self.compare_one_as_lanes(inst) {
                    return false;
                }
                self.store_predicate(inst, 0);
                return true;
            }
        }
        self.a.op(Code::Neg_rm32, &[eax.into()]);
        self.store_predicate(inst, 0);
        true
    }
}
