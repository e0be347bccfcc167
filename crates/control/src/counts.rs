//! What `counts` prints as JSON: what each client did, by kernel and stream. Fields are only ever
//! added.
//!
//! Times are exact where the provider counts itself, else the mean of a sample of launches times
//! their number, which the server sums up; each row says which.

use channel::message::{CountsPart, ExactCounts, ShapeCounts, StreamCounts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientCounts {
    /// Its server's process.
    pub server: u32,
    /// Its number there.
    pub client: u32,
    /// Its kernels, those that took most time first.
    pub kernels: Vec<Kernel>,
    /// Its streams.
    pub streams: Vec<Stream>,
}

/// Where times come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// The device counts.
    Exact,
    /// A sample of launches was timed by events.
    Sampled,
    /// CUPTI timed launches in short windows.
    Cupti,
    /// No launch was timed yet, or only within graphs.
    #[default]
    None,
}

/// The kernels of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// As its image has it.
    pub name: String,
    /// Where `device_ns` comes from.
    pub timing: Timing,
    /// Launches.
    pub launches: u64,
    /// Of them, by graphs.
    pub launches_in_graphs: u64,
    /// Blocks.
    pub blocks: u64,
    /// Threads.
    pub threads: u64,
    /// Time on the device, ns; launches that overlap count each.
    pub device_ns: u64,
    /// SM * ns in which a launch had a block there.
    pub sm_active_ns: u64,
    /// Warp * ns in which warps were resident.
    pub warp_ns: u64,
    /// Instructions, once a warp; where the device counts.
    pub warp_instructions: u64,
    /// Instructions, once a thread; where the device counts.
    pub thread_instructions: u64,
    /// Bytes read from and written to global memory; where the device counts.
    pub global_bytes: u64,
    /// By shape.
    pub shapes: Vec<Shape>,
}

/// Launches of one shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shape {
    /// Blocks; zeros: shapes that are not distinguished.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub dynamic_shared_bytes: u32,
    /// Static shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Local memory of a thread, bytes.
    pub local_bytes: u32,
    /// Blocks that an SM has room for; 0: not known.
    pub blocks_per_sm: u32,
    /// Launches.
    pub launches: u64,
    /// Of them, timed.
    pub samples: u64,
    /// Mean time of those, ns.
    pub mean_ns: u64,
}

impl Shape {
    /// Blocks of a launch.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|extent| u64::from(*extent)).product()
    }

    /// Threads of a block.
    pub fn threads_a_block(&self) -> u64 {
        self.block.iter().map(|extent| u64::from(*extent)).product()
    }
}

/// What was submitted to a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stream {
    /// Its slot, 0 for the legacy default stream; `None`: all that are gone.
    pub slot: Option<u32>,
    /// Kernels.
    pub kernels: u64,
    /// Copies and fills.
    pub copies: u64,
    /// Bytes copied to the device.
    pub bytes_in: u64,
    /// Bytes copied from it.
    pub bytes_out: u64,
    /// Bytes copied or filled on it.
    pub bytes_within: u64,
    /// Blocks of kernels.
    pub blocks: u64,
    /// Threads of kernels.
    pub threads: u64,
    /// Device time of kernels, ns: estimated at their submission by what launches of their shapes took
    /// before.
    pub estimated_device_ns: u64,
    /// Points that the program waited for, or may have.
    pub waits: u64,
}

impl From<&StreamCounts> for Stream {
    fn from(s: &StreamCounts) -> Self {
        Self {
            slot: Some(s.slot).filter(|slot| *slot != StreamCounts::PAST_STREAMS),
            kernels: s.kernels,
            copies: s.copies,
            bytes_in: s.bytes_in,
            bytes_out: s.bytes_out,
            bytes_within: s.bytes_within,
            blocks: s.blocks,
            threads: s.threads,
            estimated_device_ns: s.device_ns,
            waits: s.waits,
        }
    }
}

