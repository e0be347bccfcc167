//! The pipe directory: where it is, what lies in it, which user may have it.
//!
//! One daemon owns a directory. It proves that by a write lock on `control_lock`, which the kernel
//! gives back however the daemon ends; so all other files there while no process holds the lock are
//! left over from a daemon that was killed, and are taken over.
//!
//! The lock is the POSIX kind, over the whole file, as NVIDIA's daemon takes it: the two see each
//! other. Such a lock dies with *any* descriptor of the file that its process closes, so this file
//! is opened here and nowhere else. Only its owner can open it: who could would have the lock once
//! the daemon is gone, and keep every other daemon out.
//!
//! Files are removed by identity (device and inode), never by name alone: a directory that was
//! removed may be another daemon's by now.

use crate::activation;
use crate::error::DirectoryError;
use channel::socket::{FileId, Listener, SeqPacket, file_id};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The directory when `CUDA_MPS_PIPE_DIRECTORY` says nothing.
pub const DEFAULT_PIPE_DIRECTORY: &str = cuda_api::environment::PIPE_DIRECTORY_DEFAULT;

/// Bytes of the longest path of a socket, its closing zero included: `sun_path` of `sockaddr_un`.
pub const SOCKET_PATH_BYTES_MAX: usize = 108;

/// Socket of clients and of commands that need no privilege.
const CONTROL: &str = "control";
/// Socket of commands for the owner of the daemon; the longest name here.
const CONTROL_PRIVILEGED: &str = "control_privileged";
const LOCK: &str = "control_lock";
/// Directories of a daemon's named servers and namespaces lie so many levels below its own.
const NAMED_DEPTH: usize = 2;
const LOG: &str = "log";
const PID: &str = "nvidia-cuda-mps-control.pid";
/// What commands have changed, for the next daemon.
const STATE: &str = "control_state";
/// Modes of the two sockets: all may connect to the one, only the owner and root to the other.
pub(crate) const MODES: [u32; 2] = [0o666, 0o755];
/// How long a socket is tried that may be a daemon's.
const PROBE: std::time::Duration = std::time::Duration::from_secs(1);

/// A pipe directory's paths. Having one says nothing about what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeDirectory(PathBuf);

impl PipeDirectory {
    /// The directory at `path`.
    pub fn new(path: impl Into<PathBuf>) -> PipeDirectory {
        PipeDirectory(path.into())
    }

    /// The directory that `CUDA_MPS_PIPE_DIRECTORY` names, if it names one.
    pub fn from_environment() -> Option<PipeDirectory> {
        std::env::var_os(cuda_api::environment::CUDA_MPS_PIPE_DIRECTORY)
            .filter(|value| !value.is_empty())
            .map(PipeDirectory::new)
    }

