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
use self::used::{Descriptor, UsedBytes};
pub use self::vmm::{Access, Physical};
use super::Device;
use super::tenant::Tenant;
use crate::error::{Error, Result};
use cuda_api::extension::memory_note;
use simt::kernel::Range;
use simt::runtime::init_tracking::PATTERN_BYTES;

/// All memory of a device.
pub struct Memory {
    tables: Mutex<Tables>,
    row: Descriptor,
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
    pub(super) fn new(total_bytes: u64, shared_dir: Option<PathBuf>) -> Self {
        let mut tables = Tables::default();
        tables.used_bytes = UsedBytes::new(shared_dir);
        let row = tables.used_bytes.descriptor();
        Self { tables: Mutex::new(tables), row, total_bytes }
    }

    /// In the child of a fork: gives up the child's hold on the row in which this process counts.
    /// Takes no lock, since the thread that held it is not here.
    pub(super) fn close_row_after_fork(&self) {
        self.row.close_after_fork();
    }

    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Free and total device memory, bytes: what no process has, of all.
    pub fn info(&self) -> (u64, u64) {
        let used_bytes = self.tables().used_bytes.of_all().min(self.total_bytes);
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
        let first = tables.pointer(address).filter(|p| p.tenant.id == tenant.id)?;
        let mut covered = first.base + first.bytes;
        while covered < end {
            if first.kind != PointerKind::Mapping {
                return None;
            }
            let next = tables
                .pointer(covered)
                .filter(|p| p.kind == PointerKind::Mapping && p.tenant.id == tenant.id)?;
            covered = next.base + next.bytes;
        }
        // A mapping without access rights is in the tables but not in the tenant's space.
        tenant.space.contains(address, bytes).then_some(first)
    }

    /// Takes `bytes` of the device's memory into account.
    fn charge(&self, tables: &mut Tables, bytes: u64) -> Result {
        let taken = tables.used_bytes.take(bytes, self.total_bytes);
        if taken { Ok(()) } else { Err(Error::OUT_OF_MEMORY) }
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

    /// Makes a range usable by its tenant's kernels.
    fn show(tables: &mut Tables, tenant: &Arc<Tenant>, range: Range) {
        let ranges = tables.ranges.entry(tenant.id).or_default();
        ranges.insert(range.start, range);
        tenant.space.publish(ranges.values().copied().collect());
    }

    /// Takes a range from its tenant's kernels, then runs `unmap`.
    fn hide<R>(
        &self,
        tables: &mut Tables,
        tenant: &Arc<Tenant>,
        start: u64,
        unmap: impl FnOnce() -> R,
    ) -> R {
        let ranges = tables.ranges.entry(tenant.id).or_default();
        if ranges.remove(&start).is_none() {
            return unmap();
        }
        let left = ranges.values().copied().collect();
        if ranges.is_empty() {
            tables.ranges.remove(&tenant.id);
        }
        tenant.space.publish(left);
        self.while_still(tenant, unmap)
    }
}
