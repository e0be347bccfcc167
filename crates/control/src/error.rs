//! What can go wrong in starting a daemon or reaching one. A message says what was wrong, with the
//! value, and what to do.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a pipe directory could not be had.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// The text is the one that NVIDIA's daemon gives, for the scripts that look for it.
    #[error("An instance of this daemon is already running")]
    AlreadyRunning,
    /// A socket in the directory could not be named.
    #[error(
        "the pipe directory {} has {bytes} bytes, a socket's path allows at most {bytes_max}: set \
         CUDA_MPS_PIPE_DIRECTORY to a shorter one", path.display()
    )]
    PathTooLong {
        /// The directory.
        path: PathBuf,
        /// Bytes of its path.
        bytes: usize,
        /// Bytes that its path may have.
        bytes_max: usize,
    },
    /// Permission.
    #[error(
        "no permission for {} (as user {user}): set CUDA_MPS_PIPE_DIRECTORY to a directory that \
         this user may write", path.display()
    )]
    NoPermission {
        /// What could not be made or opened.
        path: PathBuf,
        /// Effective user id of this process.
        user: u32,
    },
    /// A file is where the directory should be.
    #[error(
        "the pipe directory {} is a file: set CUDA_MPS_PIPE_DIRECTORY to a directory, or to a path \
         at which one can be made", path.display()
    )]
    NoDirectory {
        /// The directory that was wanted.
        path: PathBuf,
    },
    /// It lies in that of another daemon.
    #[error(
        "{} is in the pipe directory of the daemon in {}, which has no server or namespace of that name: \
         `client list`, `server list` and `namespace list` say what it has", path.display(), above.display()
    )]
    OfAnother {
        /// The directory that was wanted.
        path: PathBuf,
        /// That daemon's.
        above: PathBuf,
    },
    /// Another user's symbolic link.
    #[error(
        "the pipe directory {} is a symbolic link of {owner}'s, who could lead this daemon anywhere: \
         remove it, or set CUDA_MPS_PIPE_DIRECTORY to another directory", path.display()
    )]
    ForeignLink {
        /// The directory that was wanted.
        path: PathBuf,
        /// Whose link it is.
        owner: String,
    },
    /// No room.
    #[error("no room for {}: the file system is full", path.display())]
    Full {
        /// What could not be made.
        path: PathBuf,
    },
    /// Anything else.
    #[error("{}: {error}", path.display())]
    Other {
        /// What could not be made or opened.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl DirectoryError {
    /// The error for `error` met at `path`.
    pub fn at(path: &Path, error: io::Error) -> DirectoryError {
        let path = path.to_path_buf();
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                DirectoryError::NoPermission { path, user: rustix::process::geteuid().as_raw() }
            }
            io::ErrorKind::NotADirectory => DirectoryError::NoDirectory { path },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                DirectoryError::Full { path }
            }
            _ => DirectoryError::Other { path, error },
        }
    }
}

/// Why a file was not applied.
#[derive(Debug, Error)]
pub enum ConfigurationError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// What it says is wrong; the line and what is allowed are in the text.
    #[error("{}: {text}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line and reason.
        text: String,
    },
}
