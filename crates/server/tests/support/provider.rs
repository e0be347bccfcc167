//! A small provider for tests: the functions that a server calls, with streams whose work runs
//! when it can, memory that is real, and a few built-in kernels.
//!
//! Everything is global, as a driver's state is, and behind one lock; every call runs all work
//! that can run before it returns. Kernels (by name, in any image that is text):
//!
//! | kernel | parameters | what it does |
//! | --- | --- | --- |
//! | `add` | u64 address, u32 count, u32 value | adds to 32-bit words |
//! | `note` | u32 number | appends the number to [`notes`] |
//! | `hold` | u32 gate | runs until [`open_gate`] of that gate |
//! | `stall` | u32 gate | nothing: the call that launches it returns after [`open_gate`] of that gate |
//! | `fault` | | an illegal address |
#![allow(dead_code, reason = "each test program uses a part")]

/// Functions of a provider, whose bodies may do what cuda.h lets them do.
macro_rules! raw_functions {
    ($($name:ident($($param:tt: $ty:ty),* $(,)?) $body:block)*) => {$(
        #[allow(
            non_snake_case, unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks,
            clippy::too_many_arguments,
            reason = "cuda.h's name; the server promises what cuda.h asks of callers")]
        unsafe extern "C" fn $name($($param: $ty),*) -> CUresult {
            $body
        }
    )*};
}
pub(crate) use raw_functions;

mod functions;
mod tenants;

pub use functions::{resolved, table, table_of_nothing, table_that_compiles};
pub use tenants::extension;

use cuda_api::constants::{graph_instantiate, launch_attribute};
use cuda_api::extension::Extension;
use cuda_api::*;
use locks::{Mutex, MutexGuard};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Device memory of the provider, bytes.
pub const MEMORY_BYTES: u64 = 64 << 20;

type HostFunction = unsafe extern "C-unwind" fn(*mut c_void);

/// What a stream does. Addresses are mapped: the server has checked them.
#[derive(Clone)]
enum Op {
    Kernel { name: String, parameters: Vec<u8> },
    Copy { to: u64, from: u64, bytes: usize },
    CopyRows { to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize },
    Fill { to: u64, pitch: usize, pattern: Vec<u8>, width: usize, height: usize },
    WriteValue { address: u64, value: u32 },
    WaitValue { address: u64, value: u32 },
    Host(HostFunction, usize),
    Record { event: usize, sequence: u64 },
    WaitEvent { event: usize, sequence: u64 },
}

/// An edge of a graph, by the places of its nodes.
pub type GivenEdge = (usize, usize, CUgraphEdgeData);

/// When the provider refuses edges that are no full ones.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum EarlyEdges {
    #[default]
    Taken,
    /// As drivers before 12.3, which do not know them.
    Unknown,
    /// As for nodes that cannot have them.
    NotInstantiated,
}

#[derive(Clone, Default)]
struct MadeGraph {
    nodes: Vec<GraphNode>,
    edges: Vec<GivenEdge>,
}

#[derive(Clone)]
struct GraphNode {
    node: usize,
    op: Op,
}

/// A launchable graph, and the event behind its last launch: a launch begins when the one before it has
/// ended, in whichever streams they are.
struct Exec {
    nodes: Vec<GraphNode>,
    event: usize,
}

/// What is linked, and where its log goes.
struct Link {
    log: Option<usize>,
    cubin: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    tenant: u64,
    ops: VecDeque<Op>,
}

#[derive(Default, Clone, Copy)]
struct Moment {
    recorded: u64,
    reached: u64,
}

