//! The client's memory: device memory in its window, pinned host memory in its host window, and
//! which addresses mean what.
//!
//! A client gets chunks of device memory from its server and makes allocations of them itself;
//! that is bookkeeping in [`heap`]. Pinned host memory works alike, with chunks that are
//! memory files. Everything here is behind the memory lock.

pub(crate) mod address;
pub(crate) mod fd_numbers;
pub(crate) mod heap;
pub(crate) mod kept_file;
pub(crate) mod known_variables;
pub(crate) mod page_exchange;
pub(crate) mod pools;
pub(crate) mod registered;
pub(crate) mod virtual_memory;

use channel::memfd::{Mapping, Reservation};
use channel::message::Window;
use core::ops::Range;
use cuda_api::advice::AdviceMap;
use cuda_api::constants::attach_flags;
use cuda_api::{CUdevice, CUmemoryPool, CudaError};
use heap::{CHUNK_ALIGNMENT, Heap};
use kept_file::KeptFile;
use pools::Pools;
use registered::Registered;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use virtual_memory::VirtualMemory;

/// Device chunks are at least that large: small allocations share them.
pub(crate) const DEVICE_CHUNK_BYTES_MIN: u64 = 8 << 20;
/// Pinned chunks are at least that large.
const HOST_CHUNK_BYTES_MIN: u64 = CHUNK_ALIGNMENT;

/// What is kept with an allocation of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceTag {
    /// The context in which it was made.
    pub(crate) context: u64,
    /// Unique for the life of the process (CU_POINTER_ATTRIBUTE_BUFFER_ID).
    pub(crate) id: u64,
    /// The pool that it came from; NULL for none.
    pub(crate) pool: CUmemoryPool,
    /// Bytes that a program asked the pool for: a block may have more.
    pub(crate) asked: u64,
    /// True if it was freed in a stream's order and waits to be used again.
    pub(crate) freed: bool,
    /// True if it has variables of a module, or a copy of one: the program did not allocate it.
    pub(crate) variables: bool,
}

/// What host memory that the device reaches is to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// Pinned memory (cuMemHostAlloc).
    Pinned,
    /// Managed memory (cuMemAllocManaged): the same pages, which both sides see as they are.
    Managed,
    /// The program's own memory (cuMemHostRegister).
    Registered,
}

/// What is kept with an allocation of pinned or managed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostTag {
    /// The context in which it was made.
    pub(crate) context: u64,
    /// Unique, as for device memory.
    pub(crate) id: u64,
    /// CU_MEMHOSTALLOC flags, or CU_MEM_ATTACH flags of managed memory.
    pub(crate) flags: u32,
    pub(crate) kind: HostKind,
}

/// A module's variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Global {
    pub(crate) bytes: u64,
    /// The module's handle word.
    pub(crate) module: u64,
    /// What the program asked for it by, and whether as one of those that host and device share.
    pub(crate) name: Vec<u8>,
    pub(crate) managed: bool,
    /// Where the present server has it: the program keeps the address that it got first.
    pub(crate) present: u64,
    pub(crate) copy: VariableCopy,
}

/// What is kept in the client's own memory of a variable that is not there itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VariableCopy {
    /// Where; `None` before the program has written to the variable.
    pub(crate) address: Option<u64>,
    /// Parts of the variable that the program has written, which the copy has.
    pub(crate) written: Vec<Range<u64>>,
    /// The program has written to it by a call of which there is no copy.
    pub(crate) incomplete: bool,
}

impl VariableCopy {
    /// Notes a part that is written.
    pub(crate) fn write(&mut self, part: Range<u64>) {
        let meets = |other: &Range<u64>| other.start <= part.end && part.start <= other.end;
        let met = self.written.extract_if(.., |other| meets(other));
        let whole = met.fold(part.clone(), |a, b| a.start.min(b.start)..a.end.max(b.end));
        self.written.push(whole);
    }
}

/// The memory of a module's managed variables.
struct ManagedVariables {
    bytes: u64,
    /// The module's handle word.
    module: u64,
    tag: HostTag,
    _mapping: Mapping,
    _file: KeptFile,
}

