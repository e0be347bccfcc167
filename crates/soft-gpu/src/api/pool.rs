//! Stream-ordered allocation: cuMemAllocAsync and its pools.
//!
//! Memory is handed out when it is asked for and given back when the stream comes to the free; in
//! between it is nobody else's, which is all that the order promises. Attributes are kept and read
//! back; a pool keeps no memory beyond what the heap keeps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use cuda_api::constants::pool_attribute::*;
use cuda_api::pointer::Out;
use cuda_api::pool::check_pool_location;
use cuda_api::*;

use super::graph::SoftGraphs;
use super::{Driver, devices, driver, exports, thread};
use crate::device::memory::{AllocationKind, PointerKind};
use crate::device::stream::Op;
use crate::error::{Error, Result};

/// Attributes are numbered from 1.
const ATTRIBUTES: usize = USED_MEM_HIGH as usize + 1;

/// A pool.
pub(crate) struct Pool {
    handle: usize,
    /// Most bytes in use; 0 for no limit.
    bytes_max: u64,
    attributes: [AtomicU64; ATTRIBUTES],
}

impl Pool {
    fn new(handle: usize, bytes_max: u64) -> Self {
        let attributes: [AtomicU64; ATTRIBUTES] = Default::default();
        for switch in [
            REUSE_FOLLOW_EVENT_DEPENDENCIES,
            REUSE_ALLOW_OPPORTUNISTIC,
            REUSE_ALLOW_INTERNAL_DEPENDENCIES,
        ] {
            attributes[switch as usize].store(1, Ordering::Relaxed);
        }
        Self { handle, bytes_max, attributes }
    }

    fn add(&self, bytes: u64) {
        for (current, high) in
            [(USED_MEM_CURRENT, USED_MEM_HIGH), (RESERVED_MEM_CURRENT, RESERVED_MEM_HIGH)]
        {
            let now = self.attributes[current as usize].fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.attributes[high as usize].fetch_max(now, Ordering::Relaxed);
        }
    }

    fn subtract(&self, bytes: u64) {
        for current in [USED_MEM_CURRENT, RESERVED_MEM_CURRENT] {
            let _ = self.attributes[current as usize].fetch_update(
                Ordering::Relaxed,
                Ordering::Relaxed,
                |now| Some(now.saturating_sub(bytes)),
            );
        }
    }
}

impl Driver {
    fn default_pool(&self) -> Result<Arc<Pool>> {
        if let Some(handle) = self.default_pool.get() {
            return self.pools.get(*handle);
        }
        let (handle, _) = self.pools.insert_with(|handle| Pool::new(handle, 0))?;
        let first = *self.default_pool.get_or_init(|| handle);
        if first != handle {
            let _ = self.pools.remove(handle);
        }
        self.pools.get(first)
    }

    fn current_pool(&self) -> Result<Arc<Pool>> {
        let current = *self.current_pool.lock().unwrap_or_else(PoisonError::into_inner);
        match current {
            Some(handle) => self.pools.get(handle).or_else(|_| self.default_pool()),
            None => self.default_pool(),
        }
    }

    fn set_current_pool(&self, pool: CUmemoryPool) -> Result {
        let pool = self.pools.get(pool.0).map_err(|_| Error::INVALID_VALUE)?;
        *self.current_pool.lock().unwrap_or_else(PoisonError::into_inner) = Some(pool.handle);
        Ok(())
    }

    /// Memory of a pool, which may be gone, was freed by cuMemFree.
    pub(super) fn pool_freed(&self, pool: usize, bytes: u64) {
        if let Ok(pool) = self.pools.get(pool) {
            pool.subtract(bytes);
        }
    }

