//! Version: the release, the commit and the protocol that this program speaks.

use std::sync::LazyLock;

/// Release and commit: `0.2.0 (commit 0123456789ab)`.
pub(crate) const BUILD: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("OPENMPS_COMMIT"), ")");

/// What `--version` prints behind the program's name.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| {
    let (min, max) = (channel::PROTOCOL_VERSION_MIN, channel::PROTOCOL_VERSION);
    format!("{BUILD}, protocol {min} to {max}")
});
