//! Policy: when a client's work may go, what the client may have, and on which SMs its work is.

pub(super) mod limits;
pub(super) mod placement;