    fn allocate_in_order(
        &'static self,
        pointer: cuda_api::pointer::Out<CUdeviceptr>,
        bytes: usize,
        pool: &Pool,
        stream: CUstream,
        per_thread: bool,
    ) -> Result {
        pointer.required()?;
        let captured = graph::capture_alloc(SoftGraphs(self), stream, per_thread, bytes as u64)?;
        if let Some(address) = captured {
            return pointer.set(address);
        }
        let key = self.stream(stream, per_thread)?;
        let (_, _, tenant) = self.device.stream_properties(key)?;
        tenant.alive()?;
        // No bytes at all are NULL, as with NVIDIA's driver.
        if bytes == 0 {
            return pointer.set(CUdeviceptr(0));
        }
        let number = match self.streams.get(stream.0) {
            Ok(entry) => entry.context,
            Err(_) => thread::current()?.number(),
        };
        let bytes = bytes as u64;
        let used = pool.attributes[USED_MEM_CURRENT as usize].load(Ordering::Relaxed);
        if pool.bytes_max != 0 && used.saturating_add(bytes) > pool.bytes_max {
            return Err(Error::OUT_OF_MEMORY);
        }
        let kind = AllocationKind::Pool { pool: pool.handle };
        let address = self.device.allocate(&tenant, number, bytes, 1, kind)?;
        pool.add(bytes);
        pointer.set(CUdeviceptr(address))
    }
}

/// Fails unless the device's memory is meant.
fn check_location(location: Out<CUmemLocation>, kind: u32) -> Result {
    let location = location.as_in().get()?;
    check_pool_location(location, kind)?;
    devices::check(location.id)
}

