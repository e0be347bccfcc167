//! SMs: which of them a client, a stream or a graph is on, and how the provider keeps work there.

pub(super) mod green;
pub(super) mod green_contexts;
pub(super) mod partition;
pub(super) mod placed_graph;
