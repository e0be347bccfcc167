//! Objects of the provider, owned: what clients make, a file a kind. They destroy themselves when dropped.

pub(super) mod array;
pub(super) mod code_cache;
pub(super) mod copy;
pub(super) mod function;
pub(super) mod graph;
pub(super) mod host;
pub(super) mod jit_option;
pub(super) mod launch_shape;
pub(super) mod linking;
pub(super) mod managed;
pub(super) mod memory;
pub(super) mod module;
pub(super) mod stream;
pub(super) mod tensor;
pub(super) mod variables;
