//! The commands of `openmps`, a module each.

pub(crate) mod down;
pub(crate) mod ps;
pub(crate) mod run;
pub(crate) mod up;
