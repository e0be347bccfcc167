//! Memory of two devices shared as collective libraries do it: by exported physical memory, by handles
//! of allocations and of events, between two processes and within one.
//!
//! The first process uses the first device, the second one the last. Each maps what the other exports
//! and adds with a kernel of its own device what lies in the other's memory.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use cudarc::driver::{CudaContext, PushKernelArg, sys};
use cudarc::nvrtc::Ptx;
use rustix::io::FdFlags;
use samples::{
    driver::{self, checked},
    gpu::{blank, failed, function, require_driver, shape},
    ptx,
};
use std::ffi::c_void;
use std::io::{BufRead, BufReader, Write};

const BYTES: usize = 2 << 20;
const LENGTH: usize = BYTES / size_of::<f32>();

/// Shares memory and events of two devices between processes and within one.
#[derive(Parser)]
#[command(name = "sharing")]
struct CommandLine {
    /// The second process: it is started by the first
    #[arg(long, hide = true)]
    peer: Option<RawFd>,
}

/// Calls a driver function. Every pointer that is passed is to a local, or to what a call returned, with as many bytes as
/// the function gets; every address that is used is of memory which is still there.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: see above.
        checked(stringify!($name), unsafe { sys::$name($($argument),*) })
    };
}

/// A device that this process uses.
struct Device {
    context: Arc<CudaContext>,
    ordinal: i32,
}

impl Device {
    fn new(ordinal: usize) -> Result<Self> {
        let context = CudaContext::new(ordinal).map_err(failed)?;
        let device = context.cu_device();
        Ok(Self { context, ordinal: device })
    }

    fn enter(&self) -> Result<()> {
        self.context.bind_to_thread().map_err(failed)
    }

    fn access(&self) -> sys::CUmemAccessDesc {
        sys::CUmemAccessDesc {
            location: location(self.ordinal),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        }
    }

    /// Physical memory of this device that can be exported, and how memory is mapped.
    fn create(&self) -> Result<(u64, usize)> {
        let mut properties: sys::CUmemAllocationProp = blank();
        properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.requestedHandleTypes =
            sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        properties.location = location(self.ordinal);
        let minimum = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let mut granularity = 0;
        cu!(cuMemGetAllocationGranularity(&mut granularity, &properties, minimum))?;
        let mut memory = 0;
        cu!(cuMemCreate(&mut memory, BYTES.next_multiple_of(granularity), &properties, 0))?;
        Ok((memory, granularity))
    }

    /// Maps physical memory for this device alone; where.
    fn map(&self, memory: u64, granularity: usize) -> Result<u64> {
        let (mut address, bytes) = (0, BYTES.next_multiple_of(granularity));
        cu!(cuMemAddressReserve(&mut address, bytes, granularity, 0, 0))?;
        cu!(cuMemMap(address, bytes, 0, memory, 0))?;
        cu!(cuMemSetAccess(address, bytes, &self.access(), 1))?;
        Ok(address)
    }

    /// Takes a mapping away as collective libraries do it, which have kept its address only.
    fn unmap(&self, address: u64) -> Result<()> {
        let (mut memory, mut bytes) = (0, 0);
        cu!(cuMemRetainAllocationHandle(&mut memory, address as *mut c_void))?;
        cu!(cuMemRelease(memory))?;
        cu!(cuMemGetAddressRange_v2(std::ptr::null_mut(), &mut bytes, address))?;
        cu!(cuMemUnmap(address, bytes))?;
        Ok(cu!(cuMemAddressFree(address, bytes))?)
    }

    fn fill(&self, address: u64, value: f32) -> Result<()> {
        cu!(cuMemsetD32_v2(address, value.to_bits(), LENGTH))?;
        Ok(driver::cuCtxSynchronize()?)
    }

    /// Adds with a kernel of this device: `sum = a + b`.
    fn add(&self, a: u64, b: u64, sum: u64) -> Result<()> {
        let module = self.context.load_module(Ptx::from_src(ptx::VECTOR_ADD)).map_err(failed)?;
        let kernel = function(&module, "vector_add")?;
        let stream = self.context.default_stream();
        let length = LENGTH as i32;
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&a).arg(&b).arg(&sum).arg(&length);
        // SAFETY: three vectors of that length, which this device reaches, as it was checked.
        unsafe { launch.launch(shape(16, 256, 0)) }.map_err(failed)?;
        stream.synchronize().map_err(failed)
    }

    fn expect(&self, what: &str, address: u64, value: f32) -> Result<()> {
        let mut found = vec![0f32; LENGTH];
        cu!(cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), address, BYTES))?;
        let wrong = found.iter().find(|found| **found != value);
        ensure!(wrong.is_none(), "{what}: {wrong:?} instead of {value}");
        Ok(())
    }
}

