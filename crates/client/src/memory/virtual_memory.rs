//! Virtual memory of the program's: addresses that it reserved, physical memory that it made or
//! imported, the one mapped at the other; and memory of other processes that it opened.
//!
//! What the device has is the server's; here stands what the program may say and be told about
//! it. Reserved addresses are reserved in this process too, so that nothing else gets them.

use super::Memory;
use super::kept_file::KeptFile;
use crate::attach::Attached;
use crate::handles::Table;
use channel::limits::MEMORIES_MAX;
use channel::memfd::Reservation;
use channel::message::Message;
use channel::request::{
    CreateMemory, FreeAddresses, ImportMemory, MapMemory, OpenMemory, ReleaseMemory,
    ReserveAddresses, SetAccess, Token, UnmapMemory,
};
use channel::system;
use cuda_api::constants::vmm;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUdevice, CUdeviceptr, CUresult, CudaError};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Physical memory.
pub(crate) struct PhysicalMemory {
    pub(crate) device: CUdevice,
    /// The handle types that it was made for.
    pub(crate) handle_types: u32,
    file: KeptFile,
    /// References by the program: cuMemCreate, imports, cuMemRetainAllocationHandle.
    references: u32,
    /// References by mappings.
    mappings: u32,
}

/// What a mapping is of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    /// The program's physical memory.
    Memory(Handle),
    /// Another process' allocation, opened so many times.
    Opened { token: Token, opened: u32 },
}

/// A mapping.
struct Mapping {
    /// Where its addresses end.
    end: u64,
    source: Source,
    access: u32,
    id: u64,
    /// The part of it that is the program's: all of it, or the allocation that it opened.
    visible: (u64, u64),
}

/// All of it.
pub(super) struct VirtualMemory {
    reservations: BTreeMap<u64, Arc<Reservation>>,
    memories: Table<PhysicalMemory>,
    mappings: BTreeMap<u64, Mapping>,
}

/// An accessible mapping, as addresses in it are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) id: u64,
    /// True if what lies beside it may count as the same range.
    pub(super) joins: bool,
}

impl VirtualMemory {
    pub(super) const fn new() -> Self {
        Self {
            reservations: BTreeMap::new(),
            memories: Table::new(HandleKind::Memory, 0, MEMORIES_MAX),
            mappings: BTreeMap::new(),
        }
    }

    /// True if an address is reserved, whatever is there.
    pub(super) fn is_reserved(&self, address: u64) -> bool {
        let before = self.reservations.range(..=address).next_back();
        before.is_some_and(|(_, reservation)| reservation.contains(address, 1))
    }

    /// What is at an address, if it may be accessed.
    pub(super) fn find(&self, address: u64) -> Option<Found> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        let (start, bytes) = mapping.visible;
        let inside = address >= start && address - start < bytes;
        (inside && mapping.access != vmm::ACCESS_NONE).then_some(Found {
            start,
            bytes,
            id: mapping.id,
            joins: matches!(mapping.source, Source::Memory(_)),
        })
    }

    /// Starts of the mappings that fill a range exactly.
    fn filling(&self, address: u64, bytes: u64) -> Result<Vec<u64>, CudaError> {
        let end = address.checked_add(bytes).ok_or(CudaError::INVALID_VALUE)?;
        let mut starts = Vec::new();
        let mut next = address;
        for (start, mapping) in self.mappings.range(address..end) {
            if *start != next || !matches!(mapping.source, Source::Memory(_)) {
                break;
            }
            starts.push(*start);
            next = mapping.end;
        }
        if next == end && bytes > 0 { Ok(starts) } else { Err(CudaError::INVALID_VALUE) }
    }

    /// Physical memory that the program still has a handle of.
    fn held(&mut self, word: u64) -> Result<(Handle, &mut PhysicalMemory), CudaError> {
        let handle = self.memories.decode(word as usize).map_err(|_| CudaError::INVALID_VALUE)?;
        let memory = self.memories.get_mut(handle).filter(|memory| memory.references > 0);
        memory.map(|memory| (handle, memory)).ok_or(CudaError::INVALID_VALUE)
    }
}

impl Memory {
    /// Physical memory that the program still has a handle of.
    pub(crate) fn physical(&mut self, word: u64) -> Result<&PhysicalMemory, CudaError> {
        self.virtual_memory.held(word).map(|(_, memory)| &*memory)
    }

    /// A new descriptor of physical memory that was made to be exported.
    pub(crate) fn export_physical(&mut self, word: u64) -> Result<OwnedFd, CudaError> {
        let (_, memory) = self.virtual_memory.held(word)?;
        if memory.handle_types & vmm::HANDLE_POSIX_FD == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        memory.file.try_clone().map_err(|error| system::result_of(&error))
    }

