//! Pools of memory: what they can be made of, how they are shared, and the rules of their attributes.

use channel::pool_file;
use core::ffi::{c_int, c_uint, c_void};
use cuda_api::constants::{pool_attribute, vmm};
use cuda_api::pointer::Out;
use cuda_api::{CUdevice, CUmemLocation, CUmemPoolProps, CUresult, CudaError};

/// CUmemLocationType and CUmemAllocationType: the last one of each.
const LOCATION_LAST: c_uint = 4;
const ALLOCATION_MANAGED: c_uint = 2;

/// How a pool is shared with other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It is not.
    Own,
    /// Others may import it, and know it by this number.
    Exportable(u64),
    /// It is another process' of that number.
    Imported(u64),
}

impl Sharing {
    /// That of a pool with these properties, whose location and kind are checked; whether there is the
    /// device is not asked. An exportable pool gets a new number.
    pub fn of_new(properties: &CUmemPoolProps) -> Result<Self, CudaError> {
        check_pool_location(properties.location, properties.allocType)?;
        match properties.handleTypes {
            vmm::HANDLE_NONE => Ok(Self::Own),
            vmm::HANDLE_POSIX_FD => pool_file::new_number()
                .map(Self::Exportable)
                .map_err(|_| CudaError::OPERATING_SYSTEM),
            other => Err(check_pool_handles(other)),
        }
    }
}

/// What a pool counts, and what the program set of it.
#[derive(Clone, Debug)]
pub struct PoolState {
    /// The device whose memory it is.
    pub device: CUdevice,
    /// How it is shared.
    pub sharing: Sharing,
    /// Most bytes in use; 0 for no limit.
    pub bytes_max: u64,
    /// Bytes of freed blocks that may stay reserved.
    pub release_threshold: u64,
    /// Bytes in use as the program asked for them.
    pub used: u64,
    /// The most there ever were in use.
    pub used_high: u64,
    /// The most there ever were with the blocks that are freed.
    pub reserved_high: u64,
    /// Attributes 1 to 3, which say what reuse is allowed.
    reuse: [c_int; 3],
}

impl PoolState {
    /// That of a pool of which nothing is allocated.
    pub fn new(device: CUdevice, bytes_max: u64, sharing: Sharing) -> Self {
        Self {
            device,
            sharing,
            bytes_max,
            release_threshold: 0,
            used: 0,
            used_high: 0,
            reserved_high: 0,
            reuse: [1; 3],
        }
    }

    /// Stores an attribute's value (cuMemPoolGetAttribute) of a pool that has so many bytes `reserved`.
    pub fn attribute(&self, reserved: u64, attribute: c_uint, to: Out<c_void>) -> CUresult {
        to.required()?;
        match self.value(reserved, attribute)? {
            (wide, true) => to.cast::<u64>().set(wide),
            (narrow, false) => to.cast::<c_int>().set(narrow as c_int),
        }
    }

