//! Branch relaxation: encodes instructions, with the shortest form of each jump.
//!
//! Each instruction is encoded once. Jumps are put in between the others when it is known where
//! labels are: all are long at first, and those whose label is near enough become short until no
//! other does, since each makes others' labels nearer.
//!
//! Deliberately not `iced_x86`'s encoder of blocks: it encodes everything twice, to learn how long
//! it is, which was a third of the time that native code takes to make.

use iced_x86::{Code, Encoder, Instruction, OpKind};

/// Bytes of a jump to a near label.
const SHORT_BYTES: usize = 2;

/// A place among the instructions that are no jumps.
#[derive(Clone, Copy)]
struct Place {
    /// Bytes of these in front of it.
    at: usize,
    /// Jumps in front of it.
    jumps: usize,
}

/// A jump, or a call.
struct Jump<'a> {
    instruction: &'a Instruction,
    at: usize,
    /// Its label.
    to: usize,
    /// How long it is at present.
    bytes: usize,
}

impl Jump<'_> {
    /// The code that it has if it is short, if there is such a one.
    fn short(&self) -> Option<Code> {
        let code = self.instruction.code();
        Some(code.as_short_branch()).filter(|short| *short != code)
    }
}

/// A distance in memory, in an instruction.
struct Reference {
    /// The instruction's end, which it counts from.
    end: Place,
    /// Bytes from where it is to that end.
    back: usize,
    /// Its label.
    to: usize,
}

/// Code.
pub(crate) struct Encoded {
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    /// By label, where it is, if it is anywhere.
    pub(crate) offsets: Vec<Option<u32>>,
}

