//! What `report` prints as JSON: everything that a daemon knows, for programs. Fields are only ever
//! added; readers give those that a daemon of an earlier version lacks a default.

use crate::faults::Fault;
use crate::status::{self, ListedDevice};
use channel::message::{
    ClientLimits, ClientScheduling, ClientWork, ContextStatus, SubmittedCounts, WarmStatus,
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The form of [`Report`].
pub const SCHEMA: u32 = 2;

/// Programs that a device's server takes at the most.
pub const CLIENTS_MAX: u64 = channel::limits::WINDOWS_MAX as u64;

/// Lanes of a warp, of every device.
const WARP_LANES: u64 = 32;

/// A daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The form of this report; it changes when a field goes or means something else. 0: a daemon of an earlier
    /// version.
    #[serde(default)]
    pub schema: u32,
    /// Version of openmps.
    pub version: String,
    /// Which build it is, and what it speaks. All zeros: a daemon of 0.1, which speaks version 2 alone.
    #[serde(default)]
    pub release: ReleaseReport,
    /// Its process.
    pub pid: u32,
    /// Its user; root's serves all users.
    pub uid: u32,
    /// The interface that it follows: 2, or 3 with named servers.
    #[serde(default = "protocol_2")]
    pub protocol: u32,
    /// Its servers are for all users (`-m`).
    #[serde(default)]
    pub multiuser: bool,
    /// Where its sockets are.
    pub pipe_directory: PathBuf,
    /// Where its logs are, if it can write them anywhere.
    pub log_directory: Option<PathBuf>,
    /// It takes no more programs, and ends with the last of those that it has.
    #[serde(default)]
    pub stopping: bool,
    /// Programs whose server is not ready.
    pub clients_waiting: u64,
    /// Files that it may have open, sockets of waiting programs included; `None`: any number, or a
    /// daemon of an earlier version.
    #[serde(default)]
    pub descriptors_max: Option<u64>,
    /// The list of devices that it was started with (CUDA_VISIBLE_DEVICES), whose devices are all
    /// that its programs see.
    #[serde(default)]
    pub visible_devices: Option<String>,
    /// What about its environment and its limits is not as its owner may think, a sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// It gives SMs out in static partitions only: a program must name one.
    #[serde(default)]
    pub static_partitions: bool,
    /// What is wrong now and keeps programs from sharing, a sentence each.
    #[serde(default)]
    pub problems: Vec<String>,
    /// What has happened since its start.
    #[serde(default)]
    pub counters: Counters,
    /// Programs that were refused, by the name of the error that they got.
    #[serde(default)]
    pub refusals: Vec<Refusals>,
    /// The devices that it serves; none while it does not know them.
    #[serde(default)]
    pub devices: Vec<ListedDevice>,
    /// Limits of cgroups' device memory, in protocol 3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroup_limits: Vec<CgroupMemory>,
    /// The last faults of programs that the reader may see, oldest first.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Its servers, oldest first.
    pub servers: Vec<ServerReport>,
}

/// Programs that were refused with one error, since a daemon's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refusals {
    /// The error's name.
    pub error: String,
    /// How many there were.
    pub count: u64,
}

/// What has happened since a daemon's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Faults that clients have caused, or may have.
    pub faults: u64,
    /// Servers that were started.
    pub servers_started: u64,
    /// Servers that ended by a fault, a signal or an error.
    pub servers_lost: u64,
    /// Clients that were terminated, by commands or for others' memory.
    pub clients_terminated: u64,
    /// Programs that were refused.
    pub clients_refused: u64,
    /// Processes that got servers of their own because they may have caused a fault.
    pub candidates: u64,
    /// Processes that got servers of their own because their kernels run for long.
    pub isolations: u64,
    /// Servers whose programs went on at another version's.
    pub servers_upgraded: u64,
    /// Clients that have gone on at another server.
    pub recoveries: u64,
    /// Operations of theirs that were in flight and were repeated.
    pub repeated_operations: u64,
    /// Recoveries in which work could not be repeated, so that a call of the program failed.
    pub replays_refused: u64,
    /// Lines that could not be written to the logs.
    pub log_lines_lost: u64,
}

