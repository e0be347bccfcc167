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
//! | `fault` | | an illegal address |
#![allow(dead_code, reason = "each test program uses a part")]

use cuda_api::extension::Extension;
use cuda_api::*;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Device memory of the provider, bytes.
pub const MEMORY_BYTES: u64 = 64 << 20;

enum Op {
    Kernel { name: String, parameters: Vec<u8> },
    Copy { to: u64, from: u64, bytes: usize },
    CopyRows { to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize },
    Fill { to: u64, pitch: usize, pattern: Vec<u8>, width: usize, height: usize },
    WriteValue { address: u64, value: u32 },
    WaitValue { address: u64, value: u32 },
    Host(unsafe extern "C-unwind" fn(*mut c_void), usize),
    Record { event: usize, sequence: u64 },
    WaitEvent { event: usize, sequence: u64 },
}

#[derive(Clone)]
struct GraphNode {
    node: usize,
    name: String,
    parameters: Vec<u8>,
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
    functions: HashMap<usize, String>,
    globals: HashMap<usize, Box<[u8; 64]>>,
    physical: HashMap<u64, (OwnedFd, u64)>,
    mappings: BTreeMap<u64, u64>,
    reservations: BTreeMap<u64, u64>,
    registrations: HashSet<u64>,
    arrays: HashSet<usize>,
    /// Kernels of graphs, by node: function and parameters.
    graphs: HashMap<usize, Vec<GraphNode>>,
    execs: HashMap<usize, Vec<GraphNode>>,
    graph_launches: u64,
    /// Nodes that got other parameters.
    nodes_set: u64,
    local_runs: u32,
    used_bytes: u64,
    notes: Vec<(u64, u32)>,
    /// Priorities that streams were made with, in their order.
    priorities: Vec<c_int>,
    gates: HashSet<u32>,
    tenants: HashMap<u64, Option<CudaError>>,
    ended: HashSet<u64>,
    poison: Option<CudaError>,
    /// Functions whose streams came to them, while calls are held back.
    held_calls: Option<Vec<(unsafe extern "C-unwind" fn(*mut c_void), usize)>>,
}

static WORLD: OnceLock<Mutex<World>> = OnceLock::new();

thread_local! {
    static TENANT: Cell<u64> = const { Cell::new(0) };
}

fn world() -> MutexGuard<'static, World> {
    WORLD.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers noted by kernels of tenant `tenant` (0 without tenants), in their order.
pub fn notes(wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    world().notes.iter().map(|(_, n)| *n).filter(|n| wanted(*n)).collect()
}

