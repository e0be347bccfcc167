//! Device seam: the interface between the device and the tiers that run kernels.
//!
//! The device (streams, SMs, memory) hands a tier one block of a grid at a time and gets control
//! back when the block is done, has faulted, must wait, or was asked to yield. A tier knows
//! nothing of streams, contexts or processes; the device knows nothing of instructions.
//!
//! Invariant: a block yields within a bounded number of instructions after [`Control`] asks
//! for it: every tier looks at it at loop back-edges, calls and block starts.

use crate::runtime::heap::{DeviceHeap, HEAP_ALIGN, HEAP_BYTES, NotABlock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Threads that run in lock-step; the width of every vector in the vector IR.
pub const WARP_LANES: usize = 32;

/// Extents of a grid or a block, or the index of one in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Dim3 {
    /// Fastest-varying extent.
    pub x: u32,
    /// Middle extent.
    pub y: u32,
    /// Slowest-varying extent.
    pub z: u32,
}

impl Dim3 {
    /// Number of elements; cannot overflow for extents that a launch accepts.
    pub fn count(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }
}

/// Where one kernel parameter lies in the parameter buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamLayout {
    /// Bytes from the start of the buffer.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
}

/// What a compiled kernel needs and is, as cuFuncGetAttribute and occupancy report it.
#[derive(Clone, Debug, Default)]
pub struct KernelInfo {
    /// The `.entry` name, mangled as in the PTX.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<ParamLayout>,
    /// Size of the whole parameter buffer, bytes.
    pub param_bytes: u32,
    /// Statically declared `.shared`, bytes a block.
    pub shared_bytes: u32,
    /// What blocks have of the shared memory that every device keeps for the system's libraries,
    /// bytes: 0 unless the kernel asks for it.
    pub kept_shared_bytes: u32,
    /// `.local` plus call frames, bytes a thread.
    pub local_bytes: u32,
    /// `.const` reachable from the kernel, bytes.
    pub const_bytes: u32,
    /// 32-bit registers a thread, estimated, within what the kernel's directives allow.
    pub registers: u32,
    /// Barriers a block: one more than the number of the highest.
    pub barriers: u32,
    /// Largest number of threads a block may have (`.maxntid` or the device's limit); one that is
    /// required does not count, as on hardware.
    pub max_threads_per_block: u32,
    /// `.reqntid`, if given: a launch with another block shape is refused.
    pub required_block: Option<Dim3>,
    /// `.reqnctapercluster`, if given: blocks of a cluster; a launch with others is refused.
    pub required_cluster: Option<Dim3>,
    /// `.explicitcluster` without extents: every launch must say how large its clusters are.
    pub cluster_must_be_set: bool,
    /// `.maxclusterrank`, if given: most blocks of a cluster.
    pub cluster_blocks_max: Option<u32>,
    /// `.target` as major * 10 + minor.
    pub target: u32,
}

/// A module after compilation: PTX text made runnable, its globals placed.
pub trait Module: Send + Sync {
    /// The kernel of that name, `None` if the module has none.
    fn kernel(&self, name: &str) -> Option<Arc<dyn Kernel>>;
    /// Names of all kernels in the order of the source.
    fn kernel_names(&self) -> Vec<String>;
    /// True if kernels of the module may ask the device for something ([`DeviceRuntime`]).
    fn calls_device(&self) -> bool {
        false
    }
    /// The name of the kernel that has that address in the module's code.
    fn kernel_name_at(&self, address: u64) -> Option<String> {
        let _ = address;
        None
    }
    /// Address and size in bytes of a module-scope `.global` or `.const` variable.
    fn global(&self, name: &str) -> Option<(u64, u64)>;
    /// The same of a variable that host and device share (`.attribute(.managed)`), and of no other.
    fn managed(&self, name: &str) -> Option<(u64, u64)> {
        let _ = name;
        None
    }
}

/// Alignment of managed variables' memory, bytes: more than any variable asks for.
pub const MANAGED_ALIGN: u64 = 256;

