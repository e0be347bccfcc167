//! JIT options and build logs: what a module is built with, and what the provider says of it.

use cuda_api::CudaError;
use cuda_api::constants::jit_option;
use std::ffi::c_void;

/// A JIT option whose value is a number, never a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumericJitOption {
    number: u32,
    value: u32,
}

impl NumericJitOption {
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

impl BuildLog {
    /// Keeps at most so many bytes of the information log and of the error log.
    pub fn truncate(&mut self, (info_bytes, error_bytes): (usize, usize)) {
        self.info.truncate(info_bytes);
        self.error.truncate(error_bytes);
    }
}

/// Options and room for logs as a provider's functions take them.
pub(in crate::device) struct JitOptions {
    numbers: Vec<u32>,
    values: Vec<*mut c_void>,
    info: Vec<u8>,
    error: Vec<u8>,
}

impl JitOptions {
    /// Those options, and logs with room for so many bytes.
    pub(in crate::device) fn new(
        options: impl Iterator<Item = NumericJitOption>,
        (info_bytes, error_bytes): (usize, usize),
    ) -> Self {
        let (mut info, mut error) = (vec![0u8; info_bytes], vec![0u8; error_bytes]);
        let (mut numbers, mut values) = (Vec::new(), Vec::new());
        let mut add = |number: u32, value: *mut c_void| {
            numbers.push(number);
            values.push(value);
        };
        for option in options {
            add(option.number(), option.value() as usize as *mut c_void);
        }
        if info_bytes > 0 {
            add(jit_option::INFO_LOG_BUFFER, info.as_mut_ptr().cast());
            add(jit_option::INFO_LOG_BUFFER_SIZE_BYTES, info_bytes as *mut c_void);
        }
        if error_bytes > 0 {
            add(jit_option::ERROR_LOG_BUFFER, error.as_mut_ptr().cast());
            add(jit_option::ERROR_LOG_BUFFER_SIZE_BYTES, error_bytes as *mut c_void);
        }
        Self { numbers, values, info, error }
    }

    /// Their number, and lists as long as that. Pointers among the values are to room as long as the value
    /// behind it says, as long as this lives.
    pub(in crate::device) fn lists(&mut self) -> (u32, *mut u32, *mut *mut c_void) {
        let count = self.numbers.len() as u32;
        (count, self.numbers.as_mut_ptr(), self.values.as_mut_ptr())
    }

    /// What the provider has written.
    pub(in crate::device) fn into_log(self) -> BuildLog {
        BuildLog { info: until_nul(self.info), error: until_nul(self.error) }
    }
}

fn until_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|b| *b == 0) {
        bytes.truncate(end);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_pointers_are_refused() {
        assert!(NumericJitOption::new(jit_option::MAX_REGISTERS, 32).is_ok());
        for pointer in [jit_option::INFO_LOG_BUFFER, jit_option::ERROR_LOG_BUFFER, 19, 1 << 20] {
            assert_eq!(
                NumericJitOption::new(pointer, 0),
                Err(CudaError::INVALID_VALUE),
                "{pointer}"
            );
        }
    }
}
