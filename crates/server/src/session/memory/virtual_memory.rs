//! Virtual memory of a client: addresses that it reserves, physical memory that it makes or
//! imports, and the one mapped at the other.
//!
//! Invariant: a mapping is in the session's ranges exactly while it is accessible. Who unmaps has
//! seen all of the client's streams idle before.

use super::{CHUNK_GRANULARITY_BYTES, Memory, check_device};
use crate::account::Charge;
use crate::device::{DeviceMapping, Physical};
use crate::session::handles::Table;
use crate::session::memory::ranges::Backing;
use crate::session::memory::reserved::Reserved;
use channel::request::{
    AddressesReserved, CreateMemory, FreeAddresses, ImportMemory, MapMemory, ReleaseMemory,
    ReserveAddresses,
};
use cuda_api::constants::vmm;
use cuda_api::handle::HandleKind;
use cuda_api::{CUdeviceptr, CUresult, CudaError};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Most pieces of physical memory of a client, and most mappings: as many as chunks, for the same
/// reason.
pub const MEMORIES_MAX: usize = channel::limits::MEMORIES_MAX as usize;

/// A mapping and what may be done with it.
struct Mapped {
    mapping: DeviceMapping,
    /// A mapping keeps its memory, whose handle may have been released.
    _charge: Option<Rc<Charge>>,
    access: u32,
}

/// A client's virtual memory. Fields are dropped in their order: mappings before what they need.
pub struct VirtualMemory {
    mappings: BTreeMap<u64, Mapped>,
    /// With what is charged for those that the client made: of imported memory, mappings are.
    memories: Table<(Rc<Physical>, Option<Rc<Charge>>)>,
    reserved: Reserved,
}

impl VirtualMemory {
    /// None yet.
    pub fn new() -> Self {
        Self {
            mappings: BTreeMap::new(),
            memories: Table::new(HandleKind::Memory, MEMORIES_MAX),
            reserved: Reserved::default(),
        }
    }

    /// Takes everything away.
    pub fn clear(&mut self) {
        self.mappings.clear();
        self.memories.clear();
        self.reserved.clear();
    }

    /// Starts of the mappings that fill a range exactly.
    fn filling(&self, address: u64, bytes: u64) -> Result<Vec<u64>, CudaError> {
        let end = address.checked_add(bytes).ok_or(CudaError::INVALID_VALUE)?;
        let mut starts = Vec::new();
        let mut next = address;
        for (start, mapped) in self.mappings.range(address..end) {
            if *start != next {
                break;
            }
            starts.push(*start);
            next = start + mapped.mapping.bytes();
        }
        if next == end && bytes > 0 { Ok(starts) } else { Err(CudaError::INVALID_VALUE) }
    }
}

/// CUDA_ERROR_INVALID_VALUE unless all are multiples of what devices map memory in.
fn check_whole(values: &[u64]) -> CUresult {
    match values.iter().all(|value| value.is_multiple_of(CHUNK_GRANULARITY_BYTES)) {
        true => Ok(()),
        false => Err(CudaError::INVALID_VALUE),
    }
}

impl Memory {
    pub(in crate::session) fn reserve_addresses(
        &mut self,
        request: ReserveAddresses,
    ) -> Result<AddressesReserved, CudaError> {
        let address = self.reserve(request);
        if let Some(refused) = self.virtual_memory.reserved.take_refusal() {
            let end =
                if address.is_ok() { "another place was found" } else { "no place was found" };
            self.common.log.line(format!("Client {}: {refused}; {end}", self.link.name()));
        }
        Ok(AddressesReserved { address: CUdeviceptr(address?) })
    }

    fn reserve(&mut self, request: ReserveAddresses) -> Result<u64, CudaError> {
        let ReserveAddresses { wanted, bytes, alignment } = request;
        check_whole(&[bytes])?;
        let alignment = alignment.max(CHUNK_GRANULARITY_BYTES);
        if bytes == 0 || !alignment.is_power_of_two() {
            return Err(CudaError::INVALID_VALUE);
        }
        let reserved = &mut self.virtual_memory.reserved;
        reserved.reserve((&self.share, &self.common.arena), wanted.0, bytes, alignment)
    }

