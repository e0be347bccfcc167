//! Allocations of the driver: cut from chunks of 2 MiB, large ones with chunks of their own.
//!
//! Each tenant has its own heaps, so that memory never passes from one to another without going
//! back to the operating system, which zeroes it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Tables;
use super::pages;
use crate::device::Device;
use crate::device::limits::{ALLOCATION_ALIGN, CHUNK_BYTES};
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};
use simt::kernel::Range;

/// Allocations above this get chunks of their own, so that freeing them gives memory back.
const SMALL_BYTES_MAX: u64 = CHUNK_BYTES / 2;

/// Allocations of whole pages up to this size stand apart by more than their size: buffers that
/// all start at the same place of a page are in each other's way in a processor's first-level
/// cache, where kernels walk through several of them at once.
const APART_BYTES_MAX: u64 = CHUNK_BYTES / 8;
const APART_BYTES: u64 = 3 * ALLOCATION_ALIGN;
const PAGE_BYTES: u64 = 4096;

/// What an allocation takes of a heap.
fn taken(bytes: u64) -> Option<u64> {
    let apart = bytes.is_multiple_of(PAGE_BYTES) && bytes <= APART_BYTES_MAX;
    bytes
        .checked_add(if apart { APART_BYTES } else { 0 })?
        .checked_next_multiple_of(ALLOCATION_ALIGN)
}

/// What an allocation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocationKind {
    /// cuMemAlloc.
    Device,
    /// cuMemAllocManaged: the machine's memory, good on both sides as it is. None of the device's:
    /// programs may have more of it than the device has memory.
    Managed,
    /// cuMemAllocAsync, of the pool with that handle.
    Pool {
        /// The handle.
        pool: usize,
    },
    /// Kept by a pool: without an owner.
    Kept,
    /// A CUDA array's elements.
    Array,
    /// A module's variables.
    Module {
        /// False for constant banks.
        writable: bool,
    },
}

/// Heaps whose memory has different rights or a different fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum HeapKind {
    Data,
    Constant,
    Managed,
}

impl AllocationKind {
    fn heap(self) -> HeapKind {
        match self {
            Self::Module { writable: false } => HeapKind::Constant,
            Self::Managed => HeapKind::Managed,
            _ => HeapKind::Data,
        }
    }
}

/// Memory handed out.
pub(super) struct Allocation {
    /// As asked for; more is taken: see [`taken`].
    pub(super) bytes: u64,
    pub(super) tenant: Arc<Tenant>,
    pub(super) context: u64,
    pub(super) kind: AllocationKind,
    pub(super) id: u64,
}

/// Private memory mapped for a heap.
pub(super) struct Chunk {
    pub(super) end: u64,
    /// It is the machine's memory and none of the device's.
    managed: bool,
    /// What other processes can open, once it is shared.
    pub(super) file: Option<OwnedFd>,
}

/// Free room in the chunks of one kind and tenant.
#[derive(Default)]
pub(super) struct Heap {
    /// Free pieces, start to end; none crosses a chunk's boundary.
    by_start: BTreeMap<u64, u64>,
    /// The same pieces by size.
    by_size: BTreeSet<(u64, u64)>,
}

impl Heap {
    fn insert(&mut self, start: u64, end: u64) {
        self.by_start.insert(start, end);
        self.by_size.insert((end - start, start));
    }

    fn remove(&mut self, start: u64) -> Option<u64> {
        let end = self.by_start.remove(&start)?;
        self.by_size.remove(&(end - start, start));
        Some(end)
    }

    /// Takes `bytes` at a multiple of `align` from the smallest piece that has them.
    fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let (start, at) = self.by_size.range((bytes, 0)..).find_map(|(size, start)| {
            let at = start.next_multiple_of(align);
            (at - start + bytes <= *size).then_some((*start, at))
        })?;
        let end = self.remove(start)?;
        if start < at {
            self.insert(start, at);
        }
        if at + bytes < end {
            self.insert(at + bytes, end);
        }
        Some(at)
    }

    /// Gives a piece back; returns the free piece it is part of now.
    fn give(&mut self, start: u64, end: u64) -> (u64, u64) {
        let (mut from, mut to) = (start, end);
        if !end.is_multiple_of(CHUNK_BYTES)
            && let Some(next_end) = self.remove(end)
        {
            to = next_end;
        }
        if !start.is_multiple_of(CHUNK_BYTES) {
            let before = self.by_start.range(..start).next_back().map(|(s, e)| (*s, *e));
            if let Some((s, e)) = before
                && e == start
            {
                self.remove(s);
                from = s;
            }
        }
        self.insert(from, to);
        (from, to)
    }
}

/// Gives a chunk's bytes back to where they were taken from.
fn give_chunk(tables: &mut Tables, tenant: &Tenant, bytes: u64, managed: bool) {
    match managed {
        true => tables.host_bytes -= bytes,
        false => tables.give_bytes(tenant.device, bytes),
    }
}

