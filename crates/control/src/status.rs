//! What a server says about itself, as the daemon keeps it and the commands print it.

use channel::message::{self, ClientLimits, ClientScheduling, ClientWork, ContextStatus, Devices};
use cuda_api::attributes::MULTIPROCESSOR_COUNT;
use serde::{Deserialize, Serialize};

/// State of a server, by NVIDIA's words where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPhase {
    /// Not ready yet; clients wait.
    Initializing,
    /// Serves.
    Active,
    /// Ready to take the place of one that serves.
    Standby,
    /// Recovers from a fatal fault; new clients are refused.
    Fault,
    /// Asked to end; serves the clients it has.
    ShuttingDown,
}

impl ServerPhase {
    /// The word that `get_server_status` prints.
    pub fn word(self) -> &'static str {
        match self {
            ServerPhase::Initializing => "INITIALIZING",
            ServerPhase::Active => "ACTIVE",
            ServerPhase::Standby => "STANDBY",
            ServerPhase::Fault => "FAULT",
            ServerPhase::ShuttingDown => "SHUTTING_DOWN",
        }
    }
}

/// A device that a server offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedDevice {
    /// Number by which clients know it.
    pub ordinal: u32,
    /// PCI address as the driver writes it: `0000:00:06.0`.
    pub pci: String,
    /// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`
    pub uuid: String,
    /// Name of the product.
    pub name: String,
    /// What it is and did.
    #[serde(default)]
    pub counts: DeviceCounts,
}

/// What a device is and did so far. Differences of two readings give ratios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceCounts {
    /// Its SMs.
    pub sms: u32,
    /// Largest number of resident warps of an SM.
    pub warps_per_sm: u32,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// What of it is free, bytes.
    pub memory_free_bytes: u64,
    /// Time that it counts, ns.
    pub elapsed_ns: u64,
    /// Time in which at least one kernel ran, ns.
    pub busy_ns: u64,
    /// Sum over SMs of the time in which they had a block, ns.
    pub sm_active_ns: u64,
    /// Sum over resident warps of the time in which they were, ns.
    pub warp_ns: u64,
    /// The last three are estimated from a sample of launches.
    pub sampled: bool,
    /// Time between two events around an empty kernel, ns; `null` where nothing is timed by events, and
    /// until it was measured, some seconds after a server's start.
    pub event_pair_ns: Option<u64>,
    /// What of a time by events is taken off, ns; `null` likewise.
    pub event_cost_ns: Option<u64>,
    /// Device memory of the server's process shortly after its start, bytes: of one in standby what its
    /// context costs; 0: not known.
    #[serde(default)]
    pub start_bytes: u64,
}

impl From<message::DeviceCounts> for DeviceCounts {
    fn from(counts: message::DeviceCounts) -> Self {
        let measured = |ns| Some(ns).filter(|_| counts.event_pair_ns > 0);
        Self {
            sms: counts.sms,
            warps_per_sm: counts.warps_per_sm,
            memory_bytes: counts.memory_bytes,
            memory_free_bytes: counts.memory_free_bytes,
            elapsed_ns: counts.elapsed_ns,
            busy_ns: counts.busy_ns,
            sm_active_ns: counts.sm_active_ns,
            warp_ns: counts.warp_ns,
            sampled: counts.sampled,
            event_pair_ns: measured(counts.event_pair_ns),
            event_cost_ns: measured(counts.event_cost_ns),
            start_bytes: counts.start_bytes,
        }
    }
}

impl ListedDevice {
    /// The devices that a daemon serves.
    pub fn list(devices: &Devices) -> Vec<Self> {
        let all = (0..).zip(&devices.devices);
        all.map(|(ordinal, device)| Self {
            ordinal,
            pci: device.pci_bus_id.clone(),
            uuid: device.uuid.to_string(),
            name: device.name.clone(),
            counts: DeviceCounts {
                sms: u32::try_from(device.attributes[MULTIPROCESSOR_COUNT as usize]).unwrap_or(0),
                memory_bytes: device.memory_bytes,
                ..DeviceCounts::default()
            },
        })
        .collect()
    }
}

/// A client of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedClient {
    /// Process id in the daemon's PID namespace, if it has one there: a container's process has
    /// none where the daemon runs in another container.
    pub pid: Option<u32>,
    /// The number by which daemon and servers know its process, which has one without a PID too.
    pub process: u32,
    /// Number of the client, unique in its server's life.
    pub id: u32,
    /// User.
    pub uid: u32,
    /// The device that it uses.
    pub device_uuid: String,
    /// Device memory that it holds, bytes.
    pub memory_bytes: u64,
    /// Memory of the machine that its server keeps for it, pinned and in graphs, bytes.
    pub host_bytes: u64,
    /// What it may have.
    pub limits: ClientLimits,
    /// What it has submitted.
    pub submitted: message::SubmittedCounts,
    /// What became of that.
    pub counts: message::ClientCounts,
    /// What the device did for it, if the server's provider counts that.
    pub work: Option<ClientWork>,
    /// How it is scheduled.
    pub scheduling: ClientScheduling,
    /// Its command line.
    pub command: String,
}

impl ListedClient {
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
    pub state: ServerPhase,
    /// Devices that it offers, by ordinal.
    pub devices: Vec<ListedDevice>,
    /// Clients, oldest first.
    pub clients: Vec<ListedClient>,
    /// What its clients cost each other, if they share a context.
    pub context: Option<ContextStatus>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_events_cost_is_null_until_it_is_known_and_may_be_nothing() {
        let of = |event_pair_ns, event_cost_ns| {
            let counts =
                message::DeviceCounts { event_pair_ns, event_cost_ns, ..Default::default() };
            let counts = DeviceCounts::from(counts);
            (counts.event_pair_ns, counts.event_cost_ns)
        };
        assert_eq!(of(0, 0), (None, None));
        assert_eq!(of(4100, 3500), (Some(4100), Some(3500)));
        assert_eq!(of(600, 0), (Some(600), Some(0)));
    }
}
