//! Listener: a listening socket with a path.

use super::{SeqPacket, raw};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted: a burst of programs started together.
const BACKLOG: i32 = 1024;

/// Which file a path leads to: device and inode.
pub type FileId = (u64, u64);

/// Which file is at a path; a symbolic link is not followed.
///
/// # Errors
/// Those of the system: nothing is there.
pub fn file_id(path: &Path) -> io::Result<FileId> {
    fs::symlink_metadata(path).map(|there| (there.dev(), there.ino()))
}

/// A listening socket, which never waits: [`Listener::accept`] after [`poll`](super::poll()). Its
/// file is removed when it is dropped; a file that another process has put at its path is not. The
/// socket keeps its file's inode, so no other file has the same identity meanwhile.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    path: PathBuf,
    file: FileId,
    /// The file is another one's, and stays.
    stays: bool,
}

impl Listener {
    /// Listens at `path` with the permissions `mode`. Nothing may be there: who takes over a stale
    /// path removes it first.
    ///
    /// # Errors
    /// `AddrInUse` if something is there, `InvalidInput` for a path longer than
    /// [`SOCKET_PATH_BYTES_MAX`](super::SOCKET_PATH_BYTES_MAX).
    pub fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        let fd = raw::socket()?;
        raw::set_nonblocking(&fd, true)?;
        raw::bind(&fd, path)?;
        // From here on the path is removed if anything fails. No peer can connect before listen.
        let listener = Self { fd, path: path.to_owned(), file: file_id(path)?, stays: false };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        raw::listen(&listener.fd, BACKLOG)?;
        Ok(listener)
    }

    /// A socket that listens at `path` already, from another program of this process; `file` is the
    /// socket's file.
    ///
    /// # Errors
    /// Those of the system.
    pub fn from_fd(fd: OwnedFd, path: &Path, file: FileId) -> io::Result<Self> {
        raw::set_nonblocking(&fd, true)?;
        Ok(Self { fd, path: path.to_owned(), file, stays: false })
    }

    /// The same socket, whose file stays when it is closed: another process listens there too.
    #[must_use]
    pub fn staying(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Whether its file stays.
    pub fn stays(&self) -> bool {
        self.stays
    }

    /// Moves its file to another path of the directory, in place of what is there.
    ///
    /// # Errors
    /// Those of the system.
    pub fn rename(mut self, path: &Path) -> io::Result<Self> {
        fs::rename(&self.path, path)?;
        path.clone_into(&mut self.path);
        Ok(self)
    }

    /// The next connection; `None` if there is none at present.
    pub fn accept(&self) -> io::Result<Option<SeqPacket>> {
        loop {
            match raw::accept(&self.fd) {
                Ok(fd) => return Ok(Some(SeqPacket::new(fd))),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    // The client gave up before it was accepted: see whether there is another.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its file.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// True if its path still leads to it: processes that connect there reach this socket.
    pub fn is_in_place(&self) -> bool {
        file_id(&self.path).is_ok_and(|there| there == self.file)
    }

    /// Removes its file, unless another one is at its path.
    pub fn unlink(&self) {
        if !self.stays && self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.unlink();
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
