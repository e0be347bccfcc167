//! Local register allocation for a slice of a region: loads on first use, evicts the furthest next
//! use (Belady), spills to the register file or the stack.
//!
//! A value is loaded when it is first read, if it is read again or an instruction wants it in a
//! register, and stored when its register is needed for something else or the slice ends; what
//! is dead is not stored. Values that all slices share stay where they are.

use crate::asm::assembler::{X, at};
use crate::avx2::layout::{SLICE_LANES, SLICES, predicate_slot, spill_slot};
use crate::avx2::partition::{Member, VectorRegion};
use crate::avx2::shuffle::exchanged;
use crate::avx2::{schedule, support};
use crate::frame_layout::{FILE, MASK};
use crate::function::Compiler;
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::{Round, Width};
use simt::ir::vector::{Dest, Source, StorageClass, VectorInst};
use simt::ir::{Guard, Reg};

/// Vector registers of the processor.
const REGISTERS: usize = 16;
/// Members from which on slices of which no lane runs are passed. Fewer are sooner made than a
/// jump is mended that the processor guessed wrong.
const PASSED_MIN: usize = 8;

/// What a machine register can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// The slice's lanes of a register, or the lower or upper ones of 64 bits.
    Lanes(Reg, usize),
    /// A predicate: all bits of a lane's 32.
    Predicate(Reg),
    /// Lanes that run an instruction with this guard, in the same form.
    Active(Option<(Reg, bool)>),
    /// A scalar's value in every lane.
    Splat(Reg),
    /// The lanes that run, as bits, in every lane.
    Bits,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    key: Option<Key>,
    /// The register file does not have it yet.
    dirty: bool,
    /// The instruction under construction uses it.
    pinned: bool,
    /// It uses it for more than one piece of its result.
    kept: bool,
    /// It is a result of the instruction under construction.
    written: bool,
}

/// A slice of a region under construction.
pub(crate) struct Slice<'c, 'a> {
    pub(crate) c: &'c mut Compiler<'a>,
    region: &'c VectorRegion,
    slots: [Slot; REGISTERS],
    /// Its number.
    pub(crate) number: usize,
    /// The number of the member under construction.
    position: usize,
    /// How the thread rounds.
    pub(crate) rounding: Round,
    /// Slices of which no lane runs are passed.
    passes: bool,
    /// The instruction is on one value, which all lanes have.
    uniform_as_vector: bool,
    /// Masks of the pieces of a comparison under construction.
    pub(crate) compared: [Register; 2],
}

/// Machine registers that a slice's lanes of a width take.
pub(crate) fn pieces(width: Width) -> usize {
    match width {
        Width::W16 | Width::W32 => 1,
        Width::W64 | Width::W128 => 2,
    }
}

/// The low half of a vector register.
pub(crate) fn xmm(register: Register) -> Register {
    Register::XMM0 + (register as u32 - Register::YMM0 as u32)
}

fn ymm(number: usize) -> Register {
    Register::YMM0 + number as u32
}

fn number_of(register: Register) -> usize {
    register as usize - Register::YMM0 as usize
}

impl<'c, 'a> Slice<'c, 'a> {
    pub(crate) fn new(c: &'c mut Compiler<'a>, region: &'c VectorRegion) -> Self {
        let slots = [Slot::default(); REGISTERS];
        let scattered =
            |m: &Member| m.access.is_some_and(|(_, address_mode)| !address_mode.is_formula());
        let long = region.members.len() >= PASSED_MIN || region.members.iter().any(scattered);
        let passes = c.masked && long;
        Self {
            c,
            region,
            slots,
            number: 0,
            position: 0,
            rounding: Round::Near,
            passes,
            uniform_as_vector: false,
            compared: [Register::None; 2],
        }
    }

    /// Makes the code of an instruction on one value, the only member.
    pub(super) fn make_one(mut self, inst: &VectorInst) {
        self.uniform_as_vector = true;
        if let Some(round) = schedule::rounding(inst) {
            self.round(round);
        }
        self.lanes(inst);
        self.round(Round::Near);
    }