/// Device memory that the programs of a cgroup may have together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupMemory {
    /// Its path, as in /proc/PID/cgroup; it applies to those below it too.
    pub cgroup: String,
    /// The device, by number, UUID or the beginning of one; none: each.
    pub device: Option<String>,
    /// What it gets from others if the device is full, bytes.
    pub soft_bytes: u64,
    /// What it gets at most, bytes, if that is limited.
    pub hard_bytes: Option<u64>,
}

/// The protocol of daemons that say nothing of it.
fn protocol_2() -> u32 {
    2
}

impl Report {
    /// Whether a user sees all users' programs, and not only of that user's own.
    pub fn tells_all_to(&self, uid: u32) -> bool {
        uid == 0 || uid == self.uid
    }

    /// How many programs use it, of those that the reader may see.
    pub fn programs(&self) -> usize {
        self.servers.iter().map(|server| server.clients.len()).sum()
    }
}

/// Version of what a daemon passes to the next: another program is asked for its own before. A record may get fields
/// without another one, if they have a default.
pub const HANDOVER_VERSION: u32 = 2;

/// A build of openmps: what it speaks with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseReport {
    /// Its version and commit.
    pub build: String,
    /// The oldest version of the protocol between client, daemon and server that it speaks.
    pub protocol_min: u16,
    /// The newest.
    pub protocol_max: u16,
    /// The version of the state that a daemon passes to another build that replaces it.
    pub handover: u32,
}

impl ReleaseReport {
    /// This build.
    pub fn of_this_build() -> Self {
        Self {
            build: channel::build().to_owned(),
            protocol_min: channel::PROTOCOL_VERSION_MIN,
            protocol_max: channel::PROTOCOL_VERSION,
            handover: HANDOVER_VERSION,
        }
    }
}

/// One of its servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Its process.
    pub pid: u32,
    /// Its user.
    #[serde(default)]
    pub uid: u32,
    /// That user's name.
    #[serde(default)]
    pub user: String,
    /// Its name, in protocol 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The word of `get_server_status`.
    pub state: String,
    /// The devices that it offers.
    #[serde(default)]
    pub devices: Vec<ListedDevice>,
    /// Its clients, oldest first.
    pub clients: Vec<ClientReport>,
    /// What they cost each other, if they share a context, as on NVIDIA's driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// The process for which alone it is there, because its kernels run for long (`--isolate-long`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolates: Option<u32>,
    /// The process for which alone it is there, because it may have caused a fault: it repeats its
    /// work in flight.
    #[serde(default, alias = "quarantine", skip_serializing_if = "Option::is_none")]
    pub candidate: Option<u32>,
    /// Why it did not answer, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What clients of one context cost each other, and what is done against it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Calls that wait for all work of the context, by kind.
    pub calls: Vec<ContextCalls>,
    /// Those that are being made now.
    pub waiting: Vec<WaitingReport>,
    /// Code that is loaded before any program asks for it.
    pub warm: Warm,
}

/// Calls of one kind that wait for all work of a context; no client can launch meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextCalls {
    /// What they do, in words.
    pub call: String,
    /// How many there were.
    pub calls: u64,
    /// How many of them were made while other clients had kernels in flight.
    pub beside_others: u64,
    /// How long they waited for an idle context, ns.
    pub waited_ns: u64,
    /// Time in them, ns.
    pub total_ns: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
}

/// A call that waits for others' work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitingReport {
    /// What it does, in words.
    pub call: String,
    /// The client for which it is made, as server.log names it.
    pub client: String,
    /// The clients whose kernels it waits for.
    pub others: String,
    /// Since when, ns.
    pub since_ns: u64,
}

/// A server's module preload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Warm {
    /// Device memory that it may take, bytes; 0: there is none.
    pub budget_bytes: u64,
    /// Device memory that it took, bytes.
    pub bytes: u64,
    /// Images that were loaded when the server started.
    pub images: u32,
    /// Kernels of them.
    pub kernels: u32,
    /// Loads of programs that found their code loaded already.
    pub spared: u64,
}

