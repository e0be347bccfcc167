//! Analyses: facts about a function, which they do not change.

pub mod address;
pub(crate) mod affine;
pub(crate) mod dataflow;
pub(crate) mod divergence;
pub(crate) mod divergent_intervals;
pub(crate) mod inactive_liveness;
pub(crate) mod influence_regions;
pub(crate) mod interval;
pub(crate) mod known_bits;
pub mod live_intervals;
pub(crate) mod liveness;
pub(crate) mod loops;
pub mod nan_demand;
pub(crate) mod postdominators;
pub(crate) mod register_estimate;
pub mod vector_cfg;
pub(crate) mod vector_liveness;
