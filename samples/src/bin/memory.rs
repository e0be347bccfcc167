//! Device memory: makes it by every function there is, each until there is no more, and says what the driver and NVML
//! answer then; by name also pinned host memory; with `--cgroup` sets and reads a cgroup's limits by NVML instead.

use std::{
    ffi::{CString, c_char, c_void},
    io::{BufRead, BufReader, Write},
    mem::ManuallyDrop,
    process::{Child, Command, ExitCode, Stdio},
    ptr,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Parser;
use cudarc::driver::sys::{self, CUresult};
use libloading::Library;
use samples::{
    gpu::{blank, error_name, require_driver},
    report::say,
};
use serde::Serialize;

/// What is made at a time.
const STEP_BYTES: usize = 8 << 20;
/// Most of them, a GiB: a device without a limit is not filled, which takes minutes where it has 140 GiB.
const STEPS_MAX: usize = 128;
const MIB: u64 = 1 << 20;
/// The kind of host memory.
const PINNED: &str = "cuMemHostAlloc";

/// Makes device memory until there is no more.
#[derive(Parser)]
#[command(name = "memory")]
struct CommandLine {
    /// Only this kind; may be given several times. cuMemHostAlloc, pinned host memory, is tried only where it is named
    #[arg(long, value_name = "WAY")]
    way: Vec<String>,
    /// At most so many MiB by each kind
    #[arg(long, value_name = "MIB", default_value_t = (STEPS_MAX * STEP_BYTES) as u64 / MIB)]
    most: u64,
    /// Keep what was made for so many seconds before it is given back
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    hold: u64,
    /// Say what memory a cgroup of device 0 may have (its directory), by NVML
    #[arg(long, value_name = "DIRECTORY")]
    cgroup: Option<String>,
    /// Set that first: soft and hard limit, bytes
    #[arg(long, value_name = "BYTES", num_args = 2, requires = "cgroup")]
    limits: Option<Vec<u64>>,
    /// Report as one line of JSON
    #[arg(long)]
    json: bool,
    /// Make so much to be opened by another process, and wait for it
    #[arg(long, hide = true)]
    give: bool,
}

/// What became of a kind.
#[derive(Serialize)]
struct Row {
    way: &'static str,
    /// How much there was.
    got_mib: u64,
    /// What was answered where there was no more; empty if that much was enough.
    error: String,
    /// What cuMemGetInfo said then.
    free_mib: u64,
    total_mib: u64,
    /// What NVML said then.
    nvml_used_mib: u64,
    nvml_total_mib: u64,
    /// Half of what there was could be had once it was given back.
    given_back: bool,
}

#[derive(Serialize)]
struct Report {
    sample: &'static str,
    rows: Vec<Row>,
}

/// What gives a piece of memory back.
type Free = Box<dyn FnOnce()>;

/// A kind of memory, made in pieces of [`STEP_BYTES`].
struct Way {
    name: &'static str,
    /// What is made is memory of the host.
    is_host: bool,
    make: Box<dyn FnMut() -> Result<Free, CUresult>>,
}

fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    let done = match &arguments.cgroup {
        Some(directory) => cgroup(directory, arguments.limits.as_deref()),
        None if arguments.give => give(),
        None => ways(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("memory: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A call's status as a result.
macro_rules! call {
    ($($call:tt)*) => {
        // SAFETY: places are locals of the types that the function writes, handles are its own.
        match unsafe { sys::$($call)* } {
            CUresult::CUDA_SUCCESS => Ok(()),
            status => Err(status),
        }
    };
}

fn ready() -> Result<()> {
    require_driver();
    let named = |status| anyhow::Error::msg(error_name(status));
    call!(cuInit(0)).map_err(named).context("cuInit")?;
    let mut context = ptr::null_mut();
    call!(cuDevicePrimaryCtxRetain(&mut context, 0)).map_err(named)?;
    call!(cuCtxSetCurrent(context)).map_err(named)
}

fn ways(arguments: &CommandLine) -> Result<()> {
    ready()?;
    let mut rows = Vec::new();
    for mut way in table() {
        let is_named = arguments.way.iter().any(|name| name == way.name);
        if !is_named && (way.is_host || !arguments.way.is_empty()) {
            continue;
        }
        let most = usize::try_from(arguments.most * MIB)? / STEP_BYTES;
        let row = fill(&mut way, most, Duration::from_secs(arguments.hold))?;
        if !arguments.json {
            say(format_args!(
                "{}: {} MiB, then {}; cuMemGetInfo {} of {} MiB free, NVML {} of {} MiB used{}",
                row.way,
                row.got_mib,
                if row.error.is_empty() { "enough" } else { &row.error },
                row.free_mib,
                row.total_mib,
                row.nvml_used_mib,
                row.nvml_total_mib,
                if row.given_back { "" } else { "; NOT GIVEN BACK" },
            ));
        }
        rows.push(row);
    }
    if arguments.json {
        say(serde_json::to_string(&Report { sample: "memory", rows })?);
    }
    Ok(())
}

/// Makes memory until there is no more, and gives it back.
fn fill(way: &mut Way, most: usize, hold: Duration) -> Result<Row> {
    let free_before = memory_info()?.0;
    let (mut pieces, mut error) = (Vec::new(), String::new());
    while pieces.len() < most {
        match (way.make)() {
            Ok(free) => pieces.push(free),
            Err(status) => {
                error = error_name(status);
                break;
            }
        }
    }
    let got = pieces.len();
    let (free, total) = memory_info()?;
    let nvml = Nvml::load()?.memory()?;
    std::thread::sleep(hold);
    pieces.into_iter().for_each(|free| free());
    let mut half = Vec::new();
    let back = if way.is_host { 0 } else { pieces_to_come_back(got, free_before) };
    for _ in 0..back {
        half.extend(allocate().ok());
    }
    let given_back = half.len() == back;
    half.into_iter().for_each(|free| free());
    Ok(Row {
        way: way.name,
        got_mib: (got * STEP_BYTES) as u64 / MIB,
        error,
        free_mib: free as u64 / MIB,
        total_mib: total as u64 / MIB,
        nvml_used_mib: nvml[2] / MIB,
        nvml_total_mib: nvml[0] / MIB,
        given_back,
    })
}

/// Free and all memory of the device, bytes.
fn memory_info() -> Result<(usize, usize)> {
    let (mut free, mut total) = (0, 0);
    call!(cuMemGetInfo_v2(&mut free, &mut total)).map_err(|s| anyhow::Error::msg(error_name(s)))?;
    Ok((free, total))
}

/// How many pieces of device memory must be there again: half of those that were made, as far as they
/// were the device's. There can be more managed memory than a device or its limit has.
fn pieces_to_come_back(got: usize, free_before: usize) -> usize {
    got.min(free_before / STEP_BYTES) / 2
}

fn allocate() -> Result<Free, CUresult> {
    let mut address = 0;
    call!(cuMemAlloc_v2(&mut address, STEP_BYTES))?;
    Ok(freed(address))
}

fn freed(address: u64) -> Free {
    Box::new(move || {
        let _ = call!(cuMemFree_v2(address));
    })
}

/// Every kind.
fn table() -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    let mut add = |name, make: Box<dyn FnMut() -> Result<Free, CUresult>>| {
        ways.push(Way { name, is_host: name == PINNED, make });
    };
    add("cuMemAlloc", Box::new(allocate));
    add(
        "cuMemAllocPitch",
        Box::new(|| {
            let (mut address, mut pitch) = (0, 0);
            call!(cuMemAllocPitch_v2(&mut address, &mut pitch, 8192, STEP_BYTES / 8192, 4))?;
            Ok(freed(address))
        }),
    );
    add(
        "cuMemAllocManaged",
        Box::new(|| {
            let mut address = 0;
            call!(cuMemAllocManaged(&mut address, STEP_BYTES, 1))?;
            // It is a device's where the device has touched it.
            call!(cuMemsetD8_v2(address, 1, STEP_BYTES))?;
            Ok(freed(address))
        }),
    );
    add("cuMemCreate", Box::new(create));
    add("cuArrayCreate", Box::new(array));
    add("cuMipmappedArrayCreate", Box::new(mipmapped));
    add(
        "cuMemAllocAsync",
        Box::new(|| {
            let mut address = 0;
            call!(cuMemAllocAsync(&mut address, STEP_BYTES, ptr::null_mut()))?;
            call!(cuStreamSynchronize(ptr::null_mut()))?;
            Ok(Box::new(move || {
                let _ = call!(cuMemFreeAsync(address, ptr::null_mut()));
                let _ = call!(cuStreamSynchronize(ptr::null_mut()));
            }))
        }),
    );
    add("cuMemAllocFromPoolAsync", Box::new(of_pool));
    add("cuGraphAddMemAllocNode", Box::new(of_graph));
    add("cuModuleLoadData", Box::new(module));
    add("cuLibraryLoadData", Box::new(library));
    add(PINNED, Box::new(pinned));
    let mut giver = None;
    add("cuIpcOpenMemHandle", Box::new(move || opened(&mut giver)));
    ways
}

/// Pinned host memory.
fn pinned() -> Result<Free, CUresult> {
    let mut address = ptr::null_mut();
    call!(cuMemHostAlloc(&mut address, STEP_BYTES, 0))?;
    Ok(Box::new(move || {
        let _ = call!(cuMemFreeHost(address));
    }))
}

/// Physical memory of the device.
fn physical() -> sys::CUmemAllocationProp {
    let mut properties: sys::CUmemAllocationProp = blank();
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties
}

fn create() -> Result<Free, CUresult> {
    let mut handle = 0;
    call!(cuMemCreate(&mut handle, STEP_BYTES, &physical(), 0))?;
    Ok(Box::new(move || {
        let _ = call!(cuMemRelease(handle));
    }))
}

/// 2048 rows of 1024 floats.
fn floats() -> sys::CUDA_ARRAY3D_DESCRIPTOR {
    sys::CUDA_ARRAY3D_DESCRIPTOR {
        Width: 1024,
        Height: STEP_BYTES / 4096,
        Depth: 0,
        Format: sys::CUarray_format::CU_AD_FORMAT_FLOAT,
        NumChannels: 1,
        Flags: 0,
    }
}

fn array() -> Result<Free, CUresult> {
    let mut array = ptr::null_mut();
    call!(cuArray3DCreate_v2(&mut array, &floats()))?;
    let array = array as usize;
    Ok(Box::new(move || {
        let _ = call!(cuArrayDestroy(array as sys::CUarray));
    }))
}

fn mipmapped() -> Result<Free, CUresult> {
    let mut array = ptr::null_mut();
    call!(cuMipmappedArrayCreate(&mut array, &floats(), 1))?;
    let array = array as usize;
    Ok(Box::new(move || {
        let _ = call!(cuMipmappedArrayDestroy(array as sys::CUmipmappedArray));
    }))
}

/// Each piece of a pool of its own: a pool goes when it is destroyed and its memory is freed.
fn of_pool() -> Result<Free, CUresult> {
    let mut properties: sys::CUmemPoolProps = blank();
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let (mut pool, mut address) = (ptr::null_mut(), 0);
    call!(cuMemPoolCreate(&mut pool, &properties))?;
    let made = call!(cuMemAllocFromPoolAsync(&mut address, STEP_BYTES, pool, ptr::null_mut()))
        .and_then(|()| call!(cuStreamSynchronize(ptr::null_mut())));
    if let Err(status) = made {
        let _ = call!(cuMemPoolDestroy(pool));
        return Err(status);
    }
    let pool = pool as usize;
    Ok(Box::new(move || {
        let _ = call!(cuMemFreeAsync(address, ptr::null_mut()));
        let _ = call!(cuStreamSynchronize(ptr::null_mut()));
        let _ = call!(cuMemPoolDestroy(pool as sys::CUmemoryPool));
    }))
}

/// A graph's own memory, which a driver makes at the latest when the graph is launched.
fn of_graph() -> Result<Free, CUresult> {
    let (mut graph, mut exec) = (ptr::null_mut(), ptr::null_mut());
    call!(cuGraphCreate(&mut graph, 0))?;
    let mut made = || {
        let mut node: sys::CUDA_MEM_ALLOC_NODE_PARAMS = blank();
        node.poolProps.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        node.poolProps.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        node.bytesize = STEP_BYTES;
        let mut handle = ptr::null_mut();
        call!(cuGraphAddMemAllocNode(&mut handle, graph, ptr::null(), 0, &mut node))?;
        call!(cuGraphInstantiateWithFlags(&mut exec, graph, 0))?;
        call!(cuGraphLaunch(exec, ptr::null_mut()))?;
        call!(cuStreamSynchronize(ptr::null_mut()))?;
        Ok(node.dptr)
    };
    let made = made();
    let (graph, exec) = (graph as usize, exec as usize);
    let end = move |address: Option<u64>| {
        if let Some(address) = address {
            let _ = call!(cuMemFree_v2(address));
        }
        if exec != 0 {
            let _ = call!(cuGraphExecDestroy(exec as sys::CUgraphExec));
        }
        let _ = call!(cuGraphDestroy(graph as sys::CUgraph));
        let _ = call!(cuDeviceGraphMemTrim(0));
    };
    match made {
        Ok(address) => Ok(Box::new(move || end(Some(address)))),
        Err(status) => {
            end(None);
            Err(status)
        }
    }
}

/// A variable of [`STEP_BYTES`].
fn variable() -> CString {
    let text = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .global .align 4 .b8 v[{STEP_BYTES}];\n"
    );
    CString::new(text).unwrap_or_default()
}

fn module() -> Result<Free, CUresult> {
    let mut module = ptr::null_mut();
    call!(cuModuleLoadData(&mut module, variable().as_ptr().cast::<c_void>()))?;
    let module = module as usize;
    Ok(Box::new(move || {
        let _ = call!(cuModuleUnload(module as sys::CUmodule));
    }))
}

/// A library's variables are made when they are asked for, or before.
fn library() -> Result<Free, CUresult> {
    let (mut library, none) = (ptr::null_mut(), ptr::null_mut());
    let text = variable();
    let text = text.as_ptr().cast::<c_void>();
    call!(cuLibraryLoadData(
        &mut library,
        text,
        ptr::null_mut(),
        ptr::null_mut(),
        0,
        ptr::null_mut(),
        none,
        0
    ))?;
    let (mut address, mut bytes) = (0, 0);
    let found = call!(cuLibraryGetGlobal(&mut address, &mut bytes, library, c"v".as_ptr()));
    let library = library as usize;
    let unload = move || {
        let _ = call!(cuLibraryUnload(library as sys::CUlibrary));
    };
    match found {
        Ok(()) => Ok(Box::new(unload)),
        Err(status) => {
            unload();
            Err(status)
        }
    }
}

/// A process without a limit, which gives memory to this one.
struct Giver {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Giver {
    fn start() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--give").env_remove("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(process.stdout.take().context("its output")?);
        Ok(Self { process, lines })
    }

    /// One more piece.
    fn handle(&mut self) -> Result<sys::CUipcMemHandle> {
        let input = self.process.stdin.as_mut().context("its input")?;
        input.write_all(b"\n")?;
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
        for (byte, text) in handle.reserved.iter_mut().zip(line.trim().split(' ')) {
            *byte = text.parse().context("a handle")?;
        }
        Ok(handle)
    }
}

impl Drop for Giver {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn opened(giver: &mut Option<Giver>) -> Result<Free, CUresult> {
    let unknown = |_| CUresult::CUDA_ERROR_UNKNOWN;
    if giver.is_none() {
        *giver = Some(Giver::start().map_err(unknown)?);
    }
    let Some(giver) = giver else { return Err(CUresult::CUDA_ERROR_UNKNOWN) };
    let handle = giver.handle().map_err(unknown)?;
    let mut address = 0;
    let lazy = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
    call!(cuIpcOpenMemHandle_v2(&mut address, handle, lazy as u32))?;
    Ok(Box::new(move || {
        let _ = call!(cuIpcCloseMemHandle(address));
    }))
}

/// Makes a piece and says its handle for each line that is read.
fn give() -> Result<()> {
    ready()?;
    let named = |status| anyhow::Error::msg(error_name(status));
    for line in std::io::stdin().lines() {
        line?;
        let mut address = 0;
        call!(cuMemAlloc_v2(&mut address, STEP_BYTES)).map_err(named)?;
        let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
        call!(cuIpcGetMemHandle(&mut handle, address)).map_err(named)?;
        let bytes: Vec<String> = handle.reserved.iter().map(ToString::to_string).collect();
        say(bytes.join(" "));
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// NVML, loaded for good where monitoring tools load it.
struct Nvml(ManuallyDrop<Library>);

/// `nvmlSetMemoryLimits_v1_t`; `nvmlGetMemoryLimits_v1_t` has the last field too.
#[repr(C)]
struct MemoryLimits {
    name_space: *const c_char,
    soft: u64,
    hard: u64,
    used: u64,
}

impl Nvml {
    fn load() -> Result<Self> {
        // SAFETY: its initialisers are what monitoring tools run too.
        let library = unsafe { Library::new("libnvidia-ml.so.1") };
        Ok(Self(ManuallyDrop::new(library.context("there is no libnvidia-ml.so.1")?)))
    }

    /// Device 0, of the library that is made ready.
    fn device(&self) -> Result<usize> {
        type Init = unsafe extern "C" fn() -> u32;
        type ByIndex = unsafe extern "C" fn(u32, *mut usize) -> u32;
        let mut handle = 0;
        // SAFETY: nvml.h's signatures; the local is written.
        let status = unsafe {
            let by_index = self.0.get::<ByIndex>("nvmlDeviceGetHandleByIndex_v2")?;
            match self.0.get::<Init>("nvmlInit_v2")?() {
                0 => by_index(0, &mut handle),
                status => status,
            }
        };
        if status == 0 { Ok(handle) } else { bail!("NVML answers {status}") }
    }

    /// Total, free and used bytes.
    fn memory(&self) -> Result<[u64; 3]> {
        type GetMemory = unsafe extern "C" fn(usize, *mut [u64; 3]) -> u32;
        let (device, mut memory) = (self.device()?, [0; 3]);
        // SAFETY: nvml.h's signature; the local is written.
        let status =
            unsafe { self.0.get::<GetMemory>("nvmlDeviceGetMemoryInfo")?(device, &mut memory) };
        if status == 0 { Ok(memory) } else { bail!("nvmlDeviceGetMemoryInfo answers {status}") }
    }

    /// Calls the function of that name with a cgroup's limits.
    fn limits(&self, name: &str, limits: &mut MemoryLimits) -> Result<()> {
        type Limits = unsafe extern "C" fn(usize, *mut MemoryLimits) -> u32;
        let device = self.device()?;
        // SAFETY: nvml.h's signature; the structure and its text are the caller's.
        let status = unsafe { self.0.get::<Limits>(name)?(device, limits) };
        if status == 0 { Ok(()) } else { bail!("{name} answers {status}") }
    }
}

fn cgroup(directory: &str, set: Option<&[u64]>) -> Result<()> {
    let (nvml, text) = (Nvml::load()?, CString::new(directory)?);
    let mut limits = MemoryLimits { name_space: text.as_ptr(), soft: 0, hard: 0, used: 0 };
    if let Some([soft, hard]) = set {
        (limits.soft, limits.hard) = (*soft, *hard);
        nvml.limits("nvmlDeviceSetMemoryLimits_v1", &mut limits)?;
    }
    nvml.limits("nvmlDeviceGetMemoryLimits_v1", &mut limits)?;
    say(format_args!("soft {} hard {} used {}", limits.soft, limits.hard, limits.used));
    Ok(())
}
