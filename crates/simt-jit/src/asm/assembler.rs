//! Assembler: instructions, labels and constants of a function under construction.
//!
//! A thin layer over `iced_x86`: instructions are named by its codes, which are the same for a
//! register and a memory operand. Nothing here knows the vector IR.
//!
//! Invariant: an operand that an instruction cannot have is remembered as an error, and the
//! function that is being made stays interpreted. In debug builds it panics, so that tests see it.

use crate::asm::relax::encode;
use iced_x86::{
    Code, EncodingKind, IcedError, Instruction, InstructionInfoFactory, MemoryOperand, OpAccess,
    OpKind, Register,
};
use std::collections::HashMap;

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label(u32);

/// An operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum X {
    /// A register.
    R(Register),
    /// Memory.
    M(MemoryOperand),
    /// A constant.
    I(i32),
}

impl From<Register> for X {
    fn from(register: Register) -> Self {
        Self::R(register)
    }
}

impl From<MemoryOperand> for X {
    fn from(memory: MemoryOperand) -> Self {
        // The encoder takes an offset of one byte, or none, where that is left to it.
        let near = memory.base != Register::None && memory.base != Register::RIP;
        let displ_size = if near { (memory.displacement != 0).into() } else { memory.displ_size };
        Self::M(MemoryOperand { displ_size, ..memory })
    }
}

/// The same instruction with a constant of one byte, if there is one.
fn of_one_byte(code: Code) -> Code {
    match code {
        Code::Add_rm32_imm32 => Code::Add_rm32_imm8,
        Code::Add_rm64_imm32 => Code::Add_rm64_imm8,
        Code::Sub_rm32_imm32 => Code::Sub_rm32_imm8,
        Code::Sub_rm64_imm32 => Code::Sub_rm64_imm8,
        Code::And_rm32_imm32 => Code::And_rm32_imm8,
        Code::And_rm64_imm32 => Code::And_rm64_imm8,
        Code::Or_rm32_imm32 => Code::Or_rm32_imm8,
        Code::Or_rm64_imm32 => Code::Or_rm64_imm8,
        Code::Xor_rm32_imm32 => Code::Xor_rm32_imm8,
        Code::Xor_rm64_imm32 => Code::Xor_rm64_imm8,
        Code::Cmp_rm32_imm32 => Code::Cmp_rm32_imm8,
        Code::Cmp_rm64_imm32 => Code::Cmp_rm64_imm8,
        Code::Imul_r32_rm32_imm32 => Code::Imul_r32_rm32_imm8,
        Code::Imul_r64_rm64_imm32 => Code::Imul_r64_rm64_imm8,
        other => other,
    }
}

/// True for what writes the low end of one of the first 16 vector registers and clears the rest.
fn clears_a_value(made: &Instruction) -> bool {
    let to = made.op0_register();
    let vector = to.is_xmm() || to.is_ymm();
    // Compares read their first operand.
    let writes = || InstructionInfoFactory::new().info(made).op0_access() == OpAccess::Write;
    vector
        && made.op0_kind() == OpKind::Register
        && made.code().encoding() == EncodingKind::VEX
        && writes()
}

/// Memory at a register plus an offset.
pub(crate) fn at(base: Register, offset: i32) -> MemoryOperand {
    MemoryOperand::with_base_displ(base, i64::from(offset))
}

/// One value in memory, repeated.
pub(crate) fn repeated(memory: MemoryOperand) -> MemoryOperand {
    MemoryOperand { is_broadcast: true, ..memory }
}

/// Code under construction.
pub(crate) struct Assembler {
    instructions: Vec<Instruction>,
    /// The label at which the next instruction stands.
    bound: Option<Label>,
    /// By label: the label that stands at the same place, or itself.
    same: Vec<u32>,
    /// Constants by value: 4 to 64 bytes.
    constants: HashMap<Vec<u8>, Label>,
    error: Option<IcedError>,
    /// Registers of 512 bits may hold lanes. Instructions without a prefix of AVX-512 write the first 16, and
    /// clear all that is above the low end: they are for code that has saved what was there.
    pub(crate) holds_lanes: bool,
}

