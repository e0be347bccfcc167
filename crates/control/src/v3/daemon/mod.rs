//! What the daemon does with named servers, partitions and limits of cgroups: methods of `Daemon`.

mod eviction;
mod follow;
mod partitions;
mod routing;
mod servers;

pub(crate) use servers::{ClientRow, NewServer};