    /// Makes the code of all slices.
    pub(crate) fn make_all(mut self) {
        let (f, block) = (self.c.f, self.c.block);
        for number in 0..SLICES {
            self.number = number;
            let none = self.c.a.label();
            if self.passes {
                let lanes = (0xff << (SLICE_LANES * number)) as u32 as i32;
                self.op(Code::Test_rm32_imm32, &[MASK.into(), X::I(lanes)]);
                self.c.a.jump(Code::Je_rel32_64, none);
            }
            for (position, member) in self.region.members.iter().enumerate() {
                self.position = position;
                let inst = &f.blocks[block].insts[member.index];
                if let Some(round) = schedule::rounding(inst) {
                    self.round(round);
                }
                // What a shuffle reads of other slices has been seen to before.
                if exchanged(inst).is_none() {
                    let exposed: Vec<Reg> =
                        simt::analysis::nan_demand::exposed(&self.c.nan_deferred, inst).collect();
                    exposed.into_iter().for_each(|r| self.canonicalise(r));
                }
                match member.access {
                    Some((mem, address_mode)) => self.transfer(inst, mem, address_mode),
                    None => self.lanes(inst),
                }
                self.slots
                    .iter_mut()
                    .for_each(|s| (s.pinned, s.kept, s.written) = (false, false, false));
            }
            self.end();
            self.c.a.bind(none);
        }
    }

    /// Stores what is live behind the region, and keeps only what all slices share: where
    /// none is passed.
    fn end(&mut self) {
        self.round(Round::Near);
        self.position = self.region.members.len();
        for n in 0..REGISTERS {
            if self.passes || !matches!(self.slots[n].key, Some(Key::Splat(_) | Key::Bits)) {
                self.release(n);
            }
        }
    }

    pub(crate) fn op(&mut self, code: Code, operands: &[X]) {
        self.c.a.op(code, operands);
    }

    /// There is no such form: the function stays interpreted.
    pub(crate) fn unsupported(&mut self) {
        self.c.a.op(Code::INVALID, &[]);
    }

    /// 32 bytes of a constant of a width.
    pub(crate) fn constant(&mut self, value: u64, width: Width) -> MemoryOperand {
        let bytes = width.bytes().min(8) as usize;
        self.c.a.constant(&value.to_le_bytes()[..bytes].repeat(32 / bytes))
    }

    /// Where a piece of a register is that is in no machine register: in the register file, or on the
    /// stack if it is not needed outside of the region.
    fn in_memory(&self, r: Reg, width: Width, piece: usize) -> MemoryOperand {
        if let Some(slot) = self.region.inner.get(&r) {
            return spill_slot(slot + piece);
        }
        let start = self.c.layout.place(r.index()).vector.unwrap_or(0) as i32;
        let slice = SLICE_LANES as i32 * width.bytes() as i32;
        at(FILE, start + self.number as i32 * slice + 32 * piece as i32)
    }

    fn width_of(&self, r: Reg) -> Width {
        self.c.f.classes[r.index()].width().unwrap_or(Width::W32)
    }

    fn find(&self, key: Key) -> Option<usize> {
        self.slots.iter().position(|s| s.key == Some(key))
    }

    /// The next position from `from` on at which what a register holds is read, counted on into
    /// the slices to come; `None` if it is not.
    fn next_use(&self, key: Key, from: usize) -> Option<usize> {
        let count = self.region.members.len();
        match key {
            Key::Lanes(r, _) | Key::Predicate(r) => self.region.next_read(r, from),
            // Made anew if need be.
            Key::Active(_) | Key::Bits => Some(count),
            Key::Splat(r) => match self.region.next_read(r, from) {
                Some(next) if next < count => Some(next),
                _ if self.number + 1 == SLICES || self.passes => None,
                _ => self.region.first_mention(r).map(|first| count + first),
            },
        }
    }

