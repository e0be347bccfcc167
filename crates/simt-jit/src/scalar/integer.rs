//! Uniform integer instructions, in general registers.

use crate::asm::assembler::{Label, X, at};
use crate::frame_layout::{A, C, D, FILE, Field, MASK, Z0, Z1, Z2, field};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::operands::{low_byte, xmm};
use crate::regalloc::allocate::Lanes;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::Reg;
use simt::ir::op::{Convert, FloatOp, FloatType, IntOp, IntType, Op, Round, Space, Special, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};

/// A register's 64 or 32 bits.
fn sized(register: Register, wide: bool) -> Register {
    if wide { register.full_register() } else { register.full_register32() }
}

/// `mov` from a register or memory.
pub(crate) fn mov(wide: bool) -> Code {
    if wide { Code::Mov_r64_rm64 } else { Code::Mov_r32_rm32 }
}

impl Compiler<'_> {
    /// A scalar source as an operand; constants that do not fit go through `scratch`.
    pub(crate) fn scalar(&mut self, source: Source, wide: bool, scratch: Register) -> X {
        match source {
            Source::Imm(v) if !wide => X::I(v as u32 as i32),
            Source::Imm(v) => match i32::try_from(v as i64) {
                Ok(small) => X::I(small),
                Err(_) => {
                    self.a.load_constant(scratch, v);
                    scratch.full_register().into()
                }
            },
            Source::Scalar(r)
            | Source::Affine(r, _)
            | Source::HalfAffine(r, ..)
            | Source::Vector(r)
            | Source::Mask(r) => match self.assignment.scalars[r.index()] {
                Some(register) => sized(register, wide).into(),
                None => {
                    let offset = self.layout.place(r.index()).scalar.unwrap_or(0);
                    at(FILE, offset as i32).into()
                }
            },
        }
    }

    /// A scalar source in a register: `scratch`, if it is not in one.
    pub(crate) fn scalar_in(&mut self, source: Source, wide: bool, scratch: Register) -> Register {
        match self.scalar(source, wide, scratch) {
            X::R(register) => register,
            X::I(v) => {
                let value = if wide { i64::from(v) as u64 } else { u64::from(v as u32) };
                self.a.load_constant(scratch, value);
                sized(scratch, wide)
            }
            memory @ X::M(_) => {
                self.a.op(mov(wide), &[sized(scratch, wide).into(), memory]);
                sized(scratch, wide)
            }
        }
    }

    /// A copy of a scalar source in `scratch`.
    pub(crate) fn scalar_copy(
        &mut self,
        source: Source,
        wide: bool,
        scratch: Register,
    ) -> Register {
        let register = self.scalar_in(source, wide, scratch);
        let copy = sized(scratch, wide);
        if register != copy {
            self.a.op(mov(wide), &[copy.into(), register.into()]);
        }
        copy
    }

    /// A scalar source in the lowest lane of a vector register, which is given back.
    pub(crate) fn scalar_in_vector(
        &mut self,
        source: Source,
        wide: bool,
        scratch: Register,
    ) -> Register {
        let register = self.scalar_in(source, wide, C);
        let code = if wide { Code::VEX_Vmovq_xmm_rm64 } else { Code::VEX_Vmovd_xmm_rm32 };
        let code = match code {
            Code::VEX_Vmovq_xmm_rm64 => Code::EVEX_Vmovq_xmm_rm64,
            _ => Code::EVEX_Vmovd_xmm_rm32,
        };
        self.a.op(code, &[xmm(scratch).into(), register.into()]);
        scratch
    }

    /// Where result `n` of a scalar instruction is best made: its register, or scratch.
    pub(crate) fn scalar_target(&self, inst: &VectorInst, n: usize, wide: bool) -> Register {
        sized(self.assignment.scalars[inst.dst[n].reg.index()].unwrap_or(A), wide)
    }

    /// Result `n` is in `from`: puts it where it is expected, in all its forms.
    pub(crate) fn scalar_result(&mut self, inst: &VectorInst, n: usize, from: Register) {
        let r = inst.dst[n].reg.index();
        let place = self.layout.place(r);
        let wide = place.bytes == 8;
        let from = sized(from, wide);
        let assigned = self.assignment.scalars[r].map(|register| sized(register, wide));
        if let Some(register) = assigned
            && register != from
        {
            self.a.op(mov(wide), &[register.into(), from.into()]);
        }
        let both = self.f.storage[r] == StorageClass::ScalarAndVector;
        // Where the lanes have no register, instructions repeat the value from memory.
        if let Some(offset) = place.scalar
            && (assigned.is_none() || both && self.assignment.lanes[r] == Lanes::File)
        {
            let code = if wide { Code::Mov_rm64_r64 } else { Code::Mov_rm32_r32 };
            self.a.op(code, &[at(FILE, offset as i32).into(), from.into()]);
        }
        if let Lanes::Same(register) = self.assignment.lanes[r] {
            let code = if wide {
                Code::EVEX_Vpbroadcastq_zmm_k1z_r64
            } else {
                Code::EVEX_Vpbroadcastd_zmm_k1z_r32
            };
            self.a.op(code, &[register.into(), from.into()]);
        }
    }

    /// True if all results are scalars that have a form here.
    pub(crate) fn has_scalar_results(&self, inst: &VectorInst) -> bool {
        !inst.dst.is_empty()
            && inst.dst.iter().all(|d| {
                !matches!(
                    self.f.storage[d.reg.index()],
                    StorageClass::Vector | StorageClass::Mask | StorageClass::None
                ) && matches!(
                    self.f.classes[d.reg.index()].width(),
                    Some(Width::W16 | Width::W32 | Width::W64)
                )
            })
    }

    /// Makes code for an instruction whose result is one value; false if there is none.
    pub(crate) fn scalars(&mut self, inst: &VectorInst) -> bool {
        if !self.has_scalar_results(inst) {
            return false;
        }
        if !self.has_scalar_form(inst) {
            return self.one_as_lanes(inst);
        }
        let skip = self.skip_if_no_lane_runs(inst);
        match inst.op {
            Op::Mov(w) => {
                let wide = w == Width::W64;
                let from = self.scalar_in(inst.src[0], wide, A);
                self.scalar_result(inst, 0, from);
            }
            Op::Int(op, ty) => self.scalar_int(inst, op, ty),
            Op::Float(op, ty, _) => self.scalar_float(inst, op, ty == FloatType::F64),
            Op::Extend { bits, signed, to, .. } => self.scalar_extend(inst, bits, signed, to),
            Op::Convert(Convert::FromInt { from, to, .. }) => {
                self.scalar_from_int(inst, from, to == FloatType::F64);
            }
            Op::Select(w) => {
                let wide = w == Width::W64;
                let result = self.scalar_copy(inst.src[1], wide, D);
                let first = self.scalar_in(inst.src[0], wide, C);
                self.load_mask(A, inst.src[2]);
                self.a.op(Code::Test_rm32_r32, &[Register::EAX.into(), MASK.into()]);
                let code = if wide { Code::Cmovne_r64_rm64 } else { Code::Cmovne_r32_rm32 };
                self.a.op(code, &[result.into(), first.into()]);
                self.scalar_result(inst, 0, result);
            }
            Op::Special(special) => self.scalar_special(inst, special),
            Op::Pack { part, whole } => self.scalar_pack(inst, part, whole),
            Op::Unpack { part, whole } => self.scalar_unpack(inst, part, whole),
            // Native code is of kernels, whose frames start where local memory does.
            Op::FrameAddress(offset) => {
                self.a.load_constant(A, u64::from(offset));
                self.scalar_result(inst, 0, A);
            }
            Op::ToGeneric(space) => self.scalar_window(inst, space, Code::Add_r64_rm64),
            Op::FromGeneric(space) => self.scalar_window(inst, space, Code::Sub_r64_rm64),
            _ => {}
        }
        self.no_lane_ran(skip);
        true
    }

    /// Goes to the label given back if no lane runs a guarded instruction.
    pub(crate) fn skip_if_no_lane_runs(&mut self, inst: &VectorInst) -> Option<Label> {
        let guard = inst.guard?;
        let skip = self.a.label();
        self.active_lanes(guard);
        self.a.op(Code::Test_rm32_r32, &[Register::EAX.into(), Register::EAX.into()]);
        self.a.jump(Code::Je_rel32_64, skip);
        Some(skip)
    }

    /// Where that label is.
    pub(crate) fn no_lane_ran(&mut self, skip: Option<Label>) {
        let Some(skip) = skip else { return };
        self.a.bind(skip);
        // Two ways lead here.
        (self.active_for, self.in_pair, self.in_eax) = (None, None, None);
    }

    fn has_scalar_form(&self, inst: &VectorInst) -> bool {
        match inst.op {
            Op::Mov(w) | Op::Select(w) => w != Width::W128,
            // Of 16 bits the rest is not read.
            Op::Int(op, ty) if ty.width() == Width::W16 => {
                use IntOp::{Add, And, MadLo, MulLo, Neg, Not, Or, Sub, Xor};
                matches!(op, Add | Sub | MulLo | MadLo | And | Or | Xor | Not | Neg)
            }
            Op::Pack { whole, .. } | Op::Unpack { whole, .. } => whole != Width::W128,
            Op::FrameAddress(_) => true,
            Op::Int(op, ty) => match op {
                IntOp::Add
                | IntOp::Sub
                | IntOp::MulLo
                | IntOp::MadLo
                | IntOp::And
                | IntOp::Or
                | IntOp::Xor
                | IntOp::Not
                | IntOp::Neg
                | IntOp::Min
                | IntOp::Max => true,
                IntOp::Shl | IntOp::Shr | IntOp::Div | IntOp::Rem => true,
                IntOp::MulWide | IntOp::MadWide => ty.width() == Width::W32,
                IntOp::MulHi | IntOp::Popc | IntOp::Clz => true,
                _ => false,
            },
            Op::Convert(Convert::FromInt { from, to, mode }) => {
                let signed = from.signed() || from.width() == Width::W32;
                matches!(to, FloatType::F32 | FloatType::F64)
                    && matches!(from.width(), Width::W32 | Width::W64)
                    && signed
                    && mode.round == Round::Near
                    && !mode.sat
            }
            Op::Float(op, ty, mode) => {
                matches!(ty, FloatType::F32 | FloatType::F64)
                    && mode.round == Round::Near
                    && !mode.ftz
                    && !mode.sat
                    && matches!(
                        op,
                        FloatOp::Add | FloatOp::Sub | FloatOp::Mul | FloatOp::Div | FloatOp::Fma
                    )
            }
            Op::Extend { from, to, .. } => from != Width::W128 && to != Width::W128,
            Op::ToGeneric(space) | Op::FromGeneric(space) => window(space).is_some(),
            Op::Special(special) => {
                matches!(special, Special::LaneId | Special::WarpId)
                    || matches!(special, Special::Clock | Special::Clock64)
                    || in_frame(special).is_some()
                    || matches!(special, Special::Tid(0..=2))
            }
            _ => false,
        }
    }

    /// A special register's value in lane 0.
    fn scalar_special(&mut self, inst: &VectorInst, special: Special) {
        let (eax, ecx, edx) = (Register::EAX, Register::ECX, Register::EDX);
        if let Some(from) = in_frame(special) {
            let target = self.scalar_target(inst, 0, false);
            self.a.op(Code::Mov_r32_rm32, &[target.into(), field(from).into()]);
            return self.scalar_result(inst, 0, target);
        }
        if let Special::Clock | Special::Clock64 = special {
            self.a.op(Code::Rdtsc, &[]);
            self.a.op(Code::Shl_rm64_imm8, &[D.into(), X::I(32)]);
            self.a.op(Code::Or_r64_rm64, &[A.into(), D.into()]);
            return self.scalar_result(inst, 0, A);
        }
        let Special::Tid(axis) = special else {
            self.a.op(Code::Xor_r32_rm32, &[eax.into(), eax.into()]);
            return self.scalar_result(inst, 0, A);
        };
        if axis == 0 {
            return self.first_thread(inst);
        }
        self.a.op(Code::Mov_r32_rm32, &[eax.into(), field(Field::Warp).into()]);
        self.a.op(Code::Shl_rm32_imm8, &[eax.into(), X::I(5)]);
        for step in 0..=1 {
            let (small, divided) = (self.a.label(), self.a.label());
            self.a.op(Code::Mov_r32_rm32, &[ecx.into(), field(Field::Threads(step)).into()]);
            // Nearly always in blocks of one dimension.
            self.a.op(Code::Cmp_r32_rm32, &[eax.into(), ecx.into()]);
            self.a.jump(Code::Jb_rel32_64, small);
            self.divide_by_extent();
            self.a.jump(Code::Jmp_rel32_64, divided);
            self.a.bind(small);
            self.a.op(Code::Mov_r32_rm32, &[edx.into(), eax.into()]);
            self.a.op(Code::Xor_r32_rm32, &[eax.into(), eax.into()]);
            self.a.bind(divided);
        }
        self.scalar_result(inst, 0, if axis == 2 { A } else { D });
    }

    /// Lane 0's place in its row of threads.
    fn first_thread(&mut self, inst: &VectorInst) {
        let (eax, ecx, edx) = (Register::EAX, Register::ECX, Register::EDX);
        let inside = self.a.label();
        self.a.op(Code::Mov_r32_rm32, &[edx.into(), field(Field::Warp).into()]);
        self.a.op(Code::Shl_rm32_imm8, &[edx.into(), X::I(5)]);
        // Nearly always in blocks of one dimension.
        self.a.op(Code::Cmp_r32_rm32, &[edx.into(), field(Field::Threads(0)).into()]);
        self.a.jump(Code::Jb_rel32_64, inside);
        self.a.op(Code::Mov_r32_rm32, &[eax.into(), edx.into()]);
        self.a.op(Code::Mov_r32_rm32, &[ecx.into(), field(Field::Threads(0)).into()]);
        self.divide_by_extent();
        self.a.bind(inside);
        self.scalar_result(inst, 0, D);
    }

    /// Divides EAX by the extent in ECX: the quotient is in EAX then, the rest in EDX. Extents are
    /// powers of two nearly always, and everything in a warp waits for where it is.
    fn divide_by_extent(&mut self) {
        let (eax, ecx, edx) = (Register::EAX, Register::ECX, Register::EDX);
        let (other, divided) = (self.a.label(), self.a.label());
        self.a.op(Code::Lea_r32_m, &[edx.into(), at(C, -1).into()]);
        self.a.op(Code::Test_rm32_r32, &[edx.into(), ecx.into()]);
        self.a.jump(Code::Jne_rel32_64, other);
        // No extent is 0; one would come this way, where nothing can fault.
        self.a.op(Code::And_r32_rm32, &[edx.into(), eax.into()]);
        self.a.op(Code::Tzcnt_r32_rm32, &[ecx.into(), ecx.into()]);
        self.a.op(Code::Shr_rm32_CL, &[eax.into(), Register::CL.into()]);
        self.a.jump(Code::Jmp_rel32_64, divided);
        self.a.bind(other);
        self.a.op(Code::Xor_r32_rm32, &[edx.into(), edx.into()]);
        self.a.op(Code::Div_rm32, &[ecx.into()]);
        self.a.bind(divided);
    }

    /// One register of several, the lowest first.
    fn scalar_pack(&mut self, inst: &VectorInst, part: Width, whole: Width) {
        let wide = whole == Width::W64;
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let (rax, rcx) = (sized(A, wide), sized(C, wide));
        for (n, source) in inst.src.iter().enumerate().rev() {
            if part == Width::W16 {
                self.scalar_copy(*source, false, C);
                self.a.op(Code::Movzx_r32_rm16, &[Register::ECX.into(), Register::CX.into()]);
            } else {
                self.widen(*source, false, C);
            }
            if n + 1 == inst.src.len() {
                self.a.op(mov(wide), &[rax.into(), rcx.into()]);
            } else {
                self.a.op(pick(Code::Or_r32_rm32, Code::Or_r64_rm64), &[rax.into(), rcx.into()]);
            }
            if n > 0 {
                let shift = pick(Code::Shl_rm32_imm8, Code::Shl_rm64_imm8);
                self.a.op(shift, &[rax.into(), X::I(part.bits() as i32)]);
            }
        }
        self.scalar_result(inst, 0, A);
    }

    /// The reverse; of what is not asked for the upper bits of a register are left.
    fn scalar_unpack(&mut self, inst: &VectorInst, part: Width, whole: Width) {
        let wide = whole == Width::W64;
        let shift = if wide { Code::Shr_rm64_imm8 } else { Code::Shr_rm32_imm8 };
        let from = self.scalar_copy(inst.src[0], wide, C);
        for n in 0..inst.dst.len() {
            if n > 0 {
                self.a.op(shift, &[from.into(), X::I(part.bits() as i32)]);
            }
            self.scalar_result(inst, n, C);
        }
    }

    fn scalar_window(&mut self, inst: &VectorInst, space: Space, code: Code) {
        let result = self.scalar_copy(inst.src[0], true, A);
        self.a.load_constant(C, window(space).unwrap_or(0));
        self.a.op(code, &[result.into(), C.into()]);
        self.scalar_result(inst, 0, result);
    }

    pub(crate) fn scalar_extend(&mut self, inst: &VectorInst, bits: u8, signed: bool, to: Width) {
        let wide = to == Width::W64;
        let from = self.scalar_in(inst.src[0], bits == 64, C).full_register();
        let target = self.scalar_target(inst, 0, wide);
        let (code, from) = match (bits, signed, wide) {
            // The low byte of any of these registers can be named.
            (8, false, _) => (Code::Movzx_r32_rm8, low_byte(from)),
            (8, true, false) => (Code::Movsx_r32_rm8, low_byte(from)),
            (8, true, true) => (Code::Movsx_r64_rm8, low_byte(from)),
            (16, false, _) => (Code::Movzx_r32_rm16, word_of(from)),
            (16, true, false) => (Code::Movsx_r32_rm16, word_of(from)),
            (16, true, true) => (Code::Movsx_r64_rm16, word_of(from)),
            (64, _, true) => (Code::Mov_r64_rm64, from),
            (32, true, true) => (Code::Movsxd_r64_rm32, from.full_register32()),
            // Writing 32 bits clears the rest.
            _ => (Code::Mov_r32_rm32, from.full_register32()),
        };
        let first = match code {
            Code::Movsx_r64_rm8
            | Code::Movsx_r64_rm16
            | Code::Movsxd_r64_rm32
            | Code::Mov_r64_rm64 => target.full_register(),
            _ => target.full_register32(),
        };
        self.a.op(code, &[first.into(), from.into()]);
        self.scalar_result(inst, 0, target);
    }

    /// Where a result can be made step by step: in its own register, if none of the sources that
    /// are read after the first step is there.
    fn made_in(&self, inst: &VectorInst, wide: bool, later: &[Source]) -> Register {
        let target = self.scalar_target(inst, 0, wide).full_register();
        let there = |r: Reg| {
            self.assignment.scalars[r.index()].is_some_and(|s| s.full_register() == target)
        };
        if later.iter().any(|s| s.registers().any(there)) { A } else { target }
    }

    /// A sum in one instruction; false if there is none for it.
    fn scalar_sum(&mut self, inst: &VectorInst, wide: bool) -> bool {
        let own = |c: &Self, source: Source| match source {
            Source::Scalar(r) => c.assignment.scalars[r.index()].map(Register::full_register),
            _ => None,
        };
        let Some(first) = own(self, inst.src[0]) else { return false };
        let memory = match (own(self, inst.src[1]), inst.src[1]) {
            (Some(second), _) => MemoryOperand::with_base_index(first, second),
            (None, Source::Imm(v)) => {
                // Of 32 bits only the low ones count.
                let small = if wide { i32::try_from(v as i64).ok() } else { Some(v as u32 as i32) };
                let Some(small) = small else { return false };
                at(first, small)
            }
            _ => return false,
        };
        let target = sized(self.scalar_target(inst, 0, wide), wide);
        let code = if wide { Code::Lea_r64_m } else { Code::Lea_r32_m };
        self.a.op(code, &[target.into(), memory.into()]);
        self.scalar_result(inst, 0, target);
        true
    }

    /// A 32-bit source as a 64-bit number in a register.
    pub(crate) fn widen(&mut self, source: Source, signed: bool, to: Register) {
        if let Source::Imm(v) = source {
            let number = if signed { v as u32 as i32 as i64 as u64 } else { u64::from(v as u32) };
            return self.a.load_constant(to, number);
        }
        let from = self.scalar_in(source, false, to);
        if signed {
            self.a.op(Code::Movsxd_r64_rm32, &[to.into(), from.into()]);
        } else {
            self.a.op(Code::Mov_r32_rm32, &[to.full_register32().into(), from.into()]);
        }
    }

    pub(crate) fn scalar_int(&mut self, inst: &VectorInst, op: IntOp, ty: IntType) {
        let wide = ty.width() == Width::W64;
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let src = |n: usize| inst.src[n];
        match op {
            IntOp::Add if self.scalar_sum(inst, wide) => {}
            IntOp::Add | IntOp::Sub | IntOp::And | IntOp::Or | IntOp::Xor => {
                let at = self.made_in(inst, wide, &inst.src[1..]);
                let result = self.scalar_copy(src(0), wide, at);
                let second = self.scalar(src(1), wide, C);
                let code = match (op, second) {
                    (IntOp::Add, X::I(_)) => pick(Code::Add_rm32_imm32, Code::Add_rm64_imm32),
                    (IntOp::Add, _) => pick(Code::Add_r32_rm32, Code::Add_r64_rm64),
                    (IntOp::Sub, X::I(_)) => pick(Code::Sub_rm32_imm32, Code::Sub_rm64_imm32),
                    (IntOp::Sub, _) => pick(Code::Sub_r32_rm32, Code::Sub_r64_rm64),
                    (IntOp::And, X::I(_)) => pick(Code::And_rm32_imm32, Code::And_rm64_imm32),
                    (IntOp::And, _) => pick(Code::And_r32_rm32, Code::And_r64_rm64),
                    (IntOp::Or, X::I(_)) => pick(Code::Or_rm32_imm32, Code::Or_rm64_imm32),
                    (IntOp::Or, _) => pick(Code::Or_r32_rm32, Code::Or_r64_rm64),
                    (_, X::I(_)) => pick(Code::Xor_rm32_imm32, Code::Xor_rm64_imm32),
                    _ => pick(Code::Xor_r32_rm32, Code::Xor_r64_rm64),
                };
                self.a.op(code, &[result.into(), second]);
                self.scalar_result(inst, 0, result);
            }
            IntOp::MulLo | IntOp::MadLo => {
                let at = self.made_in(inst, wide, &inst.src[1..]);
                let result = self.scalar_copy(src(0), wide, at);
                let second = self.scalar_in(src(1), wide, C);
                let code = pick(Code::Imul_r32_rm32, Code::Imul_r64_rm64);
                self.a.op(code, &[result.into(), second.into()]);
                if op == IntOp::MadLo {
                    let third = self.scalar_in(src(2), wide, C);
                    let add = pick(Code::Add_r32_rm32, Code::Add_r64_rm64);
                    self.a.op(add, &[result.into(), third.into()]);
                }
                self.scalar_result(inst, 0, result);
            }
            IntOp::MulWide | IntOp::MadWide => {
                let at = self.made_in(inst, true, &inst.src[1..]);
                self.widen(src(0), ty.signed(), at);
                match src(1) {
                    Source::Imm(v) if (v as u32).is_power_of_two() && v as u32 as i32 > 0 => {
                        let by = X::I((v as u32).trailing_zeros() as i32);
                        self.a.op(Code::Shl_rm64_imm8, &[at.into(), by]);
                    }
                    factor => {
                        self.widen(factor, ty.signed(), C);
                        self.a.op(Code::Imul_r64_rm64, &[at.into(), C.into()]);
                    }
                }
                if op == IntOp::MadWide {
                    let third = self.scalar_in(src(2), true, C);
                    self.a.op(Code::Add_r64_rm64, &[at.into(), third.into()]);
                }
                self.scalar_result(inst, 0, at);
            }
            IntOp::MulHi if wide => {
                self.scalar_copy(src(0), true, A);
                let second = self.scalar_in(src(1), true, C);
                let code = if ty.signed() { Code::Imul_rm64 } else { Code::Mul_rm64 };
                self.a.op(code, &[second.into()]);
                self.scalar_result(inst, 0, D);
            }
            IntOp::MulHi => {
                self.widen(src(0), ty.signed(), A);
                self.widen(src(1), ty.signed(), C);
                self.a.op(Code::Imul_r64_rm64, &[A.into(), C.into()]);
                self.a.op(Code::Shr_rm64_imm8, &[A.into(), X::I(32)]);
                self.scalar_result(inst, 0, A);
            }
            IntOp::Popc | IntOp::Clz => {
                let from = self.scalar_in(src(0), wide, C);
                let code = match op {
                    IntOp::Popc => pick(Code::Popcnt_r32_rm32, Code::Popcnt_r64_rm64),
                    _ => pick(Code::Lzcnt_r32_rm32, Code::Lzcnt_r64_rm64),
                };
                self.a.op(code, &[sized(A, wide).into(), from.into()]);
                self.scalar_result(inst, 0, A);
            }
            IntOp::Not | IntOp::Neg => {
                let result = self.scalar_copy(src(0), wide, A);
                let code = match op {
                    IntOp::Not => pick(Code::Not_rm32, Code::Not_rm64),
                    _ => pick(Code::Neg_rm32, Code::Neg_rm64),
                };
                self.a.op(code, &[result.into()]);
                self.scalar_result(inst, 0, result);
            }
            IntOp::Min | IntOp::Max => {
                let result = self.scalar_copy(src(0), wide, A);
                let second = self.scalar_in(src(1), wide, C);
                let compare = pick(Code::Cmp_r32_rm32, Code::Cmp_r64_rm64);
                self.a.op(compare, &[result.into(), second.into()]);
                let code = match (op, ty.signed()) {
                    (IntOp::Min, true) => pick(Code::Cmovg_r32_rm32, Code::Cmovg_r64_rm64),
                    (IntOp::Min, false) => pick(Code::Cmova_r32_rm32, Code::Cmova_r64_rm64),
                    (_, true) => pick(Code::Cmovl_r32_rm32, Code::Cmovl_r64_rm64),
                    (_, false) => pick(Code::Cmovb_r32_rm32, Code::Cmovb_r64_rm64),
                };
                self.a.op(code, &[result.into(), second.into()]);
                self.scalar_result(inst, 0, result);
            }
            IntOp::Div | IntOp::Rem => self.scalar_divide(inst, op == IntOp::Rem, ty),
            IntOp::Shl | IntOp::Shr => {
                let Source::Imm(amount) = src(1) else {
                    return self.scalar_shift(inst, op, ty);
                };
                let bits = if wide { 64 } else { 32 };
                let amount = u32::try_from(amount).unwrap_or(u32::MAX);
                let signed = ty.signed() && op == IntOp::Shr;
                let at = self.made_in(inst, wide, &[]);
                let result = self.scalar_copy(src(0), wide, at);
                if amount >= bits && !signed {
                    let low = result.full_register32();
                    self.a.op(Code::Xor_r32_rm32, &[low.into(), low.into()]);
                } else {
                    let code = match (op, signed) {
                        (IntOp::Shl, _) => pick(Code::Shl_rm32_imm8, Code::Shl_rm64_imm8),
                        (_, true) => pick(Code::Sar_rm32_imm8, Code::Sar_rm64_imm8),
                        (_, false) => pick(Code::Shr_rm32_imm8, Code::Shr_rm64_imm8),
                    };
                    let amount = amount.min(bits - 1) as i32;
                    self.a.op(code, &[result.into(), X::I(amount)]);
                }
                self.scalar_result(inst, 0, result);
            }
            _ => {}
        }
    }

    /// An integer as a float, rounded to nearest; those of 32 bits without a sign are converted as
    /// numbers of 64 bits with one.
    fn scalar_from_int(&mut self, inst: &VectorInst, from: IntType, double: bool) {
        let wide = from.width() == Width::W64;
        let register = if wide || from.signed() {
            self.scalar_in(inst.src[0], wide, C)
        } else {
            self.widen(inst.src[0], false, C);
            C
        };
        // In a register that both encodings can name, and that no lanes are in.
        let small = self.isa == SimdIsa::Avx2;
        let made = xmm(if small { Register::ZMM0 } else { Z0 });
        let code = match (small, double, register.size() == 8) {
            (true, false, false) => Code::VEX_Vcvtsi2ss_xmm_xmm_rm32,
            (true, false, true) => Code::VEX_Vcvtsi2ss_xmm_xmm_rm64,
            (true, true, false) => Code::VEX_Vcvtsi2sd_xmm_xmm_rm32,
            (true, true, true) => Code::VEX_Vcvtsi2sd_xmm_xmm_rm64,
            (false, false, false) => Code::EVEX_Vcvtsi2ss_xmm_xmm_rm32_er,
            (false, false, true) => Code::EVEX_Vcvtsi2ss_xmm_xmm_rm64_er,
            (false, true, false) => Code::EVEX_Vcvtsi2sd_xmm_xmm_rm32_er,
            (false, true, true) => Code::EVEX_Vcvtsi2sd_xmm_xmm_rm64_er,
        };
        // The upper lanes of the second operand are kept: whose they were does not matter.
        self.a.op(code, &[made.into(), made.into(), register.into()]);
        let store = match (small, double) {
            (true, false) => Code::VEX_Vmovd_rm32_xmm,
            (true, true) => Code::VEX_Vmovq_rm64_xmm,
            (false, false) => Code::EVEX_Vmovd_rm32_xmm,
            (false, true) => Code::EVEX_Vmovq_rm64_xmm,
        };
        self.a.op(store, &[sized(A, double).into(), made.into()]);
        self.scalar_result(inst, 0, A);
    }

    fn scalar_float(&mut self, inst: &VectorInst, op: FloatOp, wide: bool) {
        if self.isa == SimdIsa::Avx2 {
            return self.single_float(inst, op, wide);
        }
        let first = self.scalar_in_vector(inst.src[0], wide, Z0);
        let second = self.scalar_in_vector(inst.src[1], wide, Z1);
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        if op == FloatOp::Fma {
            let third = self.scalar_in_vector(inst.src[2], wide, Z2);
            let code = pick(
                Code::EVEX_Vfmadd213ss_xmm_k1z_xmm_xmmm32_er,
                Code::EVEX_Vfmadd213sd_xmm_k1z_xmm_xmmm64_er,
            );
            self.a.op(code, &[xmm(first).into(), xmm(second).into(), xmm(third).into()]);
        } else {
            let code = match op {
                FloatOp::Add => pick(
                    Code::EVEX_Vaddss_xmm_k1z_xmm_xmmm32_er,
                    Code::EVEX_Vaddsd_xmm_k1z_xmm_xmmm64_er,
                ),
                FloatOp::Sub => pick(
                    Code::EVEX_Vsubss_xmm_k1z_xmm_xmmm32_er,
                    Code::EVEX_Vsubsd_xmm_k1z_xmm_xmmm64_er,
                ),
                FloatOp::Mul => pick(
                    Code::EVEX_Vmulss_xmm_k1z_xmm_xmmm32_er,
                    Code::EVEX_Vmulsd_xmm_k1z_xmm_xmmm64_er,
                ),
                _ => pick(
                    Code::EVEX_Vdivss_xmm_k1z_xmm_xmmm32_er,
                    Code::EVEX_Vdivsd_xmm_k1z_xmm_xmmm64_er,
                ),
            };
            self.a.op(code, &[xmm(first).into(), xmm(first).into(), xmm(second).into()]);
        }
        let code = pick(Code::EVEX_Vmovd_rm32_xmm, Code::EVEX_Vmovq_rm64_xmm);
        self.a.op(code, &[sized(A, wide).into(), xmm(first).into()]);
        if !wide {
            let number = self.a.label();
            let compare = Code::EVEX_Vucomiss_xmm_xmmm32_sae;
            self.a.op(compare, &[xmm(first).into(), xmm(first).into()]);
            self.a.jump(Code::Jnp_rel32_64, number);
            self.a.load_constant(A, u64::from(simt::analysis::nan_demand::NAN));
            self.a.bind(number);
        }
        self.scalar_result(inst, 0, A);
    }
}

/// The field that holds a special register.
fn in_frame(special: Special) -> Option<Field> {
    match special {
        Special::WarpId => Some(Field::Warp),
        Special::TotalSharedBytes => Some(Field::SharedBytes),
        Special::Ntid(axis @ 0..=2) => Some(Field::Threads(axis)),
        Special::Ctaid(axis @ 0..=2) => Some(Field::Index(axis)),
        Special::Nctaid(axis @ 0..=2) => Some(Field::Grid(axis)),
        _ => None,
    }
}

fn word_of(register: Register) -> Register {
    match register {
        Register::RAX => Register::AX,
        Register::RCX => Register::CX,
        Register::RDX => Register::DX,
        Register::RSI => Register::SI,
        Register::RDI => Register::DI,
        other => Register::R8W + (other as u32 - Register::R8 as u32),
    }
}

/// Where the generic addresses of a space start.
pub(crate) fn window(space: Space) -> Option<u64> {
    use simt::ir::vector::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
    Some(match space {
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Param => PARAM_WINDOW,
        Space::Global | Space::Generic => return None,
    })
}