/// What compilation asks of the device: memory for module-scope variables.
pub trait ModuleMemory {
    /// Allocates zeroed device memory that lives as long as the module; returns its address.
    /// `writable` is false for `.const`, which kernels may read only.
    fn allocate(&mut self, bytes: u64, align: u64, writable: bool) -> Result<u64, OutOfMemory>;
    /// Allocates the memory of all variables that host and device share (`.attribute(.managed)`),
    /// at a multiple of [`MANAGED_ALIGN`]; asked for at most once a module.
    fn allocate_managed(&mut self, bytes: u64) -> Result<u64, OutOfMemory> {
        self.allocate(bytes, MANAGED_ALIGN, true)
    }
    /// Writes initial values; `address..address + bytes.len()` lies in one allocation.
    fn write(&mut self, address: u64, bytes: &[u8]);
    /// What `malloc` and `free` of the module's kernels work on: all modules of a context have one.
    fn heap(&mut self) -> Result<Arc<DeviceHeap>, OutOfMemory> {
        let address = self.allocate(HEAP_BYTES, HEAP_ALIGN, true)?;
        Ok(Arc::new(DeviceHeap::new(address, HEAP_BYTES)))
    }
}

/// No memory for a module's variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// A kernel that can be launched.
pub trait Kernel: Send + Sync {
    /// What it needs and is.
    fn info(&self) -> &KernelInfo;
    /// Compiles what launches of this shape run, which may take as long as compilers take; what has
    /// not been prepared is when its first block starts.
    fn prepare(&self, _launch: &Launch) {}
    /// Makes block `index` of `launch` ready to run; runs nothing yet. If the launch has clusters,
    /// the index is that of a cluster's first block, and all blocks of the cluster are started as
    /// one: what runs them sees no difference.
    fn start(self: Arc<Self>, launch: Arc<Launch>, index: Dim3) -> Box<dyn BlockRun>;
}

/// One launch: what all of its blocks have in common.
pub struct Launch {
    /// Identity of the grid, unique in the process: `%gridid`.
    pub grid_id: u64,
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Blocks in a cluster, if the launch has clusters; each extent divides the grid's.
    pub cluster: Option<Dim3>,
    /// Dynamic shared memory, bytes a block.
    pub dynamic_shared_bytes: u32,
    /// What a thread's stack may take at most, bytes (CU_LIMIT_STACK_SIZE). A tier may allow more.
    pub stack_bytes: u32,
    /// Warps that an SM has room for: `%nwarpid`.
    pub warps_per_sm: u32,
    /// Address of the memory in which a cooperative grid's blocks meet, zeroed; 0 if the launch is
    /// not cooperative.
    pub workspace: u64,
    /// Parameter buffer, laid out as [`KernelInfo::params`] says.
    pub params: Box<[u8]>,
    /// Where the device side's `vprintf` goes.
    pub printf: Arc<dyn PrintfSink>,
    /// What answers threads that ask the device for something; `None` if the module's kernels do not.
    pub device: Option<Arc<dyn DeviceRuntime>>,
}

impl Launch {
    /// Blocks that are started as one: a cluster's, or one block.
    pub fn cluster_extents(&self) -> Dim3 {
        self.cluster.unwrap_or(Dim3 { x: 1, y: 1, z: 1 })
    }

    /// How often something is to be started: once a cluster, or once a block.
    pub fn starts(&self) -> u64 {
        self.grid.count() / self.cluster_extents().count()
    }

    /// Index to start the `number`-th time with, x fastest.
    pub fn start_index(&self, number: u64) -> Dim3 {
        let of = self.cluster_extents();
        let (x, y) = (u64::from(self.grid.x / of.x), u64::from(self.grid.y / of.y));
        Dim3 {
            x: (number % x) as u32 * of.x,
            y: (number / x % y) as u32 * of.y,
            z: (number / x / y) as u32 * of.z,
        }
    }

    /// Index of the block of that rank in the cluster whose first block is `first`, x fastest.
    pub fn block_of_cluster(&self, first: Dim3, rank: u32) -> Dim3 {
        let of = self.cluster_extents();
        Dim3 {
            x: first.x + rank % of.x,
            y: first.y + rank / of.x % of.y,
            z: first.z + rank / of.x / of.y,
        }
    }
}

