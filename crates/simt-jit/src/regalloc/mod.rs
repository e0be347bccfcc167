//! Register allocation: live intervals of the vector IR to machine registers.

pub(crate) mod allocate;
pub(crate) mod coalesce;
pub(crate) mod interval_table;
pub(crate) mod loop_residency;
#[cfg(debug_assertions)]
pub(crate) mod verify;
