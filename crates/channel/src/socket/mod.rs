//! SOCK_SEQPACKET sockets: whole messages, file descriptors beside them, credentials of the peer.
//!
//! A connection stays open for life; that it hangs up is how each side learns of the other's end. It
//! speaks the version of the last message that it received; before any, this build's newest.

mod hang_ups;
mod listener;
mod poll;
mod raw;
#[cfg(test)]
mod tests;

pub use hang_ups::HangUps;
pub use listener::{FileId, Listener, file_id};
pub use poll::{Interest, Readiness, poll};

use crate::PROTOCOL_VERSION;
use crate::message::{FDS_MAX, MESSAGE_BYTES_MAX, Message, MessageError};
use core::fmt;
use core::sync::atomic::{AtomicU16, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;

/// Longest path of a socket, bytes: sun_path without its NUL.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Who is at the other end, as the kernel says: at the time of connecting, or of making the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Process id; 0 if the process is not visible from this PID namespace.
    pub pid: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Why nothing was received.
#[derive(Debug)]
pub enum ReceiveError {
    /// The peer closed the connection.
    Closed,
    /// The timeout passed, or a non-blocking socket has nothing.
    TimedOut,
    /// The datagram is longer than [`MESSAGE_BYTES_MAX`].
    TooLong,
    /// It came with more than [`FDS_MAX`] file descriptors, or this process can have no more.
    Fds,
    /// It is no message.
    Message(MessageError),
    /// The system said no.
    Io(io::Error),
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::TimedOut => f.write_str("the peer says nothing"),
            Self::TooLong => {
                write!(f, "a message is above the maximum of {MESSAGE_BYTES_MAX} bytes")
            }
            Self::Fds => write!(
                f,
                "file descriptors were lost: more than {FDS_MAX} in a message, or no room for them"
            ),
            Self::Message(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ReceiveError {}

/// A connected socket.
#[derive(Debug)]
pub struct SeqPacket {
    fd: OwnedFd,
    /// The version that is spoken; one for all clones.
    version: Arc<AtomicU16>,
}

/// Makes an attempt to speak with a peer in this build's newest version, and another one in the version
/// in which it was answered if that is older. The attempt gets the version, and leaves there the one that
/// its connection speaks at the end ([`SeqPacket::speaks`]).
pub fn in_their_version<T, E>(mut attempt: impl FnMut(&mut u16) -> Result<T, E>) -> Result<T, E> {
    let mut version = PROTOCOL_VERSION;
    loop {
        let said = version;
        let outcome = attempt(&mut version);
        if outcome.is_ok() || version >= said {
            return outcome;
        }
    }
}

/// A descriptor that another program left open in this process before it became this one (exec): closed
/// on exec from now on.
///
/// # Errors
/// `InvalidInput` for one that this program itself has opened.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    raw::inherited(fd)
}

impl SeqPacket {
    fn new(fd: OwnedFd) -> Self {
        Self { fd, version: Arc::new(AtomicU16::new(PROTOCOL_VERSION)) }
    }

    /// The version of the protocol that it speaks.
    pub fn speaks(&self) -> u16 {
        self.version.load(Ordering::Relaxed)
    }

    /// Has it speak a version: one that the peer is known to speak.
    pub fn speak(&self, version: u16) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// Connects to a listening socket.
    ///
    /// # Errors
    /// `InvalidInput` for a path longer than [`SOCKET_PATH_BYTES_MAX`], `NotFound` and
    /// `ConnectionRefused` if no process listens, `WouldBlock` if the listener's queue stays full
    /// for `timeout`.
    pub fn connect(path: &Path, timeout: Duration) -> io::Result<Self> {
        let socket = Self::new(raw::socket()?);
        socket.set_send_timeout(Some(timeout))?;
        raw::connect(&socket.fd, path)?;
        socket.set_send_timeout(None)?;
        Ok(socket)
    }

    /// Two sockets that are connected to each other.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, two) = raw::pair()?;
        Ok((Self::new(one), Self::new(two)))
    }

    /// Takes a descriptor that was inherited or received.
    ///
    /// # Errors
    /// `InvalidInput` if it is no connected SOCK_SEQPACKET socket of AF_UNIX.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        if !raw::is_connection(&fd)? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a connected SOCK_SEQPACKET socket of AF_UNIX",
            ));
        }
        Ok(Self::new(fd))
    }

    /// The connection that this process' parent gave it as descriptor number `fd`. That number
    /// stays open too, for the life of the process, but closes on exec.
    ///
    /// # Errors
    /// `InvalidInput` for 0, 1, 2 and for what [`SeqPacket::from_fd`] refuses.
    pub fn inherit(fd: RawFd) -> io::Result<Self> {
        if fd <= 2 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("descriptor {fd} is no inherited socket"),
            ));
        }
        Self::from_fd(raw::inherit(fd)?)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// `InvalidInput` for a message that cannot be encoded or comes with another number of
    /// descriptors than [`Message::fds`]; `WouldBlock` if the peer's queue stays full.
    pub fn send(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if fds.len() != message.fds() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                MessageError::Fds { kind: message.kind(), found: fds.len() },
            ));
        }
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let bytes = message.encode_for(self.speaks()).map_err(invalid)?;
        self.send_bytes(&bytes, fds)
    }

    /// Sends a datagram, which must not be empty, with at most [`FDS_MAX`] descriptors.
    pub fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        raw::send(&self.fd, bytes, fds)
    }

    /// Receives a message with the descriptors that belong to it.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub fn receive(&self) -> Result<(Message, Vec<OwnedFd>), ReceiveError> {
        let (bytes, fds) = self.receive_bytes()?;
        let (message, version) =
            Message::decode_with_version(&bytes).map_err(ReceiveError::Message)?;
        self.speak(version);
        if fds.len() != message.fds() {
            let error = MessageError::Fds { kind: message.kind(), found: fds.len() };
            return Err(ReceiveError::Message(error));
        }
        Ok((message, fds))
    }

    /// Receives a datagram.
    ///
    /// # Errors
    /// See [`ReceiveError`].
    pub fn receive_bytes(&self) -> Result<(Vec<u8>, Vec<OwnedFd>), ReceiveError> {
        raw::receive(&self.fd)
    }

    /// How long [`SeqPacket::receive`] waits; `None`: for ever.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        raw::set_timeout(&self.fd, raw::Timeout::Recv, timeout)
    }

    /// How long [`SeqPacket::send`] waits; `None`: for ever.
    pub fn set_send_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        raw::set_timeout(&self.fd, raw::Timeout::Send, timeout)
    }

    /// Makes all calls return at once (`WouldBlock`, [`ReceiveError::TimedOut`]).
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        raw::set_nonblocking(&self.fd, nonblocking)
    }

    /// Who is at the other end.
    pub fn peer_credentials(&self) -> io::Result<PeerCredentials> {
        raw::peer_credentials(&self.fd)
    }

    /// True if the peer closed the connection or ended. One system call, which never waits.
    pub fn is_hung_up(&self) -> bool {
        match poll(&[Interest::hang_up(self)], Some(Duration::ZERO)) {
            Ok(ready) => ready.iter().any(|r| r.hung_up),
            Err(_) => false,
        }
    }

    /// Ends the connection for both sides, even if other processes hold the descriptor.
    pub fn shut_down(&self) {
        raw::shut_down(&self.fd);
    }

    /// The same connection once more, for another thread.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, version: self.version.clone() })
    }

    /// The descriptor.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for SeqPacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for SeqPacket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
