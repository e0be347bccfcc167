//! Virtual memory of the program's: addresses that it reserved, physical memory that it made or
//! imported, the one mapped at the other; and memory of other processes that it opened.
//!
//! What the device has is the server's; here stands what the program may set and ask about
//! it. Reserved addresses are reserved in this process too, so that nothing else gets them.

use super::Memory;
use super::kept_file::KeptFile;
use crate::handles::Table;
use channel::limits::MEMORIES_MAX;
use channel::memfd::Reservation;
use channel::request::Token;
use channel::system;
use cuda_api::constants::vmm;
use cuda_api::handle::{Handle, HandleKind};
use cuda_api::{CUdevice, CudaError};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Handles of physical memory that stand for other devices' memory at this one's server.
pub(crate) const PEER_MEMORIES_MAX: u32 = 1024;

/// Physical memory.
pub(crate) struct PhysicalMemory {
    pub(crate) device: CUdevice,
    /// The handle types that it was made for.
    pub(crate) handle_types: u32,
    pub(crate) file: KeptFile,
    /// References by the program: cuMemCreate, imports, cuMemRetainAllocationHandle.
    pub(crate) references: u32,
    /// References by mappings.
    pub(crate) mappings: u32,
}

/// What a mapping is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Source {
    /// The program's physical memory.
    Memory(Handle),
    /// Another process' allocation, opened so many times.
    Opened { token: Token, opened: u32 },
}

/// A mapping.
pub(crate) struct Mapping {
    /// Where its addresses end.
    pub(crate) end: u64,
    /// Where in the physical memory it begins.
    pub(crate) offset: u64,
    pub(crate) source: Source,
    pub(crate) access: u32,
    pub(crate) id: u64,
    /// The part of it that is the program's: all of it, or the allocation that it opened.
    pub(crate) visible: (u64, u64),
}

/// All of it.
pub(crate) struct VirtualMemory {
    pub(crate) reservations: BTreeMap<u64, Arc<Reservation>>,
    pub(crate) memories: Table<PhysicalMemory>,
    pub(crate) mappings: BTreeMap<u64, Mapping>,
}

/// An accessible mapping, as addresses in it are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) id: u64,
    /// True if what lies beside it may count as the same range.
    pub(crate) joins: bool,
}

impl VirtualMemory {
    pub(crate) const fn new(device: CUdevice) -> Self {
        Self {
            reservations: BTreeMap::new(),
            memories: Table::on(HandleKind::Memory, device, 0, MEMORIES_MAX - PEER_MEMORIES_MAX),
            mappings: BTreeMap::new(),
        }
    }

    /// True if an address is reserved, regardless of what is mapped there.
    pub(crate) fn is_reserved(&self, address: u64) -> bool {
        let before = self.reservations.range(..=address).next_back();
        before.is_some_and(|(_, reservation)| reservation.contains(address, 1))
    }

    /// What is at an address, if it may be accessed.
    pub(crate) fn find(&self, address: u64) -> Option<Found> {
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
    pub(crate) fn filling(&self, address: u64, bytes: u64) -> Result<Vec<u64>, CudaError> {
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

    /// The reservation in which an address lies: where it begins, and its length.
    pub(crate) fn reservation_of(&self, address: u64) -> Result<(u64, u64), CudaError> {
        let before = self.reservations.range(..=address).next_back();
        let found = before.filter(|(_, reservation)| reservation.contains(address, 1));
        let found = found.map(|(start, reservation)| (*start, reservation.bytes()));
        found.ok_or(CudaError::INVALID_VALUE)
    }

    /// The mapping that starts at an address: its length, where in its physical memory it begins, and
    /// a new descriptor of that.
    pub(crate) fn piece(&self, start: u64) -> Result<(u64, u64, OwnedFd), CudaError> {
        let mapping = self.mappings.get(&start).ok_or(CudaError::INVALID_VALUE)?;
        let Source::Memory(handle) = mapping.source else { return Err(CudaError::INVALID_VALUE) };
        let memory = self.memories.get(handle).ok_or(CudaError::INVALID_VALUE)?;
        let file = memory.file.try_clone().map_err(|_| CudaError::OUT_OF_MEMORY)?;
        Ok((mapping.end - start, mapping.offset, file))
    }

    /// Physical memory that the program still has a handle of.
    pub(crate) fn held(&mut self, word: u64) -> Result<(Handle, &mut PhysicalMemory), CudaError> {
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