/// Encodes instructions. An instruction's address is the label that stands there, or 0, and so are
/// targets of jumps and addresses that are relative to the instruction; `labels` is more than all of
/// these. `None` if an instruction cannot be encoded, or a label that is named stands nowhere.
pub(crate) fn encode(instructions: &[Instruction], labels: usize) -> Option<Encoded> {
    let mut places: Vec<Option<Place>> = vec![None; labels];
    let (mut jumps, mut references): (Vec<Jump<'_>>, Vec<Reference>) = Default::default();
    let mut encoder = Encoder::new(64);
    let mut at = 0;
    for instruction in instructions {
        let here = Place { at, jumps: jumps.len() };
        match instruction.ip() {
            0 => {}
            label => *places.get_mut(label as usize)? = Some(here),
        }
        if instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64 {
            let bytes = match instruction.code() {
                Code::Jmp_rel32_64 | Code::Call_rel32_64 => 5,
                _ => 6,
            };
            jumps.push(Jump { instruction, at, to: instruction.near_branch64() as usize, bytes });
            continue;
        }
        let made = encoder.encode(instruction, at as u64);
        debug_assert!(made.is_ok(), "{instruction}: {made:?}");
        let bytes = made.ok()?;
        at += bytes;
        if instruction.is_ip_rel_memory_operand() {
            let offset = encoder.get_constant_offsets().displacement_offset();
            let (end, back) = (Place { at, ..here }, bytes - offset);
            let to = instruction.memory_displacement64() as usize;
            references.push(Reference { end, back, to });
        }
    }
    let others = encoder.take_buffer();
    let before = shorten(&mut jumps, &places)?;
    let offset_of = |place: Place| place.at + before[place.jumps];
    let mut bytes = Vec::with_capacity(others.len() + before[jumps.len()]);
    let mut copied = 0;
    for jump in &jumps {
        bytes.extend_from_slice(&others[copied..jump.at]);
        copied = jump.at;
        let mut instruction = *jump.instruction;
        if let Some(short) = jump.short().filter(|_| jump.bytes == SHORT_BYTES) {
            instruction.set_code(short);
        }
        instruction.set_near_branch64(offset_of(places[jump.to]?) as u64);
        let from = bytes.len() as u64;
        encoder.set_buffer(bytes);
        let made = encoder.encode(&instruction, from).ok()?;
        bytes = encoder.take_buffer();
        if made != jump.bytes {
            return None;
        }
    }
    bytes.extend_from_slice(&others[copied..]);
    for reference in references {
        let (end, to) = (offset_of(reference.end), offset_of((*places.get(reference.to)?)?));
        let distance = i32::try_from(to as i64 - end as i64).ok()?;
        let at = end - reference.back;
        bytes.get_mut(at..at + 4)?.copy_from_slice(&distance.to_le_bytes());
    }
    let offsets = places.iter().map(|place| place.map(|place| offset_of(place) as u32)).collect();
    Some(Encoded { bytes, offsets })
}

/// Makes jumps short that can be; gives how many bytes of jumps are in front of each, and of all.
/// `None` if one leads nowhere.
fn shorten(jumps: &mut [Jump<'_>], places: &[Option<Place>]) -> Option<Vec<usize>> {
    loop {
        let mut before = Vec::with_capacity(jumps.len() + 1);
        let mut sum = 0;
        for jump in &*jumps {
            before.push(sum);
            sum += jump.bytes;
        }
        before.push(sum);
        let mut shorter = false;
        for (number, jump) in jumps.iter_mut().enumerate() {
            let to = (*places.get(jump.to)?)?;
            if jump.bytes == SHORT_BYTES || jump.short().is_none() {
                continue;
            }
            // What is between is not longer when it is short.
            let from = jump.at + before[number] + SHORT_BYTES;
            if i8::try_from((to.at + before[to.jumps]) as i64 - from as i64).is_ok() {
                jump.bytes = SHORT_BYTES;
                shorter = true;
            }
        }
        if !shorter {
            return Some(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{BlockEncoder, BlockEncoderOptions, InstructionBlock, MemoryOperand, Register};

    fn at(mut instruction: Instruction, label: u64) -> Instruction {
        instruction.set_ip(label);
        instruction
    }

    fn jump(code: Code, label: u64) -> Instruction {
        Instruction::with_branch(code, label).unwrap()
    }

    #[test]
    fn code_is_what_the_encoder_of_blocks_makes() {
        let mut code = Vec::new();
        for n in 1..=60u64 {
            code.push(at(jump(Code::Je_rel32_64, 61 - n), n));
            // Some labels are a jump's reach away, some are not.
            for _ in 0..n % 4 {
                code.push(Instruction::with(Code::Nopd));
            }
            let memory = MemoryOperand::with_base_displ_size(Register::RIP, n as i64, 8);
            code.push(Instruction::with2(Code::Mov_r64_rm64, Register::RAX, memory).unwrap());
            let other = if n % 3 == 0 { Code::Call_rel32_64 } else { Code::Jmp_rel32_64 };
            code.push(jump(other, 1 + (n * 7) % 60));
        }
        let made = encode(&code, 61).unwrap();
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let block = InstructionBlock::new(&code, 0);
        let expected = BlockEncoder::encode(64, block, options).unwrap();
        assert_eq!(made.bytes, expected.code_buffer);
        for (instruction, offset) in code.iter().zip(expected.new_instruction_offsets) {
            if instruction.ip() != 0 {
                assert_eq!(made.offsets[instruction.ip() as usize], Some(offset));
            }
        }
        assert_eq!(made.offsets[0], None);
        let short = made.bytes.iter().filter(|byte| **byte == 0x74).count();
        assert!(short > 0 && made.bytes.windows(2).any(|two| two == [0x0f, 0x84]));
    }

    #[test]
    fn a_label_that_stands_nowhere_is_refused() {
        let end = Instruction::with(Code::Retnq);
        assert!(encode(&[jump(Code::Jmp_rel32_64, 1), end], 2).is_none());
        assert!(encode(&[jump(Code::Jmp_rel32_64, 1), at(end, 1)], 2).is_some());
        let memory = MemoryOperand::with_base_displ_size(Register::RIP, 7, 8);
        let load = Instruction::with2(Code::Mov_r64_rm64, Register::RAX, memory).unwrap();
        assert!(encode(&[load, end], 2).is_none());
    }
}
