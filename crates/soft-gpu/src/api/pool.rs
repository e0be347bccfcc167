//! Stream-ordered allocation: cuMemAllocAsync and its pools.
//!
//! Memory is handed out when it is asked for and given back when the stream comes to the free; in
//! between it has no other user, which is all that the order promises.

use std::sync::Arc;

use cuda_api::pointer::Out;
use cuda_api::*;
use driver_common::pool::{Sharing, check_pool_location};

use super::graph::SoftGraphs;
use super::pool_memory::Pool;
use super::{Driver, devices, driver, exports, thread};
use crate::device::memory::{AllocationKind, PointerKind};
use crate::device::stream::Op;
use crate::error::{Error, Result};

impl Driver {
    fn default_pool(&self, device: u32) -> Result<Arc<Pool>> {
        let default = self.default_pools.get(device as usize).ok_or(Error::INVALID_DEVICE)?;
        if let Some(handle) = default.get() {
            return self.pools.get(*handle);
        }
        let make = |handle| Pool::new(handle, device, 0, Sharing::Own);
        let (handle, _) = self.pools.insert_with(make)?;
        let first = *default.get_or_init(|| handle);
        if first != handle {
            let _ = self.pools.remove(handle);
        }
        self.pools.get(first)
    }

    fn current_pool(&self, device: u32) -> Result<Arc<Pool>> {
        let current = self.current_pools.lock();
        match current.get(&device).copied() {
            Some(handle) => self.pools.get(handle).or_else(|_| self.default_pool(device)),
            None => self.default_pool(device),
        }
    }

    /// The device of a stream's memory; the first for a stream that is none, of which another call
    /// says so.
    fn device_of_stream(&self, stream: CUstream, per_thread: bool) -> u32 {
        let properties = |key| self.device.stream_properties(key);
        let found = self.stream(stream, per_thread).and_then(properties);
        found.map_or(0, |(_, _, tenant)| tenant.device)
    }

    /// A pool of the program's; INVALID_VALUE if there is none of that handle.
    pub(super) fn pool(&self, pool: CUmemoryPool) -> Result<Arc<Pool>> {
        self.pools.get(pool.0).map_err(|_| Error::INVALID_VALUE)
    }

    fn set_current_pool(&self, pool: CUmemoryPool, device: u32) -> Result {
        let pool = self.pool(pool)?;
        if matches!(pool.sharing(), Sharing::Imported(_)) || pool.device != device {
            return Err(Error::INVALID_VALUE);
        }
        let mut current = self.current_pools.lock();
        current.insert(device, pool.handle);
        Ok(())
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
        let tenant = match self.device.is_default(&tenant) {
            true => self.device.default_tenant_on(pool.device).clone(),
            false => tenant,
        };
        let address = self.allocate_of(pool, &tenant, number, bytes as u64)?;
        pointer.set(CUdeviceptr(address))
    }
}

impl Driver {
    /// Lets a device touch a pool's memory, or no longer.
    fn set_pool_access(&self, pool: &Pool, device: u32, access: bool) -> Result {
        if device == pool.device {
            // It has access, and that cannot be taken away.
            return if access { Ok(()) } else { Err(Error::INVALID_VALUE) };
        }
        let mut peers = pool.peers.lock();
        if access && !peers.contains(&device) {
            self.device.enable_peer(device, pool.device).map_err(|_| Error::INVALID_DEVICE)?;
            peers.insert(device);
        } else if !access && peers.remove(&device) {
            self.device.disable_peer(device, pool.device);
        }
        Ok(())
    }
}

/// The device whose memory is meant; fails unless it is device memory.
fn check_location(location: Out<CUmemLocation>, kind: u32) -> Result<u32> {
    let location = location.as_in().get()?;
    check_pool_location(location, kind)?;
    devices::check(location.id)
}

