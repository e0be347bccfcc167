//! Atomics: lanes one after the other, in the order of their numbers.
//!
//! Device memory belongs to other workers and the host as well, so there these are the processor's
//! locked instructions, or compare-and-exchange loops around what it lacks. Shared memory is
//! touched by one worker at a time, so there they are plain ones. Where all lanes update one word
//! of device memory and the old values are not read, the lanes' values are combined first.

use crate::asm::assembler::{Label, X, at, repeated};
use crate::frame_layout::{
    A, C, D, K1, K2, LANE_RESULTS, LANE_SECONDS, LANE_VALUES, SAVED_VECTOR, Z0, Z1, Z2,
};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::memory::access::{Address, MemAccess};
use crate::memory::lane_loop::{RESULTS, Slot, Turn};
use crate::operands::{HalfBits, Value, xmm};
use crate::regalloc::allocate::parts;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{Access, AtomOp, AtomType, FloatOp, Op, Space, Width};
use simt::ir::vector::{Source, VectorInst};

/// A read-modify-write under construction.
#[derive(Clone, Copy)]
struct Update {
    op: AtomOp,
    ty: AtomType,
    /// The old values are read.
    returns: bool,
    /// In device memory.
    locked: bool,
    /// Added to the address.
    offset: i32,
    addresses: Slot,
    b: Slot,
    /// What `b` is, if it is the same for all lanes and small.
    constant: Option<i32>,
    c: Slot,
}

impl Update {
    fn wide(self) -> bool {
        self.ty.width() == Width::W64
    }

    fn is_integer(self) -> bool {
        use AtomType::{S32, S64, U32, U64};
        matches!(self.ty, U32 | S32 | U64 | S64)
    }

    /// It is one instruction that needs no register but its word's.
    fn leaves_registers(self) -> bool {
        let apart = matches!(self.addresses, Slot::Lanes(..));
        apart && !self.returns && self.constant.is_some() && self.plain().is_some()
    }

    /// The processor has it as one instruction on memory, if the old value is not read.
    fn plain(self) -> Option<Code> {
        if !self.is_integer() {
            return None;
        }
        if self.constant.is_some() {
            return Some(match (self.op, self.wide()) {
                (AtomOp::Add, false) => Code::Add_rm32_imm32,
                (AtomOp::Add, true) => Code::Add_rm64_imm32,
                (AtomOp::And, false) => Code::And_rm32_imm32,
                (AtomOp::And, true) => Code::And_rm64_imm32,
                (AtomOp::Or, false) => Code::Or_rm32_imm32,
                (AtomOp::Or, true) => Code::Or_rm64_imm32,
                (AtomOp::Xor, false) => Code::Xor_rm32_imm32,
                (AtomOp::Xor, true) => Code::Xor_rm64_imm32,
                _ => return None,
            });
        }
        Some(match (self.op, self.wide()) {
            (AtomOp::Add, false) => Code::Add_rm32_r32,
            (AtomOp::Add, true) => Code::Add_rm64_r64,
            (AtomOp::And, false) => Code::And_rm32_r32,
            (AtomOp::And, true) => Code::And_rm64_r64,
            (AtomOp::Or, false) => Code::Or_rm32_r32,
            (AtomOp::Or, true) => Code::Or_rm64_r64,
            (AtomOp::Xor, false) => Code::Xor_rm32_r32,
            (AtomOp::Xor, true) => Code::Xor_rm64_r64,
            _ => return None,
        })
    }
}

/// MXCSR as it is in native code: nearest even, no exception, subnormals as they are.
const ORDINARY: u32 = 0x1f80;
/// The same with subnormal operands and results made zero.
const FLUSHING: u32 = ORDINARY | 0x8040;

fn is_float(ty: AtomType) -> bool {
    matches!(ty, AtomType::F32 | AtomType::F32Ftz | AtomType::F64)
}

