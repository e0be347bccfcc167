//! Nodes that allocate and free memory, and how much memory graphs have.

use super::{Place, get};
use crate::backend::Backend;
use crate::hooks::{allocate, check_allocation, trim};
use crate::node::{AllocNode, NodeKind};
use core::ffi::{c_uint, c_void};
use cuda_api::constants::{graph_memory, vmm};
use cuda_api::pointer::{In, Out};
use cuda_api::{
    CUDA_MEM_ALLOC_NODE_PARAMS, CUdevice, CUdeviceptr, CUgraph, CUgraphNode, CUmemPoolProps,
    CUresult, CudaError,
};
use std::sync::atomic::Ordering;

pub(super) fn describe_alloc<B: Backend>(
    b: B,
    place: Place,
    params: &mut CUDA_MEM_ALLOC_NODE_PARAMS,
) -> Result<NodeKind, CudaError> {
    let props = &params.poolProps;
    if props.allocType != vmm::ALLOCATION_PINNED || props.location.kind != vmm::LOCATION_DEVICE {
        return Err(CudaError::INVALID_VALUE);
    }
    if props.handleTypes != vmm::HANDLE_NONE {
        return Err(CudaError::NOT_SUPPORTED);
    }
    b.check_device(props.location.id)?;
    let (bytes, location) = (params.bytesize as u64, props.location);
    let allocation = match place.vacant(b, bytes, location)? {
        Some(allocation) => allocation,
        None => allocate(b, bytes)?,
    };
    params.dptr = CUdeviceptr(allocation.address);
    Ok(NodeKind::Alloc(AllocNode { allocation, location, bytes }))
}

pub fn cuGraphAddMemAllocNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    params: Out<CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> CUresult {
    let mut given = params.as_in().get()?;
    let place = Place::new(graph, dependencies, count);
    place.add(b, node, || describe_alloc(b, place, &mut given))?;
    params.set(given)
}

pub(super) fn show_alloc(node: &AllocNode) -> CUDA_MEM_ALLOC_NODE_PARAMS {
    CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps: CUmemPoolProps {
            allocType: vmm::ALLOCATION_PINNED,
            handleTypes: vmm::HANDLE_NONE,
            location: node.location,
            win32SecurityAttributes: core::ptr::null_mut(),
            maxSize: 0,
            usage: 0,
            reserved: [0; 54],
        },
        accessDescs: core::ptr::null(),
        accessDescCount: 0,
        bytesize: node.bytes as usize,
        dptr: CUdeviceptr(node.allocation.address),
    }
}

pub fn cuGraphMemAllocNodeGetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    params: Out<CUDA_MEM_ALLOC_NODE_PARAMS>,
) -> CUresult {
    params.set(get(b, node, |kind| match kind {
        NodeKind::Alloc(node) => Some(show_alloc(node)),
        _ => None,
    })?)
}

pub fn cuGraphAddMemFreeNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    pointer: CUdeviceptr,
) -> CUresult {
    let make = || check_allocation(b, pointer).map(|()| NodeKind::Free(pointer));
    Place::new(graph, dependencies, count).add(b, node, make)
}

pub fn cuGraphMemFreeNodeGetParams<B: Backend>(
    b: B,
    node: CUgraphNode,
    pointer: Out<CUdeviceptr>,
) -> CUresult {
    pointer.set(get(b, node, |kind| match kind {
        NodeKind::Free(pointer) => Some(*pointer),
        _ => None,
    })?)
}

/// Graphs keep no memory that none of them has; what launchable ones have and no launch uses goes.
pub fn cuDeviceGraphMemTrim<B: Backend>(b: B, device: CUdevice) -> CUresult {
    b.check_device(device)?;
    trim(b, device)
}

pub fn cuDeviceGetGraphMemAttribute<B: Backend>(
    b: B,
    device: CUdevice,
    attribute: c_uint,
    value: Out<c_void>,
) -> CUresult {
    b.check_device(device)?;
    let usage = b.graphs().usages.of(device);
    let from = match attribute {
        graph_memory::USED_CURRENT | graph_memory::RESERVED_CURRENT => &usage.current,
        graph_memory::USED_HIGH => &usage.high[0],
        graph_memory::RESERVED_HIGH => &usage.high[1],
        _ => return Err(CudaError::INVALID_VALUE),
    };
    value.cast::<u64>().set(from.load(Ordering::Relaxed))
}

/// The high-water marks can only be set back.
pub fn cuDeviceSetGraphMemAttribute<B: Backend>(
    b: B,
    device: CUdevice,
    attribute: c_uint,
    value: Out<c_void>,
) -> CUresult {
    b.check_device(device)?;
    let usage = b.graphs().usages.of(device);
    let mark = match attribute {
        graph_memory::USED_HIGH => &usage.high[0],
        graph_memory::RESERVED_HIGH => &usage.high[1],
        _ => return Err(CudaError::INVALID_VALUE),
    };
    if value.cast::<u64>().as_in().get()? != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    mark.store(usage.current.load(Ordering::Relaxed), Ordering::Relaxed);
    Ok(())
}
