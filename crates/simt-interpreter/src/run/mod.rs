//! Execution: programs, and the warps, blocks and clusters that run them.

pub(crate) mod block;
pub(crate) mod cluster;
pub(crate) mod program;
pub(crate) mod warp;
