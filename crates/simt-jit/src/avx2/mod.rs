//! AVX2: the code generator for processors without AVX-512, a slice of eight lanes at a time.
//!
//! Sixteen registers of 32 bytes are too few for values of 32 lanes. So a block is cut into
//! *regions* (`partition`), runs of instructions in which no lane needs another, and a region is
//! made four times, once for each slice (`slice`). Within a slice values are in machine registers;
//! between regions they are in the register file, and predicates are bits there. Uniform values are
//! in general registers as with AVX-512, and control flow is the same code.
//!
//! All checks that a region can fail are made before its first instruction. If one fails, all of
//! the region runs in the interpreter.
//!
//! `partition` and `schedule` cut and order, `block` joins regions, `support` says which
//! instructions are legal. `integer`, `integer64`, `integer_saturating`, `integer_sequences`,
//! `carry`, `float`, `math`, `half`, `convert`, `compare`, `bits` and `byte_permute` have the
//! lane-wise instructions, `shuffle` those that read other lanes, `memory` loads and stores,
//! `uniform_float` and `uniform_via_vector` the uniform instructions that differ from AVX-512.
//! `whole_warp`, `divide` and `matrix` work on the register file, between regions, mostly by the code
//! that AVX-512 has for it.

mod bits;
mod block;
mod byte_permute;
mod carry;
mod compare;
mod convert;
mod divide;
mod float;
mod half;
mod integer;
mod integer64;
mod integer_saturating;
mod integer_sequences;
mod math;
mod matrix;
pub(crate) mod memory;
mod partition;
mod schedule;
mod shuffle;
mod slice;
mod support;
mod uniform_float;
mod uniform_via_vector;
mod whole_warp;

pub(crate) use crate::avx2::partition::Step;

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
