//! Managed memory. All memory of this device is the host's, so it is coherent as it is: advice and
//! prefetching move nothing; what was said is kept and read back.

use cuda_api::advice::location_of;
use cuda_api::*;
use driver_common::managed::{check_allocation_flags, check_attachment, range_attributes};

use super::{Driver, driver, exports, thread};
use crate::device::memory::{AllocationKind, PointerKind};
use crate::error::{Error, Result};

impl Driver {
    /// INVALID_VALUE unless all of a range is managed memory of this thread's tenant.
    fn managed(&self, pointer: CUdeviceptr, bytes: usize) -> Result<(u64, u64)> {
        let range = (pointer.0, bytes as u64);
        match self.device.memory.usable(&self.tenant(), range.0, range.1) {
            Some(found)
                if found.kind == PointerKind::Allocation(AllocationKind::Managed) && bytes > 0 =>
            {
                Ok(range)
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }

    /// Forgets what was said about memory that is gone.
    pub(super) fn forget_advice(&self, start: u64, bytes: u64) {
        self.advice.lock().forget(start, bytes);
    }

    fn advise(
        &self,
        pointer: CUdeviceptr,
        bytes: usize,
        advice: u32,
        location: CUmemLocation,
    ) -> Result {
        thread::current()?;
        let range = self.managed(pointer, bytes)?;
        let mut map = self.advice.lock();
        map.advise(range, advice, location, self.device.count() as usize)
    }

    fn prefetch(&self, pointer: CUdeviceptr, bytes: usize, location: CUmemLocation) -> Result {
        let range = self.managed(pointer, bytes)?;
        let mut map = self.advice.lock();
        map.prefetch(range, location, self.device.count() as usize)
    }

    fn range_attribute(
        &self,
        data: cuda_api::pointer::Out<std::ffi::c_void>,
        data_bytes: usize,
        attribute: u32,
        pointer: CUdeviceptr,
        bytes: usize,
    ) -> Result {
        let words = data.cast::<i32>();
        words.required()?;
        let words = words.array(data_bytes / size_of::<i32>());
        let range = self.managed(pointer, bytes)?;
        let map = self.advice.lock();
        map.attribute(range, attribute, data_bytes, |index, value| words.set(index, value))
    }
}

exports! {
    fn cuMemAllocManaged(pointer: *mut CUdeviceptr, bytesize: usize, flags: c_uint) {
        let driver = driver()?;
        let context = thread::current()?;
        let tenant = driver.working_tenant()?;
        driver.graphs.unsafe_call()?;
        pointer.required()?;
        check_allocation_flags(flags)?;
        let (number, bytes) = (context.number(), bytesize as u64);
        let address =
            driver.device.allocate(&tenant, number, bytes, 1, AllocationKind::Managed)?;
        pointer.set(CUdeviceptr(address))
    }

    fn cuMemPrefetchAsync_v2(
        dev_ptr: CUdeviceptr, count: usize, location: CUmemLocation, flags: c_uint,
        stream: CUstream,
    ) | cuMemPrefetchAsync_v2_ptsz per_thread {
        let driver = driver()?;
        driver.stream(stream, per_thread)?;
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        driver.prefetch(dev_ptr, count, location)
    }

    fn cuMemPrefetchAsync(
        dev_ptr: CUdeviceptr, count: usize, device: CUdevice, stream: CUstream,
    ) | cuMemPrefetchAsync_ptsz per_thread {
        let driver = driver()?;
        driver.stream(stream, per_thread)?;
        driver.prefetch(dev_ptr, count, location_of(device))
    }

    fn cuMemAdvise_v2(
        dev_ptr: CUdeviceptr, count: usize, advice: c_uint, location: CUmemLocation,
    ) {
        driver()?.advise(dev_ptr, count, advice, location)
    }

    fn cuMemAdvise(dev_ptr: CUdeviceptr, count: usize, advice: c_uint, device: CUdevice) {
        driver()?.advise(dev_ptr, count, advice, location_of(device))
    }

    fn cuMemRangeGetAttribute(
        data: *mut c_void, data_size: usize, attribute: c_uint, dev_ptr: CUdeviceptr,
        count: usize,
    ) {
        let driver = driver()?;
        thread::current()?;
        driver.range_attribute(data, data_size, attribute, dev_ptr, count)
    }

    fn cuMemRangeGetAttributes(
        data: *mut *mut c_void, data_sizes: *mut usize, attributes: *mut c_uint,
        num_attributes: usize, dev_ptr: CUdeviceptr, count: usize,
    ) {
        let driver = driver()?;
        thread::current()?;
        range_attributes(data, data_sizes, attributes, num_attributes, |place, bytes, number| {
            driver.range_attribute(place, bytes, number, dev_ptr, count)
        })
    }

    fn cuStreamAttachMemAsync(
        stream: CUstream, pointer: CUdeviceptr, length: usize, flags: c_uint,
    ) | cuStreamAttachMemAsync_ptsz per_thread {
        // Both sides always see it alike: it is attached to every stream.
        let driver = driver()?;
        // An attachment has no node.
        driver.check_not_capturing(driver.stream(stream, per_thread)?)?;
        check_attachment(flags)?;
        // No length stands for the whole allocation.
        driver.managed(pointer, length.max(1)).map(|_| ())
    }
}
