//! What memory there is: every table of it, under one lock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::explain::Freed;
use super::heap::{Allocation, AllocationKind, Chunk, Heap, HeapKind};
use super::host::HostRange;
use super::peers::Shown;
use super::used::UsedBytes;
use super::vmm::{Mapping, Physical, Reservation};
use super::{Pointer, PointerKind};
use crate::device::slab::Slab;
use crate::device::tenant::{Tenant, TenantId};
use simt::kernel::Range;

/// Every table is keyed by first address.
#[derive(Default)]
pub(in crate::device) struct Tables {
    pub(super) reservations: BTreeMap<u64, Reservation>,
    pub(super) mappings: BTreeMap<u64, Mapping>,
    pub(super) physical: Slab<Physical>,
    /// How many [`Physical`] are the same file, by device and inode: counted once.
    pub(super) files: HashMap<(u64, u64), u32>,
    pub(super) chunks: BTreeMap<u64, Chunk>,
    pub(super) allocations: BTreeMap<u64, Allocation>,
    pub(super) heaps: HashMap<(TenantId, HeapKind), Heap>,
    pub(super) host: BTreeMap<u64, HostRange>,
    /// What each tenant's kernels may touch.
    pub(super) ranges: HashMap<TenantId, BTreeMap<u64, Range>>,
    /// The same, by first address.
    pub(super) shown: BTreeMap<u64, Shown>,
    /// Which device may touch which other one's memory, and how many contexts have said so.
    pub(super) peers: HashMap<(u32, u32), u32>,
    /// By device.
    pub(super) used_bytes: Vec<UsedBytes>,
    /// What was there lately, oldest first.
    pub(super) freed: VecDeque<Freed>,
    ids: u64,
}

/// The entry whose range holds `address`, given each entry's end.
pub(super) fn holding<T>(
    table: &BTreeMap<u64, T>,
    address: u64,
    end: impl Fn(u64, &T) -> u64,
) -> Option<(u64, &T)> {
    let (start, entry) = table.range(..=address).next_back()?;
    (address < end(*start, entry)).then_some((*start, entry))
}

/// True if an entry's range touches `start..end`.
pub(super) fn overlaps<T>(
    table: &BTreeMap<u64, T>,
    start: u64,
    end: u64,
    entry_end: impl Fn(u64, &T) -> u64,
) -> bool {
    holding(table, start, entry_end).is_some() || table.range(start..end).next().is_some()
}

impl Tables {
    /// Gives so many bytes of a device back.
    pub(super) fn give_bytes(&mut self, device: u32, bytes: u64) {
        if let Some(used) = self.used_bytes.get_mut(device as usize) {
            used.give(bytes);
        }
    }

    /// A number that no other piece of memory has had.
    pub(super) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(super) fn pointer(&self, address: u64) -> Option<Pointer> {
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
