//! How a server is: its devices and clients.

use super::counts::numbers;
use super::{
    Body, COMMAND_LINE_BYTES_MAX, ClientCounts, ClientLimits, DEVICES_MAX, NAME_BYTES_MAX,
    REASON_BYTES_MAX, SCHEDULING_BYTES_MAX, SubmittedCounts,
};
use crate::codec::{CodecError, Decoder, Encoder};
use crate::region::ServerState;
use cuda_api::CUuuid;

/// Clients in one message: with the longest command lines they and all devices still fit into
/// [`MESSAGE_BYTES_MAX`](super::MESSAGE_BYTES_MAX).
pub const STATUS_CLIENTS_MAX: usize = 32;

/// A device of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceStatus {
    /// Its ordinal.
    pub ordinal: u32,
    /// Its PCI bus id.
    pub pci_bus_id: String,
    /// Its UUID.
    pub uuid: CUuuid,
    /// Its name.
    pub name: String,
    /// What it did.
    pub counts: DeviceCounts,
}

numbers! {
    /// What a device is and did so far. Differences of two readings give ratios.
    pub struct DeviceCounts {
        /// Its SMs.
        pub sms: u32,
        /// Largest number of resident warps of an SM.
        pub warps_per_sm: u32,
        /// Its memory, bytes.
        pub memory_bytes: u64,
        /// What of it is free, bytes.
        pub memory_free_bytes: u64,
        /// Time since the server has started, or the device was made, ns.
        pub elapsed_ns: u64,
        /// Time in which at least one kernel ran, ns.
        pub busy_ns: u64,
        /// Sum over SMs of the time in which they had a block, ns.
        pub sm_active_ns: u64,
        /// Sum over resident warps of the time in which they were, ns.
        pub warp_ns: u64,
        /// The last three are estimated from a sample of launches.
        pub sampled: bool,
        /// Time between two events around an empty kernel, ns; 0 where nothing is timed by events, or
        /// not yet.
        pub event_pair_ns: u64,
        /// What of a time by events is taken off, ns.
        pub event_cost_ns: u64,
        /// Device memory of the server's process shortly after its start, bytes: of one in standby what
        /// its context costs; 0: not known.
        pub start_bytes: u64,
    }
}

/// Kinds of calls, and calls, in one message.
pub const CONTEXT_CALLS_MAX: usize = 16;

/// What clients of one context cost each other, and what is done against it. Nothing where they do not
/// share one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextStatus {
    /// Calls that wait for the whole context, by kind, in words.
    pub calls: Vec<(String, CallCounts)>,
    /// Those that are being made, the oldest first.
    pub waiting: Vec<WaitingCall>,
    /// The warm list.
    pub warm: WarmStatus,
}

/// A call that waits for the whole context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingCall {
    /// What it does.
    pub call: String,
    /// The client for which it is made, as the log names it.
    pub client: String,
    /// The clients whose kernels it waits for.
    pub others: String,
    /// Since when, ns.
    pub since_ns: u64,
}

numbers! {
    /// What calls that wait for the whole context cost so far.
    pub struct CallCounts {
        /// Calls.
        pub calls: u64,
        /// Those of them that were made while other clients had kernels in flight.
        pub beside_others: u64,
        /// For how long they waited for a quiescent point, ns.
        pub waited_ns: u64,
        /// Time in them, in which no client can launch, ns.
        pub total_ns: u64,
        /// The longest of them, ns.
        pub longest_ns: u64,
    }

    /// A server's warm list: code that it has loaded before any client asked for it.
    pub struct WarmStatus {
        /// Device memory that it may take, bytes; 0: there is none.
        pub budget_bytes: u64,
        /// Device memory that it took, bytes.
        pub bytes: u64,
        /// Images that were loaded at the start.
        pub images: u32,
        /// Kernels of them.
        pub kernels: u32,
        /// Loads of clients that found code loaded, by the list or by another client.
        pub spared: u64,
    }
}

