//! Graphs: those that a client makes, and those that its repeated launches become.

pub(super) mod batching;
pub(super) mod conditional;
pub(super) mod pieces;
pub(super) mod table;
