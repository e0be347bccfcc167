//! Virtual memory management: physical memory as files, mapped where the program wants it.
//!
//! Physical memory is a sealed memfd, so that it can be handed to another process and outlives
//! this one. What comes from another process is taken only if it is such a file: one that cannot
//! shrink, or touching a mapping could kill us.

use std::collections::btree_map::Entry;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use channel::memfd::{self, Seals};
use channel::system;

use super::pages;
use super::{Tables, holding, overlaps};
use crate::device::Device;
use crate::device::limits::CHUNK_BYTES;
use crate::device::slab::Key;
use crate::device::tenant::Tenant;
use crate::error::{Error, Result};
use simt::kernel::Range;

/// Largest reservation or piece of physical memory: what an address can be, bytes.
const BYTES_MAX: u64 = 1 << 46;

/// What files of device memory are called, before the number of the device.
const FILE_NAME: &str = "openmps-device-memory-";

/// Address space without memory.
pub(super) struct Reservation {
    pub(super) end: u64,
}

/// What kernels may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
}

/// Physical memory in an address range.
pub(super) struct Mapping {
    pub(super) end: u64,
    pub(super) tenant: Arc<Tenant>,
    pub(super) id: u64,
    physical: Key<Physical>,
    /// By device; one that is not named has none.
    access: Vec<(u32, Access)>,
}

/// Physical memory.
pub struct Physical {
    file: OwnedFd,
    bytes: u64,
    exportable: bool,
    identity: (u64, u64),
    /// The device whose memory it is.
    pub(super) device: u32,
    /// Its bytes count as that device's in this process.
    charged: bool,
    /// References by the program: cuMemCreate, cuMemRetainAllocationHandle, imports.
    handles: u32,
    /// References by mappings.
    mappings: u32,
    /// There was no way to write to it yet: never mapped, exported or imported.
    fresh: bool,
}

fn whole_chunks(bytes: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(CHUNK_BYTES) && bytes <= BYTES_MAX
}

impl Device {
    /// Reserves addresses, at `wanted` if that is not 0 and free.
    pub fn reserve_addresses(&self, bytes: u64, align: u64, wanted: u64) -> Result<u64> {
        let align = align.max(CHUNK_BYTES);
        if !whole_chunks(bytes) || !align.is_power_of_two() || align > BYTES_MAX {
            return Err(Error::INVALID_VALUE);
        }
        let start = pages::reserve(wanted, bytes, align).map_err(|_| Error::OUT_OF_MEMORY)?;
        self.memory.tables().reservations.insert(start, Reservation { end: start + bytes });
        Ok(start)
    }

