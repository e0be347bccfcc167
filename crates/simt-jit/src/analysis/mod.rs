//! Analyses of a function of the vector IR, for the code generator.

pub(crate) mod lane_offsets;
pub(crate) mod nan_demand;
pub(crate) mod use_weights;
