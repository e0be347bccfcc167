//! Sockets and logs of named servers: `<server>/control`, `<server>/<namespace>/control`, `<server>/log`.

use super::name::DEFAULT_NAMESPACE;
use crate::directory::{MODES, listen, make_fifo};
use crate::error::DirectoryError;
use crate::log::{LineAssembler, LogFile};
use channel::socket::{Listener, file_id};
use locks::Mutex;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The FIFO that a server's processes write their log into.
const LOG: &str = "log";
/// Reads of one log before others have their turn.
const READS_MAX: usize = 64;

/// The named server and the namespace that a client chose by the socket that it came by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Number of the named server; 0: the user's own, of protocol 2.
    pub named: u32,
    pub namespace: String,
    /// It came by the daemon's own socket and is in no namespace by what it is.
    pub by_main: bool,
}

/// Whether this is the namespace that each server has.
pub(crate) fn is_default(namespace: &str) -> bool {
    namespace == DEFAULT_NAMESPACE
}

/// A socket that clients of a namespace come by.
#[derive(Clone)]
struct Endpoint {
    listener: Arc<Listener>,
    chosen: Chosen,
}

/// The log of a named server's processes: they write into its FIFO.
pub(crate) struct ServerLog {
    named: u32,
    path: PathBuf,
    reader: OwnedFd,
    writer: OwnedFd,
    lines: Mutex<LineAssembler>,
    file: LogFile,
}

impl ServerLog {
    /// The end that is read.
    pub fn reader(&self) -> &OwnedFd {
        &self.reader
    }

    /// The server's number, and the ends to read and to write.
    pub fn descriptors(&self) -> (u32, RawFd, RawFd) {
        (self.named, self.reader.as_raw_fd(), self.writer.as_raw_fd())
    }

    /// Removes the FIFO, unless another file is in its place.
    fn unlink(&self) {
        let open = rustix::fs::fstat(&self.reader).map(|open| (open.st_dev, open.st_ino));
        if open.is_ok_and(|open| file_id(&self.path).is_ok_and(|there| there == open)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Moves lines from the FIFO to the file.
    pub fn drain(&self) {
        let mut buffer = [0; 4096];
        let mut lines = self.lines.lock();
        for _ in 0..READS_MAX {
            match rustix::io::read(&self.reader, &mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(bytes) => lines.push(&buffer[..bytes], |line| self.file.append(line)),
            }
        }
    }
}

/// What the event loop polls of named servers.
pub(crate) struct WatchedEndpoints {
    pub sockets: Vec<(Arc<Listener>, Chosen)>,
    pub logs: Vec<Arc<ServerLog>>,
}

/// All sockets and logs of named servers.
#[derive(Default)]
pub(crate) struct Endpoints {
    sockets: Vec<Endpoint>,
    logs: Vec<Arc<ServerLog>>,
}

impl Endpoints {
    /// What the event loop polls.
    pub fn watched(&self) -> WatchedEndpoints {
        let socket = |of: &Endpoint| (of.listener.clone(), of.chosen.clone());
        WatchedEndpoints {
            sockets: self.sockets.iter().map(socket).collect(),
            logs: self.logs.clone(),
        }
    }

    /// Makes the directory, the log and the sockets of a server and its namespaces. `logs` is where logs
    /// lie, if anywhere.
    pub fn open_server<'a>(
        &mut self,
        directory: &Path,
        logs: Option<&Path>,
        named: u32,
        mut namespaces: impl Iterator<Item = &'a str>,
    ) -> Result<(), DirectoryError> {
        let opened = self.try_open(directory, logs, named).and_then(|()| {
            namespaces.try_for_each(|name| self.open_namespace(directory, named, name))
        });
        if opened.is_err() {
            self.close_server(directory, named);
        }
        opened
    }

    /// Removes the sockets and the logs of all. Their directories stay: containers have them mounted, and
    /// reach the next daemon there.
    pub fn close_all(&mut self) {
        self.sockets.iter().for_each(|socket| socket.listener.unlink());
        self.logs.iter().for_each(|log| log.unlink());
        *self = Endpoints::default();
    }

    fn try_open(
        &mut self,
        directory: &Path,
        logs: Option<&Path>,
        named: u32,
    ) -> Result<(), DirectoryError> {
        make_directory(directory)?;
        let path = directory.join(LOG);
        // Servers of a daemon before write into its FIFO.
        let fifo = make_fifo(&path)?;
        self.adopt_log(directory, logs, named, fifo)?;
        self.listen(
            directory,
            Chosen { named, namespace: DEFAULT_NAMESPACE.to_owned(), by_main: false },
        )
    }

    /// Goes on with the log FIFO of a daemon before: its ends to read and to write.
    pub fn adopt_log(
        &mut self,
        directory: &Path,
        logs: Option<&Path>,
        named: u32,
        (reader, writer): (OwnedFd, OwnedFd),
    ) -> Result<(), DirectoryError> {
        let path = directory.join(LOG);
        let file = match logs.zip(directory.file_name()) {
            Some((logs, name)) => {
                let logs = logs.join(name);
                let at = |error| DirectoryError::at(&logs, error);
                std::fs::create_dir_all(&logs).map_err(at)?;
                LogFile::at(logs.join("server.log")).map_err(at)?
            }
            None => LogFile::nowhere(),
        };
        let lines = Mutex::default();
        self.logs.push(Arc::new(ServerLog { named, path, reader, writer, lines, file }));
        Ok(())
    }

    /// Goes on with a socket of a daemon before.
    pub fn adopt(&mut self, listener: Listener, chosen: Chosen) {
        self.sockets.push(Endpoint { listener: Arc::new(listener), chosen });
    }

    /// True if there is a socket for a namespace.
    pub fn has(&self, named: u32, namespace: &str) -> bool {
        let is_it = |of: &Chosen| (of.named, of.namespace.as_str()) == (named, namespace);
        self.sockets.iter().any(|socket| is_it(&socket.chosen))
    }

    /// The descriptors that a successor goes on with.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let sockets = self.sockets.iter().map(|socket| socket.listener.as_fd());
        sockets.chain(self.logs.iter().flat_map(|log| [log.reader.as_fd(), log.writer.as_fd()]))
    }

