//! Streams: what they are and how far each has come.

pub(crate) mod table;
