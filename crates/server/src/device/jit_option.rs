//! JIT options and build logs: what a module is built with, and what the provider says of it.

use cuda_api::CudaError;
use cuda_api::constants::jit_option;

/// A JIT option whose value is a number, never a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitOption {
    number: u32,
    value: u32,
}

impl JitOption {
    /// Checks that the option is one whose value is a number: a client must not make the
    /// provider follow a pointer.
    pub fn new(number: u32, value: u32) -> Result<Self, CudaError> {
        use jit_option::*;
        const NUMBERS: &[u32] = &[
            MAX_REGISTERS,
            THREADS_PER_BLOCK,
            OPTIMIZATION_LEVEL,
            TARGET_FROM_CUCONTEXT,
            TARGET,
            FALLBACK_STRATEGY,
            GENERATE_DEBUG_INFO,
            LOG_VERBOSE,
            GENERATE_LINE_INFO,
            CACHE_MODE,
        ];
        if NUMBERS.contains(&number) {
            Ok(Self { number, value })
        } else {
            Err(CudaError::INVALID_VALUE)
        }
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Its value.
    pub fn value(self) -> u32 {
        self.value
    }
}

/// What a provider said while it built a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildLog {
    /// The information log.
    pub info: Vec<u8>,
    /// The error log.
    pub error: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_pointers_are_refused() {
        assert!(JitOption::new(jit_option::MAX_REGISTERS, 32).is_ok());
        for pointer in [jit_option::INFO_LOG_BUFFER, jit_option::ERROR_LOG_BUFFER, 19, 1 << 20] {
            assert_eq!(JitOption::new(pointer, 0), Err(CudaError::INVALID_VALUE), "{pointer}");
        }
    }
}
