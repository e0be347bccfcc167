//! Pointer attributes: what cuPointerGetAttribute and cuPointerGetAttributes say of an address.

use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::{memory_type, pointer_attribute as attribute};
use cuda_api::pointer::Out;
use cuda_api::{CUcontext, CUdevice, CUmemoryPool, CUresult, CudaError};

/// Most attributes asked for at once: there are 20.
const ATTRIBUTES_MAX: usize = 64;
/// CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE.
const ACCESS_READ_WRITE: c_uint = 3;
/// The ordinal of memory that is not CUDA's.
const NO_DEVICE: c_int = -2;

/// What a driver knows of the memory at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerFacts {
    /// Where the memory begins, and its bytes; 0 of no single piece of memory.
    pub range: (u64, u64),
    /// The context that it was made in, or NULL.
    pub context: CUcontext,
    /// The memory's number; no other memory ever has it.
    pub id: u64,
    /// True for device memory and for managed memory.
    pub on_device: bool,
    /// True for managed memory.
    pub managed: bool,
    /// Where the device finds the address, if it can.
    pub device_address: Option<u64>,
    /// Where the program finds it, if it is the host's or managed.
    pub host_address: Option<u64>,
    /// The device whose memory it is.
    pub device: CUdevice,
    /// True if cuIpcGetMemHandle takes it.
    pub legacy_ipc: bool,
    /// True for mappings, whose memory has handles.
    pub exportable: bool,
    /// The pool that it is of, or NULL.
    pub pool: CUmemoryPool,
}

impl PointerFacts {
    fn memory_type(&self) -> c_uint {
        match (self.on_device, self.host_address) {
            (true, _) => memory_type::DEVICE,
            (_, Some(_)) => memory_type::HOST,
            _ => 0,
        }
    }

    /// cuPointerGetAttribute: stores an attribute's value. CUDA_ERROR_INVALID_VALUE, and 0 where there is
    /// a place, for one that the memory does not have; CUDA_ERROR_INVALID_VALUE for no attribute.
    pub fn attribute(&self, number: c_uint, to: Out<c_void>) -> CUresult {
        // Booleans are as wide as the runtime library reads them.
        let flag = |value: bool| to.cast::<c_uint>().set(value.into());
        let address = |found: Option<u64>| {
            to.cast::<u64>().set(found.unwrap_or(0))?;
            found.map(|_| ()).ok_or(CudaError::INVALID_VALUE)
        };
        match number {
            attribute::CONTEXT => to.cast().set(self.context),
            attribute::MEMORY_TYPE => to.cast().set(self.memory_type()),
            attribute::DEVICE_POINTER => address(self.device_address),
            attribute::HOST_POINTER => address(self.host_address),
            attribute::IS_MANAGED => flag(self.managed),
            attribute::IS_LEGACY_CUDA_IPC_CAPABLE => flag(self.legacy_ipc),
            attribute::IS_GPU_DIRECT_RDMA_CAPABLE | attribute::SYNC_MEMOPS => flag(false),
            attribute::MAPPED => flag(self.device_address.is_some()),
            attribute::BUFFER_ID | attribute::MEMORY_BLOCK_ID => to.cast().set(self.id),
            attribute::DEVICE_ORDINAL => to.cast().set(self.device),
            attribute::RANGE_START_ADDR | attribute::MAPPING_BASE_ADDR => {
                to.cast().set(self.range.0)
            }
            attribute::RANGE_SIZE | attribute::MAPPING_SIZE => to.cast().set(self.range.1),
            attribute::ALLOWED_HANDLE_TYPES => to.cast().set(u64::from(self.exportable)),
            attribute::ACCESS_FLAGS => to.cast().set(ACCESS_READ_WRITE),
            attribute::MEMPOOL_HANDLE => to.cast().set(self.pool),
            _ => Err(CudaError::INVALID_VALUE),
        }
    }
}

