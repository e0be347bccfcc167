//! A server in this process: pops requests and carries them out at once, on memory of its own.

use super::words_at;
use crate::memory::address::copy_here;
use channel::memfd::{Seals, create_sealed};
use channel::message::{Device, Message, Release, Welcome, Window};
use channel::payload::Reader;
use channel::region::{HOST_CALL_DONE, Region, ServerState};
use channel::reply::ReplyWriter;
use channel::request::*;
use channel::ring::{Consumer, Record};
use channel::socket::SeqPacket;
use channel::wait::SpinPolicy;
use cuda_api::{CUresult, CudaError, Word, attributes, number};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Device memory that it has, bytes.
pub(super) const MEMORY_BYTES: u64 = 256 << 20;
/// A module of which every load fails, with a log.
pub(super) const BAD_IMAGE: &[u8] = b"bad\0";

/// What a test holds of the server.
pub(super) struct Handle {
    /// While true, no request is popped.
    pub(super) held: Arc<AtomicBool>,
    /// Set to end the server without a word.
    pub(super) killed: Arc<AtomicBool>,
    pub(super) region: Region,
    /// How often it was asked to wake threads.
    pub(super) asked: Arc<AtomicU32>,
    /// While true, no event is done.
    pub(super) undone: Arc<AtomicBool>,
    parted: Arc<Mutex<Vec<(u32, u32)>>>,
    refusals: Arc<Mutex<Vec<Refusal>>>,
    defaults: Arc<Mutex<Vec<(bool, usize)>>>,
}

impl Handle {
    /// Of the streams that were made for some SMs only, since the last time: the first one, and
    /// how many.
    /// Of each stream with SMs of its own: whether it is its context's default stream, and that stream.
    pub(super) fn defaults(&self) -> Vec<(bool, usize)> {
        std::mem::take(&mut self.defaults.lock().unwrap())
    }

    /// What became of chunks for which there was no room, since this was asked last.
    pub(super) fn refusals(&self) -> Vec<Refusal> {
        std::mem::take(&mut self.refusals.lock().unwrap())
    }

    pub(super) fn parted(&self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.parted.lock().unwrap())
    }
}

/// The welcome of a server with one device, whose windows no other client has.
pub(crate) fn welcome() -> Welcome {
    // Where servers begin to give out windows too.
    static NEXT: AtomicU64 = AtomicU64::new(0x1000_0000_0000);
    let free = |bytes| Window { address: NEXT.fetch_add(bytes, Ordering::Relaxed), bytes };
    let mut device = Device {
        name: "test device".to_owned(),
        memory_bytes: MEMORY_BYTES,
        pci_bus_id: "0000:01:00.0".to_owned(),
        ..Device::default()
    };
    for (number, value) in [
        (attributes::MAX_THREADS_PER_BLOCK, 1024),
        (attributes::MAX_BLOCK_DIM_X, 1024),
        (attributes::MAX_BLOCK_DIM_Y, 1024),
        (attributes::MAX_BLOCK_DIM_Z, 64),
        (attributes::MAX_GRID_DIM_X, i32::MAX),
        (attributes::MAX_GRID_DIM_Y, 65535),
        (attributes::MAX_GRID_DIM_Z, 65535),
        (attributes::WARP_SIZE, 32),
        (attributes::MULTIPROCESSOR_COUNT, 8),
        (attributes::MAX_THREADS_PER_MULTIPROCESSOR, 2048),
        (attributes::GPU_DIRECT_RDMA_SUPPORTED, 1),
    ] {
        device.attributes[number as usize] = value;
    }
    Welcome {
        client_id: 1,
        server_pid: std::process::id(),
        window: free(1 << 30),
        host_window: free(1 << 30),
        driver_version: 13000,
        priority_least: 0,
        priority_greatest: -5,
        flags: 0,
        log_path: String::new(),
        devices: vec![device],
        release: Release::of_this_build(),
    }
}

/// A chunk for which there was no room, or that the client tries again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Refusal {
    Chunk,
    TriedAgain,
}

/// Device memory by its address, which may outlive a server.
pub(super) type DeviceMemory = Arc<Mutex<BTreeMap<u64, Vec<u8>>>>;

/// The only variable of modules, a `__constant__` of so many bytes.
pub(super) const CONSTANT_BYTES: u64 = 4;

/// Starts a server for the other end of a socket.
pub(super) fn start(region: Region, socket: SeqPacket) -> Handle {
    start_on(region, socket, DeviceMemory::default(), 0)
}

