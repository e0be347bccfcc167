//! Context synchronisation: which driver calls wait for all work of the context, and how these are made.

pub mod calls;
pub(super) mod context_sync;
pub(super) mod in_flight;
pub(super) mod local_memory;
