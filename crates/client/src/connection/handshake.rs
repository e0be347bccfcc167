//! Attaching to a server: finding the daemon, and the handshake.
//!
//! No daemon is a normal thing: the program then runs without sharing. A daemon that is there and
//! does not take this process is not: then cuInit fails, and one line says why.

use super::{Connection, close_copy, requested_limits, slow_start};
use channel::message::{Devices, Hello, Message, MessageError, Release, RequestedLimits};
use channel::region::Region;
use channel::socket::{ReceiveError, SeqPacket, in_their_version};
use channel::{discovery, system};
use core::fmt;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use core::time::Duration;
use cuda_api::{CUuuid, CudaError, environment};
use rustix::rand::GetRandomFlags;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The daemon's socket in its directory.
const CONTROL_SOCKET: &str = "control";
/// How long a daemon whose queue is full is waited for. As below: for one that is stuck.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the answer may take. A daemon or server that has ended closes the connection, so this
/// is for one that is stuck: more than a daemon lets a server take to start (120 s) and a busy
/// machine takes for the rest.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(300);
/// Attempts at a daemon that is there: a server that ends while this process is being handed to it
/// takes the connection with it, and the daemon has another one.
const ATTEMPTS_MAX: u32 = 6;
/// Pause before the second attempt, doubled before each further one.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);

/// Why this process is not attached.
#[derive(Debug)]
pub(crate) enum AttachError {
    /// There is no daemon to attach to.
    NoDaemon,
    /// There is a daemon, and the client could not attach.
    Refused {
        /// What cuInit answers.
        code: CudaError,
        /// Why, for a person.
        text: String,
        /// The process that had the connection has ended: there may be another one.
        passing: bool,
    },
}

fn refused(code: CudaError, text: impl fmt::Display) -> AttachError {
    AttachError::Refused { code, text: text.to_string(), passing: false }
}

/// The connection was closed without an answer.
fn closed() -> AttachError {
    let (code, text) = (CudaError::MPS_CONNECTION_FAILED, ReceiveError::Closed.to_string());
    AttachError::Refused { code, text, passing: true }
}

/// The handshake failed before the daemon or the server gave a reason.
fn failed(text: impl fmt::Display) -> AttachError {
    refused(CudaError::MPS_CONNECTION_FAILED, text)
}

/// Does something with the socket of the process's daemon: of the one that the environment names, else of
/// the first one found that is no other project's. That one stays the process's: while it is started
/// anew the process does not go to another one.
fn at_daemon<T>(act: impl Fn(&Path) -> Result<T, AttachError>) -> Result<T, AttachError> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let act = |path: &Path| act(path).map_err(|error| about(path, error));
    if let Some(directory) = discovery::named() {
        return act(&directory.join(CONTROL_SOCKET));
    }
    if let Some(path) = FOUND.get() {
        return act(path);
    }
    for place in discovery::listening() {
        let path = place.directory.join(CONTROL_SOCKET);
        match act(&path) {
            Err(AttachError::NoDaemon) => {}
            outcome => {
                FOUND.get_or_init(|| path);
                return outcome;
            }
        }
    }
    Err(AttachError::NoDaemon)
}

/// An error with the daemon that it is about.
fn about(path: &Path, error: AttachError) -> AttachError {
    match error {
        AttachError::Refused { code, text, .. } => {
            refused(code, format_args!("{}: {text}", path.display()))
        }
        AttachError::NoDaemon => error,
    }
}

/// Attaches to a device's server, of the process's daemon. The region is given to
/// `prepare` before its server sees it.
pub(crate) fn attach(device: CUuuid, prepare: &dyn Fn(&Region)) -> Result<Connection, AttachError> {
    let (requested, timeout) = (requested_limits::of_process(), WELCOME_TIMEOUT);
    let wanted = Wanted { device, requested: &requested, prepare, request: next_request() };
    at_daemon(|path| attach_patiently(path, timeout, &wanted))
}

