//! Contexts: what of them depends on no device. Their flags, and when a primary context is in use.

use core::ffi::c_uint;
use cuda_api::constants::ctx_flags;
use cuda_api::{CUresult, CudaError};

/// What cuCtxGetApiVersion says: the API has been stable since CUDA 3.2.
pub const API_VERSION: c_uint = 3020;

/// CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE: what all devices of today have.
pub const FOUR_BYTE_BANKS: c_uint = 1;

/// CUDA_ERROR_INVALID_VALUE for flags that no context has, and for two scheduling modes at once.
pub fn check_flags(flags: c_uint) -> CUresult {
    let one_schedule = matches!(flags & ctx_flags::SCHED_MASK, 0 | 1 | 2 | 4);
    check(flags & !ctx_flags::MASK == 0 && one_schedule)
}

/// CUDA_ERROR_INVALID_VALUE for what is no CUfunc_cache.
pub fn check_cache_config(config: c_uint) -> CUresult {
    const PREFER_EQUAL: c_uint = 3;
    check(config <= PREFER_EQUAL)
}

/// CUDA_ERROR_INVALID_VALUE for what is no CUsharedconfig; no device of today can follow one.
pub fn check_shared_mem_config(config: c_uint) -> CUresult {
    const EIGHT_BYTE_BANKS: c_uint = 2;
    check(config <= EIGHT_BYTE_BANKS)
}

fn check(condition: bool) -> CUresult {
    if condition { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}

/// How often a program retains a primary context, and whether the context is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrimaryUse {
    retains: u32,
    /// False after a reset until the program retains it again, however often it did before.
    active: bool,
}

impl PrimaryUse {
    /// True while the context can be used.
    pub fn is_active(self) -> bool {
        self.active
    }

    /// Counts a retain; the context is in use. CUDA_ERROR_INVALID_VALUE for more than can be counted.
    pub fn retain(&mut self) -> CUresult {
        self.retains = self.retains.checked_add(1).ok_or(CudaError::INVALID_VALUE)?;
        self.active = true;
        Ok(())
    }

    /// Counts a release; true if that ended the use, so that what belongs to the context has to go.
    /// CUDA_ERROR_INVALID_CONTEXT if nothing retains it.
    pub fn release(&mut self) -> Result<bool, CudaError> {
        self.retains = self.retains.checked_sub(1).ok_or(CudaError::INVALID_CONTEXT)?;
        Ok(self.retains == 0 && core::mem::take(&mut self.active))
    }

    /// Ends the use until the next retain, and counts the retains on, as CUDA does; true if the context
    /// was in use.
    pub fn reset(&mut self) -> bool {
        core::mem::take(&mut self.active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_context_is_in_use_until_its_last_release_or_a_reset() {
        let mut primary = PrimaryUse::default();
        assert_eq!(primary.release(), Err(CudaError::INVALID_CONTEXT));
        primary.retain().unwrap();
        primary.retain().unwrap();
        assert_eq!((primary.release(), primary.is_active()), (Ok(false), true));
        assert!(primary.reset());
        assert!(!primary.is_active() && !primary.reset());
        // A reset does not release it.
        assert_eq!(primary.release(), Ok(false));
        primary.retain().unwrap();
        assert_eq!((primary.release(), primary.is_active()), (Ok(true), false));
    }

    #[test]
    fn a_context_schedules_in_one_mode() {
        assert!([0, 1, 2, 4, 8, 16].into_iter().all(|flags| check_flags(flags).is_ok()));
        assert_eq!(check_flags(3), Err(CudaError::INVALID_VALUE));
        assert_eq!(check_flags(1 << 20), Err(CudaError::INVALID_VALUE));
        assert_eq!((check_cache_config(3), check_cache_config(4).is_err()), (Ok(()), true));
        assert_eq!(
            (check_shared_mem_config(2), check_shared_mem_config(3).is_err()),
            (Ok(()), true)
        );
    }
}
