//! AVX-512: all 32 lanes of a value at once, in one or two registers of 512 bits.

mod compare;
pub(crate) mod half;
pub(crate) mod integer;
pub(crate) mod isa;
pub(crate) mod matrix;
pub(crate) mod memory;
pub(crate) mod rsqrt;
pub(crate) mod shuffle;
pub(crate) mod uniform_via_vector;
