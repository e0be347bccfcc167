//! Virtual memory of the program's at the server: reserved, made, imported, mapped, opened.

use crate::memory::Memory;
use crate::memory::heap::CHUNK_ALIGNMENT;
use crate::memory::virtual_memory::{Mapping, PhysicalMemory, Source};
use crate::program::Client;
use crate::program::memory::allocate::WIRE_DEVICE;
use crate::program::peers::PeerMapping;
use crate::program::recovery::recover::patiently;
use channel::memfd::Reservation;
use channel::message::Message;
use channel::request::{
    CreateMemory, FreeAddresses, ImportMemory, MapMemory, OpenMemory, ReleaseMemory,
    ReserveAddresses, SetAccess, SharedFile, Token, UnmapMemory,
};
use cuda_api::constants::vmm;
use cuda_api::handle::Handle;
use cuda_api::{CUdevice, CUdeviceptr, CUresult, CudaError};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most places that are tried for a reservation.
const PLACES_MAX: u32 = 8;

impl Client {
    /// Reserves addresses, here and on the device. Where this process has something already, another
    /// place is asked for.
    pub(crate) fn reserve_addresses(
        &self,
        bytes: u64,
        alignment: u64,
        wanted: u64,
    ) -> Result<u64, CudaError> {
        let mut memory = self.memory();
        let mut wanted = CUdeviceptr(wanted);
        // Kept until a place is found, so that none is tried twice.
        let mut occupied = Vec::new();
        let mut found = Err(CudaError::OUT_OF_MEMORY);
        for place in 0..PLACES_MAX {
            let address = match self.call(&ReserveAddresses { wanted, bytes, alignment }) {
                Ok(reserved) => reserved.address,
                Err(error) => {
                    found = Err(error);
                    break;
                }
            };
            if let Ok(reservation) = Reservation::at(address.0, bytes) {
                memory.virtual_memory.reservations.insert(address.0, reservation);
                found = Ok(address.0);
                break;
            }
            occupied.push(address);
            let step = bytes.max(CHUNK_ALIGNMENT).saturating_mul(1 << (2 * place));
            wanted = CUdeviceptr(address.0.saturating_add(step));
        }
        for address in occupied {
            self.call(&FreeAddresses { address, bytes })?;
        }
        found
    }

    /// Gives a reservation back, which has no mapping left.
    pub(crate) fn free_addresses(&self, address: u64, bytes: u64) -> CUresult {
        let mut memory = self.memory();
        let reservations = &mut memory.virtual_memory.reservations;
        if reservations.get(&address).is_none_or(|reservation| reservation.bytes() != bytes) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.hide_reservation(address);
        self.call(&FreeAddresses { address: CUdeviceptr(address), bytes })?;
        reservations.remove(&address);
        Ok(())
    }

