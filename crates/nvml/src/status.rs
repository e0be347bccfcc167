//! NVML's return codes.

use cuda_api::CudaError;
use std::ffi::CStr;

/// Why a call failed: an `nvmlReturn_t` other than NVML_SUCCESS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) u32);

/// NULL where it is not allowed, all that pointers are refused for.
impl From<CudaError> for Failure {
    fn from(_: CudaError) -> Self {
        Self::INVALID_ARGUMENT
    }
}

/// What a function of the API returns.
pub(crate) type Answer<T = ()> = Result<T, Failure>;

macro_rules! failures {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl Failure {
            $(#[doc = $text] #[allow(dead_code, reason = "a table")] pub(crate) const $name: Self = Self($code);)*

            fn text(self) -> Option<&'static CStr> {
                match self.0 {
                    $($code => CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()).ok(),)*
                    _ => None,
                }
            }
        }
    };
}

failures! {
    UNINITIALIZED = 1, "Uninitialized";
    INVALID_ARGUMENT = 2, "Invalid Argument";
    NOT_SUPPORTED = 3, "Not Supported";
    NO_PERMISSION = 4, "Insufficient Permissions";
    ALREADY_INITIALIZED = 5, "Already Initialized";
    NOT_FOUND = 6, "Not Found";
    INSUFFICIENT_SIZE = 7, "Insufficient Size";
    INSUFFICIENT_POWER = 8, "Insufficient External Power";
    DRIVER_NOT_LOADED = 9, "Driver Not Loaded";
    TIMEOUT = 10, "Timeout";
    IRQ_ISSUE = 11, "Interrupt Request Issue";
    LIBRARY_NOT_FOUND = 12, "NVML Shared Library Not Found";
    FUNCTION_NOT_FOUND = 13, "Function Not Found";
    CORRUPTED_INFOROM = 14, "Corrupted infoROM";
    GPU_IS_LOST = 15, "GPU is lost";
    RESET_REQUIRED = 16, "GPU requires restart";
    OPERATING_SYSTEM = 17, "The operating system has blocked the request.";
    LIB_RM_VERSION_MISMATCH = 18, "Driver/library version mismatch";
    IN_USE = 19, "In use by another client";
    MEMORY = 20, "Insufficient Memory";
    NO_DATA = 21, "No data";
    INSUFFICIENT_RESOURCES = 23, "Insufficient Resources";
    ARGUMENT_VERSION_MISMATCH = 25, "Argument version mismatch";
    DEPRECATED = 26, "Deprecated";
    NOT_READY = 27, "Not Ready";
    GPU_NOT_FOUND = 28, "No GPUs found";
    INVALID_STATE = 29, "Invalid State";
    UNKNOWN = 999, "Unknown Error";
}

/// The code of an answer.
pub(crate) fn code(answer: Answer) -> u32 {
    answer.map_or_else(|failure| failure.0, |()| 0)
}

/// What nvmlErrorString answers.
pub(crate) fn text(code: u32) -> &'static CStr {
    match code {
        0 => c"Success",
        code => Failure(code).text().unwrap_or(c"Unknown Error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_words() {
        assert_eq!(text(0), c"Success");
        assert_eq!(text(Failure::NOT_SUPPORTED.0), c"Not Supported");
        assert_eq!(text(12345), c"Unknown Error");
        assert_eq!(code(Err(Failure::NOT_FOUND)), 6);
    }
}
