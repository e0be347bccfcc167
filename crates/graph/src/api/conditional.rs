//! Conditional nodes and the conditions that they look at.

use crate::backend::Backend;
use crate::conditional::{
    Condition, ConditionalNode, Conditions, NumberedCondition, Rule, WORD_BYTES,
};
use crate::memory::Allocation;
use crate::node::NodeKind;
use core::ffi::c_uint;
use cuda_api::constants::graph_conditional::ASSIGN_DEFAULT;
use cuda_api::pointer::Out;
use cuda_api::{
    CUDA_CONDITIONAL_NODE_PARAMS, CUcontext, CUdeviceptr, CUgraph, CUgraphConditionalHandle,
    CUresult, CudaError,
};
use std::sync::Arc;

pub fn cuGraphConditionalHandleCreate<B: Backend>(
    b: B,
    handle: Out<CUgraphConditionalHandle>,
    graph: CUgraph,
    context: CUcontext,
    default: c_uint,
    flags: c_uint,
) -> CUresult {
    handle.required()?;
    b.check_context()?;
    b.graphs().lock().graph_id(graph)?;
    let default = match flags {
        0 => None,
        ASSIGN_DEFAULT => Some(default),
        _ => return Err(CudaError::INVALID_VALUE),
    };
    let device = b.device_of_context(context)?;
    if b.conditions()? == Conditions::Numbers {
        let mut tables = b.graphs().lock();
        let whole = tables.whole(tables.graph_id(graph)?);
        let conditions = &mut tables.graph_mut(whole)?.conditions;
        let number = conditions.iter().filter(|other| other.device() == device).count() as u64 + 1;
        conditions.push(Condition::Numbered(NumberedCondition { number, default, device }));
        return handle.set(number);
    }
    let (address, number) = b.allocate(context, WORD_BYTES)?;
    let free = move |address| b.free(address, number);
    // It is none of the memory that programs ask about.
    let memory = Allocation::new(address, WORD_BYTES, &Arc::default(), free);
    let mut tables = b.graphs().lock();
    let id = tables.graph_id(graph)?;
    tables.graph_mut(id)?.conditions.push(Condition::Word { memory, default, device });
    handle.set(address)
}

/// A node of a graph, with new graphs as its bodies, which are shown in the parameters.
pub(super) fn describe_conditional<B: Backend>(
    b: B,
    graph: CUgraph,
    params: &mut CUDA_CONDITIONAL_NODE_PARAMS,
) -> Result<NodeKind, CudaError> {
    let rule = Rule::new(params.kind, params.size)?;
    let here = b.device_of_context(params.ctx)?;
    let known = {
        let tables = b.graphs().lock();
        let found = tables.condition(tables.graph_id(graph)?, params.handle, here);
        found.map(|condition| (condition.memory().cloned(), condition.device()))
    };
    let (memory, device) = match known {
        Some(known) => known,
        None => {
            b.check_foreign_condition(CUdeviceptr(params.handle))?;
            (None, here)
        }
    };
    // A node that names a context runs there, and so do its condition and its bodies.
    if !params.ctx.is_null() && device != here {
        return Err(CudaError::INVALID_VALUE);
    }
    let mut tables = b.graphs().lock();
    let mut body = |_| {
        let id = tables.create_graph();
        tables.graph_mut(id).map(|graph| graph.embedded = true).map(|()| id)
    };
    let bodies = (0..params.size).map(&mut body).collect::<Result<Vec<_>, _>>()?;
    let node = ConditionalNode::new(rule, (params.handle, device), bodies, memory);
    params.phGraph_out = node.shown.as_ptr().cast_mut();
    Ok(NodeKind::Conditional(node))
}

/// The parameters as the program gave them, with the bodies.
pub(super) fn show_conditional(node: &ConditionalNode) -> CUDA_CONDITIONAL_NODE_PARAMS {
    CUDA_CONDITIONAL_NODE_PARAMS {
        handle: node.condition,
        kind: node.rule.number(),
        size: node.bodies.len() as c_uint,
        phGraph_out: node.shown.as_ptr().cast_mut(),
        ctx: CUcontext::NULL,
    }
}