    /// The directory that a program finds by itself: the environment's, else
    /// [`DEFAULT_PIPE_DIRECTORY`].
    pub fn found() -> PipeDirectory {
        PipeDirectory::from_environment()
            .unwrap_or_else(|| PipeDirectory::new(DEFAULT_PIPE_DIRECTORY))
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The socket of clients and of commands that need no privilege.
    pub fn control(&self) -> PathBuf {
        self.0.join(CONTROL)
    }

    /// The socket of commands for the owner of the daemon.
    pub fn control_privileged(&self) -> PathBuf {
        self.0.join(CONTROL_PRIVILEGED)
    }

    /// The FIFO that servers write their log lines into.
    pub fn log(&self) -> PathBuf {
        self.0.join(LOG)
    }

    /// The file with the daemon's process id in decimal.
    pub fn pid_file(&self) -> PathBuf {
        self.0.join(PID)
    }

    fn lock_file(&self) -> PathBuf {
        self.0.join(LOCK)
    }

    /// The file in which a daemon leaves for the next one what commands have changed.
    pub(crate) fn state_file(&self) -> PathBuf {
        self.0.join(STATE)
    }

    /// True if a daemon listens here.
    fn has_daemon(&self) -> bool {
        SeqPacket::connect(&self.control(), PROBE).is_ok()
    }

    /// Makes the directory if it is not there, becomes its only daemon and removes what a killed
    /// one left. The lock is held until the returned value is dropped.
    ///
    /// # Errors
    /// [`DirectoryError`]: another instance, no permission, a path too long for a socket, ...
    pub fn occupy(&self) -> Result<Occupied, DirectoryError> {
        self.check_length()?;
        self.check_kind()?;
        self.check_above()?;
        let existed = self.0.is_dir();
        fs::create_dir_all(&self.0).map_err(|error| DirectoryError::at(&self.0, error))?;
        // Once more: what was made meanwhile in the same place is another's.
        self.check_kind()?;
        if !existed {
            // Every user's clients must find the sockets, regardless of the umask.
            rustix::fs::chmod(&self.0, Mode::from_raw_mode(0o755))
                .map_err(|error| DirectoryError::at(&self.0, error.into()))?;
        }
        let lock = self.lock()?;
        self.remove_left_over();
        Ok(Occupied { directory: self.clone(), lock, log: None })
    }

    /// Removes what a killed daemon left, but for its FIFO, which its servers write into, and what
    /// is below. Only for who has the lock.
    fn remove_left_over(&self) {
        let all = [self.pid_file(), self.control(), self.control_privileged()];
        for path in all.into_iter().filter(|path| !activation::has(path)) {
            // What cannot be removed makes itself heard when the new file is made.
            let _ = fs::remove_file(path);
        }
        if !is_own_fifo(&self.log()) {
            let _ = fs::remove_file(self.log());
        }
    }

    /// Removes sockets and logs of named servers that a daemon left, and their directories if these
    /// are empty then; of the names in `stay` nothing. Only for who has the lock.
    pub(crate) fn remove_named_but(&self, stay: &BTreeSet<PathBuf>) {
        remove_named(&self.0, NAMED_DEPTH, stay);
    }

    /// True if a daemon was killed here that no other one has followed.
    pub fn has_dead_daemon(&self) -> bool {
        self.pid_file().exists()
    }

    /// Goes on as its daemon, in the process that has its lock already, and whose files are there.
    pub fn occupied_before(&self, lock: OwnedFd, log: &impl AsFd) -> Occupied {
        Occupied { directory: self.clone(), lock, log: id_of(log).ok() }
    }

    /// A socket's path is bounded by the kernel; better said here than as EINVAL from bind.
    fn check_length(&self) -> Result<(), DirectoryError> {
        let bytes = self.control_privileged().as_os_str().len() + 1;
        if bytes > SOCKET_PATH_BYTES_MAX {
            return Err(DirectoryError::PathTooLong {
                path: self.0.clone(),
                bytes: self.0.as_os_str().len(),
                bytes_max: SOCKET_PATH_BYTES_MAX - 2 - CONTROL_PRIVILEGED.len(),
            });
        }
        Ok(())
    }

    /// Refuses a file, and a symbolic link that is not this user's or root's: its owner could lead
    /// this daemon, and its files, anywhere, and elsewhere soon after.
    fn check_kind(&self) -> Result<(), DirectoryError> {
        let path = self.0.clone();
        if let Ok(link) = fs::symlink_metadata(&path)
            && link.is_symlink()
            && link.uid() != 0
            && link.uid() != rustix::process::geteuid().as_raw()
        {
            return Err(DirectoryError::ForeignLink {
                path,
                owner: crate::users::name(link.uid()),
            });
        }
        match fs::metadata(&path) {
            Ok(there) if !there.is_dir() => Err(DirectoryError::NoDirectory { path }),
            _ => Ok(()),
        }
    }

    /// Refuses a directory below that of a daemon of another process: there are the sockets of its named
    /// servers and namespaces, and a name that it does not know is a mistake.
    fn check_above(&self) -> Result<(), DirectoryError> {
        for above in self.0.ancestors().skip(1).take(NAMED_DEPTH) {
            // The lock file is its owner's alone, so the socket says whether a daemon listens.
            if above.join(LOCK).exists() && PipeDirectory::new(above).has_daemon() {
                return Err(DirectoryError::OfAnother {
                    path: self.0.clone(),
                    above: above.to_owned(),
                });
            }
        }
        Ok(())
    }

    fn lock(&self) -> Result<OwnedFd, DirectoryError> {
        let path = self.lock_file();
        let failed = |error: rustix::io::Errno| DirectoryError::at(&path, error.into());
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o600);
            let file = match rustix::fs::open(&path, flags, mode) {
                // Another user's, whose daemon may run.
                Err(rustix::io::Errno::ACCESS) if path.exists() && self.has_daemon() => {
                    return Err(DirectoryError::AlreadyRunning);
                }
                opened => opened.map_err(failed)?,
            };
            match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
                    return Err(DirectoryError::AlreadyRunning);
                }
                Err(error) => return Err(failed(error)),
            }
            // A daemon that ends removes its lock file before it lets go of it. What was locked
            // here may be that removed file: then the lock is worth nothing, and a new file is due.
            let held = id_of(&file).map_err(|error| DirectoryError::at(&path, error))?;
            match file_id(&path) {
                Ok(there) if there == held => {
                    // One that is left of an older version is open to all; another owner's stays as it is.
                    let _ = rustix::fs::fchmod(&file, mode);
                    return Ok(file);
                }
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(DirectoryError::at(&path, error)),
            }
        }
    }
}

