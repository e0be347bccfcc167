//! The daemon that follows: one that takes this one's place in its process, and one that is started later.

pub(super) mod found;
pub(super) mod handover;
pub(super) mod presence;
pub(super) mod snapshot;
pub(super) mod upgrade;
