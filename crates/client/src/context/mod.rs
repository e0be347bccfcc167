//! Contexts: objects of the client alone, and which is current on each thread.

pub(crate) mod affinity;
pub(crate) mod current;
pub(crate) mod table;
