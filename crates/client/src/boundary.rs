//! The C boundary: what a program passes becomes types that need no further trust
//! ([`cuda_api::pointer`]), and no panic of ours reaches the program. A thread is not cancelled within.

use channel::signals::Uncancellable;
use cuda_api::{CUresult, CudaError};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use cuda_api::pointer::{FromProgram, In, Out};

/// Entry points for which not even the state of cancellation is changed: runtime libraries call them several
/// times for each operation. No call within is a cancellation point; what waits in a launch sees to that.
pub(crate) const fn is_short(name: &str) -> bool {
    matches!(
        name.as_bytes(),
        b"cuLaunchKernel"
            | b"cuCtxGetCurrent"
            | b"cuCtxGetDevice"
            | b"cuCtxGetDevice_v2"
            | b"cuStreamIsCapturing"
            | b"cuStreamGetCaptureInfo"
            | b"cuStreamGetCaptureInfo_v2"
            | b"cuStreamGetCaptureInfo_v3"
    )
}

/// Runs the body of an entry point; a panic in it is CUDA_ERROR_UNKNOWN to the program.
#[inline(always)]
pub(crate) fn guard(is_short: bool, body: impl FnOnce() -> CUresult) -> CUresult {
    let _whole = (!is_short).then(Uncancellable::begin);
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(CudaError::UNKNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_unknown_error() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        assert_eq!(guard(false, || panic!("on purpose")), Err(CudaError::UNKNOWN));
        std::panic::set_hook(hook);
    }
}
