//! Device memory: what there is, and what programs and kernels may touch of it.
//!
//! A device address is an address of this process. Memory comes in chunks of 2 MiB: shareable ones
//! made and mapped by the program ([`vmm`]), private ones cut up by the driver ([`heap`]). Pinned
//! and registered host memory ([`host`]) is the third kind of range that kernels may touch.
//!
//! Invariants: one lock guards all tables; a range is in its tenant's [`crate::device::tenant::Space`]
//! exactly while it is mapped, and leaves it before it is unmapped.

mod explain;
pub mod heap;
pub mod host;
pub mod pages;
mod peers;
pub mod share;
mod used;
pub mod variable_place;
pub mod vmm;

use locks::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::explain::Freed;
pub use self::heap::AllocationKind;
use self::heap::{Allocation, Chunk, Heap, HeapKind};
use self::host::HostRange;
use self::peers::Shown;
pub use self::share::{ChunkFile, OpenedChunk};
use self::used::UsedBytes;
pub(crate) use self::used::device_directory;
pub use self::vmm::{Access, Physical};
use self::vmm::{Mapping, Reservation};
use crate::device::Device;
use crate::device::execution::turn::Descriptor;
use crate::device::settings::physical_memory_bytes;
use crate::device::slab::Slab;
use crate::device::tenant::{Tenant, TenantId};
use crate::error::{Error, Result};
use cuda_api::extension::memory_note;
use simt::kernel::Range;
use simt::runtime::init_tracking::PATTERN_BYTES;

/// All memory of a device.
pub struct Memory {
    tables: Mutex<Tables>,
    rows: Vec<Descriptor>,
    /// Of each device.
    total_bytes: u64,
    /// Of the machine.
    machine_bytes: u64,
}

/// What memory there is: every table of it, under one lock, keyed by first address.
#[derive(Default)]
pub(in crate::device) struct Tables {
    reservations: BTreeMap<u64, Reservation>,
    mappings: BTreeMap<u64, Mapping>,
    physical: Slab<Physical>,
    /// How many [`Physical`] are the same file, by device and inode: counted once.
    files: HashMap<(u64, u64), u32>,
    chunks: BTreeMap<u64, Chunk>,
    allocations: BTreeMap<u64, Allocation>,
    heaps: HashMap<(TenantId, HeapKind), Heap>,
    host: BTreeMap<u64, HostRange>,
    /// What each tenant's kernels may touch.
    ranges: HashMap<TenantId, BTreeMap<u64, Range>>,
    /// The same, by first address.
    shown: BTreeMap<u64, Shown>,
    /// Which device may touch which other one's memory, and how many contexts have said so.
    peers: HashMap<(u32, u32), u32>,
    /// By device.
    used_bytes: Vec<UsedBytes>,
    /// Of the machine's memory: pinned and managed memory of this process.
    host_bytes: u64,
    /// What was there lately, oldest first.
    freed: VecDeque<Freed>,
    ids: u64,
}

/// The entry whose range holds `address`, given each entry's end.
fn holding<T>(
    table: &BTreeMap<u64, T>,
    address: u64,
    end: impl Fn(u64, &T) -> u64,
) -> Option<(u64, &T)> {
    let (start, entry) = table.range(..=address).next_back()?;
    (address < end(*start, entry)).then_some((*start, entry))
}

/// True if an entry's range touches `start..end`.
fn overlaps<T>(
    table: &BTreeMap<u64, T>,
    start: u64,
    end: u64,
    entry_end: impl Fn(u64, &T) -> u64,
) -> bool {
    holding(table, start, entry_end).is_some() || table.range(start..end).next().is_some()
}

impl Tables {
    /// Gives so many bytes of a device back.
    fn give_bytes(&mut self, device: u32, bytes: u64) {
        if let Some(used) = self.used_bytes.get_mut(device as usize) {
            used.give(bytes);
        }
    }

    /// A number that no other piece of memory has had.
    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn pointer(&self, address: u64) -> Option<Pointer> {
        let pointer = |base, bytes, tenant: &Arc<Tenant>, context, kind, id| Pointer {
            base,
            bytes,
            tenant: tenant.clone(),
            context,
            kind,
            id,
        };
        if let Some((base, a)) = holding(&self.allocations, address, |s, a| s + a.bytes)
            && a.kind != AllocationKind::Kept
        {
            let kind = PointerKind::Allocation(a.kind);
            return Some(pointer(base, a.bytes, &a.tenant, a.context, kind, a.id));
        }
        if let Some((base, m)) = holding(&self.mappings, address, |_, m| m.end) {
            return Some(pointer(base, m.end - base, &m.tenant, 0, PointerKind::Mapping, m.id));
        }
        let (base, h) = holding(&self.host, address, |_, h| h.end)?;
        let kind = PointerKind::Host { flags: h.flags, registered: h.registered };
        Some(pointer(base, h.end - base, &h.tenant, h.context, kind, h.id))
    }
}

/// What an address belongs to.
#[derive(Clone)]
pub struct Pointer {
    /// First address of what it belongs to.
    pub base: u64,
    /// Size of that, bytes.
    pub bytes: u64,
    /// Who made it.
    pub tenant: Arc<Tenant>,
    /// Number of the context it was made in; 0 for mappings, which have none.
    pub context: u64,
    /// What it is.
    pub kind: PointerKind,
    /// Unique in the process.
    pub id: u64,
}

/// Kinds of memory a program's pointer may point to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerKind {
    /// Of an allocation of the driver's.
    Allocation(AllocationKind),
    /// A mapping of physical memory made by the program.
    Mapping,
    /// Host memory of the driver's, pinned.
    Host {
        /// Flags of cuMemHostAlloc or cuMemHostRegister.
        flags: u32,
        /// The program's own memory, registered.
        registered: bool,
    },
}