/// Alignment that constants rely on: none lies in two lines of a cache.
pub(crate) const CONSTANTS_ALIGN: usize = 64;

/// Finished code.
pub(crate) struct Finished {
    /// The bytes, constants first; they can stand anywhere that is aligned to [`CONSTANTS_ALIGN`].
    pub(crate) bytes: Vec<u8>,
    /// How many of them are constants.
    pub(crate) constants: usize,
    offsets: Vec<Option<u32>>,
    same: Vec<u32>,
}

impl Finished {
    /// Where a label is, bytes from the start.
    pub(crate) fn offset(&self, label: Label) -> Option<u32> {
        self.offsets[self.same[label.0 as usize] as usize]
    }
}

impl Assembler {
    pub(crate) fn new() -> Self {
        Self {
            instructions: Vec::new(),
            bound: None,
            // No label has number 0: that is what instructions without one say.
            same: vec![0],
            constants: HashMap::new(),
            error: None,
            holds_lanes: false,
        }
    }

    /// A label that is not bound yet.
    pub(crate) fn label(&mut self) -> Label {
        let label = Label(self.same.len() as u32);
        self.same.push(label.0);
        label
    }

    /// Puts the label here.
    pub(crate) fn bind(&mut self, label: Label) {
        match self.bound {
            Some(other) => self.same[label.0 as usize] = other.0,
            None => self.bound = Some(label),
        }
    }

    fn push(&mut self, made: Result<Instruction, IcedError>) -> &mut Instruction {
        let is_invalid = matches!(&made, Ok(instruction) if instruction.code() == Code::INVALID);
        debug_assert!(!is_invalid, "an operation without an instruction");
        debug_assert!(
            !self.holds_lanes || made.as_ref().map_or(true, |made| !clears_a_value(made)),
            "{made:?} clears the upper part of a register that may hold lanes"
        );
        let mut instruction = made.unwrap_or_else(|error| {
            debug_assert!(false, "no such instruction: {error}");
            self.error.get_or_insert(error);
            Instruction::with(Code::Nopd)
        });
        if let Some(label) = self.bound.take() {
            instruction.set_ip(u64::from(label.0));
        }
        self.instructions.push(instruction);
        let last = self.instructions.len() - 1;
        &mut self.instructions[last]
    }

    /// Appends an instruction; masks and rounding can be set on what is returned.
    pub(crate) fn op(&mut self, code: Code, operands: &[X]) -> &mut Instruction {
        use X::{I, M, R};
        let code = match operands.last() {
            Some(I(constant)) if i8::try_from(*constant).is_ok() => of_one_byte(code),
            _ => code,
        };
        let made = match *operands {
            [] => Ok(Instruction::with(code)),
            [R(a)] => Instruction::with1(code, a),
            [M(a)] => Instruction::with1(code, a),
            [R(a), R(b)] => Instruction::with2(code, a, b),
            [R(a), M(b)] => Instruction::with2(code, a, b),
            [M(a), R(b)] => Instruction::with2(code, a, b),
            [R(a), I(b)] => Instruction::with2(code, a, b),
            [M(a), I(b)] => Instruction::with2(code, a, b),
            [R(a), R(b), R(c)] => Instruction::with3(code, a, b, c),
            [R(a), R(b), M(c)] => Instruction::with3(code, a, b, c),
            [R(a), M(b), R(c)] => Instruction::with3(code, a, b, c),
            [R(a), R(b), I(c)] => Instruction::with3(code, a, b, c),
            [R(a), M(b), I(c)] => Instruction::with3(code, a, b, c),
            [M(a), R(b), I(c)] => Instruction::with3(code, a, b, c),
            [R(a), R(b), R(c), I(d)] => Instruction::with4(code, a, b, c, d),
            [R(a), R(b), M(c), I(d)] => Instruction::with4(code, a, b, c, d),
            [R(a), R(b), R(c), R(d)] => Instruction::with4(code, a, b, c, d),
            [R(a), R(b), M(c), R(d)] => Instruction::with4(code, a, b, c, d),
            [M(a), R(b), R(c)] => Instruction::with3(code, a, b, c),
            _ => {
                debug_assert!(false, "{code:?} has no form for {operands:?}");
                Ok(Instruction::with(Code::INVALID))
            }
        };
        self.push(made)
    }