/// All of the client's memory.
pub(crate) struct Memory {
    pub(crate) window: Arc<Reservation>,
    pub(crate) host_window: Arc<Reservation>,
    /// The device whose memory it is.
    pub(crate) device: CUdevice,
    pub(crate) heap: Heap<DeviceTag>,
    pub(crate) pools: Pools,
    pub(crate) host: Heap<HostTag>,
    /// The file of each device chunk by its address: what outlives a server.
    pub(crate) chunk_files: BTreeMap<u64, KeptFile>,
    /// Each pinned chunk by its address.
    pub(crate) host_chunks: BTreeMap<u64, (Mapping, KeptFile)>,
    /// Variables of modules by address: they may lie outside the window.
    globals: BTreeMap<u64, Global>,
    /// Memory of modules' managed variables by address.
    managed: BTreeMap<u64, ManagedVariables>,
    /// What the program said about its managed memory.
    pub(crate) advice: AdviceMap,
    pub(crate) virtual_memory: VirtualMemory,
    /// What the program registered, by its addresses there.
    pub(crate) registered: BTreeMap<u64, Registered>,
    next_id: u64,
}

impl Memory {
    /// No memory yet, in those windows.
    pub(crate) fn new(
        window: Arc<Reservation>,
        host_window: Arc<Reservation>,
        device: CUdevice,
    ) -> Self {
        let whole = Window { address: host_window.address(), bytes: host_window.bytes() };
        Self {
            device,
            heap: Heap::new(window.address(), window.bytes(), DEVICE_CHUNK_BYTES_MIN),
            pools: Pools::new(device),
            host: Heap::new(
                whole.address,
                whole.managed().address - whole.address,
                HOST_CHUNK_BYTES_MIN,
            ),
            window,
            host_window,
            chunk_files: BTreeMap::new(),
            host_chunks: BTreeMap::new(),
            globals: BTreeMap::new(),
            managed: BTreeMap::new(),
            advice: AdviceMap::new(),
            virtual_memory: VirtualMemory::new(device),
            registered: BTreeMap::new(),
            next_id: 1,
        }
    }

    /// True if an address is in the window of device memory.
    pub(crate) fn is_device(&self, address: u64) -> bool {
        self.window.contains(address, 1)
    }

    /// Where the chunk of device memory begins in which an address lies.
    pub(crate) fn chunk_of(&self, address: u64) -> Option<u64> {
        self.heap.chunk_of(address).filter(|_| self.is_device(address)).map(|(start, _)| start)
    }

    pub(crate) fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Every piece of host memory that servers map: pinned, managed and registered, with a new
    /// descriptor each. CUDA_ERROR_OUT_OF_MEMORY if the process can have no more of them.
    pub(crate) fn host_pieces(&self) -> Result<Vec<(u64, u64, OwnedFd)>, CudaError> {
        let chunks = self.host_chunks.iter();
        let chunks = chunks.map(|(address, (mapping, file))| (*address, mapping.bytes(), file));
        let registered = self.registered.values().filter_map(|r| r.exchanged.as_ref());
        // Those that share pages follow each other.
        let mut registered: Vec<_> =
            registered.map(|e| (e.window, e.pages.bytes, &e.file)).collect();
        registered.dedup_by_key(|(window, ..)| *window);
        let copy = |(address, bytes, file): (u64, u64, &KeptFile)| {
            let file = file.try_clone().map_err(|_| CudaError::OUT_OF_MEMORY)?;
            Ok((address, bytes, file))
        };
        chunks.chain(registered).map(copy).collect()
    }

    /// Every chunk of device memory, with a new descriptor each.
    pub(crate) fn chunks_to_declare(&self) -> Result<Vec<(u64, u64, OwnedFd)>, CudaError> {
        let declare = |(address, file): (&u64, &KeptFile)| {
            let (start, bytes) = self.heap.chunk_of(*address).ok_or(CudaError::UNKNOWN)?;
            let file = file.try_clone().map_err(|_| CudaError::OUT_OF_MEMORY)?;
            Ok((start, bytes, file))
        };
        self.chunk_files.iter().map(declare).collect()
    }

    /// Where a module's managed variables are.
    pub(crate) fn managed_of(&self, module: u64) -> Option<u64> {
        let mut all = self.managed.iter();
        all.find(|(_, variables)| variables.module == module).map(|(address, _)| *address)
    }

    /// Puts another file, of another server, in the place of a module's managed variables, which keep
    /// their values. False if there are none at that address.
    pub(crate) fn move_managed(&mut self, address: u64, file: OwnedFd) -> Result<bool, CudaError> {
        let Some(old) = self.managed.remove(&address) else { return Ok(false) };
        let mut values = vec![0_u8; old.bytes as usize];
        address::copy_here(values.as_mut_ptr() as u64, address, old.bytes);
        let ManagedVariables { bytes, module, tag, _mapping, _file } = old;
        drop((_mapping, _file));
        let mapping =
            self.host_window.map(&file, address, bytes).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        address::copy_here(address, values.as_ptr() as u64, bytes);
        let moved = ManagedVariables { bytes, module, tag, _mapping: mapping, _file: file.into() };
        self.managed.insert(address, moved);
        Ok(true)
    }

