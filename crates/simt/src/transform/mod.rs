//! Transformations of the SIMT IR, one a file. `pipeline` has the order in which they run.

pub(crate) mod block_layout;
pub(crate) mod dce;
pub(crate) mod group_mma_by_accumulator;
pub(crate) mod inline;
pub(crate) mod loop_exit_copies;
pub(crate) mod mask_to_shifts;
pub(crate) mod mem2reg;
pub(crate) mod promote_calls;
pub(crate) mod simplify_cfg;
pub(crate) mod split_at_guards;
pub(crate) mod wgmma_hazard_notes;