    /// The value, and whether it is 64 bits wide.
    fn value(&self, reserved: u64, attribute: c_uint) -> Result<(u64, bool), CudaError> {
        use pool_attribute::*;
        Ok(match attribute {
            REUSE_FOLLOW_EVENT_DEPENDENCIES..=REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                (self.reuse[attribute as usize - 1] as u64, false)
            }
            RELEASE_THRESHOLD => (self.release_threshold, true),
            RESERVED_MEM_CURRENT => (reserved, true),
            RESERVED_MEM_HIGH => (self.reserved_high, true),
            USED_MEM_CURRENT => (self.used, true),
            USED_MEM_HIGH => (self.used_high, true),
            ALLOCATION_TYPE => (vmm::ALLOCATION_PINNED.into(), false),
            EXPORT_HANDLE_TYPES => match self.sharing {
                Sharing::Exportable(_) => (vmm::HANDLE_POSIX_FD.into(), false),
                Sharing::Own | Sharing::Imported(_) => (vmm::HANDLE_NONE.into(), false),
            },
            LOCATION_ID => (self.device as u64, false),
            LOCATION_TYPE => (vmm::LOCATION_DEVICE.into(), false),
            MAX_POOL_SIZE => (self.bytes_max, true),
            HW_DECOMPRESS_ENABLED => (0, false),
            _ => return Err(CudaError::INVALID_VALUE),
        })
    }

    /// Sets an attribute (cuMemPoolSetAttribute) of a pool that has so many bytes `reserved`.
    pub fn set_attribute(
        &mut self,
        reserved: u64,
        attribute: c_uint,
        from: Out<c_void>,
    ) -> CUresult {
        use pool_attribute::*;
        let wide = || from.cast::<u64>().get();
        match attribute {
            REUSE_FOLLOW_EVENT_DEPENDENCIES..=REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
                let allowed = from.cast::<c_int>().get()?;
                self.reuse[attribute as usize - 1] = (allowed != 0).into();
            }
            RELEASE_THRESHOLD => self.release_threshold = wide()?,
            // High-water marks can only be put back.
            RESERVED_MEM_HIGH | USED_MEM_HIGH => match (wide()?, attribute) {
                (0, USED_MEM_HIGH) => self.used_high = self.used,
                (0, _) => self.reserved_high = reserved,
                _ => return Err(CudaError::INVALID_VALUE),
            },
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(())
    }
}

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
fn check_pool_handles(kind: c_uint) -> CudaError {
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
    use crate::passed;

    #[test]
    fn what_is_set_is_read_back() {
        use pool_attribute::*;
        let mut pool = PoolState::new(3, 1 << 20, Sharing::Exportable(7));
        (pool.used, pool.used_high, pool.reserved_high) = (4000, 5000, 8192);
        let mut word = 0u64;
        let to = passed((&raw mut word).cast::<c_void>());
        let read = |pool: &PoolState, attribute| {
            to.cast::<u64>().set(0)?;
            pool.attribute(4096, attribute, to)?;
            to.cast::<u64>().get()
        };
        let set = |pool: &mut PoolState, attribute, value: u64| {
            to.cast::<u64>().set(value)?;
            pool.set_attribute(4096, attribute, to)
        };
        for attribute in 1..=3 {
            assert_eq!(read(&pool, attribute), Ok(1));
            set(&mut pool, attribute, 0).unwrap();
            assert_eq!(read(&pool, attribute), Ok(0));
        }
        set(&mut pool, RELEASE_THRESHOLD, u64::MAX).unwrap();
        assert_eq!(read(&pool, RELEASE_THRESHOLD), Ok(u64::MAX));
        assert_eq!(
            (read(&pool, USED_MEM_CURRENT), read(&pool, USED_MEM_HIGH)),
            (Ok(4000), Ok(5000))
        );
        assert_eq!(
            (read(&pool, RESERVED_MEM_CURRENT), read(&pool, RESERVED_MEM_HIGH)),
            (Ok(4096), Ok(8192))
        );
        assert_eq!(set(&mut pool, USED_MEM_HIGH, 5), Err(CudaError::INVALID_VALUE));
        set(&mut pool, USED_MEM_HIGH, 0).unwrap();
        set(&mut pool, RESERVED_MEM_HIGH, 0).unwrap();
        assert_eq!(
            (read(&pool, USED_MEM_HIGH), read(&pool, RESERVED_MEM_HIGH)),
            (Ok(4000), Ok(4096))
        );
        assert_eq!((read(&pool, LOCATION_ID), read(&pool, EXPORT_HANDLE_TYPES)), (Ok(3), Ok(1)));
        assert_eq!(
            (read(&pool, MAX_POOL_SIZE), read(&pool, 99)),
            (Ok(1 << 20), Err(CudaError::INVALID_VALUE))
        );
        assert_eq!(set(&mut pool, LOCATION_ID, 0), Err(CudaError::INVALID_VALUE));
    }

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
