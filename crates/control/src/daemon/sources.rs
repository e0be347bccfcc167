//! Sources: what the event loop polls, but for servers, and what is open of the pipe directory.

use crate::directory::Occupied;
use channel::socket::Listener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The sources of events, but for servers, which are in the state.
pub(super) struct Sources {
    /// `control` and `control_privileged`.
    pub listeners: [Arc<Listener>; 2],
    /// A byte comes for each signal that ends the daemon.
    pub signals: UnixStream,
    /// A byte comes for each signal that has it open its logs again.
    pub hang_ups: UnixStream,
    /// The end of the log FIFO that is read.
    pub log: OwnedFd,
    /// The pipe directory, whose lock a successor has to keep. Dropped last: the lock file is.
    pub occupied: Occupied,
}