/// A client of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientStatus {
    /// Its process id.
    pub pid: u32,
    /// Its number at the server.
    pub id: u32,
    /// Its user.
    pub uid: u32,
    /// The device it uses.
    pub device: CUuuid,
    /// Device memory it has, bytes.
    pub memory_bytes: u64,
    /// What it may have.
    pub limits: ClientLimits,
    /// What it has submitted.
    pub submitted: SubmittedCounts,
    /// What became of that.
    pub counts: ClientCounts,
    /// What the device did for it, if the provider counts that.
    pub work: Option<ClientWork>,
    /// How it is scheduled.
    pub scheduling: ClientScheduling,
    /// Its command line.
    pub command_line: String,
    /// Memory of the machine that the server keeps for it, pinned and in graphs, bytes. Since protocol 3.
    pub host_bytes: u64,
}

/// How a client is scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientScheduling {
    /// What is set for it, as text.
    pub settings: String,
    /// For how long its work was held at the gate, ns.
    pub paused_ns: u64,
    /// How often it was held.
    pub pauses: u64,
    /// Device time that the gate has charged it, ns: predictions, and times where they were taken.
    pub charged_ns: u64,
    /// Time between two of its requests, ns, if they come at even intervals, so that the next one is expected; else 0.
    pub interval_ns: u64,
    /// SMs that it has while classes share in space and it is of class batch; 0: it has what its limits say.
    pub space_sms: u32,
    /// How much a client of class latency is slowed by batch work beside it, ‰ of what its work takes alone; 0: not known.
    pub slowed_permille: u32,
    /// How often the SMs that batch work has beside latency work have changed, for clients of both classes.
    pub space_changes: u64,
}

numbers! {
    /// What a device did for a client so far.
    pub struct ClientWork {
        /// Time during which at least one of its kernels ran, ns.
        pub busy_ns: u64,
        /// Time that the provider's threads spent in its blocks, ns, summed over threads.
        pub worker_ns: u64,
        /// Blocks that ended.
        pub blocks: u64,
        /// Instructions, once a warp.
        pub warp_instructions: u64,
        /// Instructions, once a thread that took part.
        pub thread_instructions: u64,
        /// Bytes read from and written to global memory.
        pub global_bytes: u64,
        /// Sum over SMs of the time during which at least one of its blocks was resident, ns.
        pub sm_active_ns: u64,
        /// Sum over its resident warps of the time they were resident, ns.
        pub warp_ns: u64,
        /// From the start of each of its kernels to the end, ns; kernels that overlap count each.
        pub device_ns: u64,
        /// Times are estimated from a sample of launches; other numbers that follow from none are 0.
        pub sampled: bool,
    }
}

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// What it does.
    pub state: ServerState,
    /// True if another message with further clients follows.
    pub more: bool,
    /// Its devices; only in the first message.
    pub devices: Vec<DeviceStatus>,
    /// Its clients, at most [`STATUS_CLIENTS_MAX`] a message.
    pub clients: Vec<ClientStatus>,
    /// Its context; only in a message without clients.
    pub context: Option<ContextStatus>,
}

impl ServerStatus {
    /// The message that carries what there is to say of the context; another one follows.
    pub fn of_context(state: ServerState, context: ContextStatus) -> Self {
        Self { state, more: true, devices: vec![], clients: vec![], context: Some(context) }
    }

    /// The messages that carry any number of clients: one at least.
    pub fn split(
        state: ServerState,
        devices: Vec<DeviceStatus>,
        clients: Vec<ClientStatus>,
    ) -> Vec<Self> {
        let mut messages: Vec<Self> = clients
            .chunks(STATUS_CLIENTS_MAX)
            .map(|clients| Self {
                state,
                more: true,
                devices: vec![],
                clients: clients.to_vec(),
                context: None,
            })
            .collect();
        if messages.is_empty() {
            let (devices, clients) = (vec![], vec![]);
            messages.push(Self { state, more: false, devices, clients, context: None });
        }
        messages[0].devices = devices;
        if let Some(last) = messages.last_mut() {
            last.more = false;
        }
        messages
    }
}

impl Body for ServerStatus {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u8(self.state as u8);
        to.bool(self.more);
        to.list(&self.devices, DEVICES_MAX, |to, device| device.write_within(to))?;
        to.list(&self.clients, STATUS_CLIENTS_MAX, |to, client| client.write_within(to))?;
        to.bool(self.context.is_some());
        self.context.as_ref().map_or(Ok(()), |context| context.write_within(to))
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let state = match from.u8()? {
            0 => ServerState::Starting,
            1 => ServerState::Running,
            2 => ServerState::Ended,
            found => {
                return Err(CodecError::Value { what: "state of a server", found: found.into() });
            }
        };
        Ok(Self {
            state,
            more: from.bool()?,
            devices: from.list(DEVICES_MAX, DeviceStatus::read_within)?,
            clients: from.list(STATUS_CLIENTS_MAX, ClientStatus::read_within)?,
            context: if from.bool()? { Some(ContextStatus::read_within(from)?) } else { None },
        })
    }
}

