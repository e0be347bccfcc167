//! Replay: what a program had under way when its server was lost is done once more, where that gives
//! the same result, or the program is told.
//!
//! Pure rules: nothing here knows a server ([`crate::program::replay`] does).

pub(crate) mod effects;
pub(crate) mod journal;
pub(crate) mod sort;
pub(crate) mod variables;