/// Stores what stands for an attribute of memory that is not CUDA's.
fn unknown(number: c_uint, to: Out<c_void>) -> CUresult {
    match number {
        attribute::MEMORY_TYPE
        | attribute::SYNC_MEMOPS
        | attribute::IS_MANAGED
        | attribute::IS_LEGACY_CUDA_IPC_CAPABLE
        | attribute::MAPPED
        | attribute::IS_GPU_DIRECT_RDMA_CAPABLE
        | attribute::ACCESS_FLAGS => to.cast().set(0u32),
        attribute::DEVICE_ORDINAL => to.cast().set(NO_DEVICE),
        1..=attribute::MEMORY_BLOCK_ID => to.cast().set(0u64),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// The place for one of several attributes, from the program's array of places.
pub(crate) fn place_at(
    places: Out<*mut c_void>,
    count: usize,
    index: usize,
) -> Result<Out<c_void>, CudaError> {
    places.array(count).as_in().follow(index)
}

/// cuPointerGetAttributes: never fails for want of an attribute, but stores what stands for none.
pub fn attributes(
    facts: Option<&PointerFacts>,
    count: c_uint,
    numbers: Out<c_uint>,
    places: Out<*mut c_void>,
) -> CUresult {
    let count = count as usize;
    if count == 0 || count > ATTRIBUTES_MAX {
        return Err(CudaError::INVALID_VALUE);
    }
    for index in 0..count {
        let number = numbers.array(count).at(index)?;
        let place = place_at(places, count, index)?;
        let stored = facts.is_some_and(|facts| facts.attribute(number, place).is_ok());
        if !stored {
            unknown(number, place)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passed;

    const FACTS: PointerFacts = PointerFacts {
        range: (0x1000, 64),
        context: CUcontext(5),
        id: 9,
        on_device: true,
        managed: false,
        device_address: Some(0x1010),
        host_address: None,
        device: 1,
        legacy_ipc: true,
        exportable: false,
        pool: CUmemoryPool(3),
    };

    fn ask(facts: Option<&PointerFacts>, mut number: c_uint) -> Result<u64, CudaError> {
        let mut value = 0u64;
        let mut place = (&raw mut value).cast::<c_void>();
        attributes(facts, 1, passed(&raw mut number), passed(&raw mut place))?;
        Ok(value)
    }

    #[test]
    fn memory_has_the_attributes_of_what_it_is() {
        for (number, expected) in [
            (attribute::CONTEXT, 5),
            (attribute::MEMORY_TYPE, memory_type::DEVICE.into()),
            (attribute::DEVICE_POINTER, 0x1010),
            (attribute::HOST_POINTER, 0),
            (attribute::BUFFER_ID, 9),
            (attribute::DEVICE_ORDINAL, 1),
            (attribute::RANGE_START_ADDR, 0x1000),
            (attribute::RANGE_SIZE, 64),
            (attribute::MAPPED, 1),
            (attribute::IS_LEGACY_CUDA_IPC_CAPABLE, 1),
            (attribute::MEMPOOL_HANDLE, 3),
        ] {
            assert_eq!(ask(Some(&FACTS), number), Ok(expected), "{number}");
        }
        let host = PointerFacts { on_device: false, host_address: Some(0x1010), ..FACTS };
        assert_eq!(ask(Some(&host), attribute::MEMORY_TYPE), Ok(memory_type::HOST.into()));
        let mut value = 7u64;
        let place = passed((&raw mut value).cast::<c_void>());
        assert_eq!(FACTS.attribute(attribute::HOST_POINTER, place), Err(CudaError::INVALID_VALUE));
        assert_eq!(value, 0);
    }

    #[test]
    fn other_memory_has_none_and_that_is_no_error_of_many() {
        assert_eq!(ask(None, attribute::DEVICE_ORDINAL), Ok(NO_DEVICE as u32 as u64));
        assert_eq!(ask(None, attribute::BUFFER_ID), Ok(0));
        assert_eq!(ask(None, 99), Err(CudaError::INVALID_VALUE));
        assert!(attributes(None, 0, Out::null(), Out::null()).is_err());
        assert!(attributes(None, 1, Out::null(), Out::null()).is_err());
    }
}