    /// Gives a reservation back, which must have no mapping left.
    pub fn free_addresses(&self, address: u64, bytes: u64) -> Result {
        let mut tables = self.memory.tables();
        let end = address.checked_add(bytes).ok_or(Error::INVALID_VALUE)?;
        if overlaps(&tables.mappings, address, end, |_, m| m.end) {
            return Err(Error::INVALID_VALUE);
        }
        match tables.reservations.entry(address) {
            Entry::Occupied(entry) if entry.get().end == end => {
                entry.remove();
                pages::release(address, bytes);
                Ok(())
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }

    /// Makes physical memory, zeroed.
    pub fn create_physical(
        &self,
        bytes: u64,
        exportable: bool,
        device: u32,
    ) -> Result<Key<Physical>> {
        if !whole_chunks(bytes) {
            return Err(Error::INVALID_VALUE);
        }
        let mut tables = self.memory.tables();
        self.memory.charge(&mut tables, device, bytes)?;
        let number = self.settings.devices.get(device as usize).copied().unwrap_or(0);
        match new_file(bytes, number) {
            Ok(file) => {
                let identity = identity(file.as_fd()).unwrap_or_default();
                tables.files.insert(identity, 1);
                let physical = Physical {
                    file,
                    bytes,
                    exportable,
                    identity,
                    device,
                    charged: true,
                    handles: 1,
                    mappings: 0,
                    fresh: true,
                };
                tables.physical.insert(physical).ok_or(Error::OUT_OF_MEMORY)
            }
            Err(error) => {
                tables.give_bytes(device, bytes);
                self.log(&format!("cuMemCreate of {bytes} bytes: {error}"));
                Err(Error::OUT_OF_MEMORY)
            }
        }
    }

    /// Drops a reference of the program's.
    pub fn release_physical(&self, key: Key<Physical>) -> Result {
        let mut tables = self.memory.tables();
        let physical =
            tables.physical.get_mut(key).filter(|p| p.handles > 0).ok_or(Error::INVALID_VALUE)?;
        physical.handles -= 1;
        drop_unused(&mut tables, key);
        Ok(())
    }

    /// A new descriptor of the file that physical memory is.
    pub fn export_physical(&self, key: Key<Physical>) -> Result<OwnedFd> {
        let mut tables = self.memory.tables();
        let physical = tables.physical.get(key).ok_or(Error::INVALID_VALUE)?;
        if !physical.exportable {
            return Err(Error::INVALID_VALUE);
        }
        self.lose_sight(&mut tables, key);
        let physical = tables.physical.get(key).ok_or(Error::INVALID_VALUE)?;
        physical.file.try_clone().map_err(|error| system::result_of(&error))
    }

    /// Physical memory that another process, or this one, exported, for use on a device. The caller
    /// keeps `file`.
    pub fn import_physical(&self, file: BorrowedFd<'_>, user: u32) -> Result<Key<Physical>> {
        let bytes = memfd::check(file, Seals::MAPPABLE, CHUNK_BYTES, BYTES_MAX).ok();
        let bytes = bytes.filter(|bytes| whole_chunks(*bytes)).ok_or(Error::INVALID_VALUE)?;
        let file = file.try_clone_to_owned().map_err(|error| system::result_of(&error))?;
        let identity = identity(file.as_fd()).ok_or(Error::INVALID_VALUE)?;
        let mut tables = self.memory.tables();
        let number = device_of_file(file.as_fd());
        let place = self.settings.devices.iter().position(|device| Some(*device) == number);
        let device = place.map_or(user, |place| place as u32);
        // Memory of another device's counts where it was made.
        let known = tables.physical.iter().find(|(_, p)| p.identity == identity);
        let charged = known.map_or(device == user, |(_, p)| p.charged);
        if charged && !tables.files.contains_key(&identity) {
            self.memory.charge(&mut tables, device, bytes)?;
        }
        *tables.files.entry(identity).or_insert(0) += 1;
        let physical = Physical {
            file,
            bytes,
            exportable: true,
            identity,
            device,
            charged,
            handles: 1,
            mappings: 0,
            fresh: false,
        };
        tables.physical.insert(physical).ok_or(Error::OUT_OF_MEMORY)
    }

    /// The physical memory mapped at an address, with one more reference.
    pub fn retain_physical(&self, address: u64) -> Result<Key<Physical>> {
        let mut tables = self.memory.tables();
        let key = holding(&tables.mappings, address, |_, m| m.end)
            .map(|(_, m)| m.physical)
            .ok_or(Error::INVALID_VALUE)?;
        tables.physical.get_mut(key).ok_or(Error::INVALID_VALUE)?.handles += 1;
        Ok(key)
    }

    /// Size in bytes, exportability, and the device.
    pub fn physical_properties(&self, key: Key<Physical>) -> Result<(u64, bool, u32)> {
        let tables = self.memory.tables();
        let physical = tables.physical.get(key);
        physical.map(|p| (p.bytes, p.exportable, p.device)).ok_or(Error::INVALID_VALUE)
    }

    /// Maps physical memory at reserved addresses; it must not be touched before
    /// [`Device::set_access`].
    pub fn map(
        &self,
        tenant: &Arc<Tenant>,
        address: u64,
        bytes: u64,
        offset: u64,
        key: Key<Physical>,
    ) -> Result {
        if !whole_chunks(bytes)
            || !address.is_multiple_of(CHUNK_BYTES)
            || !offset.is_multiple_of(CHUNK_BYTES)
        {
            return Err(Error::INVALID_VALUE);
        }
        let mut tables = self.memory.tables();
        let end = address.checked_add(bytes).ok_or(Error::INVALID_VALUE)?;
        let reserved =
            holding(&tables.reservations, address, |_, r| r.end).is_some_and(|(_, r)| end <= r.end);
        if !reserved || overlaps(&tables.mappings, address, end, |_, m| m.end) {
            return Err(Error::INVALID_VALUE);
        }
        let physical = tables.physical.get_mut(key).ok_or(Error::INVALID_VALUE)?;
        // All of it or nothing, as with NVIDIA's driver.
        if offset != 0 || bytes != physical.bytes {
            return Err(Error::NOT_SUPPORTED);
        }
        // SAFETY: the range lies in a reservation of ours and holds no mapping.
        unsafe { pages::remap(address, bytes, Some((physical.file.as_fd(), offset))) }
            .map_err(|_| Error::MAP_FAILED)?;
        physical.mappings += 1;
        match (&self.written, physical.fresh) {
            (Some(written), true) => {
                physical.fresh = false;
                written.track(address, bytes);
            }
            // What is mapped twice may be written at either place.
            _ => self.lose_sight(&mut tables, key),
        }
        let id = tables.next_id();
        let device = tables.physical.get(key).map_or(0, |physical| physical.device);
        // What a program maps is of the device whose memory it is.
        let tenant = match self.is_default(tenant) {
            true => self.default_tenant_on(device),
            false => tenant,
        };
        let mapping =
            Mapping { end, tenant: tenant.clone(), id, physical: key, access: Vec::new() };
        tables.mappings.insert(address, mapping);
        tenant.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Unmaps all mappings in a range, which must consist of whole ones.
    pub fn unmap(&self, address: u64, bytes: u64) -> Result {
        let mut tables = self.memory.tables();
        let starts = whole_mappings(&tables, address, bytes)?;
        for start in starts {
            let Some(mapping) = tables.mappings.remove(&start) else { continue };
            let bytes = mapping.end - start;
            if let Some(written) = &self.written {
                written.forget(start, bytes);
            }
            tables.note_freed(mapping.tenant.id, start, mapping.end);
            self.hide(&mut tables, start, || {
                // SAFETY: the range was a mapping of ours; it has left its tenant's space and
                // nothing of the tenant runs.
                unsafe { pages::remap(start, bytes, None) }
            })
            .map_err(|_| Error::UNMAP_FAILED)?;
            mapping.tenant.memory_bytes.fetch_sub(bytes, Ordering::Relaxed);
            if let Some(physical) = tables.physical.get_mut(mapping.physical) {
                physical.mappings -= 1;
            }
            drop_unused(&mut tables, mapping.physical);
        }
        Ok(())
    }

    /// From now on physical memory may be written unseen: all of it counts as written.
    fn lose_sight(&self, tables: &mut Tables, key: Key<Physical>) {
        let Some(written) = &self.written else { return };
        if let Some(physical) = tables.physical.get_mut(key) {
            physical.fresh = false;
        }
        for (start, mapping) in tables.mappings.iter().filter(|(_, m)| m.physical == key) {
            written.write(*start, mapping.end - start);
        }
    }

    /// Sets what kernels of a device, and copies, may do with all mappings in a range.
    /// INVALID_DEVICE if the device cannot reach the memory.
    pub fn set_access(&self, address: u64, bytes: u64, device: u32, access: Access) -> Result {
        let mut tables = self.memory.tables();
        let starts = whole_mappings(&tables, address, bytes)?;
        for start in &starts {
            let home = tables.mappings.get(start).and_then(|m| tables.physical.get(m.physical));
            let home = home.map_or(device, |physical| physical.device);
            if home != device && access != Access::None && !self.can_access_peer(device, home) {
                return Err(Error::INVALID_DEVICE);
            }
        }
        for start in starts {
            let Some(mapping) = tables.mappings.get_mut(&start) else { continue };
            let before = mapping.access.clone();
            mapping.access.retain(|(of, _)| *of != device);
            if access != Access::None {
                mapping.access.push((device, access));
                mapping.access.sort_unstable_by_key(|(of, _)| *of);
            }
            if mapping.access == before {
                continue;
            }
            let (end, tenant) = (mapping.end, mapping.tenant.clone());
            let allowed = mapping.access.clone();
            if !before.is_empty() {
                self.hide(&mut tables, start, || {});
            }
            if !allowed.is_empty() {
                // One that may only read keeps all from writing.
                let writable = allowed.iter().all(|(_, access)| *access == Access::ReadWrite);
                let range = Range { start, end, writable };
                let devices = allowed.iter().map(|(device, _)| *device);
                self.show_on(&mut tables, &tenant, devices, range);
            }
        }
        Ok(())
    }

    /// What a device may do at an address.
    pub fn access(&self, address: u64, device: u32) -> Result<Access> {
        let tables = self.memory.tables();
        let (_, mapping) =
            holding(&tables.mappings, address, |_, m| m.end).ok_or(Error::INVALID_VALUE)?;
        let access = mapping.access.iter().find(|(of, _)| *of == device);
        Ok(access.map_or(Access::None, |(_, access)| *access))
    }
}

/// Starts of the mappings that fill a range exactly.
fn whole_mappings(tables: &Tables, address: u64, bytes: u64) -> Result<Vec<u64>> {
    let end = address.checked_add(bytes).filter(|_| bytes > 0).ok_or(Error::INVALID_VALUE)?;
    let mut starts = Vec::new();
    let mut next = address;
    for (start, mapping) in tables.mappings.range(address..end) {
        if *start != next || mapping.end > end {
            return Err(Error::INVALID_VALUE);
        }
        starts.push(*start);
        next = mapping.end;
    }
    if next == end { Ok(starts) } else { Err(Error::INVALID_VALUE) }
}

/// Closes physical memory that has no handle and no mapping.
fn drop_unused(tables: &mut Tables, key: Key<Physical>) {
    if !tables.physical.get(key).is_some_and(|p| p.handles == 0 && p.mappings == 0) {
        return;
    }
    let Some(physical) = tables.physical.remove(key) else { return };
    if let Some(count) = tables.files.get_mut(&physical.identity) {
        *count -= 1;
        if *count == 0 {
            tables.files.remove(&physical.identity);
            if physical.charged {
                tables.give_bytes(physical.device, physical.bytes);
            }
        }
    }
}

/// A file that is memory of the device of that number on this machine.
pub(super) fn new_file(bytes: u64, number: u32) -> io::Result<OwnedFd> {
    let name = CString::new(format!("{FILE_NAME}{number}"))?;
    memfd::create_sealed(&name, bytes, Seals::SIZE)
}

/// The number of the device whose memory a file is, as its maker says.
fn device_of_file(file: BorrowedFd<'_>) -> Option<u32> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let name = path.to_str()?.strip_prefix("/memfd:")?.strip_prefix(FILE_NAME)?;
    name.split(' ').next()?.parse().ok()
}

/// Device and inode.
pub(super) fn identity(file: BorrowedFd<'_>) -> Option<(u64, u64)> {
    rustix::fs::fstat(file).ok().map(|s| (s.st_dev, s.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestDevice;
    use rustix::fs::MemfdFlags;

    #[test]
    fn memory_of_others_is_taken_if_nothing_can_take_it_away() {
        let device = TestDevice::new();
        let good = new_file(CHUNK_BYTES, 0).unwrap();
        let open = memfd::create(c"openmps-test", CHUNK_BYTES).unwrap();
        let odd = memfd::create_sealed(c"openmps-test", CHUNK_BYTES + 4096, Seals::SIZE).unwrap();
        for file in [open, odd] {
            assert_eq!(device.import_physical(file.as_fd(), 0).err(), Some(Error::INVALID_VALUE));
        }
        device.import_physical(good.as_fd(), 0).unwrap();
        // A hole can be punched into a file of large pages, and there may be none to fill it.
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let Ok(large) = rustix::fs::memfd_create(c"openmps-test", flags) else {
            crate::device::say("SKIPPED: this machine has no large pages");
            return;
        };
        // No page is taken for that.
        rustix::fs::ftruncate(&large, CHUNK_BYTES).unwrap();
        memfd::seal(&large, Seals::SIZE).unwrap();
        assert_eq!(device.import_physical(large.as_fd(), 0).err(), Some(Error::INVALID_VALUE));
    }

    /// The unwritten bytes are known of memory that is mapped once and that no other process has.
    #[test]
    fn mapped_memory_is_fresh_until_another_process_can_write_it() {
        let device = TestDevice::with(|settings| settings.check = true);
        let written = device.written.clone().unwrap();
        let unwritten = |address| written.misused(address, 4, true).is_some();
        let bytes = CHUNK_BYTES;
        let [first, second] = [0, 0].map(|at| device.reserve_addresses(bytes, 0, at).unwrap());
        let map = |address, key| device.map(device.default_tenant(), address, bytes, 0, key);
        let physical = device.create_physical(bytes, true, 0).unwrap();
        map(first, physical).unwrap();
        assert!(unwritten(first));
        written.write(first, 4);
        assert!(!unwritten(first) && unwritten(first + 4));
        // At two places: what is written at one is there at the other.
        map(second, physical).unwrap();
        assert!(!unwritten(first + 4) && !unwritten(second));
        device.unmap(second, bytes).unwrap();
        device.unmap(first, bytes).unwrap();
        map(first, physical).unwrap();
        assert!(!unwritten(first), "it may have been written before");
        device.unmap(first, bytes).unwrap();
        // Another stream uses it.
        let given = device.create_physical(bytes, true, 0).unwrap();
        map(first, given).unwrap();
        assert!(unwritten(first));
        drop(device.export_physical(given).unwrap());
        assert!(!unwritten(first));
        device.unmap(first, bytes).unwrap();
        device.free_addresses(first, bytes).unwrap();
        device.free_addresses(second, bytes).unwrap();
    }
}
