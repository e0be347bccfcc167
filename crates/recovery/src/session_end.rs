//! End of a session: why it ends, which of several reasons counts, and of what the client is notified.

use channel::region::SessionEnd;
use cuda_api::CudaError;

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// The client's process is gone, or closed its socket.
    ClientGone = 1,
    /// `terminate_client` named it.
    Terminated = 2,
    /// The server was asked to end.
    ServerEnds = 3,
    /// The client wrote what it never may.
    Broken = 4,
    /// The control daemon is gone without a word.
    DaemonGone = 5,
    /// The client goes on at another server.
    Moved = 6,
    /// The client caused the fault that ends the server.
    Faulting = 7,
    /// The client goes on at another server when what was taken from its ring is done.
    HandedOver = 8,
}

impl End {
    /// The end of that number.
    pub const fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::ClientGone,
            2 => Self::Terminated,
            3 => Self::ServerEnds,
            4 => Self::Broken,
            5 => Self::DaemonGone,
            6 => Self::Moved,
            7 => Self::Faulting,
            8 => Self::HandedOver,
            _ => return None,
        })
    }

    /// True if this reason counts where `first` was given before. The first one stays, but that a
    /// client is gone beats others: there is no client to notify then. And a session that is handed over
    /// waits for work, which may have no end, and which a fault ends: what is said then beats that.
    pub fn beats(self, first: Option<End>) -> bool {
        matches!(
            (self, first),
            (_, None)
                | (Self::ClientGone, _)
                | (
                    Self::Terminated | Self::ServerEnds | Self::Faulting | Self::Moved,
                    Some(Self::HandedOver),
                )
        )
    }

    /// What counts when a session that was handed over has waited: if its work was `finished` the client
    /// may go by that, else an error has ended the wait.
    pub fn after_wait(self, finished: bool) -> Self {
        match (self, finished) {
            (Self::HandedOver, false) => Self::Moved,
            (other, _) => other,
        }
    }

    /// What the client is notified of, if it is still there.
    pub const fn notice(self) -> Option<SessionEnd> {
        match self {
            Self::ClientGone | Self::Faulting => None,
            Self::Terminated => Some(SessionEnd::Terminated),
            Self::ServerEnds => Some(SessionEnd::ServerShutDown),
            Self::Broken => Some(SessionEnd::ClientBroken),
            Self::DaemonGone => Some(SessionEnd::DaemonGone),
            Self::Moved => Some(SessionEnd::Moved),
            Self::HandedOver => Some(SessionEnd::HandedOver),
        }
    }

    /// The error of what the session was doing for the client.
    pub fn error(self) -> CudaError {
        self.notice().and_then(SessionEnd::error).unwrap_or(CudaError::MPS_RPC_FAILURE)
    }
}