impl From<&ContextStatus> for Context {
    fn from(status: &ContextStatus) -> Context {
        let calls = status.calls.iter().map(|(call, counts)| ContextCalls {
            call: call.clone(),
            calls: counts.calls,
            beside_others: counts.beside_others,
            waited_ns: counts.waited_ns,
            total_ns: counts.total_ns,
            longest_ns: counts.longest_ns,
        });
        let waiting = status.waiting.iter().map(|of| WaitingReport {
            call: of.call.clone(),
            client: of.client.clone(),
            others: of.others.clone(),
            since_ns: of.since_ns,
        });
        let WarmStatus { budget_bytes, bytes, images, kernels, spared } = status.warm;
        Context {
            calls: calls.collect(),
            waiting: waiting.collect(),
            warm: Warm { budget_bytes, bytes, images, kernels, spared },
        }
    }
}

/// One of their clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientReport {
    /// Process id in the daemon's PID namespace, if it has one there.
    pub pid: Option<u32>,
    /// Its number, unique in its server's life.
    pub id: u32,
    /// Its user.
    #[serde(default)]
    pub uid: u32,
    /// That user's name.
    pub user: String,
    /// The device that it uses.
    #[serde(default)]
    pub device_uuid: String,
    /// Its device memory, bytes.
    pub memory_bytes: u64,
    /// Memory of the machine that its server keeps for it, pinned and in graphs, bytes.
    #[serde(default)]
    pub host_bytes: u64,
    /// Kernels that it launched.
    pub kernels: u64,
    /// What it may have, and who said so.
    #[serde(default)]
    pub limits: LimitsReport,
    /// Its copies.
    #[serde(default)]
    pub copies: Copies,
    /// What became of its requests.
    #[serde(default)]
    pub requests: Requests,
    /// What the device did for it, where it counts or was sampled.
    #[serde(default)]
    pub work: Option<Work>,
    /// How it is scheduled beside others.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// The namespace of its server that it chose, in protocol 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mps_namespace: Option<String>,
    /// Inode of its PID namespace: by which containers are distinguished.
    #[serde(default)]
    pub pid_namespace: Option<u64>,
    /// Its command line.
    pub command: String,
}

impl ClientReport {
    /// A client as its server describes it.
    pub fn new(
        client: &status::ListedClient,
        user: String,
        pid_namespace: Option<u64>,
    ) -> ClientReport {
        ClientReport {
            pid: client.pid,
            id: client.id,
            uid: client.uid,
            user,
            device_uuid: client.device_uuid.clone(),
            memory_bytes: client.memory_bytes,
            host_bytes: client.host_bytes,
            limits: client.limits.into(),
            kernels: client.submitted.kernels,
            copies: client.submitted.into(),
            requests: Requests {
                waits: client.counts.waits,
                in_flight: client.counts.in_flight,
                throttled_ns: client.counts.throttled_ns,
                limits_hit: client.counts.limits_hit,
                submissions: client.counts.submissions,
                submitting_ns: client.counts.submitting_ns,
                streams: client.counts.streams,
                ring_stalls: client.counts.ring_stalls,
            },
            work: client.work.map(Work::from),
            scheduling: Scheduling::from(&client.scheduling),
            mps_namespace: None,
            pid_namespace,
            command: client.command.clone(),
        }
    }
}

/// What a client may have, and where that comes from: default, daemon, server, program or set
/// (`openmps set`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsReport {
    /// Device memory, bytes; `None`: all.
    pub memory_bytes: Option<u64>,
    /// Who limited its memory.
    pub memory_by: String,
    /// SMs that its kernels may have.
    pub sms: u32,
    /// SMs of the device.
    pub sms_of_device: u32,
    /// Who set its SMs.
    pub sms_by: String,
    /// 0 normal, 1 below normal.
    pub priority: u8,
    /// Who set its priority.
    pub priority_by: String,
}

