//! Asynchronous errors: which calls report what went wrong with earlier work, and which leave it to others.
//!
//! An error that does not stay (lost work, a launch that the server refused) is reported by one call. It has to
//! be one whose result programs look at:
//!
//! | calls | what they do with such an error | what programs do with theirs |
//! | --- | --- | --- |
//! | that wait for work: cuCtxSynchronize, cuStreamSynchronize, cuEventSynchronize, copies that end with the call, copies from the device to pageable memory | report it: [`Reports::Once`] | check it: what they read next depends on it |
//! | that ask whether work is done: cuStreamQuery, cuEventQuery | return it and leave it: [`Reports::AndLeaves`]. "Done" would be wrong | PyTorch checks it; CuPy's `done` compares it with success and drops it |
//! | all others: launches, allocations, attributes, what destroys something | nothing | PyTorch drops errors of cuMemFree, graphs' ends and capture modes in destructors, and those of cuPointerGetAttribute |
//!
//! A call that reports one is not made again, also if its server was lost meanwhile.

use crate::program::Client;
use core::cell::Cell;
use cuda_api::CUresult;

/// What a call that reports does with an error of earlier work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reports {
    /// It is reported with that.
    Once,
    /// A later call reports it too: programs may not look at this one's result.
    AndLeaves,
}

thread_local! {
    /// This thread's call has met an error of earlier work.
    static REPORTED: Cell<bool> = const { Cell::new(false) };
}

/// True if this thread's call fails with an error of earlier work rather than one of its own.
pub(crate) fn take_reported() -> bool {
    REPORTED.replace(false)
}

impl Client {
    /// An error of earlier work that was not reported yet.
    pub(crate) fn report_error(&self, reports: Reports) -> CUresult {
        self.health()?;
        let region = self.connection().region();
        let error = match reports {
            Reports::Once => region.take_async_error(),
            Reports::AndLeaves => region.async_error(),
        };
        error.inspect_err(|_| REPORTED.set(true))
    }
}
