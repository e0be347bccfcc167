//! A client's memory: chunks of device memory in its window, pinned host memory in its host
//! window, staging in the shared region, and the globals of its modules.
//!
//! Invariant: a range is in [`Ranges`] exactly while what stands behind it is mapped. Who takes
//! memory away has seen all of the client's streams idle before.

pub(super) mod arrays;
pub(super) mod ipc;
mod peer_windows;
pub(super) mod ranges;
pub(super) mod reserved;
pub(super) mod retired;
mod virtual_memory;

pub use virtual_memory::MEMORIES_MAX;

use peer_windows::PeerWindow;
use retired::Retired;
use virtual_memory::VirtualMemory;

use crate::account::{Charge, MemoryAccount};
use crate::common::Common;
use crate::device::{
    CheckedRange, DeviceMapping, DeviceReservation, HostRegistration, ManagedRoom,
    ManagedVariables, Share, Stream, new_chunk, old_chunk,
};
use crate::session::SessionLink;
use crate::session::memory::ranges::{Backing, Ranges};
use crate::window::{AddressWindow, Lease};
use channel::memfd::{self, Mapping};
use channel::message::{self, Message};
use channel::region::{REGION_BYTES, Region};
use channel::request::{
    AdoptChunk, AllocationRetry, ChunkCreate, HostMap, HostReference, HostUnmap, MemoryInfo,
    MemoryInfoReply,
};
use channel::socket::SeqPacket;
use cuda_api::{CUdevice, CUresult, CudaError};
use ptx::managed::Managed;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// The device as clients count: a server shows one.
const DEVICE: CUdevice = 0;

/// CUDA_ERROR_INVALID_DEVICE for a device that the server does not show.
pub(super) fn check_device(device: CUdevice) -> Result<(), CudaError> {
    if device == DEVICE { Ok(()) } else { Err(CudaError::INVALID_DEVICE) }
}

/// A chunk's address and length are multiples of this: what devices map device memory in.
pub use channel::limits::CHUNK_GRANULARITY_BYTES;
/// Most chunks of a client. Each is a file descriptor in the client, and in the server while it
/// is made.
pub const CHUNKS_MAX: usize = 16_384;
/// Most pieces of pinned host memory of a client: each is a mapping of the server's, of which
/// Linux allows a process 65530 (vm.max_map_count), shared by all clients.
pub const HOST_PIECES_MAX: usize = 4096;

/// A piece of pinned host memory: registered with the provider, mapped at the client's address.
pub struct HostPiece {
    // Dropped first: the registration must not outlive the mapping.
    _registration: HostRegistration,
    _mapping: Mapping,
    _charge: Charge,
}

/// The client's memory. Fields are dropped in their order: what lies in a window goes before it.
pub struct Memory {
    pub(in crate::session) retired: Retired,
    /// The session's own stream, for clearing memory, where the provider has tenants. Elsewhere
    /// there are no streams but those of programs, because all share the device's queues.
    internal: Option<Stream>,
    pub(in crate::session) share: Rc<Share>,
    link: Arc<SessionLink>,
    common: Arc<Common>,
    socket: Rc<SeqPacket>,
    pub(in crate::session) ranges: Ranges,
    pub(in crate::session) account: Arc<MemoryAccount>,
    /// What the client has of the server's own memory.
    pub(in crate::session) host_account: Arc<MemoryAccount>,
    /// With what is charged for those of this device: others are on their own servers' accounts.
    chunks: BTreeMap<u64, (DeviceMapping, Option<Charge>)>,
    pub(in crate::session) virtual_memory: VirtualMemory,
    /// By their addresses, with their lengths.
    host: BTreeMap<u64, (u64, HostPiece)>,
    managed: ManagedRoom,
    device_window: (AddressWindow, DeviceReservation),
    host_window: Arc<memfd::Reservation>,
    pub(in crate::session) peer_windows: Vec<PeerWindow>,
    region_registration: HostRegistration,
    region: Region,
}