/// Starts a server on memory that there is, which has the modules' variable at an address.
pub(super) fn start_on(
    region: Region,
    socket: SeqPacket,
    memory: DeviceMemory,
    constant: u64,
) -> Handle {
    let handle = Handle {
        held: Arc::default(),
        killed: Arc::default(),
        region: region.clone(),
        asked: Arc::default(),
        undone: Arc::default(),
        parted: Arc::default(),
        refusals: Arc::default(),
        defaults: Arc::default(),
    };
    let (held, killed) = (Arc::clone(&handle.held), Arc::clone(&handle.killed));
    let asked = Arc::clone(&handle.asked);
    let undone = Arc::clone(&handle.undone);
    let parted = Arc::clone(&handle.parted);
    let refusals = Arc::clone(&handle.refusals);
    let defaults = Arc::clone(&handle.defaults);
    region.set_server_state(ServerState::Running);
    std::thread::spawn(move || {
        let mut server = Server {
            replies: ReplyWriter::new(region.clone()),
            region: region.clone(),
            socket,
            chunks: BTreeMap::new(),
            pinned: 0..0,
            functions: HashMap::new(),
            constant,
            asked,
            undone,
            parted,
            refusals,
            defaults,
        };
        let mut consumer = Consumer::new(region, SpinPolicy::NONE).unwrap();
        let mut record = Record::new();
        while !killed.load(Ordering::Acquire) {
            if held.load(Ordering::Acquire) || !consumer.pop(&mut record).unwrap() {
                std::thread::sleep(Duration::from_micros(20));
                continue;
            }
            let mut memory = memory.lock().unwrap();
            std::mem::swap(&mut server.chunks, &mut memory);
            server.answer(&record);
            std::mem::swap(&mut server.chunks, &mut memory);
        }
    });
    handle
}

/// The handle of every texture and surface object.
pub(super) const OBJECT: u64 = 0x7e00;

/// An end of a copy from a row of a slice on.
fn row(end: Copy3DEnd, y: u64, z: u64) -> Copy3DEnd {
    let on = |pitch: u64, rows: u64| (z * rows + y) * pitch;
    match end {
        Copy3DEnd::Device { address, pitch, rows } => {
            let address = cuda_api::CUdeviceptr(address.0 + on(pitch, rows));
            Copy3DEnd::Device { address, pitch, rows }
        }
        Copy3DEnd::Host { reference, pitch, rows } => {
            let reference = match reference {
                HostReference::Staging(at) => HostReference::Staging(at + on(pitch, rows) as u32),
                HostReference::Mapped(at) => HostReference::Mapped(at + on(pitch, rows)),
            };
            Copy3DEnd::Host { reference, pitch, rows }
        }
        Copy3DEnd::Array { .. } => panic!("this server has no arrays"),
    }
}

struct Server {
    region: Region,
    replies: ReplyWriter,
    socket: SeqPacket,
    chunks: BTreeMap<u64, Vec<u8>>,
    /// Addresses of pinned memory.
    pinned: core::ops::Range<u64>,
    /// Kernels by their handle.
    functions: HashMap<usize, String>,
    /// Where the modules' variable is.
    constant: u64,
    asked: Arc<AtomicU32>,
    undone: Arc<AtomicBool>,
    parted: Arc<Mutex<Vec<(u32, u32)>>>,
    refusals: Arc<Mutex<Vec<Refusal>>>,
    defaults: Arc<Mutex<Vec<(bool, usize)>>>,
}

impl Server {
    fn chunk(&mut self, address: u64, bytes: u64) -> Result<&mut [u8], CudaError> {
        let (start, chunk) =
            self.chunks.range_mut(..=address).next_back().ok_or(CudaError::ILLEGAL_ADDRESS)?;
        let offset = (address - start) as usize;
        chunk.get_mut(offset..offset + bytes as usize).ok_or(CudaError::ILLEGAL_ADDRESS)
    }

    fn host(&self, reference: HostReference, bytes: u64) -> u64 {
        match reference {
            HostReference::Staging(offset) => {
                self.region.staging_address(offset.into(), bytes).unwrap() as u64
            }
            HostReference::Mapped(address) => address,
        }
    }

    fn write_device(&mut self, to: u64, from: HostReference, bytes: u64) -> CUresult {
        let from = self.host(from, bytes);
        let to = self.chunk(to, bytes)?;
        copy_here(to.as_mut_ptr() as u64, from, bytes);
        Ok(())
    }

    fn read_device(&mut self, to: HostReference, from: u64, bytes: u64) -> CUresult {
        let to = self.host(to, bytes);
        let from = self.chunk(from, bytes)?;
        copy_here(to, from.as_ptr() as u64, bytes);
        Ok(())
    }

