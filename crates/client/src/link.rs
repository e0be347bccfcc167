//! The connection to the server: is it there, and what has it said about errors?

use channel::region::{Region, ServerState};
use channel::socket::SeqPacket;
use core::sync::atomic::{AtomicBool, Ordering};
use cuda_api::{CUresult, CudaError};

/// What every call gets when the server is gone.
pub(crate) const SERVER_GONE: CudaError = CudaError::MPS_RPC_FAILURE;

/// The connection to the server, for the life of the process.
pub(crate) struct Link {
    region: Region,
    socket: SeqPacket,
    dead: AtomicBool,
}

impl Link {
    pub(crate) fn new(region: Region, socket: SeqPacket) -> Self {
        Self { region, socket, dead: AtomicBool::new(false) }
    }

    /// The shared region.
    #[inline(always)]
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// The socket: only for whoever holds the call lock, and for its number.
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
    }

    /// The error after which every call fails, if there is one. No system call.
    #[inline(always)]
    pub(crate) fn health(&self) -> CUresult {
        self.region.sticky_error()?;
        match self.region.server_state() {
            ServerState::Ended => Err(SERVER_GONE),
            _ => Ok(()),
        }
    }

    /// As [`Self::health`], and looks whether the server is there.
    pub(crate) fn health_of_wait(&self) -> CUresult {
        // Whoever is gone may have left the reason.
        let alive = self.is_alive();
        self.health()?;
        if alive { Ok(()) } else { Err(SERVER_GONE) }
    }
}
