//! The connection to the server: is it there, and what has it said about errors?

use crate::stderr::say;
use channel::region::{Region, ServerState, SessionEnd};
use channel::socket::SeqPacket;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use cuda_api::{CUresult, CudaError};

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

/// The connection to the server, for the life of the process.
pub(crate) struct Link {
    region: Region,
    socket: SeqPacket,
    server: ServerName,
    dead: AtomicBool,
    /// True once the end was said on standard error.
    said: AtomicBool,
}

impl Link {
    pub(crate) fn new(region: Region, socket: SeqPacket, server: ServerName) -> Self {
        let (dead, said) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { region, socket, server, dead, said }
    }

    /// The shared region.
    #[inline(always)]
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// The socket: only for the thread that holds the call lock, and for its number.
    pub(crate) fn socket(&self) -> &SeqPacket {
        &self.socket
    }

    /// True if the server will answer. Makes a system call: for waits that take long already.
    pub(crate) fn is_alive(&self) -> bool {
        if self.dead.load(Ordering::Acquire) {
            return false;
        }
        if self.region.server_state() == ServerState::Ended || self.socket.is_hung_up() {
            self.give_up();
            return false;
        }
        true
    }

    /// The server is gone, or talks nonsense: from now on every call fails.
    pub(crate) fn give_up(&self) {
        self.dead.store(true, Ordering::Release);
        // What the server itself gave as the reason stays.
        self.region.set_sticky_error(SERVER_GONE);
        self.say_end();
    }

    /// The error after which every call fails, if there is one. No system call while there is none.
    #[inline(always)]
    pub(crate) fn health(&self) -> CUresult {
        match (self.region.sticky_error(), self.region.server_state()) {
            (Ok(()), ServerState::Starting | ServerState::Running) => Ok(()),
            (error, _) => self.failed(error),
        }
    }

    #[cold]
    fn failed(&self, error: CUresult) -> CUresult {
        // A fault is the program's own affair; an end is not.
        if self.region.session_end().is_some() || self.region.server_state() == ServerState::Ended {
            self.say_end();
        }
        error?;
        Err(SERVER_GONE)
    }

    /// As [`Self::health`], and looks whether the server is there.
    pub(crate) fn health_of_wait(&self) -> CUresult {
        // A server that is gone may have left the reason.
        let alive = self.is_alive();
        self.health()?;
        if alive { Ok(()) } else { Err(SERVER_GONE) }
    }

    /// Says once, on standard error, how the connection ended: an error code alone does not tell.
    fn say_end(&self) {
        if !self.said.swap(true, Ordering::AcqRel) {
            let how = HowItEnded {
                server: &self.server,
                reason: self.region.session_end(),
                error: self.region.sticky_error().err().unwrap_or(SERVER_GONE),
                hung_up: self.socket.is_hung_up(),
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
