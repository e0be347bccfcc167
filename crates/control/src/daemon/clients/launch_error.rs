//! Launch errors: why a client gets no server, and what its first driver call answers.

use crate::fault_budget::FaultBudget;
use crate::v3::NoTenancy;
use cuda_api::{CUuuid, CudaError};
use recovery::servers::NoServer;
use thiserror::Error;

/// Clients that wait for a server at one time. Each holds two descriptors.
pub(in crate::daemon) const WAITING_MAX: usize = 4096;
/// Of one user: as many as can be served. One user's programs do not keep others' out.
pub(in crate::daemon) const WAITING_OF_USER_MAX: usize = 1024;
const _: () = assert!(WAITING_OF_USER_MAX < WAITING_MAX);

/// Why there is no server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum LaunchError {
    #[error(
        "this daemon was started by {owner} and serves only that user, not {user}: start one with \
         `openmps up`, or have root start one for all"
    )]
    OtherUser { owner: String, user: String },
    #[error(
        "no server can run as user {uid}, group {gid}, which this daemon's user namespace does not \
         have: run the program as a user of that namespace, or start the daemon outside of it"
    )]
    Unmapped { uid: u32, gid: u32 },
    #[error("this daemon serves no device {0}")]
    NoSuchDevice(CUuuid),
    #[error("server '{server}' is {owner}'s and serves only that user, not {user}")]
    OtherUsersServer { server: String, owner: String, user: String },
    #[error("the server or namespace of this socket is not there any more")]
    ServerDeleted,
    #[error("server '{0}' has none of this daemon's devices: see its allowed-devices")]
    NoAllowedDevice(String),
    #[error("{0} clients wait already")]
    TooManyWaiting(usize),
    #[error(transparent)]
    None(#[from] NoServer),
    #[error("this daemon does not serve {0}: its operator says whom by --allow")]
    NotAllowed(String),
    #[error(
        "its program has caused {0} faults, and {1} are allowed (OPENMPS_FAULT_BUDGET): an operator can \
         allow more"
    )]
    FaultBudget(usize, FaultBudget),
    #[error("the server did not start: {0}")]
    Ended(String),
}

impl From<NoTenancy> for LaunchError {
    fn from(why: NoTenancy) -> Self {
        match why {
            NoTenancy::NoDevice(server) => LaunchError::NoAllowedDevice(server),
            NoTenancy::Deleted | NoTenancy::OtherUser { .. } => LaunchError::ServerDeleted,
        }
    }
}

impl LaunchError {
    /// What a client's first driver call answers.
    pub fn result(&self) -> CudaError {
        match self {
            LaunchError::NotAllowed(_)
            | LaunchError::OtherUsersServer { .. }
            | LaunchError::ServerDeleted
            | LaunchError::OtherUser { .. }
            | LaunchError::Unmapped { .. }
            | LaunchError::None(NoServer::NotStarted(_))
            | LaunchError::FaultBudget(..)
            | LaunchError::Ended(_) => CudaError::MPS_CONNECTION_FAILED,
            LaunchError::NoSuchDevice(_) | LaunchError::NoAllowedDevice(_) => {
                CudaError::INVALID_DEVICE
            }
            LaunchError::TooManyWaiting(_) => CudaError::MPS_MAX_CONNECTIONS_REACHED,
            LaunchError::None(
                NoServer::Stopping
                | NoServer::BackOff { .. }
                | NoServer::OtherUserFirst
                | NoServer::UnaffectedFirst,
            ) => CudaError::MPS_SERVER_NOT_READY,
        }
    }

    /// It will pass, and soon: a client does better to wait than to fail.
    pub fn is_worth_waiting(&self) -> bool {
        matches!(self, LaunchError::None(why) if why.is_worth_waiting())
    }
}