impl LimitsReport {
    /// What limits the client and who said so, for people: `33 of 132 SMs (program), 2.0 GiB of device
    /// memory (server)`; `None` if nothing does.
    pub fn text(&self) -> Option<String> {
        let is_set = |by: &str| !matches!(by, "" | "default");
        let mut parts = Vec::new();
        if is_set(&self.sms_by) {
            parts.push(format!("{} of {} SMs ({})", self.sms, self.sms_of_device, self.sms_by));
        }
        if let Some(bytes) = self.memory_bytes {
            let gibibytes = bytes as f64 / f64::from(1 << 30);
            parts.push(format!("{gibibytes:.1} GiB of device memory ({})", self.memory_by));
        }
        if is_set(&self.priority_by) {
            let priority = if self.priority == 0 { "normal" } else { "below normal" };
            parts.push(format!("priority {priority} ({})", self.priority_by));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl From<ClientLimits> for LimitsReport {
    fn from(limits: ClientLimits) -> LimitsReport {
        let (memory_bytes, memory_by) = limits.memory.unzip();
        LimitsReport {
            memory_bytes,
            memory_by: memory_by.unwrap_or_default().word().to_owned(),
            sms: limits.sms.0,
            sms_of_device: limits.sms_of_device,
            sms_by: limits.sms.1.word().to_owned(),
            priority: limits.priority.0.number(),
            priority_by: limits.priority.1.word().to_owned(),
        }
    }
}

/// How a client is scheduled beside others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduling {
    /// What is set for it: `class=batch weight=3`; empty for a server of an earlier version.
    pub settings: String,
    /// Its class: `latency`, `normal` or `batch`.
    pub class: String,
    /// For how long its work was paused at the gate, ns.
    pub paused_ns: u64,
    /// How often it was paused.
    pub pauses: u64,
    /// Device time that the gate has charged it, ns.
    pub charged_ns: u64,
    /// Time between two of its requests, ns, if they come at even intervals, so that the next one is
    /// expected; else 0.
    pub request_interval_ns: u64,
    /// SMs that a client of class `batch` has now beside a client of class `latency` that is never idle for long; else 0.
    pub space_sms: u32,
    /// Time of a `latency` client's work beside batch work, in thousandths of alone (1250: a quarter more), while
    /// classes share SMs; 0: not known.
    pub slowed_permille: u32,
    /// How often the SMs that `batch` clients have beside `latency` clients have changed at its server, for clients of
    /// both classes.
    pub space_changes: u64,
}

impl From<&ClientScheduling> for Scheduling {
    fn from(of: &ClientScheduling) -> Scheduling {
        let class = ::scheduling::ClientSettings::parse(&of.settings).unwrap_or_default().class;
        Scheduling {
            settings: of.settings.clone(),
            class: class.to_string(),
            paused_ns: of.paused_ns,
            pauses: of.pauses,
            charged_ns: of.charged_ns,
            request_interval_ns: of.interval_ns,
            space_sms: of.space_sms,
            slowed_permille: of.slowed_permille,
            space_changes: of.space_changes,
        }
    }
}

/// What a client has copied so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Copies {
    /// Copies and fills.
    pub copies: u64,
    /// Bytes copied from host memory to the device.
    pub bytes_in: u64,
    /// Bytes copied from the device to host memory.
    pub bytes_out: u64,
    /// Bytes copied or filled on the device.
    pub bytes_within: u64,
}

impl From<SubmittedCounts> for Copies {
    fn from(submitted: SubmittedCounts) -> Self {
        Self {
            copies: submitted.copies,
            bytes_in: submitted.bytes_in,
            bytes_out: submitted.bytes_out,
            bytes_within: submitted.bytes_within,
        }
    }
}

/// What became of a client's requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// Points that the program waits for, or may.
    pub waits: u64,
    /// Kernels that are submitted and not known to be done, now.
    pub in_flight: u64,
    /// Time for which its work was paused, ns.
    pub throttled_ns: u64,
    /// How often it met a limit.
    pub limits_hit: u64,
    /// Calls of the driver that submitted its work; 0 where these are not timed, as on the software GPU.
    pub submissions: u64,
    /// Time that its server spent in them, waits for other clients' calls included, ns: by a sample of them.
    pub submitting_ns: u64,
    /// Its streams, now.
    pub streams: u64,
    /// How often the program slept because the ring of its requests was full.
    pub ring_stalls: u64,
}

/// What the device did for a client so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
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
    /// The share of warps' lanes that took part in their instructions.
    pub lanes_active: Option<f64>,
    /// Bytes read from and written to global memory.
    pub global_bytes: u64,
    /// Time during which it had a block on an SM, ns, summed over SMs.
    pub sm_active_ns: u64,
    /// Time during which warps were resident, ns, summed over warps.
    pub warp_ns: u64,
    /// From the start of each of its kernels to the end, ns; kernels that overlap count each.
    pub device_ns: u64,
    /// Times are estimated from a sample of launches; what cannot be is 0.
    pub sampled: bool,
}

