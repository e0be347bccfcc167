//! System calls of sockets: one function each.

use super::{PeerCredentials, ReceiveError, SOCKET_PATH_BYTES_MAX};
use crate::message::{FDS_MAX, MESSAGE_BYTES_MAX};
use crate::system::open_descriptor;
use core::mem::{MaybeUninit, size_of};
use core::time::Duration;
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd, ioctl_fionbio};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType, recvmsg, sendmsg, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(super) use rustix::net::sockopt::Timeout;

/// Bytes of ancillary data with [`FDS_MAX`] descriptors.
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(FDS_MAX));

/// A new socket, closed on exec.
pub(super) fn socket() -> io::Result<OwnedFd> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    Ok(rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?)
}

/// A duplicate of an inherited descriptor; both are closed on exec.
pub(super) fn inherit(fd: RawFd) -> io::Result<OwnedFd> {
    let fd = open_descriptor(fd)?;
    fcntl_setfd(fd, FdFlags::CLOEXEC)?;
    Ok(fcntl_dupfd_cloexec(fd, 3)?)
}

/// A descriptor that another program left open in this process before it became this one; closed on
/// exec from now on.
pub(super) fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    if fd <= 2 || fcntl_getfd(open_descriptor(fd)?)?.contains(FdFlags::CLOEXEC) {
        // What this program has opened itself is closed on exec.
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("descriptor {fd} was not handed over"),
        ));
    }
    // SAFETY: the descriptor is open and this program has not opened it, so that nothing of it is its
    // owner; it is not given out twice, as it is closed on exec from here on.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    Ok(fd)
}

fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.len() > SOCKET_PATH_BYTES_MAX || bytes.contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{}: a socket's path has 1 to {SOCKET_PATH_BYTES_MAX} bytes, this one has {}",
                path.display(),
                bytes.len()
            ),
        ));
    }
    Ok(SocketAddrUnix::new(path)?)
}

pub(super) fn connect(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    let address = address(path)?;
    Ok(rustix::io::retry_on_intr(|| rustix::net::connect(fd, &address))?)
}

pub(super) fn bind(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    Ok(rustix::net::bind(fd, &address(path)?)?)
}

pub(super) fn listen(fd: &OwnedFd, backlog: i32) -> io::Result<()> {
    Ok(rustix::net::listen(fd, backlog)?)
}

pub(super) fn accept(fd: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(fd, SocketFlags::CLOEXEC)?)
}

pub(super) fn set_nonblocking(fd: &OwnedFd, nonblocking: bool) -> io::Result<()> {
    Ok(ioctl_fionbio(fd, nonblocking)?)
}

pub(super) fn shut_down(fd: &OwnedFd) {
    // The one failure is that no peer is connected any more.
    let _ = rustix::net::shutdown(fd, Shutdown::Both);
}

/// True for a connected or connecting socket of datagrams in order, which is no listener.
pub(super) fn is_connection(fd: &OwnedFd) -> io::Result<bool> {
    Ok(sockopt::socket_type(fd)? == SocketType::SEQPACKET
        && sockopt::socket_domain(fd)? == AddressFamily::UNIX
        && !sockopt::socket_acceptconn(fd)?)
}

pub(super) fn peer_credentials(fd: &OwnedFd) -> io::Result<PeerCredentials> {
    // Not rustix's: a peer of another PID namespace has process ID 0, which its type excludes.
    let mut ucred = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let value = (&raw mut ucred).cast();
    // SAFETY: `ucred` is writable for `length` bytes, which the kernel does not exceed.
    if unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value, &mut length) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerCredentials {
        pid: u32::try_from(ucred.pid).unwrap_or(0),
        uid: ucred.uid,
        gid: ucred.gid,
    })
}

pub(super) fn set_timeout(
    fd: &OwnedFd,
    which: Timeout,
    timeout: Option<Duration>,
) -> io::Result<()> {
    // A timeout of zero means none to the kernel; the least that is one is a microsecond.
    let timeout = timeout.map(|t| t.max(Duration::from_micros(1)));
    Ok(sockopt::set_socket_timeout(fd, which, timeout)?)
}

pub(super) fn send(fd: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    // An empty datagram looks like the end of the connection.
    if bytes.is_empty() || bytes.len() > MESSAGE_BYTES_MAX || fds.len() > FDS_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a datagram has 1 to {MESSAGE_BYTES_MAX} bytes and up to {FDS_MAX} descriptors, \
                 not {} and {}",
                bytes.len(),
                fds.len()
            ),
        ));
    }
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(fds));
        debug_assert!(fits, "there is room for FDS_MAX");
    }
    let parts = [IoSlice::new(bytes)];
    let sent = rustix::io::retry_on_intr(|| sendmsg(fd, &parts, &mut control, SendFlags::NOSIGNAL));
    Ok(sent.map(drop)?)
}

pub(super) fn receive(fd: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>), ReceiveError> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    // Closes the descriptors that are not taken out of it.
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        match recvmsg(fd, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Err(ReceiveError::TimedOut),
            Err(Errno::CONNRESET) => return Err(ReceiveError::Closed),
            Err(error) => return Err(ReceiveError::Io(error.into())),
        }
    };
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds: Vec<OwnedFd> = rights.flatten().collect();
    if received.bytes == 0 {
        return Err(ReceiveError::Closed);
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(ReceiveError::TooLong);
    }
    if received.flags.contains(ReturnFlags::CTRUNC) || fds.len() > FDS_MAX {
        return Err(ReceiveError::Fds);
    }
    bytes.truncate(received.bytes);
    bytes.shrink_to_fit();
    Ok((bytes, fds))
}