#[derive(Default)]
struct World {
    next: usize,
    streams: BTreeMap<usize, Queue>,
    events: HashMap<usize, Moment>,
    /// Events that were destroyed: what waits for them still does.
    past_events: HashSet<usize>,
    modules: HashMap<usize, String>,
    links: HashMap<usize, Link>,
    functions: HashMap<usize, String>,
    globals: HashMap<usize, Box<[u8; 64]>>,
    physical: HashMap<u64, (OwnedFd, u64)>,
    mappings: BTreeMap<u64, u64>,
    reservations: BTreeMap<u64, u64>,
    registrations: HashSet<u64>,
    arrays: HashSet<usize>,
    graphs: BTreeMap<usize, MadeGraph>,
    early_edges: EarlyEdges,
    /// Launches that might begin before the kernel ahead of them had ended.
    early_launches: u64,
    execs: HashMap<usize, Exec>,
    graph_launches: u64,
    /// Nodes that got other parameters.
    nodes_set: u64,
    local_runs: u32,
    /// Pages of registered memory that were not there yet.
    pages_missing: usize,
    /// Preferences that were set of kernels.
    preferences: u32,
    values_written: u32,
    used_bytes: u64,
    notes: Vec<(u64, u32)>,
    /// Priorities that streams were made with, in their order.
    priorities: Vec<c_int>,
    /// Priorities that launches had of their own, in their order.
    launch_priorities: Vec<c_int>,
    /// Of kernel nodes that have their own.
    node_priorities: HashMap<usize, c_int>,
    gates: HashSet<u32>,
    /// Those that a load or a compilation has come to.
    waited_for: HashSet<u32>,
    tenants: HashMap<u64, Option<CudaError>>,
    ended: HashSet<u64>,
    poison: Option<CudaError>,
    /// Fills wait until they may go on.
    held_fills: bool,
    /// Functions whose streams came to them, while calls are held back.
    held_calls: Option<Vec<(HostFunction, usize)>>,
}

static WORLD: OnceLock<Mutex<World>> = OnceLock::new();

thread_local! {
    static TENANT: Cell<u64> = const { Cell::new(0) };
}

fn world() -> MutexGuard<'static, World> {
    WORLD.get_or_init(Mutex::default).lock()
}

/// Numbers noted by kernels of tenant `tenant` (0 without tenants), in their order.
pub fn notes(wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    world().notes.iter().map(|(_, n)| *n).filter(|n| wanted(*n)).collect()
}

/// Priorities that streams were made with, in their order.
pub fn priorities_made() -> Vec<c_int> {
    world().priorities.clone()
}

/// Priorities that launches had of their own, in their order.
pub fn launch_priorities() -> Vec<c_int> {
    world().launch_priorities.clone()
}

/// True if a load or a compilation has come to that gate.
pub fn is_waited_for(gate: u32) -> bool {
    world().waited_for.contains(&gate)
}

/// Lets `hold` kernels of that gate end.
pub fn open_gate(gate: u32) {
    let mut world = world();
    world.gates.insert(gate);
    world.run();
}

/// From now on functions of streams count as called and are not, as on a host thread that got no
/// processor yet.
pub fn hold_host_calls() {
    world().held_calls = Some(Vec::new());
}

/// Calls all that were held back; their number.
pub fn let_host_calls_go() -> usize {
    let held = world().held_calls.take().unwrap_or_default();
    held.iter().for_each(|(function, data)| call(*function, *data));
    held.len()
}

fn call(function: HostFunction, data: usize) {
    // SAFETY: a provider may call what it was given at any time.
    unsafe { function(data as *mut c_void) };
}

/// A word of memory that is mapped in this process.
pub fn word(address: u64) -> &'static AtomicU32 {
    // SAFETY: tests name words that are mapped, at multiples of 4.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }
}

/// Bytes of memory that is mapped in this process.
pub fn bytes_at(address: u64, bytes: usize) -> Vec<u8> {
    // SAFETY: tests name memory that is mapped, and that nothing writes now.
    unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec()
}

/// Writes bytes to such memory.
pub fn put_bytes(address: u64, bytes: &[u8]) {
    // SAFETY: tests name memory that is mapped, and that nothing else uses now.
    unsafe { std::ptr::copy(bytes.as_ptr(), address as *mut u8, bytes.len()) };
}

/// From now on fills wait, as behind a kernel that leaves them no room; or go on.
pub fn hold_fills(held: bool) {
    let mut world = world();
    world.held_fills = held;
    world.run();
}

/// Fills that wait.
pub fn waiting_fills() -> usize {
    let is_fill = |op: &&Op| matches!(op, Op::Fill { .. });
    world().streams.values().map(|queue| queue.ops.iter().filter(is_fill).count()).sum()
}

/// Words that streams have yet to write.
pub fn words_to_write() -> usize {
    let is_write = |op: &&Op| matches!(op, Op::WriteValue { .. });
    world().streams.values().map(|queue| queue.ops.iter().filter(is_write).count()).sum()
}

/// How often local memory was taken for kernels to come.
pub fn local_runs() -> u32 {
    world().local_runs
}

