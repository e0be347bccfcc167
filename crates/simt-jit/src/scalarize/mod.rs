//! Loop scalarisation: irregular innermost loops run lane by lane, as scalar code.

pub(crate) mod emit;
pub(crate) mod loop_selection;
pub(crate) mod precheck;
pub(crate) mod registers;