/// Priorities that streams were made with, in their order.
pub fn priorities_made() -> Vec<c_int> {
    world().priorities.clone()
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
    for (function, data) in &held {
        // SAFETY: a provider may call what it was given at any time.
        unsafe { function(*data as *mut c_void) };
    }
    held.len()
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

/// Launches of graphs so far, and how often a node got other parameters.
pub fn graph_launches() -> (u64, u64) {
    let world = world();
    (world.graph_launches, world.nodes_set)
}

/// Graphs that exist.
pub fn graphs() -> usize {
    let world = world();
    world.graphs.len() + world.execs.len()
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
            // SAFETY: a test's server checked the address.
            Op::WaitValue { address, value } => unsafe {
                (*address as *const u32).read_volatile() == *value
            },
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
            // SAFETY: addresses were checked by the server and are mapped in this process.
            Some(op) => unsafe { touch(op) },
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
                    let word = (address + 4 * i) as *mut u32;
                    // SAFETY: tests give kernels mapped addresses.
                    unsafe { word.write_volatile(word.read_volatile().wrapping_add(value)) };
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

    /// A node's kernel and parameters.
    ///
    /// # Safety
    /// The parameters must lead to what cuda.h says.
    unsafe fn node(
        &self,
        params: &CUDA_KERNEL_NODE_PARAMS_v1,
    ) -> Result<(String, Vec<u8>), CudaError> {
        if params.gridDimX == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let name = self.functions.get(&params.func.0).ok_or(CudaError::INVALID_HANDLE)?.clone();
        // SAFETY: by this function's contract.
        Ok((name, unsafe { buffer(params.extra) }))
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

/// # Safety
/// All addresses must be mapped.
unsafe fn touch(op: Op) {
    // SAFETY: by this function's contract.
    unsafe {
        match op {
            Op::Copy { to, from, bytes } => {
                std::ptr::copy(from as *const u8, to as *mut u8, bytes);
            }
            Op::CopyRows { to, to_pitch, from, from_pitch, width, height } => {
                for row in 0..height {
                    let source = (from as usize + row * from_pitch) as *const u8;
                    std::ptr::copy(source, (to as usize + row * to_pitch) as *mut u8, width);
                }
            }
            Op::Fill { to, pitch, pattern, width, height } => {
                for row in 0..height {
                    if let [byte] = pattern[..] {
                        let place = (to as usize + row * pitch) as *mut u8;
                        std::ptr::write_bytes(place, byte, width);
                        continue;
                    }
                    for column in 0..width {
                        let place = to as usize + row * pitch + column * pattern.len();
                        let place = place as *mut u8;
                        std::ptr::copy(pattern.as_ptr(), place, pattern.len());
                    }
                }
            }
            Op::WriteValue { address, value } => (address as *mut u32).write_volatile(value),
            Op::Host(function, data) => function(data as *mut c_void),
            _ => {}
        }
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
        "note" | "hold" => &[(0, 4)],
        _ => &[],
    }
}

macro_rules! provide {
    ($($name:ident($($param:ident: $ty:ty),*) $body:block)*) => {
        $(#[allow(
            non_snake_case, unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks,
            reason = "cuda.h's name; the server promises what cuda.h asks of callers")]
        unsafe extern "C" fn $name($($param: $ty),*) -> CUresult {
            // In an `unsafe fn` each body may do what cuda.h lets the function do.
            $body
        })*
        fn find(name: &CStr) -> Option<*const c_void> {
            match name.to_str().ok()? {
                $(stringify!($name) => Some($name as *const c_void),)*
                _ => None,
            }
        }
    };
}

provide! {
    cuInit(_flags: c_uint) { Ok(()) }
    cuDriverGetVersion(version: *mut c_int) { *version = 13000; Ok(()) }
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, _d: CUdevice) {
        *context = CUcontext(0xC0);
        Ok(())
    }
    cuDevicePrimaryCtxRelease_v2(_d: CUdevice) { Ok(()) }
    cuCtxSetCurrent(_c: CUcontext) { Ok(()) }
    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        (*least, *greatest) = (0, -5);
        Ok(())
    }
    cuDeviceGetCount(count: *mut c_int) {
        *count = 1;
        Ok(())
    }
    cuDeviceGetName(name: *mut c_char, _len: c_int, _d: CUdevice) {
        std::ptr::copy(c"Test device".as_ptr(), name, 12);
        Ok(())
    }
    cuDeviceGetUuid_v2(uuid: *mut CUuuid, _d: CUdevice) {
        *uuid = CUuuid { bytes: *b"0123456789abcdef" };
        Ok(())
    }
    cuDeviceTotalMem_v2(bytes: *mut usize, _d: CUdevice) {
        *bytes = MEMORY_BYTES as usize;
        Ok(())
    }
    cuDeviceGetPCIBusId(text: *mut c_char, _len: c_int, _d: CUdevice) {
        std::ptr::copy(c"0000:06:00.0".as_ptr(), text, 13);
        Ok(())
    }
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, _d: CUdevice) {
        if attribute == 0 { return Err(CudaError::INVALID_VALUE); }
        *value = attribute as c_int * 10;
        Ok(())
    }
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        *total = MEMORY_BYTES as usize;
        *free = (MEMORY_BYTES - world().used_bytes) as usize;
        Ok(())
    }

    cuMemAddressReserve(got: *mut CUdeviceptr, bytes: usize, _a: usize, at: CUdeviceptr, _f: u64) {
        let p = libc::mmap(
            at.0 as *mut c_void, bytes, libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE
                | libc::MAP_FIXED_NOREPLACE, -1, 0);
        if p == libc::MAP_FAILED { return Err(CudaError::OUT_OF_MEMORY); }
        world().reservations.insert(p as u64, bytes as u64);
        *got = CUdeviceptr(p as u64);
        Ok(())
    }
    cuMemAddressFree(at: CUdeviceptr, bytes: usize) {
        let mut world = world();
        if world.mappings.range(at.0..at.0 + bytes as u64).next().is_some() {
            return Err(CudaError::INVALID_VALUE);
        }
        world.reservations.remove(&at.0).ok_or(CudaError::INVALID_VALUE)?;
        libc::munmap(at.0 as *mut c_void, bytes);
        Ok(())
    }
    cuMemCreate(
        memory: *mut CUmemGenericAllocationHandle, bytes: usize,
        _p: *const CUmemAllocationProp, _f: u64
    ) {
        let mut world = world();
        if world.used_bytes + bytes as u64 > MEMORY_BYTES {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let fd = libc::memfd_create(c"chunk".as_ptr(), libc::MFD_CLOEXEC);
        libc::ftruncate(fd, bytes as i64);
        // Memory that another process has left: the server has to clear it.
        libc::pwrite(fd, b"secret".as_ptr().cast(), 6, 4096);
        *memory = world.number() as u64;
        world.used_bytes += bytes as u64;
        world.physical.insert(*memory, (OwnedFd::from_raw_fd(fd), bytes as u64));
        Ok(())
    }
    cuMemRelease(memory: CUmemGenericAllocationHandle) {
        let mut world = world();
        let (_, bytes) = world.physical.remove(&memory).ok_or(CudaError::INVALID_VALUE)?;
        world.used_bytes -= bytes;
        Ok(())
    }
    cuMemMap(
        at: CUdeviceptr, bytes: usize, _o: usize, memory: CUmemGenericAllocationHandle, _f: u64
    ) {
        let mut world = world();
        let (fd, _) = world.physical.get(&memory).ok_or(CudaError::INVALID_VALUE)?;
        let p = libc::mmap(
            at.0 as *mut c_void, bytes, libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED, fd.as_raw_fd(), 0);
        if p == libc::MAP_FAILED { return Err(CudaError::OUT_OF_MEMORY); }
        world.mappings.insert(at.0, bytes as u64);
        Ok(())
    }
    cuMemUnmap(at: CUdeviceptr, bytes: usize) {
        world().mappings.remove(&at.0).ok_or(CudaError::INVALID_VALUE)?;
        libc::mmap(
            at.0 as *mut c_void, bytes, libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            -1, 0);
        Ok(())
    }
    cuMemSetAccess(_a: CUdeviceptr, _b: usize, _d: *const CUmemAccessDesc, _c: usize) { Ok(()) }
    cuMemExportToShareableHandle(
        out: *mut c_void, memory: CUmemGenericAllocationHandle, _t: c_uint, _f: u64
    ) {
        let world = world();
        let (fd, _) = world.physical.get(&memory).ok_or(CudaError::INVALID_VALUE)?;
        let fd = fd.try_clone().map_err(|_| CudaError::OPERATING_SYSTEM)?;
        *out.cast::<c_int>() = fd.into_raw_fd();
        Ok(())
    }
    cuMemHostRegister_v2(p: *mut c_void, _bytes: usize, _flags: c_uint) {
        world().registrations.insert(p as u64);
        Ok(())
    }
    cuMemHostUnregister(p: *mut c_void) {
        if world().registrations.remove(&(p as u64)) { Ok(()) }
        else { Err(CudaError::INVALID_VALUE) }
    }
    cuMemHostGetDevicePointer_v2(out: *mut CUdeviceptr, p: *mut c_void, _f: c_uint) {
        *out = CUdeviceptr(p as u64);
        Ok(())
    }

    cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) {
        assert_eq!(flags, 1, "a server makes non-blocking streams only");
        let mut world = world();
        let id = world.number();
        world.priorities.push(priority);
        world.streams.insert(id, Queue { tenant: TENANT.get(), ops: VecDeque::new() });
        *stream = CUstream(id);
        Ok(())
    }
    cuStreamDestroy_v2(stream: CUstream) {
        world().streams.remove(&stream.0).map(|_| ()).ok_or(CudaError::INVALID_HANDLE)
    }
    cuStreamQuery(stream: CUstream) {
        let mut world = world();
        world.run();
        world.alive(stream.0)?;
        let queue = &world.streams[&stream.0];
        if queue.ops.is_empty() { Ok(()) } else { Err(CudaError::NOT_READY) }
    }
    cuStreamSynchronize(stream: CUstream) {
        let mut world = world();
        if stream.0 == 0 && !world.streams.contains_key(&0) { return Ok(()); }
        world.alive(stream.0)?;
        assert!(world.streams[&stream.0].ops.is_empty(), "a server must not block a thread");
        if stream.0 == 0 {
            world.streams.remove(&0);
        }
        Ok(())
    }
    cuStreamWaitEvent(stream: CUstream, event: CUevent, _f: c_uint) {
        let mut world = world();
        let moment = *world.events.get(&event.0).ok_or(CudaError::INVALID_HANDLE)?;
        world.enqueue(stream.0, Op::WaitEvent { event: event.0, sequence: moment.recorded })
    }
    cuStreamWriteValue32_v2(stream: CUstream, at: CUdeviceptr, value: u32, _f: c_uint) {
        world().enqueue(stream.0, Op::WriteValue { address: at.0, value })
    }
    cuStreamWaitValue32_v2(stream: CUstream, at: CUdeviceptr, value: u32, _f: c_uint) {
        world().enqueue(stream.0, Op::WaitValue { address: at.0, value })
    }
    cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) {
        let function = function.ok_or(CudaError::INVALID_VALUE)?;
        world().enqueue(stream.0, Op::Host(function, data as usize))
    }

    cuEventCreate(event: *mut CUevent, _flags: c_uint) {
        let mut world = world();
        let id = world.number();
        world.events.insert(id, Moment::default());
        *event = CUevent(id);
        Ok(())
    }
    cuEventDestroy_v2(event: CUevent) {
        let mut world = world();
        let alive = world.events.contains_key(&event.0) && world.past_events.insert(event.0);
        if alive { Ok(()) } else { Err(CudaError::INVALID_HANDLE) }
    }
    cuEventRecord(event: CUevent, stream: CUstream) {
        let mut world = world();
        world.alive(stream.0)?;
        let moment = world.events.get_mut(&event.0).ok_or(CudaError::INVALID_HANDLE)?;
        moment.recorded += 1;
        let sequence = moment.recorded;
        world.enqueue(stream.0, Op::Record { event: event.0, sequence })
    }
    cuEventQuery(event: CUevent) {
        let mut world = world();
        world.run();
        let moment = world.events.get(&event.0).ok_or(CudaError::INVALID_HANDLE)?;
        if moment.reached >= moment.recorded { Ok(()) } else { Err(CudaError::NOT_READY) }
    }
    cuEventElapsedTime(ms: *mut f32, start: CUevent, end: CUevent) {
        let world = world();
        for event in [start, end] {
            let moment = world.events.get(&event.0).ok_or(CudaError::INVALID_HANDLE)?;
            if moment.recorded == 0 { return Err(CudaError::INVALID_HANDLE); }
            if moment.reached < moment.recorded { return Err(CudaError::NOT_READY); }
        }
        *ms = 1.5;
        Ok(())
    }

    cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_uint,
        values: *mut *mut c_void
    ) {
        let text = CStr::from_ptr(image.cast()).to_string_lossy().into_owned();
        if text.contains("garbage") {
            for index in 0..count as usize {
                if *options.add(index) == constants::jit_option::ERROR_LOG_BUFFER {
                    let to: *mut c_char = (*values.add(index)).cast();
                    std::ptr::copy(c"line 1: garbage".as_ptr(), to, 16);
                }
            }
            return Err(CudaError::INVALID_PTX);
        }
        let mut world = world();
        let id = world.number();
        world.modules.insert(id, text);
        world.globals.insert(id, Box::new([7; 64]));
        *module = CUmodule(id);
        Ok(())
    }
    cuModuleUnload(module: CUmodule) {
        let mut world = world();
        world.globals.remove(&module.0);
        world.modules.remove(&module.0).map(|_| ()).ok_or(CudaError::INVALID_HANDLE)
    }
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) {
        let name = CStr::from_ptr(name).to_string_lossy().into_owned();
        let mut world = world();
        world.modules.get(&module.0).ok_or(CudaError::INVALID_HANDLE)?;
        if !["add", "note", "hold", "fault", "local"].contains(&name.as_str()) {
            return Err(CudaError::NOT_FOUND);
        }
        let id = world.number();
        world.functions.insert(id, name);
        *function = CUfunction(id);
        Ok(())
    }
    cuModuleGetGlobal_v2(
        at: *mut CUdeviceptr, bytes: *mut usize, module: CUmodule, name: *const c_char
    ) {
        let world = world();
        let place = world.globals.get(&module.0).ok_or(CudaError::INVALID_HANDLE)?;
        if CStr::from_ptr(name) != c"table" { return Err(CudaError::NOT_FOUND); }
        (*at, *bytes) = (CUdeviceptr(place.as_ptr() as u64), 64);
        Ok(())
    }
    cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction) {
        world().functions.get(&function.0).ok_or(CudaError::INVALID_HANDLE)?;
        *value = attribute as c_int + 100;
        Ok(())
    }
    cuFuncSetAttribute(function: CUfunction, _a: c_uint, value: c_int) {
        world().functions.get(&function.0).ok_or(CudaError::INVALID_HANDLE)?;
        if value < 0 { Err(CudaError::INVALID_VALUE) } else { Ok(()) }
    }
    cuFuncGetParamInfo(
        function: CUfunction, index: usize, offset: *mut usize, bytes: *mut usize
    ) {
        let world = world();
        let name = world.functions.get(&function.0).ok_or(CudaError::INVALID_HANDLE)?;
        (*offset, *bytes) = *layout(name).get(index).ok_or(CudaError::INVALID_VALUE)?;
        Ok(())
    }
    cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, _f: CUfunction, block: c_int, _s: usize
    ) {
        *blocks = 2048 / block;
        Ok(())
    }
    cuLaunchKernel(
        function: CUfunction, gx: c_uint, _gy: c_uint, _gz: c_uint, _bx: c_uint, _by: c_uint,
        _bz: c_uint, _shared: c_uint, stream: CUstream, _p: *mut *mut c_void,
        extra: *mut *mut c_void
    ) {
        if gx == 0 { return Err(CudaError::INVALID_VALUE); }
        let mut world = world();
        let name = world.functions.get(&function.0).ok_or(CudaError::INVALID_HANDLE)?.clone();
        let parameters = buffer(extra);
        world.enqueue(stream.0, Op::Kernel { name, parameters })
    }

    cuGraphCreate(graph: *mut CUgraph, _f: c_uint) {
        let mut world = world();
        let id = world.number();
        world.graphs.insert(id, Vec::new());
        *graph = CUgraph(id);
        Ok(())
    }
    cuGraphDestroy(graph: CUgraph) {
        world().graphs.remove(&graph.0).map(drop).ok_or(CudaError::INVALID_VALUE)
    }
    // Graphs are chains here: kernels in the order in which they were added.
    cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, _d: *const CUgraphNode, _n: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS
    ) {
        let mut world = world();
        let (name, parameters) = world.node(&(*params).v1)?;
        let id = world.number();
        let nodes = world.graphs.get_mut(&graph.0).ok_or(CudaError::INVALID_VALUE)?;
        nodes.push(GraphNode { node: id, name, parameters });
        *node = CUgraphNode(id);
        Ok(())
    }
    cuGraphAddDependencies(
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize
    ) {
        let world = world();
        let nodes = world.graphs.get(&graph.0).ok_or(CudaError::INVALID_VALUE)?;
        let at = |node: CUgraphNode| nodes.iter().position(|n| n.node == node.0);
        for index in 0..count {
            assert_eq!(at(*from.add(index)).map(|at| at + 1), at(*to.add(index)), "a chain");
        }
        Ok(())
    }
    cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, _f: c_ulonglong) {
        let mut world = world();
        let nodes = world.graphs.get(&graph.0).ok_or(CudaError::INVALID_VALUE)?.clone();
        let id = world.number();
        world.execs.insert(id, nodes);
        *exec = CUgraphExec(id);
        Ok(())
    }
    cuGraphExecKernelNodeSetParams_v2(
        exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS
    ) {
        let mut world = world();
        let (name, parameters) = world.node(&(*params).v1)?;
        world.nodes_set += 1;
        let nodes = world.execs.get_mut(&exec.0).ok_or(CudaError::INVALID_VALUE)?;
        let known = nodes.iter_mut().find(|known| known.node == node.0);
        let known = known.ok_or(CudaError::INVALID_VALUE)?;
        assert_eq!(known.name, name, "a node keeps its function");
        known.parameters = parameters;
        Ok(())
    }
    cuGraphExecDestroy(exec: CUgraphExec) {
        world().execs.remove(&exec.0).map(drop).ok_or(CudaError::INVALID_VALUE)
    }
    cuGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        let mut world = world();
        let nodes = world.execs.get(&exec.0).ok_or(CudaError::INVALID_VALUE)?.clone();
        world.graph_launches += 1;
        for GraphNode { name, parameters, .. } in nodes {
            world.enqueue(stream.0, Op::Kernel { name, parameters })?;
        }
        Ok(())
    }

    cuArray3DCreate_v2(array: *mut CUarray, _d: *const CUDA_ARRAY3D_DESCRIPTOR) {
        let mut world = world();
        let id = world.number();
        world.arrays.insert(id);
        *array = CUarray(id);
        Ok(())
    }
    cuArrayDestroy(array: CUarray) {
        if world().arrays.remove(&array.0) { Ok(()) } else { Err(CudaError::INVALID_HANDLE) }
    }
    // Arrays have no content here.
    cuMemcpy3D_v2(_c: *const CUDA_MEMCPY3D) { Ok(()) }

    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, s: CUstream) {
        world().enqueue(s.0, Op::Copy { to: to.0, from: from as u64, bytes })
    }
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, s: CUstream) {
        world().enqueue(s.0, Op::Copy { to: to as u64, from: from.0, bytes })
    }
    cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, s: CUstream) {
        world().enqueue(s.0, Op::Copy { to: to.0, from: from.0, bytes })
    }
    cuMemcpy3DAsync_v2(copy: *const CUDA_MEMCPY3D, s: CUstream) {
        let c = *copy;
        let side = |kind, host: u64, device: CUdeviceptr| if kind == 1 { host } else { device.0 };
        let op = Op::CopyRows {
            to: side(c.dstMemoryType, c.dstHost as u64, c.dstDevice),
            to_pitch: c.dstPitch,
            from: side(c.srcMemoryType, c.srcHost as u64, c.srcDevice),
            from_pitch: c.srcPitch,
            width: c.WidthInBytes,
            // Slices lie against each other: tests copy one.
            height: c.Height * c.Depth,
        };
        world().enqueue(s.0, op)
    }
    cuMemsetD8Async(to: CUdeviceptr, value: u8, width: usize, s: CUstream) {
        let op = Op::Fill { to: to.0, pitch: 0, pattern: vec![value], width, height: 1 };
        world().enqueue(s.0, op)
    }
    cuMemsetD32Async(to: CUdeviceptr, value: c_uint, width: usize, s: CUstream) {
        let pattern = value.to_le_bytes().to_vec();
        world().enqueue(s.0, Op::Fill { to: to.0, pitch: 0, pattern, width, height: 1 })
    }
    cuMemsetD2D16Async(
        to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, s: CUstream
    ) {
        let pattern = value.to_le_bytes().to_vec();
        world().enqueue(s.0, Op::Fill { to: to.0, pitch, pattern, width, height })
    }
}

