//! What a program owns for life: contexts, and on each device ([`Client`]) streams, events, modules,
//! memory, arrays, with the connection to the server that carries them out.
//!
//! Below are tables that know no server ([`crate::context`], [`crate::stream`], [`crate::module`],
//! [`crate::memory`]) and the connection, which knows none of them ([`crate::connection`]). Here they
//! meet. A connection can be lost and another one put in its place; the tables say what the new
//! server has to be told.

pub(crate) mod allocate;
pub(crate) mod arrays;
pub(crate) mod attributes;
mod calls;
mod client;
pub(crate) mod copy3d;
pub(crate) mod fill;
pub(crate) mod forwarded;
pub(crate) mod host_functions;
pub(crate) mod launch;
pub(crate) mod mem_ops;
pub(crate) mod mode;
pub(crate) mod modules;
pub(crate) mod occupancy;
pub(crate) mod peers;
mod pinned;
mod process;
mod recover;
mod registered;
pub(crate) mod replay;
mod staged_reads;
mod stream_ordered;
pub(crate) mod streams;
pub(crate) mod submission;
pub(crate) mod transfer;
pub(crate) mod variables;
mod virtual_memory;
mod visible;
mod wait;

pub(crate) use crate::connection::SERVER_GONE;
pub(crate) use crate::connection::answered;
pub(crate) use client::Client;
pub(crate) use process::Program;