    /// The variables of a module that the program knows, by the addresses that it has of them.
    pub(crate) fn globals_of(&self, module: u64) -> Vec<(u64, Global)> {
        let globals = self.globals.iter().filter(|(_, global)| global.module == module);
        globals.map(|(address, global)| (*address, global.clone())).collect()
    }

    /// The variable that has all of a range, with its first address, unless it lies in memory of the
    /// client's own.
    pub(crate) fn foreign_variable(
        &mut self,
        address: u64,
        bytes: u64,
    ) -> Option<(u64, &mut Global)> {
        if self.is_device(address) {
            return None;
        }
        let (start, global) = self.globals.range_mut(..=address).next_back()?;
        let holds = Window { address: *start, bytes: global.bytes }.contains(address, bytes);
        (holds && !global.managed).then_some((*start, global))
    }

    /// All variables that do not lie in memory of the client's own: the address that the program
    /// got, length in bytes, the address at the present server.
    pub(crate) fn foreign_variables(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let foreign = self.globals.iter().filter(|(at, of)| !of.managed && !self.is_device(**at));
        foreign.map(|(address, global)| (*address, global.bytes, global.present))
    }

    /// True if a module's variable lies at an address, wherever that is.
    pub(crate) fn is_variable(&self, address: u64) -> bool {
        match self.is_device(address) {
            true => self.heap.find(address).is_some_and(|block| block.tag.variables),
            false => {
                let present = |(_, bytes, at): (u64, u64, u64)| address.wrapping_sub(at) < bytes;
                self.managed_variable(address).is_some()
                    || self.variable_at(address).is_some()
                    || self.foreign_variables().any(present)
            }
        }
    }

    /// The variable at an address, with its first one.
    fn variable_at(&self, address: u64) -> Option<(u64, &Global)> {
        let (start, global) = self.globals.range(..=address).next_back()?;
        (address - start < global.bytes).then_some((*start, global))
    }

    /// Notes where the present server has a variable.
    pub(crate) fn move_global(&mut self, address: u64, present: u64) {
        if let Some(global) = self.globals.get_mut(&address) {
            global.present = present;
        }
    }

    /// Notes a module's variable; the program may ask for it again.
    pub(crate) fn add_global(&mut self, address: u64, global: Global) {
        self.globals.entry(address).or_insert(global);
    }

    /// Maps a module's managed variables where the server has them.
    pub(crate) fn add_managed(
        &mut self,
        (address, bytes): (u64, u64),
        file: OwnedFd,
        module: u64,
        context: u64,
    ) -> Result<(), CudaError> {
        let mapping =
            self.host_window.map(&file, address, bytes).map_err(|_| CudaError::OUT_OF_MEMORY)?;
        let (id, flags, kind) = (self.new_id(), attach_flags::GLOBAL, HostKind::Managed);
        let tag = HostTag { context, id, flags, kind };
        let variables =
            ManagedVariables { bytes, module, tag, _mapping: mapping, _file: file.into() };
        self.managed.insert(address, variables);
        Ok(())
    }

    /// The managed variable at an address: where it begins, its length and what it is. All of its
    /// module's if the program has not asked for it.
    fn managed_variable(&self, address: u64) -> Option<(u64, u64, HostTag)> {
        let holds = |start: u64, bytes: u64| Window { address: start, bytes }.contains(address, 1);
        let (start, all) = self.managed.range(..=address).next_back()?;
        if !holds(*start, all.bytes) {
            return None;
        }
        match self.globals.range(..=address).next_back() {
            Some((start, global)) if holds(*start, global.bytes) => {
                Some((*start, global.bytes, all.tag))
            }
            _ => Some((*start, all.bytes, all.tag)),
        }
    }

    /// Forgets the variables of a module that is unloaded.
    pub(crate) fn remove_globals_of(&mut self, module: u64) {
        let heap = &mut self.heap;
        self.globals.retain(|_, global| {
            let stays = global.module != module;
            if let Some(copy) = global.copy.address.filter(|_| !stays) {
                heap.free(copy);
            }
            stays
        });
        self.managed.retain(|_, variables| variables.module != module);
    }
}