/// The provider's table.
pub fn table() -> &'static DriverTable {
    static TABLE: OnceLock<DriverTable> = OnceLock::new();
    // SAFETY: each function has cuda.h's signature under its name.
    TABLE.get_or_init(|| unsafe { DriverTable::resolve(find) })
}

/// The provider's table, with launches that do nothing: for what the server itself costs.
pub fn table_of_nothing() -> &'static DriverTable {
    #[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
    unsafe extern "C" fn launch(
        _: CUfunction,
        _: c_uint,
        _: c_uint,
        _: c_uint,
        _: c_uint,
        _: c_uint,
        _: c_uint,
        _: c_uint,
        _: CUstream,
        _: *mut *mut c_void,
        _: *mut *mut c_void,
    ) -> CUresult {
        Ok(())
    }
    unsafe extern "C" fn launch_graph(_: CUgraphExec, _: CUstream) -> CUresult {
        Ok(())
    }
    unsafe extern "C" fn set_node(
        _: CUgraphExec,
        _: CUgraphNode,
        _: *const CUDA_KERNEL_NODE_PARAMS,
    ) -> CUresult {
        Ok(())
    }
    static TABLE: OnceLock<DriverTable> = OnceLock::new();
    let with_launch = |name: &CStr| match name.to_bytes() {
        b"cuLaunchKernel" => Some(launch as *const c_void),
        b"cuGraphLaunch" => Some(launch_graph as *const c_void),
        b"cuGraphExecKernelNodeSetParams_v2" => Some(set_node as *const c_void),
        _ => find(name),
    };
    // SAFETY: as in `table`.
    TABLE.get_or_init(|| unsafe { DriverTable::resolve(with_launch) })
}

