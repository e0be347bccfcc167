//! What pointers point to.

use cuda_api::constants::{memory_type, pointer_attribute as attribute};
use cuda_api::pointer::{FromProgram, Out};
use cuda_api::*;

use super::{Driver, driver, exports, thread};
use crate::device::memory::{AllocationKind, Pointer, PointerKind};
use crate::error::{Error, Result};

/// Attributes that one call may ask for: more than there are.
const ATTRIBUTES_MAX: u32 = 64;
/// CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE.
const ACCESS_READ_WRITE: u32 = 3;
/// What cuPointerGetAttributes gives as the ordinal of a pointer it does not know.
const NO_DEVICE: i32 = -2;

exports! {
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, ptr: CUdeviceptr) {
        let driver = driver()?;
        data.cast::<u8>().required()?;
        let found = driver.own_pointer(ptr).ok_or(Error::INVALID_VALUE)?;
        driver.get_attribute(data, attribute, ptr, &found)
    }

    fn cuPointerGetAttributes(
        num_attributes: c_uint, attributes: *mut c_uint, data: *mut *mut c_void, ptr: CUdeviceptr,
    ) {
        let driver = driver()?;
        if num_attributes == 0 || num_attributes > ATTRIBUTES_MAX {
            return Err(Error::INVALID_VALUE);
        }
        let found = driver.own_pointer(ptr);
        let count = num_attributes as usize;
        for index in 0..count {
            let number = attributes.array(count).at(index)?;
            // SAFETY: the program gives a place for each attribute, or NULL.
            let place = unsafe { data.array(count).at(index)?.believe() };
            match &found {
                // One that a pointer does not have is 0, and no error.
                Some(found) => match driver.get_attribute(place, number, ptr, found) {
                    Ok(()) => {}
                    Err(_) => unknown(place, number)?,
                },
                None => unknown(place, number)?,
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute(value: *const c_void, attribute: c_uint, ptr: CUdeviceptr) {
        let driver = driver()?;
        thread::current()?;
        value.cast::<c_uint>().get()?;
        let known = driver.own_pointer(ptr).is_some_and(|p| p.kind.is_device());
        // Memory operations on it are synchronous with the host as far as CUDA asks already.
        if attribute == cuda_api::constants::pointer_attribute::SYNC_MEMOPS && known {
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

    fn get_attribute(
        &self,
        data: Out<std::ffi::c_void>,
        number: u32,
        pointer: CUdeviceptr,
        found: &Pointer,
    ) -> Result {
        let flag = |value: bool| data.cast::<u32>().set(value.into());
        let host = !found.kind.is_device();
        let managed = found.kind == PointerKind::Allocation(AllocationKind::Managed);
        match number {
            attribute::CONTEXT => {
                let device = found.tenant.device;
                let current = thread::top()?.filter(|top| top.device == device);
                let context = match current {
                    Some(current) => current,
                    None => self.primary(device)?,
                };
                data.cast().set(CUcontext(context.handle))
            }
            attribute::MEMORY_TYPE => {
                data.cast().set(if host { memory_type::HOST } else { memory_type::DEVICE })
            }
            attribute::DEVICE_POINTER => data.cast().set(pointer),
            attribute::HOST_POINTER if host || managed => data.cast().set(pointer.0),
            attribute::SYNC_MEMOPS => flag(false),
            attribute::BUFFER_ID => data.cast().set(found.id),
            attribute::IS_MANAGED => flag(managed),
            attribute::DEVICE_ORDINAL => data.cast().set(found.tenant.device as i32),
            attribute::IS_LEGACY_CUDA_IPC_CAPABLE => {
                flag(found.kind == PointerKind::Allocation(AllocationKind::Device))
            }
            attribute::RANGE_START_ADDR | attribute::MAPPING_BASE_ADDR => {
                data.cast().set(found.base)
            }
            attribute::RANGE_SIZE | attribute::MAPPING_SIZE => data.cast().set(found.bytes),
            attribute::MAPPED => flag(true),
            attribute::ALLOWED_HANDLE_TYPES => {
                let mapping = found.kind == PointerKind::Mapping;
                data.cast().set(u64::from(mapping))
            }
            attribute::IS_GPU_DIRECT_RDMA_CAPABLE => flag(false),
            attribute::ACCESS_FLAGS => data.cast().set(ACCESS_READ_WRITE),
            attribute::MEMPOOL_HANDLE => data.cast().set(match found.kind {
                PointerKind::Allocation(AllocationKind::Pool { pool }) => CUmemoryPool(pool),
                _ => CUmemoryPool::NULL,
            }),
            attribute::MEMORY_BLOCK_ID => data.cast().set(found.id),
            _ => Err(Error::INVALID_VALUE),
        }
    }
}

/// Writes what is said of an attribute that a pointer does not have.
fn unknown(data: Out<std::ffi::c_void>, number: u32) -> Result {
    match number {
        attribute::MEMORY_TYPE
        | attribute::SYNC_MEMOPS
        | attribute::IS_MANAGED
        | attribute::IS_LEGACY_CUDA_IPC_CAPABLE
        | attribute::MAPPED
        | attribute::IS_GPU_DIRECT_RDMA_CAPABLE
        | attribute::ACCESS_FLAGS => data.cast().set(0u32),
        attribute::DEVICE_ORDINAL => data.cast().set(NO_DEVICE),
        1..=attribute::MEMORY_BLOCK_ID => data.cast().set(0u64),
        _ => Err(Error::INVALID_VALUE),
    }
}