/// A pipe directory that this process is the daemon of.
#[derive(Debug)]
pub struct Occupied {
    directory: PipeDirectory,
    lock: OwnedFd,
    /// The log FIFO's file, once it is made.
    log: Option<FileId>,
}

impl Occupied {
    /// The paths.
    pub fn directory(&self) -> &PipeDirectory {
        &self.directory
    }

    /// Its lock. A copy of the descriptor that is closed lets go of the lock.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Another user, neither root nor this one, that could replace the sockets: the owner's uid.
    pub fn foreign_owner(&self) -> Option<u32> {
        let owner = fs::metadata(&self.directory.0).ok()?.uid();
        (owner != 0 && owner != rustix::process::geteuid().as_raw()).then_some(owner)
    }

    /// Makes the FIFO of server.log and opens both ends: one to read, which never blocks and never
    /// sees an end, and one for servers to write.
    pub fn make_log(&mut self) -> Result<(OwnedFd, OwnedFd), DirectoryError> {
        let (reader, writer) = make_fifo(&self.directory.log())?;
        self.log = id_of(&reader).ok();
        Ok((reader, writer))
    }

    /// True if the directory is still this daemon's: its lock file is the one at the path.
    pub fn is_in_place(&self) -> bool {
        is_file_of(&self.directory.lock_file(), id_of(&self.lock).ok())
    }

    /// Makes the directory and the lock file anew that another process has removed.
    ///
    /// # Errors
    /// [`DirectoryError::AlreadyRunning`]: it is another daemon's by now.
    pub fn occupy_again(&mut self) -> Result<(), DirectoryError> {
        *self = self.directory.occupy()?;
        Ok(())
    }

    /// True if the pid file is this daemon's.
    pub fn has_pid(&self) -> bool {
        let text = fs::read_to_string(self.directory.pid_file()).unwrap_or_default();
        text.trim() == std::process::id().to_string()
    }

    /// Writes the pid file. Last of all, so that it says the daemon is there.
    pub fn write_pid(&self) -> Result<(), DirectoryError> {
        let path = self.directory.pid_file();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644))
            .map_err(|error| DirectoryError::at(&path, error.into()))?;
        let text = format!("{}\n", std::process::id());
        rustix::io::write(&file, text.as_bytes())
            .map_err(|error| DirectoryError::at(&path, error.into()))?;
        Ok(())
    }
}

/// Which file is open.
fn id_of(file: &impl AsFd) -> io::Result<FileId> {
    let open = rustix::fs::fstat(file)?;
    Ok((open.st_dev, open.st_ino))
}

/// True if a path leads to that file.
fn is_file_of(path: &Path, file: Option<FileId>) -> bool {
    file.is_some() && file_id(path).ok() == file
}

/// Makes a FIFO and opens both ends: one to read, which never blocks and never sees an end, and one for
/// servers to write, which inherit it. No other user can open it: its lines would look like a server's.
pub(crate) fn make_fifo(path: &Path) -> Result<(OwnedFd, OwnedFd), DirectoryError> {
    let failed = |error: rustix::io::Errno| DirectoryError::at(path, error.into());
    let mode = Mode::from_raw_mode(0o600);
    if !is_own_fifo(path) {
        // What else is there is no daemon's of this user.
        let _ = fs::remove_file(path);
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0).map_err(failed)?;
    }
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let reader = rustix::fs::open(path, OFlags::RDONLY | flags, Mode::empty()).map_err(failed)?;
    rustix::fs::fchmod(&reader, mode).map_err(failed)?;
    let writer = rustix::fs::open(path, OFlags::WRONLY | flags, Mode::empty()).map_err(failed)?;
    Ok((reader, writer))
}

/// True for a FIFO that this user has made.
fn is_own_fifo(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let there = fs::symlink_metadata(path);
    there.is_ok_and(|there| there.file_type().is_fifo() && there.uid() == own)
}

/// A socket's path is bounded by the kernel; better said here than as EINVAL from bind.
pub(crate) fn check_socket_path(path: &Path) -> Result<(), DirectoryError> {
    let bytes = path.as_os_str().len();
    match bytes < SOCKET_PATH_BYTES_MAX {
        true => Ok(()),
        false => Err(DirectoryError::PathTooLong {
            path: path.to_owned(),
            bytes,
            bytes_max: SOCKET_PATH_BYTES_MAX - 1,
        }),
    }
}