/// Asks the process's daemon for its devices.
pub(crate) fn describe() -> Result<Devices, AttachError> {
    let describe =
        |path: &Path| in_their_version(|version| describe_at(path, WELCOME_TIMEOUT, version));
    at_daemon(|path| patiently(|| describe(path)))
}

fn describe_at(path: &Path, timeout: Duration, version: &mut u16) -> Result<Devices, AttachError> {
    let socket = reach(path)?;
    socket.speak(*version);
    say_first(&socket, &Message::Describe(()), &[])?;
    let answer = receive_first(&socket, path, timeout);
    *version = socket.speaks();
    match answer? {
        Message::Devices(devices) => Ok(devices),
        other => Err(failed(format_args!("unexpected answer {}", other.name()))),
    }
}

/// What a client wants of the server that it is handed to.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    /// All zeros: the daemon's first.
    device: CUuuid,
    requested: &'a RequestedLimits,
    /// Is given the region before the server sees it.
    prepare: &'a dyn Fn(&Region),
    /// By what daemon and server name it in their logs.
    request: u32,
}

/// Makes another attempt where the other side ended in the middle of one.
fn patiently<T>(attempt: impl Fn() -> Result<T, AttachError>) -> Result<T, AttachError> {
    let mut pause = ATTEMPT_PAUSE;
    for _ in 1..ATTEMPTS_MAX {
        match attempt() {
            Err(AttachError::Refused { passing: true, .. }) => std::thread::sleep(pause),
            outcome => return outcome,
        }
        pause *= 2;
    }
    attempt()
}

/// Attaches, with further attempts.
fn attach_patiently(
    path: &Path,
    timeout: Duration,
    wanted: &Wanted<'_>,
) -> Result<Connection, AttachError> {
    let attach = || in_their_version(|version| attach_to(path, timeout, wanted, version));
    patiently(attach).map_err(|error| match error {
        AttachError::Refused { code, text, passing } => {
            let text = format!("{text} (request {:08x})", wanted.request);
            AttachError::Refused { code, text, passing }
        }
        AttachError::NoDaemon => AttachError::NoDaemon,
    })
}

/// Connects to a daemon's socket and waits to be handed to a server.
fn attach_to(
    path: &Path,
    timeout: Duration,
    wanted: &Wanted<'_>,
    version: &mut u16,
) -> Result<Connection, AttachError> {
    // First of all, so that nothing that takes time comes between connecting and the first word.
    let (region, region_file) = Region::create().map_err(|error| {
        let why = system::why_no_memory(&error);
        refused(system::result_of(&error), format_args!("no shared memory: {why}"))
    })?;
    region.set_version(*version);
    (wanted.prepare)(&region);
    let socket = reach(path)?;
    socket.speak(*version);
    let _in_hand = InHand::begin([socket.as_fd().as_raw_fd(), region_file.as_raw_fd()]);
    let hello = Message::Hello(Hello {
        pid: std::process::id(),
        command_line: command_line(),
        library_version: env!("CARGO_PKG_VERSION").to_owned(),
        requested: wanted.requested.clone(),
        scheduling: scheduling(),
        device: wanted.device,
        token: token(),
        release: Release::of_this_build(),
        request: wanted.request,
    });
    say_first(&socket, &hello, &[region_file.as_fd()])?;
    let answer = receive_first(&socket, path, timeout);
    *version = socket.speaks();
    match answer? {
        Message::Welcome(welcome) => Ok(Connection::new((region, region_file), socket, welcome)),
        other => Err(failed(format_args!("unexpected answer {}", other.name()))),
    }
}

/// Descriptors of a connection that is being made, by one thread at a time.
static IN_HAND: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];

/// While it lives, children that are forked close their copies: only the parent's count for the other side.
struct InHand;

impl InHand {
    fn begin(descriptors: [RawFd; 2]) -> Self {
        IN_HAND.iter().zip(descriptors).for_each(|(at, fd)| at.store(fd, Ordering::Release));
        Self
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        IN_HAND.iter().for_each(|at| at.store(-1, Ordering::Release));
    }
}

