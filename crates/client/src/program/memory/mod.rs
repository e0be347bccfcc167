//! Memory: allocations, copies, fills, arrays and mappings, as the program asks for them.

pub(crate) mod allocate;
pub(crate) mod arrays;
pub(crate) mod copy3d;
pub(crate) mod fill;
pub(in crate::program) mod pinned;
pub(in crate::program) mod registered;
pub(crate) mod rows;
pub(in crate::program) mod staged_reads;
pub(in crate::program) mod stream_ordered;
pub(crate) mod transfer;
pub(in crate::program) mod virtual_memory;