impl Memory {
    /// Reserves the client's windows in this process and registers the shared region.
    pub fn new(
        share: &Rc<Share>,
        (link, common): (&Arc<SessionLink>, &Arc<Common>),
        lease: &Lease,
        region: Region,
        socket: &Rc<SeqPacket>,
    ) -> Result<Self, CudaError> {
        let (device, host) = (lease.device(), lease.host());
        let device_window = DeviceReservation::at(share, device.base, device.bytes)?;
        let host_window =
            memfd::Reservation::at(host.base, host.bytes).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let part = message::Window { address: host.base, bytes: host.bytes };
        let base = region.base().addr() as u64;
        // SAFETY: the region is mapped for all of REGION_BYTES while `region` lives, which is
        // kept beside the registration and dropped after it.
        let region_registration = unsafe { HostRegistration::new(share, base, REGION_BYTES)? };
        Ok(Self {
            retired: Retired::new(share),
            internal: share.is_tenant().then(|| Stream::new(share, 0)).transpose()?,
            share: share.clone(),
            link: link.clone(),
            common: common.clone(),
            socket: socket.clone(),
            ranges: Ranges::default(),
            account: link.limits.memory.clone(),
            host_account: link.limits.host.clone(),
            chunks: BTreeMap::new(),
            peer_windows: Vec::new(),
            virtual_memory: VirtualMemory::new(),
            host: BTreeMap::new(),
            managed: ManagedRoom::new(share, &host_window, part.managed())?,
            device_window: (device, device_window),
            host_window,
            region_registration,
            region,
        })
    }

    /// The chunk that begins at an address.
    pub fn chunk(&self, address: u64) -> Result<&DeviceMapping, CudaError> {
        self.chunks.get(&address).map(|(chunk, _)| chunk).ok_or(CudaError::INVALID_VALUE)
    }

    /// Sends the client the file that stands for memory, at that place in its window.
    fn send_file(&self, offset: u64, file: &OwnedFd) -> CUresult {
        let sent = self.socket.send(&Message::ChunkFd(offset), &[file.as_fd()]);
        sent.map_err(|_| CudaError::MPS_RPC_FAILURE)
    }

    /// Makes what needs device memory: once more without the client's retired arrays if there is none.
    fn with_room<T>(
        &mut self,
        mut make: impl FnMut(&mut Self) -> Result<T, CudaError>,
    ) -> Result<T, CudaError> {
        match make(self) {
            Err(CudaError::OUT_OF_MEMORY) if self.retired.end_arrays() => make(self),
            made => made,
        }
    }

    /// What the client can have of the device's memory.
    pub fn info(&self, request: MemoryInfo) -> Result<MemoryInfoReply, CudaError> {
        check_device(request.device)?;
        let (free_bytes, total_bytes) = self.share.device().memory_info()?;
        // A limit leaves the device its size, as under NVIDIA's MPS: what is free is less.
        Ok(MemoryInfoReply { free_bytes: self.account.free(free_bytes), total_bytes })
    }

    /// A client has made an allocation a second time.
    pub fn note_retry(&self, _: AllocationRetry) -> CUresult {
        self.account.retries();
        Ok(())
    }

    /// Makes a chunk and sends the client the file that stands for it.
    pub fn create_chunk(&mut self, request: ChunkCreate) -> CUresult {
        check_device(request.device)?;
        let (address, bytes) = (request.address.0, request.bytes);
        let file = match self.new_chunk(address, bytes) {
            Err(CudaError::OUT_OF_MEMORY) if self.retired.end_arrays() => {
                self.account.retries();
                self.new_chunk(address, bytes)?
            }
            file => file?,
        };
        let sent = self.send_file(address - self.device_window.0.base, &file);
        if sent.is_err() {
            self.release_chunk(address)?;
        }
        sent
    }

    /// Makes a chunk at an address of the client's choice, and clears it. Returns the fd that stands
    /// for it.
    fn new_chunk(&mut self, address: u64, bytes: u64) -> Result<OwnedFd, CudaError> {
        if !self.device_window.0.contains(address, bytes) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.check_chunk(address, bytes)?;
        let charge = self.account.charge_new(bytes)?;
        self.put_chunk(address, bytes, Some(charge), |share, account, stream| {
            account.with_room(|| new_chunk(share, address, bytes, stream))
        })
    }

