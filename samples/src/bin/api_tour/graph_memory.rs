//! Memory that nodes of graphs allocate: what the device says of it, and what trimming gives back.

use std::ptr;

use cudarc::driver::sys::{self, CUDA_MEMSET_NODE_PARAMS, CUgraphMem_attribute as Attribute};
use samples::gpu::blank;

use crate::{
    Check,
    captures::{Exec, Graph},
    support::{Env, Outcome, call, equal, holds, refused, synchronize},
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("graph_memory.trimmed", trimmed),
    ("graph_memory.kept_by_the_program", kept_by_the_program),
    ("graph_memory.wrong", wrong),
];

const BYTES: usize = 4 << 20;

/// A graph that allocates, fills and, if wanted, frees memory; the memory's address.
fn graph(env: &Env, frees: bool) -> Outcome<(Graph, u64)> {
    let mut graph = ptr::null_mut();
    call!(cuGraphCreate(&mut graph, 0))?;
    let graph = Graph(graph);
    let mut made: sys::CUDA_MEM_ALLOC_NODE_PARAMS = blank();
    made.poolProps.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    made.poolProps.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    made.bytesize = BYTES;
    let [mut first, mut second, mut last] = [ptr::null_mut(); 3];
    call!(cuGraphAddMemAllocNode(&mut first, graph.0, ptr::null(), 0, &mut made))?;
    let fill = CUDA_MEMSET_NODE_PARAMS {
        dst: made.dptr,
        pitch: 0,
        value: 9,
        elementSize: 4,
        width: BYTES / 4,
        height: 1,
    };
    call!(cuGraphAddMemsetNode(&mut second, graph.0, &first, 1, &fill, env.context))?;
    if frees {
        call!(cuGraphAddMemFreeNode(&mut last, graph.0, &second, 1, made.dptr))?;
    }
    Ok((graph, made.dptr))
}

fn attribute(attribute: Attribute) -> Outcome<u64> {
    let mut bytes = 0u64;
    call!(cuDeviceGetGraphMemAttribute(0, attribute, (&raw mut bytes).cast()))?;
    Ok(bytes)
}

fn launch(exec: &Exec) -> Outcome {
    call!(cuGraphLaunch(exec.0, ptr::null_mut()))?;
    synchronize()
}

/// No graph has memory, and the highest is what there is.
fn begin() -> Outcome {
    call!(cuDeviceGraphMemTrim(0))?;
    let mut zero = 0u64;
    for mark in
        [Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH]
    {
        call!(cuDeviceSetGraphMemAttribute(0, mark, (&raw mut zero).cast()))?;
    }
    equal("reserved", attribute(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?, 0)
}

fn trimmed(env: &Env) -> Outcome {
    begin()?;
    let (graph, _) = graph(env, true)?;
    let exec = graph.instantiate()?;
    for _ in 0..2 {
        launch(&exec)?;
        let reserved = attribute(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?;
        holds("a launch reserves the memory", reserved >= BYTES as u64)?;
        call!(cuDeviceGraphMemTrim(0))?;
        let reserved = attribute(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?;
        equal("reserved after trimming", reserved, 0)?;
        equal("used", attribute(Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)?, 0)?;
    }
    let high = attribute(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)?;
    holds("the highest is remembered", high >= BYTES as u64)
}

fn kept_by_the_program(env: &Env) -> Outcome {
    begin()?;
    let (graph, address) = graph(env, false)?;
    let exec = graph.instantiate()?;
    for _ in 0..2 {
        launch(&exec)?;
        call!(cuDeviceGraphMemTrim(0))?;
        let reserved = attribute(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?;
        holds("what the program has stays", reserved >= BYTES as u64)?;
        let mut word = 0u32;
        let last = address + BYTES as u64 - 4;
        call!(cuMemcpyDtoH_v2((&raw mut word).cast(), last, 4))?;
        equal("its last word", word, 9)?;
        call!(cuMemFree_v2(address))?;
        call!(cuDeviceGraphMemTrim(0))?;
        let reserved = attribute(Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)?;
        equal("reserved once it is freed", reserved, 0)?;
    }
    Ok(())
}

fn wrong(_: &Env) -> Outcome {
    let mut value = 0u64;
    let current = Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT;
    refused!(
        cuDeviceSetGraphMemAttribute(0, current, (&raw mut value).cast()),
        CUDA_ERROR_INVALID_VALUE
    )?;
    refused!(cuDeviceGraphMemTrim(99), CUDA_ERROR_INVALID_DEVICE)
}
