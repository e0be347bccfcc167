//! Whole-warp instructions, between regions and on the register file: lane loops in general
//! registers, and exchanges among all lanes.
//!
//! No vector register holds a value there, so all of them are scratch.

use crate::asm::assembler::{X, at};
use crate::avx2::layout::POINTERS;
use crate::avx2::slice::xmm;
use crate::frame_layout::{A, C, FILE, Field, LANE_RESULTS, LANE_VALUES, field};
use crate::function::Compiler;
use crate::memory::access::{Address, MemAccess};
use crate::memory::lane_loop::Slot;
use crate::operands::Value;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{AtomOp, Op, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};
use simt::launch_shape::HALF_LANES;

const T0: Register = Register::YMM0;
const T1: Register = Register::YMM1;
/// What does not change a reduction.
const NEUTRAL: Register = Register::YMM4;
/// Lanes of a piece that run the instruction, as a mask.
pub(super) const RUNNING: Register = Register::YMM2;
/// The lanes that run the instruction, as bits, in every lane.
const BITS: Register = Register::YMM8;

const LOAD: Code = Code::VEX_Vmovdqu_ymm_ymmm256;
const STORE: Code = Code::VEX_Vmovdqu_ymmm256_ymm;

/// The instruction that gives every lane of a width the same value.
fn broadcast(width: Width) -> Code {
    match width {
        Width::W16 => Code::VEX_Vpbroadcastw_ymm_xmmm16,
        Width::W32 => Code::VEX_Vpbroadcastd_ymm_xmmm32,
        _ => Code::VEX_Vpbroadcastq_ymm_xmmm64,
    }
}