    /// The physical memory mapped at an address, with one more reference.
    pub(crate) fn retain_physical(&mut self, address: u64) -> Result<u64, CudaError> {
        let memory = &mut self.virtual_memory;
        let before = memory.mappings.range(..=address).next_back();
        match before.filter(|(_, mapping)| address < mapping.end) {
            Some((_, Mapping { source: Source::Memory(handle), .. })) => {
                let handle = *handle;
                let physical = memory.memories.get_mut(handle).ok_or(CudaError::INVALID_VALUE)?;
                physical.references += 1;
                Ok(handle.to_word())
            }
            _ => Err(CudaError::INVALID_VALUE),
        }
    }

    /// What may be done at an address.
    pub(crate) fn access(&self, address: u64) -> Result<u32, CudaError> {
        let before = self.virtual_memory.mappings.range(..=address).next_back();
        let found = before.filter(|(_, mapping)| address < mapping.end);
        found.map(|(_, mapping)| mapping.access).ok_or(CudaError::INVALID_VALUE)
    }
}

impl Attached {
    /// Reserves addresses, here and on the device.
    pub(crate) fn reserve_addresses(
        &self,
        bytes: u64,
        alignment: u64,
        wanted: u64,
    ) -> Result<u64, CudaError> {
        let mut memory = self.memory();
        let wanted = CUdeviceptr(wanted);
        let address = self.call(&ReserveAddresses { wanted, bytes, alignment })?.address.0;
        match Reservation::at(address, bytes) {
            Ok(reservation) => {
                memory.virtual_memory.reservations.insert(address, reservation);
                Ok(address)
            }
            Err(_) => {
                self.call(&FreeAddresses { address: CUdeviceptr(address), bytes })?;
                Err(CudaError::OUT_OF_MEMORY)
            }
        }
    }

    /// Gives a reservation back, which has no mapping left.
    pub(crate) fn free_addresses(&self, address: u64, bytes: u64) -> CUresult {
        let mut memory = self.memory();
        let reservations = &mut memory.virtual_memory.reservations;
        if reservations.get(&address).is_none_or(|reservation| reservation.bytes() != bytes) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.call(&FreeAddresses { address: CUdeviceptr(address), bytes })?;
        reservations.remove(&address);
        Ok(())
    }

    /// Makes physical memory; its handle.
    pub(crate) fn create_physical(
        &self,
        device: CUdevice,
        bytes: u64,
        handle_types: u32,
    ) -> Result<u64, CudaError> {
        let mut memory = self.memory();
        // The handle is known before the memory is there: its place is taken by an empty file.
        let file = self.placeholder()?.into();
        let physical = PhysicalMemory { device, handle_types, file, references: 1, mappings: 0 };
        let memories = &mut memory.virtual_memory.memories;
        let handle = memories.insert(physical)?;
        let made = self.call_for_descriptor(
            &CreateMemory { memory: handle.to_word(), device, bytes },
            &ReleaseMemory { memory: handle.to_word() },
        );
        match (made, memories.get_mut(handle)) {
            (Ok(file), Some(physical)) => {
                physical.file = file;
                Ok(handle.to_word())
            }
            (made, _) => {
                memories.remove(handle);
                Err(made.err().unwrap_or(CudaError::UNKNOWN))
            }
        }
    }

    /// A descriptor that stands in for one that is yet to come.
    fn placeholder(&self) -> Result<OwnedFd, CudaError> {
        let socket = self.link.socket().as_fd();
        socket.try_clone_to_owned().map_err(|_| CudaError::OUT_OF_MEMORY)
    }

    /// Makes a handle of physical memory that another process exported.
    pub(crate) fn import_physical(&self, file: OwnedFd) -> Result<u64, CudaError> {
        let mut memory = self.memory();
        let physical = PhysicalMemory {
            device: 0,
            handle_types: vmm::HANDLE_POSIX_FD,
            file: file.into(),
            references: 1,
            mappings: 0,
        };
        let memories = &mut memory.virtual_memory.memories;
        let handle = memories.insert(physical)?;
        let Some(physical) = memories.get(handle) else { return Err(CudaError::UNKNOWN) };
        let request = ImportMemory { memory: handle.to_word() };
        match self.call_with(Message::HostFd(()), physical.file.as_fd(), &request) {
            Ok(()) => Ok(handle.to_word()),
            Err(error) => {
                memories.remove(handle);
                Err(error)
            }
        }
    }

    /// Drops a reference of the program's.
    pub(crate) fn release_physical(&self, word: u64) -> CUresult {
        let mut memory = self.memory();
        let (handle, physical) = memory.virtual_memory.held(word)?;
        physical.references -= 1;
        self.drop_unused(&mut memory, handle)
    }

