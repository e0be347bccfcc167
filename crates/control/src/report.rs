//! What a server says about itself, as the daemon keeps it and the commands print it.

use channel::message::ClientWork;

/// Lanes of a warp, of every device.
const WARP_LANES: u64 = 32;

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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Process id in the daemon's PID namespace; 0 if it has none there.
    pub pid: u32,
    /// Number of the client, unique in its server.
    pub id: u32,
    /// User.
    pub uid: u32,
    /// The device that it uses.
    pub device_uuid: String,
    /// Device memory that it holds, bytes.
    pub memory_bytes: u64,
    /// Kernels that it has launched.
    pub kernels: u64,
    /// What the device did for it, if the server's provider counts that.
    pub work: Option<ClientWork>,
    /// Its command line.
    pub command: String,
}

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

/// The share of lanes, 0 to 1, that took part in warps' instructions: from the instructions counted
/// once a warp and once a thread. `None` if there were none.
pub fn lanes_active(warp_instructions: u64, thread_instructions: u64) -> Option<f64> {
    let lanes = warp_instructions as f64 * WARP_LANES as f64;
    (warp_instructions > 0).then(|| thread_instructions as f64 / lanes)
}
