//! Nodes that copy and fill memory, and that write and wait for words.

use super::{Place, get, set, set_in_exec};
use crate::backend::Backend;
use crate::hooks::untrim;
use crate::node::{CopyNode, NodeKind};
use core::ffi::c_uint;
use cuda_api::pointer::{FromProgram, In, Out};
use cuda_api::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUcontext, CUgraph,
    CUgraphExec, CUgraphNode, CUresult, CUstreamBatchMemOpParams, CudaError,
};

/// Operations of one node: cuStreamBatchMemOp's limit.
const MEM_OPS_MAX: c_uint = 256;

pub(super) fn describe_copy<B: Backend>(
    b: B,
    params: &CUDA_MEMCPY3D,
) -> Result<NodeKind, CudaError> {
    let copy = CopyNode::from(params);
    untrim(b)?;
    b.check_copy(&copy)?;
    Ok(NodeKind::Copy(copy))
}

pub(super) fn describe_fill<B: Backend>(
    b: B,
    params: CUDA_MEMSET_NODE_PARAMS,
) -> Result<NodeKind, CudaError> {
    if !matches!(params.elementSize, 1 | 2 | 4) {
        return Err(CudaError::INVALID_VALUE);
    }
    if params.width == 0 || params.height == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    untrim(b)?;
    b.check_fill(&params)?;
    Ok(NodeKind::Fill(params))
}

pub(super) fn describe_mem_ops<B: Backend>(
    b: B,
    params: &CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> Result<NodeKind, CudaError> {
    if params.count == 0 || params.count > MEM_OPS_MAX || params.flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the program says that there are `count` operations.
    let array: Out<CUstreamBatchMemOpParams> = unsafe { params.paramArray.believe() };
    let ops = array.as_in().array(params.count as usize).iter().collect::<Result<Vec<_>, _>>()?;
    untrim(b)?;
    b.check_mem_ops(&ops)?;
    Ok(NodeKind::MemOps(ops))
}

pub fn cuGraphAddMemcpyNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    params: In<CUDA_MEMCPY3D>,
    _context: CUcontext,
) -> CUresult {
    Place::new(graph, dependencies, count).add(b, node, || describe_copy(b, &params.get()?))
}

pub fn cuGraphMemcpyNodeGetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: Out<CUDA_MEMCPY3D>,
) -> CUresult {
    params.set(get(b, node, |kind| match kind {
        NodeKind::Copy(copy) => Some(CUDA_MEMCPY3D::from(&*copy)),
        _ => None,
    })?)
}

pub fn cuGraphMemcpyNodeSetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: In<CUDA_MEMCPY3D>,
) -> CUresult {
    set(b, node, describe_copy(b, &params.get()?)?)
}

pub fn cuGraphExecMemcpyNodeSetParams<B: Backend>(
    b: B,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_MEMCPY3D>,
    _context: CUcontext,
) -> CUresult {
    set_in_exec(b, exec, node, describe_copy(b, &params.get()?)?)
}

pub fn cuGraphAddMemsetNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    params: In<CUDA_MEMSET_NODE_PARAMS>,
    _context: CUcontext,
) -> CUresult {
    Place::new(graph, dependencies, count).add(b, node, || describe_fill(b, params.get()?))
}

pub fn cuGraphMemsetNodeGetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: Out<CUDA_MEMSET_NODE_PARAMS>,
) -> CUresult {
    params.set(get(b, node, |kind| match kind {
        NodeKind::Fill(fill) => Some(*fill),
        _ => None,
    })?)
}

pub fn cuGraphMemsetNodeSetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: In<CUDA_MEMSET_NODE_PARAMS>,
) -> CUresult {
    set(b, node, describe_fill(b, params.get()?)?)
}

pub fn cuGraphExecMemsetNodeSetParams<B: Backend>(
    b: B,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_MEMSET_NODE_PARAMS>,
    _context: CUcontext,
) -> CUresult {
    set_in_exec(b, exec, node, describe_fill(b, params.get()?)?)
}

pub fn cuGraphAddBatchMemOpNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> CUresult {
    Place::new(graph, dependencies, count).add(b, node, || describe_mem_ops(b, &params.get()?))
}

/// The operations lie in the node, as CUDA's do.
pub(super) fn show_mem_ops(ops: &mut [CUstreamBatchMemOpParams]) -> CUDA_BATCH_MEM_OP_NODE_PARAMS {
    CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: CUcontext::NULL,
        count: ops.len() as c_uint,
        paramArray: ops.as_mut_ptr(),
        flags: 0,
    }
}

pub fn cuGraphBatchMemOpNodeGetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: Out<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> CUresult {
    params.set(get(b, node, |kind| match kind {
        NodeKind::MemOps(ops) => Some(show_mem_ops(ops)),
        _ => None,
    })?)
}

pub fn cuGraphBatchMemOpNodeSetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> CUresult {
    set(b, node, describe_mem_ops(b, &params.get()?)?)
}

pub fn cuGraphExecBatchMemOpNodeSetParams<B: Backend>(
    b: B,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_BATCH_MEM_OP_NODE_PARAMS>,
) -> CUresult {
    set_in_exec(b, exec, node, describe_mem_ops(b, &params.get()?)?)
}
