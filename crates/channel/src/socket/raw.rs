//! System calls of sockets: one function each.

use super::{PeerCredentials, ReceiveError, SOCKET_PATH_BYTES_MAX};
use crate::message::{FDS_MAX, MESSAGE_BYTES_MAX};
use core::mem::{offset_of, size_of, zeroed};
use core::time::Duration;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Ancillary data with [`FDS_MAX`] descriptors, aligned as the kernel wants it.
const CONTROL_WORDS: usize = {
    // SAFETY: CMSG_SPACE is arithmetic.
    let bytes = unsafe { libc::CMSG_SPACE((FDS_MAX * size_of::<RawFd>()) as u32) } as usize;
    bytes.div_ceil(8)
};

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A new socket, closed on exec.
pub(super) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
    let fd = check(fd)?;
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `fds` has room for two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: both descriptors were just made and have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// A duplicate of an inherited descriptor; both are closed on exec.
pub(super) fn inherit(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; fails with EBADF if the number is no open descriptor.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: no pointers.
    let copy = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// A descriptor that another program left open in this process before it became this one; closed on
/// exec from now on.
pub(super) fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; fails with EBADF if the number is no open descriptor.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
    if fd <= 2 || flags & libc::FD_CLOEXEC != 0 {
        // What this program has opened itself is closed on exec.
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("descriptor {fd} was not handed over"),
        ));
    }
    // SAFETY: no pointers; the number is an open descriptor.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open and this program has not opened it, so that nothing of it is its
    // owner; it is not given out twice, as it is closed on exec now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
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
    // SAFETY: zeros are a value of sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let length = offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
    Ok((address, length as libc::socklen_t))
}

pub(super) fn connect(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    let (address, length) = address(path)?;
    loop {
        // SAFETY: `address` is readable for `length` bytes, at most its size.
        let result = unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), length) };
        match check(result) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn bind(fd: &OwnedFd, path: &Path) -> io::Result<()> {
    let (address, length) = address(path)?;
    // SAFETY: as in `connect`.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(())
}

pub(super) fn listen(fd: &OwnedFd, backlog: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
    Ok(())
}

pub(super) fn accept(fd: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: null addresses ask for none.
    let fd = unsafe {
        libc::accept4(
            fd.as_raw_fd(),
            core::ptr::null_mut(),
            core::ptr::null_mut(),
            libc::SOCK_CLOEXEC,
        )
    };
    let fd = check(fd)?;
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn set_nonblocking(fd: &OwnedFd, nonblocking: bool) -> io::Result<()> {
    let mut value = i32::from(nonblocking);
    // SAFETY: FIONBIO reads an int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &mut value) })?;
    Ok(())
}

pub(super) fn shut_down(fd: &OwnedFd) {
    // SAFETY: no pointers. The one failure is that no peer is connected any more.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
}

/// An option of the socket.
///
/// # Safety
/// Any bytes are a value of `T`.
unsafe fn option<T>(fd: &OwnedFd, name: i32) -> io::Result<T> {
    // SAFETY: by the caller, zeros are a value.
    let mut value: T = unsafe { zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `length` bytes, which the kernel does not exceed.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &mut length,
        )
    })?;
    Ok(value)
}

pub(super) fn option_i32(fd: &OwnedFd, name: i32) -> io::Result<i32> {
    // SAFETY: any bytes are a number.
    unsafe { option(fd, name) }
}

pub(super) fn peer_credentials(fd: &OwnedFd) -> io::Result<PeerCredentials> {
    // SAFETY: ucred is three numbers.
    let ucred: libc::ucred = unsafe { option(fd, libc::SO_PEERCRED) }?;
    Ok(PeerCredentials {
        pid: u32::try_from(ucred.pid).unwrap_or(0),
        uid: ucred.uid,
        gid: ucred.gid,
    })
}

pub(super) fn set_timeout(fd: &OwnedFd, name: i32, timeout: Option<Duration>) -> io::Result<()> {
    // A timeout of zero means none to the kernel; the least that is one is a microsecond.
    let timeout = timeout.map_or(Duration::ZERO, |t| t.max(Duration::from_micros(1)));
    let value = libc::timeval {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: libc::suseconds_t::from(timeout.subsec_micros() as i32),
    };
    // SAFETY: `value` is readable for its size.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw const value).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        )
    })?;
    Ok(())
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
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: zeros are a value of msghdr.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    if !fds.is_empty() {
        let data = size_of_val(fds) as u32;
        const _: () = assert!(size_of::<BorrowedFd<'_>>() == size_of::<RawFd>());
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE is arithmetic; for at most FDS_MAX descriptors it is within `control`.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(data) } as usize;
        // SAFETY: `header` has a control buffer with room for one header and `fds.len()`
        // descriptors, so the first header is there and its data are writable.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(data) as usize;
            let slots: *mut RawFd = libc::CMSG_DATA(first).cast();
            for (i, fd) in fds.iter().enumerate() {
                slots.add(i).write_unaligned(fd.as_raw_fd());
            }
        }
    }
    loop {
        // SAFETY: all that `header` points to lives in this function; the kernel only reads it.
        let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

pub(super) fn receive(fd: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>), ReceiveError> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut control = [0u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: zeros are a value of msghdr.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    let received = loop {
        // SAFETY: all that `header` points to lives in this function and is writable.
        let received =
            unsafe { libc::recvmsg(fd.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
        if let Ok(received) = usize::try_from(received) {
            break received;
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => return Err(ReceiveError::TimedOut),
            io::ErrorKind::ConnectionReset => return Err(ReceiveError::Closed),
            _ => return Err(ReceiveError::Io(error)),
        }
    };
    // First of all take the descriptors, so that each is closed regardless of what comes next.
    // SAFETY: recvmsg filled `header` and `control`.
    let fds = unsafe { take_fds(&header) };
    if received == 0 {
        return Err(ReceiveError::Closed);
    }
    if header.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(ReceiveError::TooLong);
    }
    if header.msg_flags & libc::MSG_CTRUNC != 0 || fds.len() > FDS_MAX {
        return Err(ReceiveError::Fds);
    }
    bytes.truncate(received);
    bytes.shrink_to_fit();
    Ok((bytes, fds))
}

/// Takes ownership of all descriptors that came with a datagram.
///
/// # Safety
/// `header` was filled by a successful recvmsg, its control buffer is still there, and the
/// descriptors were not taken before.
unsafe fn take_fds(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: by the caller, the macros walk headers that the kernel wrote within the buffer.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while !next.is_null() {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*next).cmsg_len - libc::CMSG_LEN(0) as usize;
                let data: *const RawFd = libc::CMSG_DATA(next).cast();
                for i in 0..bytes / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    fds
}
