//! Memory accesses that both instruction sets share: descriptors, bounds checks, single lanes.

pub(crate) mod access;
pub(crate) mod async_copy;
pub(crate) mod check_coalescing;
pub(crate) mod fragment;
pub(crate) mod lane_loop;
pub(crate) mod linear_sum;
pub(crate) mod local_space;
pub(crate) mod per_lane_access;
pub(crate) mod range_check;
