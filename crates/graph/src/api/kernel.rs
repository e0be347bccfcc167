//! Kernel nodes.

use super::{Place, get, set, set_in_exec};
use crate::backend::Backend;
use crate::hooks::kernel_node;
use crate::node::{KernelNode, NodeKind};
use core::ffi::c_uint;
use cuda_api::constants::launch_attribute::*;
use cuda_api::pointer::{FromProgram, In, Out};
use cuda_api::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUcontext, CUfunction, CUgraph,
    CUgraphExec, CUgraphNode, CUkernel, CUlaunchAttribute, CUlaunchAttributeValue, CUlaunchConfig,
    CUresult, CUstream, CudaError,
};

/// The attributes that a node has; others are for streams, or for a launch by itself.
const ATTRIBUTES: [c_uint; 9] = [
    ACCESS_POLICY_WINDOW,
    COOPERATIVE,
    CLUSTER_DIMENSION,
    CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    PRIORITY,
    MEM_SYNC_DOMAIN_MAP,
    MEM_SYNC_DOMAIN,
    DEVICE_UPDATABLE_KERNEL_NODE,
    PREFERRED_SHARED_MEMORY_CARVEOUT,
];

/// What an attribute is that was never set: mostly zeros. Memory domains map to themselves, of
/// which there are two.
fn unset(attribute: c_uint) -> [u8; 64] {
    let mut value = [0; 64];
    if attribute == MEM_SYNC_DOMAIN_MAP {
        value[1] = 1;
    }
    value
}

/// Checks what a node is given. CUDA_ERROR_INVALID_VALUE for an attribute that a node does not
/// have, CUDA_ERROR_INVALID_CLUSTER_SIZE for clusters that the grid is not a multiple of.
fn check_attribute(node: &KernelNode, new: &CUlaunchAttribute) -> CUresult {
    if !ATTRIBUTES.contains(&new.id) {
        return Err(CudaError::INVALID_VALUE);
    }
    let mut words = new.value.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word));
    let mut whole = node.grid.iter().map(|blocks| match words.next() {
        None | Some(0) => true,
        Some(of_cluster) => blocks.is_multiple_of(of_cluster),
    });
    match new.id != CLUSTER_DIMENSION || whole.all(|whole| whole) {
        true => Ok(()),
        false => Err(CudaError::INVALID_CLUSTER_SIZE),
    }
}

/// The node that the program's parameters describe.
pub(super) fn describe<B: Backend>(
    b: B,
    params: &CUDA_KERNEL_NODE_PARAMS,
) -> Result<NodeKind, CudaError> {
    let CUDA_KERNEL_NODE_PARAMS { v1, kern, ctx } = params;
    let function = if v1.func.is_null() { CUfunction(kern.0) } else { v1.func };
    let config = CUlaunchConfig {
        gridDimX: v1.gridDimX,
        gridDimY: v1.gridDimY,
        gridDimZ: v1.gridDimZ,
        blockDimX: v1.blockDimX,
        blockDimY: v1.blockDimY,
        blockDimZ: v1.blockDimZ,
        sharedMemBytes: v1.sharedMemBytes,
        stream: CUstream::NULL,
        attrs: core::ptr::null_mut(),
        numAttrs: 0,
    };
    // SAFETY: the program gives a launch's parameters here, as to cuLaunchKernel.
    let (values, extra) = unsafe { (v1.kernelParams.believe(), v1.extra.believe()) };
    let mut node = kernel_node(b, function, &config, values, extra)?;
    if !kern.is_null() {
        node.kernel = *kern;
    }
    // A function belongs to a context already, and the one that is named beside it is ignored.
    if v1.func.is_null() {
        node.sms = b.sms_of_context(*ctx)?;
    }
    Ok(NodeKind::Kernel(node))
}

fn with_kernel(v1: CUDA_KERNEL_NODE_PARAMS_v1) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS { v1, kern: CUkernel::NULL, ctx: CUcontext::NULL }
}

