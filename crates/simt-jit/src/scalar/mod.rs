//! Uniform values: operations on general registers.

pub(crate) mod divide;
pub(crate) mod integer;
