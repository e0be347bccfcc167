//! Replay: what kernels do with memory, by which it is decided what of a program's work is repeated when
//! its server was lost.
//!
//! The journal and the decision are crate `recovery`'s; [`crate::program::recovery::replay`] does what it says.

pub(crate) mod effects;
pub(crate) mod variables;

use cuda_api::environment::OPENMPS_REPLAY;
use recovery::ReplayPolicy;
use std::sync::OnceLock;

/// What OPENMPS_REPLAY says.
pub(crate) fn policy() -> ReplayPolicy {
    static POLICY: OnceLock<ReplayPolicy> = OnceLock::new();
    *POLICY.get_or_init(|| {
        let text = std::env::var(OPENMPS_REPLAY).ok();
        text.and_then(|text| ReplayPolicy::parse(&text)).unwrap_or_default()
    })
}
