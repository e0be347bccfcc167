//! Time slices: the fuel, in back-edges, after which other warps and lanes get a turn.

/// Back-edges a warp takes before other warps get a turn.
pub(crate) const FUEL: i64 = 1 << 16;
/// Back-edges of loops that watch memory, before other lanes and warps get a turn: a lock's
/// holder may be among them.
pub(crate) const SPIN_FUEL: i64 = 1 << 10;