/// What a thread asks of the device that runs it, by the device runtime library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceRequest {
    /// Bytes of the parameters of the kernel that has an address.
    ParameterBytes(u64),
    /// Launch a kernel.
    Launch(ChildLaunch),
    /// Copy memory, behind what was asked for before in the stream.
    Copy {
        /// Where to.
        to: u64,
        /// Where from.
        from: u64,
        /// How much.
        bytes: u64,
        /// In which stream.
        stream: u64,
    },
    /// Fill memory, behind what was asked for before in the stream.
    Fill {
        /// Where.
        to: u64,
        /// What with.
        value: u8,
        /// How much.
        bytes: u64,
        /// In which stream.
        stream: u64,
    },
    /// A CUdevice_attribute.
    Attribute(u32),
    /// A CUlimit.
    Limit(u32),
    /// The thread's last error.
    LastError {
        /// Whether to forget it.
        forget: bool,
    },
    /// Note an error as the thread's last one.
    NoteError(u32),
}

/// A launch by a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildLaunch {
    /// Address of the kernel, in its module's code.
    pub kernel: u64,
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Dynamic shared memory, bytes a block.
    pub dynamic_shared_bytes: u32,
    /// Parameter buffer.
    pub params: Box<[u8]>,
    /// In which stream: cudaStream_t.
    pub stream: u64,
}

/// What no request is answered with that has an answer: there is none.
pub const NO_ANSWER: u64 = u64::MAX;

/// Answers what threads ask of the device.
pub trait DeviceRuntime: Send + Sync {
    /// Answers a thread, which `(block, thread)` numbers within its grid: with a cudaError_t where
    /// something is to be done, else with the value, or [`NO_ANSWER`]. Called by a worker, which must
    /// not wait for work of the device.
    fn request(&self, thread: (u64, u32), request: DeviceRequest) -> u64;
}

/// Receives formatted output of kernels.
pub trait PrintfSink: Send + Sync {
    /// Text of one vprintf call of one thread; may be dropped when the FIFO is full, as CUDA does.
    fn print(&self, text: &[u8]);
}

/// One resident block: its warps' registers, its shared memory, where each warp stands.
pub trait BlockRun: Send {
    /// Runs until the block ends, faults, or should yield. Called again after
    /// [`Outcome::Yielded`]; never after another outcome. May be called from another thread than
    /// the time before, never from two at once.
    fn resume(&mut self, worker: &mut Worker<'_>) -> Outcome;

    /// As [`Self::resume`]; if the block ends, may go on with blocks that follow it in the grid, x
    /// fastest, of which the next `more` have not been started. Gives how many of them it went on to:
    /// all before the last of these have ended, and it is now that one, whose outcome this is.
    fn resume_row(&mut self, worker: &mut Worker<'_>, more: u64) -> (u64, Outcome) {
        let _ = more;
        (0, self.resume(worker))
    }

    /// Becomes block `index` of the same launch, ready to run: cheaper than a new one. Called only
    /// after [`Outcome::Finished`]; false if this kind of block cannot.
    fn restart(&mut self, index: Dim3) -> bool {
        let _ = index;
        false
    }

    /// Where a thread waits, if the block's threads did nothing else in the last time slice: at a
    /// barrier, or in a loop whose rounds change nothing. Asked after [`Outcome::Yielded`]; `None`
    /// where a thread got somewhere, or that is not known.
    fn waits(&self) -> Option<Wait> {
        None
    }
}

/// Where a thread waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Its block.
    pub block: Dim3,
    /// The first thread of its warp.
    pub thread: Dim3,
    /// Line in the PTX text, 1-based; 0 if not known.
    pub line: u32,
}

/// Why [`BlockRun::resume`] came back.
#[derive(Debug)]
pub enum Outcome {
    /// All threads have exited.
    Finished,
    /// Asked to by [`Control`], or all of its warps wait or spin: give another block the worker.
    Yielded,
    /// The block cannot go on; neither may its grid.
    Fault(Box<Fault>),
}

