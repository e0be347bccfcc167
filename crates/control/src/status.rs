//! What a server says about itself, as the daemon keeps it and the commands print it.

use channel::message::{ClientLimits, ClientScheduling, ClientWork};
use serde::{Deserialize, Serialize};

/// State of a server, by NVIDIA's words where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Not ready yet; clients wait.
    Initializing,
    /// Serves.
    Active,
    /// Recovers from a fatal fault; new clients are refused.
    Fault,
    /// Told to end; serves the clients it has.
    ShuttingDown,
}

impl ServerState {
    /// The word that `get_server_status` prints.
    pub fn word(self) -> &'static str {
        match self {
            ServerState::Initializing => "INITIALIZING",
            ServerState::Active => "ACTIVE",
            ServerState::Fault => "FAULT",
            ServerState::ShuttingDown => "SHUTTING_DOWN",
        }
    }
}

/// A device that a server offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Number by which clients know it.
    pub ordinal: u32,
    /// PCI address as the driver writes it: `0000:00:06.0`.
    pub pci: String,
    /// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`
    pub uuid: String,
    /// Name of the product.
    pub name: String,
}

/// A client of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Process id in the daemon's PID namespace, if it has one there: a container's process has
    /// none where the daemon runs in another container.
    pub pid: Option<u32>,
    /// Number of the client, unique in its server's life.
    pub id: u32,
    /// User.
    pub uid: u32,
    /// The device that it uses.
    pub device_uuid: String,
    /// Device memory that it holds, bytes.
    pub memory_bytes: u64,
    /// Kernels that it has launched.
    pub kernels: u64,
    /// What it may have.
    pub limits: ClientLimits,
    /// What the device did for it, if the server's provider counts that.
    pub work: Option<ClientWork>,
    /// How it is scheduled.
    pub scheduling: ClientScheduling,
    /// Its command line.
    pub command: String,
}

impl Client {
    /// The word by which commands name it: its PID, else `id:` and its number in its server.
    pub fn name(&self) -> String {
        self.pid.map_or_else(|| format!("{ID_PREFIX}{}", self.id), |pid| pid.to_string())
    }
}

/// What stands before a client's number where a command wants to know which client.
pub const ID_PREFIX: &str = "id:";

/// One answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// State.
    pub state: ServerState,
    /// Devices that it offers, by ordinal.
    pub devices: Vec<Device>,
    /// Clients, oldest first.
    pub clients: Vec<Client>,
}