impl Body for ContextStatus {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.list(&self.calls, CONTEXT_CALLS_MAX, |to, (call, counts)| {
            to.text(call, NAME_BYTES_MAX);
            counts.write_within(to)
        })?;
        to.list(&self.waiting, CONTEXT_CALLS_MAX, |to, of| {
            to.text(&of.call, NAME_BYTES_MAX);
            to.text(&of.client, NAME_BYTES_MAX);
            to.text(&of.others, REASON_BYTES_MAX);
            to.u64(of.since_ns);
            Ok(())
        })?;
        self.warm.write_within(to)
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let calls = from.list(CONTEXT_CALLS_MAX, |from| {
            Ok((from.text(NAME_BYTES_MAX)?, CallCounts::read_within(from)?))
        })?;
        let waiting = from.list(CONTEXT_CALLS_MAX, |from| {
            Ok(WaitingCall {
                call: from.text(NAME_BYTES_MAX)?,
                client: from.text(NAME_BYTES_MAX)?,
                others: from.text(REASON_BYTES_MAX)?,
                since_ns: from.u64()?,
            })
        })?;
        Ok(Self { calls, waiting, warm: WarmStatus::read_within(from)? })
    }
}

impl Body for DeviceStatus {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.ordinal);
        to.text(&self.pci_bus_id, NAME_BYTES_MAX);
        to.raw(&self.uuid.bytes);
        to.text(&self.name, NAME_BYTES_MAX);
        self.counts.write_within(to)
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            ordinal: from.u32()?,
            pci_bus_id: from.text(NAME_BYTES_MAX)?,
            uuid: CUuuid { bytes: from.array()? },
            name: from.text(NAME_BYTES_MAX)?,
            counts: DeviceCounts::read_within(from)?,
        })
    }
}

impl Body for ClientStatus {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.u32(self.pid);
        to.u32(self.id);
        to.u32(self.uid);
        to.raw(&self.device.bytes);
        to.u64(self.memory_bytes);
        self.limits.write_within(to)?;
        self.submitted.write_within(to)?;
        self.counts.write_within(to)?;
        to.bool(self.work.is_some());
        if let Some(work) = &self.work {
            work.write_within(to)?;
        }
        self.scheduling.write_within(to)?;
        to.text(&self.command_line, COMMAND_LINE_BYTES_MAX);
        to.grown(|to| {
            to.u64(self.host_bytes);
            Ok(())
        })
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            pid: from.u32()?,
            id: from.u32()?,
            uid: from.u32()?,
            device: CUuuid { bytes: from.array()? },
            memory_bytes: from.u64()?,
            limits: ClientLimits::read_within(from)?,
            submitted: SubmittedCounts::read_within(from)?,
            counts: ClientCounts::read_within(from)?,
            work: if from.bool()? { Some(ClientWork::read_within(from)?) } else { None },
            scheduling: ClientScheduling::read_within(from)?,
            command_line: from.text(COMMAND_LINE_BYTES_MAX)?,
            host_bytes: from.grown(Decoder::u64)?,
        })
    }
}

impl Body for ClientScheduling {
    fn write(&self, to: &mut Encoder) -> Result<(), CodecError> {
        to.text(&self.settings, SCHEDULING_BYTES_MAX);
        to.u64(self.paused_ns);
        to.u64(self.pauses);
        to.u64(self.charged_ns);
        to.u64(self.interval_ns);
        to.grown(|to| {
            to.u32(self.space_sms);
            to.u32(self.slowed_permille);
            to.u64(self.space_changes);
            Ok(())
        })
    }
    fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            settings: from.text(SCHEDULING_BYTES_MAX)?,
            paused_ns: from.u64()?,
            pauses: from.u64()?,
            charged_ns: from.u64()?,
            interval_ns: from.u64()?,
            space_sms: from.grown(Decoder::u32)?,
            slowed_permille: from.grown(Decoder::u32)?,
            space_changes: from.grown(Decoder::u64)?,
        })
    }
}
