//! What pointers point to.

use cuda_api::constants::pointer_attribute;
use cuda_api::*;
use driver_common::pointer::{self, PointerFacts};

use super::{Driver, driver, exports, thread};
use crate::device::memory::{AllocationKind, Pointer, PointerKind};
use crate::error::{Error, Result};

exports! {
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, ptr: CUdeviceptr) {
        let driver = driver()?;
        data.cast::<u8>().required()?;
        let found = driver.own_pointer(ptr).ok_or(Error::INVALID_VALUE)?;
        driver.facts(ptr, &found)?.attribute(attribute, data)
    }

    fn cuPointerGetAttributes(
        num_attributes: c_uint, attributes: *mut c_uint, data: *mut *mut c_void, ptr: CUdeviceptr,
    ) {
        let driver = driver()?;
        let facts = driver.own_pointer(ptr).map(|found| driver.facts(ptr, &found)).transpose()?;
        pointer::attributes(facts.as_ref(), num_attributes, attributes, data)
    }

    fn cuPointerSetAttribute(value: *const c_void, attribute: c_uint, ptr: CUdeviceptr) {
        let driver = driver()?;
        thread::current()?;
        value.cast::<c_uint>().get()?;
        let known = driver.own_pointer(ptr).is_some_and(|p| p.kind.is_device());
        // Memory operations on it are synchronous with the host as far as CUDA asks already.
        if attribute == pointer_attribute::SYNC_MEMOPS && known {
            return Ok(());
        }
        Err(Error::INVALID_VALUE)
    }
}

impl Driver {
    fn own_pointer(&self, pointer: CUdeviceptr) -> Option<Pointer> {
        let mut found = self.device.memory.pointer(pointer.0)?;
        if let Some((base, bytes)) = self.opened_range(pointer.0) {
            (found.base, found.bytes) = (base, bytes);
        }
        (found.tenant.family == self.tenant().family).then_some(found)
    }

    fn facts(&self, pointer: CUdeviceptr, found: &Pointer) -> Result<PointerFacts> {
        let device = found.tenant.device;
        let context = match thread::top()?.filter(|top| top.device == device) {
            Some(current) => current,
            None => self.primary(device)?,
        };
        let on_device = found.kind.is_device();
        let managed = found.kind == PointerKind::Allocation(AllocationKind::Managed);
        Ok(PointerFacts {
            range: (found.base, found.bytes),
            context: CUcontext(context.handle),
            id: found.id,
            on_device,
            managed,
            device_address: Some(pointer.0),
            host_address: (!on_device || managed).then_some(pointer.0),
            device: device as CUdevice,
            legacy_ipc: found.kind == PointerKind::Allocation(AllocationKind::Device),
            exportable: found.kind == PointerKind::Mapping,
            pool: match found.kind {
                PointerKind::Allocation(AllocationKind::Pool { pool }) => CUmemoryPool(pool),
                _ => CUmemoryPool::NULL,
            },
        })
    }
}