/// Removes what a daemon has made of named servers: sockets and logs in directories below, `depth`
/// levels deep, and those of these directories that are empty then, but none that is to stay. Links
/// are not followed.
fn remove_named(directory: &Path, depth: usize, stay: &BTreeSet<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if depth == 0 || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let below = entry.path();
        if stay.contains(&below) {
            remove_named(&below, depth - 1, stay);
            continue;
        }
        for name in [CONTROL, LOG] {
            let file = below.join(name);
            let made = fs::symlink_metadata(&file).is_ok_and(|there| {
                use std::os::unix::fs::FileTypeExt;
                there.file_type().is_socket() || there.file_type().is_fifo()
            });
            if made {
                let _ = fs::remove_file(file);
            }
        }
        remove_named(&below, depth - 1, stay);
        let _ = fs::remove_dir(below);
    }
}

impl Drop for Occupied {
    /// The lock file goes last, while the lock is still held: see [`PipeDirectory::lock`]. What another
    /// daemon has made in the same place stays. Sockets are removed with their listeners.
    fn drop(&mut self) {
        if self.has_pid() {
            let _ = fs::remove_file(self.directory.pid_file());
        }
        if is_file_of(&self.directory.log(), self.log) {
            let _ = fs::remove_file(self.directory.log());
        }
        if self.is_in_place() {
            let _ = fs::remove_file(self.directory.lock_file());
        }
    }
}

/// Takes the service manager's socket, if it listens there. Else listens under another name first: a process
/// that sees the socket under its own can connect.
pub(crate) fn listen(path: &Path, mode: u32) -> Result<Listener, DirectoryError> {
    let failed = |error| DirectoryError::at(path, error);
    if let Some(taken) = activation::take(path) {
        return taken.map_err(failed);
    }
    let unfinished = path.with_file_name("new");
    let _ = std::fs::remove_file(&unfinished);
    let listener = Listener::bind(&unfinished, mode).map_err(failed)?;
    listener.rename(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("openmps-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn a_directory_is_made_filled_and_emptied() {
        let directory = PipeDirectory::new(scratch("filled"));
        let mut occupied = directory.occupy().unwrap();
        let (reader, writer) = occupied.make_log().unwrap();
        occupied.write_pid().unwrap();
        rustix::io::write(&writer, b"hello").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(rustix::io::read(&reader, &mut buffer).unwrap(), 5);
        let pid = fs::read_to_string(directory.pid_file()).unwrap();
        assert_eq!(pid.trim(), std::process::id().to_string());
        let mode = |path| fs::symlink_metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(directory.log()), 0o600);
        assert_eq!(mode(directory.lock_file()), 0o600);
        drop(occupied);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn leftovers_are_taken_over() {
        let directory = PipeDirectory::new(scratch("leftovers"));
        fs::create_dir_all(directory.path()).unwrap();
        for file in
            [directory.control(), directory.pid_file(), directory.lock_file(), directory.log()]
        {
            fs::write(file, "999999\n").unwrap();
        }
        let mut occupied = directory.occupy().unwrap();
        assert!(!directory.control().exists() && !directory.log().exists());
        // Servers of a daemon that was killed go on writing into its FIFO.
        let inode = |_: &(OwnedFd, OwnedFd)| fs::symlink_metadata(directory.log()).unwrap().ino();
        let of_first = inode(&occupied.make_log().unwrap());
        fs::write(directory.pid_file(), "999999\n").unwrap();
        assert!(directory.has_dead_daemon());
        directory.remove_left_over();
        assert_eq!(inode(&occupied.make_log().unwrap()), of_first);
        drop(occupied);
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn files_of_another_daemon_in_the_same_place_stay() {
        let directory = PipeDirectory::new(scratch("moved"));
        let mut first = directory.occupy().unwrap();
        let _log = first.make_log().unwrap();
        first.write_pid().unwrap();
        fs::remove_dir_all(directory.path()).unwrap();
        assert!(!first.is_in_place() && !first.has_pid());
        fs::create_dir(directory.path()).unwrap();
        let another = [directory.lock_file(), directory.pid_file(), directory.log()];
        for file in &another {
            fs::write(file, "999999\n").unwrap();
        }
        drop(first);
        assert!(another.iter().all(|file| file.exists()), "another's");
        // A directory that no other daemon has is made anew.
        let mut first = directory.occupy().unwrap();
        fs::remove_dir_all(directory.path()).unwrap();
        first.occupy_again().unwrap();
        assert!(first.is_in_place());
        drop(first);
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn too_long_a_path_is_named_with_its_limit() {
        let directory = PipeDirectory::new(format!("/tmp/{}", "x".repeat(90)));
        let error = directory.occupy().unwrap_err().to_string();
        assert!(error.contains("95 bytes") && error.contains("at most 88"), "{error}");
    }
}