impl ClientCounts {
    /// Puts together what a server said.
    pub fn of(server: u32, parts: &[CountsPart]) -> Vec<Self> {
        let mut clients: BTreeMap<u32, Self> = BTreeMap::new();
        let mut kernels: BTreeMap<(u32, &str), Kernel> = BTreeMap::new();
        for part in parts.iter().filter(|part| part.client != 0) {
            let empty = || Self { server, client: part.client, ..Self::default() };
            let client = clients.entry(part.client).or_insert_with(empty);
            client.streams.extend(part.streams.iter().map(Stream::from));
            for (name, row) in &part.shapes {
                kernels.entry((part.client, name)).or_default().add_shape(row);
            }
            for (name, row) in &part.exact {
                kernels.entry((part.client, name)).or_default().set_exact(row);
            }
        }
        for ((client, name), kernel) in kernels {
            let kernel = Kernel { name: name.to_owned(), ..kernel };
            if let Some(client) = clients.get_mut(&client) {
                client.kernels.push(kernel);
            }
        }
        let mut clients: Vec<Self> = clients.into_values().collect();
        for client in &mut clients {
            client.kernels.sort_by_key(|k| std::cmp::Reverse((k.device_ns, k.launches)));
        }
        clients
    }
}

impl Kernel {
    fn add_shape(&mut self, row: &ShapeCounts) {
        let shape = Shape {
            grid: [row.grid_x, row.grid_y, row.grid_z],
            block: [row.block_x, row.block_y, row.block_z],
            dynamic_shared_bytes: row.dynamic_shared_bytes,
            shared_bytes: row.shared_bytes,
            registers: row.registers,
            local_bytes: row.local_bytes,
            blocks_per_sm: row.blocks_per_sm,
            launches: row.launches + row.launches_in_graphs,
            samples: row.samples,
            mean_ns: row.mean_ns,
        };
        self.launches += row.launches + row.launches_in_graphs;
        self.launches_in_graphs += row.launches_in_graphs;
        self.blocks += row.blocks;
        self.threads += row.threads;
        if row.samples > 0 && self.timing != Timing::Exact {
            let by_cupti = row.by_cupti != 0;
            self.timing = if by_cupti { Timing::Cupti } else { Timing::Sampled };
            self.device_ns += row.device_ns;
            self.sm_active_ns += row.sm_active_ns;
            self.warp_ns += row.warp_ns;
        }
        self.shapes.push(shape);
    }

    fn set_exact(&mut self, row: &ExactCounts) {
        self.timing = Timing::Exact;
        // Those that run are not among the device's.
        self.launches = self.launches.max(row.launches);
        self.device_ns = row.device_ns;
        self.sm_active_ns = row.sm_active_ns;
        self.warp_ns = row.warp_ns;
        self.warp_instructions = row.warp_instructions;
        self.thread_instructions = row.thread_instructions;
        self.global_bytes = row.global_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(launches: u64, samples: u64, mean_ns: u64) -> ShapeCounts {
        ShapeCounts {
            grid_x: 4,
            grid_y: 1,
            grid_z: 1,
            block_x: 64,
            block_y: 1,
            block_z: 1,
            blocks_per_sm: 2,
            launches,
            blocks: 4 * launches,
            threads: 256 * launches,
            samples,
            mean_ns,
            device_ns: launches * mean_ns,
            sm_active_ns: 4 * launches * mean_ns,
            warp_ns: 8 * launches * mean_ns,
            ..ShapeCounts::default()
        }
    }

    #[test]
    fn what_is_sampled_is_multiplied_and_what_is_exact_is_taken() {
        let exact = ExactCounts { launches: 3, device_ns: 777, ..ExactCounts::default() };
        let shapes = vec![("a".to_owned(), shape(3, 2, 100)), ("b".to_owned(), shape(5, 0, 0))];
        let mut parts = CountsPart::split(9, shapes, vec![], vec![StreamCounts::default()]);
        let clients = ClientCounts::of(1, &parts);
        let [client] = &clients[..] else { panic!("{clients:?}") };
        let seen: Vec<_> =
            client.kernels.iter().map(|k| (&*k.name, k.timing, k.device_ns)).collect();
        assert_eq!(seen, [("a", Timing::Sampled, 300), ("b", Timing::None, 0)]);
        assert_eq!((client.kernels[0].sm_active_ns, client.kernels[0].warp_ns), (1200, 2400));
        parts.extend(CountsPart::split(9, vec![], vec![("a".to_owned(), exact)], vec![]));
        let clients = ClientCounts::of(1, &parts);
        let kernel = &clients[0].kernels[0];
        assert_eq!((kernel.timing, kernel.device_ns, kernel.blocks), (Timing::Exact, 777, 12));
    }
}
