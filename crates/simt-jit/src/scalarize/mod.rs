//! Loop scalarisation: irregular innermost loops run lane by lane, as scalar code.

pub(crate) mod bounds;
pub(crate) mod emit;
pub(crate) mod loop_selection;
mod own;
pub(crate) mod precheck;
pub(crate) mod registers;
