//! Nodes that call the program, and nodes that are graphs.

use super::{Place, get, set, set_in_exec};
use crate::backend::Backend;
use crate::id::graph_word;
use crate::node::{HostNode, NodeKind};
use core::ffi::c_void;
use cuda_api::pointer::{In, Out};
use cuda_api::{CUDA_HOST_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode, CUresult, CudaError};

pub(super) fn describe_host(params: &CUDA_HOST_NODE_PARAMS) -> Result<NodeKind, CudaError> {
    match params.function {
        None => Err(CudaError::INVALID_VALUE),
        function => Ok(NodeKind::Host(HostNode { function, user_data: params.userData as usize })),
    }
}

pub fn cuGraphAddHostNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    params: In<CUDA_HOST_NODE_PARAMS>,
) -> CUresult {
    Place::new(graph, dependencies, count).add(b, node, || describe_host(&params.get()?))
}

pub(super) fn show_host(node: &HostNode) -> CUDA_HOST_NODE_PARAMS {
    CUDA_HOST_NODE_PARAMS { function: node.function, userData: node.user_data as *mut c_void }
}

pub fn cuGraphHostNodeGetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: Out<CUDA_HOST_NODE_PARAMS>,
) -> CUresult {
    params.set(get(b, node, |kind| match kind {
        NodeKind::Host(host) => Some(show_host(host)),
        _ => None,
    })?)
}

pub fn cuGraphHostNodeSetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: In<CUDA_HOST_NODE_PARAMS>,
) -> CUresult {
    set(b, node, describe_host(&params.get()?)?)
}

pub fn cuGraphExecHostNodeSetParams<B: Backend>(
    b: B,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_HOST_NODE_PARAMS>,
) -> CUresult {
    set_in_exec(b, exec, node, describe_host(&params.get()?)?)
}

/// A node with a copy of a graph.
pub(super) fn describe_child<B: Backend>(b: B, child: CUgraph) -> Result<NodeKind, CudaError> {
    let mut tables = b.graphs().lock();
    let child = tables.graph_id(child)?;
    Ok(NodeKind::Child(tables.clone_graph(child, true)?))
}

pub fn cuGraphAddChildGraphNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    child: CUgraph,
) -> CUresult {
    Place::new(graph, dependencies, count).add(b, node, || describe_child(b, child))
}

pub fn cuGraphChildGraphNodeGetGraph<B: Backend>(
    b: B,
    node: CUgraphNode,
    graph: Out<CUgraph>,
) -> CUresult {
    graph.set(graph_word(get(b, node, |kind| match kind {
        NodeKind::Child(child) => Some(*child),
        _ => None,
    })?))
}
