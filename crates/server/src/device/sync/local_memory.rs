//! Local memory of the context: taken before there are clients, or by the first launch that needs it.
//!
//! A driver has local memory for as many threads as run at a time. The first launch of a kernel, or of a graph
//! with one, that needs more of it than any before waits for all work of the context. So where it is known
//! what kernels will need, one that needs as much is run first.

use crate::device::safe_calls::DEFAULT_STREAM;
use crate::device::{ContextCall, Device, LaunchShape, Module, Share};
use cuda_api::attributes::MAX_THREADS_PER_MULTIPROCESSOR;
use cuda_api::{CUresult, CudaError};
use std::sync::atomic::Ordering;

/// More local memory has no thread of a GPU, bytes.
const THREAD_BYTES_MAX: u64 = 512 << 10;

/// A kernel whose threads have so much local memory: where they write is known at run time alone, so
/// that it is no register.
fn text(thread_bytes: u64) -> String {
    format!(
        ".version 7.0\n.target sm_75\n.address_size 64\n\
         .visible .entry local(.param .u32 at)\n{{\n\
         .local .align 8 .b8 room[{thread_bytes}];\n\
         .reg .b32 %at; .reg .b64 %to, %room;\n\
         ld.param.u32 %at, [at];\ncvt.u64.u32 %to, %at;\nmov.u64 %room, room;\n\
         add.s64 %to, %to, %room;\ncvta.local.u64 %to, %to;\nst.volatile.u32 [%to], %at;\nret;\n}}\n\0"
    )
}

impl Device {
    /// Has the context take local memory for kernels whose threads need so much, if that is at most
    /// `bytes_max` on the whole device. The device memory that it takes, bytes; 0: none, because it
    /// would be more. The context must be current on this thread, and have no clients.
    ///
    /// # Errors
    /// The provider's.
    pub fn take_local_memory(&self, thread_bytes: u64, bytes_max: u64) -> Result<u64, CudaError> {
        let threads = self.info().attributes[MAX_THREADS_PER_MULTIPROCESSOR as usize];
        let threads = u64::from(self.sms()) * u64::try_from(threads).unwrap_or(0);
        let thread_bytes = thread_bytes.next_multiple_of(8);
        let bytes = threads.saturating_mul(thread_bytes);
        if thread_bytes == 0 || thread_bytes > THREAD_BYTES_MAX || bytes > bytes_max {
            return Ok(0);
        }
        let image = text(thread_bytes).into_bytes();
        let (module, [function]) = Module::load_own(self, image, [c"local"], true)?;
        let (calls, at) = (self.calls(), 0u32);
        let ran = function
            .launch(calls, LaunchShape::one_block(1), DEFAULT_STREAM, &at.to_ne_bytes())
            .and_then(|()| calls.cuStreamSynchronize(DEFAULT_STREAM));
        Module::unload_own(self, module);
        ran?;
        let has = u32::try_from(thread_bytes).unwrap_or(u32::MAX);
        self.local_bytes().fetch_max(has, Ordering::Relaxed);
        Ok(bytes)
    }
}

impl Share {
    /// Makes a call that launches what needs so much local memory a thread, bytes.
    #[inline]
    pub(in crate::device) fn launching(
        &self,
        local_bytes: u32,
        launch: impl FnOnce() -> CUresult,
    ) -> CUresult {
        match local_bytes <= self.device().local_bytes().load(Ordering::Relaxed) {
            true => self.submission_time().of(launch),
            false => self.growing(local_bytes, launch),
        }
    }

    #[cold]
    fn growing(&self, local_bytes: u32, launch: impl FnOnce() -> CUresult) -> CUresult {
        self.unless_it_ends(ContextCall::GrowLocalMemory, launch)?;
        self.device().local_bytes().fetch_max(local_bytes, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_one() {
        let text = text(64);
        let module = ptx::parse(text.trim_end_matches('\0')).expect("it can be read");
        ptx::check(&module).expect("it is right");
    }
}
