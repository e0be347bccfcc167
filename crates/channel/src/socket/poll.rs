//! Waiting for several descriptors at once.

use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A descriptor and what is awaited of it.
#[derive(Clone, Copy, Debug)]
pub struct Interest<'a> {
    fd: BorrowedFd<'a>,
    events: PollFlags,
}

impl<'a> Interest<'a> {
    /// Something to receive or accept, or the peer's end.
    pub fn readable(fd: &'a impl AsFd) -> Self {
        Self { fd: fd.as_fd(), events: PollFlags::IN | PollFlags::RDHUP }
    }

    /// Room to send, or the peer's end.
    pub fn writable(fd: &'a impl AsFd) -> Self {
        Self { fd: fd.as_fd(), events: PollFlags::OUT | PollFlags::RDHUP }
    }

    /// The peer's end only.
    pub fn hang_up(fd: &'a impl AsFd) -> Self {
        Self { fd: fd.as_fd(), events: PollFlags::RDHUP }
    }
}

/// What happened at a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to receive or accept. Only if it was asked for.
    pub readable: bool,
    /// There is room to send. Only if it was asked for.
    pub writable: bool,
    /// The peer closed the connection or ended. What it sent before can still be received.
    pub hung_up: bool,
}

/// Waits until something happens at one of the descriptors, at most `timeout` (`None`: for ever).
/// The answer has an entry for each interest; a signal ends the wait with nothing in any.
pub fn poll(interests: &[Interest<'_>], timeout: Option<Duration>) -> io::Result<Vec<Readiness>> {
    let mut fds: Vec<PollFd<'_>> =
        interests.iter().map(|i| PollFd::from_borrowed_fd(i.fd, i.events)).collect();
    // Longer than the system can wait is for ever.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => fds.iter_mut().for_each(PollFd::clear_revents),
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR | PollFlags::NVAL;
    let readiness = |fd: &PollFd<'_>| Readiness {
        readable: fd.revents().contains(PollFlags::IN),
        writable: fd.revents().contains(PollFlags::OUT),
        hung_up: fd.revents().intersects(gone),
    };
    Ok(fds.iter().map(readiness).collect())
}