impl PointerKind {
    /// True for memory that CUDA calls device memory (managed memory included).
    pub fn is_device(self) -> bool {
        !matches!(self, Self::Host { .. })
    }
}

impl Memory {
    /// `shared_dir`: where processes meet, so that others learn how much memory this one has.
    pub(super) fn new(total_bytes: u64, devices: &[u32], shared_dir: Option<PathBuf>) -> Self {
        let mut tables = Tables::default();
        let place = |number: &u32| UsedBytes::new(shared_dir.as_deref(), *number);
        tables.used_bytes = devices.iter().map(place).collect();
        if tables.used_bytes.is_empty() {
            tables.used_bytes.push(place(&0));
        }
        let rows = tables.used_bytes.iter().map(UsedBytes::descriptor).collect();
        let machine_bytes = physical_memory_bytes();
        Self { tables: Mutex::new(tables), rows, total_bytes, machine_bytes }
    }

    /// In the child of a fork: gives up the child's hold on the row in which this process counts.
    /// Takes no lock, since the thread that held it is not here.
    pub(super) fn close_row_after_fork(&self) {
        self.rows.iter().for_each(Descriptor::close_after_fork);
    }

    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }

    /// Free and total memory of a device, bytes: what no process has, of all.
    pub fn info(&self, device: u32) -> (u64, u64) {
        let mut tables = self.tables();
        let used = tables.used_bytes.get_mut(device as usize).map_or(0, UsedBytes::of_all);
        let used_bytes = used.min(self.total_bytes);
        (self.total_bytes - used_bytes, self.total_bytes)
    }

    /// What `address` belongs to.
    pub fn pointer(&self, address: u64) -> Option<Pointer> {
        self.tables().pointer(address)
    }

    /// What `address..address + bytes` belongs to if all of it may be used by `tenant`. Mappings
    /// side by side count as one.
    pub fn usable(&self, tenant: &Tenant, address: u64, bytes: u64) -> Option<Pointer> {
        let tables = self.tables();
        let end = address.checked_add(bytes)?;
        let first = tables.pointer(address).filter(|p| p.tenant.family == tenant.family)?;
        let mut covered = first.base + first.bytes;
        while covered < end {
            if first.kind != PointerKind::Mapping {
                return None;
            }
            let next = tables
                .pointer(covered)
                .filter(|p| p.kind == PointerKind::Mapping && p.tenant.family == tenant.family)?;
            covered = next.base + next.bytes;
        }
        // A mapping without access rights is in the tables but not in the tenant's space.
        tenant.copies.contains(address, bytes).then_some(first)
    }

    /// Takes `bytes` of a device's memory into account.
    fn charge(&self, tables: &mut Tables, device: u32, bytes: u64) -> Result {
        let used = tables.used_bytes.get_mut(device as usize).ok_or(Error::INVALID_DEVICE)?;
        if used.take(bytes, self.total_bytes) { Ok(()) } else { Err(Error::OUT_OF_MEMORY) }
    }

    /// Takes `bytes` of the machine's memory into account: a process cannot pin or manage more than
    /// there is, even if it touches none of it.
    fn charge_host(&self, tables: &mut Tables, bytes: u64) -> Result {
        let all = tables.host_bytes.checked_add(bytes).filter(|all| *all <= self.machine_bytes);
        tables.host_bytes = all.ok_or(Error::OUT_OF_MEMORY)?;
        Ok(())
    }
}

impl Device {
    /// Runs `unmap` while none of the tenant's blocks or copies runs.
    fn while_still<R>(&self, tenant: &Tenant, unmap: impl FnOnce() -> R) -> R {
        tenant.unmaps_pending.fetch_add(1, Ordering::AcqRel);
        {
            let core = self.lock();
            for slot in &core.slots {
                if slot.running.as_ref().is_some_and(|r| r.tenant == tenant.id) {
                    slot.control.request_yield();
                }
            }
        }
        let result = tenant.space.exclusively(unmap);
        tenant.unmaps_pending.fetch_sub(1, Ordering::AcqRel);
        result
    }

    /// Notes what became of a range that its tenant deals out by itself: one of
    /// [`memory_note`]. NOT_SUPPORTED if no accounts are kept, INVALID_VALUE for memory that is not
    /// the tenant's.
    pub fn note_memory(&self, tenant: &Tenant, address: u64, bytes: u64, note: u32) -> Result {
        let written = self.written.as_ref().ok_or(Error::NOT_SUPPORTED)?;
        if note == memory_note::NONE {
            return Ok(());
        }
        // Held, so that the memory stays while it is filled.
        let _mapped = tenant.space.access();
        if bytes == 0 || !tenant.space.contains(address, bytes) {
            return Err(Error::INVALID_VALUE);
        }
        match note {
            memory_note::FRESH => written.track(address, bytes),
            memory_note::FRESH_SHARED => {
                let whole = bytes / PATTERN_BYTES * PATTERN_BYTES;
                if !address.is_multiple_of(PATTERN_BYTES) || whole == 0 {
                    return Ok(());
                }
                // SAFETY: the range is the tenant's, mapped while `_mapped` lives, and by the note
                // no work uses it yet.
                unsafe { pages::fill_with_pattern(address, whole) };
                written.track_shared(address, whole);
            }
            memory_note::FREED => written.free(address),
            memory_note::UNKNOWN => written.forget(address, bytes),
            _ => return Err(Error::INVALID_VALUE),
        }
        Ok(())
    }
}
