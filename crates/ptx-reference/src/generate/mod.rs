//! Random programs whose results do not depend on the order in which threads run.
//!
//! A program is a tree of statements, so that it can be cut down and stays a program: any
//! statement may go, and a branch or a loop may be replaced by what is in it. Three rules keep it
//! free of races and of anything that PTX leaves open:
//!
//! - Where all threads of a block are together (*uniform*), there may be barriers; what decides
//!   branches there is in registers of its own, the same for all threads.
//! - Where lanes may have parted in an orderly way, a register holds the mask of those that are
//!   here, made by a vote of those that were together before; what lanes do together names it.
//! - Elsewhere (*free*: tangles of jumps, called functions) threads are on their own.
//!
//! Memory is a thread's own, or changed only by operations that commute, or handed over across a
//! barrier. Bits of a NaN are never looked at.

mod forms;
mod program;
mod statements;
mod synchronising;
mod tree;

pub use program::Program;
pub use synchronising::Synchronising;
pub use tree::Node;
