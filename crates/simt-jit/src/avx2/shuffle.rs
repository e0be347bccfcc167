//! `shfl`. Shuffles of a full warp by constants are members of regions: lanes of other slices come
//! from the register file, so nothing in the region may write the source. Other shuffles stand
//! between regions.

use crate::asm::assembler::{X, at};
use crate::avx2::layout::{SLICE_LANES, SLICES};
use crate::avx2::slice::Slice;
use crate::avx512::shuffle::{lanes_read, numbers};
use crate::frame_layout::{FILE, LANE_RESULTS, LANE_SECONDS, LANE_VALUES};
use crate::function::Compiler;
use crate::memory::lane_loop::Slot;
use iced_x86::{Code, Register};
use simt::ir::Reg;
use simt::ir::op::{Op, ShflMode, Width};
use simt::ir::vector::{Source, StorageClass, VectorInst};

/// The register whose lanes a shuffle exchanges.
pub(crate) fn exchanged(inst: &VectorInst) -> Option<Reg> {
    match (&inst.op, inst.src.first()) {
        (Op::Shfl(..), Some(Source::Vector(r))) => Some(*r),
        _ => None,
    }
}

impl Compiler<'_> {
    /// True if there is a form for a shuffle.
    pub(crate) fn exchanges(&self, inst: &VectorInst) -> bool {
        // With lanes elsewhere it may have to wait for them.
        if self.masked || inst.guard.is_some() || inst.uniform {
            return false;
        }
        let constant = |n: usize| matches!(inst.src.get(n), Some(Source::Imm(_)));
        let storage = |r: Reg| self.f.storage[r.index()];
        let results = inst.dst.iter().enumerate().all(|(n, d)| {
            storage(d.reg) == if n == 0 { StorageClass::Vector } else { StorageClass::Mask }
        });
        let source = exchanged(inst).is_some_and(|r| {
            storage(r) == StorageClass::Vector && inst.dst.iter().all(|d| d.reg != r)
        });
        source && results && !inst.dst.is_empty() && constant(1) && constant(2)
    }
}

impl Compiler<'_> {
    /// Makes a shuffle between regions; false if there is no form.
    pub(crate) fn exchange_all(&mut self, inst: &VectorInst) -> bool {
        let Op::Shfl(mode, predicate) = inst.op else { return false };
        let (Some(r), Source::Imm(c)) = (exchanged(inst), inst.src[2]) else { return false };
        let all = !self.masked && inst.guard.is_none();
        let members = match inst.src[3] {
            Source::Imm(members) => members as u32,
            _ if all => u32::MAX,
            _ => return false,
        };
        let lanes =
            self.f.storage[r.index()] == StorageClass::Vector && self.has_lane_results_of(inst);
        if inst.uniform || !lanes {
            return false;
        }
        let back = self.a.label();
        if !all {
            self.all_here(inst, members, back);
        }
        let start = self.layout.place(r.index()).vector.unwrap_or(0) as i32;
        let constant = match inst.src[1] {
            Source::Imm(b) => Some(lanes_read(mode, b as u32, c as u32)),
            _ => None,
        };
        let given = match constant {
            Some(_) => Slot::Lanes(FILE, 0),
            None => self.source_slots(inst.src[1], Width::W32, LANE_VALUES),
        };
        for slice in 0..SLICES {
            let first = slice * SLICE_LANES;
            match &constant {
                Some((from, _)) => {
                    let from = numbers(from[first..first + SLICE_LANES].iter().copied());
                    let from = self.a.constant(&from);
                    self.a.op(LOAD, &[FROM.into(), from.into()]);
                }
                None => self.lanes_to_read_of(mode, given, slice, c as u32),
            }
            self.pick_lanes(start);
            let to = at(Register::RSP, LANE_RESULTS + 32 * slice as i32);
            self.a.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[to.into(), PICKED.into()]);
        }
        self.put_lanes(inst, 0, Width::W32, Some(LANE_RESULTS));
        if predicate {
            let eax = Register::EAX.into();
            match constant {
                Some((_, inside)) => {
                    self.a.op(Code::Mov_r32_imm32, &[eax, X::I(inside as i32)]);
                }
                None => {
                    let outside = at(Register::RSP, LANE_SECONDS);
                    self.a.op(Code::Mov_r32_rm32, &[eax, outside.into()]);
                    self.a.op(Code::Not_rm32, &[eax]);
                }
            }
            self.store_predicate(inst, 1);
        }
        self.join_ways(inst, back);
        true
    }

    /// The first result is lanes, the second a predicate.
    fn has_lane_results_of(&self, inst: &VectorInst) -> bool {
        let storage = |n: usize| inst.dst.get(n).map(|d| self.f.storage[d.reg.index()]);
        storage(0) == Some(StorageClass::Vector)
            && matches!(storage(1), None | Some(StorageClass::Mask))
    }

    /// The numbers of the lanes that a slice's lanes read, by lane arguments; a bit for each that
    /// is outside of its region goes to the stack.
    fn lanes_to_read_of(&mut self, mode: ShflMode, given: Slot, slice: usize, c: u32) {
        let (clamp, region) = (c & 31, c >> 8 & 31);
        let lanes = || (0..SLICE_LANES as u32).map(|n| n + (SLICE_LANES * slice) as u32);
        let mut list = |of: &dyn Fn(u32) -> u32| self.a.constant(&numbers(lanes().map(of)));
        let own = list(&|lane| lane);
        let most = list(&|lane| (lane & region) | (clamp & !region));
        let free = list(&|_| if mode == ShflMode::Idx { 31 & !region } else { 31 });
        let fixed = list(&|lane| lane & region);
        let [from, other]: [X; 2] = [FROM.into(), OTHER.into()];
        match given {
            Slot::One(memory) => {
                self.a.op(Code::VEX_Vpbroadcastd_ymm_xmmm32, &[from, memory.into()])
            }
            Slot::Lanes(base, offset) => {
                self.a.op(LOAD, &[from, at(base, offset + 32 * slice as i32).into()])
            }
        };
        self.a.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[from, from, free.into()]);
        let greater = Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256;
        match mode {
            ShflMode::Up => {
                self.a.op(LOAD, &[other, own.into()]);
                self.a.op(Code::VEX_Vpsubd_ymm_ymm_ymmm256, &[from, other, from]);
                self.a.op(LOAD, &[other, most.into()]);
                self.a.op(greater, &[other, other, from]);
            }
            _ => {
                let (code, with) = match mode {
                    ShflMode::Down => (Code::VEX_Vpaddd_ymm_ymm_ymmm256, own),
                    ShflMode::Bfly => (Code::VEX_Vpxor_ymm_ymm_ymmm256, own),
                    _ => (Code::VEX_Vpor_ymm_ymm_ymmm256, fixed),
                };
                self.a.op(code, &[from, from, with.into()]);
                self.a.op(greater, &[other, from, most.into()]);
            }
        }
        let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
        self.a.op(blend, &[from, from, own.into(), other]);
        self.a.op(Code::VEX_Vmovmskps_r32_ymm, &[Register::EAX.into(), other]);
        self.in_eax = None;
        let outside = at(Register::RSP, LANE_SECONDS + slice as i32);
        self.a.op(Code::Mov_rm8_r8, &[outside.into(), Register::AL.into()]);
    }

    /// The lanes of a register that lies at an offset in the register file, by the numbers in
    /// `FROM`.
    fn pick_lanes(&mut self, start: i32) {
        let permute = Code::VEX_Vpermd_ymm_ymm_ymmm256;
        let blend = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
        // The bits of a lane's number that say which slice it is in, as signs.
        let (shift, [odd, upper]) = (Code::VEX_Vpslld_ymm_ymm_imm8, [OTHER, Register::YMM4]);
        self.a.op(shift, &[odd.into(), FROM.into(), X::I(28)]);
        self.a.op(shift, &[upper.into(), FROM.into(), X::I(27)]);
        for (half, to) in [(0, PICKED), (1, Register::YMM5)] {
            let slice = |n: i32| at(FILE, start + 64 * half + 32 * n);
            let second = Register::YMM3;
            self.a.op(permute, &[to.into(), FROM.into(), slice(0).into()]);
            self.a.op(permute, &[second.into(), FROM.into(), slice(1).into()]);
            self.a.op(blend, &[to.into(), to.into(), second.into(), odd.into()]);
        }
        let halves = [PICKED.into(), PICKED.into(), Register::YMM5.into(), upper.into()];
        self.a.op(blend, &halves);
    }
}

