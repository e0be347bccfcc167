//! Graphs and capture: what crate graph knows of the client, and graphs made ready to be launched.

pub(crate) mod backend;
pub(crate) mod exec;
pub(crate) mod host_copy;