fn location(device: i32) -> sys::CUmemLocation {
    let mut location: sys::CUmemLocation = blank();
    location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device;
    location
}

/// 64 bytes as a line of hexadecimal digits.
fn to_line(bytes: &[std::ffi::c_char; 64]) -> String {
    bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect()
}

fn of_line(line: &str) -> Result<[std::ffi::c_char; 64]> {
    let mut bytes = [0; 64];
    ensure!(line.is_ascii() && line.len() == 128, "no handle: {line}");
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&line[2 * index..2 * index + 2], 16)? as std::ffi::c_char;
    }
    Ok(bytes)
}

/// Within one process: a device maps the other's physical memory by its handle.
fn within(devices: [&Device; 2]) -> Result<()> {
    for (own, other) in [(devices[0], devices[1]), (devices[1], devices[0])] {
        other.enter()?;
        let (memory, granularity) = other.create()?;
        let there = other.map(memory, granularity)?;
        other.fill(there, 3.0)?;
        own.enter()?;
        let here = own.map(memory, granularity).context("memory of another device")?;
        cu!(cuMemRelease(memory))?;
        let (mut sum, mut seven) = (0, 0);
        cu!(cuMemAlloc_v2(&mut sum, BYTES))?;
        cu!(cuMemAlloc_v2(&mut seven, BYTES))?;
        own.fill(seven, 7.0)?;
        own.add(here, seven, sum)?;
        own.expect("what lies on the other device and 7", sum, 10.0)?;
        own.add(sum, seven, here)?;
        own.unmap(here)?;
        cu!(cuMemFree_v2(sum))?;
        cu!(cuMemFree_v2(seven))?;
        other.enter()?;
        other.expect("what the other device wrote", there, 17.0)?;
        other.unmap(there)?;
    }
    Ok(())
}

/// Managed memory that is made on one device and filled by the other.
fn managed(devices: [&Device; 2]) -> Result<()> {
    let [maker, filler] = devices;
    maker.enter()?;
    let mut address = 0;
    let global = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
    cu!(cuMemAllocManaged(&mut address, BYTES, global))?;
    filler.enter()?;
    let advice = sys::CUmem_advise::CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
    cu!(cuMemAdvise(address, BYTES, advice, filler.ordinal))
        .context("advice on the other device")?;
    cu!(cuMemPrefetchAsync(address, BYTES, filler.ordinal, std::ptr::null_mut()))?;
    filler.fill(address, 5.0)?;
    let mut location = -1i32;
    let preferred = sys::CUmem_range_attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION;
    let place = (&raw mut location).cast();
    cu!(cuMemRangeGetAttribute(place, size_of::<i32>(), preferred, address, BYTES))?;
    ensure!(location == filler.ordinal, "preferred location: {location}");
    maker.enter()?;
    maker.expect("managed memory that the other device filled", address, 5.0)?;
    Ok(cu!(cuMemFree_v2(address))?)
}

