//! Register allocation: live intervals of the vector IR to machine registers.

pub(crate) mod allocate;
pub(crate) mod interval_table;
pub(crate) mod use_weights;
#[cfg(debug_assertions)]
pub(crate) mod verify;
