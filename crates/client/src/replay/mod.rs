//! Replay: what kernels do with memory, by which it is decided what of a program's work is repeated when
//! its server was lost.
//!
//! The journal and the decision are crate `recovery`'s; [`crate::program::replay`] does what it says.

pub(crate) mod effects;
pub(crate) mod variables;