/// This process's token; 0 before it has one.
static TOKEN: AtomicU64 = AtomicU64::new(0);

/// The number by which the daemon knows this process where it has no PID of it: as long as the process
/// lives, at each of its connections.
fn token() -> u64 {
    let mut bytes = [0; 8];
    let new = match rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // Better than none: a PID of some namespace.
        _ => u64::from(std::process::id()) << 1,
    };
    let known = TOKEN.compare_exchange(0, new | 1, Ordering::AcqRel, Ordering::Acquire);
    known.map_or_else(|known| known, |_| new | 1)
}

/// A number for an attempt to attach: another one each time, and in each process. Never 0.
fn next_request() -> u32 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    (token().wrapping_add(count.wrapping_mul(0x9e37_79b9)) >> 8) as u32 | 1
}

/// In a forked child: it is another process, and has no copy of a connection that a thread of the
/// parent was making.
pub(crate) fn close_in_child() {
    TOKEN.store(0, Ordering::Release);
    for at in &IN_HAND {
        close_copy(at.swap(-1, Ordering::AcqRel));
    }
}

/// Connects to a daemon's socket.
fn reach(path: &Path) -> Result<SeqPacket, AttachError> {
    connect(path).map_err(|error| {
        use io::ErrorKind::{ConnectionRefused, InvalidInput, NotADirectory, NotFound};
        // Something listens there whose messages are no datagrams.
        let other_kind = error.raw_os_error() == Some(libc::EPROTOTYPE);
        match error.kind() {
            // No socket can have a path that is too long for one.
            NotFound | ConnectionRefused | NotADirectory | InvalidInput => AttachError::NoDaemon,
            _ if other_kind => AttachError::NoDaemon,
            _ => failed(format_args!("cannot connect: {error}")),
        }
    })
}

/// Sends the first message.
fn say_first(
    socket: &SeqPacket,
    message: &Message,
    files: &[BorrowedFd<'_>],
) -> Result<(), AttachError> {
    socket.set_send_timeout(Some(CONNECT_TIMEOUT)).map_err(failed)?;
    socket.send(message, files).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => closed(),
        _ => failed(format_args!("the daemon does not listen: {error}")),
    })
}

/// Receives the answer to the first message.
fn receive_first(
    socket: &SeqPacket,
    path: &Path,
    timeout: Duration,
) -> Result<Message, AttachError> {
    match receive_answer(socket, path, timeout) {
        Ok((Message::Refused(refusal), _)) => {
            let code = CudaError::from_code(refusal.result);
            Err(refused(code.unwrap_or(CudaError::MPS_CONNECTION_FAILED), refusal.reason))
        }
        Ok((answer, _)) => Ok(answer),
        // Another project's daemon.
        Err(ReceiveError::Message(MessageError::Magic)) => Err(AttachError::NoDaemon),
        Err(ReceiveError::Closed) => Err(closed()),
        Err(error) => Err(failed(error)),
    }
}

/// Connects to a daemon. If it takes no connection for a while, standard error says so.
fn connect(path: &Path) -> io::Result<SeqPacket> {
    match SeqPacket::connect(path, slow_start::PATIENCE) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            slow_start::say_queue_is_full(path);
            SeqPacket::connect(path, CONNECT_TIMEOUT - slow_start::PATIENCE)
        }
        outcome => outcome,
    }
}

/// The first word of daemon or server. If it takes a while, standard error says which process is
/// waited for.
fn receive_answer(
    socket: &SeqPacket,
    path: &Path,
    timeout: Duration,
) -> Result<(Message, Vec<OwnedFd>), ReceiveError> {
    let quiet = slow_start::PATIENCE.min(timeout);
    socket.set_receive_timeout(Some(quiet)).map_err(ReceiveError::Io)?;
    match socket.receive() {
        Err(ReceiveError::TimedOut) if quiet < timeout => {}
        outcome => return outcome,
    }
    slow_start::say_no_answer(path, socket);
    socket.set_receive_timeout(Some(timeout - quiet)).map_err(ReceiveError::Io)?;
    socket.receive()
}