    /// Makes the directory and the socket of a namespace of the server in `directory`.
    pub fn open_namespace(
        &mut self,
        directory: &Path,
        named: u32,
        name: &str,
    ) -> Result<(), DirectoryError> {
        let directory = directory.join(name);
        make_directory(&directory)?;
        self.listen(&directory, Chosen { named, namespace: name.to_owned(), by_main: false })
    }

    fn listen(&mut self, directory: &Path, chosen: Chosen) -> Result<(), DirectoryError> {
        let path = directory.join("control");
        crate::directory::check_socket_path(&path)?;
        let listener = Arc::new(listen(&path, MODES[0])?);
        self.sockets.push(Endpoint { listener, chosen });
        Ok(())
    }

    /// Makes those sockets anew, with their directories, that another process has removed; their paths.
    pub fn open_again(&mut self) -> Result<Vec<PathBuf>, DirectoryError> {
        let mut made = Vec::new();
        for socket in &mut self.sockets {
            if socket.listener.is_in_place() {
                continue;
            }
            let path = socket.listener.path().to_owned();
            // Of a server, and of a namespace the server's too.
            let directories: Vec<&Path> = path.ancestors().skip(1).take(2).collect();
            for directory in directories.into_iter().rev() {
                make_directory(directory)?;
            }
            socket.listener = Arc::new(listen(&path, MODES[0])?);
            made.push(path);
        }
        Ok(made)
    }

    /// Removes the sockets, the log and the directories of a server.
    pub fn close_server(&mut self, directory: &Path, named: u32) {
        self.close(|chosen| chosen.named == named);
        self.logs.retain(|log| {
            if log.named == named {
                log.drain();
                log.unlink();
            }
            log.named != named
        });
        // Not if there is something in it that is not the daemon's.
        let _ = std::fs::remove_dir(directory);
    }

    /// Removes the socket and the directory of a namespace.
    pub fn close_namespace(&mut self, named: u32, name: &str) {
        self.close(|chosen| chosen.named == named && chosen.namespace == name);
    }

    fn close(&mut self, gone: impl Fn(&Chosen) -> bool) {
        self.sockets.retain(|socket| {
            let goes = gone(&socket.chosen);
            if goes {
                socket.listener.unlink();
                if let Some(directory) = socket.listener.path().parent() {
                    let _ = std::fs::remove_dir(directory);
                }
            }
            !goes
        });
    }

    /// The end of a server's FIFO that its processes inherit.
    pub fn log_of(&self, named: u32) -> Option<&OwnedFd> {
        self.logs.iter().find(|log| log.named == named).map(|log| &log.writer)
    }

    /// Moves lines of all servers to their files.
    pub fn drain_logs(&self) {
        self.logs.iter().for_each(|log| log.drain());
    }

    /// Opens the logs' files again.
    pub fn open_logs_again(&self) {
        self.logs.iter().for_each(|log| log.file.open_again());
    }
}

/// A directory of the daemon's own user; one that a killed daemon left is taken over.
fn make_directory(path: &Path) -> Result<(), DirectoryError> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other.map_err(|error| DirectoryError::at(path, error)),
    }
    let there = std::fs::symlink_metadata(path).map_err(|error| DirectoryError::at(path, error))?;
    match there.is_dir() && there.uid() == rustix::process::geteuid().as_raw() {
        true => Ok(()),
        false => Err(DirectoryError::NoDirectory { path: path.to_owned() }),
    }
}
