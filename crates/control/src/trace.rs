//! What `trace` prints as JSON: what work was done since a place in each server's records. Fields are
//! only ever added.

use channel::message::{StreamCounts, TracePart, pid_of_process, trace_kind};
use serde::{Deserialize, Serialize};

/// What one server recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// Its process.
    pub server: u32,
    /// Where to go on: `trace SERVER:NEXT`.
    pub next: u64,
    /// Records that were lost since the place that was asked from.
    pub lost: u64,
    /// Who the clients are.
    pub clients: Vec<TracedClient>,
    /// The records, as they ended.
    pub records: Vec<TracedWork>,
    /// Why it did not answer, if it did not; ask again from `next`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A client of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedClient {
    /// Its number at its server.
    pub client: u32,
    /// Its process, as the server sees it.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// What a record is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A launch.
    #[default]
    Kernel,
    /// A copy from host memory to the device.
    CopyIn,
    /// A copy from the device to host memory.
    CopyOut,
    /// A copy on the device.
    CopyWithin,
    /// A fill.
    Fill,
    /// The time in which a launch had blocks on one SM.
    OnSm,
    /// The launch of a graph as a whole.
    Graph,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        Some(match number {
            trace_kind::KERNEL => Self::Kernel,
            trace_kind::COPY_IN => Self::CopyIn,
            trace_kind::COPY_OUT => Self::CopyOut,
            trace_kind::COPY_WITHIN => Self::CopyWithin,
            trace_kind::FILL => Self::Fill,
            trace_kind::ON_SM => Self::OnSm,
            trace_kind::GRAPH => Self::Graph,
            _ => return None,
        })
    }
}

/// A piece of work. Times are of CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TracedWork {
    /// What it is.
    pub kind: Kind,
    /// The client's number at its server.
    pub client: u32,
    /// Its stream's slot; `None`: one that is not known, such as those within a graph.
    pub stream: Option<u32>,
    /// The SM, of [`Kind::OnSm`].
    pub sm: u32,
    /// Number of the launch.
    pub launch: u64,
    /// When it was submitted to the device, ns.
    pub submitted_ns: u64,
    /// When it began, ns.
    pub start_ns: u64,
    /// When it ended, ns.
    pub end_ns: u64,
    /// Bytes of a copy or fill.
    pub bytes: u64,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// The kernel's name, as its image has it.
    pub name: String,
}

impl Trace {
    /// Puts together what a server said.
    pub fn of(server: u32, parts: Vec<TracePart>) -> Self {
        let mut trace = Self { server, ..Self::default() };
        for part in parts {
            trace.next = part.next;
            trace.lost += part.lost;
            trace.clients.extend(part.clients.into_iter().map(|client| TracedClient {
                client: client.client,
                pid: pid_of_process(client.pid),
                command: client.command_line,
            }));
            for r in &part.records {
                let Some(kind) = Kind::of(r.kind) else { continue };
                trace.records.push(TracedWork {
                    kind,
                    client: r.client,
                    stream: Some(r.stream).filter(|slot| *slot != StreamCounts::PAST_STREAMS),
                    sm: r.sm,
                    launch: r.launch,
                    submitted_ns: r.submitted_ns,
                    start_ns: r.start_ns,
                    end_ns: r.end_ns,
                    bytes: r.bytes,
                    grid: [r.grid_x, r.grid_y, r.grid_z],
                    block: [r.block_x, r.block_y, r.block_z],
                    name: part.names.get(r.name as usize).cloned().unwrap_or_default(),
                });
            }
        }
        trace
    }
}