/// What the environment says of this program's scheduling: its class, and what policies want to know.
fn scheduling() -> String {
    let text = std::env::var(environment::OPENMPS_CLASS).unwrap_or_default();
    channel::codec::cut(&text, channel::message::SCHEDULING_BYTES_MAX).to_owned()
}

/// This process' command line, words separated by spaces.
fn command_line() -> String {
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use channel::message::{MESSAGE_MAGIC, Refused};
    use channel::socket::Listener;

    /// No requested limits for a server of any device.
    fn anything(requested: &RequestedLimits) -> Wanted<'_> {
        Wanted { device: CUuuid::default(), requested, prepare: &|_| (), request: 0x1f }
    }

    /// Attempts at a daemon's socket, in each version.
    fn attach(path: &Path) -> Result<Connection, AttachError> {
        let requested = RequestedLimits::default();
        attach_patiently(path, Duration::from_secs(60), &anything(&requested))
    }

    /// One attempt in the newest version.
    fn attach_newest(
        path: &Path,
        timeout: Duration,
        wanted: &Wanted<'_>,
    ) -> Result<Connection, AttachError> {
        attach_to(path, timeout, wanted, &mut { channel::PROTOCOL_VERSION })
    }

    /// What attaching comes to with a daemon that does `answer` with each client's socket.
    fn with_daemon(name: &str, answer: impl FnOnce(SeqPacket) + Send) -> AttachError {
        with_patience(Duration::from_secs(60), name, answer)
    }

    /// The same for a client that waits so long for the answer.
    fn with_patience(
        patience: Duration,
        name: &str,
        answer: impl FnOnce(SeqPacket) + Send,
    ) -> AttachError {
        let path = std::env::temp_dir().join(format!("attach-{}-{name}", std::process::id()));
        let listener = Listener::bind(&path, 0o600).unwrap();
        std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                attach_newest(&path, patience, &anything(&RequestedLimits::default())).err()
            });
            loop {
                if let Some(socket) = listener.accept().unwrap() {
                    let (hello, fds) = socket.receive().unwrap();
                    assert!(matches!(hello, Message::Hello(_)) && fds.len() == 1);
                    answer(socket);
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            client.join().unwrap().expect("the client is not attached")
        })
    }

    fn code(error: AttachError) -> (u32, String) {
        match error {
            AttachError::Refused { code, text, .. } => (code.code(), text),
            AttachError::NoDaemon => panic!("there is a daemon"),
        }
    }

    #[test]
    fn where_no_process_listens_there_is_no_daemon() {
        let directory = std::env::temp_dir();
        let long = directory.join("x".repeat(200));
        for path in [Path::new("/nowhere/control"), Path::new("/dev/null/control"), &long] {
            let error =
                attach_newest(path, Duration::ZERO, &anything(&RequestedLimits::default())).err();
            assert!(matches!(error, Some(AttachError::NoDaemon)), "{}", path.display());
        }
        // What was left behind by a daemon that died.
        let stale = directory.join(format!("attach-{}-stale", std::process::id()));
        drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
        let error =
            attach_newest(&stale, Duration::ZERO, &anything(&RequestedLimits::default())).err();
        std::fs::remove_file(&stale).unwrap();
        assert!(matches!(error, Some(AttachError::NoDaemon)));
    }

    #[test]
    fn a_refusal_is_passed_on_with_its_reason() {
        let error = with_daemon("refusal", |socket| {
            let reason = "48 clients are all that it takes".to_owned();
            socket.send(&Message::Refused(Refused { result: 808, reason }), &[]).unwrap();
        });
        assert_eq!(code(error), (808, "48 clients are all that it takes".to_owned()));
    }

    #[test]
    fn another_version_is_named() {
        let error = with_daemon("version", |socket| {
            let mut bytes = MESSAGE_MAGIC.to_le_bytes().to_vec();
            bytes.extend([0xff, 0x7f, 2, 0]);
            socket.send_bytes(&bytes, &[]).unwrap();
        });
        let (code, text) = code(error);
        assert_eq!(code, 805);
        let newest = channel::PROTOCOL_VERSION;
        let both = ["32767".to_owned(), format!("to {newest}")];
        assert!(both.iter().all(|version| text.contains(version)), "{text}");
    }

    #[test]
    fn a_daemon_of_the_release_before_is_spoken_to_in_its_version() {
        const OLD: u16 = channel::PROTOCOL_VERSION_MIN;
        let path = std::env::temp_dir().join(format!("attach-{}-older", std::process::id()));
        let listener = Listener::bind(&path, 0o600).unwrap();
        std::thread::scope(|scope| {
            let client = scope.spawn(|| attach(&path));
            let mut versions = Vec::new();
            while versions.len() < 2 {
                let Some(socket) = listener.accept().unwrap() else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                let (hello, fds) = socket.receive().unwrap();
                let Message::Hello(hello) = hello else { panic!("{hello:?}") };
                versions.push((socket.speaks(), hello.release.max));
                let is_understood = socket.speaks() == OLD;
                socket.speak(OLD);
                if is_understood {
                    // As a server of that release does, which knows no other version of a region.
                    let region = Region::open(&fds[0]).unwrap();
                    assert_eq!(region.version(), OLD);
                    let welcome = crate::tests::server::welcome();
                    socket.send(&Message::Welcome(welcome), &[]).unwrap();
                } else {
                    let reason = "the peer speaks protocol version 3, this is version 2".into();
                    socket.send(&Message::Refused(Refused { result: 805, reason }), &[]).unwrap();
                }
            }
            let newest = channel::PROTOCOL_VERSION;
            assert_eq!(versions, [(newest, newest), (OLD, 0)]);
            let Ok(_) = client.join().unwrap() else { panic!("it is not attached") };
        });
    }

    #[test]
    fn what_answers_in_another_language_is_no_daemon_of_ours() {
        let error = with_daemon("stranger", |socket| {
            socket.send_bytes(b"220 mail ready", &[]).unwrap();
        });
        assert!(matches!(error, AttachError::NoDaemon));
    }

    #[test]
    fn a_server_that_ends_meanwhile_is_not_the_last_one() {
        let path = std::env::temp_dir().join(format!("attach-{}-again", std::process::id()));
        let listener = Listener::bind(&path, 0o600).unwrap();
        std::thread::scope(|scope| {
            let client = scope.spawn(|| attach(&path).err().unwrap());
            // Closed before the first word, after it, and then there is an answer.
            let mut connections = 0;
            while !client.is_finished() {
                let Some(socket) = listener.accept().unwrap() else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                connections += 1;
                if connections > 1 {
                    socket.receive().unwrap();
                }
                if connections > 2 {
                    let reason = "found".to_owned();
                    socket.send(&Message::Refused(Refused { result: 807, reason }), &[]).unwrap();
                }
            }
            let (number, text) = code(client.join().unwrap());
            assert_eq!((number, text.as_str()), (807, "found (request 0000001f)"));
            assert_eq!(connections, 3);
        });
        // If no daemon ever answers, the client says so.
        drop(listener);
        assert!(matches!(attach(&path), Err(AttachError::NoDaemon)));
    }

    #[test]
    fn silence_nonsense_and_hanging_up_end_the_handshake() {
        let hung_up = with_daemon("closed", drop);
        assert!(matches!(hung_up, AttachError::Refused { passing: true, .. }));
        assert_eq!(code(hung_up).0, 805);
        // Open for good: it is the client that gives up.
        let silent = with_patience(Duration::from_secs(2), "silent", std::mem::forget);
        let (number, text) = code(silent);
        assert_eq!((number, text.as_str()), (805, "the peer says nothing"));
        let unexpected = with_daemon("unexpected", |socket| {
            socket.send(&Message::Ready(1), &[]).unwrap();
        });
        assert_eq!(code(unexpected).0, 805);
    }
}
