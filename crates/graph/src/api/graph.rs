//! Graphs as a whole: making, copying, looking at nodes and edges.

use super::{check_lossless, edge_data, give, give_part};
use crate::backend::Backend;
use crate::dot;
use crate::id::{Edge, NodeId, graph_word, node_word};
use crate::model::{Changed, Graph};
use core::ffi::{c_char, c_uint};
use cuda_api::pointer::{In, Out};
use cuda_api::{CUgraph, CUgraphEdgeData, CUgraphNode, CUresult, CudaError};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

pub fn cuGraphCreate<B: Backend>(b: B, graph: Out<CUgraph>, flags: c_uint) -> CUresult {
    graph.required()?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    graph.set(graph_word(b.graphs().lock().create_graph()))
}

pub fn cuGraphDestroy<B: Backend>(b: B, graph: CUgraph) -> CUresult {
    let mut tables = b.graphs().lock();
    let id = tables.graph_id(graph)?;
    if tables.graph(id)?.embedded {
        return Err(CudaError::INVALID_VALUE);
    }
    let removed = tables.remove_graph(id);
    drop(tables);
    removed.finish();
    Ok(())
}

pub fn cuGraphClone<B: Backend>(b: B, clone: Out<CUgraph>, original: CUgraph) -> CUresult {
    clone.required()?;
    let mut tables = b.graphs().lock();
    let original = tables.graph_id(original)?;
    clone.set(graph_word(tables.clone_graph(original, false)?))
}

pub fn cuGraphGetId<B: Backend>(b: B, graph: CUgraph, graph_id: Out<c_uint>) -> CUresult {
    graph_id.set(b.graphs().lock().graph_id(graph)?.0 as c_uint)
}

fn give_nodes<B: Backend>(
    b: B,
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
    pick: impl FnOnce(&Graph) -> Vec<NodeId>,
) -> CUresult {
    count.required()?;
    let tables = b.graphs().lock();
    let found = pick(tables.graph(tables.graph_id(graph)?)?);
    let words: Vec<_> = found.into_iter().map(node_word).collect();
    give(&words, nodes, count)
}

pub fn cuGraphGetNodes<B: Backend>(
    b: B,
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> CUresult {
    give_nodes(b, graph, nodes, count, |graph| graph.nodes.keys().copied().collect())
}

pub fn cuGraphGetRootNodes<B: Backend>(
    b: B,
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> CUresult {
    give_nodes(b, graph, nodes, count, |graph| graph.roots().collect())
}

pub fn cuGraphGetEdges<B: Backend>(
    b: B,
    graph: CUgraph,
    from: Out<CUgraphNode>,
    to: Out<CUgraphNode>,
    count: Out<usize>,
) -> CUresult {
    cuGraphGetEdges_v2(b, graph, from, to, Out::null(), count)
}

pub fn cuGraphGetEdges_v2<B: Backend>(
    b: B,
    graph: CUgraph,
    from: Out<CUgraphNode>,
    to: Out<CUgraphNode>,
    data: Out<CUgraphEdgeData>,
    count: Out<usize>,
) -> CUresult {
    count.required()?;
    if from.is_null() != to.is_null() || from.is_null() && !data.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let tables = b.graphs().lock();
    let edges: Vec<(NodeId, Edge)> = tables.graph(tables.graph_id(graph)?)?.edges().collect();
    let ends: Vec<_> = edges.iter().map(|(to, _)| node_word(*to)).collect();
    let begins: Vec<_> = edges.iter().map(|(_, edge)| node_word(edge.node)).collect();
    let all: Vec<_> = edges.iter().map(|(_, edge)| edge.data).collect();
    if !from.is_null() {
        check_lossless(!data.is_null(), all.iter())?;
        let room = count.as_in().get()?;
        give_part(&begins, from, room)?;
        give_part(&all, data, room)?;
    }
    give(&ends, to, count)
}

/// Calls `change` for each edge from a node to another one; all of them or none.
fn change_edges<B: Backend>(
    b: B,
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
    change: impl Fn(&mut Graph, NodeId, NodeId, CUgraphEdgeData) -> Result<Changed, CudaError>,
) -> CUresult {
    let mut tables = b.graphs().lock();
    let id = tables.graph_id(graph)?;
    let edge = |i| {
        let (from, to) = (from.array(count).at(i)?, to.array(count).at(i)?);
        let (from, to) = (tables.node_id(from)?.1, tables.node_id(to)?.1);
        Ok((from, to, edge_data(data, count, i)?))
    };
    let edges: Vec<_> = (0..count).map(edge).collect::<Result<_, CudaError>>()?;
    tables.graph_mut(id)?.change_edges(edges, change)
}

pub fn cuGraphAddDependencies<B: Backend>(
    b: B,
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    count: usize,
) -> CUresult {
    cuGraphAddDependencies_v2(b, graph, from, to, In::null(), count)
}

pub fn cuGraphAddDependencies_v2<B: Backend>(
    b: B,
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
) -> CUresult {
    change_edges(b, graph, from, to, data, count, Graph::add_edge)
}

pub fn cuGraphRemoveDependencies<B: Backend>(
    b: B,
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    count: usize,
) -> CUresult {
    cuGraphRemoveDependencies_v2(b, graph, from, to, In::null(), count)
}

pub fn cuGraphRemoveDependencies_v2<B: Backend>(
    b: B,
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    data: In<CUgraphEdgeData>,
    count: usize,
) -> CUresult {
    change_edges(b, graph, from, to, data, count, |graph, from, to, data| {
        // The edges say when memory is free.
        match graph.blocks.is_empty() {
            true => graph.remove_edge(from, to, data),
            false => Err(CudaError::NOT_SUPPORTED),
        }
    })
}

pub fn cuGraphDebugDotPrint<B: Backend>(
    b: B,
    graph: CUgraph,
    path: In<c_char>,
    flags: c_uint,
) -> CUresult {
    let path = OsStr::from_bytes(path.text()?.to_bytes()).to_owned();
    let text = {
        let tables = b.graphs().lock();
        let id = tables.graph_id(graph)?;
        dot::print(&tables.graphs, id, flags)
    };
    std::fs::write(path, text).map_err(|_| CudaError::OPERATING_SYSTEM)
}