/// True if there is machine code for the operation.
fn has_form(op: AtomOp, ty: AtomType) -> bool {
    use AtomType::{S32, S64, U32, U64};
    match op {
        AtomOp::Add => matches!(ty, U32 | S32 | U64 | S64) || is_float(ty),
        AtomOp::Min | AtomOp::Max => matches!(ty, U32 | S32 | U64 | S64),
        AtomOp::Inc | AtomOp::Dec => ty == U32,
        AtomOp::And | AtomOp::Or | AtomOp::Xor | AtomOp::Exch | AtomOp::Cas => {
            matches!(ty, U32 | U64)
        }
    }
}

/// Operations on pairs of halves; true for brain floats.
fn of_halves(op: AtomOp, ty: AtomType) -> Option<bool> {
    let known = matches!(op, AtomOp::Add | AtomOp::Min | AtomOp::Max);
    match ty {
        AtomType::F16x2 if known => Some(false),
        AtomType::BF16x2 if known => Some(true),
        _ => None,
    }
}

/// What does not change the others, where the order of values does not matter.
pub(crate) fn identity(op: AtomOp, ty: AtomType) -> Option<u64> {
    use AtomType::{S32, S64, U32, U64};
    Some(match (op, ty) {
        (AtomOp::Add, U32 | S32 | U64 | S64) => 0,
        (AtomOp::Or | AtomOp::Xor, _) => 0,
        (AtomOp::And, _) => u64::MAX,
        (AtomOp::Min, U32 | U64) => u64::MAX,
        (AtomOp::Max, U32 | U64) => 0,
        (AtomOp::Min, S32) => i32::MAX as u64,
        (AtomOp::Max, S32) => u64::from(i32::MIN as u32),
        (AtomOp::Min, S64) => i64::MAX as u64,
        (AtomOp::Max, S64) => i64::MIN as u64,
        _ => return None,
    })
}

