//! The server: it owns the shared context on a provider and runs clients' requests in it.
//!
//! [`run()`] is a whole server process: it loads the provider, reports to the control daemon that
//! started it, and serves the clients that the daemon sends it. Each client has a
//! [`session`], which is a thread; all sessions share the device that [`device`] wraps.
//!
//! The server trusts no client. It finds no client by itself, opens no socket and reads no
//! configuration: who may come is the daemon's business.
//!
//! Invariants:
//! * Only `device` calls the provider.
//! * A session touches only what its own tables say is its client's.
//! * Nothing that a client does ends or blocks the main thread or another session.

mod account;
mod after_start;
mod common;
mod counting;
mod cupti_windows;
pub mod device;
mod green_ahead;
pub mod host_memory;
pub mod kernel_log;
pub mod last_request;
pub mod log;
pub mod meter;
pub mod oversubscription;
pub mod printed;
pub mod run;
pub mod scheduling;
pub mod session;
pub mod shared;
mod trace_log;
pub mod warm;
pub mod window;

pub use common::{Common, Wakeups};
pub use run::{Exit, Options, describe, run};
