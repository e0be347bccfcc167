//! Operand materialisation: where operands of 32 lanes are, and how 64 bytes of them get into a
//! register.
//!
//! A register of 32-bit lanes is two *parts* of 64 bytes, one of 64-bit lanes four.

use crate::asm::assembler::{X, at, repeated};
use crate::frame_layout::{
    A, ACTIVE, BROADCAST, BROADCAST_SLOTS, FILE, K3, MASK, PREDICATE, Z0, Z1,
};
use crate::function::Compiler;
use crate::host::SimdIsa;
use crate::regalloc::allocate::{Lanes, PARTS_MAX, parts};
use iced_x86::{Code, MemoryOperand, Register};
use simt::ir::op::Width;
use simt::ir::vector::{Dest, Source, StorageClass, VectorInst};
use simt::ir::{Guard, Reg};
use simt::launch_shape::HALF_LANES;

/// Which 16 bits of a lane.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HalfBits {
    /// All that there are.
    All,
    /// The lower ones of 32.
    Low,
    /// The upper ones of 32.
    High,
}

/// Where a source's lanes are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// In machine registers.
    Parts([Register; PARTS_MAX]),
    /// In one, the same in all lanes.
    Same(Register),
    /// In memory at an offset from a register: in the register file, or on the stack.
    Memory(Register, i32),
    /// One value in memory that all lanes have.
    One(MemoryOperand),
    /// 64 bytes in memory that all parts have.
    Whole(MemoryOperand),
}

/// Where a result's lanes go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    to: Value,
    width: Width,
    /// Lanes that do not run the instruction keep their values.
    keep: bool,
}

impl Place {
    /// Where it is, if all lanes are written.
    pub(crate) fn whole(&self) -> Option<Value> {
        (!self.keep).then_some(self.to)
    }
}

/// The low half of a vector register.
pub(crate) fn ymm(register: Register) -> Register {
    Register::YMM0 + (register as u32 - Register::ZMM0 as u32)
}

/// The register's lowest eight bits.
pub(crate) fn low_byte(register: Register) -> Register {
    match register.full_register() {
        Register::RAX => Register::AL,
        Register::RCX => Register::CL,
        Register::RDX => Register::DL,
        Register::RSI => Register::SIL,
        Register::RDI => Register::DIL,
        other => Register::R8L + (other as u32 - Register::R8 as u32),
    }
}

/// The low slice of a vector register.
pub(crate) fn xmm(register: Register) -> Register {
    Register::XMM0 + (register as u32 - Register::ZMM0 as u32)
}

