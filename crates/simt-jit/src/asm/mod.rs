//! The assembler: instructions, labels and constants to bytes in executable memory. Knows nothing of the IR.

pub(crate) mod assembler;
pub(crate) mod code_memory;
pub(crate) mod relax;
