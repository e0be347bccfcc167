//! What a library that offers graphs brings along.

use crate::conditional::Conditions;
use crate::node::{CopyNode, Parameters};
use crate::plan::Step;
use crate::store::Graphs;
use crate::stream::StreamKey;
use core::ffi::c_void;
use cuda_api::pointer::Out;
use cuda_api::{
    CUDA_MEMSET_NODE_PARAMS, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUlaunchConfig,
    CUresult, CUstream, CUstreamBatchMemOpParams, CudaError,
};
use std::sync::Arc;

/// A library that offers graphs. `Self` stands for its one instance.
pub trait Backend: Copy + Send + Sync + 'static {
    /// A graph made ready to be launched.
    type Exec: Send + 'static;

    /// All graphs of the process.
    fn graphs(self) -> &'static Graphs<Self::Exec>;

    /// The stream that the program's word stands for; `per_thread` says what NULL means.
    /// Errors: CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_CONTEXT.
    fn stream(self, stream: CUstream, per_thread: bool) -> Result<StreamKey, CudaError>;

    /// A stream's priority, which kernels that it captures have in a graph with priorities of its kernels.
    fn stream_priority(self, stream: CUstream, per_thread: bool) -> Result<i32, CudaError>;

    /// The SMs of a stream's context, if it has not all: kernels that the stream captures keep them.
    /// For a backend whose graphs run where they are launched there are none.
    fn sms_of_stream(
        self,
        _: CUstream,
        _per_thread: bool,
    ) -> Result<Option<Arc<[u32]>>, CudaError> {
        Ok(None)
    }

    /// As [`Backend::sms_of_stream`], of a context; NULL for the current one.
    fn sms_of_context(self, _: CUcontext) -> Result<Option<Arc<[u32]>>, CudaError> {
        Ok(None)
    }

    /// Fails unless the calling thread has a current context.
    fn check_context(self) -> CUresult;

    /// Fails unless there is that device.
    fn check_device(self, device: CUdevice) -> CUresult;

    /// The device of a context; NULL for the current one. CUDA_ERROR_INVALID_CONTEXT if there is none.
    fn device_of_context(self, context: CUcontext) -> Result<CUdevice, CudaError>;

    /// Checks a launch as cuLaunchKernelEx would, and gathers its parameters.
    fn kernel(
        self,
        function: CUfunction,
        config: &CUlaunchConfig,
        params: Out<*mut c_void>,
        extra: Out<*mut c_void>,
    ) -> Result<Parameters, CudaError>;

    /// Checks a copy as cuMemcpy3DAsync would.
    fn check_copy(self, copy: &CopyNode) -> CUresult;

    /// Checks a fill as cuMemsetD2D32Async would.
    fn check_fill(self, fill: &CUDA_MEMSET_NODE_PARAMS) -> CUresult;

    /// Fails unless there is that event.
    fn check_event(self, event: CUevent) -> CUresult;

    /// Checks operations as cuStreamBatchMemOp would.
    fn check_mem_ops(self, ops: &[CUstreamBatchMemOpParams]) -> CUresult;

    /// What conditions of graphs are; CUDA_ERROR_NOT_SUPPORTED if the device cannot choose what runs.
    fn conditions(self) -> Result<Conditions, CudaError>;

    /// Fails unless a word that this process did not make may be a condition.
    fn check_foreign_condition(self, word: CUdeviceptr) -> CUresult;

    /// Device memory for a graph, of a context; NULL for the current one: its address, and a number by
    /// which it is known from what may be there later.
    fn allocate(self, context: CUcontext, bytes: u64) -> Result<(u64, u64), CudaError>;

    /// Frees what [`Backend::allocate`] gave, when no work uses it any more. Nothing if it is gone
    /// already, with its context.
    fn free(self, address: u64, number: u64);

    /// Addresses for memory that can come and go, of the calling thread's context: where they begin, and
    /// how many. `None` for so few bytes that they are better allocated.
    fn reserve(self, bytes: u64) -> Result<Option<(u64, u64)>, CudaError>;

    /// Puts memory of a device behind what [`Backend::reserve`] gave there.
    fn back(self, device: CUdevice, address: u64, bytes: u64) -> CUresult;

    /// Takes it away when no work uses it any more.
    fn unback(self, address: u64, bytes: u64) -> CUresult;

    /// Gives the addresses back, which have no memory.
    fn unreserve(self, address: u64, bytes: u64);

    /// Makes ready to launch what the steps say.
    fn instantiate(self, steps: &[Step]) -> Result<Self::Exec, CudaError>;

    /// As [`Backend::instantiate`] in the place of `old`, whose launches go on as they were.
    fn replace(self, old: Self::Exec, steps: &[Step]) -> Result<Self::Exec, CudaError> {
        drop(old);
        self.instantiate(steps)
    }

    /// Launches in a stream, after all earlier launches of the same.
    fn launch(self, exec: &mut Self::Exec, stream: StreamKey) -> CUresult;

    /// Waits until all launches have ended, well or not.
    fn finish(self, exec: &mut Self::Exec);
}
