//! Graphs and capture: the functions are crate graph's; here is what it has to know of the
//! software GPU.

use std::ffi::{c_char, c_uint, c_void};

use cuda_api::pointer::Out;
use cuda_api::*;
use graph::{
    Backend, Conditions, CopyNode, FillNode, Graphs, NodeKind, Parameters, Step, StreamKey,
    StreamOrder,
};

use super::context_waits::Waits;
use super::graph_exec::GraphExec;
use super::prepare::read_parameters;
use super::{Driver, devices, driver, export, thread};
use crate::device::execution::grid::SmMask;
use crate::device::limits::CHUNK_BYTES;
use crate::device::memory::Access;
use crate::device::memory::AllocationKind;
use crate::device::slab::Key;
use crate::device::stream::Stream;
use crate::error::{Error, Result};

/// The driver as crate graph sees it.
#[derive(Clone, Copy)]
pub(crate) struct SoftGraphs(pub(crate) &'static Driver);

/// A stream's number, which is also cuStreamGetId's.
pub(crate) fn stream_id(key: Key<Stream>) -> u64 {
    key.number()
}

fn stream_of(key: StreamKey) -> Key<Stream> {
    Key::from_parts(key.id as u32, (key.id >> 32) as u32)
}

impl Driver {
    /// A stream as captures see it. Streams of one context and tenant take turns with one
    /// legacy default stream: they are what a context is there.
    pub(crate) fn stream_key(&self, key: Key<Stream>) -> Result<StreamKey> {
        let (group, legacy) = self.device.stream_group(key)?;
        let order = match (legacy, self.device.stream_properties(key)?.1) {
            (true, _) => StreamOrder::Legacy,
            (false, true) => StreamOrder::Blocking,
            (false, false) => StreamOrder::NonBlocking,
        };
        Ok(StreamKey { id: stream_id(key), context: group.number(), order })
    }

    /// Work is about to be put into a stream: true if it was captured.
    pub(crate) fn captured(
        &self,
        stream: Key<Stream>,
        work: impl FnOnce() -> Result<NodeKind>,
    ) -> Result<bool> {
        match self.graphs.capturing() {
            true => self.graphs.capture(self.stream_key(stream)?, work),
            false => Ok(false),
        }
    }

    /// A thread is about to wait for a stream, which a capture forbids.
    pub(crate) fn check_not_capturing(&self, stream: Key<Stream>) -> Result {
        match self.graphs.capturing() {
            true => self.graphs.synchronizing(self.stream_key(stream)?),
            false => Ok(()),
        }
    }
}

impl Backend for SoftGraphs {
    type Exec = GraphExec;

    fn graphs(self) -> &'static Graphs<GraphExec> {
        &self.0.graphs
    }

    fn stream(self, stream: CUstream, per_thread: bool) -> Result<StreamKey> {
        self.0.stream_key(self.0.stream(stream, per_thread)?)
    }

    fn stream_priority(self, stream: CUstream, per_thread: bool) -> Result<i32> {
        Ok(self.0.device.stream_properties(self.0.stream(stream, per_thread)?)?.0)
    }

    fn sms_of_stream(self, stream: CUstream, per_thread: bool) -> Result<SmMask> {
        Ok(self.0.context_of_stream(stream, per_thread)?.sms())
    }

    fn sms_of_context(self, context: CUcontext) -> Result<SmMask> {
        Ok(self.0.context_or_current(context)?.sms())
    }

    fn check_context(self) -> Result {
        thread::current().map(|_| ())
    }

    fn check_device(self, device: CUdevice) -> Result {
        devices::check(device).map(|_| ())
    }

    fn device_of_context(self, context: CUcontext) -> Result<CUdevice> {
        Ok(self.0.context_or_current(context)?.device as CUdevice)
    }

    fn kernel(
        self,
        function: CUfunction,
        config: &CUlaunchConfig,
        params: Out<*mut c_void>,
        extra: Out<*mut c_void>,
    ) -> Result<Parameters> {
        let (mut bytes, mut offsets) = (Box::default(), Box::default());
        self.0.prepare(function, config, |function| {
            bytes = read_parameters(function, params, extra)?;
            offsets = function.info().params.iter().map(|p| p.offset as usize).collect();
            Ok(Box::default())
        })?;
        Ok(Parameters { bytes, offsets })
    }

    fn check_copy(self, copy: &CopyNode) -> Result {
        self.0.copy_of(&*self.0.working_tenant()?, copy).map(|_| ())
    }

    fn check_fill(self, fill: &FillNode) -> Result {
        self.0.fill_of(&*self.0.working_tenant()?, fill).map(|_| ())
    }

    fn check_event(self, event: CUevent) -> Result {
        self.0.events.get(event.0).map(|_| ())
    }

    fn check_mem_ops(self, ops: &[CUstreamBatchMemOpParams]) -> Result {
        let tenant = self.0.working_tenant()?;
        ops.iter().try_for_each(|op| self.0.mem_op(&tenant, op).map(|_| ()))
    }

    fn conditions(self) -> Result<Conditions> {
        Ok(Conditions::Words)
    }

    /// A server's clients bring words of their own memory.
    fn check_foreign_condition(self, word: CUdeviceptr) -> Result {
        self.0.check_word(&*self.0.working_tenant()?, word.0, false)
    }

    fn allocate(self, context: CUcontext, bytes: u64) -> Result<(u64, u64)> {
        let context = self.0.context_or_current(context)?;
        let tenant = self.0.working_tenant_on(context.device)?;
        let (device, number) = (&self.0.device, context.number());
        let address = device.allocate(&tenant, number, bytes, 1, AllocationKind::Device)?;
        let made = device.memory.pointer(address).ok_or(Error::OUT_OF_MEMORY)?;
        Ok((address, made.id))
    }

    fn free(self, address: u64, number: u64) {
        if self.0.device.memory.pointer(address).is_some_and(|found| found.id == number) {
            // No caller is left that could get an error of the work that was waited for.
            let _ = self.0.free_after_work(CUdeviceptr(address));
        }
    }

    fn reserve(self, bytes: u64) -> Result<Option<(u64, u64)>> {
        thread::current()?;
        if bytes < CHUNK_BYTES {
            return Ok(None);
        }
        let whole = bytes.checked_next_multiple_of(CHUNK_BYTES).ok_or(Error::OUT_OF_MEMORY)?;
        Ok(Some((self.0.device.reserve_addresses(whole, 1, 0)?, whole)))
    }

    fn back(self, number: CUdevice, address: u64, bytes: u64) -> Result {
        let (tenant, device) = (self.0.working_tenant()?, &self.0.device);
        let number = number as u32;
        let memory = device.create_physical(bytes, false, number)?;
        let mapped = device.map(&tenant, address, bytes, 0, memory);
        // The mapping keeps it.
        device.release_physical(memory)?;
        mapped?;
        device.set_access(address, bytes, number, Access::ReadWrite)
    }

    fn unback(self, address: u64, bytes: u64) -> Result {
        let (tenant, device) = (self.0.tenant(), &self.0.device);
        // An error of earlier work does not keep the memory, nor a context that is gone.
        let _ = thread::current()
            .and_then(|context| device.group(context.number(), &tenant))
            .and_then(|group| device.synchronize_group(group, &tenant));
        device.unmap(address, bytes)
    }

    fn unreserve(self, address: u64, bytes: u64) {
        // Its context may be gone, with all that was mapped.
        let _ = self.0.device.free_addresses(address, bytes);
    }

    fn instantiate(self, steps: &[Step]) -> Result<GraphExec> {
        GraphExec::new(self.0, steps)
    }

    fn launch(self, exec: &mut GraphExec, stream: StreamKey) -> Result {
        exec.launch(stream_of(stream))
    }

    fn finish(self, exec: &mut GraphExec) {
        exec.finish();
    }
}

/// Exports each row of graphs: crate graph's function of that name.
macro_rules! export_graphs {
    ($($number:literal $policy:ident $name:ident $(| $variant:ident)?
        ($($params:tt)*);)*) => {
        /// What this file exports.
        pub(crate) static EXPORTS: &[super::Export] = &[
            $(
                super::Export { name: stringify!($name), address: $name as *const c_void },
                $(super::Export { name: stringify!($variant), address: $variant as *const c_void },)?
            )*
        ];

        $(export_graphs!(@row $name [$($variant)?] ($($params)*));)*
    };
    (@row $name:ident [] $params:tt) => {
        export_graphs!(@export $name $name [] $params);
    };
    (@row $name:ident [$variant:ident] $params:tt) => {
        export_graphs!(@export $name $name [false] $params);
        export_graphs!(@export $variant $name [true] $params);
    };
    (@export $export:ident $name:ident [$($per_thread:literal)?]
        ($($param:ident: $ty:ty),* $(,)?)) => {
        export!($export($($param: $ty),*), Waits::Nothing, {
            graph::api::$name(SoftGraphs(driver()?), $($per_thread,)? $($param),*)
        });
    };
}

graph_functions!(export_graphs);
