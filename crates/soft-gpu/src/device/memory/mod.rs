//! Device memory and what programs and kernels may touch of it.
//!
//! A device address is an address of this process. Memory comes in chunks of 2 MiB: shareable ones
//! made and mapped by the program ([`vmm`]), private ones cut up by the driver ([`heap`]). Pinned
//! and registered host memory ([`host`]) is the third kind of range that kernels may touch.
//!
//! Invariants: one lock guards all tables; a range is in its tenant's [`super::tenant::Space`]
//! exactly while it is mapped, and leaves it before it is unmapped.

mod explain;
pub mod heap;
pub mod host;
pub mod pages;
mod peers;
pub mod share;
mod tables;
mod used;
pub mod vmm;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::heap::AllocationKind;
pub use self::share::{ChunkFile, OpenedChunk};
pub(in crate::device) use self::tables::Tables;
pub(crate) use self::used::device_directory;
use self::used::{Descriptor, UsedBytes};
pub use self::vmm::{Access, Physical};
use super::Device;
use super::tenant::Tenant;
use crate::error::{Error, Result};
use cuda_api::extension::memory_note;
use simt::runtime::init_tracking::PATTERN_BYTES;

/// All memory of a device.
pub struct Memory {
    tables: Mutex<Tables>,
    rows: Vec<Descriptor>,
    /// Of each device.
    total_bytes: u64,
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
        Self { tables: Mutex::new(tables), rows, total_bytes }
    }

    /// In the child of a fork: gives up the child's hold on the row in which this process counts.
    /// Takes no lock, since the thread that held it is not here.
    pub(super) fn close_row_after_fork(&self) {
        self.rows.iter().for_each(Descriptor::close_after_fork);
    }

    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
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
                // nobody uses it yet.
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
