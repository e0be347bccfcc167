//! Loads and stores of lanes with AVX-512.

pub(crate) mod copy_lines;
pub(crate) mod dynamic_fast_paths;
pub(crate) mod fragment;
pub(crate) mod gather_pairs;
pub(crate) mod gather_scatter;
pub(crate) mod offset_table;
pub(crate) mod permuted;
pub(crate) mod strided;
