//! Protocol 3: named servers, namespaces, static partitions of SMs, limits of cgroups' device memory.
//!
//! | module | what it is |
//! | --- | --- |
//! | `tenancy` | what the rest of the daemon asks: [`Tenancy`] |
//! | `named`, `limits`, `name` | servers and namespaces, and their limits |
//! | `configuration` | the configuration file |
//! | `partitions` | static partitions, which protocol 2 has too |
//! | `memacct`, `dmem` | limits of cgroups' device memory: our own, and others' |
//! | `endpoints` | sockets and logs of named servers |
//! | `membership` | where a client counts |
//! | `daemon` | what the daemon does with it: eviction, limits that follow a change |
//! | `command` | the commands |
//!
//! Invariant: what [`Tenancy`] holds is seen in this folder alone. The rest of the daemon has a server's number, which
//! it passes on, and the answers.

pub(crate) mod command;
pub(crate) mod configuration;
mod daemon;
mod dmem;
pub(crate) mod endpoints;
pub(crate) mod limits;
pub(crate) mod memacct;
mod membership;
pub(crate) mod name;
pub(crate) mod named;
pub(crate) mod partitions;
mod tenancy;

pub(crate) use daemon::{ClientRow, NewServer};
pub(crate) use membership::Membership;
pub(crate) use tenancy::{
    Arrival, Features, Grant, NoTenancy, Refusal, Tenancy, TenancyOptions, TenancyRecord,
};