impl Compiler<'_> {
    /// Where a source is.
    pub(crate) fn value(&mut self, source: Source, width: Width) -> Value {
        match source {
            Source::Vector(r) | Source::Scalar(r) | Source::Affine(r, _)
                if self.uniform_as_vector.is_some() =>
            {
                self.value_of_one(r, width)
            }
            Source::Imm(v) => match width {
                Width::W16 => {
                    let lanes = (v as u16).to_le_bytes().repeat(32);
                    Value::Whole(self.a.constant(&lanes))
                }
                Width::W32 => Value::One(repeated(self.a.constant(&(v as u32).to_le_bytes()))),
                Width::W64 | Width::W128 => Value::One(repeated(self.a.constant(&v.to_le_bytes()))),
            },
            Source::Vector(r)
            | Source::Scalar(r)
            | Source::Affine(r, _)
            | Source::HalfAffine(r, ..)
            | Source::Mask(r) => match self.lanes_of(r) {
                Value::One(memory) if width == Width::W16 => self.spread_sixteen(memory),
                other => other,
            },
        }
    }

    /// One value of 16 bits in all lanes, for the instruction under construction: none repeats it. In
    /// a machine register that holds nothing in this function, or else on the stack; that uses Z0.
    fn spread_sixteen(&mut self, memory: MemoryOperand) -> Value {
        self.broadcast_count = (self.broadcast_count + 1) % BROADCAST_SLOTS;
        let spare = self.spares.get(self.broadcast_count as usize).copied();
        let code = Code::EVEX_Vpbroadcastw_zmm_k1z_xmmm16;
        self.a.op(code, &[spare.unwrap_or(Z0).into(), single(memory).into()]);
        if let Some(spare) = spare {
            let none = Register::None;
            return Value::Parts([spare, none, none, none]);
        }
        let offset = BROADCAST + 64 * self.broadcast_count;
        let to = at(Register::RSP, offset);
        self.a.op(store_code(Width::W32), &[to.into(), Z0.into()]);
        Value::Memory(Register::RSP, offset)
    }

    /// Where a register's lanes are.
    pub(crate) fn lanes_of(&self, r: Reg) -> Value {
        let place = self.layout.place(r.index());
        match self.assignment.lanes[r.index()] {
            Lanes::Parts(registers) => Value::Parts(registers),
            Lanes::Same(register) => Value::Same(register),
            Lanes::File => match (self.f.storage[r.index()], place.scalar, place.vector) {
                // The copies in the file are made only when other code needs them.
                (StorageClass::ScalarAndVector, Some(at_scalar), _) => {
                    Value::One(repeated(at(FILE, at_scalar as i32)))
                }
                (_, _, vector) => Value::Memory(FILE, vector.unwrap_or(0) as i32),
            },
            Lanes::Stack(offset, _) => Value::Memory(Register::RSP, offset),
        }
    }

    /// A part as an operand that may be memory.
    pub(crate) fn part(&self, value: Value, part: usize) -> X {
        match value {
            Value::Parts(registers) => registers[part].into(),
            Value::Same(register) => register.into(),
            Value::Memory(base, offset) => at(base, offset + 64 * part as i32).into(),
            Value::One(memory) | Value::Whole(memory) => memory.into(),
        }
    }

    /// A part in a register: the one given, if it is not in one.
    pub(crate) fn part_in(
        &mut self,
        value: Value,
        part: usize,
        width: Width,
        scratch: Register,
    ) -> Register {
        match self.part(value, part) {
            X::R(register) => register,
            X::M(memory) => {
                let (code, memory) = match (value, width) {
                    (Value::One(m), Width::W64) => {
                        (Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, single(m))
                    }
                    (Value::One(m), Width::W16) => {
                        (Code::EVEX_Vpbroadcastw_zmm_k1z_xmmm16, single(m))
                    }
                    (Value::One(m), _) => (Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, single(m)),
                    _ => (Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512, memory),
                };
                self.a.op(code, &[scratch.into(), memory.into()]);
                scratch
            }
            X::I(_) => scratch,
        }
    }

    /// A part of an affine value of the lane's number, or of what is the same in all lanes, in the
    /// register given.
    pub(crate) fn formula(
        &mut self,
        source: Source,
        part: usize,
        width: Width,
        to: Register,
    ) -> Register {
        // The number of the part's first lane, counted from where its scalar counts.
        let lanes = (64 / width.bytes()) as usize;
        let (source, stride, first) = match source {
            Source::Affine(_, stride) => (source, stride, part * lanes),
            Source::HalfAffine(low, high, stride) => {
                let first = part * lanes;
                let half = if first < HALF_LANES { low } else { high };
                (Source::Scalar(half), stride, first % HALF_LANES)
            }
            _ => (source, 0, 0),
        };
        if let Source::Imm(_) = source {
            let value = self.value(source, width);
            return self.part_in(value, part, width, to);
        }
        let wide = width == Width::W64;
        let code = match (self.scalar(source, wide, A), width) {
            (X::M(memory), Width::W16) => (Code::EVEX_Vpbroadcastw_zmm_k1z_xmmm16, memory.into()),
            (X::M(memory), Width::W32) => (Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, memory.into()),
            (X::M(memory), _) => (Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, memory.into()),
            (register, Width::W64) => (Code::EVEX_Vpbroadcastq_zmm_k1z_r64, register),
            (register, _) => (Code::EVEX_Vpbroadcastd_zmm_k1z_r32, register),
        };
        self.a.op(code.0, &[to.into(), code.1]);
        if stride != 0 {
            let steps = self.steps(stride, first, width);
            let add = match width {
                Width::W16 => Code::EVEX_Vpaddw_zmm_k1z_zmm_zmmm512,
                Width::W32 => Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
                _ => Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
            };
            self.a.op(add, &[to.into(), to.into(), steps.into()]);
        }
        to
    }

    /// Strides times the numbers of the lanes from `first` on.
    pub(crate) fn steps(&mut self, stride: i64, first: usize, width: Width) -> MemoryOperand {
        let bytes = width.bytes() as usize;
        let steps: Vec<u8> = (first..first + 64 / bytes)
            .flat_map(|lane| stride.wrapping_mul(lane as i64).to_le_bytes().into_iter().take(bytes))
            .collect();
        self.a.constant(&steps)
    }

    /// Sixteen 32-bit lanes make two parts of 64-bit ones: the 32 bytes that become `part`, as an
    /// operand.
    pub(crate) fn half(&mut self, value: Value, part: usize, scratch: Register) -> X {
        match value {
            Value::Memory(base, offset) => at(base, offset + 32 * part as i32).into(),
            Value::Same(register) => ymm(register).into(),
            Value::Whole(memory) => memory.into(),
            Value::One(memory) => {
                let code = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
                self.a.op(code, &[scratch.into(), single(memory).into()]);
                ymm(scratch).into()
            }
            Value::Parts(registers) if part.is_multiple_of(2) => ymm(registers[part / 2]).into(),
            Value::Parts(registers) => {
                let code = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
                self.a.op(code, &[ymm(scratch).into(), registers[part / 2].into(), X::I(1)]);
                ymm(scratch).into()
            }
        }
    }

    /// The place of a result; makes the masks of the lanes that run the instruction if they are
    /// needed.
    pub(crate) fn dest(&mut self, inst: &VectorInst, dest: &Dest) -> Place {
        if self.uniform_as_vector.is_some() {
            return Place {
                to: self.place_of_one(inst, dest),
                width: self.width_of(dest.reg),
                keep: false,
            };
        }
        let keep = inst.guard.is_some() || (self.masked && dest.keep);
        if keep {
            self.activate(inst.guard);
        }
        Place { to: self.lanes_of(dest.reg), width: self.width_of(dest.reg), keep }
    }

    /// The last instruction of a part of a result: `code` with a destination and `operands`.
    pub(crate) fn put(&mut self, place: &Place, part: usize, code: Code, operands: &[X]) {
        self.put_rounded(place, part, code, operands, iced_x86::RoundingControl::None);
    }

    /// [`Self::put`] with a rounding mode of its own, for operands in registers.
    pub(crate) fn put_rounded(
        &mut self,
        place: &Place,
        part: usize,
        code: Code,
        operands: &[X],
        round: iced_x86::RoundingControl,
    ) {
        let mask = if place.keep { Some(self.active(part, place.width)) } else { None };
        if let (Value::Memory(base, offset), &[X::R(from)]) = (place.to, operands)
            && is_move(code)
        {
            let to = at(base, offset + 64 * part as i32);
            return self.store_part(to, from, place.width, mask);
        }
        let target = match place.to {
            Value::Parts(registers) => registers[part],
            _ => Z0,
        };
        let mut all = [X::I(0); 4];
        all[0] = target.into();
        all[1..=operands.len()].copy_from_slice(operands);
        let in_register = matches!(place.to, Value::Parts(_));
        let made = self.a.op(code, &all[..=operands.len()]);
        made.set_rounding_control(round);
        if let (Some(k), true) = (mask, in_register) {
            made.set_op_mask(k);
        }
        if let Value::Memory(base, offset) = place.to {
            let to = at(base, offset + 64 * part as i32);
            self.store_part(to, target, place.width, mask);
        }
    }

    /// A part of a result is what a register holds.
    pub(crate) fn put_register(&mut self, place: &Place, part: usize, from: Register) {
        self.put(place, part, move_code(place.width), &[from.into()]);
    }

    /// Copies all lanes of a register in memory; uses Z0.
    pub(crate) fn copy_lanes(&mut self, from: (Register, i32), to: (Register, i32), width: Width) {
        for part in 0..parts(width) as i32 {
            let load = Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512;
            self.a.op(load, &[Z0.into(), at(from.0, from.1 + 64 * part).into()]);
            self.a.op(store_code(width), &[at(to.0, to.1 + 64 * part).into(), Z0.into()]);
        }
    }

    /// Copies all 32-bit lanes of a register in memory: to each place what is in the one that `picks`
    /// says. Uses Z0 and Z1.
    pub(crate) fn copy_picked(
        &mut self,
        from: (Register, i32),
        to: (Register, i32),
        picks: impl Fn(usize) -> usize,
    ) {
        let [first, second] = [0, 64].map(|part| at(from.0, from.1 + part));
        for part in 0..2 {
            self.load_picks(Width::W32, Z0, (16 * part..16 * (part + 1)).map(&picks));
            self.a.op(move_code(Width::W32), &[Z1.into(), first.into()]);
            let pick = Code::EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32;
            self.a.op(pick, &[Z0.into(), Z1.into(), second.into()]);
            let to = at(to.0, to.1 + 64 * part as i32);
            self.a.op(store_code(Width::W32), &[to.into(), Z0.into()]);
        }
    }

    /// The register in which a part of a result can be made in several steps, if the old value
    /// and all sources may be overwritten by the first.
    pub(crate) fn target(&self, place: &Place, part: usize) -> Option<Register> {
        match place.to {
            Value::Parts(registers) if !place.keep => Some(registers[part]),
            _ => None,
        }
    }

    fn store_part(
        &mut self,
        to: MemoryOperand,
        from: Register,
        width: Width,
        mask: Option<Register>,
    ) {
        let code = store_code(width);
        let made = self.a.op(code, &[to.into(), from.into()]);
        if let Some(k) = mask {
            made.set_op_mask(k);
        }
    }

    /// Makes the masks of the lanes that run an instruction with this guard.
    pub(crate) fn activate(&mut self, guard: Option<Guard>) {
        let key = guard.map(|g| (g.reg, g.negated));
        if self.active_for == Some(key) {
            return;
        }
        match guard {
            None => {
                self.a.op(Code::VEX_Kmovd_kr_r32, &[ACTIVE[0].into(), MASK.into()]);
            }
            Some(guard) => {
                self.active_lanes(guard);
                self.a.op(Code::VEX_Kmovd_kr_r32, &[ACTIVE[0].into(), Register::EAX.into()]);
            }
        }
        let high = [ACTIVE[1].into(), ACTIVE[0].into(), X::I(16)];
        self.a.op(Code::VEX_Kshiftrd_kr_kr_imm8, &high);
        self.active_for = Some(key);
    }

    /// The lanes that run an instruction with this guard, in EAX.
    pub(crate) fn active_lanes(&mut self, guard: Guard) {
        let memory = self.mask_of(guard.reg);
        self.in_eax = None;
        self.a.op(Code::Mov_r32_rm32, &[Register::EAX.into(), memory.into()]);
        if guard.negated {
            self.a.op(Code::Not_rm32, &[Register::EAX.into()]);
        }
        if self.masked {
            self.a.op(Code::And_r32_rm32, &[Register::EAX.into(), MASK.into()]);
        }
    }

    /// The mask of the lanes of a part that run the instruction; after [`Self::activate`].
    pub(crate) fn active(&mut self, part: usize, width: Width) -> Register {
        self.of_pair(ACTIVE, part, width)
    }

    /// The mask of a part of what a pair of masks says.
    pub(crate) fn of_pair(&mut self, pair: [Register; 2], part: usize, width: Width) -> Register {
        match width {
            Width::W32 => pair[part],
            Width::W64 if part.is_multiple_of(2) => pair[part / 2],
            Width::W64 => {
                let shift = [K3.into(), pair[part / 2].into(), X::I(8)];
                self.a.op(Code::VEX_Kshiftrw_kr_kr_imm8, &shift);
                K3
            }
            Width::W16 | Width::W128 => {
                let join = [K3.into(), pair[1].into(), pair[0].into()];
                self.a.op(Code::VEX_Kunpckwd_kr_kr_kr, &join);
                K3
            }
        }
    }

    /// The masks of a predicate.
    pub(crate) fn predicate(&mut self, source: Source) -> [Register; 2] {
        match source {
            Source::Mask(r) if self.in_pair == Some(r) => {}
            Source::Mask(r) => {
                if self.in_eax == Some(r) {
                    let eax = Register::EAX.into();
                    self.a.op(Code::VEX_Kmovd_kr_r32, &[PREDICATE[0].into(), eax]);
                } else {
                    let memory = self.mask_of(r);
                    self.a.op(Code::VEX_Kmovd_kr_km32, &[PREDICATE[0].into(), memory.into()]);
                }
                let high = [PREDICATE[1].into(), PREDICATE[0].into(), X::I(16)];
                self.a.op(Code::VEX_Kshiftrd_kr_kr_imm8, &high);
                self.in_pair = Some(r);
            }
            other => {
                let value = matches!(other, Source::Imm(v) if v != 0);
                let code = if value { Code::VEX_Kxnorw_kr_kr_kr } else { Code::VEX_Kxorw_kr_kr_kr };
                for k in PREDICATE {
                    self.a.op(code, &[k.into(), k.into(), k.into()]);
                }
                self.in_pair = None;
            }
        }
        PREDICATE
    }

    /// Where a predicate is in memory.
    pub(crate) fn mask_of(&self, r: Reg) -> MemoryOperand {
        at(FILE, self.layout.place(r.index()).mask.unwrap_or(0) as i32)
    }

    /// Writes a lazy register's NaNs as others must see them.
    pub(crate) fn canonicalise(&mut self, r: Reg) {
        if self.isa == SimdIsa::Avx2 {
            return self.canonicalise_file(r);
        }
        // A NaN is rare.
        let value = self.lanes_of(r);
        let low = self.part_in(value, 0, Width::W32, Z0);
        let high = self.part(value, 1);
        let (label, back) = (self.a.label(), self.a.label());
        let k1 = crate::frame_layout::K1;
        let compare = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
        self.a.op(compare, &[k1.into(), low.into(), high, X::I(3)]);
        self.a.op(Code::VEX_Kortestw_kr_kr, &[k1.into(), k1.into()]);
        self.a.jump(Code::Jne_rel32_64, label);
        self.a.bind(back);
        self.out_of_line(label, move |c| {
            c.make_canonical(value);
            c.a.jump(Code::Jmp_rel32_64, back);
        });
    }

    /// Makes the NaNs of f32 lanes canonical where they are; uses Z0.
    pub(crate) fn make_canonical(&mut self, value: Value) {
        for part in 0..parts(Width::W32) {
            let register = self.part_in(value, part, Width::W32, Z0);
            self.canonical(register);
            if let Value::Memory(base, offset) = value {
                let to = at(base, offset + 64 * part as i32);
                self.store_part(to, register, Width::W32, None);
            }
        }
    }

    /// Makes the NaNs of a part of f32 lanes canonical.
    pub(crate) fn canonical(&mut self, register: Register) {
        let nan = self.a.constant(&simt::analysis::nan_demand::NAN.to_le_bytes());
        self.compare_parts(Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, register, 3);
        let code = Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32;
        self.a.op(code, &[register.into(), nan.into()]).set_op_mask(crate::frame_layout::K1);
    }

    fn compare_parts(&mut self, code: Code, register: Register, how: i32) {
        let operands =
            [crate::frame_layout::K1.into(), register.into(), register.into(), X::I(how)];
        self.a.op(code, &operands);
    }
}

/// The operand for instructions that repeat it by themselves.
pub(crate) fn single(memory: MemoryOperand) -> MemoryOperand {
    MemoryOperand { is_broadcast: false, ..memory }
}

/// The store whose mask has a bit for each lane of a width.
pub(crate) fn store_code(width: Width) -> Code {
    match width {
        Width::W16 => Code::EVEX_Vmovdqu16_zmmm512_k1z_zmm,
        Width::W32 => Code::EVEX_Vmovdqa32_zmmm512_k1z_zmm,
        Width::W64 | Width::W128 => Code::EVEX_Vmovdqa64_zmmm512_k1z_zmm,
    }
}

/// True for what [`move_code`] gives.
fn is_move(code: Code) -> bool {
    [Width::W16, Width::W32, Width::W64].map(move_code).contains(&code)
}

/// The move whose mask has a bit for each lane of a width.
pub(crate) fn move_code(width: Width) -> Code {
    match width {
        Width::W16 => Code::EVEX_Vmovdqu16_zmm_k1z_zmmm512,
        Width::W32 => Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512,
        Width::W64 | Width::W128 => Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512,
    }
}
