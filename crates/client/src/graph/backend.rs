//! Graphs and capture: what crate graph has to know of the client.
//!
//! A graph lives here; the server gets what a launch consists of when the graph is instantiated
//! ([`crate::graph::exec`]).

use crate::graph::exec::ClientExec;
use crate::handles::device_of_word;
use crate::memory::address::Place;
use crate::memory::heap::CHUNK_ALIGNMENT;
use crate::module::kernel_params::PARAM_BYTES_MAX;
use crate::program::Client;
use crate::program::launch::check_launch;
use crate::program::memory::copy3d::Resolved;
use crate::program::memory::fill::check_fill;
use crate::program::streams::at_stream_end;
use crate::program::streams::mem_ops::check_mem_ops;
use crate::stream::DefaultStream;
use crate::stream::table::LEGACY;
use channel::request::GraphCanChoose;
use core::ffi::c_void;
use cuda_api::constants::{stream_flags, vmm};
use cuda_api::handle::Handle;
use cuda_api::pointer::Out;
use cuda_api::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUlaunchConfig, CUmemoryPool, CUresult,
    CUstream, CUstreamBatchMemOpParams, CudaError,
};
use graph::{
    Backend, Conditions, CopyNode, FillNode, Graphs, NodeKind, Parameters, Step, StreamKey,
    StreamOrder,
};
use std::sync::LazyLock;

static GRAPHS: LazyLock<Graphs<ClientExec>> = LazyLock::new(|| {
    // A stream that ends is no part of a capture any more.
    at_stream_end(|stream| GRAPHS.forget_stream(stream));
    Graphs::new()
});

/// Graphs and captures of the process.
#[inline(always)]
pub(crate) fn graphs() -> &'static Graphs<ClientExec> {
    &GRAPHS
}

