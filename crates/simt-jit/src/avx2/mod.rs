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
//! instructions are legal. `isa` is what lane-wise operations (folder `lanewise`) are made of; `carry` and
//! `compare` have other lane-wise instructions, `integer` calls them, `shuffle` those that read other
//! lanes, `memory` loads and stores, `uniform_float` and `uniform_via_vector` the uniform instructions that differ from AVX-512.
//! `layout` has their shape and where they are on the stack.
//! `whole_warp`, `divide` and `matrix` work on the register file, between regions, mostly by the code
//! that AVX-512 has for it.

mod block;
mod carry;
mod compare;
mod divide;
mod integer;
mod isa;
mod layout;
mod matrix;
pub(crate) mod memory;
pub(crate) mod partition;
mod schedule;
mod shuffle;
mod slice;
mod support;
mod uniform_float;
mod uniform_via_vector;
mod whole_warp;