    /// The last instruction writes `to` instead of `from`; false if it does not only write that.
    pub(crate) fn retarget(&mut self, from: Register, to: Register) -> bool {
        let Some(last) = self.instructions.last_mut().filter(|_| self.bound.is_none()) else {
            return false;
        };
        let writes = last.op0_kind() == OpKind::Register
            && last.op0_register() == from
            && last.op_mask() == Register::None
            && InstructionInfoFactory::new().info(last).op0_access() == OpAccess::Write;
        if writes {
            last.set_op0_register(to);
        }
        writes
    }

    /// Loads a 64-bit constant.
    pub(crate) fn load_constant(&mut self, to: Register, value: u64) {
        if let Ok(value) = u32::try_from(value) {
            let low = to.full_register32();
            self.op(Code::Mov_r32_imm32, &[low.into(), X::I(value as i32)]);
        } else {
            self.push(Instruction::with2(Code::Mov_r64_imm64, to.full_register(), value));
        }
    }

    /// A jump.
    pub(crate) fn jump(&mut self, code: Code, to: Label) {
        self.push(Instruction::with_branch(code, u64::from(to.0)));
    }

    /// Where a label is in memory.
    pub(crate) fn at_label(label: Label) -> MemoryOperand {
        MemoryOperand::with_base_displ_size(Register::RIP, i64::from(label.0), 8)
    }

    /// Memory that holds the bytes.
    pub(crate) fn constant(&mut self, bytes: &[u8]) -> MemoryOperand {
        let label = match self.constants.get(bytes) {
            Some(label) => *label,
            None => {
                let label = self.label();
                self.constants.insert(bytes.to_vec(), label);
                label
            }
        };
        Self::at_label(label)
    }

    /// True if some instruction is there with AVX-512 only.
    pub(crate) fn needs_avx512(&self) -> bool {
        use iced_x86::CpuidFeature::{AVX512BW, AVX512DQ, AVX512F, AVX512VL};
        let features = self.instructions.iter().flat_map(|i| i.cpuid_features());
        features.into_iter().any(|f| matches!(f, &(AVX512F | AVX512BW | AVX512DQ | AVX512VL)))
    }

    /// Puts the constants in front, each aligned to its size; gives back how many bytes they take.
    fn place_constants(&mut self) -> usize {
        let mut constants: Vec<_> = std::mem::take(&mut self.constants).into_iter().collect();
        // Those of a size in the order in which they came, so that the same function gives the same
        // code.
        constants.sort_by_key(|(bytes, label)| (std::cmp::Reverse(bytes.len()), label.0));
        let code = std::mem::take(&mut self.instructions);
        let mut size = 0;
        for (bytes, label) in constants {
            self.bind(label);
            size += bytes.len();
            for chunk in bytes.chunks(16) {
                self.push(Instruction::with_declare_byte(chunk));
            }
        }
        let end = size.next_multiple_of(CONSTANTS_ALIGN);
        for chunk in vec![0; end - size].chunks(16) {
            self.push(Instruction::with_declare_byte(chunk));
        }
        self.instructions.extend(code);
        end
    }

    /// Adds the constants and encodes everything; `None` if something has no code.
    pub(crate) fn finish(mut self) -> Option<Finished> {
        if self.bound.is_some() {
            self.op(Code::Nopd, &[]);
        }
        let constants = self.place_constants();
        if self.error.is_some() {
            return None;
        }
        for i in &mut self.instructions {
            if i.is_ip_rel_memory_operand() {
                let label = i.memory_displacement64() as usize;
                i.set_memory_displacement64(u64::from(self.same[label]));
            } else if i.op_count() > 0 && i.op0_kind() == OpKind::NearBranch64 {
                let label = i.near_branch64() as usize;
                i.set_near_branch64(u64::from(self.same[label]));
            }
        }
        let encoded = encode(&self.instructions, self.same.len())?;
        let (bytes, offsets) = (encoded.bytes, encoded.offsets);
        Some(Finished { bytes, constants, offsets, same: self.same })
    }
}