impl From<ClientWork> for Work {
    fn from(work: ClientWork) -> Work {
        Work {
            busy_ns: work.busy_ns,
            worker_ns: work.worker_ns,
            blocks: work.blocks,
            warp_instructions: work.warp_instructions,
            thread_instructions: work.thread_instructions,
            lanes_active: lanes_active(work.warp_instructions, work.thread_instructions),
            global_bytes: work.global_bytes,
            sm_active_ns: work.sm_active_ns,
            warp_ns: work.warp_ns,
            device_ns: work.device_ns,
            sampled: work.sampled,
        }
    }
}

/// The share of lanes, 0 to 1, that took part in warps' instructions: from the instructions counted
/// once a warp and once a thread. `None` if there were none.
pub fn lanes_active(warp_instructions: u64, thread_instructions: u64) -> Option<f64> {
    let lanes = warp_instructions as f64 * WARP_LANES as f64;
    (warp_instructions > 0).then(|| thread_instructions as f64 / lanes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::DeviceCounts;

    #[test]
    fn a_report_of_an_earlier_version_is_read() {
        let text = r#"{"version":"0","pid":1,"uid":0,"pipe_directory":"/p","log_directory":null,
            "clients_waiting":0,"servers":[{"pid":2,"state":"ACTIVE","clients":[{"pid":3,"id":1,
            "user":"ann","memory_bytes":4,"kernels":5,"work":{"busy_ns":6},"command":"x"}]}]}"#;
        let report: Report = serde_json::from_str(text).unwrap();
        let client = &report.servers[0].clients[0];
        let work = client.work.unwrap();
        assert_eq!((client.pid, work.busy_ns, work.blocks), (Some(3), 6, 0));
        let again: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(again, report);
    }

    /// A report in which each list has an entry and each optional part is there.
    fn whole() -> Report {
        let device = ListedDevice {
            ordinal: 0,
            pci: String::new(),
            uuid: String::new(),
            name: String::new(),
            counts: DeviceCounts::default(),
        };
        let text = r#"{"version":"0","pid":1,"uid":0,"pipe_directory":"/p","log_directory":null,
            "clients_waiting":0,"servers":[{"pid":2,"state":"ACTIVE","name":"a","isolates":1,
            "quarantine":1,"error":"x","clients":[{"pid":3,"id":1,"user":"ann","memory_bytes":4,
            "kernels":5,"work":{},"mps_namespace":"b","command":"x"}]}]}"#;
        let mut report: Report = serde_json::from_str(text).unwrap();
        report.warnings = vec![String::new()];
        report.problems = vec![String::new()];
        report.devices = vec![device.clone()];
        report.refusals = vec![Refusals::default()];
        report.faults = vec![Fault::default()];
        report.cgroup_limits = vec![CgroupMemory {
            cgroup: String::new(),
            device: None,
            soft_bytes: 0,
            hard_bytes: None,
        }];
        report.servers[0].devices = vec![device];
        report.servers[0].context = Some(Context {
            calls: vec![ContextCalls::default()],
            waiting: vec![WaitingReport::default()],
            warm: Warm::default(),
        });
        report
    }

    /// The paths of all values that are no objects.
    fn paths(value: &serde_json::Value, path: &str, all: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                let dot = if path.is_empty() { "" } else { "." };
                paths(value, &format!("{path}{dot}{name}"), all);
            }),
            serde_json::Value::Array(values) => {
                values.iter().for_each(|value| paths(value, &format!("{path}[]"), all));
            }
            _ => all.push(path.to_owned()),
        }
    }

    #[test]
    fn the_fields_of_the_json_are_those_of_its_document() {
        let mut printed = Vec::new();
        paths(&serde_json::to_value(whole()).unwrap(), "", &mut printed);
        let document = include_str!("../../../docs/reference/json.md");
        let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let mut documented: Vec<String> = rows.map(str::to_owned).collect();
        printed.sort();
        documented.sort();
        assert_eq!(
            printed, documented,
            "docs/reference/json.md has a row for each field that is printed"
        );
    }
}