    /// Gives physical memory back that nobody refers to.
    fn drop_unused(&self, memory: &mut Memory, handle: Handle) -> CUresult {
        let memories = &mut memory.virtual_memory.memories;
        let unused = memories.get(handle).is_some_and(|m| m.references == 0 && m.mappings == 0);
        if unused {
            memories.remove(handle);
            self.call(&ReleaseMemory { memory: handle.to_word() })?;
        }
        Ok(())
    }

    /// Maps physical memory at reserved addresses, without access.
    pub(crate) fn map_physical(
        &self,
        address: u64,
        bytes: u64,
        offset: u64,
        word: u64,
    ) -> CUresult {
        let end = address.checked_add(bytes).ok_or(CudaError::INVALID_VALUE)?;
        let mut memory = self.memory();
        let id = memory.new_id();
        let (handle, _) = memory.virtual_memory.held(word)?;
        self.call(&MapMemory { address: CUdeviceptr(address), bytes, offset, memory: word })?;
        let (_, physical) = memory.virtual_memory.held(word)?;
        physical.mappings += 1;
        let (source, access) = (Source::Memory(handle), vmm::ACCESS_NONE);
        let mapping = Mapping { end, source, access, id, visible: (address, bytes) };
        memory.virtual_memory.mappings.insert(address, mapping);
        Ok(())
    }

    /// Takes the mappings away that fill a range, when nothing uses them any more.
    pub(crate) fn unmap_physical(&self, address: u64, bytes: u64) -> CUresult {
        let mut memory = self.memory();
        let starts = memory.virtual_memory.filling(address, bytes)?;
        self.call(&UnmapMemory { address: CUdeviceptr(address), bytes })?;
        for start in starts {
            let mapping = memory.virtual_memory.mappings.remove(&start);
            let Some(Mapping { source: Source::Memory(handle), .. }) = mapping else { continue };
            if let Some(physical) = memory.virtual_memory.memories.get_mut(handle) {
                physical.mappings -= 1;
            }
            self.drop_unused(&mut memory, handle)?;
        }
        Ok(())
    }

    /// Sets what the device may do with the mappings that fill a range.
    pub(crate) fn set_access(&self, address: u64, bytes: u64, access: u32) -> CUresult {
        let mut memory = self.memory();
        let starts = memory.virtual_memory.filling(address, bytes)?;
        self.call(&SetAccess { address: CUdeviceptr(address), bytes, access })?;
        for start in starts {
            if let Some(mapping) = memory.virtual_memory.mappings.get_mut(&start) {
                mapping.access = access;
            }
        }
        Ok(())
    }

    /// Opens `bytes` bytes at `offset` of a chunk of another client's; where they are here. What
    /// is open already is where it was.
    pub(crate) fn open_shared(
        &self,
        token: Token,
        chunk_bytes: u64,
        (offset, bytes): (u64, u64),
    ) -> Result<u64, CudaError> {
        {
            let mut memory = self.memory();
            let mut mappings = memory.virtual_memory.mappings.iter_mut();
            let open = mappings.find_map(|(start, mapping)| match &mut mapping.source {
                Source::Opened { token: known, opened }
                    if *known == token && mapping.visible == (start + offset, bytes) =>
                {
                    *opened += 1;
                    Some(mapping.visible.0)
                }
                _ => None,
            });
            if let Some(address) = open {
                return Ok(address);
            }
        }
        let base = self.reserve_addresses(chunk_bytes, 0, 0)?;
        let address = CUdeviceptr(base);
        let Token { low, high } = token;
        if let Err(error) = self.call(&OpenMemory { address, bytes: chunk_bytes, low, high }) {
            self.free_addresses(base, chunk_bytes)?;
            return Err(error);
        }
        let mut memory = self.memory();
        let mapping = Mapping {
            end: base + chunk_bytes,
            source: Source::Opened { token, opened: 1 },
            access: vmm::ACCESS_READ_WRITE,
            id: memory.new_id(),
            visible: (base + offset, bytes),
        };
        memory.virtual_memory.mappings.insert(base, mapping);
        Ok(base + offset)
    }

    /// Closes what [`Self::open_shared`] opened, when nothing uses it any more.
    pub(crate) fn close_shared(&self, address: u64) -> CUresult {
        let (base, bytes) = {
            let mut memory = self.memory();
            let mappings = &mut memory.virtual_memory.mappings;
            let (start, mapping) =
                mappings.range_mut(..=address).next_back().ok_or(CudaError::INVALID_VALUE)?;
            let (base, end) = (*start, mapping.end);
            match &mut mapping.source {
                Source::Opened { opened, .. } if mapping.visible.0 == address => {
                    *opened -= 1;
                    if *opened > 0 {
                        return Ok(());
                    }
                }
                _ => return Err(CudaError::INVALID_VALUE),
            }
            mappings.remove(&base);
            self.call(&UnmapMemory { address: CUdeviceptr(base), bytes: end - base })?;
            (base, end - base)
        };
        self.free_addresses(base, bytes)
    }
}
