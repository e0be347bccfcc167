//! Handlers: what one operation does to all lanes of a warp.

pub(crate) mod async_copy;
pub(crate) mod atomic;
pub(crate) mod convert;
pub(crate) mod directed_rounding;
pub(crate) mod float;
pub(crate) mod fp8;
pub(crate) mod fragment;
pub(crate) mod half;
pub(crate) mod integer;
pub(crate) mod map;
pub(crate) mod mbarrier;
pub(crate) mod memory;
pub(crate) mod mma;
pub(crate) mod mov_carry_predicate;
pub(crate) mod rsqrt_estimate;
pub(crate) mod special;
pub(crate) mod texture;
pub(crate) mod tma;
pub(crate) mod transcendental;
pub(crate) mod warp_collectives;