exports! {
    fn cuMemAllocAsync(
        pointer: *mut CUdeviceptr, bytesize: usize, stream: CUstream,
    ) | cuMemAllocAsync_ptsz per_thread {
        let driver = driver()?;
        let pool = driver.current_pool()?;
        driver.allocate_in_order(pointer, bytesize, &pool, stream, per_thread)
    }

    fn cuMemAllocFromPoolAsync(
        pointer: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, stream: CUstream,
    ) | cuMemAllocFromPoolAsync_ptsz per_thread {
        let driver = driver()?;
        let pool = driver.pools.get(pool.0).map_err(|_| Error::INVALID_VALUE)?;
        driver.allocate_in_order(pointer, bytesize, &pool, stream, per_thread)
    }

    fn cuMemFreeAsync(pointer: CUdeviceptr, stream: CUstream) | cuMemFreeAsync_ptsz per_thread {
        let driver = driver()?;
        if graph::capture_free(SoftGraphs(driver), stream, per_thread, pointer)? {
            return Ok(());
        }
        let stream = driver.stream(stream, per_thread)?;
        if pointer.0 == 0 {
            return Ok(());
        }
        let found = driver.device.memory.pointer(pointer.0).ok_or(Error::INVALID_VALUE)?;
        let (_, _, tenant) = driver.device.stream_properties(stream)?;
        let freeable = matches!(
            found.kind,
            PointerKind::Allocation(AllocationKind::Pool { .. } | AllocationKind::Device)
        );
        if found.base != pointer.0 || !freeable || found.tenant.id != tenant.id {
            return Err(Error::INVALID_VALUE);
        }
        // Memory of cuMemAlloc is of no pool, and a pool may be gone.
        let pool = match found.kind {
            PointerKind::Allocation(AllocationKind::Pool { pool }) => driver.pools.get(pool).ok(),
            _ => None,
        };
        let device = driver.device.clone();
        let (id, bytes) = (found.id, found.bytes);
        let free = move || {
            // Freed already, and perhaps allocated again, if the program freed it twice.
            if device.memory.pointer(pointer.0).is_some_and(|p| p.id == id)
                && device.free(pointer.0, |kind| !matches!(kind, AllocationKind::Module { .. })).is_ok()
                && let Some(pool) = pool
            {
                pool.subtract(bytes);
            }
        };
        driver.device.enqueue(stream, Op::Internal(Box::new(free))).map(|_| ())
    }

    fn cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool, device: CUdevice) {
        let driver = driver()?;
        devices::check(device)?;
        pool_out.set(CUmemoryPool(driver.default_pool()?.handle))
    }

    fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
        let driver = driver()?;
        devices::check(device)?;
        pool.set(CUmemoryPool(driver.current_pool()?.handle))
    }

    fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) {
        let driver = driver()?;
        devices::check(device)?;
        driver.set_current_pool(pool)
    }

    fn cuMemGetDefaultMemPool(
        pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint,
    ) {
        let driver = driver()?;
        check_location(location, kind)?;
        pool.set(CUmemoryPool(driver.default_pool()?.handle))
    }

    fn cuMemGetMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint) {
        let driver = driver()?;
        check_location(location, kind)?;
        pool.set(CUmemoryPool(driver.current_pool()?.handle))
    }

    fn cuMemSetMemPool(location: *mut CUmemLocation, kind: c_uint, pool: CUmemoryPool) {
        check_location(location, kind)?;
        driver()?.set_current_pool(pool)
    }

    fn cuMemPoolCreate(pool: *mut CUmemoryPool, pool_props: *const CUmemPoolProps) {
        let driver = driver()?;
        pool.required()?;
        let props = pool_props.get()?;
        if props.handleTypes != constants::vmm::HANDLE_NONE {
            return Err(Error::NOT_SUPPORTED);
        }
        check_pool_location(props.location, props.allocType)?;
        devices::check(props.location.id)?;
        let bytes_max = props.maxSize as u64;
        let made = driver.pools.insert_with(|handle| Pool::new(handle, bytes_max))?;
        pool.set(CUmemoryPool(made.0))
    }

    fn cuMemPoolDestroy(pool: CUmemoryPool) {
        let driver = driver()?;
        if driver.default_pool()?.handle == pool.0 {
            return Err(Error::INVALID_VALUE);
        }
        driver.pools.remove(pool.0).map(|_| ()).map_err(|_| Error::INVALID_VALUE)
    }

    fn cuMemPoolTrimTo(pool: CUmemoryPool, _min_bytes_to_keep: usize) {
        let driver = driver()?;
        driver.pools.get(pool.0).map_err(|_| Error::INVALID_VALUE)?;
        driver.device.trim(&driver.tenant());
        Ok(())
    }

    fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize) {
        let driver = driver()?;
        driver.pools.get(pool.0).map_err(|_| Error::INVALID_VALUE)?;
        // The pool's own device has access, and that cannot be taken away.
        for index in 0..count.min(2) {
            let desc = map.at(index)?;
            if desc.location.kind != constants::vmm::LOCATION_DEVICE {
                return Err(Error::INVALID_VALUE);
            }
            devices::check(desc.location.id)?;
            if desc.flags != constants::vmm::ACCESS_READ_WRITE {
                return Err(Error::INVALID_VALUE);
            }
        }
        if count > 1 { Err(Error::INVALID_VALUE) } else { Ok(()) }
    }

    fn cuMemPoolGetAccess(
        flags: *mut c_uint, pool: CUmemoryPool, location: *mut CUmemLocation,
    ) {
        let driver = driver()?;
        driver.pools.get(pool.0).map_err(|_| Error::INVALID_VALUE)?;
        let location = location.get()?;
        if location.kind != constants::vmm::LOCATION_DEVICE {
            return Err(Error::INVALID_VALUE);
        }
        devices::check(location.id)?;
        flags.set(constants::vmm::ACCESS_READ_WRITE)
    }

    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void) {
        let driver = driver()?;
        let pool = driver.pools.get(pool.0).map_err(|_| Error::INVALID_VALUE)?;
        let kept = match attr {
            1..=USED_MEM_HIGH => pool.attributes[attr as usize].load(Ordering::Relaxed),
            _ => return Err(Error::INVALID_VALUE),
        };
        // The first three are int, the others cuuint64_t.
        if attr <= REUSE_ALLOW_INTERNAL_DEPENDENCIES {
            value.cast::<c_int>().set(kept as c_int)
        } else {
            value.cast::<u64>().set(kept)
        }
    }

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void) {
        let driver = driver()?;
        let pool = driver.pools.get(pool.0).map_err(|_| Error::INVALID_VALUE)?;
        match attr {
            REUSE_FOLLOW_EVENT_DEPENDENCIES
            | REUSE_ALLOW_OPPORTUNISTIC
            | REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                let switch = value.cast::<c_int>().get()? != 0;
                pool.attributes[attr as usize].store(switch.into(), Ordering::Relaxed);
            }
            RELEASE_THRESHOLD => {
                let bytes = value.cast::<u64>().get()?;
                pool.attributes[attr as usize].store(bytes, Ordering::Relaxed);
            }
            // The high-water marks can only be set back.
            RESERVED_MEM_HIGH | USED_MEM_HIGH => {
                if value.cast::<u64>().get()? != 0 {
                    return Err(Error::INVALID_VALUE);
                }
                let now = pool.attributes[attr as usize - 1].load(Ordering::Relaxed);
                pool.attributes[attr as usize].store(now, Ordering::Relaxed);
            }
            _ => return Err(Error::INVALID_VALUE),
        }
        Ok(())
    }
}
