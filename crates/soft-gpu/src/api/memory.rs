//! Device memory: allocation and information.

use cuda_api::resource::check_range_handle;
use cuda_api::*;

use super::{Driver, driver, exports, thread};
use crate::device::limits;
use crate::device::memory::{AllocationKind, PointerKind};
use crate::error::{Error, Result};

impl Driver {
    /// Frees an allocation after all that its context's streams hold, as cuMemFree does.
    pub(crate) fn free_after_work(&self, pointer: CUdeviceptr) -> Result {
        if self.is_imported(pointer.0) {
            return self.close_after_work(pointer);
        }
        let context = thread::current()?;
        let found = self.device.memory.pointer(pointer.0).ok_or(Error::INVALID_VALUE)?;
        let freeable = matches!(
            found.kind,
            PointerKind::Allocation(
                AllocationKind::Device | AllocationKind::Managed | AllocationKind::Pool { .. }
            )
        );
        let tenant = self.tenant();
        if found.base != pointer.0 || !freeable || found.tenant.family != tenant.family {
            return Err(Error::INVALID_VALUE);
        }
        // Memory of another device is waited for there.
        let number = match found.tenant.id == tenant.id {
            true => context.number(),
            false => found.context,
        };
        let group = self.device.group(number, &found.tenant)?;
        // An error of earlier work does not keep the memory.
        let waited = self.device.synchronize_group(group, &found.tenant);
        // A pool may be gone.
        let pool = match found.kind {
            PointerKind::Allocation(AllocationKind::Pool { pool }) => self.pools.get(pool).ok(),
            _ => None,
        };
        self.free_block(pointer.0, found.id, found.bytes, pool.as_deref());
        self.forget_advice(found.base, found.bytes);
        waited
    }
}

exports! {
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let driver = driver()?;
        let context = thread::current()?;
        let (free_bytes, total_bytes) = driver.device.memory.info(context.device);
        free.set_if_wanted(free_bytes as usize);
        total.set_if_wanted(total_bytes as usize);
        Ok(())
    }

    fn cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytesize: usize) {
        let driver = driver()?;
        driver.graphs.unsafe_call()?;
        let context = thread::current()?;
        let tenant = driver.working_tenant()?;
        pointer.set(CUdeviceptr(0))?;
        let (number, bytes) = (context.number(), bytesize as u64);
        let address =
            driver.allocate(&tenant, number, bytes, AllocationKind::Device)?;
        pointer.set(CUdeviceptr(address))
    }

    fn cuMemAllocPitch_v2(
        pointer: *mut CUdeviceptr, p_pitch: *mut usize, width_in_bytes: usize, height: usize,
        element_size_bytes: c_uint,
    ) {
        let driver = driver()?;
        driver.graphs.unsafe_call()?;
        let context = thread::current()?;
        let tenant = driver.working_tenant()?;
        pointer.required()?;
        p_pitch.required()?;
        if !matches!(element_size_bytes, 4 | 8 | 16) || width_in_bytes == 0 || height == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let pitch = (width_in_bytes as u64)
            .checked_next_multiple_of(limits::PITCH_ALIGN)
            .filter(|pitch| *pitch <= limits::PITCH_MAX)
            .ok_or(Error::INVALID_VALUE)?;
        let bytes = pitch.checked_mul(height as u64).ok_or(Error::OUT_OF_MEMORY)?;
        let number = context.number();
        let address =
            driver.allocate(&tenant, number, bytes, AllocationKind::Device)?;
        p_pitch.set(pitch as usize)?;
        pointer.set(CUdeviceptr(address))
    }

    fn cuMemFree_v2(pointer: CUdeviceptr) {
        let driver = driver()?;
        if pointer.0 == 0 {
            return driver.working_tenant().map(|_| ());
        }
        driver.graphs.unsafe_call()?;
        if driver.graphs.free(pointer)? {
            return Ok(());
        }
        driver.free_after_work(pointer)
    }

    fn cuMemGetHandleForAddressRange(
        handle: *mut c_void, dev_ptr: CUdeviceptr, size: usize, handle_type: c_uint, flags: u64,
    ) {
        let driver = driver()?;
        handle.required()?;
        check_range_handle(dev_ptr, size, handle_type, flags)?;
        let found = driver.device.memory.usable(&*driver.working_tenant()?, dev_ptr.0, size as u64);
        found.ok_or(Error::INVALID_VALUE)?;
        // A dma-buf is for other devices' drivers, and nothing here has one.
        Err(Error::NOT_SUPPORTED)
    }

    fn cuMemGetAddressRange_v2(
        pbase: *mut CUdeviceptr, psize: *mut usize, pointer: CUdeviceptr,
    ) {
        let driver = driver()?;
        thread::current()?;
        let found = driver.device.memory.pointer(pointer.0).ok_or(Error::NOT_FOUND)?;
        if found.tenant.family != driver.tenant().family {
            return Err(Error::NOT_FOUND);
        }
        let own = (found.base, found.bytes);
        let (base, bytes) = driver.opened_range(pointer.0).unwrap_or(own);
        pbase.set_if_wanted(CUdeviceptr(base));
        psize.set_if_wanted(bytes as usize);
        Ok(())
    }
}