impl Device {
    fn new_chunk(
        &self,
        tables: &mut Tables,
        tenant: &Arc<Tenant>,
        kind: HeapKind,
        bytes: u64,
    ) -> Result<u64> {
        let managed = kind == HeapKind::Managed;
        match managed {
            true => self.memory.charge_host(tables, bytes)?,
            false => self.memory.charge(tables, tenant.device, bytes)?,
        }
        let Ok(start) = pages::map_private(bytes, managed) else {
            give_chunk(tables, tenant, bytes, managed);
            return Err(Error::OUT_OF_MEMORY);
        };
        tables.chunks.insert(start, Chunk { end: start + bytes, managed, file: None });
        if !managed {
            tenant.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        let range = Range { start, end: start + bytes, writable: kind != HeapKind::Constant };
        match kind {
            HeapKind::Managed => self.show_everywhere(tables, tenant, range),
            HeapKind::Data | HeapKind::Constant => self.show_own(tables, tenant, range),
        }
        Ok(start)
    }
}

impl Device {
    /// Allocates device memory; not zeroed unless it is fresh. `context` is kept for
    /// [`Device::free_context`].
    pub fn allocate(
        &self,
        tenant: &Arc<Tenant>,
        context: u64,
        bytes: u64,
        align: u64,
        kind: AllocationKind,
    ) -> Result<u64> {
        if bytes == 0 || !align.is_power_of_two() || align > CHUNK_BYTES {
            return Err(Error::INVALID_VALUE);
        }
        let align = align.max(ALLOCATION_ALIGN);
        let taken = taken(bytes).ok_or(Error::OUT_OF_MEMORY)?;
        let mut tables = self.memory.tables();
        let start = if taken > SMALL_BYTES_MAX {
            let chunk = taken.checked_next_multiple_of(CHUNK_BYTES).ok_or(Error::OUT_OF_MEMORY)?;
            self.new_chunk(&mut tables, tenant, kind.heap(), chunk)?
        } else {
            let key = (tenant.id, kind.heap());
            match tables.heaps.entry(key).or_default().take(taken, align) {
                Some(start) => start,
                None => {
                    let chunk = self.new_chunk(&mut tables, tenant, kind.heap(), CHUNK_BYTES)?;
                    let heap = tables.heaps.entry(key).or_default();
                    heap.insert(chunk, chunk + CHUNK_BYTES);
                    heap.take(taken, align).ok_or(Error::OUT_OF_MEMORY)?
                }
            }
        };
        self.account_fresh(start, bytes, kind);
        let id = tables.next_id();
        let allocation = Allocation { bytes, tenant: tenant.clone(), context, kind, id };
        tables.allocations.insert(start, allocation);
        Ok(start)
    }

    /// Notes that an allocation is not written yet, if accounts are kept.
    fn account_fresh(&self, start: u64, bytes: u64, kind: AllocationKind) {
        let Some(written) = &self.written else { return };
        match kind {
            AllocationKind::Device | AllocationKind::Pool { .. } | AllocationKind::Array => {
                written.track(start, bytes);
            }
            AllocationKind::Managed => {
                // SAFETY: just taken from a heap whose chunks are mapped and writable, for whole
                // units of it.
                unsafe { pages::fill_with_pattern(start, bytes) };
                written.track_shared(start, bytes);
            }
            AllocationKind::Kept | AllocationKind::Module { .. } => written.forget(start, bytes),
        }
    }

    /// Frees what [`Device::allocate`] returned; `wanted` says whether it is of the right kind.
    /// Waits for running blocks to give way if memory goes back to the system, not for kernels to
    /// end: the caller has seen to that.
    pub fn free(&self, address: u64, wanted: impl Fn(AllocationKind) -> bool) -> Result {
        let mut tables = self.memory.tables();
        if !tables.allocations.get(&address).is_some_and(|a| wanted(a.kind)) {
            return Err(Error::INVALID_VALUE);
        }
        self.free_allocation(&mut tables, address);
        Ok(())
    }

    /// Takes an allocation's owner away for the time being; false if there is none.
    pub fn retire(&self, address: u64) -> bool {
        // Of no context, so that it does not end with one.
        self.change(address, |allocation| {
            (allocation.kind, allocation.context) = (AllocationKind::Kept, 0);
            true
        })
    }

    /// Gives an allocation that was retired an owner again, for as many bytes as take the same
    /// room; false if there is none.
    pub fn revive(&self, address: u64, context: u64, bytes: u64, kind: AllocationKind) -> bool {
        self.change(address, |allocation| {
            let room = |bytes: u64| bytes.checked_next_multiple_of(ALLOCATION_ALIGN);
            let fits = allocation.kind == AllocationKind::Kept
                && room(allocation.bytes) == room(bytes)
                && kind.heap() == HeapKind::Data;
            if fits {
                (allocation.kind, allocation.context) = (kind, context);
                allocation.bytes = bytes;
            }
            fits
        })
    }