/// The provider's tenants.
pub fn extension() -> &'static Extension {
    unsafe extern "C" fn create(tenant: *mut u64) -> CUresult {
        let mut world = world();
        let id = world.number() as u64;
        world.tenants.insert(id, None);
        // SAFETY: the server gives a local.
        unsafe { *tenant = id };
        Ok(())
    }
    unsafe extern "C" fn bind(tenant: u64) -> CUresult {
        TENANT.set(tenant);
        Ok(())
    }
    unsafe extern "C" fn error(tenant: u64) -> CUresult {
        world().tenants.get(&tenant).copied().flatten().map_or(Ok(()), Err)
    }
    unsafe extern "C" fn fault(_: u64, text: *mut c_char, _: usize) -> CUresult {
        // SAFETY: the server's buffer is longer.
        unsafe { std::ptr::copy(c"kernel fault: illegal address 0x10".as_ptr(), text, 35) };
        Ok(())
    }
    unsafe extern "C" fn end(tenant: u64) -> CUresult {
        let mut world = world();
        world.ended.insert(tenant);
        for queue in world.streams.values_mut().filter(|q| q.tenant == tenant) {
            queue.ops.clear();
        }
        Ok(())
    }
    unsafe extern "C" fn printf(
        _: u64,
        _: u32,
        text: *mut c_char,
        bytes: usize,
        written: *mut usize,
    ) -> CUresult {
        assert!(bytes >= 6);
        // SAFETY: the buffer has room, as just asserted.
        unsafe {
            std::ptr::copy(c"hello".as_ptr(), text, 5);
            *written = 5;
        }
        Ok(())
    }
    unsafe extern "C" fn name(_: u64, _: *const c_char) -> CUresult {
        Ok(())
    }
    // Its streams get on by themselves.
    unsafe extern "C" fn work(_: u64, worked: *mut c_int) -> CUresult {
        // SAFETY: the server gives a local.
        unsafe { *worked = 0 };
        Ok(())
    }
    unsafe extern "C" fn place_managed(
        _: u64,
        _: Option<cuda_api::extension::PlaceManaged>,
        _: *mut c_void,
    ) -> CUresult {
        // Images have no managed variables here.
        Ok(())
    }
    unsafe extern "C" fn place_variables(
        _: u64,
        _: u64,
        _: u64,
        _: c_uint,
        needed: *mut u64,
    ) -> CUresult {
        // Nor any others.
        // SAFETY: the server gives a local.
        unsafe { *needed = 0 };
        Ok(())
    }
    unsafe extern "C" fn memory(_: u64, _: u64, _: u64, _: u32) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn limit(_: u64, _: *const c_uint, _: usize, _: c_int) -> CUresult {
        Ok(())
    }
    unsafe extern "C" fn usage(_: u64, _: *mut cuda_api::extension::TenantUsage) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn kernels(
        _: u64,
        _: *mut cuda_api::extension::KernelUsage,
        _: usize,
        _: *mut usize,
    ) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn trace(_: u64, _: c_uint) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn trace_take(
        _: u64,
        _: *mut cuda_api::extension::TraceRecord,
        _: usize,
        _: *mut usize,
        _: *mut u64,
    ) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn activity(
        _: c_int,
        _: *mut cuda_api::extension::DeviceActivity,
    ) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn describe(
        _: c_int,
        _: *mut cuda_api::extension::DeviceDescription,
    ) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    unsafe extern "C" fn code_store(_: c_int, _: *mut cuda_api::extension::CodeStore) -> CUresult {
        Err(CudaError::NOT_SUPPORTED)
    }
    static EXTENSION: Extension = Extension {
        tenant_create: create,
        tenant_bind: bind,
        tenant_name: name,
        tenant_error: error,
        tenant_fault: fault,
        tenant_end: end,
        tenant_printf: printf,
        tenant_work: work,
        tenant_place_managed: place_managed,
        tenant_place_variables: place_variables,
        tenant_memory: memory,
        tenant_limit: limit,
        tenant_usage: usage,
        tenant_kernels: kernels,
        tenant_trace: trace,
        tenant_trace_take: trace_take,
        device_activity: activity,
        device_describe: describe,
        device_code_store: code_store,
    };
    &EXTENSION
}
