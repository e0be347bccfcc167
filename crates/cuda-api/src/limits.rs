//! Limits of a context (CUlimit): what they are at first, and what becomes of a value that a program
//! sets. Measured on an H200 with CUDA 13.0; what a limit does is not here.

use crate::CudaError;
use crate::constants::limit::*;
use core::ffi::c_uint;

/// How many limits can be set: those up to [`PERSISTING_L2_CACHE_SIZE`].
const SETTABLE: usize = PERSISTING_L2_CACHE_SIZE as usize + 1;
/// The first number that no version knows as a limit.
const UNKNOWN: c_uint = 10;

/// Largest stack of a thread, bytes.
const STACK_BYTES_MAX: usize = 512 << 10;
/// Smallest and largest buffer for what kernels print, bytes.
const PRINTF_BYTES_MIN: usize = 512 << 10;
const PRINTF_BYTES_MAX: usize = 2 << 30;
/// It is a multiple of this.
const PRINTF_UNIT_BYTES: usize = 256;
/// Smallest heap for kernels' `malloc`, bytes.
const HEAP_BYTES_MIN: usize = 4 << 20;
/// It is a multiple of this.
const HEAP_UNIT_BYTES: usize = 64 << 10;
/// Fewest launches of kernels' own that may be pending.
const PENDING_LAUNCHES_MIN: usize = 32;
/// Largest fetch of the second-level cache, bytes.
const FETCH_BYTES_MAX: usize = 128;

/// The limits of one context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits([usize; SETTABLE]);

impl Default for Limits {
    fn default() -> Self {
        // Stack 1 KiB, printf 1 MiB, heap 8 MiB, launches 2048, fetches of 64 bytes, nothing kept.
        Self([1024, 1 << 20, 8 << 20, 0, 2048, 64, 0])
    }
}

impl Limits {
    /// A limit that can be set. CUDA_ERROR_UNSUPPORTED_LIMIT for the depth of kernels that wait for
    /// kernels of their own, which CUDA has given up, and for another one that devices may not
    /// have; CUDA_ERROR_INVALID_VALUE for a number that is no limit.
    pub fn get(&self, limit: c_uint) -> Result<usize, CudaError> {
        match limit {
            DEV_RUNTIME_SYNC_DEPTH => Err(CudaError::UNSUPPORTED_LIMIT),
            limit if limit >= UNKNOWN => Err(CudaError::INVALID_VALUE),
            limit => self.0.get(limit as usize).copied().ok_or(CudaError::UNSUPPORTED_LIMIT),
        }
    }

    /// Sets a limit to the nearest value that can be had. CUDA_ERROR_INVALID_VALUE for a stack that
    /// or fetch that is too large; CUDA_ERROR_NOT_PERMITTED for what only reports on the device.
    pub fn set(&mut self, limit: c_uint, value: usize) -> Result<(), CudaError> {
        if matches!(limit, SHMEM_SIZE | CIG_ENABLED) {
            return Err(CudaError::NOT_PERMITTED);
        }
        self.get(limit)?;
        let value = match limit {
            STACK_SIZE if value > STACK_BYTES_MAX => return Err(CudaError::INVALID_VALUE),
            STACK_SIZE => value.next_multiple_of(16),
            PRINTF_FIFO_SIZE => {
                value.clamp(PRINTF_BYTES_MIN, PRINTF_BYTES_MAX).next_multiple_of(PRINTF_UNIT_BYTES)
            }
            MALLOC_HEAP_SIZE => value
                .max(HEAP_BYTES_MIN)
                .checked_next_multiple_of(HEAP_UNIT_BYTES)
                .ok_or(CudaError::INVALID_VALUE)?,
            DEV_RUNTIME_PENDING_LAUNCH_COUNT => value.max(PENDING_LAUNCHES_MIN),
            MAX_L2_FETCH_GRANULARITY if value > FETCH_BYTES_MAX => {
                return Err(CudaError::INVALID_VALUE);
            }
            _ => value,
        };
        self.0[limit as usize] = value;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_to_what_can_be_had() {
        let mut limits = Limits::default();
        let mut after = |limit, value| limits.set(limit, value).and_then(|()| limits.get(limit));
        assert_eq!(after(STACK_SIZE, 5000), Ok(5008));
        assert_eq!(after(STACK_SIZE, 1 << 20), Err(CudaError::INVALID_VALUE));
        assert_eq!(after(PRINTF_FIFO_SIZE, 1), Ok(512 << 10));
        assert_eq!(after(PRINTF_FIFO_SIZE, 1_000_000), Ok(1_000_192));
        assert_eq!(after(PRINTF_FIFO_SIZE, 1 << 40), Ok(2 << 30));
        assert_eq!(after(MALLOC_HEAP_SIZE, 5000), Ok(4 << 20));
        assert_eq!(after(MALLOC_HEAP_SIZE, 1 << 30), Ok(1 << 30));
        assert_eq!(after(MALLOC_HEAP_SIZE, (8 << 20) + 1), Ok(8_454_144));
        assert_eq!(after(MALLOC_HEAP_SIZE, usize::MAX), Err(CudaError::INVALID_VALUE));
        assert_eq!(after(DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2), Ok(32));
        assert_eq!(after(DEV_RUNTIME_SYNC_DEPTH, 2), Err(CudaError::UNSUPPORTED_LIMIT));
        assert_eq!(after(MAX_L2_FETCH_GRANULARITY, 128), Ok(128));
        assert_eq!(after(MAX_L2_FETCH_GRANULARITY, 1 << 20), Err(CudaError::INVALID_VALUE));
        assert_eq!(after(SHMEM_SIZE, 2), Err(CudaError::NOT_PERMITTED));
        assert_eq!(after(9, 2), Err(CudaError::UNSUPPORTED_LIMIT));
        assert_eq!(after(10, 2), Err(CudaError::INVALID_VALUE));
        assert_eq!(limits.get(STACK_SIZE), Ok(5008));
    }
}
