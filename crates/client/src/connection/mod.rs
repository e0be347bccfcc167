//! Connection: one shared region with its ring, one socket, one server, and whether it is there.
//!
//! It knows nothing of what the program owns. When its server is gone another connection takes its
//! place, with a region of its own.

pub(crate) mod answered;
mod calls;
pub(crate) mod handshake;
pub(crate) mod requested_limits;
mod slow_start;
pub(crate) mod staging;

use crate::lock::{Lock, Rank};
use crate::stderr::say;
use channel::message::{WELCOME_HAS_TENANTS, WELCOME_TAKES_UNMARKED, Welcome};
use channel::region::{RING_BYTES, RING_OFFSET, Region, STAGING_BYTES, ServerState, SessionEnd};
use channel::reply::ReplyReader;
use channel::ring::Producer;
use channel::socket::SeqPacket;
use channel::wait::SpinPolicy;
use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use cuda_api::{CUresult, CudaError};
use locks::Mutex;
use staging::Staging;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// What every call gets when the server is gone.
pub(crate) const SERVER_GONE: CudaError = CudaError::MPS_RPC_FAILURE;

/// The server, for a person who wants to know what became of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerName {
    /// Its process ID, as it knows it itself.
    pub(crate) pid: u32,
    /// Where its log is; empty if nowhere.
    pub(crate) log_path: String,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Life {
    /// The server gets what the program owns, by the one thread that puts the connection in the
    /// place of a lost one.
    Preparing,
    /// All threads use it.
    Live,
    /// The server is gone, or talks nonsense.
    Lost,
}

thread_local! {
    /// True in the thread that prepares a connection, while it does.
    static PREPARES: Cell<bool> = const { Cell::new(false) };
}

/// True if this thread is the one that prepares a connection.
pub(crate) fn prepares_here() -> bool {
    PREPARES.get()
}

/// While it lives, this thread uses connections that others must not use yet.
pub(crate) struct Preparing(());

impl Preparing {
    /// Begins; one at a time in a thread.
    pub(crate) fn begin() -> Self {
        PREPARES.set(true);
        Self(())
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        PREPARES.set(false);
    }
}

/// One connection to one server.
pub(crate) struct Connection {
    region: Region,
    /// Its file: for other devices' servers, which wait for this one's completion words. None once
    /// another connection has taken the place of this one, if there are no other devices.
    region_file: Mutex<Option<Arc<OwnedFd>>>,
    /// None once another connection has taken the place of this one.
    socket: Mutex<Option<Arc<SeqPacket>>>,
    /// Threads that read staging.
    readers: AtomicU32,
    server: ServerName,
    welcome: Welcome,
    policy: SpinPolicy,
    calls: Lock<ReplyReader>,
    pub(crate) staging: Lock<Staging>,
    /// A [`Life`].
    life: AtomicU8,
    /// True once the end was said on standard error.
    said: AtomicBool,
}

/// In a forked child: closes its copy of a descriptor, whose owner is a value or a thread of the parent's that
/// is not used here any more. Negative numbers stand for none.
pub(crate) fn close_copy(fd: RawFd) {
    if fd >= 0 {
        // SAFETY: by the above nothing here has the number.
        unsafe { libc::close(fd) };
    }
}

impl Connection {
    /// A connection to a server that has said welcome.
    pub(crate) fn new(
        (region, region_file): (Region, OwnedFd),
        socket: SeqPacket,
        welcome: Welcome,
    ) -> Self {
        let policy = SpinPolicy::of_process();
        let server = ServerName { pid: welcome.server_pid, log_path: welcome.log_path.clone() };
        Self {
            calls: Lock::new(Rank::Calls, ReplyReader::new(region.clone(), policy)),
            staging: Lock::new(Rank::Staging, Staging::new(STAGING_BYTES as u32)),
            region,
            region_file: Mutex::new(Some(Arc::new(region_file))),
            socket: Mutex::new(Some(Arc::new(socket))),
            readers: AtomicU32::new(0),
            server,
            welcome,
            policy,
            life: AtomicU8::new(Life::Live as u8),
            said: AtomicBool::new(false),
        }
    }

    /// True if the device wakes who sleeps on a completion word; else the server must be asked to.
    pub(crate) fn is_woken_by_device(&self) -> bool {
        self.welcome.flags & WELCOME_HAS_TENANTS != 0
    }

    /// True if the server records events without a word behind them.
    pub(crate) fn takes_unmarked_records(&self) -> bool {
        self.welcome.flags & WELCOME_TAKES_UNMARKED != 0
    }

