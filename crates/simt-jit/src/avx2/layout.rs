//! Slices of a warp, and the stack layout of a region: predicates, spills, lists of addresses.

use crate::asm::assembler::at;
use iced_x86::{MemoryOperand, Register};

/// Lanes that are worked on together.
pub(crate) const SLICE_LANES: usize = 8;
/// Slices of a warp.
pub(crate) const SLICES: usize = 4;
/// General registers that hold where a region's accesses start; those behind the scalars.
pub(crate) const POINTERS: [Register; 4] =
    [Register::R8, Register::R9, Register::R10, Register::R11];

/// Predicates that a region can make.
pub(crate) const PREDICATES_MAX: usize = 8;
/// Bytes of a predicate on the stack, as a mask of 32 bits a lane.
const PREDICATE_BYTES: i32 = 128;
/// Lists of addresses that a region can have.
pub(crate) const TABLES_MAX: usize = 4;
/// Bytes of a list of 32 addresses.
const TABLE_BYTES: i32 = 256;

/// Where a region's predicate of a number is, bytes from the stack pointer. No vector register
/// lives across a call, so the room for them is free.
pub(crate) fn predicate_slot(number: usize) -> i32 {
    crate::frame_layout::SAVED_VECTORS + number as i32 * PREDICATE_BYTES
}

/// Pieces of registers of a region that the stack has room for, each 32 bytes of one slice: where
/// the instruction set for AVX-512 has fragments.
pub(crate) const SPILLS: usize = 4 * crate::frame_layout::FRAGMENT_SLOTS;

/// Where the piece of a number is put.
pub(crate) fn spill_slot(number: usize) -> MemoryOperand {
    at(Register::RSP, crate::frame_layout::FRAGMENT_LANES + 32 * number as i32)
}

/// Where a region's list of addresses of a number is.
pub(crate) fn table_slot(number: usize) -> i32 {
    predicate_slot(PREDICATES_MAX) + number as i32 * TABLE_BYTES
}

const _: () = assert!(
    PREDICATES_MAX as i32 * PREDICATE_BYTES + TABLES_MAX as i32 * TABLE_BYTES
        <= crate::frame_layout::SAVED_MASKS - crate::frame_layout::SAVED_VECTORS
);
