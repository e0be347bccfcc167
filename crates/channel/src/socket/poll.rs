//! Waiting for several descriptors at once.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// A descriptor and what is awaited of it.
#[derive(Clone, Copy, Debug)]
pub struct Interest<'a> {
    fd: BorrowedFd<'a>,
    events: i16,
}

impl<'a> Interest<'a> {
    /// Something to receive or accept, or the peer's end.
    pub fn readable(fd: &'a impl AsFd) -> Self {
        Self { fd: fd.as_fd(), events: libc::POLLIN | libc::POLLRDHUP }
    }

    /// Room to send, or the peer's end.
    pub fn writable(fd: &'a impl AsFd) -> Self {
        Self { fd: fd.as_fd(), events: libc::POLLOUT | libc::POLLRDHUP }
    }

    /// The peer's end only.
    pub fn hang_up(fd: &'a impl AsFd) -> Self {
        Self { fd: fd.as_fd(), events: libc::POLLRDHUP }
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
    let mut fds: Vec<libc::pollfd> = interests
        .iter()
        .map(|i| libc::pollfd { fd: i.fd.as_raw_fd(), events: i.events, revents: 0 })
        .collect();
    let timeout = timeout.map(|t| libc::timespec {
        tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(t.subsec_nanos() as i32),
    });
    let timeout = timeout.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: `fds` is writable for its length; the timeout is null or points to a local variable;
    // a null signal mask changes none.
    let result = unsafe {
        libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout, core::ptr::null())
    };
    if result < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        fds.iter_mut().for_each(|fd| fd.revents = 0);
    }
    let gone = libc::POLLHUP | libc::POLLRDHUP | libc::POLLERR | libc::POLLNVAL;
    Ok(fds
        .iter()
        .map(|fd| Readiness {
            readable: fd.revents & libc::POLLIN != 0,
            writable: fd.revents & libc::POLLOUT != 0,
            hung_up: fd.revents & gone != 0,
        })
        .collect())
}
