//! Stream capture.

use super::{check_lossless, read_edges};
use crate::backend::Backend;
use crate::capture::exchange_mode;
use crate::id::graph_word;
use core::ffi::c_uint;
use cuda_api::constants::capture::*;
use cuda_api::pointer::{In, Out};
use cuda_api::{CUgraph, CUgraphEdgeData, CUgraphNode, CUresult, CUstream, CudaError};

pub fn cuStreamBeginCapture<B: Backend>(b: B, per_thread: bool, stream: CUstream) -> CUresult {
    cuStreamBeginCapture_v2(b, per_thread, stream, MODE_GLOBAL)
}

pub fn cuStreamBeginCapture_v2<B: Backend>(
    b: B,
    per_thread: bool,
    stream: CUstream,
    mode: c_uint,
) -> CUresult {
    let stream = b.stream(stream, per_thread)?;
    let mut tables = b.graphs().lock();
    tables.captures.check_begin(stream, mode)?;
    let (graph, number) = (tables.create_graph(), tables.next_number());
    tables.captures.begin(number, stream, graph, None, mode)
}

#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub fn cuStreamBeginCaptureToGraph<B: Backend>(
    b: B,
    per_thread: bool,
    stream: CUstream,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
    mode: c_uint,
) -> CUresult {
    let stream = b.stream(stream, per_thread)?;
    let mut tables = b.graphs().lock();
    let graph = tables.graph_id(graph)?;
    let edges = read_edges(&tables, dependencies, data, count)?;
    for edge in &edges {
        tables.graph(graph)?.node(edge.node)?;
    }
    let number = tables.next_number();
    tables.captures.begin(number, stream, graph, Some(edges), mode)
}

/// Who captured into a graph that was there already may ask for none.
pub fn cuStreamEndCapture<B: Backend>(
    b: B,
    per_thread: bool,
    stream: CUstream,
    graph: Out<CUgraph>,
) -> CUresult {
    let stream = b.stream(stream, per_thread)?;
    let mut tables = b.graphs().lock();
    graph.set_if_wanted(CUgraph::NULL);
    let tables_ref = &mut *tables;
    let ended = tables_ref.captures.end(stream, &tables_ref.graphs)?;
    if ended.discard {
        let removed = tables.remove_graph(ended.graph);
        drop(tables);
        removed.finish();
    }
    ended.result?;
    graph.set_if_wanted(graph_word(ended.graph));
    Ok(())
}

pub fn cuStreamIsCapturing<B: Backend>(
    b: B,
    per_thread: bool,
    stream: CUstream,
    status: Out<c_uint>,
) -> CUresult {
    status.required()?;
    let stream = b.stream(stream, per_thread)?;
    if !b.graphs().capturing() {
        return status.set(STATUS_NONE);
    }
    status.set(b.graphs().lock().captures.status(stream)?.0)
}

pub fn cuStreamGetCaptureInfo<B: Backend>(
    b: B,
    per_thread: bool,
    stream: CUstream,
    status: Out<c_uint>,
    id: Out<u64>,
) -> CUresult {
    let (graph, count) = (Out::null(), Out::null());
    let (dependencies, data) = (Out::null(), Out::null());
    cuStreamGetCaptureInfo_v3(b, per_thread, stream, status, id, graph, dependencies, data, count)
}

#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub fn cuStreamGetCaptureInfo_v2<B: Backend>(
    b: B,
    per_thread: bool,
    stream: CUstream,
    status: Out<c_uint>,
    id: Out<u64>,
    graph: Out<CUgraph>,
    dependencies: Out<*const CUgraphNode>,
    count: Out<usize>,
) -> CUresult {
    let data = Out::null();
    cuStreamGetCaptureInfo_v3(b, per_thread, stream, status, id, graph, dependencies, data, count)
}

#[allow(clippy::too_many_arguments, reason = "cuda.h's signature")]
pub fn cuStreamGetCaptureInfo_v3<B: Backend>(
    b: B,
    per_thread: bool,
    stream: CUstream,
    status: Out<c_uint>,
    id: Out<u64>,
    graph: Out<CUgraph>,
    dependencies: Out<*const CUgraphNode>,
    data: Out<*const CUgraphEdgeData>,
    count: Out<usize>,
) -> CUresult {
    status.required()?;
    let stream = b.stream(stream, per_thread)?;
    if !b.graphs().capturing() {
        return status.set(STATUS_NONE);
    }
    let mut tables = b.graphs().lock();
    let (state, number) = tables.captures.status(stream)?;
    status.set(state)?;
    // The rest is said of active captures only.
    if state != STATUS_ACTIVE {
        return Ok(());
    }
    id.set_if_wanted(number);
    if let Some(capture) = tables.captures.active.get(&number) {
        graph.set_if_wanted(graph_word(capture.graph));
    }
    let line = tables.captures.line(number, stream).ok_or(CudaError::UNKNOWN)?;
    if !dependencies.is_null() {
        check_lossless(!data.is_null(), line.dependencies.iter().map(|edge| &edge.data))?;
    }
    let (nodes, edges, length) = line.show();
    dependencies.set_if_wanted(nodes);
    data.set_if_wanted(edges);
    count.set_if_wanted(length);
    Ok(())
}

pub fn cuStreamUpdateCaptureDependencies<B: Backend>(
    b: B,
    per_thread: bool,
    stream: CUstream,
    dependencies: Out<CUgraphNode>,
    count: usize,
    flags: c_uint,
) -> CUresult {
    let data = In::null();
    cuStreamUpdateCaptureDependencies_v2(b, per_thread, stream, dependencies, data, count, flags)
}

pub fn cuStreamUpdateCaptureDependencies_v2<B: Backend>(
    b: B,
    per_thread: bool,
    stream: CUstream,
    dependencies: Out<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
    flags: c_uint,
) -> CUresult {
    let stream = b.stream(stream, per_thread)?;
    let mut tables = b.graphs().lock();
    let number = tables.captures.enter(stream)?.ok_or(CudaError::ILLEGAL_STATE)?;
    let edges = read_edges(&tables, dependencies.as_in(), data, count)?;
    let graph = tables.captures.active.get(&number).ok_or(CudaError::UNKNOWN)?.graph;
    for edge in &edges {
        tables.graph(graph)?.node(edge.node)?;
    }
    let line = tables.captures.line(number, stream).ok_or(CudaError::UNKNOWN)?;
    match flags {
        ADD_DEPENDENCIES => line.join(edges),
        SET_DEPENDENCIES => line.set(edges),
        _ => return Err(CudaError::INVALID_VALUE),
    }
    Ok(())
}

pub fn cuThreadExchangeStreamCaptureMode<B: Backend>(_: B, mode: Out<c_uint>) -> CUresult {
    let wanted = mode.as_in().get()?;
    if wanted > MODE_RELAXED {
        return Err(CudaError::INVALID_VALUE);
    }
    mode.set(exchange_mode(wanted))
}
