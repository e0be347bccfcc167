//! Capture hooks: what the functions of streams, events and memory ask before they do their work,
//! namely whether it goes into a capture instead, or must not be done while something is captured.

use crate::backend::Backend;
use crate::memory::{Allocation, Change};
use crate::node::{AllocNode, KernelNode, NodeKind};
use crate::store::{Graphs, Locked, Tables};
use crate::stream::StreamKey;
use core::ffi::{c_uint, c_void};
use cuda_api::constants::launch_attribute::PRIORITY;
use cuda_api::constants::{capture, vmm};
use cuda_api::pointer::Out;
use cuda_api::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUlaunchAttribute, CUlaunchConfig,
    CUmemLocation, CUresult, CUstream, CudaError,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

impl<E: Send + 'static> Graphs<E> {
    /// Work is about to be put into a stream: true if it became a node of a capture's graph.
    pub fn capture(
        &self,
        stream: StreamKey,
        work: impl FnOnce() -> Result<NodeKind, CudaError>,
    ) -> Result<bool, CudaError> {
        if !self.capturing() {
            return Ok(false);
        }
        if self.lock().captures.enter(stream)?.is_none() {
            return Ok(false);
        }
        // The work is described with nothing locked: the backend looks things up for it.
        let kind = work()?;
        let mut tables = self.lock();
        let Some(number) = tables.captures.enter(stream)? else { return Ok(false) };
        add(&mut tables, number, stream, kind)?;
        Ok(true)
    }

    /// A thread waits for a stream, or asks whether it is idle, or is about to put work into it
    /// and wait for that: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if it captures.
    pub fn synchronizing(&self, stream: StreamKey) -> CUresult {
        if !self.capturing() {
            return Ok(());
        }
        self.lock().captures.synchronize(stream)
    }

    /// A thread waits for a context.
    pub fn synchronizing_context(&self, context: u64) -> CUresult {
        if !self.capturing() {
            return Ok(());
        }
        self.lock().captures.synchronize_context(context)
    }

    /// A call of those that are prohibited while something is captured, if the threads' modes
    /// say so: allocating and freeing memory, which may wait for the device.
    pub fn unsafe_call(&self) -> CUresult {
        if !self.capturing() {
            return Ok(());
        }
        self.lock().captures.unsafe_call()
    }

    /// False if recording events and waiting for them needs no asking.
    #[inline(always)]
    pub fn watches_events(&self) -> bool {
        self.capturing() || self.has_captured_events()
    }

    /// An event is about to be recorded: true if it was recorded in a capture.
    pub fn record_event(
        &self,
        stream: StreamKey,
        event: CUevent,
        flags: c_uint,
    ) -> Result<bool, CudaError> {
        let mut tables = self.lock();
        let Some(number) = tables.captures.enter(stream)? else {
            tables.captures.events.remove(&event.0);
            return Ok(false);
        };
        match flags & capture::EVENT_EXTERNAL {
            0 => tables.captures.record(number, stream, event),
            _ => add(&mut tables, number, stream, NodeKind::RecordEvent(event))?,
        }
        Ok(true)
    }

    /// A stream is about to wait for an event, which `has_work` if it was ever recorded: true if
    /// nothing is left to be done.
    pub fn wait_event(
        &self,
        stream: StreamKey,
        event: CUevent,
        flags: c_uint,
        has_work: bool,
    ) -> Result<bool, CudaError> {
        let mut tables = self.lock();
        let own = tables.captures.enter(stream)?;
        if flags & capture::EVENT_EXTERNAL != 0 {
            let number = own.ok_or(CudaError::ILLEGAL_STATE)?;
            add(&mut tables, number, stream, NodeKind::WaitEvent(event))?;
            return Ok(true);
        }
        if tables.captures.wait(own, stream, event)? {
            return Ok(true);
        }
        match (own, has_work) {
            (None, _) => Ok(false),
            // An event that was never recorded is nothing to wait for.
            (Some(_), false) => Ok(true),
            (Some(number), true) => {
                tables.captures.invalidate_one(number);
                Err(CudaError::STREAM_CAPTURE_ISOLATION)
            }
        }
    }

    /// A thread asks about an event, or waits for it: CUDA_ERROR_CAPTURED_EVENT if it was last
    /// recorded in a capture, which that invalidates; else as [`Self::unsafe_call`].
    pub fn asking_event(&self, event: CUevent) -> CUresult {
        if self.has_captured_events() {
            self.lock().captures.ask_event(event)?;
        }
        self.unsafe_call()
    }

    /// CUDA_ERROR_CAPTURED_EVENT if an event was last recorded in a capture.
    pub fn check_event(&self, event: CUevent) -> CUresult {
        if !self.has_captured_events() {
            return Ok(());
        }
        match self.lock().captures.events.contains_key(&event.0) {
            true => Err(CudaError::CAPTURED_EVENT),
            false => Ok(()),
        }
    }

    /// An event is destroyed.
    pub fn forget_event(&self, event: CUevent) {
        if self.has_captured_events() {
            self.lock().captures.events.remove(&event.0);
        }
    }

    /// A stream is destroyed.
    pub fn forget_stream(&self, id: u64) {
        if self.capturing() {
            self.lock().captures.forget_stream(id);
        }
    }

    /// The program frees memory: true if it was a graph's, and is freed by that.
    /// CUDA_ERROR_INVALID_VALUE if it is a graph's, and not the program's.
    pub fn free(&self, pointer: CUdeviceptr) -> Result<bool, CudaError> {
        if !self.has_memory() {
            return Ok(false);
        }
        let mut tables = self.lock();
        let freed = tables.live.remove(&pointer.0);
        let owned = tables.allocations.get(&pointer.0).is_some_and(|a| a.strong_count() > 0);
        // Not before the tables are let go: what is freed is waited for.
        drop(tables);
        match (freed, owned) {
            (Some(_), _) => Ok(true),
            (None, true) => Err(CudaError::INVALID_VALUE),
            (None, false) => Ok(false),
        }
    }
}