    /// Takes in a chunk that an earlier server made for the client: the fd stands for it. What is
    /// in it stays.
    pub fn adopt_chunk(&mut self, request: AdoptChunk, fd: &OwnedFd) -> CUresult {
        check_device(request.device)?;
        let peers = self.peer_windows.len();
        let adopted = self.adopt(request.address.0, request.bytes, fd);
        if adopted.is_err() {
            self.forget_peers_since(peers);
        }
        adopted
    }

    fn adopt(&mut self, address: u64, bytes: u64, fd: &OwnedFd) -> CUresult {
        let charge = match self.device_window.0.contains(address, bytes) {
            true => Some(self.account.charge(bytes)?),
            // Memory of another device.
            false => {
                self.reserve_peer(address, bytes)?;
                None
            }
        };
        self.check_chunk(address, bytes)?;
        self.put_chunk(address, bytes, charge, |share, _, _| {
            old_chunk(share, address, bytes, fd).map(|chunk| (chunk, ()))
        })
    }

    /// Makes a chunk where one may be, and keeps it.
    fn put_chunk<R>(
        &mut self,
        address: u64,
        bytes: u64,
        charge: Option<Charge>,
        make: impl FnOnce(
            &Rc<Share>,
            &MemoryAccount,
            Option<&Stream>,
        ) -> Result<(DeviceMapping, R), CudaError>,
    ) -> Result<R, CudaError> {
        self.ranges.add(address, bytes, Backing::Chunk)?;
        match make(&self.share, &self.account, self.internal.as_ref()) {
            Ok((chunk, made)) => {
                self.chunks.insert(address, (chunk, charge));
                Ok(made)
            }
            Err(error) => {
                self.ranges.remove(address, Backing::Chunk);
                Err(error)
            }
        }
    }

    /// Whether a chunk may be at that place.
    fn check_chunk(&self, address: u64, bytes: u64) -> CUresult {
        let whole = |value: u64| value.is_multiple_of(CHUNK_GRANULARITY_BYTES);
        if !whole(address) || !whole(bytes) || bytes == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        match self.chunks.len() < CHUNKS_MAX {
            true => Ok(()),
            false => Err(CudaError::OUT_OF_MEMORY),
        }
    }

    /// Unmaps and releases the chunk at that address.
    pub fn release_chunk(&mut self, address: u64) -> CUresult {
        self.chunks.remove(&address).ok_or(CudaError::INVALID_VALUE)?;
        self.ranges.remove(address, Backing::Chunk);
        self.common.shared.forget_memory(self.link.identity.id, address);
        Ok(())
    }

    /// Maps a client's file at the client's address and registers it with the provider.
    pub fn map_host(&mut self, request: HostMap, fd: &OwnedFd) -> CUresult {
        self.retired.vacate(request.address, request.bytes)?;
        let peers = self.peer_windows.len();
        let mapped = self.map_host_at(request.address, request.bytes, fd);
        if mapped.is_err() {
            self.forget_peers_since(peers);
        }
        mapped
    }

