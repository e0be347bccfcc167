//! Peers: memory and events of the program's other devices, made known to this device's server.
//!
//! A chunk of another device is imported at its own address through the descriptor that the client
//! holds; pinned memory is mapped at every server. An event of another device has happened when that
//! device's completion word says so, which this device waits for in the shared region.
//!
//! Lock order: the memory of one client, then the peers of another.

use crate::connection::Connection;
use crate::handles::Table;
use crate::memory::Memory;
use crate::memory::address::{Place, Side};
use crate::memory::virtual_memory::PEER_MEMORIES_MAX;
use crate::program::Client;
use crate::program::launch::submission::wire_stream;
use crate::stream::table::{OwnDefault, Stream};
use channel::limits::MEMORIES_MAX;
use channel::message::Message;
use channel::region::{COMPLETION_OFFSET, COMPLETION_WORD_STRIDE, REGION_BYTES};
use channel::request::{AdoptChunk, ChunkRelease, HostMap, HostUnmap};
use core::sync::atomic::Ordering;
use cuda_api::constants::{host_flags, stream_flags, stream_value, vmm};
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUdevice, CUdeviceptr, CUresult, CudaError, Word, number};
use recovery::Mark;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// All host memory is registered so that all contexts and the device reach it.
const HOST_FLAGS: u32 = host_flags::PORTABLE | host_flags::DEVICE_MAP;

/// What a device's server knows of the program's other devices.
pub(crate) struct Peers {
    /// Imported chunks by address, with their device.
    chunks: BTreeMap<u64, CUdevice>,
    /// Pinned memory of other clients' windows that is mapped, by address.
    host: BTreeSet<u64>,
    /// Where another device's region is for this device, by the connection that it belongs to.
    regions: HashMap<usize, (&'static Connection, u64)>,
    /// Virtual memory of other devices that is mapped here.
    pub(super) mappings: BTreeMap<u64, PeerMapping>,
    /// Reservations of other clients that are made here too: address to length.
    pub(super) reservations: BTreeMap<u64, u64>,
    /// Handles of physical memory of other devices at this server.
    pub(super) memories: Table<()>,
}

/// Virtual memory of another device.
pub(super) struct PeerMapping {
    pub(super) bytes: u64,
    /// The handle of its physical memory at this server.
    pub(super) memory: Handle,
    pub(super) access: u32,
}

impl Peers {
    /// Nothing, for a device's server.
    pub(super) fn new(device: CUdevice) -> Self {
        Self {
            chunks: BTreeMap::new(),
            host: BTreeSet::new(),
            regions: HashMap::new(),
            mappings: BTreeMap::new(),
            reservations: BTreeMap::new(),
            memories: Table::on(
                HandleKind::Memory,
                device,
                MEMORIES_MAX - PEER_MEMORIES_MAX,
                PEER_MEMORIES_MAX,
            ),
        }
    }
}

/// A chunk as another server imports it.
struct Chunk {
    address: u64,
    bytes: u64,
    file: OwnedFd,
}

impl Memory {
    /// The chunk of device memory that a range lies in.
    fn chunk_to_share(&self, address: u64) -> Result<Chunk, CudaError> {
        let found = self.heap.chunk_of(address);
        let (start, bytes) = found.ok_or(CudaError::INVALID_VALUE)?;
        let file = self.chunk_files.get(&start).ok_or(CudaError::INVALID_VALUE)?;
        let file = file.try_clone().map_err(|_| CudaError::OUT_OF_MEMORY)?;
        Ok(Chunk { address: start, bytes, file })
    }

    /// Every chunk of device memory.
    fn chunks_to_share(&self) -> Result<Vec<Chunk>, CudaError> {
        self.chunk_files.keys().map(|address| self.chunk_to_share(*address)).collect()
    }
}

impl Client {
    /// True if this device can reach another one's memory.
    pub(crate) fn can_access(&self, device: CUdevice) -> bool {
        self.program.can_access(self.device, device)
    }

    /// The program's clients on other devices.
    pub(super) fn others(&self) -> impl Iterator<Item = &'static Self> {
        let own = self.device;
        self.program.clients().filter(move |other| other.device != own)
    }

