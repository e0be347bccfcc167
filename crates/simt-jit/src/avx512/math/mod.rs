//! Transcendental functions with AVX-512.

pub(crate) mod exp_tanh;
pub(crate) mod log_trig;
pub(crate) mod rsqrt;
