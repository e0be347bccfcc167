//! Emission: a block at a time, an instruction at a time.

pub(crate) mod block;
pub(crate) mod lane_loop;