impl Compiler<'_> {
    /// Makes code for a read-modify-write; false if there is none.
    pub(crate) fn atomic(&mut self, inst: &VectorInst) -> bool {
        let Op::Atom { space, op, ty, .. } = inst.op else { return false };
        let Some(Source::Imm(offset)) = inst.src.get(1) else { return false };
        let Ok(offset) = i32::try_from(*offset as i64) else { return false };
        let (shared, ty) = match (space, ty) {
            // Whether subnormals stay depends on where the address leads. Where it does not lead to
            // device memory, the lanes' check sends the instruction aside.
            (Space::Generic, AtomType::F32) => (false, AtomType::F32Ftz),
            (Space::Global | Space::Generic, ty) => (false, ty),
            (Space::Shared, ty) => (true, ty),
            (Space::Local | Space::Param, _) => return false,
        };
        let width = ty.width();
        let wide = match inst.src[0].registers().next() {
            Some(r) => self.f.classes[r.index()].width() == Some(Width::W64),
            None => false,
        };
        let (first, count) = self.handler_range(self.block, self.index);
        let formula = matches!(inst.src[0], Source::Affine(..) | Source::HalfAffine(..));
        let total = width.bytes() as i32;
        let halves = self.isa == SimdIsa::Avx512 && of_halves(op, ty).is_some();
        if !has_form(op, ty) && !halves
            || count == 0
            || inst.uniform
            || wide == shared
            || !(formula || matches!(inst.src[0], Source::Vector(_)))
            || offset % total != 0
            || !self.has_lane_results(inst)
        {
            return false;
        }
        let site = self.layout.site(first, count) % simt::kernel::RECENT_RANGES;
        let access =
            Access { space, bytes: total as u8, signed: false, count: 1, width, volatile: false };
        let local = false;
        let mem =
            MemAccess { access, write: true, shared, local, total, offset, before: 0, wide, site };
        let address_width = if wide { Width::W64 } else { Width::W32 };
        let address = match inst.src[0] {
            Source::Vector(r) if self.isa == SimdIsa::Avx2 => Address::Lanes(self.lanes_in_file(r)),
            source if formula => Address::Formula(source),
            source => Address::Lanes(self.value(source, address_width)),
        };
        let returns = inst.dst.first().is_some_and(|d| self.weights.read[d.reg.index()]);
        self.update_lanes(inst, mem, address, (op, ty), returns);
        true
    }

    fn update_lanes(
        &mut self,
        inst: &VectorInst,
        mem: MemAccess,
        address: Address,
        (op, ty): (AtomOp, AtomType),
        returns: bool,
    ) {
        let back = self.a.label();
        let slow = self.interpreter_path(back);
        let (mem, some) = self.check_lanes(inst, mem, address, slow);
        let width = mem.access.width;
        let addresses = self.address_slots(mem, address);
        let b = self.value_slots(inst.src[2], width, LANE_VALUES);
        let c = match inst.src.get(3) {
            Some(c) if op == AtomOp::Cas => self.value_slots(*c, width, LANE_SECONDS),
            _ => b,
        };
        let locked = !mem.shared;
        let constant = match inst.src[2] {
            Source::Imm(v) if width == Width::W32 => Some(v as u32 as i32),
            Source::Imm(v) => i32::try_from(v as i64).ok(),
            _ => None,
        };
        let offset = mem.offset;
        let update = Update { op, ty, returns, locked, offset, addresses, b, constant, c };
        let done = self.a.label();
        if locked
            && !returns
            && let Some(neutral) = identity(op, ty)
        {
            self.combined(inst, update, neutral, some, done);
        }
        self.in_turn(inst, some, |this, turn| this.update(update, turn));
        self.a.bind(done);
        if returns {
            self.take_results(inst, 0, width);
        }
        self.in_eax = None;
        self.a.bind(back);
    }

    /// One lane's update. The base of shared memory is in RDX.
    fn update(&mut self, update: Update, turn: Turn) {
        let word = if update.locked {
            let address = update.addresses.of(turn, 8);
            self.a.op(Code::Mov_r64_rm64, &[D.into(), address.into()]);
            at(D, update.offset)
        } else {
            let place = match turn {
                Turn::Number(lane) if update.leaves_registers() => {
                    self.place_of_pair(update.addresses, lane)
                }
                _ => {
                    let address = update.addresses.of(turn, 4);
                    self.a.op(Code::Mov_r32_rm32, &[Register::EAX.into(), address.into()]);
                    A
                }
            };
            let offset = i64::from(update.offset);
            MemoryOperand::with_base_index_scale_displ_size(D, place, 1, offset, 8)
        };
        let bytes = update.ty.width().bytes();
        let result = RESULTS.of(turn, bytes);
        self.update_word(update, turn, word, result);
    }

    /// A register with the place of a lane's word in shared memory. Those of two lanes are loaded at
    /// once, one's to RCX and the next one's to RAX: loads are what a processor has too few of here.
    fn place_of_pair(&mut self, places: Slot, lane: usize) -> Register {
        if !lane.is_multiple_of(2) {
            return A;
        }
        self.a.op(Code::Mov_r64_rm64, &[A.into(), places.of(Turn::Number(lane), 4).into()]);
        self.a.op(Code::Mov_r32_rm32, &[Register::ECX.into(), Register::EAX.into()]);
        self.a.op(Code::Shr_rm64_imm8, &[A.into(), X::I(32)]);
        C
    }

    /// Updates a word. Locked updates may use RAX and RCX, others RCX.
    fn update_word(
        &mut self,
        update: Update,
        turn: Turn,
        word: MemoryOperand,
        result: MemoryOperand,
    ) {
        let wide = update.wide();
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let sized = |r: Register| if wide { r } else { r.full_register32() };
        let (rax, rcx) = (sized(A), sized(C));
        let load = pick(Code::Mov_r32_rm32, Code::Mov_r64_rm64);
        let store = pick(Code::Mov_rm32_r32, Code::Mov_rm64_r64);
        let bytes = update.ty.width().bytes();
        let b = update.b.of(turn, bytes);
        if !update.returns
            && let Some(code) = update.plain()
        {
            let value = match update.constant {
                Some(constant) => X::I(constant),
                None => {
                    self.a.op(load, &[rcx.into(), b.into()]);
                    rcx.into()
                }
            };
            self.a.op(code, &[word.into(), value]).set_has_lock_prefix(update.locked);
            return;
        }
        match update.op {
            AtomOp::Exch if update.locked => {
                self.a.op(load, &[rcx.into(), b.into()]);
                let exchange = pick(Code::Xchg_rm32_r32, Code::Xchg_rm64_r64);
                self.a.op(exchange, &[word.into(), rcx.into()]);
                self.a.op(store, &[result.into(), rcx.into()]);
            }
            AtomOp::Add if update.locked && update.is_integer() => {
                self.a.op(load, &[rcx.into(), b.into()]);
                let add = pick(Code::Xadd_rm32_r32, Code::Xadd_rm64_r64);
                self.a.op(add, &[word.into(), rcx.into()]).set_has_lock_prefix(true);
                self.a.op(store, &[result.into(), rcx.into()]);
            }
            AtomOp::Cas if update.locked => {
                self.a.op(load, &[rax.into(), b.into()]);
                self.a.op(load, &[rcx.into(), update.c.of(turn, bytes).into()]);
                self.compare_exchange(wide, word);
                self.a.op(store, &[result.into(), rax.into()]);
            }
            _ if update.locked => {
                let again = self.a.label();
                self.a.op(load, &[rax.into(), word.into()]);
                self.a.bind(again);
                self.a.op(load, &[rcx.into(), rax.into()]);
                self.new_value(update, b, rcx);
                self.compare_exchange(wide, word);
                self.a.jump(Code::Jne_rel32_64, again);
                self.a.op(store, &[result.into(), rax.into()]);
            }
            AtomOp::Cas => {
                let differs = self.a.label();
                let compare = pick(Code::Cmp_r32_rm32, Code::Cmp_r64_rm64);
                self.a.op(load, &[rcx.into(), word.into()]);
                self.a.op(store, &[result.into(), rcx.into()]);
                self.a.op(compare, &[rcx.into(), b.into()]);
                self.a.jump(Code::Jne_rel32_64, differs);
                self.a.op(load, &[rcx.into(), update.c.of(turn, bytes).into()]);
                self.a.op(store, &[word.into(), rcx.into()]);
                self.a.bind(differs);
            }
            _ => {
                self.a.op(load, &[rcx.into(), word.into()]);
                if update.returns {
                    self.a.op(store, &[result.into(), rcx.into()]);
                }
                self.new_value(update, b, rcx);
                self.a.op(store, &[word.into(), rcx.into()]);
            }
        }
    }

    /// Stores RCX at `word` if that is as RAX says; else it gets into RAX.
    fn compare_exchange(&mut self, wide: bool, word: MemoryOperand) {
        let (code, from) = if wide {
            (Code::Cmpxchg_rm64_r64, C)
        } else {
            (Code::Cmpxchg_rm32_r32, Register::ECX)
        };
        self.a.op(code, &[word.into(), from.into()]).set_has_lock_prefix(true);
    }

    /// Makes a pair of halves in a general register the new one, as all lanes of scratch registers.
    fn combine_halves(&mut self, op: AtomOp, brain: bool, b: MemoryOperand, value: Register) {
        let kept = at(Register::RSP, SAVED_VECTOR);
        let old = Value::One(repeated(at(Register::RSP, SAVED_VECTOR + 4)));
        self.a.op(Code::Mov_rm32_r32, &[at(Register::RSP, SAVED_VECTOR + 4).into(), value.into()]);
        for bits in [HalfBits::Low, HalfBits::High] {
            self.half_as_single(old, 0, (brain, bits), Z1);
            self.half_as_single(Value::One(repeated(b)), 0, (brain, bits), Z2);
            let op = match op {
                AtomOp::Add => FloatOp::Add,
                AtomOp::Max => FloatOp::Max,
                _ => FloatOp::Min,
            };
            self.combine_singles(op, brain);
            if bits == HalfBits::Low {
                self.a.op(Code::EVEX_Vmovd_rm32_xmm, &[kept.into(), xmm(Z0).into()]);
            }
        }
        self.a.op(Code::EVEX_Vmovd_rm32_xmm, &[value.into(), xmm(Z0).into()]);
        self.a.op(Code::Shl_rm32_imm8, &[value.into(), X::I(16)]);
        self.a.op(Code::Or_r32_rm32, &[value.into(), kept.into()]);
    }

    fn float_mode(&mut self, mxcsr: u32) {
        let mode = self.a.constant(&mxcsr.to_le_bytes());
        self.a.op(Code::VEX_Vldmxcsr_m32, &[mode.into()]);
    }

    /// Makes the old value in a register the new one.
    fn new_value(&mut self, update: Update, b: MemoryOperand, value: Register) {
        let wide = update.wide();
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let load = pick(Code::Mov_r32_rm32, Code::Mov_r64_rm64);
        let compare = pick(Code::Cmp_r32_rm32, Code::Cmp_r64_rm64);
        let signed = matches!(update.ty, AtomType::S32 | AtomType::S64);
        if let Some(brain) = of_halves(update.op, update.ty) {
            return self.combine_halves(update.op, brain, b, value);
        }
        match (update.op, update.ty) {
            (AtomOp::Add, AtomType::F32Ftz) => {
                self.float_mode(FLUSHING);
                self.new_value(Update { ty: AtomType::F32, ..update }, b, value);
                self.float_mode(ORDINARY);
            }
            (AtomOp::Add, AtomType::F32 | AtomType::F64) if self.isa == SimdIsa::Avx2 => {
                self.add_float(value, b, wide);
            }
            (AtomOp::Add, AtomType::F32) => {
                let sum = xmm(Z0);
                self.a.op(Code::EVEX_Vmovd_xmm_rm32, &[sum.into(), value.into()]);
                let add = Code::EVEX_Vaddss_xmm_k1z_xmm_xmmm32_er;
                self.a.op(add, &[sum.into(), sum.into(), b.into()]);
                let nan = self.a.constant(&simt::analysis::nan_demand::NAN.to_le_bytes());
                let test = Code::EVEX_Vcmpss_kr_k1_xmm_xmmm32_imm8_sae;
                self.a.op(test, &[K1.into(), sum.into(), sum.into(), X::I(3)]);
                let put = Code::EVEX_Vmovss_xmm_k1z_m32;
                self.a.op(put, &[sum.into(), nan.into()]).set_op_mask(K1);
                self.a.op(Code::EVEX_Vmovd_rm32_xmm, &[value.into(), sum.into()]);
            }
            (AtomOp::Add, AtomType::F64) => {
                let sum = xmm(Z0);
                self.a.op(Code::EVEX_Vmovq_xmm_rm64, &[sum.into(), value.into()]);
                let add = Code::EVEX_Vaddsd_xmm_k1z_xmm_xmmm64_er;
                self.a.op(add, &[sum.into(), sum.into(), b.into()]);
                self.a.op(Code::EVEX_Vmovq_rm64_xmm, &[value.into(), sum.into()]);
            }
            (AtomOp::Min | AtomOp::Max, _) => {
                let code = match (update.op, signed) {
                    (AtomOp::Min, true) => pick(Code::Cmovg_r32_rm32, Code::Cmovg_r64_rm64),
                    (AtomOp::Min, false) => pick(Code::Cmova_r32_rm32, Code::Cmova_r64_rm64),
                    (_, true) => pick(Code::Cmovl_r32_rm32, Code::Cmovl_r64_rm64),
                    (_, false) => pick(Code::Cmovb_r32_rm32, Code::Cmovb_r64_rm64),
                };
                self.a.op(compare, &[value.into(), b.into()]);
                self.a.op(code, &[value.into(), b.into()]);
            }
            (AtomOp::Inc, _) => {
                let below = self.a.label();
                self.a.op(compare, &[value.into(), b.into()]);
                self.a.op(Code::Lea_r32_m, &[value.into(), at(C, 1).into()]);
                self.a.jump(Code::Jb_rel32_64, below);
                self.a.op(Code::Mov_r32_imm32, &[value.into(), X::I(0)]);
                self.a.bind(below);
            }
            (AtomOp::Dec, _) => {
                // One less wraps to the largest number, which only the largest `b` allows.
                let (most, done) = (self.a.label(), self.a.label());
                self.a.op(Code::Test_rm32_r32, &[value.into(), value.into()]);
                self.a.jump(Code::Je_rel32_64, most);
                self.a.op(compare, &[value.into(), b.into()]);
                self.a.op(Code::Lea_r32_m, &[value.into(), at(C, -1).into()]);
                self.a.jump(Code::Jbe_rel32_64, done);
                self.a.bind(most);
                self.a.op(load, &[value.into(), b.into()]);
                self.a.bind(done);
            }
            (op, _) => {
                let code = match op {
                    AtomOp::Add => pick(Code::Add_r32_rm32, Code::Add_r64_rm64),
                    AtomOp::And => pick(Code::And_r32_rm32, Code::And_r64_rm64),
                    AtomOp::Or => pick(Code::Or_r32_rm32, Code::Or_r64_rm64),
                    AtomOp::Xor => pick(Code::Xor_r32_rm32, Code::Xor_r64_rm64),
                    _ => load,
                };
                self.a.op(code, &[value.into(), b.into()]);
            }
        }
    }

    /// If all lanes that run update one word, and there are some, does it at once, and goes to
    /// `done`; also if there are none.
    fn combined(
        &mut self,
        inst: &VectorInst,
        update: Update,
        neutral: u64,
        some: bool,
        done: Label,
    ) {
        let signed = matches!(update.ty, AtomType::S32 | AtomType::S64);
        let combining = Self::combining(update.op, signed, update.wide());
        let small = self.isa == SimdIsa::Avx2;
        if small && combining.is_none() {
            return;
        }
        let apart = self.a.label();
        let eax = Register::EAX;
        let Slot::Lanes(base, offset) = update.addresses else { return };
        if some {
            self.lanes_in_eax(inst);
            self.a.op(Code::Test_rm32_r32, &[eax.into(), eax.into()]);
            self.a.jump(Code::Je_rel32_64, done);
            self.a.op(Code::Tzcnt_r32_rm32, &[eax.into(), eax.into()]);
            let offset = i64::from(offset);
            let first = MemoryOperand::with_base_index_scale_displ_size(base, A, 8, offset, 8);
            self.a.op(Code::Mov_r64_rm64, &[D.into(), first.into()]);
        } else {
            self.a.op(Code::Mov_r64_rm64, &[D.into(), at(base, offset).into()]);
        }
        if small {
            self.differ_from(inst, (base, offset), some);
        } else {
            self.differ_from_rdx((base, offset), some);
        }
        self.a.jump(Code::Jne_rel32_64, apart);
        let word = at(D, update.offset);
        let result = at(Register::RSP, LANE_RESULTS);
        if let (true, Some(codes)) = (small, combining) {
            let neutral = (neutral, update.wide());
            self.combine_in_rax(inst, inst.src[2], codes, neutral, some);
            self.a.op(Code::Mov_rm64_r64, &[result.into(), A.into()]);
        } else {
            self.reduce(inst.src[2], update.op, update.ty, some);
            let store =
                if update.wide() { Code::EVEX_Vmovq_rm64_xmm } else { Code::EVEX_Vmovd_rm32_xmm };
            self.a.op(store, &[result.into(), xmm(Z0).into()]);
        }
        let all = Update { b: Slot::One(result), constant: None, ..update };
        self.update_word(all, Turn::Number(0), word, at(Register::RSP, LANE_RESULTS + 8));
        self.a.jump(Code::Jmp_rel32_64, done);
        self.a.bind(apart);
    }

    /// Clears the zero flag if some lane that runs has another address than what is in RDX, in
    /// memory at `theirs` and behind.
    fn differ_from_rdx(&mut self, (base, offset): (Register, i32), some: bool) {
        self.a.op(Code::EVEX_Vpbroadcastq_zmm_k1z_r64, &[Z0.into(), D.into()]);
        for part in 0..parts(Width::W64) {
            let mask = if some { Some(self.active(part, Width::W64)) } else { None };
            let found = if part == 0 { K2 } else { K1 };
            let differs = Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8;
            let theirs = at(base, offset + 64 * part as i32);
            let operands = [found.into(), Z0.into(), theirs.into(), X::I(4)];
            let made = self.a.op(differs, &operands);
            if let Some(k) = mask {
                made.set_op_mask(k);
            }
            if part > 0 {
                self.a.op(Code::VEX_Korw_kr_kr_kr, &[K2.into(), K2.into(), K1.into()]);
            }
        }
        self.a.op(Code::VEX_Kortestw_kr_kr, &[K2.into(), K2.into()]);
    }

    /// The values of the lanes that run, combined, in the lowest lane of Z0.
    pub(crate) fn reduce(&mut self, source: Source, op: AtomOp, ty: AtomType, some: bool) {
        let width = ty.width();
        let wide = width == Width::W64;
        let pick = |narrow: Code, full: Code| if wide { full } else { narrow };
        let signed = matches!(ty, AtomType::S32 | AtomType::S64);
        let code = match (op, signed) {
            (AtomOp::Add, _) => pick(
                Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
            ),
            (AtomOp::And, _) => pick(
                Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64,
            ),
            (AtomOp::Or, _) => pick(
                Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vporq_zmm_k1z_zmm_zmmm512b64,
            ),
            (AtomOp::Min, true) => pick(
                Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64,
            ),
            (AtomOp::Min, false) => pick(
                Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64,
            ),
            (AtomOp::Max, true) => pick(
                Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64,
            ),
            (AtomOp::Max, false) => pick(
                Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64,
            ),
            _ => pick(
                Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
                Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64,
            ),
        };
        let identity = identity(op, ty).unwrap_or(0);
        let neutral = if wide {
            self.a.constant(&identity.to_le_bytes())
        } else {
            self.a.constant(&(identity as u32).to_le_bytes())
        };
        let value = self.value(source, width);
        let start = Value::One(repeated(neutral));
        self.part_in(start, 0, width, Z0);
        for part in 0..parts(width) {
            let mask = if some { Some(self.active(part, width)) } else { None };
            let operand = self.part(value, part);
            let made = self.a.op(code, &[Z0.into(), Z0.into(), operand]);
            if let Some(k) = mask {
                made.set_op_mask(k);
            }
        }
        // Halves of what is left: 256, 128 and 64 bits, and 32 if the words have that many.
        for swap in [0x4e, 0xb1] {
            let shuffle = Code::EVEX_Vshufi64x2_zmm_k1z_zmm_zmmm512b64_imm8;
            self.a.op(shuffle, &[Z1.into(), Z0.into(), Z0.into(), X::I(swap as i8 as i32)]);
            self.a.op(code, &[Z0.into(), Z0.into(), Z1.into()]);
        }
        for swap in if wide { &[0x4e][..] } else { &[0x4e, 0xb1] } {
            let shuffle = Code::EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8;
            self.a.op(shuffle, &[Z1.into(), Z0.into(), X::I(*swap as i8 as i32)]);
            self.a.op(code, &[Z0.into(), Z0.into(), Z1.into()]);
        }
    }
}