    fn map_host_at(&mut self, address: u64, bytes: u64, fd: &OwnedFd) -> CUresult {
        let end = address.checked_add(bytes).ok_or(CudaError::INVALID_VALUE)?;
        let window = match self.host_window.contains(address, bytes) {
            true if end > self.managed.part().address => return Err(CudaError::INVALID_VALUE),
            true => Arc::clone(&self.host_window),
            false => self.peer_host_window(address, bytes)?,
        };
        if self.host.len() >= HOST_PIECES_MAX {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        // Before the file is looked at: its pages become this process' with the registration.
        let charge = self.host_account.charge(bytes)?;
        let mapping = window.map(fd, address, bytes).map_err(|_| CudaError::INVALID_VALUE)?;
        // SAFETY: the mapping covers the range and is kept beside the registration, which is
        // dropped first.
        let registration = unsafe { HostRegistration::new(&self.share, address, bytes)? };
        if registration.device_address() != address {
            // The client takes one pointer to be good everywhere.
            return Err(CudaError::NOT_SUPPORTED);
        }
        self.ranges.add(address, bytes, Backing::Host)?;
        let piece = HostPiece { _registration: registration, _mapping: mapping, _charge: charge };
        self.host.insert(address, (bytes, piece));
        Ok(())
    }

    /// Places managed variables of a module that is to be loaded: their first address.
    pub fn place_managed(&mut self, variables: &Managed) -> Result<u64, CudaError> {
        self.managed.place(variables)
    }

    /// The managed variables of the module that was loaded last, if it has any.
    pub fn take_managed(&mut self) -> Option<ManagedVariables> {
        self.managed.take_placed()
    }

    /// Lets the client use the managed variables of a module.
    pub fn add_managed(&mut self, variables: &ManagedVariables) -> CUresult {
        self.ranges.add(variables.address(), variables.bytes(), Backing::Host)
    }

    /// Takes the managed variables of a module away.
    pub fn remove_managed(&mut self, variables: &ManagedVariables) {
        self.ranges.remove(variables.address(), Backing::Host);
    }

    /// Takes the piece of host memory at that address away.
    pub fn unmap_host(&mut self, request: HostUnmap) -> CUresult {
        let address = request.address;
        let (bytes, piece) = self.host.remove(&address).ok_or(CudaError::INVALID_VALUE)?;
        self.ranges.remove(address, Backing::Host);
        self.retired.host(address, bytes, piece);
        Ok(())
    }

    /// Lets the client use a global of one of its modules. False if it can already.
    pub fn add_global(&mut self, address: u64, bytes: u64) -> Result<bool, CudaError> {
        if self.ranges.check(address, bytes).is_ok() {
            return Ok(false);
        }
        self.ranges.add(address, bytes, Backing::Global).map(|()| true)
    }

    /// Takes a module's global away.
    pub fn remove_global(&mut self, address: u64) {
        self.ranges.remove(address, Backing::Global);
    }

    /// Grows whenever memory is taken away.
    pub fn version(&self) -> u64 {
        self.ranges.version()
    }

    /// Checks a range that the device shall read or write.
    pub fn device_range(&self, address: u64, bytes: u64) -> Result<CheckedRange, CudaError> {
        self.ranges.check(address, bytes)
    }

    /// How many of the bytes from `address` on are the client's, on the device.
    pub fn covered(&self, address: u64, bytes: u64) -> u64 {
        self.ranges.covered(address, bytes)
    }

    /// What the client has from now on it has had at another server, also if its limits are less by now; or not any
    /// more.
    pub fn set_restoring(&self, is_restoring: bool) {
        self.account.set_restoring(is_restoring);
        self.host_account.set_restoring(is_restoring);
    }

    /// Checks the host side of a copy.
    pub fn host_range(
        &self,
        reference: HostReference,
        bytes: u64,
    ) -> Result<CheckedRange, CudaError> {
        match reference {
            HostReference::Mapped(address) => self.ranges.check_host(address, bytes),
            HostReference::Staging(offset) => {
                let address = self
                    .region
                    .staging_address(offset.into(), bytes)
                    .map_err(|_| CudaError::INVALID_VALUE)?;
                // SAFETY: the region has these bytes, and is mapped as long as the session lives.
                Ok(unsafe { CheckedRange::new_unchecked(address.addr() as u64, bytes) })
            }
        }
    }

    /// The completion word of a stream's slot, as the device sees it.
    pub fn completion_word(&self, slot: u32) -> Result<CheckedRange, CudaError> {
        let word = self.region.completion_word(slot).ok_or(CudaError::INVALID_HANDLE)?;
        Ok(self.region_word(word.address()))
    }

    /// A word of the shared region as the device sees it.
    pub fn region_word(&self, address: *mut u32) -> CheckedRange {
        let offset = address.addr() as u64 - self.region.base().addr() as u64;
        assert!(offset + 4 <= REGION_BYTES, "the word is in the region");
        // SAFETY: the region has these bytes, as just asserted, and is registered as long as the session lives.
        unsafe {
            CheckedRange::new_unchecked(self.region_registration.device_address() + offset, 4)
        }
    }

    /// Takes away all device memory, which waits for nothing, and every use of host memory.
    pub fn clear_device(&mut self) {
        self.ranges.clear();
        self.chunks.clear();
        self.virtual_memory.clear();
    }

    /// Takes away the rest, but the windows and the region.
    pub fn clear_host(&mut self) {
        self.host.clear();
    }
}
