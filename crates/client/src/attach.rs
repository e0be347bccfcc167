//! Attaching to a server: finding the daemon, the handshake, and what an attached process has.
//!
//! No daemon is a normal thing (the program then runs without sharing). A daemon that answers and
//! does not take this process is not: then cuInit fails with the reason that it gave.
//!
//! Locks, in the order in which a thread may take them: memory or host functions, calls, staging,
//! state. The contexts' lock is taken alone.

use crate::calls::Calls;
use crate::contexts::Contexts;
use crate::hostfunc::HostFunctions;
use crate::link::Link;
use crate::memory::Memory;
use crate::memory::staging::Staging;
use crate::state::State;
use channel::memfd::Reservation;
use channel::message::{Hello, Message, Welcome};
use channel::region::{Region, STAGING_BYTES};
use channel::ring::Producer;
use channel::socket::{ReceiveError, SeqPacket};
use channel::wait::SpinPolicy;
use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use core::time::Duration;
use cuda_api::{CUresult, CudaError, environment};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use channel::message::Device;

/// Where the daemon listens if the environment does not say.
const PIPE_DIRECTORY_DEFAULT: &str = "/tmp/nvidia-mps";
/// The daemon's socket in its directory.
const CONTROL_SOCKET: &str = "control";
/// How long a daemon whose queue is full is waited for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the answer may take: a server may have to start, and a GPU's context to be made.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(60);

/// Why this process is not attached.
pub(crate) enum AttachError {
    /// Nobody is there to attach to.
    NoDaemon,
    /// Somebody is, and it did not work out.
    Refused {
        /// What cuInit answers.
        code: CudaError,
        /// Why, for a person.
        text: String,
    },
}

/// All that an attached process has.
pub(crate) struct Attached {
    pub(crate) link: Arc<Link>,
    pub(crate) policy: SpinPolicy,
    welcome: Welcome,
    contexts: Contexts,
    state: Mutex<State>,
    pub(crate) calls: Mutex<Calls>,
    pub(crate) staging: Mutex<Staging>,
    memory: Mutex<Memory>,
    pub(crate) host_functions: HostFunctions,
    /// Held while a function is looked up by its name; taken before all others.
    pub(crate) finding: Mutex<()>,
    /// True once a module was loaded whose kernels may print.
    pub(crate) prints: AtomicBool,
}

/// Takes a lock. A panic of another thread while it held the lock left its data usable: nothing
/// here is changed in two steps that a panic could come between.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attached {
    /// An attached process' state after the handshake.
    ///
    /// # Errors
    /// The addresses that the server chose cannot be had here.
    pub(crate) fn new(region: Region, socket: SeqPacket, welcome: Welcome) -> io::Result<Self> {
        let window = Reservation::at(welcome.window.address, welcome.window.bytes)?;
        let host_window = Reservation::at(welcome.host_window.address, welcome.host_window.bytes)?;
        let policy = SpinPolicy::of_process();
        let link = Arc::new(Link::new(region.clone(), socket));
        Ok(Self {
            policy,
            contexts: Contexts::new(welcome.devices.len()),
            state: Mutex::new(State::new(Arc::clone(&link), Producer::new(region.clone(), policy))),
            calls: Mutex::new(Calls::new(region.clone(), policy)),
            staging: Mutex::new(Staging::new(STAGING_BYTES as u32)),
            memory: Mutex::new(Memory::new(window, host_window, welcome.devices.len())),
            host_functions: HostFunctions::new(),
            finding: Mutex::new(()),
            prints: AtomicBool::new(false),
            link,
            welcome,
        })
    }

    /// The devices by ordinal.
    pub(crate) fn devices(&self) -> &[Device] {
        &self.welcome.devices
    }

    /// What cuDriverGetVersion answers.
    pub(crate) fn driver_version(&self) -> c_int {
        self.welcome.driver_version
    }

    /// Least and greatest stream priority.
    pub(crate) fn priority_range(&self) -> (c_int, c_int) {
        (self.welcome.priority_least, self.welcome.priority_greatest)
    }

    /// The contexts.
    #[inline(always)]
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// The error after which every call fails, if there is one.
    #[inline(always)]
    pub(crate) fn health(&self) -> CUresult {
        self.link.health()
    }

    /// Takes the short lock.
    #[inline(always)]
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Takes the memory's lock.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        locked(&self.memory)
    }

    /// In a forked child: lets go of what must not outlive the parent. Takes no lock that another
    /// thread of the parent may have held.
    pub(crate) fn abandon_in_child(&self) {
        // Only the parent's end must count for the server. The number stays taken in this
        // process' tables of owned descriptors, which are never dropped.
        close_in_child(self.link.socket().as_fd().as_raw_fd());
        if let Ok(memory) = self.memory.try_lock() {
            memory.files().for_each(close_in_child);
        }
        for window in [self.welcome.window, self.welcome.host_window] {
            // SAFETY: the range was reserved by `new` for nothing else, and the child's state that
            // points into it is not used any more.
            unsafe { libc::munmap(window.address as *mut libc::c_void, window.bytes as usize) };
        }
    }
}

