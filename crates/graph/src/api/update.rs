//! Graph update: a launchable graph takes over what another graph of the same form does.

use super::exec::{find, locked};
use crate::backend::Backend;
use crate::id::node_word;
use crate::node::{KernelNode, NodeKind};
use crate::plan::{Difference, Plan, Step};
use core::ffi::c_uint;
use cuda_api::constants::graph_update::*;
use cuda_api::constants::launch_attribute::{CLUSTER_DIMENSION, COOPERATIVE};
use cuda_api::pointer::Out;
use cuda_api::{
    CUgraph, CUgraphExec, CUgraphExecUpdateResultInfo, CUgraphNode, CUresult, CudaError,
};

/// The result of an update: CUgraphExecUpdateResult, and the new graph's node it failed at.
type Outcome = (c_uint, CUgraphNode);

fn different(difference: Difference, steps: &[Step]) -> Outcome {
    let node = |index: usize| steps.get(index).map_or(CUgraphNode::NULL, |s| node_word(s.node));
    match difference {
        Difference::Size => (TOPOLOGY_CHANGED, CUgraphNode::NULL),
        Difference::Edges(index) => (TOPOLOGY_CHANGED, node(index)),
        Difference::Kind(index) => (NODE_TYPE_CHANGED, node(index)),
    }
}

/// True if a step ties both graphs to the same memory, or to none.
fn same_memory(old: &NodeKind, new: &NodeKind) -> bool {
    match (old, new) {
        (NodeKind::Alloc(old), NodeKind::Alloc(new)) => {
            old.allocation.address == new.allocation.address
        }
        (NodeKind::Free(old), NodeKind::Free(new)) => old == new,
        (NodeKind::Conditional(old), NodeKind::Conditional(new)) => {
            (old.condition, old.rule) == (new.condition, new.rule)
        }
        _ => true,
    }
}

/// True if a kernel is launched in another mode: together as a whole, or in other clusters.
fn other_way(old: &NodeKind, new: &NodeKind) -> bool {
    let (NodeKind::Kernel(old), NodeKind::Kernel(new)) = (old, new) else { return false };
    let of = |node: &KernelNode, id| node.attribute(id).unwrap_or([0; 64]);
    [COOPERATIVE, CLUSTER_DIMENSION].into_iter().any(|id| of(old, id) != of(new, id))
}

fn update<B: Backend>(b: B, exec: CUgraphExec, graph: CUgraph) -> Result<Outcome, CudaError> {
    let exec = find(b, exec)?;
    let plan = {
        let tables = b.graphs().lock();
        Plan::of(&tables.graphs, tables.graph_id(graph)?)?
    };
    let mut exec = locked(&exec);
    let whole = 0..exec.plan.steps.len();
    if let Err(difference) = exec.plan.compare(&plan.steps, whole) {
        return Ok(different(difference, &plan.steps));
    }
    let pairs = exec.plan.steps.iter().zip(&plan.steps);
    for (old, new) in pairs {
        if !same_memory(&old.kind, &new.kind) {
            return Ok((PARAMETERS_CHANGED, node_word(new.node)));
        }
        if other_way(&old.kind, &new.kind) {
            return Ok((ATTRIBUTES_CHANGED, node_word(new.node)));
        }
    }
    exec.take_over(0, plan.steps);
    Ok(match exec.ready(b) {
        Ok(_) => (SUCCESS, CUgraphNode::NULL),
        Err(_) => (ERROR, CUgraphNode::NULL),
    })
}

fn result(outcome: Outcome) -> CUresult {
    match outcome.0 {
        SUCCESS => Ok(()),
        _ => Err(CudaError::GRAPH_EXEC_UPDATE_FAILURE),
    }
}

pub fn cuGraphExecUpdate<B: Backend>(
    b: B,
    exec: CUgraphExec,
    graph: CUgraph,
    error_node: Out<CUgraphNode>,
    update_result: Out<c_uint>,
) -> CUresult {
    let outcome = update(b, exec, graph)?;
    error_node.set_if_wanted(outcome.1);
    update_result.set_if_wanted(outcome.0);
    result(outcome)
}

pub fn cuGraphExecUpdate_v2<B: Backend>(
    b: B,
    exec: CUgraphExec,
    graph: CUgraph,
    info: Out<CUgraphExecUpdateResultInfo>,
) -> CUresult {
    info.required()?;
    let outcome = update(b, exec, graph)?;
    info.set(CUgraphExecUpdateResultInfo {
        result: outcome.0,
        errorNode: outcome.1,
        errorFromNode: CUgraphNode::NULL,
    })?;
    result(outcome)
}

/// Lets a child graph's steps do what another graph of the same form does.
pub fn cuGraphExecChildGraphNodeSetParams<B: Backend>(
    b: B,
    exec: CUgraphExec,
    node: CUgraphNode,
    child: CUgraph,
) -> CUresult {
    let exec = find(b, exec)?;
    let plan = {
        let tables = b.graphs().lock();
        Plan::of(&tables.graphs, tables.graph_id(child)?)?
    };
    let mut exec = locked(&exec);
    let found = exec.plan.children.iter().find(|(id, _)| node_word(*id) == node);
    let (_, steps) = found.cloned().ok_or(CudaError::INVALID_VALUE)?;
    let first = steps.start;
    exec.plan.compare(&plan.steps, steps).map_err(|_| CudaError::INVALID_VALUE)?;
    exec.take_over(first, plan.steps);
    Ok(())
}