    /// What a range can be in a copy by this device, and where it is for server and device. Memory
    /// of another device is made known to this one.
    ///
    /// # Errors
    /// CUDA_ERROR_INVALID_VALUE if it reaches beyond what it begins in,
    /// CUDA_ERROR_PEER_ACCESS_UNSUPPORTED if it is another device's that this one does not reach.
    pub(crate) fn end(&self, address: u64, bytes: u64) -> Result<(Side, u64), CudaError> {
        let own = self.memory().end(address, bytes)?;
        if own.0 != Side::Pageable || !self.program.has_several() {
            return Ok(own);
        }
        for other in self.others() {
            let found = other.memory().end(address, bytes)?;
            match found.0 {
                Side::Pageable => {}
                Side::Device => {
                    self.reach(other, address)?;
                    return Ok(found);
                }
                Side::Pinned => return Ok(found),
            }
        }
        Ok(own)
    }

    /// The client whose device memory begins at an address of a copy, if it is another one's.
    pub(crate) fn owner_elsewhere(&self, address: u64) -> Option<&'static Self> {
        if !self.program.has_several() {
            return None;
        }
        self.others().find(|other| {
            matches!(
                other.memory().place(address),
                Ok(Place::Device { .. } | Place::Mapped { .. } | Place::Global { .. })
            )
        })
    }

    /// As [`Memory::check_device_range`], for memory of other devices too.
    pub(crate) fn check_device_range(&self, address: u64, bytes: u64) -> CUresult {
        let own = self.memory().check_device_range(address, bytes);
        if own.is_ok() || !self.program.has_several() {
            return own;
        }
        match self.end(address, bytes)? {
            (Side::Pageable, _) => Err(CudaError::INVALID_VALUE),
            (_, known) if known != address => Err(CudaError::INVALID_VALUE),
            _ => Ok(()),
        }
    }

    /// Makes device memory of another device known to this one.
    fn reach(&self, owner: &Self, address: u64) -> CUresult {
        if !self.can_access(owner.device) {
            return Err(CudaError::PEER_ACCESS_UNSUPPORTED);
        }
        let place = owner.memory().place(address)?;
        match place {
            Place::Device { .. } => {
                let chunk = owner.memory().chunk_to_share(address)?;
                self.adopt(owner.device, chunk.address, chunk.bytes, chunk.file.as_fd())
            }
            Place::Mapped { .. } if self.peers.lock().is_mapped(address) => Ok(()),
            // A module's variables are the provider's own memory.
            _ => Err(CudaError::PEER_ACCESS_UNSUPPORTED),
        }
    }

    /// Imports a chunk of another device at its address, unless that is done.
    fn adopt(&self, device: CUdevice, address: u64, bytes: u64, file: BorrowedFd<'_>) -> CUresult {
        let mut peers = self.peers.lock();
        if peers.chunks.contains_key(&address) {
            return Ok(());
        }
        let chunk = CUdeviceptr(address);
        let request = AdoptChunk {
            device: crate::program::memory::allocate::WIRE_DEVICE,
            address: chunk,
            bytes,
        };
        self.call_with(Message::HostFd(()), file, &request)?;
        peers.chunks.insert(address, device);
        Ok(())
    }

    /// Imports the chunks again that another server of this device had.
    pub(super) fn adopt_again(&self, known: &Peers) -> CUresult {
        // Operations in flight wait for words of these regions, which connections keep for good.
        for (name, (connection, address)) in &known.regions {
            let request = HostMap { address: *address, bytes: REGION_BYTES, flags: HOST_FLAGS };
            let file = connection.region_file()?;
            self.call_with(Message::HostFd(()), file.as_fd(), &request)?;
            self.peers.lock().regions.insert(*name, (*connection, *address));
        }
        for (address, device) in &known.chunks {
            let owner = self.program.client_at(*device as usize)?;
            // It may have been freed meanwhile.
            let Ok(chunk) = owner.memory().chunk_to_share(*address) else { continue };
            self.adopt(*device, chunk.address, chunk.bytes, chunk.file.as_fd())?;
        }
        Ok(())
    }

    /// Has another device reach all memory of this one, what there is and what there will be, or not
    /// any more.
    pub(crate) fn set_reader(&self, reader: CUdevice, reads: bool) -> CUresult {
        let bit = 1 << reader;
        if !reads {
            self.readers.fetch_and(!bit, Ordering::AcqRel);
            return self.program.client_on(reader)?.forget_chunks_of(self.device);
        }
        let reader = self.program.client_on(reader)?;
        self.readers.fetch_or(bit, Ordering::AcqRel);
        let chunks = self.memory().chunks_to_share()?;
        chunks.into_iter().try_for_each(|chunk| {
            reader.adopt(self.device, chunk.address, chunk.bytes, chunk.file.as_fd())
        })
    }

    /// Gives back all chunks of another device that were imported, when nothing uses them any more.
    fn forget_chunks_of(&self, device: CUdevice) -> CUresult {
        self.wait_for_everything()?;
        let mut peers = self.peers.lock();
        let chunks = peers.chunks.iter().filter(|(_, of)| **of == device);
        let chunks: Vec<u64> = chunks.map(|(address, _)| *address).collect();
        for chunk in chunks {
            self.call(&ChunkRelease { address: CUdeviceptr(chunk) })?;
            peers.chunks.remove(&chunk);
        }
        Ok(())
    }

    /// True if a device reaches all memory of this one.
    pub(crate) fn is_read_by(&self, device: CUdevice) -> bool {
        u32::try_from(device)
            .is_ok_and(|device| self.readers.load(Ordering::Acquire) >> device & 1 != 0)
    }

    /// Shows a chunk that was just made to those that reach all memory of this device.
    pub(super) fn show_chunk(&self, address: u64, bytes: u64, file: BorrowedFd<'_>) -> CUresult {
        match self.readers.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => {
                let mut readers = self.others().filter(|other| self.is_read_by(other.device));
                readers.try_for_each(|other| other.adopt(self.device, address, bytes, file))
            }
        }
    }

    /// Waits for the work of other devices that may use the chunk which an address lies in.
    pub(super) fn wait_for_users_of(&self, address: u64) -> CUresult {
        if !self.program.has_several() {
            return Ok(());
        }
        let Some(chunk) = self.memory().chunk_of(address) else { return Ok(()) };
        let mut users = self.others().filter(|o| o.peers.lock().chunks.contains_key(&chunk));
        users.try_for_each(Self::wait_for_everything)
    }

    /// Takes a chunk away from those that have imported it.
    pub(super) fn hide_chunk(&self, address: u64) {
        if !self.program.has_several() {
            return;
        }
        for other in self.others() {
            let mut peers = other.peers.lock();
            if peers.chunks.remove(&address).is_some() {
                // A server that does not answer has no memory of this program's either.
                let _ = other.call(&ChunkRelease { address: CUdeviceptr(address) });
            }
        }
    }

    /// Maps pinned memory of this client's window at the servers of the other devices too.
    pub(super) fn show_host(&self, address: u64, bytes: u64, file: BorrowedFd<'_>) -> CUresult {
        match self.program.has_several() {
            true => self.others().try_for_each(|other| other.map_foreign(address, bytes, file)),
            false => Ok(()),
        }
    }

    fn map_foreign(&self, address: u64, bytes: u64, file: BorrowedFd<'_>) -> CUresult {
        let mut peers = self.peers.lock();
        if peers.host.contains(&address) {
            return Ok(());
        }
        let request = HostMap { address, bytes, flags: HOST_FLAGS };
        self.call_with(Message::HostFd(()), file, &request)?;
        peers.host.insert(address);
        Ok(())
    }

    /// Takes pinned memory of this client's window away from the other servers.
    pub(super) fn hide_host(&self, address: u64) {
        if !self.program.has_several() {
            return;
        }
        for other in self.others() {
            let mut peers = other.peers.lock();
            if peers.host.remove(&address) {
                let _ = other.call(&HostUnmap { address });
            }
        }
    }

    /// Waits for all work of the program, on all devices.
    pub(crate) fn wait_for_all_devices(&self) -> CUresult {
        self.wait_for_everything()?;
        match self.program.has_several() {
            true => self.others().try_for_each(Self::wait_for_everything),
            false => Ok(()),
        }
    }

    /// Makes a new server know the pinned memory that the program has, and what this device reads.
    pub(super) fn learn_peers(&self) -> CUresult {
        for other in self.others() {
            let pieces = other.memory().host_pieces()?;
            for (address, bytes, file) in pieces {
                self.map_foreign(address, bytes, file.as_fd())?;
            }
            if other.is_read_by(self.device) {
                let chunks = other.memory().chunks_to_share()?;
                for chunk in chunks {
                    self.adopt(other.device, chunk.address, chunk.bytes, chunk.file.as_fd())?;
                }
            }
        }
        Ok(())
    }

    /// Makes a stream of this device wait for an event of another one, as it was recorded last.
    pub(crate) fn wait_event_of(&self, other: &Self, event: Handle, stream: Handle) -> CUresult {
        let recorded = {
            let state = other.state();
            let found = state.events.get(event).ok_or(CudaError::INVALID_HANDLE)?;
            match found.is_shared() {
                true => Err(found.context),
                // No word is written behind the record itself, and one behind its stream's later work would be late.
                false if found.recorded.is_some() && !found.is_marked => Err(found.context),
                false => Ok(found.recorded),
            }
        };
        let mark = match recorded {
            Ok(None) => return Ok(()),
            Ok(Some(mark)) => mark,
            Err(context) => other.mark_behind_shared(event, context)?,
        };
        {
            let mut state = other.state();
            // Who waits for this device's stream has waited for the other one's too.
            state.streams.not_followed(mark);
            if state.passed(mark) {
                return Ok(());
            }
            // What comes before the event may be in a ring that its server does not look at for now.
            state.hasten();
        }
        let region = self.region_of(other.connection())?;
        let word = region + COMPLETION_OFFSET + u64::from(mark.slot) * COMPLETION_WORD_STRIDE;
        let (value, flags) = (mark.value as u32, stream_value::WAIT_GEQ);
        let words = [wire_stream(stream).to_word(), word, value.into(), flags.into()];
        self.posting()?.push_words_in(stream, number::cuStreamWaitValue32_v2, &words).map(|_| ())
    }

    /// A mark behind an event that other processes may record, which this device's server alone knows:
    /// of a stream that waits for the event and does nothing else.
    fn mark_behind_shared(&self, event: Handle, context: u64) -> Result<Mark, CudaError> {
        let (default, flags) = (OwnDefault::Legacy, stream_flags::NON_BLOCKING);
        let stream = Stream { context, green: 0, default, flags, priority: 0 };
        let stream = self.create_stream(stream)?;
        let behind =
            self.wait_event(event, stream).and_then(|()| self.posting()?.fence_all_of(stream));
        self.destroy_stream(wire_stream(stream))?;
        behind
    }

    /// Where the region of another device's connection is for this device.
    fn region_of(&self, connection: &'static Connection) -> Result<u64, CudaError> {
        let name = core::ptr::from_ref(connection).addr();
        if let Some((_, address)) = self.peers.lock().regions.get(&name) {
            return Ok(*address);
        }
        let address = self.memory().host.take_addresses(REGION_BYTES);
        let address = address.ok_or(CudaError::OUT_OF_MEMORY)?;
        let mut peers = self.peers.lock();
        if let Some(known) = peers.regions.get(&name).map(|(_, address)| *address) {
            drop(peers);
            self.memory().host.give_addresses(address, REGION_BYTES);
            return Ok(known);
        }
        let request = HostMap { address, bytes: REGION_BYTES, flags: HOST_FLAGS };
        let file = connection.region_file()?;
        self.call_with(Message::HostFd(()), file.as_fd(), &request)?;
        peers.regions.insert(name, (connection, address));
        Ok(address)
    }
}

impl Client {
    /// True if a word that a stream waits for is a completion word of another device's.
    pub(super) fn is_word_of_peer(&self, address: u64) -> bool {
        let peers = self.peers.lock();
        let mut starts = peers.regions.values().map(|(_, start)| start);
        starts.any(|start| (*start..*start + REGION_BYTES).contains(&address))
    }

    /// True if another device may use memory, or if it is not this device's own.
    pub(super) fn is_used_elsewhere(&self, address: u64) -> bool {
        match self.memory().chunk_of(address) {
            Some(chunk) => self.others().any(|o| o.peers.lock().chunks.contains_key(&chunk)),
            None => true,
        }
    }
}

impl Peers {
    /// True if an address of another device's virtual memory is mapped here, with access.
    fn is_mapped(&self, address: u64) -> bool {
        let before = self.mappings.range(..=address).next_back();
        let found = before.filter(|(start, mapping)| address - **start < mapping.bytes);
        found.is_some_and(|(_, mapping)| mapping.access != vmm::ACCESS_NONE)
    }
}
