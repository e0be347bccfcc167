//! Clients: from a connection's first word to the server that it is handed to.

pub(super) mod admission;
pub(super) mod launch_error;
pub(super) mod newcomers;
