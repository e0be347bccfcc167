//! Loads and stores of lanes with AVX2.

pub(crate) mod address_mode;
pub(crate) mod check_coalescing;
pub(crate) mod deinterleave;
pub(crate) mod fragment;
pub(crate) mod lane_addresses;
pub(crate) mod ldmatrix;
pub(crate) mod load_store;
pub(crate) mod same_address_store;
pub(crate) mod valid_bytes;
