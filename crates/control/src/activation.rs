//! Socket activation: sockets on which a service manager listens before the daemon does, and on.
//!
//! A program that comes while no daemon runs waits there until one does. A socket is taken by the path on
//! which it listens; its file is the manager's, and stays when the daemon ends (systemd's
//! sd_listen_fds(3)).

use channel::socket::{Listener, file_id, inherited};
use locks::Mutex;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The process for which descriptors are meant.
pub(crate) const LISTEN_PID: &str = "LISTEN_PID";
/// How many there are.
pub(crate) const LISTEN_FDS: &str = "LISTEN_FDS";
/// The first of them.
const FIRST: RawFd = 3;
/// Most of them: a daemon has two.
const SOCKETS_MAX: RawFd = 16;

/// A socket that is not taken yet has its descriptor.
struct Activated {
    path: PathBuf,
    socket: Mutex<Option<OwnedFd>>,
}

fn all() -> &'static [Activated] {
    static ALL: OnceLock<Vec<Activated>> = OnceLock::new();
    ALL.get_or_init(|| of_environment(std::process::id(), |name| std::env::var(name).ok()))
}

fn of_environment(process: u32, variable: impl Fn(&str) -> Option<String>) -> Vec<Activated> {
    let number = |name| variable(name)?.trim().parse::<u32>().ok();
    if number(LISTEN_PID) != Some(process) {
        return Vec::new();
    }
    let count = number(LISTEN_FDS).and_then(|count| RawFd::try_from(count).ok()).unwrap_or(0);
    let sockets = (FIRST..FIRST + count.min(SOCKETS_MAX)).filter_map(|fd| inherited(fd).ok());
    let with_path = sockets.filter_map(|socket| {
        let path = path_of(&socket)?;
        Some(Activated { path, socket: Mutex::new(Some(socket)) })
    });
    with_path.collect()
}

/// Where a socket listens.
fn path_of(socket: &OwnedFd) -> Option<PathBuf> {
    let address = rustix::net::getsockname(socket).ok()?;
    let address = rustix::net::SocketAddrUnix::try_from(address).ok()?;
    let path = address.path()?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes())))
}

/// True if the service manager listens at a path.
pub(crate) fn has(path: &Path) -> bool {
    all().iter().any(|of| of.path == path)
}

/// The manager's socket at a path, if it has one that was not taken yet and whose file is in its place.
pub(crate) fn take(path: &Path) -> Option<io::Result<Listener>> {
    let of = all().iter().find(|of| of.path == path)?;
    take_of(of)
}

fn take_of(of: &Activated) -> Option<io::Result<Listener>> {
    let file = file_id(&of.path).ok()?;
    let socket = of.socket.lock().take()?;
    Some(Listener::from_fd(socket, &of.path, file).map(Listener::staying))
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::socket::SeqPacket;
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    #[test]
    fn a_program_that_came_before_the_daemon_is_heard_and_the_socket_stays() {
        let path = std::env::temp_dir().join(format!("openmps-activated-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let manager = Listener::bind(&path, 0o600).expect("a socket");
        let early = SeqPacket::connect(&path, Duration::from_secs(5)).expect("the manager listens");
        early.send(&channel::message::Message::Describe(()), &[]).expect("room");
        // What a descriptor is after exec: open, without FD_CLOEXEC.
        let handed = rustix::io::dup(&manager).expect("a descriptor");
        assert_eq!(path_of(&handed), Some(path.clone()));
        let of = Activated { path: path.clone(), socket: Mutex::new(Some(handed)) };
        let daemon = take_of(&of).expect("it is there").expect("it listens");
        assert!(take_of(&of).is_none(), "it is taken");
        let accepted = daemon.accept().expect("no error").expect("the early one");
        assert!(matches!(accepted.receive(), Ok((channel::message::Message::Describe(()), _))));
        drop(daemon);
        assert!(path.exists(), "the next daemon finds it");
        drop(manager);
        assert!(!path.exists());
    }

    #[test]
    fn descriptors_that_are_for_another_process_are_left_alone() {
        let said = |pid: &'static str| {
            move |name: &str| Some(if name == LISTEN_PID { pid } else { "1" }.to_owned())
        };
        assert!(of_environment(7, said("8")).is_empty());
        assert!(of_environment(7, |_| None).is_empty());
        // What this process has opened itself is no service manager's: it is closed on exec.
        let own = std::fs::File::open("/dev/null").expect("a file");
        assert!(own.as_raw_fd() >= FIRST && of_environment(7, said("7")).is_empty());
    }
}