fn close_in_child(fd: i32) {
    // SAFETY: the descriptor belongs to the parent's session, whose owner is never used or
    // dropped in the child.
    unsafe { libc::close(fd) };
}

/// Connects to the daemon and waits to be handed to a server.
pub(crate) fn attach() -> Result<Box<Attached>, AttachError> {
    let directory = std::env::var_os(environment::CUDA_MPS_PIPE_DIRECTORY)
        .filter(|d| !d.is_empty())
        .map_or_else(|| PathBuf::from(PIPE_DIRECTORY_DEFAULT), PathBuf::from);
    let path = directory.join(CONTROL_SOCKET);
    let refused = |code: CudaError, text: String| AttachError::Refused {
        code,
        text: format!("{}: {text}", path.display()),
    };
    let socket = SeqPacket::connect(&path, CONNECT_TIMEOUT).map_err(|error| {
        use io::ErrorKind::{ConnectionRefused, InvalidInput, NotADirectory, NotFound};
        // EPROTOTYPE: something else listens there, NVIDIA's daemon for one.
        let other_kind = error.raw_os_error() == Some(libc::EPROTOTYPE);
        match error.kind() {
            NotFound | ConnectionRefused | NotADirectory | InvalidInput => AttachError::NoDaemon,
            _ if other_kind => AttachError::NoDaemon,
            _ => refused(CudaError::MPS_CONNECTION_FAILED, format!("cannot connect: {error}")),
        }
    })?;
    let (region, region_file) = Region::create().map_err(|error| {
        refused(CudaError::MPS_CONNECTION_FAILED, format!("no shared memory: {error}"))
    })?;
    let hello = Message::Hello(Hello {
        pid: std::process::id(),
        command_line: command_line(),
        library_version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    let failed = |text: String| refused(CudaError::MPS_CONNECTION_FAILED, text);
    let timeouts = socket
        .set_receive_timeout(Some(WELCOME_TIMEOUT))
        .and_then(|()| socket.set_send_timeout(Some(CONNECT_TIMEOUT)));
    timeouts.map_err(|error| failed(error.to_string()))?;
    socket
        .send(&hello, &[region_file.as_fd()])
        .map_err(|error| failed(format!("the daemon does not listen: {error}")))?;
    let welcome = match socket.receive() {
        Ok((Message::Welcome(welcome), _)) => welcome,
        Ok((Message::Refused(refusal), _)) => {
            let code = CudaError::from_code(refusal.result);
            return Err(refused(code.unwrap_or(CudaError::MPS_CONNECTION_FAILED), refusal.reason));
        }
        Ok((other, _)) => return Err(failed(format!("unexpected answer {}", other.name()))),
        Err(ReceiveError::Message(error)) => return Err(failed(error.to_string())),
        Err(error) => return Err(failed(error.to_string())),
    };
    let attached = Attached::new(region, socket, welcome)
        .map_err(|error| failed(format!("the server's addresses are taken here: {error}")))?;
    Ok(Box::new(attached))
}

/// This process' command line, words separated by spaces.
fn command_line() -> String {
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}
