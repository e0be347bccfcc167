//! Virtual memory: properties of allocations, access to them, and descriptors that come as pointers.

use channel::system::open_descriptor;
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::vmm;
use cuda_api::pointer::Out;
use cuda_api::{CUdevice, CUmemAllocationProp, CUmemLocation, CudaError};
use std::os::fd::BorrowedFd;

/// The properties of memory of a device that is shared by handles of those types.
pub fn properties(device: CUdevice, handle_types: c_uint) -> CUmemAllocationProp {
    CUmemAllocationProp {
        kind: vmm::ALLOCATION_PINNED,
        requestedHandleTypes: handle_types,
        location: CUmemLocation { kind: vmm::LOCATION_DEVICE, id: device },
        win32HandleMetaData: core::ptr::null_mut(),
        compressionType: 0,
        gpuDirectRDMACapable: 0,
        usage: 0,
        reserved: [0; 4],
    }
}

/// The handle types of memory with these properties, whose location is another check.
/// CUDA_ERROR_INVALID_VALUE for other memory than what allocations are of, CUDA_ERROR_NOT_SUPPORTED for
/// handles other than descriptors.
pub fn check_properties(properties: &CUmemAllocationProp) -> Result<c_uint, CudaError> {
    if properties.kind != vmm::ALLOCATION_PINNED {
        return Err(CudaError::INVALID_VALUE);
    }
    match properties.requestedHandleTypes {
        types @ (vmm::HANDLE_NONE | vmm::HANDLE_POSIX_FD) => Ok(types),
        _ => Err(CudaError::NOT_SUPPORTED),
    }
}

/// The descriptor that a program passed in place of a handle, during `f`; it stays the program's.
/// CUDA_ERROR_INVALID_VALUE for one that is not open.
pub fn with_descriptor<R>(
    handle: Out<c_void>,
    f: impl FnOnce(BorrowedFd<'_>) -> Result<R, CudaError>,
) -> Result<R, CudaError> {
    let fd = c_int::try_from(handle.address()).map_err(|_| CudaError::INVALID_VALUE)?;
    f(open_descriptor(fd).map_err(|_| CudaError::INVALID_VALUE)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passed;
    use std::os::fd::AsRawFd;

    #[test]
    fn memory_is_shared_by_descriptors() {
        let own = properties(2, vmm::HANDLE_POSIX_FD);
        assert_eq!(check_properties(&own), Ok(vmm::HANDLE_POSIX_FD));
        let fabric = CUmemAllocationProp { requestedHandleTypes: 8, ..own };
        assert_eq!(check_properties(&fabric), Err(CudaError::NOT_SUPPORTED));
        let managed = CUmemAllocationProp { kind: 2, ..own };
        assert_eq!(check_properties(&managed), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_refused() {
        let of = |fd: usize| with_descriptor(passed(fd as *mut c_void), |fd| Ok(fd.as_raw_fd()));
        assert_eq!(of(1), Ok(1));
        assert_eq!(of(999_999), Err(CudaError::INVALID_VALUE));
        assert_eq!(of(usize::MAX), Err(CudaError::INVALID_VALUE));
    }
}