/// The attached process as crate graph sees it.
#[derive(Clone, Copy)]
pub(crate) struct ClientGraphs(pub(crate) &'static Client);

impl Client {
    /// A stream as captures see it.
    pub(crate) fn stream_key(&self, handle: Handle) -> Result<StreamKey, CudaError> {
        let id = handle.to_word();
        if handle == LEGACY {
            let context = self.contexts().current()?;
            return Ok(StreamKey { id, context, order: StreamOrder::Legacy });
        }
        let stream = *self.state().streams.get(handle).ok_or(CudaError::INVALID_HANDLE)?;
        let order = match stream.flags & stream_flags::NON_BLOCKING {
            0 => StreamOrder::Blocking,
            _ => StreamOrder::NonBlocking,
        };
        Ok(StreamKey { id, context: stream.context, order })
    }

    /// Work is about to be put into a stream: true if it was captured.
    #[inline]
    pub(crate) fn captured(
        &self,
        stream: Handle,
        work: impl FnOnce() -> Result<NodeKind, CudaError>,
    ) -> Result<bool, CudaError> {
        match graphs().capturing() {
            true => graphs().capture(self.stream_key(stream)?, work),
            false => Ok(false),
        }
    }

    /// A thread is about to wait for a stream, which a capture forbids.
    #[inline]
    pub(crate) fn check_not_capturing(&self, stream: Handle) -> CUresult {
        match graphs().capturing() {
            true => graphs().synchronizing(self.stream_key(stream)?),
            false => Ok(()),
        }
    }
}

impl Backend for ClientGraphs {
    type Exec = ClientExec;

    fn graphs(self) -> &'static Graphs<ClientExec> {
        graphs()
    }

    fn stream(self, stream: CUstream, per_thread: bool) -> Result<StreamKey, CudaError> {
        let default = match per_thread {
            true => DefaultStream::PerThread,
            false => DefaultStream::Legacy,
        };
        self.0.stream_key(self.0.stream(stream, default)?)
    }

    fn stream_priority(self, stream: CUstream, per_thread: bool) -> Result<i32, CudaError> {
        let default = match per_thread {
            true => DefaultStream::PerThread,
            false => DefaultStream::Legacy,
        };
        let handle = self.0.stream(stream, default)?;
        let state = self.0.state();
        Ok(state.streams.get(handle).map_or(0, |stream| stream.priority))
    }

    fn check_context(self) -> CUresult {
        self.0.contexts().current().map(|_| ())
    }

    fn check_device(self, device: CUdevice) -> CUresult {
        let found = usize::try_from(device).ok().and_then(|d| self.0.devices().get(d));
        found.map(|_| ()).ok_or(CudaError::INVALID_DEVICE)
    }

    fn device_of_context(self, context: CUcontext) -> Result<CUdevice, CudaError> {
        self.0.contexts().device_of(context)
    }

    fn kernel(
        self,
        function: CUfunction,
        config: &CUlaunchConfig,
        params: Out<*mut c_void>,
        extra: Out<*mut c_void>,
    ) -> Result<Parameters, CudaError> {
        // A node may be a kernel of another device than the current one.
        let device = device_of_word(function.0 as u64);
        let client = device.and_then(|d| self.0.program.client_at(d as usize).ok());
        let client = client.unwrap_or(self.0);
        check_launch(client, function, config)?;
        let mut buffer = Box::new([0; PARAM_BYTES_MAX]);
        let state = client.state();
        let layout = &state.function(function.0)?.1.layout;
        let bytes = layout.fill(params, extra, &mut buffer)?;
        client.write_unseen_by(&buffer[..bytes]);
        let offsets = layout.params().iter().map(|param| param.offset as usize).collect();
        Ok(Parameters { bytes: buffer[..bytes].into(), offsets })
    }

    fn check_copy(self, copy: &CopyNode) -> CUresult {
        Resolved::new(self.0, copy).map(|_| ())
    }

    fn check_fill(self, fill: &FillNode) -> CUresult {
        check_fill(self.0, fill)
    }

    fn check_event(self, event: CUevent) -> CUresult {
        self.0.owner_of_event(event)?.state().events.lookup(event.0).map(|_| ())
    }

    fn check_mem_ops(self, ops: &[CUstreamBatchMemOpParams]) -> CUresult {
        check_mem_ops(self.0, ops).map(|_| ())
    }

    fn conditions(self) -> Result<Conditions, CudaError> {
        Ok(match self.0.call(&GraphCanChoose {})?.numbered {
            0 => Conditions::Words,
            _ => Conditions::Numbers,
        })
    }

    /// All conditions of this process are of its own graphs.
    fn check_foreign_condition(self, _: CUdeviceptr) -> CUresult {
        Err(CudaError::INVALID_VALUE)
    }

    fn allocate(self, context: CUcontext, bytes: u64) -> Result<(u64, u64), CudaError> {
        let device = self.device_of_context(context)?;
        let client = self.0.program.client_at(device as usize)?;
        let context = match context.is_null() {
            true => client.contexts().current()?,
            false => context.0 as u64,
        };
        let address = client.allocate(context, bytes, CUmemoryPool::NULL)?;
        match client.memory().place(address)? {
            Place::Device { tag, .. } => Ok((address, tag.id)),
            _ => Err(CudaError::UNKNOWN),
        }
    }

    fn free(self, address: u64, number: u64) {
        let Ok(client) = self.0.program.knower_of(address) else { return };
        let place = client.memory().place(address);
        if matches!(place, Ok(Place::Device { tag, .. }) if tag.id == number) {
            // No caller is left that could get an error of the work that was waited for.
            let _ = client.free(address);
        }
    }

    fn reserve(self, bytes: u64) -> Result<Option<(u64, u64)>, CudaError> {
        self.0.contexts().current()?;
        // Peers see what is allocated, and not what is mapped.
        if bytes < CHUNK_ALIGNMENT || self.0.program.has_several() {
            return Ok(None);
        }
        let whole = bytes.checked_next_multiple_of(CHUNK_ALIGNMENT);
        let whole = whole.ok_or(CudaError::OUT_OF_MEMORY)?;
        Ok(Some((self.0.reserve_addresses(whole, 0, 0)?, whole)))
    }

    fn back(self, _: CUdevice, address: u64, bytes: u64) -> CUresult {
        let memory = self.0.create_physical(bytes, vmm::HANDLE_NONE)?;
        let mapped = self.0.map_physical(address, bytes, 0, memory);
        // The mapping keeps it.
        self.0.release_physical(memory)?;
        mapped?;
        self.0.set_access(address, bytes, vmm::ACCESS_READ_WRITE)
    }

    fn unback(self, address: u64, bytes: u64) -> CUresult {
        self.0.wait_for_everything()?;
        self.0.unmap_physical(address, bytes)
    }

    fn unreserve(self, address: u64, bytes: u64) {
        // A server that does not answer has no addresses of this client's either.
        let _ = self.0.free_addresses(address, bytes);
    }

    fn instantiate(self, steps: &[Step]) -> Result<ClientExec, CudaError> {
        ClientExec::new(self.0, steps)
    }

    fn replace(self, old: ClientExec, steps: &[Step]) -> Result<ClientExec, CudaError> {
        old.replace(steps)
    }

    fn launch(self, exec: &mut ClientExec, stream: StreamKey) -> CUresult {
        let stream = Handle::from_word(stream.id).ok_or(CudaError::INVALID_HANDLE)?;
        exec.launch(stream)
    }

    fn finish(self, exec: &mut ClientExec) {
        exec.finish();
    }
}
