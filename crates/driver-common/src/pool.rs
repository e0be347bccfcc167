//! What pools of memory can be made of.

use crate::CudaError;
use crate::constants::vmm;
use crate::types::CUmemLocation;
use core::ffi::c_uint;

/// CUmemLocationType and CUmemAllocationType: the last one of each.
const LOCATION_LAST: c_uint = 4;
const ALLOCATION_MANAGED: c_uint = 2;

/// Fails unless a pool can be of memory of that kind in that place: CUDA_ERROR_NOT_SUPPORTED for
/// the host's memory and for managed memory, CUDA_ERROR_INVALID_VALUE for what is no such thing.
/// Whether there is the device is not asked.
pub fn check_pool_location(location: CUmemLocation, kind: c_uint) -> Result<(), CudaError> {
    match (kind, location.kind) {
        (vmm::ALLOCATION_PINNED, vmm::LOCATION_DEVICE) => Ok(()),
        (vmm::ALLOCATION_PINNED | ALLOCATION_MANAGED, 1..=LOCATION_LAST) => {
            Err(CudaError::NOT_SUPPORTED)
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// The error for a kind of handles that a pool cannot be shared by: CUDA_ERROR_NOT_SUPPORTED for one
/// that CUDA has, CUDA_ERROR_INVALID_VALUE for what is no such thing.
pub fn check_pool_handles(kind: c_uint) -> CudaError {
    const WIN32: c_uint = 2;
    const WIN32_KMT: c_uint = 4;
    const FABRIC: c_uint = 8;
    match kind {
        WIN32 | WIN32_KMT | FABRIC => CudaError::NOT_SUPPORTED,
        _ => CudaError::INVALID_VALUE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_of_device_memory() {
        let check = |kind, place| check_pool_location(CUmemLocation { kind: place, id: 0 }, kind);
        assert_eq!(check(vmm::ALLOCATION_PINNED, vmm::LOCATION_DEVICE), Ok(()));
        assert_eq!(check(vmm::ALLOCATION_PINNED, 2), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(check(ALLOCATION_MANAGED, 1), Err(CudaError::NOT_SUPPORTED));
        assert_eq!(check(vmm::ALLOCATION_PINNED, 0), Err(CudaError::INVALID_VALUE));
        assert_eq!(check(7, vmm::LOCATION_DEVICE), Err(CudaError::INVALID_VALUE));
        assert_eq!(check_pool_handles(8), CudaError::NOT_SUPPORTED);
        assert_eq!(check_pool_handles(99), CudaError::INVALID_VALUE);
    }
}
