//! Hang-ups of many connections: an epoll set that is watched as one descriptor.

use super::SeqPacket;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most hang-ups that one call returns.
const AT_ONCE: usize = 64;

/// Connections whose ends are awaited. Readable, to [`poll`](super::poll()), while an end has not been taken. A wait
/// costs the same however many there are.
#[derive(Debug)]
pub struct HangUps {
    set: OwnedFd,
}

impl HangUps {
    /// An empty set. Fails where the process may have no more descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self { set: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Awaits the end of a connection, which is reported once, as `id`. The kernel forgets the connection when
    /// its last descriptor is closed. Fails where the user may watch no more descriptors.
    pub fn watch(&self, socket: &SeqPacket, id: u32) -> io::Result<()> {
        let events = EventFlags::RDHUP | EventFlags::ONESHOT;
        Ok(epoll::add(&self.set, socket, EventData::new_u64(id.into()), events)?)
    }

    /// The connections that have ended since the last call, or some of them. Never waits.
    pub fn take(&self) -> io::Result<Vec<u32>> {
        let mut events = Vec::with_capacity(AT_ONCE);
        epoll::wait(&self.set, spare_capacity(&mut events), Some(&Timespec::default()))?;
        Ok(events.iter().map(|event| event.data.u64() as u32).collect())
    }
}

impl AsFd for HangUps {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
