//! Execution: which blocks run when, on which SM and by which thread, and whose they are.

pub mod account;
pub mod activity;
pub(in crate::device) mod activity_file;
pub(in crate::device) mod core;
pub mod grid;
pub(in crate::device) mod help;
pub(in crate::device) mod places;
pub(in crate::device) mod stall;
pub(in crate::device) mod ticker;
pub mod turn;
pub(in crate::device) mod worker;