/// What a worker thread lends a block while it runs there.
pub struct Worker<'a> {
    /// Asked at safe points.
    pub control: &'a Control,
    /// What the block's threads may touch.
    pub memory: &'a mut MemoryView,
    /// `%smid`; of a cluster, its first block's.
    pub sm: u32,
    /// The same of the cluster's other blocks, in the order of their ranks.
    pub other_sms: &'a [u32],
    /// `%nsmid`.
    pub sm_count: u32,
    /// Added to while the block runs.
    pub counters: &'a mut Counters,
}

impl Worker<'_> {
    /// The same for a block on another SM.
    pub fn on_sm(&mut self, sm: u32) -> Worker<'_> {
        Worker {
            control: self.control,
            memory: self.memory,
            sm,
            other_sms: &[],
            sm_count: self.sm_count,
            counters: self.counters,
        }
    }
}

/// One word that asks the blocks of one client on one SM to yield: not 0 if they should.
#[derive(Default)]
#[repr(transparent)]
pub struct Control(AtomicU32);

impl Control {
    /// Asks running blocks to return [`Outcome::Yielded`] at their next safe point.
    pub fn request_yield(&self) {
        self.0.store(1, Ordering::Release);
    }

    /// Lets blocks run again.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// True if the block should yield now.
    #[inline(always)]
    pub fn yield_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// Work done, counted by the tiers as they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions, once a warp.
    pub warp_instructions: u64,
    /// Instructions, once an active thread.
    pub thread_instructions: u64,
    /// Bytes read from and written to global memory.
    pub global_bytes: u64,
    /// How much of that was native code's.
    pub native: NativeCounters,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.global_bytes += other.global_bytes;
        self.native.entries += other.native.entries;
        self.native.interpreter_calls += other.native.interpreter_calls;
        self.native.slow_paths += other.native.slow_paths;
    }
}

/// What native code did, and how often it left its fast paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeCounters {
    /// Entries into native code.
    pub entries: u64,
    /// Calls from native code to the interpreter's handlers.
    pub interpreter_calls: u64,
    /// Slow paths taken, in native code that counts them (tests ask for it).
    pub slow_paths: u64,
}

/// One range of device addresses that a client's kernels may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address. A device address is an address of this process.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// False for constant banks.
    pub writable: bool,
}

/// All ranges a client's kernels may touch, sorted by start, disjoint; replaced as a whole.
#[derive(Clone, Debug, Default)]
pub struct RangeMap(Arc<[Range]>);

impl RangeMap {
    /// Takes ranges that are sorted and disjoint.
    pub fn new(ranges: Vec<Range>) -> Self {
        debug_assert!(ranges.windows(2).all(|w| w[0].end <= w[1].start));
        Self(ranges.into())
    }

    /// The range that holds `address`.
    pub fn find(&self, address: u64) -> Option<Range> {
        let next = self.0.partition_point(|r| r.start <= address);
        let range = *self.0.get(next.checked_sub(1)?)?;
        (address < range.end).then_some(range)
    }
}

/// Source of the current [`RangeMap`] of a client.
pub trait RangeSource: Send + Sync {
    /// The ranges as they are now. They stay mapped until the block that asked has returned from
    /// [`BlockRun::resume`].
    fn ranges(&self) -> RangeMap;
}

/// A block's checked way to device memory: every global access asks here first.
pub struct MemoryView {
    source: Arc<dyn RangeSource>,
    map: RangeMap,
    /// Ranges that were allowed lately, by the site of the access.
    last: Box<[Range; RECENT_RANGES]>,
}

/// Ranges that a view remembers: few kernels have more accesses in their loops.
pub const RECENT_RANGES: usize = 32;

impl MemoryView {
    /// A view of what `source` allows now.
    pub fn new(source: Arc<dyn RangeSource>) -> Self {
        let map = source.ranges();
        let none = Range { start: 0, end: 0, writable: false };
        Self { source, map, last: Box::new([none; RECENT_RANGES]) }
    }

    /// The ranges found lately, one for each site modulo [`RECENT_RANGES`]: what is inside of one
    /// is allowed. They stay where they are for the life of the view, and change whenever it is
    /// asked.
    pub fn recent(&self) -> *const Range {
        self.last.as_ptr()
    }