/// The first process: exports, and looks at what the second one has made of it.
fn first(device: &Device) -> Result<()> {
    device.enter()?;
    let (memory, granularity) = device.create()?;
    let mapped = device.map(memory, granularity)?;
    device.fill(mapped, 1.0)?;
    let mut fd: RawFd = -1;
    let kind = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    cu!(cuMemExportToShareableHandle((&raw mut fd).cast(), memory, kind, 0))?;
    // SAFETY: the driver has made the descriptor for its caller.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // The program that is started gets it.
    rustix::io::fcntl_setfd(&fd, FdFlags::empty()).context("the descriptor is not passed on")?;

    let mut allocated = 0;
    cu!(cuMemAlloc_v2(&mut allocated, BYTES))?;
    device.fill(allocated, 0.0)?;
    let mut of_memory = sys::CUipcMemHandle { reserved: [0; 64] };
    let mut of_event = sys::CUipcEventHandle { reserved: [0; 64] };
    cu!(cuIpcGetMemHandle(&mut of_memory, allocated))?;
    let mut event = std::ptr::null_mut();
    let flags = sys::CUevent_flags::CU_EVENT_INTERPROCESS as u32
        | sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
    cu!(cuEventCreate(&mut event, flags))?;
    cu!(cuIpcGetEventHandle(&mut of_event, event))?;
    // The second process waits for this event, behind which there is what it reads.
    cu!(cuMemsetD32Async(allocated, 2f32.to_bits(), LENGTH, std::ptr::null_mut()))?;
    cu!(cuEventRecord(event, std::ptr::null_mut()))?;

    let mut peer = Command::new(std::env::current_exe()?);
    peer.args(["--peer", &fd.as_raw_fd().to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut peer = peer.spawn().context("the second process")?;
    let mut to = peer.stdin.take().context("its input")?;
    writeln!(to, "{}\n{}", to_line(&of_memory.reserved), to_line(&of_event.reserved))?;
    let mut lines = BufReader::new(peer.stdout.take().context("its output")?).lines();
    let done = lines.next().context("the second process ended early")??;
    ensure!(done == "done", "the second process: {done}");
    device.expect("what the second process wrote to exported memory", mapped, 3.0)?;
    device.expect("what it wrote to an allocation", allocated, 4.0)?;
    drop(to);
    ensure!(peer.wait()?.success(), "the second process failed");
    cu!(cuEventDestroy_v2(event))?;
    cu!(cuMemFree_v2(allocated))?;
    cu!(cuMemRelease(memory))?;
    device.unmap(mapped)
}

/// The second process.
fn second(device: &Device, fd: RawFd) -> Result<()> {
    device.enter()?;
    let mut input = std::io::stdin().lines();
    let mut handle = || of_line(&input.next().context("a handle")??);
    let of_memory = sys::CUipcMemHandle_st { reserved: handle()? };
    let of_event = sys::CUipcEventHandle_st { reserved: handle()? };
    let kind = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    let mut memory = 0;
    cu!(cuMemImportFromShareableHandle(&mut memory, fd as usize as *mut c_void, kind))?;
    let mapped = device.map(memory, BYTES)?;
    cu!(cuMemRelease(memory))?;
    let (mut opened, mut event) = (0, std::ptr::null_mut());
    let lazily = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
    cu!(cuIpcOpenMemHandle_v2(&mut opened, of_memory, lazily))?;
    cu!(cuIpcOpenEventHandle(&mut event, of_event))?;
    cu!(cuStreamWaitEvent(std::ptr::null_mut(), event, 0))?;
    let mut sum = 0;
    cu!(cuMemAlloc_v2(&mut sum, BYTES))?;
    device.add(mapped, opened, sum)?;
    device.expect("memory of two kinds", sum, 3.0)?;
    // sum = 3; opened = 1 + 3; mapped = 3.
    device.add(mapped, sum, opened)?;
    cu!(cuMemcpyDtoD_v2(mapped, sum, BYTES))?;
    device.expect("an allocation of the other process", opened, 4.0)?;
    println!("done");
    std::io::stdout().flush()?;
    // Until the first process has looked.
    ensure!(input.next().is_none(), "nothing more was to come");
    cu!(cuEventDestroy_v2(event))?;
    cu!(cuIpcCloseMemHandle(opened))?;
    device.unmap(mapped)
}

fn run() -> Result<()> {
    let arguments = CommandLine::parse();
    require_driver();
    let count = CudaContext::device_count().map_err(failed)? as usize;
    if let Some(fd) = arguments.peer {
        let device = Device::new(count.checked_sub(1).context("there is no device")?)?;
        return second(&device, fd);
    }
    let [first_device, last] = [Device::new(0)?, Device::new(count - 1)?];
    let mut can = 1;
    if count > 1 {
        driver::cuDeviceCanAccessPeer(&mut can, first_device.ordinal, last.ordinal)?;
    }
    if can == 0 {
        println!("{count} devices that do not reach each other");
        return Ok(());
    }
    if count > 1 {
        within([&first_device, &last])?;
        managed([&first_device, &last])?;
    }
    first(&first_device)?;
    println!("{count} devices: shared within a process and between two");
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sharing: {error:#}");
            ExitCode::FAILURE
        }
    }
}
