//! What a thread waits for, and at which instructions.

use ptx::ast::{Instruction, Modifier as M, Opcode, Operand};

/// Threads of a warp.
pub(crate) const LANES: usize = 32;

/// What a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    /// A barrier of the block: its number, threads expected (0: all), and its predicate.
    Barrier { barrier: u32, count: u32, vote: bool },
    /// The lanes of a mask.
    Warp { mask: u32 },
}

/// Whether an instruction is one that lanes run together, and its mask operand.
pub(crate) fn mask_operand(inst: &Instruction) -> Option<&Operand> {
    let together = match inst.opcode {
        Opcode::Bar => inst.has(M::Warp),
        Opcode::Shfl | Opcode::Vote | Opcode::Match | Opcode::Redux => inst.has(M::Sync),
        _ => false,
    };
    if together { inst.operands.last() } else { None }
}

/// True for an instruction that all lanes of a warp run together.
pub(crate) fn is_product(inst: &Instruction) -> bool {
    inst.opcode == Opcode::Mma
}