exports! {
    fn cuMemAllocAsync(
        pointer: *mut CUdeviceptr, bytesize: usize, stream: CUstream,
    ) | cuMemAllocAsync_ptsz per_thread {
        let driver = driver()?;
        let pool = driver.current_pool(driver.device_of_stream(stream, per_thread))?;
        driver.allocate_in_order(pointer, bytesize, &pool, stream, per_thread)
    }

    fn cuMemAllocFromPoolAsync(
        pointer: *mut CUdeviceptr, bytesize: usize, pool: CUmemoryPool, stream: CUstream,
    ) | cuMemAllocFromPoolAsync_ptsz per_thread {
        let driver = driver()?;
        let pool = driver.pool(pool)?;
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
        if driver.is_imported(pointer.0) {
            let close = move || {
                driver.close_opened(pointer.0);
            };
            return driver.device.enqueue(stream, Op::Internal(Box::new(close))).map(|_| ());
        }
        let found = driver.device.memory.pointer(pointer.0).ok_or(Error::INVALID_VALUE)?;
        let (_, _, tenant) = driver.device.stream_properties(stream)?;
        let freeable = matches!(
            found.kind,
            PointerKind::Allocation(AllocationKind::Pool { .. } | AllocationKind::Device)
        );
        if found.base != pointer.0 || !freeable || found.tenant.family != tenant.family {
            return Err(Error::INVALID_VALUE);
        }
        // Memory of cuMemAlloc is of no pool, and a pool may be gone.
        let pool = match found.kind {
            PointerKind::Allocation(AllocationKind::Pool { pool }) => driver.pools.get(pool).ok(),
            _ => None,
        };
        let (id, bytes) = (found.id, found.bytes);
        // Freed already, and perhaps allocated again, if the program freed it twice.
        let free = move || driver.free_block(pointer.0, id, bytes, pool.as_deref());
        driver.device.enqueue(stream, Op::Internal(Box::new(free))).map(|_| ())
    }

    fn cuDeviceGetDefaultMemPool(pool_out: *mut CUmemoryPool, device: CUdevice) {
        let driver = driver()?;
        pool_out.set(CUmemoryPool(driver.default_pool(devices::check(device)?)?.handle))
    }

    fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
        let driver = driver()?;
        pool.set(CUmemoryPool(driver.current_pool(devices::check(device)?)?.handle))
    }

    fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) {
        let driver = driver()?;
        driver.set_current_pool(pool, devices::check(device)?)
    }

    fn cuMemGetDefaultMemPool(
        pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint,
    ) {
        let driver = driver()?;
        let device = check_location(location, kind)?;
        pool.set(CUmemoryPool(driver.default_pool(device)?.handle))
    }

    fn cuMemGetMemPool(pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: c_uint) {
        let driver = driver()?;
        let device = check_location(location, kind)?;
        pool.set(CUmemoryPool(driver.current_pool(device)?.handle))
    }

    fn cuMemSetMemPool(location: *mut CUmemLocation, kind: c_uint, pool: CUmemoryPool) {
        let device = check_location(location, kind)?;
        driver()?.set_current_pool(pool, device)
    }

    fn cuMemPoolCreate(pool: *mut CUmemoryPool, pool_props: *const CUmemPoolProps) {
        let driver = driver()?;
        pool.required()?;
        let props = pool_props.get()?;
        let sharing = Sharing::of_new(&props)?;
        let device = devices::check(props.location.id).map_err(|_| Error::INVALID_VALUE)?;
        let bytes_max = props.maxSize as u64;
        let make = |handle| Pool::new(handle, device, bytes_max, sharing);
        let made = driver.pools.insert_with(make)?;
        pool.set(CUmemoryPool(made.0))
    }

    fn cuMemPoolDestroy(pool: CUmemoryPool) {
        let driver = driver()?;
        if driver.default_pools.iter().any(|default| default.get() == Some(&pool.0)) {
            return Err(Error::INVALID_VALUE);
        }
        let pool = driver.pools.remove(pool.0).map_err(|_| Error::INVALID_VALUE)?;
        driver.destroy_pool(&pool);
        Ok(())
    }

    fn cuMemPoolTrimTo(pool: CUmemoryPool, min_bytes_to_keep: usize) {
        let driver = driver()?;
        driver.graphs.unsafe_call()?;
        let pool = driver.pool(pool)?;
        driver.trim_pool(&pool, min_bytes_to_keep as u64);
        driver.device.trim(&driver.working_tenant_on(pool.device)?);
        Ok(())
    }

    fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize) {
        let driver = driver()?;
        let pool = driver.pool(pool)?;
        if count == 0 || count > driver.device.count() as usize {
            return Err(Error::INVALID_VALUE);
        }
        for index in 0..count {
            let desc = map.array(count).at(index)?;
            if desc.location.kind != constants::vmm::LOCATION_DEVICE {
                return Err(Error::INVALID_VALUE);
            }
            let device = devices::check(desc.location.id)?;
            let access = match desc.flags {
                constants::vmm::ACCESS_NONE => false,
                constants::vmm::ACCESS_READ_WRITE => true,
                _ => return Err(Error::INVALID_VALUE),
            };
            if !access && device == pool.device {
                return Err(Error::INVALID_DEVICE);
            }
            driver.set_pool_access(&pool, device, access)?;
        }
        Ok(())
    }

    fn cuMemPoolGetAccess(
        flags: *mut c_uint, pool: CUmemoryPool, location: *mut CUmemLocation,
    ) {
        let pool = driver()?.pool(pool)?;
        let location = location.get()?;
        if location.kind != constants::vmm::LOCATION_DEVICE {
            return Err(Error::INVALID_VALUE);
        }
        let device = devices::check(location.id)?;
        let peers = pool.peers.lock();
        let access = device == pool.device || peers.contains(&device);
        flags.set(if access { constants::vmm::ACCESS_READ_WRITE } else { constants::vmm::ACCESS_NONE })
    }

    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void) {
        driver()?.pool(pool)?.attribute(attr, value)
    }

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attr: c_uint, value: *mut c_void) {
        driver()?.pool(pool)?.set_attribute(attr, value)
    }
}