fn add<E>(tables: &mut Locked<'_, E>, number: u64, stream: StreamKey, kind: NodeKind) -> CUresult {
    const INVALIDATED: CudaError = CudaError::STREAM_CAPTURE_INVALIDATED;
    let graph = tables.captures.active.get(&number).ok_or(INVALIDATED)?.graph;
    let Tables { captures, graphs, .. } = &mut **tables;
    let line = captures.line(number, stream).ok_or(INVALIDATED)?;
    let edges = line.edges_to(&kind, graphs.get(&graph).ok_or(INVALIDATED)?);
    let is_launch = kind.is_kernel();
    let node = tables.add_node(graph, kind, edges).map_err(|_| INVALIDATED)?;
    if let Some(line) = tables.captures.line(number, stream) {
        line.went_on(node, is_launch);
    }
    Ok(())
}

/// The node of a launch, checked by the backend.
pub fn kernel_node<B: Backend>(
    backend: B,
    function: CUfunction,
    config: &CUlaunchConfig,
    params: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> Result<KernelNode, CudaError> {
    let attributes = config.attributes()?.collect::<Result<_, _>>()?;
    let parameters = backend.kernel(function, config, params, extra)?;
    Ok(KernelNode::new(function, config, attributes, parameters))
}

/// A launch is about to be put into `config`'s stream: true if it was captured, with the events that it
/// asks for.
pub fn capture_launch<B: Backend>(
    backend: B,
    per_thread: bool,
    function: CUfunction,
    config: &CUlaunchConfig,
    params: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> Result<bool, CudaError> {
    let stream = backend.stream(config.stream, per_thread)?;
    let mut events = Vec::new();
    let captured = backend.graphs().capture(stream, || {
        let mut node = kernel_node(backend, function, config, params, extra)?;
        node.sms = backend.sms_of_stream(config.stream, per_thread)?;
        if !node.attributes.iter().any(|attribute| attribute.id == PRIORITY) {
            let priority = backend.stream_priority(config.stream, per_thread)?;
            // 0 is what a kernel has anyway.
            let number = (priority != 0).then(|| CUlaunchAttribute::number(PRIORITY, priority));
            node.attributes.extend(number);
        }
        events.extend(node.attributes.iter().filter_map(CUlaunchAttribute::event_and_edge));
        events.iter().try_for_each(|(event, _)| backend.check_event(*event))?;
        Ok(NodeKind::Kernel(node))
    })?;
    if captured && !events.is_empty() {
        let captures = &mut backend.graphs().lock().captures;
        let number = captures.of(stream).ok_or(CudaError::STREAM_CAPTURE_INVALIDATED)?;
        events.into_iter().for_each(|event| captures.record_in_launch(number, stream, event));
    }
    Ok(captured)
}

/// Memory for a node that allocates.
pub(crate) fn allocate<B: Backend>(backend: B, bytes: u64) -> Result<Arc<Allocation>, CudaError> {
    if bytes == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let graphs = backend.graphs();
    let device = backend.device_of_context(CUcontext::NULL)?;
    let usage = graphs.usages.of(device);
    let allocation = match backend.reserve(bytes)? {
        Some((address, bytes)) => {
            let change: Box<Change> = Box::new(move |backed| match backed {
                true => backend.back(device, address, bytes),
                false => backend.unback(address, bytes),
            });
            let free = move |address| backend.unreserve(address, bytes);
            let reserved = Allocation::reserved(address, bytes, &usage, change, free);
            reserved.set_backed(true)?;
            reserved
        }
        None => {
            let (address, number) = backend.allocate(CUcontext::NULL, bytes)?;
            let free = move |address| backend.free(address, number);
            Allocation::new(address, bytes, &usage, free)
        }
    };
    let mut tables = graphs.lock();
    tables.allocations.retain(|_, known| known.strong_count() > 0);
    tables.allocations.insert(allocation.address, Arc::downgrade(&allocation));
    Ok(allocation)
}

/// Takes memory of a device away that launchable graphs have and no launch uses, the program neither.
pub(crate) fn trim<B: Backend>(backend: B, device: CUdevice) -> CUresult {
    let graphs = backend.graphs();
    let execs: Vec<_> = graphs.lock().execs.values().cloned().collect();
    for exec in execs {
        exec.lock().trim(backend, device)?;
    }
    Ok(())
}

/// Puts the memory back that was taken away: nodes are checked against it.
pub(crate) fn untrim<B: Backend>(backend: B) -> CUresult {
    let graphs = backend.graphs();
    if !graphs.trimmed.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    let known: Vec<_> = graphs.lock().allocations.values().filter_map(Weak::upgrade).collect();
    known.iter().try_for_each(|allocation| allocation.set_backed(true).map(drop))
}

/// Memory is about to be allocated in a stream's order: its address if that was captured.
pub fn capture_alloc<B: Backend>(
    backend: B,
    stream: CUstream,
    per_thread: bool,
    bytes: u64,
) -> Result<Option<CUdeviceptr>, CudaError> {
    if !backend.graphs().capturing() {
        return Ok(None);
    }
    let stream = backend.stream(stream, per_thread)?;
    let mut address = None;
    backend.graphs().capture(stream, || {
        let location = CUmemLocation {
            kind: vmm::LOCATION_DEVICE,
            id: backend.device_of_context(CUcontext::NULL)?,
        };
        let allocation = match vacant(backend, stream, bytes, location)? {
            Some(allocation) => allocation,
            None => allocate(backend, bytes)?,
        };
        address = Some(CUdeviceptr(allocation.address));
        Ok(NodeKind::Alloc(AllocNode { allocation, location, bytes }))
    })?;
    Ok(address)
}

/// Memory that the graph of a stream's capture has freed before the node that comes next.
fn vacant<B: Backend>(
    backend: B,
    stream: StreamKey,
    bytes: u64,
    location: CUmemLocation,
) -> Result<Option<Arc<Allocation>>, CudaError> {
    let mut tables = backend.graphs().lock();
    let Some(number) = tables.captures.enter(stream)? else { return Ok(None) };
    let Some(line) = tables.captures.line(number, stream) else { return Ok(None) };
    let dependencies = line.dependencies.clone();
    let Some(capture) = tables.captures.active.get(&number) else { return Ok(None) };
    let graph = tables.graph(capture.graph)?;
    Ok(graph.vacant(bytes, location, &dependencies).filter(|_| bytes > 0))
}

/// Memory is about to be freed in a stream's order: true if that was captured, or if it was a
/// graph's memory and is freed by that.
pub fn capture_free<B: Backend>(
    backend: B,
    stream: CUstream,
    per_thread: bool,
    pointer: CUdeviceptr,
) -> Result<bool, CudaError> {
    let graphs = backend.graphs();
    if graphs.capturing() {
        let stream = backend.stream(stream, per_thread)?;
        let captured = graphs.capture(stream, || {
            check_allocation(backend, pointer)?;
            Ok(NodeKind::Free(pointer))
        })?;
        if captured {
            return Ok(true);
        }
    }
    graphs.free(pointer)
}

/// Fails unless the address is one that a node allocates.
pub(crate) fn check_allocation<B: Backend>(backend: B, pointer: CUdeviceptr) -> CUresult {
    let tables = backend.graphs().lock();
    let known = tables.allocations.get(&pointer.0).is_some_and(|a| a.strong_count() > 0);
    if known { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}
