//! The frame of a function: stack layout, entries and exits, control flow, out-of-line code.

pub(crate) mod entry_exit;
pub(crate) mod interpreter_call;
pub(crate) mod out_of_line;
pub(crate) mod spill_code;
pub(crate) mod terminators;
pub(crate) mod warp_loop;