/// Copies from host memory in the default stream, in which a server writes variables' first values.
pub fn values_written() -> u32 {
    world().values_written
}

/// Launches of graphs so far, and how often a node got other parameters.
pub fn graph_launches() -> (u64, u64) {
    let world = world();
    (world.graph_launches, world.nodes_set)
}

/// Edges of the graphs that exist, in the order in which they were made.
pub fn edges_of_graphs() -> Vec<Vec<GivenEdge>> {
    world().graphs.values().map(|graph| graph.edges.clone()).collect()
}

/// From now on edges that are no full ones are taken, or when not.
pub fn take_early_edges(when: EarlyEdges) {
    world().early_edges = when;
}

/// Launches so far with CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
pub fn early_launches() -> u64 {
    world().early_launches
}

/// Graphs that exist.
pub fn graphs() -> usize {
    let world = world();
    world.graphs.len() + world.execs.len()
}

/// Modules that exist of which the provider had to compile a text while it loaded them.
pub fn modules_of_text() -> usize {
    world().modules.values().filter(|image| !image.starts_with("compiled ")).count()
}

/// Texts that are being compiled by themselves.
pub fn links() -> usize {
    world().links.len()
}

/// How often it was said which caches kernels prefer.
pub fn preferences() -> u32 {
    world().preferences
}

/// Pages of registered memory that the provider had to have made while it registered them.
pub fn pages_missing() -> usize {
    world().pages_missing
}

/// Arrays that exist.
pub fn arrays() -> usize {
    world().arrays.len()
}

/// What exists: streams, events, modules, physical memory, mappings, reservations,
/// registrations, graphs.
pub fn census() -> [usize; 8] {
    let w = world();
    [
        w.streams.len(),
        w.events.len() - w.past_events.len(),
        w.modules.len(),
        w.physical.len(),
        w.mappings.len(),
        w.reservations.len(),
        w.registrations.len(),
        w.graphs.len() + w.execs.len(),
    ]
}

impl World {
    fn number(&mut self) -> usize {
        self.next += 16;
        0x7000_0000 + self.next
    }

    fn run(&mut self) {
        loop {
            let mut progress = false;
            let ids: Vec<usize> = self.streams.keys().copied().collect();
            for id in ids {
                while self.step(id) {
                    progress = true;
                }
            }
            if !progress {
                return;
            }
        }
    }

    fn step(&mut self, id: usize) -> bool {
        let Some(queue) = self.streams.get_mut(&id) else { return false };
        let tenant = queue.tenant;
        let stopped = self.poison.is_some()
            || matches!(self.tenants.get(&tenant), Some(Some(_)))
            || self.ended.contains(&tenant);
        if stopped {
            return false;
        }
        let Some(op) = queue.ops.front() else { return false };
        let ready = match op {
            Op::WaitEvent { event, sequence } => {
                self.events.get(event).is_none_or(|m| m.reached >= *sequence)
            }
            Op::WaitValue { address, value } => word(*address).load(Ordering::SeqCst) == *value,
            Op::Fill { .. } => !self.held_fills,
            Op::Kernel { name, parameters } if name == "hold" => {
                self.gates.contains(&u32_of(parameters, 0))
            }
            _ => true,
        };
        if !ready {
            return false;
        }
        let op = queue.ops.pop_front();
        match op {
            Some(Op::Kernel { name, parameters }) => self.kernel(tenant, &name, &parameters),
            Some(Op::Record { event, sequence }) => {
                if let Some(moment) = self.events.get_mut(&event) {
                    moment.reached = moment.reached.max(sequence);
                }
            }
            Some(Op::Host(function, data)) if self.held_calls.is_some() => {
                self.held_calls.get_or_insert_default().push((function, data));
            }
            Some(op) => touch(op),
            None => return false,
        }
        true
    }

    fn kernel(&mut self, tenant: u64, name: &str, parameters: &[u8]) {
        match name {
            "local" => self.local_runs += 1,
            "note" => self.notes.push((tenant, u32_of(parameters, 0))),
            "add" => {
                let address = u64_of(parameters, 0);
                let (count, value) = (u32_of(parameters, 8), u32_of(parameters, 12));
                for i in 0..u64::from(count) {
                    word(address + 4 * i).fetch_add(value, Ordering::SeqCst);
                }
            }
            "fault" => match self.tenants.get_mut(&tenant) {
                Some(error) => *error = Some(CudaError::ILLEGAL_ADDRESS),
                None => self.poison = Some(CudaError::ILLEGAL_ADDRESS),
            },
            _ => {}
        }
    }

