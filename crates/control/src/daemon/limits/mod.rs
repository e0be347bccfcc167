//! What clients are given: limits, scheduling, what is counted of them; the settings file; what was changed of processes.

pub(super) mod change;
pub(super) mod counting;
pub(super) mod kept;
pub(super) mod reload;
pub(super) mod scheduling;