    pub(in crate::session) fn free_addresses(&mut self, request: FreeAddresses) -> CUresult {
        let (address, bytes) = (request.address.0, request.bytes);
        let memory = &mut self.virtual_memory;
        let whole = memory.reserved.is_whole(address, bytes);
        // The whole of a reservation, so the end does not wrap.
        if !whole || memory.mappings.range(address..address + bytes).next().is_some() {
            return Err(CudaError::INVALID_VALUE);
        }
        memory.reserved.release(address);
        Ok(())
    }

    pub(in crate::session) fn create_memory(&mut self, request: CreateMemory) -> CUresult {
        check_device(request.device)?;
        check_whole(&[request.bytes])?;
        let handle = self.virtual_memory.memories.vacant(request.memory)?;
        let charge = Rc::new(self.account.charge_new(request.bytes)?);
        let (share, stream) = (&self.share, self.internal.as_ref());
        let zeroed = || Physical::zeroed(share, request.bytes, stream);
        let (physical, file) = self.account.with_room(zeroed)?;
        self.send_file(0, &file)?;
        self.virtual_memory.memories.put(handle, (Rc::new(physical), Some(charge)));
        Ok(())
    }

    pub(in crate::session) fn import_memory(
        &mut self,
        request: ImportMemory,
        file: &OwnedFd,
    ) -> CUresult {
        let handle = self.virtual_memory.memories.vacant(request.memory)?;
        let physical = Physical::import(&self.share, file)?;
        self.virtual_memory.memories.put(handle, (Rc::new(physical), None));
        Ok(())
    }

    pub(in crate::session) fn release_memory(&mut self, request: ReleaseMemory) -> CUresult {
        self.virtual_memory.memories.take(request.memory).map(drop)
    }

    pub(in crate::session) fn map_memory(&mut self, request: MapMemory) -> CUresult {
        let (physical, charge) = self.virtual_memory.memories.get(request.memory)?;
        let (physical, charge) = (physical.clone(), charge.clone());
        // What was imported may outlive its maker: then this client alone keeps it.
        let charge = match charge {
            Some(charge) => charge,
            None => Rc::new(self.account.charge(request.bytes)?),
        };
        self.map((&physical, Some(charge)), request.address.0, request.bytes, request.offset)
    }

    /// Maps memory at reserved addresses, without access.
    pub(in crate::session) fn map(
        &mut self,
        (physical, charge): (&Rc<Physical>, Option<Rc<Charge>>),
        address: u64,
        bytes: u64,
        offset: u64,
    ) -> CUresult {
        check_whole(&[address, bytes, offset])?;
        let memory = &mut self.virtual_memory;
        if bytes == 0 || !memory.reserved.contains(address, bytes) {
            return Err(CudaError::INVALID_VALUE);
        }
        // Inside a reservation, so the end does not wrap.
        let before = memory.mappings.range(..address + bytes).next_back();
        if before.is_some_and(|(start, m)| start + m.mapping.bytes() > address) {
            return Err(CudaError::INVALID_VALUE);
        }
        if memory.mappings.len() >= MEMORIES_MAX {
            return Err(CudaError::OUT_OF_MEMORY);
        }
        let mapping = DeviceMapping::new(physical, address, bytes, offset)?;
        memory
            .mappings
            .insert(address, Mapped { mapping, _charge: charge, access: vmm::ACCESS_NONE });
        Ok(())
    }

    /// Takes the mappings away that fill a range.
    pub(in crate::session) fn unmap(&mut self, address: u64, bytes: u64) -> CUresult {
        for start in self.virtual_memory.filling(address, bytes)? {
            self.ranges.remove(start, Backing::Mapping);
            self.virtual_memory.mappings.remove(&start);
        }
        Ok(())
    }

    /// Sets what the device may do with the mappings that fill a range.
    pub(in crate::session) fn set_access(
        &mut self,
        address: u64,
        bytes: u64,
        access: u32,
    ) -> CUresult {
        for start in self.virtual_memory.filling(address, bytes)? {
            let Some(mapped) = self.virtual_memory.mappings.get_mut(&start) else { continue };
            mapped.mapping.set_access(access)?;
            let before = std::mem::replace(&mut mapped.access, access);
            match (before == vmm::ACCESS_NONE, access == vmm::ACCESS_NONE) {
                (true, false) => {
                    self.ranges.add(start, mapped.mapping.bytes(), Backing::Mapping)?;
                }
                (false, true) => {
                    self.ranges.remove(start, Backing::Mapping);
                }
                _ => {}
            }
        }
        Ok(())
    }
}