    /// The shared region.
    #[inline(always)]
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// The region's file.
    pub(crate) fn region_file(&self) -> Result<Arc<OwnedFd>, CudaError> {
        let file = self.region_file.lock();
        file.clone().ok_or(SERVER_GONE)
    }

    /// The socket; an error once another connection has taken the place of this one.
    fn socket(&self) -> Result<Arc<SeqPacket>, CudaError> {
        let socket = self.socket.lock();
        socket.clone().ok_or(SERVER_GONE)
    }

    fn is_hung_up(&self) -> bool {
        self.socket().map_or(true, |socket| socket.is_hung_up())
    }

    /// Another connection has taken the place of this one, which stays where it is, since other threads
    /// may look at it: what it costs is given back. `keeps_words`: other devices may wait for its
    /// completion words still.
    pub(crate) fn retire(&self, keeps_words: bool) {
        drop(self.socket.lock().take());
        if !keeps_words {
            drop(self.region_file.lock().take());
        }
        // A thread that reads staging from now on finds that this is not the client's connection any more.
        // Nothing is pushed into the ring and nothing is read back from it.
        let bytes = match self.readers.load(Ordering::SeqCst) {
            0 => RING_BYTES + STAGING_BYTES,
            _ => RING_BYTES,
        };
        // SAFETY: the ring, and staging behind it, lie within the region and hold nothing that a thread reads.
        // Without success the pages stay.
        unsafe {
            let ring = self.region.base().add(RING_OFFSET as usize);
            libc::madvise(ring.cast(), bytes as usize, libc::MADV_REMOVE);
        }
    }