    fn alive(&self, stream: usize) -> CUresult {
        if let Some(error) = self.poison {
            return Err(error);
        }
        let queue = self.streams.get(&stream).ok_or(CudaError::INVALID_HANDLE)?;
        match self.tenants.get(&queue.tenant) {
            Some(Some(error)) => Err(*error),
            _ => Ok(()),
        }
    }

    /// Edges between nodes of a graph, by their places. Graphs are chains here.
    ///
    /// # Safety
    /// The lists must have as many nodes and, unless they are null, data.
    unsafe fn edges(
        &self,
        graph: CUgraph,
        (from, to, data): (*const CUgraphNode, *const CUgraphNode, *const CUgraphEdgeData),
        count: usize,
    ) -> Result<Vec<GivenEdge>, CudaError> {
        let nodes = &self.graphs.get(&graph.0).ok_or(CudaError::INVALID_VALUE)?.nodes;
        let at = |node: CUgraphNode| nodes.iter().position(|n| n.node == node.0);
        let edge = |index| {
            // SAFETY: by this function's contract.
            let (from, to, data) = unsafe {
                let data = if data.is_null() { Default::default() } else { *data.add(index) };
                (at(*from.add(index)), at(*to.add(index)), data)
            };
            assert_eq!(from.map(|at| at + 1), to, "a chain");
            let (from, to) = from.zip(to).ok_or(CudaError::INVALID_VALUE)?;
            // What may begin early is released by a kernel.
            let is_kernel = |at: usize| matches!(nodes[at].op, Op::Kernel { .. });
            match data.is_full() || is_kernel(from) && is_kernel(to) {
                true => Ok((from, to, data)),
                false => Err(CudaError::INVALID_VALUE),
            }
        };
        (0..count).map(edge).collect()
    }

    /// The kernel of a launch.
    fn kernel_of(&self, function: CUfunction, grid_x: c_uint) -> Result<String, CudaError> {
        match grid_x {
            0 => Err(CudaError::INVALID_VALUE),
            _ => self.functions.get(&function.0).cloned().ok_or(CudaError::INVALID_HANDLE),
        }
    }

    fn enqueue(&mut self, stream: usize, op: Op) -> CUresult {
        if stream == 0 {
            // The default stream is there while it has work.
            self.streams.entry(0).or_insert(Queue { tenant: 0, ops: VecDeque::new() });
        }
        self.alive(stream)?;
        if let Some(queue) = self.streams.get_mut(&stream) {
            queue.ops.push_back(op);
        }
        self.run();
        Ok(())
    }
}

fn touch(op: Op) {
    match op {
        Op::Copy { to, from, bytes } => put_bytes(to, &bytes_at(from, bytes)),
        Op::CopyRows { to, to_pitch, from, from_pitch, width, height } => {
            for row in 0..height {
                let bytes = bytes_at(from + (row * from_pitch) as u64, width);
                put_bytes(to + (row * to_pitch) as u64, &bytes);
            }
        }
        Op::Fill { to, pitch, pattern, width, height } => {
            let bytes = pattern.repeat(width);
            (0..height).for_each(|row| put_bytes(to + (row * pitch) as u64, &bytes));
        }
        Op::WriteValue { address, value } => word(address).store(value, Ordering::SeqCst),
        Op::Host(function, data) => call(function, data),
        _ => {}
    }
}

/// The parameters that a launch's `extra` list leads to.
///
/// # Safety
/// The list must be null or what cuda.h says.
unsafe fn buffer(extra: *mut *mut c_void) -> Vec<u8> {
    if extra.is_null() {
        return Vec::new();
    }
    // SAFETY: by this function's contract.
    unsafe {
        let bytes = *(*extra.add(3)).cast::<usize>();
        std::slice::from_raw_parts((*extra.add(1)).cast::<u8>(), bytes).to_vec()
    }
}

fn u32_of(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_of(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn layout(name: &str) -> &'static [(usize, usize)] {
    match name {
        "add" => &[(0, 8), (8, 4), (12, 4)],
        "note" | "hold" | "stall" => &[(0, 4)],
        _ => &[],
    }
}
