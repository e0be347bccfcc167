//! Nodes of any type: what they are, which nodes they wait for, which nodes wait for them.

use super::{Place, check_lossless, get, give, give_part};
use crate::backend::Backend;
use crate::id::{Edge, graph_word, node_word};
use crate::node::NodeKind;
use core::ffi::c_uint;
use cuda_api::pointer::{In, Out};
use cuda_api::{CUevent, CUgraph, CUgraphEdgeData, CUgraphNode, CUresult, CudaError};

pub fn cuGraphNodeGetType<B: Backend>(b: B, node: CUgraphNode, kind: Out<c_uint>) -> CUresult {
    kind.set(b.graphs().lock().node(node)?.kind.number())
}

fn give_edges(
    edges: &[Edge],
    nodes: Out<CUgraphNode>,
    data: Out<CUgraphEdgeData>,
    count: Out<usize>,
) -> CUresult {
    count.required()?;
    if nodes.is_null() && !data.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let (words, all): (Vec<_>, Vec<_>) =
        edges.iter().map(|edge| (node_word(edge.node), edge.data)).unzip();
    if !nodes.is_null() {
        check_lossless(!data.is_null(), all.iter())?;
        give_part(&all, data, count.as_in().get()?)?;
    }
    give(&words, nodes, count)
}

pub fn cuGraphNodeGetDependencies<B: Backend>(
    b: B,
    node: CUgraphNode,
    dependencies: Out<CUgraphNode>,
    count: Out<usize>,
) -> CUresult {
    cuGraphNodeGetDependencies_v2(b, node, dependencies, Out::null(), count)
}

pub fn cuGraphNodeGetDependencies_v2<B: Backend>(
    b: B,
    node: CUgraphNode,
    dependencies: Out<CUgraphNode>,
    data: Out<CUgraphEdgeData>,
    count: Out<usize>,
) -> CUresult {
    give_edges(b.graphs().lock().node(node)?.dependencies(), dependencies, data, count)
}

pub fn cuGraphNodeGetDependentNodes<B: Backend>(
    b: B,
    node: CUgraphNode,
    dependents: Out<CUgraphNode>,
    count: Out<usize>,
) -> CUresult {
    cuGraphNodeGetDependentNodes_v2(b, node, dependents, Out::null(), count)
}

pub fn cuGraphNodeGetDependentNodes_v2<B: Backend>(
    b: B,
    node: CUgraphNode,
    dependents: Out<CUgraphNode>,
    data: Out<CUgraphEdgeData>,
    count: Out<usize>,
) -> CUresult {
    let tables = b.graphs().lock();
    let (graph, id) = tables.node_id(node)?;
    let edges = tables.graph(graph)?.dependents(id);
    give_edges(&edges, dependents, data, count)
}

pub fn cuGraphDestroyNode<B: Backend>(b: B, node: CUgraphNode) -> CUresult {
    let mut tables = b.graphs().lock();
    let (graph, id) = tables.node_id(node)?;
    // A node's memory would have to go with it, and the program has its address; with any other
    // node go edges that say when memory is free.
    let has_memory = !tables.graph(graph)?.blocks.is_empty();
    if has_memory || tables.node(node)?.kind.is_memory() {
        return Err(CudaError::NOT_SUPPORTED);
    }
    let removed = tables.remove_node(graph, id)?;
    drop(tables);
    removed.finish();
    Ok(())
}

pub fn cuGraphNodeFindInClone<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    original: CUgraphNode,
    clone: CUgraph,
) -> CUresult {
    node.required()?;
    let tables = b.graphs().lock();
    let (_, original) = tables.node_id(original)?;
    let nodes = &tables.graph(tables.graph_id(clone)?)?.nodes;
    let found = nodes.iter().find(|(_, node)| node.original == Some(original));
    node.set(node_word(*found.ok_or(CudaError::INVALID_VALUE)?.0))
}

pub fn cuGraphNodeGetContainingGraph<B: Backend>(
    b: B,
    node: CUgraphNode,
    graph: Out<CUgraph>,
) -> CUresult {
    graph.set(graph_word(b.graphs().lock().node_id(node)?.0))
}

/// The number of a node within its graph.
pub fn cuGraphNodeGetLocalId<B: Backend>(
    b: B,
    node: CUgraphNode,
    node_id: Out<c_uint>,
) -> CUresult {
    let tables = b.graphs().lock();
    let (graph, id) = tables.node_id(node)?;
    let first = tables.graph(graph)?.nodes.keys().next().map_or(0, |first| first.0);
    node_id.set((id.0 - first) as c_uint)
}

pub fn cuGraphNodeGetToolsId<B: Backend>(
    b: B,
    node: CUgraphNode,
    tools_node_id: Out<u64>,
) -> CUresult {
    tools_node_id.set(b.graphs().lock().node_id(node)?.1.0)
}

pub fn cuGraphAddEmptyNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
) -> CUresult {
    Place::new(graph, dependencies, count).add(b, node, || Ok(NodeKind::Empty))
}

/// Of no event at all it is a wrong value, not a wrong handle.
fn check_event<B: Backend>(b: B, event: CUevent) -> CUresult {
    if event.is_null() { Err(CudaError::INVALID_VALUE) } else { b.check_event(event) }
}

pub fn cuGraphAddEventRecordNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    event: CUevent,
) -> CUresult {
    let make = || check_event(b, event).map(|()| NodeKind::RecordEvent(event));
    Place::new(graph, dependencies, count).add(b, node, make)
}

pub fn cuGraphAddEventWaitNode<B: Backend>(
    b: B,
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    count: usize,
    event: CUevent,
) -> CUresult {
    let make = || check_event(b, event).map(|()| NodeKind::WaitEvent(event));
    Place::new(graph, dependencies, count).add(b, node, make)
}

pub fn cuGraphEventRecordNodeGetEvent<B: Backend>(
    b: B,
    node: CUgraphNode,
    event: Out<CUevent>,
) -> CUresult {
    event.set(get(b, node, |kind| match kind {
        NodeKind::RecordEvent(event) => Some(*event),
        _ => None,
    })?)
}

pub fn cuGraphEventWaitNodeGetEvent<B: Backend>(
    b: B,
    node: CUgraphNode,
    event: Out<CUevent>,
) -> CUresult {
    event.set(get(b, node, |kind| match kind {
        NodeKind::WaitEvent(event) => Some(*event),
        _ => None,
    })?)
}

macro_rules! set_event {
    ($($set:ident, $set_in_exec:ident, $kind:ident;)*) => {$(
        pub fn $set<B: Backend>(b: B, node: CUgraphNode, event: CUevent) -> CUresult {
            b.check_event(event)?;
            super::set(b, node, NodeKind::$kind(event))
        }

        pub fn $set_in_exec<B: Backend>(
            b: B,
            exec: cuda_api::CUgraphExec,
            node: CUgraphNode,
            event: CUevent,
        ) -> CUresult {
            b.check_event(event)?;
            super::set_in_exec(b, exec, node, NodeKind::$kind(event))
        }
    )*};
}

set_event! {
    cuGraphEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, RecordEvent;
    cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, WaitEvent;
}