    fn change(&self, address: u64, change: impl FnOnce(&mut Allocation) -> bool) -> bool {
        let mut tables = self.memory.tables();
        // Code that knew it by its number finds it no longer.
        let id = tables.next_id();
        let Some(allocation) = tables.allocations.get_mut(&address) else { return false };
        let changed = change(allocation);
        if changed {
            allocation.id = id;
        }
        changed
    }

    fn free_allocation(&self, tables: &mut Tables, address: u64) {
        let Some(allocation) = tables.allocations.remove(&address) else { return };
        if let Some(written) = &self.written {
            written.free(address);
        }
        let Some(taken) = taken(allocation.bytes) else { return };
        let tenant = &allocation.tenant;
        tables.note_freed(tenant.id, address, address + allocation.bytes);
        if taken > SMALL_BYTES_MAX {
            return self.unmap_chunk(tables, tenant, address);
        }
        let key = (tenant.id, allocation.kind.heap());
        let heap = tables.heaps.entry(key).or_default();
        let (start, end) = heap.give(address, address + taken);
        let whole = end - start == CHUNK_BYTES && start.is_multiple_of(CHUNK_BYTES);
        // One empty chunk stays, or a program that allocates and frees in a loop would map and
        // unmap it every time. A tenant that has ended allocates nothing any more.
        let stays = !tenant.ended() && heap.by_size.range((CHUNK_BYTES, 0)..).count() <= 1;
        if whole && !stays {
            heap.remove(start);
            if heap.by_start.is_empty() {
                tables.heaps.remove(&key);
            }
            self.unmap_chunk(tables, tenant, start);
        }
    }

    fn unmap_chunk(&self, tables: &mut Tables, tenant: &Arc<Tenant>, start: u64) {
        let Some(chunk) = tables.chunks.remove(&start) else { return };
        let bytes = chunk.end - start;
        if let Some(written) = &self.written {
            written.forget(start, bytes);
        }
        self.hide(tables, start, || pages::release(start, bytes));
        give_chunk(tables, tenant, bytes, chunk.managed);
        if !chunk.managed {
            tenant.memory_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Frees all allocations and host memory of a context.
    pub fn free_context(&self, context: u64) {
        let mut tables = self.memory.tables();
        let all: Vec<u64> = tables
            .allocations
            .iter()
            .filter(|(_, a)| a.context == context)
            .map(|(start, _)| *start)
            .collect();
        for address in all {
            self.free_allocation(&mut tables, address);
        }
        self.free_host_of_context(&mut tables, context);
    }

    /// Gives the empty chunks of a tenant's heaps back to the system.
    pub fn trim(&self, tenant: &Arc<Tenant>) {
        let mut tables = self.memory.tables();
        for kind in [HeapKind::Data, HeapKind::Constant, HeapKind::Managed] {
            let Some(heap) = tables.heaps.get_mut(&(tenant.id, kind)) else { continue };
            let empty: Vec<u64> = heap
                .by_start
                .iter()
                .filter(|(start, end)| {
                    **end - **start == CHUNK_BYTES && start.is_multiple_of(CHUNK_BYTES)
                })
                .map(|(start, _)| *start)
                .collect();
            for start in &empty {
                heap.remove(*start);
            }
            if heap.by_start.is_empty() {
                tables.heaps.remove(&(tenant.id, kind));
            }
            for start in empty {
                self.unmap_chunk(&mut tables, tenant, start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_whole_pages_start_at_different_places_of_a_page() {
        let mut heap = Heap::default();
        heap.insert(CHUNK_BYTES, 2 * CHUNK_BYTES);
        let bytes = APART_BYTES_MAX;
        let mut places: Vec<u64> = (0..7)
            .map(|_| heap.take(taken(bytes).unwrap(), ALLOCATION_ALIGN).unwrap() % PAGE_BYTES)
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 7);
        // What is not of whole pages is not, and large ones do not take a chunk more.
        assert_eq!(taken(100), Some(ALLOCATION_ALIGN));
        assert_eq!(taken(SMALL_BYTES_MAX), Some(SMALL_BYTES_MAX));
        assert_eq!(taken(u64::MAX), None);
    }

    #[test]
    fn pieces_join_within_a_chunk_and_only_there() {
        let mut heap = Heap::default();
        heap.insert(CHUNK_BYTES, 2 * CHUNK_BYTES);
        heap.insert(2 * CHUNK_BYTES, 3 * CHUNK_BYTES);
        let a = heap.take(512, 512).unwrap();
        let b = heap.take(1024, 512).unwrap();
        let c = heap.take(4096, 4096).unwrap();
        assert!(c.is_multiple_of(4096));
        assert_eq!((a, b), (CHUNK_BYTES, CHUNK_BYTES + 512));
        heap.give(b, b + 1024);
        heap.give(c, c + 4096);
        assert_eq!(heap.give(a, a + 512), (CHUNK_BYTES, 2 * CHUNK_BYTES));
        assert_eq!(heap.by_start.len(), 2);
        assert_eq!(heap.by_size.len(), 2);
        assert_eq!(heap.take(CHUNK_BYTES + 512, 512), None);
    }
}
