//! What programs ask of a device to hand it on: its SMs in parts, its memory as files.
//!
//! Neither green contexts nor dma-bufs are offered; libraries still ask how many SMs they have,
//! and a wrong question has the answer that it has everywhere.

use crate::CudaError;
use crate::constants::device_resource::SM;
use crate::constants::range_handle::DMA_BUF_FD;
use crate::types::{CUdevResource, CUdevSmResource, CUdeviceptr};
use core::ffi::{c_int, c_uint};

/// Compute capability from which SMs are parted by clusters.
const WITH_CLUSTERS: c_int = 9;

/// All SMs of a device of that compute capability, as cuDeviceGetDevResource tells of them.
/// CUDA_ERROR_INVALID_VALUE for another type of resource.
pub fn sm_resource(
    kind: c_uint,
    sms: c_uint,
    compute_major: c_int,
) -> Result<CUdevResource, CudaError> {
    if kind != SM {
        return Err(CudaError::INVALID_VALUE);
    }
    // The smallest part that is possible, and what larger ones are multiples of.
    let (least, unit) = match compute_major {
        WITH_CLUSTERS.. => (8, 8),
        8 => (4, 2),
        _ => (2, 2),
    };
    let sm = CUdevSmResource {
        smCount: sms,
        minSmPartitionSize: least,
        smCoscheduledAlignment: unit,
        flags: 0,
        localityDomainId: 0,
    };
    let nextResource = core::ptr::null_mut();
    Ok(CUdevResource { kind, padding: [0; 92], sm, reserved: [0; 20], nextResource })
}

/// Host pages, whose size a range of addresses with a handle has to be a multiple of.
const HOST_PAGE_BYTES: u64 = 4096;

/// Checks what cuMemGetHandleForAddressRange is given, but for whose memory it is.
pub fn check_range_handle(
    pointer: CUdeviceptr,
    bytes: usize,
    handle_type: c_uint,
    flags: u64,
) -> Result<(), CudaError> {
    // CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE
    const FLAGS: u64 = 1;
    let whole = |n: u64| n.is_multiple_of(HOST_PAGE_BYTES);
    let good = handle_type == DMA_BUF_FD
        && flags & !FLAGS == 0
        && bytes != 0
        && whole(pointer.0)
        && whole(bytes as u64);
    if good { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_whole_pages() {
        let check = |at, bytes, kind| check_range_handle(CUdeviceptr(at), bytes, kind, 0).is_ok();
        assert!(check(0x2000, 0x1000, DMA_BUF_FD));
        let wrong = [(0x2001, 0x1000, 1), (0x2000, 5, 1), (0x2000, 0, 1), (0x2000, 0x1000, 2)];
        assert!(!wrong.into_iter().any(|(at, bytes, kind)| check(at, bytes, kind)));
    }

    #[test]
    fn sms_are_told_by_compute_capability() {
        let of = |major| sm_resource(SM, 132, major).unwrap().sm;
        assert_eq!((of(9).smCount, of(9).minSmPartitionSize), (132, 8));
        assert_eq!((of(8).minSmPartitionSize, of(8).smCoscheduledAlignment), (4, 2));
        assert_eq!(sm_resource(7, 132, 9).err(), Some(CudaError::INVALID_VALUE));
    }
}