    /// Empties a register; what is still read and is nowhere else is stored.
    fn release(&mut self, n: usize) {
        let slot = std::mem::take(&mut self.slots[n]);
        let Some(key) = slot.key else { return };
        // The instruction under construction may not have read it yet.
        if !slot.dirty || self.next_use(key, self.position + usize::from(slot.written)).is_none() {
            return;
        }
        match key {
            Key::Lanes(r, piece) => {
                let width = self.width_of(r);
                let to = self.in_memory(r, width, piece);
                if width == Width::W16 {
                    self.op(Code::VEX_Vmovdqu_xmmm128_xmm, &[to.into(), xmm(ymm(n)).into()]);
                } else {
                    self.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[to.into(), ymm(n).into()]);
                }
            }
            Key::Predicate(r) => {
                let to = self.predicate_in_stack(r);
                self.op(Code::VEX_Vmovdqu_ymmm256_ymm, &[to.into(), ymm(n).into()]);
            }
            Key::Active(_) | Key::Splat(_) | Key::Bits => {}
        }
    }

    fn predicate_in_stack(&self, r: Reg) -> MemoryOperand {
        let number = self.region.predicates.iter().position(|p| *p == r).unwrap_or(0);
        at(Register::RSP, predicate_slot(number) + 32 * self.number as i32)
    }

    /// A register for what the instruction under construction makes.
    pub(crate) fn temp(&mut self) -> Register {
        let free = self.slots.iter().position(|s| s.key.is_none() && !s.pinned);
        let n = free.unwrap_or_else(|| {
            let candidates = (0..REGISTERS).filter(|n| !self.slots[*n].pinned);
            let furthest = candidates.max_by_key(|n| {
                let Slot { key, written, .. } = self.slots[*n];
                let from = self.position + usize::from(written);
                key.and_then(|key| self.next_use(key, from)).unwrap_or(usize::MAX)
            });
            // No instruction needs them all; one that did would stay interpreted.
            let Some(n) = furthest else {
                self.unsupported();
                return 0;
            };
            self.release(n);
            n
        });
        self.slots[n] = Slot { pinned: true, ..Slot::default() };
        ymm(n)
    }

    fn pin(&mut self, n: usize) -> Register {
        self.slots[n].pinned = true;
        ymm(n)
    }

    /// A register is scratch of the instruction under construction.
    pub(crate) fn is_scratch(&self, register: Register) -> bool {
        let slot = self.slots[number_of(register)];
        slot.key.is_none() && slot.pinned
    }

    /// A register of zeros.
    pub(crate) fn zero(&mut self) -> Register {
        let to = self.temp();
        self.op(Code::VEX_Vpxor_ymm_ymm_ymmm256, &[to.into(), to.into(), to.into()]);
        to
    }

    /// A register gives up its scratch early.
    pub(crate) fn free(&mut self, register: Register) {
        let slot = &mut self.slots[number_of(register)];
        slot.kept = false;
        if slot.key.is_none() {
            slot.pinned = false;
        }
    }

    /// The instruction under construction uses a register for more than one piece.
    pub(crate) fn keep(&mut self, register: Register) {
        self.slots[number_of(register)].kept = true;
    }

    /// The instruction under construction is done with a piece: the next one needs the registers of its
    /// operands.
    pub(crate) fn unpin_operands(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.key.is_some() && !slot.kept) {
            slot.pinned = false;
        }
    }

    /// The instruction under construction is done with a register: its own scratch, or a value that stays known.
    pub(crate) fn unpin(&mut self, register: Register) {
        self.slots[number_of(register)].pinned = false;
    }

    fn hold(&mut self, register: Register, key: Key, dirty: bool) {
        if let Some(old) = self.find(key) {
            self.slots[old].key = None;
            self.slots[old].dirty = false;
        }
        self.slots[number_of(register)] =
            Slot { key: Some(key), dirty, pinned: true, kept: false, written: false };
    }

    fn hold_result(&mut self, register: Register, key: Key) {
        self.hold(register, key, true);
        self.slots[number_of(register)].written = true;
    }

    /// A copy of an operand in a register of its own.
    pub(crate) fn copied(&mut self, operand: X) -> Register {
        let to = self.temp();
        self.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[to.into(), operand]);
        to
    }

    /// A piece of a source, maybe in memory.
    pub(crate) fn piece(&mut self, source: Source, width: Width, piece: usize) -> X {
        let r = match source {
            Source::Imm(v) => return self.constant(v, width).into(),
            Source::Vector(r)
            | Source::Scalar(r)
            | Source::Affine(r, _)
            | Source::HalfAffine(r, ..)
            | Source::Mask(r) => r,
        };
        if self.c.f.storage[r.index()] != StorageClass::Vector {
            return self.splat(r).into();
        }
        let key = Key::Lanes(r, piece);
        if let Some(n) = self.find(key) {
            return self.pin(n).into();
        }
        let memory = self.in_memory(r, width, piece);
        let again = self
            .next_use(key, self.position + 1)
            .is_some_and(|next| next < self.region.members.len());
        if !again && width != Width::W16 {
            return memory.into();
        }
        let to = self.temp();
        if width == Width::W16 {
            self.op(Code::VEX_Vmovdqu_xmm_xmmm128, &[xmm(to).into(), memory.into()]);
        } else {
            self.op(Code::VEX_Vmovdqu_ymm_ymmm256, &[to.into(), memory.into()]);
        }
        self.hold(to, key, false);
        to.into()
    }

    /// A piece of a source in a register that must not be written.
    pub(crate) fn piece_in(&mut self, source: Source, width: Width, piece: usize) -> Register {
        match self.piece(source, width, piece) {
            X::R(register) => register,
            memory => self.copied(memory),
        }
    }

    /// The machine register of a source that is dead behind the instruction.
    fn spent(&self, inst: &VectorInst, source: Source, piece: usize) -> Option<usize> {
        let Source::Vector(r) = source else { return None };
        let key = Key::Lanes(r, piece);
        let n = self.find(key)?;
        // Read once by this instruction, overwritten by it or not read again.
        let reads = inst.src.iter().filter(|s| **s == source).count();
        let overwritten = inst.dst.iter().any(|d| d.reg == r);
        let kept = inst.dst.iter().any(|d| d.reg == r && support::keeps(inst, d, self.c.masked));
        let over = overwritten || self.next_use(key, self.position + 1).is_none();
        (reads == 1 && !kept && over && !self.slots[n].pinned).then_some(n)
    }

    /// A source can be overwritten where it is.
    pub(crate) fn is_spent(&self, inst: &VectorInst, source: Source, piece: usize) -> bool {
        self.spent(inst, source, piece).is_some()
    }

    /// A piece of a source in a register that may be written.
    pub(crate) fn owned(
        &mut self,
        inst: &VectorInst,
        source: Source,
        width: Width,
        piece: usize,
    ) -> Register {
        if let Some(n) = self.spent(inst, source, piece) {
            self.slots[n] = Slot { pinned: true, ..Slot::default() };
            return ymm(n);
        }
        let operand = self.piece(source, width, piece);
        self.copied(operand)
    }

    /// Four of the eight 32-bit lanes of a source: 16 bytes.
    pub(crate) fn half(&mut self, source: Source, half: usize) -> X {
        if let Source::Vector(r) = source
            && self.c.f.storage[r.index()] == StorageClass::Vector
            && self.find(Key::Lanes(r, 0)).is_none()
        {
            let mut memory = self.in_memory(r, Width::W32, 0);
            memory.displacement += 16 * half as i64;
            return memory.into();
        }
        match self.piece(source, Width::W32, 0) {
            X::R(register) => self.half_of(register, half).into(),
            memory => memory,
        }
    }

    /// The lower or upper half of a register, as 16 bytes in one.
    pub(crate) fn half_of(&mut self, register: Register, half: usize) -> Register {
        if half == 0 {
            return xmm(register);
        }
        let to = self.temp();
        let operands = [xmm(to).into(), register.into(), X::I(1)];
        self.op(Code::VEX_Vextracti128_xmmm128_ymm_imm8, &operands);
        xmm(to)
    }

    /// A scalar's value in every lane.
    pub(crate) fn splat(&mut self, r: Reg) -> Register {
        if let Some(n) = self.find(Key::Splat(r)) {
            return self.pin(n);
        }
        let width = self.width_of(r);
        let (place, assigned) =
            (self.c.layout.place(r.index()), self.c.assignment.scalars[r.index()]);
        let to = self.temp();
        let code = match width {
            Width::W16 => Code::VEX_Vpbroadcastw_ymm_xmmm16,
            Width::W32 => Code::VEX_Vpbroadcastd_ymm_xmmm32,
            _ => Code::VEX_Vpbroadcastq_ymm_xmmm64,
        };
        match assigned {
            // What all lanes need is in memory as well.
            Some(register) if self.c.f.storage[r.index()] != StorageClass::ScalarAndVector => {
                let (copy, from) = match width {
                    Width::W64 => (Code::VEX_Vmovq_xmm_rm64, register.full_register()),
                    _ => (Code::VEX_Vmovd_xmm_rm32, register.full_register32()),
                };
                self.op(copy, &[xmm(to).into(), from.into()]);
                self.op(code, &[to.into(), xmm(to).into()]);
            }
            _ => {
                let from = at(FILE, place.scalar.unwrap_or(0) as i32);
                self.op(code, &[to.into(), from.into()]);
            }
        }
        self.hold(to, Key::Splat(r), false);
        to
    }

    /// A piece of an affine value of the lane's number, in a register of its own.
    pub(crate) fn formula(&mut self, source: Source, width: Width, piece: usize) -> Register {
        let bytes = width.bytes() as usize;
        let first = self.number * SLICE_LANES + piece * (32 / bytes);
        let (r, stride, first) = match source {
            Source::Affine(r, stride) => (r, stride, first),
            Source::HalfAffine(low, high, stride) => {
                let upper = self.number >= SLICES / 2;
                (if upper { high } else { low }, stride, first % (SLICE_LANES * SLICES / 2))
            }
            other => {
                let operand = self.piece(other, width, piece);
                return self.copied(operand);
            }
        };
        let splat = self.splat(r);
        if stride == 0 {
            return self.copied(splat.into());
        }
        let steps: Vec<u8> = (first..first + 32 / bytes)
            .flat_map(|lane| stride.wrapping_mul(lane as i64).to_le_bytes().into_iter().take(bytes))
            .collect();
        let steps = self.c.a.constant(&steps);
        let add = match width {
            Width::W16 => Code::VEX_Vpaddw_ymm_ymm_ymmm256,
            Width::W32 => Code::VEX_Vpaddd_ymm_ymm_ymmm256,
            _ => Code::VEX_Vpaddq_ymm_ymm_ymmm256,
        };
        let to = self.temp();
        self.op(add, &[to.into(), splat.into(), steps.into()]);
        to
    }

    /// A piece of result `n` is in a register of its own: it is the value from now on, in the
    /// lanes that run the instruction.
    pub(crate) fn put(&mut self, inst: &VectorInst, n: usize, piece: usize, made: Register) {
        let dest = &inst.dst[n];
        let width = self.width_of(dest.reg);
        if self.uniform_as_vector {
            // All pieces are alike.
            return if piece == 0 {
                self.put_one(inst, n, width, made)
            };
        }
        if support::keeps(inst, dest, self.c.masked) {
            let active = self.active(inst.guard);
            let mask = self.mask_of_width(active, width, piece);
            let old = self.old(dest, width, piece);
            let to = self.temp();
            let blend = Code::VEX_Vpblendvb_ymm_ymm_ymmm256_ymm;
            self.op(blend, &[to.into(), old.into(), made.into(), mask.into()]);
            // Instructions with several pieces need these registers for the next one.
            self.free(made);
            self.free(mask);
            self.hold_result(to, Key::Lanes(dest.reg, piece));
            if !inst.src.contains(&Source::Vector(dest.reg)) {
                self.free(old);
            }
            return;
        }
        self.hold_result(made, Key::Lanes(dest.reg, piece));
    }

    fn old(&mut self, dest: &Dest, width: Width, piece: usize) -> Register {
        self.piece_in(Source::Vector(dest.reg), width, piece)
    }

    /// A mask of 32 bits a lane as one of a width.
    pub(crate) fn mask_of_width(&mut self, mask: Register, width: Width, piece: usize) -> Register {
        match width {
            Width::W32 => mask,
            Width::W16 => {
                let to = self.temp();
                let upper = [xmm(to).into(), mask.into(), X::I(1)];
                self.op(Code::VEX_Vextracti128_xmmm128_ymm_imm8, &upper);
                let pack = Code::VEX_Vpackssdw_xmm_xmm_xmmm128;
                self.op(pack, &[xmm(to).into(), xmm(mask).into(), xmm(to).into()]);
                to
            }
            Width::W64 | Width::W128 => {
                let to = self.temp();
                let mut half = mask;
                if piece == 1 {
                    let upper = [xmm(to).into(), mask.into(), X::I(1)];
                    self.op(Code::VEX_Vextracti128_xmmm128_ymm_imm8, &upper);
                    half = to;
                }
                self.op(Code::VEX_Vpmovsxdq_ymm_xmmm128, &[to.into(), xmm(half).into()]);
                to
            }
        }
    }

    /// 32 bits of the lane's number in the bits that are given for all lanes, as a mask.
    fn spread(&mut self, all: Register, to: Register) {
        let first = self.number * SLICE_LANES;
        let bits: Vec<u8> =
            (first..first + SLICE_LANES).flat_map(|lane| (1u32 << lane).to_le_bytes()).collect();
        let bits = self.c.a.constant(&bits);
        self.op(Code::VEX_Vpand_ymm_ymm_ymmm256, &[to.into(), all.into(), bits.into()]);
        self.op(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, &[to.into(), to.into(), bits.into()]);
    }

    /// The outcomes of a predicate in the slice's lanes, if they are known.
    pub(crate) fn known(&self, source: Source) -> Option<u8> {
        let bits = match source {
            Source::Mask(r) => self.c.known_predicate(r)?,
            Source::Imm(v) => {
                if v != 0 {
                    u32::MAX
                } else {
                    0
                }
            }
            _ => return None,
        };
        Some((bits >> (SLICE_LANES * self.number)) as u8)
    }

    /// A predicate is live behind the instruction under construction.
    pub(crate) fn is_read_later(&self, r: Reg) -> bool {
        self.next_use(Key::Predicate(r), self.position + 1).is_some()
    }

    /// A mask of 32 bits a lane for bits that are known.
    pub(crate) fn known_mask(&mut self, bits: u8) -> Register {
        let lanes = (0..SLICE_LANES).map(|n| 0u32.wrapping_sub(u32::from(bits >> n & 1)));
        let mask: Vec<u8> = lanes.flat_map(u32::to_le_bytes).collect();
        let mask = self.c.a.constant(&mask);
        self.copied(mask.into())
    }

    /// A predicate as a mask.
    pub(crate) fn predicate(&mut self, source: Source) -> Register {
        let Source::Mask(r) = source else {
            let bits = self.known(source).unwrap_or(0);
            return self.known_mask(bits);
        };
        let key = Key::Predicate(r);
        if let Some(n) = self.find(key) {
            return self.pin(n);
        }
        let to = if self.region.has_written(r, self.position) {
            let from = self.predicate_in_stack(r);
            self.copied(from.into())
        } else if let Some(bits) = self.known(source) {
            self.known_mask(bits)
        } else {
            let to = self.temp();
            let from = self.c.mask_of(r);
            self.op(Code::VEX_Vpbroadcastd_ymm_xmmm32, &[to.into(), from.into()]);
            self.spread(to, to);
            to
        };
        self.hold(to, key, false);
        to
    }

    /// The lanes that run, as bits, in every lane.
    fn running(&mut self) -> Register {
        if let Some(n) = self.find(Key::Bits) {
            return self.pin(n);
        }
        let to = self.temp();
        self.op(Code::VEX_Vmovd_xmm_rm32, &[xmm(to).into(), MASK.into()]);
        self.op(Code::VEX_Vpbroadcastd_ymm_xmmm32, &[to.into(), xmm(to).into()]);
        self.hold(to, Key::Bits, false);
        to
    }

    /// The lanes that run an instruction with this guard, as a mask.
    pub(crate) fn active(&mut self, guard: Option<Guard>) -> Register {
        let key = Key::Active(guard.map(|g| (g.reg, g.negated)));
        if let Some(n) = self.find(key) {
            return self.pin(n);
        }
        let to = match guard {
            None => {
                let all = self.running();
                let to = self.temp();
                self.spread(all, to);
                to
            }
            Some(guard) => {
                let predicate = self.predicate(Source::Mask(guard.reg));
                if !guard.negated && !self.c.masked {
                    return predicate;
                }
                let others: X = if self.c.masked {
                    self.active(None).into()
                } else {
                    self.constant(u64::MAX, Width::W64).into()
                };
                let to = self.temp();
                let code = if guard.negated {
                    Code::VEX_Vpandn_ymm_ymm_ymmm256
                } else {
                    Code::VEX_Vpand_ymm_ymm_ymmm256
                };
                self.op(code, &[to.into(), predicate.into(), others]);
                to
            }
        };
        self.hold(to, key, false);
        to
    }

    /// A predicate that an instruction has made, as a mask of 32 bits a lane in a register of its
    /// own.
    pub(crate) fn put_predicate(&mut self, inst: &VectorInst, n: usize, made: Register) {
        if self.uniform_as_vector {
            return self.put_one_predicate(inst, n, made);
        }
        let dest = &inst.dst[n];
        let mut made = made;
        if support::keeps(inst, dest, self.c.masked) {
            let active = self.active(inst.guard);
            let old = self.predicate(Source::Mask(dest.reg));
            let to = self.temp();
            let blend = Code::VEX_Vpblendvb_ymm_ymm_ymmm256_ymm;
            self.op(blend, &[to.into(), old.into(), made.into(), active.into()]);
            made = to;
        }
        for slot in &mut self.slots {
            if matches!(slot.key, Some(Key::Active(Some((r, _)))) if r == dest.reg) {
                slot.key = None;
            }
        }
        self.hold_result(made, Key::Predicate(dest.reg));
    }

    /// Writes a lazy register's NaNs as others must see them.
    fn canonicalise(&mut self, r: Reg) {
        let value = self.piece_in(Source::Vector(r), Width::W32, 0);
        let to = self.canonical(value);
        self.hold(to, Key::Lanes(r, 0), true);
        self.slots.iter_mut().for_each(|s| s.pinned = false);
    }
}
