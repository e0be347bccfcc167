//! For tests: what PTX means, written to be read and not to be fast.
//!
//! [`run()`] interprets a kernel straight from the syntax tree, one thread at a time, with numbers
//! that are exact until they are rounded once. There are no passes, no vectors and no shared code
//! with what it judges, apart from the parser. [`generate`] makes random programs whose results do
//! not depend on the order in which threads run, and [`differential`] holds an implementation of
//! PTX against the interpreter and shrinks what differs. Programs in which threads wait for each
//! other are run in a random order ([`run_in_random_order`]).
//!
//! Deliberately absent: approximate functions (they have no one right answer), textures, matrix
//! products but `mma` of f16, bf16 and tf32, and programs that race.
#![forbid(unsafe_code)]

mod access;
mod collective;
mod compute;
pub mod differential;
mod execute;
mod fixed;
mod float;
pub mod generate;
mod grid;
mod integer;
mod matrix;
mod mbarrier;
mod memory;
mod narrow;
mod number;
mod random;
mod run;
mod warp;

pub use grid::{Argument, Launch};
pub use memory::{Buffer, GLOBAL_BASE};
pub use random::Random;
pub use run::{run, run_in_random_order};