    /// Reads staging while it is that of the connection which `current` gives; `None` if it is not.
    pub(crate) fn read_staging<R>(
        &self,
        current: impl FnOnce() -> *const Self,
        read: impl FnOnce(&Region) -> R,
    ) -> Option<R> {
        self.readers.fetch_add(1, Ordering::SeqCst);
        let is_current = core::ptr::eq(current(), self);
        let result = is_current.then(|| read(&self.region));
        self.readers.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// What the server said at the handshake.
    pub(crate) fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// How this process waits.
    pub(crate) fn policy(&self) -> SpinPolicy {
        self.policy
    }

    /// The producer's end of the ring: there is one.
    pub(crate) fn producer(&self) -> Producer {
        Producer::new(self.region.clone(), self.policy)
    }

    /// A descriptor that stands in for one that is yet to come.
    pub(crate) fn placeholder(&self) -> Result<OwnedFd, CudaError> {
        let socket = self.socket()?;
        socket.as_fd().try_clone_to_owned().map_err(|_| CudaError::OUT_OF_MEMORY)
    }

    /// In a forked child: closes its copy of the socket, whose end must be the parent's alone. The
    /// number stays taken in this value, which is never dropped there.
    pub(crate) fn close_in_child(&self) {
        // A thread of the parent may have held the locks: what is not closed then is the child's copy
        // until its exec, as it was before.
        let socket = self.socket.try_lock();
        let socket = socket.and_then(|s| s.as_ref().map(|socket| socket.as_fd().as_raw_fd()));
        let file = self.region_file.try_lock();
        let file = file.and_then(|file| file.as_ref().map(|file| file.as_raw_fd()));
        [socket, file].into_iter().flatten().for_each(close_copy);
    }

    /// True if the server will answer. Makes a system call: for waits that take long already.
    pub(crate) fn is_alive(&self) -> bool {
        if self.life() == Life::Lost {
            return false;
        }
        if self.region.server_state() == ServerState::Ended || self.is_hung_up() {
            self.give_up();
            return false;
        }
        true
    }

    #[inline(always)]
    fn life(&self) -> Life {
        match self.life.load(Ordering::Acquire) {
            0 => Life::Preparing,
            1 => Life::Live,
            _ => Life::Lost,
        }
    }

    /// Only the thread that prepares the connection uses it until [`Self::go_live`].
    pub(crate) fn prepare(&self) {
        self.life.store(Life::Preparing as u8, Ordering::Release);
    }

    /// All threads may use the connection.
    pub(crate) fn go_live(&self) {
        let (preparing, live) = (Life::Preparing as u8, Life::Live as u8);
        // It may have been lost meanwhile.
        let _ = self.life.compare_exchange(preparing, live, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The server is gone, or talks nonsense: the connection is of no use any more.
    pub(crate) fn give_up(&self) {
        self.life.store(Life::Lost as u8, Ordering::Release);
    }

    /// No other connection can take the place of this one: from now on every call fails, and standard
    /// error says why.
    pub(crate) fn give_up_for_good(&self) {
        self.give_up();
        // What the server itself gave as the reason stays.
        self.region.set_sticky_error(SERVER_GONE);
        self.say_end();
    }

    /// True if the server is gone and left no error that is the program's: another connection may take
    /// the place of this one. Makes a system call.
    pub(crate) fn is_lost(&self) -> bool {
        self.region.sticky_error().is_ok() && !self.is_alive()
    }

    /// The error after which every call fails, if there is one. No system call while there is none.
    #[inline(always)]
    pub(crate) fn health(&self) -> CUresult {
        match (self.region.sticky_error(), self.region.server_state()) {
            (Ok(()), ServerState::Starting | ServerState::Running) if self.life() == Life::Live => {
                Ok(())
            }
            (error, _) => self.failed(error),
        }
    }

    #[cold]
    fn failed(&self, error: CUresult) -> CUresult {
        let ended = self.region.server_state() == ServerState::Ended;
        // A fault is the program's own affair; an end is not.
        if error.is_err() && (self.region.session_end().is_some() || ended) {
            self.say_end();
        }
        error?;
        match self.life() == Life::Preparing && prepares_here() && !ended {
            true => Ok(()),
            false => Err(SERVER_GONE),
        }
    }

    /// As [`Self::health`], and looks whether the server is there.
    pub(crate) fn health_of_wait(&self) -> CUresult {
        // A server that is gone may have left the reason.
        let alive = self.is_alive();
        self.health()?;
        if alive { Ok(()) } else { Err(SERVER_GONE) }
    }

    /// Says once, on standard error, how the connection ended: an error code alone does not say it.
    fn say_end(&self) {
        // A fault of its own the program hears of by its error, wherever the server is.
        let own = |error: CudaError| error.is_sticky() && !(805..=810).contains(&error.code());
        if self.region.sticky_error().err().is_some_and(own) {
            return;
        }
        if !self.said.swap(true, Ordering::AcqRel) {
            let how = HowItEnded {
                server: &self.server,
                reason: self.region.session_end(),
                error: self.region.sticky_error().err().unwrap_or(SERVER_GONE),
                hung_up: self.is_hung_up(),
                ended: self.region.server_state() == ServerState::Ended,
            };
            say(format_args!("{how}"));
        }
    }
}

/// The line about the end of a connection.
struct HowItEnded<'a> {
    server: &'a ServerName,
    reason: Option<SessionEnd>,
    error: CudaError,
    /// No process is at the other end of the socket.
    hung_up: bool,
    /// The server has said that it takes no more requests.
    ended: bool,
}

impl fmt::Display for HowItEnded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.server.pid;
        match self.reason {
            Some(SessionEnd::Terminated) => {
                write!(f, "this program was terminated at the server (PID {pid}) by a command")
            }
            Some(SessionEnd::ServerShutDown) => write!(f, "the server (PID {pid}) was shut down"),
            Some(SessionEnd::DaemonGone) => {
                write!(f, "the control daemon died, and its server (PID {pid}) ended with it")
            }
            Some(SessionEnd::ClientBroken) => write!(
                f,
                "the server (PID {pid}) ended this program's session: what came over shared memory \
                 was no request"
            ),
            Some(SessionEnd::Moved | SessionEnd::HandedOver) => {
                write!(f, "the server (PID {pid}) ended, and this program found no other one")
            }
            Some(SessionEnd::SessionFailed) => {
                write!(f, "this program's session failed within the server (PID {pid})")
            }
            None if self.hung_up => write!(f, "the server (PID {pid}) died"),
            None if self.ended => write!(f, "the server (PID {pid}) ended this program's session"),
            None => write!(f, "what the server (PID {pid}) answers is not understood"),
        }?;
        let error = self.error;
        write!(
            f,
            "; all CUDA calls fail from now on ({error}), until the program is started again"
        )?;
        match self.server.log_path.as_str() {
            "" => Ok(()),
            path => write!(f, "; see {path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_who_ended_and_where_to_look() {
        let line = |reason, error, hung_up| {
            let server = ServerName { pid: 7, log_path: "/var/log/x/server.log".to_owned() };
            HowItEnded { server: &server, reason, error, hung_up, ended: false }.to_string()
        };
        assert_eq!(
            line(None, SERVER_GONE, true),
            "the server (PID 7) died; all CUDA calls fail from now on (CUDA_ERROR_MPS_RPC_FAILURE), \
             until the program is started again; see /var/log/x/server.log"
        );
        let down = Some(SessionEnd::ServerShutDown);
        assert!(
            line(down, CudaError::MPS_CLIENT_TERMINATED, false)
                .starts_with("the server (PID 7) was shut down; all CUDA calls fail from now on (CUDA_ERROR_MPS_CLIENT_TERMINATED)")
        );
        assert!(line(None, SERVER_GONE, false).contains("not understood"));
    }
}