/// Registers of shuffles between regions.
const FROM: Register = Register::YMM0;
const OTHER: Register = Register::YMM1;
const PICKED: Register = Register::YMM2;

const LOAD: Code = Code::VEX_Vmovdqu_ymm_ymmm256;

impl Slice<'_, '_> {
    /// Makes a shuffle.
    pub(crate) fn exchange(&mut self, inst: &VectorInst) {
        let (Op::Shfl(mode, predicate), Some(r), Source::Imm(b), Source::Imm(c)) =
            (&inst.op, exchanged(inst), inst.src[1], inst.src[2])
        else {
            return self.unsupported();
        };
        let (from, inside) = lanes_read(*mode, b as u32, c as u32);
        let first = self.number * SLICE_LANES;
        let from = &from[first..first + SLICE_LANES];
        let start = self.c.layout.place(r.index()).vector.unwrap_or(0) as i32;
        let to = self.temp();
        // Lanes of two slices may have been stored just before, apart: such a load would wait.
        let whole = (from[0] as usize).is_multiple_of(SLICE_LANES);
        if whole && from.windows(2).all(|pair| pair[1] == pair[0] + 1) {
            let memory = at(FILE, start + 4 * from[0] as i32);
            self.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[to.into(), memory.into()]);
        } else {
            let lanes: Vec<u8> = from.iter().flat_map(|n| (n % 8).to_le_bytes()).collect();
            let lanes = self.c.a.constant(&lanes);
            let lanes = self.copied(lanes.into());
            let mut none_yet = true;
            for slice in 0..4u32 {
                let here = |n: &u32| n / SLICE_LANES as u32 == slice;
                let bits = from.iter().rev().fold(0, |bits, n| bits << 1 | i32::from(here(n)));
                if bits == 0 {
                    continue;
                }
                let memory = at(FILE, start + 32 * slice as i32);
                let permute = Code::VEX_Vpermd_ymm_ymm_ymmm256;
                if none_yet {
                    self.op(permute, &[to.into(), lanes.into(), memory.into()]);
                    none_yet = false;
                    continue;
                }
                let other = self.temp();
                self.op(permute, &[other.into(), lanes.into(), memory.into()]);
                let blend = Code::VEX_Vpblendd_ymm_ymm_ymmm256_imm8;
                let bits = X::I(i32::from(bits as u8 as i8));
                self.op(blend, &[to.into(), to.into(), other.into(), bits]);
                self.free(other);
            }
            self.free(lanes);
        }
        self.put(inst, 0, 0, to);
        if *predicate && inst.dst.get(1).is_some_and(|d| self.is_read_later(d.reg)) {
            let made = self.known_mask((inside >> first) as u8);
            self.put_predicate(inst, 1, made);
        }
    }
}