/// The parameters as the program gave them. Their values lie in the node, as CUDA's do.
pub(super) fn show(node: &mut KernelNode) -> CUDA_KERNEL_NODE_PARAMS {
    let first = node.parameters.bytes.as_ptr() as usize;
    node.shown = node.parameters.offsets.iter().map(|offset| first + offset).collect();
    let v1 = CUDA_KERNEL_NODE_PARAMS_v1 {
        func: node.function,
        gridDimX: node.grid[0],
        gridDimY: node.grid[1],
        gridDimZ: node.grid[2],
        blockDimX: node.block[0],
        blockDimY: node.block[1],
        blockDimZ: node.block[2],
        sharedMemBytes: node.shared_bytes,
        kernelParams: node.shown.as_ptr().cast_mut().cast(),
        extra: core::ptr::null_mut(),
    };
    CUDA_KERNEL_NODE_PARAMS { v1, kern: node.kernel, ctx: CUcontext::NULL }
}

fn kernel(kind: &mut NodeKind) -> Option<&mut KernelNode> {
    match kind {
        NodeKind::Kernel(node) => Some(node),
        _ => None,
    }
}

pub fn cuGraphAddKernelNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> CUresult {
    let make = || describe(b, &with_kernel(params.get()?));
    Place::new(graph, dependencies, count).add(b, node, make)
}

pub fn cuGraphAddKernelNode_v2<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> CUresult {
    Place::new(graph, dependencies, count).add(b, node, || describe(b, &params.get()?))
}

pub fn cuGraphKernelNodeGetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: Out<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> CUresult {
    params.set(get(b, node, |k| kernel(k).map(show))?.v1)
}

pub fn cuGraphKernelNodeGetParams_v2<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: Out<CUDA_KERNEL_NODE_PARAMS>,
) -> CUresult {
    params.set(get(b, node, |k| kernel(k).map(show))?)
}

pub fn cuGraphKernelNodeSetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> CUresult {
    set(b, node, describe(b, &with_kernel(params.get()?))?)
}

pub fn cuGraphKernelNodeSetParams_v2<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> CUresult {
    set(b, node, describe(b, &params.get()?)?)
}

pub fn cuGraphExecKernelNodeSetParams<B: Backend>(
    b: B,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> CUresult {
    set_in_exec(b, exec, node, describe(b, &with_kernel(params.get()?))?)
}

pub fn cuGraphExecKernelNodeSetParams_v2<B: Backend>(
    b: B,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<CUDA_KERNEL_NODE_PARAMS>,
) -> CUresult {
    set_in_exec(b, exec, node, describe(b, &params.get()?)?)
}

pub fn cuGraphKernelNodeGetAttribute<B: Backend>(
    b: B,
    node: CUgraphNode,
    attribute: c_uint,
    value: Out<CUlaunchAttributeValue>,
) -> CUresult {
    if !ATTRIBUTES.contains(&attribute) {
        return Err(CudaError::INVALID_VALUE);
    }
    let set = get(b, node, |kind| kernel(kind).map(|node| node.attribute(attribute)))?;
    let bytes = set.unwrap_or_else(|| unset(attribute));
    let mut words = CUlaunchAttributeValue::default();
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    value.set(words)
}

pub fn cuGraphKernelNodeSetAttribute<B: Backend>(
    b: B,
    node: CUgraphNode,
    attribute: c_uint,
    value: In<CUlaunchAttributeValue>,
) -> CUresult {
    let mut new = CUlaunchAttribute { id: attribute, pad: [0; 4], value: [0; 64] };
    for (bytes, word) in new.value.as_chunks_mut().0.iter_mut().zip(value.get()?) {
        *bytes = word.to_ne_bytes();
    }
    get(b, node, |kind| {
        let node = kernel(kind)?;
        let checked = check_attribute(node, &new);
        if checked.is_ok() {
            node.attributes.retain(|a| a.id != attribute);
            node.attributes.push(new);
        }
        Some(checked)
    })?
}

pub fn cuGraphKernelNodeCopyAttributes<B: Backend>(
    b: B,
    destination: CUgraphNode,
    source: CUgraphNode,
) -> CUresult {
    let attributes = get(b, source, |kind| kernel(kind).map(|node| node.attributes.clone()))?;
    get(b, destination, |kind| kernel(kind).map(|node| node.attributes = attributes))
}