impl Compiler<'_> {
    /// Makes code for an instruction between regions; false if there is none.
    pub(crate) fn between(&mut self, inst: &VectorInst) -> bool {
        match inst.op {
            Op::Load(_) | Op::Store(_) => self.store_last(inst) || self.each_lane(inst),
            Op::CopyToShared { bytes } => self.copy_to_shared(inst, bytes),
            Op::LoadFragment(fragment) => self.fragment(inst, fragment, false),
            Op::StoreFragment(fragment) => self.fragment(inst, fragment, true),
            Op::LoadMatrix { space, transpose, .. } => self.load_matrices(inst, space, transpose),
            Op::Breakpoint => true,
            Op::Fence => {
                self.a.op(Code::Mfence, &[]);
                true
            }
            Op::Atom { .. } => self.atomic(inst),
            Op::Vote(_) | Op::ActiveMask | Op::Redux(..) | Op::Elect | Op::Match { .. } => {
                self.votes(inst)
            }
            Op::Carry { .. } => self.carry(inst),
            Op::Shfl(..) => self.exchange_all(inst),
            Op::Multiply(product) => self.multiply_by_eights(inst, product),
            Op::Int(..) => self.divide_in_file(inst),
            _ => false,
        }
    }

    /// Makes a load or store that regions have no form for, one lane after the other.
    fn each_lane(&mut self, inst: &VectorInst) -> bool {
        let Some(mem) = self.any_plan(inst) else { return false };
        let address = match inst.src[0] {
            Source::Vector(r) => Address::Lanes(self.lanes_in_file(r)),
            source @ (Source::Affine(..) | Source::HalfAffine(..)) if !mem.local => {
                Address::Formula(source)
            }
            _ => return false,
        };
        let address = match address {
            Address::Lanes(value) if mem.local => Address::Local(value),
            other => other,
        };
        let aligned = mem.offset % mem.total == 0 && !(mem.local && mem.offset < 0);
        let fits = if mem.local { mem.wide } else { mem.wide != mem.shared };
        // Addresses must stay until the last element is there.
        let kept = mem.access.count == 1
            || inst.src[0].registers().all(|r| inst.dst.iter().all(|d| d.reg != r));
        if inst.uniform || !aligned || !fits || !kept || !self.has_lane_results(inst) {
            return false;
        }
        let back = self.a.label();
        self.narrow_lanes(inst, mem, address, back);
        self.a.bind(back);
        true
    }

    /// A register's lanes in the register file, if need be copies of its one value.
    pub(crate) fn lanes_in_file(&mut self, r: simt::ir::Reg) -> Value {
        if self.f.storage[r.index()] == StorageClass::ScalarAndVector {
            self.flush_copies(r.index());
        }
        Value::Memory(FILE, self.layout.place(r.index()).vector.unwrap_or(0) as i32)
    }

    /// A source's lanes in memory: in the register file, or on the stack at `offset`. Uses RCX.
    pub(crate) fn source_slots(&mut self, source: Source, width: Width, offset: i32) -> Slot {
        let stack = at(Register::RSP, offset);
        match source {
            Source::Imm(v) => {
                Slot::One(self.a.constant(&v.to_le_bytes()[..width.bytes().min(8) as usize]))
            }
            Source::Vector(r) if self.f.storage[r.index()] == StorageClass::Vector => {
                Slot::Lanes(FILE, self.layout.place(r.index()).vector.unwrap_or(0) as i32)
            }
            Source::Affine(r, stride) => {
                self.list_formula([r, r], stride, false, width, offset);
                Slot::Lanes(Register::RSP, offset)
            }
            Source::HalfAffine(low, high, stride) => {
                self.list_formula([low, high], stride, true, width, offset);
                Slot::Lanes(Register::RSP, offset)
            }
            other => match self.scalar(other, width == Width::W64, C) {
                X::M(memory) => Slot::One(memory),
                X::R(register) => {
                    self.a.op(Code::Mov_rm64_r64, &[stack.into(), register.full_register().into()]);
                    Slot::One(stack)
                }
                X::I(v) => Slot::One(self.a.constant(&i64::from(v).to_le_bytes())),
            },
        }
    }

    /// Lists the lanes of an affine value on the stack; of each half on its own, if there are `halves`.
    fn list_formula(
        &mut self,
        first: [simt::ir::Reg; 2],
        stride: i64,
        halves: bool,
        width: Width,
        offset: i32,
    ) {
        let bytes = width.bytes() as usize;
        let add = match width {
            Width::W16 => Code::VEX_Vpaddw_ymm_ymm_ymmm256,
            Width::W32 => Code::VEX_Vpaddd_ymm_ymm_ymmm256,
            _ => Code::VEX_Vpaddq_ymm_ymm_ymmm256,
        };
        let lanes = 32 / bytes;
        for piece in 0..bytes {
            let lane = piece * lanes;
            let number = if halves { lane % HALF_LANES } else { lane };
            if number == 0 {
                let start = Source::Scalar(first[usize::from(lane > 0)]);
                match self.scalar(start, width == Width::W64, C) {
                    X::M(memory) => {
                        self.a.op(broadcast(width), &[T0.into(), memory.into()]);
                    }
                    register => {
                        let copy = match width {
                            Width::W64 => Code::VEX_Vmovq_xmm_rm64,
                            _ => Code::VEX_Vmovd_xmm_rm32,
                        };
                        self.a.op(copy, &[xmm(T0).into(), register]);
                        self.a.op(broadcast(width), &[T0.into(), xmm(T0).into()]);
                    }
                }
            }
            let steps: Vec<u8> = (number..number + lanes)
                .flat_map(|n| stride.wrapping_mul(n as i64).to_le_bytes().into_iter().take(bytes))
                .collect();
            let steps = self.a.constant(&steps);
            self.a.op(add, &[T1.into(), T0.into(), steps.into()]);
            let to = at(Register::RSP, offset + 32 * piece as i32);
            self.a.op(STORE, &[to.into(), T1.into()]);
        }
    }

    /// [`Compiler::address_slots_at`] from the register file.
    pub(crate) fn file_address_slots(
        &mut self,
        mem: MemAccess,
        address: Address,
        slots: i32,
    ) -> Slot {
        let width = if mem.wide { Width::W64 } else { Width::W32 };
        let numbers = match address {
            Address::Formula(source) => self.source_slots(source, width, slots),
            Address::Lanes(Value::Memory(base, offset))
            | Address::Local(Value::Memory(base, offset)) => Slot::Lanes(base, offset),
            // The other places are those of values in vector registers.
            Address::Lanes(_) | Address::Local(_) => return Slot::Lanes(FILE, 0),
        };
        let Slot::Lanes(base, offset) = numbers else { return numbers };
        let local = matches!(address, Address::Local(_));
        if mem.before == 0 && !local {
            return numbers;
        }
        if local {
            self.a.op(broadcast(Width::W64), &[T0.into(), field(Field::LocalBytes).into()]);
            self.a.op(broadcast(Width::W64), &[RUNNING.into(), field(Field::Local).into()]);
        }
        for piece in 0..width.bytes() as i32 {
            let (from, to) = (at(base, offset + 32 * piece), slots + 32 * piece);
            self.a.op(LOAD, &[T1.into(), from.into()]);
            if local {
                // A lane's part is shorter than 4 GiB.
                let lanes: Vec<u8> =
                    (4 * piece..4 * piece + 4).flat_map(|n| i64::from(n).to_le_bytes()).collect();
                let lanes = self.a.constant(&lanes);
                let (add, t1) = (Code::VEX_Vpaddq_ymm_ymm_ymmm256, T1.into());
                self.a.op(add, &[t1, t1, RUNNING.into()]);
                let multiply = Code::VEX_Vpmuludq_ymm_ymm_ymmm256;
                self.a.op(multiply, &[NEUTRAL.into(), T0.into(), lanes.into()]);
                self.a.op(add, &[t1, t1, NEUTRAL.into()]);
            } else {
                let before = self.a.constant(&mem.before.to_le_bytes().repeat(8));
                let add = Code::VEX_Vpaddd_ymm_ymm_ymmm256;
                self.a.op(add, &[T1.into(), T1.into(), before.into()]);
            }
            self.a.op(STORE, &[at(Register::RSP, to).into(), T1.into()]);
        }
        Slot::Lanes(Register::RSP, slots)
    }

    /// The lanes that run the instruction, as bits in all lanes of a register. Uses RAX.
    pub(super) fn spread_bits(&mut self, inst: &VectorInst) {
        self.lanes_in_eax(inst);
        self.a.op(Code::VEX_Vmovd_xmm_rm32, &[xmm(BITS).into(), Register::EAX.into()]);
        self.a.op(broadcast(Width::W32), &[BITS.into(), xmm(BITS).into()]);
        self.in_eax = None;
    }

    /// Those of a piece's lanes that are among the bits, as a mask in `RUNNING`.
    pub(super) fn mask_of_piece(&mut self, width: Width, piece: usize) {
        let lanes = 32 / width.bytes() as usize;
        let mask: X = RUNNING.into();
        let bits: Vec<u8> = (piece * lanes..(piece + 1) * lanes)
            .flat_map(|lane| match width {
                Width::W16 => (1u16 << (lane % 16)).to_le_bytes().to_vec(),
                Width::W32 => (1u32 << lane).to_le_bytes().to_vec(),
                _ => (1u32 << lane).to_le_bytes().repeat(2),
            })
            .collect();
        let bits = self.a.constant(&bits);
        let compare = match width {
            Width::W16 => {
                let word = 2 * piece as u8;
                let order = self.a.constant(&[word, word + 1].repeat(16));
                let shuffle = Code::VEX_Vpshufb_ymm_ymm_ymmm256;
                self.a.op(shuffle, &[mask, BITS.into(), order.into()]);
                self.a.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[mask, mask, bits.into()]);
                Code::VEX_Vpcmpeqw_ymm_ymm_ymmm256
            }
            _ => {
                self.a.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[mask, BITS.into(), bits.into()]);
                match width {
                    Width::W32 => Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
                    _ => Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256,
                }
            }
        };
        self.a.op(compare, &[mask, mask, bits.into()]);
    }

    /// Gives result `n` lanes of a width: those on the stack from `offset` on, or T0's in every
    /// piece.
    pub(crate) fn put_lanes(
        &mut self,
        inst: &VectorInst,
        n: usize,
        width: Width,
        offset: Option<i32>,
    ) {
        let dest = &inst.dst[n];
        let keep = crate::avx2::support::keeps(inst, dest, self.masked);
        let start = self.layout.place(dest.reg.index()).vector.unwrap_or(0) as i32;
        if keep {
            self.spread_bits(inst);
        }
        for piece in 0..width.bytes() as i32 {
            let to = at(FILE, start + 32 * piece);
            if let Some(offset) = offset {
                let from = at(Register::RSP, offset + 32 * piece);
                self.a.op(LOAD, &[T0.into(), from.into()]);
            }
            let mut made = T0;
            if keep {
                self.mask_of_piece(width, piece as usize);
                self.a.op(LOAD, &[T1.into(), to.into()]);
                let blend = Code::VEX_Vpblendvb_ymm_ymm_ymmm256_ymm;
                self.a.op(blend, &[T1.into(), T1.into(), T0.into(), RUNNING.into()]);
                made = T1;
            }
            self.a.op(STORE, &[to.into(), made.into()]);
        }
    }

    /// Loads one element for all lanes of result `n`.
    pub(crate) fn load_into_file(
        &mut self,
        inst: &VectorInst,
        n: usize,
        width: Width,
        from: MemoryOperand,
    ) {
        self.a.op(broadcast(width), &[T0.into(), from.into()]);
        self.put_lanes(inst, n, width, None);
    }

    /// Gives the first result EAX, for all lanes.
    pub(crate) fn put_eax(&mut self, inst: &VectorInst) {
        self.a.op(Code::VEX_Vmovd_xmm_rm32, &[xmm(T0).into(), Register::EAX.into()]);
        self.a.op(broadcast(Width::W32), &[T0.into(), xmm(T0).into()]);
        self.put_lanes(inst, 0, Width::W32, None);
    }

    /// Clears the zero flag if some lane that runs has another address than what is in RDX, in
    /// memory at `theirs` and behind. Uses RAX.
    pub(crate) fn differ_from(&mut self, inst: &VectorInst, theirs: (Register, i32), some: bool) {
        if some {
            self.spread_bits(inst);
        }
        let d = Register::RDX;
        self.a.op(Code::VEX_Vmovq_xmm_rm64, &[xmm(T0).into(), d.into()]);
        self.a.op(broadcast(Width::W64), &[T0.into(), xmm(T0).into()]);
        self.a.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[T1.into(), T1.into(), T1.into()]);
        for piece in 0..8 {
            if some {
                self.mask_of_piece(Width::W64, piece);
            } else {
                let all = Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256;
                self.a.op(all, &[RUNNING.into(), RUNNING.into(), RUNNING.into()]);
            }
            let memory = at(theirs.0, theirs.1 + 32 * piece as i32);
            let same = Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256;
            self.a.op(same, &[NEUTRAL.into(), T0.into(), memory.into()]);
            let other = Code::VEX_Vpandn_ymm_ymm_ymmm256;
            self.a.op(other, &[RUNNING.into(), NEUTRAL.into(), RUNNING.into()]);
            self.a.op(Code::VEX_Vpor_ymm_ymm_ymmm256, &[T1.into(), T1.into(), RUNNING.into()]);
        }
        self.a.op(Code::VEX_Vptest_ymm_ymmm256, &[T1.into(), T1.into()]);
    }

    /// The lanes in memory that have the value in memory, in EAX. Uses R8.
    pub(crate) fn equal_in_file(
        &mut self,
        (base, offset): (Register, i32),
        other: MemoryOperand,
        width: Width,
    ) {
        let (compare, bits) = match width {
            Width::W64 => (Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256, Code::VEX_Vmovmskpd_r32_ymm),
            _ => (Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, Code::VEX_Vmovmskps_r32_ymm),
        };
        let (all, some): (X, X) = (Register::EAX.into(), POINTERS[0].full_register32().into());
        self.a.op(broadcast(width), &[T0.into(), other.into()]);
        for piece in (0..width.bytes() as i32).rev() {
            let theirs = at(base, offset + 32 * piece);
            self.a.op(compare, &[T1.into(), T0.into(), theirs.into()]);
            if piece + 1 == width.bytes() as i32 {
                self.a.op(bits, &[all, T1.into()]);
                continue;
            }
            self.a.op(bits, &[some, T1.into()]);
            self.a.op(Code::Shl_rm32_imm8, &[all, X::I(32 / width.bytes() as i32)]);
            self.a.op(Code::Or_r32_rm32, &[all, some]);
        }
    }

    /// Makes the lanes in EAX the result of each of them, on the stack.
    pub(crate) fn answer_in_file(&mut self) {
        self.a.op(Code::VEX_Vmovd_xmm_rm32, &[xmm(BITS).into(), Register::EAX.into()]);
        self.a.op(broadcast(Width::W32), &[BITS.into(), xmm(BITS).into()]);
        for piece in 0..4 {
            self.mask_of_piece(Width::W32, piece);
            let to = at(Register::RSP, LANE_RESULTS + 32 * piece as i32);
            let store = Code::VEX_Vpmaskmovd_m256_ymm_ymm;
            self.a.op(store, &[to.into(), RUNNING.into(), BITS.into()]);
        }
    }

    /// The instruction that combines two pieces; `None` if the processor has none.
    pub(crate) fn combining(op: AtomOp, signed: bool, wide: bool) -> Option<[Code; 2]> {
        Some(match (op, signed, wide) {
            (AtomOp::Add, _, false) => {
                [Code::VEX_Vpaddd_ymm_ymm_ymmm256, Code::VEX_Vpaddd_xmm_xmm_xmmm128]
            }
            (AtomOp::Add, _, true) => {
                [Code::VEX_Vpaddq_ymm_ymm_ymmm256, Code::VEX_Vpaddq_xmm_xmm_xmmm128]
            }
            (AtomOp::And, ..) => [Code::VEX_Vpand_ymm_ymm_ymmm256, Code::VEX_Vpand_xmm_xmm_xmmm128],
            (AtomOp::Or, ..) => [Code::VEX_Vpor_ymm_ymm_ymmm256, Code::VEX_Vpor_xmm_xmm_xmmm128],
            (AtomOp::Xor, ..) => [Code::VEX_Vpxor_ymm_ymm_ymmm256, Code::VEX_Vpxor_xmm_xmm_xmmm128],
            (AtomOp::Min, true, false) => {
                [Code::VEX_Vpminsd_ymm_ymm_ymmm256, Code::VEX_Vpminsd_xmm_xmm_xmmm128]
            }
            (AtomOp::Min, false, false) => {
                [Code::VEX_Vpminud_ymm_ymm_ymmm256, Code::VEX_Vpminud_xmm_xmm_xmmm128]
            }
            (AtomOp::Max, true, false) => {
                [Code::VEX_Vpmaxsd_ymm_ymm_ymmm256, Code::VEX_Vpmaxsd_xmm_xmm_xmmm128]
            }
            (AtomOp::Max, false, false) => {
                [Code::VEX_Vpmaxud_ymm_ymm_ymmm256, Code::VEX_Vpmaxud_xmm_xmm_xmmm128]
            }
            _ => return None,
        })
    }

    /// The values of the lanes that run an instruction, combined, in RAX; `neutral` stands for the
    /// others. Keeps RDX.
    pub(crate) fn combine_in_rax(
        &mut self,
        inst: &VectorInst,
        source: Source,
        [combine, halves]: [Code; 2],
        (neutral, wide): (u64, bool),
        some: bool,
    ) {
        let width = if wide { Width::W64 } else { Width::W32 };
        if some {
            self.spread_bits(inst);
        }
        let values = self.source_slots(source, width, LANE_VALUES);
        let neutral = self.a.constant(&neutral.to_le_bytes()[..width.bytes() as usize]);
        self.a.op(broadcast(width), &[NEUTRAL.into(), neutral.into()]);
        self.a.op(LOAD, &[T0.into(), NEUTRAL.into()]);
        for piece in 0..width.bytes() as i32 {
            match values {
                Slot::One(memory) => self.a.op(broadcast(width), &[T1.into(), memory.into()]),
                Slot::Lanes(base, offset) => {
                    self.a.op(LOAD, &[T1.into(), at(base, offset + 32 * piece).into()])
                }
            };
            if some {
                self.mask_of_piece(width, piece as usize);
                let blend = Code::VEX_Vpblendvb_ymm_ymm_ymmm256_ymm;
                self.a.op(blend, &[T1.into(), NEUTRAL.into(), T1.into(), RUNNING.into()]);
            }
            self.a.op(combine, &[T0.into(), T0.into(), T1.into()]);
        }
        let (low, other): (X, X) = (xmm(T0).into(), xmm(T1).into());
        self.a.op(Code::VEX_Vextracti128_xmmm128_ymm_imm8, &[other, T0.into(), X::I(1)]);
        self.a.op(halves, &[low, low, other]);
        for swap in if wide { &[0x4e][..] } else { &[0x4e, 0xb1] } {
            let swap = X::I(i32::from(*swap as u8 as i8));
            self.a.op(Code::VEX_Vpshufd_xmm_xmmm128_imm8, &[other, low, swap]);
            self.a.op(halves, &[low, low, other]);
        }
        let (store, to) = match wide {
            true => (Code::VEX_Vmovq_rm64_xmm, A),
            false => (Code::VEX_Vmovd_rm32_xmm, Register::EAX),
        };
        self.a.op(store, &[to.into(), low]);
    }

    /// The sum of a float in a general register and one in memory, in that register.
    pub(crate) fn add_float(&mut self, value: Register, b: MemoryOperand, double: bool) {
        let [sum, nan]: [X; 2] = [Register::XMM0.into(), Register::XMM1.into()];
        if double {
            self.a.op(Code::VEX_Vmovq_xmm_rm64, &[sum, value.into()]);
            self.a.op(Code::VEX_Vaddsd_xmm_xmm_xmmm64, &[sum, sum, b.into()]);
            self.a.op(Code::VEX_Vmovq_rm64_xmm, &[value.into(), sum]);
            return;
        }
        let canonical = self.a.constant(&simt::analysis::nan_demand::NAN.to_le_bytes().repeat(4));
        self.a.op(Code::VEX_Vmovd_xmm_rm32, &[sum, value.into()]);
        self.a.op(Code::VEX_Vaddss_xmm_xmm_xmmm32, &[sum, sum, b.into()]);
        self.a.op(Code::VEX_Vcmpss_xmm_xmm_xmmm32_imm8, &[nan, sum, sum, X::I(3)]);
        let blend = Code::VEX_Vblendvps_xmm_xmm_xmmm128_xmm;
        self.a.op(blend, &[sum, sum, canonical.into(), nan]);
        self.a.op(Code::VEX_Vmovd_rm32_xmm, &[value.into(), sum]);
    }
}
