//! Server processes: starting them and taking note of their ends, what they are sent and asked, the devices.

pub(super) mod cgroup;
pub(super) mod devices;
pub(super) mod inventory;
pub(super) mod lifecycle;
pub(super) mod process;
pub(crate) mod protocol;
pub(super) mod questions;