    /// Makes physical memory; its handle.
    pub(crate) fn create_physical(&self, bytes: u64, handle_types: u32) -> Result<u64, CudaError> {
        let mut memory = self.memory();
        // The handle is known before the memory is there: its place is taken by an empty file.
        let file = self.connection().placeholder()?.into();
        let physical =
            PhysicalMemory { device: self.device, handle_types, file, references: 1, mappings: 0 };
        let memories = &mut memory.virtual_memory.memories;
        let handle = memories.insert(physical)?;
        let made = self.call_for_descriptor(
            &CreateMemory { memory: handle.to_word(), device: WIRE_DEVICE, bytes },
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

    /// Makes a handle of physical memory of a device: memory that another process exported, or the
    /// program's own on another device.
    pub(crate) fn import_physical(
        &self,
        file: OwnedFd,
        (device, handle_types): (CUdevice, u32),
    ) -> Result<u64, CudaError> {
        let mut memory = self.memory();
        let physical =
            PhysicalMemory { device, handle_types, file: file.into(), references: 1, mappings: 0 };
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

    /// Gives physical memory back that has no handle and no mapping.
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
        let mapping = Mapping { end, offset, source, access, id, visible: (address, bytes) };
        memory.virtual_memory.mappings.insert(address, mapping);
        Ok(())
    }

    /// As [`Self::map_physical`] for memory of another device of the program's, which this server
    /// imports. The mapping keeps it, as if the program had imported it and released the handle.
    pub(crate) fn map_physical_of(
        &self,
        owner: &Self,
        (address, bytes): (u64, u64),
        offset: u64,
        word: u64,
    ) -> CUresult {
        if !self.can_access(owner.device) {
            return Err(CudaError::INVALID_DEVICE);
        }
        let (file, about) = {
            let mut memory = owner.memory();
            let physical = memory.physical(word)?;
            let file = physical.file.try_clone().map_err(|_| CudaError::OUT_OF_MEMORY)?;
            (file, (physical.device, physical.handle_types))
        };
        let imported = self.import_physical(file, about)?;
        let mapped = self.map_physical(address, bytes, offset, imported);
        self.release_physical(imported)?;
        mapped
    }

    /// Takes the mappings away that fill a range, when nothing uses them any more.
    pub(crate) fn unmap_physical(&self, address: u64, bytes: u64) -> CUresult {
        let mut memory = self.memory();
        let starts = memory.virtual_memory.filling(address, bytes)?;
        self.hide_mappings(&starts)?;
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

    /// Sets what another device may do with the mappings that fill a range.
    pub(crate) fn set_access_of(
        &self,
        reader: CUdevice,
        address: u64,
        bytes: u64,
        access: u32,
    ) -> CUresult {
        if !self.program.can_access(reader, self.device) {
            return Err(CudaError::INVALID_DEVICE);
        }
        let reader = self.program.client_on(reader)?;
        let (reservation, pieces) = {
            let memory = self.memory();
            let starts = memory.virtual_memory.filling(address, bytes)?;
            let (base, whole) = memory.virtual_memory.reservation_of(address)?;
            let mut pieces = Vec::with_capacity(starts.len());
            for start in starts {
                pieces.push((start, memory.virtual_memory.piece(start)?));
            }
            ((base, whole), pieces)
        };
        for (start, (bytes, offset, file)) in pieces {
            reader.map_peer(reservation, start, bytes, offset, file.as_fd(), access)?;
        }
        Ok(())
    }

    /// Maps a piece of another device's virtual memory at its address, with that access.
    fn map_peer(
        &self,
        (base, whole): (u64, u64),
        start: u64,
        bytes: u64,
        offset: u64,
        file: BorrowedFd<'_>,
        access: u32,
    ) -> CUresult {
        let address = CUdeviceptr(start);
        let known = self.peers.lock().mappings.contains_key(&start);
        if !known && access == vmm::ACCESS_NONE {
            return Ok(());
        }
        if !known {
            self.reserve_peer(base, whole)?;
            let memory = self.peers.lock().memories.insert(())?;
            let word = memory.to_word();
            let forget = |error| {
                self.peers.lock().memories.remove(memory);
                Err(error)
            };
            let import = ImportMemory { memory: word };
            if let Err(error) = self.call_with(Message::HostFd(()), file, &import) {
                return forget(error);
            }
            let map = MapMemory { address, bytes, offset, memory: word };
            if let Err(error) = self.call(&map) {
                let _ = self.call(&ReleaseMemory { memory: word });
                return forget(error);
            }
            let mapping = PeerMapping { bytes, memory, access: vmm::ACCESS_NONE };
            self.peers.lock().mappings.insert(start, mapping);
        }
        self.call(&SetAccess { address, bytes, access })?;
        if let Some(mapping) = self.peers.lock().mappings.get_mut(&start) {
            mapping.access = access;
        }
        Ok(())
    }

    /// Reserves addresses of another device's server here too. CUDA_ERROR_OUT_OF_MEMORY if they are
    /// another program's at this server.
    fn reserve_peer(&self, base: u64, bytes: u64) -> CUresult {
        let mut peers = self.peers.lock();
        if peers.reservations.contains_key(&base) {
            return Ok(());
        }
        let wanted = CUdeviceptr(base);
        let got = self.call(&ReserveAddresses { wanted, bytes, alignment: 0 })?.address;
        if got != wanted {
            self.call(&FreeAddresses { address: got, bytes })?;
            return Err(CudaError::OUT_OF_MEMORY);
        }
        peers.reservations.insert(base, bytes);
        Ok(())
    }

    /// Takes mappings of this device away from the others.
    fn hide_mappings(&self, starts: &[u64]) -> CUresult {
        if !self.program.has_several() {
            return Ok(());
        }
        for other in self.others() {
            for start in starts {
                let Some(mapping) = other.peers.lock().mappings.remove(start) else { continue };
                let address = CUdeviceptr(*start);
                other.call(&UnmapMemory { address, bytes: mapping.bytes })?;
                other.call(&ReleaseMemory { memory: mapping.memory.to_word() })?;
                other.peers.lock().memories.remove(mapping.memory);
            }
        }
        Ok(())
    }

    fn hide_reservation(&self, base: u64) {
        if !self.program.has_several() {
            return;
        }
        for other in self.others() {
            let mut peers = other.peers.lock();
            if let Some(bytes) = peers.reservations.remove(&base) {
                let _ = other.call(&FreeAddresses { address: CUdeviceptr(base), bytes });
            }
        }
    }

    /// What a device may do at an address of this one's virtual memory.
    pub(crate) fn access_of(&self, device: CUdevice, address: u64) -> Result<u32, CudaError> {
        let own = self.memory().access(address)?;
        if device == self.device {
            return Ok(own);
        }
        let reader = self.program.client_at(device as usize)?;
        let peers = reader.peers.lock();
        let found = peers.mappings.range(..=address).next_back();
        let found = found.filter(|(start, mapping)| address - **start < mapping.bytes);
        Ok(found.map_or(vmm::ACCESS_NONE, |(_, mapping)| mapping.access))
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
            offset: 0,
            source: Source::Opened { token, opened: 1 },
            access: vmm::ACCESS_READ_WRITE,
            id: memory.new_id(),
            visible: (base + offset, bytes),
        };
        memory.virtual_memory.mappings.insert(base, mapping);
        Ok(base + offset)
    }

    /// Maps what [`Self::open_shared`] opened for another device too.
    pub(crate) fn show_opened(&self, reader: &Self, token: Token, address: u64) -> CUresult {
        let (base, bytes) = {
            let memory = self.memory();
            let before = memory.virtual_memory.mappings.range(..=address).next_back();
            before.map(|(start, mapping)| (*start, mapping.end - start))
        }
        .ok_or(CudaError::INVALID_VALUE)?;
        let Token { low, high } = token;
        let push = SharedFile { bytes, low, high };
        let file = self.call_for_file(&push)?;
        reader.map_peer((base, bytes), base, bytes, 0, file.as_fd(), vmm::ACCESS_READ_WRITE)
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
            self.hide_mappings(&[base])?;
            self.call(&UnmapMemory { address: CUdeviceptr(base), bytes: end - base })?;
            (base, end - base)
        };
        self.free_addresses(base, bytes)
    }

    /// Restores reservations, physical memory and mappings at another server. What other processes'
    /// memory was opened is lost: how much.
    pub(in crate::program) fn declare_virtual_memory(&self) -> Result<u32, CudaError> {
        let (reservations, memories, mappings) = {
            let memory = self.memory();
            let all = &memory.virtual_memory;
            let reservations = all.reservations.iter();
            let reservations: Vec<(u64, u64)> =
                reservations.map(|(address, r)| (*address, r.bytes())).collect();
            let copy = |(handle, memory): (Handle, &PhysicalMemory)| {
                let file = memory.file.try_clone().map_err(|_| CudaError::OUT_OF_MEMORY)?;
                Ok::<_, CudaError>((handle, file))
            };
            let memories = all.memories.iter().map(copy).collect::<Result<Vec<_>, _>>()?;
            let mappings =
                all.mappings.iter().map(|(start, m)| (*start, m.end, m.offset, m.source, m.access));
            (reservations, memories, mappings.collect::<Vec<_>>())
        };
        for (address, bytes) in reservations {
            let wanted = CUdeviceptr(address);
            let got = self.call(&ReserveAddresses { wanted, bytes, alignment: 0 })?.address;
            if got != wanted {
                return Err(CudaError::OUT_OF_MEMORY);
            }
        }
        for (handle, file) in &memories {
            let request = ImportMemory { memory: handle.to_word() };
            patiently(|| self.call_with(Message::HostFd(()), file.as_fd(), &request))?;
        }
        let mut lost = 0;
        for (start, end, offset, source, access) in mappings {
            let (address, bytes) = (CUdeviceptr(start), end - start);
            let Source::Memory(memory) = source else {
                lost += 1;
                continue;
            };
            self.call(&MapMemory { address, bytes, offset, memory: memory.to_word() })?;
            if access != vmm::ACCESS_NONE {
                self.call(&SetAccess { address, bytes, access })?;
            }
        }
        Ok(lost)
    }
}