    fn copy_3d(&mut self, request: &Copy3D) -> CUresult {
        let Copy3DParams { destination, source, extent: [width, height, depth] } = request.copy;
        for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
            match (row(destination, y, z), row(source, y, z)) {
                (Copy3DEnd::Device { address, .. }, Copy3DEnd::Host { reference, .. }) => {
                    self.write_device(address.0, reference, width)?;
                }
                (Copy3DEnd::Host { reference, .. }, Copy3DEnd::Device { address, .. }) => {
                    self.read_device(reference, address.0, width)?;
                }
                (
                    Copy3DEnd::Device { address: to, .. },
                    Copy3DEnd::Device { address: from, .. },
                ) => {
                    let bytes = self.chunk(from.0, width)?.to_vec();
                    self.chunk(to.0, width)?.copy_from_slice(&bytes);
                }
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    }

    /// A test's kernel: stores `value` in `count` words from an address on.
    fn launch(&mut self, launch: &LaunchKernel<'_>) -> CUresult {
        match self.functions.get(&launch.function.0).map(String::as_str) {
            Some("fill") => {
                let p = launch.parameters;
                let address = u64::from_le_bytes(p[..8].try_into().unwrap());
                let count = u32::from_le_bytes(p[8..12].try_into().unwrap());
                let value: [u8; 4] = p[12..16].try_into().unwrap();
                if self.pinned.contains(&address) {
                    let words = words_at(address, count as usize).iter();
                    words.for_each(|word| word.store(u32::from_le_bytes(value), Ordering::Release));
                } else {
                    let words = self.chunk(address, u64::from(count) * 4)?.chunks_exact_mut(4);
                    words.for_each(|word| word.copy_from_slice(&value));
                }
                Ok(())
            }
            Some("trap") => {
                self.region.set_sticky_error(CudaError::LAUNCH_FAILED);
                Ok(())
            }
            _ => Err(CudaError::INVALID_HANDLE),
        }
    }

    fn fence(&self, stream: cuda_api::CUstream, value: u32) {
        let slot = stream.0 as u32 & cuda_api::handle::Handle::INDEX_MAX;
        let word = self.region.completion_word(slot).unwrap();
        word.store(value);
        channel::wait::wake(word);
    }

    fn answer(&mut self, record: &Record) {
        let posted = match record.opcode() {
            Fence::OPCODE => {
                let fence: Fence = record.decode().unwrap();
                self.fence(fence.stream, fence.value);
                Ok(())
            }
            Notify::OPCODE => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            number::cuStreamCreateWithPriority
            | number::cuStreamDestroy_v2
            | number::cuEventCreate
            | number::cuEventDestroy_v2
            | number::cuStreamWaitEvent
            | number::cuArrayDestroy
            | number::cuMipmappedArrayDestroy
            | number::cuTexObjectDestroy
            | number::cuSurfObjectDestroy
            | number::cuModuleUnload => Ok(()),
            AllocationRetry::OPCODE => {
                self.refusals.lock().unwrap().push(Refusal::TriedAgain);
                Ok(())
            }
            number::cuEventRecord => {
                let event: RecordEvent = record.decode().unwrap();
                if event.value != RECORD_UNMARKED {
                    self.fence(event.stream, event.value);
                }
                Ok(())
            }
            number::cuGreenCtxStreamCreate => {
                let stream: CreateGreenStream = record.decode().unwrap();
                self.parted.lock().unwrap().push((stream.sm_first, stream.sms));
                let is_default = stream.default == stream.stream;
                self.defaults.lock().unwrap().push((is_default, stream.default.0));
                Ok(())
            }
            HostFunc::OPCODE => {
                self.run_host_function(record.decode().unwrap());
                Ok(())
            }
            number::cuMemcpyHtoDAsync_v2 => {
                let copy: HostToDevice = record.decode().unwrap();
                self.write_device(copy.destination.0, copy.source, copy.bytes)
            }
            number::cuMemcpyDtoHAsync_v2 => {
                let copy: DeviceToHost = record.decode().unwrap();
                self.read_device(copy.destination, copy.source.0, copy.bytes)
            }
            number::cuMemcpy3DAsync_v2 => self.copy_3d(&record.decode().unwrap()),
            number::cuLaunchKernel => self.launch(&record.decode().unwrap()),
            number::cuMemcpyDtoDAsync_v2 => {
                let [to, from, bytes, _] = *record.words() else { panic!("four words") };
                self.chunk(from, bytes).map(|b| b.to_vec()).and_then(|bytes| {
                    self.chunk(to, bytes.len() as u64)?.copy_from_slice(&bytes);
                    Ok(())
                })
            }
            number::cuMemsetD32Async => {
                let [to, value, count, _] = *record.words() else { panic!("four words") };
                self.chunk(to, count * 4).map(|words| {
                    let value = (value as u32).to_le_bytes();
                    words.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&value));
                })
            }
            // Fails, as an asynchronous error of something that was posted.
            number::cuFuncSetCacheConfig => Err(CudaError::NOT_SUPPORTED),
            _ => return self.call(record),
        };
        if let Err(error) = posted {
            self.region.note_async_error(error);
        }
    }

    fn run_host_function(&self, request: HostFunc) {
        let slot = self.region.host_call_slot(request.slot).unwrap();
        slot.store(request.ticket);
        let signal = self.region.host_call_signal();
        signal.fetch_add(1);
        channel::wait::wake(signal);
        // Requests are carried out one after the other here, so the stream waits by itself.
        while slot.load() != request.ticket | HOST_CALL_DONE {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    fn call(&mut self, record: &Record) {
        match record.opcode() {
            ChunkCreate::OPCODE => {
                let request: ChunkCreate = record.decode().unwrap();
                let used: u64 = self.chunks.values().map(|c| c.len() as u64).sum();
                if used + request.bytes > MEMORY_BYTES {
                    self.refusals.lock().unwrap().push(Refusal::Chunk);
                    return self.replies.send_result(Err(CudaError::OUT_OF_MEMORY));
                }
                self.chunks.insert(request.address.0, vec![0; request.bytes as usize]);
                let file = create_sealed(c"chunk", 4096, Seals::SIZE).unwrap();
                self.socket.send(&Message::ChunkFd(0), &[file.as_fd()]).unwrap();
                self.replies.send_result(Ok(()));
            }
            ChunkRelease::OPCODE => {
                let request: ChunkRelease = record.decode().unwrap();
                self.chunks.remove(&request.address.0).unwrap();
                self.replies.send_result(Ok(()));
            }
            HostMap::OPCODE | number::cuModuleLoadDataEx => {
                let (message, _) = self.socket.receive().unwrap();
                assert!(matches!(message, Message::HostFd(()) | Message::ImageFd(())));
                if record.opcode() == HostMap::OPCODE {
                    let request: HostMap = record.decode().unwrap();
                    self.pinned = request.address..request.address + request.bytes;
                    return self.replies.send_result(Ok(()));
                }
                let request: LoadModule = record.decode().unwrap();
                let bad = request.image_bytes == BAD_IMAGE.len() as u64;
                let mut loaded = ModuleLoaded::default();
                if bad {
                    loaded.error_log = b"line 1: no such instruction".to_vec();
                }
                let result = if bad { Err(CudaError::INVALID_PTX) } else { Ok(()) };
                self.replies.send(result, &loaded).unwrap();
            }
            number::cuModuleGetFunction => {
                let request: GetFunction<'_> = record.decode().unwrap();
                let name = String::from_utf8(request.name.to_vec()).unwrap();
                let layout: &[(u32, u32)] = match name.as_str() {
                    "fill" => &[(0, 8), (8, 4), (12, 4)],
                    "trap" => &[],
                    _ => return self.replies.send_result(Err(CudaError::NOT_FOUND)),
                };
                self.functions.insert(request.function.0, name);
                let mut info = FunctionInfo::default();
                info.attributes[0] = 256;
                info.attributes[8] = 48 << 10;
                let parameter = |&(offset_bytes, size_bytes): &(u32, u32)| ParameterLayout {
                    offset_bytes,
                    size_bytes,
                };
                info.parameters = layout.iter().map(parameter).collect();
                self.replies.send(Ok(()), &info).unwrap();
            }
            number::cuModuleGetGlobal_v2 => {
                let (address, bytes) = (self.constant, CONSTANT_BYTES);
                self.chunks.entry(address).or_insert_with(|| vec![0; bytes as usize]);
                let info = GlobalInfo { address: cuda_api::CUdeviceptr(address), bytes };
                self.replies.send(Ok(()), &info).unwrap();
            }
            number::cuMemGetInfo_v2 => {
                let used: u64 = self.chunks.values().map(|c| c.len() as u64).sum();
                let reply =
                    MemoryInfoReply { free_bytes: MEMORY_BYTES - used, total_bytes: MEMORY_BYTES };
                self.replies.send(Ok(()), &reply).unwrap();
            }
            // The same handle for both kinds of object, as a provider may give them.
            number::cuTexObjectCreate | number::cuSurfObjectCreate => {
                self.replies.send(Ok(()), &[OBJECT]).unwrap();
            }
            QueryEvent::OPCODE => {
                let done = u64::from(!self.undone.load(Ordering::Acquire));
                self.replies.send(Ok(()), &EventState { done: done as u32 }).unwrap();
            }
            number::cuEventElapsedTime => {
                let reply = ElapsedTimeReply { milliseconds: 1.5 };
                self.replies.send(Ok(()), &reply).unwrap();
            }
            number::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => {
                let mut reader = Reader::new(record.words());
                let _function = reader.word().unwrap();
                let block: i32 = reader.value().unwrap();
                let blocks = if block > 192 { 2 } else { 2048 / block.max(1) };
                self.replies.send(Ok(()), &[blocks.to_word()]).unwrap();
            }
            _ => self.replies.send_result(Ok(())),
        }
    }
}