    /// True if all of `address..address + bytes` may be read (and written, if `write`).
    #[inline(always)]
    pub fn allows(&mut self, address: u64, bytes: u64, write: bool) -> bool {
        self.allows_at(0, address, bytes, write)
    }

    /// As [`Self::allows`], for the access number `site` of a kernel: each site remembers the range
    /// it found last, so that loops over several buffers need no search.
    #[inline(always)]
    pub fn allows_at(&mut self, site: usize, address: u64, bytes: u64, write: bool) -> bool {
        let site = site % RECENT_RANGES;
        let r = self.last[site];
        let inside = address >= r.start && bytes <= r.end.wrapping_sub(address) && address < r.end;
        (inside && (r.writable || !write)) || self.allows_slow(site, address, bytes, write)
    }

    #[cold]
    fn allows_slow(&mut self, site: usize, address: u64, bytes: u64, write: bool) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        // Memory may have been mapped since this block started: look again before refusing.
        let range = self.map.find(address).or_else(|| {
            self.map = self.source.ranges();
            self.map.find(address)
        });
        match range {
            Some(r) if end <= r.end && (r.writable || !write) => {
                self.last[site] = r;
                true
            }
            _ => false,
        }
    }
}

/// Why a kernel cannot go on, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// The kernel's name.
    pub kernel: String,
    /// The block.
    pub block: Dim3,
    /// The first thread of the block that faulted.
    pub thread: Dim3,
    /// Line in the PTX text, 1-based; 0 if not known.
    pub line: u32,
}

/// Kinds of fault, each with the CUresult it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An access outside of the client's memory: CUDA_ERROR_ILLEGAL_ADDRESS.
    IllegalAddress {
        /// The address.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
        /// True for a store or an atomic.
        write: bool,
    },
    /// An offset outside of shared, local or parameter memory: CUDA_ERROR_ILLEGAL_ADDRESS.
    OutsideSpace {
        /// `shared`, `local` or `param`.
        space: &'static str,
        /// Where in it.
        offset: u64,
        /// Bytes accessed.
        bytes: u32,
        /// Bytes that there are.
        size: u64,
        /// True for a store or an atomic.
        write: bool,
    },
    /// An address not a multiple of the access: CUDA_ERROR_MISALIGNED_ADDRESS.
    MisalignedAddress {
        /// The address.
        address: u64,
        /// Bytes accessed.
        bytes: u32,
    },
    /// An instruction that the software GPU does not have: CUDA_ERROR_ILLEGAL_INSTRUCTION.
    UnsupportedInstruction {
        /// As written in the PTX.
        text: String,
    },
    /// `st.async` or `red.async` of a grid without clusters: CUDA_ERROR_ILLEGAL_INSTRUCTION.
    OutsideCluster,
    /// A copy that a tensor map does not allow: CUDA_ERROR_ILLEGAL_INSTRUCTION.
    TensorMap {
        /// Where it is, or should be.
        address: u64,
        /// What is wrong with it or with the copy.
        why: &'static str,
    },
    /// An indirect call or branch to nowhere: CUDA_ERROR_INVALID_PC.
    InvalidPc {
        /// The target.
        target: u64,
    },
    /// A kernel asks the device for something that it does not have: CUDA_ERROR_NOT_SUPPORTED.
    DynamicParallelism,
    /// `trap`: CUDA_ERROR_LAUNCH_FAILED... as hardware reports it.
    Trap,
    /// `__assertfail`: CUDA_ERROR_ASSERT.
    Assert {
        /// CUDA's message, a line for each thread of the warp that came there together.
        message: String,
    },
    /// Call depth over the stack's limit: CUDA_ERROR_LAUNCH_FAILED.
    StackOverflow,
    /// `free` of something else than what `malloc` returned: CUDA_ERROR_LAUNCH_FAILED.
    InvalidFree {
        /// What it was given.
        address: u64,
        /// What that is.
        what: NotABlock,
    },
    /// Threads wait at barriers that can never be complete: CUDA_ERROR_LAUNCH_TIMEOUT.
    BarrierDeadlock,
}
