//! Predictions: what is assumed of work whose time was not measured yet.

/// What a kernel is taken for that was never timed, ns.
pub const UNKNOWN_NS: u64 = 20_000;
/// What a MiB copied between host and device is taken for, ns: 25 GB/s, what half a link of today has.
pub const COPY_NS_PER_MIB: u64 = 42_000;
