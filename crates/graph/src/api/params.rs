//! Nodes of any type from one structure of parameters.

use super::conditional::{describe_conditional, show_conditional};
use super::host::{describe_child, describe_host, show_host};
use super::memory::{describe_alloc, show_alloc};
use super::transfer::{describe_copy, describe_fill, describe_mem_ops, show_mem_ops};
use super::{Place, get, kernel, set, set_in_exec};
use crate::backend::Backend;
use crate::hooks::check_allocation;
use crate::id::graph_word;
use crate::node::NodeKind;
use cuda_api::constants::graph_node::*;
use cuda_api::pointer::{In, Out};
use cuda_api::{
    CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMCPY3D, CUcontext, CUdeviceptr,
    CUevent, CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUgraphNodeBody,
    CUgraphNodeParams, CUresult, CudaError,
};

/// CUgraphChildGraphNodeOwnership.
const OWNERSHIP_CLONE: i32 = 0;
const OWNERSHIP_MOVE: i32 = 1;

/// The body's members, each of which is plain data for which any bits will do.
macro_rules! member {
    ($params:expr, $member:ident) => {
        // SAFETY: integers and pointers that nothing is read through here; a function's address
        // that is 0 is None. The type says which member the program has written.
        unsafe { $params.body.$member }
    };
}

/// The node that the parameters describe; an allocation's address is stored in them.
/// There is no `place` where a node is given other parameters.
fn describe<B: Backend>(
    b: B,
    place: Option<Place>,
    params: &mut CUgraphNodeParams,
) -> Result<NodeKind, CudaError> {
    match params.kind {
        KERNEL => kernel::describe(b, &member!(params, kernel)),
        MEMCPY => describe_copy(b, &member!(params, memcpy).copyParams),
        MEMSET => describe_fill(b, member!(params, memset)),
        HOST => describe_host(&member!(params, host)),
        GRAPH => child(b, member!(params, graph)),
        EMPTY => Ok(NodeKind::Empty),
        WAIT_EVENT => event(b, member!(params, event)).map(NodeKind::WaitEvent),
        EVENT_RECORD => event(b, member!(params, event)).map(NodeKind::RecordEvent),
        MEM_ALLOC => {
            let place = place.ok_or(CudaError::NOT_SUPPORTED)?;
            let mut alloc = member!(params, alloc);
            let kind = describe_alloc(b, place, &mut alloc)?;
            params.body.alloc = alloc;
            Ok(kind)
        }
        MEM_FREE => {
            let pointer: CUdeviceptr = member!(params, free);
            check_allocation(b, pointer)?;
            Ok(NodeKind::Free(pointer))
        }
        BATCH_MEM_OP => describe_mem_ops(b, &member!(params, memOp)),
        _ => Err(CudaError::NOT_SUPPORTED),
    }
}

/// As [`describe`], for a conditional node, which must know its graph.
fn conditional<B: Backend>(
    b: B,
    graph: CUgraph,
    params: &mut CUgraphNodeParams,
) -> Result<NodeKind, CudaError> {
    let mut conditional = member!(params, conditional);
    let kind = describe_conditional(b, graph, &mut conditional)?;
    params.body.conditional = conditional;
    Ok(kind)
}

fn event<B: Backend>(b: B, event: CUevent) -> Result<CUevent, CudaError> {
    b.check_event(event).map(|()| event)
}

fn child<B: Backend>(b: B, params: CUDA_CHILD_GRAPH_NODE_PARAMS) -> Result<NodeKind, CudaError> {
    match params.ownership {
        OWNERSHIP_CLONE => describe_child(b, params.graph),
        OWNERSHIP_MOVE => {
            let mut tables = b.graphs().lock();
            let id = tables.graph_id(params.graph)?;
            let graph = tables.graph_mut(id)?;
            // What a word decides cannot be in a child graph.
            if graph.nodes.values().any(|node| matches!(node.kind, NodeKind::Conditional(_))) {
                return Err(CudaError::NOT_SUPPORTED);
            }
            match std::mem::replace(&mut graph.embedded, true) {
                false => Ok(NodeKind::Child(id)),
                true => Err(CudaError::INVALID_VALUE),
            }
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

pub fn cuGraphAddNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    params: Out<CUgraphNodeParams>,
) -> CUresult {
    cuGraphAddNode_v2(b, node, graph, dependencies, In::null(), count, params)
}

pub fn cuGraphAddNode_v2<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
    params: Out<CUgraphNodeParams>,
) -> CUresult {
    let mut given = params.as_in().get()?;
    let place = Place { graph, dependencies, data, count };
    place.add(b, node, || match given.kind {
        CONDITIONAL => conditional(b, graph, &mut given),
        _ => describe(b, Some(place), &mut given),
    })?;
    params.set(given)
}

/// What a node of that kind is given anew. CUDA_ERROR_NOT_SUPPORTED for what cannot be changed.
fn describe_change<B: Backend>(
    b: B,
    params: Out<CUgraphNodeParams>,
) -> Result<NodeKind, CudaError> {
    let mut given = params.as_in().get()?;
    match given.kind {
        GRAPH | MEM_ALLOC | MEM_FREE | CONDITIONAL => Err(CudaError::NOT_SUPPORTED),
        _ => describe(b, None, &mut given),
    }
}

/// The parameters of a node. What is given by pointers lies in the node.
fn show(kind: &mut NodeKind) -> CUgraphNodeParams {
    let mut body = CUgraphNodeBody { reserved1: [0; 29] };
    match kind {
        NodeKind::Kernel(node) => body.kernel = kernel::show(node),
        NodeKind::Copy(copy) => {
            let copyParams = CUDA_MEMCPY3D::from(&*copy);
            let copyCtx = CUcontext::NULL;
            body.memcpy = CUDA_MEMCPY_NODE_PARAMS { flags: 0, reserved: 0, copyCtx, copyParams };
        }
        NodeKind::Fill(fill) => body.memset = *fill,
        NodeKind::Host(host) => body.host = show_host(host),
        NodeKind::Child(child) => {
            let graph = graph_word(*child);
            body.graph = CUDA_CHILD_GRAPH_NODE_PARAMS { graph, ownership: OWNERSHIP_CLONE };
        }
        // A condition is no program's node.
        NodeKind::Empty | NodeKind::Condition(_) => {}
        NodeKind::WaitEvent(event) | NodeKind::RecordEvent(event) => body.event = *event,
        NodeKind::Alloc(alloc) => body.alloc = show_alloc(alloc),
        NodeKind::Free(pointer) => body.free = *pointer,
        NodeKind::MemOps(ops) => body.memOp = show_mem_ops(ops),
        NodeKind::Conditional(node) => body.conditional = show_conditional(node),
    }
    CUgraphNodeParams { kind: kind.number(), reserved0: [0; 3], body, reserved2: 0 }
}

pub fn cuGraphNodeGetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: Out<CUgraphNodeParams>,
) -> CUresult {
    params.required()?;
    params.set(get(b, node, |kind| Some(show(kind)))?)
}

pub fn cuGraphNodeSetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: Out<CUgraphNodeParams>,
) -> CUresult {
    set(b, node, describe_change(b, params)?)
}

pub fn cuGraphExecNodeSetParams<B: Backend>(
    b: B,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: Out<CUgraphNodeParams>,
) -> CUresult {
    set_in_exec(b, exec, node, describe_change(b, params)?)
}
